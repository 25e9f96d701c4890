// SPDX-License-Identifier: Apache-2.0
//! Compression of TCP/IP headers on one direction of a link (RFC 1144). The model's packets have
//! header values, no bytes. This file computes a packet's length on the medium, and whether the far
//! end restores its header.
//!
//! Packets are compressed in the order in which they enter the queue, so the link must not reorder
//! them. The link layer reports lost packets: the far end never applies a difference to another
//! connection.

use holdfast_wire::{Endpoint, Flags, Segment};

use super::{Carried, Network};
use crate::observe::LinkId;
use crate::packet::{Packet, headers_len};

/// Connections that both ends of the link store (RFC 1144, appendix A: MAX_STATES).
const SLOTS: usize = 16;
/// The shortest compressed header, in bytes: the mask of changes and TCP's checksum (RFC 1144,
/// section 3.2.2).
pub const COMPRESSED_HEADER_BYTES_MIN: u32 = 3;
/// Bytes of the connection's number, sent if the packet before belonged to another connection.
const CONNECTION_LEN: u32 = 1;

/// How a packet's header is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentHeader {
    slot: usize,
    /// Counts the packets of the slot.
    number: u64,
    /// Bytes of the header that the link does not carry. 0: the header is sent whole. Otherwise it is
    /// sent as the difference from the header of the slot's packet before.
    pub(super) saved_bytes: u32,
}

/// The result of restoring a packet's header at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestoredHeader {
    /// The header that was sent.
    AsSent,
    /// Other numbers: TCP's checksum is wrong.
    Wrong,
}

/// The header that the near end has saved for a connection.
#[derive(Debug)]
struct SavedHeader {
    segment: Segment,
    dscp: u8,
    number: u64,
    sent_at: u64,
}

/// Both ends of one direction.
#[derive(Debug, Default)]
pub(super) struct HeaderCompression {
    near: Vec<SavedHeader>,
    sent: u64,
    /// The number of the packet that each slot's header is from, at the far end.
    far: [Option<u64>; SLOTS],
}

impl HeaderCompression {
    /// How the header of `segment` would be sent now; none: the packet goes as it is, and no end
    /// saves its header.
    pub(super) fn compress(&self, segment: &Segment, dscp: u8) -> Option<SentHeader> {
        let opens_or_closes = [Flags::SYN, Flags::FIN, Flags::RST]
            .iter()
            .any(|flag| segment.flags.has(*flag));
        if opens_or_closes || !segment.flags.has(Flags::ACK) {
            return None;
        }
        let is_own = |saved: &SavedHeader| ends(&saved.segment) == ends(segment);
        let Some(slot) = self.near.iter().position(is_own) else {
            let slot = self.slot_for_new_connection();
            return Some(SentHeader {
                slot,
                number: self.near.get(slot).map_or(0, |saved| saved.number + 1),
                saved_bytes: 0,
            });
        };
        let saved = &self.near[slot];
        let connection_len = if saved.sent_at == self.sent {
            0
        } else {
            CONNECTION_LEN
        };
        let len = if saved.dscp == dscp {
            difference_len(&saved.segment, segment)
        } else {
            None
        };
        Some(SentHeader {
            slot,
            number: saved.number + 1,
            saved_bytes: len.map_or(0, |len| headers_len(segment) - len - connection_len),
        })
    }

    /// A free slot, or the least recently used one.
    fn slot_for_new_connection(&self) -> usize {
        if self.near.len() < SLOTS {
            return self.near.len();
        }
        let slots = self.near.iter().enumerate();
        let oldest = slots.min_by_key(|(_, saved)| saved.sent_at);
        oldest.map_or(0, |(slot, _)| slot)
    }

    /// The packet with this header is in the link's queue.
    pub(super) fn handle_sent(&mut self, header: SentHeader, segment: &Segment, dscp: u8) {
        self.sent += 1;
        let saved = SavedHeader {
            segment: *segment,
            dscp,
            number: header.number,
            sent_at: self.sent,
        };
        match self.near.get_mut(header.slot) {
            Some(slot) => *slot = saved,
            None => self.near.push(saved),
        }
    }

    /// A packet has come to the far end. A difference from a packet that did not come gives wrong
    /// numbers. So does each further one, until a whole header comes (RFC 1144, section 4.2).
    pub(super) fn handle_arrival(&mut self, header: SentHeader) -> RestoredHeader {
        let slot = &mut self.far[header.slot];
        let follows = slot.is_some_and(|number| number + 1 == header.number);
        if header.saved_bytes > 0 && !follows {
            return RestoredHeader::Wrong;
        }
        *slot = Some(header.number);
        RestoredHeader::AsSent
    }
}

