// SPDX-License-Identifier: Apache-2.0
//! The kernel's state of routes and neighbours, and its reports of changes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::Mac;

/// `RTMGRP_NEIGH` (`include/uapi/linux/rtnetlink.h`), the mask of `RTNLGRP_NEIGH`.
const RTMGRP_NEIGH: u32 = 1 << 2;
/// Datagrams read at a time.
const READ_MAX: usize = 256;

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Neighbour {
    /// Its address; none without an answer.
    pub(super) mac: Option<Mac>,
    pub(super) trust: Trust,
}

/// How well it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is to be found out.
    #[default]
    None,
    /// It has answered lately. Another may have come since, and will announce itself.
    Answered,
    /// An entry that was set for good, or there is nothing to resolve.
    Fixed,
}

impl Neighbour {
    fn of(message: &NeighbourMessage) -> Self {
        let octets = message.attributes.iter().find_map(|attribute| {
            let NeighbourAttribute::LinkLocalAddress(octets) = attribute else {
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

/// Queries the kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    socket: Socket,
    ifindex: u32,
    sequence: u32,
}

impl Kernel {
    /// For an interface of the calling thread's network namespace.
    pub(super) fn open(ifindex: u32) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        // An answer is there when the sending returns.
        socket.set_non_blocking(true)?;
        Ok(Self {
            socket,
            ifindex,
            sequence: 0,
        })
    }

    pub(super) const fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Who stands next on the way to the FH by the interface; none if it is no way.
    pub(super) fn next_hop(&mut self, [mh, fh]: [IpAddr; 2]) -> Option<IpAddr> {
        // Of a forwarded flow IPv4 takes no sender that is not the host's own.
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
        let is_by = |attribute: &RouteAttribute| *attribute == RouteAttribute::Oif(self.ifindex);
        if route.header.kind != RouteType::Unicast || !route.attributes.iter().any(is_by) {
            return None;
        }
        let by = route
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                RouteAttribute::Gateway(RouteAddress::Inet(address))
                | RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
                RouteAttribute::Gateway(RouteAddress::Inet6(address))
                | RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
                _ => None,
            });
        Some(by.unwrap_or(fh))
    }

    /// What is known of who has that address on the interface.
    pub(super) fn neighbour(&mut self, address: IpAddr) -> Neighbour {
        let query = RouteNetlinkMessage::GetNeighbour(self.entry(address));
        match self.query(query, 0) {
            Some(RouteNetlinkMessage::NewNeighbour(entry)) => Neighbour::of(&entry),
            _ => Neighbour::default(),
        }
    }

    /// Who has that address is found out, as if a packet were to go there.
    pub(super) fn find_out(&mut self, address: IpAddr) {
        let mut entry = self.entry(address);
        entry.header.flags = NeighbourFlags::Use;
        let query = RouteNetlinkMessage::NewNeighbour(entry);
        // Who may not (CAP_NET_ADMIN) waits for what others find out.
        self.query(query, NLM_F_CREATE | NLM_F_ACK);
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
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(query);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut octets = vec![0; message.header.length as usize];
        message.serialize(&mut octets);
        let kernel = SocketAddr::new(0, 0);
        self.socket.send_to(&octets, &kernel, 0).ok()?;
        loop {
            let (datagram, from) = self.socket.recv_from_full().ok()?;
            if from.port_number() != 0 {
                continue;
            }
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&datagram).ok()?;
            // The answer to an earlier query, which nothing waited for.
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            return match answer.payload {
                NetlinkPayload::InnerMessage(message) => Some(message),
                _ => None,
            };
        }
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

/// Listens.
#[derive(Debug)]
pub(super) struct Changes {
    socket: Socket,
    lost: bool,
}

impl Changes {
    /// Of neighbours, in the calling thread's network namespace.
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, RTMGRP_NEIGH))?;
        socket.set_non_blocking(true)?;
        Ok(Self {
            socket,
            lost: false,
        })
    }

    /// What has changed on the interface, the oldest first.
    pub(super) fn take(&mut self, ifindex: u32) -> Vec<(IpAddr, Neighbour)> {
        let mut changed = Vec::new();
        for _ in 0..READ_MAX {
            match self.socket.recv_from_full() {
                Ok((datagram, from)) if from.port_number() == 0 => {
                    changed.extend(change(&datagram, ifindex));
                }
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.lost = true,
                Err(_) => break,
            }
        }
        changed
    }

    /// Whether some were lost since the last call: they were read too late.
    pub(super) const fn were_lost(&mut self) -> bool {
        std::mem::replace(&mut self.lost, false)
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open for as long as the socket is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

/// Of a datagram with one message, as the kernel's reports of a neighbour are.
fn change(datagram: &[u8], ifindex: u32) -> Option<(IpAddr, Neighbour)> {
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram).ok()?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(entry)) = message.payload
    else {
        return None;
    };
    let address = entry.attributes.iter().find_map(|attribute| {
        let NeighbourAttribute::Destination(address) = attribute else {
            return None;
        };
        match address {
            NeighbourAddress::Inet(address) => Some(IpAddr::from(*address)),
            NeighbourAddress::Inet6(address) => Some(IpAddr::from(*address)),
            _ => None,
        }
    });
    (entry.header.ifindex == ifindex)
        .then_some(address?)
        .map(|address| (address, Neighbour::of(&entry)))
}
