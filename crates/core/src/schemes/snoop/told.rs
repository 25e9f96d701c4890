// SPDX-License-Identifier: Apache-2.0
//! When the FH is told after all.
//!
//! A loss while the link's own queue is long is the FH's overload. Once a window the FH is
//! shown one that was not repaired yet: as soon as the MH has all before it, just so much of
//! the MH's report as makes a loss of it (three segments beyond). The FH repairs that hole
//! itself; an ACK of the gateway's retransmission would echo a timestamp from before the
//! FH's own, and the FH would take its window back (Eifel, RFC 3522). All other holes are
//! repaired as ever. Whoever hid
//! everything would fill the queue for ever; and whoever left all repairs to the FH would
//! lose what Snoop is for whenever the queue is long.
//!
//! A hole that stays hidden for most of the FH's retransmission timeout is shown too, with
//! all else, for a fast retransmit costs it less.

use core::time::Duration;

use holdfast_wire::{Instant, SeqNum};

use super::Snoop;
use crate::Payload;
use crate::flow::{Flow, Transmission};
use crate::rtt::RttEstimator;
use crate::schemes::Context;

/// Segments beyond a hole, or duplicate ACKs, that make a loss of it (RFC 5681, 3.2;
/// RFC 6675, `DupThresh`).
pub(super) const DUP_THRESH: u32 = 3;
/// SACK blocks beside timestamps at most (RFC 2018, 3).
const BLOCKS_MAX: usize = 3;
/// A queue shorter than this is never congestion.
pub(super) const QUEUE_MIN: Duration = Duration::from_millis(10);

/// Why the FH hears everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The link's queue is long: the FH hears of the hole at this number, in its turn.
    Congestion {
        /// Where the hole is.
        hole: SeqNum,
        /// The end of what is shown: holes before are the FH's to repair.
        shown: SeqNum,
        /// That is enough for the FH to take the hole for lost.
        heard: bool,
    },
    /// A hole was hidden for too long.
    Late,
}

impl Snoop {
    /// The MH has acknowledged everything before `una`.
    pub(super) fn forget_told(&mut self, una: SeqNum) {
        let holds = |(until, told): &(SeqNum, Told)| {
            let missed = match told {
                // Repaired before the FH could hear enough of it.
                Told::Congestion { hole, heard, .. } => una.after(*hole) && !heard,
                Told::Late => false,
            };
            until.after(una) && !missed
        };
        self.told = self.told.filter(holds);
    }

    /// The FH is to hear of the hole at `una`.
    pub(super) fn shows_hole(&self, una: SeqNum) -> bool {
        matches!(self.told, Some((_, Told::Congestion { hole, .. })) if hole == una)
    }

    /// A hole at `seq` is left to the FH, as long as the FH has not sent it again.
    pub(super) fn leaves_to_fh(&self, sent: &Transmission) -> bool {
        match self.told {
            Some((_, Told::Congestion { hole, shown, .. })) => {
                let told = sent.seq == hole || sent.seq.before(shown);
                told && hole.at_or_before(sent.seq) && sent.retransmissions == 0 && !sent.by_fh
            }
            _ => false,
        }
    }

    /// The end of what the FH is shown beyond a hole, as far as it is known.
    pub(super) fn shown_end(&self) -> Option<SeqNum> {
        match self.told {
            Some((_, Told::Congestion { shown, .. })) => Some(shown),
            _ => None,
        }
    }

    /// The FH hears everything.
    pub(super) fn shows_all(&self) -> bool {
        matches!(self.told, Some((_, Told::Late)))
    }
}

/// The FH is told of the first hole from now on, or of everything; until all that it has
/// sent is acknowledged it is not told again.
pub(super) fn tell<P: Payload>(flow: &mut Flow<P>, why: Told, cx: &mut Context<'_, P>) {
    flow.snoop.told = Some((flow.fh.max, why));
    match why {
        Told::Congestion { .. } => cx.counters.congested += 1,
        Told::Late => cx.counters.shown_late += 1,
    }
}

