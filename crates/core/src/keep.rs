// SPDX-License-Identifier: Apache-2.0
//! Keep the newest packets of an outage, of any IP protocol, for a link that comes and goes.
//!
//! While a link is up its packets stay in the kernel. While it is down the [`Keeper`] gets each packet for it,
//! and keeps the newest few of each flow. At link up it sends them, and senders in back-off go on.
//!
//! A *peer* is what can be away by itself: one mobile for a gateway, the whole link for a mobile.
//!
//! ```text
//!               no answer for too long                  a packet of the peer
//!   PASSING ------------------------------> SILENT -----------------------------+
//!     | ^                                     | down                            |
//!     | |      nothing is kept any more       v                                 v
//!     | +----------------------------- - - - - - - - - - - - - - - - - - -  RELEASING
//!     |                                                                         ^
//!     +-----------------------------------> DOWN -------------------------------+
//!        down (signal, carrier, command)            up, or a packet of the peer
//! ```
//!
//! SILENT is a guess: a packet still goes out as it comes, and only its copy is kept. A wrong guess
//! loses nothing and changes no order. DOWN is knowledge: packets wait.
//!
//! Not drawn: a report of link down leads from RELEASING to DOWN. A peer that is SILENT or DOWN for `age_max`
//! is given up when nothing is queued for it, unless it has no carrier: it is PASSING again.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use holdfast_wire::Instant;

use crate::link_state::{LinkEvent, LinkSource};
use crate::outage::{EndedOutages, Outage};

mod counters;
mod flow;
mod peer;
mod reload;
mod shelf;
#[cfg(test)]
mod tests;

pub use counters::KeepCounters;
pub use flow::PacketFlow;
pub use holdfast_settings::keep::KeepSettings;
use peer::{Began, Peer, Phase};
use shelf::Kept;

/// Packets that were in flight at link down arrive within this time.
const LATE_MAX: Duration = Duration::from_millis(100);

/// The keeper may keep this many bytes for each peer, however many it keeps for the others.
const PEER_BYTES_MIN: usize = 16 * shelf::COST_MIN;

/// The limit of outages that have ended and were not reported yet.
const OUTAGES_MAX: usize = 16_384;

/// One peer, by a number that its edge chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

/// What the kernel does with packets for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It gives each of them to the keeper.
    Take,
    /// The same, until the keeper has handled all packets that were taken. Then packets pass again.
    Drain,
}

/// What the keeper needs from its caller.
pub trait Edge<F> {
    /// Sends a packet out on the link.
    fn send(&mut self, frame: &F);
    /// Changes what becomes of the packets for a peer.
    fn set_mode(&mut self, peer: PeerId, mode: Mode);
    /// Takes no more packets because of the peer's silence, until a packet of the peer is seen.
    fn ignore_silence(&mut self, peer: PeerId);
}

/// How much the peer has sent of a flow lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Nothing: a one-way flow.
    None,
    /// Something: a two-way flow.
    Few,
    /// Something, and so much that an attacker would not send it only to get the copies.
    Many,
}

/// One packet that was taken on its way to a peer.
#[derive(Clone, Debug)]
pub struct Arrival<F> {
    /// Where it goes.
    pub peer: PeerId,
    /// Its flow.
    pub flow: PacketFlow,
    /// How much was seen of its flow from the peer not long ago.
    pub answers: Answers,
    /// Its length in memory, bytes.
    pub bytes: usize,
    /// Packets that it becomes on the wire: more than one for a super-segment.
    pub segments: u32,
    /// The packet.
    pub frame: F,
}

/// One peer as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// The peer.
    pub peer: PeerId,
    /// What reported link down, or silence.
    pub source: LinkSource,
    /// Its link is down, as far as is known.
    pub is_away: bool,
    /// Since when.
    pub since: Instant,
    /// Flows with kept packets.
    pub flows: usize,
    /// Bytes kept.
    pub bytes: usize,
}

