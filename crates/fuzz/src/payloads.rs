// SPDX-License-Identifier: Apache-2.0
//! Compressed payload that comes to a mobile. It is made with a dictionary or without, and may be
//! damaged then; or it is any bytes.

use holdfast_core::FlowKey;
use holdfast_core::compression::{
    CompressionSettings, Decompressor, DecompressorLimits, Method, PlainCodec, Restored, marked,
};
use holdfast_wire::{Duration, Endpoint, Flags, Instant, Options, Segment, SeqNum};

use crate::dice::Dice;
use crate::stations::end;
use crate::{Subject, Tally};

const FLOWS_MAX: usize = 2;
/// The MH's ports: more than the flows that are followed.
const PORTS: u64 = 4;
/// The longest payload of an IP packet with a TCP header.
const PAYLOAD_BYTES_MAX: usize = 65_475;

/// The mobile's half of the compression.
pub struct Payloads {
    now: Instant,
    decompressor: Decompressor,
    codecs: [PlainCodec; 2],
    /// The payload that was restored last, and the number behind it: the next one's dictionary.
    before: (SeqNum, Vec<u8>),
    tally: Tally,
}

/// A payload on its way.
struct Compressed {
    bytes: Vec<u8>,
    /// The payload to which it must be restored, if it is not damaged.
    plain: Option<Vec<u8>>,
}

impl Default for Payloads {
    fn default() -> Self {
        let limits = DecompressorLimits {
            flows_max: FLOWS_MAX,
            ..DecompressorLimits::default()
        };
        let codec = |method| PlainCodec::new(CompressionSettings { method, level: 1 });
        Self {
            now: Instant::from_millis(1000),
            decompressor: Decompressor::new(limits),
            codecs: [codec(Method::Deflate), codec(Method::Zstd)],
            before: (SeqNum::default(), Vec::new()),
            tally: Tally::default(),
        }
    }
}

impl Subject for Payloads {
    fn step(&mut self, dice: &mut Dice) {
        self.tally.inputs += 1;
        self.now += Duration::from_micros(dice.below(100_000));
        let payload = self.payload(dice);
        self.tally.last.clone_from(&payload.bytes);
        let flags = Flags(dice.below(256) as u8);
        let segment = Segment {
            from: fh(),
            to: mh(dice.below(PORTS)),
            seq: if dice.once_in(3) {
                SeqNum::new(dice.below(1 << 16) as u32)
            } else {
                self.before.0
            },
            ack: SeqNum::new(1),
            flags: if dice.once_in(4) {
                flags
            } else {
                marked(flags)
            },
            window: 1000,
            options: Options::default(),
            payload_len: payload.bytes.len() as u32,
        };
        let restored = self.decompressor.handle(&segment, &payload.bytes, self.now);
        if let Restored::Segment { payload: found, .. } = restored {
            self.tally.parsed += 1;
            assert!(found.len() <= PAYLOAD_BYTES_MAX, "longer than an IP packet");
            if let Some(plain) = payload.plain {
                assert!(found == plain, "restored to other bytes");
                self.tally.restored += 1;
            }
            let end = segment.seq + found.len() as u32;
            self.before = (end, found.to_vec());
        }
        let _ = self.decompressor.take_forgotten().count();
        assert!(self.decompressor.followed() <= FLOWS_MAX, "too many flows");
        if dice.once_in(1000) {
            self.forget_all();
        }
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

fn fh() -> Endpoint {
    end([10, 1, 0, 2], 80)
}

fn mh(port: u64) -> Endpoint {
    end([10, 2, 0, 2], 4000 + port as u16)
}

impl Payloads {
    /// Makes it as new.
    pub(crate) fn forget_all(&mut self) {
        for mh in (0..PORTS).map(mh) {
            self.decompressor.forget(&FlowKey { fh: fh(), mh });
        }
        self.before = (SeqNum::default(), Vec::new());
    }

    fn payload(&mut self, dice: &mut Dice) -> Compressed {
        let kind = dice.below(4);
        let len = dice.below(1400) + 1;
        if kind == 0 {
            let mut bytes = vec![0x50 | dice.below(16) as u8];
            bytes.extend(dice.bytes(len));
            return Compressed { bytes, plain: None };
        }
        let plain = text(len as usize, dice);
        let dictionary: &[u8] = if kind == 3 { &self.before.1 } else { &[] };
        let codec = &mut self.codecs[usize::from(kind > 1)];
        let mut bytes = codec
            .compress(&plain, dictionary)
            .unwrap_or(&plain)
            .to_vec();
        let is_damaged = dice.once_in(2);
        if is_damaged {
            dice.damage(&mut bytes);
        }
        // Without a gain the payload is not compressed.
        let plain = (!is_damaged && bytes != plain).then_some(plain);
        Compressed { bytes, plain }
    }
}

/// Bytes that can be compressed: a few, again and again.
fn text(len: usize, dice: &mut Dice) -> Vec<u8> {
    let period = 1 + dice.below(16);
    let mut text = dice.bytes(period);
    text.push(0);
    let period = text.len();
    while text.len() < len {
        let byte = text[text.len() - period].wrapping_add(u8::from(text.len().is_multiple_of(29)));
        text.push(byte);
    }
    text.truncate(len);
    text
}
