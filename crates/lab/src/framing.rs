// SPDX-License-Identifier: Apache-2.0
//! How bytes become packets, and the time that no transfer over given links can beat.

use holdfast_link::{OutageSchedule, optimal_transfer};
use holdfast_wire::{Duration, Instant};

use crate::scenario::{Conditions, HopConditions};

/// How bytes become packets, for the optimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a full segment, bytes.
    pub payload_bytes: u64,
    /// IP and TCP headers with their options, bytes.
    pub header_bytes: u64,
}

impl Framing {
    /// Of segments of `mss` with or without timestamps (12 bytes of each).
    pub fn new(mss: u16, timestamps: bool) -> Self {
        let options = if timestamps { 12 } else { 0 };
        Self {
            payload_bytes: u64::from(mss) - options,
            header_bytes: 40 + options,
        }
    }

    /// The same segments over IPv6, whose header is 20 bytes longer; with `shrinks` the payload is
    /// shorter by as much: the packets are as long as the link takes.
    #[must_use]
    pub fn over_ipv6(self, shrinks: bool) -> Self {
        const LONGER_BYTES: u64 = 20;
        Self {
            payload_bytes: self.payload_bytes - if shrinks { LONGER_BYTES } else { 0 },
            header_bytes: self.header_bytes + LONGER_BYTES,
        }
    }

    /// What hosts with these conditions agree on.
    pub fn of(conditions: &Conditions) -> Self {
        let hosts = [&conditions.fh, &conditions.mh];
        let mss = hosts.iter().filter_map(|host| host.mss).min();
        let timestamps = hosts.iter().all(|host| {
            let of_preset = host
                .preset
                .is_none_or(|preset| preset.settings().timestamps);
            host.timestamps.unwrap_or(of_preset)
        });
        Self::new(mss.unwrap_or(MSS_DEFAULT), timestamps)
    }
}

/// What a link for packets of 1,500 bytes leaves for a segment, bytes.
const MSS_DEFAULT: u16 = 1460;

/// The time that no transfer over these links can beat, in seconds: the slowest hop
/// busy whenever it is up, every segment full, the others' delays added; none if it is
/// beyond the end of time, or the run's outages are not drawn.
pub fn optimal_s(conditions: &Conditions, framing: Framing) -> Option<f64> {
    let hops: Vec<&HopConditions> = conditions
        .wired
        .iter()
        .chain(std::iter::once(&conditions.wireless))
        .collect();
    let way = |hop: &HopConditions| {
        let direction = match holdfast_core::Direction::from(conditions.transfer.direction) {
            holdfast_core::Direction::Downlink => 0,
            holdfast_core::Direction::Uplink => usize::from(!hop.half_duplex),
        };
        hop.plans().map(|plans| plans[direction].clone())
    };
    let delay: Duration = hops
        .iter()
        .filter_map(|hop| way(hop))
        .map(|plan| plan.delay)
        .sum();
    let start = Instant::ZERO + conditions.start();
    let segments = conditions.transfer.bytes.div_ceil(framing.payload_bytes);
    let ends = hops.iter().map(|hop| {
        let plan = way(hop)?;
        let each = framing.header_bytes + u64::from(hop.frame_overhead_bytes);
        let wire_bytes = conditions.transfer.bytes + segments * each;
        let mut schedule = OutageSchedule::new(&plan.outages, 0);
        let end = optimal_transfer(&plan, &mut schedule, start, wire_bytes);
        let others = delay.saturating_sub(plan.delay);
        Some((end? + others).saturating_since(start).as_secs_f64())
    });
    ends.reduce(|a, b| Some(a?.max(b?))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Run, Scenario};
    use std::path::Path;

    fn run(more: &str) -> Run {
        let text = format!("[transfer]\nbytes = 2920000\n{more}");
        Scenario::parse(Path::new("s.toml"), &text)
            .unwrap()
            .runs(None)
            .unwrap()[0]
            .drawn()
            .unwrap()
    }

    #[test]
    fn the_optimum_is_that_of_the_slowest_hop_with_all_delays() {
        let run = run(
            "[wired]\nrate_mbit_per_s = 100\ndelay_ms = 10\n[wireless]\nrate_mbit_per_s = 20\ndelay_ms = 25\noutages = { kind = \"list\", list = [{ at_s = 0.5, for_s = 2 }] }",
        );
        // 2000 segments of 1500 bytes at 20 Mb/s: 1.2 s.
        let optimum = optimal_s(&run.conditions, Framing::new(1460, false)).unwrap();
        assert!((optimum - 3.235).abs() < 1e-6, "{optimum}");
    }

    #[test]
    fn overhead_of_frames_counts() {
        let run = run("[wireless]\nrate_mbit_per_s = 20\nframe_overhead_bytes = 1500");
        let optimum = optimal_s(&run.conditions, Framing::new(1460, false)).unwrap();
        assert!((optimum - 2.4).abs() < 1e-6, "{optimum}");
    }
}
