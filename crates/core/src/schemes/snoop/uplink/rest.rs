// SPDX-License-Identifier: Apache-2.0
//! A download: no data of the MH is in flight. Its packets change little here, and pass at little cost.

use holdfast_wire::{Segment, SeqNum};

use super::{Context, Payload, RttEstimator, Snoop, Uplink, reports_holes};

impl<P: Payload> Uplink<P> {
    /// The FH has all that the MH has sent, and its segment reports nothing. The segment changes nothing here but the
    /// time at which the FH sends.
    pub(super) fn is_idle(&self, segment: &Segment, una: SeqNum, mh_nxt: SeqNum) -> bool {
        let has_all = segment.ack == una && una == mh_nxt && self.acked == una;
        let waits = self.withheld_since.is_some() || self.trusted_from.is_some();
        let has_nothing = self.is_empty() && self.gaps.is_empty();
        let parts_are_idle = self.wired.is_idle() && self.undo.is_idle();
        let is_idle =
            has_all && segment.options.sack.is_empty() && has_nothing && !waits && parts_are_idle;
        // At rest no timer is checked, so none may run.
        let timers = [self.gaps_due_at, self.report_at, self.wired.deadline()];
        debug_assert!(!is_idle || timers == [None; 3], "a timer runs");
        is_idle
    }

    /// Notes data of the FH at rest. `wired`: the wired half's round trip.
    pub(super) fn note_at_rest(
        &mut self,
        segment: &Segment,
        wired: &RttEstimator,
        cx: &Context<'_, P>,
    ) {
        self.wired.note_window(segment);
        if reports_holes(&cx.settings.snoop) {
            self.wired.rtt = *wired;
            self.note_fh_sends(cx.now);
        }
    }
}

/// True for a segment of the MH without data while no data of the MH is in flight: it changes nothing here but a round
/// trip.
pub(in crate::schemes) fn passes_at_rest_to_fh<P: Payload>(
    snoop: &mut Snoop<P>,
    segment: &Segment,
    cx: &Context<'_, P>,
) -> bool {
    let passes = snoop.uplink.idle_una.is_some() && segment.is_empty();
    if passes {
        snoop.uplink.take_echo(segment, cx);
    }
    passes
}

/// True for data of the FH while no data of the MH is in flight: it changes nothing here but a round trip and the
/// window.
pub(in crate::schemes) fn passes_at_rest_to_mh<P: Payload>(
    snoop: &mut Snoop<P>,
    segment: &Segment,
    cx: &Context<'_, P>,
) -> bool {
    let has_all = snoop.uplink.idle_una == Some(segment.ack) && segment.options.sack.is_empty();
    let passes = has_all && !segment.is_empty();
    if passes {
        let wired = snoop.fixed_half.rtt();
        snoop.uplink.note_at_rest(segment, wired, cx);
    }
    passes
}
