// SPDX-License-Identifier: Apache-2.0
//! The log of the daemons as whoever reads it sees it, or does not.

use std::process::Stdio;
use std::time::Duration;

use holdfast_lab::harness::full_pipe;
use holdfast_net::netns::{ChildGuard, guarded_command};

/// Deadline of whatever the tests wait for.
const LIMIT: Duration = Duration::from_secs(20);

/// Each daemon, with a reason why it cannot start that it finds after its log is there.
const NO_STARTERS: [&[&str]; 3] = [
    &["gateway", "--wireless", "no-such-if"],
    &[
        "mobile",
        "--scheme",
        "freeze",
        "--iface",
        "no-such-if",
        "--control-socket",
        "/dev/null/socket",
    ],
    &[
        "mobile",
        "guard",
        "--interface",
        "no-such-if",
        "--flows",
        "0",
        "--closed",
        "0",
        "--control",
        "0",
        "--reserves",
        "0",
        "--woken",
        "0",
    ],
];

/// How one ends, and how soon.
fn ends(words: &[&str], log: Stdio) -> Option<i32> {
    let mut command = guarded_command(env!("CARGO_BIN_EXE_holdfast"));
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    let mut daemon = ChildGuard::spawn(command).unwrap();
    daemon
        .wait_at_most(LIMIT)
        .unwrap()
        .and_then(|status| status.code())
}

#[test]
fn a_daemon_that_cannot_start_ends_though_nobody_reads_why() {
    for words in NO_STARTERS {
        let (_unread, log) = full_pipe().unwrap();
        assert_eq!(ends(words, log.into()), Some(1), "{words:?}");
    }
}

#[test]
fn why_a_daemon_cannot_start_is_the_last_line_of_its_log() {
    for words in NO_STARTERS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = std::fs::File::create(&path).unwrap();
        assert_eq!(ends(words, log.into()), Some(1), "{words:?}");
        let log = std::fs::read_to_string(&path).unwrap();
        let last = log.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("holdfast: ") && log.ends_with('\n'),
            "{words:?}: {log}"
        );
    }
}
