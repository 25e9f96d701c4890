// SPDX-License-Identifier: Apache-2.0
//! What a gateway reports to its service manager.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::{ChildGuard, guarded_command};
use holdfast_testbed::harness::{Harness, SOCKET_LIMIT};
use holdfast_testbed::link_process::GATEWAY_IF;

use super::mobile_host::Mobile;
use super::{HOLDFAST, await_that, topology, wired};

const SECOND_NS: u64 = 1_000_000_000;

/// Half of it is the time between two signs of life.
const WATCHDOG: Duration = Duration::from_secs(1);

/// A gateway, and the service manager's socket.
struct Service {
    gateway: ChildGuard,
    socket: UnixDatagram,
}

impl Service {
    fn start(harness: &Harness) -> Self {
        let folder = harness.folder();
        let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
        socket.set_read_timeout(Some(SOCKET_LIMIT)).unwrap();
        let config = folder.join("gateway.toml");
        std::fs::write(&config, "").unwrap();
        let mut command = harness.topology.gateway().command(HOLDFAST);
        command.args(["gateway", "--wireless", GATEWAY_IF, "--config"]);
        command.arg(config).arg("--control-socket");
        command.arg(folder.join("gateway.sock")).arg("--state-file");
        command.arg(folder.join("gateway.state"));
        command.env("NOTIFY_SOCKET", folder.join("notify"));
        command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        command.stderr(Stdio::null());
        let gateway = harness.topology.gateway().spawn_guarded(command).unwrap();
        Self { gateway, socket }
    }

    /// The next report.
    fn next(&self) -> String {
        let mut report = [0; 4096];
        let length = self.socket.recv(&mut report).expect("a report in time");
        String::from_utf8(report[..length].to_vec()).unwrap()
    }

    /// The next report with this text.
    fn expect(&self, text: &str) -> String {
        loop {
            let report = self.next();
            if report.contains(text) {
                return report;
            }
            assert!(
                report.contains("WATCHDOG=1") || report.contains("STATUS="),
                "{text} is expected: {report}"
            );
        }
    }

    /// The signs of life within this time.
    fn lives(&self, within_ns: u64) -> usize {
        let end_ns = monotonic_ns() + within_ns;
        let mut lives = 0;
        while let Some(left_ns) = end_ns.checked_sub(monotonic_ns()).filter(|left| *left > 0) {
            let left = Duration::from_nanos(left_ns);
            self.socket.set_read_timeout(Some(left)).unwrap();
            let mut report = [0; 4096];
            if let Ok(length) = self.socket.recv(&mut report) {
                lives += usize::from(report[..length].starts_with(b"WATCHDOG=1"));
            }
        }
        self.socket.set_read_timeout(Some(SOCKET_LIMIT)).unwrap();
        lives
    }
}

#[test]
fn a_gateway_reports_what_it_waits_for_what_it_serves_reloads_and_its_end() {
    in_virtual_kernel!();
    let mut harness = topology(&wired(1500), None);
    let removed = harness.topology.remove_wireless().unwrap();
    let mut service = Service::start(&harness);
    let waits = format!("STATUS=waits for the interface {GATEWAY_IF}");
    assert!(service.expect("READY=1").contains(&waits));
    let settings = wired(1500);
    let topology = &mut harness.topology;
    topology.make_wireless_again(&settings, &removed).unwrap();
    service.expect(&format!("STATUS=serves {GATEWAY_IF}"));
    topology.remove_wireless().unwrap();
    service.expect(&waits);
    topology.make_wireless_again(&settings, &removed).unwrap();
    service.expect(&format!("STATUS=serves {GATEWAY_IF}"));
    // A retry may attach without a report of the interface: each sign of life has the status.
    let alive = service.expect("WATCHDOG=1");
    assert!(
        alive.contains(&format!("STATUS=serves {GATEWAY_IF}")),
        "{alive}"
    );
    service.gateway.signal(libc::SIGHUP).unwrap();
    assert!(service.expect("RELOADING=1").contains("MONOTONIC_USEC="));
    service.expect("READY=1");
    service.gateway.signal(libc::SIGTERM).unwrap();
    service.expect("STOPPING=1");
    let ended = service.gateway.wait_at_most(SOCKET_LIMIT).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

/// The packet worker's thread.
fn await_packet_thread(daemon: &ChildGuard) -> String {
    let mut thread = None;
    await_that("there is a worker", || {
        thread = packet_thread(daemon.id());
        thread.is_some()
    });
    thread.unwrap()
}

fn packet_thread(pid: u32) -> Option<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let is_worker = |thread: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name == "packets\n")
    };
    let worker = threads.flatten().find(is_worker)?;
    worker.file_name().into_string().ok()
}

