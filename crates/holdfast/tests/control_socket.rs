// SPDX-License-Identifier: Apache-2.0
//! The mobile's daemon and its control socket: callers that it cannot take now, callers that ask
//! nothing, signals, and what lies where the socket is to be.
#![allow(missing_docs, reason = "a test")]

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use holdfast_net::netns::{ChildGuard, NetNs, available_or_skip};
use holdfast_net::virtual_kernel::goes_on_here;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tempfile::TempDir;

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

/// A caller that has sent its request.
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

/// A mobile's daemon that has nothing to do, in a namespace of its own.
struct Mobile {
    ns: NetNs,
    daemon: ChildGuard,
    folder: TempDir,
}

impl Mobile {
    /// Starts it and waits until it answers.
    fn start() -> Self {
        let (ns, folder) = (NetNs::new().unwrap(), tempfile::tempdir().unwrap());
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = mobile_on(&ns, &folder.path().join("socket"));
        command.stderr(log);
        let daemon = ns.spawn_guarded(command).unwrap();
        let mobile = Self { ns, daemon, folder };
        mobile.await_answer();
        mobile
    }

    fn await_answer(&self) {
        let answers = || ask(&self.path("socket")).is_ok_and(is_answered);
        await_that("the daemon answers", answers);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }
}

/// A mobile's daemon on an interface that is not there.
fn mobile_on(ns: &NetNs, socket: &Path) -> Command {
    // Whatever the umask.
    let mut command = ns.command("sh");
    command
        .args([
            "-c",
            "umask 0; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_holdfast"),
        ])
        .args(["mobile", "--iface", "none", "--scheme", "fast-retransmit"])
        .arg("--control-socket")
        .arg(socket);
    command
}

#[test]
fn a_daemon_without_descriptors_fills_no_log_and_takes_its_caller_later() {
    // It judges a time.
    if !goes_on_here() {
        return;
    }
    let mobile = Mobile::start();
    let (log, socket) = (mobile.path("log"), mobile.path("socket"));
    let pid = Pid::from_raw(mobile.daemon.id().try_into().unwrap());
    let few = Rlimit {
        // As many as are open from the start.
        current: Some(3),
        ..getrlimit(Resource::Nofile)
    };
    let enough = prlimit(pid, Resource::Nofile, few).unwrap();
    let begun = Instant::now();
    let stream = ask(&socket).unwrap();
    await_that("it logs that, again and again", || complaints(&log) >= 3);
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(1_500), "thrice in {took:?}");
    prlimit(pid, Resource::Nofile, enough).unwrap();
    assert!(is_answered(stream));
}

#[test]
fn forty_silent_callers_block_no_answer() {
    // It judges a time.
    if !goes_on_here() {
        return;
    }
    let mobile = Mobile::start();
    let socket = mobile.path("socket");
    let silent: Vec<_> = (0..40)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    let begun = Instant::now();
    assert!(is_answered(ask(&socket).unwrap()));
    // Each of them may stay for 5 s; served one after the other, for 200 ms.
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    drop(silent);
}

#[test]
fn a_hangup_ends_nothing_and_other_signals_remove_the_socket() {
    if !available_or_skip("a_hangup_ends_nothing_and_other_signals_remove_the_socket") {
        return;
    }
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT] {
        let mut mobile = Mobile::start();
        let socket = mobile.path("socket");
        let mode = socket.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        mobile.daemon.signal(libc::SIGHUP).unwrap();
        await_that("the settings are read again", || {
            mobile.log().contains("the settings were read again")
        });
        mobile.await_answer();
        mobile.daemon.signal(signal).unwrap();
        let ended = mobile.daemon.wait_at_most(LIMIT).unwrap();
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
        assert!(!socket.exists(), "signal {signal}");
    }
}

#[test]
fn an_interface_takes_one_mobile() {
    if !available_or_skip("an_interface_takes_one_mobile") {
        return;
    }
    let mut mobile = Mobile::start();
    let refusal = || {
        let output = mobile_on(&mobile.ns, &mobile.path("second")).output();
        String::from_utf8(output.unwrap().stderr).unwrap()
    };
    let error = refusal();
    assert!(
        error.contains("another mobile runs on interface none"),
        "{error}"
    );
    // In another namespace an interface of this name is another one.
    let _elsewhere = Mobile::start();
    // One that was killed holds nothing.
    mobile.daemon.kill().unwrap();
    let command = mobile_on(&mobile.ns, &mobile.path("socket"));
    mobile.daemon = mobile.ns.spawn_guarded(command).unwrap();
    mobile.await_answer();
}

#[test]
fn a_file_in_place_of_the_socket_stays() {
    if !available_or_skip("a_file_in_place_of_the_socket_stays") {
        return;
    }
    let (ns, folder) = (NetNs::new().unwrap(), tempfile::tempdir().unwrap());
    let refusal = |path: &Path| {
        let output = mobile_on(&ns, path).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        error.lines().last().unwrap_or_default().to_owned()
    };
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let error = refusal(&file);
    assert!(
        error.contains("is no socket") && error.contains("--control-socket"),
        "{error}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let missing = folder.path().join("nope");
    let error = refusal(&missing.join("socket"));
    assert!(
        error.contains("nope: there is no such directory"),
        "{error}"
    );
    assert!(!missing.exists());
}
