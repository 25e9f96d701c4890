// SPDX-License-Identifier: Apache-2.0
//! `live`: the lab's endpoints, the gateway and the links in network namespaces of the running
//! kernel, in real time.

mod lccwe;
mod line;
mod packets;
mod series;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use holdfast_link::LinkFile;
use holdfast_link::{OutageSettings, seed_for};
use holdfast_net::lccwe::{CongestionControl, NAME};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::scratch::Scratch;
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::HostTuning;

use super::{ExecutionSettings, Lacking, Refusal};
use crate::cross_traffic::DatagramStream;
use crate::endpoint::Exchange;
use crate::own_flows::{OwnFlows, reports};
use crate::results::ResultLine;
use crate::scenario::{
    Conditions, DirectionChoice, GatewayConditions, HopConditions, HostConditions,
    MobileSignalChoice, PART_WIRED, Record, Run, SchemeChoice, SignalChoice, cell_seed,
};
use crate::transfer::{
    Application, Measurement, Middle, PreparedTransfer, TransferSettings, TransferWatch,
};

/// The MSS without options, on a link for packets of 1500 octets.
const MSS_DEFAULT: u16 = 1460;
/// The seed of the content. Any seed will do: only no two parts of the content may be equal.
const CONTENT_SEED: u64 = 1;

/// The folder of the kernel's parameters.
const SYSCTLS: &str = "/proc/sys";

/// What real hosts cannot execute, besides keys that they ignore.
pub(super) fn refusal(conditions: &Conditions) -> Option<Refusal> {
    if conditions.gateway.engine.flow_cache_bytes_max == 0 {
        let why = "gateway.flow_cache_bytes_max: got 0, which the daemon does not take";
        return Some(Refusal::new(Lacking::Scheme, why, "the model"));
    }
    let scheme = conditions.gateway.scheme;
    if scheme.is_of_the_model() {
        let why = format!(
            "gateway.scheme: got {}, which the daemon has not",
            scheme.name()
        );
        return Some(Refusal::new(Lacking::Scheme, &why, "the model"));
    }
    if let Some(hop) = conditions.compressed_hop() {
        let why = format!("{hop}.header_compression: got true, which linux and live would ignore");
        return Some(Refusal::new(Lacking::Setting, &why, "the model"));
    }
    let hosts = [("fh", &conditions.fh), ("mh", &conditions.mh)];
    hosts.into_iter().find_map(|(name, host)| {
        let s = host.rto_min_s.filter(|s| *s > 0.0 && *s < 1e-3)?;
        let why = format!(
            "{name}.rto_min_s: got {s}, a route takes whole milliseconds; give 0, or 0.001 or more"
        );
        Some(Refusal::new(Lacking::Setting, &why, "the model"))
    })
}

/// Executes one run.
pub(super) fn execute(
    run: &Run,
    settings: &ExecutionSettings,
    stop: &StopFlag,
) -> anyhow::Result<ResultLine> {
    let scratch = Scratch::new("holdfast-run-")?;
    let folder = scratch.path();
    let files = packets::files(run, settings, folder);
    let control = lccwe::register(&run.conditions)?;
    let mut transfer = transfer(run, settings, &files);
    if let Some(control) = &control {
        control.name().clone_into(&mut transfer.congestion_control);
        transfer.mh.congestion_control = Some(control.name().to_owned());
    }
    let prepared = PreparedTransfer::prepare(&transfer, folder, folder, stop)
        .map_err(|error| explained(error, &run.conditions))?;
    let measured = measure(run, prepared, control.as_ref(), stop)?;
    let mut line = line::line(run, &measured)?;
    if !run.conditions.moves.is_empty() {
        packets::add_handoffs(&mut line, &run.conditions, &measured, &files)?;
    }
    Ok(line)
}

