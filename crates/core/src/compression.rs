// SPDX-License-Identifier: Apache-2.0
//! Compressed M-TCP (K. Brown and S. Singh, 1997, sections 4.2.1 and 6.3): the payload of a
//! downlink segment is compressed at the SH and decompressed at the MH.
//!
//! On the wire a compressed segment keeps its IP and TCP headers; its payload is a small
//! header and the compressed bytes. It is marked by its control bits: **ACK off** and PSH on.
//! A receiver that does not know of compression drops a segment without ACK unseen (RFC 9293,
//! 3.10.7.4, fifth; Linux does it before it looks at anything else), so that compressed bytes
//! can never pass for data. No stack sends such segments.
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
//! number that the MH has acknowledged: both ends have them, whatever was lost on the way. The
//! distance, not the number, stands in the header, so that a node that translates sequence
//! numbers changes nothing.
//!
//! - `sender` decides at the SH what is compressed, and when it is not;
//! - [`Decompressor`] is the MH's side;
//! - `format` is the header, `codec` the two methods, `dictionary` and
//!   `history` the acknowledged bytes at either end, `worth` finds out payload that does
//!   not shrink.

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

/// The control bits of a compressed segment; ECE and CWR may be set besides.
pub const COMPRESSED_FLAGS: Flags = Flags::PSH;

/// All control bits but ECN's.
const CONTROL_BITS: u8 = 0x3f;

/// Bytes of the stream that the MH keeps of a followed flow, behind the newest it has seen: no
/// dictionary begins before that.
pub const HISTORY_BYTES: u32 = 256 << 10;

/// Bytes of a dictionary at most.
pub const DICTIONARY_BYTES_MAX: u32 = 32 << 10;

/// A segment with these control bits is a compressed one.
pub const fn is_marked(flags: Flags) -> bool {
    flags.0 & CONTROL_BITS == COMPRESSED_FLAGS.0
}

/// The control bits with which a segment of `flags` goes out compressed.
pub const fn marked(flags: Flags) -> Flags {
    Flags(flags.0 & !CONTROL_BITS | COMPRESSED_FLAGS.0)
}

/// The headers of a compressed segment made those of the restored one: control bits, lengths,
/// both checksums. `None` if no IP packet can be so long.
pub fn restored_header(mut header: Header, flags: Flags, payload: &[u8]) -> Option<Header> {
    header.set_flags(flags);
    if !header.set_payload_len(payload.len()) {
        return None;
    }
    header.set_checksum(payload);
    Some(header)
}
