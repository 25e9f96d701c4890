// SPDX-License-Identifier: Apache-2.0
//! What is stored of the half toward the FH while its flow is idle.

use holdfast_wire::SeqNum;

use super::ShTcp;

/// What has to be known of an idle flow.
pub(in crate::schemes::mtcp) struct Idle {
    acked_edge: Option<SeqNum>,
    mh_window: Option<u16>,
    reopens: u32,
    was_shrunk: bool,
    uplink_open: bool,
}

impl ShTcp {
    /// The state of a flow that is idle. `None`: the flow waits for something. `una`: what the MH
    /// of a split connection has acknowledged.
    pub(in crate::schemes::mtcp) fn pack(&self, una: Option<SeqNum>) -> Option<Idle> {
        let is_idle = una.is_none_or(|una| self.has_acked(una))
            && self.is_open()
            && self.deadline().is_none()
            && self.timed_segment.is_none()
            && !self.probe_is_unanswered
            && self.unanswered == 0;
        is_idle.then_some(Idle {
            acked_edge: self.acked_edge,
            mh_window: self.mh_window,
            reopens: self.reopens,
            was_shrunk: self.was_shrunk,
            uplink_open: self.uplink_open,
        })
    }

    /// The state of a flow that was idle: the FH has an ACK of everything up to `una`.
    pub(in crate::schemes::mtcp) fn unpack(idle: &Idle, una: SeqNum) -> Self {
        Self {
            acked: una,
            acked_edge: idle.acked_edge,
            mh_window: idle.mh_window,
            reopens: idle.reopens,
            was_shrunk: idle.was_shrunk,
            uplink_open: idle.uplink_open,
            ..Self::default()
        }
    }
}
