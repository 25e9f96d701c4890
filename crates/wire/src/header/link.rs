// SPDX-License-Identifier: Apache-2.0
//! The addresses of the link layer, which change when the next hop does.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Header;

/// Destination and source of a frame of Ethernet: its first octets.
pub type LinkAddresses = [u8; 12];

impl Header {
    /// The destination address of the IP packet.
    pub fn destination(&self) -> IpAddr {
        let network = &self.bytes[self.ip_offset()..];
        if self.is_v4() {
            let mut octets = [0; 4];
            octets.copy_from_slice(&network[16..20]);
            Ipv4Addr::from(octets).into()
        } else {
            let mut octets = [0; 16];
            octets.copy_from_slice(&network[24..40]);
            Ipv6Addr::from(octets).into()
        }
    }

    /// Sets the addresses of the link layer. Tags behind them stay. A packet without them stays as it is.
    pub fn set_link_addresses(&mut self, addresses: &LinkAddresses) {
        if self.ip_offset() >= addresses.len() {
            self.bytes[..addresses.len()].copy_from_slice(addresses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, Flags};

    const NEW: LinkAddresses = [7; 12];

    fn header(link: &[u8], is_v6: bool) -> Header {
        let [from, to] = if is_v6 {
            ["2001:db8::1", "2001:db8::2"]
        } else {
            ["10.1.0.2", "10.2.0.2"]
        }
        .map(|address| Endpoint {
            address: address.parse().unwrap(),
            port: 80,
        });
        let mut header = Header::made(link, from, to).unwrap();
        assert_eq!(header.destination(), to.address);
        header.set_flags(Flags::ACK);
        header
    }

    #[test]
    fn other_link_addresses_leave_tags_and_all_behind_them_as_they_were() {
        let ethernet = [&[2; 12][..], &[0x08, 0x00]].concat();
        let tagged = [&[2; 12][..], &[0x81, 0x00, 0, 5, 0x08, 0x00]].concat();
        for link in [ethernet, tagged] {
            for is_v6 in [false, true] {
                let before = header(&link, is_v6);
                let mut after = before;
                after.set_link_addresses(&NEW);
                assert_eq!(after.as_bytes()[..12], NEW);
                assert_eq!(after.as_bytes()[12..], before.as_bytes()[12..]);
            }
        }
    }

    #[test]
    fn a_packet_without_a_link_header_stays_as_it_is() {
        for is_v6 in [false, true] {
            let before = header(&[], is_v6);
            let mut after = before;
            after.set_link_addresses(&NEW);
            assert_eq!(after.as_bytes(), before.as_bytes());
        }
    }
}
