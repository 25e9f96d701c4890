// SPDX-License-Identifier: Apache-2.0
//! The next hop has another address of the link layer after an outage: another access point, a range extender, a
//! random address. What is sent from the cache goes there too.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use holdfast_testbed::daemons::status_at;
use holdfast_testbed::link_process::{GATEWAY_IF, MH_IF};
use holdfast_testbed::topology::Topology;

use super::auto::datagrams;
use super::mobile_host::Mobile;
use super::{PORT, assert_shorter_than, await_that, connection, fh, harness, topology, wired};

/// How long the old address gets no answer while there is a carrier: what is sent then is cached and lost. It
/// decides what the sender retransmits when the link is up.
const SILENCES: [Duration; 3] = [
    Duration::from_millis(120),
    Duration::from_millis(300),
    Duration::from_secs(1),
];
/// How long there is no carrier after it. Then the kernel knows no neighbour.
const NO_CARRIER: Duration = Duration::from_secs(3);
/// The sender's own retransmission shows the new address. It is due as long after link up as the outage was.
const STALL_MAX_MS: u64 = 5_000;
const NEW_MAC: &str = "02:00:00:00:77:01";
/// What an application sends at a time, as often as this.
const MESSAGE: [u8; 100] = [7; 100];
const INTERVAL: Duration = Duration::from_millis(100);

fn take_new_mac(ns: &NetNs, interface: &str) {
    let mut command = ns.command("ip");
    let status = command
        .args(["link", "set", interface, "address", NEW_MAC])
        .status();
    assert!(
        status.unwrap().success(),
        "ip link set {interface} address {NEW_MAC}"
    );
}

/// The MH is away, and returns with another address.
fn mh_returns_with_new_mac(topology: &Topology, silence: Duration) {
    take_new_mac(&topology.mh, MH_IF);
    thread::sleep(silence);
    topology.set_mh_device(false).unwrap();
    thread::sleep(NO_CARRIER);
    topology.set_mh_device(true).unwrap();
}

/// The same of the gateway's device toward the MH.
fn router_returns_with_new_mac(topology: &Topology, silence: Duration) {
    take_new_mac(topology.gateway(), GATEWAY_IF);
    thread::sleep(silence);
    topology.set_gateway_device(false).unwrap();
    thread::sleep(NO_CARRIER);
    topology.set_gateway_device(true).unwrap();
}

/// Sends messages until the other end is closed.
fn send_messages(mut to: TcpStream) {
    thread::spawn(move || {
        while to.write_all(&MESSAGE).is_ok() {
            thread::sleep(INTERVAL);
        }
    });
}

/// Messages from one end to the other, through the outage. They are short, so that each retransmission is of
/// cached bytes alone.
fn messages_continue(from: TcpStream, mut to: TcpStream, outage: impl FnOnce()) {
    send_messages(from);
    to.read_exact(&mut [0; 10 * MESSAGE.len()]).unwrap();
    outage();
    let up_ns = monotonic_ns();
    to.set_nonblocking(true).unwrap();
    while to.read(&mut [0; 4096]).is_ok() {}
    to.set_nonblocking(false).unwrap();
    // More than one message: the connection goes on.
    to.read_exact(&mut [0; 10 * MESSAGE.len()]).unwrap();
    let stall_ms = (monotonic_ns() - up_ns) / 1_000_000;
    println!("stalled for {stall_ms} ms");
    assert_shorter_than(STALL_MAX_MS, "stalled for", stall_ms);
}

fn download_continues(scheme: &str) {
    for silence in SILENCES {
        let harness = harness(&wired(1500), scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let outage = || mh_returns_with_new_mac(&harness.topology, silence);
        messages_continue(at_fh, at_mh, outage);
    }
}

#[test]
fn a_download_with_auto_or_hold_continues_when_the_mh_has_another_mac() {
    in_virtual_kernel!();
    ["auto", "hold"].into_iter().for_each(download_continues);
}

#[test]
fn a_download_with_other_schemes_continues_when_the_mh_has_another_mac() {
    in_virtual_kernel!();
    ["mtcp-plus", "snoop"]
        .into_iter()
        .for_each(download_continues);
}

#[test]
fn an_upload_with_auto_continues_when_the_router_has_another_mac() {
    in_virtual_kernel!();
    for silence in SILENCES {
        let harness = topology(&wired(1500), None);
        let _mobile = Mobile::start(&harness, "auto", &[]);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let outage = || router_returns_with_new_mac(&harness.topology, silence);
        messages_continue(at_mh, at_fh, outage);
    }
}

/// The first of those kept go before any packet has shown the new address.
#[test]
fn datagrams_kept_for_an_mh_go_to_its_new_mac() {
    in_virtual_kernel!();
    let harness = harness(&wired(1500), "keep");
    let counter = |name: &str| {
        let status = status_at(&harness.folder().join("gateway.sock")).unwrap();
        status["counters"][name].as_u64().unwrap_or_default()
    };
    let datagrams = datagrams(&harness);
    await_that("the MH's address is known", || {
        counter("keep.neighbours") > 0
    });
    mh_returns_with_new_mac(&harness.topology, SILENCES[0]);
    let up_ns = monotonic_ns();
    let received = datagrams.join().unwrap();
    let kept = received
        .iter()
        .filter(|one| one.sent_ns < up_ns && up_ns <= one.received_ns);
    let kept = kept.count();
    println!("{kept} datagrams of the outage arrived");
    assert!(counter("keep.released") > 0);
    assert!(kept >= 5, "{received:?}");
}
