// SPDX-License-Identifier: Apache-2.0
//! How fast the cache is sent after an outage.

use core::time::Duration;

use holdfast_wire::Instant;

use super::{Link, Mobile, SRTT_INITIAL};
use crate::bandwidth::WAIT_MAX;
use crate::changing_link::WINDOW_INITIAL;
use crate::delivery::{DeliveryRate, bytes_in};

/// A piece of the cache takes the link this time at most.
const QUANTUM: Duration = Duration::from_millis(2);
/// The pace in 1/16 of the delivery rate. It is a little above the rate, to detect a link that has become
/// faster.
const PACE_GAIN_16: u64 = 17;

impl Mobile {
    /// Recovery begins.
    pub(super) fn begin_pace(&mut self, now: Instant) {
        self.pace_at = now;
        let rate = self.delivery.bytes_per_s();
        if let Some(link) = &mut self.changing {
            link.begin_recovery();
            let initial = link.window_initial();
            // Half of what the link held before, without its queue: its rate may be lower now.
            let link_bytes = rate.map_or(0, |rate| bytes_in(rate, self.srtt()) / 2);
            self.window = link_bytes.max(initial);
            return;
        }
        // Little's law: what the link had on its way and in its queue, on average.
        let link_bytes = rate.map_or(0, |rate| bytes_in(rate, self.srtt()));
        self.window = link_bytes.max(WINDOW_INITIAL);
    }

    /// The link's queue has overflowed.
    pub(crate) fn on_overflow(&mut self, now: Instant) {
        if self.link == Link::Recovering
            && let Some(link) = &mut self.changing
        {
            link.on_overflow(self.window.min(self.in_flight.bytes), now);
        }
    }

    /// The MH has answered during recovery: as in slow start, the window grows by the bytes that are
    /// acknowledged. On a changing link it grows by `arrived`, those that were sent since link up and are
    /// acknowledged or reported: the first ACK also acknowledges what has arrived before the outage.
    pub(crate) fn grow_window(&mut self, acked: u32, arrived: u32, now: Instant) {
        let least = self.rtt.least().unwrap_or(SRTT_INITIAL);
        self.window = match &mut self.changing {
            Some(link) => {
                let grown = self.window.saturating_add(u64::from(arrived));
                if arrived > 0 {
                    link.on_arrived(arrived, least, now);
                }
                let fits = link.window_max(least).map(|fits| fits.max(self.window));
                let most = link.window_after_overflow(least).or(fits);
                most.map_or(grown, |most| grown.min(most))
            }
            None => self.window.saturating_add(u64::from(acked)),
        };
    }

    /// A segment that was sent at `sent`, since link up, has arrived. A round trip below the shortest one does not
    /// count: the answer is to an earlier copy.
    pub(crate) fn note_recovery_round_trip(&mut self, sent: Instant, now: Instant) {
        let round_trip = now.saturating_since(sent);
        let is_possible = self.rtt.least().is_none_or(|least| round_trip >= least);
        if let (Some(link), true) = (&mut self.changing, is_possible) {
            link.on_round_trip(round_trip);
        }
    }

    /// The link has kept all that was sent before the outage: it can hold that much.
    pub(crate) fn widen_window_to_flight(&mut self) {
        self.window = self.window.max(self.in_flight.bytes);
    }

    /// The link was up: it takes what is in flight, and a few segments more.
    pub(super) fn widen_window_beyond_flight(&mut self) {
        let in_flight = self.in_flight.bytes.saturating_add(WINDOW_INITIAL);
        self.window = self.window.max(in_flight);
    }

    /// The most bytes that a piece may have now; `None` if nothing may be sent.
    pub(crate) fn allowance(&self, now: Instant) -> Option<u32> {
        let free = self.window.saturating_sub(self.in_flight.bytes);
        let room = free > 0 && self.pace_at <= now;
        room.then(|| {
            u32::try_from(bytes_in(self.pace_bytes_per_s(), QUANTUM).min(free)).unwrap_or(u32::MAX)
        })
    }

    fn pace_bytes_per_s(&self) -> u64 {
        if let Some(share) = self.cell.share {
            return share;
        }
        let measured = self
            .changing
            .is_none()
            .then_some(&self.delivery)
            .and_then(DeliveryRate::bytes_per_s)
            .map(|rate| rate / 16 * PACE_GAIN_16);
        // Twice the window a round trip, as slow start would (RFC 9002, 7.7).
        let window =
            self.window.saturating_mul(2_000_000) / (self.srtt().as_micros() as u64).max(1);
        // At least ten segments a second.
        measured.unwrap_or(window).max(WINDOW_INITIAL)
    }

