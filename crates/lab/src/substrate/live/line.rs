// SPDX-License-Identifier: Apache-2.0
//! What came of a run, as a line of results.

use std::fs;

use anyhow::Context as _;
use holdfast_testbed::download::Received;
use holdfast_testbed::seeded_file::SeededContent;
use holdfast_testbed::topology::HOST_SYSCTLS;

use super::{CONTENT_SEED, MSS_DEFAULT, mss, series};
use crate::framing::Framing;
use crate::full_rate::together;
use crate::results::{Latency, ResultLine, retransmission_ratio_percent};
use crate::scenario::{Conditions, HostConditions, Run};
use crate::transfer::Measurement;

/// What came of a run.
pub(super) fn line(run: &Run, measured: &Measurement) -> anyhow::Result<ResultLine> {
    let conditions = &run.conditions;
    let result = &measured.result;
    let sender = conditions.sender();
    let both = |of: fn(&HostConditions) -> Option<bool>| {
        [&conditions.fh, &conditions.mh]
            .into_iter()
            .all(|host| of(host) != Some(false))
    };
    let framing = framing(conditions, both(|host| host.timestamps));
    let finished = result.transfer_s.is_some();
    let ending = match (finished, measured.ended) {
        (true, _) => "delivered",
        (false, true) => "given up",
        (false, false) => "not in time",
    };
    let reports_duplicates = both(|host| host.sack);
    let retransmitted = result.retransmitted_segments;
    let mut line = ResultLine::of(run, "live", sender.congestion_control.clone(), framing);
    line.transfer_s = result.transfer_s;
    line.stalls_s.clone_from(&result.stalls_s);
    line.goodput_mbps = if measured.last_byte_s > 0.0 {
        result.bytes as f64 * 8.0 / 1e6 / measured.last_byte_s
    } else {
        0.0
    };
    line.retransmission_ratio_percent =
        retransmission_ratio_percent(measured.segments, retransmitted);
    line.duplicates_per_byte = reports_duplicates.then(|| {
        let bytes = measured.duplicate_segments * framing.payload_bytes;
        bytes as f64 / result.bytes.max(1) as f64
    });
    line.finished = finished;
    line.intact = is_intact(&measured.received);
    ending.clone_into(&mut line.ending);
    line.bytes = result.bytes;
    line.retransmitted_segments = retransmitted;
    line.segments = measured.segments;
    line.outages = result.stalls_s.len();
    line.mobile.clone_from(&measured.own_flows);
    line.sender_timers = Some(measured.sender_timers);
    add_others(&mut line, measured, conditions.transfer.bytes);
    add_conversation(&mut line, measured, conditions.transfer.back_bytes);
    add_full_rates(&mut line, conditions, framing, measured);
    line.kernel = Some(kernel_release()?);
    line.sysctls = sysctls(conditions);
    line.series = (!conditions.record.is_empty()).then(|| series::of(conditions, measured));
    Ok(line)
}

/// Whether what arrived, all of it or not, is what was sent until there.
fn is_intact(received: &Received) -> bool {
    SeededContent::of(received.bytes(), CONTENT_SEED).sha256 == received.sha256
}

/// The transfer's other connections: a line's figures are of all.
fn add_others(line: &mut ResultLine, measured: &Measurement, bytes: u64) {
    if measured.others.is_empty() {
        return;
    }
    line.flow_goodputs_mbps.push(line.goodput_mbps);
    line.flow_stalls_s.push(line.stalls_s.clone());
    for other in &measured.others {
        let arrived = other.received.bytes();
        let whole = other.whole && arrived == bytes;
        line.finished &= whole;
        line.transfer_s = line.transfer_s.filter(|_| whole);
        line.transfer_s = line.transfer_s.map(|s| s.max(other.last_byte_s));
        line.intact &= is_intact(&other.received);
        line.bytes += arrived;
        let mbps = arrived as f64 * 8.0 / 1e6 / other.last_byte_s;
        line.flow_goodputs_mbps
            .push(if arrived > 0 { mbps } else { 0.0 });
        line.flow_stalls_s.push(other.stalls_s.clone());
    }
    line.goodput_mbps = line.flow_goodputs_mbps.iter().sum();
}

/// What requests took, and what came the other way, of all connections. `back_bytes` were to come
/// on each.
fn add_conversation(line: &mut ResultLine, measured: &Measurement, back_bytes: u64) {
    let others = &measured.others;
    let mut times_ns = measured.latencies_ns.clone();
    times_ns.extend(others.iter().flat_map(|other| &other.latencies_ns));
    line.latency = Latency::of(times_ns);
    if back_bytes == 0 {
        return;
    }
    let mut arrived = 0;
    for back in std::iter::once(&measured.back).chain(others.iter().map(|other| &other.back)) {
        let bytes = back.map_or(0, |back| back.bytes);
        line.intact &= back.is_none_or(|back| back.intact);
        arrived += bytes;
        if bytes != back_bytes {
            line.finished = false;
            line.transfer_s = None;
            "not in time".clone_into(&mut line.ending);
        }
    }
    line.back_bytes = Some(arrived);
}

/// When the connections together had the link's full rate after each outage.
fn add_full_rates(
    line: &mut ResultLine,
    conditions: &Conditions,
    framing: Framing,
    measured: &Measurement,
) {
    let since_s = |at_ns: u64| at_ns.saturating_sub(measured.origin_ns) as f64 / 1e9;
    let of = |received: &Received| -> Vec<(f64, u64)> {
        let arrivals = received.arrivals.iter();
        arrivals
            .map(|its| (since_s(its.at_ns), its.bytes_total))
            .collect()
    };
    let others = measured.others.iter().map(|other| &other.received);
    let flows: Vec<_> = std::iter::once(&measured.received)
        .chain(others)
        .map(of)
        .collect();
    let arrivals = together(&flows);
    let begin_s = conditions.start().as_secs_f64();
    let end_s = line
        .transfer_s
        .map_or(conditions.limit().as_secs_f64(), |s| begin_s + s);
    line.note_full_rates(conditions, framing, end_s, &arrivals);
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
