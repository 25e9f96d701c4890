// SPDX-License-Identifier: Apache-2.0
//! A datagram that arrives at an interface, as if a host behind it had sent it.
//!
//! So the caller need not interpret firewall rules: the kernel shows what becomes of the datagram. The
//! frame is written to a device of a [`DataPath`] and redirected into the interface's ingress. Bridge,
//! routing, `rp_filter` and firewall see a frame that this interface received.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};

use etherparse::PacketBuilder;
use holdfast_core::Direction;

use crate::datapath::DataPath;
use crate::tun::LayerKind;
use crate::vnet::VnetHdr;

/// The usual hop limit of hosts.
const HOP_LIMIT: u8 = 64;
/// The frame's sender: an address for local use that no device has.
const SENDER_MAC: [u8; 6] = [0x02, 0x48, 0x46, 0, 0, 1];

/// Has a UDP datagram from `from` to `to` arrive at the interface of `path`, which takes no packets:
/// its owner has never called [`DataPath::beat`]. `mac` is the router's address at this interface,
/// or that of the bridge whose port it is.
///
/// Errors: the addresses are of different versions of IP; the device does not take the frame.
pub fn let_arrive(
    path: &DataPath,
    mac: [u8; 6],
    (from, to): (SocketAddr, SocketAddr),
    payload: &[u8],
) -> io::Result<()> {
    let ethernet = || PacketBuilder::ethernet2(SENDER_MAC, mac);
    let ip = match (path.interface().kind, from.ip(), to.ip()) {
        (LayerKind::Ethernet, IpAddr::V4(from), IpAddr::V4(to)) => {
            ethernet().ipv4(from.octets(), to.octets(), HOP_LIMIT)
        }
        (LayerKind::Ethernet, IpAddr::V6(from), IpAddr::V6(to)) => {
            ethernet().ipv6(from.octets(), to.octets(), HOP_LIMIT)
        }
        (LayerKind::RawIp, IpAddr::V4(from), IpAddr::V4(to)) => {
            PacketBuilder::ipv4(from.octets(), to.octets(), HOP_LIMIT)
        }
        (LayerKind::RawIp, IpAddr::V6(from), IpAddr::V6(to)) => {
            PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT)
        }
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut frame = Vec::new();
    let datagram = ip.udp(from.port(), to.port());
    datagram
        .write(&mut frame, payload)
        .map_err(io::Error::other)?;
    let parts = [IoSlice::new(&frame)];
    path.write(Direction::Uplink, &VnetHdr::default(), &parts)
}
