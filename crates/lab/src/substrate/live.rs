// SPDX-License-Identifier: Apache-2.0
//! `live`: nginx, curl, the gateway and the links in network namespaces of the running
//! kernel, by the wall clock.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use holdfast_link::{OutageSettings, seed_for};
use tempfile::TempDir;

use super::{ExecutionSettings, trace_file};
use crate::cross_traffic::DatagramStream;
use crate::link_file::LinkFile;
use crate::link_process::EmulatedLink;
use crate::results::{Framing, ResultLine, Series, retransmission_ratio_percent};
use crate::scenario::{
    Conditions, GatewayConditions, HopConditions, HostConditions, PART_WIRED, Record, Run,
    SchemeChoice, SignalChoice, Way,
};
use crate::seeded_file::{SeededContent, sha256_of_start, write_seeded};
use crate::socket_series::SocketSample;
use crate::stop::StopFlag;
use crate::topology::{HOST_SYSCTLS, HostTuning};
use crate::transfer::{
    FILE_NAME, Measurement, Middle, PreparedTransfer, TransferExtras, TransferSettings,
    TransferWatch,
};

/// What files of packets are of: each link has its own.
pub(super) const TRACE_PARTS: [&str; 2] = ["wired", "wireless"];

/// Payload of a segment over 1500 octets without options.
const MSS_DEFAULT: u16 = 1460;
/// The seed of what is served: the bytes do not matter, only that no two parts of them
/// are alike.
const CONTENT_SEED: u64 = 1;

/// The files that web servers serve, one for each length.
#[derive(Debug, Default)]
pub struct ServedFiles {
    folder: Option<TempDir>,
    contents: BTreeMap<u64, SeededContent>,
}

impl ServedFiles {
    /// The folder with a file of `bytes`, and what is in it.
    fn of_length(&mut self, bytes: u64) -> anyhow::Result<(PathBuf, SeededContent)> {
        if self.folder.is_none() {
            let made = tempfile::Builder::new().prefix("holdfast-lab-").tempdir()?;
            self.folder = Some(made);
        }
        let folder = self.folder.as_ref().context("the folder was just made")?;
        let own = folder.path().join(bytes.to_string());
        if let Some(content) = self.contents.get(&bytes) {
            return Ok((own, *content));
        }
        fs::create_dir_all(&own)?;
        let content = write_seeded(&own.join(FILE_NAME), bytes, CONTENT_SEED)?;
        self.contents.insert(bytes, content);
        Ok((own, content))
    }
}

/// What real hosts cannot do here.
pub(super) fn refusal(conditions: &Conditions) -> Option<String> {
    if conditions.transfer.direction == Way::Uplink {
        let text =
            "transfer.direction: got uplink; live and linux take downlink; run it on the model";
        return Some(text.to_owned());
    }
    (conditions.gateway.scheme == SchemeChoice::Mtcp2007).then(|| {
        "gateway.scheme: got mtcp-2007, which the daemon has not; run it on the model".to_owned()
    })
}

/// Carries out one run.
pub(super) fn execute(
    run: &Run,
    settings: &ExecutionSettings,
    files: &Mutex<ServedFiles>,
    stop: &StopFlag,
) -> anyhow::Result<ResultLine> {
    let conditions = &run.conditions;
    let (served, content) = files
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .of_length(conditions.transfer.bytes)?;
    let transfer = transfer(run, settings);
    let folder = tempfile::Builder::new().prefix("holdfast-run-").tempdir()?;
    let prepared = PreparedTransfer::prepare(&transfer, folder.path(), &served, stop)?;
    let measured = prepared.measure(&content, &TransferWatch::default(), stop)?;
    line(run, &measured, &served)
}

fn transfer(run: &Run, settings: &ExecutionSettings) -> TransferSettings {
    let conditions = &run.conditions;
    let gateway = &conditions.gateway;
    let trace = |part: &str| {
        settings
            .pcap
            .as_deref()
            .map(|folder| trace_file(folder, run, part))
    };
    let hears_carrier = matches!(gateway.signal, SignalChoice::Carrier | SignalChoice::Both);
    let mut wireless = link(&conditions.wireless, run.seed);
    wireless.carrier_follows = hears_carrier;
    wireless.packet_trace = trace(TRACE_PARTS[1]);
    let wired = conditions.wired.as_ref().map(|hop| EmulatedLink {
        packet_trace: trace(TRACE_PARTS[0]),
        ..link(hop, seed_for(run.seed, PART_WIRED))
    });
    TransferSettings {
        name: run.variant.clone(),
        holdfast: settings.holdfast.clone(),
        middle: middle(gateway),
        link: wireless,
        congestion_control: conditions.fh.congestion_control.clone(),
        host_sysctls: Vec::new(),
        limit: duration(conditions.limit()),
        extras: TransferExtras {
            wired,
            fh: tuning(&conditions.fh),
            mh: tuning(&conditions.mh),
            gateway_settings: gateway_settings(gateway),
            start_after: duration(conditions.start()),
            cross_traffic: cross_traffic(run),
            series_interval: (!conditions.record.is_empty())
                .then(|| duration(conditions.record_interval)),
        },
    }
}

fn duration(of_link: holdfast_wire::Duration) -> Duration {
    Duration::from_nanos(of_link.as_nanos() as u64)
}

fn middle(gateway: &GatewayConditions) -> Middle {
    match gateway.scheme {
        SchemeChoice::None => Middle::Plain,
        SchemeChoice::Haproxy => Middle::HaProxy,
        scheme => Middle::Gateway {
            scheme: scheme.name().to_owned(),
            mobile_signals: matches!(gateway.signal, SignalChoice::Mobile | SignalChoice::Both),
        },
    }
}

