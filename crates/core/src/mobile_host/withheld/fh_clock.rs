// SPDX-License-Identifier: Apache-2.0
//! The FH's clock: its rate, measured by TSvals, and its present value.

use core::time::Duration;

use holdfast_wire::Instant;

/// The rates of clocks in use, ticks a second. 1 kHz: Linux, BSD, Apple. 1 MHz: Linux with
/// `tcp_usec_ts`. 100, 250 and 300 Hz: older systems.
const USUAL_HZ: [u64; 5] = [1_000, 1_000_000, 300, 250, 100];
/// Over a shorter time the path's delays distort the measured rate; then 1 kHz is assumed.
const MEASURED_MIN: Duration = Duration::from_secs(1);
/// A queue that fills or drains may change the measured time by this much.
const QUEUED_MAX: Duration = Duration::from_secs(2);
/// After a silence this long the rate is measured anew.
const SILENCE_MAX: Duration = Duration::from_secs(1_000);
/// From this time on a measured rate counts even if it is not a usual one.
const MEASURED_WELL: Duration = Duration::from_secs(5);
/// The rate is measured over this time, at most twice as long: a clock of 1 MHz wraps in 71
/// minutes.
const MEASURED_FROM: Duration = Duration::from_secs(300);
/// No clock is faster than this (RFC 7323, 5.4 has 1 ms to 1 s; Linux 1 us).
const HZ_MAX: u64 = 2_000_000;
/// A longer span measures no rate, and an older reading counts as this old.
const READING_MAX: Duration = Duration::from_secs(86_400);

/// Readings of an FH's clock with their arrival times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FhClock {
    /// The rate is measured from this reading.
    pub first: (u32, Instant),
    /// The next `first`.
    pub next: (u32, Instant),
    /// The newest reading.
    pub newest: (u32, Instant),
}

impl FhClock {
    /// Notes a TSval.
    pub fn add_reading(&mut self, tsval: u32, now: Instant) {
        let reading = (tsval, now);
        let too_old = now.saturating_since(self.newest.1) > SILENCE_MAX;
        if self.newest.1 == Instant::ZERO || too_old {
            (self.first, self.next, self.newest) = (reading, reading, reading);
        } else if (tsval.wrapping_sub(self.newest.0) as i32) > 0 {
            self.newest = reading;
            if now.saturating_since(self.next.1) > MEASURED_FROM {
                (self.first, self.next) = (self.next, reading);
            }
        }
    }

    /// Ticks a second: the measured rate, or the nearest usual one.
    pub fn ticks_per_s(&self) -> u64 {
        let span = self.newest.1.saturating_since(self.first.1);
        let ticks = u64::from(self.newest.0.wrapping_sub(self.first.0));
        if span < MEASURED_MIN || span > READING_MAX {
            return USUAL_HZ[0];
        }
        // 32 bits by 10^6: no overflow.
        let hz = ticks * 1_000_000 / (span.as_micros() as u64);
        let nearest = USUAL_HZ
            .into_iter()
            // By the ratio: 2 kHz is nearest to 1 kHz, not to 1 MHz.
            .min_by_key(|usual| hz.max(*usual) * 1_000 / hz.min(*usual).max(1));
        let usual = nearest.unwrap_or(USUAL_HZ[0]);
        // In microseconds: the error of the usual rate over the span, and the error that is
        // permitted.
        let off = u128::from(usual.abs_diff(hz)) * span.as_micros() / u128::from(usual);
        let may = QUEUED_MAX.as_micros() + span.as_micros() / 50;
        if off <= may || span < MEASURED_WELL || !(1..=HZ_MAX).contains(&hz) {
            usual
        } else {
            hz
        }
    }

