// SPDX-License-Identifier: Apache-2.0
//! The gateway's half: datagrams in, notices about links out.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use holdfast_wire::{Duration, Instant};

use super::Prefix;
use super::key::MobileKey;
use super::message::{
    Challenge, Incarnation, NO_CHALLENGE, RefusalReason, Reply, ReplyKind, Request,
};
use super::rejection::{Rejection, RejectionCounters};
use super::seal::{self, Recipient};
use crate::link_state::LinkState;
use crate::sealed::KeyId;
use crate::sealed::NONCE_BYTES;

mod notice;
mod replace;

pub use notice::{AbilitiesNotice, LinkNotice};

/// Fresh random bytes for one datagram. They must come from the operating system's
/// generator (or from a seed in a simulation) and never be used again.
#[derive(Clone, Debug)]
pub struct Entropy {
    /// For the reply's nonce.
    pub nonce: [u8; NONCE_BYTES],
    /// For a challenge, should one be needed.
    pub challenge: [u8; 16],
}

/// A mobile that may send signals.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Its name, for people.
    pub name: String,
    /// Its key.
    pub key: MobileKey,
    /// The addresses that it may register.
    pub allowed: Vec<Prefix>,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was believed.
    Believed,
    /// It changed nothing.
    Rejected(Rejection),
}

/// What a datagram leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handled {
    /// What became of it.
    pub outcome: Outcome,
    /// What it changed; `None` also for a believed repetition.
    pub notice: Option<LinkNotice>,
    /// The mobile's abilities; for every believed message of a link that is up.
    pub abilities: Option<AbilitiesNotice>,
    /// A datagram for the datagram's sender, never longer than what came.
    pub reply: Option<Vec<u8>>,
}

/// What is believed of a mobile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// The state of its link.
    pub state: LinkState,
    /// The link epoch.
    pub epoch: u64,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// When the state was first reported.
    pub since: Instant,
    /// When its newest message came.
    pub received: Instant,
    /// The sender's address of that message.
    pub received_from: SocketAddr,
}

crate::counters! {
    /// What the gateway counts.
    pub struct PeerCounters {
        /// Signals of mobiles that were believed.
        pub believed = "believed",
        /// Challenges sent to mobiles.
        pub challenges = "challenges",
        ;
        /// Messages that changed nothing.
        pub rejections: RejectionCounters,
    }
}

/// A set of mobiles that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeersError {
    /// Two mobiles, by their names, have keys of the same id.
    SameKeyId(String, String),
}

/// The session of a mobile: the run of its daemon that answered a challenge.
#[derive(Clone, Debug)]
struct Session {
    challenge: Challenge,
    incarnation: Incarnation,
    /// The highest counter believed.
    counter: u64,
}

/// One mobile.
#[derive(Clone, Debug)]
struct Peer {
    config: PeerConfig,
    /// The challenge for any sender, until it is answered. There is one for each mobile, whatever
    /// arrives from any address.
    pending: Option<Challenge>,
    session: Option<Session>,
    view: Option<PeerView>,
    /// Another gateway has believed this link epoch: a message here must have a higher one.
    epoch_elsewhere: u64,
}

/// The gateway's half of the link signals, for all its mobiles.
///
/// Its size is fixed by the mobiles of the settings: no datagram makes it grow by more
/// than [`ADDRESSES_MAX`](super::ADDRESSES_MAX) addresses a mobile.
#[derive(Debug)]
pub struct GatewayPeers {
    peers: BTreeMap<KeyId, Peer>,
    /// Which mobile has registered an address.
    owners: BTreeMap<IpAddr, KeyId>,
    /// How long an address stays with a mobile that sends nothing.
    lifetime: Duration,
    counters: PeerCounters,
}

/// Why [`GatewayPeers::check`] does not accept a request.
struct Refused {
    rejection: Rejection,
    /// The reply to the sender, if that may be the mobile.
    reply: Option<ReplyKind>,
}

impl From<Rejection> for Refused {
    fn from(rejection: Rejection) -> Self {
        Self {
            rejection,
            reply: None,
        }
    }
}

impl GatewayPeers {
    /// No mobile is known yet. An address may go to another mobile when its owner has sent
    /// nothing for `lifetime`.
    pub fn new(
        configs: impl IntoIterator<Item = PeerConfig>,
        lifetime: Duration,
    ) -> Result<Self, PeersError> {
        let mut peers: BTreeMap<KeyId, Peer> = BTreeMap::new();
        for config in configs {
            let name = config.name.clone();
            let peer = Peer {
                config,
                pending: None,
                session: None,
                view: None,
                epoch_elsewhere: 0,
            };
            if let Some(other) = peers.insert(peer.config.key.id(), peer) {
                return Err(PeersError::SameKeyId(other.config.name, name));
            }
        }
        Ok(Self {
            peers,
            owners: BTreeMap::new(),
            lifetime,
            counters: PeerCounters::default(),
        })
    }

