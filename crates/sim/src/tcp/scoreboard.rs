// SPDX-License-Identifier: Apache-2.0
//! What the receiver has reported by SACK, and what follows from it (RFC 6675, 4).

/// Bytes that the other end holds beyond `snd.una`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    /// In ascending order, without overlap. Bounded by what is outstanding.
    ranges: Vec<(u64, u64)>,
}

/// The thresholds of RFC 6675.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    /// DupThresh.
    pub dup_thresh: u32,
    /// SMSS, bytes.
    pub smss: u64,
}

impl Scoreboard {
    /// Update (): takes in a block; returns whether it has something new.
    pub(crate) fn add(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return false;
        }
        let first = self.ranges.partition_point(|range| range.1 < start);
        let last = self.ranges.partition_point(|range| range.0 <= end);
        let merged = &self.ranges[first..last];
        if let [(left, right)] = merged
            && *left <= start
            && end <= *right
        {
            return false;
        }
        let merged = (
            merged.first().map_or(start, |range| range.0.min(start)),
            merged.last().map_or(end, |range| range.1.max(end)),
        );
        self.ranges.splice(first..last, [merged]);
        true
    }

    /// Everything below `una` is acknowledged.
    pub(crate) fn advance(&mut self, una: u64) {
        let done = self.ranges.partition_point(|range| range.1 <= una);
        self.ranges.drain(..done);
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.max(una);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes reported from `start` up to `end`.
    pub(crate) fn bytes_within(&self, start: u64, end: u64) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.1.min(end).saturating_sub(range.0.max(start)))
            .sum()
    }

    /// The first byte at or after `from` that was not reported.
    pub(crate) fn first_hole(&self, from: u64) -> u64 {
        let next = self.ranges.partition_point(|range| range.1 <= from);
        match self.ranges.get(next) {
            Some(&(start, end)) if start <= from => end,
            _ => from,
        }
    }

    /// The start of the first range beyond `from`.
    pub(crate) fn next_range(&self, from: u64) -> Option<u64> {
        let next = self.ranges.partition_point(|range| range.0 <= from);
        self.ranges.get(next).map(|range| range.0)
    }

    /// The number after the last byte below `max` that was not reported.
    pub(crate) fn end_of_last_hole(&self, max: u64) -> u64 {
        match self.ranges.last() {
            Some(&(start, end)) if end >= max => start,
            _ => max,
        }
    }

    /// The end of the last range below `seq`; 0 if there is none.
    pub(crate) fn end_below(&self, seq: u64) -> u64 {
        let next = self.ranges.partition_point(|range| range.1 <= seq);
        next.checked_sub(1).map_or(0, |last| self.ranges[last].1)
    }

    /// IsLost (): RFC 6675, 4: DupThresh discontiguous ranges above `seq`, or more than
    /// (DupThresh - 1) * SMSS bytes.
    pub(crate) fn is_lost(&self, seq: u64, loss: Loss) -> bool {
        let above = self.ranges.partition_point(|range| range.1 <= seq);
        let ranges = &self.ranges[above..];
        let bytes: u64 = ranges.iter().map(|range| range.1 - range.0.max(seq)).sum();
        ranges.len() as u64 >= u64::from(loss.dup_thresh)
            || bytes > u64::from(loss.dup_thresh - 1) * loss.smss
    }

    /// SetPipe (): RFC 6675, 4: estimates the bytes from `una` up to `max` that are in the
    /// network. Bytes below `high_rxt` were retransmitted.
    pub(crate) fn pipe(&self, una: u64, max: u64, high_rxt: u64, loss: Loss) -> u64 {
        let mut pipe = 0;
        let mut from = una;
        // All bytes of a hole have the same ranges above them.
        let mut ranges_above = self.ranges.len() as u64;
        let mut bytes_above: u64 = self.ranges.iter().map(|range| range.1 - range.0).sum();
        for &(start, end) in &self.ranges {
            pipe += hole(
                from,
                start.min(max),
                high_rxt,
                ranges_above,
                bytes_above,
                loss,
            );
            from = end;
            ranges_above -= 1;
            bytes_above -= end - start;
        }
        pipe + hole(from, max, high_rxt, 0, 0, loss)
    }
}

fn hole(start: u64, end: u64, high_rxt: u64, ranges: u64, bytes: u64, loss: Loss) -> u64 {
    if start >= end {
        return 0;
    }
    let lost =
        ranges >= u64::from(loss.dup_thresh) || bytes > u64::from(loss.dup_thresh - 1) * loss.smss;
    // (a) the original, if not lost; (b) the retransmission, at or below HighRxt.
    let first = if lost { 0 } else { end - start };
    first + end.min(high_rxt).saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSS: Loss = Loss {
        dup_thresh: 3,
        smss: 1000,
    };

    fn board(ranges: &[(u64, u64)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for &(start, end) in ranges {
            assert!(board.add(start, end));
        }
        board
    }

    #[test]
    fn a_block_known_before_has_nothing_new() {
        let mut board = board(&[(1000, 3000), (5000, 6000)]);
        assert!(!board.add(1000, 2000) && !board.add(1000, 3000));
        assert!(board.add(2000, 4000) && board.add(4000, 5000));
        assert_eq!(board.ranges, [(1000, 6000)]);
        board.advance(2500);
        assert_eq!(board.ranges, [(2500, 6000)]);
        assert_eq!(
            (board.first_hole(2500), board.first_hole(2000)),
            (6000, 2000)
        );
        board.advance(6000);
        assert!(board.is_empty());
    }

    /// RFC 6675, 4, IsLost: three ranges, or more than two segments' bytes, above it.
    #[test]
    fn a_byte_is_lost_below_three_ranges_or_more_than_two_segments() {
        assert!(!board(&[(1000, 3000)]).is_lost(0, LOSS));
        assert!(board(&[(1000, 3001)]).is_lost(0, LOSS));
        assert!(!board(&[(1000, 1100), (2000, 2100)]).is_lost(0, LOSS));
        assert!(board(&[(1000, 1100), (2000, 2100), (3000, 3100)]).is_lost(0, LOSS));
        assert!(!board(&[(1000, 1100), (2000, 2100), (3000, 3100)]).is_lost(1500, LOSS));
    }

    /// RFC 6675, 4, SetPipe, byte by byte, over many scoreboards.
    #[test]
    fn pipe_is_what_the_definition_counts_byte_by_byte() {
        let loss = Loss {
            dup_thresh: 3,
            smss: 4,
        };
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let mut board = Scoreboard::default();
            for _ in 0..next(6) {
                let start = next(50);
                board.add(start, start + 1 + next(8));
            }
            let (una, max, high_rxt) = (0, 60, next(60));
            let expected: u64 = (una..max)
                .filter(|seq| board.bytes_within(*seq, seq + 1) == 0)
                .map(|seq| u64::from(!board.is_lost(seq, loss)) + u64::from(seq < high_rxt))
                .sum();
            assert_eq!(board.pipe(una, max, high_rxt, loss), expected, "{board:?}");
        }
    }
}
