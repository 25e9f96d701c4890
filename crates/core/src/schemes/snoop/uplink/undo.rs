// SPDX-License-Identifier: Apache-2.0
//! `today`: a loss on the wireless half is no congestion, but an MH that sees a loss reduces its
//! window, and an unmodified MH cannot be notified of the reason. It undoes the reduction if the ACK
//! of the retransmission echoes a timestamp from before it (Eifel, RFC 3522; Linux), because then
//! the first transmission must have arrived.
//!
//! So the ACK that acknowledges a hole of the wireless half echoes the timestamp with which
//! the MH sent what showed the hole. Other ACKs pass as they came:
//!
//! - A hole that opened while the MH's own queue was long is its overload. With `auto` on a gateway each
//!   hole counts as overload, unless there is evidence for the radio or an outage ([`crate::upload_losses`]).
//! - The gateway sees no hole of what the wired half has lost. But the FH shows that it lacks something
//!   that has passed.
//! - After a timeout of the MH an undo would clear its list of lost segments, and the age of the echo
//!   would become its round trip.
//!
//! After any of these no hole of the same window is undone: an undo takes back the whole reduction.

use core::time::Duration;

use holdfast_wire::{Instant, Segment, SeqNum};

use super::{
    Context, Flow, GAPS_MAX, Gap, Payload, QUEUE_MIN, SILENCE_MAX, Snoop, SnoopSet, Uplink,
    WITHHOLD_MAX, is_bare, reports_holes,
};

/// Holes of the wireless half that were filled and that the FH has not acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    /// The end of each, and the MH's timestamp when the hole showed.
    filled: Vec<(SeqNum, u32)>,
    /// A reduction must stand: until the FH has all before this, nothing is undone.
    congested_to: Option<SeqNum>,
}

impl Undo {
    /// There is nothing to be undone, and nothing that must stand.
    pub(super) const fn is_idle(&self) -> bool {
        self.filled.is_empty() && self.congested_to.is_none()
    }

    /// All of `gap` has arrived. A gap from before `since` is not undone: the age of the echo would make the MH's
    /// RTO long.
    pub(super) fn note_filled(&mut self, gap: &Gap, since: Instant) {
        if let (Some(tsval), false, true) = (gap.tsval, gap.is_overload, gap.opened_at >= since) {
            if self.filled.len() >= GAPS_MAX {
                self.filled.remove(0);
            }
            self.filled.push((gap.end, tsval));
        }
    }

    /// A loss is congestion, or the MH had a timeout. Nothing is undone until the FH has all before `highest`.
    pub(super) fn note_congestion(&mut self, highest: SeqNum) {
        self.congested_to = Some(highest);
    }

    /// Removes the holes before `ack`. Returns the earliest of their timestamps.
    fn remove_below(&mut self, ack: SeqNum) -> Option<u32> {
        let mut earliest: Option<u32> = None;
        self.filled.retain(|(end, tsval)| {
            let acknowledged = end.at_or_before(ack);
            if acknowledged && earliest.is_none_or(|other| is_before(*tsval, other)) {
                earliest = Some(*tsval);
            }
            !acknowledged
        });
        earliest
    }
}

impl<P: Payload> Uplink<P> {
    /// The path's round trip, with the MH's queue.
    pub(super) fn path_rtt(&self) -> Duration {
        let wired = self.wired.rtt.srtt().unwrap_or_default();
        self.newest_rtt.map_or(SILENCE_MAX, |newest| newest + wired)
    }

    /// The longest time that an MH takes to fill a hole without a timeout, also if its retransmission is lost once.
    pub(super) fn repair_max(&self) -> Duration {
        3 * self.path_rtt() + WITHHOLD_MAX
    }

    /// The MH sends data from `seq` on. If it sent none for longer than a round trip, and begins with what the FH
    /// lacks first, it had a timeout.
    #[inline]
    pub(super) fn note_timeout(&mut self, seq: SeqNum, now: Instant) {
        if self.una == Some(seq)
            && let Some(highest) = self.passed.highest().filter(|highest| seq.before(*highest))
            && let Some(data_at) = self.data_at
            && now.saturating_since(data_at) > self.path_rtt() + WITHHOLD_MAX
        {
            self.undo.note_congestion(highest);
        }
    }

    /// A new gap is the MH's overload, or a loss of the radio.
    pub(super) fn judge_newest_gap(&mut self, cx: &mut Context<'_, P>) {
        let highest = self.passed.highest();
        let (Some(gap), Some(highest)) = (self.gaps.last_mut(), highest) else {
            return;
        };
        let is_congested = self.congested_until.is_some_and(|until| cx.now < until);
        let bytes = gap.end.distance_from(gap.seq);
        let losses = cx.upload_losses();
        let losses = losses.filter(|_| !reports_holes(&cx.settings.snoop));
        gap.is_overload = losses.map_or(is_congested, |losses| {
            losses.judge_own(bytes, is_congested, cx.now)
        });
        if gap.is_overload {
            self.undo.note_congestion(highest);
            cx.counters.congested_uplink += u64::from(self.trusted_from.is_none());
            self.trusted_from = Some(highest);
        }
    }

    /// The MH's queue takes longer than the wireless half's shortest round trip. `newest`: the newest round trip.
    pub(super) fn has_long_queue(&self, newest: Duration, cx: &Context<'_, P>) -> bool {
        if cx.settings.snoop.set != SnoopSet::Today {
            return false;
        }
        // A flow that began behind a queue has measured no round trip without it.
        let least = self.rtt.least().unwrap_or(newest);
        let least = least.min(cx.handshake_rtt().unwrap_or(least));
        newest.saturating_sub(least) > least.max(QUEUE_MIN)
    }

    /// The MH sends data. If its queue is long, more may be lost in it until the MH can have seen a loss.
    #[inline]
    pub(super) fn note_own_overload(&mut self, now: Instant) {
        if self.mh_queue_is_long {
            self.congested_until = Some(now + self.path_rtt());
        }
    }
}

/// RFC 7323's comparison of timestamps.
const fn is_before(tsval: u32, other: u32) -> bool {
    (tsval.wrapping_sub(other) as i32) < 0
}

/// Handles an ACK of the FH for the MH. True if a made ACK replaces it: with the same content, but an echo that
/// makes the MH undo its reduction after a loss.
pub(super) fn sends_undo<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) -> bool {
    let congested = snoop.uplink.undo.congested_to;
    if congested.is_some_and(|to| to.at_or_before(segment.ack)) {
        snoop.uplink.undo.congested_to = None;
    }
    let uplink = &mut snoop.uplink;
    let Some(earliest) = uplink.undo.remove_below(segment.ack) else {
        return false;
    };
    let later = segment
        .options
        .timestamps
        .is_some_and(|fh| is_before(earliest, fh.tsecr));
    let bare = is_bare(segment, flow.mh.nxt);
    if !later || !bare || congested.is_some() || uplink.wired.is_repairing() {
        return false;
    }
    let Some(made) = flow.made_echo(segment, earliest) else {
        return false;
    };
    cx.counters.undone_uplink += 1;
    cx.actions.push(made);
    true
}
