// SPDX-License-Identifier: Apache-2.0
//! The two halves of a connection that was set up early (M-TCP, section 5.3.1) have their own
//! sequence numbers. The end that answers the gateway's SYN chooses other numbers than the gateway
//! has chosen in its name.
//!
//! Inside the gateway numbers and windows are those of the MH's half. Segments of the FH are
//! renumbered when they arrive, segments to the FH when they leave. Addresses and ports are the same
//! on both halves.

use holdfast_wire::{Flags, SackBlocks, Segment, SeqNum};

/// A window of one half in the scale of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rescale {
    /// The shift of the window that is given.
    pub from: u8,
    /// The shift of the window that is returned.
    pub to: u8,
}

impl Rescale {
    /// The window in the other scale, rounded down.
    pub const fn apply(self, window: u16) -> u16 {
        let scaled = ((window as u32) << self.from) >> self.to;
        if scaled > u16::MAX as u32 {
            u16::MAX
        } else {
            scaled as u16
        }
    }
}

/// How numbers, windows and SACK blocks are translated between the two halves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renumber {
    /// Added to the sequence numbers of the MH's data on their way to the FH.
    pub uplink: u32,
    /// Added to the sequence numbers of the FH's data on their way to the MH.
    pub downlink: u32,
    /// Rescales the MH's windows for the FH.
    pub uplink_window: Rescale,
    /// Rescales the FH's windows for the MH.
    pub downlink_window: Rescale,
    /// The FH has permitted SACK blocks of the MH.
    pub fh_sack: bool,
    /// The MH has permitted SACK blocks of the FH.
    pub mh_sack: bool,
}

fn back(seq: SeqNum, by: u32) -> SeqNum {
    seq + by.wrapping_neg()
}

fn shift(blocks: &SackBlocks, by: u32) -> SackBlocks {
    let mut shifted = SackBlocks::default();
    for (left, right) in blocks.iter() {
        shifted.push(left + by, right + by);
    }
    shifted
}

/// A SYN's window is not scaled (RFC 7323, 2.2).
const fn rescaled(segment: &Segment, scale: Rescale) -> u16 {
    if segment.flags.has(Flags::SYN) {
        segment.window
    } else {
        scale.apply(segment.window)
    }
}

/// The segment with the numbers of the other half. There the sender's numbers are `own` higher, and
/// the receiver's numbers are `others` lower.
fn renumbered(segment: &Segment, own: u32, others: u32, windows: Rescale, sack: bool) -> Segment {
    let mut out = *segment;
    out.seq = segment.seq + own;
    out.ack = back(segment.ack, others);
    out.window = rescaled(segment, windows);
    out.options.sack = if sack {
        shift(&segment.options.sack, others.wrapping_neg())
    } else {
        SackBlocks::default()
    };
    out
}

impl Renumber {
    /// A segment of the FH, with the numbers of the MH's half.
    #[must_use]
    pub fn to_mh(&self, segment: &Segment) -> Segment {
        let windows = self.downlink_window;
        renumbered(segment, self.downlink, self.uplink, windows, self.mh_sack)
    }

    /// A segment of the MH, or one made in its name, with the numbers of the FH's half.
    #[must_use]
    pub fn to_fh(&self, segment: &Segment) -> Segment {
        let windows = self.uplink_window;
        renumbered(segment, self.uplink, self.downlink, windows, self.fh_sack)
    }

    /// Converts a number of the FH's data from the MH's half to the FH's half.
    #[must_use]
    pub fn of_fh(&self, seq: SeqNum) -> SeqNum {
        back(seq, self.downlink)
    }

    /// Converts the numbers and the window of the FH's cached data from the MH's half to those that the
    /// FH sent.
    pub(crate) fn sent_by_fh(
        &self,
        seq: SeqNum,
        ack: SeqNum,
        window: u16,
    ) -> (SeqNum, SeqNum, u16) {
        let Rescale { from, to } = self.downlink_window;
        let window = Rescale { from: to, to: from }.apply(window);
        (back(seq, self.downlink), ack + self.uplink, window)
    }

    /// The length of a record in bytes.
    pub const BYTES: usize = 13;

    /// The record.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.uplink.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.downlink.to_be_bytes());
        let (up, down) = (self.uplink_window, self.downlink_window);
        bytes[8..12].copy_from_slice(&[up.from, up.to, down.from, down.to]);
        bytes[12] = u8::from(self.fh_sack) | u8::from(self.mh_sack) << 1;
        bytes
    }

    /// Parses a record; `None` if a value is impossible.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let fits = bytes[8..12].iter().all(|shift| *shift <= 14) && bytes[12] < 4;
        fits.then(|| Self {
            uplink: word(0),
            downlink: word(4),
            uplink_window: Rescale {
                from: bytes[8],
                to: bytes[9],
            },
            downlink_window: Rescale {
                from: bytes[10],
                to: bytes[11],
            },
            fh_sack: bytes[12] & 1 != 0,
            mh_sack: bytes[12] & 2 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::data;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_segment_that_is_renumbered_both_ways_is_unchanged(
            uplink: u32, downlink: u32, seq: u32, ack: u32, left: u32, window: u16
        ) {
            let numbers = Renumber {
                uplink,
                downlink,
                fh_sack: true,
                mh_sack: true,
                ..Renumber::default()
            };
            let (mut segment, _) = data(seq, b"abc");
            segment.ack = SeqNum::new(ack);
            segment.window = window;
            segment.options.sack.push(SeqNum::new(left), SeqNum::new(left) + 9);
            let there = numbers.to_mh(&segment);
            prop_assert_eq!(there.seq, segment.seq + downlink);
            prop_assert_eq!(there.ack + uplink, segment.ack);
            // SACK blocks and the ACK number are translated by the same offset.
            let block_beyond_ack = |one: &Segment| one.options.sack.iter().next().unwrap().0 - one.ack.get();
            prop_assert_eq!(block_beyond_ack(&there), block_beyond_ack(&segment));
            prop_assert_eq!(numbers.to_fh(&Segment { ..there }).seq, there.seq + uplink);
            let bytes = numbers.to_bytes();
            prop_assert_eq!(Renumber::from_bytes(&bytes), Some(numbers));
        }
    }

    #[test]
    fn windows_change_their_scale_and_never_grow() {
        let rescale = |from, to| Rescale { from, to };
        assert_eq!(rescale(10, 7).apply(3), 24);
        assert_eq!(rescale(0, 7).apply(1000), 7);
        assert_eq!(rescale(14, 0).apply(65_535), 65_535);
        for (from, to, window) in [(3, 7, 12_345_u16), (7, 3, 600), (14, 7, 9)] {
            let applied = rescale(from, to).apply(window);
            assert!(u32::from(applied) << to <= u32::from(window) << from);
        }
    }

    #[test]
    fn blocks_that_the_other_half_has_not_permitted_are_left_out() {
        let (mut segment, _) = data(1, b"");
        segment.options.sack.push(SeqNum::new(5), SeqNum::new(9));
        let numbers = Renumber::default();
        assert!(numbers.to_mh(&segment).options.sack.is_empty());
        assert!(numbers.to_fh(&segment).options.sack.is_empty());
    }
}
