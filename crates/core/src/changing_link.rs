// SPDX-License-Identifier: Apache-2.0
//! A link whose rate changes, as its newest ACKs show it: how long it is usually silent, and the
//! rate that it has had since an outage.
//!
//! A round trip is of little use there: most of it may be a queue that was built at another rate.

use core::time::Duration;

use holdfast_wire::Instant;

use crate::delivery::{DeliveryRate, bytes_in};
use crate::recent_max::{RecentGaps, RecentMax};
use crate::rtt::RttEstimator;

/// On a busy link an MH counts as silent this time after five quarters of its longest recent gap, or of its
/// shortest round trip if that is longer.
const GAP_SLACK: Duration = Duration::from_millis(50);
/// A silence without losses counts as a gap of at most this length.
const KEPT_GAP_MAX: Duration = Duration::from_secs(1);
/// The same while no round trip is measured: the link may be a very slow one.
const KEPT_GAP_UNMEASURED_MAX: Duration = Duration::from_secs(20);
/// The queue that recovery may build, beyond a round trip's worth.
const QUEUE_TARGET: Duration = Duration::from_millis(50);
/// The shortest time between two probes.
const PROBE_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The longest time between two probes at the start of a silence.
const PROBE_INTERVAL_MAX: Duration = Duration::from_millis(300);
/// Later, the time between two probes is the silence divided by this. An outage without a report lasts that
/// much longer.
const PROBE_SILENCE_PARTS: u32 = 600;
/// The time between two probes on a link that keeps its packets: these are probes themselves, and a
/// probe waits behind them. While no round trip is measured, the link may be one that keeps packets.
const PROBE_INTERVAL_KEPT: Duration = Duration::from_secs(1);
/// Probes take one part in this many of the link's capacity, unless the interval is at its limits.
const PROBE_PARTS: u32 = 20;
/// On the slowest links, probes take one part in this many.
const PROBE_PARTS_SLOW: u32 = 4;
/// Bytes of a probe, with its headers.
const PROBE_BYTES: u64 = 60;
/// Bytes of a segment.
const SEGMENT_BYTES: u64 = 1500;
/// The time of a segment on the link counts as this at most: the rate of a fade is not the link's rate.
const SEGMENT_TIME_MAX: Duration = Duration::from_millis(500);
/// The window to begin a recovery with on a link without a measurement: ten segments (RFC 6928).
pub(crate) const WINDOW_INITIAL: u64 = 10 * 1460;
/// The smallest window to begin a recovery with, on the slowest links.
const WINDOW_INITIAL_MIN: u64 = 2 * 1460;

/// The link's queue has overflowed in recovery.
#[derive(Clone, Copy, Debug)]
struct Overflow {
    /// The most bytes in flight from then on. It grows by a segment a round trip, like a sender's window.
    window: u64,
    /// Losses until this time were in the queue when it overflowed: they are no second overflow.
    until: Instant,
}

/// What is known of such a link.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangingLink {
    /// The gaps between two answers while data was in flight.
    gaps: RecentGaps,
    /// The wait for an answer began with an answer: the link is busy.
    is_busy: bool,
    /// It was idle in the present measurement of the rate.
    was_idle: bool,
    /// The link lost nothing in the last silence: it is slow, or keeps its packets in an outage.
    lost_nothing: bool,
    /// The rate since the outage.
    recovery_rate: DeliveryRate,
    /// The shortest round trip since the outage: the path may have become longer.
    round_trip: Option<Duration>,
    /// The link's queue has overflowed since the outage.
    overflow: Option<Overflow>,
    /// Measured rates, bytes a second. A fade is short, and a slow link is slow all the time.
    rates: RecentMax<u64, 30>,
}

impl ChangingLink {
    /// An answer came `gap` after the one before, and data was in flight in between.
    pub(crate) fn on_gap(&mut self, gap: Duration, now: Instant) {
        self.gaps.add(nanos(gap), now);
    }

    /// For how long an answer may be missing before the MH counts as silent, in nanoseconds: the packet
    /// path adds it to a time.
    #[inline]
    pub(crate) fn patience_nanos(&self, rtt: &RttEstimator, variation_min: Duration) -> u64 {
        match rtt.least() {
            Some(least) if self.is_busy => {
                five_quarters(nanos(least).max(self.gaps.largest())) + nanos(GAP_SLACK)
            }
            least => self.patience_at_first(least, rtt, variation_min),
        }
    }

