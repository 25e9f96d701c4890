// SPDX-License-Identifier: Apache-2.0
//! SH-TCP taken to another SH, and brought from there.

use holdfast_wire::SeqNum;

use super::{Context, Mtcp, ShTcp, Window, save, window_of_mh};
use crate::flow::Flow;
use crate::split_state::SplitState;
use crate::{Actions, Payload};

impl ShTcp {
    /// What another SH has to know; without the wireless half's congestion window.
    pub(in crate::schemes::mtcp) fn split_state(&self) -> SplitState {
        SplitState {
            told: self.told,
            is_shrunk: self.state != Window::NoShrink,
            was_shrunk: self.was_shrunk,
            uplink_open: self.uplink_open,
            cwnd: None,
            srtt: self.rtt.srtt(),
            wired_srtt: self.wired_rtt.srtt(),
        }
    }

    /// As the SH before has left it. `una`: the MH has acknowledged that to the SH before, and
    /// nothing has passed here; if something has, none.
    pub(in crate::schemes::mtcp) fn adopt(&mut self, state: &SplitState, una: Option<SeqNum>) {
        if let Some(una) = una {
            self.told = state.told.min(una);
        }
        if state.is_shrunk {
            self.state = Window::Shrunk;
        }
        self.was_shrunk |= state.was_shrunk;
        self.uplink_open |= state.uplink_open;
        state.srtt.into_iter().for_each(|srtt| self.rtt.seed(srtt));
        let wired = state.wired_srtt.into_iter();
        wired.for_each(|srtt| self.wired_rtt.seed(srtt));
    }
}

/// The mobile is at another SH, and what is kept here is discarded: the FH's window is closed, as
/// [`shrink`](super::shrink) does it, for whatever sender.
pub(in crate::schemes::mtcp) fn close<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let una = flow.fh.una;
    super::shrink(mtcp, flow, cx);
    let sh = &mtcp.sh;
    let outstanding = flow.fh.max.after(una) && flow.cache.holds(una);
    if sh.state == Window::NoShrink && sh.told != una && outstanding {
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

/// The gateway leaves: the FH is told all that the MH has said.
pub(in crate::schemes::mtcp) fn leave<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    actions: &mut Actions<P>,
) {
    let una = flow.fh.una;
    let owes = mtcp.sh.told.before(una) || mtcp.sh.state != Window::NoShrink;
    if owes {
        let tsecr = flow.mh.timestamps.map_or(0, |mh| mh.tsecr);
        actions.extend(flow.made_ack(una, window_of_mh(flow, una), tsecr));
    }
}
