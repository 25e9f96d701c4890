// SPDX-License-Identifier: Apache-2.0
//! One UDP socket for messages to single stations and for copies to multicast groups.
//!
//! It is bound to the wildcard address: what comes to any group that this host has joined on
//! the port comes to it (`IP_MULTICAST_ALL`, `IPV6_MULTICAST_ALL`, on by default). Each group
//! is joined by a socket of its own, for the kernel limits the groups of one
//! (`net.ipv4.igmp_max_memberships`); dropping that leaves the group.
//!
//! Sources: ip(7), ipv6(7), recvmmsg(2).

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_void};

use crate::syscall::{at, check};
use crate::tun::query_ifindex;

/// Bytes of a datagram at most; longer ones are not taken.
pub const DATAGRAM_BYTES_MAX: usize = 16 << 10;
/// Datagrams taken with one call.
const BATCH: usize = 32;
/// What may wait in the socket, bytes.
const RECEIVE_BUFFER_BYTES: c_int = 8 << 20;
/// Groups joined at most.
const GROUPS_MAX: usize = 4096;

/// Buffers for [`GroupSocket::receive`].
#[derive(Debug)]
pub struct Batch {
    buffers: Vec<u8>,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            buffers: vec![0; BATCH * DATAGRAM_BYTES_MAX],
        }
    }
}

/// The socket and the groups that are joined; non-blocking.
#[derive(Debug)]
pub struct GroupSocket {
    socket: OwnedFd,
    is_v6: bool,
    ifindex: u32,
    members: BTreeMap<IpAddr, OwnedFd>,
}

impl GroupSocket {
    /// Binds `port` for groups of one family on `interface`. What is sent to a group goes at
    /// most `hops` routers far and do not return.
    ///
    /// Errors: no such interface, the port is taken; the message names the step.
    pub fn open(is_v6: bool, port: u16, interface: &str, hops: u8) -> io::Result<Self> {
        let ifindex = query_ifindex(interface).map_err(|error| at(interface, &error))?;
        let socket = udp_socket(is_v6)?;
        let group_socket = Self {
            socket,
            is_v6,
            ifindex,
            members: BTreeMap::new(),
        };
        group_socket.configure(hops)?;
        let any: IpAddr = if is_v6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        let (address, len) = socket_address(SocketAddr::new(any, port));
        // SAFETY: bind reads `len` octets of the address, which outlives the call.
        check(unsafe {
            libc::bind(
                group_socket.socket.as_raw_fd(),
                (&raw const address).cast(),
                len,
            )
        })
        .map_err(|error| at(&format!("bind UDP port {port}"), &error))?;
        Ok(group_socket)
    }

