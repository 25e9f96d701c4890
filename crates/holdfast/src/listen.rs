// SPDX-License-Identifier: Apache-2.0
//! Sockets of daemons at addresses that no interface has yet, for example of a VPN or PPP. They receive
//! as soon as an interface has the address.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

/// The limit of connections that wait to be accepted: the standard library's value.
const BACKLOG: i32 = 128;

/// A socket for connections.
pub(crate) fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            let socket = bound_ahead(address, SocketType::STREAM)?;
            listen(&socket, BACKLOG)?;
            Ok(socket.into())
        }
        bound => bound,
    }
}

/// A socket for datagrams.
pub(crate) fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    match UdpSocket::bind(address) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            Ok(bound_ahead(address, SocketType::DGRAM)?.into())
        }
        bound => bound,
    }
}

/// A socket at an address that no interface has.
fn bound_ahead(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    match address {
        SocketAddr::V4(_) => sockopt::set_ip_freebind(&socket, true)?,
        SocketAddr::V6(_) => sockopt::set_ipv6_freebind(&socket, true)?,
    }
    if kind == SocketType::STREAM {
        // Connections of a predecessor may still be closing.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &address)?;
    // A warning: the address may be misspelt.
    tracing::warn!(
        "{address}: no interface has this address yet; the daemon listens there already"
    );
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    use holdfast_net::netns::{NetNs, available_or_skip};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Those of documentation (RFC 5737, RFC 3849).
    const ABSENT: [&str; 2] = ["192.0.2.77:0", "[2001:db8::77]:0"];

    /// Connects as soon as there is a route: the kernel enters that of an IPv6 address a little later.
    fn connect(to: &SocketAddr) -> io::Result<TcpStream> {
        let by = Instant::now() + LIMIT;
        loop {
            match TcpStream::connect_timeout(to, LIMIT) {
                Err(error)
                    if error.kind() == io::ErrorKind::NetworkUnreachable && Instant::now() < by =>
                {
                    std::thread::yield_now();
                }
                result => return result,
            }
        }
    }

    #[test]
    fn an_address_that_comes_later_is_listened_at() {
        if !available_or_skip("an_address_that_comes_later_is_listened_at") {
            return;
        }
        let ns = NetNs::new().unwrap();
        let absent = ABSENT.map(|address| address.parse().unwrap());
        let bind = move || absent.map(|address| (tcp(address).unwrap(), udp(address).unwrap()));
        let sockets = ns.run(bind).unwrap();
        let script = "ip address add 192.0.2.77/32 dev lo
            ip address add 2001:db8::77/128 dev lo nodad
            ip link set lo up";
        let status = ns.command("sh").args(["-e", "-c", script]).status();
        assert!(status.unwrap().success());
        for (listener, receiver) in sockets {
            let (to, datagrams) = (
                listener.local_addr().unwrap(),
                receiver.local_addr().unwrap(),
            );
            let sent = ns.run(move || {
                let mut stream = connect(&to)?;
                stream.write_all(b"x")?;
                let sender = UdpSocket::bind((to.ip(), 0))?;
                sender.send_to(b"x", datagrams)
            });
            sent.unwrap().unwrap();
            listener.accept().unwrap();
            receiver.set_read_timeout(Some(LIMIT)).unwrap();
            assert_eq!(receiver.recv(&mut [0; 2]).unwrap(), 1);
        }
    }

    #[test]
    fn an_address_that_is_taken_is_refused() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = tcp(taken.local_addr().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
