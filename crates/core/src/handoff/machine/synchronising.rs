// SPDX-License-Identifier: Apache-2.0
//! What the station before knows comes in, and what was kept goes out.

use super::{
    Actions, Copied, FlowKey, FlowState, Handoff, HandoffAction, Instant, KeyId, Message, Owner,
    PeerId, Receiving, SeqNum, Wanted,
};

/// Flows of a mobile whose ACK is remembered for what was kept of them.
const ACKED_MAX: usize = 65_536;

/// Holes that a station asks for, a mobile's handoff.
const WANTED_MAX: usize = 1024;

impl<C: Copied> Handoff<C> {
    /// The old station has answered: its state comes in this many datagrams.
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

    /// A part of that state.
    pub(super) fn handle_state(
        &mut self,
        from: PeerId,
        key: KeyId,
        epoch: u64,
        (number, count, records): (u16, u16, &[u8]),
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if !mobile.is_of_this_take_over(epoch) {
            return;
        }
        actions.push(HandoffAction::Send {
            to: from,
            message: Message::StateReceived {
                mobile: key,
                epoch,
                number,
            },
        });
        // It may overtake the answer.
        if mobile.receiving.as_ref().is_none_or(|one| one.0 != from) {
            mobile.receiving = Some((from, Receiving::default()));
        }
        let Some((_, receiving)) = &mut mobile.receiving else {
            return;
        };
        let records = receiving.take(number, count, records);
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
        // Stations keep what the FH has sent, by its own numbers.
        let of_fh = |seq| state.renumber.map_or(seq, |numbers| numbers.of_fh(seq));
        let (una, max) = (of_fh(state.fh_una), of_fh(state.fh_max));
        let reported = state.reported.iter();
        let reported: Vec<_> = reported.map(|one| (of_fh(one.0), of_fh(one.1))).collect();
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        // What the MH has reported it does not lack, and the station before has it no more.
        let gaps = mobile.buffer.gaps(&flow, (una, max), &reported);
        actions.push(HandoffAction::Adopt(state));
        if mobile.acked.len() < ACKED_MAX {
            mobile.acked.insert(flow, una);
        }
        let waiting = mobile.sync.as_ref().map_or(0, |sync| sync.wanted.len());
        let wanted = gaps.into_iter().map(|(first, to)| Wanted {
            of: from,
            flow,
            from: first,
            to,
        });
        for wanted in wanted.take(WANTED_MAX.saturating_sub(waiting)) {
            actions.push(ask_for(key, &wanted));
            if let Some(sync) = &mut mobile.sync {
                sync.wanted.push(wanted);
                sync.ask_again_at.get_or_insert(now + self.settings.retry);
            }
        }
        if mobile.sync.is_none() {
            self.deliver_flow(key, &flow, una, actions);
            actions.push(HandoffAction::Go(vec![flow]));
        }
    }

    /// A neighbour that has the mobile now lacks what may be kept here.
    pub(super) fn handle_want(
        &mut self,
        to: PeerId,
        key: KeyId,
        flow: &FlowKey,
        from: SeqNum,
        end: SeqNum,
        actions: &mut Actions<C>,
    ) {
        let Some(mobile) = self.mobiles.get(&key) else {
            return;
        };
        if mobile.owner == Owner::Me {
            return;
        }
        let copies = mobile.buffer.within(flow, from, end);
        actions.extend(copies.map(|copy| HandoffAction::SendCopy {
            to,
            mobile: key,
            copy: copy.clone(),
        }));
        // With this it does not wait for what is not here.
        let message = Message::Given {
            mobile: key,
            flow: *flow,
            from,
            to: end,
        };
        actions.push(HandoffAction::Send { to, message });
    }