/// Keeps the newest packets of the peers that are away. `F` is a packet.
#[derive(Debug)]
pub struct Keeper<F> {
    settings: KeepSettings,
    /// The peers that are not PASSING.
    peers: BTreeMap<PeerId, Peer<F>>,
    /// The peers that were given up while their links were reported down.
    given_up: BTreeMap<PeerId, Began>,
    ended_outages: EndedOutages<PeerId>,
    due: BTreeSet<(Instant, PeerId)>,
    /// Bytes kept for two-way and for one-way flows.
    used: [usize; 2],
    packets: u64,
    counters: KeepCounters,
}

impl<F> Keeper<F> {
    /// A keeper that has nothing yet.
    pub fn new(settings: KeepSettings) -> Self {
        Self {
            settings,
            peers: BTreeMap::new(),
            given_up: BTreeMap::new(),
            ended_outages: EndedOutages::new(OUTAGES_MAX),
            due: BTreeSet::new(),
            used: [0; 2],
            packets: 0,
            counters: KeepCounters::default(),
        }
    }

    /// A packet was taken on its way to a peer. `alarm`: the kernel has taken it because the peer does
    /// not answer, and not because the keeper has ordered it.
    pub fn handle_packet(
        &mut self,
        arrival: Arrival<F>,
        alarm: bool,
        now: Instant,
        edge: &mut impl Edge<F>,
    ) {
        self.counters.taken += 1;
        let id = arrival.peer;
        if alarm && !self.peers.contains_key(&id) {
            self.counters.silences += 1;
            // The peer was seen again since it was given up.
            self.given_up.remove(&id);
            self.peers
                .insert(id, Peer::new(Phase::Silent, LinkSource::Silence, now));
            // The kernel may have passed others on meanwhile, and would take them no longer.
            edge.set_mode(id, Mode::Take);
        }
        let Some(peer) = self.peers.get_mut(&id) else {
            self.counters.passed += 1;
            edge.send(&arrival.frame);
            return;
        };
        let flow = arrival.flow;
        let is_two_way = arrival.answers != Answers::None;
        let shelf = peer.shelf_of(&flow, is_two_way);
        let phase = peer.phase;
        let (keeps, sends) = match phase {
            Phase::Down => (true, false),
            Phase::Silent => (is_two_way && flow.may_repeat(), true),
            // It waits behind the kept packets of its own flow. Without these it is sent at once.
            Phase::Releasing if peer.shelves[shelf].holds(&flow) => {
                peer.earn_by_arrival(arrival.segments);
                (true, false)
            }
            Phase::Releasing => (false, true),
        };
        if is_two_way && phase != Phase::Releasing {
            peer.timer_at.get_or_insert(now);
        }
        let mut kept = Kept::new(arrival, self.packets, now);
        self.packets += 1;
        if sends {
            self.counters.passed += 1;
            edge.send(&kept.frame);
            kept.sent_at = Some(now);
            peer.sent_at = now;
        }
        if keeps {
            self.keep(id, shelf, flow, kept, edge);
        }
        match phase {
            Phase::Releasing => self.send_kept(id, now, edge),
            Phase::Down | Phase::Silent => self.schedule(id, now),
        }
    }

    /// Puts a packet on a shelf. The packets that it displaces are dropped, or sent if the link is up.
    fn keep(
        &mut self,
        id: PeerId,
        shelf: usize,
        flow: PacketFlow,
        kept: Kept<F>,
        edge: &mut impl Edge<F>,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let is_up = peer.phase == Phase::Releasing;
        let own = peer.shelves[shelf].bytes();
        let room = shelf_room(&self.settings, shelf, self.used[shelf], own);
        let fits = kept.cost() <= room;
        while fits
            && let Some(old) =
                peer.shelves[shelf].make_room(&flow, kept.cost(), room, &self.settings)
        {
            self.used[shelf] -= old.cost();
            if is_up {
                self.counters.released += 1;
                edge.send(&old.frame);
            } else {
                self.counters.displaced += 1;
            }
        }
        if fits {
            self.counters.kept += 1;
            self.used[shelf] += kept.cost();
            peer.shelves[shelf].push(flow, kept);
        } else if is_up {
            self.counters.passed += 1;
            edge.send(&kept.frame);
        } else {
            self.counters.displaced += 1;
        }
    }

