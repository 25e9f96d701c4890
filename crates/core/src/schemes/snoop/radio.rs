// SPDX-License-Identifier: Apache-2.0
//! Whether the radio loses packets. A hole that shows while the link's queue is short, or much
//! shorter than it has been, is the radio's: no queue overflows then. Until one was seen every
//! hole may be the FH's own overload, which needs no help: it hears of it as it comes.
//!
//! What one flow has found all flows of the MH know: where others keep a queue none could find
//! it out for itself, and whoever hears of each loss would lose its share to those who do not.

use core::time::Duration;

use holdfast_wire::{Instant, SeqNum};

/// The longest queue is that of the last one to two of these: a link may change.
const SPAN: Duration = Duration::from_secs(5);

/// What one flow has seen of the radio.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Radio {
    loses: bool,
    begun: Option<Instant>,
    /// The longest queue of this span, and of the one before.
    longest: [Duration; 2],
    /// Holes before this have been judged.
    judged: Option<SeqNum>,
}

impl Radio {
    /// It has lost something.
    pub(super) const fn loses(&self) -> bool {
        self.loses
    }

    /// Another flow of the MH knows that it does.
    pub(super) const fn hear_that_it_loses(&mut self) {
        self.loses = true;
    }

    /// Something has arrived that found so long a queue.
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

    /// The MH reports up to `highest`: from where on holes have not been judged yet.
    pub(super) fn unjudged(&mut self, una: SeqNum, highest: SeqNum) -> SeqNum {
        let from = self.judged.map_or(una, |judged| judged.max(una));
        self.judged = Some(highest.max(from));
        from
    }

    /// A new hole shows while the queue is so long; one of `queue_min` never overflows.
    pub(super) fn on_hole(&mut self, queue: Duration, queue_min: Duration) {
        let longest = self.longest[0].max(self.longest[1]);
        self.loses |= queue < queue_min || queue * 2 < longest;
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
        let mut radio = Radio::default();
        radio.on_arrived(ms(longest), Instant::from_millis(1000));
        let later = 1000 + 1000 * seconds_later;
        for at in (1000..=later).step_by(500) {
            radio.on_arrived(ms(queue), Instant::from_millis(at));
        }
        radio.on_hole(ms(queue), ms(5));
        radio.loses()
    }

    #[test]
    fn a_loss_with_a_short_queue_is_the_radios_and_one_with_the_longest_is_not() {
        assert!(is_radios(0, 1, 4));
        assert!(!is_radios(0, 1, 6));
        assert!(!is_radios(60, 1, 40));
        assert!(is_radios(60, 1, 29));
        assert!(!is_radios(60, 12, 29), "the longest is forgotten");
    }

    #[test]
    fn a_hole_is_judged_once() {
        let seq = SeqNum::new;
        let mut radio = Radio::default();
        assert_eq!(radio.unjudged(seq(100), seq(300)), seq(100));
        assert_eq!(radio.unjudged(seq(100), seq(300)), seq(300));
        assert_eq!(radio.unjudged(seq(400), seq(600)), seq(400));
    }
}
