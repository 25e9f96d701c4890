// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile --scheme auto` on a vehicle's router: uploads that it forwards behind NAT, TCP
//! and UDP. Its uplink is what the router's wired side is elsewhere.

use std::net::{IpAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use holdfast_testbed::harness::{Flow, Harness, SOCKET_LIMIT};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::{FH, GATEWAY_WIRED_IF, MH, TopologySettings};

use super::mobile_host::Mobile;
use super::router::MASQUERADE;
use super::uploads::{MB, SECOND_NS, outage, upload};
use super::{PORT, assert_shorter_than, await_that, connection, fh, topology, wired};

/// Datagrams sent in an outage, and how many of them are queued.
const SENT: u64 = 50;
const NEWEST: u64 = 16;

/// A router whose uplink is `link`, and the daemon on it.
fn vehicle(link: EmulatedLink, control: &str) -> (Harness, Mobile) {
    let settings = TopologySettings {
        congestion_control: control.to_owned(),
        gateway_nft: MASQUERADE.into(),
        wired: Some(link),
        ..wired(1500)
    };
    let harness = topology(&settings, None);
    let router = harness.topology.gateway();
    let mobile = Mobile::start_at(router, GATEWAY_WIRED_IF, &harness, "auto", &[]);
    (harness, mobile)
}

/// Starts the clock of the uplink's outages; when that was.
fn start_uplink(harness: &mut Harness) -> u64 {
    let start_ns = monotonic_ns();
    let uplink = harness.topology.wired_link.as_mut().unwrap();
    uplink.start_clock(start_ns).unwrap();
    start_ns
}

/// From link up to the first new byte of a forwarded upload to that address, in milliseconds.
fn stall_ms(address: IpAddr, control: &str, carrier_follows: bool) -> u64 {
    let (mut harness, mobile) = vehicle(outage(carrier_follows), control);
    let flow = upload(&harness, address, PORT, 6 * MB);
    let start_ns = start_uplink(&mut harness);
    let stall_ms = flow.finish().unwrap().stall_ms(start_ns + 4 * SECOND_NS);
    println!("{address}, {control}, carrier {carrier_follows}: stalled for {stall_ms} ms");
    assert!(mobile.counter("sent_on") > 0, "nothing was retransmitted");
    stall_ms
}

#[test]
fn an_outage_stalls_a_forwarded_upload_for_two_or_three_round_trips() {
    in_virtual_kernel!();
    for address in [fh(), FH.v6.into()] {
        for control in ["cubic", "bbr", "reno"] {
            for (carrier_follows, limit_ms) in [(true, 120), (false, 170)] {
                let stall_ms = stall_ms(address, control, carrier_follows);
                assert_shorter_than(limit_ms, "stalled for", stall_ms);
            }
        }
    }
}

/// Half of them are masqueraded, half are IPv6.
#[test]
fn eight_forwarded_uploads_go_on_soon_after_a_silent_outage() {
    in_virtual_kernel!();
    let (mut harness, _mobile) = vehicle(outage(false), "cubic");
    let connections = [fh(), FH.v6.into()].into_iter().cycle().zip(PORT..PORT + 8);
    let connections: Vec<_> = connections
        .map(|(address, port)| connection(&harness, address, port))
        .collect();
    let start = |(at_fh, at_mh)| Flow::start(at_mh, at_fh, 2 * MB, 5);
    let flows: Vec<_> = connections.into_iter().map(start).collect();
    for flow in &flows {
        flow.wait_bytes(MB / 8).unwrap();
    }
    let start_ns = start_uplink(&mut harness);
    for flow in flows {
        let stall_ms = flow.finish().unwrap().stall_ms(start_ns + 4 * SECOND_NS);
        println!("stalled for {stall_ms} ms");
        assert_shorter_than(250, "stalled for", stall_ms);
    }
}

#[test]
fn the_newest_forwarded_datagrams_of_an_outage_arrive_after_it() {
    in_virtual_kernel!();
    let (mut harness, mobile) = vehicle(outage(true), "cubic");
    let bind = |ns: &NetNs, address| {
        let socket = ns
            .run(|| UdpSocket::bind((address, PORT)))
            .unwrap()
            .unwrap();
        socket.set_read_timeout(Some(SOCKET_LIMIT)).unwrap();
        socket
    };
    let at_fh = bind(&harness.topology.fh, FH.v4);
    let at_mh = bind(&harness.topology.mh, MH.v4);
    at_mh.connect((FH.v4, PORT)).unwrap();
    let receive = || {
        let mut number = [0; 8];
        let (_, from) = at_fh.recv_from(&mut number).unwrap();
        (u64::from_be_bytes(number), from)
    };
    at_mh.send(&u64::MAX.to_be_bytes()).unwrap();
    let (_, from) = receive();
    assert_ne!(from.ip(), MH.v4, "it is masqueraded");
    // The flow has two directions.
    at_fh.send_to(&[0; 8], from).unwrap();
    at_mh.recv(&mut [0; 8]).unwrap();
    let start_ns = start_uplink(&mut harness);
    await_that("the daemon has seen link down", || {
        mobile
            .status()
            .is_some_and(|status| status["link"] == "down")
    });
    for number in 0..SENT {
        at_mh.send(&number.to_be_bytes()).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    assert!(
        monotonic_ns() < start_ns + 4 * SECOND_NS,
        "all were sent in the outage"
    );
    let arrived: Vec<u64> = (0..NEWEST).map(|_| receive().0).collect();
    assert_eq!(arrived, (SENT - NEWEST..SENT).collect::<Vec<_>>());
}
