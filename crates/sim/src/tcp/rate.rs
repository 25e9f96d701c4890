// SPDX-License-Identifier: Apache-2.0
//! Delivery rate estimation (draft-cheng-iccrg-delivery-rate-estimation-02): the rate of the network that an ACK
//! shows.
//!
//! Each segment stores the bytes that were delivered when it was sent. Its ACK shows the bytes delivered since, and
//! in which time: the longer of the time in which they were sent and the time in which they were acknowledged.

use holdfast_wire::{Duration, Instant};

/// The state of delivery when a segment was sent (3.2, `P.*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// `P.delivered`: bytes delivered in all.
    pub delivered: u64,
    /// `P.delivered_time`: when `delivered` last changed.
    pub delivered_at: Instant,
    /// `P.first_sent_time`: when the first segment of the sampled flight was sent.
    pub first_sent_at: Instant,
    /// `P.is_app_limited`.
    pub is_app_limited: bool,
}

/// A segment that an ACK delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    /// When it was sent last.
    pub sent_at: Instant,
    /// The number after its last byte.
    pub to: u64,
    pub snapshot: Snapshot,
}

/// The sample that an ACK gives (3.3, `rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateSample {
    /// `rs.prior_delivered`: bytes delivered in all when the newest segment was sent.
    pub prior_delivered: u64,
    /// `rs.delivered`: bytes delivered since then.
    pub delivered: u64,
    /// `rs.interval`. None: it is shorter than any round trip, and gives no rate.
    pub interval: Option<Duration>,
    /// `rs.is_app_limited`.
    pub is_app_limited: bool,
}

impl RateSample {
    /// `rs.delivery_rate`, bytes a second.
    pub(super) fn rate(&self) -> Option<u64> {
        self.interval.map(|interval| rate(self.delivered, interval))
    }
}

/// Bytes a second.
pub(super) fn rate(bytes: u64, interval: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / interval.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The state of one connection (3.1, `C.*`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// `C.delivered`, bytes.
    pub delivered: u64,
    /// `C.delivered_time`.
    pub delivered_at: Instant,
    /// `C.first_sent_time`.
    first_sent_at: Instant,
    /// `C.app_limited`: until more bytes than this are delivered, samples show the application's rate.
    app_limited: Option<u64>,
}

impl Rates {
    /// Called before a segment is sent (3.2). `is_first`: nothing is outstanding.
    pub(super) fn on_send(&mut self, is_first: bool, now: Instant) -> Snapshot {
        if is_first {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            is_app_limited: self.app_limited.is_some(),
        }
    }

    /// An ACK delivers `bytes`. `newest`: the delivered segment that was sent last (3.3).
    pub(super) fn on_ack(
        &mut self,
        bytes: u64,
        newest: Option<Delivered>,
        min_rtt: Option<Duration>,
        now: Instant,
    ) -> Option<RateSample> {
        self.delivered += bytes;
        if self.app_limited.is_some_and(|until| self.delivered > until) {
            self.app_limited = None;
        }
        if bytes > 0 {
            self.delivered_at = now;
        }
        let newest = newest?;
        let before = newest.snapshot;
        self.first_sent_at = newest.sent_at;
        let send_elapsed = newest.sent_at.saturating_since(before.first_sent_at);
        let ack_elapsed = now.saturating_since(before.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        Some(RateSample {
            prior_delivered: before.delivered,
            delivered: self.delivered - before.delivered,
            interval: (!interval.is_zero() && Some(interval) >= min_rtt).then_some(interval),
            is_app_limited: before.is_app_limited,
        })
    }

    /// There is nothing more to send, or the sender keeps its window small (3.4).
    pub(super) fn limit_by_application(&mut self, in_flight: u64) {
        self.app_limited = Some((self.delivered + in_flight).max(1));
    }

    /// What is sent now does not show the network's rate.
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1000;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A segment's ACK.
    fn ack(rates: &mut Rates, n: u64, sent: (u64, Snapshot), now: u64) -> Option<RateSample> {
        let newest = Delivered {
            sent_at: at(sent.0),
            to: (n + 1) * LEN,
            snapshot: sent.1,
        };
        rates.on_ack(LEN, Some(newest), Some(ms(100)), at(now))
    }

    /// Ten segments, one each 2 ms from 1 s on; their ACKs come each 5 ms from 1.1 s on: the rate is that of
    /// the ACKs (3.3: the longer time). The last: 10 000 bytes; sent in 18 ms, acknowledged in 145 ms.
    #[test]
    fn the_longer_of_sending_and_acknowledging_gives_the_rate() {
        let mut rates = Rates::default();
        let sent: Vec<_> = (0..10)
            .map(|n| (1000 + 2 * n, rates.on_send(n == 0, at(1000 + 2 * n))))
            .collect();
        let samples: Vec<_> = (0..10)
            .map(|n| ack(&mut rates, n, sent[n as usize], 1100 + 5 * n).unwrap())
            .collect();
        assert_eq!(samples[0].rate(), Some(10_000));
        assert_eq!(
            (samples[9].delivered, samples[9].interval),
            (10 * LEN, Some(ms(145)))
        );
        // Sent 0.9 s apart, and acknowledged within 1 ms: the time from the first sending counts.
        let mut rates = Rates::default();
        let first = (1000, rates.on_send(true, at(1000)));
        let late = (1900, rates.on_send(false, at(1900)));
        ack(&mut rates, 0, first, 1950);
        let sample = ack(&mut rates, 1, late, 1951).unwrap();
        assert_eq!(sample.interval, Some(ms(951)));
        let next = (1960, rates.on_send(false, at(1960)));
        let sample = ack(&mut rates, 2, next, 2061).unwrap();
        assert_eq!((sample.delivered, sample.interval), (LEN, Some(ms(110))));
    }

    /// 3.3: "if (rs.interval < MinRTT(tp)) return false": such a sample has too short a time.
    #[test]
    fn less_than_a_round_trip_shows_no_rate() {
        let mut rates = Rates::default();
        let first = (1000, rates.on_send(true, at(1000)));
        let sample = ack(&mut rates, 0, first, 1099).unwrap();
        assert_eq!((sample.delivered, sample.rate()), (LEN, None));
    }

    /// 3.2: a silence before the flight is no time of delivery.
    #[test]
    fn a_silence_is_not_counted() {
        let mut rates = Rates::default();
        let first = (1000, rates.on_send(true, at(1000)));
        ack(&mut rates, 0, first, 1100);
        let later = (9000, rates.on_send(true, at(9000)));
        let sample = ack(&mut rates, 1, later, 9100).unwrap();
        assert_eq!((sample.interval, sample.delivered), (Some(ms(100)), LEN));
    }

    /// 3.4: from the time without data until all that was in flight then is delivered.
    #[test]
    fn a_pause_of_the_application_marks_what_is_sent_until_its_end() {
        let mut rates = Rates::default();
        let before = (1000, rates.on_send(true, at(1000)));
        rates.limit_by_application(LEN);
        let within = (1010, rates.on_send(false, at(1010)));
        assert!(!ack(&mut rates, 0, before, 1100).unwrap().is_app_limited);
        assert!(rates.is_app_limited());
        assert!(ack(&mut rates, 1, within, 1110).unwrap().is_app_limited);
        assert!(!rates.is_app_limited());
        let after = (1120, rates.on_send(true, at(1120)));
        assert!(!ack(&mut rates, 2, after, 1220).unwrap().is_app_limited);
    }
}
