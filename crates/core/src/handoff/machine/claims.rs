// SPDX-License-Identifier: Apache-2.0
//! Which station has a mobile: registrations here, and the claims of neighbours.

use super::{
    Actions, Body, Claim, Copied, Duration, FlowState, Handoff, HandoffAction, Instant, KeyId,
    LinkNotice, Outcome, Owner, PeerId, Requests, Role, Sending, StationId, Status, Sync, answered,
    send, send_to_all, transmit,
};

impl<C: Copied> Handoff<C> {
    /// Handles the registration of a mobile that is here.
    pub(super) fn handle_registration(
        &mut self,
        notice: &LinkNotice,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let claim = (notice.epoch, self.settings.station);
        let Some(mobile) = self.entry(notice.key) else {
            return;
        };
        if mobile.owner == Owner::Me {
            if claim > mobile.claim {
                mobile.claim = claim;
                mobile.announce_at = Some(now);
            }
            self.set_addresses(notice.key, &notice.addresses);
            return;
        }
        if mobile.elsewhere(now).is_some() && claim <= mobile.claim {
            let epoch = mobile.claim.0;
            self.counters.stale += 1;
            actions.push(HandoffAction::EpochElsewhere {
                mobile: notice.key,
                epoch,
            });
            return;
        }
        if claim.0 < mobile.claim.0 {
            // No owner is known, but others have a higher epoch and will contradict.
            actions.push(HandoffAction::EpochElsewhere {
                mobile: notice.key,
                epoch: mobile.claim.0,
            });
        }
        self.set_addresses(notice.key, &notice.addresses);
        self.become_owner(notice.key, claim, now, actions);
    }

    /// Becomes the owner of the mobile.
    fn become_owner(
        &mut self,
        key: KeyId,
        claim: (u64, StationId),
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let peers = self.peers.clone();
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let comes_from_a_neighbour = mobile.elsewhere(now).is_some() || mobile.buffer.len() > 0;
        mobile.end_ownership();
        mobile.claim = claim;
        mobile.owner = Owner::Me;
        mobile.arrival_epoch = claim.0;
        mobile.claimed_by = None;
        mobile.has_partial_state = false;
        mobile.drop_newest_until = Instant::ZERO;
        mobile.buffering_until = None;
        mobile.sendings.clear();
        mobile.announce_at = Some(now + self.settings.announce);
        mobile.take_over = Requests::new(&peers, self.settings.retry, now);
        if comes_from_a_neighbour && mobile.take_over.is_some() {
            mobile.handoffs += 1;
            self.counters.taken_over += 1;
            mobile.sync = Some(Sync {
                since: now,
                until: now + self.settings.sync_wait,
                is_complete: false,
                wanted: Vec::new(),
                request_at: None,
            });
        }
        let addresses = mobile.addresses.clone();
        send_to_all(&peers, &mobile.take_over_message(), actions);
        if !peers.is_empty() {
            self.join(key, actions);
        }
        if self.settings.always
            && let Some(status) = self.status(key, now)
        {
            self.counters.prepared += 1;
            send_to_all(&peers, &status, actions);
        }
        actions.push(HandoffAction::TookOver {
            mobile: key,
            addresses,
        });
    }

    /// Requests the neighbours to buffer for a mobile that is here.
    pub(super) fn request_buffering(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let peers = self.peers.clone();
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if mobile.owner != Owner::Me {
            return;
        }
        mobile.prepared_until = now + self.settings.buffer_time;
        mobile.preparing = Requests::new(&peers, self.settings.retry, now);
        self.counters.prepared += 1;
        if let Some(status) = self.status(key, now) {
            send_to_all(&peers, &status, actions);
        }
    }

    /// Counts a claim with this station's own number. It is refused: another station has the same
    /// name, or this one is among its own neighbours.
    fn is_own_number(&mut self, claim: &Claim) -> bool {
        let is_own = claim.station == self.settings.station;
        self.counters.own_number += u64::from(is_own);
        is_own
    }

    /// The mobile was here before this station restarted, by a neighbour's claim.
    pub(super) fn take_back(
        &mut self,
        key: KeyId,
        claim: &Claim,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        if claim.station != self.settings.station {
            return;
        }
        let Some(mobile) = self.entry(key) else {
            return;
        };
        if mobile.owner == Owner::Me || claim.rank() < mobile.claim {
            return;
        }
        self.set_addresses(key, &claim.addresses);
        self.become_owner(key, claim.rank(), now, actions);
    }

