// SPDX-License-Identifier: Apache-2.0
//! Whether the radio loses packets. A hole that shows while the link's queue is short, or much
//! shorter than before, is the radio's: then no queue overflows. Before the first such hole every
//! hole may be the FH's own overload, and is reported to it at once.
//!
//! All flows of the MH share this knowledge. A flow behind the queue of others could not detect it
//! alone. And a flow with a report of each loss would lose its share to flows without.

use core::time::Duration;

use holdfast_wire::{Instant, SeqNum};

/// The longest queue is that of the present span and of the one before, because a link may change.
const SPAN: Duration = Duration::from_secs(5);
/// A loss of the radio counts for this time: after that the losses may have ended, or it was misjudged.
const KNOWN: Duration = Duration::from_secs(60);

/// True if a loss of the radio's at that time still counts.
pub(super) fn is_known(lost_at: Option<Instant>, now: Instant) -> bool {
    lost_at.is_some_and(|at| now.saturating_since(at) < KNOWN)
}

/// What one flow has seen of the radio.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Radio {
    /// When the radio last lost something.
    lost_at: Option<Instant>,
    begun: Option<Instant>,
    /// The longest queue of this span, and of the one before.
    longest: [Duration; 2],
    /// Holes before this have been judged.
    judged: Option<SeqNum>,
}

impl Radio {
    /// When the radio last lost something.
    pub(super) const fn lost_at(&self) -> Option<Instant> {
        self.lost_at
    }

    /// A segment has arrived that waited in a queue of this length.
    pub(super) fn on_arrived(&mut self, queue: Duration, now: Instant) {
        let over = self
            .begun
            .is_none_or(|begun| now.saturating_since(begun) >= SPAN);
        if over {
            self.begun = Some(now);
            self.longest = [Duration::ZERO, self.longest[0]];
        }
        self.longest[0] = self.longest[0].max(queue);
    }

    /// The MH has acknowledged everything before `una`. A mark more than 2 GiB behind would seem to lie ahead.
    pub(super) fn on_acked(&mut self, una: SeqNum) {
        self.judged = self.judged.map(|judged| judged.max(una));
    }

    /// Returns the first number whose holes have not been judged yet. `highest`: the end of what the MH
    /// reports.
    pub(super) fn unjudged(&mut self, una: SeqNum, highest: SeqNum) -> SeqNum {
        let from = self.judged.map_or(una, |judged| judged.max(una));
        self.judged = Some(highest.max(from));
        from
    }

    /// A new hole shows while the queue has this length; a queue below `queue_min` never overflows. If the
    /// radio `is_known` to lose packets, one flow has a queue of 55 to 105 ms for a path of 50 ms, never less
    /// than half. Then less than three quarters of the longest queue shows the radio. A queue that has become
    /// shorter within seconds, and overflows, is mistaken for the radio.
    pub(super) fn on_hole(
        &mut self,
        queue: Duration,
        queue_min: Duration,
        is_known: bool,
        now: Instant,
    ) {
        let longest = self.longest[0].max(self.longest[1]);
        let less = if is_known {
            longest * 3 / 4
        } else {
            longest / 2
        };
        if queue < queue_min || queue < less {
            self.lost_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Whether a loss is the radio's, with such queues one after the other.
    fn is_radios(longest: u64, seconds_later: u64, queue: u64) -> bool {
        is_radios_if(false, longest, seconds_later, queue)
    }

    fn is_radios_if(is_known: bool, longest: u64, seconds_later: u64, queue: u64) -> bool {
        let mut radio = Radio::default();
        radio.on_arrived(ms(longest), Instant::from_millis(1000));
        let later = 1000 + 1000 * seconds_later;
        for at in (1000..=later).step_by(500) {
            radio.on_arrived(ms(queue), Instant::from_millis(at));
        }
        radio.on_hole(ms(queue), ms(5), is_known, Instant::from_millis(later));
        radio.lost_at().is_some()
    }

    #[test]
    fn a_loss_with_a_short_queue_is_the_radios_and_one_with_the_longest_is_not() {
        assert!(is_radios(0, 1, 4));
        assert!(!is_radios(0, 1, 6));
        assert!(!is_radios(60, 1, 40));
        assert!(is_radios(60, 1, 29));
        assert!(!is_radios(60, 12, 29), "the longest is forgotten");
        assert!(is_radios_if(true, 60, 1, 44));
        assert!(!is_radios_if(true, 60, 1, 46));
    }

    #[test]
    fn a_radio_loss_of_a_minute_ago_does_not_count_any_more() {
        let at = Instant::from_millis;
        assert!(!is_known(None, at(5)));
        assert!(is_known(Some(at(5)), at(60_004)));
        assert!(!is_known(Some(at(5)), at(60_005)));
    }

    #[test]
    fn a_hole_is_judged_once() {
        let seq = SeqNum::new;
        let mut radio = Radio::default();
        assert_eq!(radio.unjudged(seq(100), seq(300)), seq(100));
        assert_eq!(radio.unjudged(seq(100), seq(300)), seq(300));
        assert_eq!(radio.unjudged(seq(400), seq(600)), seq(400));
    }

    #[test]
    fn a_queue_counts_for_one_span_or_two() {
        let at = Instant::from_millis;
        let longest = |times: &[(u64, u64)], queue: u64, now: u64| {
            let mut radio = Radio::default();
            for (time, length) in times {
                radio.on_arrived(ms(*length), at(*time));
            }
            radio.on_hole(ms(queue), ms(5), false, at(now));
            radio.lost_at().is_none()
        };
        assert!(longest(&[], 5, 0), "as long as a queue that may overflow");
        // Half of 60 ms is enough; 29 ms are the radio's.
        assert!(longest(&[(0, 60)], 30, 0));
        assert!(!longest(&[(0, 60)], 29, 0));
        assert!(!longest(&[(0, 60), (4_999, 10), (9_998, 10)], 29, 9_998));
        assert!(!longest(&[(0, 60), (5_000, 10), (9_999, 10)], 29, 9_999));
        assert!(longest(&[(0, 60), (5_000, 10), (10_000, 10)], 29, 10_000));
    }

    #[test]
    fn a_hole_is_judged_also_if_2_gib_came_without_one() {
        let mut radio = Radio::default();
        let first = SeqNum::new(1_000);
        assert_eq!(radio.unjudged(first, first + 5_000), first);
        let mut una = first;
        for _ in 0..6 {
            una += 500_000_000;
            radio.on_acked(una);
        }
        assert_eq!(radio.unjudged(una, una + 5_000), una);
    }
}
