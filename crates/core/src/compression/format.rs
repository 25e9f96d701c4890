// SPDX-License-Identifier: Apache-2.0
//! The header before the compressed bytes. The parent module documents the layout.

use holdfast_wire::SeqNum;

/// The upper half of the first byte.
const VERSION: u8 = 5;
/// The plain segment had PSH.
const PSH: u8 = 0x08;
/// The dictionary may end this many bytes before the segment, at most.
const BACK_MAX: u32 = 0x00ff_ffff;

/// Bytes of the header without the dictionary's name, and bytes of that name.
pub(super) const FIXED_BYTES: usize = 7;
const NAME_BYTES: usize = 5;

/// Bytes of a compressed payload in addition to the compressed bytes, at most.
pub const OVERHEAD_BYTES_MAX: usize = FIXED_BYTES + NAME_BYTES;

/// How the bytes after the header are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Raw deflate.
    Deflate,
    /// Zstd without a dictionary.
    Zstd,
    /// Zstd with this dictionary.
    ZstdWith(DictionaryName),
}

/// The bytes of the stream that are the dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DictionaryName {
    /// Bytes from the dictionary's end to the segment's first byte.
    back: u32,
    /// Its length, at least 1.
    len: u16,
}

impl DictionaryName {
    /// The name of the `len` bytes before `end`, for a segment at `seq`. `None` if they are too far
    /// away or too many.
    pub(super) fn new(end: SeqNum, len: usize, seq: SeqNum) -> Option<Self> {
        let back = seq.distance_from(end);
        let len = u16::try_from(len).ok().filter(|len| *len > 0)?;
        (end.at_or_before(seq) && back <= BACK_MAX).then_some(Self { back, len })
    }

    /// The sequence number after the dictionary's last byte, for a segment at `seq`.
    pub(super) fn end(self, seq: SeqNum) -> SeqNum {
        SeqNum::new(seq.get().wrapping_sub(self.back))
    }

    /// The dictionary's length in bytes.
    pub(super) const fn len(self) -> u32 {
        self.len as u32
    }
}

/// The header before the compressed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PayloadHeader {
    pub(super) coding: Coding,
    /// The plain segment's PSH.
    pub(super) psh: bool,
    /// Bytes of the plain payload, at least 1.
    pub(super) plain_len: u16,
    /// CRC-32 of the plain payload.
    pub(super) check: u32,
}

impl PayloadHeader {
    /// Length of the header in bytes.
    pub(super) const fn len(coding: Coding) -> usize {
        match coding {
            Coding::Deflate | Coding::Zstd => FIXED_BYTES,
            Coding::ZstdWith(_) => FIXED_BYTES + NAME_BYTES,
        }
    }

    /// Writes the header at the beginning of `out`, which has room for it.
    pub(super) fn emit(&self, out: &mut [u8]) {
        let method = match self.coding {
            Coding::Deflate => 1,
            Coding::Zstd => 2,
            Coding::ZstdWith(_) => 3,
        };
        out[0] = VERSION << 4 | if self.psh { PSH } else { 0 } | method;
        out[1..3].copy_from_slice(&self.plain_len.to_be_bytes());
        out[3..7].copy_from_slice(&self.check.to_be_bytes());
        if let Coding::ZstdWith(name) = self.coding {
            out[7..10].copy_from_slice(&name.back.to_be_bytes()[1..]);
            out[10..12].copy_from_slice(&name.len.to_be_bytes());
        }
    }

    /// Parses the header at the beginning of `payload`; also returns the compressed bytes. `None` if
    /// there is no valid header.
    pub(super) fn parse(payload: &[u8]) -> Option<(Self, &[u8])> {
        let (fixed, mut rest) = payload.split_first_chunk::<FIXED_BYTES>()?;
        let [first, l0, l1, c0, c1, c2, c3] = *fixed;
        if first >> 4 != VERSION {
            return None;
        }
        let coding = match first & 0x07 {
            1 => Coding::Deflate,
            2 => Coding::Zstd,
            3 => {
                let (name, behind) = rest.split_first_chunk::<NAME_BYTES>()?;
                rest = behind;
                let [b0, b1, b2, l0, l1] = *name;
                let len = u16::from_be_bytes([l0, l1]);
                if len == 0 {
                    return None;
                }
                Coding::ZstdWith(DictionaryName {
                    back: u32::from_be_bytes([0, b0, b1, b2]),
                    len,
                })
            }
            _ => return None,
        };
        let plain_len = u16::from_be_bytes([l0, l1]);
        if plain_len == 0 || rest.is_empty() {
            return None;
        }
        let header = Self {
            coding,
            psh: first & PSH != 0,
            plain_len,
            check: u32::from_be_bytes([c0, c1, c2, c3]),
        };
        Some((header, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_documented_bytes() {
        let seq = SeqNum::new(5);
        let name = DictionaryName::new(SeqNum::new(u32::MAX - 0x0001_0203 + 6), 0x1234, seq);
        let header = PayloadHeader {
            coding: Coding::ZstdWith(name.expect("a name")),
            psh: true,
            plain_len: 0x05a8,
            check: 0xdead_beef,
        };
        let mut bytes = [0; 14];
        header.emit(&mut bytes);
        let documented = [
            0x5b, 0x05, 0xa8, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 0x12, 0x34, 0, 0,
        ];
        assert_eq!(bytes, documented);
        let (parsed, rest) = PayloadHeader::parse(&bytes).expect("a header");
        assert_eq!((parsed, rest.len()), (header, 2));
        for coding in [Coding::Deflate, Coding::Zstd] {
            let header = PayloadHeader {
                coding,
                psh: false,
                ..header
            };
            header.emit(&mut bytes);
            let (parsed, rest) = PayloadHeader::parse(&bytes).expect("a header");
            assert_eq!((parsed, rest.len()), (header, 7));
        }
    }

    #[test]
    fn an_invalid_header_is_refused() {
        let whole = [0x5b, 0, 9, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0xff];
        assert!(PayloadHeader::parse(&whole).is_some());
        for len in 0..whole.len() {
            assert_eq!(PayloadHeader::parse(&whole[..len]), None, "{len}");
        }
        // Version, method, no plain bytes, an empty dictionary.
        for (at, byte) in [(0, 0x6b), (0, 0x5c), (0, 0x58), (2, 0), (11, 0)] {
            let mut other = whole;
            other[at] = byte;
            assert_eq!(PayloadHeader::parse(&other), None, "{at}");
        }
    }

    #[test]
    fn a_dictionary_that_is_too_far_away_has_no_name() {
        let seq = SeqNum::new(0x0200_0000);
        assert!(DictionaryName::new(SeqNum::new(0x0100_0001), 1, seq).is_some());
        assert!(DictionaryName::new(SeqNum::new(0x0100_0000), 1, seq).is_none());
        assert!(DictionaryName::new(seq + 1, 1, seq).is_none());
        assert!(DictionaryName::new(seq, 65_536, seq).is_none());
        assert!(DictionaryName::new(seq, 0, seq).is_none());
    }
}
