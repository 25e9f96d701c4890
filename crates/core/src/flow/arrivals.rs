// SPDX-License-Identifier: Apache-2.0
//! What an ACK and its SACK blocks newly show to have arrived at the MH.

use core::time::Duration;

use holdfast_wire::{Instant, Segment, SeqNum};

use super::{Arrivals, Flow};
use crate::Payload;

impl<P: Payload> Flow<P> {
    /// Notes the ranges that the segment reports. True if any byte of them is new.
    pub(super) fn note_sack(&mut self, segment: &Segment) -> bool {
        let mut is_new = false;
        for (left, right) in self.reports_in(segment) {
            is_new |= self.sacked.next_missing(left).0.before(right);
            if self.sacked.add(left, right) {
                self.on_reported(right);
            }
        }
        is_new
    }

    /// The SACK blocks above the ACK. A block at or below the ACK is a D-SACK (RFC 2883).
    fn reports_in(&self, segment: &Segment) -> impl Iterator<Item = (SeqNum, SeqNum)> + use<P> {
        let una = self.fh.una.max(segment.ack);
        segment.options.sack.within(una + 1, self.fh.max)
    }

    /// What the ACK and its SACK blocks newly show to have arrived, and the number of these bytes.
    pub(super) fn arrivals(
        &self,
        segment: &Segment,
        least_rtt: Duration,
        now: Instant,
    ) -> (Arrivals, u32) {
        let (mut arrivals, mut bytes) = (Arrivals::default(), 0_u32);
        self.for_each_arrived(segment, |from, to| {
            self.transmissions
                .arrived(from, to, least_rtt, now, &mut arrivals);
            bytes = bytes.saturating_add(to.distance_from(from));
        });
        (arrivals, bytes)
    }

    /// Bytes that the segment newly shows to have arrived and that were sent since link up: recovery
    /// begins with empty `transmissions`.
    #[cold]
    pub(super) fn arrived_since_up(&self, segment: &Segment) -> u32 {
        let mut bytes = 0_u32;
        self.for_each_arrived(segment, |from, to| {
            bytes = bytes.saturating_add(self.transmissions.bytes_within(from, to));
        });
        bytes
    }

    /// Calls `note` with each range that the ACK and its SACK blocks newly show to have arrived. The segment
    /// must be credible: with an ACK far from SND.UNA the loop would not end.
    #[inline]
    fn for_each_arrived(&self, segment: &Segment, mut note: impl FnMut(SeqNum, SeqNum)) {
        let mut note_missing = |left: SeqNum, right: SeqNum| {
            let mut at = left;
            while at.before(right) {
                let (from, reported) = self.sacked.next_missing(at);
                let to = reported.map_or(right, |reported| reported.min(right));
                if from.before(to) {
                    note(from, to);
                }
                at = to.max(from);
            }
        };
        note_missing(self.fh.una, segment.ack);
        for (left, right) in self.reports_in(segment) {
            note_missing(left, right);
        }
    }
}
