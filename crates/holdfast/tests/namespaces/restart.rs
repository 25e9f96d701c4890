// SPDX-License-Identifier: Apache-2.0
//! A gateway that is killed, stopped and restarted in mid-flow loses no connection and no byte.

use std::io::ErrorKind;
use std::thread;

use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::{Flow, Harness, receive_seeded, send_seeded};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::TopologySettings;

use super::router::MASQUERADE;
use super::{
    PORT, SCHEMES, assert_shorter_than, await_outage, await_that, connection, emulated, fh,
    harness, start_link,
};

const MB: u64 = 1_000_000;

/// The time for which a gateway is stopped.
const STOPPED_NS: u64 = 2_000_000_000;

fn settings() -> TopologySettings {
    let outages = vec![OutageAt {
        at_s: 0.5,
        for_s: 2.0,
    }];
    emulated(EmulatedLink {
        outages,
        ..EmulatedLink::default()
    })
}

/// Waits until the time `at_ns`, while the flow continues.
fn wait_until(at_ns: u64) {
    await_that("time passes", || monotonic_ns() >= at_ns);
}

/// Kills and restarts the gateway, then takes the same flow through an outage. Returns the stall in
/// milliseconds.
fn kill_restart_and_outage(harness: &mut Harness, scheme: &str) -> u64 {
    let (at_fh, at_mh) = connection(harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 8 * MB, 7);
    flow.wait_bytes(MB).unwrap();
    harness.kill_gateway().unwrap();
    let before = flow.watch().bytes();
    flow.wait_bytes(before + MB).unwrap_or_else(|error| {
        panic!("{scheme}: after kill -9 the flow does not continue: {error:#}")
    });
    harness.start_gateway().unwrap();
    let before = flow.watch().bytes();
    flow.wait_bytes(before + MB).unwrap_or_else(|error| {
        panic!("{scheme}: after the restart the flow does not continue: {error:#}")
    });
    let start_ns = start_link(harness);
    let received = flow
        .finish()
        .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
    received.stall_ms(start_ns + 2_500_000_000)
}

#[test]
fn after_kill_and_restart_the_same_flow_survives_an_outage_without_a_stall() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let mut harness = harness(&settings(), scheme);
        let stall_ms = kill_restart_and_outage(&mut harness, scheme);
        println!("{scheme}: after kill and restart: stalled for {stall_ms} ms");
        assert_shorter_than(200, scheme, stall_ms);
    }
}

#[test]
fn after_kill_and_restart_a_masqueraded_flow_survives_an_outage_without_a_stall() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let settings = TopologySettings {
            gateway_nft: MASQUERADE.into(),
            ..settings()
        };
        let mut harness = harness(&settings, scheme);
        let stall_ms = kill_restart_and_outage(&mut harness, scheme);
        println!("{scheme}: after kill and restart: stalled for {stall_ms} ms");
        assert_shorter_than(200, scheme, stall_ms);
    }
}

#[test]
fn a_hold_gateway_killed_within_an_outage_costs_no_connection() {
    in_virtual_kernel!();
    let mut harness = harness(&settings(), "hold");
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 4 * MB, 8);
    flow.wait_bytes(MB / 2).unwrap();
    let start_ns = start_link(&mut harness);
    wait_until(start_ns + 1_000_000_000);
    assert!(
        !harness.topology.cells[0].link.as_ref().unwrap().is_up(),
        "the outage has not begun"
    );
    harness.kill_gateway().unwrap();
    flow.finish().unwrap();
}

#[test]
fn both_ends_are_reset_if_a_gateway_that_owes_bytes_is_killed() {
    in_virtual_kernel!();
    let mut harness = harness(&settings(), "mtcp-plus");
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let sender = thread::spawn(move || send_seeded(&at_fh, 100 * MB, 18));
    let receiver = thread::spawn(move || receive_seeded(&at_mh, 18));
    start_link(&mut harness);
    await_outage(&harness);
    let gateway = harness.gateway.as_ref().unwrap();
    await_that("the gateway owes bytes", || {
        gateway.status().unwrap()["cache"]["owed_bytes"] != 0
    });
    harness.kill_gateway().unwrap();
    harness.start_gateway().unwrap();
    // The MH's data have no gap, and the connection ends with an error.
    let (_, ended) = receiver.join().unwrap();
    let at_mh = ended.expect_err("the MH takes a part for the whole").kind();
    assert_eq!(at_mh, ErrorKind::ConnectionReset, "the MH");
    let at_fh = sender.join().unwrap().expect_err("the FH gets no RST");
    assert_eq!(at_fh.kind(), ErrorKind::ConnectionReset, "the FH");
    let status = harness.gateway.as_ref().unwrap().status().unwrap();
    assert_eq!(status["counters"]["owed_lost"], 1, "{status}");
}

#[test]
fn a_stopped_gateway_breaks_no_connection() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let mut harness = harness(&settings(), scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 8 * MB, 9);
        flow.wait_bytes(MB).unwrap();
        let stopped_ns = monotonic_ns();
        harness.signal_gateway(libc::SIGSTOP).unwrap();
        wait_until(stopped_ns + STOPPED_NS);
        harness.signal_gateway(libc::SIGCONT).unwrap();
        let received = flow
            .finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        let gap_ms = received.longest_gap_ns(stopped_ns) / 1_000_000;
        println!("{scheme}: SIGSTOP for 2 s in mid-transfer: no byte for {gap_ms} ms");
        // The kernel's programs forward after 200 ms without a heartbeat; then the sender has to detect
        // what was lost before.
        assert_shorter_than(1900, scheme, gap_ms);
    }
}

#[test]
fn a_gateway_that_is_stopped_by_sigterm_leaves_the_flow_to_the_kernel() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let mut harness = harness(&settings(), scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 4 * MB, 10);
        flow.wait_bytes(MB).unwrap();
        harness.stop_gateway().unwrap();
        let received = flow
            .finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        assert_eq!(received.bytes(), 4 * MB);
    }
}