/// Stops one thread until it is dropped, as no signal can: by `ptrace` (PTRACE_SEIZE, PTRACE_INTERRUPT).
fn stop_thread(thread: &str) -> ChildGuard {
    const STOP: &str = "syscall(101, $_, $ARGV[0] + 0, 0, 0) == 0 or die $! for 0x4206, 0x4207; \
                        $| = 1; print qq(stopped\\n); sleep 1 while 1";
    let mut command = guarded_command("perl");
    command.args(["-e", STOP, thread]).stdout(Stdio::piped());
    let mut tracer = ChildGuard::spawn(command).unwrap();
    let mut line = String::new();
    let output = tracer.child().stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert_eq!(line, "stopped\n");
    tracer
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_gateway_whose_worker_hangs_shows_no_sign_of_life() {
    in_virtual_kernel!();
    let harness = topology(&wired(1500), None);
    let service = Service::start(&harness);
    service.expect("READY=1");
    let thread = await_packet_thread(&service.gateway);
    assert!(service.lives(4 * SECOND_NS) > 4);
    let stopped = stop_thread(&thread);
    // A turn may take 5 s.
    service.lives(6 * SECOND_NS);
    assert_eq!(service.lives(4 * SECOND_NS), 0);
    drop(stopped);
    service.expect("WATCHDOG=1");
}

/// The worker removes its devices before it answers the command to attach.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_gateway_whose_worker_attaches_late_goes_on() {
    in_virtual_kernel!();
    let mut harness = topology(&wired(1500), None);
    let mut service = Service::start(&harness);
    service.expect("READY=1");
    let thread = await_packet_thread(&service.gateway);
    let removed = harness.topology.remove_wireless().unwrap();
    service.expect(&format!("STATUS=waits for the interface {GATEWAY_IF}"));
    let stopped = stop_thread(&thread);
    let topology = &mut harness.topology;
    topology
        .make_wireless_again(&wired(1500), &removed)
        .unwrap();
    // The daemon waits for 500 ms.
    service.lives(2 * SECOND_NS);
    drop(stopped);
    service.expect(&format!("STATUS=serves {GATEWAY_IF}"));
    assert!(service.lives(4 * SECOND_NS) > 4);
    service.gateway.signal(libc::SIGTERM).unwrap();
    service.expect("STOPPING=1");
    let ended = service.gateway.wait_at_most(SOCKET_LIMIT).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_mobile_whose_worker_hangs_ends_when_it_has_to() {
    in_virtual_kernel!();
    let harness = topology(&wired(1500), None);
    let mut mobile = Mobile::start(&harness, "auto", &[]);
    let stopped = stop_thread(&await_packet_thread(&mobile.child));
    mobile.child.signal(libc::SIGTERM).unwrap();
    // While a thread is traced its parent cannot wait for the process.
    let status = format!("/proc/{}/status", mobile.child.id());
    await_that("the daemon has ended", || {
        std::fs::read_to_string(&status)
            .unwrap()
            .contains("State:\tZ")
    });
    drop(stopped);
    let ended = mobile.child.wait_at_most(SOCKET_LIMIT).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}
