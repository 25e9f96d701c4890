// SPDX-License-Identifier: Apache-2.0
//! M-TCP (K. Brown and S. Singh, "M-TCP: TCP for mobile cellular networks", 1997) at the
//! supervisor host (SH): the connection is split in two, and no byte is acknowledged to the
//! FH before the MH has it.
//!
//! - [`sh_tcp`] is the half toward the FH. It acknowledges everything that the MH has acknowledged
//!   except the last byte. That byte is saved for the ACK that shrinks the FH's window to 0 when the
//!   MH is away, and for the one that opens it (figure 4).
//! - [`m_tcp`] is the half toward the MH. It sends the FH's data from the cache, at the assigned rate.
//!   A timeout freezes it instead of shrinking its window, until the MH answers again (figure 5).
//!
//! Set-up is in lock-step (section 5.3.1): SYNs pass as they are, so that sequence numbers
//! are the same on both halves and the ends can go on without the gateway.
//!
//! A flow whose window scale is not known, or none of whose uplink headers could be copied,
//! is not split: it is served as by `hold`.

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::mtcp_plus::serves;
use super::{Context, FlowScheme, Offer, SetUp, SetUpStage, Shared};
use crate::bandwidth::Share;
use crate::cache::{Insertion, SegmentCache};
use crate::compression::SentCompression;
use crate::counters::Counters;
use crate::flow::{AckOutcome, Flow};
use crate::key::FlowKey;
use crate::split_state::SplitState;
use crate::timers::earliest;
use crate::{Action, Actions, Direction, Payload, Resend, Settings, Verdict};

pub(crate) mod compression;
mod early;
mod handoff;
mod idle;
mod m_tcp;
mod persist;
mod sh_tcp;

use early::Opening;
pub use holdfast_settings::mtcp::{
    MtcpHandoff, MtcpPersist, MtcpRelease, MtcpSetUp, MtcpSettings, MtcpShrink,
};
pub(crate) use idle::IdleMtcp;
use m_tcp::MTcp;
use sh_tcp::ShTcp;

/// The control bits of the ACK by which M-TCP at the MH reports that it is connected again
/// (section 5.1: "an unused combination of TCP flags in a standard TCP acknowledgement").
///
/// The segment has no payload. PSH makes the receiver pass data to the reader at once, and there is
/// none, so receivers ignore it. Firewalls accept it with any ACK, and no stack that we know sets it
/// on such a segment.
pub const RECONNECTION_FLAGS: Flags = Flags(Flags::ACK.0 | Flags::PSH.0);

/// What the SH knows of a connection besides what every scheme does: the paper's "mtb".
pub(crate) struct Mtcp<P> {
    /// Another SH has taken over.
    is_handed_over: bool,
    sh: ShTcp,
    m: MTcp,
    /// Data to the MH is compressed if that pays.
    compression: Option<Box<SentCompression>>,
    /// The connection is being set up.
    opening: Option<Box<Opening<P>>>,
}

impl<P> Default for Mtcp<P> {
    fn default() -> Self {
        Self {
            is_handed_over: false,
            sh: ShTcp::default(),
            m: MTcp::default(),
            compression: None,
            opening: None,
        }
    }
}

impl<P: Payload> Mtcp<P> {
    /// Something was retransmitted to the MH: its ACK gives no round trip (Karn).
    const fn on_retransmitted(&mut self) {
        self.sh.forget_timed();
    }

    /// Marks a piece of the cache for compression, if it is sent in sequence (`in_turn`) and that pays.
    fn mark(&mut self, key: FlowKey, piece: &mut Resend<P>, in_turn: bool) {
        let Some(compression) = &mut self.compression else {
            return;
        };
        let segments = piece.len.div_ceil(piece.segment_len);
        if in_turn && compression.should_compress(piece.len, segments) {
            piece.compress = Some(key);
        } else {
            compression.on_plain(piece.seq, piece.seq + piece.len);
        }
    }

    /// Sends a piece of the cache at once and uncompressed.
    fn resend(&mut self, flow: &Flow<P>, mut piece: Resend<P>, actions: &mut Actions<P>) {
        self.mark(flow.key, &mut piece, false);
        actions.push(Action::Resend(piece));
    }

    /// Sends pieces of the cache, which may be compressed, instead of the segment. False if
    /// compression does not pay.
    fn offer(&mut self, flow: &mut Flow<P>, segment: &Segment, actions: &mut Actions<P>) -> bool {
        let segment_len = flow.cache.segment_len_at(segment.seq).unwrap_or(1);
        let segments = segment.payload_len.div_ceil(segment_len);
        let Some(compression) = &mut self.compression else {
            return false;
        };
        if !compression.should_compress(segment.payload_len, segments) {
            return false;
        }
        let compress = Some(flow.key);
        flow.take_pieces_of(segment, |piece| {
            actions.push(Action::Resend(Resend { compress, ..piece }));
        });
        true
    }

    /// Sends the newest ACK of the FH again; it may have been lost in the freeze.
    fn repeat_ack_in_outage(flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        cx.actions
            .extend(flow.ack_in_outage.take().map(Action::Repeat));
    }

