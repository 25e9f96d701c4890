// SPDX-License-Identifier: Apache-2.0
//! The state machine of one station, for all its mobiles.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use holdfast_wire::{Instant, SeqNum};

use super::buffer::{Buffer, flow_of};
use super::message::{Body, Claim, FlowRange, Message, Outcome, StatePart, Status};
use super::mobile::{Mobile, Owner, Requests, Sync, answered};
use super::peers::PeerId;
use super::transfer::{Receiving, Sending};
use super::{
    Arrival, Copied, Disposition, FlowState, HandoffAction, HandoffSettings, Role, StationId,
};
use crate::FlowKey;
use crate::link_state::LinkEvent;
use crate::signal::{KeyId, LinkNotice};

mod claims;
mod synchronising;
mod timers;

crate::counters! {
    /// The counters of a station.
    pub struct HandoffCounters {
        /// Mobiles that have come here from another station.
        pub taken_over = "taken_over",
        /// Mobiles that another station has taken over.
        pub yielded = "yielded",
        /// Claims and notices with an epoch that was too low.
        pub stale = "stale",
        /// Times that neighbours were requested to buffer.
        pub prepared = "prepared",
        /// Copies of packets received from neighbours.
        pub copies = "copies",
        /// Packets buffered.
        pub kept = "kept",
        /// Packets not buffered, or forgotten, because of a limit.
        pub overflowed = "overflowed",
        /// Copies and buffered packets delivered to a mobile.
        pub delivered = "delivered",
        /// Buffered packets that the mobile had already.
        pub purged = "purged",
        /// Records of flows sent.
        pub states_sent = "states_sent",
        /// Records of flows taken over.
        pub states_adopted = "states_adopted",
        /// Size of the records sent.
        pub state_bytes = "state_bytes",
        /// Synchronisations that ended by a timeout.
        pub sync_timeouts = "sync_timeouts",
        /// Mobiles without handoff because the table is full.
        pub table_full = "table_full",
        /// Claims with this station's own number, which are refused: another station has the same
        /// name, or this one is among its own neighbours.
        pub own_number = "own_number",
    }
}

/// A mobile as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoffView {
    /// The mobile.
    pub mobile: KeyId,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// This station's role.
    pub role: Role,
    /// The highest link epoch known.
    pub epoch: u64,
    /// The neighbour that has it.
    pub elsewhere: Option<PeerId>,
    /// Neighbours in its group.
    pub members: usize,
    /// The number of its group, if this station has joined it.
    pub group: Option<u16>,
    /// Packets buffered.
    pub buffered_packets: usize,
    /// Bytes of memory of the buffered packets.
    pub buffered_bytes: usize,
    /// Times that it came here from another station.
    pub handoffs: u64,
    /// From its registration to the end of the last synchronisation.
    pub last_sync: Option<Duration>,
}

/// One station's part in the handoffs of all its mobiles. See the [module](super).
///
/// The settings limit its size: mobiles, neighbours, buffered bytes.
#[derive(Debug)]
pub struct Handoff<C> {
    settings: HandoffSettings,
    peers: Vec<PeerId>,
    mobiles: BTreeMap<KeyId, Mobile<C>>,
    by_address: BTreeMap<IpAddr, KeyId>,
    /// Mobiles for which each group is joined.
    groups: BTreeMap<u16, usize>,
    due: BTreeSet<(Instant, KeyId)>,
    buffered_bytes: usize,
    counters: HandoffCounters,
}

type Actions<C> = Vec<HandoffAction<C>>;

impl<C: Copied> Handoff<C> {
    /// A station without mobiles.
    pub fn new(settings: HandoffSettings, peers: impl IntoIterator<Item = PeerId>) -> Self {
        Self {
            settings,
            peers: peers.into_iter().collect(),
            mobiles: BTreeMap::new(),
            by_address: BTreeMap::new(),
            groups: BTreeMap::new(),
            due: BTreeSet::new(),
            buffered_bytes: 0,
            counters: HandoffCounters::default(),
        }
    }

