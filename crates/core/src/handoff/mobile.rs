// SPDX-License-Identifier: Apache-2.0
//! One mobile as a station knows it: who has it, and what is under way for it.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::{Instant, SeqNum};

use super::buffer::Buffer;
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
    /// A neighbour that has reported so lately.
    Peer(PeerId),
}

/// A request to several neighbours, repeated until each has answered.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub unanswered: Vec<PeerId>,
    pub tries: u32,
    pub due: Instant,
}

impl Asking {
    /// Asked for the first time now, and due again after `retry`.
    pub(super) fn first(peers: &[PeerId], retry: Duration, now: Instant) -> Option<Self> {
        (!peers.is_empty()).then(|| Self {
            unanswered: peers.to_vec(),
            tries: 1,
            due: now + retry,
        })
    }

    /// `peer` has answered; true if it was the last.
    pub(super) fn answered(&mut self, peer: PeerId) -> bool {
        self.unanswered.retain(|other| *other != peer);
        self.unanswered.is_empty()
    }
}

/// Removes a neighbour that has answered, and the question with the last of them.
pub(super) fn answered(asking: &mut Option<Asking>, peer: PeerId) {
    if asking.as_mut().is_some_and(|asking| asking.answered(peer)) {
        *asking = None;
    }
}

/// Bytes of a flow that a station before was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub of: PeerId,
    pub flow: FlowKey,
    pub from: SeqNum,
    pub to: SeqNum,
}

/// The state of the station before is awaited.
#[derive(Clone, Debug)]
pub(super) struct Sync {
    pub since: Instant,
    pub until: Instant,
    /// The station before has answered, and all it knows has come.
    pub is_complete: bool,
    /// Bytes asked for and not come, each range for itself.
    pub wanted: Vec<Wanted>,
    /// They are asked for again then.
    pub ask_again_at: Option<Instant>,
}

/// A mobile.
#[derive(Clone, Debug)]
pub(super) struct Mobile<C> {
    pub key: KeyId,
    pub addresses: Vec<IpAddr>,
    /// The highest claim known: the epoch, and who has made it.
    pub claim: (u64, StationId),
    pub owner: Owner,
    /// The epoch with which it came here; [`claim`](Self::claim) may have risen since.
    pub came_with: u64,
    /// The neighbour whose claim `claim` is, however long it has been silent.
    pub claimed_by: Option<PeerId>,
    /// It moved on before the old station had sent the state of all of its flows.
    pub has_partial_state: bool,
    /// What is kept until then is kept from the front: the station that has the mobile now
    /// may ask for what the engine here had cached.
    pub front_until: Instant,
    /// A neighbour's ownership is believed until then.
    pub owner_until: Instant,
    /// Buffering until then, while the mobile is elsewhere.
    pub buffering_until: Option<Instant>,
    /// Neighbours in the group, until when that is believed.
    pub members: Vec<(PeerId, Instant)>,
    pub joined: bool,
    pub take_over: Option<Asking>,
    pub preparing: Option<Asking>,
    /// Neighbours were asked to buffer until then.
    pub prepared_until: Instant,
    pub sync: Option<Sync>,
    /// From whom state comes.
    pub receiving: Option<(PeerId, Receiving)>,
    /// The MH's acknowledged sequence numbers, from the old station.
    pub acked: BTreeMap<FlowKey, SeqNum>,
    /// Packets are buffered of flows without a state; an ACK of the MH will show it.
    pub unsynchronised: bool,
    pub sendings: Vec<(PeerId, u64, Sending)>,
    pub announce_at: Option<Instant>,
    pub buffer: Buffer<C>,
    pub scheduled: Option<Instant>,
    /// Times that it came here from another station, and how long that took last.
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
            came_with: 0,
            claimed_by: None,
            has_partial_state: false,
            front_until: Instant::ZERO,
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

    pub(super) fn role(&self) -> Role {
        match (self.owner, &self.sync, self.buffering_until) {
            (Owner::Me, Some(_), _) => Role::Synchronising,
            (Owner::Me, None, _) => Role::Forwarding,
            (_, _, Some(_)) => Role::Buffering,
            (_, _, None) => Role::Idle,
        }
    }

    /// Some neighbour is in the group.
    pub(super) fn has_members(&self, now: Instant) -> bool {
        self.members.iter().any(|(_, until)| *until > now)
    }

    /// A neighbour is in the group until `until`; or is not any more.
    pub(super) fn note_member(&mut self, peer: PeerId, until: Option<Instant>) {
        self.members.retain(|(other, _)| *other != peer);
        self.members.extend(until.map(|until| (peer, until)));
    }

    /// The neighbour that has it, if one is believed to.
    pub(super) fn elsewhere(&self, now: Instant) -> Option<PeerId> {
        match self.owner {
            Owner::Peer(peer) if self.owner_until > now => Some(peer),
            _ => None,
        }
    }

    /// A word about the take-over by this station: of the epoch with which the mobile came,
    /// or of a later one that it has raised here.
    pub(super) fn is_of_this_take_over(&self, epoch: u64) -> bool {
        self.owner == Owner::Me && (self.came_with..=self.claim.0).contains(&epoch)
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

    /// Nothing is lost but its last claim if it is forgotten.
    pub(super) fn is_idle(&self) -> bool {
        self.owner == Owner::Unknown
            && self.buffering_until.is_none()
            && !self.joined
            && self.buffer.len() == 0
            && self.sendings.is_empty()
    }

    /// Nothing more that belongs to having the mobile.
    pub(super) fn end_ownership(&mut self) {
        self.take_over = None;
        self.preparing = None;
        self.prepared_until = Instant::ZERO;
        self.sync = None;
        self.receiving = None;
        self.acked.clear();
        self.unsynchronised = false;
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let asking = [&self.take_over, &self.preparing].map(|one| one.as_ref().map(|one| one.due));
        let sendings = self.sendings.iter().filter_map(|one| one.2.poll_timeout());
        let owner = matches!(self.owner, Owner::Peer(_)).then_some(self.owner_until);
        let others = [
            self.sync.as_ref().map(|sync| sync.until),
            self.sync.as_ref().and_then(|sync| sync.ask_again_at),
            self.announce_at,
            self.buffering_until,
            owner,
        ];
        let all = asking.into_iter().chain(others).flatten();
        all.chain(sendings).min()
    }
}
