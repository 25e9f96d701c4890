// SPDX-License-Identifier: Apache-2.0
//! How much a link can carry by a given time, exactly.
//!
//! All rates are one function C(t): what the link can have carried from time
//! zero to `t`, in units of a billionth of a bit, so that a rate of `r` bit/s
//! gives exactly `r` units each nanosecond. A packet that starts at `s` needs
//! `bits * 10^9` units and has left at the first `t` with `C(t) >= C(s) + need`.
//! The next packet goes on from that sum, not from `C(t)`: no rounding adds up,
//! however long the link stays busy.

use std::sync::Arc;

use holdfast_wire::Instant;

/// A billionth of a bit.
pub(crate) type NanoBits = u128;

/// What `len_bytes` need.
pub(crate) fn need(len_bytes: u64) -> NanoBits {
    NanoBits::from(len_bytes) * 8 * 1_000_000_000
}

/// The size of a delivery opportunity in a mahimahi trace, in bytes.
pub(crate) const OPPORTUNITY_BYTES: u64 = 1500;

/// What a link can carry, as a function of time.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// A packet takes no time to send.
    Unlimited,
    /// The same rate at all times, in bit/s, above 0.
    Constant(u64),
    /// A rate for each step of time, repeated without end.
    Steps(Arc<Steps>),
    /// Points in time at which 1500 bytes can leave (mahimahi), repeated without
    /// end.
    Opportunities(Arc<Opportunities>),
}

/// Steps of constant rate, repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    ends_ns: Vec<u64>,
    bits_per_s: Vec<u64>,
    /// C at each step's end, within one period.
    sums: Vec<NanoBits>,
}

impl Steps {
    /// From `(end in ns, bit/s)`; ends rise strictly and one rate is above 0.
    pub(crate) fn new(steps: &[(u64, u64)]) -> Self {
        let (mut sum, mut begin_ns, mut sums) = (0, 0, Vec::with_capacity(steps.len()));
        for &(end_ns, rate) in steps {
            sum += NanoBits::from(rate) * NanoBits::from(end_ns - begin_ns);
            sums.push(sum);
            begin_ns = end_ns;
        }
        let (ends_ns, bits_per_s) = steps.iter().copied().unzip();
        Self {
            ends_ns,
            bits_per_s,
            sums,
        }
    }

    fn period_ns(&self) -> u64 {
        self.ends_ns.last().copied().unwrap_or(1)
    }

    fn total(&self) -> NanoBits {
        self.sums.last().copied().unwrap_or(1)
    }

    /// Begin of step `i` and C there, within one period.
    fn begin(&self, i: usize) -> (u64, NanoBits) {
        i.checked_sub(1)
            .map_or((0, 0), |p| (self.ends_ns[p], self.sums[p]))
    }

    fn units_by(&self, t_ns: u64) -> NanoBits {
        let (periods, rest) = (t_ns / self.period_ns(), t_ns % self.period_ns());
        let i = self.ends_ns.partition_point(|&end| end <= rest);
        let (begin_ns, sum) = self.begin(i);
        NanoBits::from(periods) * self.total()
            + sum
            + NanoBits::from(self.bits_per_s[i]) * NanoBits::from(rest - begin_ns)
    }

    fn time_of(&self, units: NanoBits) -> u128 {
        let (periods, rest) = periods_and_rest(units, self.total());
        let i = self.sums.partition_point(|&sum| sum < rest);
        let (begin_ns, sum) = self.begin(i);
        let within = (rest - sum).div_ceil(NanoBits::from(self.bits_per_s[i]));
        periods * u128::from(self.period_ns()) + u128::from(begin_ns) + within
    }

    /// Each step's end in ns and its rate in bit/s.
    pub(crate) fn ends_and_rates(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ends_ns
            .iter()
            .copied()
            .zip(self.bits_per_s.iter().copied())
    }

    /// The stretches without any capacity, within one period, as (begin, end).
    pub(crate) fn gaps_ns(&self) -> Vec<(u64, u64)> {
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        for (i, &end) in self
            .ends_ns
            .iter()
            .enumerate()
            .filter(|&(i, _)| self.bits_per_s[i] == 0)
        {
            let begin = self.begin(i).0;
            match gaps.last_mut() {
                Some(last) if last.1 == begin => last.1 = end,
                _ => gaps.push((begin, end)),
            }
        }
        gaps
    }

