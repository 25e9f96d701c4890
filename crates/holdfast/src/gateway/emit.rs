// SPDX-License-Identifier: Apache-2.0
//! Frames of our own: pieces of the cache, and made ACKs.

use std::io::{self, IoSlice};

use holdfast_core::{Direction, Made, Payload as _, Resend};
use holdfast_net::datapath::{DataPath, Gso, VnetHdr};
use holdfast_wire::{Flags, Header};

use super::packet::Packet;

/// Where the checksum lies in the TCP header (RFC 9293, 3.1).
const TCP_CHECKSUM_OFFSET: u16 = 16;

/// The largest IP packet, super-segments included.
const IP_PACKET_BYTES_MAX: u32 = 65_535;

/// Sends a piece of the cache to the MH, cut to `mtu`, the largest IP packet that the
/// wireless interface takes.
///
/// Errors: that of the device, `InvalidData` if the headers cannot be copied.
pub(super) fn resend(path: &DataPath, piece: &Resend<Packet>, mtu: u32) -> io::Result<()> {
    let mut sent = 0;
    while let Some(part) = next_part(piece, mtu, sent)? {
        let payload = piece.payload.payload(piece.offset + sent, part.len);
        let parts = [IoSlice::new(part.header.as_bytes()), IoSlice::new(&payload)];
        path.write(Direction::Downlink, &part.vnet, &parts)?;
        sent += part.len;
        if part.len == 0 {
            break;
        }
    }
    Ok(())
}

/// Sends a header without payload.
pub(super) fn send_made(path: &DataPath, made: &Made<Header>) -> io::Result<()> {
    let mut header = made.template;
    header.set_seq(made.seq);
    header.set_ack(made.ack);
    header.set_flags(made.flags);
    header.set_window(made.window);
    header.set_only_timestamps(made.timestamps);
    if !header.set_payload_len(0) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    header.set_checksum(&[]);
    path.write(
        made.direction,
        &VnetHdr::default(),
        &[IoSlice::new(header.as_bytes())],
    )
}

/// One frame's worth of a piece.
#[derive(Debug)]
struct Part {
    header: Header,
    vnet: VnetHdr,
    /// Bytes of payload.
    len: u32,
}

/// The frame after the first `sent` bytes of a piece; none after the last.
///
/// A piece is one frame, a super-segment if it is longer than one segment: the kernel
/// cuts it. Only where the headers have grown may it take two.
fn next_part(piece: &Resend<Packet>, mtu: u32, sent: u32) -> io::Result<Option<Part>> {
    // A FIN may come alone.
    if sent >= piece.len && (sent > 0 || piece.len > 0) {
        return Ok(None);
    }
    let mut header = piece.payload.header().ok_or(io::ErrorKind::InvalidData)?;
    header.set_only_timestamps(piece.timestamps);
    let headers_len = header.network_len() as u32;
    let len = (piece.len - sent).min(IP_PACKET_BYTES_MAX - headers_len);
    let mut flags = piece.flags;
    // As segmentation offload has it: CWR on the first, FIN and PSH on the last.
    if sent > 0 {
        flags = flags.without(Flags::CWR);
    }
    if sent + len < piece.len {
        flags = flags.without(Flags::FIN.with(Flags::PSH));
    }
    header.set_seq(piece.seq + sent);
    header.set_ack(piece.ack);
    header.set_window(piece.window);
    header.set_flags(flags);
    if !header.set_payload_len(len as usize) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    header.set_checksum_partial(len as usize);
    let mtu = piece.path_mtu.map_or(mtu, |path_mtu| path_mtu.min(mtu));
    // An MTU without room for a byte is no MTU.
    let segment_len = piece
        .segment_len
        .min(mtu.saturating_sub(headers_len))
        .max(1);
    let vnet = partial_vnet(&header, flags, len, segment_len);
    Ok(Some(Part { header, vnet, len }))
}

/// What the kernel has to know to complete the checksum and to cut the frame.
fn partial_vnet(header: &Header, flags: Flags, len: u32, segment_len: u32) -> VnetHdr {
    let mut vnet = VnetHdr {
        needs_csum: true,
        csum_start: header.tcp_offset() as u16,
        csum_offset: TCP_CHECKSUM_OFFSET,
        ..VnetHdr::default()
    };
    if len > segment_len {
        vnet.gso = if header.is_ipv4() {
            Gso::TcpV4
        } else {
            Gso::TcpV6
        };
        vnet.ecn = flags.has(Flags::CWR);
        vnet.hdr_len = header.len() as u16;
        vnet.gso_size = segment_len as u16;
    }
    vnet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::packet::{Content, classify};
    use holdfast_net::frame::BufferPool;
    use holdfast_net::tun::VNET_HDR_BYTES;
    use holdfast_wire::{SeqNum, Timestamps};

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
        let vnet = VnetHdr {
            needs_csum: true,
            gso: Gso::TcpV4,
            gso_size: 1448,
            csum_start: 20,
            csum_offset: 16,
            ..VnetHdr::default()
        };
        let mut pool = BufferPool::new(1 << 20);
        let frame = pool
            .read(|buffer| {
                buffer[..VNET_HDR_BYTES].copy_from_slice(&vnet.emit());
                buffer[VNET_HDR_BYTES..VNET_HDR_BYTES + bytes.len()].copy_from_slice(&bytes);
                Ok(VNET_HDR_BYTES + bytes.len())
            })
            .unwrap();
        match classify(&frame, Direction::Downlink, 0) {
            Content::Segment(segment, packet) => {
                assert_eq!(segment.payload_len as usize, len);
                packet
            }
            other => panic!("{other:?}"),
        }
    }

    fn piece(payload: Packet, len: u32, flags: Flags) -> Resend<Packet> {
        Resend {
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
        }
    }

    fn parsed(part: &Part) -> holdfast_wire::Segment {
        let mut bytes = part.header.as_bytes().to_vec();
        bytes.resize(bytes.len() + part.len as usize, 0);
        holdfast_wire::parse(&bytes, 0).unwrap().0
    }

    #[test]
    fn a_fin_alone_is_sent() {
        let fin = piece(packet(4000), 0, Flags::ACK.with(Flags::FIN));
        let part = next_part(&fin, 1500, 0).unwrap().unwrap();
        assert_eq!((part.len, parsed(&part).flags), (0, fin.flags));
    }

    #[test]
    fn a_piece_of_one_segment_is_a_plain_frame_with_the_checksum_left_to_the_kernel() {
        let piece = piece(packet(4000), 1448, Flags::ACK);
        let part = next_part(&piece, 1500, 0).unwrap().unwrap();
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
        assert!(next_part(&piece, 1500, part.len).unwrap().is_none());
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
            let part = next_part(&piece, mtu, 0).unwrap().unwrap();
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
        let whole = next_part(&piece, 1500, 0).unwrap().unwrap();
        assert_eq!((whole.len, parsed(&whole).flags), (65_483, all));
        piece.len = 65_484;
        let first = next_part(&piece, 1500, 0).unwrap().unwrap();
        assert_eq!(
            (first.len, parsed(&first).flags),
            (65_483, Flags::ACK.with(Flags::CWR))
        );
        let second = next_part(&piece, 1500, first.len).unwrap().unwrap();
        assert_eq!(
            (second.len, parsed(&second).flags),
            (1, all.without(Flags::CWR))
        );
        assert_eq!(parsed(&second).seq, piece.seq + first.len);
    }

    #[test]
    fn the_payload_of_a_piece_is_that_of_the_segment_it_was_cut_from() {
        let packet = packet(4000);
        let bytes = packet.payload(256, 100);
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == at as u8));
    }
}
