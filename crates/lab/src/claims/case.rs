// SPDX-License-Identifier: Apache-2.0
//! The values that a rule judges: it reduces and compares runs, and gives one value for each
//! combination of the other parameters.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::rule::{Along, Compare, Equation, Quantity, Reduce, Rule};
use crate::results::{ResultLine, Same, grouped, same};
use crate::scenario::Parameters;
use crate::statistics::{Mean, median};

/// Several runs, reduced to one value.
#[derive(Clone, Copy)]
struct Side {
    value: f64,
    half_width: Option<f64>,
}

/// One combination of the parameters that are not compared.
pub(super) struct Case {
    pub(super) parameters: Parameters,
    /// The two values that are compared; none: no run, or no run that finished.
    pub(super) sides: [Option<f64>; 2],
    /// The result of the comparison; none: it cannot be computed.
    pub(super) value: Option<f64>,
    /// One of the two sides has no run here.
    pub(super) lacks_runs: bool,
}

impl Case {
    /// Whether there is nothing to compare: neither side has a finite value.
    pub(super) fn is_empty(&self) -> bool {
        let none = |side: &Option<f64>| side.is_none_or(f64::is_infinite);
        self.value.is_none() && self.sides.iter().all(none)
    }
}

/// The values of all combinations.
pub(super) fn cases(rule: &Rule, lines: &[&ResultLine]) -> Vec<Case> {
    Reduced(rule).cases(lines)
}

/// Reduces runs by a rule.
#[derive(Clone, Copy)]
struct Reduced<'a>(&'a Rule);

impl Reduced<'_> {
    /// The values of all combinations.
    fn cases(self, lines: &[&ResultLine]) -> Vec<Case> {
        let mut groups: BTreeMap<(String, u64), Vec<&ResultLine>> = BTreeMap::new();
        for line in lines {
            let others = self.others(line);
            let is_alone = self.0.reduce == Reduce::Each;
            let seed = if is_alone { line.seed } else { 0 };
            let key = (json!(others).to_string(), seed);
            groups.entry(key).or_default().push(line);
        }
        let cases = groups.into_values().flat_map(|group| self.compared(&group));
        let cases: Vec<Case> = cases.collect();
        let compare = self.0.compare.as_ref();
        match compare.and_then(|compare| compare.along.as_ref()) {
            Some(along) => cases_along(along, &cases),
            None => cases,
        }
    }

    fn others(self, line: &ResultLine) -> Parameters {
        let mut others = line.parameters.clone();
        if let Some(compare) = &self.0.compare {
            others.remove(&compare.parameter);
        }
        others
    }

    /// The cases of one group: its runs have equal values of all parameters but the compared one.
    fn compared(self, group: &[&ResultLine]) -> Vec<Case> {
        let parameters = self.others(group[0]);
        let Some(compare) = &self.0.compare else {
            let side = self.side(group, f64::INFINITY).map(|side| side.value);
            let value = side.filter(|value| value.is_finite());
            return vec![Case {
                parameters,
                sides: [side, None],
                value,
                lacks_runs: false,
            }];
        };
        let runs = |value: &Json| -> Vec<&ResultLine> {
            let has = |line: &&&ResultLine| line.is(&compare.parameter, value);
            group.iter().filter(has).copied().collect()
        };
        let mut pairs = Vec::new();
        for first in values(compare, group, compare.value.as_ref(), None) {
            for second in values(compare, group, compare.with.as_ref(), Some(&first)) {
                pairs.push([first.clone(), second]);
            }
        }
        let cases = pairs.iter().map(|pair| {
            let runs = [runs(&pair[0]), runs(&pair[1])];
            let sides = [0, 1].map(|index| self.side(&runs[index], f64::NAN));
            // The equation is about one outage: runs with different numbers of outages are not
            // comparable.
            let mut outages = runs.iter().flatten().map(|line| line.stalls_s.len());
            let first = outages.next();
            let is_comparable =
                compare.equation.is_none() || outages.all(|outages| Some(outages) == first);
            Case {
                parameters: parameters.clone(),
                sides: sides.map(|side| side.map(|side| side.value)),
                value: sides[0]
                    .zip(sides[1])
                    .filter(|_| is_comparable)
                    .and_then(|(a, b)| compared(compare.by, a, b)),
                lacks_runs: runs.iter().any(Vec::is_empty),
            }
        });
        cases.collect()
    }

    /// Reduces several runs to one value. In a median a run without a rank (`Metric::rank`) counts
    /// as `without`; if that is NaN, the run is left out.
    fn side(self, runs: &[&ResultLine], without: f64) -> Option<Side> {
        let alone = |value: f64| Side {
            value,
            half_width: None,
        };
        let values = runs.iter().filter_map(|line| self.0.metric.of(line));
        match self.0.reduce {
            // Any two runs are compared here: an unfinished one counts as infinite, so it differs
            // from a finished one.
            Reduce::Each
                if self
                    .0
                    .compare
                    .as_ref()
                    .is_some_and(|compare| compare.value.is_none()) =>
            {
                self.0.metric.rank(runs.first()?).map(alone)
            }
            Reduce::Each => self.0.metric.of(runs.first()?).map(alone),
            Reduce::Median => {
                let ranks = runs.iter().filter_map(|line| {
                    let rank = self.0.metric.rank(line);
                    rank.or((!without.is_nan()).then_some(without))
                });
                median(ranks.collect()).map(alone)
            }
            Reduce::Mean => Mean::of(&values.collect::<Vec<_>>()).map(|mean| Side {
                value: mean.value,
                half_width: mean.half_width,
            }),
            Reduce::Interval => Mean::of(&values.collect::<Vec<_>>())?.half_width.map(alone),
        }
    }
}

