// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::gateway::packet::{Content, classify};
use holdfast_core::Settings;
use holdfast_net::frame::{BufferPool, Frame};
use holdfast_net::tun::VNET_HDR_BYTES;
use holdfast_wire::{LinkAddresses, Segment, SeqNum, Timestamps};

mod kernel;

const BOUNDS: Bounds = Bounds {
    wireless_mtu: 1500,
    wired_mtu: None,
    resend_dscp: None,
};

/// What is read from a device, behind this header.
fn frame_of(vnet: &VnetHdr, bytes: &[u8]) -> Frame {
    let mut pool = BufferPool::new(1 << 20);
    let frame = pool.read(|buffer| {
        buffer[..VNET_HDR_BYTES].copy_from_slice(&vnet.emit());
        buffer[VNET_HDR_BYTES..VNET_HDR_BYTES + bytes.len()].copy_from_slice(bytes);
        Ok(VNET_HDR_BYTES + bytes.len())
    });
    frame.unwrap()
}

/// The same as a segment.
fn read(vnet: &VnetHdr, direction: Direction, bytes: &[u8]) -> Packet {
    match classify(&frame_of(vnet, bytes), direction, 0) {
        Content::Segment(_, packet) => packet,
        other => panic!("{other:?}"),
    }
}

/// Headers with these options, checksums right, and `payload`.
fn with_options(v6: bool, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = if v6 {
        let mut ip = vec![0x61, 0x50, 0, 0, 0, 0, 6, 64];
        ip.extend([0x20; 16]);
        ip.extend([0x21; 16]);
        ip
    } else {
        // ECN-capable (RFC 3168), DSCP 10.
        vec![
            0x45, 0x29, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2,
        ]
    };
    bytes.extend([0, 80, 0x9c, 0x40, 0, 0, 0, 100, 0, 0, 0, 200]);
    bytes.extend([
        ((20 + options.len() as u8) / 4) << 4,
        0x10,
        1,
        0,
        0,
        0,
        0,
        0,
    ]);
    bytes.extend(options);
    let ip_len = if v6 { 40 } else { 20 };
    // So that the copy is parsed: lengths first.
    let total = bytes.len() + payload.len();
    if v6 {
        bytes[4..6].copy_from_slice(&((total - ip_len) as u16).to_be_bytes());
    } else {
        bytes[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    }
    let whole = [&bytes[..], payload].concat();
    let (_, layout) = holdfast_wire::parse(&whole, 0).unwrap();
    let mut header = Header::copy_from(&whole, &layout).unwrap();
    assert!(header.set_payload_len(payload.len()));
    header.set_checksum(payload);
    [header.as_bytes(), payload].concat()
}

/// Timestamps and two SACK blocks, as Linux writes them.
fn two_blocks() -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 1, 5, 18];
    for edge in [300_u32, 400, 500, 600] {
        options.extend(edge.to_be_bytes());
    }
    options
}

fn one_block() -> SackBlocks {
    let mut sack = SackBlocks::default();
    assert!(sack.push(SeqNum::new(500), SeqNum::new(600)));
    sack
}

/// An IPv4 packet with timestamps and `len` bytes of payload, as read from a TUN
/// device that left the checksum to us.
fn packet(len: usize) -> Packet {
    let mut bytes = vec![0; 52 + len];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&(52 + len as u16).to_be_bytes());
    bytes[8..10].copy_from_slice(&[63, 6]);
    bytes[12..20].copy_from_slice(&[10, 1, 0, 2, 10, 2, 0, 2]);
    bytes[20..24].copy_from_slice(&[0, 80, 0x9c, 0x40]);
    bytes[32..34].copy_from_slice(&[0x80, 0x10]);
    bytes[40..44].copy_from_slice(&[1, 1, 8, 10]);
    for (at, byte) in bytes[52..].iter_mut().enumerate() {
        *byte = at as u8;
    }
    let mut sum = holdfast_wire::checksum::Sum::default();
    sum.add(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.finish().to_be_bytes());
    let vnet = VnetHdr {
        needs_csum: true,
        gso: Gso::TcpV4,
        gso_size: 1448,
        csum_start: 20,
        csum_offset: 16,
        ..VnetHdr::default()
    };
    let packet = read(&vnet, Direction::Downlink, &bytes);
    assert_eq!(packet.payload(0, len as u32).len(), len);
    packet
}

fn piece(payload: Packet, len: u32, flags: Flags) -> Resend<Packet> {
    Resend {
        direction: Direction::Downlink,
        ahead: false,
        payload,
        offset: 0,
        len,
        seq: SeqNum::new(u32::MAX - 999),
        ack: SeqNum::new(7),
        window: 99,
        flags,
        timestamps: Some(Timestamps { tsval: 1, tsecr: 2 }),
        segment_len: 1448,
        path_mtu: None,
        compress: None,
    }
}