    fn configure(&self, hops: u8) -> io::Result<()> {
        let (off, hops) = (0 as c_int, c_int::from(hops));
        // Large copies are cut by IP: no router may report a path MTU.
        if self.is_v6 {
            let ifindex = self.ifindex as c_int;
            self.option(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, &ifindex)?;
            self.option(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, &hops)?;
            self.option(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, &off)?;
            let dont = libc::IPV6_PMTUDISC_DONT;
            self.option(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &dont)?;
        } else {
            let request = membership_v4(Ipv4Addr::UNSPECIFIED, self.ifindex);
            self.option(libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)?;
            self.option(libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, &hops)?;
            self.option(libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, &off)?;
            let dont = libc::IP_PMTUDISC_DONT;
            self.option(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &dont)?;
        }
        // Beyond the system's limit, where that is allowed; else up to it.
        let bytes = RECEIVE_BUFFER_BYTES;
        if self
            .option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes)
            .is_err()
        {
            self.option(libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes)?;
        }
        Ok(())
    }

    fn option<T>(&self, level: c_int, name: c_int, value: &T) -> io::Result<()> {
        set_option(self.socket.as_fd(), level, name, value)
    }

    /// Joins a group; nothing if it is joined.
    ///
    /// Errors: of the other family, no multicast address, or no room for it.
    pub fn join(&mut self, group: IpAddr) -> io::Result<()> {
        if self.members.contains_key(&group) {
            return Ok(());
        }
        if self.members.len() >= GROUPS_MAX {
            return Err(io::Error::other(format!(
                "{GROUPS_MAX} groups are joined already"
            )));
        }
        let member = udp_socket(group.is_ipv6())?;
        let fd = member.as_fd();
        match group {
            IpAddr::V4(v4) => {
                let request = membership_v4(v4, self.ifindex);
                set_option(fd, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request)
            }
            IpAddr::V6(v6) => {
                let request = libc::ipv6_mreq {
                    ipv6mr_multiaddr: libc::in6_addr {
                        s6_addr: v6.octets(),
                    },
                    ipv6mr_interface: self.ifindex,
                };
                set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &request)
            }
        }
        .map_err(|error| at(&format!("join group {group}"), &error))?;
        self.members.insert(group, member);
        Ok(())
    }

    /// Leaves a group.
    pub fn leave(&mut self, group: IpAddr) {
        self.members.remove(&group);
    }

    /// Leaves all groups.
    pub fn leave_all(&mut self) {
        self.members.clear();
    }

    /// Sends one datagram.
    pub fn send(&self, to: SocketAddr, datagram: &[u8]) -> io::Result<()> {
        let (address, len) = socket_address(to);
        // SAFETY: sendto reads the datagram and `len` octets of the address; both outlive it.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                datagram.as_ptr().cast::<c_void>(),
                datagram.len(),
                0,
                (&raw const address).cast(),
                len,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Hands what has come, up to 32 datagrams, to `take`, each with its sender; the count.
    /// Those that were too long are left out.
    pub fn receive(
        &self,
        batch: &mut Batch,
        mut take: impl FnMut(&[u8], SocketAddr),
    ) -> io::Result<usize> {
        // SAFETY: all three are plain data, for which zeros are valid.
        let mut addresses: [libc::sockaddr_storage; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut parts: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        let buffers = batch.buffers.chunks_exact_mut(DATAGRAM_BYTES_MAX);
        for (((header, part), address), buffer) in headers
            .iter_mut()
            .zip(&mut parts)
            .zip(&mut addresses)
            .zip(buffers)
        {
            part.iov_base = buffer.as_mut_ptr().cast();
            part.iov_len = buffer.len();
            header.msg_hdr.msg_name = std::ptr::from_mut(address).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header names one address and one buffer of its own, which all outlive
        // the call.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                // Nothing has come; or the error of an earlier datagram of ours, which reports
                // nothing of those that have.
                io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable => Ok(0),
                _ => Err(error),
            };
        }
        let chunks = batch.buffers.chunks_exact(DATAGRAM_BYTES_MAX);
        let taken = headers.iter().zip(&addresses).zip(chunks);
        for ((header, address), buffer) in taken.take(count as usize) {
            let truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            if let Some(from) = from_storage(address).filter(|_| !truncated) {
                take(&buffer[..header.msg_len as usize], from);
            }
        }
        Ok(count as usize)
    }

    /// As many datagrams as one [`receive`](Self::receive) takes: there may be more.
    pub const fn is_full(count: usize) -> bool {
        count == BATCH
    }
}

impl AsFd for GroupSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn udp_socket(is_v6: bool) -> io::Result<OwnedFd> {
    let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes no pointers.
    let raw = unsafe { libc::socket(family, kind, 0) };
    check(raw)?;
    // SAFETY: raw was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn set_option<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: setsockopt reads one T, plain data of libc, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
}

fn membership_v4(group: Ipv4Addr, ifindex: u32) -> libc::ip_mreqn {
    libc::ip_mreqn {
        imr_multiaddr: libc::in_addr {
            s_addr: u32::from_ne_bytes(group.octets()),
        },
        imr_address: libc::in_addr { s_addr: 0 },
        imr_ifindex: ifindex as c_int,
    }
}

fn socket_address(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: sockaddr_storage is plain data, for which zeros are valid.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let len = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: a sockaddr_storage has room and alignment for every address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}

