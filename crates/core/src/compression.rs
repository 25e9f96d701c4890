// SPDX-License-Identifier: Apache-2.0
//! Compressed M-TCP (K. Brown and S. Singh, 1997, sections 4.2.1 and 6.3): the payload of a
//! downlink segment is compressed at the SH and decompressed at the MH.
//!
//! On the wire a compressed segment keeps its IP and TCP headers; its payload is a small
//! header and the compressed bytes. It is marked by its control bits: **ACK off** and PSH on.
//! A receiver that does not know of compression drops a segment without ACK (RFC 9293,
//! 3.10.7.4, fifth; Linux does it before any other check). So it never takes compressed bytes
//! for data. No stack sends such segments.
//!
//! ```text
//!  0   4 bits: 5; 1 bit: the segment's PSH; 3 bits: 1 deflate, 2 zstd, 3 zstd with dictionary
//!  1   bytes of the plain payload                            2 bytes
//!  3   CRC-32 of the plain payload                           4 bytes
//!  7   with dictionary: from its end to SEG.SEQ, bytes       3 bytes
//! 10   with dictionary: its length, bytes                    2 bytes
//! 7 or 12   raw deflate (RFC 1951), or a zstd frame (RFC 8878) without its magic number
//! ```
//!
//! All numbers are big-endian. The dictionary is the stream's own bytes before a sequence
//! number that the MH has acknowledged. Both ends have these bytes, also after losses. The
//! header has the distance, not the number, so a node may translate sequence numbers.
//!
//! - `sender` decides at the SH which segments are compressed;
//! - [`Decompressor`] is the MH's side;
//! - `format` is the header, `codec` the two methods, `dictionary` and `history` the
//!   acknowledged bytes at the SH and at the MH; `worth` detects payload that does not shrink.

use holdfast_wire::{Flags, Header};

mod codec;
mod decompressor;
mod dictionary;
mod format;
mod history;
mod sender;
mod worth;

#[cfg(test)]
mod tests;

pub use codec::PlainCodec;
pub use decompressor::{
    DecompressionCounters, Decompressor, DecompressorLimits, NotRestored, Restored,
};
pub use format::OVERHEAD_BYTES_MAX;
pub use holdfast_settings::mtcp::{CompressionSettings, Method};
pub(crate) use sender::{Compressor, Emission, SentCompression};

/// The control bits of a compressed segment. ECE and CWR may be set in addition.
pub const COMPRESSED_FLAGS: Flags = Flags::PSH;

/// All control bits except ECN's.
const CONTROL_BITS: u8 = 0x3f;

/// Bytes of a flow that the MH stores for dictionaries, counted back from the newest byte that
/// it has seen. No dictionary begins before them.
pub const HISTORY_BYTES: u32 = 256 << 10;

/// The most bytes of a dictionary.
pub const DICTIONARY_BYTES_MAX: u32 = 32 << 10;

/// True for the control bits of a compressed segment.
pub const fn is_marked(flags: Flags) -> bool {
    flags.0 & CONTROL_BITS == COMPRESSED_FLAGS.0
}

/// The control bits with which a segment of `flags` is sent compressed.
pub const fn marked(flags: Flags) -> Flags {
    Flags(flags.0 & !CONTROL_BITS | COMPRESSED_FLAGS.0)
}

/// Makes the headers of the restored segment from those of the compressed one: control bits,
/// lengths, both checksums. `None` if the payload is too long for an IP packet.
pub fn restored_header(mut header: Header, flags: Flags, payload: &[u8]) -> Option<Header> {
    header.set_flags(flags);
    if !header.set_payload_len(payload.len()) {
        return None;
    }
    header.set_checksum(payload);
    Some(header)
}
