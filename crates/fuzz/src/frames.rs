// SPDX-License-Identifier: Apache-2.0
//! The fields that the daemons read in a frame before the engine gets it, and the headers made from it.

use std::cell::RefCell;

use holdfast_core::keep::PacketFlow;
use holdfast_net::frame::BufferPool;
use holdfast_net::tun::VNET_HDR_BYTES;
use holdfast_wire::{
    Endpoint, Flags, Header, Layout, Options, Segment, SeqNum, Timestamps, checksum_is_right, dscp,
    ip_checksum_is_right, is_icmp, parse, parse_packet_too_big,
};

/// Where the IP header begins: on raw IP, on Ethernet, and behind a VLAN's tag.
const IP_AT: [usize; 3] = [0, 14, 18];

/// The first byte selects the link layer. The rest is what is read from the TUN or TAP device.
pub fn frames(bytes: &[u8]) {
    thread_local! {
        static POOL: RefCell<BufferPool> = RefCell::new(BufferPool::new(1));
    }
    let Some((choice, read)) = bytes.split_first() else {
        return;
    };
    let ip = IP_AT[usize::from(*choice) % IP_AT.len()];
    let frame = POOL.with_borrow_mut(|pool| {
        pool.read(|buffer| {
            let len = read.len().min(buffer.len());
            buffer[..len].copy_from_slice(&read[..len]);
            Ok(len)
        })
    });
    let Ok(frame) = frame else {
        assert!(read.len() <= VNET_HDR_BYTES, "a frame was refused");
        return;
    };
    assert!(frame.bytes() == &read[VNET_HDR_BYTES..], "other bytes");
    let vnet = frame.vnet().emit();
    assert_eq!(holdfast_net::datapath::VnetHdr::parse(&vnet), *frame.vnet());
    classify(frame.bytes(), ip);
}

fn classify(frame: &[u8], ip: usize) {
    let packet = frame.get(ip..).unwrap_or_default();
    let flow = PacketFlow::of(packet);
    let too_big = parse_packet_too_big(frame, ip);
    let icmp = is_icmp(frame, ip);
    let _ = ip_checksum_is_right(frame, ip);
    assert!(dscp(packet).is_none_or(|dscp| dscp < 64));
    assert!(too_big.is_none() || icmp, "too big without ICMP");
    let Ok((segment, layout)) = parse(frame, ip) else {
        return;
    };
    assert!(!icmp, "TCP and ICMP");
    check_layout(frame, ip, &segment, &layout);
    let flow = flow.expect("the flow of a segment");
    assert_eq!(flow.source, segment.from.address);
    assert_eq!(flow.destination, segment.to.address);
    if let Some(header) = Header::copy_from(frame, &layout) {
        let payload = &frame[layout.payload..layout.end];
        assert!(header.as_bytes() == &frame[..layout.payload]);
        check_numbers(header, &segment, payload);
        check_options(header, &segment, payload);
        check_made(&header, &segment);
    }
}

fn check_layout(frame: &[u8], ip: usize, segment: &Segment, layout: &Layout) {
    assert_eq!(layout.ip, ip);
    assert!(layout.ip + 20 <= layout.tcp && layout.tcp + 20 <= layout.payload);
    assert!(layout.payload <= layout.end && layout.end <= frame.len());
    assert_eq!(
        layout.payload + segment.payload_len as usize,
        layout.end,
        "another length"
    );
    let sack = &segment.options.sack;
    assert_eq!(sack.iter().count(), sack.len());
}

/// Reads a header in front of a payload; both checksums are right.
fn read(header: &Header, payload: &[u8]) -> Segment {
    let bytes = [header.as_bytes(), payload].concat();
    let (segment, layout) = parse(&bytes, header.ip_offset()).expect("a segment");
    assert!(checksum_is_right(&bytes, &segment, &layout));
    assert!(ip_checksum_is_right(&bytes, header.ip_offset()));
    assert!(bytes[layout.payload..layout.end] == *payload);
    segment
}

/// Checks that each number that is set is read again, and nothing else changes.
fn check_numbers(header: Header, segment: &Segment, payload: &[u8]) {
    let mut header = header;
    assert!(header.set_payload_len(payload.len()), "too long");
    header.set_checksum(payload);
    assert_eq!(read(&header, payload), *segment);
    let before = header;
    let own = Segment {
        seq: segment.seq + 1,
        ack: segment.ack + 77,
        flags: segment.flags.with(Flags::PSH),
        window: !segment.window,
        ..*segment
    };
    header.set_seq(own.seq);
    header.set_ack(own.ack);
    header.set_flags(own.flags);
    header.set_window(own.window);
    header.correct_checksum(&before);
    assert_eq!(read(&header, payload), own);
    header.set_dscp(46);
    assert!(header.set_payload_len(payload.len()), "too long");
    assert_eq!(dscp(&header.as_bytes()[header.ip_offset()..]), Some(46));
    assert_eq!(read(&header, payload), own);
}

/// Checks options that are replaced, blanked or written anew.
fn check_options(header: Header, segment: &Segment, payload: &[u8]) {
    let finish = |mut header: Header, payload: &[u8]| {
        let fits = header.set_payload_len(payload.len());
        header.set_checksum(payload);
        fits.then(|| read(&header, payload))
    };
    let own = &segment.options;
    let mut kept = header;
    if kept.keep_sack_blocks(&own.sack) {
        assert_eq!(finish(kept, payload).map(|one| one.options), Some(*own));
    }
    let mut blank = header;
    if blank.blank_timestamps() {
        let timestamps = None;
        let options = Options { timestamps, ..*own };
        assert_eq!(finish(blank, payload).map(|one| one.options), Some(options));
    }
    let timestamps = own.timestamps.or(Some(Timestamps { tsval: 1, tsecr: 2 }));
    let mut anew = header;
    anew.set_options(timestamps, &own.sack);
    if let Some(read) = finish(anew, &[]) {
        assert_eq!(read.options.timestamps, timestamps);
        assert_eq!(read.options.sack.len(), own.sack.len().min(3));
    }
    let mut syn = header;
    syn.set_syn_options(own);
    if let Some(read) = finish(syn, &[]) {
        let expected = Options {
            mss: own.mss,
            window_scale: own.window_scale,
            sack_permitted: own.sack_permitted,
            ..Options::default()
        };
        assert_eq!(read.options, expected);
    }
}

/// Checks that a header that was packed or newly made is for the same ends.
fn check_made(header: &Header, segment: &Segment) {
    let ends = |header: Option<Header>, from: Endpoint, to: Endpoint| {
        let mut header = header.expect("ends of one family");
        header.set_options(None, &holdfast_wire::SackBlocks::default());
        header.set_seq(SeqNum::new(1));
        assert!(header.set_payload_len(0));
        header.set_checksum(&[]);
        let read = read(&header, &[]);
        assert_eq!((read.from, read.to), (from, to));
    };
    let (from, to) = (segment.from, segment.to);
    ends(Header::unpack(&header.pack(), from, to), from, to);
    ends(Header::made(header.link(), to, from), to, from);
}
