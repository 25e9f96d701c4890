// SPDX-License-Identifier: Apache-2.0
//! The peers and the answered flows that the programs of `keep` note, in shared memory.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use holdfast_core::keep::{Answers, Mode, PacketFlow, PeerId};

use crate::bpf::{Programs, SharedValues};

/// `struct peer` of `bpf/keep.bpf.c`: its length, and its fields by their numbers among its
/// values of 32 or 64 bits.
const PEER_BYTES: usize = 192;
const ADDRESS: usize = 0;
const MODE: usize = 4;
const TAKEN: usize = 5;
const DONE: usize = 6;
const ANNOUNCED: usize = 7;
const IGNORES_SILENCE: usize = 8;
pub(super) const WAITED_NS: usize = 8;
pub(super) const SEEN_NS: usize = 16;
const SEEN: usize = 34;
const GAP_NS: usize = 35;

/// Constants of the C source.
const PEERS_MAX: usize = 16_384;
const BUCKET: usize = 4;
const ANSWERED_MAX: usize = 65_536;
/// `struct answer`.
const ANSWER_BYTES: usize = 16;
/// A flow with a packet of the peer in this many seconds is two-way.
const TWO_WAY_S: u16 = 64;
const SILENCE_MIN: Duration = Duration::from_millis(50);
const GAP_INITIAL_NS: u32 = 100_000_000;
const MODE_PASS: u32 = 0;
const MODE_TAKE: u32 = 1;
const MODE_DRAIN: u32 = 2;
const MODE_NEW: u32 = 3;

/// What the peers of a [`KeepPath`](super::KeepPath) are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Each address behind the link is a peer: the gateway's.
    ByAddress,
    /// The whole link is one peer: the mobile's own.
    WholeLink,
}

/// The tables.
#[derive(Debug)]
pub struct PeerTable {
    peers: SharedValues,
    answered: SharedValues,
    seed: u64,
    kind: Peers,
}

impl PeerTable {
    pub(super) fn map(programs: &Programs, seed: u64, kind: Peers) -> io::Result<Self> {
        let table = Self {
            peers: SharedValues::map_bytes(&programs.map("peers")?, PEERS_MAX * PEER_BYTES)?,
            answered: SharedValues::map_bytes(
                &programs.map("answered")?,
                ANSWERED_MAX * ANSWER_BYTES,
            )?,
            seed,
            kind,
        };
        if kind == Peers::WholeLink {
            table.half(PeerId(0), GAP_NS).store(GAP_INITIAL_NS, Relaxed);
        }
        Ok(table)
    }

    fn half(&self, peer: PeerId, field: usize) -> &std::sync::atomic::AtomicU32 {
        self.peers
            .half_word(peer.0 as usize * (PEER_BYTES / 4) + field)
    }

    pub(super) fn word(&self, peer: PeerId, field: usize) -> &std::sync::atomic::AtomicU64 {
        self.peers.word(peer.0 as usize * (PEER_BYTES / 8) + field)
    }

    /// The peer to which packets for `address` go, if it is followed.
    pub fn find(&self, address: IpAddr) -> Option<PeerId> {
        if self.kind == Peers::WholeLink {
            return Some(PeerId(0));
        }
        let parts = parts_of(address);
        self.bucket(parts)
            .find(|peer| self.address_parts(*peer) == parts)
    }

    fn bucket(&self, address: [u64; 2]) -> impl Iterator<Item = PeerId> + use<> {
        let hash = hash_of_peer(self.seed, address) as usize;
        let first = (hash & (PEERS_MAX / BUCKET - 1)) * BUCKET;
        (first..first + BUCKET).map(|index| PeerId(index as u32))
    }

    fn address_parts(&self, peer: PeerId) -> [u64; 2] {
        [ADDRESS, ADDRESS + 1].map(|field| self.word(peer, field).load(Relaxed))
    }

    /// As [`PeerTable::find`]. A peer that is not followed yet is entered, if there is room.
    pub fn find_or_enter(&self, address: IpAddr) -> Option<PeerId> {
        if let Some(found) = self.find(address) {
            return Some(found);
        }
        let parts = parts_of(address);
        let free = self.bucket(parts).find(|peer| {
            self.address_parts(*peer) == [0; 2] && self.swap_mode(*peer, MODE_PASS, MODE_NEW)
        })?;
        for (field, word) in parts.into_iter().enumerate() {
            self.word(free, ADDRESS + field).store(word, Relaxed);
        }
        self.half(free, GAP_NS).store(GAP_INITIAL_NS, Relaxed);
        self.half(free, MODE).store(MODE_PASS, Release);
        Some(free)
    }

    fn swap_mode(&self, peer: PeerId, from: u32, to: u32) -> bool {
        let mode = self.half(peer, MODE);
        mode.compare_exchange(from, to, Acquire, Relaxed).is_ok()
    }

    /// Follows a peer of another table here too, if there is room.
    pub fn enter_peer_of(&self, other: &Self, peer: PeerId) -> Option<PeerId> {
        match self.kind {
            Peers::WholeLink => Some(peer),
            Peers::ByAddress => self.find_or_enter(other.address(peer)?),
        }
    }

