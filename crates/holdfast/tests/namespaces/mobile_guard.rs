// SPDX-License-Identifier: Apache-2.0
//! What is left of a freeze when the daemon is killed or hangs, sleeps through all of it, cannot
//! say a word, or loses the guard that opens what it leaves closed.

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

/// Waits until nothing has come for so long.
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

/// A flow that stands still because its window is closed, long enough for the FH's probes to
/// be seconds apart.
fn frozen(harness: &Harness, mobile: &Mobile) -> Flow {
    let flow = download(harness, 8 * MB);
    mobile.signal(&["going-down-soon"]);
    await_that("the window is closed", || {
        mobile.counter("path.window_closed") > 0
    });
    stands_still(&flow, 4 * SECOND_NS);
    flow
}

/// Steps last for four round trips of 300 ms, if nothing comes, and longer otherwise.
const STEPS_MS: u64 = 4 * 300;

#[test]
fn a_daemon_killed_while_a_window_opens_in_steps_leaves_no_flow_limited() {
    in_virtual_kernel!();
    // Nobody but the test speaks of the link, which never goes: it is the same at any load.
    let link = EmulatedLink {
        delay_ms: 150.0,
        queue_packets: 100,
        ..EmulatedLink::default()
    };
    let harness = plain(link);
    let mut mobile = Mobile::start_patient(&harness, "today");
    let flow = download(&harness, 16 * MB);
    // A warning that a round trip has outgrown closes nothing: then there is another one.
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
    // The gap before the first that came after the kill is the freeze's.
    let resumed = received.first_from(killed_ns).expect("it goes on").at_ns;
    let gap_ms = received.longest_gap_ns(resumed + 1) / 1_000_000;
    assert_shorter_than(2_000, "until it goes on", received.stall_ms(killed_ns));
    assert_shorter_than(2_000, "without a byte", gap_ms);
    // Otherwise the steps were over before the kill, and that proves nothing.
    assert_shorter_than(
        STEPS_MS,
        "until it was killed",
        (killed_ns - began_ns) / 1_000_000,
    );
}

#[test]
fn a_daemon_for_which_an_outage_and_its_end_are_one_jump_of_the_clock_opens_what_it_has_closed() {
    in_virtual_kernel!();
    let mut harness = plain(EmulatedLink::with_outage(0.2, 3.0));
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let flow = download(&harness, 12 * MB);
    // Without a time: at once.
    mobile.report("going-down-soon", 0);
    await_that("the window is closed", || {
        mobile.counter("path.window_closed") > 0
    });
    // As a suspended machine's: what happens meanwhile it hears of all at once.
    mobile.child.signal(libc::SIGSTOP).unwrap();
    let start_ns = start_link(&mut harness);
    await_that("the link is back", || {
        monotonic_ns() >= start_ns + 4 * SECOND_NS
    });
    mobile.child.signal(libc::SIGCONT).unwrap();
    // The guard had opened it, into the outage: when the FH tries again is its back-off's.
    flow.finish().unwrap();
    await_that("nothing is closed", || {
        mobile.counter("host.closed-now") == 0
    });
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
    await_that("the guard says so", || {
        let log = std::fs::read_to_string(&log).unwrap();
        let mut lines = log.split_inclusive('\n');
        let said = lines.find(|line| line.contains("the daemon has ended"));
        said.unwrap_or_default().clone_into(&mut line);
        line.ends_with('\n')
    });
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(said["windows"].as_u64().unwrap() > 0, "{line}");
    assert_shorter_than(1_000, "the stall", resumed_ms);
}

#[test]
fn a_log_that_nobody_reads_keeps_neither_daemon_nor_guard_from_their_work() {
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
fn a_guard_that_dies_in_a_freeze_has_a_successor_who_opens_what_the_daemon_leaves_closed() {
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
        "another takes its place",
        || matches!(children(daemon)[..], [other] if other != guard),
    );
    assert!(mobile.counter("host.closed-now") > 0);
    let killed_ns = monotonic_ns();
    mobile.child.kill().unwrap();
    let received = flow.finish().unwrap();
    let resumed_ms = received.stall_ms(killed_ns);
    assert_shorter_than(1_000, "the stall", resumed_ms);
}

/// The lowest limit by which the process can open so many more descriptors.
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
fn what_is_closed_stays_so_without_a_guard_until_the_link_is_back_or_there_is_one_again() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start_patient(&harness, "2000");
    let daemon = mobile.child.id();
    await_that("there is a guard", || children(daemon).len() == 1);
    let flow = frozen(&harness, &mobile);
    let pid_of = |number: u32| Pid::from_raw(number.try_into().unwrap());
    // Enough for a caller of the control socket, and too few for a guard and its maps.
    let few = Rlimit {
        current: Some(descriptors_limit(daemon, 3)),
        ..getrlimit(Resource::Nofile)
    };
    let enough = prlimit(pid_of(daemon), Resource::Nofile, few).unwrap();
    kill_process(pid_of(children(daemon)[0]).unwrap(), Signal::KILL).unwrap();
    await_that("it is missed", || children(daemon).is_empty());
    // Longer than orders hold that nobody says again.
    stands_still(&flow, 2 * SECOND_NS);
    assert!(mobile.counter("host.closed-now") > 0);
    assert!(children(daemon).is_empty());
    prlimit(pid_of(daemon), Resource::Nofile, enough).unwrap();
    await_that("there is a guard again", || children(daemon).len() == 1);
    assert!(mobile.counter("host.closed-now") > 0);
    let told_ns = monotonic_ns();
    mobile.report("up", 0);
    let received = flow.finish().unwrap();
    let resumed_ms = received.stall_ms(told_ns);
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
    await_that("it goes on", || mobile.status().is_some());
    let (status, by_itself) = mobile.child.terminate(Duration::from_secs(10)).unwrap();
    assert!(status.success() && by_itself);
    assert_shorter_than(1_500, "the stall", resumed_ms);
}