    /// Handles a mobile's report about its link here: up, or down soon.
    pub fn handle_notice(&mut self, notice: &LinkNotice, now: Instant, actions: &mut Actions<C>) {
        match notice.event {
            LinkEvent::Up => self.handle_registration(notice, now, actions),
            LinkEvent::GoingDownSoon(_) => self.request_buffering(notice.key, now, actions),
            LinkEvent::Down => {}
        }
        self.schedule(notice.key);
    }

    /// Requests the neighbours to buffer, because the mobile with this address will leave.
    pub fn prepare(&mut self, address: IpAddr, now: Instant, actions: &mut Actions<C>) {
        if let Some(key) = self.by_address.get(&address).copied() {
            self.request_buffering(key, now, actions);
            self.schedule(key);
        }
    }

    /// Handles a message of a neighbour.
    pub fn handle_message(
        &mut self,
        from: PeerId,
        message: Message,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        let mobile = message.mobile;
        match message.body {
            Body::Status(status) => self.handle_status(from, mobile, &status, now, actions),
            Body::TakeOver(claim) => self.handle_take_over(from, mobile, &claim, now, actions),
            Body::Yours(claim) => self.take_back(mobile, &claim, now, actions),
            Body::Answer { epoch, outcome } => {
                self.handle_answer(from, mobile, epoch, outcome, now, actions);
            }
            Body::State(part) => self.handle_state(from, mobile, &part, now, actions),
            Body::StateReceived { epoch, number } => {
                self.handle_state_received(from, mobile, epoch, number, now, actions);
            }
            Body::Want(range) => self.handle_want(from, mobile, range, actions),
            Body::Given(range) => self.handle_given(from, mobile, range, now, actions),
        }
        self.schedule(mobile);
    }

    fn handle_state_received(
        &mut self,
        from: PeerId,
        key: KeyId,
        epoch: u64,
        number: u16,
        now: Instant,
        actions: &mut Actions<C>,
    ) {
        if let Some(known) = self.mobiles.get_mut(&key) {
            for (to, sent_epoch, sending) in &mut known.sendings {
                if *to == from && *sent_epoch == epoch {
                    sending.acknowledge(number);
                }
            }
            transmit(known, now, actions);
        }
    }

    /// Notifies a neighbour that has restarted which mobiles it had.
    pub fn handle_restart(&self, peer: PeerId, actions: &mut Actions<C>) {
        let had = self.mobiles.values();
        let had = had.filter(|one| one.claimed_by == Some(peer) && one.owner != Owner::Me);
        actions.extend(had.map(|mobile| HandoffAction::Send {
            to: peer,
            message: mobile.message(Body::Yours(mobile.claim_to_send())),
        }));
    }

    /// Handles a copy of a packet, sent to the group or to this station.
    pub fn handle_copy(&mut self, mobile: KeyId, copy: C, now: Instant, actions: &mut Actions<C>) {
        self.counters.copies += 1;
        let known = self.mobiles.get(&mobile);
        let address = copy.segment().to.address;
        // A faulty neighbour must not have packets for others routed here.
        let known = known.filter(|known| known.addresses.contains(&address));
        match known.map(Mobile::role) {
            None | Some(Role::Idle) => {}
            Some(Role::Forwarding) => {
                self.counters.delivered += 1;
                actions.push(HandoffAction::Deliver(copy));
            }
            Some(Role::Synchronising) if !self.has_room(mobile, core::slice::from_ref(&copy)) => {
                self.counters.delivered += 1;
                actions.push(HandoffAction::Deliver(copy));
            }
            Some(Role::Buffering | Role::Synchronising) => {
                let (flow, segment) = (flow_of(&copy), copy.segment());
                let range = (segment.seq, segment.end());
                self.keep(mobile, copy, now);
                self.note_kept(mobile, &flow, range);
                self.try_to_finish(mobile, now, actions);
                self.schedule(mobile);
            }
        }
    }