    /// The time after which the steps repeat, in ns.
    pub(crate) fn repeats_after_ns(&self) -> u64 {
        self.period_ns()
    }

    /// The same trace, entered at `start_ns` of its period.
    fn starting_at(&self, start_ns: u64) -> Self {
        let period_ns = self.period_ns();
        let start_ns = start_ns % period_ns;
        let all = || {
            self.ends_ns
                .iter()
                .copied()
                .zip(self.bits_per_s.iter().copied())
        };
        let after = all().filter(|&(end, _)| end > start_ns);
        let after = after.map(|(end, rate)| (end - start_ns, rate));
        let before = all().filter(|&(end, _)| end <= start_ns);
        let before = before.map(|(end, rate)| (end + period_ns - start_ns, rate));
        let mut steps: Vec<(u64, u64)> = after.chain(before).collect();
        // The step in which it starts is cut in two.
        if steps.last().is_none_or(|&(end, _)| end < period_ns)
            && let Some((_, rate)) = all().find(|&(end, _)| end > start_ns)
        {
            steps.push((period_ns, rate));
        }
        Self::new(&steps)
    }
}

/// Splits so that the rest is above 0: the end of a period belongs to it.
fn periods_and_rest(units: NanoBits, total: NanoBits) -> (u128, NanoBits) {
    let periods = (units - 1) / total;
    (periods, units - periods * total)
}

/// Delivery opportunities, repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Opportunities {
    /// Never falling; the last one is the period and above 0.
    at_ns: Vec<u64>,
    /// After this time it starts again.
    period_ns: u64,
}

impl Opportunities {
    /// From times in ns that never fall, the last one above 0.
    pub(crate) fn new(at_ns: Vec<u64>) -> Self {
        let period_ns = at_ns.last().copied().unwrap_or(1);
        Self { at_ns, period_ns }
    }

    /// The same trace, entered at `start_ns` of its period.
    fn starting_at(&self, start_ns: u64) -> Self {
        let period_ns = self.period_ns;
        let start_ns = start_ns % period_ns;
        let before = self.at_ns.partition_point(|&at| at <= start_ns);
        let (before, after) = self.at_ns.split_at(before);
        let after = after.iter().map(|at| at - start_ns);
        let before = before.iter().map(|at| at + period_ns - start_ns);
        Self {
            at_ns: after.chain(before).collect(),
            period_ns,
        }
    }

    /// The time after which the opportunities repeat, in ns.
    pub(crate) fn repeats_after_ns(&self) -> u64 {
        self.period_ns
    }

    /// The opportunities of one period, in ns.
    pub(crate) fn times_ns(&self) -> &[u64] {
        &self.at_ns
    }

    fn units_by(&self, t_ns: u64) -> NanoBits {
        let period = self.repeats_after_ns();
        let passed = self.at_ns.partition_point(|&at| at <= t_ns % period);
        let count = u128::from(t_ns / period) * self.at_ns.len() as u128 + passed as u128;
        count * need(OPPORTUNITY_BYTES)
    }

    fn time_of(&self, units: NanoBits) -> u128 {
        let index = units.div_ceil(need(OPPORTUNITY_BYTES)) - 1;
        let count = self.at_ns.len() as u128;
        let at = self.at_ns[(index % count) as usize];
        (index / count) * u128::from(self.repeats_after_ns()) + u128::from(at)
    }
}

impl Capacity {
    /// The same capacity from `start_ns` of its trace on; without a trace it does not change.
    pub(crate) fn starting_at(&self, start_ns: u64) -> Self {
        match self {
            Self::Unlimited | Self::Constant(_) => self.clone(),
            Self::Steps(steps) => Self::Steps(Arc::new(steps.starting_at(start_ns))),
            Self::Opportunities(trace) => {
                Self::Opportunities(Arc::new(trace.starting_at(start_ns)))
            }
        }
    }

    /// Bytes that can be carried from `from` to `until`; none without a limit.
    pub fn bytes_between(&self, from: Instant, until: Instant) -> Option<u64> {
        let units = self.units_by(until).saturating_sub(self.units_by(from));
        let is_limited = !matches!(self, Self::Unlimited);
        is_limited.then(|| u64::try_from(units / need(1)).unwrap_or(u64::MAX))
    }

