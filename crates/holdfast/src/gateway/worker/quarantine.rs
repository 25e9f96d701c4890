// SPDX-License-Identifier: Apache-2.0
//! Flows with packets that caused a panic, and the number of recent panics.

use std::collections::VecDeque;
use std::time::Duration;

use holdfast_core::FlowKey;
use holdfast_wire::Instant;

/// The limit of flows in quarantine; a further flow replaces the oldest.
const FLOWS_MAX: usize = 64;

/// After this many panics within [`WITHIN`] the worker rests. A panic costs as much as a restart:
/// with many panics the gateway would serve no flow.
const PANICS_MAX: usize = 8;
const WITHIN: Duration = Duration::from_secs(60);

/// All packets pass for this time.
const REST: Duration = Duration::from_secs(60);

/// What becomes of a flow after a panic with one of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sentence {
    /// The new engine tracks it, as after a restart.
    Retry,
    /// Its packets pass untouched from now on.
    Passes,
}

/// Flows whose packets pass untouched, and the times of recent panics.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    flows: VecDeque<FlowKey>,
    /// Flows that would break without the engine, and have had one panic.
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

    /// Judges a flow after a packet of it has led to a panic. `needs_engine`: bytes are owed to its ends, or
    /// its halves have different sequence numbers. To pass would break such a flow: it gets a second
    /// chance with the new engine.
    pub(super) fn judge(&mut self, key: FlowKey, needs_engine: bool) -> Sentence {
        if needs_engine && !self.once.contains(&key) {
            push(&mut self.once, key);
            return Sentence::Retry;
        }
        self.once.retain(|one| *one != key);
        if !self.flows.contains(&key) {
            push(&mut self.flows, key);
        }
        Sentence::Passes
    }

    /// Counts a panic. True if it was one too many: all packets pass for a time.
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

    /// The time until which all packets pass, if they do.
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
        assert_eq!(quarantine.judge(flow(1), true), Sentence::Retry);
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
