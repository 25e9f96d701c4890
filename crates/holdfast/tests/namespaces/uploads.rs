// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile --scheme auto`: what the mobile sends, and what it receives beside it.

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::tcp_info::TcpInfo;
use holdfast_testbed::harness::{Flow, Harness, SOCKET_LIMIT};
use holdfast_testbed::link_process::EmulatedLink;

use super::mobile_host::Mobile;
use super::outages::Pages;
use super::{
    PORT, assert_shorter_than, await_outage, await_that, connection, emulated, fh, start_link,
    topology,
};

pub(super) const MB: u64 = 1_000_000;
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// A link without losses, on which no sender fills the queue.
fn long_queue() -> EmulatedLink {
    EmulatedLink {
        rate_mbit_per_s: 20.0,
        delay_ms: 2.0,
        queue_packets: 10_000,
        ..EmulatedLink::default()
    }
}

/// An outage of three seconds that begins after one second.
pub(super) fn outage(carrier_follows: bool) -> EmulatedLink {
    EmulatedLink {
        carrier_follows,
        ..EmulatedLink::with_outage(1.0, 3.0)
    }
}

/// An upload of `bytes` that has begun.
pub(super) fn upload(harness: &Harness, bytes: u64) -> Flow {
    let (at_fh, at_mh) = connection(harness, fh(), PORT);
    let flow = Flow::start(at_mh, at_fh, bytes, 5);
    flow.wait_bytes(MB / 4).unwrap();
    flow
}

/// An upload through the outage.
fn outage_is_survived(link: EmulatedLink, gateway: Option<&str>, limit_ms: u64) {
    let mut harness = topology(&emulated(link), gateway);
    let mobile = Mobile::start(&harness, "auto", &[]);
    let flow = upload(&harness, 6 * MB);
    let start_ns = start_link(&mut harness);
    await_outage(&harness);
    await_that("segments are taken", || {
        mobile.counter("tcp-path.taken_downlink") > 0
    });
    let stall_ms = flow.finish().unwrap().stall_ms(start_ns + 4 * SECOND_NS);
    println!("stalled for {stall_ms} ms");
    assert!(mobile.counter("sent_on") > 0, "nothing was retransmitted");
    assert_shorter_than(limit_ms, "stalled for", stall_ms);
    // After it segments pass again.
    let taken = mobile.counter("tcp-path.taken_downlink");
    upload_beside(&harness, PORT + 1, MB);
    assert_eq!(mobile.counter("tcp-path.taken_downlink"), taken);
}

/// A whole upload to another port.
fn upload_beside(harness: &Harness, port: u16, bytes: u64) {
    let (at_fh, at_mh) = connection(harness, fh(), port);
    Flow::start(at_mh, at_fh, bytes, 6).finish().unwrap();
}

#[test]
fn an_outage_stalls_an_upload_for_two_round_trips() {
    in_virtual_kernel!();
    outage_is_survived(outage(true), None, 120);
}

#[test]
fn a_silent_outage_stalls_an_upload_for_three_round_trips() {
    in_virtual_kernel!();
    outage_is_survived(outage(false), None, 170);
}

#[test]
fn gateway_and_mobile_do_not_disturb_each_other() {
    in_virtual_kernel!();
    for scheme in ["auto", "hold", "keep"] {
        outage_is_survived(outage(false), Some(scheme), 170);
    }
}

#[test]
fn a_download_goes_on_beside_it() {
    in_virtual_kernel!();
    let mut harness = topology(&emulated(outage(true)), None);
    let (pages, config) = (Pages::of(&harness), harness.folder().join("mobile.toml"));
    std::fs::write(&config, pages.settings()).unwrap();
    let flags = ["--config", config.to_str().unwrap()];
    let _mobile = Mobile::start(&harness, "auto", &flags);
    // Not those of its two parts: `keep` for what it sends, `wake` for what it receives.
    pages.assert_scheme("auto");
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 6 * MB, 5);
    flow.wait_bytes(MB / 4).unwrap();
    let start_ns = start_link(&mut harness);
    let stall_ms = flow.finish().unwrap().stall_ms(start_ns + 4 * SECOND_NS);
    println!("stalled for {stall_ms} ms");
    assert_shorter_than(300, "stalled for", stall_ms);
}

