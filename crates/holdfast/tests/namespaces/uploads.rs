// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile --scheme auto`: what the mobile sends, and what it receives beside it.

use std::net::IpAddr;
use std::time::Duration;

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::tcp_info::TcpInfo;
use holdfast_testbed::counters::TcpCounters;
use holdfast_testbed::harness::{Flow, Harness, SOCKET_LIMIT};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::{FH, TopologySettings};

use super::mobile_host::Mobile;
use super::outages::Pages;
use super::{
    PORT, assert_shorter_than, await_outage, await_that, connection, emulated, fh, start_link,
    topology,
};

pub(super) const MB: u64 = 1_000_000;
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// By how much the sender's own retries come later, as its round trips differ.
const PLAIN_SPREAD_MS: u64 = 100;

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
pub(super) fn upload(harness: &Harness, address: IpAddr, port: u16, bytes: u64) -> Flow {
    let (at_fh, at_mh) = connection(harness, address, port);
    let flow = Flow::start(at_mh, at_fh, bytes, 5);
    flow.wait_bytes(MB / 8).unwrap();
    flow
}

/// An upload to that address through the outage.
fn outage_is_survived(address: IpAddr, link: EmulatedLink, gateway: Option<&str>, limit_ms: u64) {
    let mut harness = topology(&emulated(link), gateway);
    let mobile = Mobile::start(&harness, "auto", &[]);
    let flow = upload(&harness, address, PORT, 6 * MB);
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
    for address in [fh(), FH.v6.into()] {
        outage_is_survived(address, outage(true), None, 120);
    }
}

#[test]
fn a_silent_outage_stalls_an_upload_for_three_round_trips() {
    in_virtual_kernel!();
    for address in [fh(), FH.v6.into()] {
        outage_is_survived(address, outage(false), None, 170);
    }
}

#[test]
fn gateway_and_mobile_do_not_disturb_each_other() {
    in_virtual_kernel!();
    for scheme in ["auto", "hold", "keep"] {
        outage_is_survived(fh(), outage(false), Some(scheme), 170);
    }
}

/// What an upload through a silent outage costs, with the mobile's daemon.
#[derive(Debug)]
struct Work {
    /// Packets that were given to the link, those toward the mobile and those from it.
    packets: [u64; 2],
    /// Of these the ones that the outage lost.
    lost_packets: [u64; 2],
    /// Segments that the server had already.
    duplicates: u64,
}

/// The work beside a gateway of that scheme; none: there is no gateway.
fn work_beside(gateway: Option<&str>) -> Work {
    let mut harness = topology(&emulated(outage(false)), gateway);
    let _mobile = Mobile::start(&harness, "auto", &[]);
    let flow = upload(&harness, fh(), PORT, 6 * MB);
    start_link(&mut harness);
    flow.finish().unwrap();
    let duplicates = TcpCounters::read(&harness.topology.fh)
        .unwrap()
        .duplicates_reported;
    let link = harness.topology.cells[0].link.take().unwrap();
    let counters = link.end().unwrap().counters;
    let both = |name: &str| {
        ["downlink", "uplink"].map(|direction| counters[direction][name].as_u64().unwrap())
    };
    Work {
        packets: both("offered_packets"),
        lost_packets: both("dropped_outage_arrival"),
        duplicates,
    }
}

