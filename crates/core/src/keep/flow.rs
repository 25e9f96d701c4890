// SPDX-License-Identifier: Apache-2.0
//! A packet's flow, by addresses, protocol, and ports or an SPI only.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IP protocol numbers (RFC 5237).
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ESP: u8 = 50;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// The common fields of the packets of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketFlow {
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
    /// The protocol above IP; with IPv6 the first header behind IPv6's own.
    pub protocol: u8,
    /// Source port and destination port, an SPI, or 0: for other protocols, and for fragments,
    /// because most fragments have none.
    pub selector: u32,
}

impl PacketFlow {
    /// The flow of the IP packet at the begin of `packet`; `None` without a whole IP header.
    pub fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_ipv4(packet),
            6 => Self::of_ipv6(packet),
            _ => None,
        }
    }

    fn of_ipv4(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = packet.first_chunk()?;
        let address = |at: usize| {
            let [a, b, c, d] = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        };
        let is_fragment = header[6] & 0x3f != 0 || header[7] != 0;
        let upper = usize::from(header[0] & 0xf) * 4;
        Some(Self {
            source: address(12),
            destination: address(16),
            protocol: header[9],
            selector: selector(header[9], packet, upper, is_fragment),
        })
    }

    fn of_ipv6(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 40] = packet.first_chunk()?;
        let address = |at: usize| {
            let octets: [u8; 16] = header[at..at + 16].try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        };
        Some(Self {
            source: address(8)?,
            destination: address(24)?,
            // All flows of two addresses behind an extension header count as one.
            protocol: header[6],
            selector: selector(header[6], packet, 40, false),
        })
    }

    /// A flow of UDP.
    pub const fn is_udp(&self) -> bool {
        self.protocol == UDP
    }

    /// Receivers of the protocol ignore a packet that they had before: by their sequence numbers,
    /// or because senders of UDP must expect it (RFC 8085, 3.3).
    pub fn may_repeat(&self) -> bool {
        matches!(self.protocol, TCP | UDP | DCCP | ESP | SCTP)
    }

    /// True for protocols with ports, which both directions have in reverse order.
    pub const fn has_ports(protocol: u8) -> bool {
        matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
    }
}

fn selector(protocol: u8, packet: &[u8], upper: usize, is_fragment: bool) -> u32 {
    let has_one = protocol == ESP || PacketFlow::has_ports(protocol);
    let octets = packet.get(upper..).and_then(<[u8]>::first_chunk);
    match octets {
        Some(octets) if has_one && !is_fragment => u32::from_be_bytes(*octets),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ICMP: u8 = 1;
    const ICMPV6: u8 = 58;

    /// A packet with the octets 1 to 8 behind its header.
    fn packet(version: u8, protocol: u8) -> Vec<u8> {
        let (len, first, protocol_at) = if version == 4 {
            (20, 0x45, 9)
        } else {
            (40, 0x60, 6)
        };
        let mut packet = vec![0; len];
        (packet[0], packet[protocol_at]) = (first, protocol);
        packet.extend([1, 2, 3, 4, 5, 6, 7, 8]);
        packet
    }

    fn selector_of(packet: &[u8]) -> Option<u32> {
        PacketFlow::of(packet).map(|flow| flow.selector)
    }

    #[test]
    fn ports_separate_the_flows_of_protocols_that_have_some() {
        for version in [4, 6] {
            for protocol in [TCP, UDP, DCCP, ESP, SCTP, UDP_LITE] {
                let packet = packet(version, protocol);
                assert_eq!(selector_of(&packet), Some(0x0102_0304), "{protocol}");
                let cut = packet.len() - 5;
                assert_eq!(selector_of(&packet[..cut]), Some(0), "{protocol}");
            }
            for protocol in [ICMP, ICMPV6] {
                assert_eq!(selector_of(&packet(version, protocol)), Some(0));
            }
        }
    }

    #[test]
    fn the_addresses_of_a_flow_are_those_of_its_header() {
        let mut v4 = packet(4, UDP);
        v4[12..20].copy_from_slice(&[10, 1, 2, 3, 10, 4, 5, 6]);
        let flow = PacketFlow::of(&v4).expect("a flow");
        assert_eq!(flow.source, IpAddr::from([10, 1, 2, 3]));
        assert_eq!(flow.destination, IpAddr::from([10, 4, 5, 6]));
        let mut v6 = packet(6, UDP);
        let octets: [u8; 32] = core::array::from_fn(|at| at as u8);
        v6[8..40].copy_from_slice(&octets);
        let flow = PacketFlow::of(&v6).expect("a flow");
        for (address, first) in [(flow.source, 0), (flow.destination, 16)] {
            let octets: [u8; 16] = core::array::from_fn(|at| first + at as u8);
            assert_eq!(address, IpAddr::from(octets));
        }
    }

    #[test]
    fn all_fragments_of_a_packet_are_of_one_flow() {
        // More fragments follow; a later fragment; its offset's last octet alone.
        for (at, octet) in [(6, 0x20), (6, 0x01), (7, 0x01)] {
            let mut fragment = packet(4, UDP);
            fragment[at] = octet;
            assert_eq!(selector_of(&fragment), Some(0), "{at}");
        }
        let mut whole = packet(4, UDP);
        // It must not be fragmented.
        whole[6] = 0x40;
        assert_eq!(selector_of(&whole), Some(0x0102_0304));
    }

    #[test]
    fn options_precede_the_ports() {
        let mut packet = packet(4, UDP);
        packet[0] = 0x46;
        assert_eq!(selector_of(&packet), Some(0x0506_0708));
    }
}