    /// Retransmits what the MH's ACK shows to be lost, and charges the flow's rate for it.
    /// Without a share of a cell, the FH retransmits what was lost outside outages.
    fn retransmit_losses(&mut self, flow: &mut Flow<P>, dup_acks: bool, cx: &mut Context<'_, P>) {
        let ours = self.m.share.in_cell || flow.recover.is_some() || !self.sh.is_open();
        if !ours || self.m.is_frozen() || self.m.closed {
            return;
        }
        let (key, mut sent) = (flow.key, 0);
        for mut piece in flow.take_losses(dup_acks) {
            self.mark(key, &mut piece, false);
            sent += piece.len;
            cx.counters.repaired += 1;
            cx.actions.push(Action::Resend(piece));
        }
        if sent > 0 {
            self.on_retransmitted();
        }
        self.m.share.charge(sent, cx.now);
    }
}

impl<P: Payload> FlowScheme<P> for Mtcp<P> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn on_adopted(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        if !serves(flow) {
            return;
        }
        flow.begin_own_sender();
        self.sh.begin(flow.fh.una);
        self.m.begin(flow.sent_nxt);
        m_tcp::open(self, cx);
    }

    fn on_disconnected(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        if flow.has_own_sender {
            m_tcp::on_disconnected(self, flow, cx);
            sh_tcp::shrink(self, flow, cx);
        }
    }

    /// The MH is connected again (section 4.1).
    fn on_reconnected(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        if flow.has_own_sender {
            m_tcp::on_reconnected(self, flow);
            sh_tcp::on_reconnected(self, flow, cx);
            Self::repeat_ack_in_outage(flow, cx);
            m_tcp::send(self, flow, cx);
        }
    }

    /// A flow may have frozen, or closed the FH's window, without a report of link down.
    fn on_link_up(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        if self.m.is_frozen() || matches!(self.sh.state(), sh_tcp::WindowState::Shrunk) {
            self.on_reconnected(flow, cx);
        }
    }

    /// Data of the FH that did not fit into the cache.
    fn on_data(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        insertion: Insertion,
        cx: &mut Context<'_, P>,
    ) {
        if flow.has_own_sender && insertion == Insertion::Full {
            sh_tcp::on_data(self, flow, segment, true, cx);
        }
    }

    fn on_data_to_send(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        is_new: bool,
        backlog: bool,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        sh_tcp::on_data(self, flow, segment, is_new, cx);
        self.m.share.offered += u64::from(segment.payload_len);
        if !is_new {
            m_tcp::send(self, flow, cx);
            // Only the MH knows whether its closed window has opened.
            if self.m.closed && !self.m.is_frozen() {
                return Verdict::Forward;
            }
            return if m_tcp::retransmits_itself(self, flow, segment) {
                Verdict::Suppress
            } else {
                self.on_retransmitted();
                flow.on_forwarded(segment, cx.now);
                Verdict::Forward
            };
        }
        if m_tcp::try_forward(self, flow, segment, backlog, cx) {
            return if self.offer(flow, segment, cx.actions) {
                Verdict::Suppress
            } else {
                Verdict::Forward
            };
        }
        cx.counters.segments_queued += 1;
        m_tcp::send(self, flow, cx);
        Verdict::Suppress
    }

    fn on_nothing_new(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        if flow.has_own_sender {
            sh_tcp::on_nothing_new(self, flow, segment, cx)
        } else {
            Verdict::Forward
        }
    }

    fn on_forwarded(&mut self, segment: &Segment) {
        if let Some(compression) = &mut self.compression {
            compression.on_plain(segment.seq, segment.seq + segment.payload_len);
        }
    }

    fn on_acked(
        &mut self,
        key: &FlowKey,
        cache: &SegmentCache<P>,
        (from, to): (SeqNum, SeqNum),
        shared: &mut Shared,
        counters: &mut Counters,
    ) {
        let Some(sent) = &mut self.compression else {
            return;
        };
        let is_proof = sent.on_acked(from, to);
        if sent.has_dictionary() {
            cache.each_between(from, to, |seq, octets| sent.keep(seq, octets));
        }
        if let Some(compression) = shared.compression.as_mut().filter(|_| is_proof) {
            counters.compression_proofs += 1;
            compression.on_proof(key.mh.address, sent);
        }
    }

    fn on_mh_segment(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        outcome: &AckOutcome,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        if !flow.has_own_sender {
            return Verdict::Forward;
        }
        let was_frozen = self.m.is_frozen();
        let reconnected = m_tcp::on_ack(self, flow, segment, outcome, cx);
        let verdict = sh_tcp::on_ack(self, flow, segment, outcome, cx);
        if reconnected {
            sh_tcp::on_reconnected(self, flow, cx);
        }
        if was_frozen && !self.m.is_reported_down() {
            Self::repeat_ack_in_outage(flow, cx);
        }
        m_tcp::send(self, flow, cx);
        self.retransmit_losses(flow, outcome.loss, cx);
        verdict
    }

    fn verdict_on_return(
        &self,
        _flow: &Flow<P>,
        _segment: &Segment,
        verdict: Verdict,
        _settings: &Settings,
    ) -> Verdict {
        verdict
    }

    fn on_timeout(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        self.m.persist.flows = u32::try_from(cx.open_flows()).unwrap_or(u32::MAX);
        if !flow.has_own_sender {
            return;
        }
        if m_tcp::on_timeout(self, flow, cx) {
            sh_tcp::shrink(self, flow, cx);
        }
        sh_tcp::on_timeout(self, flow, cx);
        m_tcp::send(self, flow, cx);
    }

    fn next_timeout(&self, flow: &Flow<P>, _settings: &Settings) -> Option<Instant> {
        if !flow.has_own_sender {
            return self.opening.as_ref().and_then(|opening| opening.again_at);
        }
        let both = [m_tcp::deadline(self, flow), self.sh.deadline()];
        earliest(both)
    }

    fn on_resynchronised(&mut self, una: SeqNum) {
        self.sh.begin(una);
        self.m.begin(una);
    }

    /// What is in flight to the MH is lost.
    fn on_path_mtu(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        self.on_retransmitted();
        flow.rewind();
        m_tcp::send(self, flow, cx);
    }

    /// Acknowledges the saved byte to the FH and opens its window.
    fn on_leave(&mut self, flow: &mut Flow<P>, actions: &mut Actions<P>) {
        if flow.has_own_sender {
            sh_tcp::leave(self, flow, actions);
        }
    }

    fn on_hand_over(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        handoff::hand_over(self, flow, cx);
    }

    /// Sends the FH an ACK of all that the MH has acknowledged, unless another SH continues.
    fn on_release(
        &mut self,
        flow: &mut Flow<P>,
        settings: &Settings,
        counters: &mut Counters,
        actions: &mut Actions<P>,
    ) -> bool {
        self.cancel_opening(flow, counters, actions);
        if !self.is_handed_over {
            self.on_leave(flow, actions);
        }
        let discards = settings.mtcp.handoff == MtcpHandoff::Published;
        !(discards && self.is_handed_over)
    }

    fn split_state(&self, flow: &Flow<P>) -> Option<SplitState> {
        flow.has_own_sender.then(|| SplitState {
            cwnd: self.m.cwnd,
            ..self.sh.split_state()
        })
    }

    fn on_take_over(
        &mut self,
        flow: &mut Flow<P>,
        state: &SplitState,
        has_passed: bool,
        cx: &mut Context<'_, P>,
    ) {
        handoff::adopt(self, flow, state, has_passed, cx);
    }

    fn acked_to_fh(&self, flow: &Flow<P>) -> SeqNum {
        if flow.has_own_sender {
            self.sh.acked()
        } else {
            flow.fh.una
        }
    }

    /// SH-TCP has nothing more to acknowledge.
    fn has_settled(&self, flow: &Flow<P>) -> bool {
        !flow.has_own_sender || self.sh.has_acked(flow.fh.una)
    }

    fn waits_for_mh(&self) -> bool {
        self.m.is_frozen()
    }

    fn state(&self, flow: &Flow<P>) -> Option<&'static str> {
        if !flow.has_own_sender {
            return None;
        }
        Some(match (self.m.is_frozen(), self.sh.state()) {
            (_, sh_tcp::WindowState::Shrunk) => "shrunk",
            (true, _) => "frozen",
            (false, sh_tcp::WindowState::Recovering) => "reopening",
            (false, sh_tcp::WindowState::NoShrink) => "split",
        })
    }

    fn set_up_stage(&self) -> Option<SetUpStage> {
        let opening = self.opening.as_ref()?;
        Some(if opening.is_confirmed {
            SetUpStage::Confirmed
        } else {
            SetUpStage::Begun
        })
    }

    fn begin_set_up(
        &mut self,
        flow: &mut Flow<P>,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        cx: &mut Context<'_, P>,
    ) -> bool {
        self.begin_opening(flow, direction, segment, payload, cx)
    }

    fn on_set_up_segment(
        &mut self,
        flow: &mut Flow<P>,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        room: usize,
        cx: &mut Context<'_, P>,
    ) -> SetUp<P> {
        self.on_opening_segment(flow, direction, segment, payload, room, cx)
    }

    fn on_set_up_timeout(
        &mut self,
        flow: &mut Flow<P>,
        cx: &mut Context<'_, P>,
    ) -> Option<SetUp<P>> {
        self.on_opening_timeout(flow, cx)
    }

    fn forget_set_up(&mut self, flow: &mut Flow<P>) -> bool {
        self.forget_opening(flow).is_some()
    }

    fn on_abilities(&mut self, flow: &Flow<P>, shared: &Shared) {
        if let Some(compression) = &shared.compression {
            self.follow_abilities(flow, compression);
        }
    }

    fn compress(
        &mut self,
        offer: &Offer<'_, P>,
        shared: &mut Shared,
        counters: &mut Counters,
        now: Instant,
    ) -> Option<usize> {
        let compression = shared.compression.as_mut()?;
        self.compress_offer(offer, compression, counters, now)
    }

    fn share_mut(&mut self) -> Option<&mut Share> {
        Some(&mut self.m.share)
    }
}
