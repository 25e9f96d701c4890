// SPDX-License-Identifier: Apache-2.0
//! The addresses of an interface, the next hops of the default routes, and when either changes,
//! by netlink.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// `RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE`
/// (`include/uapi/linux/rtnetlink.h`).
const GROUPS: u32 = 0x10 | 0x40 | 0x100 | 0x400;

/// Datagrams of one dump at most: one carries dozens of addresses.
const DUMP_DATAGRAMS_MAX: usize = 1024;

/// A subscription to changes of addresses and routes in the namespace where it was opened.
#[derive(Debug)]
pub(super) struct AddressMonitor {
    socket: Socket,
}

impl AddressMonitor {
    /// Subscribes.
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, GROUPS))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Takes all that the kernel has to say: something has changed.
    pub(super) fn drain(&self) -> io::Result<()> {
        loop {
            match self.socket.recv_from_full() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Messages were dropped: also a change.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsRawFd for AddressMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for AddressMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The addresses of the interface that connections can have: of more than link scope,
/// neither tentative nor failed.
pub(super) fn of_interface(ifindex: u32) -> io::Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    dump(request, |message| {
        if let RouteNetlinkMessage::NewAddress(address) = message {
            addresses.extend(usable(&address, ifindex));
        }
    })?;
    Ok(addresses)
}

/// The next hops of the default routes of the main table, the preferred first.
pub(super) fn default_gateways() -> io::Result<Vec<IpAddr>> {
    let mut gateways = Vec::new();
    let request = RouteNetlinkMessage::GetRoute(RouteMessage::default());
    dump(request, |message| {
        if let RouteNetlinkMessage::NewRoute(route) = message {
            gateways.extend(default_gateway(&route));
        }
    })?;
    gateways.sort_by_key(|(priority, _)| *priority);
    Ok(gateways.into_iter().map(|(_, gateway)| gateway).collect())
}

/// Priority and next hop of a route, if it is a default route.
fn default_gateway(route: &RouteMessage) -> Option<(u32, IpAddr)> {
    let header = &route.header;
    let is_default = header.destination_prefix_length == 0;
    if !is_default || header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let find =
        |wanted: fn(&RouteAttribute) -> Option<u32>| route.attributes.iter().find_map(wanted);
    let priority = find(|attribute| match attribute {
        RouteAttribute::Priority(priority) => Some(*priority),
        _ => None,
    });
    let gateway = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(v4)) => Some(IpAddr::V4(*v4)),
            RouteAttribute::Gateway(RouteAddress::Inet6(v6)) => Some(IpAddr::V6(*v6)),
            _ => None,
        });
    Some((priority.unwrap_or(0), gateway?))
}

/// Asks the kernel for a list and hands its items to `take`.
fn dump(request: RouteNetlinkMessage, mut take: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request = NetlinkMessage::from(request);
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.finalize();
    let mut bytes = vec![0; request.header.length as usize];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    for _ in 0..DUMP_DATAGRAMS_MAX {
        let (datagram, _) = socket.recv_from_full()?;
        if take_datagram(&datagram, &mut take)? {
            return Ok(());
        }
    }
    Err(io::Error::other("the kernel's list does not end"))
}

/// Hands the items in one datagram of a dump to `take`; true at the dump's end.
fn take_datagram(datagram: &[u8], take: &mut impl FnMut(RouteNetlinkMessage)) -> io::Result<bool> {
    let mut rest = datagram;
    while let Some(length) = rest.first_chunk().copied().map(u32::from_ne_bytes) {
        let length = length as usize;
        let Some(bytes) = rest
            .get(..length)
            .filter(|bytes| bytes.len() >= HEADER_BYTES)
        else {
            let problem = "a message of the kernel that is shorter than it says";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&without_metrics(bytes)) {
            Ok(message) => match message.payload {
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(item) => take(item),
                _ => {}
            },
            // One that is not understood does not hide the others.
            Err(error) => tracing::debug!(%error, "netlink: an item is left out"),
        }
    }
    Ok(false)
}

/// Bytes of a message's header, and of a route's before its attributes.
const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = HEADER_BYTES + 12;
const RTM_NEWROUTE: u16 = 24;
const RTA_METRICS: u16 = 8;

/// A route's message without its metrics, of which one (`congctl`) is text that the parser
/// takes for a number; any other message as it is.
fn without_metrics(message: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(u16::from_ne_bytes(bytes))
    };
    if number(message, 4) != Some(RTM_NEWROUTE) || message.len() < ROUTE_BYTES {
        return message.to_vec();
    }
    let (head, mut attributes) = message.split_at(ROUTE_BYTES);
    let mut kept = head.to_vec();
    while let (Some(length), Some(kind)) = (number(attributes, 0), number(attributes, 2)) {
        let length = usize::from(length).max(4).next_multiple_of(4);
        let (attribute, rest) = attributes.split_at(length.min(attributes.len()));
        if kind != RTA_METRICS {
            kept.extend_from_slice(attribute);
        }
        attributes = rest;
    }
    let length = kept.len() as u32;
    kept[..4].copy_from_slice(&length.to_ne_bytes());
    kept
}

fn usable(message: &AddressMessage, ifindex: u32) -> Option<IpAddr> {
    let header = &message.header;
    let unusable = AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed;
    if header.index != ifindex
        || !matches!(header.scope, AddressScope::Universe | AddressScope::Site)
        || header.flags.intersects(unusable)
    {
        return None;
    }
    let find = |wanted: fn(&AddressAttribute) -> Option<IpAddr>| {
        message.attributes.iter().find_map(wanted)
    };
    // On point-to-point links ADDRESS is the other end's.
    find(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    })
    .or_else(|| {
        find(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A route of the main table to everything, with these attributes.
    fn route(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = vec![0; HEADER_BYTES];
        message[4..6].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
        // AF_INET, no prefix, table 254, by an administrator, universe, unicast.
        message.extend([2, 0, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0]);
        for (kind, value) in attributes {
            message.extend((value.len() as u16 + 4).to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(*value);
            message.resize(message.len().next_multiple_of(4), 0);
        }
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message
    }

    #[test]
    fn a_default_route_with_a_congestion_control_of_its_own_is_read_as_any_other() {
        const RTA_GATEWAY: u16 = 5;
        const RTA_PRIORITY: u16 = 6;
        // RTAX_CC_ALGO, 5 bytes of text.
        let mut metrics = Vec::new();
        metrics.extend(9_u16.to_ne_bytes());
        metrics.extend(16_u16.to_ne_bytes());
        metrics.extend(b"reno\0\0\0\0");
        let first = route(&[
            (RTA_METRICS, &metrics),
            (RTA_GATEWAY, &[10, 2, 0, 1]),
            (RTA_PRIORITY, &7_u32.to_ne_bytes()),
        ]);
        let second = route(&[(RTA_GATEWAY, &[10, 3, 0, 1])]);
        let mut found = Vec::new();
        let mut take = |message| {
            if let RouteNetlinkMessage::NewRoute(route) = message {
                found.extend(default_gateway(&route));
            }
        };
        let is_over = take_datagram(&[first, second].concat(), &mut take).expect("a list");
        assert!(!is_over);
        let expected = [(7, [10, 2, 0, 1]), (0, [10, 3, 0, 1])];
        let expected = expected.map(|(priority, gateway)| (priority, IpAddr::from(gateway)));
        assert_eq!(found, expected);
        assert!(take_datagram(&[9, 0, 0, 0, 1], &mut |_| ()).is_err());
    }
}
