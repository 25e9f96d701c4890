// SPDX-License-Identifier: Apache-2.0
//! What the MH sends, and how its sender is woken after an outage: by no more than what is true.
//!
//! - The FH's newest ACK. The radio may have lost those before it, and an ACK of something new ends
//!   a sender's back-off. ACKs at the ends of segments below it go ahead: the first that is new to
//!   the sender is of the segment that it has retransmitted, alone. One of others too would show
//!   the sender that nothing was lost (F-RTO, RFC 5682), while all the rest is.
//! - They echo the MH's clock as it was a round trip ago. Otherwise the sender takes the outage for
//!   a round trip, and what it has retransmitted for a false alarm (Eifel, RFC 3522).
//! - ICMP about the first byte that the FH lacks (RFC 6069), for a sender that has every ACK. A
//!   sender that lacks one ignores it.

use core::time::Duration;

use holdfast_wire::{Instant, SackBlocks, Segment, SeqNum, Timestamps};

use super::{Flow, Stage};
use crate::back_off::doublings;
use crate::mobile_host::withheld::{AckAndWindow, FhClock as Clock, SegmentBoundaries};
use crate::upload_watch::GAP_MAX;
use crate::{Action, Actions, Made, Payload, Unreachable};

/// An MH whose last data were older than this at link down has nothing in flight.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(60);
/// A sender is woken this often at most.
const TRIES_MAX: u8 = 3;
/// ACKs below the newest: as many as an outage may have lost.
const STEPS: u32 = 64;
/// All flows of an MH together get no more at one link up: senders woken, ACKs below the newest,
/// ICMP messages.
const FLOWS_WOKEN_MAX: u32 = 128;
const STEPS_ALL_MAX: u32 = 640;
const UNREACHABLES_MAX: u32 = 1024;

/// A link up, and what is left of its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkUp {
    outage: Duration,
    /// For an answer of the MH.
    wait: Duration,
    flows_left: u32,
    steps_left: u32,
    unreachables_left: u32,
}

impl LinkUp {
    /// After an outage; `wait`: for an answer of the MH.
    pub(crate) const fn new(outage: Duration, wait: Duration) -> Self {
        Self {
            outage,
            wait,
            flows_left: FLOWS_WOKEN_MAX,
            steps_left: STEPS_ALL_MAX,
            unreachables_left: UNREACHABLES_MAX,
        }
    }
}

/// What is known of the data that the MH sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uploads {
    /// When they came last.
    data_at: Instant,
    /// Where segments end.
    boundaries: SegmentBoundaries,
    /// The MH's.
    clock: Clock,
    /// The timestamp of an ACK of the FH, and when that passed.
    timed: Option<(u32, Instant)>,
    /// Until the MH sends something after an outage.
    wake_up: Option<WakeUp>,
}

/// The next try to wake a sender.
#[derive(Clone, Copy, Debug)]
struct WakeUp {
    at: Instant,
    wait: Duration,
    tries: u8,
}

impl Uploads {
    /// When the sender is woken again.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        Some(self.wake_up?.at)
    }

    /// The MH's clock as it was a round trip ago.
    pub(super) fn echo(&self, now: Instant) -> u32 {
        self.clock.echo(now)
    }
}

impl<P: Payload> Flow<P> {
    /// The MH has sent data of late, and has more to send or to retransmit.
    pub(crate) fn is_uploading(&self) -> bool {
        let is_done = self.mh.fin.is_some_and(|fin| fin.at_or_before(self.fh.ack));
        self.has_true_ack() && self.uploads.is_some() && !is_done
    }

    /// An ACK of more than the MH was seen to send may be a forged one: nothing is made of it.
    fn has_true_ack(&self) -> bool {
        self.stage == Stage::Open && self.fh.ack.at_or_before(self.mh.nxt)
    }

    /// An ACK of the FH passes: the MH's next data echo its timestamp.
    pub(crate) fn time_echo(&mut self, ack: &Segment, now: Instant) {
        if let (Some(uploads), Some(timestamps)) = (&mut self.uploads, ack.options.timestamps) {
            uploads.timed.get_or_insert((timestamps.tsval, now));
        }
    }

