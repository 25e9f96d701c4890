// SPDX-License-Identifier: Apache-2.0
//! SH-TCP for today's senders ([`MtcpShrink::Late`]).
//!
//! A window of 0 over data in flight does not stop today's senders: the retransmission timer runs on,
//! and each expiry stores the congestion window, which is a segment by then. A new ACK is what starts
//! that. So the FH gets no ACKs in an outage, as with `hold`, until it has stored its congestion window
//! and retransmitted its first segment. Only then duplicate ACKs close the window, because an FH
//! with a closed window does not give up, however long the outage is.

use super::{Context, Mtcp, MtcpShrink, WindowState, send_open_ack};
use crate::Payload;
use crate::flow::Flow;
use holdfast_wire::Segment;

/// Retransmissions of the FH's first segment without an answer; the next one gets an answer.
const UNANSWERED_MAX: u32 = 3;

/// True if the FH has retransmitted its first segment often enough to get an ACK.
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

/// Link up: opens the window, by a new ACK if a byte was saved.
pub(super) fn wake<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    let una = flow.fh.una;
    let sh = &mut mtcp.sh;
    let shrunk = core::mem::take(&mut sh.state) == WindowState::Shrunk;
    sh.unanswered = 0;
    if shrunk || sh.acked.before(una) {
        send_open_ack(mtcp, flow, una, cx);
    }
}