    /// The same for an idle link, and for a link without a measured round trip.
    #[cold]
    fn patience_at_first(
        &self,
        least: Option<Duration>,
        rtt: &RttEstimator,
        variation_min: Duration,
    ) -> u64 {
        let rto = nanos(rtt.rto(variation_min));
        let Some(least) = least else {
            let gap = five_quarters(self.gaps.largest()) + nanos(GAP_SLACK);
            return gap.max(rto);
        };
        // The shortest round trip may be a SYN's.
        let first = five_quarters(nanos(least)) + nanos(variation_min);
        first.min(rto) + nanos(self.segment_time())
    }

    /// From one probe to the next. `rate`: what the link delivered before, bytes a second; `silence`:
    /// its length until now; `measured`: a round trip is known.
    pub(crate) fn probe_interval(
        &self,
        rate: Option<u64>,
        silence: Duration,
        measured: bool,
    ) -> Duration {
        if self.lost_nothing || !measured {
            return PROBE_INTERVAL_KEPT;
        }
        let probe_time = rate.map_or(Duration::ZERO, |rate| time_on_link(PROBE_BYTES, rate));
        let longest = PROBE_INTERVAL_MAX.max(probe_time * PROBE_PARTS_SLOW);
        let first = (probe_time * PROBE_PARTS).clamp(PROBE_INTERVAL_MIN, longest);
        first.max(silence / PROBE_SILENCE_PARTS)
    }

    /// An answer came. `is_busy`: data is still in flight. Returns the value from before.
    pub(crate) fn set_busy(&mut self, is_busy: bool) -> bool {
        self.was_idle |= !is_busy;
        core::mem::replace(&mut self.is_busy, is_busy)
    }

    /// A measurement of the rate was completed. It is the sender's rate if the link was idle.
    pub(crate) fn on_rate(&mut self, bytes_per_s: u64, now: Instant) {
        if !core::mem::take(&mut self.was_idle) {
            self.rates.add(bytes_per_s, now);
        }
    }

    /// The time that a segment needs on the link; zero: the rate is unknown.
    fn segment_time(&self) -> Duration {
        match self.rates.largest() {
            0 => Duration::ZERO,
            rate => time_on_link(SEGMENT_BYTES, rate).min(SEGMENT_TIME_MAX),
        }
    }

    /// The window to begin a recovery with: what the link delivered in a second at its best. It is at most
    /// ten segments (RFC 6928) and at least two.
    pub(crate) fn window_initial(&self) -> u64 {
        match self.rates.largest() {
            0 => WINDOW_INITIAL,
            rate => rate.clamp(WINDOW_INITIAL_MIN, WINDOW_INITIAL),
        }
    }

    /// The MH was silent for this time, and the link has lost nothing.
    pub(crate) fn on_kept(&mut self, silence: Duration, measured: bool, now: Instant) {
        self.lost_nothing = true;
        let gap_max = if measured {
            KEPT_GAP_MAX
        } else {
            KEPT_GAP_UNMEASURED_MAX
        };
        self.on_gap(silence.min(gap_max), now);
    }

    /// The link was down. It has lost what it had, and is idle.
    pub(crate) fn on_link_up(&mut self) {
        self.lost_nothing = false;
        self.become_idle();
    }

    /// The link is idle: what was in flight no longer counts, although no answer came.
    pub(crate) fn become_idle(&mut self) {
        self.is_busy = false;
    }

    /// From now on the rate of a recovery is measured.
    pub(crate) fn begin_recovery(&mut self) {
        self.recovery_rate = DeliveryRate::default();
        self.round_trip = None;
        self.overflow = None;
    }

    /// The link's queue has overflowed with these bytes in flight. From now on a part of it stays free, as
    /// after a loss of a sender (RFC 9438, 4.6). Without a measured rate the window is small anyway.
    pub(crate) fn on_overflow(&mut self, in_flight: u64, now: Instant) {
        let Some(rate) = self.recovery_rate.bytes_per_s() else {
            return;
        };
        if self.overflow.is_none_or(|last| now >= last.until) {
            self.overflow = Some(Overflow {
                window: in_flight / 10 * 7,
                until: now + time_on_link(in_flight, rate),
            });
        }
    }

    /// A piece that was sent since the outage took this round trip.
    pub(crate) fn on_round_trip(&mut self, round_trip: Duration) {
        let shortest = self
            .round_trip
            .map_or(round_trip, |shortest| shortest.min(round_trip));
        self.round_trip = Some(shortest);
    }

