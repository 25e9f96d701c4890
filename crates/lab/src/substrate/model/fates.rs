// SPDX-License-Identifier: Apache-2.0
//! The true fates of segments that a sender's loss classifier has judged.
//!
//! Each sending of a segment is followed over the links. A drop by a queue is congestion. A segment
//! that enters a wireless link and does not leave it was lost: by a handoff, if the MH had one
//! meanwhile, and otherwise by an error of the channel. A segment that reached the FH was not lost:
//! either a handoff delayed its ACK, or the judgement was a false alarm, which is never right.

use std::collections::BTreeMap;

use holdfast_core::Direction;
use holdfast_core::lccwe::Cause;
use holdfast_link::DropReason;
use holdfast_sim::packet::Body;
use holdfast_sim::{Judged, Packet, PacketEvent};
use holdfast_wire::Instant;

use crate::results::Hits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Air,
    /// It has left the wireless link.
    Wire,
    Refused,
    Delivered,
}

#[derive(Clone, Copy, Debug)]
struct Sending {
    at: Instant,
    fate: Fate,
}

/// Follows the MH's segments.
#[derive(Debug)]
pub(super) struct Fates {
    /// Hops with higher numbers are the wires between router and base stations.
    cells: u32,
    /// The sendings of each segment, by its offset in the stream.
    sendings: BTreeMap<u64, Vec<Sending>>,
}

impl Fates {
    pub(super) const fn new(cells: u32) -> Self {
        Self {
            cells,
            sendings: BTreeMap::new(),
        }
    }

    /// Notes an event of a packet at a link; hop 0 is the wired one.
    pub(super) fn record(
        &mut self,
        (hop, direction): (u32, Direction),
        event: PacketEvent,
        packet: &Packet,
        now: Instant,
    ) {
        let Body::Tcp(tcp) = &packet.body else {
            return;
        };
        if direction != Direction::Uplink || tcp.segment.payload_len == 0 || hop > self.cells {
            return;
        }
        let sendings = self.sendings.entry(tcp.origin.offset).or_default();
        if hop > 0 && event == PacketEvent::Sent {
            let fate = Fate::Air;
            sendings.push(Sending { at: now, fate });
            return;
        }
        // Of several sendings the latest is meant: the earlier ones have left this link, or are
        // lost.
        let (from, to) = match (hop, event) {
            (1.., PacketEvent::Arrived) if packet.corrupted => return,
            (1.., PacketEvent::Arrived) => (Fate::Air, Fate::Wire),
            (1.., PacketEvent::Dropped(DropReason::QueuePackets | DropReason::QueueBytes)) => {
                (Fate::Air, Fate::Refused)
            }
            (0, PacketEvent::Dropped(_)) => (Fate::Wire, Fate::Refused),
            (0, PacketEvent::Arrived) => (Fate::Wire, Fate::Delivered),
            _ => return,
        };
        if let Some(sending) = sendings
            .iter_mut()
            .rev()
            .find(|judged_segment| judged_segment.fate == from)
        {
            sending.fate = to;
        }
    }

    /// The classifier's hits, by the true fates of the judged segments. `handoffs` are begins and
    /// ends.
    pub(super) fn hits(&self, judged: &[Judged], handoffs: &[[Instant; 2]]) -> Hits {
        let mut hits = Hits::default();
        for judged_segment in judged {
            let by_handoff = judged_segment.judgement.cause == Cause::Handoff;
            let overlaps = handoffs.iter().any(|[begin, end]| {
                *begin <= judged_segment.at && judged_segment.transmitted <= *end
            });
            let fate = self.fate_of(judged_segment);
            let count = match (fate, overlaps, by_handoff) {
                (Some(Fate::Refused), _, true) => &mut hits.congestion_wrong,
                (Some(Fate::Refused), _, false) => &mut hits.congestion_right,
                (Some(Fate::Air | Fate::Delivered), true, true) => &mut hits.handoff_right,
                (Some(Fate::Air | Fate::Delivered), true, false) => &mut hits.handoff_wrong,
                (Some(Fate::Air), false, true) => &mut hits.error_as_handoff,
                (Some(Fate::Air), false, false) => &mut hits.error_as_congestion,
                (Some(Fate::Delivered | Fate::Wire) | None, _, true) => &mut hits.false_as_handoff,
                (Some(Fate::Delivered | Fate::Wire) | None, _, false) => {
                    &mut hits.false_as_congestion
                }
            };
            *count += 1;
        }
        let right = hits.handoff_right + hits.congestion_right;
        let wrong = hits.handoff_wrong
            + hits.congestion_wrong
            + hits.error_as_congestion
            + hits.error_as_handoff;
        let all = right + wrong;
        hits.hit_ratio_percent = (all > 0).then(|| right as f64 * 100.0 / all as f64);
        hits
    }

    fn fate_of(&self, judged: &Judged) -> Option<Fate> {
        let (_, sendings) = self.sendings.range(..=judged.offset).next_back()?;
        let is_it = |sending: &&Sending| sending.at == judged.transmitted;
        sendings
            .iter()
            .find(is_it)
            .map(|judged_segment| judged_segment.fate)
    }
}
