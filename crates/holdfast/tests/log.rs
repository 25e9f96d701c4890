// SPDX-License-Identifier: Apache-2.0
//! The log of the daemons as whoever reads it sees it, or does not.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use holdfast_net::netns::{ChildGuard, guarded_command};
use holdfast_testbed::harness::full_pipe;

/// Deadline of whatever the tests wait for.
const LIMIT: Duration = Duration::from_secs(20);

/// Each daemon with a reason not to start, without files outside the folder; and the reason.
fn no_starters(folder: &Path, interface: &str) -> Vec<(Vec<String>, String)> {
    let path = |name: &str| folder.join(name).display().to_string();
    let own = |daemon: &[&str], names: &[&str]| {
        let words = daemon.iter().chain(names);
        let words = words.copied().map(str::to_owned);
        let socket = ["--control-socket".into(), path("socket")];
        words.chain(socket).collect::<Vec<String>>()
    };
    let gateway = own(
        &["gateway", "--wireless", interface],
        &["--state-file", &path("state")],
    );
    let mobile = own(&["mobile", "--scheme", "freeze", "--iface", interface], &[]);
    let guard = ["mobile", "guard", "--interface", interface];
    let maps = ["--flows", "--closed", "--control", "--reserves", "--woken"];
    let maps = maps.iter().flat_map(|flag| [*flag, "0"]);
    let guard = guard.into_iter().chain(maps).map(str::to_owned).collect();
    // A socket cannot be there.
    let in_a_file = [
        mobile[..5].to_vec(),
        vec!["--control-socket".into(), "/dev/null/x".into()],
    ];
    let config = |daemon: &str| vec![daemon.into(), "--config".into(), path("no-such-file")];
    vec![
        (gateway, interface.to_owned()),
        (in_a_file.concat(), "/dev/null".to_owned()),
        (guard, interface.to_owned()),
        (config("gateway"), "no-such-file".to_owned()),
        (config("mobile"), "no-such-file".to_owned()),
    ]
}

/// Whether it ends by itself in its time, and not well.
fn fails(words: &[String], log: Stdio) -> bool {
    let mut command = guarded_command(env!("CARGO_BIN_EXE_holdfast"));
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(log);
    let mut daemon = ChildGuard::spawn(command).unwrap();
    let status = daemon.wait_at_most(LIMIT).unwrap();
    status.is_some_and(|status| status.code().is_some_and(|code| code != 0))
}

#[test]
fn a_daemon_that_cannot_start_ends_though_nobody_reads_why() {
    let folder = tempfile::tempdir().unwrap();
    for (words, _) in no_starters(folder.path(), "hf-unread") {
        let (_unread, log) = full_pipe().unwrap();
        assert!(fails(&words, log.into()), "{words:?}");
    }
}

#[test]
fn why_a_daemon_cannot_start_is_the_last_line_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    for (words, reason) in no_starters(folder.path(), "hf-missing") {
        let path = folder.path().join("log");
        assert!(
            fails(&words, File::create(&path).unwrap().into()),
            "{words:?}"
        );
        let log = std::fs::read_to_string(&path).unwrap();
        let last = log.lines().last().unwrap_or_default();
        let is_said = last.starts_with("holdfast: ") && last.contains(&reason);
        assert!(is_said && log.ends_with('\n'), "{words:?}: {log}");
    }
}
