// SPDX-License-Identifier: Apache-2.0
//! What is left of M-TCP's state while a flow is idle. Measurements are not stored: round trips and
//! rates are measured anew, and a share of a cell is assigned anew.

use holdfast_wire::SeqNum;

use super::{Mtcp, m_tcp, sh_tcp};
use crate::Payload;
use crate::flow::Flow;

/// Both halves of a split connection without anything in flight, saved or awaited; or a connection
/// that is not split.
pub(crate) struct IdleMtcp {
    is_handed_over: bool,
    sh: sh_tcp::Idle,
    m: m_tcp::Idle,
}

impl<P: Payload> Mtcp<P> {
    /// The state of a flow that is idle. `None`: the flow waits for something, or is compressed.
    pub(in crate::schemes) fn pack(&self, flow: &Flow<P>) -> Option<IdleMtcp> {
        let una: SeqNum = flow.fh.una;
        let is_idle = self.opening.is_none() && self.compression.is_none();
        let una_of_split = flow.has_own_sender.then_some(una);
        Some(IdleMtcp {
            is_handed_over: self.is_handed_over,
            sh: self.sh.pack(una_of_split).filter(|_| is_idle)?,
            m: self.m.pack(una)?,
        })
    }

    /// The state of a flow that was idle.
    pub(in crate::schemes) fn unpack(idle: &IdleMtcp, flow: &Flow<P>) -> Self {
        let una: SeqNum = flow.fh.una;
        Self {
            is_handed_over: idle.is_handed_over,
            sh: sh_tcp::ShTcp::unpack(&idle.sh, una),
            m: m_tcp::MTcp::unpack(&idle.m, una),
            ..Self::default()
        }
    }
}
