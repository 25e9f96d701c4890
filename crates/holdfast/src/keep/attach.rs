// SPDX-License-Identifier: Apache-2.0
//! The worker leaves an interface, attaches to another one of the same name, and takes over other limits.

use std::collections::BTreeMap;
use std::io;

use holdfast_core::keep::{KeepSettings, PeerId};
use holdfast_net::datapath::now;

use super::next_hops::NextHops;
use super::{KeepWorker, attachment, limits_for, neighbours_and_ip, pool_bytes_max};
use crate::command::Attachment;

impl KeepWorker {
    /// Makes all packets pass. Frames that were taken are sent first, if the interface still exists.
    pub(super) fn detach(&mut self) {
        self.edge.path.stop_taking();
        // The next turn meets the error again.
        while self.read_batch().unwrap_or_default() > 0 {}
        self.edge.path.detach();
        // The kernel has the neighbours again, or the interface was removed.
        self.neighbours = None;
    }

    /// Attaches to the new interface of the same name. Queued packets stay, unless the new interface
    /// has another link header.
    pub(super) fn attach_again(&mut self) -> io::Result<Attachment> {
        let next = self.edge.path.attach_again()?;
        let attachment = attachment(&next)?;
        let announcements = next.announcements()?;
        (self.neighbours, self.edge.ip) = neighbours_and_ip(next.interface())?;
        self.announcements = announcements;
        let before = std::mem::replace(&mut self.edge.path, next);
        self.edge.draining.clear();
        let (old, new) = (before.interface(), self.edge.path.interface());
        let has_same_header = (old.kind, old.mac) == (new.kind, new.mac);
        if !has_same_header {
            self.edge.next_hops = NextHops::new(self.edge.path.table().kind());
        }
        let table = self.edge.path.table();
        let number = |peer| Some((peer, table.enter_peer_of(before.table(), peer)?));
        let peers = self.keeper.known_peers().filter(|_| has_same_header);
        let numbers: BTreeMap<PeerId, PeerId> = peers.filter_map(number).collect();
        let number = |peer| numbers.get(&peer).copied();
        self.keeper.renumber(number, now(), &mut self.edge);
        Ok(attachment)
    }

    /// Takes over the limits of settings that were read again.
    pub(super) fn set_limits(&mut self, settings: KeepSettings) {
        self.settings = limits_for(self.edge.path.table().kind(), settings);
        self.keeper.set_settings(self.settings);
        self.pool.set_bytes_max(pool_bytes_max(&self.settings));
    }
}
