// SPDX-License-Identifier: Apache-2.0
//! The MH's side: restores compressed segments.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::codec::Decoder;
use super::format::{Coding, PayloadHeader};
use super::history::History;
use super::{CONTROL_BITS, DICTIONARY_BYTES_MAX, HISTORY_BYTES, is_marked};
use crate::{Direction, FlowKey};

/// After this time without a segment a flow may be replaced by another one.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The limits of the MH's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecompressorLimits {
    /// Flows whose bytes are stored for dictionaries, at most. A further flow replaces one that has
    /// ended or was idle for a minute. If there is none, its zstd segments are dropped, and the
    /// gateway then sends it plain.
    pub flows_max: usize,
    /// Bytes stored for each flow; at least [`HISTORY_BYTES`].
    pub history_bytes: usize,
    /// The longest payload that may be restored, bytes.
    pub plain_len_max: usize,
}

impl Default for DecompressorLimits {
    /// 64 flows of 256 KiB, and the longest payload of an IP packet.
    fn default() -> Self {
        Self {
            flows_max: 64,
            history_bytes: HISTORY_BYTES as usize,
            plain_len_max: 65_475,
        }
    }
}

/// Why a marked segment could not be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRestored {
    /// Not a header of this format, or the plain payload is longer than allowed.
    BadHeader,
    /// The dictionary is unknown, incomplete or too long.
    UnknownDictionary,
    /// The bytes are not what was sent.
    BadBytes,
    /// The flow must be followed, and the table is full.
    NoRoom,
}

/// The result of [`Decompressor::handle`].
#[derive(Debug, PartialEq, Eq)]
pub enum Restored<'a> {
    /// The segment is not marked: forward it unchanged.
    NotCompressed,
    /// Forward the segment with these control bits and this payload.
    Segment {
        /// The control bits of the plain segment.
        flags: Flags,
        /// Its payload.
        payload: &'a [u8],
        /// Plain segments of the flow have to come here as well from now on.
        follow: bool,
    },
    /// It is dropped.
    Dropped(NotRestored),
}

crate::counters! {
    /// The counters of the MH's side.
    pub struct DecompressionCounters {
        /// Segments restored.
        pub restored = "restored",
        /// Payload of the restored segments as it arrived.
        pub wire_bytes = "wire_bytes",
        /// Payload of the restored segments after that.
        pub plain_bytes = "plain_bytes",
        /// Segments dropped: their compression header cannot be right.
        pub bad_header = "dropped.bad_header",
        /// Segments dropped: their dictionary is unknown, incomplete or too long.
        pub unknown_dictionary = "dropped.unknown_dictionary",
        /// Segments dropped: the bytes are not what was sent.
        pub bad_bytes = "dropped.bad_bytes",
        /// Segments dropped: their flow must be followed, and the table is full.
        pub no_room = "dropped.no_room",
    }
}

impl DecompressionCounters {
    fn drop(&mut self, reason: NotRestored) -> Restored<'static> {
        *match reason {
            NotRestored::BadHeader => &mut self.bad_header,
            NotRestored::UnknownDictionary => &mut self.unknown_dictionary,
            NotRestored::BadBytes => &mut self.bad_bytes,
            NotRestored::NoRoom => &mut self.no_room,
        } += 1;
        Restored::Dropped(reason)
    }
}

/// A flow whose bytes are stored.
#[derive(Debug)]
struct Followed {
    key: FlowKey,
    history: History,
    seen: Instant,
    /// A FIN or a RST was seen.
    has_ended: bool,
}

/// Restores the compressed segments of all flows of an MH.
///
/// Flows with dictionaries are *followed*: their plain segments must be given to this object too,
/// so that it has all bytes that the MH acknowledges. The gateway's dictionaries contain only
/// bytes that it sent after the ACK of a segment that makes this object follow the flow.
///
/// Sequence numbers are not checked here. A forged segment with the right addresses and ports may
/// spoil the flow's dictionary or take another flow's slot. Then compressed segments are dropped
/// until the gateway sends plain. The caller gives only segments that fit the connection
/// (`bpf/mobile.bpf.c` takes no others).
pub struct Decompressor {
    limits: DecompressorLimits,
    decoder: Decoder,
    dictionary: Vec<u8>,
    flows: Vec<Followed>,
    forgotten: Vec<FlowKey>,
    counters: DecompressionCounters,
}

impl Decompressor {
    /// Without flows.
    pub fn new(limits: DecompressorLimits) -> Self {
        Self {
            limits,
            decoder: Decoder::new(),
            dictionary: Vec::with_capacity(DICTIONARY_BYTES_MAX as usize),
            flows: Vec::new(),
            forgotten: Vec::new(),
            counters: DecompressionCounters::default(),
        }
    }

