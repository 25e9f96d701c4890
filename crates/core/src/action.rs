// SPDX-License-Identifier: Apache-2.0
//! What a mechanism answers: a verdict on the segment in hand, and actions.

use holdfast_wire::{Flags, SackBlocks, Segment, SeqNum, Timestamps};

use crate::{Direction, FlowKey, FlowRecord};

/// A segment's payload, as far as a mechanism is concerned: real bytes shared with
/// the cache, or a length alone in a simulation.
pub trait Payload: Clone {
    /// A copy of the headers that came with it, from which another header for the
    /// same flow and direction can be made.
    type Header: Clone;

    /// A copy of its headers; `None` if they cannot be copied, in which case
    /// nothing can be made from this segment and it is not kept.
    fn header(&self) -> Option<Self::Header>;

    /// Bytes of payload in each segment on the wire: `gso_size` of a super-segment,
    /// the payload's length otherwise.
    fn segment_len(&self) -> u32;

    /// Whether it may be kept: its checksum is right and its buffer is not needed
    /// for the next packet.
    fn is_cacheable(&self) -> bool;

    /// The packet with the numbers, the window and the SACK blocks of `header` (which has no
    /// more of them than it), and with no timestamps if that has none; its length, its ends and
    /// its payload as they are. None if its headers cannot be copied.
    fn renumbered(&self, header: &Segment) -> Option<Self> {
        let _ = header;
        None
    }

    /// A packet without data back to where this one came from, with just the header `answer`.
    /// None if its headers cannot be copied.
    fn answered(&self, answer: &Segment) -> Option<Self> {
        let _ = answer;
        None
    }

    /// `len` bytes of payload from `offset` on are the same as those of `other` from
    /// `other_offset` on; true if it cannot be told.
    fn has_same_bytes(&self, offset: u32, other: &Self, other_offset: u32, len: u32) -> bool {
        let _ = (offset, other, other_offset, len);
        true
    }

    /// `len` bytes of payload from `offset` on, to be compressed; `None` if there is a length
    /// only.
    fn octets(&self, offset: u32, len: u32) -> Option<&[u8]> {
        let _ = (offset, len);
        None
    }
}

/// What becomes of the segment in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It goes on, byte for byte as it came.
    Forward,
    /// It goes on with these SACK blocks in place of its own, no more of them than it had;
    /// all else as it came. The receiver of the data has reported what they name, in this
    /// segment or before.
    ForwardWithSack(SackBlocks),
    /// It goes on with this ACK and window in place of its own; all else as it came. A segment
    /// of the MH alone, and the ACK is of no more than the MH has acknowledged.
    ForwardWithAck {
        /// SEG.ACK.
        ack: SeqNum,
        /// SEG.WND, not scaled.
        window: u16,
    },
    /// It does not go on now: it is kept and will be sent later, or was answered.
    Suppress,
}

/// A piece of the cache to be sent again.
#[derive(Clone, Debug)]
pub struct Resend<P> {
    /// Its way.
    pub direction: Direction,
    /// It goes ahead of ordinary traffic that waits for the link (Snoop, 3.1.2).
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
    /// Payload bytes for each segment on the wire, at most: a longer piece goes out
    /// as a super-segment or is cut by the device's edge.
    pub segment_len: u32,
    /// The largest IP packet that the path beyond takes, where a router said so.
    pub path_mtu: Option<u32>,
    /// The flow, if each segment of the piece is to be offered to
    /// [`Gateway::compress`](crate::Gateway::compress) before it goes out.
    pub compress: Option<FlowKey>,
}

/// A header without payload that the gateway made: an ACK or a RST.
#[derive(Clone, Debug)]
pub struct Made<H> {
    /// Its way.
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

/// Something to be done beside the verdict, in order.
#[derive(Clone, Debug)]
pub enum Action<P: Payload> {
    /// Send a piece of the cache again.
    Resend(Resend<P>),
    /// Send an ACK or a RST of our own.
    Send(Made<P::Header>),
    /// Forward a segment as it is, the way it names: one that came earlier, without payload, or
    /// [one that was made](Payload::renumbered) of one.
    Repeat(P),
    /// Write down what a successor has to know of the flow.
    Record(FlowRecord),
}

/// Actions in the order in which they are to be done. The caller keeps the buffer
/// and empties it, so that nothing is allocated for a packet.
pub type Actions<P> = Vec<Action<P>>;