fn parsed(part: &Part) -> holdfast_wire::Segment {
    let mut bytes = part.header.as_bytes().to_vec();
    bytes.resize(bytes.len() + part.len as usize, 0);
    holdfast_wire::parse(&bytes, 0).unwrap().0
}

/// The same packet behind a header of Ethernet with these addresses.
fn behind(addresses: LinkAddresses, packet: &Packet) -> (Segment, Packet) {
    let frame = packet.frame();
    let bytes = [&addresses[..], &[0x08, 0x00], frame.bytes()].concat();
    let vnet = VnetHdr {
        csum_start: frame.vnet().csum_start + 14,
        ..*frame.vnet()
    };
    match classify(&frame_of(&vnet, &bytes), packet.direction(), 14) {
        Content::Segment(segment, packet) => (segment, packet),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_made_of_a_cached_packet_goes_to_the_newest_next_hop_of_the_mh() {
    let mut engine = Gateway::new(Settings::default());
    let (old, new) = ([2; 12], [4; 12]);
    let (_, cached) = behind(old, &packet(100));
    let addressed = |engine: &Gateway<Packet>, direction| {
        let mut header = cached.header().unwrap();
        readdress(&mut header, direction, engine);
        let (link, rest) = header.as_bytes().split_at(14);
        assert_eq!(rest, &cached.header().unwrap().as_bytes()[14..]);
        link[..12].to_vec()
    };
    assert_eq!(addressed(&engine, Direction::Downlink), old, "no such MH");
    let (way, now) = (Direction::Downlink, Instant::from_millis(1));
    // Nothing is believed before both ends agree.
    let (segment, forged) = behind(new, &packet(200));
    let _ = engine.handle_segment(way, &segment, &forged, now, &mut Vec::new());
    assert_eq!(addressed(&engine, way), old);
    for addresses in [old, new] {
        let (segment, newest) = behind(addresses, &packet(200));
        let _ = engine.handle_segment(way, &segment, &newest, now, &mut Vec::new());
        let answer = Segment {
            from: segment.to,
            to: segment.from,
            ack: segment.end(),
            window: 1_000,
            payload_len: 0,
            ..segment
        };
        let _ = engine.handle_segment(Direction::Uplink, &answer, &cached, now, &mut Vec::new());
        let _ = engine.handle_segment(way, &segment, &newest, now, &mut Vec::new());
        assert_eq!(addressed(&engine, way), addresses);
        // The next hop toward the FH is another one.
        assert_eq!(addressed(&engine, Direction::Uplink), old);
    }
}

#[test]
fn a_fin_alone_is_sent() {
    let fin = piece(packet(4000), 0, Flags::ACK.with(Flags::FIN));
    let part = part_of(&fin, &BOUNDS, 0, u32::MAX).unwrap().unwrap();
    assert_eq!((part.len, parsed(&part).flags), (0, fin.flags));
}

#[test]
fn a_piece_of_one_segment_is_a_plain_frame_with_the_checksum_left_to_the_kernel() {
    let piece = piece(packet(4000), 1448, Flags::ACK);
    let part = part_of(&piece, &BOUNDS, 0, u32::MAX).unwrap().unwrap();
    assert_eq!(
        (part.len, part.vnet.gso, part.vnet.needs_csum),
        (1448, Gso::None, true)
    );
    let segment = parsed(&part);
    assert_eq!(
        (segment.seq, segment.ack, segment.window),
        (piece.seq, piece.ack, 99)
    );
    assert_eq!(segment.options.timestamps, piece.timestamps);
    assert!(
        part_of(&piece, &BOUNDS, part.len, u32::MAX)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_longer_piece_is_cut_to_the_smallest_mtu_on_its_way() {
    let mut piece = piece(packet(40_000), 40_000, Flags::ACK.with(Flags::CWR));
    for (path_mtu, mtu, gso_size) in [
        (None, 1500, 1448),
        (None, 1280, 1228),
        (Some(1400), 1500, 1348),
        (Some(9000), 1280, 1228),
    ] {
        piece.path_mtu = path_mtu;
        let bounds = Bounds {
            wireless_mtu: mtu,
            wired_mtu: Some(600),
            ..BOUNDS
        };
        let part = part_of(&piece, &bounds, 0, u32::MAX).unwrap().unwrap();
        assert_eq!((part.vnet.gso, part.vnet.gso_size), (Gso::TcpV4, gso_size));
        assert_eq!((part.vnet.hdr_len, part.vnet.ecn), (52, true));
    }
}

#[test]
fn headers_that_grew_split_a_piece_and_cwr_leads_and_fin_ends_it() {
    let all = Flags::ACK
        .with(Flags::CWR)
        .with(Flags::FIN)
        .with(Flags::PSH);
    let mut piece = piece(packet(65_483), 65_483, all);
    let whole = part_of(&piece, &BOUNDS, 0, u32::MAX).unwrap().unwrap();
    assert_eq!((whole.len, parsed(&whole).flags), (65_483, all));
    piece.len = 65_484;
    let first = part_of(&piece, &BOUNDS, 0, u32::MAX).unwrap().unwrap();
    assert_eq!(
        (first.len, parsed(&first).flags),
        (65_483, Flags::ACK.with(Flags::CWR))
    );
    let second = part_of(&piece, &BOUNDS, first.len, u32::MAX)
        .unwrap()
        .unwrap();
    assert_eq!(
        (second.len, parsed(&second).flags),
        (1, all.without(Flags::CWR))
    );
    assert_eq!(parsed(&second).seq, piece.seq + first.len);
}

/// Compression is decided for each segment, so the kernel gets each by itself.
#[test]
fn a_piece_that_may_be_compressed_leaves_segment_by_segment_with_its_flags_at_its_ends() {
    let all = Flags::ACK
        .with(Flags::CWR)
        .with(Flags::FIN)
        .with(Flags::PSH);
    let piece = piece(packet(4000), 4000, all);
    let (mut sent, mut parts) = (0, Vec::new());
    while let Some(part) = part_of(&piece, &BOUNDS, sent, 1).unwrap() {
        let segment = parsed(&part);
        assert_eq!((part.vnet.gso, part.vnet.needs_csum), (Gso::None, true));
        assert_eq!((segment.seq, segment.flags), (piece.seq + sent, part.flags));
        parts.push((part.len, part.flags));
        sent += part.len;
    }
    let ends = Flags::FIN.with(Flags::PSH);
    assert_eq!(
        parts,
        [
            (1448, all.without(ends)),
            (1448, Flags::ACK),
            (1104, all.without(Flags::CWR)),
        ]
    );
}

#[test]
fn a_super_segment_of_ipv6_is_named_as_one_and_leaves_room_for_its_header() {
    let payload = vec![7; 4000];
    let whole = with_options(true, &two_blocks()[..12], &payload);
    let kept = read(&VnetHdr::default(), Direction::Downlink, &whole);
    let piece = piece(kept, 4000, Flags::ACK);
    let part = part_of(&piece, &BOUNDS, 0, u32::MAX).unwrap().unwrap();
    // Of 1500 bytes IPv6 takes 40, TCP with timestamps 32.
    assert_eq!((part.vnet.gso, part.vnet.gso_size), (Gso::TcpV6, 1428));
    assert_eq!((part.vnet.hdr_len, part.vnet.csum_start), (72, 40));
    assert_eq!(part.len, 4000);
}

/// A forged or misread path MTU must not cut a piece endlessly, and must not leave it whole.
#[test]
fn a_path_mtu_without_room_for_a_byte_cuts_a_piece_to_single_bytes() {
    let mut piece = piece(packet(4000), 3, Flags::ACK);
    for path_mtu in [0, 40, 52, 53] {
        piece.path_mtu = Some(path_mtu);
        let mut sent = 0;
        while let Some(part) = part_of(&piece, &BOUNDS, sent, 1).unwrap() {
            assert_eq!((part.len, part.vnet.gso), (1, Gso::None), "{path_mtu}");
            sent += part.len;
        }
        assert_eq!(sent, piece.len, "{path_mtu}");
    }
}

#[test]
fn the_payload_of_a_piece_is_that_of_the_segment_it_was_cut_from() {
    let packet = packet(4000);
    let bytes = packet.payload(256, 100);
    assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == at as u8));
}

#[test]
fn an_uplink_piece_is_cut_to_the_wired_interface_or_as_its_sender_cut_it() {
    let mut piece = piece(packet(40_000), 40_000, Flags::ACK);
    piece.direction = Direction::Uplink;
    for (wired_mtu, gso_size) in [(Some(1280), 1228), (Some(9000), 1448), (None, 1448)] {
        let bounds = Bounds {
            wireless_mtu: 600,
            wired_mtu,
            ..BOUNDS
        };
        let part = part_of(&piece, &bounds, 0, u32::MAX).unwrap().unwrap();
        assert_eq!(part.vnet.gso_size, gso_size);
    }
}

#[test]
fn a_piece_that_goes_ahead_alone_has_the_dscp_and_its_ecn_bits_stay() {
    for v6 in [false, true] {
        let whole = with_options(v6, &two_blocks()[..12], b"abc");
        let kept = read(&VnetHdr::default(), Direction::Downlink, &whole);
        let mut piece = piece(kept, 3, Flags::ACK);
        let (own, ecn) = if v6 { (0x15 >> 2, 0x15 & 3) } else { (10, 1) };
        for (ahead, resend_dscp, expected) in [
            (false, Some(46), own),
            (true, None, own),
            (true, Some(46), 46),
            (true, Some(0), 0),
        ] {
            piece.ahead = ahead;
            let bounds = Bounds {
                resend_dscp,
                ..BOUNDS
            };
            let part = part_of(&piece, &bounds, 0, u32::MAX).unwrap().unwrap();
            let bytes = part.header.as_bytes();
            assert_eq!(holdfast_wire::dscp(bytes), Some(expected), "{v6} {ahead}");
            let class = if v6 {
                bytes[0] << 4 | bytes[1] >> 4
            } else {
                bytes[1]
            };
            assert_eq!(class & 3, ecn);
            assert!(holdfast_wire::ip_checksum_is_right(bytes, 0));
        }
    }
}

#[test]
fn a_segment_goes_on_with_other_blocks_and_a_right_checksum() {
    for v6 in [false, true] {
        for payload in [&b""[..], b"odd"] {
            let whole = with_options(v6, &two_blocks(), payload);
            for (needs_csum, data_valid) in [(false, false), (false, true), (true, false)] {
                let vnet = VnetHdr {
                    needs_csum,
                    data_valid,
                    ..VnetHdr::default()
                };
                let packet = read(&vnet, Direction::Uplink, &whole);
                let header =
                    changed_header(&packet, |header| header.keep_sack_blocks(&one_block()))
                        .unwrap();
                let made = [header.as_bytes(), payload].concat();
                assert_eq!(made.len(), whole.len());
                let (segment, layout) = holdfast_wire::parse(&made, 0).unwrap();
                assert_eq!(segment.options.sack, one_block());
                let (mut before, _) = holdfast_wire::parse(&whole, 0).unwrap();
                before.options.sack = one_block();
                assert_eq!(segment, before);
                let is_right = holdfast_wire::checksum_is_right(&made, &segment, &layout);
                // What is left to the device is left as it was.
                assert_eq!(is_right, !needs_csum);
                let field = layout.tcp + 16..layout.tcp + 18;
                assert_eq!(made[field.clone()] == whole[field], needs_csum);
            }
        }
    }
}

#[test]
fn a_segment_goes_on_with_another_ack_and_a_right_checksum() {
    for v6 in [false, true] {
        for payload in [&b""[..], b"odd"] {
            let whole = with_options(v6, &two_blocks(), payload);
            for needs_csum in [false, true] {
                let vnet = VnetHdr {
                    needs_csum,
                    ..VnetHdr::default()
                };
                let packet = read(&vnet, Direction::Uplink, &whole);
                let ack = holdfast_wire::SeqNum::new(0xfedc_ba98);
                let header = changed_header(&packet, |header| {
                    header.set_ack(ack);
                    header.set_window(0xabcd);
                    true
                })
                .unwrap();
                let made = [header.as_bytes(), payload].concat();
                let (segment, layout) = holdfast_wire::parse(&made, 0).unwrap();
                let (mut before, _) = holdfast_wire::parse(&whole, 0).unwrap();
                (before.ack, before.window) = (ack, 0xabcd);
                assert_eq!(segment, before);
                let is_right = holdfast_wire::checksum_is_right(&made, &segment, &layout);
                // What is left to the device is left as it was.
                assert_eq!(is_right, !needs_csum);
            }
        }
    }
}

#[test]
fn a_segment_whose_options_are_not_understood_goes_on_as_it_came() {
    // MD5 (RFC 2385) and a block.
    let mut options = vec![1, 1, 19, 18];
    options.extend([7; 16]);
    options.extend(&two_blocks()[12..]);
    let whole = with_options(false, &options, b"");
    let packet = read(&VnetHdr::default(), Direction::Uplink, &whole);
    assert!(changed_header(&packet, |header| header.keep_sack_blocks(&one_block())).is_none());
}

#[test]
fn a_made_ack_carries_its_blocks() {
    let whole = with_options(false, &two_blocks()[..12], b"");
    let template = read(&VnetHdr::default(), Direction::Uplink, &whole);
    let mut made = Made {
        direction: Direction::Uplink,
        template: template.header().unwrap(),
        seq: SeqNum::new(1),
        ack: SeqNum::new(2),
        window: 3,
        flags: Flags::ACK,
        timestamps: Some(Timestamps { tsval: 4, tsecr: 5 }),
        sack: one_block(),
    };
    let header = made_header(&made).unwrap();
    let (segment, layout) = holdfast_wire::parse(header.as_bytes(), 0).unwrap();
    assert_eq!(segment.options.sack, one_block());
    assert_eq!(segment.options.timestamps, made.timestamps);
    assert!(holdfast_wire::checksum_is_right(
        header.as_bytes(),
        &segment,
        &layout
    ));
    made.sack = SackBlocks::default();
    assert_eq!(made_header(&made).unwrap().network_len(), 52);
}
