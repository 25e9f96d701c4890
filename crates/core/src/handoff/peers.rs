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

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_neighbour_is_found_by_its_address_and_port_in_either_form_of_ipv4() {
        let peers = Peers::new(["10.0.0.1:7", "[::ffff:10.0.0.2]:7", "[fd00::1]:7"].map(address));
        assert_eq!((peers.len(), peers.is_empty()), (3, false));
        for (text, found) in [
            ("10.0.0.1:7", Some(0)),
            ("[::ffff:10.0.0.1]:7", Some(0)),
            ("10.0.0.2:7", Some(1)),
            ("[fd00::1]:7", Some(2)),
            ("10.0.0.1:8", None),
            ("10.0.0.3:7", None),
        ] {
            assert_eq!(peers.find(address(text)), found.map(PeerId), "{text}");
        }
        let all: Vec<_> = peers.iter().map(|peer| peers.address(peer)).collect();
        let expected = ["10.0.0.1:7", "10.0.0.2:7", "[fd00::1]:7"].map(|text| Some(address(text)));
        assert_eq!(all, expected);
        assert_eq!(peers.address(PeerId(3)), None);
        assert!(Peers::default().is_empty());
    }

    #[test]
    fn neighbours_that_have_no_number_are_ignored() {
        let all = (0..=u32::from(u16::MAX)).map(|n| SocketAddr::from((n.to_be_bytes(), 7)));
        assert_eq!(Peers::new(all).len(), usize::from(u16::MAX));
    }
}
