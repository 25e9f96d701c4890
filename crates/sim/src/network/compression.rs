// SPDX-License-Identifier: Apache-2.0
//! Compression between a gateway and its mobiles: the daemon's own code at both ends, with the
//! bytes that the packets stand for.

use std::collections::VecDeque;

use holdfast_core::Resend;
use holdfast_core::compression::{Decompressor, DecompressorLimits, Restored, is_marked, marked};
use holdfast_core::signal::Abilities;
use holdfast_wire::{Duration, Instant};

use super::{ConnectionId, Event, Network};
use crate::content::ContentKind;
use crate::packet::{Body, NodeId, Packet};

/// Most compressed payloads that are stored: more than any queue holds packets.
const PAYLOADS_MAX: usize = 16_384;
/// The payload for which a gateway's compression time is given, bytes.
const TIMED_BYTES: u32 = 1_400;
/// The stream of bytes that no host has sent.
const NO_STREAM: u32 = u32::MAX;

/// The payloads of compressed packets in flight, each with its number.
#[derive(Debug, Default)]
pub(super) struct Payloads {
    first: u32,
    kept: VecDeque<Vec<u8>>,
}

impl Payloads {
    fn add(&mut self, payload: &[u8]) -> u32 {
        let mut room = Vec::new();
        if self.kept.len() == PAYLOADS_MAX {
            room = self.kept.pop_front().unwrap_or_default();
            self.first += 1;
        }
        room.clear();
        room.extend_from_slice(payload);
        self.kept.push_back(room);
        self.first + self.kept.len() as u32 - 1
    }

    fn get(&self, number: u32) -> Option<&[u8]> {
        let index = number.checked_sub(self.first)? as usize;
        self.kept.get(index).map(Vec::as_slice)
    }
}

/// The state of a gateway's processor.
#[derive(Debug, Default)]
pub(super) struct Compressing {
    waiting: VecDeque<(Packet, u8)>,
    busy_until: Instant,
}

/// A host's decompressor, once a compressed packet has come.
#[derive(Default)]
pub(super) struct MobileDecompression(Option<Box<Decompressor>>);

impl core::fmt::Debug for MobileDecompression {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("MobileDecompression")
            .field(&self.0.is_some())
            .finish()
    }
}

impl Network {
    /// Sets the kind of payload that a connection's end sends.
    pub fn set_content(&mut self, id: ConnectionId, content: ContentKind) {
        self.slots[id.0 as usize].content = content;
    }

    /// Registers the mobiles with M-TCP at a gateway as able to decompress, at once and for the whole
    /// run.
    pub(super) fn notify_abilities(&mut self, id: u32) {
        let slots = self.slots.iter();
        let able = slots.filter(|slot| slot.connection.decompresses());
        let mut addresses: Vec<_> = able.map(|slot| slot.connection.address()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let abilities = Abilities::DEFLATE.with(Abilities::ZSTD);
        let until = Instant::from_nanos(u64::MAX);
        let engine = &mut self.engines[id as usize].engine;
        engine.handle_abilities(&addresses, abilities, 1, until);
    }

    /// Compresses a piece of the cache, and sends its packets.
    pub(super) fn send_compressed(
        &mut self,
        id: u32,
        resend: &Resend<Packet>,
        pieces: &[Packet],
        dscp: u8,
    ) {
        let mut sent = 0;
        for plain in pieces {
            let mut packet = *plain;
            let Body::Tcp(tcp) = &mut packet.body else {
                continue;
            };
            let (len, flags) = (tcp.segment.payload_len, tcp.segment.flags);
            let gateway = &mut self.engines[id as usize];
            let payload = gateway.engine.compress(resend, sent, len, flags, self.now);
            sent += len;
            let mut time = Duration::ZERO;
            if let Some(payload) = payload {
                tcp.segment.flags = marked(flags);
                tcp.segment.payload_len = payload.len() as u32;
                tcp.wire = Some(self.payloads.add(payload));
                time = gateway.role.compression_time * len / TIMED_BYTES;
            }
            self.forward_after(id, &packet, dscp, time);
        }
    }

    /// Sends a packet toward the MHs, behind packets that are being compressed.
    pub(super) fn forward_in_turn(&mut self, id: u32, packet: &Packet, dscp: u8) {
        self.forward_after(id, packet, dscp, Duration::ZERO);
    }

    fn forward_after(&mut self, id: u32, packet: &Packet, dscp: u8, time: Duration) {
        let now = self.now;
        let gateway = &mut self.engines[id as usize];
        let compressing = &mut gateway.compressing;
        if compressing.waiting.is_empty() && time == Duration::ZERO {
            return self.leave_engine(id, packet, dscp);
        }
        compressing.busy_until = compressing.busy_until.max(now) + time;
        let at = compressing.busy_until;
        compressing.waiting.push_back((*packet, dscp));
        self.queue.push(at, Event::Compressed(id));
    }

    /// A packet has been compressed, or has waited for such a packet: it leaves.
    pub(super) fn handle_compressed(&mut self, id: u32) {
        let gateway = &mut self.engines[id as usize];
        if let Some((packet, dscp)) = gateway.compressing.waiting.pop_front() {
            self.leave_engine(id, &packet, dscp);
        }
    }

    /// The packet for the stack of the host at `node`, decompressed if needed. None: that failed.
    pub(super) fn restore(&mut self, node: NodeId, packet: &Packet) -> Option<Packet> {
        let Body::Tcp(tcp) = &packet.body else {
            return Some(*packet);
        };
        let own = &mut self.nodes[node.0 as usize].decompression.0;
        if packet.corrupted || (own.is_none() && !is_marked(tcp.segment.flags)) {
            return Some(*packet);
        }
        let limits = DecompressorLimits::default();
        let decompressor = own.get_or_insert_with(|| Box::new(Decompressor::new(limits)));
        let len = tcp.segment.payload_len as usize;
        let bytes = match tcp.wire {
            Some(number) => self.payloads.get(number)?,
            None => tcp.content.bytes(tcp.origin.offset, len).unwrap_or(&[]),
        };
        match decompressor.handle(&tcp.segment, bytes, self.now) {
            Restored::NotCompressed => Some(*packet),
            Restored::Dropped(_) => None,
            Restored::Segment { flags, payload, .. } => {
                let mut restored = *packet;
                if let Body::Tcp(tcp) = &mut restored.body {
                    (tcp.segment.flags, tcp.wire) = (flags, None);
                    tcp.segment.payload_len = payload.len() as u32;
                    let sent = tcp.content.bytes(tcp.origin.offset, payload.len());
                    if sent != Some(payload) {
                        tcp.origin.stream = NO_STREAM;
                    }
                }
                Some(restored)
            }
        }
    }
}
