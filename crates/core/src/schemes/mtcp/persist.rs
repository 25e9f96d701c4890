// SPDX-License-Identifier: Apache-2.0
//! When persist packets go to a frozen MH (section 4.2).

use core::time::Duration;

use holdfast_wire::Instant;

use super::parameters::MtcpPersist;
use crate::rtt::RttEstimator;

/// As published: the first interval, and the longest.
const INTERVAL_FIRST: Duration = Duration::from_secs(5);
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// A round trip, as long as none was measured.
const RTT_INITIAL: Duration = Duration::from_millis(200);

/// The persist timer of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Persist {
    at: Option<Instant>,
    /// Packets sent since the flow froze.
    pub sent: u32,
}

impl Persist {
    /// The wait before the next packet. `interval_min` keeps a link of no delay from being
    /// flooded.
    fn interval(
        self,
        persist: MtcpPersist,
        rtt: &RttEstimator,
        interval_min: Duration,
    ) -> Duration {
        match persist {
            MtcpPersist::Published => (INTERVAL_FIRST * (1 << self.sent.min(4))).min(INTERVAL_MAX),
            MtcpPersist::RoundTrip => rtt.srtt().unwrap_or(RTT_INITIAL).max(interval_min),
        }
    }

    /// The flow has frozen, or there is something to ask with now: the first interval begins.
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
}
