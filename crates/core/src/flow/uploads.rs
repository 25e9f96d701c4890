// SPDX-License-Identifier: Apache-2.0
//! Data that the MH sends, and how the MH's sender is woken after an outage. It is sent only what is true:
//!
//! - The FH's newest ACK. The radio may have lost the ACKs before it, and an ACK of something new ends
//!   a sender's back-off. ACKs at the segment boundaries below it are sent first. The first that is
//!   new to the sender then acknowledges only the segment that the sender has retransmitted. If it
//!   acknowledged more, the sender would believe that nothing was lost (F-RTO, RFC 5682), but the rest is.
//! - The ACKs echo the MH's clock as it was a round trip of both halves ago. With an older echo the
//!   sender takes the outage for a round trip, and its retransmission for a false alarm (Eifel, RFC 3522).
//!   With a newer echo BBR takes the path for a shorter one, and sends little for 10 s.
//! - ICMP messages about the first byte that the FH lacks (RFC 6069), for a sender that has every ACK.
//!   A sender that lacks an ACK ignores them.

use core::time::Duration;

use holdfast_wire::{Instant, SackBlocks, Segment, SeqNum, Timestamps};

use super::received_acks::ReceivedAcks;
use super::{Flow, Stage};
use crate::back_off::doublings;
use crate::mobile_host::withheld::{AckAndWindow, FhClock as Clock, SegmentBoundaries};
use crate::upload_watch::GAP_MAX;
use crate::{Action, Actions, Made, Payload, Unreachable};

/// An MH whose last data were older than this at link down has nothing in flight.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(60);
/// A sender is not woken again after a longer wait: that costs more than it gives.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The longest round trip of the wired half that is believed.
const WIRED_MAX: Duration = Duration::from_secs(10);
/// The most ACKs below the newest one that one flow is sent.
const LOWER_ACKS_MAX: u32 = 128;
/// The number of ACKs that an outage may have lost, if it is unknown which ACKs the MH has received.
const STEPS_UNKNOWN: u32 = 64;
/// Flows of an MH that are woken together, and what they share: ACKs below the newest, and ICMP messages.
const BATCH_FLOWS: u32 = 128;
const BATCH_STEPS: u32 = 1024;
const BATCH_UNREACHABLES: u32 = 1024;

/// The end of an outage, and what each flow of the MH is sent then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkUp {
    outage: Duration,
    /// The wait for an answer of the MH, and the time from one batch of flows to the next.
    wait: Duration,
    /// Flows that have been woken, or will be.
    flows: u32,
    /// For each flow: ACKs below the newest one, and ICMP messages.
    steps: u32,
    unreachables: u8,
}

impl LinkUp {
    /// After an outage. `wait`: for an answer of the MH; `flows`: those of the MH that may be woken.
    pub(crate) fn new(outage: Duration, wait: Duration, flows: usize) -> Self {
        let together = flows.clamp(1, BATCH_FLOWS as usize) as u32;
        let unreachables = (BATCH_UNREACHABLES / together).min(doublings(outage).into());
        Self {
            outage,
            wait,
            flows: 0,
            steps: (BATCH_STEPS / together).min(LOWER_ACKS_MAX),
            unreachables: unreachables as u8,
        }
    }

    /// Counts one more flow to be woken. Returns how long after link up it is woken.
    fn take_flow(&mut self) -> Duration {
        let batch = self.flows / BATCH_FLOWS;
        self.flows += 1;
        self.wait.saturating_mul(batch)
    }
}

/// What is known of the data that the MH sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uploads {
    /// When the last data of the MH came.
    data_at: Instant,
    /// Where segments of the MH end.
    boundaries: SegmentBoundaries,
    /// The MH's timestamp clock.
    clock: Clock,
    /// The timestamp of an ACK of the FH, and when that passed.
    timed: Option<(u32, Instant)>,
    received: ReceivedAcks,
    /// The wired half's round trip in ticks of the MH's clock: from passing data to the FH's ACK of them.
    wired_ticks: u32,
    /// The FH's newest ACK that has passed.
    newest_ack: Option<SeqNum>,
    /// The next try to wake the sender, until the MH sends something after an outage.
    wake_up: Option<WakeUp>,
}

/// The next try to wake a sender.
#[derive(Clone, Copy, Debug)]
struct WakeUp {
    at: Instant,
    /// The time from this try to the next one.
    wait: Duration,
    /// ACKs below the newest, and ICMP messages.
    steps: u32,
    unreachables: u8,
}

impl WakeUp {
    /// The next try after `wait`. None: the wait is too long.
    fn after(wait: Duration, now: Instant) -> Option<Self> {
        (wait <= WAIT_MAX).then(|| Self {
            at: now + wait,
            wait: wait * 2,
            steps: 0,
            unreachables: 1,
        })
    }
}

