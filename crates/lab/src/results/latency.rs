// SPDX-License-Identifier: Apache-2.0
//! The latencies of answers.

use serde::{Deserialize, Serialize};

/// The number of longest times that a line contains.
const LONGEST: usize = 64;

/// Quantiles of the time from a request to its answer's last byte, in milliseconds, over all
/// answered requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Requests answered.
    pub count: usize,
    /// The median.
    pub p50_ms: f64,
    /// The 90th percentile: 90 of 100 took no longer.
    pub p90_ms: f64,
    /// The 99th percentile: 99 of 100 took no longer.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// The mean.
    pub mean_ms: f64,
    /// The longest times, 64 at most, in descending order: quantiles of several runs do not show
    /// rare long times.
    #[serde(default)]
    pub longest_ms: Vec<f64>,
}

impl Latency {
    /// The latency of these times in nanoseconds; none: there are none.
    pub fn of(mut times_ns: Vec<u64>) -> Option<Self> {
        times_ns.sort_unstable();
        let count = times_ns.len();
        let ms = |ns: u64| ns as f64 / 1e6;
        // The least time that this percentage of the times does not exceed.
        let quantile = |percent: usize| {
            let rank = (count * percent).div_ceil(100).max(1);
            times_ns.get(rank - 1).copied().map(ms)
        };
        let total: f64 = times_ns.iter().copied().map(ms).sum();
        Some(Self {
            count,
            p50_ms: quantile(50)?,
            p90_ms: quantile(90)?,
            p99_ms: quantile(99)?,
            max_ms: quantile(100)?,
            mean_ms: total / count as f64,
            longest_ms: times_ns
                .iter()
                .rev()
                .take(LONGEST)
                .copied()
                .map(ms)
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let latency = Latency::of((1..=200).rev().map(|ms| ms * 1_000_000).collect()).unwrap();
        let all = [
            latency.p50_ms,
            latency.p90_ms,
            latency.p99_ms,
            latency.max_ms,
            latency.mean_ms,
        ];
        let tenths = all.map(|ms| (ms * 10.0).round() as u64);
        assert_eq!(tenths, [1_000, 1_800, 1_980, 2_000, 1_005]);
        assert_eq!(latency.longest_ms.len(), LONGEST);
        assert_eq!(latency.longest_ms[..2], [200.0, 199.0]);
        let one = Latency::of(vec![3_000_000]).unwrap();
        assert!((one.p50_ms - 3.0).abs() < 1e-9 && one.count == 1);
        assert_eq!(Latency::of(Vec::new()), None);
    }
}
