// SPDX-License-Identifier: Apache-2.0
//! A frame as the mechanisms see it: a segment, and a payload that can be kept.

use holdfast_core::{Direction, Payload};
use holdfast_net::datapath::Gso;
use holdfast_net::frame::{Frame, FrameBytes};
use holdfast_wire::{
    Header, Layout, PacketTooBig, Segment, checksum_is_right, ip_checksum_is_right,
};

/// A TCP frame; a clone shares its buffer.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    frame: Frame,
    direction: Direction,
    ip: u16,
    tcp: u16,
    payload: u16,
    segment_len: u16,
    /// The end of the payload; what lies behind is padding.
    end: u32,
    /// Other headers than the frame's.
    header: Option<Box<OtherHeader>>,
}

/// Headers instead of a frame's.
#[derive(Clone, Debug)]
pub(super) struct OtherHeader {
    /// They.
    pub(super) header: Header,
    /// Nothing of the frame follows.
    pub(super) is_alone: bool,
}

/// What a frame turned out to be.
#[derive(Debug)]
pub(crate) enum Content {
    /// A TCP segment whose checksum is right, or left to the sender's device.
    Segment(Segment, Packet),
    /// A router's word that a packet was too big: a copy, never to be given back.
    TooBig(PacketTooBig),
    /// A copy of another ICMP message, not to be given back either.
    Icmp,
    /// A TCP segment with a wrong checksum, its own or IP's: passed on, nothing else.
    WrongChecksum,
    /// Neither: passed on.
    Unknown,
}

/// Looks into a frame whose IP header starts at `ip`.
pub(crate) fn classify(frame: &Frame, direction: Direction, ip: usize) -> Content {
    let bytes = frame.bytes();
    let Ok((segment, layout)) = holdfast_wire::parse(bytes, ip) else {
        return match holdfast_wire::parse_packet_too_big(bytes, ip) {
            Some(too_big) => Content::TooBig(too_big),
            None if holdfast_wire::is_icmp(bytes, ip) => Content::Icmp,
            None => Content::Unknown,
        };
    };
    let vnet = frame.vnet();
    if matches!(vnet.gso, Gso::Other(_)) {
        return Content::Unknown;
    }
    // No device has checked this one: the router does later, and drops the packet.
    if !ip_checksum_is_right(bytes, ip) {
        return Content::WrongChecksum;
    }
    // With neither flag no device has verified the checksum yet.
    if !vnet.needs_csum && !vnet.data_valid && !checksum_is_right(bytes, &segment, &layout) {
        return Content::WrongChecksum;
    }
    let packet = Packet::new(frame, direction, &segment, &layout);
    Content::Segment(segment, packet)
}

impl Packet {
    fn new(frame: &Frame, direction: Direction, segment: &Segment, layout: &Layout) -> Self {
        let segment_len = match frame.vnet().gso {
            Gso::None => segment.payload_len as u16,
            _ => frame.vnet().gso_size,
        };
        Self {
            frame: frame.clone(),
            direction,
            ip: layout.ip as u16,
            tcp: layout.tcp as u16,
            payload: layout.payload as u16,
            segment_len,
            end: layout.end as u32,
            header: None,
        }
    }

    /// The headers that are sent instead of the frame's, if others are.
    pub(super) fn other_header(&self) -> Option<&OtherHeader> {
        self.header.as_deref()
    }

    /// The frame as it came.
    pub(super) const fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The way it came.
    pub(super) const fn direction(&self) -> Direction {
        self.direction
    }

    /// The same as [`Packet::payload`], to look at; what lies beyond the payload is left out.
    fn part(&self, offset: u32, len: u32) -> &[u8] {
        let whole = &self.frame.bytes()[usize::from(self.payload)..self.end as usize];
        let from = whole.len().min(offset as usize);
        let to = whole.len().min(from + len as usize);
        &whole[from..to]
    }

    /// A part of its payload, by offset and length in bytes.
    pub(super) fn payload(&self, offset: u32, len: u32) -> FrameBytes {
        let start = usize::from(self.payload) + offset as usize;
        self.frame.slice(start..start + len as usize)
    }
}

impl Payload for Packet {
    type Header = Header;

    fn header(&self) -> Option<Header> {
        if let Some(other) = &self.header {
            return Some(other.header);
        }
        let layout = Layout {
            ip: self.ip.into(),
            tcp: self.tcp.into(),
            payload: self.payload.into(),
            end: self.end as usize,
        };
        Header::copy_from(self.frame.bytes(), &layout)
    }

    fn segment_len(&self) -> u32 {
        self.segment_len.into()
    }

    fn is_cacheable(&self) -> bool {
        self.frame.is_cacheable()
    }

    fn renumbered(&self, own: &Segment) -> Option<Self> {
        let before = self.header()?;
        let mut header = before;
        header.set_seq(own.seq);
        header.set_ack(own.ack);
        header.set_flags(own.flags);
        header.set_window(own.window);
        if !header.keep_sack_blocks(&own.options.sack) {
            return None;
        }
        if own.options.timestamps.is_none() && !header.blank_timestamps() {
            return None;
        }
        // Otherwise the field holds the pseudo-header's sum, in which nothing of TCP's counts.
        if !self.frame.vnet().needs_csum {
            header.correct_checksum(&before);
        }
        let is_alone = self.header.as_ref().is_some_and(|other| other.is_alone);
        let header = OtherHeader { header, is_alone };
        Some(Self {
            header: Some(Box::new(header)),
            ..self.clone()
        })
    }

