// SPDX-License-Identifier: Apache-2.0
//! Frames that the worker builds: pieces of the cache, and made ACKs.

use std::io::{self, IoSlice};

use holdfast_core::compression::marked;
use holdfast_core::{Direction, Gateway, Made, Payload as _, Resend, Unreachable};
use holdfast_net::datapath::{DataPath, Gso, VnetHdr};
use holdfast_wire::{Flags, Header, Instant, SackBlocks, SeqNum, unreachable};

use super::packet::Packet;

/// Where the checksum lies in the TCP header (RFC 9293, 3.1).
const TCP_CHECKSUM_OFFSET: u16 = 16;

/// The largest IP packet, super-segments included.
const IP_PACKET_BYTES_MAX: u32 = 65_535;

/// The limits and marks of the frames that the worker builds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The largest IP packet that the wireless interface takes, bytes.
    pub(super) wireless_mtu: u32,
    /// The same of the wired interface, if the settings name it. Otherwise an uplink piece is cut as
    /// its sender cut it.
    pub(super) wired_mtu: Option<u32>,
    /// The DSCP of packets that overtake ordinary traffic, 0 to 63. None: the sender's DSCP.
    pub(super) resend_dscp: Option<u8>,
}

impl Bounds {
    fn mtu(&self, direction: Direction) -> u32 {
        match direction {
            Direction::Downlink => self.wireless_mtu,
            Direction::Uplink => self.wired_mtu.unwrap_or(u32::MAX),
        }
    }
}

/// Sends a piece of the cache, cut to what the interface of its direction takes. If the piece may be
/// compressed, the engine decides for each segment, at the time of `clock`.
///
/// Errors: that of the device, `InvalidData` if the headers cannot be copied.
pub(super) fn resend(
    path: &DataPath,
    piece: &Resend<Packet>,
    bounds: &Bounds,
    engine: &mut Gateway<Packet>,
    clock: fn() -> Instant,
) -> io::Result<()> {
    let may_compress = piece.compress.is_some();
    let segments_max = if may_compress { 1 } else { u32::MAX };
    let mut sent = 0;
    while let Some(part) = part_of(piece, bounds, sent, segments_max)? {
        let Part {
            mut header,
            vnet,
            flags,
            len,
        } = part;
        readdress(&mut header, piece.direction, engine);
        let compressed = if may_compress {
            engine.compress(piece, sent, len, flags, clock())
        } else {
            None
        };
        if let Some(payload) = compressed {
            header.set_flags(marked(flags));
            if !header.set_payload_len(payload.len()) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            header.set_checksum_partial(payload.len());
            let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(payload)];
            path.write(piece.direction, &vnet, &parts)?;
        } else {
            let payload = piece.payload.payload(piece.offset + sent, len);
            let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(&payload)];
            path.write(piece.direction, &vnet, &parts)?;
        }
        sent += len;
        if len == 0 {
            break;
        }
    }
    Ok(())
}

/// Updates the link-layer addresses: the MH's next hop may have changed since the header was copied.
fn readdress(header: &mut Header, direction: Direction, engine: &Gateway<Packet>) {
    if direction == Direction::Downlink
        && let Some(addresses) = engine.link_addresses(header.destination())
    {
        header.set_link_addresses(&addresses);
    }
}

/// Sends a header without payload.
pub(super) fn send_made(
    path: &DataPath,
    made: &Made<Header>,
    engine: &Gateway<Packet>,
) -> io::Result<()> {
    let mut header = made_header(made).ok_or(io::ErrorKind::InvalidData)?;
    readdress(&mut header, made.direction, engine);
    path.write(
        made.direction,
        &VnetHdr::default(),
        &[IoSlice::new(header.as_bytes())],
    )
}

/// Sends an ICMP unreachable message to the sender at the MH.
pub(super) fn send_unreachable(
    path: &DataPath,
    report: &Unreachable<Header>,
    engine: &Gateway<Packet>,
) -> io::Result<()> {
    let (fh, mh) = (report.key.fh, report.key.mh);
    let mut template = report.template;
    readdress(&mut template, Direction::Downlink, engine);
    let frame = unreachable(template.link(), mh, fh, report.seq);
    let frame = frame.ok_or(io::ErrorKind::InvalidData)?;
    for _ in 0..report.copies {
        let parts = [IoSlice::new(&frame)];
        path.write(Direction::Downlink, &VnetHdr::default(), &parts)?;
    }
    Ok(())
}

/// `None` if no IP packet has that length.
fn made_header(made: &Made<Header>) -> Option<Header> {
    let mut header = made.template;
    header.set_seq(made.seq);
    header.set_ack(made.ack);
    header.set_flags(made.flags);
    header.set_window(made.window);
    header.set_options(made.timestamps, &made.sack);
    header.set_payload_len(0).then(|| {
        header.set_checksum(&[]);
        header
    })
}

