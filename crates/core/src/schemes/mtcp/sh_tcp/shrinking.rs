// SPDX-License-Identifier: Apache-2.0
//! When SH-TCP acknowledges the saved byte and closes the FH's window (NOSHRINK to SHRUNK).

use super::{Context, Mtcp, MtcpShrink, WindowState, rto, send_ack, send_open_ack};
use crate::Payload;
use crate::flow::Flow;
use holdfast_wire::SeqNum;

/// The MH is away or slow: the saved byte is acknowledged, and the window is closed, unless one of the
/// exceptions holds.
pub(in crate::schemes::mtcp) fn shrink<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let una = flow.fh.una;
    let sh = &mut mtcp.sh;
    sh.wintimer = None;
    sh.timed_segment = None;
    // Nothing is left to acknowledge: an ACK without anything new shrinks no window.
    if sh.state != WindowState::NoShrink || sh.acked == una {
        return;
    }
    // The saved byte completes everything, or only the FH has the next byte.
    if flow.fh.max.at_or_before(una) || !flow.cache.holds(una) {
        return send_open_ack(mtcp, flow, una, cx);
    }
    if cx.settings.mtcp.shrink == MtcpShrink::Published {
        shrink_at(mtcp, flow, una, cx);
    }
}

pub(super) fn shrink_at<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    ack: SeqNum,
    cx: &mut Context<'_, P>,
) {
    let sh = &mut mtcp.sh;
    sh.state = WindowState::Shrunk;
    sh.was_shrunk = true;
    cx.counters.shrinks += 1;
    send_ack(mtcp, flow, ack, 0, cx);
}

/// The wintimer has expired.
pub(super) fn on_wintimer<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let rto = rto(mtcp, cx);
    let sh = &mut mtcp.sh;
    sh.wintimer = None;
    if sh.state != WindowState::NoShrink || sh.acked == flow.fh.una {
        return;
    }
    let rest = sh.acked_at.map(|at| at + rto).filter(|at| *at > cx.now);
    let all = flow.fh.max.at_or_before(flow.fh.una);
    match rest {
        // The FH's own timer runs since then.
        Some(at) if !all => sh.wintimer = Some(at),
        _ => shrink(mtcp, flow, cx),
    }
}