    fn answered(&self, answer: &Segment) -> Option<Self> {
        let header = self.header()?;
        let mut link = header.link().to_vec();
        if link.len() >= 12 {
            let (to, from) = link.split_at_mut(6);
            to.swap_with_slice(&mut from[..6]);
        }
        let mut header = Header::made(&link, answer.from, answer.to)?;
        header.set_seq(answer.seq);
        header.set_ack(answer.ack);
        header.set_flags(answer.flags);
        header.set_window(answer.window);
        header.set_syn_options(&answer.options);
        if !header.set_payload_len(0) {
            return None;
        }
        header.set_checksum(&[]);
        Some(Self {
            direction: self.direction.back(),
            header: Some(Box::new(OtherHeader {
                header,
                is_alone: true,
            })),
            ..self.clone()
        })
    }

    fn has_same_bytes(&self, offset: u32, other: &Self, other_offset: u32, len: u32) -> bool {
        self.part(offset, len) == other.part(other_offset, len)
    }

    fn octets(&self, offset: u32, len: u32) -> Option<&[u8]> {
        Some(self.part(offset, len)).filter(|part| part.len() == len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_net::frame::BufferPool;
    use holdfast_net::tun::VNET_HDR_BYTES;

    fn classified(packet: &[u8]) -> Content {
        let mut pool = BufferPool::new(1);
        let frame = pool.read(|buffer| {
            let len = VNET_HDR_BYTES + packet.len();
            buffer[..VNET_HDR_BYTES].fill(0);
            buffer[VNET_HDR_BYTES..len].copy_from_slice(packet);
            Ok(len)
        });
        classify(&frame.expect("a frame"), Direction::Uplink, 0)
    }

    /// A packet too big message about an IPv6 packet of protocol `about`, behind a
    /// hop-by-hop header.
    fn too_big(about: u8) -> Vec<u8> {
        let ip = |len: u8, next: u8| [&[0x60, 0, 0, 0, 0, len, next, 64][..], &[0x20; 32]].concat();
        let hop_by_hop = [58, 0, 1, 4, 0, 0, 0, 0];
        let icmp = [2, 0, 0, 0, 0, 0, 5, 0];
        let quoted = [ip(8, about), vec![0, 80, 0x9c, 0x40, 0, 0, 0, 100]].concat();
        [ip(64, 0), hop_by_hop.to_vec(), icmp.to_vec(), quoted].concat()
    }

    /// An IPv4 packet with this payload, its checksums right.
    fn data(payload: &[u8]) -> Vec<u8> {
        let mut packet = ack();
        packet[3] = 40 + payload.len() as u8;
        packet.extend(payload);
        let (_, layout) = holdfast_wire::parse(&packet, 0).expect("a segment");
        let mut header = Header::copy_from(&packet, &layout).expect("a short one");
        assert!(header.set_payload_len(payload.len()));
        header.set_checksum(payload);
        packet[..40].copy_from_slice(header.as_bytes());
        packet
    }

    #[test]
    fn other_bytes_are_distinguished_from_those_seen_wherever_they_lie() {
        let packet = |payload: &[u8]| match classified(&data(payload)) {
            Content::Segment(_, packet) => packet,
            content => panic!("{content:?}"),
        };
        let whole = packet(b"abcdefgh");
        let part = packet(b"cdeXg");
        assert!(whole.has_same_bytes(0, &whole, 0, 8));
        assert!(whole.has_same_bytes(2, &part, 0, 3));
        assert!(!whole.has_same_bytes(2, &part, 0, 4));
        assert!(whole.has_same_bytes(6, &part, 4, 1));
        assert!(!whole.has_same_bytes(6, &part, 3, 1));
        // A FIN, or a segment without any.
        assert!(whole.has_same_bytes(8, &part, 5, 0));
    }

    /// An IPv4 packet with a TCP header alone, its checksums right.
    fn ack() -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2, 0, 80, 0x9c,
            0x40, 0, 0, 0, 100, 0, 0, 0, 200, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
        ];
        let (_, layout) = holdfast_wire::parse(&packet, 0).expect("a segment");
        let mut header = Header::copy_from(&packet, &layout).expect("a short one");
        assert!(header.set_payload_len(0));
        header.set_checksum(&[]);
        packet.copy_from_slice(header.as_bytes());
        packet
    }

    #[test]
    fn an_ack_with_a_turned_bit_is_not_believed_wherever_the_bit_is() {
        assert!(matches!(classified(&ack()), Content::Segment(..)));
        for bit in 0..ack().len() * 8 {
            let mut packet = ack();
            packet[bit / 8] ^= 0x80 >> (bit % 8);
            let content = classified(&packet);
            assert!(
                !matches!(content, Content::Segment(..)),
                "bit {bit}: {content:?}"
            );
        }
    }

    #[test]
    fn a_copied_message_is_never_given_back_whatever_it_is_about_and_behind() {
        assert!(matches!(classified(&too_big(17)), Content::Icmp));
        let Content::TooBig(message) = classified(&too_big(6)) else {
            panic!("{:?}", classified(&too_big(6)));
        };
        assert_eq!((message.mtu, message.from.port), (1280, 80));
    }
}
