// SPDX-License-Identifier: Apache-2.0
//! The queued packets of one peer: by flow, and by age.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use holdfast_wire::Instant;

use super::{Answers, Arrival, KeepSettings, PacketFlow};

/// A packet counts as this much memory at least: a buffer, and its entries here.
pub(super) const COST_MIN: usize = 2_304;

/// One packet.
#[derive(Debug)]
pub(super) struct Kept<F> {
    /// The packet's serial number.
    pub number: u64,
    pub at: Instant,
    /// When it was last sent, if it was.
    pub sent_at: Option<Instant>,
    pub bytes: usize,
    pub segments: u32,
    /// Its copy may be sent as a probe.
    pub can_probe: bool,
    pub frame: F,
}

impl<F> Kept<F> {
    /// Takes the frame from `arrival`.
    pub(super) fn new(arrival: Arrival<F>, number: u64, at: Instant) -> Self {
        Self {
            number,
            at,
            sent_at: None,
            bytes: arrival.bytes,
            segments: arrival.segments.max(1),
            can_probe: arrival.answers == Answers::Many && arrival.flow.may_repeat(),
            frame: arrival.frame,
        }
    }

    /// Bytes of memory that it counts for.
    pub(super) fn cost(&self) -> usize {
        self.bytes.max(COST_MIN)
    }
}

/// Packets by flow. Within a flow the oldest is first.
#[derive(Debug)]
pub(super) struct Shelf<F> {
    flows: BTreeMap<PacketFlow, VecDeque<Kept<F>>>,
    /// Each packet's flow, by the packet's serial number: the first is the oldest packet.
    by_age: BTreeMap<u64, PacketFlow>,
    bytes: usize,
    /// The flow that was last in turn.
    last: Option<PacketFlow>,
}

impl<F> Default for Shelf<F> {
    fn default() -> Self {
        Self {
            flows: BTreeMap::new(),
            by_age: BTreeMap::new(),
            bytes: 0,
            last: None,
        }
    }
}

impl<F> Shelf<F> {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn holds(&self, flow: &PacketFlow) -> bool {
        self.flows.contains_key(flow)
    }

    pub(super) fn push(&mut self, flow: PacketFlow, kept: Kept<F>) {
        self.bytes += kept.cost();
        self.by_age.insert(kept.number, flow);
        self.flows.entry(flow).or_default().push_back(kept);
    }

    /// Takes a packet that must make room for one of `cost` bytes of `flow`; `None` if there is room, or
    /// nothing is left.
    pub(super) fn make_room(
        &mut self,
        flow: &PacketFlow,
        cost: usize,
        room: usize,
        settings: &KeepSettings,
    ) -> Option<Kept<F>> {
        let own = self.flows.get(flow);
        let flow_is_full = own.is_some_and(|packets| {
            let bytes: usize = packets.iter().map(Kept::cost).sum();
            packets.len() >= settings.flow_packets_max || bytes + cost > settings.flow_bytes_max
        });
        if flow_is_full {
            return self.pop_front(*flow);
        }
        let is_new = own.is_none();
        let too_many = is_new && self.flows.len() >= settings.peer_flows_max;
        if too_many || self.bytes + cost > room {
            return self.pop_oldest();
        }
        None
    }

    fn pop_oldest(&mut self) -> Option<Kept<F>> {
        let flow = *self.by_age.first_key_value()?.1;
        self.pop_front(flow)
    }

    fn pop_front(&mut self, flow: PacketFlow) -> Option<Kept<F>> {
        let packets = self.flows.get_mut(&flow)?;
        let kept = packets.pop_front()?;
        if packets.is_empty() {
            self.flows.remove(&flow);
        }
        self.by_age.remove(&kept.number);
        self.bytes -= kept.cost();
        Some(kept)
    }

    /// Takes the oldest packet if it is older than `age`.
    pub(super) fn pop_older(&mut self, age: Duration, now: Instant) -> Option<Kept<F>> {
        let at = self.oldest_at()?;
        if now.saturating_since(at) < age {
            return None;
        }
        self.pop_oldest()
    }

    /// When the oldest packet arrived.
    pub(super) fn oldest_at(&self) -> Option<Instant> {
        let flow = self.by_age.first_key_value()?.1;
        self.flows.get(flow)?.front().map(|kept| kept.at)
    }

    /// The next flow in turn.
    fn take_turn(&mut self) -> Option<PacketFlow> {
        let after = self.last.and_then(|last| {
            let behind = (
                core::ops::Bound::Excluded(last),
                core::ops::Bound::Unbounded,
            );
            self.flows.range(behind).next()
        });
        let flow = *after.or_else(|| self.flows.first_key_value())?.0;
        self.last = Some(flow);
        Some(flow)
    }

    /// Takes the oldest packet of the next flow in turn.
    pub(super) fn pop_in_turn(&mut self) -> Option<Kept<F>> {
        let flow = self.take_turn()?;
        self.pop_front(flow)
    }

    /// The newest packet of the next flow in turn.
    pub(super) fn newest_in_turn(&mut self) -> Option<&mut Kept<F>> {
        let flow = self.take_turn()?;
        self.flows.get_mut(&flow)?.back_mut()
    }

    /// Drops the packets for which `goes` is true. Returns their number.
    pub(super) fn drop_if(&mut self, goes: impl Fn(&Kept<F>) -> bool) -> u64 {
        let before = self.by_age.len();
        let (by_age, bytes) = (&mut self.by_age, &mut self.bytes);
        self.flows.retain(|_, packets| {
            packets.retain(|kept| {
                if goes(kept) {
                    by_age.remove(&kept.number);
                    *bytes -= kept.cost();
                }
                !goes(kept)
            });
            !packets.is_empty()
        });
        (before - self.by_age.len()) as u64
    }
}
