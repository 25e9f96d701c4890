// SPDX-License-Identifier: Apache-2.0
//! The test of all keys: if a key gets another value, each substrate has to change the run, or to
//! refuse it. If it ignored the key, the result would be that of another run. `linux` is `live` in
//! a virtual kernel.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use holdfast_files::document;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::{ExecutionSettings, SubstrateKind, live, model};
use crate::scenario::{Conditions, Run, Scenario};

/// For each key: another valid value, and another key with a value that makes runs read this key.
/// `LINK.` stands for each direction of each hop, `HOST.` for each host. A table with a dot at its
/// end stands for each of its keys, which are set together.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("record", "['cwnd', 'queue']", ""),
    ("record_interval_ms", "50", "record = ['cwnd']"),
    ("transfer.bytes", "200_000", ""),
    ("transfer.direction", "'uplink'", ""),
    ("transfer.start_s", "1", ""),
    ("transfer.limit_s", "60", ""),
    ("transfer.request_bytes", "200", ""),
    ("transfer.requests", "4", "transfer.request_bytes = 100"),
    ("transfer.think_ms", "5", "transfer.requests = 2"),
    ("transfer.back_bytes", "1000", ""),
    ("transfer.ip_version", "6", ""),
    ("transfer.flows", "4", ""),
    ("transfer.flows_of_second_mobile", "1", "transfer.flows = 2"),
    ("transfer.stays_open", "true", ""),
    ("transfer.encrypted", "true", ""),
    ("transfer.content", "'text'", ""),
    ("cross_traffic.over", "'wired'", ""),
    ("cross_traffic.direction", "'uplink'", ""),
    ("cross_traffic.rate_mbit_per_s", "0.25", ""),
    ("cross_traffic.packet_bytes", "500", ""),
    ("cross_traffic.start_s", "1", ""),
    ("cross_traffic.stop_s", "9", ""),
    ("cross_traffic.poisson", "true", ""),
    ("wired", "{ delay_ms = 7 }", ""),
    ("LINK.rate_mbit_per_s", "8", ""),
    ("LINK.rate_trace", "'a.steps'", ""),
    (
        "LINK.rate_model",
        "{ rate_mbit_per_s = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] }",
        "",
    ),
    (
        "LINK.trace_format",
        "'steps'",
        "LINK.rate_trace = 'a.steps'",
    ),
    ("LINK.trace_start_s", "1", "LINK.rate_trace = 'a.steps'"),
    ("LINK.delay_ms", "30", ""),
    ("LINK.jitter", "{ kind = 'uniform', max_ms = 5 }", ""),
    ("LINK.slow", "{ every_s = 9, for_s = 1, factor = 3 }", ""),
    ("LINK.queue_packets_max", "50", ""),
    ("LINK.queue_bytes_max", "60_000", ""),
    ("LINK.priority_dscp_min", "46", ""),
    ("LINK.loss", "0.1", ""),
    ("LINK.bit_error_rate", "1e-6", ""),
    (
        "LINK.bit_error_effect",
        "'corrupt'",
        "LINK.bit_error_rate = 1e-6",
    ),
    (
        "LINK.gilbert_elliott",
        "{ good_to_bad = 0.1, bad_to_good = 0.5 }",
        "",
    ),
    (
        "LINK.arq",
        "{ retransmit_after_ms = 5, reassembly_ms = 50 }",
        "",
    ),
    (
        "LINK.outages.",
        "{ kind = 'periodic', first_at_s = 2, every_s = 9, for_s = 1 }",
        "",
    ),
    ("LINK.outage_effect", "'keep'", ""),
    ("LINK.half_duplex", "true", ""),
    ("LINK.frame_overhead_bytes", "40", ""),
    ("LINK.header_compression", "true", ""),
    ("cells", "[{}, { queue_packets_max = 30 }]", ""),
    (
        "movement",
        "{ moves = { kind = 'periodic', first_at_s = 2, every_s = 4 } }",
        "cells = [{}, {}]",
    ),
    (
        "movement.moves.",
        "{ kind = 'periodic', first_at_s = 2, every_s = 4 }",
        "",
    ),
    ("movement.gap_ms", "20", ""),
    ("movement.warning_ms", "100", ""),
    ("movement.route_after_ms", "50", ""),
    ("gateway.scheme", "'hold'", ""),
    ("gateway.signal", "'mobile'", ""),
    ("gateway.signal_delay_ms", "5", ""),
    ("gateway.warning_ms", "100", ""),
    ("gateway.restarts_s", "[1.5]", ""),
    ("gateway.keep_packets", "4", ""),
    ("gateway.flows_max", "9", ""),
    ("gateway.cache_bytes_max", "'128 MiB'", ""),
    ("gateway.flow_cache_bytes_max", "'1 MiB'", ""),
    ("gateway.flow_cache_entries_max", "99", ""),
    ("gateway.silence_min_ms", "150", ""),
    ("gateway.probe_interval_min_ms", "30", ""),
    ("gateway.probe_interval_max_ms", "900", ""),
    ("gateway.flow_idle_max_s", "900", ""),
    ("gateway.owed_wait_s", "90", ""),
    ("gateway.resend_dscp", "46", ""),
    ("gateway.bandwidth.cells", "['* 20000']", ""),
    ("gateway.bandwidth.weights", "['10.2.0.7/32 3']", ""),
    ("gateway.snoop.set", "'1995'", ""),
    ("gateway.snoop.alpha", "0.5", ""),
    ("gateway.snoop.retransmit_srtts", "3", ""),
    ("gateway.snoop.retransmit_interval_min_ms", "7", ""),
    ("gateway.snoop.persist_ms", "100", ""),
    ("gateway.snoop.high_water_mark_bytes", "'32 KiB'", ""),
    ("gateway.snoop.nack_threshold_packets", "4", ""),
    ("gateway.snoop.nack_wait_ms", "50", ""),
    ("gateway.snoop.hide_rtos", "2", ""),
    ("gateway.snoop.congested_rtts", "0.125", ""),
    ("gateway.mtcp.set", "'published'", ""),
    ("gateway.mtcp.shrink", "'published'", ""),
    ("gateway.mtcp.persist", "'published'", ""),
    ("gateway.mtcp.release", "'wintimer'", ""),
    ("gateway.mtcp.slow_start", "false", ""),
    ("gateway.mtcp.initial_window_segments", "4", ""),
    ("gateway.mtcp.rto_variation_min_ms", "7", ""),
    ("gateway.mtcp.window_bytes", "'32 KiB'", ""),
    ("gateway.mtcp.handoff", "'published'", ""),
    ("gateway.mtcp.set_up", "'early'", ""),
    ("gateway.mtcp.compression", "'zstd'", ""),
    (
        "gateway.mtcp.compression_level",
        "9",
        "gateway.mtcp.compression = 'deflate'",
    ),
    ("gateway.mtcp.compression_ms", "3", ""),
    ("gateway.handoff.kind", "'multicast'", ""),
    ("gateway.handoff.always", "true", ""),
    ("gateway.handoff.buffer_s", "3", ""),
    ("gateway.handoff.sync_wait_ms", "70", ""),
    ("gateway.handoff.mobile_buffer_bytes_max", "'64 KiB'", ""),
    ("gateway.handoff.buffer_bytes_max", "'32 MiB'", ""),
    ("gateway.handoff.groups", "9", ""),
    ("mobile.scheme", "'wake'", ""),
    ("mobile.signal", "'none'", ""),
    ("mobile.warning_ms", "100", ""),
    ("mobile.freeze_set", "'2000'", ""),
    ("mobile.warning_round_trips", "3", ""),
    ("mobile.tr_acks", "false", ""),
    ("mobile.false_alarm_ms", "700", ""),
    ("HOST.preset", "'new-reno'", ""),
    ("HOST.congestion_control", "'cubic'", ""),
    ("HOST.sack", "false", ""),
    ("HOST.timestamps", "false", ""),
    ("HOST.microsecond_timestamps", "true", ""),
    ("HOST.window_scaling", "false", ""),
    ("HOST.delayed_ack", "false", ""),
    ("HOST.mss", "999", ""),
    ("HOST.window_bytes_max", "30_000", ""),
    ("HOST.initial_window_segments", "5", ""),
    ("HOST.retries_max", "7", ""),
    ("HOST.rto_min_s", "0.35", ""),
    ("HOST.tick_phase_s", "0.15", "HOST.preset = 'reno43bsd'"),
    ("HOST.shrunk_window", "'timer-counts'", ""),
    ("HOST.send_buffer_bytes", "40_000", ""),
    ("HOST.dup_ack_delay_ms", "20", ""),
    ("HOST.m_tcp", "true", ""),
    ("HOST.on_handoff", "'cwe'", ""),
    (
        "HOST.lc_cwe",
        "{ first_history = 3 }",
        "HOST.on_handoff = 'lc'",
    ),
    ("HOST.lc_cwe.history_weight", "0.125", ""),
    ("HOST.lc_cwe.interval_weight", "0.125", ""),
    ("HOST.lc_cwe.first_history", "3", ""),
    ("HOST.lc_cwe.timeout_rtt", "'timeout'", ""),
    ("HOST.lc_cwe.on_neither", "'handoff'", ""),
    ("HOST.sysctls.net.ipv4.tcp_slow_start_after_idle", "'1'", ""),
];

