// SPDX-License-Identifier: Apache-2.0
//! M-TCP's SH as the M-TCP+ paper has it (M. Omueti and Lj. Trajković, 2007, "M-TCP
//! algorithm: supervisor host"): what that paper compares itself with, and nothing more.
//! For the laboratory; K. Brown and S. Singh's own M-TCP (1997) has states and timers
//! that are not here.
//!
//! An ACK of the MH goes to the FH with its number reduced by one. On disconnection the
//! FH gets the ACK of that last byte with `rwnd` 0; it goes into persist state if the
//! byte was all that was outstanding. On reconnection it gets the true window.
//!
//! Their feedback comes "in anticipation of disconnections": with a warning
//! ([`LinkEvent::GoingDownSoon`](crate::LinkEvent)) the window closes. What is in flight to the MH
//! then is still acknowledged, to the last byte. The window opens again if no outage follows.
//!
//! Where the paper is silent: an ACK of all that the FH has sent passes unchanged, because no later
//! one would acknowledge its last byte. A probe is answered. What the link lost is retransmitted
//! from the cache, as with all schemes here. With a cache of 0 bytes nothing is retransmitted.

use holdfast_wire::{Instant, Segment, SeqNum};

use super::mtcp_plus::{IdleMtcpPlus, MtcpPlus, serves};
use super::{Context, FlowScheme};
use crate::cache::Insertion;
use crate::flow::{AckOutcome, Flow};
use crate::{Payload, Settings, Verdict};

/// The SH of one flow: that of M-TCP+, except for when it acknowledges what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mtcp2007(MtcpPlus);

impl Mtcp2007 {
    /// The state of a flow that is idle. `None`: a timer runs.
    pub(super) fn pack(&self) -> Option<IdleMtcpPlus> {
        self.0.pack()
    }

    /// The state of a flow that was idle.
    pub(super) fn unpack(idle: IdleMtcpPlus) -> Self {
        Self(MtcpPlus::unpack(idle))
    }
}

impl<P: Payload> FlowScheme<P> for Mtcp2007 {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn on_going_down_soon(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        self.on_disconnected(flow, cx);
    }

    fn on_disconnected(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        if serves(flow) {
            self.0.freeze(flow);
            self.0.acknowledge_again(flow, cx);
        }
    }

    fn on_data(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        insertion: Insertion,
        cx: &mut Context<'_, P>,
    ) {
        self.0.on_data(flow, segment, insertion, cx);
    }

    fn on_queued(&mut self, flow: &mut Flow<P>, segment: &Segment, cx: &mut Context<'_, P>) {
        // A probe has one byte. A segment that was in flight when the window closed has more, and an
        // answer to that would be a duplicate ACK.
        if !flow.in_persist {
            self.0.on_queued(flow, segment, cx);
        } else if segment.payload_len == 1 {
            self.0.acknowledge_again(flow, cx);
        }
    }

    fn on_nothing_new(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        self.0.on_nothing_new(flow, segment, cx)
    }

    fn on_mh_segment(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        _outcome: &AckOutcome,
        _cx: &mut Context<'_, P>,
    ) -> Verdict {
        if !segment.is_empty() || !serves(flow) {
            return Verdict::Forward;
        }
        let (ack, window) = if flow.in_persist {
            (segment.ack, 0)
        } else if flow.fh.max.at_or_before(segment.ack) {
            return Verdict::Forward;
        } else {
            (segment.ack - 1, segment.window)
        };
        Verdict::ForwardWithAck { ack, window }
    }

    /// The FH was sent SND.UNA - 1, or SND.UNA when all its data was acknowledged. A RST with
    /// SND.UNA is accepted anyway.
    fn acked_to_fh(&self, flow: &Flow<P>) -> SeqNum {
        flow.fh.una - 1
    }

    fn on_reconnected(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        self.0.on_reconnected(flow, cx);
    }

    fn on_timeout(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        self.0.on_timeout(flow, cx);
    }

    fn next_timeout(&self, flow: &Flow<P>, settings: &Settings) -> Option<Instant> {
        self.0.next_timeout(flow, settings)
    }

    fn state(&self, flow: &Flow<P>) -> Option<&'static str> {
        <MtcpPlus as FlowScheme<P>>::state(&self.0, flow)
    }
}