    /// The round trip without a queue: the shortest ever, or since the outage if the path has become longer.
    /// A round trip that recovery's own window can cause shows no longer path.
    fn path_rtt(&self, least: Duration) -> Duration {
        self.round_trip
            .filter(|&shortest| shortest > window_time(least, least))
            .unwrap_or(least)
    }

    /// The window of recovery after an overflow: at least what the path holds alone and a quarter more, at most
    /// [`Self::window_max`].
    pub(crate) fn window_after_overflow(&self, least: Duration) -> Option<u64> {
        let (overflow, rate) = (self.overflow?, self.recovery_rate.bytes_per_s()?);
        let path = bytes_in(rate, self.path_rtt(least) * 5 / 4 + self.segment_time());
        let most = self.window_max(least)?.max(path);
        Some(overflow.window.clamp(path, most).max(WINDOW_INITIAL_MIN))
    }

    /// Bytes that were sent since the outage have arrived.
    pub(crate) fn on_arrived(&mut self, bytes: u32, least: Duration, now: Instant) {
        self.recovery_rate.on_acked(bytes, Some(least), now);
        if let Some(overflow) = &mut self.overflow {
            overflow.window +=
                SEGMENT_BYTES * u64::from(bytes) / overflow.window.max(SEGMENT_BYTES);
        }
    }

    /// The window that fits the rate found since the outage, if there is one: the path, and a queue. The queue
    /// does not grow with the path, because a longer round trip may be one.
    pub(crate) fn window_max(&self, least: Duration) -> Option<u64> {
        let rate = self.recovery_rate.bytes_per_s()?;
        Some(bytes_in(rate, window_time(self.path_rtt(least), least)))
    }
}

/// What may be in flight in recovery, as time at the link's rate: the path, and a queue.
fn window_time(path: Duration, least: Duration) -> Duration {
    path + least + QUEUE_TARGET
}

fn time_on_link(bytes: u64, bytes_per_s: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / bytes_per_s.max(1))
}

/// Nanoseconds: the packet path compares them in fewer instructions than a `Duration`.
pub(crate) const fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

