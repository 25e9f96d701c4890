// SPDX-License-Identifier: Apache-2.0
//! What is to happen in a test's world: the earliest first, and what happens at one moment in
//! the order in which it was entered.

use std::collections::BTreeMap;

use holdfast_wire::Instant;

pub(super) struct Agenda<E> {
    events: BTreeMap<(Instant, u64), E>,
    serial: u64,
    inputs: u64,
    inputs_max: u64,
}

impl<E> Agenda<E> {
    /// For a case that has at most `inputs_max` inputs: a loop of ACKs would exceed that.
    pub(super) fn of_inputs(inputs_max: u64) -> Self {
        Self {
            events: BTreeMap::new(),
            serial: 0,
            inputs: 0,
            inputs_max,
        }
    }

    pub(super) fn at(&mut self, at: Instant, event: E) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    /// What was to come of this kind does not.
    pub(super) fn forget(&mut self, kind: impl Fn(&E) -> bool) {
        self.events.retain(|_, event| !kind(event));
    }

    /// When the next event is.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.events.keys().next().map(|key| key.0)
    }

    /// The next input of the case is at this moment: an event of then, or else a timer.
    pub(super) fn take(&mut self, at: Instant) -> Option<E> {
        self.inputs += 1;
        assert!(self.inputs < self.inputs_max, "a loop of events");
        let next = self.events.first_entry()?;
        (next.key().0 == at).then(|| next.remove())
    }
}