/// Repeats an earlier packet with the newest link-layer addresses, and with other headers if it has them.
///
/// Errors: that of the device.
pub(super) fn repeat(path: &DataPath, packet: &Packet, engine: &Gateway<Packet>) -> io::Result<()> {
    let (frame, direction) = (packet.frame(), packet.direction());
    let Some(mut header) = packet.header() else {
        return path.forward(direction, frame);
    };
    readdress(&mut header, direction, engine);
    let has_no_payload = packet
        .other_header()
        .is_some_and(|other| other.has_no_payload);
    let header_bytes = IoSlice::new(header.as_bytes());
    if has_no_payload {
        return path.write(direction, &VnetHdr::default(), &[header_bytes]);
    }
    // The padding is sent too.
    let rest = &frame.bytes()[header.len()..];
    path.write(direction, frame.vnet(), &[header_bytes, IoSlice::new(rest)])
}

/// Forwards a segment with `sack`, a subset of its own SACK blocks. The checksum and segmentation flags
/// for the kernel stay. The payload is not copied. False: the segment was forwarded unchanged, because
/// its headers cannot be copied or its options are not understood.
///
/// Errors: that of the device.
pub(super) fn forward_with_sack(
    path: &DataPath,
    packet: &Packet,
    sack: &SackBlocks,
) -> io::Result<bool> {
    forward_with(path, packet, |header| header.keep_sack_blocks(sack))
}

/// Forwards a segment with this ACK and window instead of its own, like
/// [`forward_with_sack`].
///
/// Errors: that of the device.
pub(super) fn forward_with_ack(
    path: &DataPath,
    packet: &Packet,
    ack: SeqNum,
    window: u16,
) -> io::Result<bool> {
    forward_with(path, packet, |header| {
        header.set_ack(ack);
        header.set_window(window);
        true
    })
}

fn forward_with(
    path: &DataPath,
    packet: &Packet,
    change: impl FnOnce(&mut Header) -> bool,
) -> io::Result<bool> {
    let frame = packet.frame();
    let Some(header) = changed_header(packet, change) else {
        path.forward(packet.direction(), frame)?;
        return Ok(false);
    };
    // The padding is sent too.
    let rest = &frame.bytes()[header.len()..];
    let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(rest)];
    path.write(packet.direction(), frame.vnet(), &parts)?;
    Ok(true)
}

/// The packet's header after `change`; none if it cannot be copied or changed.
fn changed_header(packet: &Packet, change: impl FnOnce(&mut Header) -> bool) -> Option<Header> {
    let before = packet.header()?;
    let mut header = before;
    if !change(&mut header) {
        return None;
    }
    // With `needs_csum` the field holds the pseudo-header's sum, which no TCP field changes.
    if !packet.frame().vnet().needs_csum {
        header.correct_checksum(&before);
    }
    Some(header)
}

/// The part of a piece that fits one frame.
#[derive(Debug)]
struct Part {
    header: Header,
    vnet: VnetHdr,
    flags: Flags,
    /// Bytes of payload.
    len: u32,
}

/// The frame after the first `sent` bytes of a piece, of at most this many segments; none after the last.
///
/// A piece is one frame. If it is longer than one segment, the frame is a super-segment and the kernel
/// cuts it. A piece takes two frames only if its headers have grown.
fn part_of(
    piece: &Resend<Packet>,
    bounds: &Bounds,
    sent: u32,
    segments_max: u32,
) -> io::Result<Option<Part>> {
    // A piece may be a FIN without payload.
    if sent >= piece.len && (sent > 0 || piece.len > 0) {
        return Ok(None);
    }
    let mut header = piece.payload.header().ok_or(io::ErrorKind::InvalidData)?;
    header.set_options(piece.timestamps, &SackBlocks::default());
    if let Some(dscp) = bounds.resend_dscp.filter(|_| piece.ahead) {
        header.set_dscp(dscp);
    }
    let headers_len = header.network_len() as u32;
    let mtu = bounds.mtu(piece.direction);
    let mtu = piece.path_mtu.map_or(mtu, |path_mtu| path_mtu.min(mtu));
    // An MTU without room for one byte of payload counts as room for one.
    let segment_len = piece
        .segment_len
        .min(mtu.saturating_sub(headers_len))
        .max(1);
    let len = (piece.len - sent)
        .min(IP_PACKET_BYTES_MAX - headers_len)
        .min(segment_len.saturating_mul(segments_max));
    let mut flags = piece.flags;
    // As in segmentation offload: only the first segment has CWR, only the last has FIN and PSH.
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
    let vnet = partial_vnet(&header, flags, len, segment_len);
    Ok(Some(Part {
        header,
        vnet,
        flags,
        len,
    }))
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
mod tests;
