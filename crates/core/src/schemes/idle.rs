// SPDX-License-Identifier: Apache-2.0
//! What a scheme stores of an idle flow, packed.

use super::AnyScheme;
use super::mtcp::{IdleMtcp, Mtcp};
use super::mtcp_2007::Mtcp2007;
use super::mtcp_plus::{IdleMtcpPlus, MtcpPlus};
use crate::Payload;
use crate::flow::Flow;
use crate::settings::Scheme;

/// What is left of a scheme's state while its flow is idle.
pub(crate) enum IdleScheme {
    Hold,
    Auto,
    Observe,
    MtcpPlus(IdleMtcpPlus),
    Mtcp2007(IdleMtcpPlus),
    Mtcp(Box<IdleMtcp>),
    Snoop,
}

impl<P: Payload> AnyScheme<P> {
    /// The state of a flow that is idle. `None`: the scheme waits for something.
    pub(crate) fn pack(&self, flow: &Flow<P>) -> Option<IdleScheme> {
        Some(match self {
            Self::Hold(_) => IdleScheme::Hold,
            Self::Auto(snoop) => snoop.is_idle().then_some(IdleScheme::Auto)?,
            Self::Observe(_) => IdleScheme::Observe,
            Self::MtcpPlus(plus) => IdleScheme::MtcpPlus(plus.pack()?),
            Self::Mtcp2007(mtcp) => IdleScheme::Mtcp2007(mtcp.pack()?),
            Self::Mtcp(mtcp) => IdleScheme::Mtcp(Box::new(mtcp.pack(flow)?)),
            Self::Snoop(snoop) => snoop.is_idle().then_some(IdleScheme::Snoop)?,
        })
    }

    /// The state of a flow that was idle.
    pub(crate) fn unpack(idle: IdleScheme, flow: &Flow<P>) -> Self {
        match idle {
            IdleScheme::Hold => Self::new(Scheme::Hold),
            IdleScheme::Auto => Self::new(Scheme::Auto),
            IdleScheme::Observe => Self::new(Scheme::Observe),
            IdleScheme::MtcpPlus(idle) => Self::MtcpPlus(Box::new(MtcpPlus::unpack(idle))),
            IdleScheme::Mtcp2007(idle) => Self::Mtcp2007(Box::new(Mtcp2007::unpack(idle))),
            IdleScheme::Mtcp(idle) => Self::Mtcp(Box::new(Mtcp::unpack(&idle, flow))),
            IdleScheme::Snoop => Self::new(Scheme::Snoop),
        }
    }
}