impl Network {
    /// How the header of a packet would be sent on a link now.
    pub(super) fn compress_header(
        &self,
        link: LinkId,
        packet: &Packet,
        dscp: u8,
    ) -> Option<SentHeader> {
        let link = &self.links[link.0 as usize];
        let compression = link.header_compression.as_ref()?;
        if self.is_encrypted {
            return None;
        }
        compression.compress(packet.segment()?, dscp)
    }

    /// The queue of its link has taken the packet.
    pub(super) fn save_header(&mut self, carried: &Carried) {
        let link = &mut self.links[carried.link.0 as usize];
        if let (Some(compression), Some(header), Some(segment)) = (
            &mut link.header_compression,
            carried.header,
            carried.packet.segment(),
        ) {
            compression.handle_sent(header, segment, carried.dscp);
        }
    }

    /// Restores the header of a packet that has arrived without bit errors. The far end does not get
    /// a packet with bit errors (RFC 1144, section 4.1).
    pub(super) fn restore_header(&mut self, carried: &Carried) -> RestoredHeader {
        let link = &mut self.links[carried.link.0 as usize];
        match (&mut link.header_compression, carried.header) {
            (Some(compression), Some(header)) => compression.handle_arrival(header),
            _ => RestoredHeader::AsSent,
        }
    }
}

fn ends(segment: &Segment) -> (Endpoint, Endpoint) {
    (segment.from, segment.to)
}

/// The length of a header as the difference from the one before; none: it is sent whole (RFC 1144,
/// section 3.2.3). The model's packets have no identification of IP: it is taken to grow by one.
/// Urgent data is sent whole here.
fn difference_len(before: &Segment, now: &Segment) -> Option<u32> {
    let is_plain = |segment: &Segment| segment.flags.without(Flags::PSH) == Flags::ACK;
    if !is_plain(before) || !is_plain(now) || before.options != now.options {
        return None;
    }
    let seq = now.seq.get().wrapping_sub(before.seq.get());
    let ack = now.ack.get().wrapping_sub(before.ack.get());
    if seq > u16::MAX.into() || ack > u16::MAX.into() {
        return None;
    }
    let window = now.window.wrapping_sub(before.window);
    let payload_len = before.payload_len;
    let numbers_len = match (seq, ack, window) {
        // A retransmission or a window probe, unless data follow an ACK.
        (0, 0, 0) if now.payload_len == 0 || payload_len != 0 => return None,
        // The usual cases have a mask of their own: data in one direction, echoed characters.
        (_, _, 0) if payload_len != 0 && seq == payload_len && (ack == 0 || ack == seq) => 0,
        _ => [seq, ack, window.into()].map(number_len).iter().sum(),
    };
    Some(COMPRESSED_HEADER_BYTES_MIN + numbers_len)
}

