// SPDX-License-Identifier: Apache-2.0
//! The MH's copy of the newest bytes of a stream, possibly with holes.

use holdfast_wire::SeqNum;

/// Separate ranges at most; the oldest is forgotten first.
const RANGES_MAX: usize = 64;

/// The newest bytes of one flow.
#[derive(Debug)]
pub(super) struct History {
    /// A ring: the index of a byte is its sequence number modulo the length, a power of two.
    ring: Vec<u8>,
    /// The ranges that are stored, in order; none touches another.
    ranges: Vec<(SeqNum, SeqNum)>,
}

impl History {
    /// A ring of at least `bytes` bytes; the length is a power of two.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            ring: vec![0; bytes.next_power_of_two()],
            ranges: Vec::with_capacity(RANGES_MAX + 1),
        }
    }

    fn index(&self, seq: SeqNum) -> usize {
        seq.get() as usize & (self.ring.len() - 1)
    }

    /// The number after the newest byte.
    fn top(&self) -> Option<SeqNum> {
        self.ranges.last().map(|range| range.1)
    }

    /// Stores `bytes` at `seq` and forgets bytes that are older than the ring is long. False if `seq`
    /// is too far behind the newest byte or too far ahead of it; then nothing is stored.
    pub(super) fn insert(&mut self, seq: SeqNum, bytes: &[u8]) -> bool {
        let len = self.ring.len() as u32;
        let (mut seq, mut bytes) = (seq, bytes);
        if bytes.len() > len as usize {
            let surplus = bytes.len() - len as usize;
            bytes = &bytes[surplus..];
            seq += surplus as u32;
        }
        let end = seq + bytes.len() as u32;
        if bytes.is_empty() {
            return true;
        }
        if let Some(top) = self.top()
            && (seq.distance_from(top) >= len || top.distance_from(seq) > len)
        {
            return false;
        }
        let at = self.index(seq);
        let first = bytes.len().min(self.ring.len() - at);
        self.ring[at..at + first].copy_from_slice(&bytes[..first]);
        self.ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.note(seq, end);
        self.forget_old();
        true
    }

    /// Adds `seq..end` to the ranges.
    fn note(&mut self, mut seq: SeqNum, mut end: SeqNum) {
        let from = self.ranges.partition_point(|range| range.1.before(seq));
        let to = self
            .ranges
            .partition_point(|range| range.0.at_or_before(end));
        if from < to {
            seq = seq.min(self.ranges[from].0);
            end = end.max(self.ranges[to - 1].1);
        }
        self.ranges.splice(from..to.max(from), [(seq, end)]);
        if self.ranges.len() > RANGES_MAX {
            self.ranges.remove(0);
        }
    }

    /// Forgets the bytes that no longer fit in the ring.
    fn forget_old(&mut self) {
        let Some(top) = self.top() else { return };
        let len = self.ring.len() as u32;
        let oldest = SeqNum::new(top.get().wrapping_sub(len));
        self.ranges.retain_mut(|range| {
            if range.0.before(oldest) {
                range.0 = oldest;
            }
            range.0.before(range.1)
        });
    }

    /// Copies the `len` bytes before `end` into `out`; false if they are not all known.
    pub(super) fn copy(&self, end: SeqNum, len: u32, out: &mut Vec<u8>) -> bool {
        let begin = SeqNum::new(end.get().wrapping_sub(len));
        let known = self
            .ranges
            .iter()
            .any(|range| range.0.at_or_before(begin) && end.at_or_before(range.1));
        if !known || len as usize > self.ring.len() {
            return false;
        }
        out.clear();
        let at = self.index(begin);
        let first = (len as usize).min(self.ring.len() - at);
        out.extend_from_slice(&self.ring[at..at + first]);
        out.extend_from_slice(&self.ring[..len as usize - first]);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_any_order_are_stored_as_far_back_as_the_ring_is_long() {
        let stream: Vec<u8> = (0..60_000_u32).map(|n| (n * 7 / 5) as u8).collect();
        let first = u32::MAX - 30_000;
        let at = |offset: usize| SeqNum::new(first) + offset as u32;
        let mut history = History::new(8192);
        let mut out = Vec::new();
        // Pairs of pieces, the later one first.
        for pair in 0..30 {
            let from = pair * 2000;
            assert!(history.insert(at(from + 1000), &stream[from + 1000..from + 2000]));
            assert!(!history.copy(at(from + 1200), 300, &mut out), "a hole");
            assert!(history.insert(at(from), &stream[from..from + 1000]));
            let end = from + 2000;
            let most = end.min(8192);
            assert!(history.copy(at(end), most as u32, &mut out));
            assert_eq!(out, &stream[end - most..end]);
            assert!(!history.copy(at(end), most as u32 + 1, &mut out));
            assert!(!history.copy(at(end + 1), 1, &mut out));
        }
    }

    #[test]
    fn bytes_that_begin_as_far_back_as_the_ring_is_long_are_stored() {
        let mut history = History::new(1024);
        assert!(history.insert(SeqNum::new(2_000), &[1; 24]));
        assert!(!history.insert(SeqNum::new(999), &[2; 1001]));
        assert!(history.insert(SeqNum::new(1_000), &[2; 1000]));
        let mut out = Vec::new();
        assert!(history.copy(SeqNum::new(2_024), 1024, &mut out));
        assert_eq!(out, [[2; 1000].as_slice(), &[1; 24]].concat());
    }

    #[test]
    fn bytes_too_far_away_are_not_stored() {
        let mut history = History::new(1024);
        assert!(history.insert(SeqNum::new(10_000), &[1; 100]));
        assert!(!history.insert(SeqNum::new(1_000_000), &[2; 100]));
        assert!(!history.insert(SeqNum::new(1_000), &[2; 100]));
        let mut out = Vec::new();
        assert!(history.copy(SeqNum::new(10_100), 100, &mut out));
        assert_eq!(out, [1; 100]);
    }

    #[test]
    fn many_holes_take_no_more_memory_than_the_limit() {
        let mut history = History::new(65_536);
        for piece in 0..1000_u32 {
            history.insert(SeqNum::new(piece * 20), &[1; 10]);
            assert!(history.ranges.len() <= RANGES_MAX);
        }
    }
}
