// SPDX-License-Identifier: Apache-2.0
//! SIGTERM to a gateway that owes bytes: it runs until the MH has them, or resets both ends.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::{Flow, Harness, receive_seeded, send_seeded};
use holdfast_testbed::link_process::{EmulatedLink, GATEWAY_IF};

use super::{PORT, await_outage, await_that, connection, emulated, fh, harness, start_link};

const MB: u64 = 1_000_000;
const OUTAGE_AT_S: f64 = 0.5;

/// A gateway that ends at most `drain_s` seconds after SIGTERM; its link has one outage.
fn draining(drain_s: u32, outage_s: f64) -> Harness {
    let outages = vec![OutageAt {
        at_s: OUTAGE_AT_S,
        for_s: outage_s,
    }];
    let settings = emulated(EmulatedLink {
        outages,
        ..EmulatedLink::default()
    });
    let mut harness = harness(&settings, "mtcp-plus");
    harness.stop_gateway().unwrap();
    harness.set_gateway_settings(&format!("drain_s = {drain_s}"));
    harness.start_gateway().unwrap();
    harness
}

/// Waits until the gateway owes bytes in the outage, and sends it SIGTERM.
fn terminate_while_owing(harness: &mut Harness) {
    await_owing(harness);
    harness.signal_gateway(libc::SIGTERM).unwrap();
}

fn await_owing(harness: &Harness) {
    await_outage(harness);
    let gateway = harness.gateway.as_ref().unwrap();
    await_that("the gateway owes bytes", || {
        gateway.status().unwrap()["cache"]["owed_bytes"] != 0
    });
}

/// Gives the wireless interface another name, and waits until the gateway has noticed.
fn rename_wireless(harness: &Harness) {
    let mut command = harness.topology.gateway().command("ip");
    command.args(["link", "set", GATEWAY_IF, "name", "wl-other"]);
    assert!(command.status().unwrap().success());
    let gateway = harness.gateway.as_ref().unwrap();
    await_that("the gateway has noticed", || {
        gateway.status().unwrap()["attached"] == false
    });
}

/// Waits until the gateway ends with status 0. Returns the time.
fn ended_ns(harness: &mut Harness) -> u64 {
    let child = &mut harness.gateway.as_mut().unwrap().child;
    let status = child.wait_at_most(Duration::from_secs(20)).unwrap();
    let status = status.expect("the gateway does not end");
    assert!(status.success(), "{status}");
    monotonic_ns()
}

#[test]
fn a_gateway_that_owes_bytes_ends_when_the_mh_has_them() {
    in_virtual_kernel!();
    let mut harness = draining(30, 2.0);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 6 * MB, 21);
    let start_ns = start_link(&mut harness);
    terminate_while_owing(&mut harness);
    let ended_ns = ended_ns(&mut harness);
    let returned_ns = start_ns + 2_500_000_000;
    assert!(
        ended_ns > returned_ns,
        "the gateway ended {} ms before link up",
        (returned_ns - ended_ns) / 1_000_000
    );
    let late_ms = (ended_ns - returned_ns) / 1_000_000;
    println!("the gateway ended {late_ms} ms after link up");
    assert!(
        late_ms < 5000,
        "the gateway ended {late_ms} ms after link up"
    );
    // The flow continues without a gateway, and every byte arrives.
    let received = flow.finish().unwrap();
    assert_eq!(received.bytes(), 6 * MB);
}

#[test]
fn both_ends_are_reset_when_the_time_for_owed_bytes_is_over() {
    in_virtual_kernel!();
    assert_resets(terminate_while_owing);
}

#[test]
fn both_ends_are_reset_also_where_the_interface_has_another_name() {
    in_virtual_kernel!();
    assert_resets(|harness| {
        await_owing(harness);
        rename_wireless(harness);
        harness.signal_gateway(libc::SIGTERM).unwrap();
    });
}

/// Both ends are reset by a gateway that owes bytes and is stopped in an outage.
fn assert_resets(stop: impl FnOnce(&mut Harness)) {
    let mut harness = draining(1, 4.0);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let to_fh = at_mh.try_clone().unwrap();
    let sender = thread::spawn(move || send_seeded(&at_fh, 100 * MB, 22));
    let receiver = thread::spawn(move || receive_seeded(&at_mh, 22));
    let start_ns = start_link(&mut harness);
    stop(&mut harness);
    let ended_ns = ended_ns(&mut harness);
    assert!(
        ended_ns < start_ns + 4_500_000_000,
        "the gateway waited for link up"
    );
    let at_fh = sender.join().unwrap().expect_err("the FH gets no RST");
    assert_eq!(at_fh.kind(), ErrorKind::ConnectionReset, "the FH");
    // The gateway's RST to the MH was lost in the outage: the FH answers the MH's next segment with a RST.
    let link = harness.topology.cells[0].link.as_ref().unwrap();
    await_that("link up", || link.is_up());
    let sent = std::io::Write::write_all(&mut &to_fh, b"?");
    assert!(sent.is_ok(), "{sent:?}");
    let (_, ended) = receiver.join().unwrap();
    let at_mh = ended.expect_err("the MH takes a part for the whole").kind();
    assert_eq!(at_mh, ErrorKind::ConnectionReset, "the MH");
}
