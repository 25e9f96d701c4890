// SPDX-License-Identifier: Apache-2.0
//! Packets in the form in which base stations exchange them: from the IP header on, one wire segment
//! each, with correct checksums.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use holdfast_core::handoff::Copied;
use holdfast_core::{Payload as _, Resend};
use holdfast_net::datapath::Gso;
use holdfast_wire::{Flags, Header, SackBlocks, Segment};

use crate::gateway::packet::Packet;

/// A packet for an MH.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::gateway) struct CopiedPacket {
    segment: Segment,
    bytes: Rc<[u8]>,
}

impl Copied for CopiedPacket {
    fn segment(&self) -> &Segment {
        &self.segment
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl CopiedPacket {
    /// The packet in `bytes`; none if it is not TCP.
    pub(in crate::gateway) fn parse(bytes: Vec<u8>) -> Option<Self> {
        let (segment, _) = holdfast_wire::parse(&bytes, 0).ok()?;
        Some(Self {
            segment,
            bytes: bytes.into(),
        })
    }

    /// The packet, from its IP header on.
    pub(in crate::gateway) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A frame's packets on the wire: one, or all segments of a super-segment.
    pub(in crate::gateway) fn of_frame(segment: &Segment, packet: &Packet) -> Vec<Self> {
        let Some(header) = packet.header() else {
            return Vec::new();
        };
        let step = match packet.frame().vnet().gso {
            Gso::None => segment.payload_len.max(1),
            _ => packet.segment_len().max(1),
        };
        let mut pieces = Vec::new();
        let mut from = 0;
        loop {
            let len = step.min(segment.payload_len - from);
            let mut flags = segment.flags;
            if from > 0 {
                flags = flags.without(Flags::CWR);
            }
            if from + len < segment.payload_len {
                flags = flags.without(Flags::FIN.with(Flags::PSH));
            }
            let mut header = header;
            header.set_seq(segment.seq + from);
            header.set_flags(flags);
            pieces.extend(Self::build(header, &packet.payload(from, len)));
            from += len;
            if from >= segment.payload_len {
                return pieces;
            }
        }
    }

    /// The packet on the wire for a piece of the cache, which is no longer than one segment.
    pub(in crate::gateway) fn of_piece(piece: &Resend<Packet>) -> Option<Self> {
        let mut header = piece.payload.header()?;
        header.set_options(piece.timestamps, &SackBlocks::default());
        header.set_seq(piece.seq);
        header.set_ack(piece.ack);
        header.set_window(piece.window);
        header.set_flags(piece.flags);
        Self::build(header, &piece.payload.payload(piece.offset, piece.len))
    }

    fn build(mut header: Header, payload: &[u8]) -> Option<Self> {
        if !header.set_payload_len(payload.len()) {
            return None;
        }
        header.set_checksum(payload);
        let network = &header.as_bytes()[header.ip_offset()..];
        Self::parse([network, payload].concat())
    }
}

/// Packets that the station gave to the routing and that have not reached the wireless interface yet.
/// They did not come from the wired route. Equal packets count as often as they were given.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Injected {
    /// Fingerprints, by the number of the packet.
    order: BTreeMap<u64, u64>,
    /// The numbers of the packets with this fingerprint, oldest first.
    by_print: HashMap<u64, VecDeque<u64>>,
    given: u64,
}

/// The limit of remembered packets. A forgotten packet is copied to the group once more.
const INJECTED_MAX: usize = 8192;

impl Injected {
    /// A packet was given to the routing.
    pub(in crate::gateway) fn note(&mut self, segment: &Segment) {
        let print = fingerprint(segment);
        self.given += 1;
        self.order.insert(self.given, print);
        self.by_print
            .entry(print)
            .or_default()
            .push_back(self.given);
        if self.order.len() > INJECTED_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.forget_first(oldest);
        }
    }

    /// A packet has arrived. True if it was given to the routing: once for each time.
    pub(in crate::gateway) fn take(&mut self, segment: &Segment) -> bool {
        if self.order.is_empty() {
            return false;
        }
        let number = self.forget_first(fingerprint(segment));
        number.is_some_and(|number| self.order.remove(&number).is_some())
    }