    /// Takes a datagram that came from `from`. A rejected one changes no state.
    pub fn handle_datagram(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        now: Instant,
        entropy: &Entropy,
    ) -> Handled {
        let (key, request) = match self.open(datagram) {
            Ok(opened) => opened,
            Err(rejection) => {
                self.counters.rejections.add(rejection);
                let outcome = Outcome::Rejected(rejection);
                return Handled {
                    outcome,
                    notice: None,
                    abilities: None,
                    reply: None,
                };
            }
        };
        let mut abilities = None;
        let (outcome, notice, reply) = match self.check(key, &request, now, entropy) {
            Ok(()) => {
                self.counters.believed += 1;
                let notice = self.believe(key, &request, from, now);
                abilities = AbilitiesNotice::of(&request, now + self.lifetime);
                (Outcome::Believed, notice, Some(ReplyKind::Ack))
            }
            Err(Refused { rejection, reply }) => {
                self.counters.rejections.add(rejection);
                (Outcome::Rejected(rejection), None, reply)
            }
        };
        let reply = reply.map(|kind| self.seal_reply(key, kind, &request, &entropy.nonce));
        debug_assert!(
            reply
                .as_ref()
                .is_none_or(|reply| reply.len() <= datagram.len())
        );
        Handled {
            outcome,
            notice,
            abilities,
            reply,
        }
    }

    /// Another gateway has seen this link epoch of the mobile: from now on a message is
    /// believed here only with a higher one, and the mobile is challenged to raise its own.
    pub fn raise_epoch(&mut self, key: KeyId, epoch: u64) {
        if let Some(peer) = self.peers.get_mut(&key) {
            peer.epoch_elsewhere = peer.epoch_elsewhere.max(epoch);
        }
    }

    /// What is believed of the mobile with this key; `None` before its first message.
    pub fn view(&self, key: KeyId) -> Option<&PeerView> {
        self.peers.get(&key)?.view.as_ref()
    }

    /// All mobiles in the order of their keys, with what is believed of them.
    pub fn iter(&self) -> impl Iterator<Item = (&PeerConfig, Option<&PeerView>)> {
        self.peers
            .values()
            .map(|peer| (&peer.config, peer.view.as_ref()))
    }

    /// The mobile that has registered `address`.
    pub fn owner(&self, address: IpAddr) -> Option<KeyId> {
        self.owners.get(&address).copied()
    }

    /// What was counted since the start.
    pub const fn counters(&self) -> &PeerCounters {
        &self.counters
    }

    fn open(&self, datagram: &[u8]) -> Result<(KeyId, Request), Rejection> {
        let id = seal::key_id(datagram, Recipient::Gateway)?;
        let peer = self.peers.get(&id).ok_or(Rejection::UnknownKey)?;
        let message = seal::open(&peer.config.key, datagram)?;
        Ok((id, Request::parse(&message)?))
    }

    /// Whether `request` is to be believed. Sets a pending challenge at most.
    fn check(
        &mut self,
        key: KeyId,
        request: &Request,
        now: Instant,
        entropy: &Entropy,
    ) -> Result<(), Refused> {
        let peer = self.peers.get_mut(&key).expect("its datagram was opened");
        let rebased = peer.check_freshness(request, entropy)?;
        peer.check_epoch(request, rebased)?;
        peer.check_epoch_elsewhere(request, entropy)?;
        peer.check_addresses(request)?;
        self.check_owners(key, request, now)
    }

    fn check_owners(&self, key: KeyId, request: &Request, now: Instant) -> Result<(), Refused> {
        let taken = request.addresses.iter().any(|address| {
            self.owner(*address).is_some_and(|owner| {
                let received = self.view(owner).map_or(Instant::ZERO, |view| view.received);
                owner != key && now.saturating_since(received) < self.lifetime
            })
        });
        if taken {
            return Err(Refused {
                rejection: Rejection::AddressTaken,
                reply: Some(ReplyKind::Refusal(RefusalReason::AddressTaken)),
            });
        }
        Ok(())
    }

    /// Applies a request that [`check`](Self::check) has accepted.
    fn believe(
        &mut self,
        key: KeyId,
        request: &Request,
        from: SocketAddr,
        now: Instant,
    ) -> Option<LinkNotice> {
        let mut addresses = request.addresses.clone();
        addresses.sort_unstable();
        addresses.dedup();
        for address in &addresses {
            if let Some(before) = self.owners.insert(*address, key).filter(|id| *id != key) {
                self.take_from(before, *address);
            }
        }
        let peer = self.peers.get_mut(&key).expect("its datagram was opened");
        peer.session = Some(Session {
            challenge: request.challenge,
            incarnation: request.incarnation,
            counter: request.counter,
        });
        if peer.pending == Some(request.challenge) {
            peer.pending = None;
        }
        let before = peer.view.take();
        let event = notice::event(before.as_ref(), request, &addresses);
        let state = request.kind.state();
        let since = match &before {
            Some(view) if view.state == state && view.epoch == request.epoch => view.since,
            _ => now,
        };
        let removed: Vec<IpAddr> = before
            .map_or(Vec::new(), |view| view.addresses)
            .into_iter()
            .filter(|address| addresses.binary_search(address).is_err())
            .collect();
        peer.view = Some(PeerView {
            state,
            epoch: request.epoch,
            addresses: addresses.clone(),
            since,
            received: now,
            received_from: from,
        });
        for address in &removed {
            self.owners.remove(address);
        }
        let epoch = request.epoch;
        event.map(|event| LinkNotice {
            key,
            event,
            addresses,
            removed,
            epoch,
        })
    }

