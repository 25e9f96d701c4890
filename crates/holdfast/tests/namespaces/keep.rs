// SPDX-License-Identifier: Apache-2.0
//! `keep` at the gateway, for what mobiles receive, and at the mobile, for what it sends.

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::tcp_info::TcpInfo;
use holdfast_testbed::daemons::{report_link, status_at};
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::punctuality::{punctual, shorter_than};
use holdfast_testbed::topology::MH;

use super::mobile_host::Mobile;
use super::{PORT, await_outage, await_that, connection, emulated, fh, harness, start_link, wired};

const MB: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Down,
    Up,
}

/// A transfer with an outage of three seconds after its first one: how long nothing came after it.
fn outage_is_survived(test: &str, way: Way, link: &EmulatedLink, limit_ms: u64) {
    let link = EmulatedLink {
        outages: EmulatedLink::with_outage(1.0, 3.0).outages,
        ..link.clone()
    };
    let what = format!("{way:?}, carrier {}: stalled for", link.carrier_follows);
    let settings = emulated(link);
    punctual(|| {
        let scheme = (way == Way::Down).then_some("keep");
        let harness = Harness::new(test, &settings, scheme);
        let Some(mut harness) = harness.unwrap_or_else(|error| panic!("{test}: {error:#}")) else {
            return Ok(());
        };
        let mobile = (way == Way::Up).then(|| Mobile::start(&harness, "keep", &[]));
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let (from, to) = match way {
            Way::Down => (at_fh, at_mh),
            Way::Up => (at_mh, at_fh),
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
            assert!(mobile.counter("keep.kept") > 0, "nothing was kept");
        }
        shorter_than(limit_ms, &what, stall_ms)
    });
}

/// A link whose outages nobody reports.
fn silent() -> EmulatedLink {
    EmulatedLink {
        carrier_follows: false,
        ..EmulatedLink::default()
    }
}

#[test]
fn an_outage_stalls_a_download_for_less_than_two_tenths_of_a_second() {
    let test = "an_outage_stalls_a_download_for_less_than_two_tenths_of_a_second";
    outage_is_survived(test, Way::Down, &EmulatedLink::default(), 200);
}

#[test]
fn a_silent_outage_stalls_a_download_for_a_few_round_trips() {
    let test = "a_silent_outage_stalls_a_download_for_a_few_round_trips";
    outage_is_survived(test, Way::Down, &silent(), 350);
}

#[test]
fn an_outage_stalls_an_upload_for_less_than_two_tenths_of_a_second() {
    let test = "an_outage_stalls_an_upload_for_less_than_two_tenths_of_a_second";
    outage_is_survived(test, Way::Up, &EmulatedLink::default(), 200);
}

#[test]
fn a_silent_outage_stalls_an_upload_for_a_few_round_trips() {
    let test = "a_silent_outage_stalls_an_upload_for_a_few_round_trips";
    outage_is_survived(test, Way::Up, &silent(), 350);
}

/// What the gateway has counted.
fn counter(harness: &Harness, name: &str) -> u64 {
    let status = status_at(&harness.folder().join("gateway.sock")).unwrap();
    status["counters"][name].as_u64().unwrap_or_default()
}

#[test]
fn packets_take_no_detour_while_the_link_is_up() {
    let test = "packets_take_no_detour_while_the_link_is_up";
    let Some(harness) = harness(test, &emulated(EmulatedLink::default()), "keep") else {
        return;
    };
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    Flow::start(at_fh, at_mh, 4 * MB, 5).finish().unwrap();
    // A machine that stands still looks like a silent mobile: then some take it.
    let taken = counter(&harness, "data-path.taken");
    assert!(taken < 200, "{taken} packets were taken");
    assert_eq!(counter(&harness, "keep.displaced"), 0);
}

