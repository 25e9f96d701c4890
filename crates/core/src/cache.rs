// SPDX-License-Identifier: Apache-2.0
//! The segments of one flow that its MH has not acknowledged, by sequence range.
//!
//! A super-segment is one entry, and any piece of it can be retransmitted. The cache never
//! overwrites: a retransmission with other boundaries or other bytes adds only what was missing.

use std::collections::VecDeque;

use holdfast_wire::{Flags, Segment, SeqNum};

use crate::Payload;

/// A range counts as this many bytes at least: about half of the smallest frame buffer. There are
/// buffers for twice the cache, so the tiny segments of one mobile do not take them all.
const ENTRY_BYTES_MIN: u32 = 1_000;

/// An empty cache frees its memory if it has room for more entries than this.
const CAPACITY_KEPT: usize = 256;

/// The bytes that a range of `len` bytes of payload counts as.
const fn counted(len: u32) -> u32 {
    if len > ENTRY_BYTES_MIN {
        len
    } else {
        ENTRY_BYTES_MIN
    }
}

/// One range of a flow's bytes.
#[derive(Clone, Debug)]
struct Entry<P> {
    seq: SeqNum,
    /// Bytes of payload; the FIN is not counted.
    len: u32,
    fin: bool,
    flags: Flags,
    tsval: u32,
    /// Where the range begins in `payload`.
    offset: u32,
    payload: P,
}

impl<P> Entry<P> {
    fn end(&self) -> SeqNum {
        self.seq + self.len + u32::from(self.fin)
    }
}

/// A piece of one entry, to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Piece<P> {
    /// First byte.
    pub seq: SeqNum,
    /// Bytes of payload.
    pub len: u32,
    /// Sequence number after the piece, a FIN counted.
    pub end: SeqNum,
    /// Where it begins in `payload`.
    pub offset: u32,
    /// Control bits for this piece.
    pub flags: Flags,
    /// TSval with which the FH sent it; 0 without timestamps.
    pub tsval: u32,
    /// What it is cut from.
    pub payload: P,
}

/// What became of a segment offered to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// Everything in it is cached now: newly, or since earlier.
    Cached {
        /// The bytes that were missing before, as they count against a limit; 0 if none was missing.
        new_bytes: u32,
    },
    /// A limit does not allow it.
    Full,
}

/// The cached segments of one flow.
#[derive(Clone, Debug)]
pub(crate) struct SegmentCache<P> {
    entries: VecDeque<Entry<P>>,
    bytes: usize,
}

impl<P> Default for SegmentCache<P> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<P: Payload> SegmentCache<P> {
    /// Bytes of payload kept, as they count against a limit.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ranges kept.
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The sequence number after the last byte kept.
    pub(crate) fn end(&self) -> Option<SeqNum> {
        self.entries.back().map(Entry::end)
    }

    /// Index of the first entry that ends after `seq`.
    fn first_ending_after(&self, seq: SeqNum) -> usize {
        // In order and without loss the answer is at one of the two ends.
        if self
            .entries
            .back()
            .is_none_or(|entry| entry.end().at_or_before(seq))
        {
            return self.entries.len();
        }
        self.entries
            .partition_point(|entry| entry.end().at_or_before(seq))
    }

    /// Caches the bytes of `segment` at or after `from` that are not cached yet: all of them, or none if
    /// `bytes_free` or `entries_max` is too small.
    pub(crate) fn insert(
        &mut self,
        segment: &Segment,
        payload: &P,
        from: SeqNum,
        bytes_free: usize,
        entries_max: usize,
    ) -> Insertion {
        let end = segment.end();
        let seq = segment.seq.max(from);
        if self.end().is_none_or(|cached| cached.at_or_before(seq)) {
            if seq.distance_from(segment.seq) >= segment.len() {
                return Insertion::Cached { new_bytes: 0 };
            }
            let entry = cut(segment, payload, seq, end);
            let new_bytes = counted(entry.len);
            if new_bytes as usize > bytes_free || self.entries.len() >= entries_max {
                return Insertion::Full;
            }
            self.bytes += new_bytes as usize;
            self.entries.push_back(entry);
            return Insertion::Cached { new_bytes };
        }
        self.insert_between(segment, payload, seq, bytes_free, entries_max)
    }

