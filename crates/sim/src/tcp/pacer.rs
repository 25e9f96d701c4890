// SPDX-License-Identifier: Apache-2.0
//! A pacer: it sends bursts of a few segments, at intervals that give a certain rate, as Linux's TCP does without a
//! queueing discipline.

use holdfast_wire::{Duration, Instant};

/// Pacing begins with this segment. The number is Linux's initial window.
const UNPACED_SEGMENTS: u64 = 10;

/// The state of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    /// The earliest time of the next burst.
    departs_at: Instant,
}

impl Pacer {
    /// When the next burst may be sent, if that is not now.
    pub(super) fn waits_until(self, now: Instant) -> Option<Instant> {
        (self.departs_at > now).then_some(self.departs_at)
    }

    /// How long the next burst still has to wait.
    pub(super) fn wait_left(self, now: Instant) -> Duration {
        self.departs_at.saturating_since(now)
    }

    /// A burst of `bytes` is sent at `rate` bytes a second. `segments` were sent so far, with this burst.
    /// If the burst is late, the next pause is shorter, by at most half of this burst's time.
    pub(super) fn on_sent(&mut self, bytes: u64, rate: u64, segments: u64, now: Instant) {
        let late = now.saturating_since(self.departs_at);
        self.departs_at = self.departs_at.max(now);
        if segments < UNPACED_SEGMENTS || rate == 0 {
            return;
        }
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let length = Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        self.departs_at += length.saturating_sub(late.min(length / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// 2000 bytes at 1 MB/s take 2 ms.
    #[test]
    fn bursts_are_as_far_apart_as_the_rate_asks() {
        let mut pacer = Pacer::default();
        pacer.on_sent(2000, 1_000_000, 9, at(1000));
        assert_eq!(pacer.waits_until(at(1000)), None);
        pacer.on_sent(2000, 1_000_000, 11, at(1000));
        assert_eq!(pacer.waits_until(at(1000)), Some(at(1002)));
        assert_eq!(pacer.wait_left(at(1001)), Duration::from_millis(1));
        assert_eq!(pacer.waits_until(at(1002)), None);
    }

    /// Sent 0.5 ms late: the next burst is due 2 ms after the first was due. After a silence the pause is half as long.
    #[test]
    fn a_late_burst_catches_up_by_half_of_its_time_at_most() {
        let mut pacer = Pacer::default();
        pacer.on_sent(2000, 1_000_000, 10, at(1000));
        let due = pacer.waits_until(at(1000)).unwrap();
        let late = Instant::from_nanos(due.as_nanos() + 500_000);
        pacer.on_sent(2000, 1_000_000, 12, late);
        assert_eq!(pacer.wait_left(late), Duration::from_micros(1500));
        pacer.on_sent(2000, 1_000_000, 14, at(9000));
        assert_eq!(pacer.wait_left(at(9000)), Duration::from_millis(1));
    }
}
