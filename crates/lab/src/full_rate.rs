// SPDX-License-Identifier: Apache-2.0
//! The time from an outage's end to the full rate, by one rule on every substrate. From that moment
//! on, two windows of [`WINDOW_ROUND_TRIPS`] round trips each carry [`FULL_SHARE`] of the payload
//! that the slowest hop can carry. Each part of a window has to carry [`SLICE_SHARE`]: a burst of
//! bytes that waited for a gap is not the link's rate. Only bytes in order at the receiver count.

use holdfast_core::Direction;
use holdfast_link::{Capacity, OutageAt};

use crate::framing::Framing;
use crate::scenario::{Conditions, HopConditions};
use crate::stall::overlapping;

/// The length of a window in round trips of the path, without queueing.
pub(crate) const WINDOW_ROUND_TRIPS: f64 = SLICES as f64;
/// The shortest window, in seconds: it has to contain some packets.
const WINDOW_MIN_S: f64 = 0.02;
/// The share of the link's rate that counts as full.
pub(crate) const FULL_SHARE: f64 = 0.9;
/// Parts of a window: each is a round trip long, or longer in a window of [`WINDOW_MIN_S`].
const SLICES: usize = 4;
/// The least share of the link's rate in each part.
const SLICE_SHARE: f64 = 0.5;
/// Bytes are counted for this time after an outage, in seconds: they show what the outage cost.
const AFTER_S: f64 = 10.0;

/// The rate and the round trip of a path, without queueing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PathRate {
    /// Payload, bytes a second.
    bytes_per_s: f64,
    /// Propagation in both directions, in seconds.
    pub(crate) round_trip_s: f64,
}

impl PathRate {
    /// The path of a run in the direction of its bytes; none: the rate is not constant, or both
    /// directions share a medium.
    pub(crate) fn of(conditions: &Conditions, framing: Framing) -> Option<Self> {
        let hops: Vec<&HopConditions> = conditions
            .wired
            .iter()
            .chain(std::iter::once(&conditions.wireless))
            .collect();
        let way = match Direction::from(conditions.transfer.direction) {
            Direction::Downlink => 0,
            Direction::Uplink => 1,
        };
        let mut rate: Option<f64> = None;
        let mut round_trip_s = 0.0;
        for hop in hops {
            if hop.half_duplex {
                return None;
            }
            let plans = hop.plans()?;
            round_trip_s += plans
                .iter()
                .map(|plan| plan.delay.as_secs_f64())
                .sum::<f64>();
            let packet = framing.payload_bytes + hop.header_and_frame_bytes(framing.header_bytes);
            match &plans[way].capacity {
                Capacity::Unlimited => {}
                Capacity::Constant(bit_per_s) => {
                    let share = framing.payload_bytes as f64 / packet as f64;
                    let item = *bit_per_s as f64 / 8.0 * share;
                    rate = Some(rate.map_or(item, |least| least.min(item)));
                }
                _ => return None,
            }
        }
        Some(Self {
            bytes_per_s: rate?,
            round_trip_s,
        })
    }

    fn window_s(self) -> f64 {
        (self.round_trip_s * WINDOW_ROUND_TRIPS).max(WINDOW_MIN_S)
    }
}

/// For each outage that overlaps the transfer from `begin_s` to `end_s`: time from its end to the
/// full rate, in seconds. None: the full rate did not come before the next outage or the transfer's
/// end. `arrivals`: times and the total of bytes until then, in order. All times are since the
/// start of the links' clocks.
pub(crate) fn full_rates_s(
    outages: &[OutageAt],
    [begin_s, end_s]: [f64; 2],
    path: PathRate,
    arrivals: &[(f64, u64)],
) -> Vec<Option<f64>> {
    overlapping(outages, [begin_s, end_s])
        .map(|[up_s, next_s]| {
            let at_s = full_from_s(path, arrivals, [up_s, next_s.min(end_s)])?;
            Some(at_s - up_s)
        })
        .collect()
}

/// The first arrival after `from_s` at which the rate is full; its windows end before `until_s`.
fn full_from_s(
    path: PathRate,
    arrivals: &[(f64, u64)],
    [from_s, until_s]: [f64; 2],
) -> Option<f64> {
    let window_s = path.window_s();
    let slice_s = window_s / SLICES as f64;
    let of_slice = path.bytes_per_s * slice_s;
    // Total of bytes up to and including this time.
    let bytes_until = |at_s: f64| {
        let count = arrivals.partition_point(|(arrival_s, _)| *arrival_s <= at_s);
        count.checked_sub(1).map_or(0, |last| arrivals[last].1)
    };
    let is_full = |at_s: f64| {
        let times = (0..=2 * SLICES).map(|slice| at_s + slice as f64 * slice_s);
        let totals: Vec<u64> = times.map(bytes_until).collect();
        let slices: Vec<f64> = totals
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let least = of_slice * SLICES as f64 * FULL_SHARE;
        slices.iter().all(|bytes| *bytes >= of_slice * SLICE_SHARE)
            && slices
                .chunks(SLICES)
                .all(|window| window.iter().sum::<f64>() >= least)
    };
    let first = arrivals.partition_point(|(at_s, _)| *at_s <= from_s);
    let moments = arrivals[first..].iter().map(|(at_s, _)| *at_s);
    moments
        .take_while(|at_s| at_s + 2.0 * window_s <= until_s)
        .find(|at_s| is_full(*at_s))
}