    fn insert_between(
        &mut self,
        segment: &Segment,
        payload: &P,
        mut seq: SeqNum,
        bytes_free: usize,
        entries_max: usize,
    ) -> Insertion {
        let end = segment.end();
        let missing: Vec<(SeqNum, SeqNum)> = {
            let mut gaps = Vec::new();
            let mut index = self.first_ending_after(seq);
            while seq.before(end) {
                let next = self
                    .entries
                    .get(index)
                    .map_or(end, |entry| entry.seq.min(end));
                if seq.before(next) {
                    gaps.push((seq, next));
                }
                let Some(entry) = self.entries.get(index) else {
                    break;
                };
                seq = seq.max(entry.end());
                index += 1;
            }
            gaps
        };
        let new_bytes: u32 = missing
            .iter()
            .map(|(left, right)| counted(right.distance_from(*left)))
            .sum();
        if new_bytes as usize > bytes_free || self.entries.len() + missing.len() > entries_max {
            return Insertion::Full;
        }
        let mut added = 0;
        for (left, right) in missing {
            let entry = cut(segment, payload, left, right);
            added += counted(entry.len);
            let index = self.first_ending_after(left);
            self.entries.insert(index, entry);
        }
        self.bytes += added as usize;
        Insertion::Cached { new_bytes: added }
    }

    /// Forgets everything before `una`; returns the bytes freed.
    pub(crate) fn purge(&mut self, una: SeqNum) -> usize {
        let before = self.bytes;
        while let Some(first) = self.entries.front_mut() {
            if first.end().at_or_before(una) {
                self.bytes -= counted(first.len) as usize;
                self.entries.pop_front();
                continue;
            }
            let acked = una.distance_from(first.seq).min(first.len);
            if acked > 0 {
                self.bytes -= counted(first.len) as usize;
                first.seq += acked;
                first.offset += acked;
                first.len -= acked;
                self.bytes += counted(first.len) as usize;
                // CWR went with the first piece.
                first.flags = first.flags.without(Flags::CWR);
            }
            break;
        }
        if self.entries.is_empty() && self.entries.capacity() > CAPACITY_KEPT {
            self.entries = VecDeque::new();
        }
        before - self.bytes
    }

    /// Calls `take` for the cached payload from `left` to `right`, in order.
    pub(crate) fn each_between(
        &self,
        left: SeqNum,
        right: SeqNum,
        mut take: impl FnMut(SeqNum, &[u8]),
    ) {
        for entry in self.entries.range(self.first_ending_after(left)..) {
            if !entry.seq.before(right) {
                return;
            }
            let from = entry.seq.max(left);
            let len = (entry.seq + entry.len).min(right).distance_from(from);
            let offset = entry.offset + from.distance_from(entry.seq);
            if let Some(octets) = entry.payload.octets(offset, len) {
                take(from, octets);
            }
        }
    }

    /// Forgets everything; returns the bytes freed.
    pub(crate) fn clear(&mut self) -> usize {
        self.entries = VecDeque::new();
        core::mem::take(&mut self.bytes)
    }

    /// True if cached bytes differ from the same bytes of `segment`. The cached bytes stay, as in the
    /// ends' reassembly: they may have been forwarded already.
    pub(crate) fn contradicts(&self, segment: &Segment, payload: &P) -> bool {
        let (seq, end) = (segment.seq, segment.seq + segment.payload_len);
        let from = self.first_ending_after(seq);
        let overlapping = self.entries.range(from..);
        let mut overlapping = overlapping.take_while(|entry| entry.seq.before(end));
        overlapping.any(|entry| {
            let (left, right) = (entry.seq.max(seq), (entry.seq + entry.len).min(end));
            let len = if left.before(right) {
                right.distance_from(left)
            } else {
                0
            };
            let kept = entry.offset + left.distance_from(entry.seq).min(entry.len);
            let new = left.distance_from(seq);
            !entry.payload.has_same_bytes(kept, payload, new, len)
        })
    }

