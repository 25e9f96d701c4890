// SPDX-License-Identifier: Apache-2.0
//! Data that has arrived beyond `rcv.nxt`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
    /// The count of segments when a segment was last added to this range.
    touched: u64,
}

/// Ranges of the stream that wait for the bytes before them. The receive window bounds them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reassembly {
    /// In ascending order, without overlap.
    ranges: Vec<Range>,
    segments: u64,
}

impl Reassembly {
    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds the bytes from `start` up to and not including `end`. Returns how many are new.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        self.segments += 1;
        let first = self.ranges.partition_point(|range| range.end < start);
        let last = self.ranges.partition_point(|range| range.start <= end);
        let merged = &self.ranges[first..last];
        let had: u64 = merged.iter().map(|range| overlap(range, start, end)).sum();
        let merged = Range {
            start: merged.first().map_or(start, |range| range.start.min(start)),
            end: merged.last().map_or(end, |range| range.end.max(end)),
            touched: self.segments,
        };
        self.ranges.splice(first..last, [merged]);
        end - start - had
    }

    /// Removes the ranges that follow `nxt` without a hole, and returns their end.
    pub(crate) fn take_from(&mut self, nxt: u64) -> u64 {
        let mut nxt = nxt;
        let done = self
            .ranges
            .iter()
            .take_while(|range| {
                let follows = range.start <= nxt;
                if follows {
                    nxt = nxt.max(range.end);
                }
                follows
            })
            .count();
        self.ranges.drain(..done);
        nxt
    }

    /// At most `most` ranges: the range of the newest segment first, then those that got a segment
    /// before (RFC 2018, 4).
    pub(crate) fn newest_first(&self, most: usize) -> impl Iterator<Item = (u64, u64)> + use<> {
        let mut newest: Vec<Range> = self.ranges.clone();
        newest.sort_unstable_by_key(|range| core::cmp::Reverse(range.touched));
        newest.truncate(most);
        newest.into_iter().map(|range| (range.start, range.end))
    }
}

fn overlap(range: &Range, start: u64, end: u64) -> u64 {
    range.end.min(end).saturating_sub(range.start.max(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_newest_range_is_reported_first() {
        let mut waiting = Reassembly::default();
        for (start, end) in [(10, 20), (30, 40), (50, 60), (20, 25)] {
            assert_eq!(waiting.insert(start, end), end - start);
        }
        let blocks: Vec<_> = waiting.newest_first(2).collect();
        assert_eq!(blocks, [(10, 25), (50, 60)]);
        assert_eq!(waiting.insert(15, 35), 5);
        assert_eq!(waiting.take_from(9), 9);
        assert_eq!(waiting.take_from(12), 40);
        assert_eq!(waiting.take_from(70), 70);
        assert!(waiting.is_empty());
    }

    proptest! {
        #[test]
        fn ranges_are_the_set_of_bytes(
            inserts in proptest::collection::vec((0u64..60, 1u64..12), 1..40),
            from in 0u64..60,
        ) {
            let mut waiting = Reassembly::default();
            let mut bytes = [false; 80];
            for (start, len) in inserts {
                let slice = &mut bytes[start as usize..(start + len) as usize];
                let new = slice.iter().filter(|had| !**had).count();
                slice.fill(true);
                prop_assert_eq!(waiting.insert(start, start + len), new as u64);
            }
            let ranges: Vec<_> = waiting.ranges.iter().map(|r| (r.start, r.end)).collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let mut end = from as usize;
            while bytes[end] {
                end += 1;
            }
            prop_assert_eq!(waiting.take_from(from), end as u64);
        }
    }
}
