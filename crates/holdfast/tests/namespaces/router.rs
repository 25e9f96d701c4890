// SPDX-License-Identifier: Apache-2.0
//! Beside what routers have: masquerading, a stateful firewall, strict reverse
//! path filters, path MTUs of all kinds.

use holdfast_lab::harness::{Flow, accept, connect, listen};
use holdfast_lab::link_process::{EmulatedLink, GATEWAY_IF};
use holdfast_lab::topology::{GATEWAY_WIRED, TopologySettings};
use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::rtnl::Rtnl;

use super::{PORT, SCHEMES, connection, emulated, fh, harness, wired};

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
fn link_with_outage() -> EmulatedLink {
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
    for scheme in SCHEMES {
        let test = "masquerade_a_stateful_firewall_and_strict_rp_filter_notice_nothing";
        let strict = |device: &str| (format!("net.ipv4.conf.{device}.rp_filter"), "1".to_owned());
        let settings = TopologySettings {
            gateway_nft: MASQUERADE.into(),
            gateway_sysctls: vec![strict("all"), strict("default")],
            ..emulated(link_with_outage())
        };
        let Some(mut harness) = harness(test, &settings, scheme) else {
            return;
        };
        let listener = listen(&harness.topology.fh, fh(), PORT).unwrap();
        let at_mh = connect(&harness.topology.mh, fh(), PORT).unwrap();
        let (at_fh, from) = accept(&listener).unwrap();
        assert_eq!(from.ip(), GATEWAY_WIRED.v4, "it is masqueraded");
        let flow = Flow::start(at_fh, at_mh, 6 * MB, 11);
        flow.wait_bytes(MB / 4).unwrap();
        let start_ns = monotonic_ns();
        harness
            .topology
            .link
            .as_mut()
            .unwrap()
            .start_clock(start_ns)
            .unwrap();
        let received = flow
            .finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        let returned_ns = start_ns + 2_500_000_000;
        let first = received
            .first_from(returned_ns)
            .expect("bytes came after the outage");
        let stall_ms = (first.at_ns - returned_ns) / 1_000_000;
        assert!(stall_ms < 200, "{scheme}: stalled for {stall_ms} ms");
    }
}

/// Sets the MTU of the gateway's wireless device.
fn shrink(harness: &holdfast_lab::harness::Harness, octets: u32) {
    let set = || {
        let rtnl = Rtnl::open()?;
        rtnl.set_mtu(rtnl.link_index(GATEWAY_IF)?, octets)
    };
    harness.topology.gateway.run(set).unwrap().unwrap();
}

#[test]
fn a_path_mtu_that_shrinks_in_mid_flow_is_followed() {
    for scheme in SCHEMES {
        let test = "a_path_mtu_that_shrinks_in_mid_flow_is_followed";
        let Some(harness) = harness(test, &emulated(EmulatedLink::default()), scheme) else {
            return;
        };
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 5 * MB, 12);
        flow.wait_bytes(MB).unwrap();
        shrink(&harness, 1300);
        flow.finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
    }
}

#[test]
fn what_is_kept_in_an_outage_follows_an_mtu_that_shrinks_within_it() {
    for scheme in SCHEMES {
        let test = "what_is_kept_in_an_outage_follows_an_mtu_that_shrinks_within_it";
        let Some(mut harness) = harness(test, &emulated(link_with_outage()), scheme) else {
            return;
        };
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 5 * MB, 13);
        flow.wait_bytes(MB / 2).unwrap();
        let start_ns = monotonic_ns();
        let link = harness.topology.link.as_mut().unwrap();
        link.start_clock(start_ns).unwrap();
        holdfast_lab::stop::StopFlag::default()
            .wait_for("the outage", holdfast_lab::harness::SOCKET_LIMIT, || {
                Ok((!link.is_up()).then_some(()))
            })
            .unwrap();
        shrink(&harness, 1300);
        let received = flow
            .finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        let returned_ns = start_ns + 2_500_000_000;
        let first = received
            .first_from(returned_ns)
            .expect("bytes came after the outage");
        let stall_ms = (first.at_ns - returned_ns) / 1_000_000;
        println!("{scheme}: MTU 1500 to 1300 within an outage: stalled for {stall_ms} ms");
        assert!(stall_ms < 1000, "{scheme}: stalled for {stall_ms} ms");
    }
}

#[test]
fn jumbo_frames_and_links_of_1280_octets_pass() {
    for (wired_mtu, wireless_mtu) in [(9000, 9000), (9000, 1500), (1500, 1280), (1280, 9000)] {
        let settings = TopologySettings {
            wired_mtu,
            ..wired(wireless_mtu)
        };
        let test = "jumbo_frames_and_links_of_1280_octets_pass";
        let Some(harness) = harness(test, &settings, "hold") else {
            return;
        };
        let (down_fh, down_mh) = connection(&harness, fh(), PORT);
        let (up_fh, up_mh) = connection(&harness, fh(), PORT + 1);
        let downlink = Flow::start(down_fh, down_mh, 20 * MB, 14);
        let uplink = Flow::start(up_mh, up_fh, 20 * MB, 15);
        let what = format!("{wired_mtu} wired, {wireless_mtu} wireless");
        downlink
            .finish()
            .unwrap_or_else(|error| panic!("{what}, downlink: {error:#}"));
        uplink
            .finish()
            .unwrap_or_else(|error| panic!("{what}, uplink: {error:#}"));
    }
}