    /// A segment of the MH that fits. Returns a round trip of the wireless half, if it shows one.
    pub(crate) fn note_upload(
        &mut self,
        segment: &Segment,
        segment_len: u32,
        now: Instant,
    ) -> Option<Duration> {
        let has_data = segment.payload_len > 0;
        if has_data {
            let uploads = self.uploads.get_or_insert_default();
            uploads.data_at = now;
            if !segment.seq.before(uploads.boundaries.end) || uploads.boundaries.segment_bytes == 0
            {
                let len = segment.payload_len;
                uploads.boundaries.note(segment.seq, len, segment_len);
            }
        }
        let uploads = self.uploads.as_mut()?;
        if has_data || segment.seq == self.fh.ack {
            uploads.wake_up = None;
        }
        // Timestamps that do not fit may be forged.
        let own = segment.options.timestamps;
        let Timestamps { tsval, tsecr } = own.filter(|_| own == self.mh.timestamps)?;
        uploads.clock.note(tsval, now);
        let (sent, at) = uploads.timed?;
        let answers = (tsecr.wrapping_sub(sent) as i32) >= 0;
        let elapsed = now.saturating_since(at);
        // With an ACK of all it had sent, the MH had a pause.
        let has_paused = segment.seq == self.fh.ack && elapsed > GAP_MAX;
        uploads.timed.take_if(|_| answers)?;
        (!has_paused).then_some(elapsed)
    }

    /// What a silence has delayed measures nothing.
    pub(crate) fn forget_timed_upload(&mut self) {
        if let Some(uploads) = &mut self.uploads {
            uploads.timed = None;
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
        let has_true_ack = self.has_true_ack();
        self.forget_timed_upload();
        let uploads = self.uploads.as_ref().filter(|_| has_true_ack);
        let since_data = uploads.map(|uploads| now.saturating_since(uploads.data_at));
        let may_send = link_up.flows_left > 0 && self.downlink_header.is_some();
        let in_flight_max = link_up.outage + IN_FLIGHT_MAX;
        let Some(since_data) = since_data.filter(|since| may_send && *since < in_flight_max) else {
            actions.extend(ack_in_outage.map(Action::Repeat));
            return false;
        };
        // What is cached for the MH has the FH's newest ACK too.
        let waits = ack_in_outage.is_none() && self.has_backlog();
        link_up.flows_left -= 1;
        if !waits {
            let steps = self.acknowledge_upload(STEPS.min(link_up.steps_left), now, actions);
            link_up.steps_left = link_up.steps_left.saturating_sub(steps);
        }
        // It has just sent data, or has none that the FH lacks.
        let is_awake = is_answered && (since_data.is_zero() || self.mh.nxt == self.fh.ack);
        if !is_awake {
            let copies = if waits { 0 } else { doublings(link_up.outage) };
            let copies = copies.min(u8::try_from(link_up.unreachables_left).unwrap_or(u8::MAX));
            link_up.unreachables_left -= u32::from(copies);
            actions.extend(self.unreachable(copies));
            let wait = link_up.wait;
            let wake_up = WakeUp {
                at: now + wait,
                wait,
                tries: 1,
            };
            self.uploads.get_or_insert_default().wake_up = Some(wake_up);
        }
        !waits
    }

    /// Wakes the sender once more, if that is due. True if so.
    pub(crate) fn wake_sender_again(&mut self, now: Instant, actions: &mut Actions<P>) -> bool {
        let has_true_ack = self.has_true_ack();
        let Some(uploads) = &mut self.uploads else {
            return false;
        };
        let due = uploads.wake_up.take_if(|wake_up| wake_up.at <= now);
        let Some(WakeUp { wait, tries, .. }) = due.filter(|_| has_true_ack) else {
            return false;
        };
        let wait = wait * 2;
        uploads.wake_up = (tries < TRIES_MAX).then(|| WakeUp {
            at: now + wait,
            wait,
            tries: tries + 1,
        });
        actions.extend(self.upload_ack(self.fh.ack, now));
        actions.extend(self.unreachable(1));
        true
    }

    /// The sender is not woken any more: the link is down.
    pub(crate) fn leave_sender(&mut self) {
        if let Some(uploads) = &mut self.uploads {
            uploads.wake_up = None;
        }
    }

    /// The FH's newest ACK, and ahead of it those at the ends of segments below: `most`. Returns how
    /// many.
    fn acknowledge_upload(&mut self, most: u32, now: Instant, actions: &mut Actions<P>) -> u32 {
        let before = actions.len();
        let newest = AckAndWindow {
            ack: self.ack_for_mh(self.fh.ack),
            window: self.fh.window,
        };
        if let (Some(uploads), Some(scale)) = (&self.uploads, self.fh.window_scale) {
            for step in uploads.boundaries.steps(newest, scale, most) {
                actions.extend(self.upload_ack(step.ack, now));
            }
        }
        let steps = actions.len() - before;
        actions.extend(self.upload_ack(newest.ack, now));
        steps as u32
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
