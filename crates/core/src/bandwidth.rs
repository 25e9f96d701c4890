// SPDX-License-Identifier: Apache-2.0
//! How a cell's capacity is divided, with every scheme (`[bandwidth]`): the estimate of the
//! capacity, the shares by need and weight, and the pacing to a share. The rules are those of the
//! bandwidth management module of M-TCP's supervisor host (Brown and Singh, 1997, 3.1 and 4).

use core::net::IpAddr;
use core::time::Duration;

use holdfast_wire::Instant;

pub use holdfast_settings::bandwidth::{BandwidthSettings, CellSettings};

/// A longer queue on the link shows that the link's capacity is used up.
const QUEUE_STANDS: Duration = Duration::from_millis(25);
/// An estimate grows by this part of it while more is wanted and there is no queue.
const GROWTH: u64 = 16;
/// With a queue the estimate is this part below the delivered rate, so that the queue drains.
const DRAIN: u64 = 16;
/// Bytes that are no queue on a slow link (RFC 8289, 4.4): a segment, and the next one, because the ACK
/// may wait for it (RFC 1122, 4.2.3.2).
const NO_QUEUE_BYTES: u64 = 2 * 1500;
/// A queue longer than this many times [`QUEUE_STANDS`] is drained faster.
const QUEUE_IS_LONG: u32 = 4;
const DRAIN_LONG: u64 = 4;
/// The smallest estimate, in bytes a second.
const ESTIMATE_MIN: u64 = 10_000;

/// The capacity of a cell, estimated from what it has delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimate {
    bytes_per_s: Option<u64>,
}

impl Estimate {
    /// The capacity, once it was measured.
    pub(crate) const fn bytes_per_s(self) -> Option<u64> {
        self.bytes_per_s
    }

    /// `delivered` is the recent rate in bytes a second, `queue` the time that a packet waited in the
    /// link's queue. `wanted`: more was waiting for its pace.
    pub(crate) fn update(&mut self, delivered: u64, queue: Duration, wanted: bool) {
        let before = self.bytes_per_s;
        if queue > QUEUE_STANDS && delivered > 0 {
            let least = before.map_or(0, |rate| rate - rate / DRAIN_LONG);
            self.bytes_per_s = Some(drained(delivered, queue).max(least).max(ESTIMATE_MIN));
        } else if let Some(rate) = before {
            // A flow that was not limited by its pace shows nothing about the capacity.
            let used = wanted && delivered >= rate / 2;
            let grown = if used {
                rate.saturating_add(rate / GROWTH)
            } else {
                rate
            };
            self.bytes_per_s = Some(grown.max(delivered));
        }
    }
}

/// A late timer may catch up by this time.
const CATCH_UP_MAX: Duration = Duration::from_millis(4);
/// No connection waits longer for its turn, however small its share is.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(1);

/// A queue that stands after this many periods of draining is no queue: the path has become
/// longer.
const STANDING_PERIODS_MAX: u32 = 12;

/// Decides which waiting times are a queue of the gateway's own: those while more than the capacity
/// was wanted and nearly the capacity was delivered. After the time to drain a queue they no
/// longer count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StandingQueue {
    periods: u32,
}

impl StandingQueue {
    /// Returns the part of the measured `queue` that must be drained. `None`: the round trip without
    /// a queue has changed.
    pub(crate) fn queue_to_drain(
        &mut self,
        queue: Duration,
        wanted: bool,
        delivered: u64,
        capacity: Option<u64>,
    ) -> Option<Duration> {
        let used = capacity.is_none_or(|rate| wanted && delivered >= rate - rate / 4);
        let nanos = capacity.map_or(0, |rate| NO_QUEUE_BYTES * 1_000_000_000 / rate.max(1));
        let stands = QUEUE_STANDS.max(Duration::from_nanos(nanos));
        if queue <= stands || !used {
            self.periods = 0;
            return Some(Duration::ZERO);
        }
        self.periods += 1;
        if self.periods > STANDING_PERIODS_MAX {
            self.periods = 0;
            return None;
        }
        Some(queue)
    }
}

/// The rate that may be sent of `bytes_per_s` while a packet waits for `queue` in the link's queue:
/// less, until the queue is short.
pub(crate) fn drained(bytes_per_s: u64, queue: Duration) -> u64 {
    if queue <= QUEUE_STANDS {
        bytes_per_s
    } else if queue <= QUEUE_STANDS * QUEUE_IS_LONG {
        bytes_per_s - bytes_per_s / DRAIN
    } else {
        bytes_per_s - bytes_per_s / DRAIN_LONG
    }
}

/// Limits a sender to a rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    at: Instant,
}

impl Pacer {
    /// True if a packet may be sent now.
    pub(crate) fn is_ready(self, now: Instant) -> bool {
        self.at <= now
    }

