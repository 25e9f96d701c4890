// SPDX-License-Identifier: Apache-2.0
//! The log of the daemons with and without a reader.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use holdfast_net::netns::{ChildGuard, guarded_command};
use holdfast_testbed::harness::full_pipe;

/// Deadline of whatever the tests wait for.
const LIMIT: Duration = Duration::from_secs(60);

/// No file can be there.
const NO_STATE_FILE: &str = "/dev/null/state";

/// Each daemon with a reason not to start, without files outside the folder; and the reason.
fn no_starters(folder: &Path, interface: &str) -> Vec<(Vec<String>, String)> {
    let path = |name: &str| folder.join(name).display().to_string();
    let own = |daemon: &[&str], names: &[&str]| {
        let arguments = daemon.iter().chain(names);
        let arguments = arguments.copied().map(str::to_owned);
        let socket = ["--control-socket".into(), path("socket")];
        arguments.chain(socket).collect::<Vec<String>>()
    };
    let gateway = own(
        &["gateway", "--wireless", interface],
        &["--state-file", NO_STATE_FILE],
    );
    let mobile = own(&["mobile", "--scheme", "freeze", "--iface", interface], &[]);
    let guard = ["mobile", "guard", "--interface", interface];
    let lent = ["--maps", "0,0,0,0,0", "--frames", "0"];
    let guard = guard.into_iter().chain(lent).map(str::to_owned).collect();
    // A socket cannot be there.
    let in_a_file = [
        mobile[..5].to_vec(),
        vec!["--control-socket".into(), "/dev/null/x".into()],
    ];
    let config = |daemon: &str| vec![daemon.into(), "--config".into(), path("no-such-file")];
    vec![
        (gateway, NO_STATE_FILE[..9].to_owned()),
        (in_a_file.concat(), "/dev/null".to_owned()),
        (guard, interface.to_owned()),
        (config("gateway"), "no-such-file".to_owned()),
        (config("mobile"), "no-such-file".to_owned()),
    ]
}

/// Whether it ends by itself in its time, and not well.
fn fails(arguments: &[String], log: Stdio) -> bool {
    let mut command = guarded_command(env!("CARGO_BIN_EXE_holdfast"));
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(log);
    let mut daemon = ChildGuard::spawn(command).unwrap();
    let status = daemon.wait_at_most(LIMIT).unwrap();
    status.is_some_and(|status| status.code().is_some_and(|code| code != 0))
}

#[test]
fn a_daemon_that_cannot_start_ends_without_a_reader_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, _) in no_starters(folder.path(), "hf-unread") {
        let (_unread, log) = full_pipe().unwrap();
        assert!(fails(&arguments, log.into()), "{arguments:?}");
    }
}

#[test]
fn why_a_daemon_cannot_start_is_the_last_line_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reason) in no_starters(folder.path(), "hf-missing") {
        let path = folder.path().join("log");
        assert!(
            fails(&arguments, File::create(&path).unwrap().into()),
            "{arguments:?}"
        );
        let log = std::fs::read_to_string(&path).unwrap();
        let last = log.lines().last().unwrap_or_default();
        let is_reported = last.starts_with("holdfast: ") && last.contains(&reason);
        assert!(is_reported && log.ends_with('\n'), "{arguments:?}: {log}");
    }
}

#[test]
fn a_filter_that_cannot_be_read_is_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut command = guarded_command(env!("CARGO_BIN_EXE_holdfast"));
    command.args(["gateway", "--wireless", "hf-missing"]);
    command.args(["--state-file", NO_STATE_FILE, "--control-socket"]);
    command.arg(folder.path().join("socket"));
    command.env("HOLDFAST_LOG", "holdfast=loud");
    command.stderr(File::create(&path).unwrap());
    let mut daemon = ChildGuard::spawn(command).unwrap();
    daemon.wait_at_most(LIMIT).unwrap().expect("it ends");
    let log = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("HOLDFAST_LOG"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains("WARN") && lines[0].contains("got \"holdfast=loud\""),
        "{log}"
    );
}

#[test]
fn in_the_journal_a_line_has_its_priority_and_no_time() {
    let folder = tempfile::tempdir().unwrap();
    for (format, is_text) in [("text", true), ("json", false)] {
        let path = folder.path().join(format);
        let log = File::create(&path).unwrap();
        let found = log.metadata().unwrap();
        let mut command = guarded_command(env!("CARGO_BIN_EXE_holdfast"));
        command.args([
            "gateway",
            "--wireless",
            "hf-missing",
            "--log-format",
            format,
        ]);
        command.args(["--state-file", NO_STATE_FILE, "--control-socket"]);
        command.arg(folder.path().join("socket"));
        // As systemd names the file behind standard error.
        command.env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()));
        command.env("HOLDFAST_LOG", "holdfast=loud");
        command.stderr(log);
        let mut daemon = ChildGuard::spawn(command).unwrap();
        daemon.wait_at_most(LIMIT).unwrap().expect("it ends");
        let log = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = log.lines().collect();
        let warning = if is_text {
            "<4>  WARN "
        } else {
            "<4>{\"timestamp\":\"20"
        };
        assert!(lines[0].starts_with(warning), "{log}");
        let reason = lines.last().unwrap();
        assert!(reason.starts_with("<3>holdfast: /dev/null"), "{log}");
    }
}
