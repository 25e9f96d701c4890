// SPDX-License-Identifier: Apache-2.0
//! A worker with planted defects, between the kernels of an FH and an MH.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use holdfast_core::{LinkEvent, LinkSource, Scheme};
use holdfast_net::datapath::AttachMode;
use holdfast_net::netns::available_or_skip;
use holdfast_testbed::harness::{accept, connect, listen};
use holdfast_testbed::link_process::GATEWAY_IF;
use holdfast_testbed::topology::{FH, MH, Topology, TopologySettings, Wireless, load_rules};
use tokio::sync::mpsc;

use super::super::*;
use super::PlantedDefect;
use crate::command::{Command, WorkerHandle};
use crate::control::StatusReply;

/// Ports of the FH: one whose segments are a defect, one whose are none.
const DEFECT: u16 = 701;
const FINE: u16 = 702;

/// A worker in its topology.
struct Setup {
    topology: Topology,
    handle: WorkerHandle,
}

impl Setup {
    fn status(&self) -> StatusReply {
        let (reply, mut answer) = mpsc::channel(1);
        self.send(Command::Status {
            flows_max: 10,
            named: Vec::new(),
            reply,
        });
        answer.blocking_recv().unwrap()
    }

    fn send(&self, command: Command) {
        assert!(self.handle.send(command));
    }

    /// Both ends of a connection, over which a byte went each way.
    fn connection(&self, port: u16) -> (TcpStream, TcpStream) {
        let listener = listen(&self.topology.fh, FH.v4.into(), port).unwrap();
        let mut at_mh = connect(&self.topology.mh, FH.v4.into(), port).unwrap();
        let (mut at_fh, _) = accept(&listener).unwrap();
        exchange(&mut at_fh, &mut at_mh);
        (at_fh, at_mh)
    }
}

/// Waits until the status is as described.
fn await_status(setup: &Setup, what: &str, mut is_so: impl FnMut(&StatusReply) -> bool) {
    let by = now() + Duration::from_secs(30);
    loop {
        let status = setup.status();
        if is_so(&status) {
            return;
        }
        assert!(now() < by, "{what}: {status:?}");
    }
}

/// Exchanges bytes until the status is as described. What is sent while the worker is late passes it.
fn await_in_flow(
    setup: &Setup,
    at_fh: &mut TcpStream,
    at_mh: &mut TcpStream,
    is_so: impl Fn(&StatusReply) -> bool,
) {
    let is_so_after = |status: &StatusReply| {
        let is_so = is_so(status);
        if !is_so {
            exchange(at_fh, at_mh);
        }
        is_so
    };
    await_status(setup, "not after bytes of the flow", is_so_after);
}

fn exchange(at_fh: &mut TcpStream, at_mh: &mut TcpStream) {
    let mut octet = [0];
    at_fh.write_all(b"x").unwrap();
    at_mh.read_exact(&mut octet).unwrap();
    at_mh.write_all(b"y").unwrap();
    at_fh.read_exact(&mut octet).unwrap();
}

fn worker_settings(scheme: Scheme) -> WorkerSettings {
    WorkerSettings {
        core: Settings {
            scheme,
            ..Settings::default()
        },
        drain: Duration::ZERO,
        wired_mtu: None,
        resend_dscp: None,
        outages: tokio::sync::mpsc::channel(1).0,
    }
}

/// Runs the work beside a worker with this defect.
fn beside_worker(test: &str, defect: PlantedDefect, work: impl FnOnce(&Setup)) {
    beside_worker_of(test, Settings::default().scheme, defect, work);
}

fn beside_worker_of(test: &str, scheme: Scheme, defect: PlantedDefect, work: impl FnOnce(&Setup)) {
    if !available_or_skip(test) {
        return;
    }
    let settings = TopologySettings::new("no-link", Wireless::Veth { mtu: 1500 });
    let topology = Topology::build(&settings).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (handle, inbox) = WorkerHandle::new().unwrap();
    let gateway_ns = topology.gateway().clone();
    let state = folder.path().join("state");
    let worker = std::thread::spawn(move || {
        let run = || {
            let path = DataPath::attach(GATEWAY_IF, AttachMode::Auto).unwrap();
            let settings = worker_settings(scheme);
            let (records, found, _) = Records::open(&state, settings.core.flows_max).unwrap();
            let mut worker = Worker::new(path, settings, records, &found, inbox, None);
            worker.defect = defect;
            worker.run().unwrap();
        };
        gateway_ns.run(run).unwrap();
    });
    let setup = Setup { topology, handle };
    // It beats: what is sent from now on is its.
    setup.status();
    work(&setup);
    setup.send(Command::Leave);
    worker.join().unwrap();
}

fn panics(status: &StatusReply) -> u64 {
    status.counters["worker.panics"]
}

