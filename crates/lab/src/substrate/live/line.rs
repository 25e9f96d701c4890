// SPDX-License-Identifier: Apache-2.0
//! What came of a run, as a line of results.

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

/// What came of a run.
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
    line.transfer_s = line.finished.then(|| last_bytes_s.fold(0.0, f64::max));
    line.stalls_s = measured.stalls_s(&flows[0], outages);
    line.outages = line.stalls_s.len();
    line.bytes = flows.iter().map(|flow| flow.received.bytes()).sum();
    line.intact = flows.iter().all(|flow| is_intact(&flow.received));
    let goodputs = flows.iter().map(|flow| goodput_mbps(measured, flow));
    let goodputs: Vec<f64> = goodputs.collect();
    line.goodput_mbps = goodputs.iter().sum();
    if flows.len() > 1 {
        let stalls = flows.iter().map(|flow| measured.stalls_s(flow, outages));
        line.flow_stalls_s = stalls.collect();
        line.flow_goodputs_mbps = goodputs;
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
    line.link = link_figures(conditions, measured)?;
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

/// Whether what arrived, all of it or not, is what was sent until there.
fn is_intact(received: &Received) -> bool {
    // A connection that was never accepted has no hash.
    received.bytes() == 0
        || SeededContent::of(received.bytes(), CONTENT_SEED).sha256 == received.sha256
}

fn goodput_mbps(measured: &Measurement, flow: &FlowResult) -> f64 {
    let last_byte_s = measured.last_byte_s(flow);
    if last_byte_s > 0.0 {
        flow.received.bytes() as f64 * 8.0 / 1e6 / last_byte_s
    } else {
        0.0
    }
}

/// What the wireless link did with packets in the data's direction; of several cells nothing is
/// shown.
fn link_figures(
    conditions: &Conditions,
    measured: &Measurement,
) -> anyhow::Result<Option<LinkFigures>> {
    if conditions.cells.len() > 1 {
        return Ok(None);
    }
    let way = match conditions.transfer.direction {
        DirectionChoice::Downlink => "downlink",
        DirectionChoice::Uplink => "uplink",
    };
    let counters = measured.link.counters[way].clone();
    let counters = serde_json::from_value(counters).context("the link's counters")?;
    let between_s = measured.between_s(&measured.flows[0]);
    let until_s = measured.since_s(measured.ended_ns);
    let figures = LinkFigures::of(conditions, &counters, between_s, until_s);
    Ok(Some(figures))
}

/// What arrived in the other direction, of all connections; `back_bytes` were to come on each.
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

/// When the connections together had the link's full rate after each outage.
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

/// How the bytes become packets.
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

/// What was set at both hosts, and at one of them.
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
    use super::*;
    use holdfast_testbed::download::{DownloadWatch, receive};
    use holdfast_testbed::seeded_file::SeededStream;

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
        // A byte left out, or come again.
        assert!(!intact(&sent[1..1000]));
        let again = [&sent[..1000], &sent[999..5000]].concat();
        assert!(!intact(&again));
    }
}
