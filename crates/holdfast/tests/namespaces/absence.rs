// SPDX-License-Identifier: Apache-2.0
//! An interface that is removed and made again: the daemons wait for it, and their flows stay.

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::virtual_kernel::goes_on_in_virtual_time;
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::TopologySettings;

use super::mobile_host::Mobile;
use super::{PORT, assert_shorter_than, await_that, connection, emulated, fh, topology};

const MB: u64 = 1_000_000;

/// How long the interface is away.
const ABSENCE_NS: u64 = 3_000_000_000;

fn settings() -> TopologySettings {
    emulated(EmulatedLink::default())
}

/// Removes the link in mid-flow and makes it again; when that was.
fn leave_and_return(harness: &mut Harness, flow: &Flow, while_away: impl FnOnce(&Harness)) -> u64 {
    flow.wait_bytes(MB).unwrap();
    let removed_ns = monotonic_ns();
    let removed = harness.topology.remove_wireless().unwrap();
    while_away(harness);
    await_that("time passes", || monotonic_ns() >= removed_ns + ABSENCE_NS);
    let topology = &mut harness.topology;
    topology.make_wireless_again(&settings(), &removed).unwrap();
    monotonic_ns()
}

fn is_attached(harness: &Harness) -> bool {
    let status = harness.gateway.as_ref().unwrap().status();
    status.unwrap()["attached"] == true
}

fn gateway_log(harness: &Harness) -> String {
    std::fs::read_to_string(harness.folder().join("gateway.log")).unwrap()
}

#[test]
fn a_gateway_whose_interface_is_removed_keeps_its_flows_until_it_is_there_again() {
    // Attaching takes long on a machine with other work.
    if !goes_on_in_virtual_time() {
        return;
    }
    for scheme in ["hold", "auto", "keep"] {
        let mut harness = topology(&settings(), Some(scheme));
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 8 * MB, 7);
        let returned_ns = leave_and_return(&mut harness, &flow, |harness| {
            await_that("the gateway waits", || !is_attached(harness));
            assert!(gateway_log(harness).contains("was removed; the gateway waits for it"));
        });
        await_that("the gateway is attached again", || is_attached(&harness));
        let received = flow.finish().unwrap();
        assert_eq!(received.bytes(), 8 * MB);
        let stall_ms = received.stall_ms(returned_ns);
        println!("{scheme}: stalled for {stall_ms} ms after the interface was there again");
        if scheme != "keep" {
            // `keep` has no packet queued: none reaches an interface that is not there.
            assert_shorter_than(300, scheme, stall_ms);
        }
        harness.stop_gateway().unwrap();
    }
}

#[test]
fn a_mobile_whose_interface_is_removed_keeps_its_uploads() {
    in_virtual_kernel!();
    let mut harness = topology(&settings(), None);
    let mobile = Mobile::start(&harness, "auto", &[]);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_mh, at_fh, 8 * MB, 7);
    let returned_ns = leave_and_return(&mut harness, &flow, |_| {});
    let received = flow.finish().unwrap();
    let stall_ms = received.stall_ms(returned_ns);
    println!("stalled for {stall_ms} ms after the interface was there again");
    assert!(mobile.counter("sent_on") > 0, "nothing was retransmitted");
    // The daemon is at the new interface.
    let copied = mobile.counter("tcp-path.copied_downlink");
    let (at_fh, at_mh) = connection(&harness, fh(), PORT + 1);
    Flow::start(at_mh, at_fh, MB, 6).finish().unwrap();
    assert!(mobile.counter("tcp-path.copied_downlink") > copied);
}
