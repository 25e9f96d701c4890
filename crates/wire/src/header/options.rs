// SPDX-License-Identifier: Apache-2.0
//! The TCP options of a copied header: written anew, or their SACK blocks replaced.

use super::{Header, TCP_HEADER_LEN, TCP_HEADER_LEN_MAX};
use crate::checksum::Sum;
use crate::{SackBlocks, Timestamps};

// Kinds and lengths of options (RFC 9293, 3.1; RFC 7323; RFC 2018).
pub(super) const END: u8 = 0;
pub(super) const NO_OPERATION: u8 = 1;
pub(super) const MAXIMUM_SEGMENT_SIZE: u8 = 2;
pub(super) const WINDOW_SCALE: u8 = 3;
pub(super) const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
pub(super) const TIMESTAMPS: u8 = 8;
const TIMESTAMPS_LEN: u8 = 10;
/// Kind and length, before the blocks.
const SACK_HEAD_LEN: usize = 2;
const SACK_BLOCK_LEN: usize = 8;

const OPTIONS_LEN_MAX: usize = TCP_HEADER_LEN_MAX - TCP_HEADER_LEN;

impl Header {
    /// Replaces all options by the timestamps, if any, and by the SACK blocks that fit: three
    /// beside timestamps, four without. The urgent pointer is cleared.
    pub fn set_options(&mut self, timestamps: Option<Timestamps>, sack: &SackBlocks) {
        self.put(18, &[0, 0]);
        let mut at = TCP_HEADER_LEN;
        if let Some(Timestamps { tsval, tsecr }) = timestamps {
            // RFC 7323, appendix A: two NOPs align the option.
            let head = [NO_OPERATION, NO_OPERATION, TIMESTAMPS, TIMESTAMPS_LEN];
            self.put(at, &head);
            self.put(at + 4, &tsval.to_be_bytes());
            self.put(at + 8, &tsecr.to_be_bytes());
            at += 12;
        }
        let room = (TCP_HEADER_LEN_MAX - at - 4) / SACK_BLOCK_LEN;
        let count = sack.len().min(room);
        if count > 0 {
            let len = (SACK_HEAD_LEN + SACK_BLOCK_LEN * count) as u8;
            self.put(at, &[NO_OPERATION, NO_OPERATION, SACK, len]);
            at += 4;
            for (left, right) in sack.iter().take(count) {
                self.put(at, &left.get().to_be_bytes());
                self.put(at + 4, &right.get().to_be_bytes());
                at += SACK_BLOCK_LEN;
            }
        }
        self.put(12, &[(at as u8 / 4) << 4]);
        self.len = self.tcp + at as u8;
    }

    /// Overwrites the present SACK blocks with `blocks`, at most as many as there are. The rest
    /// of the option becomes NOPs. Lengths and all other options stay as they are; the checksum
    /// is not changed.
    ///
    /// False, and nothing is changed, if there is no room for the blocks, or if an option is
    /// not understood: a signature (RFC 5925) might cover them.
    #[must_use]
    pub fn keep_sack_blocks(&mut self, blocks: &SackBlocks) -> bool {
        let start = self.tcp_offset() + TCP_HEADER_LEN;
        let len = self.len() - start;
        let mut copy = [0; OPTIONS_LEN_MAX];
        let Some(options) = copy.get_mut(..len) else {
            return false;
        };
        options.copy_from_slice(&self.bytes[start..start + len]);
        if !replace_sack(options, blocks) {
            return false;
        }
        self.bytes[start..start + len].copy_from_slice(options);
        true
    }

    /// Corrects the checksum for what has changed in the TCP header since `before`, a
    /// header of the same length whose checksum was right (RFC 1624, equation 3).
    pub fn correct_checksum(&mut self, before: &Self) {
        let tcp = self.tcp_offset();
        let sum_of = |header: &Self| {
            let mut sum = Sum::default();
            sum.add(&header.bytes[tcp..header.len()]);
            sum.folded()
        };
        // The field itself is in both sums, and cancels out.
        let (old, new) = (sum_of(before), sum_of(self));
        let field = u16::from_be_bytes([self.bytes[tcp + 16], self.bytes[tcp + 17]]);
        let mut sum = Sum::default();
        for word in [!field, !old, new] {
            sum.add(&word.to_be_bytes());
        }
        self.put(16, &sum.finish().to_be_bytes());
    }
}

/// Overwrites the blocks in `options` with `blocks`; false if that cannot be done.
fn replace_sack(options: &mut [u8], blocks: &SackBlocks) -> bool {
    let mut blocks = blocks.iter();
    let mut rest = options;
    while rest.first().is_some_and(|kind| *kind != END) {
        let Some(len) = first_len(rest) else {
            return false;
        };
        let (option, after) = rest.split_at_mut(len);
        if option[0] == SACK {
            let mut used = 0;
            let slots = option[SACK_HEAD_LEN..].chunks_exact_mut(SACK_BLOCK_LEN);
            for (slot, (left, right)) in slots.zip(blocks.by_ref()) {
                slot[..4].copy_from_slice(&left.get().to_be_bytes());
                slot[4..].copy_from_slice(&right.get().to_be_bytes());
                used += 1;
            }
            let used_len = match used {
                0 => 0,
                _ => SACK_HEAD_LEN + used * SACK_BLOCK_LEN,
            };
            option[1] = used_len as u8;
            option[used_len..].fill(NO_OPERATION);
        }
        rest = after;
    }
    blocks.next().is_none()
}

/// The length of the first option; none if it is not understood. This function understands
/// the same options as [`parse`](crate::parse()).
pub(super) fn first_len(options: &[u8]) -> Option<usize> {
    let lens: &[u8] = match *options.first()? {
        NO_OPERATION => return Some(1),
        MAXIMUM_SEGMENT_SIZE => &[4],
        WINDOW_SCALE => &[3],
        SACK_PERMITTED => &[2],
        SACK => &[10, 18, 26, 34],
        TIMESTAMPS => &[TIMESTAMPS_LEN],
        _ => return None,
    };
    let length = options.get(1).filter(|length| lens.contains(length))?;
    Some(usize::from(*length)).filter(|length| *length <= options.len())
}

#[cfg(test)]
mod tests;
