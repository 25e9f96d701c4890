// SPDX-License-Identifier: Apache-2.0
//! The round trip of the wireless half, and the time without an answer after which the MH counts as
//! silent (RFC 6298).

use core::time::Duration;

/// Smoothed round trip and its variation (RFC 6298, 2).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RttEstimator {
    /// The shortest since the last call of [`Self::take_queue`].
    recent: Option<Duration>,
    /// The shortest that [`Self::take_queue`] has seen.
    base: Option<Duration>,
    srtt: Option<Duration>,
    rttvar: Duration,
    least: Option<Duration>,
}

/// RFC 6298, 2.1: before the first measurement.
pub(crate) const RTO_INITIAL: Duration = Duration::from_secs(1);

impl RttEstimator {
    /// Adds a measurement of a segment that was sent once (Karn).
    pub(crate) fn sample(&mut self, rtt: Duration) {
        self.recent = Some(self.recent.map_or(rtt, |least| least.min(rtt)));
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        match self.srtt {
            // RFC 6298, 2.2.
            None => {
                self.srtt = Some(rtt);
                self.rttvar = rtt / 2;
            }
            // RFC 6298, 2.3, with alpha 1/8 and beta 1/4.
            Some(srtt) => {
                self.rttvar = self.rttvar * 3 / 4 + srtt.abs_diff(rtt) / 4;
                self.srtt = Some(srtt * 7 / 8 + rtt / 8);
            }
        }
    }

    /// Another station's measurement counts until there is one here.
    pub(crate) fn seed(&mut self, srtt: Duration) {
        if self.srtt.is_none() {
            self.srtt = Some(srtt);
            self.rttvar = srtt / 2;
        }
    }

    /// `srtt`, once something was measured.
    pub(crate) const fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// The shortest measured round trip: the one without a queue, if there ever was none.
    pub(crate) const fn least(&self) -> Option<Duration> {
        self.least
    }

    /// The queue is empty: the round trip is the shortest one again.
    pub(crate) fn forget_queue(&mut self) {
        if let Some(least) = self.least {
            self.srtt = Some(least);
            self.rttvar = least / 2;
        }
    }

    /// The path has become longer: the base is measured again.
    pub(crate) const fn forget_base(&mut self) {
        self.base = None;
    }

    /// By how much the shortest measurement since the last call exceeds the shortest of all: the time
    /// that a queue has stood on the link. `None`: nothing was measured.
    pub(crate) fn take_queue(&mut self) -> Option<Duration> {
        let recent = self.recent.take()?;
        let base = self.base.map_or(recent, |base| base.min(recent));
        self.base = Some(base);
        Some(recent.saturating_sub(base))
    }

    /// `srtt` + max(4 `rttvar`, `variation_min`).
    pub(crate) fn rto(&self, variation_min: Duration) -> Duration {
        self.srtt.map_or(RTO_INITIAL, |srtt| {
            srtt + (self.rttvar * 4).max(variation_min)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rto_follows_rfc_6298() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto(ms(200)), RTO_INITIAL);
        rtt.sample(ms(100));
        assert_eq!(rtt.rto(ms(0)), ms(300));
        rtt.sample(ms(100));
        assert_eq!(rtt.rto(ms(0)), Duration::from_millis(250));
        rtt.sample(ms(180));
        assert_eq!(rtt.srtt(), Some(ms(110)));
        assert_eq!(rtt.rto(ms(2000)), ms(2110));
    }

    #[test]
    fn the_queue_is_what_the_shortest_of_late_exceeds_the_shortest_of_all_by() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.take_queue(), None);
        for (samples, queue) in [
            (&[120, 100][..], Some(0)),
            (&[150, 130, 140], Some(30)),
            (&[], None),
            (&[90], Some(0)),
            (&[100], Some(10)),
        ] {
            for sample in samples {
                rtt.sample(ms(*sample));
            }
            assert_eq!(rtt.take_queue(), queue.map(ms), "{samples:?}");
        }
        rtt.forget_base();
        rtt.sample(ms(200));
        assert_eq!(rtt.take_queue(), Some(Duration::ZERO), "a longer path");
    }

    #[test]
    fn without_its_queue_the_round_trip_is_the_shortest_and_varies_by_half() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::default();
        rtt.seed(ms(80));
        assert_eq!((rtt.srtt(), rtt.rto(ms(0))), (Some(ms(80)), ms(240)));
        rtt.forget_queue();
        assert_eq!(rtt.srtt(), Some(ms(80)), "nothing was measured here");
        rtt.sample(ms(100));
        rtt.sample(ms(900));
        rtt.seed(ms(5));
        rtt.forget_queue();
        assert_eq!((rtt.srtt(), rtt.rto(ms(0))), (Some(ms(100)), ms(300)));
    }
}
