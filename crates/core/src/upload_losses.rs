// SPDX-License-Identifier: Apache-2.0
//! `auto`: whether the radio, or a queue before it, has lost what is missing of an MH's uploads.
//!
//! The gateway sees neither that queue nor its limit. A short queue overflows before a round trip shows
//! it, and a policer has no queue. So a loss is the MH's own, unless there is evidence for the radio:
//!
//! - Within the last round trip of the path data came after a pause or an outage, or the link came up. This
//!   rule overrides all others.
//! - The MH's rate is at most three quarters of that at a loss of its own which was no overflow. After two
//!   such losses the radio counts as lossy for a minute.
//! - The MH's rate has grown by a quarter since the measurement before: the link is not full.
//!
//! An overflow is the MH's own loss even if the radio counts as lossy. It shows as a long queue, or as more
//! than two segments and an eighth of a round trip's bytes that are missing. After the latter the radio does
//! not count as lossy any more.

use core::cell::Cell;
use core::time::Duration;

use holdfast_wire::Instant;

use crate::changing_link::nanos;
use crate::delivery::bytes_in;
use crate::recent_max::RecentMax;
use crate::recently_missing::RecentlyMissing;

/// A measurement of the rate takes a round trip of the path, and at least this time. `crate::delivery` measures the
/// same for ACKs; sums of gaps take 24 instructions less for each packet.
const SPAN_MIN: Duration = Duration::from_millis(50);
/// A shorter queue is not distinguished from the variation of a round trip.
const QUEUE_SEEN_MIN: Duration = Duration::from_millis(2);
/// The newest round trip shows the queue for two round trips of the path, and at least for this time.
const QUEUE_SEEN_FOR: Duration = Duration::from_millis(100);
/// A queue has overflowed only if this much is missing within a round trip: more than two segments.
const MUCH_BYTES_MIN: u64 = 2 * 1460;
/// It has overflowed only if this part of a round trip's bytes is missing.
const MUCH_PART: u64 = 8;
/// A measurement of fewer bytes, about ten segments, does not show that the rate grows.
const GROWTH_BYTES_MIN: u64 = 10 * 1460;
/// Two measurements of a low rate are independent if the second is at least this number later.
const MEASUREMENTS_APART: u32 = 2;
/// After this time without evidence the radio does not count as lossy any more.
const RADIO_SHOWN_FOR: Duration = Duration::from_secs(60);

/// The rate and the queue of an MH's uploads, all flows together, and what their losses have shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct UploadLosses {
    /// The running measurement: bytes, and the time in nanoseconds. `None`: the next data begin one.
    span_bytes: Option<u64>,
    span_nanos: u64,
    /// The newest measurement of the rate, bytes a second, and the one before; 0: none.
    rates: [u64; 2],
    /// Measurements until now; wraps around.
    measurements: u32,
    /// The shortest round trip of the wireless half since the last interruption.
    least_rtt: Option<Duration>,
    /// By how much the newest round trip exceeds `least_rtt`, and when it ended.
    newest_queue: Option<(Duration, Instant)>,
    longest_queue: RecentMax<Duration, 5>,
    /// When data came after a pause or an outage, or the link came up.
    interrupted_at: Option<Instant>,
    /// The newest round trip of the whole path, in nanoseconds; 0: none.
    path_nanos: Cell<u64>,
    evidence: Cell<Evidence>,
}

/// What losses have shown.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    missing: RecentlyMissing,
    /// The MH's rates at losses of its own, bytes a second.
    own_rates: RecentMax<u64, 4>,
    /// The measurement in which something was first lost at a low rate.
    slow_measurement: Option<u32>,
    /// When two losses have shown that the radio loses.
    radio_shown_at: Option<Instant>,
}