    /// What the caller must do with a packet for this address from the wired route.
    pub fn arrival(&self, address: IpAddr, now: Instant) -> Arrival {
        let key = self.by_address.get(&address);
        let Some(mobile) = key.and_then(|key| self.mobiles.get(key)) else {
            return Arrival {
                copy: None,
                disposition: Disposition::Deliver,
            };
        };
        let copy = mobile
            .has_members(now)
            .then(|| (mobile.key, self.settings.group_of(mobile.key.0)));
        let disposition = match mobile.role() {
            Role::Synchronising => Disposition::Keep(mobile.key),
            Role::Forwarding => Disposition::Deliver,
            // No owner is known: plain forwarding.
            _ if mobile.elsewhere(now).is_none() => Disposition::Deliver,
            Role::Buffering => Disposition::Keep(mobile.key),
            Role::Idle => Disposition::Elsewhere,
        };
        Arrival { copy, disposition }
    }

    /// True if there is room for all of these. Call it before [`keep`](Self::keep) for a packet of
    /// [`Disposition::Keep`]. Without room the packet goes to the engine at once: a limit must not drop
    /// packets of a mobile that is here. True for a mobile elsewhere, which gets them there.
    pub fn has_room(&self, mobile: KeyId, copies: &[C]) -> bool {
        let here = self.mobiles.get(&mobile);
        let Some(known) = here.filter(|one| one.owner == Owner::Me) else {
            return true;
        };
        let bytes = copies
            .iter()
            .map(|copy| Buffer::<C>::taken_by(copy.bytes()));
        let bytes: usize = bytes.sum();
        known.buffer.bytes() + bytes <= self.settings.mobile_buffer_bytes_max
            && self.buffered_bytes + bytes <= self.settings.buffer_bytes_max
    }

    /// Buffers a packet of [`Disposition::Keep`], or one that the engine has released.
    pub fn keep(&mut self, mobile: KeyId, copy: C, now: Instant) {
        let Some(known) = self.mobiles.get_mut(&mobile) else {
            return;
        };
        let before = known.buffer.bytes();
        let bytes = Buffer::<C>::taken_by(copy.bytes());
        if self.buffered_bytes + bytes > self.settings.buffer_bytes_max {
            self.counters.overflowed += 1;
            return;
        }
        let bytes_max = self.settings.mobile_buffer_bytes_max;
        let drops_newest = now < known.drop_newest_until;
        self.counters.kept += 1;
        self.counters.overflowed += known.buffer.push(copy, bytes_max, drops_newest, now);
        self.buffered_bytes = self.buffered_bytes - before + known.buffer.bytes();
    }

    /// True if packets of the mobile with this address wait for its ACK. Then call
    /// [`handle_uplink`](Self::handle_uplink) with its segments.
    pub fn wants_uplink(&self, address: IpAddr) -> bool {
        let key = self.by_address.get(&address);
        key.and_then(|key| self.mobiles.get(key))
            .is_some_and(|mobile| mobile.unsynchronised)
    }

