// SPDX-License-Identifier: Apache-2.0
//! A worker with planted defects, between the kernels of an FH and an MH.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use holdfast_net::datapath::AttachMode;
use holdfast_net::netns::available_or_skip;
use holdfast_testbed::harness::{accept, connect, listen};
use holdfast_testbed::link_process::GATEWAY_IF;
use holdfast_testbed::topology::{FH, Topology, TopologySettings, Wireless};
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

fn exchange(at_fh: &mut TcpStream, at_mh: &mut TcpStream) {
    let mut octet = [0];
    at_fh.write_all(b"x").unwrap();
    at_mh.read_exact(&mut octet).unwrap();
    at_mh.write_all(b"y").unwrap();
    at_fh.read_exact(&mut octet).unwrap();
}

fn worker_settings() -> WorkerSettings {
    WorkerSettings {
        core: Settings::default(),
        drain: Duration::ZERO,
        wired_mtu: None,
        resend_dscp: None,
        outages: tokio::sync::mpsc::channel(1).0,
    }
}

/// Runs the work beside a worker with this defect.
fn beside_worker(test: &str, defect: PlantedDefect, work: impl FnOnce(&Setup)) {
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
            let settings = worker_settings();
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
        let status = setup.status();
        assert_eq!(panics(&status), 1, "{status:?}");
        assert_eq!(status.counters["worker.quarantined"], 1);
        exchange(&mut at_fh, &mut at_mh);
        assert_eq!(panics(&setup.status()), 1);
        // The same input from another port of the MH.
        let _second = setup.connection(DEFECT);
        assert_eq!(panics(&setup.status()), 2);
        // The others go on, the engine meets them again.
        exchange(&mut fine_fh, &mut fine_mh);
        let status = setup.status();
        let is_fine = |flow: &crate::control::FlowStatus| flow.fh.port() == FINE;
        assert!(status.flow_list.iter().any(is_fine), "{status:?}");
        assert!(status.attached);
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
        let by = clock() + Duration::from_secs(30);
        while setup.status().attached {
            assert!(clock() < by, "it does not rest: {:?}", setup.status());
        }
        assert_eq!(panics(&setup.status()), 8);
        let (mut at_fh, mut at_mh) = setup.connection(FINE);
        exchange(&mut at_fh, &mut at_mh);
        let status = setup.status();
        assert_eq!((status.flows.tracked, panics(&status)), (0, 8));
    });
}