    /// A mobile that was silent for long loses an address to another.
    fn take_from(&mut self, key: KeyId, address: IpAddr) {
        if let Some(view) = self.peers.get_mut(&key).and_then(|peer| peer.view.as_mut()) {
            view.addresses.retain(|other| *other != address);
        }
    }

    fn seal_reply(
        &mut self,
        key: KeyId,
        kind: ReplyKind,
        request: &Request,
        nonce: &[u8; NONCE_BYTES],
    ) -> Vec<u8> {
        if matches!(kind, ReplyKind::Challenge(_)) {
            self.counters.challenges += 1;
        }
        let peer = &self.peers[&key];
        let reply = Reply {
            kind,
            incarnation: request.incarnation,
            epoch: peer.epoch(),
            counter: request.counter,
        };
        seal::seal(&peer.config.key, Recipient::Mobile, nonce, &reply.emit())
    }
}

impl Peer {
    /// The highest link epoch known, here or elsewhere.
    fn epoch(&self) -> u64 {
        let here = self.view.as_ref().map_or(0, |view| view.epoch);
        here.max(self.epoch_elsewhere)
    }

    /// Checks that nothing newer was believed. `Ok(true)`: the request is from a new run of the
    /// mobile's daemon, or from the first.
    fn check_freshness(&mut self, request: &Request, entropy: &Entropy) -> Result<bool, Refused> {
        let session = self.session.as_ref();
        let same_run = session.is_some_and(|session| session.incarnation == request.incarnation);
        let current =
            session.is_some_and(|session| session.challenge == request.challenge) && same_run;
        let answers = request.challenge != NO_CHALLENGE && self.pending == Some(request.challenge);
        if !current && !answers {
            return Err(Refused {
                rejection: Rejection::NoSession,
                reply: Some(ReplyKind::Challenge(self.challenge(entropy))),
            });
        }
        if same_run && session.is_some_and(|session| request.counter <= session.counter) {
            return Err(Rejection::Replayed.into());
        }
        Ok(!same_run)
    }

    /// The challenge for a mobile without a session: the same one until it is answered, so
    /// that recorded requests neither cost state nor disturb a mobile that answers.
    fn challenge(&mut self, entropy: &Entropy) -> Challenge {
        *self.pending.get_or_insert(entropy.challenge)
    }

    /// Checks that the link's epoch and state do not go back.
    fn check_epoch(&self, request: &Request, new_run: bool) -> Result<(), Refused> {
        let Some(view) = &self.view else {
            return Ok(());
        };
        if new_run && request.epoch <= view.epoch {
            // The mobile did not know our epoch when it was challenged: challenge it again.
            return Err(Refused {
                rejection: Rejection::StaleEpoch,
                reply: self.pending.map(ReplyKind::Challenge),
            });
        }
        if (request.epoch, request.kind.state()) < (view.epoch, view.state) {
            return Err(Rejection::StaleEpoch.into());
        }
        Ok(())
    }

    /// Checks that the mobile knows of its registration at another gateway.
    fn check_epoch_elsewhere(
        &mut self,
        request: &Request,
        entropy: &Entropy,
    ) -> Result<(), Refused> {
        let leaves = request.kind.state() != LinkState::Up;
        if leaves || request.epoch > self.epoch_elsewhere || self.epoch_elsewhere == 0 {
            return Ok(());
        }
        Err(Refused {
            rejection: Rejection::StaleEpoch,
            reply: Some(ReplyKind::Challenge(self.challenge(entropy))),
        })
    }

    fn check_addresses(&self, request: &Request) -> Result<(), Refused> {
        let allowed = |address: &IpAddr| {
            self.config
                .allowed
                .iter()
                .any(|prefix| prefix.contains(*address))
        };
        if request.addresses.iter().all(allowed) {
            return Ok(());
        }
        Err(Refused {
            rejection: Rejection::AddressNotAllowed,
            reply: Some(ReplyKind::Refusal(RefusalReason::AddressNotAllowed)),
        })
    }
}

impl fmt::Display for PeersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameKeyId(one, other) => {
                write!(
                    f,
                    "the mobiles {one:?} and {other:?} have keys of the same id"
                )
            }
        }
    }
}

impl core::error::Error for PeersError {}