#[test]
fn a_gateway_beside_it_adds_few_packets_and_no_retransmission() {
    in_virtual_kernel!();
    let alone = work_beside(None);
    println!("no gateway: {alone:?}");
    for scheme in ["auto", "hold", "keep"] {
        let both = work_beside(Some(scheme));
        println!("gateway {scheme}: {both:?}");
        let more =
            |direction: usize| both.packets[direction].saturating_sub(alone.packets[direction]);
        // A keep-alive each 100 ms of the outage; after it the ACKs that the MH may lack, 128 at most.
        assert!(more(0) < 170 && both.lost_packets[0] < 40, "{both:?}");
        assert!(more(1) < 10, "{both:?}");
        assert!(both.duplicates < alone.duplicates + 5, "{both:?}");
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
    pages.assert_each_counter_has_a_metric("worker.");
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

/// Packets in the link's queue toward the FH during an upload, the median and the most.
fn queue_of_upload(control: &str, with_daemon: bool) -> [u32; 2] {
    let link = EmulatedLink {
        rate_mbit_per_s: 20.0,
        delay_ms: 24.0,
        sample_interval: Some(Duration::from_millis(2)),
        ..EmulatedLink::default()
    };
    let settings = TopologySettings {
        congestion_control: control.to_owned(),
        ..emulated(link)
    };
    let mut harness = topology(&settings, None);
    let _mobile = with_daemon.then(|| Mobile::start(&harness, "auto", &[]));
    start_link(&mut harness);
    upload_beside(&harness, PORT, 8 * MB);
    let link = harness.topology.cells[0].link.take().unwrap();
    let samples = link.end().unwrap().samples;
    let mut queues: Vec<u32> = samples
        .iter()
        .map(|sample| sample.queue_packets[1])
        .collect();
    queues.sort_unstable();
    [queues[queues.len() / 2], queues[queues.len() - 1]]
}

/// BBR's queue stays short by pacing alone.
#[test]
fn pacing_keeps_the_queue_of_an_upload_as_short_as_without_the_daemon() {
    in_virtual_kernel!();
    for control in ["bbr", "cubic"] {
        let [plain, auto] = [false, true].map(|daemon| queue_of_upload(control, daemon));
        println!("{control}: queue of {plain:?} packets plain, {auto:?} with the daemon");
        for (plain, auto) in plain.into_iter().zip(auto) {
            assert!(auto <= plain + plain / 10 + 2, "{control}");
        }
    }
}

/// An upload in which something happens to the daemon. No byte is retransmitted, and there is no pause.
fn upload_is_undisturbed(what: &str, happens: impl FnOnce(&Harness, &mut Mobile)) {
    let harness = topology(&emulated(long_queue()), None);
    let mut mobile = Mobile::start(&harness, "auto", &[]);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let sender = at_mh.try_clone().unwrap();
    let flow = Flow::start(at_mh, at_fh, 6 * MB, 5);
    flow.wait_bytes(MB).unwrap();
    let begin_ns = monotonic_ns();
    happens(&harness, &mut mobile);
    assert!(!flow.is_finished(), "{what}: it came too late");
    let received = flow.finish().unwrap();
    let info = TcpInfo::of(&sender).unwrap();
    assert_eq!(info.bytes_retrans, 0, "{what}");
    let gap_ms = received.longest_gap_ns(begin_ns) / 1_000_000;
    println!("{what}: no byte for {gap_ms} ms at most");
    assert_shorter_than(20, "no byte for", gap_ms);
}

#[test]
fn a_daemon_that_is_killed_or_hangs_in_an_upload_costs_nothing() {
    in_virtual_kernel!();
    for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGTERM] {
        upload_is_undisturbed(&format!("signal {signal}"), |_, mobile| {
            mobile.child.signal(signal).unwrap();
        });
    }
}

#[test]
fn an_upgrade_of_the_daemon_in_an_upload_costs_nothing() {
    in_virtual_kernel!();
    upload_is_undisturbed("an upgrade", |harness, mobile| {
        mobile.child.signal(libc::SIGTERM).unwrap();
        assert!(mobile.child.wait_at_most(SOCKET_LIMIT).unwrap().is_some());
        *mobile = Mobile::start(harness, "auto", &[]);
        await_that("the new daemon gets copies", || {
            mobile.counter("tcp-path.copied_downlink") > 100
        });
    });
}

#[test]
fn an_upgraded_daemon_serves_a_running_upload_in_the_next_outage() {
    in_virtual_kernel!();
    let mut harness = topology(&emulated(outage(false)), None);
    let mut mobile = Mobile::start(&harness, "auto", &[]);
    let flow = upload(&harness, fh(), PORT, 8 * MB);
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

/// From link up to the first new byte, in milliseconds, with a daemon that gets this signal in the outage; none: without a
/// daemon.
fn stall_of_a_left_sender_ms(signal: Option<i32>) -> u64 {
    let mut harness = topology(&emulated(outage(false)), None);
    let mut mobile = signal.map(|_| Mobile::start(&harness, "auto", &[]));
    let flow = upload(&harness, fh(), PORT, 4 * MB);
    let start_ns = start_link(&mut harness);
    await_outage(&harness);
    if let (Some(mobile), Some(signal)) = (&mut mobile, signal) {
        await_that("segments are taken", || {
            mobile.counter("tcp-path.taken_downlink") > 0
        });
        mobile.child.signal(signal).unwrap();
    }
    let stall_ms = flow.finish().unwrap().stall_ms(start_ns + 4 * SECOND_NS);
    println!("signal {signal:?}: stalled for {stall_ms} ms");
    stall_ms
}

#[test]
fn a_daemon_that_is_killed_or_hangs_in_an_outage_leaves_the_sender_its_own_retries() {
    in_virtual_kernel!();
    let plain_ms = stall_of_a_left_sender_ms(None);
    for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGTERM] {
        let stall_ms = stall_of_a_left_sender_ms(Some(signal));
        assert_shorter_than(plain_ms + PLAIN_SPREAD_MS, "stalled for", stall_ms);
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
