// SPDX-License-Identifier: Apache-2.0
//! The bytes of a stream, for a gateway that compresses them.
//!
//! A stream of text or of a program repeats a block of 1 MiB. Each block is made once, from a fixed
//! seed; its content is invented. Deflate of level 3 on pieces of 1,400 bytes leaves about half of
//! the text and three quarters of the program.

use std::sync::OnceLock;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// The block repeats after this many bytes: farther than any dictionary reaches.
const BLOCK_BYTES: usize = 1 << 20;
/// The longest payload. The block is extended at its end by this many bytes.
const PAYLOAD_BYTES_MAX: usize = 1 << 16;
/// Size of the text's vocabulary.
const VOCABULARY: usize = 3_000;

/// A kind of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContentKind {
    /// A length alone: nothing that could be compressed.
    #[default]
    Bulk,
    /// Prose: one language, the frequent terms short.
    Text,
    /// Something like an executable: code of few instructions, tables, names.
    Binary,
}

impl ContentKind {
    /// `len` bytes from `offset` of a stream on; `None` for [`Self::Bulk`], or if there are too
    /// many.
    pub fn bytes(self, offset: u64, len: usize) -> Option<&'static [u8]> {
        static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
        static BINARY: OnceLock<Vec<u8>> = OnceLock::new();
        let block = match self {
            Self::Bulk => return None,
            Self::Text => TEXT.get_or_init(|| block_of(text)),
            Self::Binary => BINARY.get_or_init(|| block_of(binary)),
        };
        let from = (offset % BLOCK_BYTES as u64) as usize;
        block.get(from..from + len)
    }
}

/// A block, followed by its beginning.
fn block_of(add: fn(&mut ChaCha8Rng, &mut Vec<u8>)) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(0x7e87);
    let mut block = Vec::with_capacity(BLOCK_BYTES + PAYLOAD_BYTES_MAX);
    add(&mut rng, &mut block);
    block.truncate(BLOCK_BYTES);
    block.extend_from_within(..PAYLOAD_BYTES_MAX);
    block
}

/// A number below `limit`; its frequency is about 1 / rank (Zipf).
fn zipf(rng: &mut ChaCha8Rng, limit: usize) -> usize {
    // The exponent of a log-uniform number, and a rank within it.
    let exponent = rng.next_u32() % limit.ilog2().max(1);
    let within = rng.next_u32() as usize % (1 << exponent);
    ((1 << exponent) + within - 1).min(limit - 1)
}

fn text(rng: &mut ChaCha8Rng, out: &mut Vec<u8>) {
    // Letters about as often as in English.
    const LETTERS: &[u8] = b"eeeeeetttttaaaaooooiiiinnnnsssshhhrrrdddlluucmwfgypbvk";
    let vocabulary: Vec<Vec<u8>> = (0..VOCABULARY)
        .map(|rank| {
            let len = 2 + rank.max(1).ilog2() / 2 + rng.next_u32() % 5;
            let letter = |_| LETTERS[rng.next_u32() as usize % LETTERS.len()];
            (0..len).map(letter).collect()
        })
        .collect();
    let mut column = 0;
    while out.len() < BLOCK_BYTES {
        let word = &vocabulary[zipf(rng, VOCABULARY)];
        out.extend_from_slice(word);
        column += word.len() + 1;
        out.extend_from_slice(match rng.next_u32() % 14 {
            0 => b", ",
            1 => b". ",
            _ if column > 70 => b"\n",
            _ => b" ",
        });
        if column > 70 {
            column = 0;
        }
    }
}

fn binary(rng: &mut ChaCha8Rng, out: &mut Vec<u8>) {
    // Instructions: an operation and registers that are frequent, an operand that is not.
    let mut operations = [[0_u8; 3]; 64];
    for operation in &mut operations {
        rng.fill_bytes(operation);
    }
    while out.len() < BLOCK_BYTES {
        match rng.next_u32() % 16 {
            // A table of numbers that grow.
            0 => {
                let (mut value, step) = (rng.next_u32(), rng.next_u32() % 200);
                for _ in 0..rng.next_u32() % 12 {
                    value = value.wrapping_add(rng.next_u32() % (step + 1));
                    out.extend_from_slice(&value.to_le_bytes());
                }
            }
            // Padding.
            1 => out.extend(core::iter::repeat_n(0, rng.next_u32() as usize % 16)),
            // Random data.
            2 => out.extend((0..rng.next_u32() % 24).map(|_| rng.next_u32() as u8)),
            _ => {
                let operation = operations[zipf(rng, operations.len())];
                out.extend_from_slice(&operation[..=rng.next_u32() as usize % 3]);
                match rng.next_u32() % 4 {
                    0 => out.extend_from_slice(&(rng.next_u32() as u16).to_le_bytes()),
                    1 | 2 => out.push(zipf(rng, 256) as u8),
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::compression::{CompressionSettings, Method, PlainCodec};

    use super::*;

    fn left_of(kind: ContentKind, size: usize) -> f64 {
        let settings = CompressionSettings {
            method: Method::Deflate,
            level: 3,
        };
        let mut codec = PlainCodec::new(settings);
        let packets = 200;
        let wire: usize = (0..packets)
            .map(|packet| {
                let plain = kind.bytes((packet * size) as u64, size).expect("bytes");
                codec.compress(plain, &[]).map_or(size, <[u8]>::len)
            })
            .sum();
        wire as f64 / (packets * size) as f64
    }

    #[test]
    fn text_shrinks_to_about_a_half_and_a_program_less() {
        let (text, binary) = (
            left_of(ContentKind::Text, 1400),
            left_of(ContentKind::Binary, 1400),
        );
        assert!((0.42..0.58).contains(&text), "{text}");
        assert!((0.68..0.84).contains(&binary), "{binary}");
        // Small packets compress less.
        assert!(left_of(ContentKind::Text, 512) > text);
    }

    #[test]
    fn a_stream_goes_on_where_the_block_begins_again() {
        let block = BLOCK_BYTES as u64;
        for kind in [ContentKind::Text, ContentKind::Binary] {
            let whole = kind.bytes(block - 100, 300).expect("bytes");
            assert_eq!(Some(&whole[..100]), kind.bytes(block - 100, 100));
            assert_eq!(Some(&whole[100..]), kind.bytes(0, 200));
            assert_eq!(kind.bytes(7, 1000), kind.bytes(7 + 3 * block, 1000));
        }
        assert_eq!(ContentKind::Bulk.bytes(0, 1), None);
    }
}
