// SPDX-License-Identifier: Apache-2.0
//! Rules about means and their 95% confidence intervals. Runs that did not finish are left
//! out, as M-TCP's authors left them out, and counted in the reason.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::Found;
use crate::claims::file::{Metric, Rule, Spread};
use crate::claims::verdict::{same, word};
use crate::statistics::{Mean, Standing};
use crate::results::ResultLine;

/// Two values of a parameter, and the metric to compare them by.
#[derive(Clone, Copy)]
struct Pair<'a> {
    metric: Metric,
    parameter: &'a str,
    better: &'a Json,
    than: &'a Json,
}

/// The means of both values where all other parameters are the same.
struct Compared {
    others: serde_json::Map<String, Json>,
    better: Option<Mean>,
    than: Option<Mean>,
    left_out: usize,
}

impl Pair<'_> {
    fn compare(self, lines: &[&ResultLine]) -> Vec<Compared> {
        let mut groups: BTreeMap<String, Vec<&ResultLine>> = BTreeMap::new();
        for line in lines {
            let others = self.others(line);
            groups
                .entry(json!(others).to_string())
                .or_default()
                .push(line);
        }
        let compared = groups.into_values().map(|lines| {
            let of = |wanted: &Json| {
                let has = |line: &&&ResultLine| {
                    let value = line.parameters.get(self.parameter);
                    value.is_some_and(|value| same(value, wanted))
                };
                let values = lines.iter().filter(has).map(|line| self.metric.of(line));
                let values: Vec<Option<f64>> = values.collect();
                let came: Vec<f64> = values.iter().copied().flatten().collect();
                (Mean::of(&came), values.len() - came.len())
            };
            let ((better, out), (than, out_too)) = (of(self.better), of(self.than));
            Compared {
                others: self.others(lines[0]),
                better,
                than,
                left_out: out + out_too,
            }
        });
        compared.collect()
    }

    fn others(self, line: &ResultLine) -> serde_json::Map<String, Json> {
        let mut others = line.parameters.clone();
        others.remove(self.parameter);
        others
    }
}

pub(super) fn found(rule: &Rule, lines: &[&ResultLine]) -> Found {
    match rule {
        Rule::AtMost {
            metric,
            parameter,
            better,
            than,
            times,
            of,
            share,
        } => {
            let pair = Pair {
                metric: *metric,
                parameter,
                better,
                than,
            };
            at_most(pair, *of, (*times, *share), lines)
        }
        Rule::Apart {
            metric,
            parameter,
            better,
            than,
        } => {
            let pair = Pair {
                metric: *metric,
                parameter,
                better,
                than,
            };
            apart(pair, lines)
        }
        Rule::GapShrinks {
            metric,
            parameter,
            better,
            than,
            along,
            from,
            to,
            share,
        } => {
            let pair = Pair {
                metric: *metric,
                parameter,
                better,
                than,
            };
            gap_shrinks(pair, (along, [from, to]), *share, lines)
        }
        _ => Found {
            printed: json!(""),
            came: None,
            holds: None,
            reason: "no rule about means".to_owned(),
        },
    }
}

/// What the runs left out mean for a reason.
fn left_out_text(compared: &[Compared]) -> String {
    let left_out: usize = compared.iter().map(|its| its.left_out).sum();
    if left_out == 0 {
        String::new()
    } else {
        format!("; {left_out} runs that did not finish are left out")
    }
}

/// Least, median and most.
fn extent(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let (first, last) = (values.first()?, values.last()?);
    Some([*first, values[values.len() / 2], *last])
}

/// Whether so many of the combinations are a share of all.
fn is_share(right: usize, of: usize, share: f64) -> bool {
    of > 0 && right as f64 >= share * of as f64
}

