// SPDX-License-Identifier: Apache-2.0
//! The engine's answer to a segment: a verdict and actions.

use holdfast_wire::{
    Endpoint, Flags, Header, LinkAddresses, PackedHeader, SackBlocks, Segment, SeqNum, Timestamps,
};

use crate::{Direction, FlowKey, FlowRecord};

/// A header from which others for the same flow and direction are made.
pub trait Template: Clone {
    /// The same in few bytes: without the ends, and without what is set for each segment.
    type Packed;

    /// The header of an idle flow.
    fn pack(&self) -> Self::Packed;

    /// The header that was packed, from `from` to `to`. None if it does not fit the ends.
    fn unpack(packed: &Self::Packed, from: Endpoint, to: Endpoint) -> Option<Self>;
}

impl Template for Header {
    type Packed = PackedHeader;

    fn pack(&self) -> PackedHeader {
        self.pack()
    }

    fn unpack(packed: &PackedHeader, from: Endpoint, to: Endpoint) -> Option<Self> {
        Self::unpack(packed, from, to)
    }
}

/// A segment's payload: real bytes that are shared with the cache, or only a length in a
/// simulation.
pub trait Payload: Clone {
    /// A copy of the headers that came with it, from which another header for the
    /// same flow and direction can be made.
    type Header: Template;

    /// A copy of the headers. `None` if they cannot be copied; then nothing can be made from this
    /// segment, and it is not cached.
    fn header(&self) -> Option<Self::Header>;

    /// Bytes of payload in each segment on the wire: `gso_size` of a super-segment,
    /// the payload's length otherwise.
    fn segment_len(&self) -> u32;

    /// The addresses of the link layer that it came with. `None` if its link has none.
    fn link_addresses(&self) -> Option<LinkAddresses> {
        None
    }

    /// Whether it may be cached: its checksum is correct, and its buffer is not needed for the next
    /// packet.
    fn is_cacheable(&self) -> bool;

    /// The packet with the numbers, the window and the SACK blocks of `header`, which has at most as
    /// many blocks, and without timestamps if `header` has none. The rest is unchanged. `None` if
    /// the headers cannot be copied.
    fn renumbered(&self, header: &Segment) -> Option<Self> {
        let _ = header;
        None
    }

    /// A packet without data to the sender of this one, with the header `answer`. `None` if the
    /// headers cannot be copied.
    fn answered(&self, answer: &Segment) -> Option<Self> {
        let _ = answer;
        None
    }

    /// True if `len` bytes from `offset` on equal those of `other` from `other_offset` on, or if the
    /// bytes are unknown.
    fn has_same_bytes(&self, offset: u32, other: &Self, other_offset: u32, len: u32) -> bool {
        let _ = (offset, other, other_offset, len);
        true
    }

    /// `len` bytes of payload from `offset` on, for compression; `None` if only the length is known.
    fn octets(&self, offset: u32, len: u32) -> Option<&[u8]> {
        let _ = (offset, len);
        None
    }
}

/// What happens to the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Forward it unchanged.
    Forward,
    /// Forward it with these SACK blocks, at most as many as it had; the rest is unchanged. The
    /// receiver has reported these bytes, in this segment or an earlier one.
    ForwardWithSack(SackBlocks),
    /// Forward it with this ACK and window; the rest is unchanged. Only for a segment of the MH, and
    /// the ACK is not higher than the MH's own.
    ForwardWithAck {
        /// SEG.ACK.
        ack: SeqNum,
        /// SEG.WND, not scaled.
        window: u16,
    },
    /// Do not forward it: it is cached and will be sent later, or it was answered.
    Suppress,
}

/// A piece of the cache to be retransmitted.
#[derive(Clone, Debug)]
pub struct Resend<P> {
    /// Where it goes.
    pub direction: Direction,
    /// It overtakes ordinary traffic that waits for the link (Snoop, 3.1.2).
    pub ahead: bool,
    /// The segment that the piece is cut from.
    pub payload: P,
    /// The piece's first byte, counted from the start of that segment's payload.
    pub offset: u32,
    /// Bytes of payload in the piece.
    pub len: u32,
    /// SEG.SEQ of the piece.
    pub seq: SeqNum,
    /// SEG.ACK: the newest that its sender sent.
    pub ack: SeqNum,
    /// SEG.WND: the newest that its sender sent, not scaled.
    pub window: u16,
    /// Control bits.
    pub flags: Flags,
    /// The timestamps, on a flow that has them.
    pub timestamps: Option<Timestamps>,
    /// Payload bytes of each segment on the wire, at most. A longer piece is sent as a super-segment,
    /// or cut at the device.
    pub segment_len: u32,
    /// The largest IP packet on the path beyond, if a router has reported it.
    pub path_mtu: Option<u32>,
    /// The flow, if each segment of the piece must be given to
    /// [`Gateway::compress`](crate::Gateway::compress) before it is sent.
    pub compress: Option<FlowKey>,
}

/// A header without payload that the gateway made: an ACK or a RST.
#[derive(Clone, Debug)]
pub struct Made<H> {
    /// Where it goes.
    pub direction: Direction,
    /// Headers of an earlier segment of the same flow and direction.
    pub template: H,
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// SEG.ACK.
    pub ack: SeqNum,
    /// SEG.WND, not scaled.
    pub window: u16,
    /// Control bits.
    pub flags: Flags,
    /// The timestamps, on a flow that has them.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks; at most three beside timestamps (RFC 2018, 3).
    pub sack: SackBlocks,
}

/// A report to the MH that its oldest segment could not be delivered while the link was down
/// (RFC 6069). It undoes one doubling of a sender's RTO.
#[derive(Clone, Debug)]
pub struct Unreachable<H> {
    /// Headers of an earlier segment to the MH.
    pub template: H,
    /// The flow.
    pub key: FlowKey,
    /// SEG.SEQ of that segment: the newest number that the FH has acknowledged.
    pub seq: SeqNum,
    /// The number of copies to send.
    pub copies: u8,
}

/// What the caller does in addition to the verdict, in order.
#[derive(Clone, Debug)]
pub enum Action<P: Payload> {
    /// Retransmit a piece of the cache.
    Resend(Resend<P>),
    /// Send an ACK or a RST that the gateway made.
    Send(Made<P::Header>),
    /// Send an earlier segment without payload unchanged in its own direction, or
    /// [one that was made](Payload::renumbered) from it.
    Repeat(P),
    /// Send a report to a sender at the MH.
    Notify(Unreachable<P::Header>),
    /// Write the state that a successor needs of the flow.
    Record(FlowRecord),
}

/// Actions in the order in which they are done. The caller owns the buffer and empties it, so
/// nothing is allocated for a packet.
pub type Actions<P> = Vec<Action<P>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FH, MH};

    #[test]
    fn a_header_that_was_packed_fits_its_own_ends_alone() {
        let header = Header::made(&[], FH, MH).expect("a header");
        let packed = Template::pack(&header);
        let unpack = |from, to| <Header as Template>::unpack(&packed, from, to);
        let same = unpack(FH, MH).expect("its ends");
        assert_eq!(same.as_bytes(), header.as_bytes());
        let other = Endpoint {
            address: core::net::Ipv6Addr::LOCALHOST.into(),
            ..MH
        };
        assert!(unpack(FH, other).is_none());
    }
}
