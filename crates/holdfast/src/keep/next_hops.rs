// SPDX-License-Identifier: Apache-2.0
//! The link-layer addresses of the newest packets. A queued packet may be for a next hop whose address
//! has changed since.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_net::keep_path::Peers;
use holdfast_wire::LinkAddresses;

/// The limit of destinations, and of changes. Beyond it all are forgotten, and packets are sent unchanged.
const ENTRIES_MAX: usize = 4_096;

/// The addresses of the next hops. Each entry has the number of the packet that it came with.
#[derive(Debug)]
pub(super) struct NextHops {
    /// Destinations with the same addresses are behind one router. On a gateway they may be mobiles behind one
    /// extender, which leave it one by one.
    are_behind_router: bool,
    packets: u64,
    /// The newest addresses, by destination.
    newest: BTreeMap<IpAddr, (LinkAddresses, u64)>,
    /// The addresses that replaced these addresses, for the same destination.
    successors: BTreeMap<LinkAddresses, (LinkAddresses, u64)>,
}

impl NextHops {
    /// `peers`: the peers whose packets are queued.
    pub(super) fn new(peers: Peers) -> Self {
        Self {
            are_behind_router: matches!(peers, Peers::WholeLink),
            packets: 0,
            newest: BTreeMap::new(),
            successors: BTreeMap::new(),
        }
    }

    /// A packet to `destination` came with these addresses.
    pub(super) fn note(&mut self, destination: IpAddr, addresses: LinkAddresses) {
        if self.newest.len() >= ENTRIES_MAX || self.successors.len() >= ENTRIES_MAX {
            self.newest.clear();
            self.successors.clear();
        }
        self.packets += 1;
        let entry = (addresses, self.packets);
        let before = self.newest.insert(destination, entry);
        if let Some((before, _)) = before
            && before != addresses
        {
            self.successors.insert(before, entry);
        }
    }

    /// The addresses for a packet to `destination` that is sent now. Behind a router, a destination without a newer
    /// packet follows the destinations whose addresses have changed since. None: nothing is known.
    pub(super) fn newest(&self, destination: IpAddr) -> Option<LinkAddresses> {
        let (mut addresses, mut packet) = *self.newest.get(&destination)?;
        while self.are_behind_router
            && let Some((successor, at)) = self.successors.get(&addresses)
            && *at > packet
        {
            (addresses, packet) = (*successor, *at);
        }
        Some(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LinkAddresses = [1; 12];
    const B: LinkAddresses = [2; 12];
    const C: LinkAddresses = [3; 12];

    fn host(number: u8) -> IpAddr {
        [10, 2, 0, number].into()
    }

    #[test]
    fn a_destination_has_the_addresses_of_its_newest_packet() {
        let mut hops = NextHops::new(Peers::ByAddress);
        assert_eq!(hops.newest(host(1)), None);
        // A next hop that returns is no loop.
        for addresses in [A, B, A, B, C, A] {
            hops.note(host(1), addresses);
            assert_eq!(hops.newest(host(1)), Some(addresses));
        }
    }

    #[test]
    fn mobiles_leave_an_extender_one_by_one() {
        let mut hops = NextHops::new(Peers::ByAddress);
        hops.note(host(1), A);
        hops.note(host(2), A);
        hops.note(host(1), B);
        assert_eq!(hops.newest(host(2)), Some(A));
    }

    #[test]
    fn one_without_a_newer_packet_follows_others_of_the_same_router() {
        let mut hops = NextHops::new(Peers::WholeLink);
        hops.note(host(1), A);
        hops.note(host(2), A);
        hops.note(host(3), C);
        hops.note(host(2), B);
        assert_eq!(hops.newest(host(1)), Some(B));
        assert_eq!(hops.newest(host(3)), Some(C), "behind another one");
        hops.note(host(2), C);
        assert_eq!(hops.newest(host(1)), Some(C));
        // Its own packet counts more than what others have shown before.
        hops.note(host(1), A);
        assert_eq!(hops.newest(host(1)), Some(A));
    }

    #[test]
    fn entries_have_a_limit() {
        let mut hops = NextHops::new(Peers::WholeLink);
        for number in 0..2 * ENTRIES_MAX as u32 {
            hops.note(std::net::Ipv4Addr::from(number).into(), A);
        }
        assert!(hops.newest.len() <= ENTRIES_MAX);
        assert_eq!(hops.newest(host(1)), None);
    }
}