    /// A neighbour has sent what it has of these bytes.
    pub(super) fn handle_given(
        &mut self,
        from: PeerId,
        key: KeyId,
        flow: &FlowKey,
        range: (SeqNum, SeqNum),
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let known = self.mobiles.get_mut(&key);
        if let Some(sync) = known.and_then(|mobile| mobile.sync.as_mut()) {
            let is_it = |one: &Wanted| one.of == from && one.flow == *flow;
            sync.wanted
                .retain(|one| !(is_it(one) && (one.from, one.to) == range));
            self.try_to_finish(key, now, actions);
        }
    }

    /// These bytes of a flow are kept now: if they were asked for, they are awaited no more.
    pub(super) fn note_kept(&mut self, key: KeyId, flow: &FlowKey, range: (SeqNum, SeqNum)) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let (buffer, Some(sync)) = (&mobile.buffer, &mut mobile.sync) else {
            return;
        };
        sync.wanted.retain(|one| {
            let touched = one.flow == *flow && range.0.before(one.to) && range.1.after(one.from);
            !touched || !buffer.gaps(flow, (one.from, one.to), &[]).is_empty()
        });
    }

    /// What was asked for and has not come is asked for again.
    pub(super) fn ask_again(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let known = self.mobiles.get_mut(&key);
        let Some(sync) = known.and_then(|mobile| mobile.sync.as_mut()) else {
            return;
        };
        if sync.ask_again_at.is_some_and(|at| at <= now) {
            sync.ask_again_at = (!sync.wanted.is_empty()).then(|| now + self.settings.retry);
            actions.extend(sync.wanted.iter().map(|wanted| ask_for(key, wanted)));
        }
    }

    /// Ends the synchronisation if nothing more is to come.
    pub(super) fn try_to_finish(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let known = self.mobiles.get(&key);
        let sync = known.and_then(|mobile| mobile.sync.as_ref());
        if sync.is_some_and(|sync| sync.is_complete && sync.wanted.is_empty()) {
            self.finish(key, now, actions);
        }
    }

    /// The mobile gets what was kept and it lacks; what comes is delivered from now on.
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
        actions.push(HandoffAction::Hold(flows.clone()));
        for flow in &kept {
            match acked.get(flow) {
                Some(una) => self.deliver_kept(key, flow, *una, actions),
                None => self.question(key, flow, actions),
            }
        }
        actions.push(HandoffAction::Go(flows));
        if let Some(mobile) = self.mobiles.get_mut(&key) {
            mobile.acked = acked;
            mobile.unsynchronised = mobile.buffer.len() > 0;
        }
    }

    /// The MH's state of a flow is not known: the newest packet makes it answer. The
    /// newest ACK is of use whatever the MH has.
    fn question(&mut self, key: KeyId, flow: &FlowKey, actions: &mut Actions<C>) {
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

    /// An MH's segment passes that acknowledges `ack`, at the engine first: what was kept
    /// and it lacks follows. Only a segment with an ACK shows that, and none with SYN or RST.
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

    /// One flow is synchronised after all.
    fn deliver_flow(&mut self, key: KeyId, flow: &FlowKey, una: SeqNum, actions: &mut Actions<C>) {
        let Some(mobile) = self.mobiles.get(&key).filter(|one| one.unsynchronised) else {
            return;
        };
        if mobile.owner == Owner::Me && mobile.buffer.newest_of(flow).is_some() {
            actions.push(HandoffAction::Hold(vec![*flow]));
            self.deliver_kept(key, flow, una, actions);
            actions.push(HandoffAction::Go(vec![*flow]));
        }
        if let Some(mobile) = self.mobiles.get_mut(&key) {
            mobile.unsynchronised = mobile.buffer.len() > 0;
        }
    }

    /// What was kept of a flow after `una`; what lies before is forgotten.
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

fn ask_for<C>(key: KeyId, wanted: &Wanted) -> HandoffAction<C> {
    HandoffAction::Send {
        to: wanted.of,
        message: Message::Want {
            mobile: key,
            flow: wanted.flow,
            from: wanted.from,
            to: wanted.to,
        },
    }
}
