// SPDX-License-Identifier: Apache-2.0
//! One heap of deadlines for all flows and mobiles.
//!
//! A packet that moves a deadline back does not touch the heap: when the old deadline is due, the
//! subject gives its new one.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use holdfast_wire::Instant;

use crate::table::{FlowId, MobileId};

/// The earliest of some timers that may be off. The packet path calls it, so it has no branch for each timer.
pub(crate) fn earliest<const N: usize>(timers: [Option<Instant>; N]) -> Option<Instant> {
    /// A timer that does not run: after 584 years.
    const NEVER: u64 = u64::MAX;
    let nanos = timers.map(|timer| timer.map_or(NEVER, Instant::as_nanos));
    let least = nanos.into_iter().fold(NEVER, u64::min);
    (least != NEVER).then(|| Instant::from_nanos(least))
}

/// Room for this number of entries is not given back.
const CAPACITY_KEPT: usize = 256;

/// The owner of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Mobile(MobileId),
    Flow(FlowId),
}

/// The heap. An outdated entry stays in it until it is due.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Subject)>>,
}

/// What a subject remembers of its entry in the heap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scheduled(Option<Instant>);

impl Timers {
    /// Makes sure that `subject` is called at `deadline` or before.
    pub(crate) fn schedule(
        &mut self,
        subject: Subject,
        scheduled: &mut Scheduled,
        deadline: Option<Instant>,
    ) {
        let Some(deadline) = deadline else { return };
        if scheduled.0.is_none_or(|at| deadline < at) {
            scheduled.0 = Some(deadline);
            self.heap.push(Reverse((deadline, subject)));
        }
    }

    /// Calls `subject` at `at`, even if it was to be called earlier.
    pub(crate) fn put_off(&mut self, subject: Subject, scheduled: &mut Scheduled, at: Instant) {
        scheduled.0 = Some(at);
        self.heap.push(Reverse((at, subject)));
    }

    /// Takes the next subject that is due at `now`, with the deadline it was
    /// entered for.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, Subject)> {
        if self.heap.peek()?.0.0 > now {
            return None;
        }
        self.heap.pop().map(|Reverse(due)| due)
    }

    /// Gives back room that is not used.
    pub(crate) fn shrink(&mut self) {
        if self.heap.capacity() > CAPACITY_KEPT && self.heap.len() < self.heap.capacity() / 4 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }

    /// When to call next.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }
}

impl Scheduled {
    /// An entry is in the heap.
    pub(crate) const fn is_set(self) -> bool {
        self.0.is_some()
    }

    /// The newest entry is due at `now`.
    pub(crate) fn is_due(self, now: Instant) -> bool {
        self.0.is_some_and(|at| at <= now)
    }

    /// The entry for `at` was popped: `true` if it is the subject's newest.
    pub(crate) fn popped(&mut self, at: Instant) -> bool {
        if self.0 == Some(at) {
            self.0 = None;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Id, Slot};

    #[test]
    fn an_earlier_deadline_replaces_a_later_one() {
        let (mut timers, mut scheduled) = (Timers::default(), Scheduled::default());
        let subject = Subject::Flow(FlowId::new(Slot::default()));
        let at = Instant::from_millis;
        timers.schedule(subject, &mut scheduled, Some(at(100)));
        timers.schedule(subject, &mut scheduled, Some(at(200)));
        timers.schedule(subject, &mut scheduled, Some(at(50)));
        assert_eq!(timers.next(), Some(at(50)));
        assert_eq!(timers.pop_due(at(49)), None);
        let (due, _) = timers.pop_due(at(50)).unwrap();
        assert!(scheduled.popped(due));
        let (due, _) = timers.pop_due(at(100)).unwrap();
        assert!(!scheduled.popped(due), "the old entry is stale");
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_timer_is_due_at_its_time_and_not_before() {
        let (mut timers, mut scheduled) = (Timers::default(), Scheduled::default());
        let subject = Subject::Flow(FlowId::new(Slot::default()));
        let at = Instant::from_millis;
        assert!(!scheduled.is_set() && !scheduled.is_due(at(100)));
        timers.schedule(subject, &mut scheduled, None);
        assert!(!scheduled.is_set());
        timers.schedule(subject, &mut scheduled, Some(at(100)));
        assert!(scheduled.is_set());
        assert!(!scheduled.is_due(at(99)) && scheduled.is_due(at(100)));
        // It is in the heap once.
        timers.schedule(subject, &mut scheduled, Some(at(100)));
        assert_eq!(timers.heap.len(), 1);
        // The old entry is not its newest.
        timers.put_off(subject, &mut scheduled, at(300));
        let due = core::iter::from_fn(|| timers.pop_due(at(300)));
        let newest: Vec<_> = due.map(|(at, _)| scheduled.popped(at)).collect();
        assert_eq!(newest, [false, true]);
        assert!(!scheduled.is_set());
    }

    #[test]
    fn the_earliest_of_timers_that_run_is_next() {
        let at = Instant::from_millis;
        assert_eq!(earliest([None, None]), None);
        assert_eq!(earliest([Some(at(7)), None, Some(at(5))]), Some(at(5)));
    }

    #[test]
    fn room_of_a_heap_that_was_full_is_given_back() {
        let mut timers = Timers::default();
        let subject = Subject::Flow(FlowId::new(Slot::default()));
        let fill = |timers: &mut Timers, entries: usize| {
            for _ in 0..entries {
                timers.put_off(subject, &mut Scheduled::default(), Instant::ZERO);
            }
        };
        fill(&mut timers, CAPACITY_KEPT);
        timers.heap.clear();
        timers.shrink();
        assert_eq!(timers.heap.capacity(), CAPACITY_KEPT, "little is kept");
        fill(&mut timers, 4 * CAPACITY_KEPT);
        let full = timers.heap.capacity();
        while timers.heap.len() >= full / 4 {
            timers.shrink();
            assert_eq!(timers.heap.capacity(), full, "a quarter is in use");
            timers.heap.pop();
        }
        timers.shrink();
        assert!(timers.heap.capacity() < full);
        assert!(timers.heap.capacity() >= timers.heap.len() * 2);
        assert_eq!(timers.heap.len(), full / 4 - 1);
    }
}
