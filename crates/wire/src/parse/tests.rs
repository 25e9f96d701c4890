// SPDX-License-Identifier: Apache-2.0
use proptest::prelude::*;

use super::*;
use crate::{Header, SackBlocks, checksum_is_right};

/// A packet with `payload` and the given bytes of options.
pub(crate) fn packet(v6: bool, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let tcp_len = 20 + options.len() + payload.len();
    let mut bytes = if v6 {
        let mut ip = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
        ip[4..6].copy_from_slice(&(tcp_len as u16).to_be_bytes());
        ip.extend_from_slice(&[0x20; 16]);
        ip.extend_from_slice(&[0x21; 16]);
        ip
    } else {
        let mut ip = vec![
            0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2,
        ];
        ip[2..4].copy_from_slice(&(20 + tcp_len as u16).to_be_bytes());
        ip
    };
    bytes.extend_from_slice(&[0, 80, 0x9c, 0x40, 0, 0, 0, 100, 0, 0, 0, 200]);
    bytes.extend_from_slice(&[
        ((20 + options.len() as u8) / 4) << 4,
        0x18,
        1,
        0,
        0,
        0,
        0,
        0,
    ]);
    bytes.extend_from_slice(options);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn options_of_a_data_segment_are_read() {
    let timestamps = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
    let sack = [1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4];
    let options = [&timestamps[..], &sack[..]].concat();
    for v6 in [false, true] {
        let bytes = packet(v6, &options, b"hello");
        let (segment, layout) = parse(&bytes, 0).unwrap();
        assert_eq!(
            segment.options.timestamps,
            Some(Timestamps { tsval: 7, tsecr: 9 })
        );
        let blocks: Vec<_> = segment
            .options
            .sack
            .iter()
            .map(|(l, r)| (l.get(), r.get()))
            .collect();
        assert_eq!(blocks, [(1, 2), (3, 4)]);
        assert_eq!(&bytes[layout.payload..layout.end], b"hello");
        assert_eq!(
            (segment.seq.get(), segment.ack.get(), segment.window),
            (100, 200, 256)
        );
        assert!(!segment.options.others);
    }
}

#[test]
fn an_option_that_is_not_known_is_noticed() {
    // MPTCP (30), MD5 (19), AO (29), one that runs over the end.
    for option in [[30, 4, 0, 0], [19, 4, 0, 0], [29, 4, 0, 0], [8, 40, 0, 0]] {
        let bytes = packet(false, &option, b"");
        assert!(parse(&bytes, 0).unwrap().0.options.others, "{option:?}");
    }
}

#[test]
fn fragments_and_other_protocols_are_not_segments() {
    let mut fragment = packet(false, &[], b"hello");
    fragment[6] = 0x20;
    assert_eq!(parse(&fragment, 0), Err(NotTcp::Fragment));
    let mut later = packet(false, &[], b"hello");
    later[7] = 3;
    assert_eq!(parse(&later, 0), Err(NotTcp::Fragment));
    let mut udp = packet(false, &[], b"hello");
    udp[9] = 17;
    assert_eq!(parse(&udp, 0), Err(NotTcp::OtherProtocol));
}

/// TCP behind an authentication header, in IPv4 and in IPv6.
fn authenticated() -> [Vec<u8>; 2] {
    // RFC 4302, 2: TCP is next, twelve octets in all, an SPI and a sequence number.
    let authentication = [6, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1];
    let mut v4 = packet(false, &[], b"hello");
    v4[9] = 51;
    v4.splice(20..20, authentication);
    let total = v4.len() as u16;
    v4[2..4].copy_from_slice(&total.to_be_bytes());
    // In IPv6 its length is in units of eight octets, and destination options may be before it.
    let mut v6 = packet(true, &[], b"hello");
    v6[6] = 60;
    let padded = [authentication.as_slice(), &[0; 4]].concat();
    v6.splice(40..40, padded);
    v6[41] = 2;
    v6.splice(40..40, [51, 0, 1, 4, 0, 0, 0, 0]);
    let len = (v6.len() - 40) as u16;
    v6[4..6].copy_from_slice(&len.to_be_bytes());
    [v4, v6]
}

#[test]
fn tcp_behind_an_authentication_header_is_another_protocol() {
    let [v4, mut v6] = authenticated();
    assert_eq!(parse(&v4, 0), Err(NotTcp::OtherProtocol));
    assert_eq!(parse(&v6, 0), Err(NotTcp::OtherProtocol));
    // The same packet without it is a segment.
    v6.splice(48..64, []);
    v6[40] = 6;
    let len = (v6.len() - 40) as u16;
    v6[4..6].copy_from_slice(&len.to_be_bytes());
    assert_eq!(parse(&v6, 0).map(|(_, layout)| layout.tcp), Ok(48));
}

#[test]
fn a_changed_header_has_the_right_lengths_and_checksums() {
    for v6 in [false, true] {
        let bytes = packet(v6, &[1, 1, 1, 1], b"to be replaced");
        let (_, layout) = parse(&bytes, 0).unwrap();
        let mut header = Header::copy_from(&bytes, &layout).unwrap();
        header.set_seq(SeqNum::new(u32::MAX));
        header.set_options(
            Some(Timestamps { tsval: 1, tsecr: 2 }),
            &SackBlocks::default(),
        );
        assert!(header.set_payload_len(3));
        header.set_checksum(b"abc");
        let made = [header.as_bytes(), b"abc"].concat();
        let (segment, layout) = parse(&made, 0).unwrap();
        assert!(checksum_is_right(&made, &segment, &layout));
        assert_eq!(segment.seq.get(), u32::MAX);
        assert_eq!(
            segment.options.timestamps,
            Some(Timestamps { tsval: 1, tsecr: 2 })
        );
        let mut wrong = made.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert!(!checksum_is_right(&wrong, &segment, &layout));
        assert!(!header.set_payload_len(70_000));
    }
}

/// "Fragmentation needed" with an MTU of 1280, and what it quotes.
fn too_big_v4(quoted: &[u8]) -> Vec<u8> {
    let mut icmp = packet(false, &[], b"");
    icmp.truncate(20);
    icmp[9] = 1;
    icmp.extend_from_slice(&[3, 4, 0, 0, 0, 0, 0x05, 0x00]);
    icmp.extend_from_slice(quoted);
    let total = icmp.len() as u16;
    icmp[2..4].copy_from_slice(&total.to_be_bytes());
    icmp
}

/// "Packet too big" with an MTU of 1280, and what it quotes.
fn too_big_v6(quoted: &[u8]) -> Vec<u8> {
    let mut icmp = packet(true, &[], b"");
    icmp.truncate(40);
    icmp[6] = 58;
    icmp.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0x05, 0x00]);
    icmp.extend_from_slice(quoted);
    let len = (icmp.len() - 40) as u16;
    icmp[4..6].copy_from_slice(&len.to_be_bytes());
    icmp
}

