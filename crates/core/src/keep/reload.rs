// SPDX-License-Identifier: Apache-2.0
//! Settings and numbers of peers that change while packets are queued.

use holdfast_wire::Instant;

use super::{Edge, KeepSettings, Keeper, Mode, PeerId};

impl<F> Keeper<F> {
    /// Other limits. What is above them stays until its flow gets another packet.
    pub const fn set_settings(&mut self, settings: KeepSettings) {
        self.settings = settings;
    }

    /// The peers for which [`Self::renumber`] calls `number`.
    pub fn known_peers(&self) -> impl Iterator<Item = PeerId> {
        self.peers.keys().chain(self.given_up.keys()).copied()
    }

    /// The peers have other numbers from now on. What is queued for a peer without one is dropped.
    pub fn renumber(
        &mut self,
        number: impl Fn(PeerId) -> Option<PeerId>,
        now: Instant,
        edge: &mut impl Edge<F>,
    ) {
        self.due.clear();
        let given_up = core::mem::take(&mut self.given_up).into_iter();
        self.given_up = given_up
            .filter_map(|(before, began)| Some((number(before)?, began)))
            .collect();
        for (before, mut peer) in core::mem::take(&mut self.peers) {
            peer.due = None;
            if let Some(id) = number(before) {
                edge.set_mode(id, Mode::Take);
                self.peers.insert(id, peer);
                self.schedule(id, now);
            } else {
                for (used, shelf) in self.used.iter_mut().zip(&peer.shelves) {
                    *used -= shelf.bytes();
                }
            }
        }
    }
}