/// Executes the transfer, and meanwhile reports handoffs to the MH's congestion control.
fn measure(
    run: &Run,
    prepared: PreparedTransfer,
    control: Option<&CongestionControl>,
    stop: &StopFlag,
) -> anyhow::Result<Measurement> {
    let watch = TransferWatch::default();
    let Some(control) = control else {
        return prepared.measure(&watch, stop);
    };
    let (mh, over) = (prepared.mobile_namespace(), AtomicBool::new(false));
    let outages = run
        .conditions
        .wireless
        .outages_of(DirectionChoice::Downlink);
    thread::scope(|scope| {
        let feeder = scope.spawn(|| lccwe::feed(control, &mh, outages, &watch, &over));
        let measured = prepared.measure(&watch, stop);
        over.store(true, Ordering::Relaxed);
        let fed = feeder.join();
        let measured = measured?;
        fed.map_err(|_| anyhow!("the thread that reports handoffs panicked"))??;
        Ok(measured)
    })
}

/// The kernel refuses what it lacks with an errno: adds the scenario's key to the error.
fn explained(error: anyhow::Error, conditions: &Conditions) -> anyhow::Error {
    let hosts = [("fh", &conditions.fh), ("mh", &conditions.mh)];
    let why = hosts
        .into_iter()
        .find_map(|(name, host)| unknown_here(name, host));
    match why {
        Some(why) => error.context(why),
        None => error,
    }
}

/// The key of a host that the running kernel cannot satisfy.
fn unknown_here(name: &str, host: &HostConditions) -> Option<String> {
    let wanted = host.congestion_control();
    if wanted == NAME {
        return None;
    }
    let known = fs::read_to_string(format!(
        "{SYSCTLS}/net/ipv4/tcp_available_congestion_control"
    ));
    if let Ok(known) = known
        && !known.split_whitespace().any(|own| own == wanted)
    {
        return Some(format!(
            "{name}.congestion_control: got {wanted}, this kernel has {}",
            known.trim()
        ));
    }
    let unknown = host.sysctls.keys().find(|key| {
        let path = format!("{SYSCTLS}/{}", key.replace('.', "/"));
        !Path::new(&path).exists()
    });
    unknown.map(|key| format!("{name}.sysctls: got {key}, this kernel has no such parameter"))
}

pub(super) fn transfer(
    run: &Run,
    settings: &ExecutionSettings,
    files: &[packets::HopFiles],
) -> TransferSettings {
    let conditions = &run.conditions;
    let gateway = &conditions.gateway;
    let follows_carrier = carrier_follows(conditions);
    let mh_alone = carrier_of_mh_alone(conditions);
    let wants = |record| conditions.record.contains(&record);
    let samples = wants(Record::Queue) || wants(Record::LinkState);
    let radio = |hop: &HopConditions, number: usize| EmulatedLink {
        outages: hop.outages_of(conditions.transfer.direction).to_vec(),
        carrier_follows: follows_carrier,
        carrier_of_mh_alone: mh_alone,
        packet_traces: files[1 + number].clone(),
        sample_interval: samples.then(|| duration(conditions.record_interval)),
        ..link(hop, cell_seed(run.seed, number))
    };
    let cells: Vec<EmulatedLink> = match conditions.cells.as_slice() {
        [_] => Vec::new(),
        several => several
            .iter()
            .zip(0..)
            .map(|(hop, n)| radio(hop, n))
            .collect(),
    };
    let wired = conditions.wired.as_ref().map(|hop| EmulatedLink {
        packet_traces: files[0].clone(),
        ..link(hop, seed_for(run.seed, PART_WIRED))
    });
    TransferSettings {
        holdfast: settings.holdfast.clone(),
        middle: middle(gateway),
        link: radio(&conditions.wireless, 0),
        congestion_control: conditions.sender().congestion_control().to_owned(),
        limit: duration(conditions.limit()),
        application: Application::Endpoints(exchange(conditions)),
        wired,
        cells,
        moves: conditions.moves.clone(),
        handoff: gateway.handoff.is_on().then(|| gateway.handoff.to_lines()),
        fh: tuning(&conditions.fh, mss(conditions)),
        mh: tuning(&conditions.mh, mss(conditions)),
        gateway_settings: gateway.to_file(),
        start_after: duration(conditions.start()),
        cross_traffic: cross_traffic(run),
        own_flows: own_flows(conditions),
    }
}

