// SPDX-License-Identifier: Apache-2.0
//! `keep` at the gateway, for downloads, and at the mobile, for uploads.

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::tcp_info::TcpInfo;
use holdfast_testbed::daemons::{report_link, status_at};
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::{MH, TopologySettings};

use super::mobile_host::Mobile;
use super::{
    PORT, assert_shorter_than, await_outage, await_that, connection, emulated, fh, harness,
    start_link, topology, wired,
};

const MB: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Down,
    Up,
}

/// A transfer with an outage from second 1 to 4; the stall after it is below `limit_ms`.
fn outage_is_survived(direction: Direction, link: &EmulatedLink, limit_ms: u64) {
    let link = EmulatedLink {
        outages: EmulatedLink::with_outage(1.0, 3.0).outages,
        ..link.clone()
    };
    let what = format!(
        "{direction:?}, carrier {}: stalled for",
        link.carrier_follows
    );
    let settings = emulated(link);
    let scheme = (direction == Direction::Down).then_some("keep");
    let mut harness = topology(&settings, scheme);
    let mobile = (direction == Direction::Up).then(|| Mobile::start(&harness, "keep", &[]));
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let (from, to) = match direction {
        Direction::Down => (at_fh, at_mh),
        Direction::Up => (at_mh, at_fh),
    };
    let flow = Flow::start(from, to, 6 * MB, 5);
    flow.wait_bytes(MB / 4).unwrap();
    let start_ns = start_link(&mut harness);
    let received = flow
        .finish()
        .unwrap_or_else(|error| panic!("{what} ... {error:#}"));
    let stall_ms = received.stall_ms(start_ns + 4 * SECOND_NS);
    println!("{what} {stall_ms} ms");
    if let Some(mobile) = &mobile {
        assert!(mobile.counter("keep.kept") > 0, "no packet was queued");
    }
    assert_shorter_than(limit_ms, &what, stall_ms);
}

/// A link without reports of its outages.
fn silent() -> EmulatedLink {
    EmulatedLink {
        carrier_follows: false,
        ..EmulatedLink::default()
    }
}

#[test]
fn an_outage_stalls_a_download_for_less_than_two_tenths_of_a_second() {
    in_virtual_kernel!();
    outage_is_survived(Direction::Down, &EmulatedLink::default(), 200);
}

#[test]
fn a_silent_outage_stalls_a_download_for_a_few_round_trips() {
    in_virtual_kernel!();
    outage_is_survived(Direction::Down, &silent(), 350);
}

#[test]
fn an_outage_stalls_an_upload_for_less_than_two_tenths_of_a_second() {
    in_virtual_kernel!();
    outage_is_survived(Direction::Up, &EmulatedLink::default(), 200);
}

#[test]
fn a_silent_outage_stalls_an_upload_for_a_few_round_trips() {
    in_virtual_kernel!();
    outage_is_survived(Direction::Up, &silent(), 350);
}

fn counter(harness: &Harness, name: &str) -> u64 {
    let status = status_at(&harness.folder().join("gateway.sock")).unwrap();
    status["counters"][name].as_u64().unwrap_or_default()
}

#[test]
fn packets_take_no_detour_while_the_link_is_up() {
    in_virtual_kernel!();
    let harness = harness(&emulated(EmulatedLink::default()), "keep");
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    Flow::start(at_fh, at_mh, 4 * MB, 5).finish().unwrap();
    assert_eq!(counter(&harness, "data-path.taken"), 0);
    assert_eq!(counter(&harness, "keep.displaced"), 0);
}

