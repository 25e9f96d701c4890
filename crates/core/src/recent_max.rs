// SPDX-License-Identifier: Apache-2.0
//! The largest value of late.

use core::time::Duration;

use holdfast_wire::Instant;

/// The largest values, of this epoch of `EPOCH_S` seconds and of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecentMax<T, const EPOCH_S: u64> {
    values: [T; 2],
    epoch_since: Option<Instant>,
}

impl<T: Copy + Default + Ord, const EPOCH_S: u64> RecentMax<T, EPOCH_S> {
    pub(crate) fn add(&mut self, value: T, now: Instant) {
        let epoch = const { Duration::from_secs(EPOCH_S) };
        let since = *self.epoch_since.get_or_insert(now);
        let age = now.saturating_since(since);
        if age >= epoch {
            let before = if age < epoch * 2 {
                self.values[0]
            } else {
                T::default()
            };
            self.values = [T::default(), before];
            self.epoch_since = Some(now);
        }
        self.values[0] = self.values[0].max(value);
    }

    /// The largest value of late; the default value if none was noted.
    pub(crate) fn largest(&self) -> T {
        self.values[0].max(self.values[1])
    }
}

/// Gaps between two events, in nanoseconds: the packet path compares them.
pub(crate) type RecentGaps = RecentMax<u64, 4>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_one_epoch_or_two() {
        let at = |ms: u64| Instant::from_millis(500 + ms);
        let mut recent = RecentMax::<u64, 4>::default();
        assert_eq!(recent.largest(), 0);
        for (ms, value, largest) in [
            (0, 50, 50),
            (3_999, 20, 50),
            // An epoch has passed.
            (4_000, 10, 50),
            (7_999, 30, 50),
            (8_000, 5, 30),
            (12_000, 1, 5),
            // A pause.
            (15_000, 9, 9),
            (60_000, 2, 2),
        ] {
            recent.add(value, at(ms));
            assert_eq!(recent.largest(), largest, "{ms}");
        }
    }
}