/// Bytes of a number that is not sent if it is 0, and in one byte if it fits.
fn number_len(number: u32) -> u32 {
    match number {
        0 => 0,
        1..=255 => 1,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_wire::{Options, SackBlocks, SeqNum, Timestamps};

    fn segment(port: u16, seq: u32, payload_len: u32) -> Segment {
        let end = |last, port| Endpoint {
            address: core::net::Ipv4Addr::new(10, 0, 0, last).into(),
            port,
        };
        Segment {
            from: end(1, port),
            to: end(2, 80),
            seq: SeqNum::new(seq),
            ack: SeqNum::new(7),
            flags: Flags::ACK,
            window: 1000,
            options: Options::default(),
            payload_len,
        }
    }

    fn send(link: &mut HeaderCompression, segment: &Segment) -> SentHeader {
        let header = link.compress(segment, 0).unwrap();
        link.handle_sent(header, segment, 0);
        header
    }

    fn lens(segments: &[Segment]) -> Vec<u32> {
        let mut link = HeaderCompression::default();
        let len = |segment| headers_len(segment) - send(&mut link, segment).saved_bytes;
        segments.iter().map(len).collect()
    }

    #[test]
    fn data_in_one_direction_and_echoed_characters_have_headers_of_three_bytes() {
        let data = [0, 100, 200].map(|seq| segment(1, seq, 100));
        assert_eq!(lens(&data), [40, 3, 3]);
        let echoed = [0, 1, 2].map(|seq| Segment {
            ack: SeqNum::new(50 + seq),
            ..segment(1, seq, 1)
        });
        assert_eq!(lens(&echoed), [40, 3, 3]);
    }

    #[test]
    fn each_number_that_changes_takes_one_byte_or_three() {
        let ack = |ack, window| Segment {
            ack: SeqNum::new(ack),
            window,
            ..segment(1, 0, 0)
        };
        let acks = [ack(100, 9), ack(200, 9), ack(3000, 9), ack(3001, 8)];
        assert_eq!(lens(&acks), [40, 4, 6, 7]);
        let all = Segment {
            seq: SeqNum::new(3000),
            ..ack(9000, 2000)
        };
        assert_eq!(lens(&[ack(100, 9), segment(2, 0, 9), all]), [40, 40, 13]);
    }

    #[test]
    fn a_connection_in_between_costs_its_number() {
        let mixed = [(1, 0), (2, 0), (1, 100), (1, 200), (2, 100)];
        let mixed = mixed.map(|(port, seq)| segment(port, seq, 100));
        assert_eq!(lens(&mixed), [40, 40, 4, 3, 4]);
    }

    #[test]
    fn what_is_no_small_step_forward_is_sent_whole() {
        let first = segment(1, 1000, 100);
        let mut sack = SackBlocks::default();
        sack.push(SeqNum::new(9), SeqNum::new(10));
        let with_options = |options| Segment {
            options,
            ..segment(1, 1100, 100)
        };
        let others = [
            first,
            segment(1, 900, 100),
            segment(1, 70_000, 100),
            Segment {
                ack: SeqNum::new(6),
                ..segment(1, 1100, 100)
            },
            Segment {
                flags: Flags::ACK.with(Flags::ECE),
                ..segment(1, 1100, 100)
            },
            with_options(Options {
                sack,
                ..Options::default()
            }),
        ];
        for other in others {
            let mut link = HeaderCompression::default();
            send(&mut link, &first);
            assert_eq!(send(&mut link, &other).saved_bytes, 0, "{other:?}");
        }
        // The first data after an ACK with the same numbers is no retransmission.
        assert_eq!(lens(&[segment(1, 1000, 0), first]), [40, 3]);
        // Unchanged options are part of the saved bytes.
        let options = Options {
            timestamps: Some(Timestamps { tsval: 1, tsecr: 2 }),
            ..Options::default()
        };
        let dated = |seq| Segment {
            options,
            ..segment(1, seq, 100)
        };
        assert_eq!(lens(&[dated(0), dated(100)]), [52, 3]);
    }

    #[test]
    fn another_codepoint_is_sent_whole() {
        let mut link = HeaderCompression::default();
        send(&mut link, &segment(1, 0, 100));
        let next = segment(1, 100, 100);
        assert_eq!(link.compress(&next, 46).unwrap().saved_bytes, 0);
        assert_eq!(link.compress(&next, 0).unwrap().saved_bytes, 37);
    }

    #[test]
    fn no_end_saves_what_opens_or_closes() {
        let mut link = HeaderCompression::default();
        send(&mut link, &segment(1, 0, 100));
        let not_saved = [Flags::SYN, Flags::FIN, Flags::RST].map(|flag| Flags::ACK.with(flag));
        for flags in not_saved.into_iter().chain([Flags::PSH]) {
            let segment = Segment {
                flags,
                ..segment(1, 500, 0)
            };
            assert_eq!(link.compress(&segment, 0), None);
        }
        assert_eq!(send(&mut link, &segment(1, 100, 100)).saved_bytes, 37);
    }

    #[test]
    fn after_a_lost_packet_none_is_restored_until_a_whole_header_comes() {
        let mut link = HeaderCompression::default();
        let first = send(&mut link, &segment(1, 0, 100));
        assert_eq!(link.handle_arrival(first), RestoredHeader::AsSent);
        let _lost = send(&mut link, &segment(1, 100, 100));
        for seq in [200, 300] {
            let header = send(&mut link, &segment(1, seq, 100));
            assert_eq!(link.handle_arrival(header), RestoredHeader::Wrong, "{seq}");
        }
        let retransmitted = send(&mut link, &segment(1, 100, 100));
        assert_eq!(link.handle_arrival(retransmitted), RestoredHeader::AsSent);
        let header = send(&mut link, &segment(1, 200, 100));
        assert_eq!(link.handle_arrival(header), RestoredHeader::AsSent);
    }

    #[test]
    fn another_connection_takes_the_slot_that_was_used_longest_ago() {
        let mut link = HeaderCompression::default();
        let all = SLOTS as u16;
        for port in 0..all {
            let header = send(&mut link, &segment(port, 0, 100));
            assert_eq!(link.handle_arrival(header), RestoredHeader::AsSent);
        }
        send(&mut link, &segment(0, 100, 100));
        let other = send(&mut link, &segment(all, 0, 100));
        assert_eq!((other.slot, other.saved_bytes), (1, 0));
        assert_eq!(link.handle_arrival(other), RestoredHeader::AsSent);
        let header = send(&mut link, &segment(all, 100, 100));
        assert_eq!(link.handle_arrival(header), RestoredHeader::AsSent);
        let whole = send(&mut link, &segment(1, 100, 100));
        assert_eq!((whole.slot, whole.saved_bytes), (2, 0));
    }
}
