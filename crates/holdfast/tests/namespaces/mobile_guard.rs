// SPDX-License-Identifier: Apache-2.0
//! A freeze ends although the daemon is killed, hangs, is suspended, cannot write its log, or loses its
//! guard.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::{Flow, Harness, full_pipe};
use holdfast_testbed::link_process::EmulatedLink;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::mobile_host::{MB, Mobile, download, plain};
use super::mobile_wake_senders::children;
use super::{assert_shorter_than, await_that, start_link};

const SECOND_NS: u64 = 1_000_000_000;

/// Waits until no byte has arrived for `for_ns`.
pub(super) fn stands_still(flow: &Flow, for_ns: u64) {
    let watch = flow.watch();
    let (mut bytes, mut since) = (watch.bytes(), monotonic_ns());
    await_that("the flow stands still", || {
        if watch.bytes() != bytes {
            (bytes, since) = (watch.bytes(), monotonic_ns());
        }
        monotonic_ns() - since > for_ns
    });
}

/// A flow with a closed window; the FH's probes are seconds apart by now.
fn frozen(harness: &Harness, mobile: &Mobile) -> Flow {
    let flow = download(harness, 8 * MB);
    mobile.signal(&["going-down-soon"]);
    await_that("the window is closed", || {
        mobile.counter("path.window_closed") > 0
    });
    stands_still(&flow, 4 * SECOND_NS);
    flow
}

/// Steps last for at least four round trips of 300 ms.
const STEPS_MS: u64 = 4 * 300;

#[test]
fn a_daemon_killed_while_a_window_opens_in_steps_leaves_no_flow_limited() {
    in_virtual_kernel!();
    // Only the test reports the link, which has no outage: the load of the machine changes nothing.
    let link = EmulatedLink {
        delay_ms: 150.0,
        queue_packets: 100,
        ..EmulatedLink::default()
    };
    let harness = plain(link);
    let mut mobile = Mobile::start_patient(&harness, "today");
    let flow = download(&harness, 16 * MB);
    // A warning shorter than the round trip closes no window; the test sends another one.
    let mut warnings = 0;
    await_that("the window is closed", || {
        if mobile.counter("host.not-covered") >= warnings {
            mobile.report("going-down-soon", 2000);
            warnings += 1;
        }
        mobile.counter("path.window_closed") > 0
    });
    stands_still(&flow, SECOND_NS);
    mobile.report("down", 0);
    let began_ns = monotonic_ns();
    mobile.report("up", 0);
    assert_eq!(mobile.counter("host.opened-in-steps"), 1);
    mobile.child.kill().unwrap();
    let killed_ns = monotonic_ns();
    let received = flow.finish().unwrap();
    // The gap before the first byte after the kill is the freeze.
    let resumed = received
        .first_from(killed_ns)
        .expect("the flow continues")
        .at_ns;
    let gap_ms = received.longest_gap_ns(resumed + 1) / 1_000_000;
    assert_shorter_than(
        2_000,
        "until the flow continues",
        received.stall_ms(killed_ns),
    );
    assert_shorter_than(2_000, "without a byte", gap_ms);
    // The kill came before the end of the steps.
    assert_shorter_than(
        STEPS_MS,
        "until it was killed",
        (killed_ns - began_ns) / 1_000_000,
    );
}

#[test]
fn a_daemon_suspended_through_an_outage_opens_its_windows() {
    in_virtual_kernel!();
    let mut harness = plain(EmulatedLink::with_outage(0.2, 3.0));
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let flow = download(&harness, 12 * MB);
    mobile.report("going-down-soon", 0);
    await_that("the window is closed", || {
        mobile.counter("path.window_closed") > 0
    });
    // As on a suspended machine, the daemon receives all reports at once.
    mobile.child.signal(libc::SIGSTOP).unwrap();
    let start_ns = start_link(&mut harness);
    await_that("link up", || monotonic_ns() >= start_ns + 4 * SECOND_NS);
    mobile.child.signal(libc::SIGCONT).unwrap();
    // The guard has opened the window in the outage, so the FH's back-off sets the time of the next byte.
    flow.finish().unwrap();
    await_that("nothing is closed", || {
        mobile.counter("host.closed-now") == 0
    });
}

#[test]
fn a_daemon_stopped_in_an_outage_leaves_the_windows_to_its_guard() {
    in_virtual_kernel!();
    // Long enough for the FH's probes to be seconds apart.
    let mut harness = plain(EmulatedLink::with_outage(0.2, 10.0));
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let flow = download(&harness, 8 * MB);
    mobile.report("going-down-soon", 0);
    await_that("the window is closed", || {
        mobile.counter("path.window_closed") > 0
    });
    let start_ns = start_link(&mut harness);
    await_that("link down", || monotonic_ns() >= start_ns + SECOND_NS);
    mobile.report("down", 0);
    assert!(mobile.counter("host.closed-now") > 0);
    mobile.child.terminate(Duration::from_secs(5)).unwrap();
    let up_ns = start_ns + 10_200_000_000;
    assert!(monotonic_ns() < up_ns, "the daemon ended in the outage");
    let received = flow.finish().unwrap();
    // The link is up at most 10 s after the guard's first ACK. It sends others 12.7 and 25.5 s after that one.
    let log = std::fs::read_to_string(harness.folder().join("mobile.log")).unwrap();
    assert!(log.contains("the daemon has ended"), "{log}");
    assert_shorter_than(5_000, "the stall", received.stall_ms(up_ns));
}

