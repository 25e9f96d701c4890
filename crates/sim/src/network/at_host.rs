// SPDX-License-Identifier: Apache-2.0
//! The state between an engine at a host and that host.

use core::net::IpAddr;
use std::collections::{BTreeSet, VecDeque};

use holdfast_core::{Direction, FlowKey, Gateway};

use crate::packet::Packet;

/// What a host has beside its engine.
#[derive(Debug, Default)]
pub(super) struct AtHost {
    /// Peers whose segments the engine takes. Of other peers it gets copies.
    taken: BTreeSet<IpAddr>,
    /// Packets on their way up to the host.
    pub(super) up: VecDeque<Packet>,
}

impl AtHost {
    /// Whether the engine takes the segment. False: the engine gets a copy.
    pub(super) fn takes(&self, direction: Direction, packet: &Packet) -> bool {
        packet.segment().is_some_and(|segment| {
            let peer = FlowKey::of(segment, direction).mh.address;
            self.taken.contains(&peer)
        })
    }

    /// The engine has named peers whose segments it takes, or takes no longer.
    pub(super) fn note_peers(&mut self, engine: &mut Gateway<Packet>) {
        while let Some((peer, takes)) = engine.poll_peer() {
            if takes {
                self.taken.insert(peer);
            } else {
                self.taken.remove(&peer);
            }
        }
    }
}
