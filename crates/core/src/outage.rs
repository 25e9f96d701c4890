// SPDX-License-Identifier: Apache-2.0
//! Outages that have ended, with an estimate of what they would have cost without Holdfast.
//!
//! The estimate is the stall that a sender's back-off adds to an outage. A sender's timer starts with
//! the last segment before the outage and expires after the RTO. Each expiry doubles the RTO
//! (RFC 6298, 5.5). Without Holdfast the sender sends next at its first expiry after link up.

use core::time::Duration;
use std::collections::VecDeque;

use holdfast_wire::Instant;

use crate::back_off::expiries;
use crate::link_state::LinkSource;

/// The longest RTO: the least that RFC 6298 (2.5) permits as a limit. Linux has 120 s.
const RTO_MAX: Duration = Duration::from_secs(60);

/// An outage that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage<M> {
    /// The mobile.
    pub mobile: M,
    /// When the link went down, as far as is known.
    pub begin: Instant,
    /// The time until the link was up again, as far as is known.
    pub length: Duration,
    /// What noticed the begin.
    pub source: LinkSource,
    /// Flows with data that waited for the end.
    pub flows: u32,
    /// Bytes cached or queued at the end.
    pub cached_bytes: u64,
    /// How much longer the flows would have stalled without Holdfast: an estimate.
    pub stall_saved: Duration,
}

impl<M> Outage<M> {
    /// The same outage, with another name of the mobile.
    pub fn of<N>(self, mobile: N) -> Outage<N> {
        Outage {
            mobile,
            begin: self.begin,
            length: self.length,
            source: self.source,
            flows: self.flows,
            cached_bytes: self.cached_bytes,
            stall_saved: self.stall_saved,
        }
    }
}

/// The outages that have ended and were not reported yet.
#[derive(Clone, Debug)]
pub(crate) struct EndedOutages<M> {
    ended: VecDeque<Outage<M>>,
    limit: usize,
}

impl<M> EndedOutages<M> {
    /// At the limit the oldest one is lost.
    pub(crate) const fn new(limit: usize) -> Self {
        Self {
            ended: VecDeque::new(),
            limit,
        }
    }

    /// Adds an outage. Returns how many others were lost for it: 0 or 1.
    pub(crate) fn push(&mut self, outage: Outage<M>) -> u64 {
        let is_full = self.ended.len() >= self.limit;
        if is_full {
            self.ended.pop_front();
        }
        self.ended.push_back(outage);
        is_full.into()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ended.is_empty()
    }

    /// The oldest one.
    pub(crate) fn pop(&mut self) -> Option<Outage<M>> {
        let oldest = self.ended.pop_front();
        if self.ended.is_empty() {
            // Many mobiles may have been in one outage.
            self.ended = VecDeque::new();
        }
        oldest
    }
}

/// The time from link up to the sender's next expiry. `timer_at` is the time of its last segment
/// before the outage, or of the first one in it if nothing was in flight.
pub(crate) fn stall_without(timer_at: Instant, rto: Duration, up_at: Instant) -> Duration {
    let mut expiries = expiries(timer_at, rto, RTO_MAX);
    let next = expiries.find(|expiry| *expiry >= up_at);
    next.unwrap_or(up_at).saturating_since(up_at)
}

/// When the link was up again, if only the sender's own retransmission has shown it. It is the middle
/// between the last two expiries before the answer at `answered_at`.
pub(crate) fn likely_up(timer_at: Instant, rto: Duration, answered_at: Instant) -> Instant {
    let past = expiries(timer_at, rto, RTO_MAX).take_while(|expiry| *expiry <= answered_at);
    let last_two = past.fold((timer_at, None), |(before, last), expiry| {
        (last.unwrap_or(before), Some(expiry))
    });
    match last_two {
        (before, Some(last)) => before + last.saturating_since(before) / 2,
        (_, None) => answered_at,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn stall_ms(rto: u64, up_at: u64) -> u128 {
        let timer_at = Instant::from_millis(5_000);
        let up_at = Instant::from_millis(5_000 + up_at);
        stall_without(timer_at, ms(rto), up_at).as_millis()
    }

    #[test]
    fn the_sender_sends_next_at_its_first_backed_off_expiry_after_link_up() {
        // Expiries at 250, 750, 1750, 3750, 7750 and 15750 ms.
        for (up_at, stall) in [
            (0, 250),
            (250, 0),
            (251, 499),
            (3_000, 750),
            (7_000, 750),
            (7_750, 0),
            (7_751, 7_999),
        ] {
            assert_eq!(stall_ms(250, up_at), stall, "link up at {up_at} ms");
        }
    }

    #[test]
    fn from_its_limit_on_the_rto_does_not_grow() {
        // The sixth doubling is limited: 1, 3, 7, 15, 31, 63, then each 60 s more.
        assert_eq!(stall_ms(1_000, 62_000), 1_000);
        assert_eq!(stall_ms(1_000, 64_000), 59_000);
        assert_eq!(stall_ms(1_000, 123_000), 0);
        assert_eq!(stall_ms(1_000, 63_000 + 60_000 * 1_000_000 + 1), 59_999);
    }

    #[test]
    fn a_link_that_only_the_sender_has_tried_was_up_between_its_last_two_tries() {
        let at = Instant::from_millis;
        let up = |answered: u64| likely_up(at(5_000), ms(250), at(5_000 + answered));
        assert_eq!(up(200), at(5_200), "no timer has expired");
        assert_eq!(up(300), at(5_125));
        assert_eq!(up(3_800), at(5_000 + 2_750), "between 1.75 s and 3.75 s");
        let avoidable = stall_without(at(5_000), ms(250), up(3_800));
        assert_eq!(avoidable, ms(1_000), "half of the last interval");
    }

    #[test]
    fn beyond_the_limit_the_oldest_are_lost_and_counted() {
        let mut ended = EndedOutages::new(2);
        let mut lost = 0;
        for mobile in 0..5 {
            lost += ended.push(Outage {
                mobile,
                begin: Instant::ZERO,
                length: ms(1),
                source: LinkSource::Silence,
                flows: 0,
                cached_bytes: 0,
                stall_saved: Duration::ZERO,
            });
        }
        let mobiles: Vec<i32> = core::iter::from_fn(|| ended.pop())
            .map(|outage| outage.mobile)
            .collect();
        assert_eq!((mobiles, lost), (vec![3, 4], 3));
    }

    proptest! {
        /// Against the definition, expiry by expiry.
        #[test]
        fn the_stall_is_that_of_a_timer_that_doubles(rto in 1u64..200_000, up_at in 0u64..20_000_000) {
            let mut interval = rto.clamp(200, 60_000);
            let mut expiry = interval;
            while expiry < up_at {
                interval = (interval * 2).min(60_000);
                expiry += interval;
            }
            prop_assert_eq!(stall_ms(rto, up_at), u128::from(expiry - up_at));
        }

        /// No stall is longer than the sender's longest wait, and no link up is later than what shows it.
        #[test]
        fn what_is_estimated_has_limits(timer_at in 0u64..1 << 60, rto: u64, outage in 0u64..1 << 50) {
            let (timer_at, up_at) = (Instant::from_nanos(timer_at), Instant::from_nanos(timer_at + outage));
            let rto = Duration::from_nanos(rto);
            prop_assert!(stall_without(timer_at, rto, up_at) <= RTO_MAX);
            let likely = likely_up(timer_at, rto, up_at);
            prop_assert!(timer_at <= likely && likely <= up_at);
        }
    }
}
