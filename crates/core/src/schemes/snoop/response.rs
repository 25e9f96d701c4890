// SPDX-License-Identifier: Apache-2.0
//! Which losses an FH is shown on a link whose rate changes.
//!
//! A loss is hidden from an FH that would send less because of it, while the link's queue is short.
//! Reno halves its window after a loss, and Cubic takes 0.7 of it. BBR does neither, and to hide a
//! loss from it does harm: the ACK of the repaired segment looks like a burst of deliveries, and BBR
//! overloads the link. Losses are hidden at first. What the FH does after those that it is shown, by
//! the queue's length or later, decides.

use core::time::Duration;

use holdfast_wire::SeqNum;

use super::Snoop;
use super::fh_report::{DUP_THRESH, path_rtt};
use crate::Payload;
use crate::flow::Flow;
use crate::schemes::Context;

/// An FH that has less than this part of its window in flight after a loss sends less: Cubic takes
/// 0.7 (RFC 9438, 4.6). BBR takes all, and 0.8 where it has just probed for more.
const LESS_PERCENT: u64 = 80;
/// Most FHs send less, and Cubic needs seconds to regain a window that it has lost in its slow start.
const SCORE_INITIAL: i8 = 1;
const SCORE_MIN: i8 = -5;
const SCORE_MAX: i8 = 3;
/// If the MH lacks more segments than this, and this part of the window, a queue has overflowed.
const MANY_SEGMENTS: u32 = DUP_THRESH + 1;
const MANY_PART: u32 = 16;

/// What an FH does after a loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossResponse {
    /// What the FH did after the losses that it was shown; above 0: it sends less.
    score: i8,
    watch: Option<Watch>,
    /// Bytes in flight change within a round trip, so windows are compared by the most of a round.
    round: Round,
}

/// The most bytes in flight, by round trips.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// It ends when this is acknowledged; none: the first one has not begun.
    until: Option<SeqNum>,
    most: u32,
    /// That of the round before.
    before: u32,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    /// The queue was long, or has overflowed. Then BBR may also send less: its queue drains.
    by_queue: bool,
    /// The most bytes in flight when the hole showed.
    before: u32,
    /// Acknowledged up to here, the loss is recovered; then, the window after it was seen.
    until: SeqNum,
    /// The most bytes in flight after the loss; none: it is not recovered yet.
    after: Option<u32>,
}

impl Default for LossResponse {
    fn default() -> Self {
        Self {
            score: SCORE_INITIAL,
            watch: None,
            round: Round::default(),
        }
    }
}

impl LossResponse {
    /// The FH sends less after a loss.
    pub(super) const fn sends_less(&self) -> bool {
        self.score > 0
    }

    /// The FH was shown a hole. It is shown all that is lost until it has recovered.
    pub(super) fn is_shown(&self) -> bool {
        self.watch.is_some_and(|watch| watch.after.is_none())
    }

    /// The FH is shown a hole.
    pub(super) fn on_shown<P: Payload>(&mut self, flow: &Flow<P>, by_queue: bool) {
        self.watch.get_or_insert(Watch {
            by_queue,
            before: self.round.most.max(self.round.before),
            until: flow.fh.max,
            after: None,
        });
    }

    /// The FH has sent data.
    pub(super) fn on_sent<P: Payload>(&mut self, flow: &Flow<P>) {
        let (window, round) = (window(flow), &mut self.round);
        let una = flow.fh.una;
        if round.until.is_none_or(|until| until.at_or_before(una)) {
            *round = Round {
                until: Some(flow.fh.max),
                most: 0,
                before: round.most,
            };
        }
        round.most = round.most.max(window);
        let after = self.watch.as_mut().and_then(|watch| watch.after.as_mut());
        if let Some(after) = after {
            *after = (*after).max(window);
        }
    }

    /// The MH has acknowledged something.
    pub(super) fn on_acked<P: Payload>(&mut self, flow: &Flow<P>) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        if flow.fh.una.before(watch.until) {
            return;
        }
        match watch.after {
            None => {
                watch.after = Some(0);
                // Something that is sent after the recovery.
                watch.until = flow.fh.max + 1;
            }
            Some(after) => {
                let less = u64::from(watch.before) * LESS_PERCENT / 100;
                let step = match (watch.by_queue, u64::from(after) < less) {
                    (false, true) => 1,
                    (false, false) => -1,
                    (true, true) => 0,
                    (true, false) => -2,
                };
                self.score = (self.score + step).clamp(SCORE_MIN, SCORE_MAX);
                self.watch = None;
            }
        }
    }
}

/// Bytes that the FH has sent and the MH has not reported.
fn window<P: Payload>(flow: &Flow<P>) -> u32 {
    let sent = flow.fh.max.distance_from(flow.fh.una);
    sent.saturating_sub(flow.sacked.bytes_before(flow.fh.max))
}

/// Why a new hole is shown to the FH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The queue is long, or has overflowed.
    ByQueue,
    /// The FH would not send less.
    ByResponse,
}

/// Whether a new hole is shown to the FH, and why. `highest`: up to where the MH reports; `queue`:
/// the queue's length.
pub(super) fn shows<P: Payload>(
    snoop: &Snoop<P>,
    flow: &Flow<P>,
    (highest, queue): (SeqNum, Duration),
    cx: &Context<'_, P>,
) -> Option<Shown> {
    let una = flow.fh.una;
    let segment_len = flow.cache.segment_len_at(una).unwrap_or(1);
    let reach = highest.distance_from(una);
    let missing = reach.saturating_sub(flow.sacked.bytes_before(highest));
    let overflowed =
        missing >= MANY_SEGMENTS.saturating_mul(segment_len) && missing >= window(flow) / MANY_PART;
    // A window of 0.7 of the path and this queue still fills the path.
    let long = path_rtt(snoop, cx.rtt).is_none_or(|path| queue >= path);
    let is_hidden = snoop.reports.hidden_since.is_some();
    if overflowed || (long && !is_hidden) {
        Some(Shown::ByQueue)
    } else if is_hidden || snoop.response.sends_less() {
        None
    } else {
        Some(Shown::ByResponse)
    }
}
