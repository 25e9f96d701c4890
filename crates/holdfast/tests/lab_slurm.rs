// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab run --executor slurm` with commands that stand for Slurm's. With Slurm itself:
//! scripts/slurm_test.sh.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use holdfast_testbed::harness::write_script;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

const SCENARIO: &str = "[transfer]\nbytes = 1000\n[wireless]\n";

fn script(path: &Path, text: &str) {
    write_script(path, &format!("#!/bin/sh\n{text}\n")).unwrap();
}

/// A command of this folder that finds Slurm's commands, or none, in `path`.
fn slurm(folder: &Path, path: &str) -> Command {
    let mut command = Command::new(HOLDFAST);
    command
        .args(["lab", "run", "s.toml", "--executor", "slurm"])
        .args(["--out", "r.jsonl"])
        .current_dir(folder)
        .env("PATH", path);
    command
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
    let mut child = slurm(folder, &format!("{}:{path}", folder.display()))
        .arg("--resume")
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

#[test]
fn without_slurms_commands_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    let output = slurm(folder, &folder.display().to_string())
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = "squeue: cannot be started; --executor slurm needs Slurm's commands here";
    assert!(message.contains(expected), "{message}");
    let left: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["s.toml"]);
}

/// Eight runs.
const SWEEP: &str = "repetitions = 4\n[transfer]\nbytes = 200_000\n[wireless]\nloss = 0.05\n\
    [[sweep]]\nname = \"delay_ms\"\nkey = \"wireless.delay_ms\"\nvalues = [10, 40]\n";

/// The first job loses its second task, and its third one is started again when it has ended.
#[test]
fn runs_of_a_lost_task_are_submitted_again_and_the_results_are_those_of_a_run_here() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SWEEP).unwrap();
    let shown = folder.display();
    // Runs the tasks at once: --array=1-N. The number of a job is how many there were.
    script(
        &folder.join("sbatch"),
        &format!(
            "for word; do case $word in --array=1-*) last=${{word#--array=1-}};; esac; done\n\
             echo \"$last\" >> {shown}/jobs\n\
             job=$(wc -l < {shown}/jobs)\n\
             cat > {shown}/task\n\
             for task in $(seq \"$last\"); do\n\
             [ \"$job $task\" = '1 2' ] && continue\n\
             SLURM_ARRAY_TASK_ID=$task sh {shown}/task > {shown}/task-log 2>&1 || exit 1\n\
             if [ \"$job $task\" = '1 3' ]; then\n\
             SLURM_ARRAY_TASK_ID=$task sh {shown}/task > {shown}/task-log 2>&1 || exit 1\n\
             fi\n\
             done\n\
             echo \"$job\""
        ),
    );
    script(&folder.join("squeue"), "");
    let path = std::env::var("PATH").unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(HOLDFAST)
            .args(["lab", "run", "s.toml", "--out"])
            .args(arguments)
            .current_dir(folder)
            .env("PATH", format!("{shown}:{path}"))
            .output()
            .unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{messages}");
        messages
    };
    run(&["here.jsonl"]);
    let slurm = ["slurm.jsonl", "--executor", "slurm", "--workers", "3"];
    let messages = run(&slurm);
    assert!(
        messages.contains("job 1: 3 of 8 runs are missing: submitted again"),
        "{messages}"
    );
    // Three tasks, then one for each run of the lost task.
    let jobs = fs::read_to_string(folder.join("jobs")).unwrap();
    assert_eq!(jobs, "3\n3\n");
    let results = fs::read_to_string(folder.join("slurm.jsonl")).unwrap();
    let here = fs::read_to_string(folder.join("here.jsonl")).unwrap();
    assert_eq!(results.lines().count(), 8);
    assert_eq!(results, here);
    assert!(!folder.join("slurm.jsonl.parts").exists());
    // All are there: nothing is submitted.
    run(&[&slurm[..], &["--resume"]].concat());
    assert_eq!(fs::read_to_string(folder.join("jobs")).unwrap(), jobs);
    let resumed = fs::read_to_string(folder.join("slurm.jsonl")).unwrap();
    assert_eq!(resumed, here);
}
