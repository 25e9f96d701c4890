// SPDX-License-Identifier: Apache-2.0
//! A node's connections: packets for them, and packets that they send.

use super::{Event, Network};
use crate::packet::{Body, NodeId, Packet};

impl Network {
    /// A packet has arrived at the node that it is for.
    pub(super) fn deliver(&mut self, node: NodeId, packet: &Packet) {
        let Some(packet) = &self.restore(node, packet) else {
            return;
        };
        match packet.body {
            Body::Datagram { source, .. } => {
                self.sources[source as usize].outcome.arrived += u64::from(!packet.corrupted);
            }
            Body::BadLink { fh, mh } => {
                if let Some(id) = self.slot_at(node, [fh.port, mh.port])
                    && !packet.corrupted
                {
                    let connection = &mut self.slots[id as usize].connection;
                    connection.handle_bad_link(self.now);
                }
            }
            Body::Tcp(tcp) => {
                let ports = [tcp.segment.to.port, tcp.segment.from.port];
                let Some(id) = self.slot_at(node, ports) else {
                    return;
                };
                if !packet.corrupted {
                    self.reaches_mobile(node, &tcp.segment);
                }
                self.input(id, packet);
            }
        }
    }

    /// The connection at a node with these ports: its own first.
    pub(super) fn slot_at(&self, node: NodeId, [own, peer]: [u16; 2]) -> Option<u32> {
        let table = &self.nodes[node.0 as usize].ports;
        let index = table.partition_point(|entry| (entry.0, entry.1) < (own, peer));
        let entry = table.get(index)?;
        ((entry.0, entry.1) == (own, peer)).then_some(entry.2)
    }

    /// A segment for a connection has arrived.
    pub(super) fn input(&mut self, id: u32, packet: &Packet) {
        let mut out = core::mem::take(&mut self.scratch);
        let slot = &mut self.slots[id as usize];
        slot.opened = true;
        slot.connection.handle_segment(packet, self.now, &mut out);
        self.send_all(id, out);
    }

    pub(super) fn handle_connection_timeout(&mut self, id: u32) {
        let now = self.now;
        let slot = &mut self.slots[id as usize];
        if slot.scheduled != Some(now) {
            return;
        }
        slot.scheduled = None;
        let mut out = core::mem::take(&mut self.scratch);
        if slot.connection.poll_timeout().is_some_and(|at| at <= now) {
            slot.connection.handle_timeout(now, &mut out);
        }
        self.send_all(id, out);
    }

    /// After each input of a connection: sends its segments, enters its deadlines, and relays
    /// what it has received.
    pub(super) fn send_all(&mut self, id: u32, out: Vec<Packet>) {
        self.send_segments(id, out);
        if let Some(other) = self.slots[id as usize].relays_to {
            self.relay(id, other);
        }
    }

    /// Sends a connection's segments; enters its deadlines.
    pub(super) fn send_segments(&mut self, id: u32, mut out: Vec<Packet>) {
        let now = self.now;
        self.note_acknowledged(id);
        let slot = &mut self.slots[id as usize];
        let node = slot.node;
        if slot.note_progress(now) {
            self.undelivered -= 1;
        }
        if let Some(at) = slot.connection.poll_timeout()
            && slot.scheduled.is_none_or(|scheduled| at < scheduled)
        {
            slot.scheduled = Some(at);
            self.queue.push(at, Event::Connection(id));
        }
        if let Some(receiver) = slot.receiver
            && slot.is_dead()
            && self.slots[receiver.0 as usize].settle()
        {
            // The end that should send the rest has given up.
            self.undelivered -= 1;
        }
        let content = self.slots[id as usize].content;
        for packet in &mut out {
            if let Body::Tcp(tcp) = &mut packet.body {
                tcp.content = content;
            }
            self.leave_host(node, packet);
        }
        out.clear();
        self.scratch = out;
    }
}
