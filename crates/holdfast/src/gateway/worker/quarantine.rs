// SPDX-License-Identifier: Apache-2.0
//! Flows that a defect of ours was found with, and how often that happened.

use std::collections::VecDeque;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_wire::Instant;

/// Flows in quarantine at most; the oldest leaves for another.
const FLOWS_MAX: usize = 64;

/// After this many panics within [`WITHIN`] the worker rests: each costs as much as a restart, so
/// that the gateway soon serves no flow.
const PANICS_MAX: usize = 8;
const WITHIN: Duration = Duration::from_secs(60);

/// For how long everything passes by then.
const REST: Duration = Duration::from_secs(60);

/// What becomes of a flow after a panic with one of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sentence {
    /// The engine meets it again, as after a restart.
    OnceMore,
    /// Its packets pass untouched from now on.
    Passes,
}

/// Flows whose packets pass untouched, and when the panics were.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    flows: VecDeque<FlowKey>,
    /// Flows that would not survive without the engine, and have had one panic.
    once: VecDeque<FlowKey>,
    panics: VecDeque<Instant>,
    rests_until: Option<Instant>,
}

impl Quarantine {
    /// Whether the packets of the flow pass untouched.
    pub(super) fn holds(&self, key: &FlowKey) -> bool {
        !self.flows.is_empty() && self.flows.contains(key)
    }

    /// How many flows it holds.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// A packet of the flow has led to a panic. `needs_engine`: bytes are owed to its ends, or
    /// its halves have different numbers; to pass it untouched breaks it, so that it gets a
    /// second chance: the new engine settles with both ends.
    pub(super) fn judge(&mut self, key: FlowKey, needs_engine: bool) -> Sentence {
        if needs_engine && !self.once.contains(&key) {
            push(&mut self.once, key);
            return Sentence::OnceMore;
        }
        self.once.retain(|one| *one != key);
        if !self.flows.contains(&key) {
            push(&mut self.flows, key);
        }
        Sentence::Passes
    }

    /// There was a panic. True: one too many, everything passes by for a time.
    pub(super) fn note_panic(&mut self, now: Instant) -> bool {
        self.panics.retain(|at| now.saturating_since(*at) < WITHIN);
        self.panics.push_back(now);
        if self.panics.len() < PANICS_MAX {
            return false;
        }
        self.panics.clear();
        self.rests_until = Some(now + REST);
        true
    }

    /// Until when everything passes by, if it does.
    pub(super) fn rest(&mut self, now: Instant) -> Option<Instant> {
        self.rests_until = self.rests_until.filter(|until| now < *until);
        self.rests_until
    }
}

fn push(flows: &mut VecDeque<FlowKey>, key: FlowKey) {
    if flows.len() == FLOWS_MAX {
        flows.pop_front();
    }
    flows.push_back(key);
}

#[cfg(test)]
mod tests {
    use holdfast_wire::Endpoint;

    use super::*;

    fn flow(port: u16) -> FlowKey {
        let end = |last, port| Endpoint {
            address: [10, 0, 0, last].into(),
            port,
        };
        FlowKey {
            fh: end(1, 80),
            mh: end(2, port),
        }
    }

    #[test]
    fn the_oldest_flow_leaves_at_the_limit() {
        let mut quarantine = Quarantine::default();
        for port in 0..=FLOWS_MAX as u16 {
            assert_eq!(quarantine.judge(flow(port), false), Sentence::Passes);
            assert_eq!(quarantine.judge(flow(port), false), Sentence::Passes);
        }
        assert_eq!(quarantine.len(), FLOWS_MAX);
        assert!(!quarantine.holds(&flow(0)) && quarantine.holds(&flow(1)));
    }

    #[test]
    fn a_flow_that_needs_the_engine_has_a_second_chance_and_no_third() {
        let mut quarantine = Quarantine::default();
        assert_eq!(quarantine.judge(flow(1), true), Sentence::OnceMore);
        assert!(!quarantine.holds(&flow(1)));
        assert_eq!(quarantine.judge(flow(1), true), Sentence::Passes);
        assert!(quarantine.holds(&flow(1)));
    }

    #[test]
    fn many_panics_within_a_minute_end_in_a_rest_and_few_do_not() {
        let mut quarantine = Quarantine::default();
        let mut now = Instant::ZERO;
        for _ in 0..100 {
            assert!(!quarantine.note_panic(now));
            now += WITHIN / 4;
        }
        assert_eq!(quarantine.rest(now), None);
        now += WITHIN;
        for count in 1..=PANICS_MAX {
            assert_eq!(quarantine.note_panic(now), count == PANICS_MAX);
        }
        assert_eq!(quarantine.rest(now), Some(now + REST));
        assert_eq!(quarantine.rest(now + REST), None);
        // And then again as at the start.
        assert!(!quarantine.note_panic(now + REST));
    }
}
