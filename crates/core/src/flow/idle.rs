// SPDX-License-Identifier: Apache-2.0
//! An idle flow: all that is known of a flow with nothing cached, in flight, owed or waited for.

use holdfast_wire::{Instant, SeqNum};

use super::adoption::Adoption;
use super::credible::Unseen;
use super::handshake::Handshake;
use super::sending::Resending;
use super::{CachedElsewhere, FhState, Flow, MhState, Mute, Stage};
use crate::action::Template;
use crate::renumber::Renumber;
use crate::table::MobileId;
use crate::{FlowKey, Payload};

/// A header as an idle flow has it.
type Packed<P> = <<P as Payload>::Header as Template>::Packed;

/// A flow that sends nothing for a while. [`Flow::unpack`] makes the same flow of it again.
pub(crate) struct IdleFlow<P: Payload> {
    pub key: FlowKey,
    pub stage: Stage,
    pub mobile: MobileId,
    pub index_at_mobile: u32,
    pub renumber: Option<Renumber>,
    pub seen: Instant,
    pub has_own_sender: bool,
    pub fh: FhState,
    pub mh: MhState,
    handshake: Handshake,
    adoption: Option<Box<Adoption>>,
    unseen: Option<Box<Unseen>>,
    tsval_sent: Option<u32>,
    tsval_noted: Instant,
    uplink_header: Option<Packed<P>>,
    downlink_header: Option<Packed<P>>,
    path_mtu: Option<u32>,
}

impl<P: Payload> Flow<P> {
    /// Nothing is in flight, cached, owed or waited for: an [`IdleFlow`] has all that is known.
    pub(crate) fn is_idle(&self) -> bool {
        let has_nothing_in_flight = match self.stage {
            Stage::Open => self.fh.max == self.fh.una && self.sent_nxt == self.fh.una,
            Stage::Opaque => true,
            Stage::Adopting | Stage::Closed => false,
        };
        let is_quiet = self.cache.is_empty()
            && self.sacked.is_empty()
            && self.transmissions.is_empty()
            && self.ack_in_outage.is_none()
            && self.uploads.is_none()
            && self.contradiction.is_none()
            && self.ack_shown.is_none()
            && self.cached_elsewhere == CachedElsewhere::default();
        let waits_for_nothing = !self.scheduled.is_set()
            && self.retransmit_at.is_none()
            && self.recover.is_none()
            && self.timed.is_none()
            && self.owed.is_none()
            && !(self.in_persist || self.waits_for_handoff || self.waits || self.answers_with_rst)
            && self.mute == Mute::No
            && (self.vain_retransmissions, self.dup_acks) == (0, 0);
        let is_counted =
            self.counted_confirmed && (self.counted_in_flight, self.counted_cached_bytes) == (0, 0);
        // One that an end has closed is soon over.
        let is_open = self.fh.fin.is_none() && self.mh.fin.is_none();
        has_nothing_in_flight && is_quiet && waits_for_nothing && is_counted && is_open
    }

    /// What is known of an idle flow.
    pub(crate) fn pack(&mut self) -> IdleFlow<P> {
        let pack = |header: &Option<P::Header>| header.as_ref().map(Template::pack);
        IdleFlow {
            key: self.key,
            stage: self.stage,
            mobile: self.mobile,
            index_at_mobile: self.index_at_mobile,
            renumber: self.renumber,
            seen: self.seen,
            has_own_sender: self.has_own_sender,
            fh: self.fh,
            mh: self.mh,
            handshake: core::mem::take(&mut self.handshake),
            adoption: self.adoption.take(),
            unseen: self.unseen.take(),
            tsval_sent: self.tsval_sent,
            tsval_noted: self.tsval_noted,
            uplink_header: pack(&self.uplink_header),
            downlink_header: pack(&self.downlink_header),
            path_mtu: self.path_mtu,
        }
    }

    /// The flow that was idle.
    pub(crate) fn unpack(idle: IdleFlow<P>) -> Self {
        let (fh, mh) = (idle.key.fh, idle.key.mh);
        let unpack = |packed: Option<Packed<P>>, from, to| {
            packed.and_then(|packed| P::Header::unpack(&packed, from, to))
        };
        let una: SeqNum = idle.fh.una;
        Self {
            stage: idle.stage,
            index_at_mobile: idle.index_at_mobile,
            renumber: idle.renumber,
            has_own_sender: idle.has_own_sender,
            fh: idle.fh,
            mh: idle.mh,
            handshake: idle.handshake,
            adoption: idle.adoption,
            unseen: idle.unseen,
            tsval_sent: idle.tsval_sent,
            tsval_noted: idle.tsval_noted,
            uplink_header: unpack(idle.uplink_header, mh, fh),
            downlink_header: unpack(idle.downlink_header, fh, mh),
            path_mtu: idle.path_mtu,
            sent_nxt: idle.fh.max,
            resending: Resending::from_start(una),
            counted_confirmed: true,
            ..Self::new(idle.key, idle.mobile, idle.seen)
        }
    }
}
