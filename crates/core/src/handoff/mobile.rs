// SPDX-License-Identifier: Apache-2.0
//! A station's state of one mobile: who has it, and the transfers and packets for it.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::{Instant, SeqNum};

use super::buffer::Buffer;
use super::message::{Body, Claim, FlowRange, Message};
use super::peers::PeerId;
use super::transfer::{Receiving, Sending};
use super::{Copied, Role, StationId};
use crate::FlowKey;
use crate::signal::KeyId;

/// Who has a mobile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Owner {
    /// No known station.
    #[default]
    Unknown,
    /// This station.
    Me,
    /// A neighbour that has reported so recently.
    Peer(PeerId),
}

/// A request to several neighbours, repeated until each has answered.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub unanswered: Vec<PeerId>,
    pub tries: u32,
    pub due: Instant,
}

impl Requests {
    /// A request that is sent now, and repeated after `retry`.
    pub(super) fn new(peers: &[PeerId], retry: Duration, now: Instant) -> Option<Self> {
        (!peers.is_empty()).then(|| Self {
            unanswered: peers.to_vec(),
            tries: 1,
            due: now + retry,
        })
    }

    /// Notes the answer of `peer`. True if it was the last.
    pub(super) fn answered(&mut self, peer: PeerId) -> bool {
        self.unanswered.retain(|other| *other != peer);
        self.unanswered.is_empty()
    }
}

/// Notes the answer of a neighbour; the last one ends the request.
pub(super) fn answered(requests: &mut Option<Requests>, peer: PeerId) {
    if requests
        .as_mut()
        .is_some_and(|requests| requests.answered(peer))
    {
        *requests = None;
    }
}

/// The state of the previous station is awaited.
#[derive(Clone, Debug)]
pub(super) struct Sync {
    pub since: Instant,
    pub until: Instant,
    /// All state of the previous station has arrived.
    pub is_complete: bool,
    /// Requested bytes that have not arrived, and who has them.
    pub wanted: Vec<(PeerId, FlowRange)>,
    /// The next request for them.
    pub request_at: Option<Instant>,
}

/// A mobile.
#[derive(Clone, Debug)]
pub(super) struct Mobile<C> {
    pub key: KeyId,
    pub addresses: Vec<IpAddr>,
    /// The highest claim known: the epoch and the station.
    pub claim: (u64, StationId),
    pub owner: Owner,
    /// The epoch with which it came here; [`claim`](Self::claim) may have risen since.
    pub arrival_epoch: u64,
    /// The neighbour that has sent `claim`, even if it is silent now.
    pub claimed_by: Option<PeerId>,
    /// The mobile moved on before the old station had sent the state of all of its flows.
    pub has_partial_state: bool,
    /// Until then a full buffer drops the newest packets, not the oldest: the station that has the mobile
    /// now may request what the engine here had cached.
    pub drop_newest_until: Instant,
    /// A neighbour's claim is valid until then.
    pub owner_until: Instant,
    /// Buffering until then, while the mobile is elsewhere.
    pub buffering_until: Option<Instant>,
    /// Neighbours in the group, and until when.
    pub members: Vec<(PeerId, Instant)>,
    pub joined: bool,
    pub take_over: Option<Requests>,
    pub preparing: Option<Requests>,
    /// Neighbours were requested to buffer until then.
    pub prepared_until: Instant,
    pub sync: Option<Sync>,
    /// The state that arrives, and the station that sends it.
    pub receiving: Option<(PeerId, Receiving)>,
    /// The MH's acknowledged sequence numbers, from the old station.
    pub acked: BTreeMap<FlowKey, SeqNum>,
    /// Packets of flows without a state are buffered; an ACK of the MH will show what it lacks.
    pub unsynchronised: bool,
    pub sendings: Vec<(PeerId, u64, Sending)>,
    pub announce_at: Option<Instant>,
    pub buffer: Buffer<C>,
    pub scheduled: Option<Instant>,
    /// Handoffs to this station, and the duration of the last.
    pub handoffs: u64,
    pub last_sync: Option<Duration>,
}

