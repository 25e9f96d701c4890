// SPDX-License-Identifier: Apache-2.0
//! The packets of one mobile that a station buffers: the newest, within a limit.
//!
//! The packets are found by flow. So delivery to a mobile with thousands of flows reads the buffer once,
//! not once for each flow.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use holdfast_wire::{Instant, SeqNum};

use super::Copied;
use crate::{Direction, FlowKey};

/// Memory of a packet in addition to its bytes: its segment, its entries in both maps, and the
/// allocator's overhead.
const ENTRY_BYTES: usize = 320;

/// The packets of one mobile in the order of their arrival.
#[derive(Clone, Debug)]
pub(super) struct Buffer<C> {
    /// By their serial numbers.
    entries: BTreeMap<u64, (Instant, C)>,
    /// The serial numbers of each flow's packets, in order.
    flows: BTreeMap<FlowKey, VecDeque<u64>>,
    next: u64,
    bytes: usize,
}

impl<C> Default for Buffer<C> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            flows: BTreeMap::new(),
            next: 0,
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

    /// Packets buffered.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Memory of a packet of this length.
    pub(super) const fn taken_by(bytes: usize) -> usize {
        bytes + ENTRY_BYTES
    }

    /// Buffers a packet. At the limit `bytes_max` it drops the oldest packets, or with `drops_newest` this
    /// one. Returns the number of dropped packets.
    pub(super) fn push(
        &mut self,
        copy: C,
        bytes_max: usize,
        drops_newest: bool,
        now: Instant,
    ) -> u64 {
        let bytes = Self::taken_by(copy.bytes());
        if bytes > bytes_max || (drops_newest && self.bytes + bytes > bytes_max) {
            return 1;
        }
        let mut dropped = 0;
        while self.bytes + bytes > bytes_max {
            self.pop();
            dropped += 1;
        }
        self.bytes += bytes;
        let numbers = self.flows.entry(flow_of(&copy)).or_default();
        numbers.push_back(self.next);
        self.entries.insert(self.next, (now, copy));
        self.next += 1;
        dropped
    }

    /// Drops the oldest packet, which is its flow's oldest too.
    fn pop(&mut self) {
        let Some((_, (_, copy))) = self.entries.pop_first() else {
            return;
        };
        self.bytes -= Self::taken_by(copy.bytes());
        let key = flow_of(&copy);
        if let Some(numbers) = self.flows.get_mut(&key) {
            numbers.pop_front();
            if numbers.is_empty() {
                self.flows.remove(&key);
            }
        }
    }

    /// Forgets what is older than `age`.
    pub(super) fn forget_older(&mut self, age: Duration, now: Instant) {
        while self
            .entries
            .first_key_value()
            .is_some_and(|(_, (at, _))| now.saturating_since(*at) > age)
        {
            self.pop();
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        (self.entries, self.flows) = (BTreeMap::new(), BTreeMap::new());
        self.bytes = 0;
    }

    /// Takes the packets of one flow that end after `una`, in the order of their sequence numbers, and
    /// the newest one without data. The others are dropped.
    pub(super) fn take_flow(&mut self, key: &FlowKey, una: SeqNum) -> Vec<C> {
        let (mut taken, mut empty) = (Vec::new(), None);
        for number in self.flows.remove(key).unwrap_or_default() {
            let Some((_, copy)) = self.entries.remove(&number) else {
                continue;
            };
            self.bytes -= Self::taken_by(copy.bytes());
            let segment = copy.segment();
            if segment.is_empty() {
                empty = Some(copy);
            } else if segment.end().after(una) {
                taken.push(copy);
            }
        }
        taken.sort_by_key(|copy| distance(copy.segment().seq, una));
        taken.extend(empty);
        taken
    }

    /// The flows with buffered packets, each once, in the order of their first packets.
    pub(super) fn flows(&self) -> Vec<FlowKey> {
        let firsts = self.flows.iter();
        let mut firsts: Vec<(u64, FlowKey)> = firsts
            .filter_map(|(key, numbers)| Some((*numbers.front()?, *key)))
            .collect();
        firsts.sort_unstable_by_key(|(first, _)| *first);
        firsts.into_iter().map(|(_, key)| key).collect()
    }

    /// Takes the packets of a flow without data: returns the newest, and their number.
    pub(super) fn take_empty(&mut self, key: &FlowKey) -> (Option<C>, u64) {
        let (mut newest, mut gone) = (None, 0);
        let Some(numbers) = self.flows.get_mut(key) else {
            return (None, 0);
        };
        let (entries, bytes) = (&mut self.entries, &mut self.bytes);
        numbers.retain(|number| {
            let is_empty = entries
                .get(number)
                .is_some_and(|(_, copy)| copy.segment().is_empty());
            if is_empty && let Some((_, copy)) = entries.remove(number) {
                *bytes -= Self::taken_by(copy.bytes());
                newest = Some(copy);
                gone += 1;
            }
            !is_empty
        });
        if numbers.is_empty() {
            self.flows.remove(key);
        }
        (newest, gone)
    }

    /// The byte after the last buffered one of a flow.
    pub(super) fn end_of(&self, key: &FlowKey) -> Option<SeqNum> {
        self.ranges(key).map(|range| range.1).reduce(SeqNum::max)
    }

    /// The newest packet of a flow.
    pub(super) fn newest_of(&self, key: &FlowKey) -> Option<&C> {
        self.packets(key)
            .rev()
            .find(|copy| !copy.segment().is_empty())
    }

    /// The parts of `from..to` that are neither buffered nor in one of the ranges `beside`, in order.
    pub(super) fn gaps(
        &self,
        key: &FlowKey,
        (from, to): (SeqNum, SeqNum),
        beside: &[(SeqNum, SeqNum)],
    ) -> Vec<(SeqNum, SeqNum)> {
        let beside = beside.iter().copied();
        let mut ranges: Vec<(SeqNum, SeqNum)> = self.ranges(key).chain(beside).collect();
        ranges.sort_by_key(|range| distance(range.0, from));
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

    /// The packets of a flow, in the order of their arrival.
    fn packets(&self, key: &FlowKey) -> impl DoubleEndedIterator<Item = &C> {
        let numbers = self.flows.get(key).into_iter().flatten();
        numbers.filter_map(|number| self.entries.get(number).map(|(_, copy)| copy))
    }

    fn ranges(&self, key: &FlowKey) -> impl Iterator<Item = (SeqNum, SeqNum)> {
        self.packets(key)
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
        self.packets(key).filter(move |copy| {
            let segment = copy.segment();
            segment.seq.before(to) && segment.end().after(from)
        })
    }
}

/// A key that orders sequence numbers within half the circle around `centre`.
const fn distance(seq: SeqNum, centre: SeqNum) -> u32 {
    seq.get().wrapping_sub(centre.get()) ^ (1 << 31)
}
