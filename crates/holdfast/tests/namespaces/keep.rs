// SPDX-License-Identifier: Apache-2.0
//! `keep` at the gateway, for what mobiles receive, and at the mobile, for what it sends.

use holdfast_lab::harness::{Flow, Harness};
use holdfast_lab::link_process::EmulatedLink;
use holdfast_lab::punctuality::{punctual, shorter_than};

use super::mobile_host::Mobile;
use super::{PORT, connection, emulated, fh, start_link};

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