impl<C: Copied> Mobile<C> {
    pub(super) fn new(key: KeyId) -> Self {
        Self {
            key,
            addresses: Vec::new(),
            claim: (0, StationId::default()),
            owner: Owner::Unknown,
            arrival_epoch: 0,
            claimed_by: None,
            has_partial_state: false,
            drop_newest_until: Instant::ZERO,
            owner_until: Instant::ZERO,
            buffering_until: None,
            members: Vec::new(),
            joined: false,
            take_over: None,
            preparing: None,
            prepared_until: Instant::ZERO,
            sync: None,
            receiving: None,
            acked: BTreeMap::new(),
            unsynchronised: false,
            sendings: Vec::new(),
            announce_at: None,
            buffer: Buffer::default(),
            scheduled: None,
            handoffs: 0,
            last_sync: None,
        }
    }

    /// The highest claim known, as a message contains it.
    pub(super) fn claim_to_send(&self) -> Claim {
        Claim {
            epoch: self.claim.0,
            station: self.claim.1,
            addresses: self.addresses.clone(),
        }
    }

    /// The mobile has come here.
    pub(super) fn take_over_message(&self) -> Message {
        self.message(Body::TakeOver(self.claim_to_send()))
    }

    pub(super) const fn message(&self, body: Body) -> Message {
        Message {
            mobile: self.key,
            body,
        }
    }

    pub(super) fn role(&self) -> Role {
        match (self.owner, &self.sync, self.buffering_until) {
            (Owner::Me, Some(_), _) => Role::Synchronising,
            (Owner::Me, None, _) => Role::Forwarding,
            (_, _, Some(_)) => Role::Buffering,
            (_, _, None) => Role::Idle,
        }
    }

    /// True if a neighbour is in the group.
    pub(super) fn has_members(&self, now: Instant) -> bool {
        self.members.iter().any(|(_, until)| *until > now)
    }

    /// Notes that a neighbour is in the group until `until`, or that it has left.
    pub(super) fn note_member(&mut self, peer: PeerId, until: Option<Instant>) {
        self.members.retain(|(other, _)| *other != peer);
        self.members.extend(until.map(|until| (peer, until)));
    }

    /// The neighbour that has it, if its claim is valid.
    pub(super) fn elsewhere(&self, now: Instant) -> Option<PeerId> {
        match self.owner {
            Owner::Peer(peer) if self.owner_until > now => Some(peer),
            _ => None,
        }
    }

    /// True if a message is about the take-over by this station: with the epoch with which the mobile
    /// came, or a later one that it has raised here.
    pub(super) fn is_of_this_take_over(&self, epoch: u64) -> bool {
        self.owner == Owner::Me && (self.arrival_epoch..=self.claim.0).contains(&epoch)
    }

    /// The mobile has moved on to another neighbour with this epoch: the part of its state that has not
    /// arrived goes there too.
    pub(super) fn pass_on(&mut self, to: PeerId, epoch: u64, now: Instant) {
        self.sendings.retain(|(_, _, sending)| !sending.is_over());
        if self.sendings.iter().all(|(old, _, _)| *old == to) {
            return;
        }
        self.sendings.retain(|(old, _, _)| *old != to);
        self.sendings.truncate(1);
        for (old, old_epoch, sending) in &mut self.sendings {
            (*old, *old_epoch) = (to, epoch);
            sending.restart(now);
        }
    }

    /// True if forgetting it loses nothing but its last claim.
    pub(super) fn is_idle(&self) -> bool {
        self.owner == Owner::Unknown
            && self.buffering_until.is_none()
            && !self.joined
            && self.buffer.len() == 0
            && self.sendings.is_empty()
    }

    /// Clears the state of an owner.
    pub(super) fn end_ownership(&mut self) {
        self.take_over = None;
        self.preparing = None;
        self.prepared_until = Instant::ZERO;
        self.sync = None;
        self.receiving = None;
        self.acked.clear();
        self.unsynchronised = false;
    }

    /// The next deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let requests =
            [&self.take_over, &self.preparing].map(|one| one.as_ref().map(|one| one.due));
        let sendings = self.sendings.iter().filter_map(|one| one.2.poll_timeout());
        let owner = matches!(self.owner, Owner::Peer(_)).then_some(self.owner_until);
        let others = [
            self.sync.as_ref().map(|sync| sync.until),
            self.sync.as_ref().and_then(|sync| sync.request_at),
            self.announce_at,
            self.buffering_until,
            owner,
        ];
        let all = requests.into_iter().chain(others).flatten();
        all.chain(sendings).min()
    }
}
