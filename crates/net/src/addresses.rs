// SPDX-License-Identifier: Apache-2.0
//! The addresses of an interface, the next hops of the default routes, and when either changes,
//! by netlink.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteType,
};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::netlink::{Netlink, is_overrun};

/// `RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE`
/// (`include/uapi/linux/rtnetlink.h`).
const GROUPS: u32 = 0x10 | 0x40 | 0x100 | 0x400;

/// A subscription to changes of addresses and routes in the namespace where it was opened.
#[derive(Debug)]
pub struct AddressMonitor {
    netlink: Netlink,
}

impl AddressMonitor {
    /// Subscribes.
    pub fn open() -> io::Result<Self> {
        let netlink = Netlink::open(NETLINK_ROUTE, GROUPS)?;
        Ok(Self { netlink })
    }

    /// Reads the reports that there are. Their contents do not matter: addresses or routes changed.
    pub fn drain(&self) -> io::Result<()> {
        loop {
            match self.netlink.receive::<RouteNetlinkMessage>() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                // Messages were dropped: also a change.
                Err(error) if is_overrun(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for AddressMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

impl AsRawFd for AddressMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// The addresses of the interface that connections can have: of more than link scope,
/// neither tentative nor failed.
pub fn of_interface(ifindex: u32) -> io::Result<Vec<IpAddr>> {
    let items = dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    let addresses = items.iter().filter_map(|item| match item {
        RouteNetlinkMessage::NewAddress(address) => usable(address, ifindex),
        _ => None,
    });
    Ok(addresses.collect())
}

/// The next hops of the default routes of the main table, the preferred first.
pub fn default_gateways() -> io::Result<Vec<IpAddr>> {
    let routes = default_routes()?.into_iter();
    Ok(routes.filter_map(|route| route.gateway).collect())
}

/// The interfaces of the default routes of the main table, the preferred first.
pub fn default_interfaces() -> io::Result<Vec<u32>> {
    let routes = default_routes()?.into_iter();
    Ok(routes.filter_map(|route| route.ifindex).collect())
}

fn default_routes() -> io::Result<Vec<DefaultRoute>> {
    let items = dump(RouteNetlinkMessage::GetRoute(RouteMessage::default()))?;
    let routes = items.iter().filter_map(|item| match item {
        RouteNetlinkMessage::NewRoute(route) => default_route(route),
        _ => None,
    });
    let mut routes: Vec<_> = routes.collect();
    routes.sort_by_key(|route| route.priority);
    Ok(routes)
}

fn dump(request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    Netlink::open(NETLINK_ROUTE, 0)?.request(request, NLM_F_DUMP)
}

/// A route to everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DefaultRoute {
    priority: u32,
    /// The next hop; none on point-to-point links.
    gateway: Option<IpAddr>,
    ifindex: Option<u32>,
}

/// The route, if it is a default route that carries packets.
fn default_route(message: &RouteMessage) -> Option<DefaultRoute> {
    let header = &message.header;
    let is_default = header.destination_prefix_length == 0 && header.kind == RouteType::Unicast;
    // With `ignore_routes_with_linkdown` the kernel uses none without a carrier.
    let is_dead = header.flags.contains(RouteFlags::Dead);
    if !is_default || is_dead || header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let mut route = DefaultRoute::default();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Priority(value) => route.priority = *value,
            RouteAttribute::Oif(ifindex) => route.ifindex = Some(*ifindex),
            RouteAttribute::Gateway(RouteAddress::Inet(v4)) => route.gateway = Some((*v4).into()),
            RouteAttribute::Gateway(RouteAddress::Inet6(v6)) => route.gateway = Some((*v6).into()),
            _ => {}
        }
    }
    Some(route)
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
    let (mut local, mut other) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            // On point-to-point links the other end's.
            AddressAttribute::Address(address) => other = Some(*address),
            _ => {}
        }
    }
    local.or(other)
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NetlinkPayload;

    use super::*;
    use crate::netlink::messages;

    const HEADER_BYTES: usize = 16;
    const RTM_NEWROUTE: u16 = 24;
    const RTA_METRICS: u16 = 8;

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

    /// The default routes of a datagram of netlink.
    fn default_routes_in(datagram: &[u8]) -> Vec<Option<DefaultRoute>> {
        let messages = messages::<RouteNetlinkMessage>(datagram).into_iter();
        let routes = messages.map(|message| match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => {
                default_route(&route)
            }
            _ => None,
        });
        routes.collect()
    }

    #[test]
    fn a_route_that_the_kernel_does_not_use_is_none() {
        const RTA_GATEWAY: u16 = 5;
        const FLAGS_AT: usize = HEADER_BYTES + 8;
        // RTNH_F_LINKDOWN alone: the kernel still uses the route.
        for (flags, is_used) in [(0_u32, true), (0x10, true), (0x11, false)] {
            let mut message = route(&[(RTA_GATEWAY, &[10, 2, 0, 1])]);
            message[FLAGS_AT..FLAGS_AT + 4].copy_from_slice(&flags.to_ne_bytes());
            let [found] = default_routes_in(&message)[..] else {
                panic!("one message");
            };
            assert_eq!(found.is_some(), is_used, "flags {flags:#x}");
        }
    }

    #[test]
    fn a_default_route_with_a_congestion_control_of_its_own_is_read_as_any_other() {
        const RTA_OIF: u16 = 4;
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
        let second = route(&[
            (RTA_GATEWAY, &[10, 3, 0, 1]),
            (RTA_OIF, &3_u32.to_ne_bytes()),
        ]);
        let datagram = [first, second].concat();
        let expected = [(7, [10, 2, 0, 1], None), (0, [10, 3, 0, 1], Some(3))];
        let expected = expected.map(|(priority, gateway, ifindex)| {
            Some(DefaultRoute {
                priority,
                gateway: Some(gateway.into()),
                ifindex,
            })
        });
        assert_eq!(default_routes_in(&datagram), expected);
        // A message that is longer than its datagram is none.
        assert!(messages::<RouteNetlinkMessage>(&[9, 0, 0, 0, 1]).is_empty());
    }
}