    /// All mobiles, in the order of their keys.
    pub fn views(&self, now: Instant) -> impl Iterator<Item = HandoffView> + '_ {
        self.mobiles.values().map(move |mobile| HandoffView {
            mobile: mobile.key,
            addresses: mobile.addresses.clone(),
            role: mobile.role(),
            epoch: mobile.claim.0,
            elsewhere: mobile.elsewhere(now),
            members: mobile.members.iter().filter(|one| one.1 > now).count(),
            group: mobile.joined.then(|| self.settings.group_of(mobile.key.0)),
            buffered_packets: mobile.buffer.len(),
            buffered_bytes: mobile.buffer.bytes(),
            handoffs: mobile.handoffs,
            last_sync: mobile.last_sync,
        })
    }

    /// The counters since the start.
    pub const fn counters(&self) -> HandoffCounters {
        self.counters
    }

    /// Bytes of memory of all buffered packets.
    pub const fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Returns the mobile with this key, a new one if it is unknown. At the limit it forgets an idle
    /// mobile; `None` if there is none.
    fn entry(&mut self, key: KeyId) -> Option<&mut Mobile<C>> {
        if !self.mobiles.contains_key(&key) && self.mobiles.len() >= self.settings.mobiles_max {
            let idle = self.mobiles.values().find(|one| one.is_idle());
            let Some(idle) = idle.map(|one| one.key) else {
                self.counters.table_full += 1;
                return None;
            };
            self.forget(idle);
        }
        Some(self.mobiles.entry(key).or_insert_with(|| Mobile::new(key)))
    }

    fn forget(&mut self, key: KeyId) {
        self.set_addresses(key, &[]);
        if let Some(at) = self.mobiles.remove(&key).and_then(|one| one.scheduled) {
            self.due.remove(&(at, key));
        }
    }

    /// Sets the mobile's addresses, and removes them from other mobiles.
    fn set_addresses(&mut self, key: KeyId, addresses: &[IpAddr]) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if mobile.addresses == addresses {
            return;
        }
        for address in core::mem::replace(&mut mobile.addresses, addresses.to_vec()) {
            if self.by_address.get(&address) == Some(&key) {
                self.by_address.remove(&address);
            }
        }
        for address in addresses {
            if let Some(other) = self.by_address.insert(*address, key)
                && let Some(other) = self
                    .mobiles
                    .get_mut(&other)
                    .filter(|other| other.key != key)
            {
                other.addresses.retain(|one| one != address);
            }
        }
    }

    /// Joins the mobile's group, unless it is joined.
    fn join(&mut self, key: KeyId, actions: &mut Actions<C>) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        if core::mem::replace(&mut mobile.joined, true) {
            return;
        }
        let group = self.settings.group_of(key.0);
        let count = self.groups.entry(group).or_default();
        *count += 1;
        if *count == 1 {
            actions.push(HandoffAction::Join(group));
        }
    }

    /// Leaves the mobile's group and clears its buffer.
    fn leave(&mut self, key: KeyId, actions: &mut Actions<C>) {
        let Some(mobile) = self.mobiles.get_mut(&key) else {
            return;
        };
        mobile.buffering_until = None;
        mobile.announce_at = None;
        self.buffered_bytes -= mobile.buffer.bytes();
        mobile.buffer.clear();
        if !core::mem::replace(&mut mobile.joined, false) {
            return;
        }
        let group = self.settings.group_of(key.0);
        let Some(count) = self.groups.get_mut(&group) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.groups.remove(&group);
            actions.push(HandoffAction::Leave(group));
        }
    }

    /// The station's role for the mobile, for its neighbours.
    fn status(&self, key: KeyId, now: Instant) -> Option<Message> {
        let mobile = self.mobiles.get(&key)?;
        let prepare = if self.settings.always {
            self.settings.buffer_time
        } else {
            mobile.prepared_until.saturating_since(now)
        };
        let is_here = mobile.owner == Owner::Me;
        let prepare_ms = if is_here { prepare.as_millis() } else { 0 };
        Some(mobile.message(Body::Status(Status {
            claim: Claim {
                station: self.settings.station,
                ..mobile.claim_to_send()
            },
            role: mobile.role(),
            prepare_ms: u32::try_from(prepare_ms).unwrap_or(u32::MAX),
        })))
    }

    /// Updates `buffered_bytes`: the mobile's part was `before`.
    fn recount(&mut self, key: KeyId, before: usize) {
        let after = self
            .mobiles
            .get(&key)
            .map_or(0, |mobile| mobile.buffer.bytes());
        self.buffered_bytes = self.buffered_bytes - before + after;
    }
}

fn send_to_all<C>(peers: &[PeerId], message: &Message, actions: &mut Actions<C>) {
    actions.extend(peers.iter().map(|to| HandoffAction::Send {
        to: *to,
        message: message.clone(),
    }));
}

/// Sends the datagrams of the mobile's transfers that are due.
fn transmit<C>(mobile: &mut Mobile<C>, now: Instant, actions: &mut Actions<C>) {
    let key = mobile.key;
    for (to, epoch, sending) in &mut mobile.sendings {
        let count = sending.count();
        for (number, records) in sending.poll_transmit(now) {
            let part = StatePart {
                epoch: *epoch,
                number,
                count,
                records,
            };
            actions.push(send(*to, key, Body::State(part)));
        }
    }
}

fn send<C>(to: PeerId, mobile: KeyId, body: Body) -> HandoffAction<C> {
    let message = Message { mobile, body };
    HandoffAction::Send { to, message }
}
