// SPDX-License-Identifier: Apache-2.0
//! Handoff between supervisor hosts (sections 4.3 and 5.2): "M-TCP is notified and the send
//! window is shrunk on the TCP side; next, some of the state regarding the connection is
//! serialized at the old SH and passed to the new SH. At the new SH, the connection state is
//! unserialized, and the TCP send window is re-opened."
//!
//! [`crate::handoff`] decides what each SH does, and when. This module changes the two halves.

use super::{Context, Mtcp, MtcpHandoff, m_tcp, sh_tcp};
use crate::Payload;
use crate::flow::Flow;
use crate::schemes::mtcp_plus::serves;
use crate::split_state::SplitState;

/// The mobile is at another SH, which gets the state of the connection.
pub(crate) fn hand_over<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    if !flow.has_own_sender {
        return;
    }
    if cx.settings.mtcp.handoff == MtcpHandoff::Published {
        m_tcp::freeze(mtcp, flow, cx);
        sh_tcp::close(mtcp, flow, cx);
    }
    mtcp.is_handed_over = true;
}

/// The previous SH has sent the state of a connection that is split: it is split here too.
/// `has_passed`: segments of the MH have passed here to the FH before.
pub(crate) fn adopt<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    state: &SplitState,
    has_passed: bool,
    cx: &Context<'_, P>,
) {
    if flow.has_own_sender {
        // The previous SH may have closed the FH's window: it must be opened.
        mtcp.sh.adopt(state, None);
        return;
    }
    if !serves(flow) {
        return;
    }
    flow.begin_own_sender();
    mtcp.sh.begin(flow.fh.una);
    let una = flow.fh.una;
    mtcp.sh.adopt(state, (!has_passed).then_some(una));
    mtcp.m.begin(flow.sent_nxt);
    m_tcp::open(mtcp, cx);
    if mtcp.m.cwnd.is_some() {
        mtcp.m.cwnd = state.cwnd.or(mtcp.m.cwnd);
    }
    sh_tcp::resume_saving(mtcp, flow, cx);
}
