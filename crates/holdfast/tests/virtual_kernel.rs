// SPDX-License-Identifier: Apache-2.0
//! `holdfast` in the virtual kernel that `holdfast lab setup` has built. These tests need no
//! root.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use holdfast_lab::virtual_kernel::{Job, Outcome, VirtualKernel, available_or_skip};
use holdfast_testbed::stop::StopFlag;
use tempfile::TempDir;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("holdfast-virtual-")
        .tempdir()
        .unwrap()
}

fn job(folder: &Path, program: &str, arguments: &[&str]) -> Job {
    Job {
        arguments: arguments.iter().map(ToString::to_string).collect(),
        limit: Duration::from_secs(300),
        ..Job::new(Path::new(HOLDFAST), program, folder)
    }
}

fn run(kernel: &VirtualKernel, job: &Job) -> (Outcome, String) {
    let outcome = kernel.run(job, &StopFlag::default()).unwrap();
    let text = fs::read_to_string(&outcome.stdout).unwrap();
    (outcome, text)
}

#[test]
fn sleeping_in_a_virtual_kernel_costs_no_time() {
    let Some(kernel) = available_or_skip("sleeping_in_a_virtual_kernel_costs_no_time") else {
        return;
    };
    let own = folder();
    let (outcome, text) = run(
        &kernel,
        &job(own.path(), "sh", &["-c", "sleep 1000; uname -r"]),
    );
    assert_eq!(outcome.exit_code, Some(0));
    assert_eq!(text.trim(), kernel.release());
    assert!((1000.0..1000.1).contains(&outcome.virtual_s), "{outcome:?}");
    assert!(outcome.wall_s < 60.0, "{outcome:?}");
}

#[test]
fn an_outcome_has_the_exit_status_and_the_hosts_files_are_unchanged() {
    let Some(kernel) =
        available_or_skip("an_outcome_has_the_exit_status_and_the_hosts_files_are_unchanged")
    else {
        return;
    };
    let own = folder();
    let name = own.path().file_name().unwrap().to_str().unwrap();
    let mark = format!("{name}-mark");
    let script = format!("echo in > inside; echo x > /tmp/{mark}; touch /etc/{mark} || exit 7");
    let (outcome, _) = run(&kernel, &job(own.path(), "sh", &["-c", &script]));
    assert_eq!(outcome.exit_code, Some(7), "{outcome:?}");
    assert!(
        outcome
            .require_success()
            .unwrap_err()
            .to_string()
            .contains("Read-only")
    );
    assert_eq!(
        fs::read_to_string(own.path().join("inside")).unwrap(),
        "in\n"
    );
    assert!(!std::env::temp_dir().join(&mark).exists());
    let (outcome, _) = run(&kernel, &job(own.path(), "sh", &["-c", "kill -9 $$"]));
    assert_eq!((outcome.exit_code, outcome.signal), (None, Some(9)));
    let nowhere = job(own.path(), "no-such-program", &[]);
    let error = kernel.run(&nowhere, &StopFlag::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("no-such-program: no such program"),
        "{error}"
    );
}

#[test]
fn a_command_is_ended_at_its_limit() {
    let Some(kernel) = available_or_skip("a_command_is_ended_at_its_limit") else {
        return;
    };
    let own = folder();
    let endless = Job {
        limit: Duration::from_secs(2),
        ..job(own.path(), "sh", &["-c", "while :; do :; done"])
    };
    let error = kernel.run(&endless, &StopFlag::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sh in the virtual kernel ends: not within 2 s"
    );
}

#[test]
fn every_congestion_control_can_be_chosen() {
    let Some(kernel) = available_or_skip("every_congestion_control_can_be_chosen") else {
        return;
    };
    let own = folder();
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let (_, text) = run(&kernel, &job(own.path(), "cat", &[path]));
    let all: Vec<&str> = text.split_whitespace().collect();
    for name in [
        "cubic", "reno", "bbr", "vegas", "westwood", "htcp", "dctcp", "nv", "cdg",
    ] {
        assert!(all.contains(&name), "{name} of {all:?}");
    }
}

