// SPDX-License-Identifier: Apache-2.0
//! The schemes: what each does at the points where they differ.
//!
//! Keeping segments, noticing outages and sending on afterwards is the same for all
//! ([`Flow`], [`Mobile`](crate::mobile::Mobile)). A scheme decides
//! what the FH hears meanwhile.
//!
//! - `hold`: nothing but what the MH says. It has no code here: every hook returns at
//!   once.
//! - [`mtcp_plus`]: ACKs of what is kept, with a window of 0, until the MH is back.
//! - [`mtcp_2007`]: the M-TCP that M-TCP+ is compared with.

use holdfast_wire::{Instant, Segment};

use crate::flow::Flow;
use crate::rtt::RttEstimator;
use crate::settings::Scheme;
use crate::{Actions, Payload, Verdict};

pub(crate) mod mtcp_2007;
pub(crate) mod mtcp_plus;

impl Scheme {
    /// The MH of `flow` cannot be reached any more.
    pub(crate) fn on_disconnected<P: Payload>(
        self,
        flow: &mut Flow<P>,
        rtt: &RttEstimator,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        match self {
            Self::Hold => {}
            Self::MtcpPlus => {
                let wait = rtt.least().unwrap_or_default();
                mtcp_plus::on_disconnected(flow, wait, now, actions);
            }
            Self::Mtcp2007 => mtcp_2007::on_disconnected(flow, actions),
        }
    }

    /// A segment of the FH was kept and not forwarded.
    pub(crate) fn on_kept<P: Payload>(
        self,
        flow: &mut Flow<P>,
        segment: &Segment,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        match self {
            Self::Hold => {}
            Self::MtcpPlus => mtcp_plus::on_kept(flow, now, actions),
            Self::Mtcp2007 => mtcp_2007::on_kept(flow, segment, now, actions),
        }
    }

    /// A segment of the FH that brings nothing new: a probe, or a retransmission of
    /// what it has an ACK for.
    pub(crate) fn on_nothing_new<P: Payload>(
        self,
        flow: &mut Flow<P>,
        segment: &Segment,
        actions: &mut Actions<P>,
    ) -> Verdict {
        match self {
            Self::Hold => Verdict::Forward,
            Self::MtcpPlus | Self::Mtcp2007 => mtcp_plus::on_nothing_new(flow, segment, actions),
        }
    }

    /// A segment of the MH, after its ACK was taken in.
    pub(crate) fn on_mh_segment<P: Payload>(
        self,
        flow: &mut Flow<P>,
        segment: &Segment,
        actions: &mut Actions<P>,
    ) -> Verdict {
        match self {
            Self::Hold => Verdict::Forward,
            Self::MtcpPlus => mtcp_plus::on_mh_segment(flow, segment, actions),
            Self::Mtcp2007 => mtcp_2007::on_mh_segment(flow, segment, actions),
        }
    }

    /// The MH is back; what is kept is about to be sent on.
    pub(crate) fn on_reconnected<P: Payload>(
        self,
        flow: &mut Flow<P>,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        match self {
            Self::Hold => {}
            Self::MtcpPlus | Self::Mtcp2007 => mtcp_plus::on_reconnected(flow, now, actions),
        }
    }

    /// The flow's own deadline of this scheme has come.
    pub(crate) fn on_timeout<P: Payload>(
        self,
        flow: &mut Flow<P>,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        match self {
            Self::Hold => {}
            Self::MtcpPlus | Self::Mtcp2007 => mtcp_plus::on_timeout(flow, now, actions),
        }
    }
}
