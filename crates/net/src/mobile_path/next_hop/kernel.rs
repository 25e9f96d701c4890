// SPDX-License-Identifier: Apache-2.0
//! The kernel's routes and neighbours, and its reports of changes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NetlinkPayload};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::Mac;
use crate::netlink::{Netlink, is_overrun};
use crate::privileges;

/// `RTMGRP_NEIGH` (`include/uapi/linux/rtnetlink.h`), the mask of `RTNLGRP_NEIGH`.
const RTMGRP_NEIGH: u32 = 1 << 2;
/// Datagrams read at a time.
const READ_MAX: usize = 256;
/// Datagrams dropped after a loss, at most: more than a socket's buffer holds.
const DROPPED_MAX: usize = 1 << 16;

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Neighbour {
    /// Its address; none without an answer.
    pub(super) mac: Option<Mac>,
    pub(super) trust: Trust,
}

/// How far the entry of a neighbour can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trust {
    /// It has to be resolved.
    #[default]
    None,
    /// It has answered lately. Another may have come since, and will announce itself.
    Answered,
    /// The entry is permanent, or there is nothing to resolve.
    Fixed,
}

impl Neighbour {
    fn of(message: &NeighbourMessage) -> Self {
        let octets = message.attributes.iter().find_map(|attribute| {
            let NeighbourAttribute::LinkLayerAddress(octets) = attribute else {
                return None;
            };
            octets.as_slice().try_into().ok()
        });
        let (mac, trust) = match message.header.state {
            NeighbourState::Permanent => (octets, Trust::Fixed),
            NeighbourState::Noarp => (None, Trust::Fixed),
            NeighbourState::Reachable => (octets, Trust::Answered),
            NeighbourState::Stale | NeighbourState::Delay | NeighbourState::Probe => {
                (octets, Trust::None)
            }
            _ => (None, Trust::None),
        };
        Self { mac, trust }
    }
}

/// Has the kernel resolve a neighbour on an interface of the calling thread's network namespace.
pub(crate) fn resolve(ifindex: u32, address: IpAddr) -> io::Result<()> {
    Kernel::open(ifindex)?.resolve(address);
    Ok(())
}

/// The kernel, for one interface. Its descriptor is readable when neighbours have changed.
#[derive(Debug)]
pub(super) struct Kernel {
    changes: Netlink,
    queries: Netlink,
    ifindex: u32,
}

impl Kernel {
    /// For an interface of the calling thread's network namespace.
    pub(super) fn open(ifindex: u32) -> io::Result<Self> {
        Ok(Self {
            // Changes from now on are received; the present state is queried.
            changes: Netlink::open(NETLINK_ROUTE, RTMGRP_NEIGH)?,
            queries: Netlink::open(NETLINK_ROUTE, 0)?,
            ifindex,
        })
    }

    /// The next hop on the interface's route to the FH, if the route is by this interface.
    pub(super) fn next_hop(&mut self, [mh, fh]: [IpAddr; 2]) -> Option<IpAddr> {
        // For a forwarded flow IPv4 refuses a source address that is not the host's own.
        self.next_hop_from(Some(mh), fh)
            .or_else(|| self.next_hop_from(None, fh))
    }

    fn next_hop_from(&mut self, mh: Option<IpAddr>, fh: IpAddr) -> Option<IpAddr> {
        let bits = if fh.is_ipv4() { 32 } else { 128 };
        let mut message = RouteMessage::default();
        message.header.address_family = family(fh);
        message.header.destination_prefix_length = bits;
        message.attributes = vec![
            RouteAttribute::Destination(fh.into()),
            RouteAttribute::Oif(self.ifindex),
        ];
        if let Some(mh) = mh {
            message.header.source_prefix_length = bits;
            message.attributes.push(RouteAttribute::Source(mh.into()));
        }
        let query = RouteNetlinkMessage::GetRoute(message);
        let RouteNetlinkMessage::NewRoute(route) = self.query(query, 0)? else {
            return None;
        };
        let own = RouteAttribute::Oif(self.ifindex);
        if route.header.kind != RouteType::Unicast || !route.attributes.contains(&own) {
            return None;
        }
        let via = route
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                RouteAttribute::Gateway(RouteAddress::Inet(address))
                | RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
                RouteAttribute::Gateway(RouteAddress::Inet6(address))
                | RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
                _ => None,
            });
        Some(via.unwrap_or(fh))
    }

    /// The kernel's entry for the neighbour with this address.
    pub(super) fn neighbour(&mut self, address: IpAddr) -> Neighbour {
        let query = RouteNetlinkMessage::GetNeighbour(self.entry(address));
        match self.query(query, 0) {
            Some(RouteNetlinkMessage::NewNeighbour(entry)) => Neighbour::of(&entry),
            _ => Neighbour::default(),
        }
    }

    /// Has the kernel resolve the neighbour, as a packet to it would.
    pub(super) fn resolve(&mut self, address: IpAddr) {
        if let Some(broker) = privileges::broker() {
            // Without the broker it is resolved when another program sends to it.
            let _ = broker.resolve(self.ifindex, address);
            return;
        }
        let mut entry = self.entry(address);
        entry.header.flags = NeighbourFlags::Use;
        // Without CAP_NET_ADMIN it is resolved when another program sends to it.
        self.query(RouteNetlinkMessage::NewNeighbour(entry), NLM_F_CREATE);
    }

    fn entry(&self, address: IpAddr) -> NeighbourMessage {
        let mut entry = NeighbourMessage::default();
        entry.header.family = family(address);
        entry.header.ifindex = self.ifindex;
        let destination = NeighbourAttribute::Destination(address.into());
        entry.attributes.push(destination);
        entry
    }

    /// The answer; none if it was an error, or an acknowledgement.
    fn query(&mut self, query: RouteNetlinkMessage, flags: u16) -> Option<RouteNetlinkMessage> {
        self.queries.request(query, flags).ok()?.pop()
    }

    /// Neighbours of the interface that have changed, the oldest first.
    ///
    /// Errors: changes were lost ([`is_overrun`]), and all older ones are dropped.
    pub(super) fn take_changes(&self) -> io::Result<Vec<(IpAddr, Neighbour)>> {
        let mut changed = Vec::new();
        for _ in 0..READ_MAX {
            match self.changes.receive::<RouteNetlinkMessage>() {
                Ok(Some(messages)) => {
                    let payloads = messages.into_iter().map(|message| message.payload);
                    changed.extend(payloads.filter_map(|payload| self.change(&payload)));
                }
                Err(error) if is_overrun(&error) => {
                    // Reports from before the loss would be taken for newer than the state that is queried
                    // next. Later ones are dropped too: that query comes after them.
                    for _ in 0..DROPPED_MAX {
                        let Ok(Some(_)) = self.changes.receive::<RouteNetlinkMessage>() else {
                            break;
                        };
                    }
                    return Err(error);
                }
                Ok(None) | Err(_) => break,
            }
        }
        Ok(changed)
    }

    fn change(&self, payload: &NetlinkPayload<RouteNetlinkMessage>) -> Option<(IpAddr, Neighbour)> {
        let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(entry)) = payload else {
            return None;
        };
        if entry.header.ifindex != self.ifindex {
            return None;
        }
        let address = entry
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => Some((*v4).into()),
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => Some((*v6).into()),
                _ => None,
            });
        Some((address?, Neighbour::of(entry)))
    }
}

impl AsFd for Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}