#[test]
fn a_thousand_changes_between_kernel_and_daemon_keep_the_order() {
    in_virtual_kernel!();
    let fast = EmulatedLink {
        rate_mbit_per_s: 20.0,
        delay_ms: 2.0,
        queue_packets: 10_000,
        ..EmulatedLink::default()
    };
    let settings = emulated(fast);
    let mut harness = harness(&settings, "keep");
    // The queue is long enough for all packets of an outage.
    harness.stop_gateway().unwrap();
    harness.set_gateway_settings("[keep]\nflow_packets_max = 1024\n");
    harness.start_gateway().unwrap();
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let sender = at_fh.try_clone().unwrap();
    let flow = Flow::start(at_fh, at_mh, 10 * MB, 5);
    let socket = harness.folder().join("gateway.sock");
    let (mobile, mut changes) = (MH.v4.into(), 0);
    let mut before = flow.watch().bytes();
    while before < 9 * MB {
        report_link(&socket, mobile, "down").unwrap();
        // Every second outage lasts until a packet is taken.
        if changes % 4 == 0 {
            let taken = counter(&harness, "keep.taken");
            await_that("a packet is taken", || {
                counter(&harness, "keep.taken") > taken
            });
        }
        report_link(&socket, mobile, "up").unwrap();
        changes += 2;
        await_that("bytes arrive", || flow.watch().bytes() > before);
        before = flow.watch().bytes();
    }
    flow.finish().unwrap();
    let resent = TcpInfo::of(&sender).unwrap().bytes_retrans;
    let taken = counter(&harness, "keep.taken");
    println!("{changes} changes, {taken} taken, {resent} bytes retransmitted");
    assert!(changes >= 1_000 && taken > 100, "{changes} {taken}");
    assert_eq!(counter(&harness, "keep.displaced"), 0);
    assert_eq!(counter(&harness, "data-path.taken"), taken);
    assert_eq!(resent, 0, "retransmissions: packets overtook others");
}

/// A transfer through an outage; in the outage `happens` kills, restarts or stops the gateway.
fn mishap(mut happens: impl FnMut(&mut Harness)) {
    let link = EmulatedLink::with_outage(0.5, 2.0);
    let mut harness = harness(&emulated(link), "keep");
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 6 * MB, 5);
    flow.wait_bytes(MB / 4).unwrap();
    start_link(&mut harness);
    await_outage(&harness);
    await_that("a packet is queued", || counter(&harness, "keep.kept") > 0);
    happens(&mut harness);
    flow.finish().unwrap();
}

#[test]
fn a_gateway_killed_in_an_outage_loses_only_its_queue() {
    in_virtual_kernel!();
    mishap(|harness| {
        harness.kill_gateway().unwrap();
    });
}

#[test]
fn a_flow_continues_after_a_restart_of_the_gateway_in_an_outage() {
    in_virtual_kernel!();
    mishap(|harness| {
        harness.stop_gateway().unwrap();
        harness.start_gateway().unwrap();
    });
}

#[test]
fn packets_pass_a_gateway_that_hangs() {
    in_virtual_kernel!();
    mishap(|harness| {
        harness.signal_gateway(libc::SIGSTOP).unwrap();
    });
}

/// The kernel forgets its neighbours with the carrier, and would drop the packets for them.
#[test]
fn an_upload_continues_when_an_ethernet_has_its_carrier_again() {
    in_virtual_kernel!();
    // Without this link's rate the transfer would be over at once.
    let settings = TopologySettings {
        wired: Some(EmulatedLink::default()),
        ..wired(1500)
    };
    let harness = topology(&settings, None);
    let mobile = Mobile::start(&harness, "keep", &[]);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    await_that("the next hop is known", || {
        mobile.counter("keep.neighbours") > 0
    });
    let flow = Flow::start(at_mh, at_fh, 8 * MB, 5);
    flow.wait_bytes(MB).unwrap();
    harness.topology.set_gateway_device(false).unwrap();
    await_that("the sender tries again", || mobile.counter("keep.kept") > 1);
    // The sender's next retransmission is due later than link up.
    harness.topology.set_gateway_device(true).unwrap();
    let returned_ns = monotonic_ns();
    let received = flow.finish().unwrap();
    let stall_ms = received.stall_ms(returned_ns);
    println!("stalled for {stall_ms} ms");
    assert!(mobile.counter("keep.released") > 0);
    assert_shorter_than(150, "stalled for", stall_ms);
}
