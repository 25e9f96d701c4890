// SPDX-License-Identifier: Apache-2.0
//! Delayed duplicate ACKs (Vaidya, Mehta, Perkins and Montenegro, 1999): the receiver gives a
//! link that retransmits the time to fill a hole.
//!
//! The first two duplicate ACKs are sent at once. Later ones wait. They are sent together if
//! the hole is still there after the delay, and dropped if it was filled. Where the paper is
//! silent: later duplicate ACKs for the same hole are then sent at once.

use holdfast_wire::Instant;

use super::connection::Connection;
use super::variables::DelayedDupAcks;
use crate::packet::Packet;

/// Duplicate ACKs that cause a fast retransmit (RFC 5681, 3.2).
const DUP_ACKS_OF_LOSS: u32 = 3;

impl Connection {
    /// A segment behind a hole has arrived. True: its ACK waits.
    pub(super) fn delays_dup_ack(&mut self, now: Instant) -> bool {
        let Some(delay) = self.settings.dup_ack_delay else {
            return false;
        };
        // A segment beyond the window is a probe: there is no hole.
        if self.rcv.ahead.is_empty() {
            return false;
        }
        let delayed = &mut self.rcv.dup_acks;
        delayed.segments += 1;
        if delayed.segments < DUP_ACKS_OF_LOSS || delayed.released {
            return false;
        }
        delayed.waiting += 1;
        self.timers.dup_acks.get_or_insert(now + delay);
        true
    }

    /// The hole is filled.
    pub(super) fn forget_dup_acks(&mut self) {
        self.rcv.dup_acks = DelayedDupAcks::default();
        self.timers.dup_acks = None;
    }

    /// The link has not filled the hole: the ACKs that wait are sent.
    pub(super) fn release_dup_acks(&mut self, now: Instant, out: &mut Vec<Packet>) {
        self.timers.dup_acks = None;
        let delayed = &mut self.rcv.dup_acks;
        delayed.released = true;
        for _ in 0..core::mem::take(&mut delayed.waiting) {
            self.send_ack(now, out);
        }
    }
}
