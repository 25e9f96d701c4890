// SPDX-License-Identifier: Apache-2.0
//! Packets of the simulation: headers as values, payload as a range of a stream.
//!
//! A TCP segment carries no bytes, only the range that it would carry: those of
//! [`Origin::stream`] from [`Origin::offset`]. The receiver compares this range with the
//! sequence number, and so detects a byte at a wrong offset.

use holdfast_core::{Made, Payload, Resend, Template};
use holdfast_wire::{Endpoint, Flags, Options, SackBlocks, Segment, SeqNum};

use crate::content::ContentKind;

mod frame;

/// Bytes of an IPv4 header without options.
const IP_HEADER_LEN: u32 = 20;
/// Bytes of a TCP header without options.
const TCP_HEADER_LEN: u32 = 20;
/// Bytes of an ICMP message in IPv4: both headers, and the first 28 bytes of a segment's packet
/// (RFC 792).
const BAD_LINK_LEN: u32 = 56;
/// Bytes of an IPv4 and a UDP header.
pub(crate) const DATAGRAM_HEADERS_LEN: u32 = 28;

/// A node of the network, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Which bytes a payload is: `offset` counts from the first byte of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The stream: one number for each direction of each connection.
    pub stream: u32,
    /// Offset of the payload's first byte in it.
    pub offset: u64,
}

/// A TCP segment in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpPacket {
    /// The header's values, `payload_len` included.
    pub segment: Segment,
    /// Which bytes the payload is.
    pub origin: Origin,
    /// The sender has sent some of its sequence space before, or a gateway sends it
    /// from its cache: for statistics and traces alone.
    pub repeated: bool,
    /// The kind of its payload.
    pub content: ContentKind,
    /// The number of the compressed payload that it carries instead of the bytes.
    pub wire: Option<u32>,
}

/// What is in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A TCP segment.
    Tcp(TcpPacket),
    /// An ICMP message to an FH: a link on the path to an MH is bad. It has the header of a segment
    /// of that connection.
    BadLink {
        /// The FH's end.
        fh: Endpoint,
        /// The MH's end.
        mh: Endpoint,
    },
    /// A datagram of cross traffic, with its number.
    Datagram {
        /// The source that sent it.
        source: u32,
        /// Counts from 0.
        number: u64,
        /// Bytes of UDP payload.
        payload_len: u32,
    },
}

/// An IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The host that it comes from.
    pub from: NodeId,
    /// The host that it is for.
    pub to: NodeId,
    /// What is in it.
    pub body: Body,
    /// A link has turned bits in it: the checksum is wrong.
    pub corrupted: bool,
}

impl Packet {
    /// A TCP packet without data from one node's end to another node's end, all numbers 0.
    pub(crate) fn made((node, from): (NodeId, Endpoint), (peer, to): (NodeId, Endpoint)) -> Self {
        let segment = Segment {
            from,
            to,
            seq: SeqNum::default(),
            ack: SeqNum::default(),
            flags: Flags::ACK,
            window: 0,
            options: Options::default(),
            payload_len: 0,
        };
        Self {
            from: node,
            to: peer,
            body: Body::Tcp(TcpPacket {
                segment,
                origin: Origin::default(),
                repeated: false,
                content: ContentKind::Bulk,
                wire: None,
            }),
            corrupted: false,
        }
    }

    /// Length of the IP packet, bytes.
    pub fn len_bytes(&self) -> u32 {
        match &self.body {
            Body::Tcp(tcp) => headers_len(&tcp.segment) + tcp.segment.payload_len,
            Body::Datagram { payload_len, .. } => DATAGRAM_HEADERS_LEN + payload_len,
            Body::BadLink { .. } => BAD_LINK_LEN,
        }
    }

    /// The TCP segment in it, if there is one.
    pub fn segment(&self) -> Option<&Segment> {
        match &self.body {
            Body::Tcp(tcp) => Some(&tcp.segment),
            Body::Datagram { .. } | Body::BadLink { .. } => None,
        }
    }

    /// The packet with these SACK blocks instead of its own. The daemon fills removed blocks with
    /// NOPs; here the packet becomes shorter.
    pub(crate) fn with_sack(&self, sack: SackBlocks) -> Self {
        let mut packet = *self;
        if let Body::Tcp(tcp) = &mut packet.body {
            tcp.segment.options.sack = sack;
        }
        packet
    }

    /// The packet with this ACK and window instead of its own.
    pub(crate) fn with_ack(&self, ack: SeqNum, window: u16) -> Self {
        let mut packet = *self;
        if let Body::Tcp(tcp) = &mut packet.body {
            (tcp.segment.ack, tcp.segment.window) = (ack, window);
        }
        packet
    }

