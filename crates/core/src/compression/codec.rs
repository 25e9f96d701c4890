// SPDX-License-Identifier: Apache-2.0
//! The two methods, one packet at a time. Contexts and buffers are allocated once.
//!
//! Deflate as published: raw, level 3, each packet alone. Zstd gets the dictionary with each
//! packet; at 32 KiB that costs about as much as the packet itself. So the library holds no state
//! of a flow.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use holdfast_settings::mtcp::{CompressionSettings, Method};
use holdfast_wire::SeqNum;
use zstd_safe::{CCtx, DCtx};

use super::format::{Coding, DictionaryName, OVERHEAD_BYTES_MAX, PayloadHeader};

/// The first bytes of a zstd frame (RFC 8878, 3.1.1); they are not sent.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Zstd takes a dictionary with these first bytes for a trained one (RFC 8878, 5).
const ZSTD_DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];
/// The payload must become shorter by at least this part of it.
const GAIN_MIN_PART: usize = 32;
/// The longest plain payload.
const PLAIN_BYTES_MAX: usize = u16::MAX as usize;

/// A dictionary and where it ends in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct DictionaryRef<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) end: SeqNum,
}

/// The payload of a segment to be compressed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) seq: SeqNum,
    pub(super) psh: bool,
}

/// Compresses packets; one for all flows.
pub(super) struct Encoder {
    settings: CompressionSettings,
    deflate: Option<Compress>,
    zstd: Option<CCtx<'static>>,
    out: Vec<u8>,
}

impl Encoder {
    pub(super) const fn new(settings: CompressionSettings) -> Self {
        Self {
            settings,
            deflate: None,
            zstd: None,
            out: Vec::new(),
        }
    }

    /// Compresses a payload and returns the length of the result. `None` if it would not be shorter
    /// by 1/32 at least.
    pub(super) fn encode(
        &mut self,
        plain: Plain<'_>,
        dictionary: Option<DictionaryRef<'_>>,
    ) -> Option<usize> {
        let len = plain.bytes.len();
        let plain_len = u16::try_from(len).ok()?;
        let limit = len - len / GAIN_MIN_PART;
        if self.out.is_empty() {
            self.out = vec![0; PLAIN_BYTES_MAX];
        }
        let (coding, dictionary) = self.coding(plain.seq, dictionary);
        let header_len = PayloadHeader::len(coding);
        let written = match coding {
            Coding::Deflate => self.deflate(plain.bytes, header_len, limit),
            Coding::Zstd | Coding::ZstdWith(_) => {
                self.zstd(plain.bytes, dictionary, header_len, limit)
            }
        }?;
        let header = PayloadHeader {
            coding,
            psh: plain.psh,
            plain_len,
            check: crc_32(plain.bytes),
        };
        header.emit(&mut self.out[..header_len]);
        Some(written)
    }

    /// The result of the last call of [`encode`](Self::encode), `len` bytes.
    pub(super) fn payload(&self, len: usize) -> &[u8] {
        &self.out[..len]
    }

    /// Method and dictionary for a packet.
    fn coding<'a>(&self, seq: SeqNum, dictionary: Option<DictionaryRef<'a>>) -> (Coding, &'a [u8]) {
        if self.settings.method == Method::Deflate {
            return (Coding::Deflate, &[]);
        }
        let named = dictionary.and_then(|dictionary| {
            let skipped = usize::from(dictionary.bytes.starts_with(&ZSTD_DICTIONARY_MAGIC));
            let bytes = &dictionary.bytes[skipped..];
            let name = DictionaryName::new(dictionary.end, bytes.len(), seq)?;
            Some((Coding::ZstdWith(name), bytes))
        });
        named.unwrap_or((Coding::Zstd, &[]))
    }

    /// Writes the compressed bytes into `out` from `from` on. Returns where they end.
    fn deflate(&mut self, plain: &[u8], from: usize, limit: usize) -> Option<usize> {
        let level = Compression::new(self.settings.level.into());
        let context = self
            .deflate
            .get_or_insert_with(|| Compress::new(level, false));
        context.reset();
        let out = self.out.get_mut(from..limit)?;
        let status = context.compress(plain, out, FlushCompress::Finish).ok()?;
        (status == Status::StreamEnd).then(|| from + context.total_out() as usize)
    }

    fn zstd(
        &mut self,
        plain: &[u8],
        dictionary: &[u8],
        from: usize,
        limit: usize,
    ) -> Option<usize> {
        if self.zstd.is_none() {
            self.zstd = CCtx::try_create();
        }
        let context = self.zstd.as_mut()?;
        // The header overwrites the magic number.
        let begin = from - ZSTD_MAGIC.len();
        let out = self.out.get_mut(begin..limit)?;
        let level = self.settings.level.into();
        let written = context
            .compress_using_dict(out, plain, dictionary, level)
            .ok()?;
        out.starts_with(&ZSTD_MAGIC).then(|| begin + written)
    }
}

