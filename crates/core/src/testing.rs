// SPDX-License-Identifier: Apache-2.0
//! Payloads and segments for tests.

use std::rc::Rc;

use holdfast_wire::{
    Endpoint, Flags, LinkAddresses, Options, SackBlocks, Segment, SeqNum, Timestamps,
};

use crate::{Direction, Made, Payload, Resend, Template, Verdict};

/// Real bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub Rc<[u8]>);

impl Template for () {
    type Packed = ();

    fn pack(&self) {}

    fn unpack(_packed: &(), _from: Endpoint, _to: Endpoint) -> Option<()> {
        Some(())
    }
}

impl Payload for Bytes {
    type Header = ();

    fn header(&self) -> Option<()> {
        Some(())
    }

    fn segment_len(&self) -> u32 {
        (self.0.len() as u32).clamp(1, 1000)
    }

    fn is_cacheable(&self) -> bool {
        true
    }
}

/// A whole packet. Its header is readable, so that a test sees what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub segment: Segment,
    pub bytes: Rc<[u8]>,
    /// Bytes of payload in each segment on the wire.
    pub segment_len: u32,
    pub cacheable: bool,
    pub link_addresses: Option<LinkAddresses>,
}

impl Template for Segment {
    type Packed = Self;

    fn pack(&self) -> Self {
        *self
    }

    fn unpack(packed: &Self, from: Endpoint, to: Endpoint) -> Option<Self> {
        assert_eq!((packed.from, packed.to), (from, to));
        Some(*packed)
    }
}

impl Payload for Packet {
    type Header = Segment;

    fn header(&self) -> Option<Segment> {
        Some(self.segment)
    }

    fn segment_len(&self) -> u32 {
        self.segment_len
    }

    fn link_addresses(&self) -> Option<LinkAddresses> {
        self.link_addresses
    }

    fn is_cacheable(&self) -> bool {
        self.cacheable
    }

    fn renumbered(&self, header: &Segment) -> Option<Self> {
        assert_eq!(header.payload_len, self.segment.payload_len);
        let sack = |one: &Segment| one.options.sack.len();
        assert!(
            sack(header) <= sack(&self.segment),
            "more blocks than the packet has room for"
        );
        let packet = Self {
            segment: *header,
            ..self.clone()
        };
        Some(packet)
    }

    fn answered(&self, answer: &Segment) -> Option<Self> {
        assert_eq!(
            (answer.from, answer.to),
            (self.segment.to, self.segment.from)
        );
        Some(Self::new(*answer, &[], 1))
    }

    fn has_same_bytes(&self, offset: u32, other: &Self, other_offset: u32, len: u32) -> bool {
        let range = |from: u32| from as usize..(from + len) as usize;
        self.bytes[range(offset)] == other.bytes[range(other_offset)]
    }

    fn octets(&self, offset: u32, len: u32) -> Option<&[u8]> {
        self.bytes.get(offset as usize..(offset + len) as usize)
    }
}

impl Packet {
    /// One that may be kept.
    pub(crate) fn new(segment: Segment, bytes: &[u8], segment_len: u32) -> Self {
        assert_eq!(segment.payload_len as usize, bytes.len());
        Self {
            segment,
            bytes: bytes.into(),
            segment_len,
            cacheable: true,
            link_addresses: None,
        }
    }

    /// What a device's edge makes of [`Resend`].
    pub(crate) fn of_resend(resend: &Resend<Self>) -> Self {
        let range = resend.offset as usize..(resend.offset + resend.len) as usize;
        let segment = Segment {
            from: resend.payload.segment.from,
            to: resend.payload.segment.to,
            seq: resend.seq,
            ack: resend.ack,
            flags: resend.flags,
            window: resend.window,
            options: Options {
                timestamps: resend.timestamps,
                ..Options::default()
            },
            payload_len: resend.len,
        };
        Self::new(segment, &resend.payload.bytes[range], resend.segment_len)
    }

