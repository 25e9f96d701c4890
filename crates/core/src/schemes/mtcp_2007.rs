// SPDX-License-Identifier: Apache-2.0
//! M-TCP's SH as the M-TCP+ paper has it (M. Omueti and Lj. Trajković, 2007, "M-TCP
//! algorithm: supervisor host"): what that paper compares itself with, and nothing more.
//! For the laboratory; K. Brown and S. Singh's own M-TCP (1997) has states and timers
//! that are not here.
//!
//! An ACK of the MH goes to the FH with its number reduced by one. On disconnection the
//! FH gets the ACK of that last byte with `rwnd` 0; it goes into persist state if the
//! byte was all that was outstanding. On reconnection it gets the true window.
//!
//! Their feedback comes "in anticipation of disconnections": with a warning
//! ([`LinkEvent::GoingDownSoon`](crate::LinkEvent)) the window closes then, and what is on
//! its way to the MH is still acknowledged, to the last byte. It opens again if no outage
//! follows.
//!
//! Where the paper is silent: an ACK of all that the FH has sent passes as it is, for no
//! later one would acknowledge its last byte; a probe is answered; what the link lost is
//! sent on from the cache, as with all schemes here. With a cache of 0 bytes nothing is.

use holdfast_wire::{Instant, Segment};

use super::mtcp_plus;
use crate::flow::Flow;
use crate::{Actions, Payload, Verdict};

pub(super) fn on_disconnected<P: Payload>(flow: &mut Flow<P>, actions: &mut Actions<P>) {
    if mtcp_plus::serves(flow) {
        flow.ahead.freeze();
        mtcp_plus::acknowledge_again(flow, actions);
    }
}

pub(super) fn on_kept<P: Payload>(
    flow: &mut Flow<P>,
    segment: &Segment,
    now: Instant,
    actions: &mut Actions<P>,
) {
    // A probe has a byte; what was on its way when the window closed has more, and an
    // answer to that would be a duplicate ACK.
    if !flow.ahead.frozen {
        mtcp_plus::on_kept(flow, now, actions);
    } else if segment.payload_len == 1 {
        mtcp_plus::acknowledge_again(flow, actions);
    }
}

pub(super) fn on_mh_segment<P: Payload>(
    flow: &mut Flow<P>,
    segment: &Segment,
    actions: &mut Actions<P>,
) -> Verdict {
    if !segment.is_empty() || !mtcp_plus::serves(flow) {
        return Verdict::Forward;
    }
    let tsecr = segment.options.timestamps.map_or(0, |ts| ts.tsecr);
    if flow.ahead.frozen {
        actions.extend(flow.made_ack(segment.ack, 0, tsecr));
        return Verdict::Suppress;
    }
    if flow.fh.max.at_or_before(segment.ack) {
        return Verdict::Forward;
    }
    match flow.made_ack(segment.ack - 1, segment.window, tsecr) {
        Some(reduced) => {
            actions.push(reduced);
            Verdict::Suppress
        }
        None => Verdict::Forward,
    }
}