    /// A piece of `len` bytes went out.
    pub(crate) fn charge(&mut self, len: u32, now: Instant) {
        let nanos = u64::from(len) * 1_000_000_000 / self.pace_bytes_per_s();
        // A late timer may catch up by two quanta, not by more.
        let at = self.pace_at.max(now - QUANTUM * 2) + Duration::from_nanos(nanos);
        self.pace_at = at.min(now + WAIT_MAX);
        self.on_sent(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link_state::LinkSource;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(10_000 + ms)
    }

    /// Without a measurement: ten segments, and twice these in 100 ms.
    fn recovering() -> Mobile {
        let mut mobile = Mobile::new([10, 2, 0, 2].into(), at(0));
        mobile.enter_recovery(LinkSource::Signal, at(0));
        mobile
    }

    #[test]
    fn a_piece_takes_the_link_two_milliseconds_and_fits_the_window() {
        let mut mobile = recovering();
        assert_eq!(mobile.allowance(at(0)), Some(584));
        mobile.in_flight.count(0, 14_599);
        assert_eq!(mobile.allowance(at(0)), Some(1));
        mobile.in_flight.count(14_599, 14_600);
        assert_eq!(mobile.allowance(at(0)), None);
        mobile.grow_window(100, 0, at(0));
        assert_eq!(mobile.allowance(at(0)), Some(100));
        mobile.in_flight.count(14_600, 20_000);
        mobile.widen_window_to_flight();
        assert_eq!(mobile.allowance(at(0)), None);
        mobile.grow_window(1, 0, at(0));
        assert_eq!(mobile.allowance(at(0)), Some(1));
    }

    #[test]
    fn a_timer_that_is_late_catches_up_by_two_pieces() {
        let mut mobile = recovering();
        let mut sent = |ms: u64| {
            let mut pieces = 0;
            while mobile.allowance(at(ms)).is_some() {
                mobile.charge(584, at(ms));
                pieces += 1;
            }
            pieces
        };
        // The first one at once, and one each two milliseconds.
        assert_eq!([0, 1, 2, 3, 4].map(&mut sent), [1, 0, 1, 0, 1]);
        assert_eq!([100, 101, 102].map(&mut sent), [3, 0, 1]);
    }

    #[test]
    fn the_pace_is_a_little_above_the_measured_rate_and_the_window_what_was_in_flight() {
        let mut mobile = recovering();
        mobile.rtt.sample(Duration::from_millis(50));
        mobile.delivery.seed(1_600_000);
        mobile.enter_recovery(LinkSource::Signal, at(100));
        // 50 ms of 1.6 MB a second; 2 ms of 1.7 MB.
        mobile.in_flight.count(0, 79_999);
        assert_eq!(mobile.allowance(at(100)), Some(1));
        mobile.in_flight.count(79_999, 0);
        assert_eq!(mobile.allowance(at(100)), Some(3_400));
        assert_eq!(mobile.allowance(at(99)), None);
    }

    #[test]
    fn on_a_changing_link_the_window_is_half_of_what_was_in_flight() {
        let mut mobile = recovering();
        mobile.changing = Some(Box::default());
        mobile.rtt.sample(Duration::from_millis(50));
        mobile.delivery.seed(1_600_000);
        mobile.enter_recovery(LinkSource::Signal, at(100));
        mobile.in_flight.count(0, 39_999);
        assert_eq!(mobile.allowance(at(100)), Some(1));
    }

    #[test]
    fn an_overflow_counts_in_recovery_alone() {
        for (link, shrinks) in [(Link::Up, false), (Link::Recovering, true)] {
            let mut mobile = recovering();
            mobile.rtt.sample(Duration::from_millis(20));
            mobile.changing = Some(Box::default());
            mobile.begin_pace(at(0));
            for n in 1..=50 {
                mobile.grow_window(0, 10_000, at(10 * n));
            }
            let before = mobile.window;
            mobile.in_flight.count(0, before as u32);
            mobile.link = link;
            mobile.on_overflow(at(600));
            mobile.grow_window(0, 0, at(600));
            assert_eq!(mobile.window < before, shrinks, "{link:?}");
        }
    }

    /// The path has become longer: 1 MB/s, and 200 ms for 50.
    #[test]
    fn a_round_trip_shorter_than_any_path_shows_no_path() {
        for (first_ms, window) in [(200, 300_000), (49, 300_000), (60, 150_000)] {
            let mut mobile = recovering();
            mobile.rtt.sample(Duration::from_millis(50));
            mobile.changing = Some(Box::default());
            mobile.begin_pace(at(0));
            for round_trip_ms in [first_ms, 200] {
                mobile.note_recovery_round_trip(at(0), at(round_trip_ms));
            }
            for n in 1..=100 {
                mobile.grow_window(0, 10_000, at(10 * n));
            }
            assert_eq!(mobile.window, window, "{first_ms}");
        }
    }
}
