// SPDX-License-Identifier: Apache-2.0
//! New settings of mobiles while the gateway runs.

use core::net::IpAddr;

use holdfast_wire::Duration;

use super::{GatewayPeers, Peer, PeerConfig, PeersError};

impl GatewayPeers {
    /// Serves these mobiles from now on. A mobile with an unchanged key stays registered, with the
    /// addresses that are still allowed. Returns the addresses that are no longer registered.
    ///
    /// # Errors
    /// As [`GatewayPeers::new`]; nothing is changed then.
    pub fn replace(
        &mut self,
        configs: impl IntoIterator<Item = PeerConfig>,
        lifetime: Duration,
    ) -> Result<Vec<IpAddr>, PeersError> {
        let mut next = Self::new(configs, lifetime)?;
        next.counters = core::mem::take(&mut self.counters);
        let mut gone = Vec::new();
        for (id, before) in core::mem::take(&mut self.peers) {
            match next.peers.get_mut(&id) {
                Some(peer) if peer.config.key == before.config.key => {
                    let config = peer.config.clone();
                    *peer = Peer { config, ..before };
                    gone.extend(peer.withdraw_addresses());
                }
                _ => gone.extend(before.view.map_or(Vec::new(), |view| view.addresses)),
            }
        }
        next.owners = core::mem::take(&mut self.owners);
        next.owners.retain(|address, _| !gone.contains(address));
        *self = next;
        Ok(gone)
    }
}

impl Peer {
    /// Removes the addresses that the mobile may not register, and returns them.
    fn withdraw_addresses(&mut self) -> Vec<IpAddr> {
        let allowed = &self.config.allowed;
        let is_refused = |address: &mut IpAddr| !allowed.iter().any(|one| one.contains(*address));
        self.view.as_mut().map_or(Vec::new(), |view| {
            view.addresses.extract_if(.., is_refused).collect()
        })
    }
}
