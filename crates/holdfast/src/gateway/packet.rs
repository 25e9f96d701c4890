// SPDX-License-Identifier: Apache-2.0
//! A frame as the mechanisms see it: a segment, and a payload that can be cached.

use holdfast_core::{Direction, Payload};
use holdfast_net::datapath::Gso;
use holdfast_net::frame::{Frame, FrameBytes};
use holdfast_wire::{
    Header, Layout, LinkAddresses, PacketTooBig, Segment, checksum_is_right, ip_checksum_is_right,
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
    /// The end of the payload; the bytes behind it are padding.
    end: u32,
    /// The headers to send instead of the frame's.
    header: Option<Box<ReplacementHeader>>,
}

/// The headers to send instead of a frame's.
#[derive(Clone, Debug)]
pub(super) struct ReplacementHeader {
    /// The headers.
    pub(super) header: Header,
    /// True if the packet ends after them: nothing of the frame is sent.
    pub(super) has_no_payload: bool,
}

/// What a frame contains.
#[derive(Debug)]
pub(crate) enum Content {
    /// A TCP segment. Its checksum is correct, or the sender left it to a device.
    Segment(Segment, Packet),
    /// A router's notification that a packet was too big. It is a copy and must not be written back.
    TooBig(PacketTooBig),
    /// A copy of another ICMP message. It must not be written back either.
    Icmp,
    /// A TCP segment with a wrong TCP or IP checksum: it only passes.
    WrongChecksum,
    /// Anything else: it only passes.
    Unknown,
}

