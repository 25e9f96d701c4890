// SPDX-License-Identifier: Apache-2.0
//! `auto`: the engine has TCP, `keep` has the rest.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use holdfast_testbed::daemons::status_at;
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::{FH, MH};

use super::{PORT, assert_shorter_than, await_that, connection, emulated, fh, harness, start_link};

const MB: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// A datagram each 20 ms, for 6 s.
const DATAGRAMS: u64 = 300;
const INTERVAL: Duration = Duration::from_millis(20);

fn bind(ns: &NetNs, address: std::net::Ipv4Addr) -> UdpSocket {
    ns.run(move || UdpSocket::bind((address, PORT)))
        .unwrap()
        .unwrap()
}

/// One datagram as the MH received it.
#[derive(Debug)]
pub(super) struct Datagram {
    number: u64,
    pub(super) sent_ns: u64,
    pub(super) received_ns: u64,
}

/// Datagrams from the FH to the MH, which answers each.
pub(super) fn datagrams(harness: &Harness) -> thread::JoinHandle<Vec<Datagram>> {
    let at_fh = bind(&harness.topology.fh, FH.v4);
    let at_mh = bind(&harness.topology.mh, MH.v4);
    at_fh.connect((MH.v4, PORT)).unwrap();
    let limit = Some(Duration::from_secs(5));
    at_mh.set_read_timeout(limit).unwrap();
    thread::spawn(move || {
        for number in 0..DATAGRAMS {
            let fields = [number, monotonic_ns()].map(u64::to_be_bytes);
            at_fh.send(&fields.concat()).unwrap();
            thread::sleep(INTERVAL);
        }
    });
    thread::spawn(move || {
        let mut received: Vec<Datagram> = Vec::new();
        while received
            .last()
            .is_none_or(|last| last.number + 1 < DATAGRAMS)
        {
            let mut fields = [[0; 8]; 2];
            let (_, from) = at_mh.recv_from(fields.as_flattened_mut()).unwrap();
            let received_ns = monotonic_ns();
            at_mh.send_to(fields.as_flattened(), from).unwrap();
            let [number, sent_ns] = fields.map(u64::from_be_bytes);
            received.push(Datagram {
                number,
                sent_ns,
                received_ns,
            });
        }
        received
    })
}

fn counter(harness: &Harness, name: &str) -> u64 {
    let status = status_at(&harness.folder().join("gateway.sock")).unwrap();
    status["counters"][name].as_u64().unwrap_or_default()
}

/// A download and datagrams through one outage of three seconds.
fn outage_is_survived(link: EmulatedLink, limit_ms: u64) {
    let mut harness = harness(&emulated(link), "auto");
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, 6 * MB, 5);
    flow.wait_bytes(MB / 4).unwrap();
    let start_ns = start_link(&mut harness);
    let datagrams = datagrams(&harness);
    let up_ns = start_ns + 4 * SECOND_NS;
    let stall_ms = flow.finish().unwrap().stall_ms(up_ns);
    let received = datagrams.join().unwrap();
    let numbers: BTreeSet<u64> = received.iter().map(|one| one.number).collect();
    assert_eq!(numbers.len(), received.len(), "twice: {received:?}");
    let soon_ns = up_ns + limit_ms * 1_000_000;
    let of_outage = received
        .iter()
        .filter(|one| one.sent_ns < up_ns && (up_ns..soon_ns).contains(&one.received_ns));
    let kept = of_outage.count();
    println!("stalled for {stall_ms} ms, {kept} datagrams of the outage came at link up");
    assert!(kept >= 6, "{received:?}");
    assert_shorter_than(limit_ms, "stalled for", stall_ms);
    assert!(counter(&harness, "keep.released") > 0);
    assert!(counter(&harness, "data-path.taken_downlink") > 0);
    // All of TCP would be thousands.
    let taken = counter(&harness, "data-path.taken");
    assert!((16..=DATAGRAMS).contains(&taken), "{taken}");
}

#[test]
fn an_outage_is_survived_by_tcp_and_by_datagrams() {
    in_virtual_kernel!();
    outage_is_survived(EmulatedLink::with_outage(1.0, 3.0), 200);
}

#[test]
fn a_silent_outage_is_survived_by_tcp_and_by_datagrams() {
    in_virtual_kernel!();
    let link = EmulatedLink {
        carrier_follows: false,
        ..EmulatedLink::with_outage(1.0, 3.0)
    };
    outage_is_survived(link, 350);
}

#[test]
fn datagrams_pass_after_a_kill_and_a_restart() {
    in_virtual_kernel!();
    let mut harness = harness(&emulated(EmulatedLink::default()), "auto");
    let datagrams = datagrams(&harness);
    await_that("datagrams pass", || {
        counter(&harness, "data-path.passed_not_tcp") > 20
    });
    harness.kill_gateway().unwrap();
    harness.start_gateway().unwrap();
    await_that("datagrams pass", || {
        counter(&harness, "data-path.passed_not_tcp") > 20
    });
    harness.stop_gateway().unwrap();
    let received = datagrams.join().unwrap();
    assert_eq!(received.len() as u64, DATAGRAMS, "{received:?}");
}