/// For each outage that overlaps the transfer: the bytes that arrived in the [`AFTER_S`] after its
/// end, but not after the next outage's begin or the transfer's end.
pub(crate) fn bytes_after(
    outages: &[OutageAt],
    [begin_s, end_s]: [f64; 2],
    arrivals: &[(f64, u64)],
) -> Vec<u64> {
    let bytes_until = |at_s: f64| {
        let count = arrivals.partition_point(|(arrival_s, _)| *arrival_s <= at_s);
        count.checked_sub(1).map_or(0, |last| arrivals[last].1)
    };
    overlapping(outages, [begin_s, end_s])
        .map(|[up_s, next_s]| {
            let until_s = next_s.min(end_s).min(up_s + AFTER_S).max(up_s);
            bytes_until(until_s) - bytes_until(up_s)
        })
        .collect()
}

/// Merges the arrivals of several connections: times, and the total of bytes until then.
pub(crate) fn together(flows: &[Vec<(f64, u64)>]) -> Vec<(f64, u64)> {
    let mut parts: Vec<(f64, u64)> = Vec::new();
    for arrivals in flows {
        let mut before = 0;
        for (at_s, bytes) in arrivals {
            parts.push((*at_s, bytes - before));
            before = *bytes;
        }
    }
    parts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut total = 0;
    for (_, bytes) in &mut parts {
        total += *bytes;
        *bytes = total;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rate of 1,000 bytes each millisecond, and a round trip of 40 ms.
    const PATH: PathRate = PathRate {
        bytes_per_s: 1e6,
        round_trip_s: 0.04,
    };

    fn outages() -> Vec<OutageAt> {
        vec![OutageAt {
            at_s: 1.0,
            for_s: 1.0,
        }]
    }

    /// A segment of 1,000 bytes at each of these milliseconds.
    fn arrivals(ms: impl Iterator<Item = u32>) -> Vec<(f64, u64)> {
        let times = ms.zip(1..);
        times
            .map(|(ms, number)| (f64::from(ms) / 1e3, number * 1_000))
            .collect()
    }

    #[test]
    fn the_full_rate_begins_where_two_windows_are_full() {
        // A segment every 10 ms until 2.5 s, then one every millisecond.
        let slow = (2_010..2_500).step_by(10);
        let got = full_rates_s(
            &outages(),
            [0.0, 5.0],
            PATH,
            &arrivals(slow.chain(2_500..5_000)),
        );
        let full_s = got[0].unwrap();
        assert!((0.48..=0.501).contains(&full_s), "{full_s}");
    }

    #[test]
    fn bytes_that_waited_for_a_gap_to_be_filled_are_no_rate() {
        let mut list = arrivals(2_500..5_000);
        for arrival in &mut list {
            arrival.1 += 300_000;
        }
        list.insert(0, (2.1, 300_000));
        let got = full_rates_s(&outages(), [0.0, 5.0], PATH, &list);
        assert!(got[0].unwrap() > 0.45, "{got:?}");
    }

    #[test]
    fn a_burst_right_before_the_full_rate_is_not_its_begin() {
        // 140,000 bytes at 2.35 s, then nothing until 2.5 s.
        let mut list = arrivals(2_500..5_000);
        for arrival in &mut list {
            arrival.1 += 140_000;
        }
        list.insert(0, (2.35, 140_000));
        let got = full_rates_s(&outages(), [0.0, 5.0], PATH, &list);
        assert!(got[0].unwrap() > 0.49, "{got:?}");
    }

    #[test]
    fn bytes_after_an_outage_are_those_of_ten_seconds_or_until_the_next() {
        let list = arrivals(0..30_000);
        let get = |end_s| bytes_after(&outages(), [0.0, end_s], &list)[0];
        assert_eq!([get(29.0), get(5.0)], [10_000_000, 3_000_000]);
    }

    #[test]
    fn what_the_next_outage_or_the_end_cuts_short_has_no_full_rate() {
        let mut two = outages();
        two.push(OutageAt {
            at_s: 2.3,
            for_s: 0.1,
        });
        let list = arrivals((2_000..2_300).chain(2_400..2_500));
        let got = full_rates_s(&two, [0.0, 2.5], PATH, &list);
        assert_eq!(got, [None, None]);
        let list = arrivals((2_000..2_300).step_by(9).chain(2_450..4_000));
        let got = full_rates_s(&two, [0.0, 4.0], PATH, &list);
        assert!(
            got[0].is_none() && got[1].is_some_and(|s| s < 0.06),
            "{got:?}"
        );
    }

    #[test]
    fn several_connections_carry_the_rate_together() {
        let halves = [0, 1].map(|odd| arrivals((2_000 + odd..4_000).step_by(2)));
        let all = together(&halves);
        assert_eq!(all.last().unwrap().1, 2_000_000);
        let got = full_rates_s(&outages(), [0.0, 4.0], PATH, &all);
        assert!(got[0].unwrap() < 0.005, "{got:?}");
        let alone = full_rates_s(&outages(), [0.0, 4.0], PATH, &halves[0]);
        assert_eq!(alone, [None]);
    }
}
