// SPDX-License-Identifier: Apache-2.0
//! The addresses of an interface, and when they change, by netlink.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// `RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR` (`include/uapi/linux/rtnetlink.h`).
const ADDRESS_GROUPS: u32 = 0x10 | 0x100;

/// Datagrams of one dump at most: one carries dozens of addresses.
const DUMP_DATAGRAMS_MAX: usize = 1024;

/// A subscription to changes of addresses in the namespace where it was opened.
#[derive(Debug)]
pub(super) struct AddressMonitor {
    socket: Socket,
}

impl AddressMonitor {
    /// Subscribes.
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, ADDRESS_GROUPS))?;
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
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request =
        NetlinkMessage::from(RouteNetlinkMessage::GetAddress(AddressMessage::default()));
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.finalize();
    let mut bytes = vec![0; request.header.length as usize];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut addresses = Vec::new();
    for _ in 0..DUMP_DATAGRAMS_MAX {
        let (datagram, _) = socket.recv_from_full()?;
        if take_datagram(&datagram, ifindex, &mut addresses)? {
            return Ok(addresses);
        }
    }
    Err(io::Error::other(
        "the kernel's list of addresses does not end",
    ))
}

/// Adds the addresses in one datagram of a dump; true at the dump's end.
fn take_datagram(datagram: &[u8], ifindex: u32, addresses: &mut Vec<IpAddr>) -> io::Result<bool> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(address)) => {
                addresses.extend(usable(&address, ifindex));
            }
            _ => {}
        }
        let length = (message.header.length as usize).next_multiple_of(4);
        if length == 0 {
            break;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(false)
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
