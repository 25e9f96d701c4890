// SPDX-License-Identifier: Apache-2.0
//! The sizes of packets, and the time that no transfer over given links can beat.

use holdfast_link::{Capacity, OutageSchedule, optimal_transfer};
use holdfast_sim::Preset;
use holdfast_wire::{Duration, Instant};

use crate::scenario::{Conditions, HopConditions};

/// The sizes of packets, for the optimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a full segment, bytes.
    pub payload_bytes: u64,
    /// IP and TCP headers with their options, bytes.
    pub header_bytes: u64,
}

impl Framing {
    /// For segments of `mss`; timestamps take 12 bytes of each.
    pub fn new(mss: u16, timestamps: bool) -> Self {
        let options = if timestamps { 12 } else { 0 };
        Self {
            payload_bytes: u64::from(mss) - options,
            header_bytes: 40 + options,
        }
    }

    /// The same segments over IPv6, whose header is 20 bytes longer. With `shrinks` the payload is
    /// 20 bytes shorter, because the packets are as long as the link allows.
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
        let hosts = [&conditions.fh, &conditions.mh].map(|host| {
            let preset = host.preset.map(Preset::settings);
            let mss = host.mss.or(preset.map(|tcp| tcp.mss));
            let timestamps = host.timestamps.or(preset.map(|tcp| tcp.timestamps));
            (mss.unwrap_or(MSS_DEFAULT), timestamps.unwrap_or(true))
        });
        let [(fh_mss, fh_timestamps), (mh_mss, mh_timestamps)] = hosts;
        Self::new(fh_mss.min(mh_mss), fh_timestamps && mh_timestamps)
    }
}

/// The default MSS on a link for packets of 1,500 bytes.
const MSS_DEFAULT: u16 = 1460;

/// The time that no transfer over these links can beat, in seconds. The slowest hop is busy whenever
/// it is up, and all segments are full. The delays of the others are added. The bytes of all flows
/// count. None: the bytes never arrive, or the run's outages are not drawn.
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
    let transfer = &conditions.transfer;
    let flows = u64::from(transfer.flows);
    let bytes = transfer.bytes * flows;
    let segments = transfer.bytes.div_ceil(framing.payload_bytes) * flows;
    let ends = hops.iter().map(|hop| {
        let plan = way(hop)?;
        let wire_bytes = bytes + segments * hop.header_and_frame_bytes(framing.header_bytes);
        let mut schedule = OutageSchedule::new(&plan.outages, 0);
        let end = optimal_transfer(&plan, &mut schedule, start, wire_bytes);
        let others = delay.saturating_sub(plan.delay);
        Some((end? + others).saturating_since(start).as_secs_f64())
    });
    ends.reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// Bytes that a link with these outages can carry between two times; none without a limit.
pub(crate) fn capacity_bytes(
    capacity: &Capacity,
    schedule: &mut OutageSchedule,
    [from, until]: [Instant; 2],
) -> Option<u64> {
    let all = capacity.bytes_between(from, until)?;
    let outages = schedule.until(until).into_iter();
    let in_outages = outages
        .filter_map(|outage| capacity.bytes_between(outage.begin.max(from), outage.end.min(until)));
    Some(all.saturating_sub(in_outages.sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_link::{OutagePlan, OutageSettings, Trace, TraceFormat};

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
    fn the_optimum_of_several_flows_is_that_of_all_their_bytes() {
        // Eight flows of 2 segments each.
        let run = run("flows = 8\n[wireless]\nrate_mbit_per_s = 20");
        let framing = Framing {
            payload_bytes: 2_000_000,
            header_bytes: 500_000,
        };
        let optimum = optimal_s(&run.conditions, framing).unwrap();
        let expected = 8.0 * 3_920_000.0 * 8.0 / 20e6;
        assert!((optimum - expected).abs() < 1e-6, "{optimum}");
    }

    #[test]
    fn a_presets_segments_have_its_length_unless_the_host_has_another() {
        let framing = |hosts: &str| Framing::of(&run(&format!("[wireless]\n{hosts}")).conditions);
        let preset = "[hosts]\npreset = \"reno-2005\"";
        assert_eq!(framing(preset), Framing::new(1000, false));
        let given = format!("{preset}\nmss = 1200");
        assert_eq!(framing(&given), Framing::new(1200, false));
        // The lesser MSS of both hosts.
        let one = "[fh]\npreset = \"reno-2005\"\n[mh]\nmss = 1200\ntimestamps = false";
        assert_eq!(framing(one), Framing::new(1000, false));
        assert_eq!(framing(""), Framing::new(1460, true));
    }

    #[test]
    fn outages_take_the_capacity_that_a_link_had_in_them_and_gaps_had_none() {
        let at = |s: f64| Instant::from_nanos((s * 1e9) as u64);
        let run = run(
            "[wireless]\nrate_mbit_per_s = 8\noutages = { kind = \"list\", list = [{ at_s = 1, for_s = 2 }, { at_s = 5, for_s = 9 }] }",
        );
        let plan = &run.conditions.wireless.plans().unwrap()[0];
        let capacity = |between: [f64; 2]| {
            let mut schedule = OutageSchedule::new(&plan.outages, 0);
            capacity_bytes(&plan.capacity, &mut schedule, between.map(at))
        };
        assert_eq!(capacity([0.0, 20.0]), Some(9_000_000));
        assert_eq!(capacity([2.0, 6.0]), Some(2_000_000));
        assert_eq!(capacity([5.5, 6.0]), Some(0));
        let text = "1.0003 7.77\n2.5 0\n4.1 3.3\n5 0\n9.00001 1.1";
        let trace = Trace::parse(text, TraceFormat::Steps).unwrap();
        let gaps = OutageSettings::Trace {
            file: None,
            gap_min_s: 0.3,
        };
        let gaps = OutagePlan::new(&gaps, Some(&trace)).unwrap();
        let mut schedule = OutageSchedule::new(&gaps, 0);
        let (all, between) = (trace.capacity(), [at(0.7), at(40.3)]);
        assert_eq!(
            capacity_bytes(&all, &mut schedule, between),
            all.bytes_between(between[0], between[1])
        );
    }

    #[test]
    fn compressed_headers_are_three_bytes_at_least() {
        let run = run("[wireless]\nrate_mbit_per_s = 20\nheader_compression = true");
        let optimum = optimal_s(&run.conditions, Framing::new(1460, false)).unwrap();
        assert!(
            (optimum - 2000.0 * 1463.0 * 8.0 / 20e6).abs() < 1e-6,
            "{optimum}"
        );
    }

    #[test]
    fn overhead_of_frames_counts() {
        let run = run("[wireless]\nrate_mbit_per_s = 20\nframe_overhead_bytes = 1500");
        let optimum = optimal_s(&run.conditions, Framing::new(1460, false)).unwrap();
        assert!((optimum - 2.4).abs() < 1e-6, "{optimum}");
    }
}
