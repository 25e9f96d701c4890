// SPDX-License-Identifier: Apache-2.0
//! What `bpf/held.h` does for `wake`, one flow's, around `holdfast_core`'s own rule: the ACK
//! number and window that each segment of the MH leaves with, and the echo after an outage.

use holdfast_core::mobile_host::HostFlow;
use holdfast_core::mobile_host::wake::{FhClock, FromFh, FromMh, Leaves, Reserve};
use holdfast_wire::{Duration, Flags, Instant, Segment, Timestamps};

/// After a flow was woken, echoes from before the outage are renewed for so long.
pub(super) const RENEWED_FOR: Duration = Duration::from_secs(10);
/// And from the outage's begin for so long.
pub(super) const OUTAGE_MAX: Duration = Duration::from_secs(3_600);

/// One flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Waking {
    reserve: Reserve,
    clock: FhClock,
    /// The newest TSval of the FH.
    fh_tsval: Option<u32>,
    /// What the MH's SYN offers.
    offered_scale: Option<u8>,
    /// The scale of the MH's windows, once both have said theirs.
    scale: Option<u8>,
    echo: Option<Echo>,
}

/// The FH's clock as echoes are to say it.
#[derive(Clone, Copy, Debug)]
struct Echo {
    /// Echoes up to this one are from before the outage.
    stale: u32,
    said: u32,
    at: Instant,
    ticks_per_s: u64,
    until: Instant,
}

impl Echo {
    fn now(&self, now: Instant) -> u32 {
        let since = now.saturating_since(self.at).as_nanos();
        let ticks = since * u128::from(self.ticks_per_s) / 1_000_000_000;
        self.said.wrapping_add(ticks as u32)
    }
}

impl Waking {
    /// A segment of the FH has come; `flow` is what is known of it by then.
    pub(super) fn note_ingress(
        &mut self,
        segment: &Segment,
        flow: Option<&HostFlow>,
        now: Instant,
    ) {
        if segment.flags.has(Flags::SYN) {
            // RFC 7323, 2.2: both have to have it.
            self.scale = match segment.options.window_scale {
                Some(_) => self.offered_scale.or(Some(0)),
                None => Some(0),
            };
            return;
        }
        if let Some(timestamps) = segment.options.timestamps {
            self.clock.note(timestamps.tsval, now);
            let is_newer = |known: u32| timestamps.tsval.wrapping_sub(known) as i32 > 0;
            if self.fh_tsval.is_none_or(is_newer) {
                self.fh_tsval = Some(timestamps.tsval);
            }
        }
        if segment.payload_len > 0 {
            let data = FromFh {
                seq: segment.seq,
                len: segment.payload_len,
                piece: segment.payload_len,
                push: segment.flags.has(Flags::PSH),
            };
            let rtt = flow.and_then(|flow| flow.rtt);
            self.reserve.note_fh(&data, rtt, now);
        }
    }

    /// A segment of the MH, as it leaves.
    pub(super) fn pass(&mut self, segment: &mut Segment, flow: Option<&HostFlow>, now: Instant) {
        if segment.flags.has(Flags::SYN) {
            self.offered_scale = segment.options.window_scale;
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let is_ending = flow.is_some_and(|flow| flow.is_finished || flow.is_opaque);
        let own = FromMh {
            own: Leaves {
                ack: segment.ack,
                window: segment.window,
            },
            scale: self.scale,
            has_payload: segment.payload_len > 0,
            has_sack: segment.options.sack.iter().next().is_some(),
            is_ending: is_ending || segment.flags.has(Flags::FIN),
        };
        let leaves = self.reserve.pass(&own, true, now);
        (segment.ack, segment.window) = (leaves.ack, leaves.window);
        if let (Some(timestamps), Some(echo)) = (&mut segment.options.timestamps, self.echo)
            && now < echo.until
            && echo.stale.wrapping_sub(timestamps.tsecr) as i32 >= 0
        {
            timestamps.tsecr = echo.now(now);
        }
    }

    /// Nothing below what the MH itself says is to leave any more: a made ACK says it.
    pub(super) fn let_go(&mut self, flow: &HostFlow, now: Instant) {
        self.reserve.let_go(flow.rcv_nxt, now);
    }

    /// The same, and for so long echoes from before the outage are as of now; gives the made
    /// ACK's clocks.
    pub(super) fn wake(
        &mut self,
        flow: &HostFlow,
        renewed_for: Duration,
        now: Instant,
    ) -> Option<Timestamps> {
        self.let_go(flow, now);
        let own = flow.timestamps?;
        let heard = self.fh_tsval?;
        // What came last may not have been echoed yet.
        let is_newer = heard.wrapping_sub(own.tsecr) as i32 > 0;
        let echo = Echo {
            stale: if is_newer { heard } else { own.tsecr },
            said: self.clock.echo(now),
            at: now,
            ticks_per_s: self.clock.ticks_per_s(),
            until: now + renewed_for,
        };
        self.echo = Some(echo);
        Some(Timestamps {
            tsecr: echo.said,
            ..own
        })
    }

    /// When [`pauses`](Self::pauses) is due.
    pub(super) fn poll_timeout(&self, flow: Option<&HostFlow>) -> Option<Instant> {
        self.reserve.poll_timeout(flow?.srtt)
    }

    /// Whether the FH pauses, so that what is held back is to be acknowledged.
    pub(super) fn pauses(&mut self, flow: Option<&HostFlow>, now: Instant) -> bool {
        let srtt = flow.and_then(|flow| flow.srtt);
        self.reserve.handle_timeout(srtt, now).is_some()
    }
}