/// The gateway's settings as its file has them.
fn gateway_settings(gateway: &GatewayConditions) -> String {
    let mut lines = String::new();
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(lines, "{key} = {value}");
        }
    };
    add(
        "flow_cache_bytes_max",
        gateway.flow_cache_bytes_max.map(|n| n.to_string()),
    );
    add(
        "silence_min_ms",
        gateway.silence_min_ms.map(|n| n.to_string()),
    );
    add(
        "probe_interval_min_ms",
        gateway.probe_interval_min_ms.map(|n| n.to_string()),
    );
    add(
        "probe_interval_max_ms",
        gateway.probe_interval_max_ms.map(|n| n.to_string()),
    );
    lines
}

/// A hop as `holdfast link` takes it.
fn link(hop: &HopConditions, seed: u64) -> EmulatedLink {
    let (mut downlink, mut uplink) = (hop.downlink.clone(), hop.uplink.clone());
    let mut shared = OutageSettings::None;
    if hop.outages_shared {
        shared = std::mem::take(&mut downlink.outages);
        uplink.outages = OutageSettings::None;
    }
    EmulatedLink {
        outages: hop.outages().to_vec(),
        outage_effect: hop.outage_effect(),
        seed,
        description: Some(Box::new(LinkFile {
            seed: Some(seed),
            outage_effect: None,
            half_duplex: hop.half_duplex,
            frame_overhead_bytes: hop.frame_overhead_bytes,
            outages: shared,
            downlink,
            uplink,
        })),
        ..EmulatedLink::default()
    }
}

fn tuning(host: &HostConditions) -> HostTuning {
    HostTuning {
        congestion_control: Some(host.congestion_control.clone()),
        sysctls: host.linux_sysctls(),
        route_options: host.linux_route_options(),
    }
}

fn cross_traffic(run: &Run) -> Vec<DatagramStream> {
    let conditions = &run.conditions;
    let streams = conditions.cross_traffic.iter().enumerate();
    let stream = streams.map(|(number, cross)| DatagramStream {
        over: cross.over,
        downlink: cross.direction == Way::Downlink,
        rate_bit_per_s: cross.rate_mbit_per_s * 1e6,
        packet_bytes: cross.packet_bytes,
        start: Duration::from_secs_f64(cross.start_s),
        stop: cross
            .stop_s
            .map_or(duration(conditions.limit()), Duration::from_secs_f64),
        poisson: cross.poisson,
        seed: seed_for(run.seed, 100 + number as u64),
    });
    stream.collect()
}

fn line(run: &Run, measured: &Measurement, served: &Path) -> anyhow::Result<ResultLine> {
    let conditions = &run.conditions;
    let result = &measured.result;
    let sender = &conditions.fh;
    let framing = Framing::new(
        sender.mss.unwrap_or(MSS_DEFAULT),
        sender.timestamps.unwrap_or(true) && conditions.mh.timestamps.unwrap_or(true),
    );
    let finished = result.transfer_s.is_some();
    let intact = if finished {
        result.sha256_ok
    } else {
        sha256_of_start(&served.join(FILE_NAME), result.bytes)? == measured.sha256
    };
    let ending = match (finished, measured.ended) {
        (true, _) => "delivered",
        (false, true) => "given up",
        (false, false) => "not in time",
    };
    let reports_duplicates = conditions.mh.sack != Some(false) && sender.sack != Some(false);
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
    line.intact = intact;
    ending.clone_into(&mut line.ending);
    line.bytes = result.bytes;
    line.retransmitted_segments = retransmitted;
    line.segments = measured.segments;
    line.outages = result.stalls_s.len();
    line.kernel = Some(kernel_release()?);
    line.sysctls = sysctls(conditions);
    line.series = (!conditions.record.is_empty()).then(|| series(conditions, &measured.samples));
    Ok(line)
}

/// The running kernel's release.
pub fn kernel_release() -> anyhow::Result<String> {
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
        let options = conditions.linux_route_options();
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

fn series(conditions: &Conditions, samples: &[SocketSample]) -> Series {
    let wants = |record| conditions.record.contains(&record);
    let column = |record, of: &dyn Fn(&SocketSample) -> u64| {
        if wants(record) {
            samples.iter().map(of).collect()
        } else {
            Vec::new()
        }
    };
    let outages = conditions.wireless.outages();
    let is_up = |sample: &SocketSample| {
        !outages
            .iter()
            .any(|outage| (outage.at_s..outage.at_s + outage.for_s).contains(&sample.t_s))
    };
    Series {
        t_s: samples.iter().map(|sample| sample.t_s).collect(),
        cwnd: column(Record::Cwnd, &|sample| sample.cwnd),
        ssthresh: column(Record::Ssthresh, &|sample| sample.ssthresh),
        rwnd: column(Record::Rwnd, &|sample| sample.rwnd),
        snd_una: column(Record::Sequence, &|sample| sample.snd_una),
        snd_nxt: column(Record::Sequence, &|sample| sample.snd_nxt),
        rcv_nxt: column(Record::Sequence, &|sample| sample.rcv_nxt),
        // The kernel's devices have no queue of the link's; the model has.
        queue_packets: Vec::new(),
        link_up: if wants(Record::LinkState) {
            samples.iter().map(is_up).collect()
        } else {
            Vec::new()
        },
    }
}
