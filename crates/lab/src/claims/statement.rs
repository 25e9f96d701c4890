// SPDX-License-Identifier: Apache-2.0
//! Statements: what a paper says in words, as rules about runs.

mod counted;
mod extra;
mod spread;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::file::{Metric, Rule, Statement};
use super::verdict::{SUBSTRATES, same, select, word};
use super::{Entry, Paper, Verdict};
use crate::statistics::median;
use crate::results::ResultLine;

/// What a rule found: what is printed, what came out, whether it is so, and why.
struct Found {
    printed: Json,
    came: Option<Json>,
    holds: Option<bool>,
    reason: String,
}

pub(super) fn statement(paper: &Paper, statement: &Statement, lines: &[ResultLine]) -> Entry {
    let of = |substrate: &str| {
        let lines = select(
            lines,
            paper,
            &statement.scenario,
            substrate,
            &[&statement.of],
        );
        (!lines.is_empty()).then(|| found(&statement.rule, &lines))
    };
    let all = SUBSTRATES.map(of);
    let came = |index: usize| {
        all[index]
            .as_ref()
            .and_then(|found: &Found| found.came.clone())
    };
    let (model, linux, live) = (came(0), came(1), came(2));
    let first = all.iter().flatten().next();
    let (verdict, reason) = match (first, &statement.open) {
        (None, _) => (
            Verdict::NotComparable,
            "no run has these parameters".to_owned(),
        ),
        (Some(_), Some(open)) => (Verdict::NotComparable, format!("not printed: {open}")),
        (Some(found), None) => {
            let verdict = match found.holds {
                Some(true) => Verdict::Holds,
                Some(false) => Verdict::Differs,
                None => Verdict::NotComparable,
            };
            (verdict, found.reason.clone())
        }
    };
    Entry {
        paper: paper.name.clone(),
        id: statement.id.clone(),
        printed: first.map_or_else(|| json!(statement.text), |found| found.printed.clone()),
        model,
        linux,
        live,
        verdict,
        reason,
    }
}

fn found(rule: &Rule, lines: &[&ResultLine]) -> Found {
    match rule {
        Rule::Alike {
            metric,
            parameter,
            percent,
        } => alike(*metric, parameter, *percent, lines),
        Rule::Gain {
            metric,
            parameter,
            better,
            than,
            printed,
            points,
        } => {
            let printed = (*printed, *points);
            gain(*metric, parameter, [better, than], printed, lines)
        }
        Rule::ReducedBy {
            metric,
            parameter,
            better,
            printed,
            points,
        } => reduced(*metric, parameter, better, (*printed, *points), lines),
        Rule::Times {
            metric,
            parameter,
            better,
            than,
            printed,
            percent,
        } => {
            let printed = (*printed, *percent);
            times(*metric, parameter, [better, than], printed, lines)
        }
        Rule::Within {
            metric,
            printed,
            percent,
        } => within(*metric, (*printed, *percent), lines),
        Rule::Less {
            metric,
            parameter,
            better,
            than,
        } => less(*metric, parameter, [better, than], lines),
        Rule::ExtraSegments { .. } => extra::found(rule, lines),
        Rule::AtMost { .. } | Rule::Apart { .. } | Rule::GapShrinks { .. } => {
            spread::found(rule, lines)
        }
        Rule::AcksOfTheMh { .. }
        | Rule::Finishes { .. }
        | Rule::RatioIsDefined {}
        | Rule::AllFinish { .. }
        | Rule::SomeUnfinished { .. } => counted::found(rule, lines),
    }
}

/// Runs in groups that differ in `parameter` alone.
fn groups<'a>(parameter: &str, lines: &[&'a ResultLine]) -> Vec<Vec<&'a ResultLine>> {
    let others = |line: &ResultLine| {
        let mut others = line.parameters.clone();
        others.remove(parameter);
        others
    };
    let mut groups: Vec<Vec<&ResultLine>> = Vec::new();
    for line in lines {
        let group = groups
            .iter_mut()
            .find(|group| others(group[0]) == others(line) && group[0].seed == line.seed);
        match group {
            Some(group) => group.push(line),
            None => groups.push(vec![line]),
        }
    }
    groups
}

/// The run of a group whose parameter has this value.
fn run_of<'a>(group: &[&'a ResultLine], parameter: &str, wanted: &Json) -> Option<&'a ResultLine> {
    let has = |line: &&&ResultLine| {
        let value = line.parameters.get(parameter);
        value.is_some_and(|has| same(has, wanted))
    };
    group.iter().find(has).copied()
}

fn value_of(group: &[&ResultLine], parameter: &str, wanted: &Json, metric: Metric) -> Option<f64> {
    metric.of(run_of(group, parameter, wanted)?)
}