    /// Handles a downlink segment with a correct TCP checksum.
    pub fn handle(&mut self, segment: &Segment, payload: &[u8], now: Instant) -> Restored<'_> {
        let key = FlowKey::of(segment, Direction::Downlink);
        if !is_marked(segment.flags) {
            self.handle_plain(&key, segment, payload, now);
            return Restored::NotCompressed;
        }
        let Some((header, compressed)) = PayloadHeader::parse(payload) else {
            return self.counters.drop(NotRestored::BadHeader);
        };
        if usize::from(header.plain_len) > self.limits.plain_len_max {
            return self.counters.drop(NotRestored::BadHeader);
        }
        self.dictionary.clear();
        if let Coding::ZstdWith(name) = header.coding {
            let known = name.len() <= DICTIONARY_BYTES_MAX
                && self.flows.iter().any(|flow| {
                    let end = name.end(segment.seq);
                    flow.key == key && flow.history.copy(end, name.len(), &mut self.dictionary)
                });
            if !known {
                return self.counters.drop(NotRestored::UnknownDictionary);
            }
        }
        let plain = self.decoder.decode(&header, compressed, &self.dictionary);
        let Some(plain) = plain else {
            return self.counters.drop(NotRestored::BadBytes);
        };
        let follow = header.coding != Coding::Deflate;
        if follow {
            let slot = followed(&mut self.flows, &mut self.forgotten, &self.limits, key, now);
            let Some(flow) = slot else {
                return self.counters.drop(NotRestored::NoRoom);
            };
            flow.keep(segment.seq, plain, &self.limits);
        }
        self.counters.restored += 1;
        self.counters.wire_bytes += payload.len() as u64;
        self.counters.plain_bytes += plain.len() as u64;
        Restored::Segment {
            flags: unmarked(segment.flags, header.psh),
            payload: plain,
            follow,
        }
    }

    fn handle_plain(&mut self, key: &FlowKey, segment: &Segment, payload: &[u8], now: Instant) {
        let index = self.flows.iter().position(|flow| flow.key == *key);
        let Some(index) = index else { return };
        let flow = &mut self.flows[index];
        flow.seen = now;
        if segment.flags.has(Flags::SYN) {
            // A new connection with the same addresses and ports.
            self.flows.swap_remove(index);
            self.forgotten.push(*key);
            return;
        }
        flow.has_ended |= segment.flags.has(Flags::FIN) || segment.flags.has(Flags::RST);
        flow.history.insert(segment.seq, payload);
    }

    /// Flows that were forgotten since the last call.
    pub fn take_forgotten(&mut self) -> impl Iterator<Item = FlowKey> + '_ {
        self.forgotten.drain(..)
    }

    /// The MH has closed the flow, or another connection uses its ports now.
    pub fn forget(&mut self, key: &FlowKey) {
        self.flows.retain(|flow| flow.key != *key);
    }

    /// Flows followed.
    pub fn followed(&self) -> usize {
        self.flows.len()
    }

    /// The counters since the start.
    pub const fn counters(&self) -> &DecompressionCounters {
        &self.counters
    }
}

impl Followed {
    fn keep(&mut self, seq: SeqNum, plain: &[u8], limits: &DecompressorLimits) {
        if !self.history.insert(seq, plain) {
            // Too much has passed unseen: the stored bytes are too old.
            self.history = History::new(history_bytes(limits));
            self.history.insert(seq, plain);
        }
    }
}

fn history_bytes(limits: &DecompressorLimits) -> usize {
    limits.history_bytes.max(HISTORY_BYTES as usize)
}

/// Returns the flow and follows it from now on. If the table is full, it may replace another.
fn followed<'a>(
    flows: &'a mut Vec<Followed>,
    forgotten: &mut Vec<FlowKey>,
    limits: &DecompressorLimits,
    key: FlowKey,
    now: Instant,
) -> Option<&'a mut Followed> {
    if let Some(index) = flows.iter().position(|flow| flow.key == key) {
        let flow = &mut flows[index];
        flow.seen = now;
        return Some(flow);
    }
    if flows.len() >= limits.flows_max {
        let all = flows.iter().enumerate();
        let (index, oldest) = all.min_by_key(|(_, flow)| (!flow.has_ended, flow.seen))?;
        // A flow in use is not replaced: two such flows would replace each other by turns.
        if !oldest.has_ended && now.saturating_since(oldest.seen) < IDLE_MAX {
            return None;
        }
        forgotten.push(flows.swap_remove(index).key);
    }
    flows.push(Followed {
        key,
        history: History::new(history_bytes(limits)),
        seen: now,
        has_ended: false,
    });
    flows.last_mut()
}

/// The control bits of the plain segment; ECN's bits stay as they came.
const fn unmarked(flags: Flags, psh: bool) -> Flags {
    let ecn = Flags(flags.0 & !CONTROL_BITS);
    let flags = ecn.with(Flags::ACK);
    if psh { flags.with(Flags::PSH) } else { flags }
}
