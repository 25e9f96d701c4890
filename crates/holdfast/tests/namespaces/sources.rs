// SPDX-License-Identifier: Apache-2.0
//! The link sources of a mobile's daemon: sources that fail, and a script.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holdfast_testbed::harness::Harness;
use holdfast_testbed::link_process::EmulatedLink;

use super::await_that;
use super::mobile_host::{Mobile, plain};
use super::mobile_wake_senders::children;

/// A script of these lines.
fn program(harness: &Harness, text: &str) -> PathBuf {
    let program = harness.folder().join("link-watch");
    std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// A named pipe.
fn pipe(harness: &Harness) -> PathBuf {
    let pipe = harness.folder().join("link-reports");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    pipe
}

/// A script that prints what is written into a pipe, and the pipe.
fn script(harness: &Harness) -> (PathBuf, PathBuf) {
    let pipe = pipe(harness);
    (
        program(harness, &format!("exec cat {}", pipe.display())),
        pipe,
    )
}

/// A daemon with this script as a link source.
fn daemon_with_script(
    harness: &Harness,
    program: &Path,
    scheme: &str,
    mobile: &str,
    sources: &str,
) -> Mobile {
    let config = harness.folder().join("mobile.toml");
    let program = program.display();
    let text = format!("[mobile]\n{mobile}\n[sources]\nscript = \"{program}\"\n{sources}\n");
    std::fs::write(&config, text).unwrap();
    Mobile::start(harness, scheme, &["--config", config.to_str().unwrap()])
}

/// A daemon with a script as a link source and these settings, and the pipe to the script.
pub(super) fn daemon_with_pipe(
    harness: &Harness,
    scheme: &str,
    mobile: &str,
    sources: &str,
) -> (Mobile, File) {
    let (program, pipe) = script(harness);
    let daemon = daemon_with_script(harness, &program, scheme, mobile, sources);
    // Opened for reading too, so that `open` does not wait for the script.
    let pipe = OpenOptions::new().read(true).write(true).open(pipe);
    let pipe = pipe.unwrap();
    (daemon, pipe)
}

/// The status of a source.
fn source(daemon: &Mobile, name: &str) -> serde_json::Value {
    let status = daemon.await_status();
    let sources = status["sources"].as_array().expect("sources").clone();
    let found = sources.into_iter().find(|source| source["name"] == name);
    found.unwrap_or_default()
}

pub(super) fn link(daemon: &Mobile) -> serde_json::Value {
    daemon.await_status()["link"].clone()
}

#[test]
fn a_script_reports_the_link_while_other_sources_fail() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    // Both sources fail: the interface is no Wi-Fi device, and no modem has it.
    let sources = "wifi = true\nmodem = \"auto\"";
    let (daemon, mut pipe) = daemon_with_pipe(&harness, "freeze", "", sources);
    await_that("carrier and script run", || {
        source(&daemon, "carrier")["runs"] == true && source(&daemon, "script")["runs"] == true
    });
    for (line, state) in [
        ("going-down-soon 60000", "going-down-soon"),
        // The warning was a false alarm.
        ("up", "up"),
        ("going-down-soon 60000", "going-down-soon"),
        ("down", "down"),
        ("up", "up"),
    ] {
        writeln!(pipe, "{line}").unwrap();
        await_that(line, || link(&daemon) == state);
    }
    for name in ["wifi", "modem"] {
        await_that("the source has failed twice", || {
            source(&daemon, name)["failures"].as_u64().unwrap() >= 2
        });
        let problem = source(&daemon, name)["problem"].to_string();
        println!("{name}: {problem}");
        assert!(!problem.contains("\\n"), "{problem}");
    }
    // The report of a script that has ended is valid for a while; the script is restarted.
    writeln!(pipe, "down").unwrap();
    await_that("down", || link(&daemon) == "down");
    drop(pipe);
    await_that("the report expires", || link(&daemon) == "up");
    assert!(source(&daemon, "script")["failures"].as_u64() >= Some(1));
}

#[test]
fn a_script_ends_with_a_daemon_that_is_killed() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    // The script reads and writes nothing, so a closed pipe does not end it.
    let program = program(&harness, "exec sleep 600");
    let mut daemon = daemon_with_script(&harness, &program, "fast-retransmit", "", "");
    await_that("the script runs", || {
        source(&daemon, "script")["runs"] == true
    });
    let scripts = children(daemon.child.id());
    let [script] = scripts[..] else {
        panic!("one child, the script: {scripts:?}");
    };
    daemon.child.kill().unwrap();
    // A zombie has no command line either.
    let command_line = format!("/proc/{script}/cmdline");
    await_that("the script has ended", || {
        std::fs::read(&command_line).unwrap_or_default().is_empty()
    });
}

/// The daemon has read the flood after this time.
const FLOOD_MAX: Duration = Duration::from_secs(60);

#[test]
fn a_script_that_floods_the_daemon_does_not_block_its_status() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let pipe = pipe(&harness);
    // After a line from the pipe: 10 MB of `up`, as fast as the daemon reads; then a `down`.
    let text = format!(
        "read go < {}\nyes up | head -n 3333333\necho down\nexec cat",
        pipe.display()
    );
    let program = program(&harness, &text);
    let daemon = daemon_with_script(&harness, &program, "freeze", "", "");
    let begun = Instant::now();
    std::fs::write(pipe, "go\n").unwrap();
    let (mut requests, mut longest) = (0, Duration::ZERO);
    // The next request follows each answer at once: in virtual time a wait lasts as long as the flood.
    let script = loop {
        let sent_at = Instant::now();
        let script = source(&daemon, "script");
        let events = script["events"].as_u64().unwrap_or(0);
        if (1..3_333_333).contains(&events) {
            longest = longest.max(sent_at.elapsed());
            requests += 1;
        }
        if script["reports_down"] == true {
            break script;
        }
        assert!(begun.elapsed() < FLOOD_MAX, "{script}");
    };
    println!(
        "10 MB of lines in {:?}; {requests} requests meanwhile, the slowest took {longest:?}: {script}",
        begun.elapsed()
    );
    assert_eq!(script["failures"], 0);
    assert_eq!(script["events"], 3_333_334, "{script}");
    assert!(requests > 0, "no request was answered meanwhile");
    assert_eq!(link(&daemon), "down");
}
