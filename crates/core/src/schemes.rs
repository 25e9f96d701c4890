// SPDX-License-Identifier: Apache-2.0
//! The schemes: what each does at the points where they differ.
//!
//! Keeping segments, noticing outages and sending on afterwards is the same for all
//! ([`Flow`], [`Mobile`]). A scheme decides
//! what the FH hears meanwhile.
//!
//! - `hold`: nothing but what the MH says. It has no code here: every hook returns at
//!   once.
//! - [`mtcp_plus`]: ACKs of what is kept, with a window of 0, until the MH is back.
//! - [`mtcp_2007`]: the M-TCP that M-TCP+ is compared with.
//! - [`mtcp`]: the connection split in two, as published in 1997.
//! - [`snoop`]: what the wireless half loses without an outage is retransmitted by the
//!   gateway, and the FH does not hear of it.

use holdfast_wire::{Instant, SackBlocks, Segment};

use crate::cache::Insertion;
use crate::flow::{AckOutcome, Flow};
use crate::gateway::Counters;
use crate::mobile::{InFlight, Mobile};
use crate::rtt::RttEstimator;
use crate::settings::{Scheme, Settings};
use crate::{Actions, Payload, Verdict};

pub(crate) mod mtcp;
pub(crate) mod mtcp_2007;
pub(crate) mod mtcp_plus;
pub(crate) mod snoop;

use snoop::{SnoopSet, radio};

/// What a hook may look at, and where it puts what it wants done.
pub(crate) struct Context<'a, P: Payload> {
    pub settings: &'a Settings,
    /// The wireless half's round trip, all flows of the MH together.
    pub rtt: &'a RttEstimator,
    /// What is on its way to the MH, all flows together.
    pub in_flight: InFlight,
    /// A flow of the MH has found of late that the radio loses packets.
    pub radio_loses: bool,
    pub now: Instant,
    pub counters: &'a mut Counters,
    pub actions: &'a mut Actions<P>,
}

impl<'a, P: Payload> Context<'a, P> {
    pub(crate) fn new(
        settings: &'a Settings,
        mobile: &'a Mobile,
        now: Instant,
        counters: &'a mut Counters,
        actions: &'a mut Actions<P>,
    ) -> Self {
        Self {
            settings,
            rtt: &mobile.rtt,
            in_flight: mobile.in_flight,
            radio_loses: radio::is_known(mobile.radio_lost_at, now),
            now,
            counters,
            actions,
        }
    }
}

impl Scheme {
    /// Whether outages are noticed and what they hold up is kept back. Snoop as published
    /// knows of none: it forwards whatever comes.
    pub(crate) fn survives_outages(settings: &Settings) -> bool {
        settings.scheme != Self::Snoop || settings.snoop.set == SnoopSet::Today
    }

    /// A flow was met, in both directions.
    pub(crate) fn on_met<P: Payload>(self, flow: &mut Flow<P>, cx: &Context<'_, P>) {
        if self == Self::Mtcp {
            mtcp::on_met(flow, cx);
        }
    }

    /// The MH of `flow` will not be reached for long, somebody says.
    pub(crate) fn on_going_down_soon<P: Payload>(
        self,
        flow: &mut Flow<P>,
        cx: &mut Context<'_, P>,
    ) {
        if self == Self::Mtcp2007 {
            mtcp_2007::on_disconnected(flow, cx.actions);
        }
    }

    /// The MH of `flow` cannot be reached any more.
    pub(crate) fn on_disconnected<P: Payload>(self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        match self {
            Self::Mtcp if flow.is_split() => mtcp::on_disconnected(flow, cx),
            Self::Hold | Self::Snoop | Self::Mtcp => {}
            Self::MtcpPlus => {
                let wait = cx.rtt.least().unwrap_or_default();
                mtcp_plus::on_disconnected(flow, wait, cx.now, cx.actions);
            }
            Self::Mtcp2007 => mtcp_2007::on_disconnected(flow, cx.actions),
        }
    }

    /// Bytes that the cache may take of a segment, as far as the scheme is concerned.
    pub(crate) fn cache_room<P: Payload>(
        self,
        flow: &Flow<P>,
        segment: &Segment,
        settings: &Settings,
    ) -> usize {
        match self {
            Self::Hold | Self::Mtcp | Self::MtcpPlus | Self::Mtcp2007 => usize::MAX,
            Self::Snoop => snoop::cache_room(flow, segment, &settings.snoop),
        }
    }

    /// Data of the FH that the MH may lack is about to be forwarded.
    pub(crate) fn on_data<P: Payload>(
        self,
        flow: &mut Flow<P>,
        segment: &Segment,
        kept: Insertion,
        cx: &mut Context<'_, P>,
    ) {
        match self {
            Self::Hold | Self::Mtcp | Self::MtcpPlus | Self::Mtcp2007 => {}
            Self::Snoop => snoop::on_data(flow, segment, kept, cx),
        }
    }