    fn forget_first(&mut self, print: u64) -> Option<u64> {
        let same = self.by_print.get_mut(&print)?;
        let number = same.pop_front();
        if same.is_empty() {
            self.by_print.remove(&print);
        }
        number
    }
}

fn fingerprint(segment: &Segment) -> u64 {
    let mut hasher = DefaultHasher::new();
    (segment.from, segment.to, segment.seq, segment.ack).hash(&mut hasher);
    let timestamps = segment.options.timestamps.map(|ts| (ts.tsval, ts.tsecr));
    (segment.flags.0, segment.window, segment.payload_len).hash(&mut hasher);
    timestamps.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::packet::{Content, classify};
    use holdfast_core::Direction;
    use holdfast_net::datapath::VnetHdr;
    use holdfast_net::frame::BufferPool;
    use holdfast_wire::{checksum_is_right, ip_checksum_is_right};

    /// A frame with `payload_len` bytes in segments of 1000, its checksum left to the device.
    fn super_segment(payload_len: usize) -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2, 0, 80, 0x9c, 0x40,
            0, 0, 0, 100, 0, 0, 0, 200, 0x50, 0x19, 1, 0, 0, 0, 0, 0,
        ];
        packet.extend((0..payload_len).map(|i| i as u8));
        let len = (packet.len() as u16).to_be_bytes();
        packet[2..4].copy_from_slice(&len);
        let (segment, layout) = holdfast_wire::parse(&packet, 0).expect("a segment");
        let mut header = Header::copy_from(&packet, &layout).expect("short headers");
        assert!(header.set_payload_len(segment.payload_len as usize));
        header.set_checksum_partial(payload_len);
        packet[..header.len()].copy_from_slice(header.as_bytes());
        let vnet = VnetHdr {
            needs_csum: true,
            gso: Gso::TcpV4,
            gso_size: 1000,
            hdr_len: 40,
            csum_start: 20,
            csum_offset: 16,
            ..VnetHdr::default()
        };
        [&vnet.emit()[..], &packet].concat()
    }

    #[test]
    fn a_super_segment_becomes_the_packets_of_the_wire_with_right_checksums() {
        let bytes = super_segment(2500);
        let mut pool = BufferPool::new(1 << 20);
        let frame = pool.read(|buffer| {
            buffer[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        });
        let frame = frame.expect("a frame");
        let Content::Segment(segment, packet) = classify(&frame, Direction::Downlink, 0) else {
            panic!("not a segment");
        };
        let pieces = CopiedPacket::of_frame(&segment, &packet);
        let seqs: Vec<_> = pieces.iter().map(|one| one.segment.seq.get()).collect();
        assert_eq!(seqs, [100, 1100, 2100]);
        let mut payload = Vec::new();
        for piece in &pieces {
            let (segment, layout) = holdfast_wire::parse(&piece.bytes, 0).expect("a segment");
            assert!(ip_checksum_is_right(&piece.bytes, 0));
            assert!(checksum_is_right(&piece.bytes, &segment, &layout));
            let last = segment.seq.get() == 2100;
            assert_eq!(segment.flags.has(Flags::FIN), last);
            payload.extend_from_slice(&piece.bytes[layout.payload..]);
        }
        let expected: Vec<u8> = (0..2500).map(|i| i as u8).collect();
        assert_eq!(payload, expected);
    }

    #[test]
    fn what_was_injected_is_known_once_and_not_for_ever() {
        let packet = |seq: u32| {
            let bytes = super_segment(1);
            let mut packet = bytes[10..].to_vec();
            packet[24..28].copy_from_slice(&seq.to_be_bytes());
            CopiedPacket::parse(packet).expect("a packet").segment
        };
        let mut injected = Injected::default();
        injected.note(&packet(1));
        assert!(injected.take(&packet(1)) && !injected.take(&packet(1)));
        // Equal ones are each known.
        injected.note(&packet(1));
        injected.note(&packet(1));
        assert!(injected.take(&packet(1)) && injected.take(&packet(1)));
        assert!(!injected.take(&packet(1)));
        for seq in 0..=INJECTED_MAX as u32 {
            injected.note(&packet(seq));
        }
        assert!(injected.order.len() <= INJECTED_MAX);
        assert!(injected.by_print.len() <= INJECTED_MAX);
        assert!(!injected.take(&packet(0)), "the oldest is forgotten");
    }
}
