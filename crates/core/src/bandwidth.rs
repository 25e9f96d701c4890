// SPDX-License-Identifier: Apache-2.0
//! The bandwidth management module of M-TCP's supervisor host (sections 3.1 and 4): what a
//! cell carries is shared among its connections by their needs, and each is paced to its
//! share.

use core::time::Duration;

use holdfast_wire::Instant;

/// A late timer may catch up by so much, not by more.
const CATCH_UP_MAX: Duration = Duration::from_millis(4);

/// Keeps a sender to a rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    at: Instant,
}

impl Pacer {
    /// Something may go now.
    pub(crate) fn is_ready(self, now: Instant) -> bool {
        self.at <= now
    }

    /// When something may go again.
    pub(crate) const fn ready_at(self) -> Instant {
        self.at
    }

    /// `bytes` went out at `now` and take their time at `bytes_per_s`, at least 1.
    pub(crate) fn charge(&mut self, bytes: u32, bytes_per_s: u64, now: Instant) {
        let nanos = u64::from(bytes) * 1_000_000_000 / bytes_per_s.max(1);
        self.at = self.at.max(now - CATCH_UP_MAX) + Duration::from_nanos(nanos);
    }

    /// Nothing goes before `at`.
    pub(crate) fn wait_until(&mut self, at: Instant) {
        self.at = self.at.max(at);
    }
}

/// What a connection of a cell needs and weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Its share counts so many times; at least 1.
    pub weight: u32,
    /// What it can use, bytes a second; none: whatever it gets.
    pub bytes_per_s: Option<u64>,
}

/// Max-min shares with weights: nobody gets more than it needs, and nobody's share can grow
/// but at the cost of one whose share is no larger for its weight. One share for each need,
/// in their order; what is needed by none is left over.
pub(crate) fn shares(capacity_bytes_per_s: u64, needs: &[Need]) -> Vec<u64> {
    let mut shares = vec![0; needs.len()];
    let weight = |place: usize| u64::from(needs[place].weight.max(1));
    // In the order of what each needs for its weight, who is satisfied first comes first.
    let per_weight = |place: usize| {
        let need = needs[place].bytes_per_s.map(|need| u128::from(need) << 32);
        need.map_or(u128::MAX, |need| need / u128::from(weight(place)))
    };
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|place| per_weight(*place));
    let mut left = capacity_bytes_per_s;
    let mut weights: u64 = (0..needs.len()).map(weight).sum();
    for place in order {
        let fair = (u128::from(left) * u128::from(weight(place)) / u128::from(weights)) as u64;
        let share = needs[place].bytes_per_s.map_or(fair, |need| need.min(fair));
        shares[place] = share;
        left -= share;
        weights -= weight(place);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn need(weight: u32, bytes_per_s: u64) -> Need {
        Need {
            weight,
            bytes_per_s: Some(bytes_per_s),
        }
    }

    const fn greedy(weight: u32) -> Need {
        Need {
            weight,
            bytes_per_s: None,
        }
    }

    #[test]
    fn those_who_take_all_share_by_weight() {
        assert_eq!(shares(900, &[greedy(1), greedy(2)]), [300, 600]);
        assert_eq!(shares(900, &[]), [] as [u64; 0]);
    }

    #[test]
    fn what_one_does_not_need_is_the_others() {
        assert_eq!(
            shares(900, &[greedy(1), need(1, 100), greedy(1)]),
            [400, 100, 400]
        );
        // A heavy one that needs little is satisfied before a light one that needs more.
        assert_eq!(
            shares(900, &[need(1, 400), need(4, 300), greedy(1)]),
            [300, 300, 300]
        );
    }

    #[test]
    fn without_scarcity_everybody_gets_what_it_needs() {
        assert_eq!(shares(900, &[need(1, 100), need(3, 200)]), [100, 200]);
    }

    #[test]
    fn shares_are_max_min_fair_whatever_is_needed() {
        let mut state = 1_u64;
        let mut next = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for case in 0..2000 {
            let needs: Vec<Need> = (0..=next(8))
                .map(|_| {
                    let weight = 1 + next(5) as u32;
                    if next(4) == 0 {
                        greedy(weight)
                    } else {
                        need(weight, next(1_000_000))
                    }
                })
                .collect();
            let capacity = next(3_000_000);
            let shares = shares(capacity, &needs);
            let total: u64 = shares.iter().sum();
            assert!(total <= capacity, "case {case}");
            let unsatisfied = |place: &usize| needs[*place].bytes_per_s != Some(shares[*place]);
            for place in (0..needs.len()).filter(unsatisfied) {
                assert!(capacity - total <= needs.len() as u64, "case {case}: idle");
                let level = shares[place] / u64::from(needs[place].weight);
                for other in 0..needs.len() {
                    let others = shares[other] / u64::from(needs[other].weight);
                    assert!(
                        others <= level + needs.len() as u64,
                        "case {case}: {needs:?} {shares:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_pacer_keeps_to_its_rate_and_catches_up_little() {
        let mut pacer = Pacer::default();
        let mut now = Instant::from_millis(1000);
        let (begin, mut bytes) = (now, 0_u64);
        while bytes < 1_000_000 {
            assert!(pacer.is_ready(now));
            pacer.charge(1000, 100_000, now);
            bytes += 1000;
            now = pacer.ready_at().max(now);
        }
        let elapsed = now.saturating_since(begin).as_millis();
        assert!((9_990..=10_000).contains(&elapsed), "{elapsed}");
        // After a long pause no burst.
        now += Duration::from_secs(5);
        pacer.charge(1000, 100_000, now);
        assert!(!pacer.is_ready(now));
    }
}
