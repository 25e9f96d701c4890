// SPDX-License-Identifier: Apache-2.0
//! A node that ends TCP at both sides (a split connection).
//!
//! Each connection that an MH opens through it becomes two. Toward the FH the node uses the MH's
//! address and port, toward the MH those of the FH: neither end notices. Each half has windows,
//! timers and retransmissions of its own. The node acknowledges what it has received, before
//! the other end has it. What it receives waits in the receive buffer of that half, until the
//! other half's end has acknowledged it.
//!
//! If one half dies, the other one is reset. A restart loses everything: segments of connections
//! from before it are answered by a RST.

use std::collections::BTreeMap;

use holdfast_wire::{Duration, Endpoint, Flags, Instant, Segment};

use super::watch::Slot;
use super::{Carried, ConnectionId, Event, Network};
use crate::observe::LinkId;
use crate::packet::{NodeId, Packet};
use crate::tcp::{Application, Connection, End, Reading, State, TcpSettings};

/// A node that ends TCP at both sides.
#[derive(Clone, Debug)]
pub struct SplitPlan {
    /// Its TCP toward the FHs.
    pub toward_fh: TcpSettings,
    /// Its TCP toward the MHs.
    pub toward_mh: TcpSettings,
    /// At these times it loses all connections (a crash and a restart).
    pub restarts: Vec<Duration>,
}

/// A node that splits connections, on a link.
#[derive(Clone, Debug)]
pub struct SplitRole {
    /// The node's plan.
    pub plan: SplitPlan,
    /// The link toward the MHs.
    pub wireless: LinkId,
}

/// The two halves of a connection: toward the FH, toward the MH.
type Halves = [u32; 2];

#[derive(Debug)]
pub(super) struct SplitNode {
    role: SplitRole,
    node: NodeId,
    /// By the FH's and the MH's endpoints.
    connections: BTreeMap<[Endpoint; 2], Halves>,
}

/// An application that passes on what the other half receives.
const RELAY: Application = Application {
    sends: 0,
    after_receiving: 0,
    closes_first: false,
    reading: Reading::AtOnce,
    relays: true,
};

impl Network {
    /// Makes a node split connections.
    pub fn add_split(&mut self, node: NodeId, role: SplitRole) {
        let id = self.splits.len() as u32;
        self.nodes[node.0 as usize].split = Some(id);
        for at in &role.plan.restarts {
            self.queue
                .push(Instant::ZERO + *at, Event::SplitRestart(id));
        }
        self.splits.push(SplitNode {
            role,
            node,
            connections: BTreeMap::new(),
        });
    }

    /// Every byte of this end's connection arrived at its own offset, at the nodes that split it.
    pub fn split_is_intact(&self, id: ConnectionId) -> bool {
        let (own, peer) = self.connection(id).ends();
        let keys = [[own.endpoint, peer.endpoint], [peer.endpoint, own.endpoint]];
        let nodes = self.splits.iter();
        let halves =
            nodes.flat_map(|split| keys.iter().filter_map(|key| split.connections.get(key)));
        halves
            .flatten()
            .all(|half| self.slots[*half as usize].connection.view().intact)
    }

    /// A packet that is not for this node.
    pub(super) fn pass_split(&mut self, id: u32, node: NodeId, carried: &Carried) {
        let Carried {
            packet, dscp, link, ..
        } = carried;
        let Some(slot) = self.half_of(id, packet, *link) else {
            return self.forward(node, packet, *dscp);
        };
        self.input(slot, packet);
    }

    /// The half that a packet is for. A SYN of an MH creates two halves. None: the packet passes.
    fn half_of(&mut self, id: u32, packet: &Packet, link: LinkId) -> Option<u32> {
        let split = &self.splits[id as usize];
        let wireless = &self.links[split.role.wireless.0 as usize];
        let segment = packet.segment()?;
        let from_mh = self.links[link.0 as usize].from == wireless.to;
        let key = if from_mh {
            [segment.to, segment.from]
        } else {
            [segment.from, segment.to]
        };
        if let Some(halves) = split.connections.get(&key) {
            return Some(halves[usize::from(from_mh)]);
        }
        let opens = from_mh && segment.flags.has(Flags::SYN) && !packet.corrupted;
        let halves = opens.then(|| self.split_connection(id, packet, segment))??;
        self.splits[id as usize].connections.insert(key, halves);
        Some(halves[1])
    }

    /// Two halves for the connection whose SYN this is: the one toward the FH opens, the one
    /// toward the MH takes the SYN.
    fn split_connection(&mut self, id: u32, packet: &Packet, syn: &Segment) -> Option<Halves> {
        let of_mh = self.slot_at(packet.from, [syn.from.port, syn.to.port])?;
        let of_fh = self.slot_at(packet.to, [syn.to.port, syn.from.port])?;
        let (mh, fh) = self.slots[of_mh as usize].connection.ends();
        let split = &self.splits[id as usize];
        let (node, plan) = (split.node, &split.role.plan);
        // The node's own initial sequence numbers: any will do.
        let as_mh = End {
            iss: syn.seq + (1 << 30),
            ..mh
        };
        let as_fh = End {
            iss: syn.seq + (1 << 31),
            ..fh
        };
        let connections = [
            Connection::new(plan.toward_fh, as_mh, fh, RELAY, false),
            Connection::new(plan.toward_mh, as_fh, mh, RELAY, true),
        ];
        let first = self.slots.len() as u32;
        let halves = [first, first + 1];
        let contents = [of_mh, of_fh].map(|slot| self.slots[slot as usize].content);
        for ((connection, content), other) in connections
            .into_iter()
            .zip(contents)
            .zip([first + 1, first])
        {
            self.slots
                .push(Slot::half(connection, node, content, other));
        }
        self.queue.push(self.now, Event::Open(first));
        Some(halves)
    }

    /// Passes what each half of a connection has received to the other half.
    pub(super) fn relay(&mut self, half: u32, other: u32) {
        let now = self.now;
        for [source, sink] in [[half, other], [other, half]] {
            let mut out = core::mem::take(&mut self.scratch);
            let received = self.slots[source as usize].connection.received();
            let connection = &mut self.slots[sink as usize].connection;
            connection.supply(received, now, &mut out);
            let acknowledged = connection.acknowledged();
            self.send_segments(sink, out);

            let mut out = core::mem::take(&mut self.scratch);
            let has_died = self.slots[sink as usize].is_dead();
            let connection = &mut self.slots[source as usize].connection;
            if has_died && connection.view().state != State::Closed {
                connection.abort(now, &mut out);
            } else {
                connection.read_up_to(acknowledged, now, &mut out);
            }
            self.send_segments(source, out);
        }
    }

    /// The node loses all of its connections.
    pub(super) fn restart_split(&mut self, id: u32) {
        let halves = self.splits[id as usize].connections.values().flatten();
        for half in halves {
            self.slots[*half as usize].connection.forget();
        }
    }
}
