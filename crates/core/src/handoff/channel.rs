// SPDX-License-Identifier: Apache-2.0
//! Messages and copies as sealed datagrams between stations with the same group key.
//!
//! The header is that of [`sealed`], with "HO" and 0 for one station or 1 for a group. The
//! sealed bytes are the sender's incarnation (8), the receiver's incarnation (8; 0 for a group), a
//! counter (8), and the body.
//!
//! Each run of a station has its own random incarnation. A datagram with the receiver's incarnation
//! was made for its present run, and the counter detects repetitions. A station without the other's
//! present incarnation gets a hello: an empty body with both incarnations, so it is known to be
//! fresh. So no recorded message can be replayed, and no clock or disk is needed.
//!
//! Copies for a group have only the sender's incarnation. A copy with an unknown incarnation or a
//! counter that was seen before is refused. A receiver that has restarted, or was out of the group
//! for long, does not know the earlier counters. Recorded copies of the sender's present run are
//! accepted once more then.

use core::fmt;
use core::net::SocketAddr;
use std::collections::VecDeque;

use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};

use super::message::{COPY_HEADER_BYTES, CopyKind, Message, copy_header, parse_copy};
use super::peers::{PeerId, Peers};
use crate::sealed::{self, Header, SEALED_AT, TAG_BYTES};
use crate::signal::{KeyId, MobileKey};

/// Length of a nonce: fresh random bytes for each datagram.
pub const NONCE_BYTES: usize = sealed::NONCE_BYTES;

/// A station's random value of one run of its daemon; not 0.
pub type Incarnation = u64;

const MAGIC: [u8; 2] = *b"HO";
const VERSION: u8 = 1;
/// Incarnations and counter.
const INNER_BYTES: usize = 24;
/// The longest datagram of UDP over IPv4.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// The receiver of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Station = 0,
    Group = 1,
}

/// The content of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A message.
    Message(PeerId, Message),
    /// A copy of a packet, from its IP header on.
    Copy {
        /// The sender.
        from: PeerId,
        /// The mobile.
        mobile: KeyId,
        /// Why it was sent.
        kind: CopyKind,
        /// The packet.
        packet: Vec<u8>,
    },
    /// Nothing to act on; with a peer, it waits for a [`Channel::greeting`].
    Greeting(Option<PeerId>),
}

/// Why a datagram changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not of this format, version, or sealed with another key.
    Foreign,
    /// Not sealed with the key that it names, or changed in flight.
    BadSeal,
    /// Not from a neighbour.
    Stranger,
    /// It was received before, or is too old to decide.
    Replayed,
    /// Made for an earlier run of this station, or by an unknown run of a neighbour: a
    /// [`Channel::greeting`] for this one is due.
    UnknownRun(PeerId),
    /// Sealed, but not a message.
    NotAMessage,
}

crate::counters! {
    /// The counters of a channel.
    pub struct ChannelCounters {
        /// Datagrams of neighbours opened and taken.
        pub taken = "datagrams_taken",
        /// Datagrams of neighbours refused for any reason.
        pub refused = "datagrams_refused",
        /// Of the refused datagrams, those that were received before.
        pub replayed = "datagrams_replayed",
    }
}

/// The counters of received datagrams: the newest 128, one bit each.
#[derive(Clone, Copy, Debug, Default)]
struct ReplayWindow {
    newest: u64,
    seen: u128,
}

impl ReplayWindow {
    /// Notes a counter. False if it was seen before, or may have been.
    fn accept(&mut self, counter: u64) -> bool {
        if counter > self.newest {
            let ahead = counter - self.newest;
            self.seen = if ahead >= 128 { 0 } else { self.seen << ahead };
            self.seen |= 1;
            self.newest = counter;
            return true;
        }
        let behind = self.newest - counter;
        let bit = 1_u128.checked_shl(u32::try_from(behind).unwrap_or(u32::MAX));
        let new = bit.is_some_and(|bit| self.seen & bit == 0);
        self.seen |= bit.unwrap_or(0);
        new
    }
}

/// Earlier runs of a neighbour that are stored, at most. Their datagrams are refused.
const RETIRED_MAX: usize = 64;

/// A neighbour's present run; an incarnation of 0 is unknown.
#[derive(Clone, Debug, Default)]
struct NeighbourRun {
    incarnation: Incarnation,
    retired: VecDeque<Incarnation>,
    /// The incarnation of the last datagram without this station's own; the next hello contains it.
    hello_for: Incarnation,
    unicast: ReplayWindow,
    group: ReplayWindow,
    /// The counter of the newest datagram to it.
    sent: u64,
}