    /// What a device's edge makes of [`Verdict::ForwardWithSack`](crate::Verdict).
    pub(crate) fn with_sack(&self, sack: SackBlocks) -> Self {
        let own = self.segment.options.sack.iter().count();
        assert!(
            sack.iter().count() <= own,
            "more blocks than the packet has room for"
        );
        let mut packet = self.clone();
        packet.segment.options.sack = sack;
        packet
    }

    /// What a device's edge makes of
    /// [`Verdict::ForwardWithAck`](crate::Verdict::ForwardWithAck).
    pub(crate) fn with_ack(&self, ack: SeqNum, window: u16) -> Self {
        assert_eq!(self.segment.to, FH, "an ACK of the MH alone");
        let mut packet = self.clone();
        (packet.segment.ack, packet.segment.window) = (ack, window);
        packet
    }

    /// What goes on of it by this verdict.
    pub(crate) fn judged(&self, verdict: Verdict) -> Option<Self> {
        match verdict {
            Verdict::Forward => Some(self.clone()),
            Verdict::ForwardWithSack(sack) => Some(self.with_sack(sack)),
            Verdict::ForwardWithAck { ack, window } => Some(self.with_ack(ack, window)),
            Verdict::Suppress => None,
        }
    }

    /// What a device's edge makes of [`Made`].
    pub(crate) fn of_made(made: &Made<Segment>) -> Self {
        assert_eq!(
            made.direction,
            direction_of(&made.template),
            "the template is of the other direction"
        );
        let segment = Segment {
            seq: made.seq,
            ack: made.ack,
            flags: made.flags,
            window: made.window,
            options: Options {
                timestamps: made.timestamps,
                sack: made.sack,
                ..Options::default()
            },
            payload_len: 0,
            ..made.template
        };
        Self::new(segment, &[], 1)
    }

    /// What a super-segment is on the wire: CWR on the first, PSH and FIN on the last.
    pub(crate) fn split(&self) -> Vec<Self> {
        let (len, step) = (self.bytes.len(), self.segment_len.max(1) as usize);
        if len <= step {
            return vec![self.clone()];
        }
        let piece = |from: usize| {
            let to = len.min(from + step);
            let mut segment = self.segment;
            segment.seq += from as u32;
            segment.payload_len = (to - from) as u32;
            if from > 0 {
                segment.flags = segment.flags.without(Flags::CWR);
            }
            if to < len {
                segment.flags = segment.flags.without(Flags::PSH).without(Flags::FIN);
            }
            Self {
                segment,
                bytes: self.bytes[from..to].into(),
                segment_len: self.segment_len,
                cacheable: self.cacheable,
                link_addresses: self.link_addresses,
            }
        };
        (0..len).step_by(step).map(piece).collect()
    }
}

/// The FH of the tests.
pub(crate) const FH: Endpoint = Endpoint {
    address: core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 1, 0, 2)),
    port: 80,
};
/// The MH of the tests.
pub(crate) const MH: Endpoint = Endpoint {
    address: core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 2, 0, 2)),
    port: 40_000,
};

/// The direction of a segment to or from [`FH`].
pub(crate) fn direction_of(segment: &Segment) -> Direction {
    if segment.to == FH {
        Direction::Uplink
    } else {
        Direction::Downlink
    }
}

/// A data segment from FH to MH.
pub(crate) fn data(seq: u32, bytes: &[u8]) -> (Segment, Bytes) {
    let segment = Segment {
        from: FH,
        to: MH,
        seq: SeqNum::new(seq),
        ack: SeqNum::new(5000),
        flags: Flags::ACK,
        window: 500,
        options: Options {
            timestamps: Some(Timestamps { tsval: 1, tsecr: 1 }),
            ..Options::default()
        },
        payload_len: bytes.len() as u32,
    };
    (segment, Bytes(bytes.into()))
}
