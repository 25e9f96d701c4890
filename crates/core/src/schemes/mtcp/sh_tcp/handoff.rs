// SPDX-License-Identifier: Apache-2.0
//! SH-TCP's state, sent to another SH and adopted from there.

use holdfast_wire::SeqNum;

use super::{Context, Mtcp, ShTcp, WindowState, save, window_of_mh};
use crate::flow::Flow;
use crate::split_state::SplitState;
use crate::{Actions, Payload};

impl ShTcp {
    /// The state that another SH needs, without the wireless half's congestion window.
    pub(in crate::schemes::mtcp) fn split_state(&self) -> SplitState {
        SplitState {
            acked: self.acked,
            is_shrunk: self.state != WindowState::NoShrink,
            was_shrunk: self.was_shrunk,
            uplink_open: self.uplink_open,
            cwnd: None,
            srtt: self.rtt.srtt(),
            wired_srtt: self.wired_rtt.srtt(),
        }
    }

    /// Adopts the state of the previous SH. `una`: the MH's ACK at the previous SH; `None` if segments
    /// have passed here before.
    pub(in crate::schemes::mtcp) fn adopt(&mut self, state: &SplitState, una: Option<SeqNum>) {
        if let Some(una) = una {
            self.acked = state.acked.min(una);
        }
        if state.is_shrunk {
            self.state = WindowState::Shrunk;
        }
        self.was_shrunk |= state.was_shrunk;
        self.uplink_open |= state.uplink_open;
        state.srtt.into_iter().for_each(|srtt| self.rtt.seed(srtt));
        let wired = state.wired_srtt.into_iter();
        wired.for_each(|srtt| self.wired_rtt.seed(srtt));
    }
}

/// The mobile is at another SH, and the cache here is discarded: closes the FH's window like
/// [`shrink`](super::shrink), for any sender.
pub(in crate::schemes::mtcp) fn close<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let una = flow.fh.una;
    super::shrink(mtcp, flow, cx);
    let sh = &mtcp.sh;
    let outstanding = flow.fh.max.after(una) && flow.cache.holds(una);
    if sh.state == WindowState::NoShrink && sh.acked != una && outstanding {
        super::shrink_at(mtcp, flow, una, cx);
    }
}

/// A byte may be saved: the wintimer runs again.
pub(in crate::schemes::mtcp) fn resume_saving<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &Context<'_, P>,
) {
    save(mtcp, flow, cx);
}

/// The gateway is stopped: the FH gets the MH's true ACK.
pub(in crate::schemes::mtcp) fn leave<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    actions: &mut Actions<P>,
) {
    let una = flow.fh.una;
    let owes = mtcp.sh.acked.before(una) || mtcp.sh.state != WindowState::NoShrink;
    if owes {
        let tsecr = flow.mh.timestamps.map_or(0, |mh| mh.tsecr);
        actions.extend(flow.made_ack(una, window_of_mh(flow, una), tsecr));
    }
}
