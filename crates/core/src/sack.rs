// SPDX-License-Identifier: Apache-2.0
//! What an MH has reported to hold beyond its acknowledgement (RFC 2018).

use holdfast_wire::SeqNum;

/// Ranges stored for a flow, at most. Bytes of further ranges may be retransmitted without need. A queue of
/// 200 packets that overflows on a link of 100 Mb/s leaves some hundreds.
const RANGES_MAX: usize = 1024;

/// Ranges whose memory an empty table keeps, at most.
const KEPT_RANGES_MAX: usize = 64;

/// The most bytes from the first to the last reported byte: half of the circle of sequence numbers.
const SPAN_MAX: u32 = i32::MAX as u32;

/// Ranges in order, apart from one another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    ranges: Vec<(SeqNum, SeqNum)>,
}

impl Scoreboard {
    /// Bytes `left..right` are at the MH. True if some of them were not reported before.
    ///
    /// A range that cannot be put in order with the others changes nothing.
    #[inline]
    pub(crate) fn add(&mut self, left: SeqNum, right: SeqNum) -> bool {
        if !self.can_order(left, right) {
            return false;
        }
        // Mostly the last range grows.
        if let Some(last) = self.ranges.last_mut().filter(|last| last.1 == left) {
            last.1 = right;
            return true;
        }
        self.merge(left, right)
    }

    /// Adds a range that is in order with the others, and may overlap some.
    fn merge(&mut self, mut left: SeqNum, mut right: SeqNum) -> bool {
        let from = self.ranges.partition_point(|range| range.1.before(left));
        let to = self
            .ranges
            .partition_point(|range| range.0.at_or_before(right));
        if from < to {
            let (first, last) = (self.ranges[from], self.ranges[to - 1]);
            if from + 1 == to && first.0.at_or_before(left) && right.at_or_before(last.1) {
                return false;
            }
            left = left.min(first.0);
            right = right.max(last.1);
        } else if self.ranges.len() >= RANGES_MAX {
            return false;
        }
        self.ranges.splice(from..to, [(left, right)]);
        true
    }

    /// With `left..right` all ranges lie on one half of the circle: there, and only there,
    /// "before" is an order.
    #[inline]
    fn can_order(&self, left: SeqNum, right: SeqNum) -> bool {
        let (first, last) = match (self.ranges.first(), self.ranges.last()) {
            (Some(first), Some(last)) => (first.0.min(left), last.1),
            _ => (left, right),
        };
        let distance = |seq: SeqNum| seq.get().wrapping_sub(first.get());
        let span = distance(right).max(distance(last));
        distance(left) < distance(right) && span <= SPAN_MAX
    }

    /// The MH acknowledged everything before `una`.
    #[inline]
    pub(crate) fn purge(&mut self, una: SeqNum) {
        if self.ranges.is_empty() {
            return;
        }
        let acknowledged = self.first_beyond(una);
        if acknowledged > 0 {
            self.ranges.drain(..acknowledged);
        }
        match self.ranges.first_mut() {
            Some(first) => first.0 = first.0.max(una),
            None => self.ranges.shrink_to(KEPT_RANGES_MAX),
        }
    }