impl Uploads {
    /// When the sender is woken again.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        Some(self.wake_up?.at)
    }

    /// The sender has not been seen to send since the outage.
    pub(crate) const fn waits_for_sender(&self) -> bool {
        self.wake_up.is_some()
    }

    /// The number of segment boundaries below the FH's newest ACK for which the MH may lack the ACK. Second, the
    /// number of the lowest of them to acknowledge: up to the first for which the MH surely lacks the ACK. The
    /// sender retransmits the first segment for which it lacks the ACK.
    fn unknown_acks(&self, newest: SeqNum) -> (u32, u32) {
        let range = self.received.range();
        let range = range.filter(|(received, passed)| {
            received.at_or_before(newest) && passed.at_or_before(newest)
        });
        let segment_bytes = self.boundaries.segment_bytes.max(1);
        range.map_or((STEPS_UNKNOWN, STEPS_UNKNOWN), |(received, passed)| {
            let segments =
                |from: SeqNum, to: SeqNum| to.distance_from(from).div_ceil(segment_bytes);
            let below_newest = segments(received, newest).saturating_sub(1);
            (below_newest, segments(received, passed) + 1)
        })
    }

    /// The MH's clock as it was one round trip of both halves ago.
    pub(super) fn echo(&self, now: Instant) -> u32 {
        self.clock.echo(now).wrapping_sub(self.wired_ticks)
    }

    /// An ACK of the FH echoes the MH's clock.
    fn note_wired(&mut self, tsecr: u32, now: Instant) {
        let ticks = self.clock.echo(now).wrapping_sub(tsecr);
        if u64::from(ticks) < self.clock.ticks_per_s() * WIRED_MAX.as_secs() {
            self.wired_ticks = ticks;
        }
    }
}

impl<P: Payload> Flow<P> {
    /// The MH has sent data of late, and has more to send or to retransmit.
    pub(crate) fn is_uploading(&self) -> bool {
        let is_done = self.mh.fin.is_some_and(|fin| fin.at_or_before(self.fh.ack));
        self.has_true_ack() && self.uploads.is_some() && !is_done
    }

    /// The MH has sent data of late, and an ACK for it can be made.
    pub(crate) fn may_be_woken(&self) -> bool {
        self.has_true_ack() && self.uploads.is_some() && self.downlink_header.is_some()
    }

    /// An ACK of more than the MH was seen to send may be a forged one: nothing is made of it.
    fn has_true_ack(&self) -> bool {
        self.stage == Stage::Open && self.fh.ack.at_or_before(self.mh.nxt)
    }

    /// An ACK of the FH passes: the MH's next data echo its timestamp. `round_trip`: the shortest of the
    /// wireless half.
    pub(crate) fn time_echo(&mut self, ack: &Segment, round_trip: Option<Duration>, now: Instant) {
        let Some(uploads) = &mut self.uploads else {
            return;
        };
        let Some(timestamps) = ack.options.timestamps else {
            return;
        };
        if let Some(round_trip) = round_trip {
            let (received, tsval) = (&mut uploads.received, timestamps.tsval);
            received.on_ack(ack.ack, tsval, round_trip, now);
        }
        let is_new = uploads
            .newest_ack
            .is_some_and(|newest| ack.ack.after(newest));
        if is_new || uploads.newest_ack.is_none() {
            uploads.newest_ack = Some(ack.ack);
        }
        if uploads.timed.is_none() {
            uploads.timed = Some((timestamps.tsval, now));
            // An ACK of nothing new echoes a timestamp from before a hole.
            if is_new {
                uploads.note_wired(timestamps.tsecr, now);
            }
        }
    }

    /// A segment of the MH that fits. Returns a round trip of the wireless half, if it shows one.
    pub(crate) fn note_upload(
        &mut self,
        segment: &Segment,
        segment_len: u32,
        is_away: bool,
        now: Instant,
    ) -> Option<Duration> {
        let has_data = segment.payload_len > 0;
        if has_data {
            let uploads = self.uploads.get_or_insert_default();
            uploads.data_at = now;
            if !segment.seq.before(uploads.boundaries.end) || uploads.boundaries.segment_bytes == 0
            {
                let len = segment.payload_len;
                uploads.boundaries.add(segment.seq, len, segment_len);
            }
        }
        let uploads = self.uploads.as_mut()?;
        if has_data || segment.seq == self.fh.ack {
            uploads.wake_up = None;
        }
        // Timestamps that do not fit may be forged.
        let own = segment.options.timestamps;
        let Timestamps { tsval, tsecr } = own.filter(|_| own == self.mh.timestamps)?;
        // The first data after an outage show nothing of the ACKs that came in it.
        if has_data && !is_away {
            uploads.received.on_data(self.fh.ack, tsecr);
        }
        uploads.clock.add_reading(tsval, now);
        let (sent, at) = uploads.timed?;
        let answers = (tsecr.wrapping_sub(sent) as i32) >= 0;
        let elapsed = now.saturating_since(at);
        // The MH had an ACK of everything that it had sent, and paused.
        let has_paused = segment.seq == self.fh.ack && elapsed > GAP_MAX;
        uploads.timed.take_if(|_| answers)?;
        (!has_paused).then_some(elapsed)
    }

