// SPDX-License-Identifier: Apache-2.0
//! A header in few bytes, for idle flows: another header for the same ends can be made from it.

use core::net::IpAddr;

use super::{HEADER_LEN_MAX, Header, TCP_HEADER_LEN};
use crate::Endpoint;

/// Link layer and IP, without the addresses.
#[derive(Clone, Debug)]
pub struct PackedHeader(Box<[u8]>);

/// The offset of the two addresses in an IP header, and their length together.
const fn addresses(is_v4: bool) -> (usize, usize) {
    if is_v4 { (12, 8) } else { (8, 32) }
}

impl Header {
    /// The header without its addresses, and without the fields that each segment sets: numbers,
    /// lengths, checksums, options.
    pub fn pack(&self) -> PackedHeader {
        let (offset, len) = addresses(self.is_v4());
        let from = self.ip_offset() + offset;
        let network = &self.bytes[..self.tcp_offset()];
        let parts = [&[self.ip][..], &network[..from], &network[from + len..]];
        PackedHeader(parts.concat().into())
    }

    /// The header that was packed, from `from` to `to`, without options; TCP's numbers are 0. None
    /// if the ends are of another family.
    pub fn unpack(packed: &PackedHeader, from: Endpoint, to: Endpoint) -> Option<Self> {
        let (ip, network) = packed.0.split_first()?;
        let at = usize::from(*ip);
        let is_v4 = network.get(at)? >> 4 == 4;
        let (offset, len) = addresses(is_v4);
        let (before, after) = network.split_at_checked(at + offset)?;
        let tcp = network.len() + len;
        let mut bytes = [0; HEADER_LEN_MAX];
        bytes[..before.len()].copy_from_slice(before);
        bytes[before.len() + len..tcp].copy_from_slice(after);
        let (first, second) = bytes[before.len()..before.len() + len].split_at_mut(len / 2);
        match (from.address, to.address) {
            (IpAddr::V4(from), IpAddr::V4(to)) if is_v4 => {
                first.copy_from_slice(&from.octets());
                second.copy_from_slice(&to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) if !is_v4 => {
                first.copy_from_slice(&from.octets());
                second.copy_from_slice(&to.octets());
            }
            _ => return None,
        }
        bytes[tcp..tcp + 2].copy_from_slice(&from.port.to_be_bytes());
        bytes[tcp + 2..tcp + 4].copy_from_slice(&to.port.to_be_bytes());
        bytes[tcp + 12] = (TCP_HEADER_LEN as u8 / 4) << 4;
        Some(Self {
            bytes,
            len: (tcp + TCP_HEADER_LEN) as u8,
            ip: *ip,
            tcp: tcp as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Endpoint, Flags, Header, SackBlocks, SeqNum};

    fn end(address: &str, port: u16) -> Endpoint {
        Endpoint {
            address: address.parse().unwrap(),
            port,
        }
    }

    /// An ACK made from the header.
    fn made(mut header: Header) -> Vec<u8> {
        header.set_seq(SeqNum::new(7));
        header.set_ack(SeqNum::new(9));
        header.set_flags(Flags::ACK);
        header.set_window(5);
        header.set_options(None, &SackBlocks::default());
        assert!(header.set_payload_len(0));
        header.set_checksum(&[]);
        header.as_bytes().to_vec()
    }

    #[test]
    fn a_packed_header_makes_the_same_segment_as_the_whole_one() {
        for (from, to) in [("10.1.0.2", "10.2.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let (from, to) = (end(from, 80), end(to, 40_000));
            let ethernet = [[2; 12].as_slice(), &[0x08, 0x00]].concat();
            for link in [&ethernet[..], &[]] {
                let mut header = Header::made(link, from, to).unwrap();
                header.set_dscp(10);
                header.set_options(None, &SackBlocks::default());
                let packed = header.pack();
                assert!(packed.0.len() <= 27, "{} bytes", packed.0.len());
                let unpacked = Header::unpack(&packed, from, to).unwrap();
                assert_eq!(made(unpacked), made(header));
                assert!(Header::unpack(&packed, end("::1", 1), end("10.0.0.1", 1)).is_none());
            }
        }
    }
}