    /// A segment of the FH was kept and not forwarded.
    pub(crate) fn on_kept<P: Payload>(
        self,
        flow: &mut Flow<P>,
        segment: &Segment,
        cx: &mut Context<'_, P>,
    ) {
        match self {
            Self::Hold | Self::Mtcp | Self::Snoop => {}
            Self::MtcpPlus => mtcp_plus::on_kept(flow, cx.now, cx.actions),
            Self::Mtcp2007 => mtcp_2007::on_kept(flow, segment, cx.now, cx.actions),
        }
    }

    /// A segment of the FH that brings nothing new: a probe, or a retransmission of
    /// what it has an ACK for.
    pub(crate) fn on_nothing_new<P: Payload>(
        self,
        flow: &mut Flow<P>,
        segment: &Segment,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        match self {
            Self::Mtcp if flow.is_split() => mtcp::on_nothing_new(flow, segment, cx),
            Self::Hold | Self::Mtcp => Verdict::Forward,
            Self::MtcpPlus | Self::Mtcp2007 => mtcp_plus::on_nothing_new(flow, segment, cx.actions),
            Self::Snoop => snoop::on_nothing_new(flow, segment, cx),
        }
    }

    /// A segment of the MH, after its ACK was taken in.
    pub(crate) fn on_mh_segment<P: Payload>(
        self,
        flow: &mut Flow<P>,
        segment: &Segment,
        outcome: &AckOutcome,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        match self {
            Self::Mtcp if flow.is_split() => mtcp::on_mh_segment(flow, segment, outcome, cx),
            Self::Hold | Self::Mtcp => Verdict::Forward,
            Self::MtcpPlus => mtcp_plus::on_mh_segment(flow, segment, cx.actions),
            Self::Mtcp2007 => mtcp_2007::on_mh_segment(flow, segment, cx.actions),
            Self::Snoop => snoop::on_mh_segment(flow, segment, outcome, cx),
        }
    }

    /// What becomes of an MH's segment that tells that the MH is back: it goes on, by Snoop of
    /// today without what it tells of losses, for what is on its way is sent anew.
    pub(crate) fn verdict_on_return(settings: &Settings, segment: &Segment) -> Verdict {
        let hides = settings.scheme == Self::Snoop && settings.snoop.set == SnoopSet::Today;
        if hides && !segment.options.sack.is_empty() {
            Verdict::ForwardWithSack(SackBlocks::default())
        } else {
            Verdict::Forward
        }
    }

    /// What is to be done for the data of an MH's segment, which goes on. `room`: bytes that the
    /// cache has left for its mobile.
    pub(crate) fn on_mh_data<P: Payload>(
        self,
        flow: &mut Flow<P>,
        segment: &Segment,
        payload: &P,
        room: usize,
        is_away: bool,
        cx: &mut Context<'_, P>,
    ) {
        if self == Self::Snoop {
            snoop::uplink::on_mh_segment(flow, segment, payload, room, is_away, cx);
        }
    }

    /// What a segment of the FH says of the MH's data. True if it goes no further.
    pub(crate) fn on_fh_ack<P: Payload>(
        self,
        flow: &mut Flow<P>,
        segment: &Segment,
        is_away: bool,
        cx: &mut Context<'_, P>,
    ) -> bool {
        self == Self::Snoop && snoop::uplink::on_fh_segment(flow, segment, is_away, cx)
    }

    /// The MH is back; what is kept is about to be sent on.
    pub(crate) fn on_reconnected<P: Payload>(self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        match self {
            Self::Mtcp if flow.is_split() => mtcp::on_reconnected(flow, cx),
            Self::Hold | Self::Snoop | Self::Mtcp => {}
            Self::MtcpPlus | Self::Mtcp2007 => mtcp_plus::on_reconnected(flow, cx.now, cx.actions),
        }
    }

    /// The flow's own deadline of this scheme has come.
    pub(crate) fn on_timeout<P: Payload>(
        self,
        flow: &mut Flow<P>,
        away: bool,
        cx: &mut Context<'_, P>,
    ) {
        match self {
            Self::Mtcp if flow.is_split() => mtcp::on_timeout(flow, cx),
            Self::Hold | Self::Mtcp => {}
            Self::MtcpPlus | Self::Mtcp2007 => mtcp_plus::on_timeout(flow, cx.now, cx.actions),
            Self::Snoop => snoop::on_timeout(flow, away, cx),
        }
    }

    /// The flow's own deadline has come: what is due for the MH's data.
    pub(crate) fn on_uplink_timeout<P: Payload>(
        self,
        flow: &mut Flow<P>,
        is_away: bool,
        cx: &mut Context<'_, P>,
    ) {
        if self == Self::Snoop {
            snoop::uplink::on_timeout(flow, is_away, cx);
        }
    }
}
