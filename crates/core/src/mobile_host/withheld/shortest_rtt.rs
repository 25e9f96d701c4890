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
    now: Duration,
    before: Duration,
}

impl ShortestRtt {
    /// Notes a measured round trip.
    pub(super) fn note(&mut self, rtt: Duration, now: Instant) {
        if now.saturating_since(self.since) > WINDOW {
            (self.before, self.now, self.since) = (self.now, rtt, now);
        }
        if self.now.is_zero() || rtt < self.now {
            self.now = rtt;
        }
    }

    /// The shortest; 0: none was measured.
    pub(super) fn get(&self) -> Duration {
        if self.before.is_zero() {
            self.now
        } else {
            self.now.min(self.before)
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
            shortest.note(Duration::from_millis(ms), at(second));
            let expected = if second <= 21 { 20 } else { 200 };
            assert_eq!(shortest.get().as_millis(), expected, "{second} s");
        }
    }
}
