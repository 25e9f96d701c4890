// SPDX-License-Identifier: Apache-2.0
//! When persist packets go to a frozen MH (section 4.2).

use core::time::Duration;

use holdfast_wire::Instant;

use super::MtcpPersist;
use crate::rtt::RttEstimator;

/// As published: the first interval and the longest.
const INTERVAL_FIRST: Duration = Duration::from_secs(5);
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// At the round trip: the interval grows by a round trip after each `SENT_STEP` packets. It is
/// multiplied by the number of the MH's connections, at most `FLOWS_MAX`. The last is its limit.
const SENT_STEP: u32 = 64;
const FLOWS_MAX: u32 = 16;
const INTERVAL_ROUND_TRIP_MAX: Duration = Duration::from_secs(1);
/// Before a round trip is measured: the first interval, which doubles (RFC 6298, 2.1 and 5.5). A
/// packet may take longer on a slow link than any guess.
const INTERVAL_UNKNOWN: Duration = Duration::from_secs(1);
/// The number of doublings is small: this may be the only probe for link up.
const UNKNOWN_DOUBLINGS_MAX: u32 = 2;

/// The persist timer of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Persist {
    at: Option<Instant>,
    /// Packets sent since the flow froze.
    pub sent: u32,
    /// Connections that the MH has.
    pub flows: u32,
}

impl Persist {
    /// The time until the next packet. `interval_min` protects a link without delay from too many
    /// packets. A longer interval does so for an MH that is away for long or has many connections.
    fn interval(
        self,
        persist: MtcpPersist,
        rtt: &RttEstimator,
        interval_min: Duration,
    ) -> Duration {
        match persist {
            MtcpPersist::Published => (INTERVAL_FIRST * (1 << self.sent.min(4))).min(INTERVAL_MAX),
            MtcpPersist::RoundTrip => {
                let Some(round_trip) = rtt.srtt() else {
                    return INTERVAL_UNKNOWN * (1 << self.sent.min(UNKNOWN_DOUBLINGS_MAX));
                };
                let round_trip = round_trip.max(interval_min);
                let flows = self.flows.clamp(1, FLOWS_MAX);
                let times = flows * (1 + self.sent.min(10_000) / SENT_STEP);
                (round_trip * times).min(INTERVAL_ROUND_TRIP_MAX.max(round_trip))
            }
        }
    }

    /// Ends the packets, and forgets how many were sent.
    pub(super) fn afresh(self) -> Self {
        Self {
            flows: self.flows,
            ..Self::default()
        }
    }

    /// The flow has frozen, or now has a segment that can probe the MH: the first interval begins.
    pub(super) fn arm(
        &mut self,
        persist: MtcpPersist,
        rtt: &RttEstimator,
        interval_min: Duration,
        now: Instant,
    ) {
        let interval = self.interval(persist, rtt, interval_min);
        self.at.get_or_insert(now + interval);
    }

    /// True if a packet is due; the next interval begins with it.
    pub(super) fn is_due(
        &mut self,
        persist: MtcpPersist,
        rtt: &RttEstimator,
        interval_min: Duration,
        now: Instant,
    ) -> bool {
        if self.at.is_none_or(|at| at > now) {
            return false;
        }
        self.sent = self.sent.saturating_add(1);
        self.at = Some(now + self.interval(persist, rtt, interval_min));
        true
    }

    /// When the next packet is due.
    pub(super) const fn deadline(self) -> Option<Instant> {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(persist: MtcpPersist, rtt: &RttEstimator) -> Vec<u128> {
        let mut timer = Persist::default();
        let mut now = Instant::from_millis(1000);
        timer.arm(persist, rtt, Duration::from_millis(20), now);
        let mut out = Vec::new();
        for _ in 0..6 {
            let at = timer.deadline().unwrap();
            out.push(at.saturating_since(now).as_millis());
            now = at;
            assert!(timer.is_due(persist, rtt, Duration::from_millis(20), now));
        }
        out
    }

    #[test]
    fn published_intervals_begin_with_5_s_and_double_up_to_60_s() {
        let rtt = RttEstimator::default();
        assert_eq!(
            intervals(MtcpPersist::Published, &rtt),
            [5000, 10_000, 20_000, 40_000, 60_000, 60_000]
        );
    }

    #[test]
    fn at_the_round_trip_they_follow_the_wireless_half_and_keep_off_zero() {
        let mut rtt = RttEstimator::default();
        rtt.sample(Duration::from_millis(80));
        assert_eq!(intervals(MtcpPersist::RoundTrip, &rtt), [80; 6]);
        let mut rtt = RttEstimator::default();
        rtt.sample(Duration::from_micros(10));
        assert_eq!(intervals(MtcpPersist::RoundTrip, &rtt), [20; 6]);
    }

    #[test]
    fn at_the_round_trip_they_double_from_1_to_4_s_as_long_as_none_was_measured() {
        let rtt = RttEstimator::default();
        assert_eq!(
            intervals(MtcpPersist::RoundTrip, &rtt),
            [1000, 2000, 4000, 4000, 4000, 4000]
        );
    }

    #[test]
    fn at_the_round_trip_an_mh_with_many_connections_or_away_for_long_is_probed_less_often() {
        let mut rtt = RttEstimator::default();
        rtt.sample(Duration::from_millis(50));
        let interval = |sent, flows| {
            let persist = Persist {
                at: None,
                sent,
                flows,
            };
            let interval = persist.interval(MtcpPersist::RoundTrip, &rtt, Duration::ZERO);
            interval.as_millis()
        };
        assert_eq!(
            (interval(0, 1), interval(0, 10), interval(0, 1000)),
            (50, 500, 800)
        );
        assert_eq!((interval(64, 1), interval(1_000_000, 1)), (100, 1000));
    }
}
