// SPDX-License-Identifier: Apache-2.0
//! Datagrams that are answered from the address at which they arrived.
//!
//! A socket that listens at all addresses sends from the address that the route prefers. A stateful firewall drops
//! an answer whose source is not the address to which the datagram was sent.
//!
//! Source: ip(7) `IP_PKTINFO`, ipv6(7) `IPV6_RECVPKTINFO`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _};

use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
};

#[cfg(test)]
mod tests;

/// Who has sent a datagram, and where it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correspondent {
    /// The sender.
    pub from: SocketAddr,
    /// The address of this host that it was sent to; none: the socket has one address alone.
    at: Option<IpAddr>,
    /// The interface of a link-local address; 0: the route decides.
    ifindex: u32,
}

/// Has [`receive`] learn at which address a datagram arrived, if the socket listens at all of them.
pub fn note_arrivals(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(at) if at.ip().is_unspecified() => {
            setsockopt(socket, Ipv4PacketInfo, &true)?;
        }
        // An IPv4 address arrives mapped.
        SocketAddr::V6(at) if at.ip().is_unspecified() => {
            setsockopt(socket, Ipv6RecvPacketInfo, &true)?;
        }
        _ => {}
    }
    Ok(())
}

/// The next datagram, as far as the buffer has room.
///
/// Errors: the socket's; `WouldBlock` if there is none.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Correspondent)> {
    let mut control = nix::cmsg_space!(in6_pktinfo);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = recvmsg::<SockaddrStorage>(
        socket.as_fd().as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::empty(),
    )?;
    let from = received.address.as_ref().and_then(socket_address);
    let mut correspondent = Correspondent {
        from: from.ok_or(io::ErrorKind::InvalidData)?,
        at: None,
        ifindex: 0,
    };
    for message in received.cmsgs()? {
        correspondent.note(&message);
    }
    Ok((received.bytes, correspondent))
}

/// Sends to `to` from the address at which its datagram arrived.
///
/// Errors: the socket's; `WouldBlock` if there is no room at this moment.
pub fn reply(socket: impl AsFd, octets: &[u8], to: &Correspondent) -> io::Result<()> {
    let parts = [IoSlice::new(octets)];
    let address = SockaddrStorage::from(to.from);
    let send = |control: &[ControlMessage<'_>]| {
        let socket = socket.as_fd().as_raw_fd();
        sendmsg(socket, &parts, control, MsgFlags::empty(), Some(&address))
    };
    match to.at {
        None => send(&[])?,
        Some(IpAddr::V4(at)) => send(&[ControlMessage::Ipv4PacketInfo(&in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: in_addr {
                s_addr: u32::from_ne_bytes(at.octets()),
            },
            ipi_addr: in_addr { s_addr: 0 },
        })])?,
        Some(IpAddr::V6(at)) => send(&[ControlMessage::Ipv6PacketInfo(&in6_pktinfo {
            ipi6_addr: in6_addr {
                s6_addr: at.octets(),
            },
            ipi6_ifindex: to.ifindex,
        })])?,
    };
    Ok(())
}

impl Correspondent {
    fn note(&mut self, message: &ControlMessageOwned) {
        match message {
            // For a datagram to a group or to all hosts this is an address of this host too.
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                self.at = Some(IpAddr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()));
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                let at = std::net::Ipv6Addr::from(info.ipi6_addr.s6_addr);
                // A group is no source address.
                self.at = (!at.is_multicast()).then_some(at.into());
                self.ifindex = if at.is_unicast_link_local() {
                    info.ipi6_ifindex
                } else {
                    0
                };
            }
            _ => {}
        }
    }
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().copied().map(SocketAddrV4::from);
    let v6 = address.as_sockaddr_in6().copied().map(SocketAddrV6::from);
    v4.map(SocketAddr::from).or(v6.map(SocketAddr::from))
}
