// SPDX-License-Identifier: Apache-2.0
//! A packet as bytes, for traces that other programs read.

use core::net::{IpAddr, Ipv4Addr};

use holdfast_wire::checksum::Sum;
use holdfast_wire::{Endpoint, Flags, Options, Segment};

use super::{Body, NodeId, Packet, TcpPacket};

const PROTOCOL_ICMP: u8 = 1;
const ICMP_EXPERIMENT: u8 = 253;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// The port of cross traffic, both ends (RFC 863: discard).
const DISCARD_PORT: u16 = 9;
/// Payload bytes repeat after this many: a prime, so that no segment looks like the next.
const PATTERN: u64 = 251;

impl Packet {
    /// The IPv4 packet, with correct checksums (unless it is corrupted). The payload is a pattern
    /// of the bytes' offsets in their stream.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        bytes.reserve(self.len_bytes() as usize);
        let (from, to) = match &self.body {
            Body::Tcp(tcp) => (v4(tcp.segment.from.address), v4(tcp.segment.to.address)),
            Body::Datagram { .. } => (address_of(self.from), address_of(self.to)),
            Body::BadLink { fh, mh } => (v4(mh.address), v4(fh.address)),
        };
        let (protocol, checksum_at) = match &self.body {
            Body::Tcp(tcp) => {
                emit_tcp(tcp, &mut bytes);
                (PROTOCOL_TCP, 16)
            }
            Body::Datagram {
                number,
                payload_len,
                ..
            } => {
                let len = 8 + *payload_len as u16;
                bytes.extend(DISCARD_PORT.to_be_bytes());
                bytes.extend(DISCARD_PORT.to_be_bytes());
                bytes.extend(len.to_be_bytes());
                bytes.extend([0; 2]);
                bytes.extend(pattern(*number, *payload_len));
                (PROTOCOL_UDP, 6)
            }
            Body::BadLink { fh, mh } => {
                emit_bad_link(*fh, *mh, self.corrupted, &mut bytes);
                (PROTOCOL_ICMP, 2)
            }
        };
        emit_ip(&mut bytes[..], from, to, protocol);
        // A UDP datagram without a checksum is valid (RFC 768).
        if protocol == PROTOCOL_TCP {
            let len = bytes.len() as u32 - 20;
            let mut sum = Sum::pseudo_header(from.into(), to.into(), len);
            sum.add(&bytes[20..]);
            let mut checksum = sum.finish();
            if self.corrupted {
                checksum ^= 1;
            }
            let at = 20 + checksum_at;
            bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
        bytes
    }
}

fn emit_ip(bytes: &mut [u8], from: Ipv4Addr, to: Ipv4Addr, protocol: u8) {
    let len = bytes.len() as u16;
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    // Don't fragment (RFC 791, 3.1), and a TTL of 64.
    bytes[6..10].copy_from_slice(&[0x40, 0, 64, protocol]);
    bytes[12..16].copy_from_slice(&from.octets());
    bytes[16..20].copy_from_slice(&to.octets());
    let mut sum = Sum::default();
    sum.add(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.finish().to_be_bytes());
}

/// RFC 792's form, with a type for experiments (RFC 4727, 5.1): the paper gives none.
fn emit_bad_link(fh: Endpoint, mh: Endpoint, corrupted: bool, bytes: &mut Vec<u8>) {
    let mut quoted = vec![0; 20];
    quoted.extend(fh.port.to_be_bytes());
    quoted.extend(mh.port.to_be_bytes());
    quoted.extend([0; 4]);
    emit_ip(&mut quoted, v4(fh.address), v4(mh.address), PROTOCOL_TCP);
    let mut message = vec![ICMP_EXPERIMENT, 0, 0, 0, 0, 0, 0, 0];
    message.extend(quoted);
    let mut sum = Sum::default();
    sum.add(&message);
    let checksum = sum.finish() ^ u16::from(corrupted);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(message);
}

fn emit_tcp(tcp: &TcpPacket, bytes: &mut Vec<u8>) {
    let Segment {
        from,
        to,
        seq,
        ack,
        flags,
        window,
        options,
        payload_len,
    } = &tcp.segment;
    bytes.extend(from.port.to_be_bytes());
    bytes.extend(to.port.to_be_bytes());
    bytes.extend(seq.get().to_be_bytes());
    let ack = if flags.has(Flags::ACK) { ack.get() } else { 0 };
    bytes.extend(ack.to_be_bytes());
    let header_len = 20 + super::options_len(options);
    bytes.extend([(header_len as u8 / 4) << 4, flags.0]);
    bytes.extend(window.to_be_bytes());
    bytes.extend([0; 4]);
    emit_options(options, bytes);
    bytes.extend(pattern(tcp.origin.offset, *payload_len));
}

/// In the layout that `options_len` counts.
fn emit_options(options: &Options, bytes: &mut Vec<u8>) {
    if let Some(mss) = options.mss {
        bytes.extend([2, 4]);
        bytes.extend(mss.to_be_bytes());
    }
    match (options.sack_permitted, options.timestamps.is_some()) {
        (true, _) => bytes.extend([4, 2]),
        (false, true) => bytes.extend([1, 1]),
        (false, false) => {}
    }
    match options.timestamps {
        Some(timestamps) => {
            bytes.extend([8, 10]);
            bytes.extend(timestamps.tsval.to_be_bytes());
            bytes.extend(timestamps.tsecr.to_be_bytes());
        }
        None if options.sack_permitted => bytes.extend([1, 1]),
        None => {}
    }
    if let Some(scale) = options.window_scale {
        bytes.extend([1, 3, 3, scale]);
    }
    if !options.sack.is_empty() {
        let count = options.sack.iter().count() as u8;
        bytes.extend([1, 1, 5, 2 + 8 * count]);
        for (left, right) in options.sack.iter() {
            bytes.extend(left.get().to_be_bytes());
            bytes.extend(right.get().to_be_bytes());
        }
    }
}

fn pattern(offset: u64, len: u32) -> impl Iterator<Item = u8> {
    (offset..offset + u64::from(len)).map(|at| (at % PATTERN) as u8)
}

fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(v4) => v4,
        // The simulation's hosts have IPv4 addresses.
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

fn address_of(node: NodeId) -> Ipv4Addr {
    let [_, b, c, d] = node.0.to_be_bytes();
    Ipv4Addr::new(10, 64 | (b & 0x3f), c, d)
}
