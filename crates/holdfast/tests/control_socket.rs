// SPDX-License-Identifier: Apache-2.0
//! A daemon that cannot take a caller of its control socket: it says so, goes on, and takes it later.
#![allow(missing_docs, reason = "a test")]

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_net::netns::{NetNs, available_or_skip};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// More than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn complaints(log: &Path) -> usize {
    let log = std::fs::read_to_string(log).unwrap();
    log.lines()
        .filter(|line| line.contains("control socket"))
        .count()
}

/// A caller who has asked.
fn ask(socket: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(b"{\"command\":\"status\"}\n")?;
    Ok(stream)
}

fn is_answered(mut stream: UnixStream) -> bool {
    let mut reply = String::new();
    let read = stream.read_to_string(&mut reply);
    read.is_ok() && reply.contains("\"reply\":\"mobile\"")
}

#[test]
fn a_daemon_without_descriptors_fills_no_log_and_takes_its_caller_later() {
    if !available_or_skip("a_daemon_without_descriptors_fills_no_log_and_takes_its_caller_later") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [log, socket] = ["log", "socket"].map(|name| folder.path().join(name));
    let ns = NetNs::new().unwrap();
    let mut command = ns.command(env!("CARGO_BIN_EXE_holdfast"));
    command
        .args(["mobile", "--iface", "none", "--scheme", "fast-retransmit"])
        .arg("--control-socket")
        .arg(&socket)
        .stderr(File::create(&log).unwrap());
    let daemon = ns.spawn_guarded(command).unwrap();
    await_that("the daemon answers", || ask(&socket).is_ok_and(is_answered));
    let pid = Pid::from_raw(daemon.id().try_into().unwrap());
    let few = Rlimit {
        // As many as are open from the start.
        current: Some(3),
        ..getrlimit(Resource::Nofile)
    };
    let enough = prlimit(pid, Resource::Nofile, few).unwrap();
    let begun = Instant::now();
    let stream = ask(&socket).unwrap();
    await_that("it says so, again and again", || complaints(&log) >= 3);
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(1_500), "thrice in {took:?}");
    prlimit(pid, Resource::Nofile, enough).unwrap();
    assert!(is_answered(stream));
}
