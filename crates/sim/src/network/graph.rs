// SPDX-License-Identifier: Apache-2.0
//! The parts of a network, and the routes through it.

use std::collections::VecDeque;

use holdfast_link::{LinkModel, LinkPlan, OutageSchedule};
use holdfast_wire::Instant;

use super::watch::Slot;
use super::{ConnectionId, Event, Link, Medium, NO_LINK, Network, Node};
use crate::observe::LinkId;
use crate::packet::NodeId;
use crate::tcp::Connection;

/// The configuration of a medium.
#[derive(Clone, Debug)]
pub struct MediumPlan {
    /// Its link model's plan.
    pub plan: LinkPlan,
    /// The seed of its random parts.
    pub seed: u64,
    /// The seed of its outages: media with equal seed and plan fail together.
    pub outage_seed: u64,
    /// Bytes added to each IP packet.
    pub overhead_bytes: u32,
    /// TCP/IP headers are compressed on it (RFC 1144).
    pub header_compression: bool,
}

impl Network {
    /// Adds a node.
    pub fn add_node(&mut self) -> NodeId {
        self.nodes.push(Node::default());
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Adds a link between two nodes; returns the numbers of its directions, `a` to `b` first.
    pub fn add_link(
        &mut self,
        a: NodeId,
        b: NodeId,
        there: MediumPlan,
        back: MediumPlan,
    ) -> [LinkId; 2] {
        let media = [&there, &back].map(|plan| self.add_medium(plan));
        [
            self.add_direction([a, b], media[0], &there),
            self.add_direction([b, a], media[1], &back),
        ]
    }

    /// Adds a link whose two directions take turns on one medium.
    pub fn add_half_duplex(&mut self, a: NodeId, b: NodeId, both: MediumPlan) -> [LinkId; 2] {
        let medium = self.add_medium(&both);
        [
            self.add_direction([a, b], medium, &both),
            self.add_direction([b, a], medium, &both),
        ]
    }

    fn add_medium(&mut self, medium: &MediumPlan) -> u32 {
        let schedule = OutageSchedule::new(&medium.plan.outages, medium.outage_seed);
        self.media.push(Medium {
            model: LinkModel::with_schedule(&medium.plan, medium.seed, schedule.clone()),
            schedule,
            overhead_bytes: u64::from(medium.overhead_bytes),
            scheduled: None,
            links: Vec::new(),
        });
        self.media.len() as u32 - 1
    }

    fn add_direction(&mut self, [from, to]: [NodeId; 2], medium: u32, plan: &MediumPlan) -> LinkId {
        let id = LinkId(self.links.len() as u32);
        self.links.push(Link {
            from,
            to,
            medium,
            header_compression: plan.header_compression.then(Box::default),
        });
        self.media[medium as usize].links.push(id);
        id
    }

    /// Adds an end of a connection: opened at `opens_at`, or waiting for a SYN.
    ///
    /// `expects` are the bytes that it is to receive, for [`Self::is_delivered`]. `watches` is the
    /// link whose outages cause its stalls.
    pub fn add_connection(
        &mut self,
        node: NodeId,
        connection: Connection,
        ports: (u16, u16),
        opens_at: Option<Instant>,
        expects: u64,
        watches: Option<LinkId>,
    ) -> ConnectionId {
        let id = self.slots.len() as u32;
        let table = &mut self.nodes[node.0 as usize].ports;
        let index = table.partition_point(|entry| (entry.0, entry.1) < ports);
        table.insert(index, (ports.0, ports.1, id));
        if let Some(at) = opens_at {
            self.queue.push(at, Event::Open(id));
        }
        self.undelivered += usize::from(expects > 0);
        self.slots
            .push(Slot::new(connection, node, expects, watches));
        ConnectionId(id)
    }

    /// Finds the shortest routes between all nodes, breadth first.
    pub(super) fn find_routes(&mut self) {
        let count = self.nodes.len();
        self.routes = vec![vec![NO_LINK; count]; count];
        for destination in 0..count {
            let mut reached = vec![false; count];
            reached[destination] = true;
            let mut todo = VecDeque::from([NodeId(destination as u32)]);
            while let Some(node) = todo.pop_front() {
                for (id, link) in self.links.iter().enumerate() {
                    let from = link.from.0 as usize;
                    if link.to == node && !reached[from] {
                        reached[from] = true;
                        self.routes[from][destination] = id as u32;
                        todo.push_back(link.from);
                    }
                }
            }
        }
    }
}
