// SPDX-License-Identifier: Apache-2.0
//! What a buffering station keeps of one mobile's packets: the newest, within a limit.

use core::time::Duration;
use std::collections::VecDeque;

use holdfast_wire::{Instant, SeqNum};

use super::Copied;
use crate::{Direction, FlowKey};

/// Bytes that a packet takes beside itself.
const ENTRY_BYTES: usize = 128;

/// The packets of one mobile in the order in which they came.
#[derive(Clone, Debug)]
pub(super) struct Buffer<C> {
    entries: VecDeque<(Instant, C)>,
    bytes: usize,
}

impl<C> Default for Buffer<C> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
        }
    }
}

/// The flow of a packet for an MH.
pub(super) fn flow_of(copy: &impl Copied) -> FlowKey {
    FlowKey::of(copy.segment(), Direction::Downlink)
}

impl<C: Copied> Buffer<C> {
    /// Bytes of memory taken.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Packets kept.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that a packet of so many takes.
    pub(super) const fn taken_by(bytes: usize) -> usize {
        bytes + ENTRY_BYTES
    }

    /// Keeps a packet; the oldest go as far as `bytes_max` asks for it, or with `from_front`
    /// this one. Returns how many went.
    pub(super) fn push(
        &mut self,
        copy: C,
        bytes_max: usize,
        from_front: bool,
        now: Instant,
    ) -> u64 {
        let bytes = Self::taken_by(copy.bytes());
        if bytes > bytes_max || (from_front && self.bytes + bytes > bytes_max) {
            return 1;
        }
        let mut gone = 0;
        while self.bytes + bytes > bytes_max {
            self.pop();
            gone += 1;
        }
        self.bytes += bytes;
        self.entries.push_back((now, copy));
        gone
    }

    fn pop(&mut self) {
        if let Some((_, copy)) = self.entries.pop_front() {
            self.bytes -= copy.bytes() + ENTRY_BYTES;
        }
    }

    /// Forgets what is older than `age`.
    pub(super) fn forget_older(&mut self, age: Duration, now: Instant) {
        while self
            .entries
            .front()
            .is_some_and(|(at, _)| now.saturating_since(*at) > age)
        {
            self.pop();
        }
    }

    /// Everything, in order; nothing is left.
    pub(super) fn take(&mut self) -> impl Iterator<Item = C> + use<C> {
        self.bytes = 0;
        let entries = core::mem::take(&mut self.entries);
        entries.into_iter().map(|(_, copy)| copy)
    }

    /// The packets of one flow that end after `una`, in the order of their numbers, taken
    /// out; of those without data the newest alone. What ends before goes.
    pub(super) fn take_flow(&mut self, key: &FlowKey, una: SeqNum) -> Vec<C> {
        let (mut taken, mut empty) = (Vec::new(), None);
        let mut left = VecDeque::with_capacity(self.entries.len());
        for (at, copy) in core::mem::take(&mut self.entries) {
            if flow_of(&copy) != *key {
                left.push_back((at, copy));
                continue;
            }
            self.bytes -= copy.bytes() + ENTRY_BYTES;
            let segment = copy.segment();
            if segment.is_empty() {
                empty = Some(copy);
            } else if segment.end().after(una) {
                taken.push(copy);
            }
        }
        self.entries = left;
        taken.sort_by_key(|copy| place(copy.segment().seq, una));
        taken.extend(empty);
        taken
    }

    /// The flows of which something is kept, each once, in the order of their first packets.
    pub(super) fn flows(&self) -> Vec<FlowKey> {
        let mut flows = Vec::new();
        for (_, copy) in &self.entries {
            let flow = flow_of(copy);
            if !flows.contains(&flow) {
                flows.push(flow);
            }
        }
        flows
    }

    /// The packets of a flow without data, taken out: the newest, and how many went.
    pub(super) fn take_empty(&mut self, key: &FlowKey) -> (Option<C>, u64) {
        let (mut newest, mut gone) = (None, 0);
        let bytes = &mut self.bytes;
        self.entries.retain(|(_, copy)| {
            let is_one = copy.segment().is_empty() && flow_of(copy) == *key;
            if is_one {
                *bytes -= Self::taken_by(copy.bytes());
                newest = Some(copy.clone());
                gone += 1;
            }
            !is_one
        });
        (newest, gone)
    }

    /// The byte after the last that is kept of a flow.
    pub(super) fn end_of(&self, key: &FlowKey) -> Option<SeqNum> {
        self.ranges(key).map(|range| range.1).reduce(SeqNum::max)
    }

    /// The newest packet of a flow.
    pub(super) fn newest_of(&self, key: &FlowKey) -> Option<&C> {
        let mut entries = self.entries.iter().rev().map(|(_, copy)| copy);
        entries.find(|copy| flow_of(*copy) == *key && !copy.segment().is_empty())
    }

    /// What of `from..to` is neither kept nor in one of the ranges `beside`, in order.
    pub(super) fn gaps(
        &self,
        key: &FlowKey,
        (from, to): (SeqNum, SeqNum),
        beside: &[(SeqNum, SeqNum)],
    ) -> Vec<(SeqNum, SeqNum)> {
        let beside = beside.iter().copied();
        let mut ranges: Vec<(SeqNum, SeqNum)> = self.ranges(key).chain(beside).collect();
        ranges.sort_by_key(|range| place(range.0, from));
        let (mut at, mut gaps) = (from, Vec::new());
        for (seq, end) in ranges {
            if !at.before(to) {
                break;
            }
            if seq.after(at) {
                gaps.push((at, seq.min(to)));
            }
            at = at.max(end);
        }
        if at.before(to) {
            gaps.push((at, to));
        }
        gaps
    }

    fn ranges(&self, key: &FlowKey) -> impl Iterator<Item = (SeqNum, SeqNum)> {
        let of_flow = self.entries.iter().map(|(_, copy)| copy);
        let of_flow = of_flow.filter(move |copy| flow_of(*copy) == *key);
        of_flow
            .map(|copy| (copy.segment().seq, copy.segment().end()))
            .filter(|(seq, end)| seq.before(*end))
    }

    /// The packets of a flow with bytes of `from..to`.
    pub(super) fn within(
        &self,
        key: &FlowKey,
        from: SeqNum,
        to: SeqNum,
    ) -> impl Iterator<Item = &C> {
        self.entries
            .iter()
            .map(|(_, copy)| copy)
            .filter(move |copy| {
                let segment = copy.segment();
                flow_of(*copy) == *key && segment.seq.before(to) && segment.end().after(from)
            })
    }
}

/// Where a number lies around `centre`: an order without end on the circle.
const fn place(seq: SeqNum, centre: SeqNum) -> u32 {
    seq.get().wrapping_sub(centre.get()) ^ (1 << 31)
}
