// SPDX-License-Identifier: Apache-2.0
//! The bytes that ACKs deliver at once beyond the bandwidth (Linux's BBR, "ack aggregation"). The window has room
//! for them, so that the sender does not stop while a link or a receiver collects ACKs.

use holdfast_wire::{Duration, Instant};

/// Each half of the memory lasts this number of round trips.
const WINDOW_ROUNDS: u32 = 5;
/// The window gets no more than what the bandwidth delivers in this time.
const TIME_MAX: Duration = Duration::from_millis(100);
/// A series ends after this number of segments.
const SEGMENTS_MAX: u64 = 1 << 20;

/// The bytes that `rate` delivers in `time`, in whole segments.
pub(super) fn whole_segments(rate: u64, time: Duration, smss: u64) -> u64 {
    let bytes = u128::from(rate) * time.as_nanos() / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX) / smss * smss
}

/// The state of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    began: Instant,
    acked: u64,
    /// The largest excess in each half of the memory, bytes.
    most: [u64; 2],
    rounds: u32,
    half: usize,
}

impl Aggregation {
    /// A series of ACKs begins.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.began, self.acked) = (now, 0);
    }

    /// An ACK delivers `acked` bytes; `rate` is the bandwidth.
    pub(super) fn on_ack(
        &mut self,
        acked: u64,
        rate: u64,
        cwnd: u64,
        smss: u64,
        is_round: bool,
        now: Instant,
    ) {
        if is_round {
            self.rounds += 1;
            if self.rounds >= WINDOW_ROUNDS {
                (self.rounds, self.half) = (0, 1 - self.half);
                self.most[self.half] = 0;
            }
        }
        let mut expected = whole_segments(rate, now.saturating_since(self.began), smss);
        if self.acked <= expected || self.acked + acked >= SEGMENTS_MAX * smss {
            self.begin(now);
            expected = 0;
        }
        self.acked += acked;
        let extra = (self.acked - expected).min(cwnd);
        self.most[self.half] = self.most[self.half].max(extra);
    }

    /// The additional room in the window, bytes.
    pub(super) fn extra(&self, rate: u64, smss: u64) -> u64 {
        let [first, second] = self.most;
        first.max(second).min(whole_segments(rate, TIME_MAX, smss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMSS: u64 = 1000;
    const RATE: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1000 + ms)
    }

    fn ack(state: &mut Aggregation, segments: u64, is_round: bool, ms: u64) {
        state.on_ack(segments * SMSS, RATE, 100 * SMSS, SMSS, is_round, at(ms));
    }

    /// 1 MB/s are a segment a millisecond. Ten at once at 10 ms and at 20 ms: what came before does not count, the
    /// last ten are more than expected. Then 15 in 5 ms: 10 + 15 - 5.
    #[test]
    fn what_comes_at_once_is_more_than_the_rate_by_itself() {
        let mut state = Aggregation::default();
        for ms in [10, 20] {
            ack(&mut state, 10, false, ms);
            assert_eq!(state.extra(RATE, SMSS), 10 * SMSS);
        }
        ack(&mut state, 15, false, 25);
        assert_eq!(state.extra(RATE, SMSS), 20 * SMSS);
    }

    /// The window's limit: 100 ms at the rate; and no more than the window itself.
    #[test]
    fn the_extra_has_a_limit() {
        let mut state = Aggregation::default();
        ack(&mut state, 300, false, 10);
        assert_eq!(state.extra(RATE, SMSS), 100 * SMSS);
        assert_eq!(state.extra(RATE / 2, SMSS), 50 * SMSS);
    }

    /// Five to ten round trips of memory.
    #[test]
    fn it_is_forgotten_after_ten_round_trips_at_the_latest() {
        let mut state = Aggregation::default();
        ack(&mut state, 40, false, 10);
        let extras: Vec<_> = (1..=10)
            .map(|n| {
                ack(&mut state, 1, true, 10 + 100 * n);
                state.extra(RATE, SMSS) / SMSS
            })
            .collect();
        assert_eq!(extras, [40, 40, 40, 40, 40, 40, 40, 40, 40, 1]);
    }
}
