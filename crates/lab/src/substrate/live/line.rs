// SPDX-License-Identifier: Apache-2.0
//! Makes a line of results from a run's measurement.

use std::fs;

use anyhow::Context as _;
use holdfast_testbed::download::Received;
use holdfast_testbed::seeded_file::SeededContent;
use holdfast_testbed::topology::HOST_SYSCTLS;

use super::{CONTENT_SEED, MSS_DEFAULT, mss, series};
use crate::endpoint::{Back, FlowResult};
use crate::framing::Framing;
use crate::full_rate::together;
use crate::results::{Latency, LinkFigures, ResultLine, retransmission_ratio_percent};
use crate::scenario::{Conditions, DirectionChoice, HostConditions, Run};
use crate::transfer::Measurement;

/// The line of results.
pub(super) fn line(run: &Run, measured: &Measurement) -> anyhow::Result<ResultLine> {
    let conditions = &run.conditions;
    let outages = conditions
        .wireless
        .outages_of(conditions.transfer.direction);
    let both = |get: fn(&HostConditions) -> Option<bool>| {
        [&conditions.fh, &conditions.mh]
            .into_iter()
            .all(|host| get(host) != Some(false))
    };
    let framing = framing(conditions, both(|host| host.timestamps));
    let sender = conditions.sender().congestion_control().to_owned();
    let mut line = ResultLine::of(run, "live", sender, framing);
    let flows = &measured.flows;
    line.finished = flows.iter().all(|flow| measured.is_complete(flow));
    let ending = match (measured.is_complete(&flows[0]), flows[0].in_time) {
        (true, _) => "delivered",
        (false, true) => "given up",
        (false, false) => "not in time",
    };
    ending.clone_into(&mut line.ending);
    let last_bytes_s = flows.iter().map(|flow| measured.last_byte_s(flow));
    let last_byte_s = last_bytes_s.fold(0.0, f64::max);
    line.transfer_s = line.finished.then_some(last_byte_s);
    line.stalls_s = measured.stalls_s(&flows[0], outages);
    line.outages = line.stalls_s.len();
    line.bytes = flows.iter().map(|flow| flow.received.bytes()).sum();
    line.intact = flows.iter().all(|flow| is_intact(&flow.received));
    line.goodput_mbps = goodput_mbps(line.bytes, last_byte_s);
    if flows.len() > 1 {
        let stalls = flows.iter().map(|flow| measured.stalls_s(flow, outages));
        line.flow_stalls_s = stalls.collect();
        let goodput =
            |flow: &FlowResult| goodput_mbps(flow.received.bytes(), measured.last_byte_s(flow));
        line.flow_goodputs_mbps = flows.iter().map(goodput).collect();
    }
    line.retransmitted_segments = measured.retransmitted_segments;
    line.segments = measured.segments;
    line.retransmission_ratio_percent =
        retransmission_ratio_percent(line.segments, line.retransmitted_segments);
    line.duplicates_per_byte = both(|host| host.sack).then(|| {
        let bytes = measured.duplicate_segments * framing.payload_bytes;
        bytes as f64 / line.bytes.max(1) as f64
    });
    line.mobile.clone_from(&measured.own_flows);
    let end_s = line.end_s(conditions, measured.since_s(measured.ended_ns));
    line.link = link_figures(conditions, measured, end_s)?;
    line.cross_traffic.clone_from(&measured.cross_traffic);
    line.sender_timers = Some(measured.sender_timers);
    let latencies_ns = flows.iter().flat_map(|flow| flow.latencies_ns.clone());
    line.latency = Latency::of(latencies_ns.collect());
    add_back(&mut line, measured, conditions.transfer.back_bytes);
    add_full_rates(&mut line, conditions, framing, measured);
    line.kernel = Some(kernel_release()?);
    line.sysctls = sysctls(conditions);
    line.series = (!conditions.record.is_empty()).then(|| series::of(conditions, measured));
    Ok(line)
}