impl UploadLosses {
    /// Data have arrived, this time after the data before.
    #[inline]
    pub(crate) fn on_data(&mut self, bytes: u32, gap_nanos: u64, now: Instant) {
        let Some(span_bytes) = &mut self.span_bytes else {
            (self.span_bytes, self.span_nanos) = (Some(0), 0);
            return;
        };
        *span_bytes += u64::from(bytes);
        self.span_nanos += gap_nanos;
        if self.span_nanos >= self.path_nanos.get().max(nanos(SPAN_MIN)) {
            self.end_measurement(now);
        }
    }

    #[cold]
    fn end_measurement(&mut self, now: Instant) {
        let bytes = self.span_bytes.replace(0).unwrap_or_default();
        let rate = u128::from(bytes) * 1_000_000_000 / u128::from(self.span_nanos.max(1));
        self.span_nanos = 0;
        self.rates = [u64::try_from(rate).unwrap_or(u64::MAX), self.rates[0]];
        self.measurements = self.measurements.wrapping_add(1);
        // Old rates are forgotten.
        self.evidence.get_mut().own_rates.add(0, now);
    }

    /// A pause, an outage or a handoff: the link may be another one now. A lossy radio is believed to stay one.
    pub(crate) fn interrupt(&mut self, now: Instant) {
        let evidence = self.evidence.get_mut();
        evidence.own_rates = RecentMax::default();
        evidence.slow_measurement = None;
        self.span_bytes = None;
        self.rates = [0; 2];
        self.least_rtt = None;
        self.newest_queue = None;
        self.longest_queue = RecentMax::default();
        self.interrupted_at = Some(now);
    }

    /// A round trip of the wireless half. One that began before an interruption shows no queue.
    pub(crate) fn on_round_trip(&mut self, rtt: Duration, now: Instant) {
        if self.was_interrupted_within(rtt, now) {
            return;
        }
        let least = self.least_rtt.map_or(rtt, |least| least.min(rtt));
        self.least_rtt = Some(least);
        let queue = rtt.saturating_sub(least);
        self.newest_queue = Some((queue, now));
        self.longest_queue.add(queue, now);
    }

    /// Data came after a pause or an outage, or the link came up, this time ago or less.
    pub(crate) fn was_interrupted_within(&self, time: Duration, now: Instant) -> bool {
        self.interrupted_at
            .is_some_and(|at| now.saturating_since(at) <= time)
    }

    /// The newest round trip of the whole path.
    pub(crate) fn set_path_rtt(&self, rtt: Duration) {
        self.path_nanos.set(nanos(rtt));
    }

    /// Judges a hole of `bytes` that opens now, and remembers it. True: it is the MH's own loss. `is_congested`: the
    /// MH's queue is known to be long.
    pub(crate) fn judge_own(&self, bytes: u32, is_congested: bool, now: Instant) -> bool {
        let path_rtt = Duration::from_nanos(self.path_nanos.get());
        if self.was_interrupted_within(path_rtt, now) {
            return false;
        }
        let mut evidence = self.evidence.get();
        let [rate, before] = self.rates;
        let missing = evidence.missing.add(bytes, path_rtt, now);
        let is_much = missing >= MUCH_BYTES_MIN && missing >= bytes_in(rate, path_rtt) / MUCH_PART;
        let is_overflow = is_congested || is_much || self.has_long_queue(path_rtt, now);
        if is_overflow {
            // Earlier rates are those of another link, or of the burst that has overflowed.
            evidence.own_rates = RecentMax::default();
        }
        if is_much {
            evidence.radio_shown_at = None;
        }
        let own_rate = evidence.own_rates.largest();
        let slow_rate = rate.max(before);
        let is_slow = rate > 0 && slow_rate.saturating_mul(4) <= own_rate.saturating_mul(3);
        let is_growing = before > 0
            && rate > own_rate
            && rate / 5 > before / 4
            && bytes_in(rate, path_rtt.max(SPAN_MIN)) >= GROWTH_BYTES_MIN;
        if is_slow {
            evidence.note_slow(self.measurements, now);
        }
        let is_own = is_overflow || !(is_slow || is_growing || evidence.shows_radio(now));
        if is_own {
            evidence.slow_measurement = None;
        }
        // The rate of a burst that overflows is no reference.
        if is_own && !is_overflow {
            evidence.own_rates.add(rate, now);
        }
        self.evidence.set(evidence);
        is_own
    }

