// SPDX-License-Identifier: Apache-2.0
//! Observers of a run's packets: they fill the packet files and the journal of moves.

use std::path::Path;

use holdfast_core::Direction;
use holdfast_sim::packet::Body;
use holdfast_sim::{LinkId, Observer, Packet, PacketEvent};
use holdfast_testbed::link_process::{GATEWAY_IF, MH_IF};
use holdfast_testbed::topology::{FH_IF, GATEWAY_WIRED_IF};
use holdfast_wire::Instant;

use super::fates::Fates;
use crate::handoffs::Journal;
use crate::scenario::{OnHandoffChoice, Run};
use crate::substrate::{SubstrateKind, trace_file, trace_parts};
use holdfast_files::packet_trace::{PacketTrace, Passing};

/// What is recorded of a run's packets.
pub(super) struct Watcher {
    tracer: Option<Tracer>,
    journal: Option<JournalWriter>,
    fates: Option<Fates>,
}

impl Watcher {
    /// Packets go to files in `pcap`; a journal is filled if the MH moves.
    pub(super) fn create(run: &Run, pcap: Option<&Path>) -> anyhow::Result<Self> {
        let tracer = pcap.map(|folder| Tracer::create(folder, run)).transpose()?;
        let journal = (!run.conditions.moves.is_empty()).then(|| JournalWriter {
            journal: Journal::new(run.conditions.transfer.direction),
            cells: run.conditions.cells.len() as u32,
        });
        let is_watched = run.conditions.mh.on_handoff != OnHandoffChoice::Nothing;
        let fates = is_watched.then(|| Fates::new(run.conditions.cells.len() as u32));
        Ok(Self {
            tracer,
            journal,
            fates,
        })
    }

    /// Writes the rest of the packets, and returns what was collected.
    pub(super) fn finish(self) -> anyhow::Result<(Option<Journal>, Option<Fates>)> {
        if let Some(tracer) = self.tracer {
            tracer.finish()?;
        }
        Ok((self.journal.map(|writer| writer.journal), self.fates))
    }
}

impl Observer for Watcher {
    fn on_packet(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        if let Some(tracer) = &mut self.tracer {
            tracer.record(link, event, packet, now);
        }
        if let Some(writer) = &mut self.journal {
            writer.record(link, event, packet, now);
        }
        if let Some(fates) = &mut self.fates {
            fates.record(position(link), event, packet, now);
        }
    }

    fn wants_packets(&self) -> bool {
        self.tracer.is_some() || self.journal.is_some() || self.fates.is_some()
    }
}

/// The direction of a link, and the number of its hop: the wired one is 0, then the cells.
const fn position(link: LinkId) -> (u32, Direction) {
    let direction = if link.0.is_multiple_of(2) {
        Direction::Downlink
    } else {
        Direction::Uplink
    };
    (link.0 / 2, direction)
}

/// Fills a journal.
struct JournalWriter {
    journal: Journal,
    cells: u32,
}

impl JournalWriter {
    fn record(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        let Body::Tcp(tcp) = &packet.body else {
            return;
        };
        let (hop, direction) = position(link);
        if hop > self.cells || packet.corrupted && event == PacketEvent::Arrived {
            return;
        }
        let cell = (hop as usize).checked_sub(1);
        let is_at_fh = matches!(
            (event, direction),
            (PacketEvent::Sent, Direction::Downlink) | (PacketEvent::Arrived, Direction::Uplink)
        );
        if is_at_fh == cell.is_none() && !matches!(event, PacketEvent::Dropped(_)) {
            let data = [tcp.segment.seq.get(), tcp.segment.payload_len];
            let is_sent = event == PacketEvent::Sent;
            self.journal.record(cell, is_sent, now.as_secs_f64(), data);
        }
    }
}

/// Writes every packet when it enters and when it leaves a link. A run begins at 1970-01-01.
struct Tracer {
    /// For each hop the files of both devices.
    traces: Vec<[(String, PacketTrace); 2]>,
    failed: Option<anyhow::Error>,
}

impl Tracer {
    fn create(folder: &Path, run: &Run) -> anyhow::Result<Self> {
        let trace = |part: String, device, description| {
            let path = trace_file(folder, run, SubstrateKind::Model, &part);
            let trace = PacketTrace::create(&path, &[(device, description)])?;
            anyhow::Ok((part, trace))
        };
        let parts = trace_parts(run.conditions.cells.len()).into_iter();
        let traces = parts.enumerate().map(|(hop, [near, far])| {
            let (devices, descriptions) = match hop {
                0 => (
                    [FH_IF, GATEWAY_WIRED_IF],
                    ["the FH's device", "the gateway's device toward the FH"],
                ),
                _ => (
                    [GATEWAY_IF, MH_IF],
                    ["the gateway's device toward the MH", "the MH's device"],
                ),
            };
            Ok([
                trace(near, devices[0], descriptions[0])?,
                trace(far, devices[1], descriptions[1])?,
            ])
        });
        Ok(Self {
            traces: traces.collect::<anyhow::Result<_>>()?,
            failed: None,
        })
    }

    fn finish(self) -> anyhow::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        for (part, trace) in self.traces.into_iter().flatten() {
            let left_out = trace.finish()?;
            if left_out > 0 {
                eprintln!("--pcap: the file {part} is full: {left_out} packets are not in it");
            }
        }
        Ok(())
    }

    fn record(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        let (hop, direction) = position(link);
        let (near, far) = match direction {
            Direction::Downlink => (0, 1),
            Direction::Uplink => (1, 0),
        };
        let (device, passing) = match event {
            PacketEvent::Sent => (near, Passing::Outbound),
            PacketEvent::Arrived => (far, Passing::Inbound),
            PacketEvent::Dropped(_) => return,
        };
        // The wires between router and base stations have no files.
        let Some(traces) = self.traces.get_mut(hop as usize) else {
            return;
        };
        let at = std::time::Duration::from_nanos(now.as_nanos());
        let (_, trace) = &mut traces[device];
        let written = trace.write(0, passing, at, &packet.to_bytes(), packet.len_bytes());
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}
