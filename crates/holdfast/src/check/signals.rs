// SPDX-License-Identifier: Apache-2.0
//! Whether the mobiles' signals reach the gateway.
//!
//! The check lets a datagram like that of a mobile arrive at the wireless interface. The firewall, whatever
//! its rules and tools, passes it to the gateway's port, or drops it.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_core::signal::PeerConfig;
use holdfast_net::addresses;
use holdfast_net::arrival::let_arrive;
use holdfast_net::datapath::{AttachMode, DataPath};

use super::Finding;
use super::interface::Subject;
use crate::control::{ControlReply, ControlRequest, ask};
use crate::runtime::random_bytes;

/// The kernel delivers the datagram at once, if at all; the time is for a loaded machine.
const ARRIVES_WITHIN: Duration = Duration::from_secs(1);
/// The kernel's counter of packets whose source has its route over another interface.
const REVERSE_PATH: &str = "IPReversePathFilter";

/// Lets a datagram of one of the mobiles arrive at the interface; `listen` is the gateway's port.
pub(crate) fn check(
    subject: &Subject,
    listen: SocketAddr,
    mobiles: &[PeerConfig],
) -> Option<Finding> {
    if mobiles.is_empty() || !subject.link.up {
        return None;
    }
    let name = &subject.interface.name;
    Some(match arrive(subject, listen, mobiles) {
        Ok(None) => Finding::note(
            format!(
                "{} has no address of the version of a mobile's: whether signals arrive was not tried",
                subject.routed().name
            ),
            "give it one, and check again",
        ),
        Ok(Some(Arrival::Arrived(from))) => Finding::fine(format!(
            "a signal from {from} that arrives on {name} reaches UDP port {}",
            listen.port()
        )),
        Ok(Some(Arrival::OtherRoute(from))) => Finding::problem(
            format!(
                "a signal from {from} that arrives on {name} is dropped: the route to {from} leaves by \
                 another interface (rp_filter)"
            ),
            format!(
                "add the route, or correct `addresses` of this [[mobile]]; see: ip route get {from}"
            ),
        ),
        Ok(Some(Arrival::Dropped(from))) => Finding::problem(
            format!(
                "a signal from {from} that arrives on {name} is dropped before UDP port {}: the gateway \
                 would notice outages by silence alone",
                listen.port()
            ),
            format!(
                "accept it in the firewall: nft insert rule inet filter input iifname {} udp dport {} accept",
                subject.routed().name,
                listen.port()
            ),
        ),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Finding::note(
            format!(
                "{listen}: no interface has this address yet: whether signals arrive was not tried"
            ),
            "if it is misspelt, name another with --signal-listen",
        ),
        Err(error) => Finding::problem(
            format!("{listen}: cannot receive the mobiles' signals: {error}"),
            "name another with --signal-listen",
        ),
    })
}

/// What happened to the datagram from this address.
enum Arrival {
    Arrived(IpAddr),
    OtherRoute(IpAddr),
    Dropped(IpAddr),
}

/// Errors: the gateway could not listen at `listen`. None: there is no pair of addresses to try.
fn arrive(
    subject: &Subject,
    listen: SocketAddr,
    mobiles: &[PeerConfig],
) -> io::Result<Option<Arrival>> {
    let socket = UdpSocket::bind(listen)?;
    let own = addresses::of_interface(subject.routed().ifindex)?;
    let own = if listen.ip().is_unspecified() {
        own
    } else {
        vec![listen.ip()]
    };
    let takes = |to: &&IpAddr| listen.is_ipv6() || to.is_ipv4();
    let prefixes = || mobiles.iter().flat_map(|mobile| &mobile.allowed);
    let pair = own.iter().filter(takes).find_map(|to| {
        let from = prefixes().map(|prefix| prefix.first_host());
        let mut from = from.filter(|from| from.is_ipv4() == to.is_ipv4() && from != to);
        Some((from.next()?, *to))
    });
    let (Some((from, to)), Ok(path)) = (
        pair,
        DataPath::attach(&subject.interface.name, AttachMode::Auto),
    ) else {
        // A problem of the data path is a finding of its own.
        return Ok(None);
    };
    let mac = subject.routed().address.clone();
    let mac = mac.try_into().unwrap_or(subject.interface.mac);
    let token: [u8; 16] = random_bytes().map_err(io::Error::other)?;
    let before = counter(REVERSE_PATH);
    let ends = (
        SocketAddr::new(from, listen.port()),
        SocketAddr::new(to, listen.port()),
    );
    let_arrive(&path, mac, ends, &token)?;
    Ok(Some(if receives(&socket, &token)? {
        Arrival::Arrived(from)
    } else if counter(REVERSE_PATH) > before {
        Arrival::OtherRoute(from)
    } else {
        Arrival::Dropped(from)
    }))
}

/// Whether a datagram with this content arrives; signals of mobiles are ignored.
fn receives(socket: &UdpSocket, token: &[u8]) -> io::Result<bool> {
    let deadline = Instant::now() + ARRIVES_WITHIN;
    let mut datagram = [0; 64];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut datagram) {
            Ok(length) if datagram[..length] == *token => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            _ => {}
        }
    }
}

/// A counter of `/proc/net/netstat`. There each line of names is followed by a line of values.
fn counter(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2);
    let value = pairs.filter_map(|pair| {
        let index = pair[0].split(' ').position(|known| known == name)?;
        pair[1].split(' ').nth(index)?.parse::<u64>().ok()
    });
    value.sum()
}

/// The check while a gateway runs and has the port: whether it has received a signal.
pub(crate) fn check_running(socket: &Path, mobiles: &[PeerConfig]) -> Option<Finding> {
    if mobiles.is_empty() {
        return None;
    }
    let request = ControlRequest::Status {
        flows_max: 0,
        outages_max: 0,
    };
    let Ok(ControlReply::Gateway(status)) = ask(socket, &request) else {
        return None;
    };
    let believed = status.counters.get("signals.believed").copied();
    Some(match believed.unwrap_or_default() {
        0 => Finding::note(
            "the running gateway has received no signal of a mobile yet",
            "if mobiles run, let the firewall accept their UDP port; a check without a running gateway tries it",
        ),
        count => Finding::fine(format!("the running gateway has received {count} signals")),
    })
}
