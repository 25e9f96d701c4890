// SPDX-License-Identifier: Apache-2.0
//! One UDP socket for messages to single stations and for copies to multicast groups.
//!
//! It is bound to the wildcard address: it receives datagrams on its port to any group that this
//! host has joined (`IP_MULTICAST_ALL`, `IPV6_MULTICAST_ALL`, on by default). Each group is joined
//! by a socket of its own, since the kernel limits the groups of a socket
//! (`net.ipv4.igmp_max_memberships`). When that socket is dropped, the group is left.
//!
//! Sources: ip(7), ipv6(7).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_add_membership_with_ifindex,
    set_ip_mtu_discover, set_ip_multicast_if_with_ifindex, set_ip_multicast_loop,
    set_ip_multicast_ttl, set_ipv6_add_membership, set_ipv6_mtu_discover, set_ipv6_multicast_hops,
    set_ipv6_multicast_if, set_ipv6_multicast_loop, set_socket_recv_buffer_size,
    set_socket_recv_buffer_size_force,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::privileges;
use crate::syscall::at;
use crate::tun::query_ifindex;

/// The longest datagram, bytes. Longer ones are dropped.
pub const DATAGRAM_BYTES_MAX: usize = 16 << 10;
/// The largest number of datagrams that one call receives.
const BATCH: usize = 32;
/// The socket's buffer for received datagrams, bytes.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// The largest number of joined groups.
const GROUPS_MAX: usize = 4096;

/// The socket and the groups that are joined; non-blocking.
#[derive(Debug)]
pub struct GroupSocket {
    socket: UdpSocket,
    ifindex: u32,
    members: BTreeMap<IpAddr, OwnedFd>,
    buffer: Box<[u8]>,
}

impl GroupSocket {
    /// Binds `port` for groups of one family on `interface`. Datagrams to a group pass at
    /// most `hops` routers and do not return.
    ///
    /// Errors: no such interface, the port is taken; the message names the step.
    pub fn open(is_v6: bool, port: u16, interface: &str, hops: u8) -> io::Result<Self> {
        let ifindex = query_ifindex(interface).map_err(|error| at(interface, &error))?;
        let socket = udp_socket(is_v6)?;
        configure(&socket, is_v6, ifindex, hops)?;
        let any: IpAddr = if is_v6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        bind(&socket, &SocketAddr::new(any, port))
            .map_err(|error| at(&format!("bind UDP port {port}"), &error.into()))?;
        Ok(Self {
            socket: socket.into(),
            ifindex,
            members: BTreeMap::new(),
            // One byte more shows a datagram that is too long.
            buffer: vec![0; DATAGRAM_BYTES_MAX + 1].into_boxed_slice(),
        })
    }

    /// Joins a group. Does nothing if the group is joined already.
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
        match group {
            IpAddr::V4(v4) => {
                let any = Ipv4Addr::UNSPECIFIED;
                set_ip_add_membership_with_ifindex(&member, &v4, &any, self.ifindex)
            }
            IpAddr::V6(v6) => set_ipv6_add_membership(&member, &v6, self.ifindex),
        }
        .map_err(|error| at(&format!("join group {group}"), &error.into()))?;
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
        self.socket.send_to(datagram, to).map(drop)
    }

    /// Hands up to 32 received datagrams to `take`, each with its sender; returns their number.
    /// Those that are too long are left out.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], SocketAddr)) -> io::Result<usize> {
        for count in 0..BATCH {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((len, from)) if len <= DATAGRAM_BYTES_MAX => take(&self.buffer[..len], from),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
                // An earlier datagram of this station was refused: nothing is wrong with received ones.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted
                            | io::ErrorKind::ConnectionRefused
                            | io::ErrorKind::HostUnreachable
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(BATCH)
    }

    /// Whether `count` is the most that one [`receive`](Self::receive) takes: then more datagrams may wait.
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
    let family = if is_v6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::DGRAM, flags, None)?)
}

