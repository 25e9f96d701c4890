// SPDX-License-Identifier: Apache-2.0
//! An interface that is renamed, or moved to another namespace and back: meanwhile all packets pass.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use holdfast_testbed::harness::{Harness, SOCKET_LIMIT, accept, connect, listen};
use holdfast_testbed::link_process::{GATEWAY_IF, MH_IF};
use holdfast_testbed::topology::{FH, GATEWAY_WIRELESS, MH};

use super::mobile_host::Mobile;
use super::{PORT, assert_shorter_than, await_that, harness, topology, wired};

/// The interface's name while it has another one.
const OTHER_NAME: &str = "wl-other";
/// The longest time from the change to the last answer, in milliseconds.
const PASSES_WITHIN_MS: u64 = 1000;

/// A host and the MH, which answer each other.
struct Pair {
    tcp: [TcpStream; 2],
    udp: [UdpSocket; 2],
}

impl Pair {
    fn open(harness: &Harness, host: &NetNs, address: Ipv4Addr, port: u16) -> Self {
        let mh = &harness.topology.mh;
        let bind = |ns: &NetNs, own: Ipv4Addr, other: Ipv4Addr| {
            let socket = ns.run(|| UdpSocket::bind((own, port))).unwrap().unwrap();
            socket.connect((other, port)).unwrap();
            socket.set_read_timeout(Some(SOCKET_LIMIT)).unwrap();
            socket
        };
        let udp = [bind(host, address, MH.v4), bind(mh, MH.v4, address)];
        let listener = listen(host, IpAddr::V4(address), port).unwrap();
        let at_mh = connect(mh, IpAddr::V4(address), port).unwrap();
        let tcp = [accept(&listener).unwrap().0, at_mh];
        Self { tcp, udp }
    }

    /// An octet by TCP and one by UDP to the MH, and back.
    fn exchange(&mut self) {
        for (from, to) in [(0, 1), (1, 0)] {
            let mut octet = [0];
            self.tcp[from].write_all(b"t").unwrap();
            self.tcp[to].read_exact(&mut octet).unwrap();
            self.udp[from].send(b"u").unwrap();
            self.udp[to].recv(&mut octet).unwrap();
        }
    }
}

fn ip(ns: &NetNs, arguments: &str) {
    let mut command = ns.command("ip");
    let output = command.args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

fn is_attached(harness: &Harness) -> bool {
    harness.gateway.as_ref().unwrap().status().unwrap()["attached"] == true
}

/// Packets that the gateway's programs have seen at the interface and not passed.
fn taken(harness: &Harness) -> u64 {
    let status = harness.gateway.as_ref().unwrap().status().unwrap();
    let count = |name: &str| status["counters"][name].as_u64().unwrap_or_default();
    count("data-path.taken_downlink") + count("data-path.taken_uplink")
}

/// The gateway takes TCP again, or with `keep` is attached.
fn assert_served(harness: &Harness, scheme: &str, pair: &mut Pair) {
    await_that("the gateway is attached again", || is_attached(harness));
    let before = taken(harness);
    pair.exchange();
    assert!(scheme == "keep" || taken(harness) > before, "{scheme}");
}

fn assert_passes(what: &str, changed_ns: u64, pair: &mut Pair) {
    pair.exchange();
    let took_ms = (monotonic_ns() - changed_ns) / 1_000_000;
    println!("{what}: TCP and UDP pass {took_ms} ms after the change");
    assert_shorter_than(PASSES_WITHIN_MS, what, took_ms);
}

#[test]
fn packets_pass_a_renamed_interface_and_it_is_served_again_under_its_name() {
    in_virtual_kernel!();
    for scheme in ["auto", "hold", "mtcp-plus", "keep"] {
        let mut harness = harness(&wired(1500), scheme);
        let mut pair = Pair::open(&harness, &harness.topology.fh, FH.v4, PORT);
        pair.exchange();
        let gateway = harness.topology.gateway();
        ip(gateway, &format!("link set {GATEWAY_IF} name {OTHER_NAME}"));
        let changed_ns = monotonic_ns();
        assert_passes(scheme, changed_ns, &mut pair);
        await_that("the gateway has noticed", || !is_attached(&harness));
        pair.exchange();
        let mut later = Pair::open(&harness, &harness.topology.fh, FH.v4, PORT + 1);
        later.exchange();

        ip(gateway, &format!("link set {OTHER_NAME} name {GATEWAY_IF}"));
        assert_served(&harness, scheme, &mut pair);
        later.exchange();
        harness.stop_gateway().unwrap();
    }
}

#[test]
fn what_a_mobile_sends_passes_its_renamed_interface() {
    in_virtual_kernel!();
    let harness = topology(&wired(1500), None);
    let mobile = Mobile::start(&harness, "auto", &[]);
    let mut pair = Pair::open(&harness, &harness.topology.fh, FH.v4, PORT);
    pair.exchange();
    let copied = || mobile.counter("tcp-path.copied_downlink");
    let mh = &harness.topology.mh;
    let before = copied();
    assert!(before > 0, "the daemon is not attached");
    ip(mh, &format!("link set {MH_IF} name {OTHER_NAME}"));
    assert_passes("mobile", monotonic_ns(), &mut pair);
    // Its programs leave the interface.
    let mut was = copied();
    await_that("nothing is copied", || {
        pair.exchange();
        let is = copied();
        std::mem::replace(&mut was, is) == is
    });

    ip(mh, &format!("link set {OTHER_NAME} name {MH_IF}"));
    // The counters begin again with the new programs.
    await_that("segments are copied again", || {
        pair.exchange();
        let is = copied();
        is > 0 && std::mem::replace(&mut was, is) != is
    });
}

#[test]
fn packets_pass_an_interface_in_another_namespace_and_it_is_served_again_when_it_is_back() {
    in_virtual_kernel!();
    for scheme in ["auto", "keep"] {
        let mut harness = harness(&wired(1500), scheme);
        let mut pair = Pair::open(&harness, &harness.topology.fh, FH.v4, PORT);
        pair.exchange();
        let gateway = harness.topology.gateway();
        let other = NetNs::new().unwrap();
        let address = GATEWAY_WIRELESS.v4;
        let configure = |ns: &NetNs| {
            ip(ns, &format!("address add {address}/24 dev {GATEWAY_IF}"));
            ip(ns, &format!("link set {GATEWAY_IF} up"));
        };
        move_to(&other, gateway);
        configure(&other);
        let changed_ns = monotonic_ns();
        let mut there = Pair::open(&harness, &other, address, PORT + 1);
        assert_passes(scheme, changed_ns, &mut there);
        await_that("the gateway has noticed", || !is_attached(&harness));
        there.exchange();

        move_to(gateway, &other);
        configure(gateway);
        assert_served(&harness, scheme, &mut pair);
        harness.stop_gateway().unwrap();
    }
}

/// Moves the interface from one namespace to another.
fn move_to(to: &NetNs, from: &NetNs) {
    let (process, namespace) = (std::process::id(), to.as_fd().as_raw_fd());
    let target = format!("/proc/{process}/fd/{namespace}");
    ip(from, &format!("link set {GATEWAY_IF} netns {target}"));
}