    /// Handles a neighbour's role for a mobile.
    pub(super) fn handle_status(
        &mut self,
        from: PeerId,
        key: KeyId,
        status: &Status,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let Status { claim, role, .. } = status;
        if self.is_own_number(claim) {
            return;
        }
        let lifetime = self.settings.announced_lifetime;
        let Some(mobile) = self.entry(key) else {
            return;
        };
        let has_it = matches!(role, Role::Synchronising | Role::Forwarding);
        if !has_it && mobile.owner == Owner::Peer(from) && claim.epoch < mobile.claim.0 {
            // It was sent before the neighbour had the mobile.
            return;
        }
        let until = (*role != Role::Idle).then(|| now + lifetime);
        mobile.note_member(from, until);
        if *role == Role::Buffering {
            answered(&mut mobile.preparing, from);
        }
        if !has_it {
            if mobile.owner == Owner::Peer(from) {
                // The neighbour has lost the mobile, and does not know the new owner.
                mobile.owner = Owner::Unknown;
            }
            return;
        }
        if !self.believe_claim(from, key, claim, now, actions) {
            self.contradict(from, key, now, actions);
            return;
        }
        if status.prepare_ms > 0 {
            let prepare = Duration::from_millis(status.prepare_ms.into());
            self.buffer_for(key, prepare.min(self.settings.buffer_time), now, actions);
            if let Some(message) = self.status(key, now) {
                actions.push(HandoffAction::Send { to: from, message });
            }
        }
    }

    /// Buffers for a mobile that is elsewhere.
    fn buffer_for(&mut self, key: KeyId, time: Duration, now: Instant, actions: &mut Actions<C>) {
        let announce = now + self.settings.announce;
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let until = mobile.buffering_until.get_or_insert(now);
        *until = (*until).max(now + time);
        mobile.announce_at.get_or_insert(announce);
        self.join(key, actions);
    }