#[test]
fn segments_stay_in_the_kernel_while_the_link_is_up() {
    in_virtual_kernel!();
    let harness = topology(&emulated(long_queue()), None);
    let mobile = Mobile::start(&harness, "auto", &[]);
    upload_beside(&harness, PORT, 4 * MB);
    for direction in ["downlink", "uplink"] {
        let count = |what: &str| mobile.counter(&format!("tcp-path.{what}_{direction}"));
        assert_eq!((count("taken"), count("given")), (0, 0), "{direction}");
        assert!(count("copied") > 100, "{direction}");
    }
}

#[test]
fn a_daemon_that_is_killed_or_hangs_in_an_upload_costs_nothing() {
    in_virtual_kernel!();
    for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGTERM] {
        let harness = topology(&emulated(long_queue()), None);
        let mut mobile = Mobile::start(&harness, "auto", &[]);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let sender = at_mh.try_clone().unwrap();
        let flow = Flow::start(at_mh, at_fh, 6 * MB, 5);
        flow.wait_bytes(MB).unwrap();
        let signalled_ns = monotonic_ns();
        mobile.child.signal(signal).unwrap();
        let received = flow.finish().unwrap();
        let info = TcpInfo::of(&sender).unwrap();
        assert_eq!(info.bytes_retrans, 0, "signal {signal}");
        let gap_ms = received.longest_gap_ns(signalled_ns) / 1_000_000;
        println!("signal {signal}: no byte for {gap_ms} ms at most");
        assert_shorter_than(20, "no byte for", gap_ms);
    }
}

#[test]
fn an_upgraded_daemon_serves_a_running_upload_in_the_next_outage() {
    in_virtual_kernel!();
    let mut harness = topology(&emulated(outage(false)), None);
    let mut mobile = Mobile::start(&harness, "auto", &[]);
    let flow = upload(&harness, 8 * MB);
    mobile.child.signal(libc::SIGTERM).unwrap();
    assert!(mobile.child.wait_at_most(SOCKET_LIMIT).unwrap().is_some());
    let mobile = Mobile::start(&harness, "auto", &[]);
    let before = flow.watch().bytes();
    flow.wait_bytes(before + MB / 2).unwrap();
    let start_ns = start_link(&mut harness);
    let stall_ms = flow.finish().unwrap().stall_ms(start_ns + 4 * SECOND_NS);
    println!("stalled for {stall_ms} ms");
    assert!(mobile.counter("sent_on") > 0, "nothing was retransmitted");
    assert_shorter_than(170, "stalled for", stall_ms);
}

#[test]
fn a_daemon_that_is_killed_or_hangs_in_an_outage_leaves_the_sender_its_own_retries() {
    in_virtual_kernel!();
    for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGTERM] {
        let mut harness = topology(&emulated(outage(false)), None);
        let mut mobile = Mobile::start(&harness, "auto", &[]);
        let flow = upload(&harness, 4 * MB);
        start_link(&mut harness);
        await_outage(&harness);
        await_that("segments are taken", || {
            mobile.counter("tcp-path.taken_downlink") > 0
        });
        mobile.child.signal(signal).unwrap();
        flow.finish().unwrap();
    }
}

#[test]
fn a_thousand_changes_between_copies_and_segments_lose_nothing() {
    in_virtual_kernel!();
    let harness = topology(&emulated(long_queue()), None);
    let mobile = Mobile::start(&harness, "auto", &[]);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let sender = at_mh.try_clone().unwrap();
    let flow = Flow::start(at_mh, at_fh, 3 * MB, 5);
    let mut changes = 0;
    let mut before = flow.watch().bytes();
    while before < 5 * MB / 2 {
        mobile.report("down", 0);
        mobile.report("up", 0);
        changes += 2;
        await_that("bytes arrive", || flow.watch().bytes() > before);
        before = flow.watch().bytes();
    }
    flow.finish().unwrap();
    let info = TcpInfo::of(&sender).unwrap();
    println!("{changes} changes, {info:?}");
    assert!(changes > 1_000, "{changes}");
    assert!(mobile.counter("tcp-path.taken_downlink") > 0);
}
