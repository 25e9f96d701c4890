// SPDX-License-Identifier: Apache-2.0
//! A gateway on a real router: masquerading, a stateful firewall, strict reverse path filters, a carrier
//! that is lost.

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

/// A home router: masquerading on the wired side, and no packet passes that conntrack does not know.
pub(crate) const MASQUERADE: &str = "
table ip nat {
    chain post { type nat hook postrouting priority 100; oifname \"gw0\" masquerade; }
}
table inet guard {
    chain transit { type filter hook forward priority 0; ct state invalid drop; }
}
";

/// The demo's link with one outage; the test starts its clock.
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
fn an_outage_is_survived_behind_masquerade_a_stateful_firewall_and_strict_rp_filter() {
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
        assert_eq!(from.ip(), GATEWAY_WIRED.v4, "the flow is not masqueraded");
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

/// A radio out of range: the MH receives no TCP segment.
const LOSES_ALL: &str = "
table inet radio {
    chain arriving { type filter hook prerouting priority raw; meta l4proto tcp drop; }
}
";

#[test]
fn a_lost_carrier_of_an_ethernet_stalls_a_download_for_a_moment() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let settings = TopologySettings {
            wired: Some(fast_link()),
            ..wired(1500)
        };
        let harness = harness(&settings, scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 10 * MB, 17);
        flow.wait_bytes(4 * MB).unwrap();
        let gateway = harness.gateway.as_ref().unwrap();
        // First the radio loses everything. Otherwise this fast link may have nothing in flight when
        // the carrier is lost; and later the kernel, without a neighbour, drops new packets before they
        // reach the gateway.
        load_rules(&harness.topology.mh, LOSES_ALL).unwrap();
        await_that("bytes are in flight", || {
            gateway.status().unwrap()["cache"]["bytes"] != 0
        });
        harness.topology.set_mh_device(false).unwrap();
        await_that("the gateway detects the lost carrier", || {
            gateway.status().unwrap()["mobiles"][0]["link"] == "down"
        });
        // The FH's retransmission timer expires and doubles.
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
