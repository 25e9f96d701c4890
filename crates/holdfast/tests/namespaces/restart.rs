// SPDX-License-Identifier: Apache-2.0
//! The gateway killed, stopped and started again in mid-flow: no connection
//! is lost, no byte either.

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

/// How long a gateway is away or stopped.
const ABSENCE_NS: u64 = 1_000_000_000;

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

/// Waits until the clock says `at_ns`; the flow goes on meanwhile.
fn wait_until(at_ns: u64) {
    await_that("time passes", || monotonic_ns() >= at_ns);
}

/// Kills the gateway outside an outage, starts it again in the same transfer,
/// and takes the same flow through an outage: the stall in milliseconds.
fn kill_restart_and_outage(harness: &mut Harness, scheme: &str) -> u64 {
    let (at_fh, at_mh) = connection(harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 14 * MB, 7);
    flow.wait_bytes(MB).unwrap();
    harness.kill_gateway().unwrap();
    let before = flow.watch().bytes();
    flow.wait_bytes(before + MB).unwrap_or_else(|error| {
        panic!("{scheme}: after kill -9 the flow does not go on: {error:#}")
    });
    harness.start_gateway().unwrap();
    let before = flow.watch().bytes();
    flow.wait_bytes(before + MB).unwrap_or_else(|error| {
        panic!("{scheme}: after the restart the flow does not go on: {error:#}")
    });
    let start_ns = start_link(harness);
    let received = flow
        .finish()
        .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
    received.stall_ms(start_ns + 2_500_000_000)
}

#[test]
fn after_kill_and_restart_the_same_flow_goes_through_an_outage_without_a_stall() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let mut harness = harness(&settings(), scheme);
        let stall_ms = kill_restart_and_outage(&mut harness, scheme);
        println!("{scheme}: after kill and restart: stalled for {stall_ms} ms");
        assert_shorter_than(200, scheme, stall_ms);
    }
}

#[test]
fn the_same_under_masquerade() {
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
        "the outage is not there"
    );
    harness.kill_gateway().unwrap();
    flow.finish().unwrap();
}

#[test]
fn both_ends_are_reset_if_a_gateway_is_killed_that_owes_them_bytes() {
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
    // What the MH has is whole up to where it ends, and it ends with an error.
    let (_, ended) = receiver.join().unwrap();
    let at_mh = ended.expect_err("the MH takes what it has for all").kind();
    assert_eq!(at_mh, ErrorKind::ConnectionReset, "the MH");
    let at_fh = sender.join().unwrap().expect_err("the FH is told nothing");
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
        wait_until(stopped_ns + 2 * ABSENCE_NS);
        harness.signal_gateway(libc::SIGCONT).unwrap();
        let received = flow
            .finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        let gap_ms = received.longest_gap_ns(stopped_ns) / 1_000_000;
        println!("{scheme}: SIGSTOP for 2 s in mid-transfer: no byte for {gap_ms} ms");
        // The path takes over after 200 ms without a heartbeat; then the sender
        // has to notice what was lost in between.
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