/// Whether the bytes that arrived are the beginning of the bytes that were sent.
fn is_intact(received: &Received) -> bool {
    // A connection that was never accepted has no hash.
    received.bytes() == 0
        || SeededContent::of(received.bytes(), CONTENT_SEED).sha256 == received.sha256
}

fn goodput_mbps(bytes: u64, last_byte_s: f64) -> f64 {
    if last_byte_s > 0.0 {
        bytes as f64 * 8.0 / 1e6 / last_byte_s
    } else {
        0.0
    }
}

/// The figures of the wireless link in the data's direction until `end_s`; none if the run has no
/// such figures.
fn link_figures(
    conditions: &Conditions,
    measured: &Measurement,
    end_s: f64,
) -> anyhow::Result<Option<LinkFigures>> {
    if !LinkFigures::are_of(conditions) {
        return Ok(None);
    }
    let way = match conditions.transfer.direction {
        DirectionChoice::Downlink => "downlink",
        DirectionChoice::Uplink => "uplink",
    };
    let counters = measured.link.counters[way].clone();
    let counters = serde_json::from_value(counters).context("the link's counters")?;
    let between_s = measured.between_s(&measured.flows[0]);
    let figures = LinkFigures::of(conditions, &counters, between_s, end_s);
    Ok(Some(figures))
}

/// Adds the bytes in the other direction, of all connections; `back_bytes` were to be sent on each.
fn add_back(line: &mut ResultLine, measured: &Measurement, back_bytes: u64) {
    if back_bytes == 0 {
        return;
    }
    let backs = || measured.flows.iter().map(|flow| flow.back);
    let bytes = |back: Option<Back>| back.map_or(0, |back| back.bytes);
    line.intact &= backs().flatten().all(|back| back.is_intact);
    line.back_bytes = Some(backs().map(bytes).sum());
    if backs().any(|back| bytes(back) != back_bytes) {
        line.finished = false;
        line.transfer_s = None;
        "not in time".clone_into(&mut line.ending);
    }
}

/// Adds the time from each outage to the link's full rate, which all connections reach together.
fn add_full_rates(
    line: &mut ResultLine,
    conditions: &Conditions,
    framing: Framing,
    measured: &Measurement,
) {
    let arrivals = |flow: &FlowResult| -> Vec<(f64, u64)> {
        let arrivals = flow.received.arrivals.iter();
        arrivals
            .map(|arrival| (measured.since_s(arrival.at_ns), arrival.bytes_total))
            .collect()
    };
    let flows: Vec<_> = measured.flows.iter().map(arrivals).collect();
    let end_s = line.end_s(conditions, conditions.limit().as_secs_f64());
    line.note_full_rates(conditions, framing, end_s, &together(&flows));
}

/// The sizes of packets.
fn framing(conditions: &Conditions, timestamps: bool) -> Framing {
    let given = mss(conditions);
    let framing = Framing::new(given.unwrap_or(MSS_DEFAULT), timestamps);
    match conditions.transfer.ip_version {
        6 => framing.over_ipv6(given.is_none()),
        _ => framing,
    }
}

/// The running kernel's release.
fn kernel_release() -> anyhow::Result<String> {
    let path = "/proc/sys/kernel/osrelease";
    let text = fs::read_to_string(path).with_context(|| format!("{path}: cannot be read"))?;
    Ok(text.trim().to_owned())
}

