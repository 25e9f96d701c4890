// SPDX-License-Identifier: Apache-2.0
//! The neighbours of a station, from its settings.

use core::net::SocketAddr;

/// A neighbour, as this station numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u16);

/// The neighbours and their addresses.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    addresses: Vec<SocketAddr>,
}

impl Peers {
    /// These neighbours, numbered in this order; beyond 65,535 they are ignored.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let addresses = addresses.into_iter().take(usize::from(u16::MAX));
        Self {
            addresses: addresses.map(canonical).collect(),
        }
    }

    /// The number of neighbours.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// True without neighbours.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// All neighbours.
    pub fn iter(&self) -> impl Iterator<Item = PeerId> + use<> {
        (0..self.addresses.len() as u16).map(PeerId)
    }

    /// The address of a neighbour.
    pub fn address(&self, peer: PeerId) -> Option<SocketAddr> {
        self.addresses.get(usize::from(peer.0)).copied()
    }

    /// The neighbour with this address.
    pub fn find(&self, from: SocketAddr) -> Option<PeerId> {
        let from = canonical(from);
        let at = self.addresses.iter().position(|address| *address == from)?;
        Some(PeerId(at as u16))
    }
}

/// Makes an IPv4-mapped IPv6 address the IPv4 address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