#[test]
fn a_thousand_changes_between_kernel_and_daemon_keep_the_order() {
    let test = "a_thousand_changes_between_kernel_and_daemon_keep_the_order";
    let fast = EmulatedLink {
        rate_mbit_per_s: 100.0,
        delay_ms: 2.0,
        queue_packets: 10_000,
        ..EmulatedLink::default()
    };
    let settings = emulated(fast);
    let Some(mut harness) = harness(test, &settings, "keep") else {
        return;
    };
    // So many that none has to give way to a newer one.
    harness.stop_gateway().unwrap();
    harness.set_gateway_settings("[keep]\nflow_packets_max = 1024\n");
    harness.start_gateway().unwrap();
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let sender = at_fh.try_clone().unwrap();
    let flow = Flow::start(at_fh, at_mh, 60 * MB, 5);
    let socket = harness.folder().join("gateway.sock");
    let (mobile, mut changes) = (MH.v4.into(), 0);
    while flow.watch().bytes() < 55 * MB {
        report_link(&socket, mobile, "down").unwrap();
        // For as long as a question takes.
        counter(&harness, "keep.taken");
        report_link(&socket, mobile, "up").unwrap();
        changes += 2;
    }
    flow.finish().unwrap();
    let resent = TcpInfo::of(&sender).unwrap().bytes_retrans;
    let taken = counter(&harness, "keep.taken");
    println!("{changes} changes, {taken} taken, {resent} bytes sent again");
    assert!(changes >= 1_000 && taken > 100, "{changes} {taken}");
    assert_eq!(counter(&harness, "keep.displaced"), 0);
    assert_eq!(counter(&harness, "data-path.taken"), taken);
    assert_eq!(resent, 0, "bytes sent again: packets overtook others");
}

/// A transfer through an outage in which this happens to the gateway.
fn mishap(test: &str, mut happens: impl FnMut(&mut Harness)) {
    let link = EmulatedLink::with_outage(0.5, 2.0);
    let Some(mut harness) = harness(test, &emulated(link), "keep") else {
        return;
    };
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 6 * MB, 5);
    flow.wait_bytes(MB / 4).unwrap();
    start_link(&mut harness);
    await_outage(&harness);
    await_that("something is kept", || counter(&harness, "keep.kept") > 0);
    happens(&mut harness);
    flow.finish().unwrap();
}

#[test]
fn a_gateway_killed_in_an_outage_costs_what_it_has_kept() {
    mishap(
        "a_gateway_killed_in_an_outage_costs_what_it_has_kept",
        |harness| {
            harness.kill_gateway().unwrap();
        },
    );
}

#[test]
fn a_gateway_restarted_in_an_outage_goes_on() {
    mishap("a_gateway_restarted_in_an_outage_goes_on", |harness| {
        harness.stop_gateway().unwrap();
        harness.start_gateway().unwrap();
    });
}

#[test]
fn packets_pass_a_gateway_that_hangs() {
    mishap("packets_pass_a_gateway_that_hangs", |harness| {
        harness.signal_gateway(libc::SIGSTOP).unwrap();
    });
}

/// The kernel forgets its neighbours with the carrier, and would drop all that is for them.
#[test]
fn an_upload_goes_on_when_an_ethernet_has_its_carrier_again() {
    let test = "an_upload_goes_on_when_an_ethernet_has_its_carrier_again";
    punctual(|| {
        let harness = Harness::new(test, &wired(1500), None);
        let Some(harness) = harness.unwrap_or_else(|error| panic!("{test}: {error:#}")) else {
            return Ok(());
        };
        let mobile = Mobile::start(&harness, "keep", &[]);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        await_that("the next hop is known", || {
            mobile.counter("keep.neighbours") > 0
        });
        let flow = Flow::start(at_mh, at_fh, 400 * MB, 5);
        flow.wait_bytes(20 * MB).unwrap();
        harness.topology.set_gateway_device(false).unwrap();
        await_that("the sender tries again", || mobile.counter("keep.kept") > 1);
        // Its next try comes later than the carrier.
        harness.topology.set_gateway_device(true).unwrap();
        let returned_ns = monotonic_ns();
        let received = flow.finish().unwrap();
        let stall_ms = received.stall_ms(returned_ns);
        println!("stalled for {stall_ms} ms");
        assert!(mobile.counter("keep.released") > 0);
        shorter_than(150, "stalled for", stall_ms)
    });
}