/// How far apart the values of a group are, in percent of the least.
fn apart_percent(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest.total_cmp(&least).is_eq() {
        // Both may be 0.
        return 0.0;
    }
    (largest / least - 1.0) * 100.0
}

fn alike(metric: Metric, parameter: &str, percent: f64, lines: &[&ResultLine]) -> Found {
    let mut most = 0.0_f64;
    let (mut compared, mut unfinished, mut split) = (0, 0, 0);
    for group in groups(parameter, lines) {
        let values: Vec<f64> = group.iter().filter_map(|line| metric.of(line)).collect();
        match values.len() {
            // One run is alike to nothing.
            _ if group.len() < 2 => {}
            0 => unfinished += 1,
            finished if finished < group.len() => split += 1,
            _ => {
                compared += 1;
                most = most.max(apart_percent(&values));
            }
        }
    }
    let printed = json!("alike");
    if split > 0 {
        return Found {
            printed,
            came: Some(json!("some unfinished")),
            holds: Some(false),
            reason: format!(
                "of {} groups of runs {split} have some that finish and some that do not",
                compared + unfinished + split
            ),
        };
    }
    if compared == 0 {
        let reason = if unfinished > 0 {
            format!("none of the runs of {unfinished} groups finished")
        } else {
            format!("no two runs differ in {parameter} alone")
        };
        return Found {
            printed,
            came: None,
            holds: None,
            reason,
        };
    }
    let mut reason = format!("at most {most:.2}% apart; up to {percent}% is alike");
    if unfinished > 0 {
        let _ = write!(reason, "; {unfinished} groups without a run that finished");
    }
    Found {
        printed,
        came: Some(json!(format!("{most:.2}% apart"))),
        holds: Some(most <= percent),
        reason,
    }
}

/// What a reason says of pairs of runs that could not be compared.
fn left_out_text(left_out: usize, of: usize) -> String {
    if left_out == 0 {
        return String::new();
    }
    format!("; {left_out} of {of} pairs left out: unfinished, or without a run")
}

fn gain(
    metric: Metric,
    parameter: &str,
    [better, than]: [&Json; 2],
    (printed, points): (f64, f64),
    lines: &[&ResultLine],
) -> Found {
    let groups = groups(parameter, lines);
    let gains = groups.iter().filter_map(|group| {
        let value = |wanted| value_of(group, parameter, wanted, metric);
        Some((value(than)? / value(better)? - 1.0) * 100.0)
    });
    let gains: Vec<f64> = gains.collect();
    let left_out = left_out_text(groups.len() - gains.len(), groups.len());
    let printed_json = json!(format!("{printed:+}%"));
    match median(gains) {
        None => Found {
            printed: printed_json,
            came: None,
            holds: None,
            reason: "one of the two did not finish, or has no run".to_owned(),
        },
        Some(gain) => Found {
            printed: printed_json,
            came: Some(json!(format!("{gain:+.1}%"))),
            holds: Some((gain - printed).abs() <= points),
            reason: format!(
                "{gain:+.1}% for {printed:+}%; {points} points apart is the same{left_out}"
            ),
        },
    }
}

/// The least and the most of what pairs of runs gave.
struct Extent {
    least: f64,
    most: f64,
    pairs: usize,
    left_out: usize,
}

impl Extent {
    /// Of pairs; none: one that cannot be compared.
    fn of(pairs: impl IntoIterator<Item = Option<f64>>) -> Self {
        let mut extent = Self {
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
            pairs: 0,
            left_out: 0,
        };
        for pair in pairs {
            extent.pairs += 1;
            match pair {
                Some(value) => {
                    extent.least = extent.least.min(value);
                    extent.most = extent.most.max(value);
                }
                None => extent.left_out += 1,
            }
        }
        extent
    }

    /// What a rule says of it: `words` of two ends, what counts as the `same`, and whether
    /// the ends `hold`.
    fn found(
        &self,
        printed: &str,
        words: impl Fn(f64, f64) -> String,
        same: &str,
        holds: impl Fn(f64, f64) -> bool,
    ) -> Found {
        let (least, most) = (self.least, self.most);
        if least > most {
            return Found {
                printed: json!(printed),
                came: None,
                holds: None,
                reason: "no two runs to compare".to_owned(),
            };
        }
        let came = words(least, most);
        let left_out = left_out_text(self.left_out, self.pairs);
        Found {
            printed: json!(printed),
            holds: Some(holds(least, most)),
            reason: format!("{came} for {printed}; {same} is the same{left_out}"),
            came: Some(json!(came)),
        }
    }
}

