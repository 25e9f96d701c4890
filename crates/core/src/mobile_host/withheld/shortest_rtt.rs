// SPDX-License-Identifier: Apache-2.0
//! The shortest recent round trip: after a move to a longer path the old one does not count.

use core::time::Duration;

use holdfast_wire::Instant;

/// A round trip counts for this time at least, and for twice this time at most. BBR has 10 s.
const WINDOW: Duration = Duration::from_secs(10);

/// The shortest round trip of this window and of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShortestRtt {
    since: Instant,
    current: Duration,
    previous: Duration,
}

impl ShortestRtt {
    /// Notes a measured round trip.
    pub(super) fn add(&mut self, rtt: Duration, now: Instant) {
        if now.saturating_since(self.since) > WINDOW {
            (self.previous, self.current, self.since) = (self.current, rtt, now);
        }
        if self.current.is_zero() || rtt < self.current {
            self.current = rtt;
        }
    }

    /// The shortest; 0: none was measured.
    pub(super) fn get(&self) -> Duration {
        if self.previous.is_zero() {
            self.current
        } else {
            self.current.min(self.previous)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_round_trip_is_forgotten_after_a_while() {
        let mut shortest = ShortestRtt::default();
        let at = |seconds: u64| Instant::from_millis(1_000 * (100 + seconds));
        for second in 0..30 {
            let ms = if second == 0 { 20 } else { 200 };
            shortest.add(Duration::from_millis(ms), at(second));
            let expected = if second <= 21 { 20 } else { 200 };
            assert_eq!(shortest.get().as_millis(), expected, "{second} s");
        }
    }
}