/// Whether the wireless link's devices, or the MH's alone, lose their carrier in an outage.
fn carrier_follows(conditions: &Conditions) -> bool {
    let gateway = &conditions.gateway;
    if conditions.mobile.is_on() {
        return conditions.mobile.signal == MobileSignalChoice::Carrier;
    }
    match gateway.signal {
        SignalChoice::Carrier | SignalChoice::Both => !gateway.scheme.is_without_daemon(),
        // The MH's daemon can only report link states that it sees by the carrier. Plain runs get
        // the same link, so that both can be compared.
        SignalChoice::Mobile => true,
        SignalChoice::None => false,
    }
}

/// Whether only the MH's device loses its carrier. Without a daemon on the gateway the gateway's
/// device keeps it: without a carrier it would drop packets that the outage only delays.
fn carrier_of_mh_alone(conditions: &Conditions) -> bool {
    let gateway = &conditions.gateway;
    if conditions.mobile.is_on() {
        return gateway.scheme.is_without_daemon();
    }
    gateway.signal == SignalChoice::Mobile
}

/// The MH's daemon for its own flows; none: there is none.
fn own_flows(conditions: &Conditions) -> Option<OwnFlows> {
    let mobile = &conditions.mobile;
    let settings = mobile.to_lines()?;
    let outages = conditions.wireless.outages_of(DirectionChoice::Downlink);
    Some(OwnFlows {
        settings,
        reports: reports(
            outages,
            mobile.warning_ms,
            mobile.signal == MobileSignalChoice::Command,
        ),
    })
}

/// The exchange of the endpoints.
fn exchange(conditions: &Conditions) -> Exchange {
    let transfer = &conditions.transfer;
    Exchange {
        direction: transfer.direction,
        bytes: transfer.bytes,
        seed: CONTENT_SEED,
        request_bytes: transfer.request_bytes.into(),
        requests: transfer.requests,
        think_ns: Duration::from_secs_f64(transfer.think_ms / 1e3).as_nanos() as u64,
        back_bytes: transfer.back_bytes,
        ipv6: transfer.ip_version == 6,
        series_interval_ns: (!conditions.record.is_empty())
            .then(|| conditions.record_interval.as_nanos().max(1) as u64),
        flows: transfer.flows,
        flows_of_second_mobile: transfer.flows_of_second_mobile,
        windows_bytes_max: [&conditions.fh, &conditions.mh].map(|host| host.window_bytes_max),
    }
}

/// The lesser MSS of both hosts: a sender obeys what the other end advertises, and `advmss` of a
/// Linux route only sets what is advertised.
fn mss(conditions: &Conditions) -> Option<u16> {
    let both = [conditions.fh.mss, conditions.mh.mss];
    both.into_iter().flatten().min()
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
            mobile_signals: gateway.receives_signals(),
        },
    }
}

