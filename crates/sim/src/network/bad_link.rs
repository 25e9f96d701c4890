// SPDX-License-Identifier: Apache-2.0
//! A node that reports to senders that its link is bad (explicit bad state notification: Bakshi,
//! Krishna, Vaidya and Pradhan, 1997).
//!
//! The paper's base station sends a message to a packet's source for each failed attempt over the
//! link. Here a message goes to each FH with unacknowledged data: for each failed attempt on a link
//! that retransmits, and at an outage's start and then at equal intervals.

use std::collections::BTreeMap;

use holdfast_link::MediumState;
use holdfast_wire::{Duration, Endpoint, Flags, Instant, SeqNum};

use super::{Carried, DSCP_DEFAULT, Event, Network};
use crate::observe::LinkId;
use crate::packet::{Body, NodeId, Packet};

/// The configuration of such a node.
#[derive(Clone, Copy, Debug)]
pub struct BadLinkRole {
    /// The link toward the MHs.
    pub wireless: LinkId,
    /// Interval between messages, at least one microsecond.
    pub every: Duration,
}

/// The shortest `every`: messages without a pause would stop the clock.
const INTERVAL_MIN: Duration = Duration::from_micros(1);

/// The noted state of a connection.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// The FH's and the MH's nodes.
    nodes: [NodeId; 2],
    /// The number after the highest byte sent to the MH.
    end: SeqNum,
    /// The highest ACK of the MH.
    acknowledged: SeqNum,
    /// The FH has sent its FIN, which ends at `end`.
    has_fin: bool,
}

#[derive(Debug)]
pub(super) struct BadLinkNode {
    role: BadLinkRole,
    node: NodeId,
    /// Connections whose FH may still wait for an ACK, by the FH's and the MH's endpoints.
    connections: BTreeMap<[Endpoint; 2], Passed>,
    /// When the next messages of an outage are sent.
    next_at: Option<Instant>,
    /// Lost attempts of the link that the node has reported.
    attempts_lost: u64,
}

impl BadLinkNode {
    /// The number of connections noted.
    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    fn note(&mut self, packet: &Packet, from_mh: bool) {
        let Some(segment) = packet.segment().filter(|_| !packet.corrupted) else {
            return;
        };
        let ends = if from_mh {
            [segment.to, segment.from]
        } else {
            [segment.from, segment.to]
        };
        if segment.flags.has(Flags::RST) {
            self.connections.remove(&ends);
            return;
        }
        if from_mh {
            // A SYN that the MH retransmits has no ACK.
            if segment.flags.has(Flags::ACK)
                && let Some(passed) = self.connections.get_mut(&ends)
                && segment.ack.after(passed.acknowledged)
            {
                passed.acknowledged = segment.ack;
                // The FH has nothing more to send: it never waits again.
                if passed.has_fin && passed.acknowledged == passed.end {
                    self.connections.remove(&ends);
                }
            }
            return;
        }
        if segment.end() == segment.seq {
            // A bare ACK: the FH does not wait for an answer to it.
            return;
        }
        let passed = self.connections.entry(ends).or_insert(Passed {
            nodes: [packet.from, packet.to],
            end: segment.seq,
            acknowledged: segment.seq,
            has_fin: false,
        });
        passed.has_fin |= segment.flags.has(Flags::FIN);
        if segment.end().after(passed.end) {
            passed.end = segment.end();
        }
    }
}

impl Network {
    /// Makes a node send such messages.
    pub fn add_bad_link_messages(&mut self, node: NodeId, role: BadLinkRole) {
        self.nodes[node.0 as usize].bad_link = Some(self.bad_links.len() as u32);
        self.bad_links.push(BadLinkNode {
            role,
            node,
            connections: BTreeMap::new(),
            next_at: None,
            attempts_lost: 0,
        });
    }

    /// A packet that is not for this node.
    pub(super) fn pass_bad_link_node(&mut self, id: u32, node: NodeId, carried: &Carried) {
        let reporter = &mut self.bad_links[id as usize];
        let mobiles = self.links[reporter.role.wireless.0 as usize].to;
        let from_mh = self.links[carried.link.0 as usize].from == mobiles;
        reporter.note(&carried.packet, from_mh);
        self.forward(node, &carried.packet, carried.dscp);
    }

    /// Links are down from now on: their FHs get messages.
    pub(super) fn note_bad_links(&mut self, links: &[LinkId]) {
        for (id, reporter) in self.bad_links.iter_mut().enumerate() {
            if links.contains(&reporter.role.wireless) {
                reporter.next_at = Some(self.now);
                self.queue.push(self.now, Event::BadLink(id as u32));
            }
        }
    }

    /// Sends a message to each FH that waits, as long as the link is down.
    pub(super) fn handle_bad_link(&mut self, id: u32) {
        let reporter = &mut self.bad_links[id as usize];
        // An event of an earlier outage: another outage has begun since.
        if reporter.next_at.is_none_or(|at| at != self.now) {
            return;
        }
        reporter.next_at = None;
        let role = reporter.role;
        let medium = self.links[role.wireless.0 as usize].medium;
        let medium = &mut self.media[medium as usize];
        if medium.schedule.state_at(self.now) == MediumState::Up {
            return;
        }
        self.send_bad_link_messages(id);
        let next = self.now + role.every.max(INTERVAL_MIN);
        self.bad_links[id as usize].next_at = Some(next);
        self.queue.push(next, Event::BadLink(id));
    }

    /// Sends messages if attempts over this medium were lost since the last call. On a link without a rate they are
    /// late: no event shows the end of an attempt there.
    pub(super) fn report_lost_attempts(&mut self, medium: u32) {
        let lost = self.media[medium as usize].model.attempts_lost();
        for id in 0..self.bad_links.len() {
            let reporter = &mut self.bad_links[id];
            let own = self.links[reporter.role.wireless.0 as usize].medium;
            if own == medium && lost > reporter.attempts_lost {
                reporter.attempts_lost = lost;
                self.send_bad_link_messages(id as u32);
            }
        }
    }

    /// Sends a message to each FH that waits for an ACK.
    fn send_bad_link_messages(&mut self, id: u32) {
        let reporter = &self.bad_links[id as usize];
        let node = reporter.node;
        let waiting = reporter.connections.iter();
        let waiting = waiting.filter(|(_, passed)| passed.end.after(passed.acknowledged));
        let messages: Vec<Packet> = waiting
            .map(|([fh, mh], passed)| Packet {
                from: passed.nodes[1],
                to: passed.nodes[0],
                body: Body::BadLink { fh: *fh, mh: *mh },
                corrupted: false,
            })
            .collect();
        for message in &messages {
            self.forward(node, message, DSCP_DEFAULT);
        }
    }
}
