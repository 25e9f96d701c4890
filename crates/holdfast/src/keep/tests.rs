// SPDX-License-Identifier: Apache-2.0
//! The worker of `keep` step by step, between the kernels of an FH and an MH.

use std::net::UdpSocket;

use holdfast_core::signal::{MobileKey, MobileSession, MobileTimers};
use holdfast_net::netns::available_or_skip;
use holdfast_testbed::harness::{accept, connect, listen};
use holdfast_testbed::link_process::GATEWAY_IF;
use holdfast_testbed::topology::{FH, MH, Topology, TopologySettings, Wireless};

use super::*;
use crate::command::WorkerHandle;

const PORT: u16 = 700;
/// How long a kernel has for a packet.
const LIMIT: Duration = Duration::from_secs(30);

fn worker() -> KeepWorker {
    let taken = (Peers::ByAddress, Protocols::All);
    let path = KeepPath::attach(GATEWAY_IF, AttachMode::Auto, taken, 1).unwrap();
    let (_, inbox) = WorkerHandle::new().unwrap();
    let outages = tokio::sync::mpsc::channel(1).0;
    let worker = KeepWorker::new(path, KeepSettings::default(), inbox, outages).unwrap();
    // The test makes its steps: it may be slow.
    worker
        .edge
        .path
        .beat(monotonic_ns() + LIMIT.as_nanos() as u64 * 10);
    worker
}

/// Waits until this many packets were taken from their path.
fn await_taken(worker: &KeepWorker, packets: u64) {
    let counters = worker.edge.path.counters().unwrap();
    let by = now() + LIMIT;
    loop {
        let all = counters.read().unwrap();
        let taken = all.iter().find(|(name, _)| *name == "taken").unwrap().1;
        if taken == packets {
            return;
        }
        assert!(now() < by, "{taken} packets were taken, not {packets}");
        std::thread::yield_now();
    }
}

/// Reads as many frames: one that was counted may still be on its way to the device.
fn read(worker: &mut KeepWorker, frames: usize) {
    let by = now() + LIMIT;
    let mut read = 0;
    while read < frames {
        read += worker.read_batch().unwrap();
        assert!(now() < by, "{read} frames were read, not {frames}");
    }
    assert_eq!(read, frames);
}

