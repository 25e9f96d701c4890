// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab` as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use holdfast_lab::claims::Paper;
use holdfast_lab::results::ResultLine;
use holdfast_lab::scenario::Run;
use holdfast_net::netns::available_or_skip;

const SCENARIO: &str = r#"
description = "one outage of a second"
record = ["cwnd", "sequence", "link-state"]
[transfer]
bytes = 2_000_000
limit_s = 30
[wired]
rate_mbit_per_s = 100
delay_ms = 2
[wireless]
rate_mbit_per_s = 20
delay_ms = 10
queue_packets_max = 100
outages = { kind = "list", list = [{ at_s = 0.4, for_s = 1 }] }
[hosts]
delayed_ack = false
[[sweep]]
name = "scheme"
key = "gateway.scheme"
values = ["none", "hold"]
"#;

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .arg("lab")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn folder_with(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn lines(output: &Output) -> Vec<ResultLine> {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn list_counts_the_runs_of_each_scenario() {
    let (folder, _) = folder_with(SCENARIO);
    let output = lab(folder.path(), &["list", "--json", "."]);
    let entries: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(entries[0]["runs"], 2);
    assert_eq!(entries[0]["variants"][1], "scheme=hold");
    assert_eq!(entries[0]["description"], "one outage of a second");
}

#[test]
fn a_scenario_with_a_wrong_key_is_refused_in_one_line_with_status_64() {
    let (folder, _) = folder_with(&SCENARIO.replace("delay_ms = 10", "delay = 10"));
    let output = lab(folder.path(), &["run", "s.toml"]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "holdfast: s.toml: key `wireless.delay`: got 10; there is no such key; did you mean `wireless.delay_ms`?\n"
    );
}

#[test]
fn the_model_gives_the_same_bytes_for_any_jobs_and_shards_that_concatenate() {
    let (folder, _) = folder_with(SCENARIO);
    let run = |more: &[&str]| {
        let output = lab(
            folder.path(),
            &[&["run", "s.toml", "--out", "-"], more].concat(),
        );
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = run(&["--jobs", "1"]);
    assert_eq!(run(&["--jobs", "2"]), whole);
    assert_eq!(run(&["--shard", "1/2"]) + &run(&["--shard", "2/2"]), whole);
    assert_eq!(whole.lines().count(), 2);
}

#[test]
fn the_model_writes_packets_that_begin_with_the_mhs_syn() {
    let (folder, _) = folder_with(SCENARIO);
    let output = lab(
        folder.path(),
        &["run", "s.toml", "--shard", "2/2", "--pcap", "packets"],
    );
    assert!(output.status.success());
    let files: Vec<_> = fs::read_dir(folder.path().join("packets"))
        .unwrap()
        .collect();
    assert_eq!(files.len(), 1);
    let bytes = fs::read(files[0].as_ref().unwrap().path()).unwrap();
    // A section header, and its byte order.
    assert_eq!(&bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(bytes.len() > 100_000, "{}", bytes.len());
}

/// The papers' folder of this repository.
fn papers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers")
}

#[test]
fn the_undisturbed_table_of_mtcp_plus_comes_out_as_it_is_printed() {
    let arguments = ["run", "mtcp-plus-2007/undisturbed.toml", "--out", "-"];
    let lines = lines(&lab(&papers(), &arguments));
    assert_eq!(lines.len(), 8);
    for line in &lines {
        let printed = if line.parameters["delayed_ack"] == "on" {
            261.0
        } else {
            287.4
        };
        let off = line.transfer_s.unwrap() - printed;
        assert!(line.intact && off.abs() < 0.5, "{}: {off}", line.variant);
    }
}

#[test]
fn a_claim_has_an_entry_with_a_verdict_and_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let paper = folder.path().join("papers/p");
    fs::create_dir_all(&paper).unwrap();
    fs::write(paper.join("s.toml"), SCENARIO).unwrap();
    let claims = r#"
        title = "t"
        [tolerance]
        transfer_s = { percent = 50 }
        [[table]]
        id = "times"
        metric = "transfer_s"
        scenario = "s.toml"
        variants = "scheme"
        column = "scheme"
        columns = ["none", "hold", "other"]
        row = [{ where = {}, printed = [2.3, 1.9, 100] }]
    "#;
    fs::write(paper.join("claims.toml"), claims).unwrap();
    let output = lab(folder.path(), &["claims", "--paper", "p", "--json"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let entries: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |index: usize, key: &str| entries[index][key].clone();
    assert_eq!(of(0, "id"), "times//scheme=none");
    assert_eq!(
        (of(0, "printed"), of(0, "verdict")),
        (2.3.into(), "holds".into())
    );
    assert!(of(0, "model").as_f64().unwrap() > 1.0);
    assert_eq!(of(2, "verdict"), "not comparable");
    assert_eq!(
        (of(3, "id"), of(3, "verdict")),
        ("times/order/".into(), "holds".into())
    );
    assert_eq!(of(3, "model"), "hold < none");
}

#[test]
fn every_papers_scenario_is_read_and_every_claim_has_its_runs() {
    for paper in Paper::find(&papers()).unwrap() {
        let runs = paper.runs().unwrap();
        assert!(!runs.is_empty());
        for table in &paper.claims.table {
            for row in &table.row {
                for column in &table.columns {
                    let has = |run: &&Run| {
                        let of = |key: &String| run.parameters.get(key);
                        of(&table.column) == Some(column)
                            && row.of.iter().all(|(key, value)| of(key) == Some(value))
                    };
                    assert!(
                        runs.iter().any(|run| has(&run)),
                        "{}: no run of {:?} {column}",
                        table.id,
                        row.of
                    );
                }
            }
        }
    }
}

#[test]
#[cfg(feature = "virtual-kernel-tests")]
fn linux_runs_the_same_scenario_in_a_virtual_kernel() {
    let test = "linux_runs_the_same_scenario_in_a_virtual_kernel";
    if holdfast_lab::virtual_kernel::available_or_skip(test).is_none() {
        return;
    }
    let (folder, _) = folder_with(SCENARIO);
    let arguments = [
        "run",
        "s.toml",
        "--substrate",
        "linux",
        "--out",
        "-",
        "--pcap",
        "packets",
    ];
    let linux = lines(&lab(folder.path(), &arguments));
    assert_eq!(linux.len(), 2);
    for line in &linux {
        assert_eq!(line.substrate, "linux");
        assert!(line.finished && line.intact, "{line:?}");
        assert!(line.transfer_s.unwrap() >= line.optimal_s, "{line:?}");
        assert_eq!((line.outages, line.stalls_s.len()), (1, 1), "{line:?}");
    }
    assert!(linux[1].stalls_s[0].unwrap() < 0.2, "{:?}", linux[1]);
    assert!(linux[1].transfer_s < linux[0].transfer_s);
    let packets = fs::read_dir(folder.path().join("packets")).unwrap().count();
    assert_eq!(packets, 4);
}

#[test]
fn live_runs_the_same_scenario_in_namespaces() {
    if !available_or_skip("live_runs_the_same_scenario_in_namespaces") {
        return;
    }
    let (folder, _) = folder_with(SCENARIO);
    let run = |substrate| {
        let arguments = [
            "run",
            "s.toml",
            "--substrate",
            substrate,
            "--out",
            "-",
            "--pcap",
            "packets",
        ];
        lines(&lab(folder.path(), &arguments))
    };
    let (model, live) = (run("model"), run("live"));
    assert_eq!(live.len(), 2);
    for (model, live) in model.iter().zip(&live) {
        assert_eq!(
            (live.substrate.as_str(), model.substrate.as_str()),
            ("live", "model")
        );
        assert_eq!((&live.variant, live.seed), (&model.variant, model.seed));
        assert!(live.finished && live.intact, "{live:?}");
        assert!((live.optimal_s - model.optimal_s).abs() < 1e-9);
        assert!(live.transfer_s.unwrap() >= live.optimal_s, "{live:?}");
        assert_eq!((live.outages, live.stalls_s.len()), (1, 1), "{live:?}");
        assert!(live.kernel.is_some() && model.kernel.is_none());
        assert!(
            live.sysctls
                .iter()
                .any(|(name, value)| name == "fh: route" && value == "quickack 1")
        );
        let series = live.series.as_ref().unwrap();
        assert!(
            series.t_s.len() > 3 && series.cwnd.iter().any(|&bytes| bytes > 0),
            "{series:?}"
        );
        assert!(series.link_up.contains(&false) && series.link_up.contains(&true));
    }
    // The gateway is told by the carrier, and has what was lost.
    assert!(live[1].stalls_s[0].unwrap() < 0.2, "{:?}", live[1]);
    assert!(live[1].transfer_s < live[0].transfer_s);
    let packets = fs::read_dir(folder.path().join("packets")).unwrap().count();
    // Of the model one a run, of live one a link.
    assert_eq!(packets, 2 + 4);
}