/// Decompresses packets; one for all flows.
pub(super) struct Decoder {
    deflate: Option<Decompress>,
    zstd: Option<DCtx<'static>>,
    /// A zstd frame with its magic number.
    frame: Vec<u8>,
    plain: Vec<u8>,
}

impl Decoder {
    pub(super) const fn new() -> Self {
        Self {
            deflate: None,
            zstd: None,
            frame: Vec::new(),
            plain: Vec::new(),
        }
    }

    /// Restores the plain payload. `None` if it is not the payload that was sent. Writes at most the
    /// length in the header, whatever the compressed bytes would expand to.
    pub(super) fn decode(
        &mut self,
        header: &PayloadHeader,
        compressed: &[u8],
        dictionary: &[u8],
    ) -> Option<&[u8]> {
        let plain_len = usize::from(header.plain_len);
        if self.plain.is_empty() {
            self.plain = vec![0; PLAIN_BYTES_MAX];
        }
        let written = match header.coding {
            Coding::Deflate => self.inflate(compressed, plain_len),
            Coding::Zstd | Coding::ZstdWith(_) => self.unzstd(compressed, dictionary, plain_len),
        }?;
        let plain = &self.plain[..plain_len];
        (written == plain_len && crc_32(plain) == header.check).then_some(plain)
    }

    fn inflate(&mut self, compressed: &[u8], plain_len: usize) -> Option<usize> {
        let context = self.deflate.get_or_insert_with(|| Decompress::new(false));
        context.reset(false);
        let out = &mut self.plain[..plain_len];
        let status = context
            .decompress(compressed, out, FlushDecompress::Finish)
            .ok()?;
        let all = context.total_in() == compressed.len() as u64;
        (status == Status::StreamEnd && all).then(|| context.total_out() as usize)
    }

    fn unzstd(&mut self, compressed: &[u8], dictionary: &[u8], plain_len: usize) -> Option<usize> {
        if self.zstd.is_none() {
            self.zstd = DCtx::try_create();
            self.frame.reserve(PLAIN_BYTES_MAX);
        }
        let context = self.zstd.as_mut()?;
        self.frame.clear();
        self.frame.extend_from_slice(&ZSTD_MAGIC);
        self.frame.extend_from_slice(compressed);
        context
            .decompress_using_dict(&mut self.plain[..plain_len], &self.frame, dictionary)
            .ok()
    }
}

/// CRC-32 as gzip has it (RFC 1952, 8).
fn crc_32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Both methods without a flow, to measure their cost and gain.
pub struct PlainCodec {
    encoder: Encoder,
    decoder: Decoder,
}

impl PlainCodec {
    /// With these settings.
    pub const fn new(settings: CompressionSettings) -> Self {
        Self {
            encoder: Encoder::new(settings),
            decoder: Decoder::new(),
        }
    }

    /// The payload on the wire for `plain`; `None` if it does not shrink by 1/32.
    /// `dictionary` is the bytes of the stream before `plain`, at most
    /// [`DICTIONARY_BYTES_MAX`](super::DICTIONARY_BYTES_MAX).
    pub fn compress(&mut self, plain: &[u8], dictionary: &[u8]) -> Option<&[u8]> {
        let seq = SeqNum::default();
        let plain = Plain {
            bytes: plain,
            seq,
            psh: false,
        };
        let dictionary = DictionaryRef {
            bytes: dictionary,
            end: seq,
        };
        let named = Some(dictionary).filter(|dictionary| !dictionary.bytes.is_empty());
        let len = self.encoder.encode(plain, named)?;
        Some(self.encoder.payload(len))
    }

    /// The plain payload for a result of [`compress`](Self::compress).
    pub fn decompress(&mut self, payload: &[u8], dictionary: &[u8]) -> Option<&[u8]> {
        let (header, compressed) = PayloadHeader::parse(payload)?;
        let dictionary = match header.coding {
            Coding::ZstdWith(name) => {
                let skipped = dictionary.len().checked_sub(name.len() as usize)?;
                &dictionary[skipped..]
            }
            _ => &[],
        };
        self.decoder.decode(&header, compressed, dictionary)
    }
}

// The overhead is what a measurement adds to the compressed bytes.
const _: () = assert!(OVERHEAD_BYTES_MAX == 12);