fn configure(socket: &OwnedFd, is_v6: bool, ifindex: u32, hops: u8) -> io::Result<()> {
    let hops = hops.into();
    // IP fragments large copies: no router may report a path MTU.
    if is_v6 {
        set_ipv6_multicast_if(socket, ifindex)?;
        set_ipv6_multicast_hops(socket, hops)?;
        set_ipv6_multicast_loop(socket, false)?;
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DONT)?;
    } else {
        let any = Ipv4Addr::UNSPECIFIED;
        set_ip_multicast_if_with_ifindex(socket, &any, &any, ifindex)?;
        set_ip_multicast_ttl(socket, hops)?;
        set_ip_multicast_loop(socket, false)?;
        set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT)?;
    }
    // Beyond the system's limit, where that is allowed.
    force_receive_buffer(socket)
        .or_else(|_| Ok(set_socket_recv_buffer_size(socket, RECEIVE_BUFFER_BYTES)?))
}

/// A buffer for many datagrams, beyond the system's limit.
///
/// Errors: no permission (`CAP_NET_ADMIN`).
pub(crate) fn force_receive_buffer(socket: &OwnedFd) -> io::Result<()> {
    match privileges::broker() {
        Some(broker) => broker.force_receive_buffer(socket),
        None => Ok(set_socket_recv_buffer_size_force(
            socket,
            RECEIVE_BUFFER_BYTES,
        )?),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::netns::{NetNs, available_or_skip};
    use crate::readiness::wait_readable;
    use crate::rtnl::Rtnl;

    const LIMIT: Duration = Duration::from_secs(60);
    /// Sent until one arrives. A late one is not taken for a datagram that is sent after it.
    const READY: &[u8] = b"ready";

    /// The first other than `READY` that comes, or nothing.
    fn next(socket: &mut GroupSocket) -> Option<(Vec<u8>, SocketAddr)> {
        let by = Instant::now() + LIMIT;
        while Instant::now() < by {
            let mut others = received(socket, LIMIT).into_iter();
            let other = others.find(|(bytes, _)| bytes != READY);
            if other.is_some() {
                return other;
            }
        }
        None
    }

    fn received(socket: &mut GroupSocket, time: Duration) -> Vec<(Vec<u8>, SocketAddr)> {
        let mut got = Vec::new();
        wait_readable([socket.as_fd()], Some(time)).unwrap();
        let take = |bytes: &[u8], from| got.push((bytes.to_vec(), from));
        socket.receive(take).unwrap();
        got
    }

    /// A group of one end of a veth pair in two namespaces.
    fn between_namespaces(group: IpAddr, east: IpAddr, west: IpAddr, bits: u8) {
        let [here, there] = [(); 2].map(|()| NetNs::new().unwrap());
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
        let by = Instant::now() + LIMIT;
        while received(&mut receiver, Duration::from_millis(100)).is_empty() {
            assert!(Instant::now() < by, "nothing comes through");
            sender.send(SocketAddr::new(west, 4849), READY).unwrap();
        }
        // Longer than one packet: IP fragments it.
        let long = vec![7; 1600];
        there.run(|| receiver.join(group).unwrap()).unwrap();
        sender.send(to, &long).unwrap();
        let from = SocketAddr::new(east, 4849);
        assert_eq!(next(&mut receiver), Some((long.clone(), from)));
        sender.send(SocketAddr::new(west, 4849), b"you").unwrap();
        assert_eq!(next(&mut receiver), Some((b"you".to_vec(), from)));
        receiver.leave(group);
        sender.send(to, &long).unwrap();
        sender.send(SocketAddr::new(west, 4849), b"end").unwrap();
        let end = next(&mut receiver).map(|(bytes, _)| bytes);
        assert_eq!(end, Some(b"end".to_vec()), "the group was left");
    }

    #[test]
    fn a_member_receives_the_group_and_one_that_left_does_not() {
        if !available_or_skip("a_member_receives_the_group_and_one_that_left_does_not") {
            return;
        }
        let v4 = |last| IpAddr::from([10, 99, 0, last]);
        between_namespaces([239, 195, 72, 9].into(), v4(1), v4(2), 24);
    }

    #[test]
    fn the_same_with_ipv6() {
        if !available_or_skip("the_same_with_ipv6") {
            return;
        }
        let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
        between_namespaces(v6("ff15::4848:9"), v6("fd00::1"), v6("fd00::2"), 64);
    }
}