/// A hop with the settings of `holdfast link`.
fn link(hop: &HopConditions, seed: u64) -> EmulatedLink {
    let (mut downlink, mut uplink) = (hop.downlink.clone(), hop.uplink.clone());
    let mut shared = OutageSettings::None;
    if hop.outages_shared {
        shared = std::mem::take(&mut downlink.outages);
        uplink.outages = OutageSettings::None;
    }
    if hop.half_duplex {
        // Both directions share the downlink's medium; the link refuses other settings for the
        // uplink.
        uplink = downlink.clone();
    }
    EmulatedLink {
        outages: hop.outages().to_vec(),
        outage_effect: hop.outage_effect(),
        seed,
        description: Some(Box::new(LinkFile {
            // The seed is given by a flag: an integer in TOML has 63 bits only.
            seed: None,
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

fn tuning(host: &HostConditions, mss: Option<u16>) -> HostTuning {
    let host = HostConditions {
        mss,
        ..host.clone()
    };
    HostTuning {
        congestion_control: Some(host.congestion_control().to_owned()),
        sysctls: host.linux_sysctls(),
        route_options: host.linux_route_options(),
        microsecond_timestamps: host.microsecond_timestamps,
    }
}

fn cross_traffic(run: &Run) -> Vec<DatagramStream> {
    let conditions = &run.conditions;
    let streams = conditions.cross_traffic.iter().enumerate();
    let stream = streams.map(|(number, cross)| DatagramStream {
        over: cross.over,
        downlink: cross.direction == DirectionChoice::Downlink,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn the_gateways_device_loses_its_carrier_only_where_a_daemon_there_listens() {
        let get = |more: &str| {
            let text =
                format!("[transfer]\nbytes = 1000\n[wireless]\nrate_mbit_per_s = 20\n{more}");
            let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
            let conditions = scenario.runs(None).unwrap().remove(0).conditions;
            let (follows, mh_alone) = (
                carrier_follows(&conditions),
                carrier_of_mh_alone(&conditions),
            );
            (follows && !mh_alone, follows)
        };
        let wake = "[mobile]\nscheme = \"wake\"\n";
        let hold = "[gateway]\nscheme = \"hold\"\n";
        // Whether the gateway's device and the MH's device lose their carrier.
        assert_eq!(get(""), (false, false));
        assert_eq!(get(wake), (false, true));
        assert_eq!(get(hold), (true, true));
        assert_eq!(get(&format!("{hold}{wake}")), (true, true));
        assert_eq!(get(&format!("{hold}signal = \"mobile\"")), (false, true));
        assert_eq!(get(&format!("{wake}signal = \"none\"")), (false, false));
    }

    #[test]
    fn a_cell_that_compresses_headers_is_refused() {
        let text = "[transfer]\nbytes = 1000\n[wired]\n[wireless]\n[[cells]]\n[[cells]]\nheader_compression = true";
        let scenario = Scenario::parse(Path::new("s.toml"), text).unwrap();
        let refused = refusal(&scenario.runs(None).unwrap().remove(0).conditions).unwrap();
        assert!(
            refused
                .why
                .starts_with("cells.1.header_compression: got true")
        );
    }

    #[test]
    fn the_m_tcp_of_2007_runs_unless_it_caches_nothing() {
        let refused = |more: &str| {
            let text = format!(
                "[transfer]\nbytes = 1000\n[wireless]\nrate_mbit_per_s = 20\n\
                 [gateway]\nscheme = \"mtcp-2007\"\n{more}"
            );
            let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
            refusal(&scenario.runs(None).unwrap().remove(0).conditions).is_some()
        };
        assert!(!refused(""));
        assert!(refused("flow_cache_bytes_max = 0"));
    }

    #[test]
    fn a_least_timeout_that_a_route_cannot_have_is_refused_with_its_key() {
        let refused = |hosts: &str| {
            let text = format!("[transfer]\nbytes = 1000\n[wireless]\n{hosts}");
            let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
            refusal(&scenario.runs(None).unwrap().remove(0).conditions)
        };
        let refusal = refused("[fh]\nrto_min_s = 0.0004").unwrap();
        assert_eq!(refusal.lacks, Lacking::Setting);
        assert_eq!(
            refusal.why,
            "fh.rto_min_s: got 0.0004, a route takes whole milliseconds; \
             give 0, or 0.001 or more, or run it on the model"
        );
        for taken in ["0", "0.001", "0.2"] {
            assert_eq!(refused(&format!("[hosts]\nrto_min_s = {taken}")), None);
        }
    }

    #[test]
    fn what_this_kernel_lacks_is_reported_with_its_key() {
        let host = |control: &str, sysctl: &str| -> HostConditions {
            let text =
                format!("congestion_control = \"{control}\"\nsysctls = {{ \"{sysctl}\" = \"1\" }}");
            toml::from_str(&text).unwrap()
        };
        let known = "net.ipv4.tcp_retries2";
        assert_eq!(unknown_here("fh", &host("reno", known)), None);
        let message = unknown_here("fh", &host("remo", known)).unwrap();
        assert!(
            message.starts_with("fh.congestion_control: got remo, this kernel has ")
                && message.contains("reno"),
            "{message}"
        );
        assert_eq!(
            unknown_here("mh", &host("reno", "net.ipv4.nope")).unwrap(),
            "mh.sysctls: got net.ipv4.nope, this kernel has no such parameter"
        );
    }
}