#[test]
fn a_packet_too_big_message_names_the_flow_and_the_mtu() {
    let inner = packet(false, &[], b"12345678");
    let mut icmp = too_big_v4(&inner[..28]);
    let message = parse_packet_too_big(&icmp, 0).unwrap();
    assert_eq!(
        (message.mtu, message.from.port, message.seq.get()),
        (1280, 80, 100)
    );
    icmp[20] = 8;
    assert_eq!(parse_packet_too_big(&icmp, 0), None);
    let icmp = too_big_v6(&packet(true, &[], b"12345678"));
    assert_eq!(parse_packet_too_big(&icmp, 0).map(|m| m.mtu), Some(1280));
}

#[test]
fn a_quoted_segment_behind_an_authentication_header_is_of_no_flow() {
    let [v4, v6] = authenticated();
    assert_eq!(parse_packet_too_big(&too_big_v4(&v4), 0), None);
    assert_eq!(parse_packet_too_big(&too_big_v6(&v6), 0), None);
}

#[test]
fn a_quoted_packet_that_ends_between_its_extension_headers_is_of_no_flow() {
    let [_, v6] = authenticated();
    for end in 40..=64 {
        let message = too_big_v6(&v6[..end]);
        assert_eq!(parse_packet_too_big(&message, 0), None, "{end} octets");
    }
}

#[test]
fn a_quoted_fragment_is_of_no_flow() {
    let mut v4 = packet(false, &[], b"12345678");
    v4[7] = 1; // It begins at octet 8 of the payload.
    assert_eq!(parse_packet_too_big(&too_big_v4(&v4), 0), None);
    let mut v6 = packet(true, &[], b"12345678");
    v6[6] = 44;
    v6.splice(40..40, [6, 0, 0, 8, 0, 0, 0, 1]);
    let len = (v6.len() - 40) as u16;
    v6[4..6].copy_from_slice(&len.to_be_bytes());
    assert_eq!(parse_packet_too_big(&too_big_v6(&v6), 0), None);
}

#[test]
fn icmp_is_known_behind_extension_headers_and_whatever_its_lengths() {
    let mut v4 = packet(false, &[], b"x");
    assert!(!is_icmp(&v4, 0));
    v4[9] = 1;
    assert!(is_icmp(&v4, 0));
    for total in [0, 10, 0xffff_u16] {
        v4[2..4].copy_from_slice(&total.to_be_bytes());
        assert!(is_icmp(&v4, 0), "{total}");
    }
    let mut v6 = packet(true, &[], b"x");
    assert!(!is_icmp(&v6, 0));
    v6[6] = 58;
    assert!(is_icmp(&v6, 0));
    // Hop-by-hop and destination options of eight octets each before it.
    v6[6] = 0;
    v6.splice(40..40, [60, 0, 1, 4, 0, 0, 0, 0, 58, 0, 1, 4, 0, 0, 0, 0]);
    let len = (v6.len() - 40) as u16;
    v6[4..6].copy_from_slice(&len.to_be_bytes());
    assert!(is_icmp(&v6, 0));
    v6[48] = 17;
    assert!(!is_icmp(&v6, 0));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), ip in 0usize..20) {
        let _ = parse(&bytes, ip);
        let _ = parse_packet_too_big(&bytes, ip);
        let _ = is_icmp(&bytes, ip);
    }

    #[test]
    fn no_damage_to_a_packet_panics(
        v6: bool,
        options in prop::collection::vec(any::<u8>(), 0..10),
        damage in prop::collection::vec((0usize..120, any::<u8>()), 0..6),
        cut in 0usize..140,
    ) {
        let options: Vec<u8> = options.into_iter().flat_map(|octet| [octet; 4]).collect();
        let mut bytes = packet(v6, &options, b"payload");
        for (at, octet) in damage {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = octet;
            }
        }
        bytes.truncate(cut);
        if let Ok((segment, layout)) = parse(&bytes, 0) {
            prop_assert!(layout.tcp + 20 <= layout.payload && layout.payload <= layout.end);
            prop_assert!(layout.end <= bytes.len());
            prop_assert_eq!(segment.payload_len as usize, layout.end - layout.payload);
            if let Some(mut header) = Header::copy_from(&bytes, &layout) {
                header.set_options(Some(Timestamps::default()), &segment.options.sack);
                prop_assert!(header.set_payload_len(1));
                header.set_checksum(b"x");
            }
        }
    }
}
