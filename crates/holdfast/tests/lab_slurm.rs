// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab run --executor slurm` with commands that stand for Slurm's. With Slurm itself:
//! scripts/slurm_test.sh.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

const SCENARIO: &str = "[transfer]\nbytes = 1000\n[wireless]\n";

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The earlier command died, and its job goes on.
#[test]
fn a_resumed_command_that_is_interrupted_while_it_waits_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    let parts = folder.join("r.jsonl.parts");
    fs::create_dir(&parts).unwrap();
    fs::write(parts.join("job"), "7").unwrap();
    // The job runs until it is cancelled.
    let cancelled = folder.join("cancelled");
    let shown = cancelled.display();
    script(
        &folder.join("squeue"),
        &format!("[ -e {shown} ] || echo 'RUNNING (None)'"),
    );
    script(&folder.join("scancel"), &format!(": > {shown}"));
    let path = std::env::var("PATH").unwrap();
    let mut child = Command::new(HOLDFAST)
        .args([
            "lab",
            "run",
            "s.toml",
            "--executor",
            "slurm",
            "--resume",
            "--out",
            "r.jsonl",
        ])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", folder.display()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let waits = lines.find(|line| line.as_ref().unwrap().contains("waits for job 7"));
    assert!(waits.is_some());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(cancelled.exists());
    assert!(!parts.exists());
}
