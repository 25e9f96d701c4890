// SPDX-License-Identifier: Apache-2.0
//! What the MH sends over a radio that loses, with Snoop at the gateway: what is lost behind a
//! report is made good, and an unmodified Linux survives that the gateway dies after one.

use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::TopologySettings;

use super::{PORT, assert_shorter_than, await_that, connection, emulated, fh};

const KB: u64 = 1_000;

/// Either way of each half.
const WIRELESS_MS: f64 = 15.0;
const WIRED_MS: f64 = 75.0;

/// A short radio that loses, and a long wired half.
fn settings(wireless_loss: f64, wired_loss: f64) -> TopologySettings {
    let wired = EmulatedLink {
        rate_mbit_per_s: 100.0,
        delay_ms: WIRED_MS,
        loss: wired_loss,
        seed: 5,
        ..EmulatedLink::default()
    };
    TopologySettings {
        wired: Some(wired),
        ..emulated(EmulatedLink {
            delay_ms: WIRELESS_MS,
            loss: wireless_loss,
            seed: 4,
            ..EmulatedLink::default()
        })
    }
}

/// With a gateway that reports as the paper has it.
fn harness(settings: &TopologySettings) -> Harness {
    let mut harness = super::harness(settings, "snoop");
    harness.set_gateway_settings("[snoop]\nset = \"1995\"");
    harness.stop_gateway().unwrap();
    harness.start_gateway().unwrap();
    harness
}

/// A counter of the gateway.
fn counter(harness: &Harness, name: &str) -> u64 {
    let status = harness.gateway.as_ref().unwrap().status().unwrap();
    status["counters"][name].as_u64().unwrap()
}

#[test]
fn what_the_wired_half_loses_behind_a_report_is_made_good() {
    in_virtual_kernel!();
    let harness = harness(&settings(0.03, 0.03));
    // Which packets are lost is the seeds'; what they carry is the clock's, and perhaps nothing of
    // what was reported.
    let is_repaired = (0..6).any(|flow| {
        let (at_fh, at_mh) = connection(&harness, fh(), PORT + flow);
        let flow = Flow::start(at_mh, at_fh, 500 * KB, 24);
        flow.finish().unwrap();
        assert!(counter(&harness, "reports") > 0);
        counter(&harness, "repaired_uplink") > 0
    });
    assert!(is_repaired, "nothing was lost behind a report");
}

/// The gateway is killed as soon as it has reported something more; the longest time without
/// a byte after that, in milliseconds.
fn killed_after_a_report(harness: &mut Harness, restart: bool) -> u64 {
    let (at_fh, at_mh) = connection(harness, fh(), PORT);
    let flow = Flow::start(at_mh, at_fh, 400 * KB, 25);
    flow.wait_bytes(20 * KB).unwrap();
    let before = counter(harness, "reports");
    await_that("something is reported", || {
        counter(harness, "reports") > before
    });
    harness.kill_gateway().unwrap();
    let killed_ns = monotonic_ns();
    if restart {
        harness.start_gateway().unwrap();
    }
    let received = flow.finish().unwrap();
    received.longest_gap_ns(killed_ns) / 1_000_000
}

#[test]
fn a_gateway_killed_just_after_a_report_costs_a_timeout_of_the_mh() {
    in_virtual_kernel!();
    for restart in [false, true] {
        let mut harness = harness(&settings(0.03, 0.03));
        let gap_ms = killed_after_a_report(&mut harness, restart);
        println!("killed after a report, started again: {restart}: {gap_ms} ms without a byte");
        // Its RTO is the path's round trip and 200 ms, and may have doubled twice.
        assert_shorter_than(4_000, "without a byte", gap_ms);
    }
}
