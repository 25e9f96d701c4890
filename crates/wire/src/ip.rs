// SPDX-License-Identifier: Apache-2.0
//! Single fields of the IP header.

use crate::checksum::Sum;

/// The differentiated services codepoint (RFC 2474), 0 to 63, of the IP packet that
/// `packet` begins with; none if it is neither IPv4 nor IPv6.
pub fn dscp(packet: &[u8]) -> Option<u8> {
    let &[first, second] = packet.first_chunk()?;
    match first >> 4 {
        4 => Some(second >> 2),
        // The traffic class lies across the first two bytes (RFC 8200, 3).
        6 => Some((first & 0x0f) << 2 | second >> 6),
        _ => None,
    }
}

/// Whether the checksum of the IPv4 header at `ip` is right (RFC 791, 3.1); an IPv6
/// header has none. False for what is neither.
pub fn ip_checksum_is_right(frame: &[u8], ip: usize) -> bool {
    let Some(&first) = frame.get(ip) else {
        return false;
    };
    match first >> 4 {
        4 => {
            let end = ip + usize::from(first & 0x0f) * 4;
            frame.get(ip..end).is_some_and(|header| {
                let mut sum = Sum::default();
                sum.add(header);
                sum.finish() == 0
            })
        }
        6 => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse::tests::packet;
    use crate::{Header, parse};

    proptest! {
        #[test]
        fn a_dscp_that_is_set_is_read_and_leaves_all_else(
            v6: bool,
            before: u8,
            after in 0u8..64,
        ) {
            let mut bytes = packet(v6, &[], b"abc");
            if v6 {
                bytes[0] = 0x60 | before >> 4;
                bytes[1] = before << 4 | 0x5;
            } else {
                bytes[1] = before;
            }
            prop_assert_eq!(dscp(&bytes), Some(before >> 2));
            let (segment, layout) = parse(&bytes, 0).unwrap();
            let mut header = Header::copy_from(&bytes, &layout).unwrap();
            header.set_dscp(after);
            prop_assert!(header.set_payload_len(3));
            let made = [header.as_bytes(), b"abc"].concat();
            prop_assert_eq!(dscp(&made), Some(after));
            let class = if v6 { made[0] << 4 | made[1] >> 4 } else { made[1] };
            prop_assert_eq!(class & 3, before & 3, "the ECN bits");
            prop_assert!(ip_checksum_is_right(&made, 0));
            prop_assert_eq!(parse(&made, 0), Ok((segment, layout)));
            if v6 {
                prop_assert_eq!(made[1] & 0x0f, 0x5, "the flow label");
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), ip in 0usize..90) {
            let _ = dscp(&bytes);
            let _ = ip_checksum_is_right(&bytes, ip);
        }
    }

    #[test]
    fn a_bit_that_turned_in_an_ipv4_header_is_seen() {
        // The example of a header in use, its checksum 0xb1e6.
        let right = [
            0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 6, 0xb1, 0xe6, 172, 16, 10, 99, 172, 16,
            10, 12,
        ];
        assert!(ip_checksum_is_right(&right, 0));
        for bit in 4..160 {
            let mut wrong = right;
            wrong[bit / 8] ^= 0x80 >> (bit % 8);
            assert!(!ip_checksum_is_right(&wrong, 0), "bit {bit}");
        }
        assert!(ip_checksum_is_right(&[0x60], 0));
        assert!(!ip_checksum_is_right(&[0x50; 40], 0));
    }
}