    /// The echo for an ACK that leaves at `now`: the newest reading, plus the time since it
    /// arrived. So the FH sees a round trip of its usual length: the reading's time on the
    /// downlink, and the ACK's time on the uplink.
    pub fn echo(&self, now: Instant) -> u32 {
        let (tsval, at) = self.newest;
        let since = now.saturating_since(at).min(READING_MAX);
        let ticks = since.as_micros() as u64 * self.ticks_per_s() / 1_000_000;
        tsval.wrapping_add(ticks as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant::from_millis(1_000);

    fn clock(hz: u64, span: Duration) -> FhClock {
        let mut clock = FhClock::default();
        let steps = 50;
        for step in 0..=steps {
            let since = span * step / steps;
            let ticks = since.as_micros() as u64 * hz / 1_000_000;
            // From just below the turn of the number.
            clock.add_reading(
                u32::MAX.wrapping_sub(20).wrapping_add(ticks as u32),
                AT + since,
            );
        }
        clock
    }

    #[test]
    fn the_rate_of_each_usual_clock_is_found() {
        for hz in USUAL_HZ {
            for seconds in [2, 10, 300] {
                assert_eq!(clock(hz, Duration::from_secs(seconds)).ticks_per_s(), hz);
            }
        }
        assert_eq!(clock(500, Duration::from_secs(60)).ticks_per_s(), 500);
        for (ms, hz) in [(100, 1_000), (999, 1_000), (1_000, 250)] {
            let short = clock(250, Duration::from_millis(ms));
            assert_eq!(short.ticks_per_s(), hz, "{ms} ms are too short or not");
        }
        assert_eq!(FhClock::default().ticks_per_s(), 1_000);
    }

    #[test]
    fn an_echo_after_an_outage_is_a_round_trip_old_on_the_senders_clock() {
        for hz in USUAL_HZ {
            let clock = clock(hz, Duration::from_secs(2));
            for outage in [1, 7, 60, 3_600] {
                let now = clock.newest.1 + Duration::from_secs(outage);
                // 25 ms each way.
                let newest = u64::from(clock.newest.0);
                let on_arrival = newest + hz * outage + hz * 50 / 1_000;
                let seen = (on_arrival as u32).wrapping_sub(clock.echo(now));
                assert!(
                    u64::from(seen).abs_diff(hz * 50 / 1_000) <= 1,
                    "{hz} Hz, {outage} s: {seen} ticks"
                );
            }
        }
    }

    #[test]
    fn a_fast_clock_is_known_for_longer_than_its_turn() {
        let clock = clock(1_000_000, Duration::from_secs(7_200));
        assert_eq!(clock.ticks_per_s(), 1_000_000);
        assert!(clock.newest.1.saturating_since(clock.first.1) >= MEASURED_FROM);
    }

    #[test]
    fn a_queue_that_fills_or_drains_makes_no_other_clock_of_it() {
        for seconds in [2, 5, 6, 20, 100] {
            for queue_ms in [120_i64, 500, 1_000] {
                for fills in [true, false] {
                    let span = Duration::from_secs(seconds);
                    let mut clock = clock(1_000, span);
                    let queue = Duration::from_millis(queue_ms as u64);
                    if fills {
                        clock.newest.1 += queue;
                    } else {
                        clock.first.1 += queue;
                    }
                    assert_eq!(clock.ticks_per_s(), 1_000, "{seconds} s, {queue_ms} ms");
                }
            }
        }
    }

    #[test]
    fn after_a_long_silence_it_is_measured_anew() {
        let mut clock = clock(1_000_000, Duration::from_secs(100));
        let later = clock.newest.1 + Duration::from_secs(4_500);
        clock.add_reading(clock.newest.0.wrapping_add(205_032_704), later);
        assert_eq!((clock.first, clock.next), (clock.newest, clock.newest));
        assert_eq!(clock.newest.1, later);
    }

    #[test]
    fn what_comes_late_does_not_turn_the_clock_back() {
        let mut clock = clock(1_000, Duration::from_secs(2));
        let before = clock;
        clock.add_reading(before.newest.0.wrapping_sub(7), AT + Duration::from_secs(3));
        assert_eq!(clock, before);
    }
}