    /// Builds the packets that the gateway's edge sends for a piece of its cache: one segment
    /// each, CWR on the first, PSH and FIN on the last.
    pub(crate) fn of_resend(resend: &Resend<Self>, out: &mut Vec<Self>) {
        let Body::Tcp(kept) = resend.payload.body else {
            return;
        };
        let mut sent = 0;
        loop {
            let len = (resend.len - sent).min(resend.segment_len.max(1));
            let mut flags = resend.flags;
            if sent > 0 {
                flags = flags.without(Flags::CWR);
            }
            if sent + len < resend.len {
                flags = flags.without(Flags::PSH).without(Flags::FIN);
            }
            let offset = u64::from(resend.offset + sent);
            out.push(Self {
                body: Body::Tcp(TcpPacket {
                    segment: Segment {
                        seq: resend.seq + sent,
                        ack: resend.ack,
                        window: resend.window,
                        flags,
                        options: Options {
                            timestamps: resend.timestamps,
                            ..Options::default()
                        },
                        payload_len: len,
                        ..kept.segment
                    },
                    origin: Origin {
                        offset: kept.origin.offset + offset,
                        ..kept.origin
                    },
                    repeated: true,
                    content: kept.content,
                    wire: None,
                }),
                ..resend.payload
            });
            sent += len;
            if sent >= resend.len {
                return;
            }
        }
    }

    /// Builds the packet that the gateway's edge sends for its own ACK or RST.
    pub(crate) fn of_made(made: &Made<Self>) -> Self {
        let mut packet = made.template;
        packet.corrupted = false;
        if let Body::Tcp(tcp) = &mut packet.body {
            tcp.segment = Segment {
                seq: made.seq,
                ack: made.ack,
                window: made.window,
                flags: made.flags,
                options: Options {
                    timestamps: made.timestamps,
                    sack: made.sack,
                    ..Options::default()
                },
                payload_len: 0,
                ..tcp.segment
            };
            tcp.repeated = false;
        }
        packet
    }
}

impl Template for Packet {
    type Packed = Self;

    fn pack(&self) -> Self {
        *self
    }

    fn unpack(packed: &Self, _from: Endpoint, _to: Endpoint) -> Option<Self> {
        Some(*packed)
    }
}

impl Payload for Packet {
    type Header = Self;

    fn header(&self) -> Option<Self> {
        Some(*self)
    }

    fn segment_len(&self) -> u32 {
        match &self.body {
            Body::Tcp(tcp) => tcp.segment.payload_len,
            Body::Datagram { payload_len, .. } => *payload_len,
            Body::BadLink { .. } => 0,
        }
    }

    fn is_cacheable(&self) -> bool {
        !self.corrupted
    }

    fn octets(&self, offset: u32, len: u32) -> Option<&[u8]> {
        let Body::Tcp(tcp) = &self.body else {
            return None;
        };
        let from = tcp.origin.offset + u64::from(offset);
        tcp.content.bytes(from, len as usize)
    }

    fn renumbered(&self, header: &Segment) -> Option<Self> {
        let mut packet = *self;
        if let Body::Tcp(tcp) = &mut packet.body {
            tcp.segment = *header;
        }
        Some(packet)
    }

    fn answered(&self, answer: &Segment) -> Option<Self> {
        let mut packet = *self;
        (packet.from, packet.to) = (self.to, self.from);
        if let Body::Tcp(tcp) = &mut packet.body {
            (tcp.segment, tcp.origin, tcp.repeated) = (*answer, Origin::default(), false);
        }
        Some(packet)
    }
}

/// Bytes of a segment's IPv4 and TCP headers.
pub(crate) fn headers_len(segment: &Segment) -> u32 {
    IP_HEADER_LEN + TCP_HEADER_LEN + options_len(&segment.options)
}

/// Bytes that the options take, padding included, as today's stacks lay them out
/// (RFC 7323, appendix A: timestamps are aligned by two NOPs, and so is SACK).
pub(crate) fn options_len(options: &Options) -> u32 {
    let mut len = 0;
    if options.mss.is_some() {
        len += 4;
    }
    if options.sack_permitted {
        // Two bytes; they replace the NOPs before timestamps.
        len += if options.timestamps.is_some() { 0 } else { 4 };
    }
    if options.timestamps.is_some() {
        len += 12;
    }
    if options.window_scale.is_some() {
        len += 4;
    }
    if !options.sack.is_empty() {
        len += 4 + 8 * options.sack.iter().count() as u32;
    }
    len
}

#[cfg(test)]
mod tests;
