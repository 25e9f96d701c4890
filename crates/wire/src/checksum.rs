// SPDX-License-Identifier: Apache-2.0
//! The Internet checksum (RFC 1071).

use core::net::IpAddr;

/// A running sum in ones' complement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    total: u64,
    /// An odd number of bytes so far: the next byte is the low half of a word.
    odd: bool,
}

impl Sum {
    /// The pseudo-header of TCP over `from` and `to` for `tcp_len` bytes of header
    /// and payload (RFC 9293, 3.1).
    pub fn pseudo_header(from: IpAddr, to: IpAddr, tcp_len: u32) -> Self {
        let mut sum = Self::default();
        for address in [from, to] {
            match address {
                IpAddr::V4(v4) => sum.add(&v4.octets()),
                IpAddr::V6(v6) => sum.add(&v6.octets()),
            }
        }
        sum.add(&tcp_len.to_be_bytes());
        sum.add(&[0, 6]);
        sum
    }

    /// Adds bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        if self.odd
            && let Some((first, rest)) = bytes.split_first()
        {
            self.total += u64::from(*first);
            self.odd = false;
            bytes = rest;
        }
        // Eight bytes a step: the carry out of 64 bits is folded in later.
        let mut wide: u128 = 0;
        let mut eights = bytes.chunks_exact(8);
        for word in &mut eights {
            wide += u128::from(u64::from_be_bytes(word.try_into().unwrap_or_default()));
        }
        while wide >> 16 != 0 {
            wide = (wide >> 16) + (wide & 0xffff);
        }
        self.total += wide as u64;
        let mut pairs = eights.remainder().chunks_exact(2);
        for pair in &mut pairs {
            self.total += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
        }
        if let [last] = pairs.remainder() {
            self.total += u64::from(*last) << 8;
            self.odd = true;
        }
    }

    /// The sum folded to 16 bits, not inverted: the value of the checksum field if the device
    /// completes the checksum.
    pub fn folded(self) -> u16 {
        let mut total = self.total;
        while total >> 16 != 0 {
            total = (total >> 16) + (total & 0xffff);
        }
        total as u16
    }

    /// The checksum: the sum inverted.
    pub fn finish(self) -> u16 {
        !self.folded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_sum_as_the_whole() {
        let bytes: Vec<u8> = (0..1501u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut whole = 0u64;
        for pair in bytes.chunks(2) {
            whole += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while whole >> 16 != 0 {
            whole = (whole >> 16) + (whole & 0xffff);
        }
        for cut in [0, 1, 2, 3, 7, 8, 9, 700, 1499, 1500] {
            let mut sum = Sum::default();
            sum.add(&bytes[..cut]);
            sum.add(&bytes[cut..]);
            assert_eq!(sum.folded(), whole as u16, "cut at {cut}");
        }
    }

    #[test]
    fn a_sum_with_its_checksum_folds_to_ones() {
        let mut bytes = vec![
            0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 6, 0, 0, 172, 16, 10, 99, 172, 16, 10, 12,
        ];
        let mut sum = Sum::default();
        sum.add(&bytes);
        assert_eq!(sum.finish(), 0xb1e6);
        bytes[10..12].copy_from_slice(&sum.finish().to_be_bytes());
        let mut again = Sum::default();
        again.add(&bytes);
        assert_eq!(again.finish(), 0);
    }
}