#[test]
fn a_transfer_through_an_outage_is_the_same_to_the_nanosecond_with_the_same_seed() {
    let name = "a_transfer_through_an_outage_is_the_same_to_the_nanosecond_with_the_same_seed";
    let Some(kernel) = available_or_skip(name) else {
        return;
    };
    let demo = [
        "demo",
        "--scheme",
        "hold",
        "--outages",
        "1",
        "--megabytes",
        "10",
        "--json",
        "-",
    ];
    let measured = |seed| {
        let own = folder();
        let job = Job {
            seed,
            ..job(own.path(), HOLDFAST, &demo)
        };
        let (outcome, text) = run(&kernel, &job);
        outcome.require_success().unwrap();
        text
    };
    let first = measured(1);
    let runs: serde_json::Value = serde_json::from_str(&first).unwrap();
    let stall = |run: usize| runs["runs"][run]["stalls_s"][0].as_f64().unwrap();
    assert_eq!(runs["runs"][1]["name"], "TCP download, hold");
    assert!(stall(1) < 0.2 && stall(1) < stall(0), "{first}");
    assert_eq!(measured(1), first);
    assert_ne!(measured(2), first);
}

#[test]
fn the_randomness_inside_depends_on_the_seed_and_on_no_path() {
    let Some(kernel) =
        available_or_skip("the_randomness_inside_depends_on_the_seed_and_on_no_path")
    else {
        return;
    };
    let random = |holdfast: &Path, seed: u64| {
        let own = folder();
        let drawn = Job {
            holdfast: holdfast.to_owned(),
            seed,
            ..job(own.path(), "od", &["-An", "-tx8", "-N16", "/dev/urandom"])
        };
        run(&kernel, &drawn).1
    };
    let elsewhere = folder();
    let copy = elsewhere.path().join("a longer name with spaces");
    fs::copy(HOLDFAST, &copy).unwrap();
    let usual = random(Path::new(HOLDFAST), 1);
    assert_eq!(usual.split_whitespace().count(), 2, "{usual}");
    assert_eq!(random(&copy, 1), usual);
    assert_ne!(random(&copy, 2), usual);
}

/// `holdfast lab exec` in this folder.
fn exec(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(HOLDFAST);
    command.args(["lab", "exec"]).args(arguments);
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn a_script_of_the_working_directory_is_found_by_its_path() {
    if available_or_skip("a_script_of_the_working_directory_is_found_by_its_path").is_none() {
        return;
    }
    let own = folder();
    let script = own.path().join("my-test.sh");
    fs::write(&script, "#!/bin/sh\necho $TRIES $1; ls\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    // The example of `holdfast lab exec --help`.
    let example = [
        "--seed",
        "7",
        "--env",
        "TRIES=3",
        "--",
        "./my-test.sh",
        "fast",
    ];
    let output = exec(own.path(), &example);
    assert!(output.stdout.starts_with(b"3 fast\n"), "{output:?}");
    // The path is from here, whatever the program's current folder is.
    let other = own.path().join("a, other");
    fs::create_dir(&other).unwrap();
    let output = exec(
        own.path(),
        &["--folder", "a, other", "./my-test.sh", "slow"],
    );
    assert_eq!(output.stdout, b"slow\n", "{output:?}");
}

#[test]
fn the_files_of_a_folder_stay_as_they_are() {
    if available_or_skip("the_files_of_a_folder_stay_as_they_are").is_none() {
        return;
    }
    let own = folder();
    let names = [
        "stdout",
        "stderr",
        "console",
        "virtual-job.json",
        "virtual-outcome.json",
        "virtual-init",
        "virtual-folder",
        ".uml",
    ];
    for name in names {
        fs::write(own.path().join(name), name).unwrap();
    }
    let output = exec(
        own.path(),
        &["--folder", ".", "sh", "-c", "cat stdout; echo in > inside"],
    );
    assert_eq!(output.stdout, b"stdout");
    for name in names {
        assert_eq!(fs::read(own.path().join(name)).unwrap(), name.as_bytes());
    }
    assert_eq!(fs::read(own.path().join("inside")).unwrap(), b"in\n");
    assert_eq!(fs::read_dir(own.path()).unwrap().count(), names.len() + 1);
}

#[test]
fn a_current_folder_that_is_none_is_refused_by_name() {
    if available_or_skip("a_current_folder_that_is_none_is_refused_by_name").is_none() {
        return;
    }
    let own = folder();
    for folder in ["nowhere", "/etc/hostname"] {
        let mut command = Command::new(HOLDFAST);
        command.args(["lab", "exec", "--folder", folder, "true"]);
        let output = command.current_dir(own.path()).output().unwrap();
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(line, format!("holdfast: {folder}: no such folder\n"));
    }
}
