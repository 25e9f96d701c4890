// SPDX-License-Identifier: Apache-2.0
//! The previous station's state arrives, and the buffered packets are delivered.

use super::{
    Actions, Body, Copied, FlowKey, FlowRange, FlowState, Handoff, HandoffAction, Instant, KeyId,
    Owner, PeerId, Receiving, SeqNum, StatePart, send,
};

/// Flows of a mobile with a stored ACK, at most.
const ACKED_MAX: usize = 65_536;

/// Ranges that a station requests in one handoff of a mobile, at most.
const WANTED_MAX: usize = 1024;

impl<C: Copied> Handoff<C> {
    /// The previous station has answered: its state follows in this many datagrams.
    pub(super) fn await_state(
        &mut self,
        from: PeerId,
        key: KeyId,
        datagrams: u16,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if datagrams == 0 {
            if let Some(sync) = &mut mobile.sync {
                sync.is_complete = true;
            }
            self.try_to_finish(key, now, actions);
        } else if mobile.receiving.as_ref().is_none_or(|one| one.0 != from) {
            mobile.receiving = Some((from, Receiving::default()));
        }
    }

    /// Handles a datagram of that state.
    pub(super) fn handle_state(
        &mut self,
        from: PeerId,
        key: KeyId,
        part: &StatePart,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let (epoch, number) = (part.epoch, part.number);
        if !mobile.is_of_this_take_over(epoch) {
            return;
        }
        actions.push(send(from, key, Body::StateReceived { epoch, number }));
        // It may arrive before the answer.
        if mobile.receiving.as_ref().is_none_or(|one| one.0 != from) {
            mobile.receiving = Some((from, Receiving::default()));
        }
        let Some((_, receiving)) = &mut mobile.receiving else {
            return;
        };
        let records = receiving.handle_datagram(number, part.count, &part.records);
        let is_complete = receiving.is_complete();
        if let Some(sync) = mobile.sync.as_mut().filter(|_| is_complete) {
            sync.is_complete = true;
        }
        for record in records {
            let state = FlowState::from_bytes(&record);
            let known = self.mobiles.get(&key);
            let addresses = known.map_or(&[][..], |mobile| &mobile.addresses);
            if let Some(state) = state.filter(|one| addresses.contains(&one.key.mh.address)) {
                self.take_state(from, key, state, now, actions);
            }
        }
        self.try_to_finish(key, now, actions);
    }

    fn take_state(
        &mut self,
        from: PeerId,
        key: KeyId,
        state: FlowState,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        self.counters.states_adopted += 1;
        let flow = state.key;
        // Stations buffer the FH's packets with its own numbers.
        let of_fh = |seq| state.renumber.map_or(seq, |numbers| numbers.of_fh(seq));
        let (una, max) = (of_fh(state.fh_una), of_fh(state.fh_max));
        let reported = state.reported.iter();
        let reported: Vec<_> = reported.map(|one| (of_fh(one.0), of_fh(one.1))).collect();
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        // The MH has what it has reported by SACK, and the previous station has freed it.
        let gaps = mobile.buffer.gaps(&flow, (una, max), &reported);
        actions.push(HandoffAction::Adopt(state));
        if mobile.acked.len() < ACKED_MAX {
            mobile.acked.insert(flow, una);
        }
        let waiting = mobile.sync.as_ref().map_or(0, |sync| sync.wanted.len());
        for (first, to) in gaps.into_iter().take(WANTED_MAX.saturating_sub(waiting)) {
            let range = FlowRange {
                flow,
                from: first,
                to,
            };
            actions.push(send(from, key, Body::Want(range)));
            if let Some(sync) = &mut mobile.sync {
                sync.wanted.push((from, range));
                sync.request_at.get_or_insert(now + self.settings.retry);
            }
        }
        if mobile.sync.is_none() {
            self.deliver_flow(key, &flow, una, actions);
            actions.push(HandoffAction::ResumeSending(vec![flow]));
        }
    }

    /// Sends buffered packets to a neighbour that has the mobile now and requests them.
    pub(super) fn handle_want(
        &mut self,
        to: PeerId,
        key: KeyId,
        range: FlowRange,
        actions: &mut Actions<C>,
    ) {
        let Some(mobile) = self.mobiles.get(&key) else {
            return;
        };
        if mobile.owner == Owner::Me {
            return;
        }
        let copies = mobile.buffer.within(&range.flow, range.from, range.to);
        actions.extend(copies.map(|copy| HandoffAction::SendCopy {
            to,
            mobile: key,
            copy: copy.clone(),
        }));
        // After this the neighbour does not wait for bytes that are not here.
        actions.push(send(to, key, Body::Given(range)));
    }

    /// A neighbour has sent all that it had of these bytes.
    pub(super) fn handle_given(
        &mut self,
        from: PeerId,
        key: KeyId,
        range: FlowRange,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let known = self.mobiles.get_mut(&key);
        if let Some(sync) = known.and_then(|mobile| mobile.sync.as_mut()) {
            sync.wanted.retain(|one| *one != (from, range));
            self.try_to_finish(key, now, actions);
        }
    }

