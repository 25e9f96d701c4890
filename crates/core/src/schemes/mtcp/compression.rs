// SPDX-License-Identifier: Apache-2.0
//! Compression of what goes to mobiles that have reported that they can read it
//! (`crate::compression`).

use core::net::IpAddr;
use std::collections::BTreeMap;

use holdfast_wire::{Flags, Instant};

use super::Mtcp;
use crate::compression::{CompressionSettings, Compressor, Emission, Method, SentCompression};
use crate::counters::Counters;
use crate::flow::Flow;
use crate::signal::Abilities;
use crate::{Payload, Resend};

/// A segment on the wire that may go compressed: `len` bytes after the first `sent` of a piece,
/// with these control bits.
pub(crate) struct Offer<'a, P> {
    pub piece: &'a Resend<P>,
    pub sent: u32,
    pub len: u32,
    pub flags: Flags,
}

/// Addresses whose abilities are stored, at most. A further one replaces the one that expires first.
const ADDRESSES_MAX: usize = 65_536;
/// After this number of trials in a row that proved nothing, further flows begin with some bytes plain:
/// something on the way may drop all that is compressed.
const FAILED_TRIALS_MAX: u32 = 4;

/// What a mobile has reported of itself.
#[derive(Clone, Copy, Debug)]
struct Registration {
    abilities: Abilities,
    session: u64,
    until: Instant,
    /// Trials of all flows since the last one that proved something.
    trials: u32,
}

/// The gateway's compression, for all flows.
pub(crate) struct Compression {
    compressor: Compressor,
    registered: BTreeMap<IpAddr, Registration>,
}

impl Compression {
    pub(crate) fn new(settings: CompressionSettings) -> Self {
        Self {
            compressor: Compressor::new(settings),
            registered: BTreeMap::new(),
        }
    }

    /// The mobile with this address has reported what it can read, in this `session` of its
    /// daemon; that holds until `until`, unless it reports again.
    pub(crate) fn register(
        &mut self,
        address: IpAddr,
        abilities: Abilities,
        session: u64,
        until: Instant,
    ) {
        let known = self.registered.get(&address);
        if known.is_none() && self.registered.len() >= ADDRESSES_MAX {
            let first = self.registered.iter().min_by_key(|(_, other)| other.until);
            if let Some(first) = first.map(|(address, _)| *address) {
                self.registered.remove(&first);
            }
        }
        let same = self
            .registered
            .get(&address)
            .filter(|known| known.session == session);
        let registration = Registration {
            abilities,
            session,
            until,
            trials: same.map_or(0, |known| known.trials),
        };
        self.registered.insert(address, registration);
    }

    /// The address is no longer that of the mobile that had it.
    pub(crate) fn forget(&mut self, address: IpAddr) {
        self.registered.remove(&address);
    }

    /// Flows with a dictionary.
    pub(crate) fn dictionaries(&self) -> usize {
        self.compressor.dictionaries()
    }

    /// The payload that was compressed last, `len` bytes.
    pub(crate) fn payload(&self, len: usize) -> &[u8] {
        self.compressor.payload(len)
    }

    /// The MH with this address is known to read what is compressed.
    pub(super) fn on_proof(&mut self, address: IpAddr, sent: &mut SentCompression) {
        self.compressor.on_proof(sent);
        if let Some(registration) = self.registered.get_mut(&address) {
            registration.trials = 0;
        }
    }

    fn can_read(&self, abilities: Abilities) -> bool {
        match self.compressor.method() {
            Method::Deflate => abilities.has(Abilities::DEFLATE),
            Method::Zstd => abilities.has(Abilities::ZSTD),
        }
    }
}

impl<P: Payload> Mtcp<P> {
    /// Begins or ends the compression of the flow, as the MH's abilities require.
    pub(super) fn follow_abilities(&mut self, flow: &Flow<P>, compression: &Compression) {
        let registration = compression.registered.get(&flow.key.mh.address);
        let registration = registration
            .filter(|known| flow.has_own_sender && compression.can_read(known.abilities));
        let Some(registration) = registration else {
            self.compression = None;
            return;
        };
        if let Some(known) = &mut self.compression {
            known.renew(registration.session, registration.until);
            return;
        }
        // What was sent before may still arrive, and proves nothing.
        let nxt = flow.fh.max.max(flow.fh.una);
        let mut begun = Compressor::begin(nxt, registration.session, registration.until);
        if let Some(doublings) = registration.trials.checked_sub(FAILED_TRIALS_MAX) {
            begun.rest_first(doublings);
        }
        self.compression = Some(Box::new(begun));
    }