fn from_storage(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family is that of a sockaddr_in; the storage has room for it.
            let raw = unsafe {
                std::ptr::from_ref(storage)
                    .cast::<libc::sockaddr_in>()
                    .read()
            };
            let address = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(address.into(), u16::from_be(raw.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, with a sockaddr_in6.
            let raw = unsafe {
                std::ptr::from_ref(storage)
                    .cast::<libc::sockaddr_in6>()
                    .read()
            };
            let address = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            Some(SocketAddr::new(address.into(), u16::from_be(raw.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::netns::NetNs;
    use crate::readiness::wait_readable;
    use crate::rtnl::Rtnl;

    /// The first that comes within a second, or nothing.
    fn next(socket: &GroupSocket) -> Option<(Vec<u8>, SocketAddr)> {
        next_within(socket, Duration::from_secs(1))
    }

    fn next_within(socket: &GroupSocket, time: Duration) -> Option<(Vec<u8>, SocketAddr)> {
        let mut got = None;
        wait_readable([socket.as_fd()], Some(time)).unwrap();
        let mut batch = Batch::default();
        let take = |bytes: &[u8], from| {
            got.get_or_insert((bytes.to_vec(), from));
        };
        socket.receive(&mut batch, take).unwrap();
        got
    }

    /// A group of one end of a veth pair in two namespaces.
    fn between_namespaces(group: IpAddr, east: IpAddr, west: IpAddr, bits: u8) {
        let (Ok(here), Ok(there)) = (NetNs::new(), NetNs::new()) else {
            eprintln!("SKIPPED: no network namespaces here");
            assert!(std::env::var_os("HOLDFAST_NO_SKIP").is_none());
            return;
        };
        here.run(|| {
            let rtnl = Rtnl::open().unwrap();
            rtnl.add_veth("east", &here, "west", &there).unwrap();
            let index = rtnl.link_index("east").unwrap();
            rtnl.add_address(index, east, bits).unwrap();
            rtnl.set_up(index).unwrap();
        })
        .unwrap();
        let mut receiver = there
            .run(|| {
                let rtnl = Rtnl::open().unwrap();
                let index = rtnl.link_index("west").unwrap();
                rtnl.add_address(index, west, bits).unwrap();
                rtnl.set_up(index).unwrap();
                GroupSocket::open(group.is_ipv6(), 4849, "west", 1).unwrap()
            })
            .unwrap();
        let sender = here
            .run(|| GroupSocket::open(group.is_ipv6(), 4849, "east", 1).unwrap())
            .unwrap();
        let to = SocketAddr::new(group, 4849);
        // The pair has a carrier some time after both ends are up.
        let is_ready = (0..50).any(|_| {
            sender.send(SocketAddr::new(west, 4849), b"ready").unwrap();
            next_within(&receiver, Duration::from_millis(100)).is_some()
        });
        assert!(is_ready, "nothing comes through");
        while next_within(&receiver, Duration::from_millis(100)).is_some() {}
        // Some more than one packet takes: IP cuts it.
        let long = vec![7; 1600];
        there.run(|| receiver.join(group).unwrap()).unwrap();
        sender.send(to, &long).unwrap();
        let from = SocketAddr::new(east, 4849);
        assert_eq!(next(&receiver), Some((long.clone(), from)));
        sender.send(SocketAddr::new(west, 4849), b"you").unwrap();
        assert_eq!(next(&receiver), Some((b"you".to_vec(), from)));
        receiver.leave(group);
        sender.send(to, &long).unwrap();
        sender.send(SocketAddr::new(west, 4849), b"end").unwrap();
        let end = next(&receiver).map(|(bytes, _)| bytes);
        assert_eq!(end, Some(b"end".to_vec()), "the group was left");
    }

    #[test]
    fn a_member_receives_the_group_and_one_that_left_does_not() {
        let v4 = |last| IpAddr::from([10, 99, 0, last]);
        between_namespaces([239, 195, 72, 9].into(), v4(1), v4(2), 24);
    }

    #[test]
    fn the_same_with_ipv6() {
        let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
        between_namespaces(v6("ff15::4848:9"), v6("fd00::1"), v6("fd00::2"), 64);
    }
}