/// The kernel parameters that were set at both hosts, and at one of them.
fn sysctls(conditions: &Conditions) -> Vec<(String, String)> {
    let pinned = HOST_SYSCTLS
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let own = |host: &str, conditions: &HostConditions| {
        let mut set = conditions.linux_sysctls();
        let mut options = conditions.linux_route_options();
        if conditions.microsecond_timestamps {
            options.push("features tcp_usec_ts".to_owned());
        }
        if !options.is_empty() {
            set.push(("route".to_owned(), options.join(" ")));
        }
        let host = host.to_owned();
        set.into_iter()
            .map(move |(name, value)| (format!("{host}: {name}"), value))
    };
    pinned
        .chain(own("fh", &conditions.fh))
        .chain(own("mh", &conditions.mh))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::Scenario;
    use holdfast_testbed::counters::TimerCounts;
    use holdfast_testbed::download::{Arrival, DownloadWatch, receive};
    use holdfast_testbed::link_process::LinkEnd;
    use holdfast_testbed::seeded_file::SeededStream;

    /// The line of a run that ended at 9 s; each flow had all its 2,000,000 bytes at its time in
    /// seconds.
    fn line_of(ends_s: &[f64], more: &str) -> ResultLine {
        const BYTES: u64 = 2_000_000;
        let flows = ends_s.len();
        let text = format!("[transfer]\nbytes = {BYTES}\nflows = {flows}\n[wireless]\n{more}");
        let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
        let run = scenario.runs(None).unwrap()[0].drawn().unwrap();
        let flow = |end_s: &f64| FlowResult {
            received: Received {
                arrivals: vec![Arrival {
                    at_ns: (end_s * 1e9) as u64,
                    bytes_total: BYTES,
                }],
                ..Received::default()
            },
            in_time: true,
            is_whole: true,
            ..FlowResult::default()
        };
        let counters = holdfast_link::Counters::default();
        let measured = Measurement {
            flows: ends_s.iter().map(flow).collect(),
            bytes: BYTES,
            origin_ns: 0,
            started_ns: 0,
            ended_ns: 9_000_000_000,
            retransmitted_segments: 0,
            segments: 0,
            duplicate_segments: 0,
            sender_timers: TimerCounts::default(),
            link: LinkEnd {
                counters: serde_json::json!({ "downlink": counters, "uplink": counters }),
                samples: Vec::new(),
            },
            cross_traffic: Vec::new(),
            buffered_bytes_max: None,
            own_flows: None,
        };
        line(&run, &measured).unwrap()
    }

    #[test]
    fn the_goodput_of_several_flows_is_that_of_all_bytes_until_the_last_one() {
        let line = line_of(&[1.0, 8.0], "rate_mbit_per_s = 20");
        assert_eq!(line.transfer_s, Some(8.0));
        assert!((line.goodput_mbps - 4.0).abs() < 1e-9, "{line:?}");
        assert_eq!(line.flow_goodputs_mbps, [16.0, 2.0]);
        let line = line_of(&[8.0], "rate_mbit_per_s = 20");
        assert!((line.goodput_mbps - 2.0).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn a_link_can_carry_something_until_the_last_flows_end() {
        let outages = "outages = { kind = \"list\", list = [{ at_s = 2, for_s = 3 }] }";
        let line = line_of(&[1.0, 8.0], &format!("rate_mbit_per_s = 8\n{outages}"));
        let link = line.link.unwrap();
        assert_eq!(link.capacity_bytes, Some(5_000_000));
    }

    #[test]
    fn a_medium_of_both_directions_has_no_figures_of_one() {
        let line = line_of(&[1.0], "rate_mbit_per_s = 20\nhalf_duplex = true");
        assert_eq!(line.link, None);
    }

    #[test]
    fn of_what_did_not_come_whole_each_byte_until_there_is_compared() {
        let mut sent = Vec::new();
        let mut stream = SeededStream::new(300_000, CONTENT_SEED);
        while let Some(chunk) = stream.next_chunk() {
            sent.extend_from_slice(chunk);
        }
        let intact = |bytes: &[u8]| is_intact(&receive(bytes, &DownloadWatch::default()));
        for came in [0, 1, 65_536, 123_457, 300_000] {
            assert!(intact(&sent[..came]), "{came}");
        }
        for wrong in [0, 65_535, 123_456] {
            let mut bytes = sent[..123_457].to_vec();
            bytes[wrong] ^= 1;
            assert!(!intact(&bytes), "{wrong}");
        }
        // A byte is missing, or arrived twice.
        assert!(!intact(&sent[1..1000]));
        let again = [&sent[..1000], &sent[999..5000]].concat();
        assert!(!intact(&again));
    }
}
