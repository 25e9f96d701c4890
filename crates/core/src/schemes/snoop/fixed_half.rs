// SPDX-License-Identifier: Apache-2.0
//! The wired half as a gateway sees it: its round trip, from which the FH's retransmission
//! timeout follows, and what the FH has sent more than once.

use core::time::Duration;

use holdfast_wire::{Instant, Segment, SeqNum};

use crate::rtt::RttEstimator;

/// Ranges remembered that the FH has sent again.
const REPEATED_MAX: usize = 16;
/// The least that today's senders add to their round trip (Linux: `TCP_RTO_MIN`).
const RTO_VARIATION_MIN: Duration = Duration::from_millis(200);
/// A timestamp whose echo has not come for so long is not waited for any more.
pub(super) const ECHO_WAIT_MAX: Duration = Duration::from_secs(2);

/// What is known of the wired half.
#[derive(Clone, Debug, Default)]
pub(super) struct FixedHalf {
    rtt: RttEstimator,
    /// The MH's timestamp that was let through, and when: its echo gives the round trip.
    asked: Option<(u32, Instant)>,
    /// The newest are kept, in a ring.
    repeated: [Option<(SeqNum, SeqNum)>; REPEATED_MAX],
    next: usize,
}

impl FixedHalf {
    /// A segment of the MH goes to the FH.
    pub(super) fn on_told(&mut self, segment: &Segment, now: Instant) {
        let waits = self
            .asked
            .is_some_and(|(_, at)| now.saturating_since(at) < ECHO_WAIT_MAX);
        if let (false, Some(timestamps)) = (waits, segment.options.timestamps) {
            self.asked = Some((timestamps.tsval, now));
        }
    }

    /// A segment of the FH.
    pub(super) fn on_fh_segment(&mut self, segment: &Segment, now: Instant) {
        let (Some((tsval, at)), Some(timestamps)) = (self.asked, segment.options.timestamps) else {
            return;
        };
        if (timestamps.tsecr.wrapping_sub(tsval) as i32) >= 0 {
            // An FH that had nothing to send has made it long.
            let elapsed = now.saturating_since(at);
            if elapsed <= ECHO_WAIT_MAX {
                self.rtt.sample(elapsed);
            }
            self.asked = None;
        }
    }

    /// Its round trip.
    pub(super) const fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The shortest round trip seen.
    pub(super) const fn least_rtt(&self) -> Option<Duration> {
        self.rtt.least()
    }

    /// What the FH waits for an ACK, the wireless half's estimator given (RFC 6298, with
    /// the floor of today's senders).
    pub(super) fn rto(&self, wireless: &RttEstimator) -> Duration {
        self.rtt.srtt().unwrap_or_default() + wireless.rto(RTO_VARIATION_MIN)
    }

    /// The FH has sent `seq..end` again.
    pub(super) fn note_repeated(&mut self, seq: SeqNum, end: SeqNum) {
        let last = (self.next + REPEATED_MAX - 1) % REPEATED_MAX;
        if let Some((_, right)) = &mut self.repeated[last]
            && *right == seq
        {
            *right = end;
            return;
        }
        self.repeated[self.next] = Some((seq, end));
        self.next = (self.next + 1) % REPEATED_MAX;
    }

    /// The FH has sent something of `seq..end` more than once.
    pub(super) fn has_repeated(&self, seq: SeqNum, end: SeqNum) -> bool {
        let overlaps = |range: &(SeqNum, SeqNum)| range.0.before(end) && seq.before(range.1);
        self.repeated.iter().flatten().any(overlaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seq(number: u32) -> SeqNum {
        SeqNum::new(number)
    }

    #[test]
    fn what_the_fh_repeats_is_known_for_a_while() {
        let mut half = FixedHalf::default();
        half.note_repeated(seq(100), seq(200));
        half.note_repeated(seq(200), seq(300));
        assert!(half.has_repeated(seq(150), seq(160)));
        assert!(half.has_repeated(seq(299), seq(400)));
        assert!(!half.has_repeated(seq(300), seq(400)));
        for i in 0..16 {
            half.note_repeated(seq(1000 + 20 * i), seq(1010 + 20 * i));
        }
        assert!(!half.has_repeated(seq(150), seq(160)));
    }
}