    /// A silence has delayed the answer that is being timed: it is no measurement.
    pub(crate) fn forget_timed_upload(&mut self) {
        if let Some(uploads) = &mut self.uploads {
            uploads.timed = None;
            uploads.received.forget_marks();
        }
    }

    /// The link is up again. `ack_in_outage`: the FH's newest ACK, if it came in the outage. `is_answered`: a
    /// segment of this flow shows that the link is up. True if an ACK was sent for the MH's sender.
    pub(crate) fn wake_sender(
        &mut self,
        ack_in_outage: Option<P>,
        is_answered: bool,
        link_up: &mut LinkUp,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> bool {
        let may_be_woken = self.may_be_woken();
        self.forget_timed_upload();
        let in_flight_max = link_up.outage + IN_FLIGHT_MAX;
        let uploads = self.uploads.as_mut().filter(|uploads| {
            let is_recent = now.saturating_since(uploads.data_at) < in_flight_max;
            may_be_woken && (is_recent || uploads.waits_for_sender())
        });
        let Some(uploads) = uploads else {
            actions.extend(ack_in_outage.map(Action::Repeat));
            return false;
        };
        // It has just sent data, or has none that the FH lacks.
        let is_awake = is_answered && (uploads.data_at == now || self.mh.nxt == self.fh.ack);
        let delay = if is_awake {
            Duration::ZERO
        } else {
            link_up.take_flow()
        };
        if !delay.is_zero() {
            uploads.wake_up = Some(WakeUp {
                at: now + delay,
                wait: link_up.wait,
                steps: link_up.steps,
                unreachables: link_up.unreachables,
            });
            return false;
        }
        uploads.wake_up = WakeUp::after(link_up.wait, now).filter(|_| !is_awake);
        // The cached segments for the MH have the FH's newest ACK too.
        let waits = ack_in_outage.is_none() && self.has_backlog();
        if waits {
            return false;
        }
        self.acknowledge_upload(link_up.steps, now, actions);
        if !is_awake {
            actions.extend(self.unreachable(link_up.unreachables));
        }
        true
    }

    /// Wakes the sender once more, if that is due. True if so.
    pub(crate) fn wake_sender_again(&mut self, now: Instant, actions: &mut Actions<P>) -> bool {
        let has_true_ack = self.has_true_ack();
        let Some(uploads) = &mut self.uploads else {
            return false;
        };
        let due = uploads.wake_up.take_if(|wake_up| wake_up.at <= now);
        let Some(due) = due.filter(|_| has_true_ack) else {
            return false;
        };
        uploads.wake_up = WakeUp::after(due.wait, now);
        self.acknowledge_upload(due.steps, now, actions);
        actions.extend(self.unreachable(due.unreachables));
        true
    }

    /// The link is down again. The sender is woken at link up.
    pub(crate) fn postpone_wake_up(&mut self, now: Instant) {
        let uploads = self.uploads.as_mut();
        if let Some(wake_up) = uploads.and_then(|uploads| uploads.wake_up.as_mut()) {
            wake_up.at = now + WAIT_MAX;
        }
    }

    /// Sends the FH's newest ACK, and before it at most `most` ACKs at the segment boundaries below.
    fn acknowledge_upload(&mut self, most: u32, now: Instant, actions: &mut Actions<P>) {
        let newest = AckAndWindow {
            ack: self.ack_for_mh(self.fh.ack),
            window: self.fh.window,
        };
        if let (Some(uploads), Some(scale)) = (&self.uploads, self.fh.window_scale) {
            let (unknown, lowest) = uploads.unknown_acks(newest.ack);
            let most = lowest.min(most);
            for lower in uploads.boundaries.acks_below(newest, scale, unknown, most) {
                actions.extend(self.upload_ack(lower.ack, now));
            }
        }
        actions.extend(self.upload_ack(newest.ack, now));
    }

    fn upload_ack(&mut self, ack: SeqNum, now: Instant) -> Option<Action<P>> {
        let ack = ack.min(self.ack_for_mh(ack));
        let echo = self.uploads.as_ref()?.echo(now);
        match self.made_ack_with_sack(ack, SackBlocks::default())? {
            Action::Send(made) => Some(Action::Send(Made {
                timestamps: made.timestamps.map(|own| Timestamps { tsecr: echo, ..own }),
                ..made
            })),
            other => Some(other),
        }
    }

    fn unreachable(&self, copies: u8) -> Option<Action<P>> {
        let template = self.downlink_header.clone().filter(|_| copies > 0)?;
        Some(Action::Notify(Unreachable {
            template,
            key: self.key,
            seq: self.ack_for_mh(self.fh.ack),
            copies,
        }))
    }
}
