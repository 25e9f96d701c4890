// SPDX-License-Identifier: Apache-2.0
//! Links and paths with all MTUs, and MTUs that shrink while a flow uses them.

use std::net::IpAddr;

use holdfast_net::netns::NetNs;
use holdfast_net::rtnl::{Rtnl, sysctl};
use holdfast_testbed::harness::{Flow, Harness, accept, connect, listen};
use holdfast_testbed::link_process::{EmulatedLink, GATEWAY_IF};
use holdfast_testbed::topology::{MH, TopologySettings, load_rules};

use super::router::link_with_outage;
use super::{
    PORT, TCP_SCHEMES, assert_shorter_than, await_outage, connection, emulated, fh, harness,
    start_link, wired,
};

const MB: u64 = 1_000_000;

/// The MTU that the links shrink to.
const SMALL_OCTETS: u32 = 1300;

/// The MH drops and counts packets larger than [`SMALL_OCTETS`].
const TAKES_SMALL_ONLY: &str = "
table inet small_link {
    counter too_big {}
    chain arriving {
        type filter hook prerouting priority raw;
        meta length > 1300 counter name too_big drop
    }
}
";

fn set_mtu(ns: &NetNs, name: &str, octets: u32) {
    let set = || {
        let rtnl = Rtnl::open()?;
        rtnl.set_mtu(rtnl.link_index(name)?, octets)
    };
    ns.run(set).unwrap().unwrap();
}

/// Packets that the MH's end of the small link has dropped.
fn too_big_at_mh(harness: &Harness) -> String {
    let mut command = harness.topology.mh.command("nft");
    let output = command
        .args(["list", "counter", "inet", "small_link", "too_big"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, packets) = text.split_once("packets ").expect("a counter");
    packets.split(' ').next().unwrap().to_owned()
}

#[test]
fn the_gateway_follows_a_path_mtu_that_shrinks_in_mid_flow() {
    in_virtual_kernel!();
    for scheme in TCP_SCHEMES {
        let harness = harness(&emulated(EmulatedLink::default()), scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 5 * MB, 12);
        flow.wait_bytes(MB).unwrap();
        set_mtu(harness.topology.gateway(), GATEWAY_IF, SMALL_OCTETS);
        flow.finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
    }
}

#[test]
fn cached_segments_follow_an_mtu_that_shrinks_in_the_outage() {
    in_virtual_kernel!();
    for scheme in TCP_SCHEMES {
        let mut harness = harness(&emulated(link_with_outage()), scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let flow = Flow::start(at_fh, at_mh, 5 * MB, 13);
        flow.wait_bytes(MB / 2).unwrap();
        let start_ns = start_link(&mut harness);
        await_outage(&harness);
        set_mtu(harness.topology.gateway(), GATEWAY_IF, SMALL_OCTETS);
        load_rules(&harness.topology.mh, TAKES_SMALL_ONLY).unwrap();
        let received = flow
            .finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        assert_eq!(
            too_big_at_mh(&harness),
            "0",
            "{scheme}: too big for the link"
        );
        let stall_ms = received.stall_ms(start_ns + 2_500_000_000);
        println!("{scheme}: MTU 1500 to 1300 within an outage: stalled for {stall_ms} ms");
        assert_shorter_than(200, scheme, stall_ms);
    }
}

/// The host behind the MH, which is a router here.
const BEYOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 3, 0, 2));
const ROUTER_BEYOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 3, 0, 1));
const EVERYWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

/// Makes a router of the MH, and a host behind it.
fn add_host_beyond(harness: &Harness) -> NetNs {
    let (router, beyond) = (&harness.topology.mh, NetNs::new().unwrap());
    let device = |name: &str, own: IpAddr| {
        let rtnl = Rtnl::open()?;
        let ifindex = rtnl.link_index(name)?;
        rtnl.add_address(ifindex, own, 24)?;
        rtnl.set_up(ifindex)
    };
    let set_up = || {
        sysctl("net.ipv4.ip_forward", "1")?;
        Rtnl::open()?.add_veth("beyond0", router, "host0", &beyond)?;
        device("beyond0", ROUTER_BEYOND)
    };
    router.run(set_up).unwrap().unwrap();
    let set_up = || {
        device("host0", BEYOND)?;
        let rtnl = Rtnl::open()?;
        rtnl.add_route(
            EVERYWHERE,
            0,
            Some(ROUTER_BEYOND),
            rtnl.link_index("host0")?,
        )
    };
    beyond.run(set_up).unwrap().unwrap();
    let route = || {
        let rtnl = Rtnl::open()?;
        let net = IpAddr::from([10, 3, 0, 0]);
        rtnl.add_route(net, 24, Some(MH.v4.into()), rtnl.link_index(GATEWAY_IF)?)
    };
    harness.topology.gateway().run(route).unwrap().unwrap();
    beyond
}

#[test]
fn cached_segments_follow_the_mtu_that_a_router_beyond_the_link_reports() {
    in_virtual_kernel!();
    for scheme in TCP_SCHEMES {
        let mut harness = harness(&emulated(link_with_outage()), scheme);
        let beyond = add_host_beyond(&harness);
        let listener = listen(&harness.topology.fh, fh(), PORT).unwrap();
        let at_beyond = connect(&beyond, fh(), PORT).unwrap();
        let (at_fh, _) = accept(&listener).unwrap();
        let flow = Flow::start(at_fh, at_beyond, 5 * MB, 19);
        flow.wait_bytes(MB / 2).unwrap();
        let start_ns = start_link(&mut harness);
        await_outage(&harness);
        set_mtu(&harness.topology.mh, "beyond0", SMALL_OCTETS);
        let received = flow
            .finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        let stall_ms = received.stall_ms(start_ns + 2_500_000_000);
        println!("{scheme}: a path of 1300 octets after the outage: {stall_ms} ms");
        // The ICMP message takes one round trip more.
        assert_shorter_than(400, scheme, stall_ms);
    }
}

#[test]
fn jumbo_frames_and_links_of_1280_octets_pass() {
    in_virtual_kernel!();
    for (wired_mtu, wireless_mtu) in [(9000, 9000), (9000, 1500), (1500, 1280), (1280, 9000)] {
        let settings = TopologySettings {
            wired_mtu,
            ..wired(wireless_mtu)
        };
        let harness = harness(&settings, "hold");
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
