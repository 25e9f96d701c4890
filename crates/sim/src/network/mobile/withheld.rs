// SPDX-License-Identifier: Apache-2.0
//! Does for one flow what `bpf/withheld_egress.h` does for `wake`, with `holdfast_core`'s own rule. It sets
//! the ACK number and window of each segment of the MH, and the echo after an outage.

use holdfast_core::mobile_host::withheld::{
    AckAndWindow, FhClock, FhData, MhSegment, WithheldSegment,
};
use holdfast_core::mobile_host::{Download, HostFlow};
use holdfast_wire::{Duration, Flags, Instant, Segment, Timestamps};

/// One flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Withheld {
    rule: WithheldSegment,
    /// When the MH last sent data.
    upload_at: Option<Instant>,
    clock: FhClock,
    /// The newest TSval of the FH.
    fh_tsval: Option<u32>,
    /// The window scale that the MH's SYN offers.
    offered_scale: Option<u8>,
    /// The scale of the MH's windows, once both SYNs have passed.
    scale: Option<u8>,
    echo: Option<Echo>,
}

/// The FH's clock in renewed echoes.
#[derive(Clone, Copy, Debug)]
struct Echo {
    /// Echoes up to this value are from before the outage.
    stale: u32,
    value: u32,
    at: Instant,
    ticks_per_s: u64,
    until: Instant,
}

impl Echo {
    fn now(&self, now: Instant) -> u32 {
        let since = now.saturating_since(self.at).as_nanos();
        let ticks = since * u128::from(self.ticks_per_s) / 1_000_000_000;
        self.value.wrapping_add(ticks as u32)
    }
}

impl Withheld {
    /// The state from which the machine decides.
    pub(super) const fn download(&self) -> Download {
        self.rule.download(self.upload_at)
    }

    /// A segment of the FH has arrived; `flow` is the flow's state after it.
    pub(super) fn note_ingress(
        &mut self,
        segment: &Segment,
        flow: Option<&HostFlow>,
        now: Instant,
    ) {
        if segment.flags.has(Flags::SYN) {
            // RFC 7323, 2.2: both SYNs must have the option.
            self.scale = match segment.options.window_scale {
                Some(_) => self.offered_scale.or(Some(0)),
                None => Some(0),
            };
            return;
        }
        if let Some(timestamps) = segment.options.timestamps {
            self.clock.add_reading(timestamps.tsval, now);
            let is_newer = |known: u32| timestamps.tsval.wrapping_sub(known) as i32 > 0;
            if self.fh_tsval.is_none_or(is_newer) {
                self.fh_tsval = Some(timestamps.tsval);
            }
        }
        if segment.payload_len > 0 {
            let data = FhData {
                seq: segment.seq,
                len: segment.payload_len,
                segment_bytes: segment.payload_len,
                push: segment.flags.has(Flags::PSH),
            };
            let rtt = flow.and_then(|flow| flow.rtt);
            self.rule.handle_fh_data(&data, rtt, now);
        }
    }

    /// Sets ACK number, window and echo of a segment of the MH that leaves.
    pub(super) fn pass(&mut self, segment: &mut Segment, flow: Option<&HostFlow>, now: Instant) {
        if segment.flags.has(Flags::SYN) {
            self.offered_scale = segment.options.window_scale;
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        if segment.payload_len > 0 {
            self.upload_at = Some(now);
        }
        let is_ending = flow.is_some_and(|flow| flow.is_finished || flow.is_opaque);
        let own = MhSegment {
            own: AckAndWindow {
                ack: segment.ack,
                window: segment.window,
            },
            scale: self.scale,
            has_payload: segment.payload_len > 0,
            has_sack: segment.options.sack.iter().next().is_some(),
            is_ending: is_ending || segment.flags.has(Flags::FIN),
        };
        let leaves = self.rule.handle_mh_segment(&own, true, now);
        (segment.ack, segment.window) = (leaves.ack, leaves.window);
        if let (Some(timestamps), Some(echo)) = (&mut segment.options.timestamps, self.echo)
            && now < echo.until
            && echo.stale.wrapping_sub(timestamps.tsecr) as i32 >= 0
        {
            timestamps.tsecr = echo.now(now);
        }
    }

    /// A made ACK has the MH's own number: later segments have no lower number.
    pub(super) fn release(&mut self, flow: &HostFlow, now: Instant) {
        self.rule.release(flow.rcv_nxt, now);
    }

    /// As [`Self::release`]. For the time `lasts`, the FH's present clock replaces echoes from before
    /// the outage. Returns the made ACK's timestamps.
    pub(super) fn renew_echo(
        &mut self,
        flow: &HostFlow,
        lasts: Duration,
        now: Instant,
    ) -> Option<Timestamps> {
        self.release(flow, now);
        let own = flow.timestamps?;
        let newest = self.fh_tsval?;
        // The newest TSval may not have been echoed yet.
        let is_newer = newest.wrapping_sub(own.tsecr) as i32 > 0;
        let echo = Echo {
            stale: if is_newer { newest } else { own.tsecr },
            value: self.clock.echo(now),
            at: now,
            ticks_per_s: self.clock.ticks_per_s(),
            until: now + lasts,
        };
        self.echo = Some(echo);
        Some(Timestamps {
            tsecr: echo.value,
            ..own
        })
    }

    /// When [`pauses`](Self::pauses) is due.
    pub(super) fn poll_timeout(&self, flow: Option<&HostFlow>) -> Option<Instant> {
        self.rule.poll_timeout(flow?.srtt)
    }

    /// Whether the FH pauses, so that the withheld segment is to be acknowledged.
    pub(super) fn pauses(&mut self, flow: Option<&HostFlow>, now: Instant) -> bool {
        let srtt = flow.and_then(|flow| flow.srtt);
        self.rule.handle_timeout(srtt, now).is_some()
    }
}