    /// C(t). Zero at all times for [`Capacity::Unlimited`], which needs none.
    pub(crate) fn units_by(&self, t: Instant) -> NanoBits {
        match self {
            Self::Unlimited => 0,
            Self::Constant(rate) => NanoBits::from(*rate) * NanoBits::from(t.as_nanos()),
            Self::Steps(steps) => steps.units_by(t.as_nanos()),
            Self::Opportunities(opportunities) => opportunities.units_by(t.as_nanos()),
        }
    }

    /// The first time with `C(t) >= units`; the end of time if there is none.
    /// The start of time for [`Capacity::Unlimited`].
    pub(crate) fn time_of(&self, units: NanoBits) -> Instant {
        if units == 0 {
            return Instant::ZERO;
        }
        let t_ns = match self {
            Self::Unlimited => 0,
            Self::Constant(rate) => units.div_ceil(NanoBits::from(*rate)),
            Self::Steps(steps) => steps.time_of(units),
            Self::Opportunities(opportunities) => opportunities.time_of(units),
        };
        Instant::from_nanos(u64::try_from(t_ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn steps() -> Capacity {
        // 1 s of 10 Mb/s, 1 s of nothing, 2 s of 1 Mb/s.
        Capacity::Steps(Arc::new(Steps::new(&[
            (S, 10_000_000),
            (2 * S, 0),
            (4 * S, 1_000_000),
        ])))
    }

    #[test]
    fn a_step_of_rate_zero_is_passed_over() {
        let steps = steps();
        let first_second = need(10_000_000 / 8);
        assert_eq!(steps.time_of(first_second), Instant::from_nanos(S));
        assert_eq!(
            steps.time_of(first_second + 1),
            Instant::from_nanos(2 * S + 1)
        );
        assert_eq!(steps.units_by(Instant::from_nanos(S + S / 2)), first_second);
    }

    #[test]
    fn steps_repeat_after_the_last_end() {
        let steps = steps();
        let period = need(12_000_000 / 8);
        assert_eq!(steps.time_of(period), Instant::from_nanos(4 * S));
        assert_eq!(
            steps.time_of(3 * period + need(5_000_000 / 8)),
            Instant::from_nanos(12 * S + S / 2)
        );
    }

    #[test]
    fn opportunities_repeat_and_several_may_share_a_time() {
        let trace = Capacity::Opportunities(Arc::new(Opportunities::new(vec![
            5_000_000, 5_000_000, 20_000_000,
        ])));
        let at =
            |packets: u128| trace.time_of(packets * need(OPPORTUNITY_BYTES)).as_nanos() / 1_000_000;
        assert_eq!([1, 2, 3, 4, 5, 6, 7].map(at), [5, 5, 20, 25, 25, 40, 45]);
    }

    #[test]
    fn a_trace_that_is_entered_later_goes_on_as_it_would_have() {
        let opportunities = vec![5_000_000, 5_000_000, 20_000_000];
        let opportunities = Capacity::Opportunities(Arc::new(Opportunities::new(opportunities)));
        for (trace, period_ns) in [(steps(), 4 * S), (opportunities, 20_000_000)] {
            for start_ns in [
                0,
                period_ns / 4,
                period_ns / 3,
                period_ns - 1,
                5 * period_ns / 2,
            ] {
                let late = trace.starting_at(start_ns);
                let start = Instant::from_nanos(start_ns);
                for t_ns in (0..4 * period_ns).step_by(period_ns as usize / 40) {
                    let whole = trace.units_by(Instant::from_nanos(start_ns + t_ns));
                    let t = Instant::from_nanos(t_ns);
                    assert_eq!(
                        late.units_by(t),
                        whole - trace.units_by(start),
                        "{start_ns} {t_ns}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn time_of_is_the_first_time_that_has_carried_enough(
            steps in prop::collection::vec((1u64..5_000_000_000, prop_oneof![Just(0u64), 1u64..2_000_000_000]), 1..12),
            units in 1u128..1_000_000_000_000_000_000_000,
        ) {
            let mut end = 0;
            let steps: Vec<(u64, u64)> = steps.into_iter().map(|(len, rate)| { end += len; (end, rate) }).collect();
            prop_assume!(steps.iter().any(|&(_, rate)| rate > 0));
            let capacity = Capacity::Steps(Arc::new(Steps::new(&steps)));
            let t = capacity.time_of(units);
            prop_assume!(t.as_nanos() < u64::MAX);
            prop_assert!(capacity.units_by(t) >= units);
            prop_assert!(capacity.units_by(Instant::from_nanos(t.as_nanos() - 1)) < units);
        }
    }
}