    /// The queue is about as long as it has been of late: it may have overflowed.
    fn has_long_queue(&self, path_rtt: Duration, now: Instant) -> bool {
        self.newest_queue.is_some_and(|(queue, at)| {
            let is_new = now.saturating_since(at) <= QUEUE_SEEN_FOR.max(path_rtt * 2);
            is_new && queue >= QUEUE_SEEN_MIN && queue >= self.longest_queue.largest() * 3 / 4
        })
    }
}

impl Evidence {
    /// Something was lost at a low rate. Once more, in an independent measurement, this shows the radio.
    fn note_slow(&mut self, measurement: u32, now: Instant) {
        let first = *self.slow_measurement.get_or_insert(measurement);
        if measurement.wrapping_sub(first) >= MEASUREMENTS_APART {
            self.radio_shown_at = Some(now);
        }
    }

    fn shows_radio(&self, now: Instant) -> bool {
        let shown_at = self.radio_shown_at;
        shown_at.is_some_and(|at| now.saturating_since(at) < RADIO_SHOWN_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1_000;

    /// An MH that sends each 10 ms over a round trip of 50 ms.
    struct Sender {
        losses: UploadLosses,
        now: Instant,
    }

    impl Sender {
        /// Has sent 1,000 kB/s for a while.
        fn new() -> Self {
            let losses = UploadLosses::default();
            losses.set_path_rtt(Duration::from_millis(50));
            let now = Instant::from_millis(10_000);
            let mut sender = Self { losses, now };
            sender.send(310, 1_000);
            sender
        }

        fn send(&mut self, ms: u64, kb_per_s: u32) {
            for _ in 0..ms / 10 {
                self.now += Duration::from_millis(10);
                self.losses.on_data(10 * kb_per_s, 10_000_000, self.now);
            }
        }

        fn measure(&mut self, queue_ms: u64) {
            let rtt = Duration::from_millis(20 + queue_ms);
            self.losses.on_round_trip(rtt, self.now);
        }

        /// A loss of a segment is taken for the MH's own.
        fn loses_its_own(&self) -> bool {
            self.losses.judge_own(SEGMENT, false, self.now)
        }

        /// The radio has been shown to lose, and a minute has not passed.
        fn with_radio() -> Self {
            let mut sender = Self::new();
            assert!(sender.loses_its_own());
            for _ in 0..2 {
                sender.send(300, 500);
                assert!(!sender.loses_its_own());
            }
            sender.send(300, 1_000);
            assert!(!sender.loses_its_own());
            sender
        }
    }

    #[test]
    fn a_loss_without_evidence_is_the_mhs_own() {
        let mut sender = Sender::new();
        assert!(sender.loses_its_own());
        sender.send(300, 1_000);
        assert!(sender.loses_its_own());
        // An MH whose rate is not known.
        assert!(UploadLosses::default().judge_own(SEGMENT, false, sender.now));
    }

    #[test]
    fn a_loss_at_three_quarters_of_the_rate_of_an_own_one_is_the_radios() {
        for (kb_per_s, is_own) in [(760, true), (740, false)] {
            let mut sender = Sender::new();
            assert!(sender.loses_its_own());
            sender.send(300, kb_per_s);
            assert_eq!(sender.loses_its_own(), is_own, "{kb_per_s}");
            // Two holes of one measurement are one loss.
            assert_eq!(sender.loses_its_own(), is_own, "{kb_per_s}");
            sender.send(300, 1_000);
            assert!(sender.loses_its_own(), "{kb_per_s}");
        }
    }

    #[test]
    fn two_such_losses_show_the_radio_for_a_minute() {
        let mut sender = Sender::with_radio();
        sender.send(59_000, 1_000);
        assert!(!sender.loses_its_own());
        sender.send(1_500, 1_000);
        assert!(sender.loses_its_own());
    }

    #[test]
    fn a_rate_at_an_own_loss_counts_for_eight_seconds_at_most() {
        let mut sender = Sender::new();
        assert!(sender.loses_its_own());
        sender.send(8_100, 500);
        assert!(sender.loses_its_own());
    }

    #[test]
    fn while_the_rate_grows_the_link_is_not_full() {
        for (kb_per_s, is_own) in [(1_200, true), (1_300, false)] {
            let mut sender = Sender::new();
            sender.send(50, kb_per_s);
            assert_eq!(sender.loses_its_own(), is_own, "{kb_per_s}");
            // This is no evidence for later losses.
            sender.send(100, kb_per_s);
            assert!(sender.loses_its_own(), "{kb_per_s}");
            // Nor is a rate that grows to what it was.
            sender.send(50, kb_per_s / 2);
            sender.send(50, kb_per_s - 20);
            assert!(sender.loses_its_own(), "{kb_per_s}");
        }
    }

    #[test]
    fn a_rate_of_less_than_ten_segments_a_measurement_does_not_show_growth() {
        for (kb_per_s, is_own) in [(280, true), (300, false)] {
            let losses = UploadLosses::default();
            losses.set_path_rtt(Duration::from_millis(50));
            let now = Instant::from_millis(10_000);
            let mut sender = Sender { losses, now };
            sender.send(310, kb_per_s / 2);
            sender.send(50, kb_per_s);
            assert_eq!(sender.loses_its_own(), is_own, "{kb_per_s}");
        }
    }

    #[test]
    fn what_is_missing_after_a_pause_is_not_the_mhs_own_and_the_rate_is_measured_anew() {
        let mut sender = Sender::new();
        assert!(sender.loses_its_own());
        sender.send(300, 500);
        sender.losses.interrupt(sender.now);
        assert!(!sender.losses.judge_own(100 * SEGMENT, true, sender.now));
        sender.measure(500);
        sender.send(100, 500);
        assert!(sender.loses_its_own());
    }

    #[test]
    fn a_long_queue_is_the_mhs_own_also_with_a_radio_that_loses() {
        let mut sender = Sender::with_radio();
        sender.measure(0);
        for (queue_ms, is_own) in [(1, false), (2, true), (20, true), (14, false), (16, true)] {
            sender.measure(queue_ms);
            assert_eq!(sender.loses_its_own(), is_own, "{queue_ms}");
        }
        // An old round trip shows no queue.
        sender.send(110, 1_000);
        assert!(!sender.loses_its_own());
        // The longest one of ten seconds ago is forgotten.
        sender.send(5_100, 1_000);
        sender.measure(10);
        assert!(!sender.loses_its_own());
        sender.send(5_100, 1_000);
        sender.measure(10);
        assert!(sender.loses_its_own());
    }

    #[test]
    fn an_eighth_of_a_round_trip_is_the_mhs_own_also_with_a_radio_that_loses() {
        // An eighth of 50,000 bytes. An eighth of 5,000 bytes is less than what counts at least.
        for (kb_per_s, less) in [(1_000, 6_000), (100, 2_000)] {
            let mut sender = Sender::with_radio();
            sender.send(300, kb_per_s);
            assert!(!sender.losses.judge_own(less, false, sender.now));
            assert!(sender.losses.judge_own(1_000, false, sender.now));
            // The radio does not count as lossy any more.
            sender.send(300, kb_per_s);
            assert!(sender.loses_its_own());
        }
    }

    #[test]
    fn after_an_overflow_the_rates_before_it_do_not_count() {
        let mut sender = Sender::new();
        assert!(sender.loses_its_own());
        sender.send(300, 200);
        // The first hole of an overflow, and all of it.
        assert!(!sender.loses_its_own());
        assert!(sender.losses.judge_own(9_000, false, sender.now));
        sender.send(300, 200);
        assert!(sender.loses_its_own());
    }
}