    /// When the next packet may be sent.
    pub(crate) const fn ready_at(self) -> Instant {
        self.at
    }

    /// `bytes` were sent at `now`; they take their time at `bytes_per_s`, at least 1.
    pub(crate) fn charge(&mut self, bytes: u32, bytes_per_s: u64, now: Instant) {
        let nanos = u64::from(bytes) * 1_000_000_000 / bytes_per_s.max(1);
        let at = self.at.max(now - CATCH_UP_MAX) + Duration::from_nanos(nanos);
        self.at = at.min(now + WAIT_MAX);
    }

    /// `bytes` that were charged were not sent.
    pub(crate) fn refund(&mut self, bytes: u32, bytes_per_s: u64) {
        let nanos = u64::from(bytes) * 1_000_000_000 / bytes_per_s.max(1);
        let saved = Duration::from_nanos(nanos).min(self.at.saturating_since(Instant::ZERO));
        self.at = self.at - saved;
    }

    /// Nothing is sent before `at`.
    pub(crate) fn wait_until(&mut self, at: Instant) {
        self.at = self.at.max(at);
    }
}

/// The share of a connection whose data the gateway sends at its own pace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub pacer: Pacer,
    /// The assigned rate, bytes a second.
    pub assigned: Option<u64>,
    /// It has had a share.
    pub in_cell: bool,
    /// Bytes that the FH has sent since the shares were computed.
    pub offered: u64,
    /// The need when the shares were last computed, bytes a second; `None`: unlimited.
    pub need: Option<u64>,
}

impl Share {
    /// Sets the share.
    pub(crate) const fn assign(&mut self, bytes_per_s: Option<u64>) {
        self.assigned = bytes_per_s;
        self.in_cell |= bytes_per_s.is_some();
    }

    /// `bytes` were sent out of turn.
    pub(crate) fn charge(&mut self, bytes: u32, now: Instant) {
        if let Some(assigned) = self.assigned {
            self.pacer.charge(bytes, assigned, now);
        }
    }

    /// `bytes` that were charged were not sent on the link.
    pub(crate) fn refund(&mut self, bytes: u32) {
        if let Some(assigned) = self.assigned {
            self.pacer.refund(bytes, assigned);
        }
    }

    /// Bytes that the FH has sent since the last call.
    pub(crate) const fn take_offered(&mut self) -> u64 {
        core::mem::replace(&mut self.offered, 0)
    }
}

/// A mobile's part in its cell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CellMember {
    /// The cell, by its index in the settings; none: it is in no cell.
    pub cell: Option<usize>,
    /// The weight of its share.
    pub weight: u32,
    /// It takes part now.
    pub is_active: bool,
    /// Its share, bytes a second.
    pub share: Option<u64>,
    /// Connections that have a part of the share.
    pub sharing_flows: u32,
    /// Bytes that went to it as they came, since the last division.
    pub forwarded_bytes: u64,
    /// Bytes that it has acknowledged, since the last division.
    pub acked_bytes: u64,
}

impl CellMember {
    /// A mobile with this address.
    pub(crate) fn new(settings: &BandwidthSettings, address: IpAddr) -> Self {
        Self {
            cell: settings.cell_of(address),
            weight: settings.weight_of(address),
            ..Self::default()
        }
    }
}

/// The need and the weight of a mobile in a cell, or of a connection of a mobile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// The weight of its share, at least 1.
    pub weight: u32,
    /// The rate that it can use, bytes a second; `None`: unlimited.
    pub bytes_per_s: Option<u64>,
}