    /// Handles a neighbour's claim to have the mobile. False if it is lower than the known one.
    fn believe_claim(
        &mut self,
        from: PeerId,
        key: KeyId,
        claim: &Claim,
        now: Instant,
        actions: &mut Actions<C>,
    ) -> bool {
        let lifetime = self.settings.announced_lifetime;
        let buffer_time = self.settings.buffer_time;
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return false;
        };
        if claim.rank() < mobile.claim {
            self.counters.stale += 1;
            return false;
        }
        let was_here = mobile.owner == Owner::Me;
        let news = mobile.claim != claim.rank() || mobile.owner != Owner::Peer(from);
        mobile.claim = claim.rank();
        mobile.owner = Owner::Peer(from);
        mobile.owner_until = now + lifetime;
        mobile.claimed_by = Some(from);
        mobile.note_member(from, Some(now + lifetime));
        if !was_here {
            mobile.pass_on(from, claim.epoch, now);
        }
        if was_here {
            mobile.has_partial_state = match &mobile.receiving {
                Some((_, receiving)) => !receiving.is_complete(),
                None => mobile.sync.is_some(),
            };
            self.counters.yielded += 1;
            self.give_up(from, key, now, actions);
            self.buffer_for(key, buffer_time, now, actions);
        }
        if news {
            let epoch = claim.epoch;
            actions.push(HandoffAction::EpochElsewhere { mobile: key, epoch });
        }
        self.set_addresses(key, &claim.addresses);
        true
    }

    /// The mobile is at the neighbour `to` now: the engine exports its flows and stops.
    fn give_up(&mut self, to: PeerId, mobile: KeyId, now: Instant, actions: &mut Actions<C>) {
        let drop_newest_time = self.settings.retry * self.settings.tries_max;
        let Some(known) = self.mobiles.get_mut(&mobile) else {
            return;
        };
        known.drop_newest_until = now + drop_newest_time;
        known.end_ownership();
        let addresses = known.addresses.clone();
        actions.push(HandoffAction::Export {
            mobile,
            addresses: addresses.clone(),
            to,
        });
        actions.push(HandoffAction::Stop { mobile, addresses });
    }

    /// Sends a take-over to a neighbour that claims a mobile which is here.
    fn contradict(&mut self, from: PeerId, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let retry = self.settings.retry;
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if mobile.owner != Owner::Me {
            return;
        }
        match &mut mobile.take_over {
            Some(requests) if requests.unanswered.contains(&from) => return,
            Some(requests) => requests.unanswered.push(from),
            None => mobile.take_over = Requests::new(&[from], retry, now),
        }
        let message = mobile.take_over_message();
        actions.push(HandoffAction::Send { to: from, message });
    }

    /// Handles a take-over: the mobile has moved to a neighbour.
    pub(super) fn handle_take_over(
        &mut self,
        from: PeerId,
        key: KeyId,
        claim: &Claim,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let answer = |outcome| Body::Answer {
            epoch: claim.epoch,
            outcome,
        };
        if self.is_own_number(claim) {
            actions.push(send(from, key, answer(Outcome::NotHere)));
            return;
        }
        let Some(mobile) = self.entry(key) else {
            return;
        };
        let was_here = mobile.owner == Owner::Me;
        let believed = self.believe_claim(from, key, claim, now, actions);
        if believed && was_here {
            // The answer is sent with the state.
            return;
        }
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let under_way = mobile.sendings.iter();
        let under_way = under_way
            .filter(|(to, epoch, _)| *to == from && *epoch <= claim.epoch)
            .map(|(_, _, sending)| sending.count())
            .next();
        let (epoch, station) = mobile.claim;
        let outcome = match under_way {
            _ if !believed => Outcome::Stale { epoch, station },
            Some(datagrams) => Outcome::StateFollows { datagrams },
            None => Outcome::NotHere,
        };
        actions.push(send(from, key, answer(outcome)));
        transmit(mobile, now, actions);
    }

    /// Sends the flows' states that the engine has exported for [`HandoffAction::Export`].
    pub fn send_state(
        &mut self,
        mobile: KeyId,
        to: PeerId,
        states: &[FlowState],
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let (retry, tries_max) = (self.settings.retry, self.settings.tries_max);
        let Some(known) = self.mobiles.get_mut(&mobile) else {
            return;
        };
        let epoch = known.claim.0;
        let answer = |outcome| send(to, mobile, Body::Answer { epoch, outcome });
        if states.is_empty() && known.has_partial_state {
            // The station before this one sends the state directly to that neighbour.
            actions.push(answer(Outcome::NotHere));
            return;
        }
        let records = states.iter().map(FlowState::to_bytes);
        let sending = Sending::new(records, retry, tries_max, now);
        self.counters.states_sent += states.len() as u64;
        self.counters.state_bytes += sending.bytes() as u64;
        let datagrams = sending.count();
        known.sendings.retain(|(peer, _, _)| *peer != to);
        known.sendings.push((to, epoch, sending));
        actions.push(answer(Outcome::StateFollows { datagrams }));
        transmit(known, now, actions);
        self.schedule(mobile);
    }

    /// Handles a neighbour's answer to a take-over.
    pub(super) fn handle_answer(
        &mut self,
        from: PeerId,
        key: KeyId,
        epoch: u64,
        outcome: Outcome,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if !mobile.is_of_this_take_over(epoch) {
            return;
        }
        answered(&mut mobile.take_over, from);
        match outcome {
            Outcome::NotHere => {
                if mobile.take_over.is_none() && mobile.receiving.is_none() {
                    self.finish(key, now, actions);
                }
            }
            Outcome::StateFollows { datagrams } => {
                self.await_state(from, key, datagrams, now, actions);
            }
            Outcome::Stale { epoch, station } if (epoch, station) > mobile.claim => {
                self.counters.stale += 1;
                mobile.claim = (epoch, station);
                mobile.owner = Owner::Unknown;
                // The answer may come from a station that does not claim the mobile itself. That station
                // gets the state now, and the claimant gets it as soon as its own message arrives.
                self.give_up(from, key, now, actions);
                actions.push(HandoffAction::EpochElsewhere { mobile: key, epoch });
                let time = self.settings.buffer_time;
                self.buffer_for(key, time, now, actions);
            }
            Outcome::Stale { .. } => {}
        }
    }
}
