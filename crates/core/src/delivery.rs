// SPDX-License-Identifier: Apache-2.0
//! How fast the link to an MH delivers, measured by recent ACKs.

use core::time::Duration;

use holdfast_wire::Instant;

/// The shortest time of one measurement. In a shorter one, ACKs that arrive together would look
/// like a high rate.
const SPAN_MIN: Duration = Duration::from_millis(50);
/// Measurements that are stored; the highest counts.
const SPANS: usize = 10;

/// The delivery rate of a link: the highest of the last ten measurements, each over at least a
/// round trip.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    span_start: Option<Instant>,
    span_bytes: u64,
    bytes_per_s: [u64; SPANS],
    next: usize,
}

impl DeliveryRate {
    /// `bytes` were newly acknowledged at `now`. Returns the measurement in bytes a second, if one is completed.
    pub(crate) fn on_acked(
        &mut self,
        bytes: u32,
        srtt: Option<Duration>,
        now: Instant,
    ) -> Option<u64> {
        let Some(start) = self.span_start else {
            // The bytes of the first ACK took an unknown time.
            self.span_start = Some(now);
            return None;
        };
        self.span_bytes += u64::from(bytes);
        let elapsed = now.saturating_since(start);
        if elapsed < srtt.unwrap_or_default().max(SPAN_MIN) {
            return None;
        }
        let rate = u128::from(self.span_bytes) * 1_000_000_000 / elapsed.as_nanos().max(1);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.bytes_per_s[self.next] = rate;
        self.next = (self.next + 1) % SPANS;
        self.span_start = Some(now);
        self.span_bytes = 0;
        Some(rate)
    }

    /// Link down: the time until the next ACK is not measured.
    pub(crate) fn interrupt(&mut self) {
        self.span_start = None;
        self.span_bytes = 0;
    }

    /// Another station's measurement counts as one measurement, if there is none here.
    pub(crate) fn seed(&mut self, bytes_per_s: u64) {
        if self.bytes_per_s().is_none() {
            self.bytes_per_s[self.next] = bytes_per_s;
            self.next = (self.next + 1) % SPANS;
        }
    }

    /// The rate, bytes a second; `None` before the first measurement.
    pub(crate) fn bytes_per_s(&self) -> Option<u64> {
        self.bytes_per_s
            .iter()
            .copied()
            .max()
            .filter(|rate| *rate > 0)
    }
}

/// What a link of this rate delivers in this time.
pub(crate) fn bytes_in(bytes_per_s: u64, time: Duration) -> u64 {
    (u128::from(bytes_per_s) * time.as_nanos() / 1_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_acks_give_the_rate_and_an_outage_does_not_lower_it() {
        let mut delivery = DeliveryRate::default();
        for i in 0..1000u64 {
            delivery.on_acked(
                2896,
                Some(Duration::from_millis(50)),
                Instant::from_millis(i),
            );
        }
        let rate = delivery.bytes_per_s().unwrap();
        assert!((2_800_000..=2_960_000).contains(&rate), "{rate}");
        delivery.interrupt();
        delivery.on_acked(2896, None, Instant::from_millis(9000));
        assert_eq!(delivery.bytes_per_s(), Some(rate));
    }

    #[test]
    fn a_measurement_takes_a_round_trip_and_no_less_than_50_ms() {
        for (srtt_ms, takes_ms) in [(None, 50), (Some(20), 50), (Some(80), 80)] {
            let mut delivery = DeliveryRate::default();
            let srtt = srtt_ms.map(Duration::from_millis);
            let mut acked =
                |ms: u64, bytes| delivery.on_acked(bytes, srtt, Instant::from_millis(1000 + ms));
            // What the first one acknowledges took an unknown time.
            assert_eq!(acked(0, 9_999), None);
            assert_eq!(acked(10, 400), None);
            assert_eq!(acked(takes_ms - 1, 200), None);
            let rate = 1000 * 1000 / takes_ms;
            assert_eq!(acked(takes_ms, 400), Some(rate), "{srtt_ms:?}");
        }
    }

    #[test]
    fn the_highest_of_ten_measurements_counts_and_another_stations_as_one() {
        let mut delivery = DeliveryRate::default();
        delivery.seed(7_000);
        delivery.seed(9_000);
        assert_eq!(delivery.bytes_per_s(), Some(7_000));
        let at = |n: u64| Instant::from_millis(1000 + 100 * n);
        delivery.on_acked(1, None, at(0));
        for n in 1..=10 {
            assert_eq!(delivery.bytes_per_s(), Some(7_000), "{n}");
            assert_eq!(delivery.on_acked(100, None, at(n)), Some(1_000));
        }
        assert_eq!(delivery.bytes_per_s(), Some(1_000));
    }
}
