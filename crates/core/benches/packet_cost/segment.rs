// SPDX-License-Identifier: Apache-2.0
//! Packets as bytes.

use holdfast_core::Direction;

/// The fields of a packet that the two hosts need.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) len: u32,
    pub(crate) tsval: u32,
    pub(crate) tsecr: u32,
    pub(crate) sack: Vec<(u32, u32)>,
    pub(crate) syn: bool,
}

/// An IPv4 packet with timestamps and SACK blocks.
pub(crate) fn frame(direction: Direction, packet: &Packet, unknown_option: bool) -> Vec<u8> {
    let mut options = Vec::new();
    if packet.syn {
        options.extend([4, 2, 3, 3, 7, 1]);
        options.extend([1, 1]);
    }
    if unknown_option {
        options.extend([30, 4, 0, 0]);
    }
    options.extend([1, 1, 8, 10]);
    options.extend(packet.tsval.to_be_bytes());
    options.extend(packet.tsecr.to_be_bytes());
    if !packet.sack.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * packet.sack.len() as u8]);
        for (left, right) in &packet.sack {
            options.extend(left.to_be_bytes());
            options.extend(right.to_be_bytes());
        }
    }
    let header_len = 40 + options.len();
    let mut bytes = vec![0; header_len + packet.len as usize];
    bytes[0] = 0x45;
    let total_len = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&total_len.to_be_bytes());
    bytes[8..10].copy_from_slice(&[63, 6]);
    let (fh, mh) = (([10, 1, 0, 2], [0, 80]), ([10, 2, 0, 2], [0x9c, 0x40]));
    let (from, to) = if direction == Direction::Downlink {
        (fh, mh)
    } else {
        (mh, fh)
    };
    bytes[12..16].copy_from_slice(&from.0);
    bytes[16..20].copy_from_slice(&to.0);
    bytes[20..22].copy_from_slice(&from.1);
    bytes[22..24].copy_from_slice(&to.1);
    bytes[24..28].copy_from_slice(&packet.seq.to_be_bytes());
    bytes[28..32].copy_from_slice(&packet.ack.to_be_bytes());
    let opens = packet.syn && direction == Direction::Uplink;
    let flags = if opens {
        2
    } else if packet.syn {
        0x12
    } else {
        0x10
    };
    bytes[32] = ((header_len as u8 - 20) / 4) << 4;
    bytes[33] = flags;
    bytes[34..36].copy_from_slice(&[0xff, 0xff]);
    bytes[40..header_len].copy_from_slice(&options);
    bytes
}
