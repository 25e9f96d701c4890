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

/// A header in the packed form of an idle flow.
type Packed<P> = <<P as Payload>::Header as Template>::Packed;

/// A flow that has sent nothing for a while. [`Flow::unpack`] restores the full flow.
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
            && self.timed_segment.is_none()
            && self.owed.is_none()
            && !(self.in_persist
                || self.waits_for_handoff
                || self.is_in_send_queue
                || self.answers_with_rst)
            && self.mute == Mute::No
            && (self.vain_retransmissions, self.dup_acks) == (0, 0);
        let is_counted =
            self.counted_confirmed && (self.counted_in_flight, self.counted_cached_bytes) == (0, 0);
        // A flow that an end has closed is soon forgotten.
        let is_open = self.fh.fin.is_none() && self.mh.fin.is_none();
        has_nothing_in_flight && is_quiet && waits_for_nothing && is_counted && is_open
    }

    /// Packs an idle flow.
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

    /// Restores the full flow.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Sender;
    use crate::flow::handoff::tests::{flow, state};
    use crate::handoff::FlowState;
    use crate::testing::{Bytes, data};
    use crate::timers::{Subject, Timers};

    const NOW: Instant = Instant::from_millis(1000);

    type Change = fn(&mut Flow<Bytes>);

    /// A flow whose ends have sent nothing more since it was opened.
    fn idle() -> Flow<Bytes> {
        let mut flow = flow();
        flow.stage = Stage::Open;
        flow.counted_confirmed = true;
        flow
    }

    #[test]
    fn a_flow_is_idle_if_nothing_at_all_is_left_of_it() {
        let changes: [(&str, Change); 26] = [
            ("the FH has sent", |flow| flow.fh.max += 1),
            ("the gateway has sent", |flow| flow.sent_nxt += 1),
            ("one end was seen", |flow| flow.stage = Stage::Adopting),
            ("closed", |flow| flow.stage = Stage::Closed),
            ("cached", |flow| {
                let (segment, payload) = data(0, b"x");
                let _ = flow
                    .cache
                    .insert(&segment, &payload, segment.seq, 10_000, 10);
            }),
            ("reported", |flow| {
                flow.sacked.add(SeqNum::new(1), SeqNum::new(2));
            }),
            ("timed for losses", |flow| {
                let (from, to) = (SeqNum::new(0), SeqNum::new(1));
                flow.transmissions.record(from, to, Sender::Fh, NOW);
            }),
            ("an ACK in an outage", |flow| {
                flow.ack_in_outage = Some(Bytes([].into()));
            }),
            ("uploads", |flow| flow.uploads = Some(Box::default())),
            ("contradicted", |flow| {
                let (mut segment, _) = data(0, b"");
                (segment.seq, segment.ack) = (flow.fh.ack, flow.fh.una - 1);
                flow.note_contradiction(&segment, NOW);
            }),
            ("another ACK shown", |flow| {
                flow.ack_shown = Some(SeqNum::new(1));
            }),
            ("cached by the scheme", |flow| {
                flow.cached_elsewhere.entries = 1;
            }),
            ("a timer", |flow| {
                let subject = Subject::Mobile(flow.mobile);
                Timers::default().schedule(subject, &mut flow.scheduled, Some(NOW));
            }),
            ("to retransmit", |flow| flow.retransmit_at = Some(NOW)),
            ("in recovery", |flow| flow.recover = Some(SeqNum::new(1))),
            ("timed", |flow| {
                flow.timed_segment = Some((SeqNum::new(1), NOW));
            }),
            ("owed", |flow| flow.owed = Some(SeqNum::new(1))),
            ("in persist state", |flow| flow.in_persist = true),
            ("in a handoff", |flow| flow.waits_for_handoff = true),
            ("in the queue", |flow| flow.is_in_send_queue = true),
            ("reset", |flow| flow.answers_with_rst = true),
            ("mute", |flow| flow.mute = Mute::ToProbe),
            ("in vain", |flow| flow.vain_retransmissions = 1),
            ("duplicate ACKs", |flow| flow.dup_acks = 1),
            ("the FH's FIN", |flow| flow.fh.fin = Some(SeqNum::new(1))),
            ("the MH's FIN", |flow| flow.mh.fin = Some(SeqNum::new(1))),
        ];
        assert!(idle().is_idle());
        for (name, change) in changes {
            let mut flow = idle();
            change(&mut flow);
            assert!(!flow.is_idle(), "{name}");
        }
        let counts: [Change; 3] = [
            |flow| flow.counted_confirmed = false,
            |flow| flow.counted_in_flight = 1,
            |flow| flow.counted_cached_bytes = 1,
        ];
        for (index, change) in counts.into_iter().enumerate() {
            let mut flow = idle();
            change(&mut flow);
            assert!(!flow.is_idle(), "counted {index}");
        }
    }

    #[test]
    fn the_numbers_of_an_opaque_flow_do_not_keep_it_in_use() {
        let mut flow = idle();
        flow.stage = Stage::Opaque;
        flow.fh.max += 1;
        assert!(flow.is_idle());
    }

    #[test]
    fn a_flow_that_was_packed_is_the_same_flow_again() {
        let state = FlowState {
            fh_una: SeqNum::new(9_000),
            fh_fin: None,
            mh_fin: None,
            reported: Vec::new(),
            ..state()
        };
        let mut flow = flow();
        flow.adopt(&state, NOW);
        flow.sent_nxt = flow.fh.max;
        flow.counted_confirmed = true;
        (flow.index_at_mobile, flow.has_own_sender) = (3, true);
        flow.seen = Instant::from_millis(2000);
        flow.tsval_noted = Instant::from_millis(1500);
        (flow.uplink_header, flow.downlink_header) = (Some(()), Some(()));
        assert!(flow.is_idle());
        let flow: Flow<Bytes> = Flow::unpack(flow.pack());
        assert!(flow.is_idle());
        assert_eq!(flow.state(None, None), Some(state));
        assert_eq!((flow.index_at_mobile, flow.has_own_sender), (3, true));
        assert_eq!(flow.seen, Instant::from_millis(2000));
        assert_eq!(flow.tsval_noted, Instant::from_millis(1500));
        assert!(flow.uplink_header.is_some() && flow.downlink_header.is_some());
    }

    #[test]
    fn what_an_idle_flow_knows_of_syns_and_of_segments_that_did_not_fit_stays() {
        use holdfast_wire::Flags;
        let mut flow = idle();
        let (mut syn, _) = data(100, b"");
        syn.flags = Flags::SYN;
        flow.on_syn(true, &syn, None, core::time::Duration::ZERO, NOW);
        let (strange, _) = data(1 << 30, b"");
        let _ = flow.credit(&strange, NOW);
        flow.adoption = Some(Box::default());
        let numbers = Renumber {
            uplink: 7,
            ..Renumber::default()
        };
        flow.renumber = Some(numbers);
        let flow: Flow<Bytes> = Flow::unpack(flow.pack());
        assert!(flow.handshake.has_syns() && flow.unseen.is_some() && flow.adoption.is_some());
        assert_eq!(flow.renumber, Some(numbers));
    }

    #[test]
    fn losses_of_a_flow_that_was_idle_are_found_at_any_number() {
        let una = SeqNum::new(3 << 30);
        let mut flow = idle();
        (flow.fh.una, flow.fh.max) = (una, una);
        let mut flow: Flow<Bytes> = Flow::unpack(flow.pack());
        for n in 0..4 {
            let (segment, payload) = data((una + n * 1000).get(), &[7; 1000]);
            let _ = flow.cache.insert(&segment, &payload, una, 1 << 20, 10);
        }
        (flow.fh.max, flow.sent_nxt) = (una + 4000, una + 4000);
        flow.sacked.add(una + 1000, una + 4000);
        flow.on_reported(una + 4000);
        assert_eq!(flow.take_lost().map(|piece| piece.seq), Some(una));
    }

    #[test]
    fn a_closed_flow_is_settled_unless_something_of_it_is_counted_or_awaited() {
        let changes: [(&str, Change); 7] = [
            ("confirmed", |flow| flow.counted_confirmed = true),
            ("in flight", |flow| flow.counted_in_flight = 1),
            ("cached", |flow| flow.counted_cached_bytes = 1),
            ("waits to send", |flow| flow.is_in_send_queue = true),
            ("answers with RSTs", Flow::refuse),
            ("translated", |flow| {
                flow.renumber = Some(Renumber::default());
            }),
            ("a SYN", |flow| {
                let (mut syn, _) = data(100, b"");
                syn.flags = holdfast_wire::Flags::SYN;
                flow.on_syn(true, &syn, None, core::time::Duration::ZERO, NOW);
            }),
        ];
        let closed = || {
            let mut flow = idle();
            flow.close();
            flow.counted_confirmed = false;
            flow
        };
        assert!(closed().is_settled());
        for (name, change) in changes {
            let mut flow = closed();
            change(&mut flow);
            assert!(!flow.is_settled(), "{name}");
        }
    }
}
