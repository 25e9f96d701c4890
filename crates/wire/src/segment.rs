// SPDX-License-Identifier: Apache-2.0
//! A TCP segment as values: what a mechanism decides on.

use core::net::IpAddr;

use crate::SeqNum;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The host.
    pub address: IpAddr,
    /// The TCP port.
    pub port: u16,
}

/// The control bits of a segment (RFC 9293, 3.1), ECN's included (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push function.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field is significant.
    pub const ACK: Self = Self(0x10);
    /// Urgent pointer field is significant.
    pub const URG: Self = Self(0x20);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Whether all of `other`'s bits are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `self` without `other`'s bits.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The timestamps option (RFC 7323, 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock.
    pub tsval: u32,
    /// The echo of the other end's clock.
    pub tsecr: u32,
}

/// Up to four SACK blocks (RFC 2018, 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(SeqNum, SeqNum); 4],
    len: u8,
}

impl SackBlocks {
    /// Adds a block of the bytes from `left` up to and not including `right`;
    /// false if there are four already.
    pub fn push(&mut self, left: SeqNum, right: SeqNum) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.len)) else {
            return false;
        };
        *slot = (left, right);
        self.len += 1;
        true
    }

    /// The blocks in the order of the option.
    pub fn iter(&self) -> impl Iterator<Item = (SeqNum, SeqNum)> + '_ {
        self.blocks[..usize::from(self.len)].iter().copied()
    }

    /// The blocks that are ranges of at least one byte within `first..last`.
    ///
    /// Both edges of a block are measured as distances from `first`. A block that goes round
    /// the circle of sequence numbers never fits, however its edges compare.
    pub fn within(
        self,
        first: SeqNum,
        last: SeqNum,
    ) -> impl Iterator<Item = (SeqNum, SeqNum)> + Clone {
        let distance = move |seq: SeqNum| seq.get().wrapping_sub(first.get());
        let span = last.distance_from(first);
        let fits = move |(left, right): &(SeqNum, SeqNum)| {
            distance(*left) < distance(*right) && distance(*right) <= span
        };
        let blocks = self.blocks.into_iter().take(usize::from(self.len));
        blocks.filter(fits)
    }

    /// Whether all blocks are ranges [within](Self::within) `first..last`.
    pub fn all_within(self, first: SeqNum, last: SeqNum) -> bool {
        self.within(first, last).count() == self.len()
    }

    /// The number of blocks, 0 to 4.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// There is no block.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The options of a segment that a middle node needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size, bytes (RFC 9293, 3.7.1).
    pub mss: Option<u16>,
    /// Window scale, a shift of 0 to 14 (RFC 7323, 2.2).
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018, 2).
    pub sack_permitted: bool,
    /// The timestamps option.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks: bytes that arrived beyond the acknowledgement number.
    pub sack: SackBlocks,
    /// There is an option of another kind (MPTCP, MD5, AO, a future one), or the options are
    /// malformed: a copy of this segment cannot be made safely.
    pub others: bool,
}

/// A TCP segment's values, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The sender's end.
    pub from: Endpoint,
    /// The receiver's end.
    pub to: Endpoint,
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// SEG.ACK; meaningless without [`Flags::ACK`].
    pub ack: SeqNum,
    /// The control bits.
    pub flags: Flags,
    /// SEG.WND as in the header: not scaled.
    pub window: u16,
    /// The options.
    pub options: Options,
    /// Bytes of payload.
    pub payload_len: u32,
}

impl Segment {
    /// SEG.LEN: the sequence space that the segment takes, SYN and FIN counted
    /// (RFC 9293, 3.4).
    pub const fn len(&self) -> u32 {
        self.payload_len + self.flags.has(Flags::SYN) as u32 + self.flags.has(Flags::FIN) as u32
    }

    /// The segment takes no sequence space.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sequence number after the segment's last.
    pub fn end(&self) -> SeqNum {
        self.seq + self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_goes_round_the_circle_lies_nowhere() {
        let seq = |offset: u32| SeqNum::new(0xffff_ff00) + offset;
        let mut blocks = SackBlocks::default();
        // The second one begins beyond the end and ends before the start.
        for (left, right) in [(4_055, 7_224), (1_050_164_062, 3_080_207_216), (600, 500)] {
            blocks.push(seq(left), seq(right));
        }
        let within: Vec<_> = blocks.within(seq(1), seq(8_000)).collect();
        assert_eq!(within, [(seq(4_055), seq(7_224))]);
        assert!(!blocks.all_within(seq(1), seq(8_000)));
        assert_eq!(blocks.within(seq(4_056), seq(8_000)).count(), 0);
        assert_eq!(blocks.within(seq(1), seq(7_223)).count(), 0);
        assert_eq!(blocks.within(seq(8_001), seq(8_000)).count(), 0, "no range");
    }
}