    /// These bytes of a flow are buffered now: they need not be requested any more.
    pub(super) fn note_kept(&mut self, key: KeyId, flow: &FlowKey, range: (SeqNum, SeqNum)) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let (buffer, Some(sync)) = (&mobile.buffer, &mut mobile.sync) else {
            return;
        };
        sync.wanted.retain(|(_, one)| {
            let touched = one.flow == *flow && range.0.before(one.to) && range.1.after(one.from);
            !touched || !buffer.gaps(flow, (one.from, one.to), &[]).is_empty()
        });
    }

    /// Repeats the requests for bytes that have not arrived.
    pub(super) fn request_again(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let known = self.mobiles.get_mut(&key);
        let Some(sync) = known.and_then(|mobile| mobile.sync.as_mut()) else {
            return;
        };
        if sync.request_at.is_some_and(|at| at <= now) {
            sync.request_at = (!sync.wanted.is_empty()).then(|| now + self.settings.retry);
            let requests = sync.wanted.iter();
            actions.extend(requests.map(|(peer, range)| send(*peer, key, Body::Want(*range))));
        }
    }

    /// Ends the synchronisation if everything has arrived.
    pub(super) fn try_to_finish(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let known = self.mobiles.get(&key);
        let sync = known.and_then(|mobile| mobile.sync.as_ref());
        if sync.is_some_and(|sync| sync.is_complete && sync.wanted.is_empty()) {
            self.finish(key, now, actions);
        }
    }

    /// Ends the synchronisation: the mobile gets the buffered packets that it lacks, and later packets
    /// at once.
    pub(super) fn finish(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let Some(sync) = mobile.sync.take() else {
            return;
        };
        mobile.last_sync = Some(now.saturating_since(sync.since));
        let acked = core::mem::take(&mut mobile.acked);
        let flows: Vec<FlowKey> = acked.keys().copied().collect();
        let kept = mobile.buffer.flows();
        actions.push(HandoffAction::QueueSegments(flows.clone()));
        for flow in &kept {
            match acked.get(flow) {
                Some(una) => self.deliver_kept(key, flow, *una, actions),
                None => self.probe(key, flow, actions),
            }
        }
        actions.push(HandoffAction::ResumeSending(flows));
        if let Some(mobile) = self.mobiles.get_mut(&key) {
            mobile.acked = acked;
            mobile.unsynchronised = mobile.buffer.len() > 0;
        }
    }

    /// The MH's state of a flow is unknown: the newest packet makes it answer. The newest ACK helps in
    /// any case.
    fn probe(&mut self, key: KeyId, flow: &FlowKey, actions: &mut Actions<C>) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let before = mobile.buffer.bytes();
        let (empty, gone) = mobile.buffer.take_empty(flow);
        self.buffered_bytes = self.buffered_bytes - before + mobile.buffer.bytes();
        if let Some(empty) = empty {
            self.counters.delivered += 1;
            self.counters.purged += gone - 1;
            actions.push(HandoffAction::Deliver(empty));
        }
        if let Some(copy) = mobile.buffer.newest_of(flow) {
            self.counters.delivered += 1;
            actions.push(HandoffAction::Deliver(copy.clone()));
        }
    }

    /// Handles a segment of an MH with this ACK, after the engine: delivers the buffered packets that
    /// it lacks. Call it only for segments with ACK and without SYN and RST.
    pub fn handle_uplink(&mut self, flow: &FlowKey, ack: SeqNum, actions: &mut Actions<C>) {
        let Some(key) = self.by_address.get(&flow.mh.address).copied() else {
            return;
        };
        // An ACK beyond all buffered data shows nothing about it: forged, or of no use.
        let known = self.mobiles.get(&key);
        let end = known.and_then(|mobile| mobile.buffer.end_of(flow));
        if end.is_some_and(|end| !ack.after(end)) {
            self.deliver_flow(key, flow, ack, actions);
        }
    }

    /// Synchronises one flow later than the others.
    fn deliver_flow(&mut self, key: KeyId, flow: &FlowKey, una: SeqNum, actions: &mut Actions<C>) {
        let Some(mobile) = self.mobiles.get(&key).filter(|one| one.unsynchronised) else {
            return;
        };
        if mobile.owner == Owner::Me && mobile.buffer.newest_of(flow).is_some() {
            actions.push(HandoffAction::QueueSegments(vec![*flow]));
            self.deliver_kept(key, flow, una, actions);
            actions.push(HandoffAction::ResumeSending(vec![*flow]));
        }
        if let Some(mobile) = self.mobiles.get_mut(&key) {
            mobile.unsynchronised = mobile.buffer.len() > 0;
        }
    }

    /// Delivers the buffered packets of a flow after `una`; earlier ones are forgotten.
    fn deliver_kept(&mut self, key: KeyId, flow: &FlowKey, una: SeqNum, actions: &mut Actions<C>) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let (before, packets) = (mobile.buffer.bytes(), mobile.buffer.len());
        let copies = mobile.buffer.take_flow(flow, una);
        let taken = packets - mobile.buffer.len();
        self.counters.delivered += copies.len() as u64;
        self.counters.purged += (taken - copies.len()) as u64;
        actions.extend(copies.into_iter().map(HandoffAction::Deliver));
        self.recount(key, before);
    }
}
