// SPDX-License-Identifier: Apache-2.0
//! What waits to be sent: drop tail, a queue for each station that shares the link.

use std::collections::VecDeque;

use super::DropReason;

/// Who sends over the link. One direction of a full-duplex link has the first alone;
/// on a half-duplex medium the two ends are the two stations.
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
}

/// The queues. Where both have something, the stations take turns packet by packet, as
/// 802.11's access to the medium lets them on average.
#[derive(Debug)]
pub(super) struct Queues<P> {
    waiting: [VecDeque<Waiting<P>>; 2],
    bytes: [u64; 2],
    turn: Station,
}

impl<P> Queues<P> {
    pub(super) fn new() -> Self {
        Self {
            waiting: [VecDeque::new(), VecDeque::new()],
            bytes: [0; 2],
            turn: Station::First,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting[0].len() + self.waiting[1].len()
    }

    pub(super) fn len_of(&self, station: Station) -> usize {
        self.waiting[station as usize].len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn clear(&mut self) {
        self.waiting.iter_mut().for_each(VecDeque::clear);
        self.bytes = [0; 2];
    }

    /// Takes a packet in, unless its station's queue is full.
    pub(super) fn offer(
        &mut self,
        station: Station,
        waiting: Waiting<P>,
        packets_max: usize,
        bytes_max: u64,
    ) -> Result<(), DropReason> {
        let (queue, bytes) = (
            &mut self.waiting[station as usize],
            &mut self.bytes[station as usize],
        );
        if queue.len() >= packets_max {
            return Err(DropReason::QueuePackets);
        }
        if bytes.saturating_add(waiting.len_bytes) > bytes_max {
            return Err(DropReason::QueueBytes);
        }
        *bytes += waiting.len_bytes;
        queue.push_back(waiting);
        Ok(())
    }

    /// A packet of `station` is sent without waiting: the other one is next.
    pub(super) fn pass_turn(&mut self, station: Station) {
        self.turn = station.other();
    }

    /// The packet that is sent next.
    pub(super) fn take(&mut self) -> Option<Waiting<P>> {
        let station = if self.waiting[self.turn as usize].is_empty() {
            self.turn.other()
        } else {
            self.turn
        };
        let waiting = self.waiting[station as usize].pop_front()?;
        self.bytes[station as usize] -= waiting.len_bytes;
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