/// A packet that was sent once, at `hole`, is lost: the FH is told if it is its overload.
pub(super) fn judge_loss<P: Payload>(flow: &mut Flow<P>, hole: SeqNum, cx: &mut Context<'_, P>) {
    if flow.snoop.told.is_none() && is_congested(flow, cx) {
        let why = Told::Congestion {
            hole,
            shown: hole,
            heard: false,
        };
        tell(flow, why, cx);
        show_more(flow);
    }
}

/// Until it is enough, all is shown that the MH has reported next to the hole.
pub(super) fn show_more<P: Payload>(flow: &mut Flow<P>) {
    let una = flow.fh.una;
    let segment_len = flow.cache.segment_len_at(una).unwrap_or(1);
    let mut wanted = DUP_THRESH.saturating_mul(segment_len);
    let max = flow.fh.max;
    let Some((until, Told::Congestion { hole, shown, heard })) = &mut flow.snoop.told else {
        return;
    };
    if *heard || *hole != una {
        return;
    }
    for (left, right) in flow.sacked.iter().take(BLOCKS_MAX) {
        let len = right.distance_from(left).min(wanted);
        *shown = left + len;
        wanted -= len;
        if wanted == 0 {
            (*heard, *until) = (true, max);
            return;
        }
    }
}

/// What the wireless half's round trip has been at least of late: what is left of it
/// without the shortest ever is the queue that stands. An ACK of a hole that was filled lets
/// the FH send a burst; the queue that this makes comes and goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StandingRtt {
    begun: Option<Instant>,
    now: Option<Duration>,
    before: Option<Duration>,
}

impl StandingRtt {
    /// A round trip, with the time over which the least counts.
    pub(super) fn sample(&mut self, rtt: Duration, span: Duration, now: Instant) {
        let over = self
            .begun
            .is_none_or(|begun| now.saturating_since(begun) >= span);
        if over {
            (self.begun, self.before, self.now) = (Some(now), self.now, None);
        }
        self.now = Some(self.now.map_or(rtt, |least| least.min(rtt)));
    }

    /// The least of the last span and of what has passed of this one.
    fn get(&self) -> Option<Duration> {
        Some(self.now?.min(self.before?))
    }
}

/// The whole path's shortest round trip.
pub(super) fn path_rtt(snoop: &Snoop, rtt: &RttEstimator) -> Option<Duration> {
    let least = rtt.least()?;
    Some(least + snoop.fixed_half.least_rtt().unwrap_or(least))
}

/// The link's own queue is so long that a loss is the FH's overload: as long as the whole
/// path's shortest round trip takes, or the settings' part of it.
fn is_congested<P: Payload>(flow: &Flow<P>, cx: &Context<'_, P>) -> bool {
    let Some(least) = cx.rtt.least() else {
        return false;
    };
    let path = path_rtt(&flow.snoop, cx.rtt).unwrap_or(least);
    let queue_max = path
        .mul_f64(cx.settings.snoop.congested_rtts)
        .max(QUEUE_MIN);
    let is_over =
        |rtt: Option<Duration>, limit| rtt.is_some_and(|rtt| rtt.saturating_sub(least) > limit);
    // What a burst of a window's length makes is over after one round trip; twice that is
    // slow start that has overshot.
    is_over(flow.snoop.standing.get(), queue_max) || is_over(flow.snoop.rtt, path * 2)
}

/// A hole that the FH does not know of since `since` is about to run into its timeout.
pub(super) fn is_late<P: Payload>(flow: &Flow<P>, since: Instant, cx: &Context<'_, P>) -> bool {
    let rto = flow.snoop.fixed_half.rto(cx.rtt);
    cx.now.saturating_since(since) > rto.mul_f64(cx.settings.snoop.hide_rtos)
}
