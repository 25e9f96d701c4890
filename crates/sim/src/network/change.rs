// SPDX-License-Identifier: Apache-2.0
//! Changes while the network runs: links that go down and up, a router's route to a host, and the
//! link of a moving host.

use holdfast_core::LinkEvent;
use holdfast_link::MediumState;
use holdfast_wire::Instant;

use super::{Event, Network, Seen};
use crate::observe::LinkId;
use crate::packet::NodeId;

/// A change of routes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// Packets for `destination` leave `node` by `by`.
    Route {
        node: NodeId,
        destination: NodeId,
        by: LinkId,
    },
    /// All packets leave `node` by `uplink`, and come by `downlink`.
    Cell {
        node: NodeId,
        downlink: LinkId,
        uplink: LinkId,
    },
}

impl Network {
    /// From `at` on, packets for `destination` leave `node` by the link `by`.
    pub fn change_route(&mut self, at: Instant, node: NodeId, destination: NodeId, by: LinkId) {
        self.add_change(
            at,
            Change::Route {
                node,
                destination,
                by,
            },
        );
    }

    /// From `at` on, the moving host `node` is on the link with these directions; the first one leads
    /// toward it. It sends everything by this link. The stalls of its connections are those after
    /// this link's outages.
    pub fn change_cell(&mut self, at: Instant, node: NodeId, [downlink, uplink]: [LinkId; 2]) {
        let change = Change::Cell {
            node,
            downlink,
            uplink,
        };
        self.add_change(at, change);
    }

    fn add_change(&mut self, at: Instant, change: Change) {
        self.queue
            .push(at, Event::Change(self.changes.len() as u32));
        self.changes.push(change);
    }

    pub(super) fn handle_change(&mut self, id: u32) {
        match self.changes[id as usize] {
            Change::Route {
                node,
                destination,
                by,
            } => self.routes[node.0 as usize][destination.0 as usize] = by.0,
            Change::Cell {
                node,
                downlink,
                uplink,
            } => {
                for (destination, route) in self.routes[node.0 as usize].iter_mut().enumerate() {
                    if destination != node.0 as usize {
                        *route = uplink.0;
                    }
                }
                for slot in &mut self.slots {
                    let Some(watched) = slot.watches else {
                        continue;
                    };
                    let link = &self.links[watched.0 as usize];
                    if link.to == node {
                        slot.watches = Some(downlink);
                    } else if link.from == node {
                        slot.watches = Some(uplink);
                    }
                }
            }
        }
    }

    pub(super) fn schedule_change(&mut self, id: u32, after: Instant) {
        if let Some(at) = self.media[id as usize].schedule.next_change(after) {
            self.queue.push(at, Event::LinkState(id));
        }
    }

    pub(super) fn handle_link_state(&mut self, id: u32) {
        let now = self.now;
        let medium = &mut self.media[id as usize];
        let state = medium.schedule.state_at(now);
        let links = medium.links.clone();
        if now > Instant::ZERO || state == MediumState::Up {
            self.schedule_change(id, now);
        }
        for link in &links {
            self.seen.push(Seen::Link(*link, state));
            for index in 0..self.slots.len() {
                let slot = &self.slots[index];
                let sender = slot.sender.map(|sender| &self.slots[sender.0 as usize]);
                let begun = slot.opened || sender.is_some_and(|sender| sender.opened);
                self.slots[index].note_link(*link, state, begun, now);
            }
        }
        self.notify_mobiles(&links);
        if state == MediumState::Down {
            self.note_bad_links(&links);
        }
        let event = match state {
            MediumState::Up => LinkEvent::Up,
            MediumState::Down => LinkEvent::Down,
        };
        self.note_change_for_engines(&links, event);
        self.note_change_for_mobiles(&links, event);
    }
}