const fn five_quarters(nanos: u64) -> u64 {
    nanos + nanos / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2.4 kbit/s: a segment takes 5 s.
    #[test]
    fn without_a_measured_round_trip_a_silence_that_ends_lengthens_the_next_wait() {
        let rtt = RttEstimator::default();
        let mut link = ChangingLink::default();
        let mut patience_after_s = |silence_s| {
            link.on_kept(Duration::from_secs(silence_s), false, Instant::ZERO);
            link.patience_nanos(&rtt, Duration::from_millis(200)) / 1_000_000
        };
        assert_eq!(
            [0, 6, 600].map(&mut patience_after_s),
            [1_000, 7_550, 25_050]
        );
    }

    #[test]
    fn without_a_measured_round_trip_probes_are_rare() {
        let interval_ms = |measured| {
            let link = ChangingLink::default();
            let interval = link.probe_interval(None, Duration::ZERO, measured);
            interval.as_millis()
        };
        assert_eq!([false, true].map(interval_ms), [1000, 100]);
    }

    /// A megabyte a second, for the round trip of 50 ms twice and the queue of 50 ms.
    #[test]
    fn the_window_of_a_recovery_fits_the_rate_that_was_found() {
        let least = Duration::from_millis(50);
        let mut link = ChangingLink::default();
        link.begin_recovery();
        link.on_arrived(1000, least, Instant::ZERO);
        assert_eq!(link.window_max(least), None);
        let fits = (1..400).map(|ms| {
            link.on_arrived(1000, least, Instant::from_millis(ms));
            link.window_max(least)
        });
        let fits: Vec<u64> = fits.flatten().collect();
        let last = *fits.last().expect("a rate was found");
        assert!((145_000..=155_000).contains(&last), "{fits:?}");
        // This may be the queue that the window allows.
        link.on_round_trip(Duration::from_millis(150));
        assert_eq!(link.window_max(least), Some(last));
        // This cannot: the path is longer.
        link.begin_recovery();
        arrives(&mut link, 1_000, 1_000);
        link.on_round_trip(Duration::from_millis(200));
        assert_eq!(link.window_max(least), Some(300_000));
    }

    /// A probe of 60 bytes takes 300 ms.
    #[test]
    fn probes_take_a_quarter_of_the_slowest_link() {
        let link = ChangingLink::default();
        let interval = link.probe_interval(Some(200), Duration::ZERO, true);
        assert_eq!(interval, Duration::from_millis(1200));
    }

    #[test]
    fn probes_of_a_long_silence_are_a_600th_of_it_apart() {
        let link = ChangingLink::default();
        let interval_ms = |silence_s| {
            link.probe_interval(Some(2_500_000), Duration::from_secs(silence_s), true)
                .as_millis()
        };
        assert_eq!([0, 60, 120, 600].map(interval_ms), [100, 100, 200, 1000]);
    }

    /// The longest gap is 100 ms, the round trip 40 ms, with 200 ms for its variation.
    #[test]
    fn an_answer_may_be_missing_for_a_quarter_longer_than_of_late() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::default();
        rtt.sample(ms(40));
        let mut link = ChangingLink::default();
        link.on_gap(ms(100), Instant::ZERO);
        let patience_ms = |link: &ChangingLink| link.patience_nanos(&rtt, ms(200)) / 1_000_000;
        // Idle: a round trip and its variation, or an RTO if that is shorter.
        assert_eq!(patience_ms(&link), 50 + 200 - 10);
        assert!(!link.set_busy(true));
        assert_eq!(patience_ms(&link), 125 + 50);
        assert!(link.set_busy(true), "it was so before");
        link.on_gap(ms(20), Instant::ZERO);
        assert_eq!(patience_ms(&link), 125 + 50, "the longest counts");
        // A segment of 1500 bytes takes 15 ms.
        link.set_busy(false);
        link.on_rate(100_000, Instant::ZERO);
        assert_eq!(patience_ms(&link), 240, "the link was idle");
        link.on_rate(100_000, Instant::ZERO);
        assert_eq!(patience_ms(&link), 240 + 15);
    }

    #[test]
    fn a_silence_that_lost_nothing_lengthens_the_next_wait_up_to_a_limit() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::default();
        rtt.sample(ms(40));
        for (silence_ms, gap_ms) in [(600, 600), (1_000, 1_000), (5_000, 1_000)] {
            let mut link = ChangingLink::default();
            link.set_busy(true);
            link.on_kept(ms(silence_ms), true, Instant::ZERO);
            let patience = link.patience_nanos(&rtt, ms(200)) / 1_000_000;
            assert_eq!(patience, gap_ms * 5 / 4 + 50, "{silence_ms}");
            // Its queue probes by itself, until the next recovery.
            let interval = |link: &ChangingLink| link.probe_interval(None, ms(0), true);
            assert_eq!(interval(&link), ms(1_000));
            link.on_link_up();
            assert_eq!(interval(&link), ms(100));
        }
    }

    /// What arrives in a second at this rate.
    fn arrives(link: &mut ChangingLink, bytes_per_ms: u32, from_ms: u64) {
        for n in 1..=100 {
            let now = Instant::from_millis(from_ms + 10 * n);
            link.on_arrived(10 * bytes_per_ms, Duration::from_millis(50), now);
        }
    }

    #[test]
    fn after_an_overflow_less_is_in_flight_and_then_more_again() {
        let (least, at) = (Duration::from_millis(50), Instant::from_millis);
        let mut link = ChangingLink::default();
        link.begin_recovery();
        link.on_overflow(100_000, at(0));
        assert_eq!(link.window_after_overflow(least), None, "no rate is known");
        // 1 MB/s: 50 ms of it are 50,000.
        arrives(&mut link, 1_000, 0);
        for (in_flight, overflowed_at, window) in [
            (200_000, 1_000, 140_000),
            // What is in flight takes 200 ms.
            (100_000, 1_199, 140_000),
            (100_000, 1_200, 70_000),
            // The path alone, and a quarter more.
            (50_000, 1_400, 62_500),
        ] {
            link.on_overflow(in_flight, at(overflowed_at));
            assert_eq!(
                link.window_after_overflow(least),
                Some(window),
                "{overflowed_at}"
            );
        }
        // A segment for each window that arrives: more than 20 in a second, less than 30.
        arrives(&mut link, 1_000, 2_000);
        let window = link.window_after_overflow(least).unwrap();
        assert!((65_000..80_000).contains(&window), "{window}");
        // A faster link.
        arrives(&mut link, 2_000, 3_000);
        let window = link.window_after_overflow(least).unwrap();
        assert!((125_000..150_000).contains(&window), "{window}");
        // A fade: two segments at least.
        arrives(&mut link, 1, 4_000);
        arrives(&mut link, 1, 5_000);
        assert_eq!(link.window_after_overflow(least), Some(WINDOW_INITIAL_MIN));
        link.begin_recovery();
        assert_eq!(link.window_after_overflow(least), None);
    }
}
