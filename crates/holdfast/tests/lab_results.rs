// SPDX-License-Identifier: Apache-2.0
//! What `holdfast lab` makes of results.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

/// Six short runs.
const SCENARIO: &str = r#"
repetitions = 3
record = ["cwnd", "sequence", "queue", "link-state"]
[transfer]
bytes = 100_000
[wireless]
rate_mbit_per_s = 5
delay_ms = 20
loss = 0.01
outages = { kind = "list", list = [{ at_s = 0.1, for_s = 0.5 }] }
[[sweep]]
name = "scheme"
key = "gateway.scheme"
values = ["none", "hold"]
"#;

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(HOLDFAST)
        .arg("lab")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The standard output of a command that succeeds.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = lab(folder, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line of error of a command that fails.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = lab(folder, arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    folder
}

#[test]
fn exported_results_have_every_parameter_of_each_run() {
    let folder = folder();
    let folder = folder.path();
    done(folder, &["run", "s.toml", "--out", "r.jsonl"]);
    done(folder, &["export", "r.jsonl", "--out", "r.csv"]);
    let text = fs::read_to_string(folder.join("r.csv")).unwrap();
    let mut rows = text.lines();
    let names = rows.next().unwrap();
    for name in ["scenario", "seed", "parameters.scheme", "goodput_mbps"] {
        assert!(names.split(',').any(|other| other == name), "{names}");
    }
    assert!(names.contains(",conditions.gateway.scheme,"), "{names}");
    assert!(
        names.ends_with(",conditions.wireless.rate_mbit_per_s"),
        "{names}"
    );
    assert!(!names.contains("series"), "{names}");
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), 6);
    assert!(rows.iter().all(|row| row.ends_with(",5")), "{text}");
    // A file of the same kind is replaced, any other one is not.
    done(folder, &["export", "r.jsonl", "--out", "r.csv"]);
    done(folder, &["export", "r.jsonl", "--out", "r.parquet"]);
    let octets = fs::read(folder.join("r.parquet")).unwrap();
    assert!(octets.starts_with(b"PAR1") && octets.ends_with(b"PAR1"));
    fs::write(folder.join("mine.csv"), "a,b\n").unwrap();
    let error = refused(folder, &["export", "r.jsonl", "--out", "mine.csv"]);
    assert!(
        error.contains("mine.csv") && error.contains("remove it"),
        "{error}"
    );
    let error = refused(folder, &["export", "r.jsonl", "--out", "r.xls"]);
    assert!(error.contains("ends in .csv or .parquet"), "{error}");
    let error = refused(folder, &["export", "s.toml", "--out", "s.csv"]);
    assert!(error.contains("s.toml, line 1: no result"), "{error}");
}

#[test]
fn a_setting_that_the_substrate_would_ignore_is_refused_in_one_line() {
    let folder = folder();
    let folder = folder.path();
    let hosts = "[hosts]\nsysctls = { \"net.ipv4.tcp_frto\" = \"0\" }\n[[sweep]]";
    fs::write(folder.join("s.toml"), SCENARIO.replace("[[sweep]]", hosts)).unwrap();
    let error = refused(folder, &["run", "s.toml"]);
    let key = "s.toml: hosts.sysctls.net.ipv4.tcp_frto: got 0, which the model would ignore";
    assert!(error.contains(key), "{error}");
    assert!(
        error.contains("; set hosts.preset beside it, or run it on live or linux"),
        "{error}"
    );
    let hosts = "[hosts]\npreset = \"reno43bsd\"\n[[sweep]]";
    fs::write(folder.join("s.toml"), SCENARIO.replace("[[sweep]]", hosts)).unwrap();
    let error = refused(folder, &["run", "s.toml", "--substrate", "live"]);
    assert!(
        error.contains("s.toml: hosts.preset: got reno43bsd, which linux"),
        "{error}"
    );
    assert!(
        error.contains("; set hosts.congestion_control beside it, or run it"),
        "{error}"
    );
}
