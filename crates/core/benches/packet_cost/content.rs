// SPDX-License-Identifier: Apache-2.0
//! What segments carry: a length, or bytes of a stream. Also converts what the gateway sends into packets.

use holdfast_core::{Direction, Made, Payload, Resend};
use holdfast_wire::{Flags, Header, SackBlocks, SeqNum};

use crate::segment::Packet;
use crate::{Case, SEGMENT_LEN};

/// The content of a stream repeats after this many bytes.
const CONTENT_BYTES: usize = 1 << 20;

/// A payload length with its headers, and the bytes if the case needs them.
#[derive(Clone)]
pub(crate) struct Length(
    pub(crate) Header,
    pub(crate) u32,
    pub(crate) Option<&'static [u8]>,
);

impl Payload for Length {
    type Header = Header;

    fn header(&self) -> Option<Header> {
        Some(self.0)
    }

    fn segment_len(&self) -> u32 {
        self.1
    }

    fn is_cacheable(&self) -> bool {
        true
    }

    fn octets(&self, offset: u32, len: u32) -> Option<&[u8]> {
        self.2?.get(offset as usize..(offset + len) as usize)
    }
}

impl Case {
    pub(crate) const fn is_compressed(self) -> bool {
        matches!(self, Self::MtcpTls | Self::MtcpText)
    }

    /// The bytes of the stream; they repeat.
    pub(crate) fn content(self) -> Option<&'static [u8]> {
        const VOCABULARY: [&str; 16] = [
            "the ", "link ", "carries ", "nothing ", "while ", "an ", "outage ", "lasts, ", "and ",
            "a ", "sender ", "waits ", "for ", "its ", "timer.\n", "segment ",
        ];
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize
        };
        let mut bytes: Vec<u8> = Vec::with_capacity(CONTENT_BYTES + 16);
        while bytes.len() < CONTENT_BYTES {
            match self {
                Self::MtcpTls => bytes.push(next() as u8),
                Self::MtcpText => bytes.extend(VOCABULARY[next() % VOCABULARY.len()].bytes()),
                _ => return None,
            }
        }
        Some(bytes.leak())
    }
}

/// The bytes of the segment that begins at `seq`.
pub(crate) fn content_at(content: Option<&'static [u8]>, seq: u32) -> Option<&'static [u8]> {
    let from = seq.wrapping_sub(1) as usize % (CONTENT_BYTES - SEGMENT_LEN as usize);
    content?.get(from..from + SEGMENT_LEN as usize)
}

pub(crate) fn blocks(sack: &SackBlocks) -> Vec<(u32, u32)> {
    let numbers = |(left, right): (SeqNum, SeqNum)| (left.get(), right.get());
    sack.iter().map(numbers).collect()
}

pub(crate) fn packet_of_resend(resend: &Resend<Length>) -> (Direction, Packet) {
    let stamps = resend.timestamps.map_or((0, 0), |ts| (ts.tsval, ts.tsecr));
    let packet = Packet {
        seq: resend.seq.get(),
        ack: resend.ack.get(),
        len: resend.len,
        tsval: stamps.0,
        tsecr: stamps.1,
        sack: Vec::new(),
        syn: resend.flags.has(Flags::SYN),
    };
    (resend.direction, packet)
}

pub(crate) fn packet_of_made(made: &Made<Header>) -> Packet {
    let stamps = made.timestamps.map_or((0, 0), |ts| (ts.tsval, ts.tsecr));
    Packet {
        seq: made.seq.get(),
        ack: made.ack.get(),
        len: 0,
        tsval: stamps.0,
        tsecr: stamps.1,
        sack: blocks(&made.sack),
        syn: false,
    }
}