fn socket(ns: &holdfast_net::netns::NetNs, address: std::net::Ipv4Addr) -> UdpSocket {
    let socket = ns.run(|| UdpSocket::bind((address, PORT))).unwrap();
    let socket = socket.unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

fn received(socket: &UdpSocket) -> u8 {
    let mut octet = [0];
    socket.recv(&mut octet).unwrap();
    octet[0]
}

fn link_up(worker: &mut KeepWorker, peer: PeerId) {
    worker.handle_link(&[peer], LinkEvent::Up, LinkSource::Command);
    while let Some(at) = worker.keeper.poll_timeout() {
        worker.keeper.handle_timeout(at, &mut worker.edge);
    }
}

/// Runs the steps with a worker that has seen the MH, and with a socket of the FH and one of the MH.
fn between_fh_and_mh(
    test: &str,
    steps: impl FnOnce(KeepWorker, PeerId, &UdpSocket, &UdpSocket) + Send,
) {
    if !available_or_skip(test) {
        return;
    }
    let settings = TopologySettings::new("no-link", Wireless::Veth { mtu: 1500 });
    let topology = Topology::build(&settings).unwrap();
    // The links carry, and the kernels know the next hops: no datagram is lost for want of that.
    let listener = listen(&topology.fh, FH.v4.into(), PORT).unwrap();
    let _idle = connect(&topology.mh, FH.v4.into(), PORT).unwrap();
    let _idle_too = accept(&listener).unwrap();
    let at_fh = socket(&topology.fh, FH.v4);
    let at_mh = socket(&topology.mh, MH.v4);
    let with_worker = || {
        let worker = worker();
        at_mh.send_to(&[0], (FH.v4, PORT)).unwrap();
        assert_eq!(received(&at_fh), 0);
        let peer = worker.edge.path.peer(MH.v4.into()).expect("it was seen");
        steps(worker, peer, &at_fh, &at_mh);
    };
    topology.gateway().run(with_worker).unwrap();
}

#[test]
fn packets_take_the_kernels_path_again_behind_those_that_wait_in_the_device() {
    let test = "packets_take_the_kernels_path_again_behind_those_that_wait_in_the_device";
    between_fh_and_mh(test, |mut worker, peer, at_fh, at_mh| {
        let send = |number: u8| at_fh.send_to(&[number], (MH.v4, PORT)).unwrap();
        send(1);
        assert_eq!(received(at_mh), 1);
        worker.handle_link(&[peer], LinkEvent::Down, LinkSource::Command);
        send(2);
        await_taken(&worker, 1);
        read(&mut worker, 1);
        send(3);
        send(4);
        await_taken(&worker, 3);
        // The worker has read one of three when the link is up.
        link_up(&mut worker, peer);
        assert!(worker.edge.path.table().is_draining(peer));
        // However long the steps took.
        worker.edge.draining.insert(peer, now() + LIMIT);
        worker.end_draining(false);
        send(5);
        await_taken(&worker, 4);
        read(&mut worker, 3);
        for number in 2..=5 {
            assert_eq!(received(at_mh), number, "one overtook another");
        }
        // Nothing waits any more: the next packet is not taken.
        worker.end_draining(true);
        send(6);
        assert_eq!(received(at_mh), 6);
        await_taken(&worker, 4);
        assert!(!worker.edge.path.table().is_draining(peer));
    });
}

fn signal() -> Vec<u8> {
    let (key, timers) = (MobileKey::from_random([1; 36]), MobileTimers::default());
    let mut session = MobileSession::new(key, [2; 8], &[], timers, Instant::ZERO);
    let signal = session.poll_transmit(Instant::ZERO, &[3; 24]);
    signal.expect("a registration")
}

#[test]
fn a_link_signal_that_shows_a_silence_leaves_the_peers_packets_alone() {
    let test = "a_link_signal_that_shows_a_silence_leaves_the_peers_packets_alone";
    between_fh_and_mh(test, |mut worker, peer, at_fh, at_mh| {
        // As the program does with the packet that shows a silence.
        worker.edge.path.table().set_mode(peer, Mode::Take);
        let signal = signal();
        at_fh.send_to(&signal, (MH.v4, PORT)).unwrap();
        await_taken(&worker, 1);
        read(&mut worker, 1);
        assert_eq!(received(at_mh), signal[0]);
        assert!(!worker.edge.path.table().is_taking(peer));
        worker.end_draining(true);
        at_fh.send_to(&[1], (MH.v4, PORT)).unwrap();
        assert_eq!(received(at_mh), 1);
        await_taken(&worker, 1);
        assert_eq!(worker.keeper.counters().silences, 0);
        // A peer that the keeper follows stays taken.
        worker.handle_link(&[peer], LinkEvent::Down, LinkSource::Command);
        at_fh.send_to(&signal, (MH.v4, PORT)).unwrap();
        await_taken(&worker, 2);
        read(&mut worker, 1);
        assert!(worker.edge.path.table().is_taking(peer));
    });
}

#[test]
fn a_link_signal_is_not_kept() {
    let test = "a_link_signal_is_not_kept";
    between_fh_and_mh(test, |mut worker, peer, at_fh, at_mh| {
        let signal = signal();
        worker.handle_link(&[peer], LinkEvent::Down, LinkSource::Command);
        for datagram in [&[1][..], &signal] {
            at_fh.send_to(datagram, (MH.v4, PORT)).unwrap();
        }
        await_taken(&worker, 2);
        read(&mut worker, 2);
        assert_eq!(received(at_mh), signal[0], "it waits for no link up");
        link_up(&mut worker, peer);
        assert_eq!(received(at_mh), 1);
    });
}

#[test]
fn a_report_of_a_multicast_group_has_no_source() {
    let from_fh = [&[0x60, 0, 0, 0, 0, 0, 17, 64][..], &[0xfd; 16], &[0xfd; 16]].concat();
    assert!(!has_no_source(&from_fh));
    let of_kernel = [&[0x60, 0, 0, 0, 0, 0, 0, 1][..], &[0; 16], &[0xff; 16]].concat();
    assert!(has_no_source(&of_kernel));
    // Another protocol's, or cut.
    assert!(!has_no_source(&[0x45, 0, 0, 40, 0, 0, 0, 0].repeat(5)));
    assert!(!has_no_source(&of_kernel[..20]));
    assert!(!has_no_source(&[]));
}