    /// How far the cache reaches from `seq` without a hole; a FIN is not counted in.
    pub(crate) fn contiguous_end(&self, seq: SeqNum) -> SeqNum {
        let mut end = seq;
        for entry in self.entries.range(self.first_ending_after(seq)..) {
            if entry.seq.after(end) {
                break;
            }
            end = end.max(entry.seq + entry.len);
            if entry.fin {
                break;
            }
        }
        end
    }

    /// How far the cache reaches from `seq` without a hole, a FIN counted.
    pub(crate) fn held_end(&self, seq: SeqNum) -> SeqNum {
        let mut end = seq;
        for entry in self.entries.range(self.first_ending_after(seq)..) {
            if entry.seq.after(end) {
                break;
            }
            end = end.max(entry.end());
        }
        end
    }

    /// The byte at `seq`, or the FIN, is kept.
    pub(crate) fn holds(&self, seq: SeqNum) -> bool {
        // Mostly the newest entry is meant.
        let newest = self.entries.back();
        if newest.is_some_and(|entry| entry.seq.at_or_before(seq) && entry.end().after(seq)) {
            return true;
        }
        self.entries
            .get(self.first_ending_after(seq))
            .is_some_and(|entry| entry.seq.at_or_before(seq))
    }

    /// Bytes of payload in each segment on the wire of the entry that holds `seq`, or of the
    /// next one; at least 1.
    pub(crate) fn segment_len_at(&self, seq: SeqNum) -> Option<u32> {
        let entry = self.entries.get(self.first_ending_after(seq))?;
        Some(entry.payload.segment_len().max(1))
    }

    /// TSval of the segment that holds `seq`, or of the next one.
    pub(crate) fn tsval_at(&self, seq: SeqNum) -> Option<u32> {
        self.entries
            .get(self.first_ending_after(seq))
            .map(|entry| entry.tsval)
    }

    /// The first piece at or after `seq` and before `limit`, of at most `len_max`
    /// bytes.
    pub(crate) fn piece(
        &self,
        seq: SeqNum,
        limit: Option<SeqNum>,
        len_max: u32,
    ) -> Option<Piece<P>> {
        let entry = self.entries.get(self.first_ending_after(seq))?;
        let seq = seq.max(entry.seq);
        if limit.is_some_and(|limit| limit.at_or_before(seq)) {
            return None;
        }
        let skipped = seq.distance_from(entry.seq).min(entry.len);
        let mut len = (entry.len - skipped).min(len_max);
        if let Some(limit) = limit {
            len = len.min(limit.distance_from(seq));
        }
        let last = skipped + len == entry.len;
        let mut flags = entry
            .flags
            .without(Flags::FIN.with(Flags::SYN).with(Flags::RST));
        if skipped > 0 {
            flags = flags.without(Flags::CWR);
        }
        if !last {
            flags = flags.without(Flags::PSH);
        }
        let fin = last && entry.fin && limit.is_none_or(|limit| limit.after(seq + len));
        if fin {
            flags = flags.with(Flags::FIN);
        }
        if len == 0 && !fin {
            return None;
        }
        Some(Piece {
            seq,
            len,
            end: seq + len + u32::from(fin),
            offset: entry.offset + skipped,
            flags,
            tsval: entry.tsval,
            payload: entry.payload.clone(),
        })
    }
}

/// The entry for the part `left..right` of a segment.
fn cut<P: Payload>(segment: &Segment, payload: &P, left: SeqNum, right: SeqNum) -> Entry<P> {
    let offset = left.distance_from(segment.seq).min(segment.payload_len);
    let fin = segment.flags.has(Flags::FIN) && right == segment.end();
    let len = right.distance_from(left) - u32::from(fin);
    let mut flags = segment.flags;
    if offset > 0 {
        flags = flags.without(Flags::CWR);
    }
    let tsval = segment
        .options
        .timestamps
        .map_or(0, |timestamps| timestamps.tsval);
    Entry {
        seq: left,
        len,
        fin,
        flags,
        tsval,
        offset,
        payload: payload.clone(),
    }
}

#[cfg(test)]
mod tests;