#[test]
fn a_flow_that_the_engine_falls_over_passes_untouched_and_others_are_followed() {
    let test = "a_flow_that_the_engine_falls_over_passes_untouched_and_others_are_followed";
    let defect = PlantedDefect {
        port: Some(DEFECT),
        deadlines: 0,
    };
    beside_worker(test, defect, |setup| {
        let (mut fine_fh, mut fine_mh) = setup.connection(FINE);
        assert_eq!(panics(&setup.status()), 0);
        // A handshake, data both ways: of each packet the engine would fall over again.
        let (mut at_fh, mut at_mh) = setup.connection(DEFECT);
        await_in_flow(setup, &mut at_fh, &mut at_mh, |status| panics(status) > 0);
        exchange(&mut at_fh, &mut at_mh);
        let status = setup.status();
        assert_eq!(panics(&status), 1, "{status:?}");
        assert_eq!(status.counters["worker.quarantined"], 1);
        // The same input from another port of the MH.
        let (mut at_fh, mut at_mh) = setup.connection(DEFECT);
        await_in_flow(setup, &mut at_fh, &mut at_mh, |status| panics(status) > 1);
        exchange(&mut at_fh, &mut at_mh);
        assert_eq!(panics(&setup.status()), 2);
        // The others go on, the engine meets them again.
        let is_fine = |flow: &crate::control::FlowStatus| flow.fh.port() == FINE;
        await_in_flow(setup, &mut fine_fh, &mut fine_mh, |status| {
            status.flow_list.iter().any(is_fine)
        });
        assert!(setup.status().attached);
    });
}

#[test]
fn a_worker_that_falls_over_again_and_again_lets_everything_pass_by() {
    let test = "a_worker_that_falls_over_again_and_again_lets_everything_pass_by";
    let defect = PlantedDefect {
        port: None,
        deadlines: 8,
    };
    beside_worker(test, defect, |setup| {
        await_status(setup, "it does not rest", |status| !status.attached);
        assert_eq!(panics(&setup.status()), 8);
        let (mut at_fh, mut at_mh) = setup.connection(FINE);
        exchange(&mut at_fh, &mut at_mh);
        let status = setup.status();
        assert_eq!((status.flows.tracked, panics(&status)), (0, 8));
    });
}

#[test]
fn bytes_that_were_owed_at_a_contained_panic_end_in_a_rst_at_both_ends() {
    let test = "bytes_that_were_owed_at_a_contained_panic_end_in_a_rst_at_both_ends";
    let defect = PlantedDefect {
        port: Some(DEFECT),
        deadlines: 0,
    };
    beside_worker_of(test, Scheme::MtcpPlus, defect, |setup| {
        let (mut at_fh, mut at_mh) = setup.connection(FINE);
        // The link loses all that the flow sends to the MH, probes too.
        let lost = format!(
            "table ip lost {{ chain input {{ type filter hook input priority 0; \
             tcp sport {FINE} drop; }}; }}"
        );
        load_rules(&setup.topology.mh, &lost).unwrap();
        // In the other order the window may be closed before the FH has sent anything.
        at_fh.write_all(b"this waits in the gateway").unwrap();
        await_status(setup, "nothing is cached", |status| status.cache.bytes > 0);
        setup.send(Command::Link {
            addresses: vec![MH.v4.into()],
            event: LinkEvent::Down,
            source: LinkSource::Command,
        });
        await_status(setup, "nothing is owed", |status| {
            status.cache.owed_bytes > 0
        });
        // The engine that follows has no bytes of the cache, but the record of what is owed.
        let (mut defect_fh, mut defect_mh) = setup.connection(DEFECT);
        await_in_flow(setup, &mut defect_fh, &mut defect_mh, |status| {
            panics(status) > 0
        });
        assert_eq!(panics(&setup.status()), 1);
        load_rules(&setup.topology.mh, "delete table ip lost").unwrap();
        // It acts as soon as it has seen both ends again. The RST ends the MH's next call.
        let mut octet = [0];
        let mut mh_ended = None;
        let by = now() + Duration::from_secs(30);
        let fh_ended = loop {
            assert!(now() < by, "the FH has no RST");
            if let Err(ended) = at_mh.write_all(b"z") {
                mh_ended.get_or_insert(ended);
            }
            if let Err(ended) = at_fh.read(&mut octet) {
                break ended;
            }
        };
        assert_eq!(fh_ended.kind(), ErrorKind::ConnectionReset);
        let mh_ended = mh_ended.unwrap_or_else(|| {
            let ended = at_mh.read(&mut octet);
            ended.expect_err("the MH has no RST")
        });
        assert_eq!(mh_ended.kind(), ErrorKind::ConnectionReset);
        assert_eq!(setup.status().counters["owed_lost"], 1);
    });
}