fn reduced(
    metric: Metric,
    parameter: &str,
    better: &Json,
    ([low, high], points): ([f64; 2], f64),
    lines: &[&ResultLine],
) -> Found {
    let mut shares: Vec<Option<f64>> = Vec::new();
    for group in groups(parameter, lines) {
        let own = value_of(&group, parameter, better, metric);
        let others = group.iter().filter(|line| {
            let has = line.parameters.get(parameter);
            !has.is_some_and(|has| same(has, better))
        });
        shares.extend(others.map(|line| Some((1.0 - own? / metric.of(line)?) * 100.0)));
    }
    Extent::of(shares).found(
        &format!("{low}% to {high}%"),
        |least, most| format!("{least:.1}% to {most:.1}%"),
        &format!("{points} points apart"),
        |least, most| (least - low).abs() <= points && (most - high).abs() <= points,
    )
}

/// The medians of two values of a parameter, for each combination of the others; infinite:
/// most runs never came to it.
fn medians(
    metric: Metric,
    parameter: &str,
    wanted: [&Json; 2],
    lines: &[&ResultLine],
) -> Vec<[Option<f64>; 2]> {
    let mut values: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    for group in groups(parameter, lines) {
        let mut others = group[0].parameters.clone();
        others.remove(parameter);
        let values = values.entry(json!(others).to_string()).or_default();
        for (values, wanted) in values.iter_mut().zip(wanted) {
            let run = run_of(&group, parameter, wanted);
            values.extend(run.and_then(|run| metric.rank(run)));
        }
    }
    values.into_values().map(|pair| pair.map(median)).collect()
}

fn times(
    metric: Metric,
    parameter: &str,
    [better, than]: [&Json; 2],
    ([low, high], percent): ([f64; 2], f64),
    lines: &[&ResultLine],
) -> Found {
    let medians = medians(metric, parameter, [better, than], lines);
    let ratios = medians.into_iter().map(|[better, than]| {
        let than = than.filter(|than| *than > 0.0)?;
        // None where neither came to it.
        Some(better? / than).filter(|ratio| !ratio.is_nan())
    });
    let slack = 1.0 + percent / 100.0;
    Extent::of(ratios).found(
        &format!("{low} to {high} times"),
        |least, most| format!("{least:.2} to {most:.2} times"),
        &format!("{percent}% more or less at either end"),
        // Both ends are claimed: a factor of up to 20 is no factor of up to 2.
        |least, most| is_near(least, low, slack) && is_near(most, high, slack),
    )
}

/// Whether a value is another one, up to a factor.
fn is_near(value: f64, other: f64, slack: f64) -> bool {
    (other / slack..=other * slack).contains(&value)
}

fn within(metric: Metric, ([low, high], percent): ([f64; 2], f64), lines: &[&ResultLine]) -> Found {
    let mut values: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for line in lines {
        let values = values
            .entry(json!(line.parameters).to_string())
            .or_default();
        values.push(metric.of(line));
    }
    // A run without a value stands for one that never came to it.
    let medians = values.into_values().map(|values| {
        let values = values
            .into_iter()
            .map(|value| value.unwrap_or(f64::INFINITY));
        median(values.collect()).filter(|value| value.is_finite())
    });
    let extent = Extent::of(medians);
    let (slack, all_came) = (1.0 + percent / 100.0, extent.left_out == 0);
    extent.found(
        &format!("{low} to {high}"),
        |least, most| format!("{least:.1} to {most:.1}"),
        &format!("{percent}% beyond"),
        |least, most| all_came && least >= low / slack && most <= high * slack,
    )
}

fn less(
    metric: Metric,
    parameter: &str,
    [better, than]: [&Json; 2],
    lines: &[&ResultLine],
) -> Found {
    let medians = medians(metric, parameter, [better, than], lines);
    let (mut pairs, mut left_out) = (Vec::new(), 0);
    for pair in &medians {
        match pair {
            [Some(better), Some(than)] if better.is_finite() || than.is_finite() => {
                pairs.push((*better, *than));
            }
            _ => left_out += 1,
        }
    }
    let word_of = |value: f64| {
        if value.is_finite() {
            format!("{value:.1}")
        } else {
            "unfinished".to_owned()
        }
    };
    let words =
        |(better, than): &(f64, f64)| format!("{} for {}", word_of(*better), word_of(*than));
    let came = pairs.iter().map(words).collect::<Vec<_>>().join(", ");
    let fewer = pairs.iter().filter(|(better, than)| better < than).count();
    Found {
        printed: json!(format!(
            "less with {} than with {}",
            word(better),
            word(than)
        )),
        came: (!pairs.is_empty()).then(|| json!(came)),
        holds: (!pairs.is_empty()).then_some(fewer == pairs.len()),
        reason: format!(
            "less in {fewer} of {} pairs{}",
            pairs.len(),
            left_out_text(left_out, medians.len())
        ),
    }
}
