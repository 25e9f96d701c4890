// SPDX-License-Identifier: Apache-2.0
//! The wired half as a gateway sees it: its round trip, from which the FH's retransmission
//! timeout follows, and what the FH has sent more than once.

use core::time::Duration;

use holdfast_wire::{Instant, Segment, SeqNum};

use super::echo::EchoTimer;
use crate::back_off::RTO_VARIATION_MIN;
use crate::rtt::RttEstimator;

/// Retransmitted ranges of the FH that are stored, at most.
const REPEATED_MAX: usize = 16;
/// The wired half's round trip counts as its shortest plus this, at most. Otherwise the estimate of
/// the FH's RTO could exceed the true one, and a hole would be hidden for too long.
const WIRED_VARIATION_MAX: Duration = Duration::from_millis(50);

/// What is known of the wired half.
#[derive(Clone, Debug, Default)]
pub(super) struct FixedHalf {
    rtt: RttEstimator,
    /// The MH's timestamps, echoed by the FH.
    echo: EchoTimer,
    /// Ranges that the FH has sent more than once: the newest, in a ring.
    repeated: [Option<(SeqNum, SeqNum)>; REPEATED_MAX],
    next: usize,
}

impl FixedHalf {
    /// A segment of the MH is sent to the FH.
    #[inline]
    pub(super) fn on_mh_segment_sent(&mut self, segment: &Segment, now: Instant) {
        self.echo.on_passed(segment.options.timestamps, now);
    }

    /// A segment of the FH.
    #[inline]
    pub(super) fn on_fh_segment(&mut self, segment: &Segment, now: Instant) {
        // This round trip is too long if the FH had nothing to send.
        if let Some(rtt) = self.echo.handle_reply(segment.options.timestamps, now) {
            self.rtt.sample(rtt);
        }
    }

    /// The wired half's round trip.
    pub(super) const fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The shortest round trip seen.
    pub(super) const fn least_rtt(&self) -> Option<Duration> {
        self.rtt.least()
    }

    /// The least RTO of the FH. `wireless`: the wireless half's estimator (RFC 6298, with the minimum of
    /// today's senders). An FH that sends a little now and then makes the wired half's smoothed
    /// round trip too long.
    pub(super) fn rto(&self, wireless: &RttEstimator) -> Duration {
        let longest = self.rtt.least().unwrap_or_default() + WIRED_VARIATION_MAX;
        let wired = self.rtt.srtt().unwrap_or_default().min(longest);
        wired + wireless.rto(RTO_VARIATION_MIN)
    }

    /// How long the FH may take to answer a request; `unknown` if its round trip was not measured.
    /// `variation_min` as in [`RttEstimator::rto`].
    pub(super) fn answer_wait(&self, unknown: Duration, variation_min: Duration) -> Duration {
        self.rtt.least().map_or(unknown, |least| {
            self.rtt.rto(variation_min).min(least + RTO_VARIATION_MIN)
        })
    }

    /// The FH has retransmitted `seq..end`.
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
    fn an_fh_that_has_nothing_to_send_does_not_make_its_timeout_long() {
        let ms = Duration::from_millis;
        let mut half = FixedHalf::default();
        let mut wireless = RttEstimator::default();
        wireless.sample(ms(20));
        for rtt in [40, 1000, 1000, 1000, 1000] {
            half.rtt.sample(ms(rtt));
        }
        assert_eq!(half.rto(&wireless), ms(40 + 50 + 20 + 200));
        assert_eq!(half.answer_wait(ms(50), ms(20)), ms(240));
        assert_eq!(FixedHalf::default().answer_wait(ms(50), ms(20)), ms(50));
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
