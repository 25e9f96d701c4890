// SPDX-License-Identifier: Apache-2.0
//! Which losses an FH is shown on a link whose rate changes.
//!
//! A loss is hidden from an FH that would send less because of it, while the link's queue is short.
//! Reno halves its window after a loss, and Cubic takes 0.7 of it. BBR does neither: to hide a loss
//! from it gains nothing, and the repaired segment delays new data. So the first losses
//! are shown, and what the FH does then decides.

use core::time::Duration;

use holdfast_wire::SeqNum;

use super::Snoop;
use super::fh_report::{DUP_THRESH, path_rtt};
use crate::Payload;
use crate::flow::Flow;
use crate::schemes::Context;

/// An FH that has less than this part of its window in flight after a loss sends less: Cubic takes
/// 0.7 (RFC 9438, 4.6), BBR all.
const LESS_PERCENT: u64 = 85;
/// A window that grows again at once hides the reduction. So a reduction counts more than its
/// absence.
const LESS_STEP: i8 = 2;
const SCORE_MIN: i8 = -3;
const SCORE_MAX: i8 = 4;
/// If the MH lacks more segments than this, and this part of the window, a queue has overflowed.
const MANY_SEGMENTS: u32 = DUP_THRESH + 1;
const MANY_PART: u32 = 16;

/// What an FH does after a loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossResponse {
    /// What the FH did after the losses that it was shown; above 0: it sends less.
    score: i8,
    watch: Option<Watch>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    /// Bytes in flight when the hole showed.
    before: u32,
    /// Acknowledged up to here, the loss is recovered; then, the window after it was seen.
    until: SeqNum,
    /// The most bytes in flight after the loss; none: it is not recovered yet.
    after: Option<u32>,
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
    pub(super) fn on_shown<P: Payload>(&mut self, flow: &Flow<P>) {
        self.watch.get_or_insert(Watch {
            before: window(flow),
            until: flow.fh.max,
            after: None,
        });
    }

    /// The FH has sent data.
    pub(super) fn on_sent<P: Payload>(&mut self, flow: &Flow<P>) {
        let after = self.watch.as_mut().and_then(|watch| watch.after.as_mut());
        if let Some(after) = after {
            *after = (*after).max(window(flow));
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
                let step = if u64::from(after) < less {
                    LESS_STEP
                } else {
                    -1
                };
                self.score = (self.score + step).clamp(SCORE_MIN, SCORE_MAX);
                self.watch = None;
            }
        }
    }
}

/// Bytes that the FH has sent and has no ACK for.
fn window<P: Payload>(flow: &Flow<P>) -> u32 {
    flow.fh.max.distance_from(flow.fh.una)
}

/// A new hole is the FH's own loss, and it is shown: the queue is long, or has overflowed, or the FH
/// would not send less. `highest`: up to where the MH reports; `queue`: the queue's length.
pub(super) fn is_fhs_own<P: Payload>(
    snoop: &Snoop<P>,
    flow: &Flow<P>,
    (highest, queue): (SeqNum, Duration),
    cx: &Context<'_, P>,
) -> bool {
    let una = flow.fh.una;
    let segment_len = flow.cache.segment_len_at(una).unwrap_or(1);
    let reach = highest.distance_from(una);
    let missing = reach.saturating_sub(flow.sacked.bytes_before(highest));
    let overflowed =
        missing >= MANY_SEGMENTS.saturating_mul(segment_len) && missing >= window(flow) / MANY_PART;
    // A window of 0.7 of the path and this queue still fills the path.
    let long = path_rtt(snoop, cx.rtt).is_none_or(|path| queue >= path);
    let is_hidden = snoop.reports.hidden_since.is_some();
    overflowed || !is_hidden && (long || !snoop.response.sends_less())
}