impl Compare {
    /// Whether the run belongs to one of the two sides.
    pub(super) fn is_about(&self, line: &ResultLine) -> bool {
        match (&self.value, &self.with) {
            (Some(first), Some(second)) => [first, second]
                .into_iter()
                .any(|value| line.is(&self.parameter, value)),
            _ => true,
        }
    }
}

/// The value that the rule names; otherwise each value in the group but `except`.
fn values(
    compare: &Compare,
    group: &[&ResultLine],
    named: Option<&Json>,
    except: Option<&Json>,
) -> Vec<Json> {
    if let Some(named) = named {
        return vec![named.clone()];
    }
    let values = group
        .iter()
        .filter_map(|line| line.parameters.get(&compare.parameter));
    let values = values.filter(|value| except.is_none_or(|except| !same(except, value)));
    let groups = grouped(values, |value| Same(value)).into_iter();
    groups.map(|(Same(value), _)| value.clone()).collect()
}

/// The result of comparing two sides; none: it cannot be computed.
fn compared(by: Quantity, first: Side, second: Side) -> Option<f64> {
    let (a, b) = (first.value, second.value);
    let times = match (a.is_infinite() && b.is_infinite(), a.total_cmp(&b).is_eq()) {
        (true, _) => None,
        // Equal values, also if both are 0.
        (_, true) => Some(1.0),
        // A value above 0 is infinitely many times 0.
        _ if b == 0.0 => Some(f64::INFINITY).filter(|_| a > 0.0),
        _ => Some(a / b),
    };
    match by {
        Quantity::Times => times,
        Quantity::Gain => times.map(|times| (times - 1.0) * 100.0),
        Quantity::Saving => times.map(|times| (1.0 - times) * 100.0),
        Quantity::Difference => Some(a - b).filter(|apart| apart.is_finite()),
        Quantity::Separation => {
            let reach = first.half_width? + second.half_width?;
            let apart = a - b;
            Some(if apart == 0.0 { 0.0 } else { apart / reach })
        }
    }
}

/// Divides the outcome at `along.to` by the outcome at `along.from`, for equal other parameters.
fn cases_along(along: &Along, cases: &[Case]) -> Vec<Case> {
    let rest = |case: &Case| {
        let mut rest = case.parameters.clone();
        rest.remove(&along.parameter);
        rest
    };
    let at = |case: &&Case, wanted: &Json| {
        let value = case.parameters.get(&along.parameter);
        value.is_some_and(|value| same(value, wanted))
    };
    let from = cases.iter().filter(|case| at(case, &along.from));
    let quotients = from.filter_map(|one| {
        let mut to = cases.iter().filter(|case| at(case, &along.to));
        let other = to.find(|other| rest(other) == rest(one))?;
        Some(Case {
            parameters: rest(one),
            sides: [other.value, one.value],
            value: other.value.zip(one.value).map(|(to, from)| to / from),
            lacks_runs: other.lacks_runs || one.lacks_runs,
        })
    });
    quotients.collect()
}

impl Case {
    /// W²/8 + W lg W − 5W/4 + 1.
    fn segments(window: f64) -> f64 {
        window * window / 8.0 + window * libm::log2(window) - 1.25 * window + 1.0
    }

    pub(super) fn divide(&mut self, equation: &Equation) {
        let window = self.parameters.get(&equation.window).and_then(Json::as_f64);
        let expected = window.map(Self::segments);
        let measured = self.value.map(|seconds| seconds / equation.segment_s);
        self.sides = [measured, expected];
        self.value = measured
            .zip(expected)
            .map(|(measured, expected)| measured / expected);
    }
}

/// Combines the cases with equal values of the parameters `per`: into their mean if `reduce` is the
/// mean, otherwise into their median.
pub(super) fn pooled(per: &[String], reduce: Reduce, cases: Vec<Case>) -> Vec<Case> {
    let pool = |values: Vec<f64>| match reduce {
        Reduce::Mean => Mean::of(&values).map(|mean| mean.value),
        _ => median(values),
    };
    let mut pools: BTreeMap<String, (Parameters, Vec<Case>)> = BTreeMap::new();
    for case in cases {
        let mut parameters = case.parameters.clone();
        parameters.retain(|name, _| per.contains(name));
        let key = json!(parameters).to_string();
        let pool = pools.entry(key).or_insert_with(|| (parameters, Vec::new()));
        pool.1.push(case);
    }
    let pools = pools.into_values().map(|(parameters, cases)| {
        let side = |index: usize| pool(cases.iter().filter_map(|case| case.sides[index]).collect());
        Case {
            sides: [side(0), side(1)],
            value: pool(cases.iter().filter_map(|case| case.value).collect()),
            lacks_runs: cases.iter().any(|case| case.lacks_runs),
            parameters,
        }
    });
    pools.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equation_is_what_the_window_lacks_until_it_is_as_wide_again() {
        // W = 8, by figure 4: the windows 1, 2, 4, 5, 6, 7 lack 7 + 6 + 4 + 3 + 2 + 1 segments.
        assert!((Case::segments(8.0) - 23.0).abs() < 1e-9);
        assert!((Case::segments(64.0) - (512.0 + 384.0 - 80.0 + 1.0)).abs() < 1e-9);
    }
}