fn at_most(pair: Pair<'_>, of: Spread, (times, share): (f64, f64), lines: &[&ResultLine]) -> Found {
    let compared = pair.compare(lines);
    let value = |mean: Mean| match of {
        Spread::Mean => Some(mean.value),
        Spread::Interval => mean.half_width,
    };
    let ratios = compared.iter().filter_map(|its| {
        let than = value(its.than?)?;
        Some(value(its.better?)? / than).filter(|ratio| ratio.is_finite())
    });
    let ratios: Vec<f64> = ratios.collect();
    let what = match of {
        Spread::Mean => "mean",
        Spread::Interval => "95% interval",
    };
    let right = ratios.iter().filter(|ratio| **ratio <= times).count();
    let (all, pairs) = (compared.len(), ratios.len());
    let came = extent(ratios)
        .map(|[least, middle, most]| format!("{least:.2} to {most:.2} times, median {middle:.2}"));
    Found {
        printed: json!(format!(
            "{what} with {} at most {times:.2} times that with {}",
            word(pair.better),
            word(pair.than)
        )),
        holds: came.is_some().then_some(is_share(right, all, share)),
        reason: format!(
            "so in {right} of {all} combinations; asked for in {:.0}%{}{}",
            share * 100.0,
            if pairs < all {
                format!("; {} without finished runs of both", all - pairs)
            } else {
                String::new()
            },
            left_out_text(&compared)
        ),
        came: came.map(|came| json!(came)),
    }
}

fn apart(pair: Pair<'_>, lines: &[&ResultLine]) -> Found {
    let compared = pair.compare(lines);
    let mut counts = [0_usize; 4];
    for its in &compared {
        let standing = its
            .better
            .zip(its.than)
            .and_then(|(better, than)| Standing::of(better, than));
        counts[match standing {
            Some(Standing::Lower) => 0,
            Some(Standing::NotToldApart) => 1,
            Some(Standing::Higher) => 2,
            None => 3,
        }] += 1;
    }
    let [lower, together, higher, unknown] = counts;
    let came = format!("less in {lower}, not told apart in {together}, more in {higher}");
    let known = lower + together + higher > 0;
    Found {
        printed: json!(format!(
            "statistically less with {} than with {}",
            word(pair.better),
            word(pair.than)
        )),
        holds: known.then_some(lower == compared.len()),
        reason: format!(
            "{came} of {} combinations, {unknown} without intervals; by 95% intervals of the means{}",
            compared.len(),
            left_out_text(&compared)
        ),
        came: known.then(|| json!(came)),
    }
}

fn gap_shrinks(
    pair: Pair<'_>,
    (along, [from, to]): (&str, [&Json; 2]),
    share: f64,
    lines: &[&ResultLine],
) -> Found {
    let compared = pair.compare(lines);
    let gap = |its: &Compared| Some(its.than?.value / its.better?.value);
    let at = |its: &Compared, wanted: &Json| {
        its.others
            .get(along)
            .is_some_and(|value| same(value, wanted))
    };
    let rest = |its: &Compared| {
        let mut rest = its.others.clone();
        rest.remove(along);
        rest
    };
    let gaps = compared
        .iter()
        .filter(|its| at(its, from))
        .filter_map(|one| {
            let other = compared
                .iter()
                .find(|other| at(other, to) && rest(other) == rest(one))?;
            Some((gap(one)?, gap(other)?))
        });
    let gaps: Vec<(f64, f64)> = gaps.collect();
    let right = gaps.iter().filter(|(from, to)| to < from).count();
    let middle = |values: Vec<f64>| extent(values).map_or(f64::NAN, |[_, middle, _]| middle);
    let middles = [
        middle(gaps.iter().map(|gap| gap.0).collect()),
        middle(gaps.iter().map(|gap| gap.1).collect()),
    ];
    let (from, to) = (word(from), word(to));
    let came = format!(
        "median {:.2} times at {along} {from}, {:.2} at {to}",
        middles[0], middles[1]
    );
    Found {
        printed: json!(format!(
            "{} over {}: less at {along} {to} than at {from}",
            word(pair.than),
            word(pair.better)
        )),
        holds: (!gaps.is_empty()).then_some(is_share(right, gaps.len(), share)),
        reason: format!(
            "less in {right} of {} combinations; asked for in {:.0}%{}",
            gaps.len(),
            share * 100.0,
            left_out_text(&compared)
        ),
        came: (!gaps.is_empty()).then(|| json!(came)),
    }
}

#[cfg(test)]
mod tests;
