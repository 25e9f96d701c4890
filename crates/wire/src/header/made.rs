// SPDX-License-Identifier: Apache-2.0
//! A header made without another one to copy: for a flow known from another node's report, or
//! for the answer to a SYN.

use core::net::IpAddr;

use super::{HEADER_LEN_MAX, Header, TCP_HEADER_LEN, TCP_HEADER_LEN_MAX};
use crate::Endpoint;

/// Most routers that the packet passes (RFC 1700, "IP TIME TO LIVE").
const HOPS: u8 = 64;

impl Header {
    /// A header from `from` to `to`, without options, all numbers of TCP 0. `link` is the link
    /// layer's header, and may be empty. None if the ends are not of one family, or `link` is
    /// too long.
    pub fn made(link: &[u8], from: Endpoint, to: Endpoint) -> Option<Self> {
        let ip = link.len();
        let tcp = ip + if from.address.is_ipv4() { 20 } else { 40 };
        if tcp + TCP_HEADER_LEN_MAX > HEADER_LEN_MAX {
            return None;
        }
        let mut bytes = [0; HEADER_LEN_MAX];
        bytes[..ip].copy_from_slice(link);
        match (from.address, to.address) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                // Version and length; DF (RFC 791), so that its number may be 0 (RFC 6864).
                bytes[ip] = 0x45;
                bytes[ip + 6] = 0x40;
                (bytes[ip + 8], bytes[ip + 9]) = (HOPS, 6);
                bytes[ip + 12..ip + 16].copy_from_slice(&source.octets());
                bytes[ip + 16..ip + 20].copy_from_slice(&target.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                bytes[ip] = 0x60;
                (bytes[ip + 6], bytes[ip + 7]) = (6, HOPS);
                bytes[ip + 8..ip + 24].copy_from_slice(&source.octets());
                bytes[ip + 24..ip + 40].copy_from_slice(&target.octets());
            }
            _ => return None,
        }
        bytes[tcp..tcp + 2].copy_from_slice(&from.port.to_be_bytes());
        bytes[tcp + 2..tcp + 4].copy_from_slice(&to.port.to_be_bytes());
        bytes[tcp + 12] = (TCP_HEADER_LEN as u8 / 4) << 4;
        let mut header = Self {
            bytes,
            len: (tcp + TCP_HEADER_LEN) as u8,
            ip: ip as u8,
            tcp: tcp as u8,
        };
        header.set_payload_len(0).then_some(header)
    }

    /// The link layer's header, as it came.
    pub fn link(&self) -> &[u8] {
        &self.bytes[..self.ip_offset()]
    }
}

#[cfg(test)]
mod tests {
    use crate::{Endpoint, Flags, Header, SackBlocks, SeqNum, checksum_is_right, parse};

    #[test]
    fn a_header_out_of_nothing_is_read_as_what_it_was_made_of() {
        let end = |address: &str, port| Endpoint {
            address: address.parse().unwrap(),
            port,
        };
        for (from, to) in [("10.1.0.2", "10.2.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let (from, to) = (end(from, 80), end(to, 40_000));
            let ethernet = [[2; 12].as_slice(), &[0x08, 0x00]].concat();
            for link in [&ethernet[..], &[]] {
                let mut header = Header::made(link, from, to).unwrap();
                header.set_seq(SeqNum::new(7));
                header.set_ack(SeqNum::new(9));
                header.set_flags(Flags::ACK);
                header.set_options(None, &SackBlocks::default());
                assert!(header.set_payload_len(0));
                header.set_checksum(&[]);
                assert_eq!(header.link(), link);
                let (segment, layout) = parse(header.as_bytes(), link.len()).unwrap();
                assert_eq!((segment.from, segment.to), (from, to));
                assert_eq!((segment.seq, segment.ack), (SeqNum::new(7), SeqNum::new(9)));
                assert!(checksum_is_right(header.as_bytes(), &segment, &layout));
                assert!(crate::ip_checksum_is_right(header.as_bytes(), link.len()));
            }
        }
        assert!(Header::made(&[], end("10.1.0.2", 1), end("2001:db8::2", 2)).is_none());
        assert!(Header::made(&[0; 61], end("::1", 1), end("::2", 2)).is_none());
    }
}
