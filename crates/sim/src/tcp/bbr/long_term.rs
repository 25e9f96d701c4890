// SPDX-License-Identifier: Apache-2.0
//! The rate behind a token bucket ("An Internet-wide analysis of traffic policing", 2016), as Linux's BBR finds it:
//! two intervals in a row, each from loss to loss, have the same rate and many losses.

use holdfast_wire::{Duration, Instant};

use super::super::rate::rate;

/// An interval has at least this number of round trips, and at most four times as many.
const ROUNDS_MIN: u32 = 4;
/// The least share of losses in an interval, in 1/256 of what is delivered: a fifth.
const LOSSES: u64 = 50;
/// Two rates are the same if they differ by at most an eighth, or by at most `SAME_RATE` bytes a second.
const SAME_SHARE: u64 = 8;
const SAME_RATE: u64 = 500;
/// The rate is used for this number of round trips.
const USED_ROUNDS: u32 = 48;

/// Counts of the connection, in bytes, and the time of the last delivery.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Totals {
    pub delivered: u64,
    pub lost: u64,
    pub delivered_at: Instant,
}

/// What an ACK or a timeout reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub totals: Totals,
    pub is_round: bool,
    pub has_losses: bool,
    pub is_app_limited: bool,
}

/// The state of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongTerm {
    is_sampling: bool,
    rounds: u32,
    from: Totals,
    /// The rate of the last interval, bytes a second; 0: none.
    rate: u64,
    is_used: bool,
}

impl LongTerm {
    /// The rate that replaces the bandwidth, if one is used.
    pub(super) fn rate(&self) -> Option<u64> {
        self.is_used.then_some(self.rate)
    }

    /// Forgets the samples and the rate.
    pub(super) fn reset(&mut self, totals: Totals) {
        *self = Self {
            from: totals,
            ..Self::default()
        };
    }

    /// An ACK, or a timeout. `cycles`: BBR is in ProbeBW. True: the rate's use has ended, and the cycle begins anew.
    pub(super) fn on_event(&mut self, event: Event, cycles: bool) -> bool {
        if self.is_used {
            self.rounds += u32::from(cycles && event.is_round);
            let is_over = cycles && event.is_round && self.rounds >= USED_ROUNDS;
            if is_over {
                self.reset(event.totals);
            }
            return is_over;
        }
        if !self.is_sampling {
            // An interval begins with a loss: before it, the bucket was not empty.
            if !event.has_losses {
                return false;
            }
            self.begin_interval(event.totals);
            self.is_sampling = true;
        }
        if event.is_app_limited {
            self.reset(event.totals);
            return false;
        }
        self.rounds += u32::from(event.is_round);
        if self.rounds > 4 * ROUNDS_MIN {
            self.reset(event.totals);
        } else if self.rounds >= ROUNDS_MIN && event.has_losses {
            self.end_interval(event.totals);
        }
        false
    }

    fn begin_interval(&mut self, totals: Totals) {
        (self.from, self.rounds) = (totals, 0);
    }

    fn end_interval(&mut self, to: Totals) {
        let lost = to.lost - self.from.lost;
        let delivered = to.delivered - self.from.delivered;
        let time = to.delivered_at.saturating_since(self.from.delivered_at);
        if delivered == 0 || lost * 256 < LOSSES * delivered || time < Duration::from_millis(1) {
            return;
        }
        let new = rate(delivered, time);
        let difference = new.abs_diff(self.rate);
        if self.rate > 0 && (difference * SAME_SHARE <= self.rate || difference <= SAME_RATE) {
            self.rate = u64::midpoint(new, self.rate);
            (self.is_used, self.rounds) = (true, 0);
            return;
        }
        self.rate = new;
        self.begin_interval(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of 100 ms, `delivered` bytes in each. Its last ACK shows `lost` bytes to be lost.
    struct Path {
        state: LongTerm,
        totals: Totals,
    }

    impl Path {
        fn new() -> Self {
            let (state, totals) = (LongTerm::default(), Totals::default());
            Self { state, totals }
        }

        fn round_trip(&mut self, delivered: u64, lost: u64) -> bool {
            self.event(delivered, lost, false)
        }

        fn event(&mut self, delivered: u64, lost: u64, is_app_limited: bool) -> bool {
            self.totals.delivered += delivered;
            self.totals.lost += lost;
            self.totals.delivered_at += Duration::from_millis(100);
            let event = Event {
                totals: self.totals,
                is_round: true,
                has_losses: lost > 0,
                is_app_limited,
            };
            self.state.on_event(event, true)
        }
    }

    /// Each fourth round trip loses as much as a quarter of what was delivered: 100 000 and then 104 000 bytes in
    /// 0.4 s are 250 and 260 kB/s, which differ by less than an eighth: 255 kB/s, for 48 round trips.
    #[test]
    fn two_intervals_alike_with_many_losses_are_a_token_bucket() {
        let mut path = Path::new();
        path.round_trip(25_000, 1000);
        for delivered in [25_000, 26_000] {
            for _ in 0..3 {
                path.round_trip(delivered, 0);
                assert_eq!(path.state.rate(), None);
            }
            path.round_trip(delivered, 25_000);
        }
        assert_eq!(path.state.rate(), Some(255_000));
        let over: Vec<_> = (0..48).map(|_| path.round_trip(25_000, 0)).collect();
        assert_eq!(over.iter().position(|over| *over), Some(47));
        assert_eq!(path.state.rate(), None);
    }

    #[test]
    fn other_rates_few_losses_and_long_intervals_are_none() {
        let run = |rates: [u64; 2], lost: u64, length: u32| {
            let mut path = Path::new();
            path.round_trip(25_000, 1000);
            for delivered in rates {
                for _ in 1..length {
                    path.round_trip(delivered, 0);
                }
                path.round_trip(delivered, lost);
            }
            path.state.rate()
        };
        assert!(run([25_000, 26_000], 25_000, 4).is_some());
        // 25 and 29 kB a round trip: more than an eighth.
        assert_eq!(run([25_000, 29_000], 25_000, 4), None);
        // 19 of 100.
        assert_eq!(run([25_000, 25_000], 19_000, 4), None);
        // Three round trips are too few, 17 too many.
        assert_eq!(run([25_000, 25_000], 25_000, 3), None);
        assert_eq!(run([25_000, 25_000], 110_000, 17), None);
    }

    #[test]
    fn a_pause_of_the_application_ends_the_sampling() {
        let mut path = Path::new();
        path.round_trip(25_000, 1000);
        for _ in 0..2 {
            for n in 0..4 {
                path.event(25_000, if n == 3 { 25_000 } else { 0 }, n == 1);
            }
        }
        assert_eq!(path.state.rate(), None);
    }
}