    /// The length of the payload that is sent instead of the offered one; `None`: that one is sent.
    pub(super) fn compress_offer(
        &mut self,
        offer: &Offer<'_, P>,
        compression: &mut Compression,
        counters: &mut Counters,
        now: Instant,
    ) -> Option<usize> {
        let known = self.compression.as_mut()?;
        let Offer {
            piece,
            sent,
            len,
            flags,
        } = *offer;
        let seq = piece.seq + sent;
        let bytes = piece.payload.octets(piece.offset + sent, len);
        let readable = flags.has(Flags::ACK) && !flags.has(Flags::FIN) && !flags.has(Flags::URG);
        let Some(bytes) = bytes.filter(|_| readable) else {
            known.on_plain(seq, seq + len);
            return None;
        };
        let (psh, untried) = (flags.has(Flags::PSH), known.is_untried());
        let wire_len = match compression.compressor.emit(known, bytes, seq, psh, now) {
            Emission::Plain => return None,
            Emission::Vain => {
                counters.compressed_in_vain += 1;
                return None;
            }
            Emission::Compressed(wire_len) => wire_len,
        };
        let address = piece.compress?.mh.address;
        if untried && let Some(registration) = compression.registered.get_mut(&address) {
            registration.trials = registration.trials.saturating_add(1);
        }
        counters.compressed += 1;
        counters.compressed_from_bytes += u64::from(len);
        counters.compressed_to_bytes += wire_len as u64;
        // The share counts the bytes on the wire: the next piece may be sent sooner.
        self.m.share.refund(len - wire_len as u32);
        Some(wire_len)
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use core::time::Duration;

    use holdfast_wire::SeqNum;

    use super::*;
    use crate::testing::{Packet, data};
    use crate::{Direction, FlowKey};

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    fn after(seconds: u32) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds.into())
    }

    #[test]
    fn each_mobile_keeps_its_registration_until_there_are_too_many() {
        let settings = CompressionSettings {
            method: Method::Deflate,
            level: 3,
        };
        let mut compression = Compression::new(settings);
        let can = Abilities::DEFLATE;
        let full = ADDRESSES_MAX as u32;
        // The second one lapses first.
        for number in 0..full {
            let until = if number == 1 { 90 } else { 100 + number };
            compression.register(address(number), can, 1, after(until));
            assert_eq!(compression.registered.len(), number as usize + 1);
        }
        // One that is known needs no room.
        compression.register(address(7), can, 1, after(200_000));
        assert_eq!(compression.registered.len(), ADDRESSES_MAX);
        compression.register(address(full), can, 1, after(200_000));
        assert_eq!(compression.registered.len(), ADDRESSES_MAX);
        assert!(!compression.registered.contains_key(&address(1)));
        assert!(compression.registered.contains_key(&address(full)));
    }

    #[test]
    fn trials_are_counted_for_a_session_and_a_new_one_begins_at_none() {
        let settings = CompressionSettings {
            method: Method::Zstd,
            level: 3,
        };
        let mut compression = Compression::new(settings);
        let trials = |compression: &Compression| compression.registered[&address(0)].trials;
        compression.register(address(0), Abilities::ZSTD, 1, after(90));
        compression
            .registered
            .get_mut(&address(0))
            .expect("it is registered")
            .trials = 3;
        compression.register(address(0), Abilities::ZSTD, 1, after(120));
        assert_eq!(trials(&compression), 3);
        compression.register(address(0), Abilities::ZSTD, 2, after(150));
        assert_eq!(trials(&compression), 0);
    }

    #[test]
    fn a_first_segment_that_goes_again_with_a_fin_proves_nothing() {
        let (until, bytes) = (after(90), [b'a'; 1000]);
        let settings = CompressionSettings {
            method: Method::Deflate,
            level: 3,
        };
        for goes_again in [false, true] {
            let mut compression = Compression::new(settings);
            let mut mtcp = Mtcp::<Packet>::default();
            let first = SeqNum::new(1);
            mtcp.compression = Some(Box::new(Compressor::begin(first, 1, until)));
            let mut segment = data(1, b"").0;
            segment.payload_len = 1000;
            let piece = Resend {
                direction: Direction::Downlink,
                ahead: false,
                payload: Packet::new(segment, &bytes, 1000),
                offset: 0,
                len: 1000,
                seq: first,
                ack: segment.ack,
                window: segment.window,
                flags: segment.flags,
                timestamps: None,
                segment_len: 1000,
                path_mtu: None,
                compress: Some(FlowKey::of(&segment, Direction::Downlink)),
            };
            let mut offer = |flags| {
                let offer = Offer {
                    piece: &piece,
                    sent: 0,
                    len: 1000,
                    flags,
                };
                let mut counters = Counters::default();
                mtcp.compress_offer(&offer, &mut compression, &mut counters, after(1))
            };
            assert!(offer(Flags::ACK).is_some());
            if goes_again {
                assert_eq!(offer(Flags::ACK.with(Flags::FIN)), None);
            }
            let sent = mtcp.compression.as_mut().expect("begun");
            assert_eq!(sent.on_acked(first, first + 1000), !goes_again);
        }
    }
}
