// SPDX-License-Identifier: Apache-2.0
//! HyStart: it ends slow start before a loss (Ha and Rhee, "Taming the elephants", 2011;
//! RFC 9438, 4.10), with Linux's two rules and numbers.
//!
//! Linux does not have HyStart++ (RFC 9406): its slow start ends at once, without a phase of
//! slower growth.

use holdfast_wire::{Duration, Instant};

/// HyStart does not act below this window, segments.
const WINDOW_MIN: u64 = 16;
/// ACKs at most this far apart belong to one train.
const ACK_GAP_MAX: Duration = Duration::from_millis(2);
/// Samples of a round before its delay counts.
const SAMPLES_MIN: u32 = 8;
/// The limits of the allowed rise of a round's delay, which is an eighth of the least delay.
const DELAY_RISE: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(16)];
/// Time that segmentation offload may add to a train: four packets of the largest size at the
/// sender's rate, and at most this.
const OFFLOAD_MAX: Duration = Duration::from_millis(1);
const OFFLOAD_BYTES: u128 = 4 * 65_536;

/// A round trip measured, and the sender at that time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// The round trip of the newest segment acknowledged.
    pub rtt: Duration,
    /// The smoothed round trip.
    pub srtt: Duration,
    /// SND.UNA after this ACK, and SND.NXT.
    pub una: u64,
    pub nxt: u64,
}

/// The state of one slow start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    /// HyStart has ended this slow start.
    found: bool,
    round_start: Instant,
    last_ack: Instant,
    /// SND.NXT at the start of the round: its ACK ends the round.
    round_end: u64,
    /// The least round trip of the round.
    round_rtt: Option<Duration>,
    samples: u32,
}

impl HyStart {
    /// The retransmission timer has expired: HyStart begins again.
    pub(super) fn restart(&mut self, nxt: u64, now: Instant) {
        self.found = false;
        self.begin_round(nxt, now);
    }

    fn begin_round(&mut self, nxt: u64, now: Instant) {
        (self.round_start, self.last_ack) = (now, now);
        self.round_end = nxt;
        self.round_rtt = None;
        self.samples = 0;
    }

    /// An ACK in slow start with a window of `cwnd` bytes. True: slow start ends.
    pub(super) fn on_ack(
        &mut self,
        sample: Sample,
        delay_min: Duration,
        cwnd: u64,
        smss: u64,
        now: Instant,
    ) -> bool {
        if self.found {
            return false;
        }
        if sample.una > self.round_end {
            self.begin_round(sample.nxt, now);
        }
        if cwnd / smss < WINDOW_MIN {
            return false;
        }
        let longest = (delay_min + offload_delay(cwnd, sample.srtt)) / 2;
        let is_train = self.is_long_train(longest, now);
        self.found = self.is_delayed(sample.rtt, delay_min) || is_train;
        self.found
    }

    /// ACKs without a gap for half of the least round trip: the window fills the path.
    fn is_long_train(&mut self, longest: Duration, now: Instant) -> bool {
        if now.saturating_since(self.last_ack) > ACK_GAP_MAX {
            return false;
        }
        self.last_ack = now;
        now.saturating_since(self.round_start) > longest
    }

    /// Every round trip of the round was longer than the least delay: a queue has grown.
    fn is_delayed(&mut self, rtt: Duration, delay_min: Duration) -> bool {
        let round_rtt = self.round_rtt.map_or(rtt, |least| least.min(rtt));
        self.round_rtt = Some(round_rtt);
        if self.samples < SAMPLES_MIN {
            self.samples += 1;
            return false;
        }
        let [least, most] = DELAY_RISE;
        round_rtt > delay_min + (delay_min / 8).clamp(least, most)
    }
}

/// The rate of Linux's slow start is two windows a round trip.
fn offload_delay(cwnd: u64, srtt: Duration) -> Duration {
    let window = 2 * u128::from(cwnd.max(1));
    let ns = OFFLOAD_BYTES * srtt.as_nanos() / window;
    OFFLOAD_MAX.min(Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMSS: u64 = 1000;
    const MIN: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// A round of 1000 segments from 1 s on, ACKs of one segment each at `times_ms` after its
    /// begin, with these round trips: the first ACK that ends slow start.
    fn exit(cwnd: u64, acks: impl IntoIterator<Item = (u64, u64)>) -> Option<u64> {
        let mut state = HyStart::default();
        acks.into_iter()
            .zip(1..)
            .find(|((after_ms, rtt_ms), una)| {
                let sample = Sample {
                    rtt: Duration::from_millis(*rtt_ms),
                    srtt: MIN,
                    una: *una,
                    nxt: 1000,
                };
                state.on_ack(sample, MIN, cwnd, SMSS, at(1000 + after_ms))
            })
            .map(|((after_ms, _), _)| after_ms)
    }

    /// ACKs each millisecond; the threshold is (100 ms + 1 ms) / 2 = 50.5 ms: 51 ms.
    #[test]
    fn a_train_of_acks_longer_than_half_the_least_delay_ends_slow_start() {
        assert_eq!(exit(100 * SMSS, (0..100).map(|ms| (ms, 100))), Some(51));
        // A gap of 3 ms ends the train, however long the rest is.
        let with_gap = (0..100).map(|ms| (if ms < 20 { ms } else { ms + 2 }, 100));
        assert_eq!(exit(100 * SMSS, with_gap), None);
        // Gaps of 2 ms belong to the train.
        assert_eq!(exit(100 * SMSS, (0..50).map(|n| (2 * n, 100))), Some(52));
    }

    /// At a high rate offload adds less: 262144 B * 0.1 s / (2 * 26214400 B) = 0.5 ms.
    #[test]
    fn offload_adds_what_four_packets_take_at_the_rate() {
        assert_eq!(offload_delay(26_214_400, MIN), Duration::from_micros(500));
        assert_eq!(offload_delay(100 * SMSS, MIN), Duration::from_millis(1));
    }

    /// The eighth of 100 ms is 12.5 ms: 112 ms is no queue, 113 ms is one, and the ninth
    /// sample of a round is the first that counts.
    #[test]
    fn nine_delays_more_than_an_eighth_longer_end_slow_start() {
        let round = |rtt| (0..20).map(move |n| (5 * n, rtt));
        assert_eq!(exit(100 * SMSS, round(112)), None);
        assert_eq!(exit(100 * SMSS, round(113)), Some(5 * 8));
        // One short sample of the first eight is enough against it.
        let one_short = (0..20).map(|n| (5 * n, if n == 7 { 105 } else { 130 }));
        assert_eq!(exit(100 * SMSS, one_short), None);
    }

    #[test]
    fn below_sixteen_segments_it_does_not_look() {
        let acks = || (0..100).map(|ms| (ms, 200));
        assert_eq!(exit(16 * SMSS - 1, acks()), None);
        assert_eq!(exit(16 * SMSS, acks()), Some(8));
    }

    #[test]
    fn it_ends_a_slow_start_once_until_a_timeout() {
        let mut state = HyStart::default();
        let sample = |una| Sample {
            rtt: 2 * MIN,
            srtt: MIN,
            una,
            nxt: 1000,
        };
        let acks = |state: &mut HyStart, from: u64| {
            (from..from + 20)
                .filter(|una| state.on_ack(sample(*una), MIN, 20 * SMSS, SMSS, at(5 * una)))
                .count()
        };
        assert_eq!(acks(&mut state, 1), 1);
        assert_eq!(acks(&mut state, 21), 0);
        state.restart(1000, at(300));
        assert_eq!(acks(&mut state, 41), 1);
    }
}
