// SPDX-License-Identifier: Apache-2.0
//! SH-TCP for today's senders ([`MtcpShrink::Late`]).
//!
//! A window of 0 over outstanding data stops no sender of today: its retransmission timer goes
//! on, and each expiry notes anew what its congestion window was, which is a segment by then.
//! An ACK of something new is what begins that. So an outage is silent for the FH, as with
//! `hold`, until it has noted its congestion window and repeated its first segment; only then
//! is the window closed, by duplicate ACKs, for an FH that is told of no window does not give up
//! however long it lasts.

use super::{Context, Mtcp, MtcpShrink, Window, tell_open};
use crate::Payload;
use crate::flow::Flow;
use holdfast_wire::Segment;

/// Copies of its first segment that the FH hears nothing of.
const UNANSWERED_MAX: u32 = 3;

/// The FH has repeated its first segment so often that it may be told.
pub(super) fn shrinks_late<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    is_new: bool,
    cx: &Context<'_, P>,
) -> bool {
    let late = cx.settings.mtcp.shrink == MtcpShrink::Late && mtcp.m.is_frozen();
    let sh = &mut mtcp.sh;
    if !late || is_new || segment.seq.after(flow.fh.una) {
        return false;
    }
    sh.unanswered = sh.unanswered.saturating_add(1);
    sh.unanswered > UNANSWERED_MAX
}

/// The MH is back: the window is open, by an ACK of something new if a byte was saved.
pub(super) fn wake<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    let una = flow.fh.una;
    let sh = &mut mtcp.sh;
    let shrunk = core::mem::take(&mut sh.state) == Window::Shrunk;
    sh.unanswered = 0;
    if shrunk || sh.told.before(una) {
        tell_open(mtcp, flow, una, cx);
    }
}