impl NeighbourRun {
    /// Begins another run of the neighbour. False if it is an earlier one.
    fn renew(&mut self, incarnation: Incarnation) -> bool {
        if self.retired.contains(&incarnation) {
            return false;
        }
        if self.incarnation != 0 {
            if self.retired.len() == RETIRED_MAX {
                self.retired.pop_front();
            }
            self.retired.push_back(self.incarnation);
        }
        self.incarnation = incarnation;
        self.unicast = ReplayWindow::default();
        self.group = ReplayWindow::default();
        true
    }
}

/// The datagrams of one station.
pub struct Channel {
    key: MobileKey,
    cipher: XChaCha20Poly1305,
    incarnation: Incarnation,
    peers: Peers,
    known: Vec<NeighbourRun>,
    group_sent: u64,
    counters: ChannelCounters,
}

impl Channel {
    /// A station that knows no other incarnation. `incarnation` is random; 0 counts as 1.
    pub fn new(key: MobileKey, incarnation: Incarnation, peers: Peers) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(key.secret().into()),
            key,
            incarnation: incarnation.max(1),
            known: vec![NeighbourRun::default(); peers.len()],
            peers,
            group_sent: 0,
            counters: ChannelCounters::default(),
        }
    }

    /// The neighbours.
    pub const fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The counters since the start.
    pub const fn counters(&self) -> ChannelCounters {
        self.counters
    }

    /// The datagram of a message for a neighbour.
    pub fn seal(&mut self, to: PeerId, message: &Message, nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
        self.seal_for(to, &message.to_bytes(), &[], nonce)
    }

    /// The datagram of a packet for a neighbour that has requested it.
    pub fn seal_wanted(
        &mut self,
        to: PeerId,
        mobile: KeyId,
        packet: &[u8],
        nonce: &[u8; NONCE_BYTES],
    ) -> Vec<u8> {
        let header = copy_header(mobile, CopyKind::Wanted);
        self.seal_for(to, &header, packet, nonce)
    }

    /// The datagram of a packet for a mobile's group.
    pub fn seal_copy(
        &mut self,
        mobile: KeyId,
        packet: &[u8],
        nonce: &[u8; NONCE_BYTES],
    ) -> Vec<u8> {
        self.group_sent += 1;
        let inner = inner(self.incarnation, 0, self.group_sent);
        let header = copy_header(mobile, CopyKind::Group);
        self.seal_parts(Path::Group, [&inner, &header, packet], nonce)
    }

    /// The datagram that makes this station known to a neighbour. It is sent to all at the start, and
    /// when [`open`](Self::open) returns [`Refused::UnknownRun`].
    pub fn greeting(&mut self, to: PeerId, nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
        self.seal_for(to, &[], &[], nonce)
    }

    fn seal_for(
        &mut self,
        to: PeerId,
        head: &[u8],
        rest: &[u8],
        nonce: &[u8; NONCE_BYTES],
    ) -> Vec<u8> {
        let (theirs, counter) = match self.known.get_mut(usize::from(to.0)) {
            Some(known) => {
                known.sent += 1;
                let hello_for = core::mem::take(&mut known.hello_for);
                let is_hello = head.is_empty() && hello_for != 0;
                let theirs = if is_hello {
                    hello_for
                } else {
                    known.incarnation
                };
                (theirs, known.sent)
            }
            None => (0, 0),
        };
        let inner = inner(self.incarnation, theirs, counter);
        self.seal_parts(Path::Station, [&inner, head, rest], nonce)
    }

    fn seal_parts(&self, path: Path, parts: [&[u8]; 3], nonce: &[u8; NONCE_BYTES]) -> Vec<u8> {
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            path: path as u8,
            key: self.key.id(),
        };
        sealed::seal(&self.cipher, header, nonce, &parts)
    }

    /// The content of a datagram from `from`.
    ///
    /// Errors: the datagram changes nothing. After [`Refused::UnknownRun`] send a greeting.
    pub fn open(&mut self, datagram: &[u8], from: SocketAddr) -> Result<Incoming, Refused> {
        let opened = self.open_datagram(datagram, from);
        match opened {
            Ok(_) => self.counters.taken += 1,
            Err(refused) => {
                self.counters.refused += 1;
                self.counters.replayed += u64::from(refused == Refused::Replayed);
            }
        }
        opened
    }

    fn open_datagram(&mut self, datagram: &[u8], from: SocketAddr) -> Result<Incoming, Refused> {
        let path = self.path_of(datagram)?;
        let peer = self.peers.find(from).ok_or(Refused::Stranger)?;
        let mut opened = sealed::open(&self.cipher, datagram).ok_or(Refused::BadSeal)?;
        let body = opened.split_off(INNER_BYTES);
        let field = |at: usize| u64::from_be_bytes(opened[at..at + 8].try_into().expect("8 bytes"));
        let (theirs, ours, counter) = (field(0), field(8), field(16));
        match path {
            Path::Group => self.take_from_group(peer, theirs, counter)?,
            Path::Station => {
                if ours != self.incarnation {
                    self.known[usize::from(peer.0)].hello_for = theirs;
                    return Err(Refused::UnknownRun(peer));
                }
                let news = self.take_from_station(peer, theirs, counter)?;
                if body.is_empty() {
                    return Ok(Incoming::Greeting(news.then_some(peer)));
                }
            }
        }
        Self::read(peer, path, body)
    }

    fn path_of(&self, datagram: &[u8]) -> Result<Path, Refused> {
        let len = SEALED_AT + INNER_BYTES + TAG_BYTES..=DATAGRAM_BYTES_MAX;
        let header = Header::parse(datagram).filter(|header| {
            len.contains(&datagram.len())
                && (header.magic, header.version) == (MAGIC, VERSION)
                && header.key == self.key.id()
        });
        match header.map(|header| header.path) {
            Some(0) => Ok(Path::Station),
            Some(1) => Ok(Path::Group),
            _ => Err(Refused::Foreign),
        }
    }

    fn take_from_group(
        &mut self,
        peer: PeerId,
        theirs: Incarnation,
        counter: u64,
    ) -> Result<(), Refused> {
        let known = &mut self.known[usize::from(peer.0)];
        if known.incarnation != theirs {
            return Err(Refused::UnknownRun(peer));
        }
        if !known.group.accept(counter) {
            return Err(Refused::Replayed);
        }
        Ok(())
    }

    /// True if the sender's run is new.
    fn take_from_station(
        &mut self,
        peer: PeerId,
        theirs: Incarnation,
        counter: u64,
    ) -> Result<bool, Refused> {
        let known = &mut self.known[usize::from(peer.0)];
        let news = known.incarnation != theirs;
        if news && !known.renew(theirs) {
            return Err(Refused::Replayed);
        }
        if !known.unicast.accept(counter) {
            return Err(Refused::Replayed);
        }
        Ok(news)
    }

    fn read(from: PeerId, path: Path, mut body: Vec<u8>) -> Result<Incoming, Refused> {
        let copy = parse_copy(&body);
        match (path, copy) {
            (Path::Group, Some((mobile, CopyKind::Group)))
            | (Path::Station, Some((mobile, CopyKind::Wanted))) => {
                let kind = match path {
                    Path::Group => CopyKind::Group,
                    Path::Station => CopyKind::Wanted,
                };
                let packet = body.split_off(COPY_HEADER_BYTES);
                Ok(Incoming::Copy {
                    from,
                    mobile,
                    kind,
                    packet,
                })
            }
            (Path::Station, None) => Message::from_bytes(&body)
                .map(|message| Incoming::Message(from, message))
                .map_err(|_| Refused::NotAMessage),
            _ => Err(Refused::NotAMessage),
        }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Channel");
        shown.field("key", &self.key).field("peers", &self.peers);
        shown
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

fn inner(ours: Incarnation, theirs: Incarnation, counter: u64) -> [u8; INNER_BYTES] {
    let mut bytes = [0; INNER_BYTES];
    bytes[..8].copy_from_slice(&ours.to_be_bytes());
    bytes[8..16].copy_from_slice(&theirs.to_be_bytes());
    bytes[16..].copy_from_slice(&counter.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_newest_128_counters_each_is_taken_once_and_of_older_ones_none() {
        for ahead in [1, 127, 128, 129, u64::MAX - 200] {
            let mut window = ReplayWindow::default();
            assert!(window.accept(200) && !window.accept(200));
            let newest = 200 + ahead;
            assert!(window.accept(newest) && !window.accept(newest), "{ahead}");
            assert!(!window.accept(newest - 128), "too old");
            let is_new = newest - 127 != 200;
            assert_eq!(window.accept(newest - 127), is_new, "{ahead}");
            assert!(
                !window.accept(newest - 127) && !window.accept(200),
                "{ahead}"
            );
        }
    }
}
