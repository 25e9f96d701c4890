// SPDX-License-Identifier: Apache-2.0
//! Contains panics in the worker, at the price of a restart of the engine.
//!
//! The engine may be half changed. A new engine replaces it and reads the records, like the engine of
//! a new process. The packet is forwarded unchanged. Its flow then passes untouched: the same packet
//! would cause the same panic. The new engine receives
//! no earlier link signals of the mobiles: it learns the links as after a restart.

use std::io;
use std::net::SocketAddr;

use holdfast_core::{
    Actions, Direction, FlowKey, FlowRecord, Gateway, LinkEvent, LinkSource, Settings,
};
use holdfast_net::datapath::now;
use holdfast_net::frame::Frame;
use holdfast_wire::Instant;

use super::quarantine::Sentence;
use super::{ACTIONS_ROOM, Worker};
use crate::command::Command;
use crate::contain::{Defect, contain};
use crate::gateway::packet::{Content, Packet, classify};

/// An engine with the flows of these records, which its predecessor left.
pub(super) fn new_engine(settings: &Settings, found: &[FlowRecord]) -> Gateway<Packet> {
    let mut engine = Gateway::new(settings.clone());
    for record in found {
        engine.import(record, now());
    }
    engine
}

impl Worker {
    /// Handles the deadlines that are due.
    pub(super) fn run_deadlines(&mut self) {
        self.rests_until = self.quarantine.rest(now());
        if self.rests_until.is_none()
            && let Err(defect) = contain(|| self.handle_deadlines())
        {
            // The panic belongs to no flow. The new engine has other deadlines.
            self.recover("deadline", None, &defect);
        }
    }

    /// Executes an order of the control thread.
    pub(super) fn obey(&mut self, command: Command) {
        if let Err(defect) = contain(|| self.obey_in_engine(command)) {
            self.recover("command", None, &defect);
        }
    }

    /// Does what is due between base stations.
    ///
    /// Errors: the socket or a device broke.
    pub(super) fn run_station(&mut self) -> io::Result<()> {
        if self.station.is_none() {
            return Ok(());
        }
        contain(|| self.handle_station()).unwrap_or_else(|defect| {
            self.recover("station", None, &defect);
            Ok(())
        })
    }

    /// The flow of a packet, or of the packet that an ICMP message is about.
    pub(super) fn key_of(&self, direction: Direction, frame: &Frame) -> Option<FlowKey> {
        match classify(frame, direction, self.ip) {
            Content::Segment(segment, _) => Some(FlowKey::of(&segment, direction)),
            Content::TooBig(too_big) => Some(FlowKey {
                fh: too_big.from,
                mh: too_big.to,
            }),
            Content::Icmp | Content::WrongChecksum | Content::Unknown => None,
        }
    }

    /// Logs a panic, and replaces the engine as after a restart.
    pub(super) fn recover(&mut self, what: &str, key: Option<FlowKey>, defect: &Defect) {
        self.counters.panics += 1;
        let flow = key.map(|key| {
            let [fh, mh] = [key.fh, key.mh].map(|end| SocketAddr::new(end.address, end.port));
            format!("FH {fh} MH {mh}")
        });
        tracing::error!(
            what,
            flow,
            location = defect.location,
            panic = defect.message,
            "a defect of holdfast; the engine starts again, as after a restart; please report it"
        );
        let now = now();
        // Records are plain bytes: a check finds a half-written one.
        let found = self.records.read();
        if let Some(key) = key {
            let record = found.iter().find(|record| record.key == key);
            let needs_engine =
                record.is_some_and(|record| record.owed.is_some() || record.renumber.is_some());
            let sentence = self.quarantine.judge(key, needs_engine);
            if sentence == Sentence::Passes {
                tracing::warn!(flow, "the packets of this flow pass untouched");
            }
        }
        if self.quarantine.note_panic(now) {
            tracing::error!("too many defects within a minute: everything passes by for a minute");
        }
        self.rests_until = self.quarantine.rest(now);
        self.start_engine_again(&found, now);
    }

    pub(super) fn start_engine_again(&mut self, found: &[FlowRecord], now: Instant) {
        let engine = new_engine(&self.settings, found);
        let before = std::mem::replace(&mut self.engine, engine);
        // The old engine may be in any state: its drop may panic too.
        let _ = contain(|| drop(before));
        self.actions = Actions::with_capacity(ACTIONS_ROOM);
        // The new engine assumes that all peers are reachable.
        self.path.release_peers();
        if !self.has_carrier {
            self.engine.handle_all_links(
                LinkEvent::Down,
                LinkSource::Carrier,
                now,
                &mut self.actions,
            );
        }
        if !self.may_owe() {
            self.engine.stop_acknowledging();
        }
        if let Some(station) = &mut self.station {
            station.start_again();
        }
    }

    /// Whether bytes may be acknowledged ahead of MHs: only if a record of the owed bytes survives the process.
    pub(super) fn may_owe(&self) -> bool {
        self.leave_by.is_none() && self.records.outlive_the_process()
    }

    /// Gives up the owed bytes, before the worker leaves.
    pub(super) fn abandon_owed(&mut self) {
        let abandoned = contain(|| {
            self.engine.abandon_owed(&mut self.actions);
            self.perform();
        });
        if let Err(defect) = abandoned {
            // The records stay: a successor resets both ends.
            self.recover("leaving", None, &defect);
        }
    }
}