/// Classifies a frame whose IP header starts at `ip`.
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
    // No device has checked the IP checksum: the router does so later, and drops the packet.
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

    /// The headers to send instead of the frame's, if there are any.
    pub(super) fn other_header(&self) -> Option<&ReplacementHeader> {
        self.header.as_deref()
    }

    /// The frame as it came.
    pub(super) const fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The direction in which it arrived.
    pub(super) const fn direction(&self) -> Direction {
        self.direction
    }

    /// Like [`Packet::payload`], but borrowed; bytes beyond the end of the payload are left out.
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

    fn link_addresses(&self) -> Option<LinkAddresses> {
        let link = &self.frame.bytes()[..self.ip.into()];
        link.first_chunk().copied()
    }

    fn is_cacheable(&self) -> bool {
        self.frame.is_cacheable() && Header::can_begin_tcp_at(self.tcp.into())
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
        // With `needs_csum` the field holds the pseudo-header's sum, which no TCP field changes.
        if !self.frame.vnet().needs_csum {
            header.correct_checksum(&before);
        }
        let has_no_payload = self
            .header
            .as_ref()
            .is_some_and(|other| other.has_no_payload);
        let header = ReplacementHeader {
            header,
            has_no_payload,
        };
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
            header: Some(Box::new(ReplacementHeader {
                header,
                has_no_payload: true,
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
    use holdfast_net::datapath::VnetHdr;
    use holdfast_net::frame::BufferPool;
    use holdfast_net::tun::VNET_HDR_BYTES;
    use holdfast_wire::{Endpoint, Flags, Options, SackBlocks, SeqNum, Timestamps};

    /// What is read from a device, behind this header.
    fn classified_behind(vnet: &VnetHdr, packet: &[u8], ip: usize) -> Content {
        let mut pool = BufferPool::new(1 << 20);
        let frame = pool.read(|buffer| {
            let len = VNET_HDR_BYTES + packet.len();
            buffer[..VNET_HDR_BYTES].copy_from_slice(&vnet.emit());
            buffer[VNET_HDR_BYTES..len].copy_from_slice(packet);
            Ok(len)
        });
        classify(&frame.expect("a frame"), Direction::Uplink, ip)
    }

    fn classified(packet: &[u8]) -> Content {
        classified_behind(&VnetHdr::default(), packet, 0)
    }

    /// As in the MH's packets to the FH.
    fn ends(is_v6: bool) -> (Endpoint, Endpoint) {
        let [from, to] = if is_v6 {
            ["fd02::2", "fd01::2"]
        } else {
            ["10.2.0.2", "10.1.0.2"]
        };
        let end = |address: &str, port| Endpoint {
            address: address.parse().expect("an address"),
            port,
        };
        (end(from, 40_000), end(to, 443))
    }

    const TIMESTAMPS: Timestamps = Timestamps { tsval: 7, tsecr: 9 };
    /// Addresses of a gateway and an MH.
    const LINK: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    fn link(is_v6: bool) -> Vec<u8> {
        let kind = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
        [&LINK[..], &kind].concat()
    }

    fn blocks(edges: &[(u32, u32)]) -> SackBlocks {
        let mut sack = SackBlocks::default();
        for (left, right) in edges {
            assert!(sack.push(SeqNum::new(*left), SeqNum::new(*right)));
        }
        sack
    }

    /// A frame of an Ethernet with timestamps and a SACK block, its checksums right.
    fn frame(is_v6: bool, payload: &[u8]) -> Vec<u8> {
        let (from, to) = ends(is_v6);
        let mut header = Header::made(&link(is_v6), from, to).expect("one family");
        header.set_seq(SeqNum::new(100));
        header.set_ack(SeqNum::new(200));
        header.set_flags(Flags::ACK.with(Flags::PSH));
        header.set_window(300);
        header.set_options(Some(TIMESTAMPS), &blocks(&[(400, 500)]));
        assert!(header.set_payload_len(payload.len()));
        header.set_checksum(payload);
        [header.as_bytes(), payload].concat()
    }

    fn segment_of(vnet: &VnetHdr, frame: &[u8]) -> (Segment, Packet) {
        match classified_behind(vnet, frame, 14) {
            Content::Segment(segment, packet) => (segment, packet),
            content => panic!("{content:?}"),
        }
    }

    /// A packet as it goes out with other headers: what it is then, and whether its checksum is right.
    fn emitted(packet: &Packet, payload: &[u8]) -> (Segment, bool) {
        let header = packet.header().expect("headers");
        let bytes = [header.as_bytes(), payload].concat();
        let (segment, layout) = holdfast_wire::parse(&bytes, 14).expect("a segment");
        assert!(ip_checksum_is_right(&bytes, 14));
        (segment, checksum_is_right(&bytes, &segment, &layout))
    }

    const LEFT_TO_THE_DEVICE: VnetHdr = VnetHdr {
        needs_csum: true,
        data_valid: false,
        gso: Gso::None,
        ecn: false,
        hdr_len: 0,
        gso_size: 0,
        csum_start: 0,
        csum_offset: 0,
    };

    #[test]
    fn a_checksum_that_the_kernel_answers_for_is_not_computed() {
        let mut damaged = frame(false, b"payload");
        *damaged.last_mut().expect("a byte") ^= 1;
        let kind = |vnet: &VnetHdr| classified_behind(vnet, &damaged, 14);
        assert!(matches!(kind(&VnetHdr::default()), Content::WrongChecksum));
        assert!(matches!(kind(&LEFT_TO_THE_DEVICE), Content::Segment(..)));
        let valid = VnetHdr {
            data_valid: true,
            ..VnetHdr::default()
        };
        assert!(matches!(kind(&valid), Content::Segment(..)));
        // The kernel answers for no IP header.
        let mut damaged = frame(false, b"payload");
        damaged[14 + 8] ^= 1;
        for vnet in [VnetHdr::default(), LEFT_TO_THE_DEVICE, valid] {
            let content = classified_behind(&vnet, &damaged, 14);
            assert!(matches!(content, Content::WrongChecksum), "{content:?}");
        }
    }

    #[test]
    fn a_super_segment_is_cut_as_the_kernel_would_and_one_of_no_known_kind_passes() {
        let whole = frame(true, &[7; 3_000]);
        let super_segment = |gso| VnetHdr {
            gso,
            gso_size: 1_200,
            ..LEFT_TO_THE_DEVICE
        };
        let (segment, packet) = segment_of(&super_segment(Gso::TcpV6), &whole);
        assert_eq!((segment.payload_len, packet.segment_len()), (3_000, 1_200));
        let content = classified_behind(&super_segment(Gso::Other(3)), &whole, 14);
        assert!(matches!(content, Content::Unknown), "{content:?}");
        let (_, packet) = segment_of(&VnetHdr::default(), &whole);
        assert_eq!(packet.segment_len(), 3_000);
    }

    /// It would be cached, and could never be sent.
    #[test]
    fn a_segment_whose_headers_are_too_long_to_copy_is_not_cached() {
        for (extension, is_cacheable) in [(40, true), (48, false)] {
            let mut whole = frame(true, b"payload");
            // Next header: hop-by-hop options, all of them padding.
            let mut options = vec![6, (extension / 8 - 1) as u8, 1, extension as u8 - 4];
            options.resize(extension, 0);
            let len = u16::from_be_bytes([whole[18], whole[19]]) + extension as u16;
            whole[18..20].copy_from_slice(&len.to_be_bytes());
            whole[20] = 0;
            whole.splice(54..54, options);
            let (_, packet) = segment_of(&LEFT_TO_THE_DEVICE, &whole);
            assert_eq!(packet.is_cacheable(), is_cacheable, "{extension}");
            assert_eq!(packet.header().is_some(), is_cacheable, "{extension}");
        }
    }

    #[test]
    fn padding_is_no_payload() {
        let padded = [frame(false, b"four"), vec![0; 20]].concat();
        let (segment, packet) = segment_of(&VnetHdr::default(), &padded);
        assert_eq!(segment.payload_len, 4);
        assert_eq!(packet.octets(0, 4), Some(&b"four"[..]));
        assert_eq!(packet.octets(1, 3), Some(&b"our"[..]));
        assert_eq!(packet.octets(1, 4), None);
        assert_eq!(packet.octets(5, 1), None);
        assert_eq!(&packet.payload(1, 2)[..], b"ou");
    }

    #[test]
    fn a_segment_takes_the_numbers_of_the_other_half_and_keeps_all_else() {
        for is_v6 in [false, true] {
            for vnet in [VnetHdr::default(), LEFT_TO_THE_DEVICE] {
                let (segment, packet) = segment_of(&vnet, &frame(is_v6, b"odd"));
                let mut own = Segment {
                    seq: SeqNum::new(0xffff_fff0),
                    ack: SeqNum::new(0x8000_0000),
                    flags: Flags::ACK.with(Flags::FIN),
                    window: 0xabcd,
                    ..segment
                };
                own.options.sack = blocks(&[(0x8000_0190, 0x8000_01f4)]);
                let other = packet.renumbered(&own).expect("its options are known");
                // What is left to the device is left as it was.
                assert_eq!(emitted(&other, b"odd"), (own, !vnet.needs_csum));
                assert_eq!(other.frame().bytes(), packet.frame().bytes());
                assert!(
                    other
                        .other_header()
                        .is_some_and(|other| !other.has_no_payload)
                );
                // With its own numbers again, its checksum is what it was: right.
                let back = other.renumbered(&segment).expect("the same options");
                assert_eq!(emitted(&back, b"odd"), (segment, true));
            }
        }
    }

    #[test]
    fn timestamps_that_the_other_half_has_not_agreed_on_are_blanked() {
        let (segment, packet) = segment_of(&VnetHdr::default(), &frame(false, b""));
        let mut own = segment;
        own.options.timestamps = None;
        let other = packet.renumbered(&own).expect("its options are known");
        assert_eq!(emitted(&other, b""), (own, true));
        // Its length stays: what follows lies where it lay.
        let len = |packet: &Packet| packet.header().expect("headers").len();
        assert_eq!(len(&other), len(&packet));
    }

    #[test]
    fn a_segment_whose_options_are_not_understood_gets_no_other_numbers() {
        let mut whole = frame(false, b"");
        let layout = match holdfast_wire::parse(&whole, 14) {
            Ok((_, layout)) => layout,
            Err(other) => panic!("{other:?}"),
        };
        // An option that is longer than the header, ahead of the others.
        whole[layout.tcp + 20..layout.tcp + 22].copy_from_slice(&[254, 40]);
        let (segment, packet) = segment_of(&LEFT_TO_THE_DEVICE, &whole);
        assert!(packet.renumbered(&segment).is_none());
    }

    #[test]
    fn a_segment_is_answered_on_the_way_that_it_came() {
        for is_v6 in [false, true] {
            let (from, to) = ends(is_v6);
            // Longer than the answer: nothing of it may follow.
            let (_, packet) = segment_of(&LEFT_TO_THE_DEVICE, &frame(is_v6, b"payload"));
            let answer = Segment {
                from: to,
                to: from,
                seq: SeqNum::new(5),
                ack: SeqNum::new(101),
                flags: Flags::SYN.with(Flags::ACK),
                window: 600,
                options: Options {
                    mss: Some(1_400),
                    window_scale: Some(7),
                    sack_permitted: true,
                    ..Options::default()
                },
                payload_len: 0,
            };
            let made = packet.answered(&answer).expect("one family");
            assert_eq!(emitted(&made, b""), (answer, true));
            assert_eq!(made.direction(), Direction::Downlink);
            let header = made.header().expect("headers");
            assert_eq!(header.link()[..12], [&LINK[6..], &LINK[..6]].concat());
            assert!(
                made.other_header()
                    .is_some_and(|other| other.has_no_payload)
            );
            // Renumbered it still is alone.
            let other = made.renumbered(&answer).expect("its options are known");
            assert!(
                other
                    .other_header()
                    .is_some_and(|other| other.has_no_payload)
            );
            assert_eq!(emitted(&other, b""), (answer, true));
        }
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