/// Max-min shares with weights. No share is larger than its need. A share can grow only at the cost
/// of one that is no larger for its weight. There is one share for each need, in their order. The
/// capacity that no one needs is not assigned.
pub(crate) fn shares(capacity_bytes_per_s: u64, needs: &[Need]) -> Vec<u64> {
    let mut shares = vec![0; needs.len()];
    let weight = |index: usize| u64::from(needs[index].weight.max(1));
    // In the order of need divided by weight: the smallest is satisfied first.
    let per_weight = |index: usize| {
        let need = needs[index].bytes_per_s.map(|need| u128::from(need) << 32);
        need.map_or(u128::MAX, |need| need / u128::from(weight(index)))
    };
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|index| per_weight(*index));
    let mut left = capacity_bytes_per_s;
    let mut weights: u64 = (0..needs.len()).map(weight).sum();
    for index in order {
        let fair = (u128::from(left) * u128::from(weight(index)) / u128::from(weights)) as u64;
        let share = needs[index].bytes_per_s.map_or(fair, |need| need.min(fair));
        shares[index] = share;
        left -= share;
        weights -= weight(index);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Prefix;

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
    fn mobiles_that_take_all_share_by_weight() {
        assert_eq!(shares(900, &[greedy(1), greedy(2)]), [300, 600]);
        assert_eq!(shares(900, &[]), [] as [u64; 0]);
    }

    #[test]
    fn a_queue_is_drained_only_if_three_quarters_of_the_capacity_were_delivered() {
        let queue = Duration::from_millis(30);
        for (delivered, drained) in [(750_000, queue), (749_999, Duration::ZERO)] {
            let part =
                StandingQueue::default().queue_to_drain(queue, true, delivered, Some(1_000_000));
            assert_eq!(part, Some(drained), "{delivered}");
        }
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
    fn without_scarcity_each_mobile_gets_what_it_needs() {
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
            let unsatisfied = |index: &usize| needs[*index].bytes_per_s != Some(shares[*index]);
            for index in (0..needs.len()).filter(unsatisfied) {
                assert!(capacity - total <= needs.len() as u64, "case {case}: idle");
                let level = shares[index] / u64::from(needs[index].weight);
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
    fn an_estimate_finds_the_rate_of_a_link_and_keeps_its_queue_short() {
        // A link of 2.5 MB/s, asked for all that the estimate allows.
        let (mut estimate, mut queue_bytes) = (Estimate::default(), 0_u64);
        let (mut longest, mut least) = (Duration::ZERO, u64::MAX);
        for period in 0..400 {
            let sent = estimate.bytes_per_s().unwrap_or(5_000_000) / 4;
            let carried = (queue_bytes + sent).min(625_000);
            queue_bytes = (queue_bytes + sent - carried).min(300_000);
            let queue = Duration::from_micros(queue_bytes * 10 / 25);
            estimate.update(carried * 4, queue, true);
            if period > 40 {
                longest = longest.max(queue);
                least = least.min(carried * 4);
            }
        }
        assert!(longest < Duration::from_millis(80), "{longest:?}");
        assert!(least > 2_200_000, "{least}");
    }

    /// What remains of an estimate of 2 MB/s after 400 periods of a wait that no drain ends.
    fn after(base: Duration, wanted: bool, delivered: impl Fn(u64) -> u64) -> u64 {
        let (mut estimate, mut standing) = (Estimate::default(), StandingQueue::default());
        estimate.update(2_000_000, Duration::from_millis(50), false);
        let mut known = Duration::ZERO;
        for _ in 0..400 {
            let rate = estimate.bytes_per_s().unwrap();
            let queue = base.saturating_sub(known);
            let taken = standing.queue_to_drain(queue, wanted, delivered(rate), Some(rate));
            if taken.is_none() {
                known = base;
            }
            estimate.update(delivered(rate), taken.unwrap_or_default(), wanted);
        }
        estimate.bytes_per_s().unwrap()
    }

    #[test]
    fn an_estimate_does_not_collapse_for_acks_that_are_late_nor_for_a_path_that_became_longer() {
        let late = after(Duration::from_millis(40), false, |_| 10_000);
        assert!(late >= 1_700_000, "{late}");
        for longer in [60, 300] {
            let longer = after(Duration::from_millis(longer), true, |rate| {
                rate.min(2_000_000)
            });
            assert!(longer >= 1_700_000, "{longer}");
        }
    }

    #[test]
    fn a_mobile_is_in_the_first_cell_that_has_it_and_weighs_what_is_set() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let cell = |mobiles, bytes_per_s| CellSettings {
            mobiles,
            bytes_per_s,
        };
        let settings = BandwidthSettings {
            cells: vec![
                cell(Some(prefix("10.2.0.0/24")), Some(1)),
                cell(Some(prefix("10.2.0.0/16")), None),
            ],
            weights: vec![(prefix("10.2.0.7"), 3)],
        };
        assert_eq!(settings.cell_of(address("10.2.0.7")), Some(0));
        assert_eq!(settings.cell_of(address("10.2.1.7")), Some(1));
        assert_eq!(settings.cell_of(address("10.3.1.7")), None);
        assert_eq!(settings.weight_of(address("10.2.0.7")), 3);
        assert_eq!(settings.weight_of(address("10.2.0.8")), 1);
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
        // After a long pause there is no burst.
        now += Duration::from_secs(5);
        pacer.charge(1000, 100_000, now);
        assert!(!pacer.is_ready(now));
        // What was charged and not sent takes no time.
        let ready_at = pacer.ready_at();
        pacer.charge(1500, 100_000, now);
        pacer.refund(500, 100_000);
        assert_eq!(pacer.ready_at(), ready_at + Duration::from_millis(10));
        // A tiny share blocks no connection.
        pacer.charge(1000, 1, now);
        assert!(pacer.is_ready(now + Duration::from_secs(1)));
    }
}