#[test]
fn a_daemon_killed_in_a_freeze_leaves_no_flow_frozen() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let flow = frozen(&harness, &mobile);
    let killed_ns = monotonic_ns();
    mobile.child.kill().unwrap();
    let received = flow.finish().unwrap();
    let resumed_ms = received.stall_ms(killed_ns);
    let log = harness.folder().join("mobile.log");
    let mut line = String::new();
    await_that("the guard reports it", || {
        let log = std::fs::read_to_string(&log).unwrap();
        let mut lines = log.split_inclusive('\n');
        let found = lines.find(|line| line.contains("the daemon has ended"));
        found.unwrap_or_default().clone_into(&mut line);
        line.ends_with('\n')
    });
    let report: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(report["windows"].as_u64().unwrap() > 0, "{line}");
    assert_shorter_than(1_000, "the stall", resumed_ms);
}

#[test]
fn a_log_without_a_reader_blocks_neither_daemon_nor_guard() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let (_unread, log) = full_pipe().unwrap();
    let mut mobile = Mobile::start_patient_with_log(&harness, "2000", log.into());
    let flow = frozen(&harness, &mobile);
    let killed_ns = monotonic_ns();
    mobile.child.kill().unwrap();
    let received = flow.finish().unwrap();
    assert_shorter_than(1_000, "the stall", received.stall_ms(killed_ns));
}

#[test]
fn a_guard_that_dies_in_a_freeze_has_a_successor_that_opens_the_windows() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let daemon = mobile.child.id();
    await_that("there is a guard", || children(daemon).len() == 1);
    let guard = children(daemon)[0];
    let flow = frozen(&harness, &mobile);
    let pid = Pid::from_raw(guard.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    await_that(
        "there is another guard",
        || matches!(children(daemon)[..], [other] if other != guard),
    );
    assert!(mobile.counter("host.closed-now") > 0);
    let killed_ns = monotonic_ns();
    mobile.child.kill().unwrap();
    let received = flow.finish().unwrap();
    let resumed_ms = received.stall_ms(killed_ns);
    assert_shorter_than(1_000, "the stall", resumed_ms);
}

/// The lowest limit with which the process can open `spare` more descriptors.
fn descriptors_limit(pid: u32, spare: usize) -> u64 {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let number = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
    let open: BTreeSet<u64> = open
        .map(|entry| number(entry.unwrap()).parse().unwrap())
        .collect();
    let mut free = (0_u64..).filter(|number| !open.contains(number));
    free.nth(spare).unwrap()
}

#[test]
fn windows_stay_closed_without_a_guard_until_link_up() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start_patient(&harness, "2000");
    let daemon = mobile.child.id();
    await_that("there is a guard", || children(daemon).len() == 1);
    let flow = frozen(&harness, &mobile);
    let pid_of = |number: u32| Pid::from_raw(number.try_into().unwrap());
    // Enough descriptors for a caller of the control socket, too few for a guard and its maps.
    let few = Rlimit {
        current: Some(descriptors_limit(daemon, 3)),
        ..getrlimit(Resource::Nofile)
    };
    let enough = prlimit(pid_of(daemon), Resource::Nofile, few).unwrap();
    kill_process(pid_of(children(daemon)[0]).unwrap(), Signal::KILL).unwrap();
    await_that("the guard has ended", || children(daemon).is_empty());
    // Orders expire in less time if the daemon does not renew them.
    stands_still(&flow, 2 * SECOND_NS);
    assert!(mobile.counter("host.closed-now") > 0);
    assert!(children(daemon).is_empty());
    prlimit(pid_of(daemon), Resource::Nofile, enough).unwrap();
    await_that("there is a guard again", || children(daemon).len() == 1);
    assert!(mobile.counter("host.closed-now") > 0);
    let reported_ns = monotonic_ns();
    mobile.report("up", 0);
    let received = flow.finish().unwrap();
    let resumed_ms = received.stall_ms(reported_ns);
    assert_eq!(mobile.counter("host.closed-now"), 0);
    assert_shorter_than(1_000, "the stall", resumed_ms);
}

#[test]
fn a_daemon_that_hangs_in_a_freeze_leaves_no_flow_frozen() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let flow = frozen(&harness, &mobile);
    let stopped_ns = monotonic_ns();
    mobile.child.signal(libc::SIGSTOP).unwrap();
    let received = flow.finish().unwrap();
    let resumed_ms = received.stall_ms(stopped_ns);
    mobile.child.signal(libc::SIGCONT).unwrap();
    await_that("the daemon answers", || mobile.status().is_some());
    let (status, by_itself) = mobile.child.terminate(Duration::from_secs(10)).unwrap();
    assert!(status.success() && by_itself);
    assert_shorter_than(1_500, "the stall", resumed_ms);
}