    /// What its peers are.
    pub const fn kind(&self) -> Peers {
        self.kind
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    /// The address of a peer; none for a whole link.
    pub fn address(&self, peer: PeerId) -> Option<IpAddr> {
        let parts = self.address_parts(peer);
        (parts != [0; 2]).then(|| address_of(parts))
    }

    /// All peers that are followed.
    pub fn followed(&self) -> Vec<PeerId> {
        match self.kind {
            Peers::WholeLink => vec![PeerId(0)],
            Peers::ByAddress => (0..PEERS_MAX as u32)
                .map(PeerId)
                .filter(|peer| self.address_parts(*peer) != [0; 2])
                .collect(),
        }
    }

    /// Changes what becomes of the packets for a peer.
    pub fn set_mode(&self, peer: PeerId, mode: Mode) {
        if mode == Mode::Take {
            self.half(peer, ANNOUNCED).store(0, Relaxed);
        }
        let number = match mode {
            Mode::Take => MODE_TAKE,
            Mode::Drain => MODE_DRAIN,
        };
        self.half(peer, MODE).store(number, Release);
    }

    /// The programs take all packets for the peer.
    pub fn is_taking(&self, peer: PeerId) -> bool {
        self.half(peer, MODE).load(Acquire) == MODE_TAKE
    }

    /// The programs wait until all packets that were taken are finished.
    pub fn is_draining(&self, peer: PeerId) -> bool {
        self.half(peer, MODE).load(Acquire) == MODE_DRAIN
    }

    /// This many packets for the peer that were taken are finished.
    pub fn finish(&self, peer: PeerId, packets: u32) {
        // Release: a program that sees the new number also sees what was done before.
        self.half(peer, DONE).fetch_add(packets, Release);
    }

    /// Ends DRAIN here: whatever was taken is finished, or lost.
    pub fn resume(&self, peer: PeerId) {
        let taken = self.half(peer, TAKEN).load(Acquire);
        self.half(peer, DONE).store(taken, Relaxed);
        self.word(peer, WAITED_NS).store(0, Relaxed);
        self.swap_mode(peer, MODE_DRAIN, MODE_PASS);
    }

    /// Packets that were taken and are not finished.
    #[cfg(test)]
    pub(super) fn unfinished(&self, peer: PeerId) -> u32 {
        let done = self.half(peer, DONE).load(Relaxed);
        self.half(peer, TAKEN).load(Acquire).wrapping_sub(done)
    }

    /// Takes the number of the peer's packets that were seen since the last call. The next one is announced.
    pub fn take_seen(&self, peer: PeerId) -> u32 {
        self.half(peer, ANNOUNCED).swap(0, AcqRel);
        self.half(peer, SEEN).swap(0, AcqRel)
    }

    /// The longest time that an answer of the peer takes, by its recent gaps.
    pub fn answer_max(&self, peer: PeerId) -> Duration {
        let gaps = [0, 1].map(|age| self.half(peer, GAP_NS + age).load(Relaxed));
        Duration::from_nanos(gaps.into_iter().max().unwrap_or(0).into()) * 5 / 4 + SILENCE_MIN
    }

    /// Has the programs ignore the peer's silence until a packet of the peer is seen.
    pub fn ignore_silence(&self, peer: PeerId) {
        self.half(peer, IGNORES_SILENCE).store(1, Relaxed);
    }

    /// When the peer was last seen, and since when its answer is missing. CLOCK_MONOTONIC in nanoseconds.
    pub fn seen_and_waited_for_ns(&self, peer: PeerId) -> (u64, u64) {
        let at = |field| self.word(peer, field).load(Relaxed);
        (at(SEEN_NS), at(WAITED_NS))
    }

    /// Packets of the flow's other direction in the last minute; `now_ns` by CLOCK_MONOTONIC.
    pub fn answers(&self, flow: &PacketFlow, now_ns: u64) -> Answers {
        let hash = hash_of_flow(self.seed, flow);
        let index = (hash as usize & (ANSWERED_MAX - 1)) * (ANSWER_BYTES / 4);
        let [tag, seconds, packets] =
            [0, 1, 2].map(|field| self.answered.half_word(index + field).load(Relaxed));
        // Two fields of 16 bits, as they lie in memory.
        let [a, b, c, d] = seconds.to_ne_bytes();
        let [seen_s, in_use_s] = [[a, b], [c, d]].map(u16::from_ne_bytes);
        let now_s = (now_ns / 1_000_000_000) as u16;
        let is_recent = |second: u16| now_s.wrapping_sub(second) < TWO_WAY_S;
        if u64::from(tag) != hash >> 32 || packets == 0 || !is_recent(seen_s) {
            Answers::None
        } else if is_recent(in_use_s) {
            Answers::Many
        } else {
            Answers::Few
        }
    }
}

/// An address as the programs have it: IPv4 as ::ffff:a.b.c.d.
fn parts_of(address: IpAddr) -> [u64; 2] {
    let octets = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let (first, second) = octets.split_at(8);
    [first, second].map(|half| u64::from_ne_bytes(half.try_into().expect("eight octets")))
}

fn address_of(parts: [u64; 2]) -> IpAddr {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&parts[0].to_ne_bytes());
    octets[8..].copy_from_slice(&parts[1].to_ne_bytes());
    IpAddr::from(octets).to_canonical()
}

fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

fn hash_of_peer(seed: u64, address: [u64; 2]) -> u64 {
    address.into_iter().fold(seed, mix)
}

/// The hash of a flow on its way to the peer, as the programs compute it for both ways.
fn hash_of_flow(seed: u64, flow: &PacketFlow) -> u64 {
    let [near, far] = [flow.destination, flow.source].map(parts_of);
    // The peer's port first, as in the header of its own packets.
    let ports = if PacketFlow::has_ports(flow.protocol) {
        u32::from_ne_bytes(flow.selector.rotate_left(16).to_be_bytes())
    } else {
        0
    };
    let hash = far.into_iter().fold(hash_of_peer(seed, near), mix);
    mix(hash, u64::from(flow.protocol) << 32 | u64::from(ports))
}
