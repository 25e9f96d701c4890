// SPDX-License-Identifier: Apache-2.0
//! M-TCP's early set-up between real kernels: opened by either end, refused, and with a gateway that is killed.

use std::io::ErrorKind;
use std::net::{IpAddr, TcpStream};

use holdfast_net::netns::NetNs;
use holdfast_testbed::harness::{Flow, Harness, accept, connect, listen};
use holdfast_testbed::topology::{MH, TopologySettings};

use super::bulk::fast_link;
use super::{PORT, await_that, fh, harness, wired};

const MB: u64 = 1_000_000;

const EARLY: &str = "[mtcp]\nset_up = \"early\"\n";

fn early() -> Harness {
    let settings = TopologySettings {
        wired: Some(fast_link()),
        ..wired(1500)
    };
    let mut harness = harness(&settings, "mtcp");
    harness.stop_gateway().unwrap();
    harness.set_gateway_settings(EARLY);
    harness.start_gateway().unwrap();
    harness
}

/// A connection between two hosts: the listener's end, and the opener's end.
fn open(at: &NetNs, from: &NetNs, address: IpAddr, port: u16) -> (TcpStream, TcpStream) {
    let listener = listen(at, address, port).unwrap();
    let opened = connect(from, address, port).unwrap();
    (accept(&listener).unwrap().0, opened)
}

fn counter(harness: &Harness, name: &str) -> u64 {
    let status = harness.gateway.as_ref().unwrap().status().unwrap();
    status["counters"][name].as_u64().unwrap_or(0)
}

#[test]
fn data_arrives_whole_in_both_directions_whichever_end_opens() {
    in_virtual_kernel!();
    let harness = early();
    let topology = &harness.topology;
    let opened_by_mh = open(&topology.fh, &topology.mh, fh(), PORT);
    let opened_by_fh = open(&topology.mh, &topology.fh, MH.v4.into(), PORT + 1);
    for (number, (one, other)) in [opened_by_mh, opened_by_fh].into_iter().enumerate() {
        let reverse = (other.try_clone().unwrap(), one.try_clone().unwrap());
        let forward = Flow::start(one, other, 8 * MB, number as u64);
        let reverse = Flow::start(reverse.0, reverse.1, 4 * MB, 7 + number as u64);
        let received = forward.finish();
        received.unwrap_or_else(|error| panic!("{number}, forward: {error:#}"));
        let received = reverse.finish();
        received.unwrap_or_else(|error| panic!("{number}, reverse: {error:#}"));
    }
    assert_eq!(counter(&harness, "early_joined"), 2);
    assert_eq!(counter(&harness, "early_lost"), 0);
}

#[test]
fn an_end_that_refuses_resets_the_opener() {
    in_virtual_kernel!();
    let harness = early();
    let topology = &harness.topology;
    for (from, address) in [(&topology.mh, fh()), (&topology.fh, MH.v4.into())] {
        // The opener is connected early; the RST comes later, or before it can read.
        let read = connect(from, address, PORT + 9)
            .and_then(|stream| std::io::Read::read(&mut &stream, &mut [0; 1]));
        let ended = read.expect_err("no program listens");
        assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(counter(&harness, "early_refused"), 2);
}

#[test]
fn a_connection_stops_without_the_gateway_and_continues_with_its_successor() {
    in_virtual_kernel!();
    let mut harness = early();
    let topology = &harness.topology;
    let (one, other) = open(&topology.mh, &topology.fh, MH.v4.into(), PORT);
    let flow = Flow::start(other, one, 12 * MB, 3);
    flow.wait_bytes(4 * MB).unwrap();
    harness.kill_gateway().unwrap();
    // The bytes in flight arrive; then no byte arrives for 700 ms.
    let mut last = (flow.watch().bytes(), std::time::Instant::now());
    await_that("no byte arrives", || {
        let bytes = flow.watch().bytes();
        if bytes != last.0 {
            last = (bytes, std::time::Instant::now());
        }
        last.1.elapsed().as_millis() > 700
    });
    assert!(
        flow.watch().bytes() < 12 * MB,
        "the connection continued without a gateway"
    );
    harness.start_gateway().unwrap();
    let received = flow.finish().unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(received.bytes(), 12 * MB);
}
