// SPDX-License-Identifier: Apache-2.0
//! Packets that wait to be sent: drop tail, two queues for each station that shares the
//! link. One of the two is served first.

use std::collections::VecDeque;

use holdfast_wire::Instant;

use super::DropReason;
use crate::priority::Priority;

/// A packet's number in the order of the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempts {
    pub number: u64,
    /// Attempts that were lost.
    pub lost: u32,
}

/// A sender on the link. One direction of a full-duplex link has only the first; on a
/// half-duplex medium the two ends are the two stations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Station {
    /// The first, or only one.
    #[default]
    First,
    /// The other one.
    Second,
}

#[derive(Debug)]
pub(super) struct Waiting<P> {
    pub packet: P,
    pub len_bytes: u64,
    /// When it was given to the link.
    pub since: Instant,
    /// Its number in the link's order, from its first attempt on; none without ARQ.
    pub attempts: Option<Attempts>,
}

/// First come, first served.
#[derive(Debug)]
struct Queue<P> {
    waiting: VecDeque<Waiting<P>>,
    bytes: u64,
}

impl<P> Queue<P> {
    const fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    fn take(&mut self) -> Option<Waiting<P>> {
        let waiting = self.waiting.pop_front()?;
        self.bytes -= waiting.len_bytes;
        Some(waiting)
    }
}

/// The queues. If both stations have packets, they take turns packet by packet, as 802.11's
/// access to the medium lets them on average. Priority counts within a station.
#[derive(Debug)]
pub(super) struct Queues<P> {
    /// By station, and there by priority.
    queues: [[Queue<P>; 2]; 2],
    turn: Station,
}

impl<P> Queues<P> {
    pub(super) fn new() -> Self {
        Self {
            queues: [[Queue::new(), Queue::new()], [Queue::new(), Queue::new()]],
            turn: Station::First,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len_of(Station::First) + self.len_of(Station::Second)
    }

    pub(super) fn len_of(&self, station: Station) -> usize {
        let [ordinary, ahead] = &self.queues[station as usize];
        ordinary.waiting.len() + ahead.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn clear(&mut self) {
        for queue in self.queues.as_flattened_mut() {
            *queue = Queue::new();
        }
    }

    /// Takes a packet in, unless its queue is full.
    pub(super) fn offer(
        &mut self,
        station: Station,
        priority: Priority,
        waiting: Waiting<P>,
        packets_max: usize,
        bytes_max: u64,
    ) -> Result<(), DropReason> {
        let queue = &mut self.queues[station as usize][priority as usize];
        if queue.waiting.len() >= packets_max {
            return Err(DropReason::QueuePackets);
        }
        if queue.bytes.saturating_add(waiting.len_bytes) > bytes_max {
            return Err(DropReason::QueueBytes);
        }
        queue.bytes += waiting.len_bytes;
        queue.waiting.push_back(waiting);
        Ok(())
    }

    /// A packet of `station` is sent without waiting: the other station is next.
    pub(super) fn pass_turn(&mut self, station: Station) {
        self.turn = station.other();
    }

    /// The packet that is sent next.
    pub(super) fn take(&mut self) -> Option<Waiting<P>> {
        let station = if self.len_of(self.turn) == 0 {
            self.turn.other()
        } else {
            self.turn
        };
        let [ordinary, ahead] = &mut self.queues[station as usize];
        let waiting = ahead.take().or_else(|| ordinary.take())?;
        self.turn = station.other();
        Some(waiting)
    }
}

impl Station {
    const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}