/// A substrate, a key, and the runs in which the substrate does not read the key.
type Taken = (SubstrateKind, &'static str, fn(&Conditions) -> bool);

/// Keys that a substrate accepts although it does not read them.
const TAKEN: &[Taken] = &[
    // It describes the format of a file, which the substrate reads in one way only.
    (SubstrateKind::Model, "LINK.trace_format", |_| true),
    // One signal may be set beside a sweep of schemes.
    (SubstrateKind::Model, "gateway.signal", |conditions| {
        conditions.gateway.scheme.is_without_daemon()
    }),
    (SubstrateKind::Live, "gateway.signal", |conditions| {
        conditions.gateway.scheme.is_without_daemon() && conditions.mobile.is_on()
    }),
    // A preset, and the keys that replace it on Linux, describe one host.
    (
        SubstrateKind::Model,
        "HOST.congestion_control",
        |conditions| conditions.fh.preset.is_some(),
    ),
    (SubstrateKind::Live, "HOST.preset", |conditions| {
        !conditions.fh.sysctls.is_empty()
    }),
];

/// The settings of all runs.
const BASE: &str = "[transfer]\nbytes = 100_000\n[wireless]\ndelay_ms = 20\n\
    outages = { kind = 'list', list = [{ at_s = 1, for_s = 1 }] }\n\
    [[cross_traffic]]\nover = 'wireless'\nrate_mbit_per_s = 0.5\n";

/// A value as it is in a document.
fn value(text: &str) -> Value {
    let mut table: Table = format!("value = {text}").parse().expect(text);
    table.remove("value").expect(text)
}

/// Sets a key as a run's line names it.
fn set(document: &mut Table, key: &str, to: Value) {
    if let Some(own) = key.strip_prefix("cross_traffic.") {
        let streams = document["cross_traffic"].as_array_mut().unwrap();
        let stream = streams[0].as_table_mut().unwrap();
        stream.insert(own.to_owned(), to);
        return;
    }
    // The name of a kernel parameter contains dots.
    let (key, to) = match key.split_once(".sysctls.") {
        Some((host, name)) => (
            format!("{host}.sysctls"),
            Table::from_iter([(name.to_owned(), to)]).into(),
        ),
        None => (key.to_owned(), to),
    };
    document::set(document, &key, to).unwrap();
}

/// The base with these settings, `key = value`.
fn with(settings: &[&str]) -> Table {
    let mut document: Table = BASE.parse().unwrap();
    for setting in settings {
        let (key, to) = setting.split_once(" = ").expect(setting);
        set(&mut document, key, value(to));
    }
    document
}

/// Runs of each kind: they differ in which keys a run has, and which keys are read.
fn documents() -> Vec<Table> {
    let gateways =
        "none hold auto mtcp-plus mtcp mtcp-2007 snoop keep haproxy split ebsn".split(' ');
    let mobiles = "freeze fast-retransmit mtcp wake keep auto".split(' ');
    let gateways = gateways.map(|scheme| format!("gateway.scheme = '{scheme}'"));
    let mobiles = mobiles.map(|scheme| format!("mobile.scheme = '{scheme}'"));
    let schemes = gateways.chain(mobiles);
    let mut documents: Vec<Table> = schemes.map(|scheme| with(&[&scheme])).collect();
    let uplink = "transfer.direction = 'uplink'";
    let (wired, cells) = (
        "wired.delay_ms = 5",
        "cells = [{}, { queue_packets_max = 20 }]",
    );
    let moves = "movement.moves = { kind = 'list', list = [{ at_s = 2, to = 2 }] }";
    let others: [&[&str]; 14] = [
        &[wired],
        &["wired.half_duplex = true", "wireless.half_duplex = true"],
        &[uplink],
        &[uplink, "gateway.scheme = 'hold'"],
        &[uplink, "mobile.scheme = 'auto'"],
        &[
            uplink,
            "mh.on_handoff = 'lc-cwe'",
            "mh.lc_cwe.first_history = 2",
        ],
        &["transfer.request_bytes = 100"],
        &["hosts.preset = 'reno43bsd'"],
        &["hosts.preset = 'reno-2005'"],
        &["hosts.preset = 'linux-bbr'"],
        &["hosts.sysctls = { 'net.ipv4.tcp_slow_start_after_idle' = '0' }"],
        &[wired, cells, moves],
        &[wired, cells, moves, "gateway.scheme = 'snoop'"],
        &[
            wired,
            cells,
            moves,
            "gateway.scheme = 'mtcp'",
            "gateway.handoff.kind = 'multicast'",
        ],
    ];
    documents.extend(others.map(with));
    documents
}

/// The tables whose keys have one name in the examples.
const TABLES: [(&str, &str); 7] = [
    ("fh.", "HOST."),
    ("mh.", "HOST."),
    ("gateway.split.", "HOST."),
    ("wired.uplink.", "LINK."),
    ("wireless.uplink.", "LINK."),
    ("wired.", "LINK."),
    ("wireless.", "LINK."),
];

/// The example of a key.
struct Example {
    /// Its number in [`EXAMPLES`].
    number: usize,
    /// The key without its host or hop.
    general: String,
    /// The key that gets the value.
    key: String,
    value: Value,
    /// The setting that has to be made beside it.
    beside: Option<(String, Value)>,
}

impl Example {
    fn of(key: &str) -> Option<Self> {
        let mut tables = TABLES.into_iter();
        let table = tables.find(|(table, _)| key.starts_with(table));
        let (table, name) = table.unwrap_or_default();
        let general = key.replacen(table, name, 1);
        let mut keys =
            std::iter::successors(Some(general.as_str()), |key| Some(key.rsplit_once('.')?.0));
        let number = keys.find_map(|key| {
            let is_of = |own: &str| match own.strip_suffix('.') {
                Some(table) => table == key,
                None => own == general,
            };
            EXAMPLES.iter().position(|(own, ..)| is_of(own))
        })?;
        let (own, to, beside) = EXAMPLES[number];
        let beside = beside.split_once(" = ");
        Some(Self {
            number,
            key: own.trim_end_matches('.').replacen(name, table, 1),
            value: value(to),
            beside: beside.map(|(key, to)| (key.replacen(name, table, 1), value(to))),
            general,
        })
    }
}

/// The keys of a run's line. The first stream of cross traffic has each of its keys.
fn keys(run: &Run) -> Vec<String> {
    let complete = run.conditions.complete();
    let keys = complete.iter().flat_map(|(key, value)| match &value[0] {
        Json::Object(stream) if key == "cross_traffic" => {
            let keys = stream.keys();
            keys.map(|own| format!("{key}.{own}")).collect()
        }
        _ => vec![key.clone()],
    });
    keys.collect()
}

/// The run of a document; none: the scenario refuses it.
fn run(folder: &Path, document: &Table) -> Option<Run> {
    let file = folder.join("s.toml");
    let scenario = Scenario::parse(&file, &document.to_string()).unwrap();
    Some(scenario.runs(None).ok()?.remove(0))
}

/// The run, and how the substrate sets it up; none: there is no run, or the substrate refuses it.
fn made(kind: SubstrateKind, run: Option<Run>) -> Option<(Run, String)> {
    let run = run?;
    if kind.refusal(&run).is_some() {
        return None;
    }
    let drawn = run.drawn().unwrap();
    let made = match kind {
        SubstrateKind::Model => format!("{:?}", model::experiment(&drawn).unwrap()),
        SubstrateKind::Linux | SubstrateKind::Live => {
            let settings = ExecutionSettings {
                holdfast: PathBuf::new(),
                label: None,
                pcap: None,
            };
            let files = vec![[None, None]; 1 + drawn.conditions.cells.len()];
            format!("{:?}", live::transfer(&drawn, &settings, &files))
        }
    };
    Some((run, made))
}

fn changed(document: &Table, key: &str, to: &Value) -> Table {
    let mut changed = document.clone();
    set(&mut changed, key, to.clone());
    changed
}

/// The keys of a document's run that `kind` accepts and ignores, and the keys without an example.
fn wrong(
    kind: SubstrateKind,
    (folder, document): (&Path, &Table),
    tried: &mut BTreeSet<usize>,
) -> Vec<String> {
    let Some(bare) = made(kind, run(folder, document)) else {
        return Vec::new();
    };
    let mut wrong = Vec::new();
    for key in keys(&bare.0) {
        let Some(example) = Example::of(&key) else {
            wrong.push(format!("{key} has no example"));
            continue;
        };
        let beside = example.beside.as_ref().and_then(|(key, to)| {
            let document = changed(document, key, to);
            Some((made(kind, run(folder, &document))?, document))
        });
        let ((without, made_without), document) = match &beside {
            Some((without, document)) => (without, document),
            None => (&bare, document),
        };
        let document = changed(document, &example.key, &example.value);
        // A key with the value that it already has changes nothing.
        let is_same = |run: &Run| {
            let has = kind.conditions(without);
            let wanted = serde_json::to_value(&example.value).unwrap();
            run.conditions == without.conditions || has.get(&key) == Some(&wanted)
        };
        let Some(run) = run(folder, &document).filter(|run| !is_same(run)) else {
            continue;
        };
        let Some((run, made_with)) = made(kind, Some(run)) else {
            continue;
        };
        tried.insert(example.number);
        let is_taken = TAKEN.iter().any(|(taker, key, unread)| {
            (*taker, *key) == (kind, example.general.as_str()) && unread(&run.conditions)
        });
        if made_with == *made_without && !is_taken {
            wrong.push(format!(
                "{key} = {}: {} takes and ignores it",
                example.value,
                kind.name()
            ));
        }
    }
    wrong
}

#[test]
fn a_key_of_a_scheme_that_no_run_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut wrong, mut tried) = (Vec::new(), BTreeSet::new());
    for document in documents() {
        let Some(bare) = run(folder.path(), &document) else {
            continue;
        };
        let read = keys(&bare);
        let of_schemes = EXAMPLES.iter().filter(|(key, ..)| {
            let is_of_scheme = key.starts_with("gateway.") || key.starts_with("mobile.");
            // A signal may be set beside a sweep of schemes.
            is_of_scheme && *key != "mobile.signal" && !read.iter().any(|own| own == key)
        });
        for (key, to, _) in of_schemes {
            tried.insert(key);
            let with = run(folder.path(), &changed(&document, key, &value(to)));
            if with.is_some_and(|with| with.conditions != bare.conditions) {
                wrong.push(format!("{key} = {to} is taken in {document}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(tried.len() > 40, "{tried:?}");
}

#[test]
fn another_value_of_each_key_makes_another_run_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.steps"), "1 10\n2 0\n6 10\n").unwrap();
    let (mut wrong_keys, mut tried) = (BTreeSet::new(), BTreeSet::new());
    for kind in [SubstrateKind::Model, SubstrateKind::Live] {
        for document in documents() {
            wrong_keys.extend(wrong(kind, (folder.path(), &document), &mut tried));
        }
    }
    let untried = EXAMPLES
        .iter()
        .enumerate()
        .filter(|(number, _)| !tried.contains(number));
    wrong_keys.extend(untried.map(|(_, (key, ..))| format!("{key}: no run takes the example")));
    assert!(wrong_keys.is_empty(), "{wrong_keys:#?}");
}