    /// Packets of the peer were seen. `answer_max`: the longest time that its answers take.
    pub fn see(
        &mut self,
        id: PeerId,
        packets: u32,
        answer_max: Duration,
        now: Instant,
        edge: &mut impl Edge<F>,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        match peer.phase {
            Phase::Releasing => {
                peer.earn(packets);
                self.send_kept(id, now, edge);
            }
            // Without a carrier nothing goes out, whatever arrives.
            Phase::Down if peer.source == LinkSource::Carrier => {}
            Phase::Down if now.saturating_since(peer.since) <= LATE_MAX => {}
            Phase::Down | Phase::Silent => {
                let before = peer.shelves[0].bytes();
                // A packet that was sent within `answer_max` has arrived, or will arrive.
                let arrived = |at| now.saturating_since(at) <= answer_max;
                self.counters.answered +=
                    peer.shelves[0].drop_if(|kept| kept.sent_at.is_some_and(arrived));
                self.used[0] -= before - peer.shelves[0].bytes();
                self.release(id, now, edge);
            }
        }
    }

    /// A report about the link to a peer.
    pub fn handle_link(
        &mut self,
        id: PeerId,
        event: LinkEvent,
        source: LinkSource,
        now: Instant,
        edge: &mut impl Edge<F>,
    ) {
        match event {
            LinkEvent::GoingDownSoon(_) => {}
            LinkEvent::Down => {
                let peer = self
                    .peers
                    .entry(id)
                    .or_insert_with(|| Peer::new(Phase::Down, source, now));
                if let Some(began) = self.given_up.remove(&id) {
                    peer.began = began;
                }
                // Further reports do not delay a probe. Only the carrier itself ends an outage without a carrier.
                if peer.phase != Phase::Down {
                    peer.enter(Phase::Down, source, now);
                } else if peer.source != LinkSource::Carrier {
                    peer.source = source;
                }
                self.counters.downs += 1;
                edge.set_mode(id, Mode::Take);
                self.schedule(id, now);
            }
            LinkEvent::Up => {
                if let Some(began) = self.given_up.remove(&id) {
                    self.note_outage(began.outage(id, now));
                }
                // Without a carrier nothing goes out, whatever a message reports.
                let ends = |peer: &Peer<F>| {
                    let can = source == LinkSource::Carrier || peer.source != LinkSource::Carrier;
                    can && peer.phase != Phase::Releasing
                };
                if self.peers.get(&id).is_some_and(ends) {
                    self.release(id, now, edge);
                }
            }
        }
    }

