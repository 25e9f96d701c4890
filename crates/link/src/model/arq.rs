// SPDX-License-Identifier: Apache-2.0
//! Retransmission by the link itself, without knowledge of TCP.
//!
//! Selective repeat: the link retransmits a packet whose attempt was lost, ahead of the queue. The
//! far end delivers in order, or, if so set, as packets arrive. The sender learns of each loss: no feedback is lost.

use std::collections::{BTreeMap, VecDeque};

use holdfast_wire::Instant;

use super::progress::InFlight;
use super::queue::{Attempts, Waiting};
use super::{DropReason, LinkModel};
use crate::settings::ArqPlan;

/// Most packets that wait for their retransmission. At the limit no new packet is sent.
const DUE_MAX: usize = 1000;
/// Most packets that wait at the far end. At the limit the oldest gap is skipped.
const HELD_MAX: usize = 100_000;

#[derive(Debug)]
pub(super) struct Arq<P> {
    plan: ArqPlan,
    /// The number of the next new packet.
    next_new: u64,
    /// Attempts that were lost.
    lost: u64,
    /// Packets to retransmit, each with the time from which it may be; the earliest first.
    due: VecDeque<(Instant, Waiting<P>)>,
    /// The far end delivers this number next.
    next_in_order: u64,
    /// Packets that arrived behind a gap, by number.
    held: BTreeMap<u64, InFlight<P>>,
    /// When the oldest gap is skipped.
    skip_at: Option<Instant>,
}

impl<P> Arq<P> {
    pub(super) const fn new(plan: ArqPlan) -> Self {
        Self {
            plan,
            next_new: 0,
            lost: 0,
            due: VecDeque::new(),
            next_in_order: 0,
            held: BTreeMap::new(),
            skip_at: None,
        }
    }

    /// Packets inside that are neither in the queue nor in flight.
    pub(super) fn len(&self) -> usize {
        self.due.len() + self.held.len()
    }

    /// Whether new packets wait.
    pub(super) fn is_full(&self) -> bool {
        self.due.len() >= DUE_MAX
    }

    /// Numbers a packet that is sent for the first time.
    pub(super) fn number(&mut self, waiting: &mut Waiting<P>) {
        if waiting.attempts.is_none() {
            waiting.attempts = Some(Attempts {
                number: self.next_new,
                lost: 0,
            });
            self.next_new += 1;
        }
    }

    /// An attempt that ended at `at` was lost. False: it was the last one.
    pub(super) fn retransmit(&mut self, mut waiting: Waiting<P>, at: Instant) -> bool {
        self.lost += 1;
        if let Some(attempts) = &mut waiting.attempts {
            attempts.lost += 1;
            if self
                .plan
                .attempts_max
                .is_some_and(|max| attempts.lost >= max)
            {
                return false;
            }
        }
        self.due
            .push_back((at + self.plan.retransmit_after, waiting));
        true
    }

    /// The retransmission that is due by `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Waiting<P>> {
        self.due_at().filter(|&at| at <= now)?;
        self.due.pop_front().map(|(_, waiting)| waiting)
    }

    /// When the next retransmission is due.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.due.front().map(|&(at, _)| at)
    }

    /// When the far end skips a gap.
    pub(super) const fn skip_at(&self) -> Option<Instant> {
        self.skip_at
    }

    /// Loses the packets that wait for their retransmission; returns their number.
    pub(super) fn lose_due(&mut self) -> usize {
        std::mem::take(&mut self.due).len()
    }

    /// Takes in a packet that has arrived. False: it is late, and its number was skipped.
    fn arrive(&mut self, packet: InFlight<P>) -> bool {
        let number = packet
            .waiting
            .attempts
            .map_or(0, |attempts| attempts.number);
        if number < self.next_in_order {
            return false;
        }
        let at = packet.arrive_at;
        self.held.insert(number, packet);
        if self.held.len() > HELD_MAX {
            self.skip(at);
        } else if self.skip_at.is_none() {
            self.watch_gap(at);
        }
        true
    }

    /// Starts the timer at `at` if packets wait behind a gap.
    fn watch_gap(&mut self, at: Instant) {
        let first = self.held.first_key_value().map(|(&number, _)| number);
        self.skip_at = match (first, self.plan.reassembly) {
            (Some(first), Some(timer)) if first > self.next_in_order => Some(at + timer),
            _ => None,
        };
    }

    /// Skips the oldest gap: packets that waited behind it arrive at `at`.
    fn skip(&mut self, at: Instant) {
        if let Some((&first, _)) = self.held.first_key_value() {
            self.next_in_order = first;
        }
        self.skip_at = None;
        let mut number = self.next_in_order;
        while let Some(packet) = self.held.get_mut(&number) {
            packet.arrive_at = packet.arrive_at.max(at);
            number += 1;
        }
    }

    /// The next packet in order.
    fn deliver(&mut self, at: Instant) -> Option<InFlight<P>> {
        let mut packet = self.held.remove(&self.next_in_order)?;
        packet.arrive_at = packet.arrive_at.max(at);
        self.next_in_order += 1;
        if !self.held.contains_key(&self.next_in_order) {
            // The timer of the next gap starts when the one before it is closed.
            self.watch_gap(packet.arrive_at);
        }
        Some(packet)
    }
}

impl<P> LinkModel<P> {
    /// The next packet that has arrived by `now`: with ARQ in the order of the link.
    pub(super) fn next_arrived(&mut self, now: Instant) -> Option<InFlight<P>> {
        loop {
            let arrival = self.in_flight.front().map(|first| first.arrive_at);
            let arrival = arrival.filter(|&at| at <= now);
            let Some(arq) = self.arq.as_mut().filter(|arq| arq.plan.in_order) else {
                arrival?;
                return self.in_flight.pop_front();
            };
            if let Some(packet) = arq.deliver(self.delivered_last) {
                self.delivered_last = packet.arrive_at;
                return Some(packet);
            }
            match arq.skip_at.filter(|&at| at <= now) {
                Some(skip) if arrival.is_none_or(|arrival| skip < arrival) => arq.skip(skip),
                _ => {
                    arrival?;
                    let packet = self.in_flight.pop_front()?;
                    self.delivered_last = packet.arrive_at;
                    if !arq.arrive(packet) {
                        self.counters.count_drop(DropReason::Reassembly, 1);
                    }
                }
            }
        }
    }

    /// An attempt was lost: it is retransmitted, or the packet is lost for `reason`.
    pub(super) fn lose_attempt(&mut self, waiting: Waiting<P>, reason: DropReason, at: Instant) {
        let again = self
            .arq
            .as_mut()
            .is_some_and(|arq| arq.retransmit(waiting, at));
        if !again {
            self.counters.count_drop(reason, 1);
        }
    }

    /// Lost attempts so far that the link knows of: 0 without ARQ.
    pub fn attempts_lost(&self) -> u64 {
        self.arq.as_ref().map_or(0, |arq| arq.lost)
    }

    /// Whether new packets wait for retransmissions.
    pub(super) fn is_arq_full(&self) -> bool {
        self.arq.as_ref().is_some_and(Arq::is_full)
    }

    /// When a link that sends nothing begins a retransmission.
    pub(super) fn retransmission_at(&self) -> Option<Instant> {
        let at = self.arq.as_ref()?.due_at()?;
        (self.sending.is_none() && self.is_up()).then_some(at)
    }
}