    /// Forgets all: the MH may have dropped what it reported (RFC 2018, 8).
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.ranges.shrink_to(KEPT_RANGES_MAX);
    }

    /// The index of the first range that ends beyond `seq`, which is on one half of the circle with all ranges. Mostly it
    /// is the first one of all.
    #[inline]
    fn first_beyond(&self, seq: SeqNum) -> usize {
        if self.ranges.first().is_none_or(|range| range.1.after(seq)) {
            return 0;
        }
        let is_before = |range: &(SeqNum, SeqNum)| range.1.at_or_before(seq);
        self.ranges.partition_point(is_before)
    }

    /// The end of the last range reported.
    pub(crate) fn highest(&self) -> Option<SeqNum> {
        self.ranges.last().map(|(_, right)| *right)
    }

    /// Reported bytes that lie before `seq`.
    pub(crate) fn bytes_before(&self, seq: SeqNum) -> u32 {
        let before = self.ranges.iter().take_while(|range| range.0.before(seq));
        before
            .map(|(left, right)| right.min(seq).distance_from(*left))
            .sum()
    }

    /// Nothing was reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges reported, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SeqNum, SeqNum)> + '_ {
        self.ranges.iter().copied()
    }

    /// What lies between `seq` and the last range reported and is not at the MH.
    pub(crate) fn holes(&self, seq: SeqNum) -> impl Iterator<Item = (SeqNum, SeqNum)> + '_ {
        let mut at = seq;
        let beyond = &self.ranges[self.first_beyond(seq)..];
        beyond.iter().filter_map(move |(left, right)| {
            let hole = (at, *left);
            at = *right;
            hole.0.before(hole.1).then_some(hole)
        })
    }

    /// The first byte at or after `seq` that is not at the MH, and where the next
    /// reported range begins.
    pub(crate) fn next_missing(&self, seq: SeqNum) -> (SeqNum, Option<SeqNum>) {
        let beyond = &self.ranges[self.first_beyond(seq)..];
        match beyond {
            [] => (seq, None),
            [(left, _), ..] if left.after(seq) => (seq, Some(*left)),
            // Ranges lie apart.
            [(_, right), rest @ ..] => (*right, rest.first().map(|range| range.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seq(number: u32) -> SeqNum {
        SeqNum::new(number)
    }

    #[test]
    fn ranges_merge_and_what_is_missing_lies_between() {
        let mut board = Scoreboard::default();
        board.add(seq(300), seq(400));
        board.add(seq(100), seq(200));
        assert_eq!(board.next_missing(seq(50)), (seq(50), Some(seq(100))));
        assert_eq!(board.next_missing(seq(100)), (seq(200), Some(seq(300))));
        board.add(seq(200), seq(300));
        assert_eq!(board.next_missing(seq(100)), (seq(400), None));
        board.purge(seq(400));
        assert_eq!(board.next_missing(seq(100)), (seq(100), None));
    }

    #[test]
    fn a_report_is_news_if_some_of_its_bytes_are() {
        let mut board = Scoreboard::default();
        assert!(board.add(seq(100), seq(200)));
        assert!(!board.add(seq(120), seq(200)));
        assert!(board.add(seq(150), seq(201)));
        assert!(board.add(seq(300), seq(400)));
        assert!(board.add(seq(100), seq(400)));
    }

    #[test]
    fn reported_bytes_are_counted_up_to_a_sequence_number() {
        let mut board = Scoreboard::default();
        board.add(seq(100), seq(200));
        board.add(seq(300), seq(400));
        let before = [50, 100, 150, 250, 350, 999].map(|at| board.bytes_before(seq(at)));
        assert_eq!(before, [0, 0, 50, 100, 150, 200]);
    }

    #[test]
    fn of_a_range_that_is_acknowledged_in_part_the_rest_stays() {
        let mut board = Scoreboard::default();
        board.add(seq(100), seq(300));
        board.purge(seq(200));
        assert_eq!(board.bytes_before(seq(300)), 100);
        assert_eq!(board.next_missing(seq(200)), (seq(300), None));
    }

    #[test]
    fn a_range_that_cannot_be_ordered_changes_nothing() {
        let mut board = Scoreboard::default();
        board.add(seq(4_055), seq(7_224));
        let known: Vec<_> = board.iter().collect();
        for (left, right) in [
            // Each of these is "before" on the circle.
            (1_050_164_062, 3_080_207_216),
            (0x8000_0000, 0xffff_ffff),
            (7_000, 0x8000_0fff),
            // And these are not.
            (5_000, 5_000),
            (6_000, 5_000),
        ] {
            assert!(!board.add(seq(left), seq(right)), "{left}..{right}");
        }
        assert_eq!(board.iter().collect::<Vec<_>>(), known);
    }

    #[test]
    fn no_more_ranges_are_kept_than_the_limit() {
        let mut board = Scoreboard::default();
        for i in 0..2000 {
            board.add(seq(i * 10), seq(i * 10 + 5));
        }
        assert_eq!(board.ranges.len(), RANGES_MAX);
        board.add(seq(0), seq(20_000));
        assert_eq!(board.next_missing(seq(0)), (seq(20_000), None));
        // the memory of 1,024 ranges is given back.
        board.purge(seq(20_000));
        assert!(board.ranges.capacity() <= KEPT_RANGES_MAX);
    }

    #[test]
    fn ranges_lie_on_one_half_of_the_circle() {
        for (last, fits) in [(0x7fff_ffff, true), (0x8000_0000, false)] {
            let mut board = Scoreboard::default();
            assert!(board.add(seq(100), seq(200)));
            let right = seq(100) + last;
            assert_eq!(board.add(right - 10, right), fits, "{last:x}");
        }
    }

    #[test]
    fn holes_lie_between_the_first_byte_and_the_last_report() {
        let mut board = Scoreboard::default();
        board.add(seq(100), seq(200));
        board.add(seq(300), seq(400));
        let holes = |from| -> Vec<_> { board.holes(seq(from)).collect() };
        assert_eq!(holes(50), [(seq(50), seq(100)), (seq(200), seq(300))]);
        assert_eq!(holes(100), [(seq(200), seq(300))]);
        assert_eq!(holes(250), [(seq(250), seq(300))]);
        assert!(holes(300).is_empty());
        assert_eq!(board.highest(), Some(seq(400)));
    }
}