    /// Link up: the queued packets are sent.
    fn release(&mut self, id: PeerId, now: Instant, edge: &mut impl Edge<F>) {
        let outage = self.peers.get(&id).and_then(|peer| peer.outage(id, now));
        if let Some(outage) = outage {
            self.note_outage(outage);
        }
        self.expire(id, now);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.enter(Phase::Releasing, peer.source, now);
        }
        self.send_kept(id, now, edge);
    }

    fn note_outage(&mut self, outage: Outage<PeerId>) {
        self.counters.outages_lost += self.ended_outages.push(outage);
    }

    /// Sends what may go now; with nothing left, packets pass by themselves again.
    fn send_kept(&mut self, id: PeerId, now: Instant, edge: &mut impl Edge<F>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        while let Some((shelf, kept)) = peer.next_to_send() {
            self.used[shelf] -= kept.cost();
            self.counters.released += 1;
            edge.send(&kept.frame);
        }
        if peer.is_empty() {
            self.pass(id, edge);
        } else {
            self.schedule(id, now);
        }
    }

    /// The peer's address has another owner from now on: the queued packets are not for it.
    pub fn forget(&mut self, id: PeerId, edge: &mut impl Edge<F>) {
        self.given_up.remove(&id);
        if self.peers.contains_key(&id) {
            self.pass(id, edge);
        }
    }

    /// The keeper is about to end: sends all packets of the peers whose links are up.
    pub fn finish(&mut self, edge: &mut impl Edge<F>) {
        for peer in self.peers.values_mut() {
            while let Some((shelf, kept)) = peer.next_of_all() {
                self.used[shelf] -= kept.cost();
                edge.send(&kept.frame);
            }
        }
    }

    /// Nothing is kept for the peer: its packets pass by themselves again.
    fn pass(&mut self, id: PeerId, edge: &mut impl Edge<F>) {
        if let Some(peer) = self.peers.remove(&id) {
            peer.due.map(|at| self.due.remove(&(at, id)));
            for (used, shelf) in self.used.iter_mut().zip(&peer.shelves) {
                *used -= shelf.bytes();
            }
        }
        edge.set_mode(id, Mode::Drain);
    }

    /// Drops the packets that have become too old.
    fn expire(&mut self, id: PeerId, now: Instant) {
        let peer = self.peers.get_mut(&id);
        let Some(peer) = peer.filter(|peer| peer.phase != Phase::Releasing) else {
            return;
        };
        let ages = [self.settings.age_max, self.settings.one_way_age_max];
        for ((shelf, age), used) in peer.shelves.iter_mut().zip(ages).zip(&mut self.used) {
            while let Some(old) = shelf.pop_older(age, now) {
                *used -= old.cost();
                self.counters.expired += 1;
            }
        }
    }

    /// When to call [`Keeper::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant, edge: &mut impl Edge<F>) {
        while let Some(&(at, id)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, id));
            self.expire(id, now);
            let Some(peer) = self.peers.get_mut(&id) else {
                continue;
            };
            peer.due = None;
            match peer.phase {
                Phase::Releasing => {
                    peer.earn_by_time(now);
                    self.send_kept(id, now, edge);
                }
                // No flow waits for the peer any more.
                Phase::Silent | Phase::Down if peer.is_given_up(&self.settings, now) => {
                    if peer.phase == Phase::Down {
                        self.given_up.insert(id, peer.began);
                    }
                    self.pass(id, edge);
                    edge.ignore_silence(id);
                }
                Phase::Silent | Phase::Down => {
                    if let Some(kept) = peer.next_probe(&self.settings, now) {
                        self.counters.probes += 1;
                        edge.send(&kept.frame);
                    }
                    self.schedule(id, now);
                }
            }
        }
    }

    fn schedule(&mut self, id: PeerId, now: Instant) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let at = peer.deadline(&self.settings, now);
        if peer.due != at {
            peer.due.map(|at| self.due.remove(&(at, id)));
            at.map(|at| self.due.insert((at, id)));
            peer.due = at;
        }
    }

    /// Whether [`Self::poll_outage`] has one.
    pub fn has_outages(&self) -> bool {
        !self.ended_outages.is_empty()
    }

    /// The next outage that has ended. A silence in which nothing was lost is none.
    pub fn poll_outage(&mut self) -> Option<Outage<PeerId>> {
        self.ended_outages.pop()
    }

    /// What was counted.
    pub const fn counters(&self) -> &KeepCounters {
        &self.counters
    }

    /// Bytes kept in all.
    pub fn bytes(&self) -> usize {
        self.used.iter().sum()
    }

    /// The peers whose packets do not simply pass.
    pub fn peers(&self) -> impl Iterator<Item = PeerView> {
        self.peers.iter().map(|(id, peer)| peer.view(*id))
    }
}

/// What a shelf of a peer takes, in bytes: four fifths of what is left for all, within what one
/// peer may have, and in any case enough for a full flow of usual packets.
fn shelf_room(settings: &KeepSettings, shelf: usize, used: usize, own: usize) -> usize {
    let max = if shelf == 0 {
        settings.bytes_max / 4 * 3
    } else {
        settings.bytes_max / 4
    };
    let share = (max.saturating_sub(used) + own) / 5 * 4;
    share.clamp(
        PEER_BYTES_MIN.min(settings.peer_bytes_max),
        settings.peer_bytes_max,
    )
}
