// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab report` as a user runs it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const CLAIMS: &str = r#"
title = "A paper"
[tolerance]
transfer_s = { percent = 5 }
[[table]]
id = "times"
metric = "transfer_s"
scenario = "s.toml"
variants = "scheme"
column = "outage_s"
columns = [1, 2]
row = [
    { where = { scheme = "none" }, printed = [1.5, 3.0] },
    { where = { scheme = "hold" }, printed = [1.5, 2.5] },
]
"#;

const SCENARIO: &str = r#"
description = "one outage"
record = ["cwnd", "sequence", "link-state"]
[transfer]
bytes = 400_000
limit_s = 30
[wireless]
rate_mbit_per_s = 20
delay_ms = 10
[[sweep]]
name = "scheme"
key = "gateway.scheme"
values = ["none", "hold"]
[[sweep]]
name = "outage_s"
points = [
    { name = 1, set = { "wireless.outages" = { kind = "list", list = [{ at_s = 0.1, for_s = 1 }] } } },
    { name = 2, set = { "wireless.outages" = { kind = "list", list = [{ at_s = 0.1, for_s = 2 }] } } },
]
"#;

fn folder(scenario: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let paper = folder.path().join("papers/p-1999");
    fs::create_dir_all(&paper).unwrap();
    fs::write(paper.join("claims.toml"), CLAIMS).unwrap();
    fs::write(paper.join("s.toml"), scenario).unwrap();
    folder
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command
        .args(["lab", "report"])
        .args(arguments)
        .current_dir(folder);
    command
}

fn report(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn without_arguments_it_runs_what_the_page_needs_and_writes_page_and_results() {
    let folder = folder(SCENARIO);
    let output = report(folder.path(), &[]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "report/p-1999.html\n"
    );
    let out = folder.path().join("report");
    assert_eq!(names(&out), ["p-1999.html", "p-1999.jsonl"]);
    let page = fs::read_to_string(out.join("p-1999.html")).unwrap();
    assert!(page.contains("holdfast lab run papers/p-1999/s.toml --out s-model.jsonl"));
    assert!(page.contains("received sequence number"));
    assert_eq!(page.matches("<td class=\"cell ").count(), 4);
    assert_eq!(
        fs::read_to_string(out.join("p-1999.jsonl"))
            .unwrap()
            .lines()
            .count(),
        4
    );
}

#[test]
fn the_same_results_give_the_same_page_without_a_run() {
    let folder = folder(SCENARIO);
    assert!(
        report(folder.path(), &["--paper", "p-1999", "--out", "a"])
            .status
            .success()
    );
    let lines = fs::read_to_string(folder.path().join("a/p-1999.jsonl")).unwrap();
    // A value that no run gives: if it is on the page, nothing was run again.
    let first = lines.lines().next().unwrap();
    let mut value: serde_json::Value = serde_json::from_str(first).unwrap();
    value["transfer_s"] = 1234.5.into();
    let changed = lines.replacen(first, &value.to_string(), 1);
    fs::write(folder.path().join("given.jsonl"), &changed).unwrap();
    for out in ["b", "c"] {
        let output = report(folder.path(), &["--results", "given.jsonl", "--out", out]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let page = |out: &str| fs::read_to_string(folder.path().join(out).join("p-1999.html")).unwrap();
    assert!(page("b").contains(">1234.5<"));
    assert!(page("b").contains("holdfast lab report --results given.jsonl"));
    assert_eq!(page("b"), page("c"));
    assert!(!page("a").contains("1234.5"));
}

#[test]
fn a_run_that_two_files_have_counts_once() {
    let folder = folder(SCENARIO);
    assert!(report(folder.path(), &["--out", "a"]).status.success());
    let lines = fs::read_to_string(folder.path().join("a/p-1999.jsonl")).unwrap();
    let linux = lines.replace("\"substrate\":\"model\"", "\"substrate\":\"linux\"");
    fs::write(folder.path().join("linux.jsonl"), &linux).unwrap();
    fs::write(folder.path().join("both.jsonl"), lines + &linux).unwrap();
    let output = report(
        folder.path(),
        &["--results", "linux.jsonl", "both.jsonl", "--out", "b"],
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let page = fs::read_to_string(folder.path().join("b/p-1999.html")).unwrap();
    assert!(page.contains("model, 4 runs, linux, 4 runs"));
}

#[test]
fn results_about_something_else_are_refused_in_one_line() {
    let folder = folder(SCENARIO);
    let refused = |text: &str| {
        fs::write(folder.path().join("x.jsonl"), text).unwrap();
        let output = report(folder.path(), &["--results", "x.jsonl"]);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused("{\"no\": \"result\"}\n");
    assert!(
        error.starts_with("holdfast: --results: x.jsonl, line 1: no result of `holdfast lab run`"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    let error = refused("");
    assert_eq!(
        error,
        "holdfast: --results: x.jsonl has no result that is about p-1999; takes those of their scenarios\n"
    );
    assert!(!folder.path().join("report").exists());
}

#[test]
fn an_interrupted_report_writes_nothing() {
    // Enough to be interrupted in: each run would take hours.
    let folder = folder(
        &SCENARIO
            .replace("400_000", "1_000_000_000_000")
            .replace("limit_s = 30", "limit_s = 90_000"),
    );
    let mut child = command(folder.path(), &["--jobs", "1"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The folder is there when the runs begin.
    let out = folder.path().join("report");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !out.exists() {
        assert!(std::time::Instant::now() < deadline && child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let status = child.wait().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(status.code(), Some(130), "{line}{rest}");
    assert_eq!(names(&out), Vec::<String>::new());
}
