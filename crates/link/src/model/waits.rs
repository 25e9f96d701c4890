// SPDX-License-Identifier: Apache-2.0
//! How long packets were in the queue and being sent.

use holdfast_wire::Duration;

/// Buckets in each factor of two: a quantile is at most 1/8 too large.
const BUCKETS_OCTAVE: u64 = 8;
/// All buckets, up to 2^40 us, which is twelve days.
const BUCKETS: usize = 40 * BUCKETS_OCTAVE as usize;

/// A histogram of waits.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    counts: Box<[u64; BUCKETS]>,
}

impl Waits {
    pub(super) fn new() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
        }
    }

    pub(super) fn record(&mut self, wait: Duration) {
        let us = (wait.as_nanos() / 1000) as u64;
        self.counts[bucket(us).min(BUCKETS - 1)] += 1;
    }

    /// The wait that `percent` of the packets did not exceed, in us; 0 without packets.
    pub(super) fn percentile_us(&self, percent: u64) -> u64 {
        let all: u64 = self.counts.iter().sum();
        let wanted = (all * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, upper_us)
    }
}

fn bucket(us: u64) -> usize {
    // Each wait below 16 us has its own bucket of one microsecond.
    let octave = us.max(1).ilog2().saturating_sub(BUCKETS_OCTAVE.ilog2());
    (u64::from(octave) * BUCKETS_OCTAVE + (us >> octave)) as usize
}

/// The longest wait of a bucket, in us.
fn upper_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = (bucket / BUCKETS_OCTAVE).saturating_sub(1);
    ((bucket - octave * BUCKETS_OCTAVE + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_are_those_of_the_packets() {
        let mut waits = Waits::new();
        assert_eq!(waits.percentile_us(50), 0);
        for ms in 1..=100 {
            waits.record(Duration::from_millis(ms));
        }
        for percent in [50, 95, 100] {
            let us = waits.percentile_us(percent);
            assert!(
                (percent * 1000..=percent * 1125).contains(&us),
                "{percent}: {us}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_wait_is_in_a_bucket_that_is_little_longer(us in 0u64..1 << 40) {
            let upper = upper_us(bucket(us));
            prop_assert!(us <= upper && upper <= us + us / BUCKETS_OCTAVE, "{us}: {upper}");
            prop_assert!(bucket(us) < BUCKETS);
        }
    }
}
