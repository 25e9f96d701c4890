// SPDX-License-Identifier: Apache-2.0
//! When a link delivered its first packet after each outage.

use std::collections::VecDeque;

use holdfast_wire::Instant;

/// Most outages that are noted: the first ones of a link that runs for days.
const OUTAGES_MAX: usize = 10_000;

/// Outages that have ended, and what arrived first after them.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// The ends of outages after which no packet has arrived yet.
    ends: VecDeque<Instant>,
    first_arrivals: Vec<Instant>,
}

impl Returns {
    pub(super) fn on_outage_end(&mut self, at: Instant) {
        if self.first_arrivals.len() + self.ends.len() < OUTAGES_MAX {
            self.ends.push_back(at);
        }
    }

    /// Arrivals come in the order of their times.
    pub(super) fn on_arrival(&mut self, at: Instant) {
        let ended = self.ends.partition_point(|end| *end <= at);
        if self.ends.drain(..ended).next_back().is_some() {
            self.first_arrivals.push(at);
        }
    }

    pub(super) fn first_arrivals(&self) -> impl Iterator<Item = Instant> {
        self.first_arrivals.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_arrivals(ends_ms: &[u64], arrivals_ms: &[u64]) -> Vec<u64> {
        let mut returns = Returns::default();
        for end in ends_ms {
            returns.on_outage_end(Instant::from_millis(*end));
        }
        for at in arrivals_ms {
            returns.on_arrival(Instant::from_millis(*at));
        }
        let first = returns.first_arrivals();
        first
            .map(|at| at.saturating_since(Instant::ZERO).as_millis() as u64)
            .collect()
    }

    #[test]
    fn the_first_arrival_after_each_outage_counts_once() {
        assert_eq!(
            first_arrivals(&[100, 500], &[50, 150, 160, 700, 800]),
            [150, 700]
        );
    }

    #[test]
    fn an_outage_that_nothing_follows_before_the_next_has_no_arrival() {
        assert_eq!(first_arrivals(&[100, 500], &[700]), [700]);
        assert!(first_arrivals(&[100], &[50]).is_empty());
    }

    #[test]
    fn a_packet_that_arrives_with_the_end_counts() {
        assert_eq!(first_arrivals(&[100], &[100]), [100]);
    }

    #[test]
    fn there_is_a_limit() {
        let mut returns = Returns::default();
        for ms in 0..20_000 {
            returns.on_outage_end(Instant::from_millis(ms));
            returns.on_arrival(Instant::from_millis(ms));
        }
        assert_eq!(returns.first_arrivals().count(), OUTAGES_MAX);
    }
}
