// SPDX-License-Identifier: Apache-2.0
use core::net::Ipv4Addr;

use holdfast_core::Direction;
use holdfast_wire::{Endpoint, SackBlocks, SeqNum, Timestamps, checksum_is_right, parse};

use super::*;
use crate::content::ContentKind;

fn segment(options: Options, payload_len: u32) -> Segment {
    let end = |last, port| Endpoint {
        address: Ipv4Addr::new(10, 1, 0, last).into(),
        port,
    };
    Segment {
        from: end(2, 80),
        to: end(3, 40_000),
        seq: SeqNum::new(0xffff_fff0),
        ack: SeqNum::new(77),
        flags: Flags::ACK.with(Flags::PSH),
        window: 512,
        options,
        payload_len,
    }
}

fn packet(options: Options, payload_len: u32) -> Packet {
    Packet {
        from: NodeId(0),
        to: NodeId(1),
        body: Body::Tcp(TcpPacket {
            segment: segment(options, payload_len),
            origin: Origin {
                stream: 0,
                offset: 5000,
            },
            repeated: false,
            content: ContentKind::Bulk,
            wire: None,
        }),
        corrupted: false,
    }
}

fn all_options() -> Vec<Options> {
    let timestamps = Some(Timestamps { tsval: 5, tsecr: 6 });
    let mut sack = SackBlocks::default();
    sack.push(SeqNum::new(10), SeqNum::new(20));
    sack.push(SeqNum::new(1), SeqNum::new(2));
    let syn = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps,
        ..Options::default()
    };
    vec![
        Options::default(),
        syn,
        Options {
            timestamps: None,
            ..syn
        },
        Options {
            timestamps,
            sack,
            ..Options::default()
        },
        Options {
            sack,
            ..Options::default()
        },
    ]
}

#[test]
fn bytes_read_back_are_the_segment_and_as_long_as_counted() {
    for options in all_options() {
        for payload_len in [0, 1, 1448] {
            let packet = packet(options, payload_len);
            let bytes = packet.to_bytes();
            assert_eq!(bytes.len() as u32, packet.len_bytes());
            let (read, layout) = parse(&bytes, 0).unwrap();
            assert_eq!(&read, packet.segment().unwrap());
            assert!(checksum_is_right(&bytes, &read, &layout));
        }
    }
}

#[test]
fn corrupted_packet_has_a_wrong_checksum() {
    let packet = Packet {
        corrupted: true,
        ..packet(Options::default(), 100)
    };
    let bytes = packet.to_bytes();
    let (read, layout) = parse(&bytes, 0).unwrap();
    assert!(!checksum_is_right(&bytes, &read, &layout));
    assert!(!packet.is_cacheable());
}

#[test]
fn datagram_is_as_long_as_counted() {
    let packet = Packet {
        body: Body::Datagram {
            source: 0,
            number: 7,
            payload_len: 972,
        },
        ..packet(Options::default(), 0)
    };
    assert_eq!((packet.to_bytes().len(), packet.len_bytes()), (1000, 1000));
}

#[test]
fn message_of_a_bad_link_is_icmp_and_no_segment() {
    let endpoint = |last, port| Endpoint {
        address: core::net::Ipv4Addr::new(10, 0, 0, last).into(),
        port,
    };
    let right = Packet {
        body: Body::BadLink {
            fh: endpoint(1, 5100),
            mh: endpoint(2, 30_000),
        },
        ..packet(Options::default(), 0)
    };
    let wrong = Packet {
        corrupted: true,
        ..right
    };
    for (packet, is_right) in [(right, true), (wrong, false)] {
        let bytes = packet.to_bytes();
        assert_eq!(bytes.len() as u32, packet.len_bytes());
        assert!(parse(&bytes, 0).is_err() && packet.segment().is_none());
        // From the MH's address to the FH's; the segment quoted goes the other way.
        assert_eq!((bytes[9], bytes[15], bytes[19]), (1, 2, 1));
        assert_eq!((bytes[28 + 15], bytes[28 + 19]), (1, 2));
        assert_eq!(bytes[48..52], [0x13, 0xec, 0x75, 0x30]);
        let mut sum = holdfast_wire::checksum::Sum::default();
        sum.add(&bytes[20..]);
        assert_eq!(sum.finish() == 0, is_right);
    }
}

#[test]
fn piece_of_a_cache_is_the_bytes_of_its_range_in_segments() {
    let kept = packet(Options::default(), 1448);
    let resend = Resend {
        direction: Direction::Downlink,
        ahead: false,
        payload: kept,
        offset: 448,
        len: 1000,
        seq: SeqNum::new(900),
        ack: SeqNum::new(5),
        window: 3,
        flags: Flags::ACK.with(Flags::FIN).with(Flags::CWR),
        timestamps: None,
        segment_len: 600,
        path_mtu: None,
        compress: None,
    };
    let mut pieces = Vec::new();
    Packet::of_resend(&resend, &mut pieces);
    let shown: Vec<_> = pieces
        .iter()
        .map(|piece| match piece.body {
            Body::Tcp(tcp) => (
                tcp.segment.seq.get(),
                tcp.segment.payload_len,
                tcp.origin.offset,
                tcp.segment.flags,
            ),
            Body::Datagram { .. } | Body::BadLink { .. } => panic!("a segment"),
        })
        .collect();
    let ack = Flags::ACK;
    assert_eq!(
        shown,
        [
            (900, 600, 5448, ack.with(Flags::CWR)),
            (1500, 400, 6048, ack.with(Flags::FIN))
        ]
    );
}
