// SPDX-License-Identifier: Apache-2.0
//! Beside what routers have: masquerading, a stateful firewall, strict reverse
//! path filters, a carrier that comes and goes.

use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::{Flow, accept, connect, listen};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::{GATEWAY_WIRED, TopologySettings, load_rules};

use super::bulk::fast_link;
use super::{
    PORT, SCHEMES, assert_shorter_than, await_that, connection, emulated, fh, harness, start_link,
    wired,
};

const MB: u64 = 1_000_000;

/// What a home router does: masquerading on the wired side, and nothing passes
/// that conntrack does not know.
pub(crate) const MASQUERADE: &str = "
table ip nat {
    chain post { type nat hook postrouting priority 100; oifname \"gw0\" masquerade; }
}
table inet guard {
    chain transit { type filter hook forward priority 0; ct state invalid drop; }
}
";

/// The demo's link with one outage, begun when the test says so.
pub(crate) fn link_with_outage() -> EmulatedLink {
    let outages = vec![OutageAt {
        at_s: 0.5,
        for_s: 2.0,
    }];
    EmulatedLink {
        outages,
        ..EmulatedLink::default()
    }
}

#[test]
fn masquerade_a_stateful_firewall_and_strict_rp_filter_notice_nothing() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let strict = |device: &str| (format!("net.ipv4.conf.{device}.rp_filter"), "1".to_owned());
        let settings = TopologySettings {
            gateway_nft: MASQUERADE.into(),
            gateway_sysctls: vec![strict("all"), strict("default")],
            ..emulated(link_with_outage())
        };
        let mut harness = harness(&settings, scheme);
        let listener = listen(&harness.topology.fh, fh(), PORT).unwrap();
        let at_mh = connect(&harness.topology.mh, fh(), PORT).unwrap();
        let (at_fh, from) = accept(&listener).unwrap();
        assert_eq!(from.ip(), GATEWAY_WIRED.v4, "it is masqueraded");
        let flow = Flow::start(at_fh, at_mh, 6 * MB, 11);
        flow.wait_bytes(MB / 4).unwrap();
        let start_ns = start_link(&mut harness);
        let received = flow
            .finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        let stall_ms = received.stall_ms(start_ns + 2_500_000_000);
        assert_shorter_than(200, scheme, stall_ms);
    }
}

/// A radio out of reach: the MH gets no TCP segment.
const LOSES_ALL: &str = "
table inet radio {
    chain arriving { type filter hook prerouting priority raw; meta l4proto tcp drop; }
}
";

#[test]
fn a_carrier_that_goes_from_an_ethernet_stalls_a_download_for_a_moment_only() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let settings = TopologySettings {
            wired: Some(fast_link()),
            ..wired(1500)
        };
        let harness = harness(&settings, scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 30 * MB, 17);
        flow.wait_bytes(4 * MB).unwrap();
        let gateway = harness.gateway.as_ref().unwrap();
        // Before it goes it loses what is on it; otherwise nothing may be in flight at
        // that moment on a link this fast, and then there is nothing to be kept: without
        // its neighbour the kernel drops what comes before it reaches the gateway.
        load_rules(&harness.topology.mh, LOSES_ALL).unwrap();
        await_that("bytes are in flight", || {
            gateway.status().unwrap()["cache"]["bytes"] != 0
        });
        harness.topology.set_mh_device(false).unwrap();
        await_that("the gateway sees its carrier go", || {
            gateway.status().unwrap()["mobiles"][0]["link"] == "down"
        });
        // Long enough for the FH to try in vain and to double its timer.
        let until_ns = monotonic_ns() + 1_500_000_000;
        await_that("time passes", || monotonic_ns() >= until_ns);
        load_rules(&harness.topology.mh, "delete table inet radio").unwrap();
        let returned_ns = monotonic_ns();
        harness.topology.set_mh_device(true).unwrap();
        let received = flow
            .finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        let stall_ms = received.stall_ms(returned_ns);
        println!("{scheme}: carrier lost for 1.5 s: stalled for {stall_ms} ms");
        assert_shorter_than(300, scheme, stall_ms);
    }
}
