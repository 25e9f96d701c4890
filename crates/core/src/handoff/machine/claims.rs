// SPDX-License-Identifier: Apache-2.0
//! Who has a mobile: registrations here, and what neighbours claim.

use super::send_to_all;
use super::{
    Actions, Asking, Copied, Duration, FlowState, Handoff, HandoffAction, Instant, IpAddr, KeyId,
    LinkNotice, Message, Outcome, Owner, PeerId, Role, Sending, StationId, Sync, answered,
    transmit,
};

/// What a neighbour claims: the epoch, and who has the mobile with it.
type Claim = (u64, StationId);

impl<C: Copied> Handoff<C> {
    /// The mobile reports that it is here.
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
            // No owner is known, yet others remember more and will contradict.
            actions.push(HandoffAction::EpochElsewhere {
                mobile: notice.key,
                epoch: mobile.claim.0,
            });
        }
        self.set_addresses(notice.key, &notice.addresses);
        self.take(notice.key, claim, now, actions);
    }

    /// The mobile is here from now on.
    fn take(&mut self, key: KeyId, claim: Claim, now: Instant, actions: &mut Actions<C>) {
        let peers = self.peers.clone();
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let comes_from_a_neighbour = mobile.elsewhere(now).is_some() || mobile.buffer.len() > 0;
        mobile.end_ownership();
        mobile.claim = claim;
        mobile.owner = Owner::Me;
        mobile.came_with = claim.0;
        mobile.claimed_by = None;
        mobile.has_partial_state = false;
        mobile.front_until = Instant::ZERO;
        mobile.buffering_until = None;
        mobile.sendings.clear();
        mobile.announce_at = Some(now + self.settings.announce);
        mobile.take_over = Asking::first(&peers, self.settings.retry, now);
        if comes_from_a_neighbour && mobile.take_over.is_some() {
            mobile.handoffs += 1;
            self.counters.taken_over += 1;
            mobile.sync = Some(Sync {
                since: now,
                until: now + self.settings.sync_wait,
                is_complete: false,
                wanted: Vec::new(),
                ask_again_at: None,
            });
        }
        let (epoch, station) = claim;
        let addresses = mobile.addresses.clone();
        let message = Message::TakeOver {
            mobile: key,
            epoch,
            station,
            addresses: addresses.clone(),
        };
        send_to_all(&peers, &message, actions);
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

    /// The neighbours are to buffer for a mobile that is here.
    pub(super) fn ask_to_prepare(&mut self, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let peers = self.peers.clone();
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if mobile.owner != Owner::Me {
            return;
        }
        mobile.prepared_until = now + self.settings.buffer_time;
        mobile.preparing = Asking::first(&peers, self.settings.retry, now);
        self.counters.prepared += 1;
        if let Some(status) = self.status(key, now) {
            send_to_all(&peers, &status, actions);
        }
    }

    /// A neighbour reports its, or this station's, present or past role for a mobile.
    pub(super) fn handle_claim(
        &mut self,
        from: PeerId,
        message: Message,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let key = message.mobile();
        match message {
            Message::Status { station, .. } | Message::TakeOver { station, .. }
                if station == self.settings.station =>
            {
                self.counters.own_number += 1;
                if let Message::TakeOver { epoch, .. } = message {
                    actions.push(HandoffAction::Send {
                        to: from,
                        message: Message::Answer {
                            mobile: key,
                            epoch,
                            outcome: Outcome::NotHere,
                        },
                    });
                }
            }
            Message::Status {
                epoch,
                station,
                role,
                prepare_ms,
                addresses,
                ..
            } => {
                let claim = (epoch, station);
                let prepare = Duration::from_millis(prepare_ms.into());
                self.handle_status(from, key, claim, role, prepare, &addresses, now, actions);
            }
            Message::TakeOver {
                epoch,
                station,
                addresses,
                ..
            } => self.handle_take_over(from, key, (epoch, station), &addresses, now, actions),
            Message::Yours {
                epoch,
                station,
                addresses,
                ..
            } => self.take_back(key, (epoch, station), &addresses, now, actions),
            _ => {}
        }
    }

    /// A neighbour remembers that the mobile was here before this station started anew.
    fn take_back(
        &mut self,
        key: KeyId,
        claim: Claim,
        addresses: &[IpAddr],
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        if claim.1 != self.settings.station {
            return;
        }
        let Some(mobile) = self.entry(key) else {
            return;
        };
        if mobile.owner == Owner::Me || claim < mobile.claim {
            return;
        }
        self.set_addresses(key, addresses);
        self.take(key, claim, now, actions);
    }

    /// A neighbour reports its role for a mobile.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn handle_status(
        &mut self,
        from: PeerId,
        key: KeyId,
        claim: Claim,
        role: Role,
        prepare: Duration,
        addresses: &[IpAddr],
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let lifetime = self.settings.announced_lifetime;
        let Some(mobile) = self.entry(key) else {
            return;
        };
        let has_it = matches!(role, Role::Synchronising | Role::Forwarding);
        if !has_it && mobile.owner == Owner::Peer(from) && claim.0 < mobile.claim.0 {
            // On the way since before it has had the mobile.
            return;
        }
        let until = (role != Role::Idle).then(|| now + lifetime);
        mobile.note_member(from, until);
        if role == Role::Buffering {
            answered(&mut mobile.preparing, from);
        }
        if !has_it {
            if mobile.owner == Owner::Peer(from) {
                // It has the mobile no longer, and has not seen the new owner.
                mobile.owner = Owner::Unknown;
            }
            return;
        }
        if !self.believe_claim(from, key, claim, addresses, now, actions) {
            self.contradict(from, key, now, actions);
            return;
        }
        if !prepare.is_zero() {
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

    /// A neighbour claims to have the mobile. False if that is less than what is known.
    fn believe_claim(
        &mut self,
        from: PeerId,
        key: KeyId,
        claim: Claim,
        addresses: &[IpAddr],
        now: Instant,
        actions: &mut Actions<C>,
    ) -> bool {
        let lifetime = self.settings.announced_lifetime;
        let buffer_time = self.settings.buffer_time;
        let (retry, tries_max) = (self.settings.retry, self.settings.tries_max);
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return false;
        };
        if claim < mobile.claim {
            self.counters.stale += 1;
            return false;
        }
        let was_here = mobile.owner == Owner::Me;
        let news = mobile.claim != claim || mobile.owner != Owner::Peer(from);
        mobile.claim = claim;
        mobile.owner = Owner::Peer(from);
        mobile.owner_until = now + lifetime;
        mobile.claimed_by = Some(from);
        mobile.note_member(from, Some(now + lifetime));
        if !was_here {
            mobile.pass_on(from, claim.0, now);
        }
        if was_here {
            mobile.has_partial_state = match &mobile.receiving {
                Some((_, receiving)) => !receiving.is_complete(),
                None => mobile.sync.is_some(),
            };
            mobile.front_until = now + retry * tries_max;
            mobile.end_ownership();
            let addresses = mobile.addresses.clone();
            self.counters.yielded += 1;
            actions.push(HandoffAction::Export {
                mobile: key,
                addresses: addresses.clone(),
                to: from,
            });
            actions.push(HandoffAction::Stop {
                mobile: key,
                addresses,
            });
            self.buffer_for(key, buffer_time, now, actions);
        }
        if news {
            let epoch = claim.0;
            actions.push(HandoffAction::EpochElsewhere { mobile: key, epoch });
        }
        self.set_addresses(key, addresses);
        true
    }

    /// A neighbour believes to have a mobile that is here: it is notified once more.
    fn contradict(&mut self, from: PeerId, key: KeyId, now: Instant, actions: &mut Actions<C>) {
        let retry = self.settings.retry;
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if mobile.owner != Owner::Me {
            return;
        }
        if let Some(asking) = &mut mobile.take_over {
            if asking.unanswered.contains(&from) {
                return;
            }
            asking.unanswered.push(from);
        } else {
            mobile.take_over = Asking::first(&[from], retry, now);
        }
        let (epoch, station) = mobile.claim;
        let message = Message::TakeOver {
            mobile: key,
            epoch,
            station,
            addresses: mobile.addresses.clone(),
        };
        actions.push(HandoffAction::Send { to: from, message });
    }

    /// The mobile has moved to a neighbour.
    pub(super) fn handle_take_over(
        &mut self,
        from: PeerId,
        key: KeyId,
        claim: Claim,
        addresses: &[IpAddr],
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let Some(mobile) = self.entry(key) else {
            return;
        };
        let was_here = mobile.owner == Owner::Me;
        let believed = self.believe_claim(from, key, claim, addresses, now, actions);
        if believed && was_here {
            // The answer goes with the state.
            return;
        }
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        let under_way = mobile.sendings.iter();
        let under_way = under_way
            .filter(|(to, epoch, _)| *to == from && *epoch <= claim.0)
            .map(|(_, _, sending)| sending.count())
            .next();
        let (epoch, station) = mobile.claim;
        let outcome = match under_way {
            _ if !believed => Outcome::Stale { epoch, station },
            Some(datagrams) => Outcome::Yielded { datagrams },
            None => Outcome::NotHere,
        };
        let message = Message::Answer {
            mobile: key,
            epoch: claim.0,
            outcome,
        };
        actions.push(HandoffAction::Send { to: from, message });
        transmit(mobile, now, actions);
    }

    /// The engine's answer to [`HandoffAction::Export`].
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
        if states.is_empty() && known.has_partial_state {
            // The old station passes it on.
            let message = Message::Answer {
                mobile,
                epoch,
                outcome: Outcome::NotHere,
            };
            actions.push(HandoffAction::Send { to, message });
            return;
        }
        let records = states.iter().map(FlowState::to_bytes);
        let sending = Sending::new(records, retry, tries_max, now);
        self.counters.states_sent += states.len() as u64;
        self.counters.state_bytes += sending.bytes() as u64;
        let datagrams = sending.count();
        known.sendings.retain(|(peer, _, _)| *peer != to);
        known.sendings.push((to, epoch, sending));
        let message = Message::Answer {
            mobile,
            epoch,
            outcome: Outcome::Yielded { datagrams },
        };
        actions.push(HandoffAction::Send { to, message });
        transmit(known, now, actions);
        self.schedule(mobile);
    }

    /// A neighbour has received a take-over.
    pub(super) fn handle_answer(
        &mut self,
        from: PeerId,
        key: KeyId,
        epoch: u64,
        outcome: Outcome,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let (retry, tries_max) = (self.settings.retry, self.settings.tries_max);
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
            Outcome::Yielded { datagrams } => {
                self.await_state(from, key, datagrams, now, actions);
            }
            Outcome::Stale { epoch, station } if (epoch, station) > mobile.claim => {
                self.counters.stale += 1;
                mobile.claim = (epoch, station);
                mobile.owner = Owner::Unknown;
                mobile.end_ownership();
                mobile.front_until = now + retry * tries_max;
                let addresses = mobile.addresses.clone();
                // A claim may arrive by another station before the claimant's own message does. If that is not the
                // one that answers, the state is passed on to it as soon as its message arrives.
                actions.push(HandoffAction::Export {
                    mobile: key,
                    addresses: addresses.clone(),
                    to: from,
                });
                actions.push(HandoffAction::Stop {
                    mobile: key,
                    addresses,
                });
                actions.push(HandoffAction::EpochElsewhere { mobile: key, epoch });
                let time = self.settings.buffer_time;
                self.buffer_for(key, time, now, actions);
            }
            Outcome::Stale { .. } => {}
        }
    }
}
