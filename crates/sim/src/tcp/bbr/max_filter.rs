// SPDX-License-Identifier: Apache-2.0
//! The largest of recent values with three numbers of memory (Nichols; draft-cardwell-iccrg-bbr-congestion-control-00,
//! 4.1.1.3).
//!
//! It stores the best value, and the best values after it in the later parts of the window. So it is never larger
//! than the true maximum. It may be smaller for the rest of a window after the best value has become too old.

/// Values with their times, counted in round trips: the best, and the second and third, each newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) struct MaxFilter {
    best: [(u64, u64); 3],
}

impl MaxFilter {
    /// The largest value.
    pub(in crate::tcp) fn get(&self) -> u64 {
        self.best[0].1
    }

    /// A value at `round`; `window` is in round trips.
    pub(in crate::tcp) fn update(&mut self, value: u64, round: u64, window: u64) {
        let new = (round, value);
        let [first, second, third] = &mut self.best;
        if value >= first.1 || round - third.0 > window {
            self.best = [new; 3];
            return;
        }
        if value >= second.1 {
            (*second, *third) = (new, new);
        } else if value >= third.1 {
            *third = new;
        }
        self.age(new, window);
    }

    fn age(&mut self, new: (u64, u64), window: u64) {
        let round = new.0;
        let [first, second, third] = self.best;
        let age = round - first.0;
        if age > window {
            // The second may be too old as well. The third is not: `update` would have replaced all.
            self.best = if round - second.0 > window {
                [third, new, new]
            } else {
                [second, third, new]
            };
        } else if second.0 == first.0 && age > window / 4 {
            // A quarter of the window without a second best: it is the newest value.
            self.best = [first, new, new];
        } else if third.0 == second.0 && age > window / 2 {
            self.best = [first, second, new];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4.1.1.3: a window of ten round trips.
    fn after(values: &[(u64, u64)]) -> u64 {
        let mut filter = MaxFilter::default();
        for (round, value) in values {
            filter.update(*value, *round, 10);
        }
        filter.get()
    }

    #[test]
    fn the_best_stays_for_its_window_and_then_the_next_best_counts() {
        assert_eq!(after(&[(1, 100), (2, 70), (11, 50)]), 100);
        // 100 is 11 round trips old. 70 was the best of the later quarter.
        assert_eq!(after(&[(1, 100), (5, 70), (9, 50), (12, 40)]), 70);
        // Both are too old.
        assert_eq!(after(&[(1, 100), (5, 70), (9, 50), (16, 40)]), 50);
        // No value came for longer than a window.
        assert_eq!(after(&[(1, 100), (5, 70), (20, 40)]), 40);
    }

    #[test]
    fn a_larger_value_counts_at_once_and_alone() {
        assert_eq!(after(&[(1, 100), (5, 70), (6, 120)]), 120);
        assert_eq!(after(&[(1, 100), (6, 120), (17, 30)]), 30);
    }

    /// Over many series: never more than the true maximum of the window, never less than the newest value.
    #[test]
    fn it_lies_between_the_newest_value_and_the_true_maximum() {
        let mut state = 1u64;
        for _ in 0..200 {
            let mut filter = MaxFilter::default();
            let mut values = Vec::new();
            let mut round = 0;
            for _ in 0..60 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                round += (state >> 40) % 3;
                let value = (state >> 33) % 1000;
                values.push((round, value));
                filter.update(value, round, 10);
                let recent = values.iter().filter(|(at, _)| round - at <= 10);
                let most = recent.map(|(_, value)| *value).max().unwrap();
                assert!((value..=most).contains(&filter.get()), "{values:?}");
            }
        }
    }
}
