// SPDX-License-Identifier: Apache-2.0
//! The `virtio_net_hdr` before each frame of a device with offloads.
//!
//! Source: `include/uapi/linux/virtio_net.h`; fields in the machine's byte order.

use crate::tun::VNET_HDR_BYTES;

/// The checksum field holds the pseudo-header's sum alone.
const FLAG_NEEDS_CSUM: u8 = 1;
/// The kernel has verified the checksum.
const FLAG_DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// ORed to the type: the first segment carries CWR (RFC 3168).
const GSO_ECN: u8 = 0x80;

/// What kind of super-segment a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// A frame as the wire carries it.
    #[default]
    None,
    /// TCP over IPv4, to be cut.
    TcpV4,
    /// TCP over IPv6, to be cut.
    TcpV6,
    /// A kind that TCP never has; such a frame is only passed on.
    Other(u8),
}

/// The header's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHdr {
    /// The checksum is to be completed: from `csum_start` to the frame's end,
    /// stored `csum_offset` octets after `csum_start`.
    pub needs_csum: bool,
    /// The kernel or the interface has verified the checksum.
    pub data_valid: bool,
    /// What kind of super-segment it is.
    pub gso: Gso,
    /// Whether the super-segment's first piece alone is to carry CWR.
    pub ecn: bool,
    /// Octets of all headers of a super-segment, from the frame's start.
    pub hdr_len: u16,
    /// Octets of payload in each piece of a super-segment.
    pub gso_size: u16,
    /// See `needs_csum`; octets from the frame's start.
    pub csum_start: u16,
    /// See `needs_csum`.
    pub csum_offset: u16,
}

impl VnetHdr {
    /// Reads the header; flags that are not known are ignored.
    pub fn parse(octets: &[u8; VNET_HDR_BYTES]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
        let gso = match octets[1] & !GSO_ECN {
            GSO_NONE => Gso::None,
            GSO_TCPV4 => Gso::TcpV4,
            GSO_TCPV6 => Gso::TcpV6,
            other => Gso::Other(other),
        };
        Self {
            needs_csum: octets[0] & FLAG_NEEDS_CSUM != 0,
            data_valid: octets[0] & FLAG_DATA_VALID != 0,
            gso,
            ecn: octets[1] & GSO_ECN != 0,
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// The header's octets.
    pub fn emit(&self) -> [u8; VNET_HDR_BYTES] {
        let mut octets = [0; VNET_HDR_BYTES];
        octets[0] = (u8::from(self.needs_csum) * FLAG_NEEDS_CSUM)
            | (u8::from(self.data_valid) * FLAG_DATA_VALID);
        octets[1] = match self.gso {
            Gso::None => GSO_NONE,
            Gso::TcpV4 => GSO_TCPV4,
            Gso::TcpV6 => GSO_TCPV6,
            Gso::Other(other) => other,
        } | if self.ecn { GSO_ECN } else { 0 };
        for (at, word) in [
            (2, self.hdr_len),
            (4, self.gso_size),
            (6, self.csum_start),
            (8, self.csum_offset),
        ] {
            octets[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emitted_is_parsed_again() {
        for gso in [Gso::None, Gso::TcpV4, Gso::TcpV6, Gso::Other(5)] {
            for bits in 0..8 {
                let header = VnetHdr {
                    needs_csum: bits & 1 != 0,
                    data_valid: bits & 2 != 0,
                    ecn: bits & 4 != 0,
                    gso,
                    hdr_len: 66,
                    gso_size: 1448,
                    csum_start: 34,
                    csum_offset: 16,
                };
                assert_eq!(VnetHdr::parse(&header.emit()), header);
            }
        }
    }

    #[test]
    fn a_super_segment_of_the_kernel_is_understood() {
        let mut octets = [FLAG_NEEDS_CSUM, GSO_TCPV4 | GSO_ECN, 0, 0, 0, 0, 0, 0, 0, 0];
        octets[4..6].copy_from_slice(&1448_u16.to_ne_bytes());
        octets[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        let header = VnetHdr::parse(&octets);
        assert!(header.needs_csum && header.ecn && !header.data_valid);
        assert_eq!(
            (header.gso, header.gso_size, header.csum_start),
            (Gso::TcpV4, 1448, 34)
        );
    }
}
