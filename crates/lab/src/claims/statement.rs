// SPDX-License-Identifier: Apache-2.0
//! Statements: what a paper says in words, as rules about runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::file::{Metric, Rule, Statement};
use super::verdict::{SUBSTRATES, same, select};
use super::{Entry, Paper, Verdict};
use crate::outage_matrix::median;
use crate::results::{ResultLine, retransmission_ratio_percent};

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
        } => gain(
            *metric,
            parameter,
            [better, than],
            (*printed, *points),
            lines,
        ),
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
        } => times(
            *metric,
            parameter,
            [better, than],
            (*printed, *percent),
            lines,
        ),
        Rule::Finishes {
            parameter,
            with,
            without,
        } => finishes(parameter, [with, without], lines),
        Rule::RatioIsDefined {} => ratio_is_defined(lines),
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

fn value_of(group: &[&ResultLine], parameter: &str, wanted: &Json, metric: Metric) -> Option<f64> {
    let line = group.iter().find(|line| {
        line.parameters
            .get(parameter)
            .is_some_and(|has| same(has, wanted))
    })?;
    metric.of(line)
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

fn reduced(
    metric: Metric,
    parameter: &str,
    better: &Json,
    (printed, points): ([f64; 2], f64),
    lines: &[&ResultLine],
) -> Found {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut pairs, mut left_out) = (0, 0);
    for group in groups(parameter, lines) {
        let own = value_of(&group, parameter, better, metric);
        let others = group.iter().filter(|line| {
            let has = line.parameters.get(parameter);
            !has.is_some_and(|has| same(has, better))
        });
        for line in others {
            pairs += 1;
            if let (Some(own), Some(other)) = (own, metric.of(line)) {
                let share = (1.0 - own / other) * 100.0;
                (least, most) = (least.min(share), most.max(share));
            } else {
                left_out += 1;
            }
        }
    }
    let [low, high] = printed;
    let printed = json!(format!("{low}% to {high}%"));
    if least > most {
        return Found {
            printed,
            came: None,
            holds: None,
            reason: "no two runs to compare".to_owned(),
        };
    }
    Found {
        printed,
        came: Some(json!(format!("{least:.1}% to {most:.1}%"))),
        holds: Some((least - low).abs() <= points && (most - high).abs() <= points),
        reason: format!(
            "{least:.1}% to {most:.1}% for {low}% to {high}%; {points} points apart is the same{}",
            left_out_text(left_out, pairs)
        ),
    }
}

fn times(
    metric: Metric,
    parameter: &str,
    [better, than]: [&Json; 2],
    (printed, percent): ([f64; 2], f64),
    lines: &[&ResultLine],
) -> Found {
    let mut ratios: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    for group in groups(parameter, lines) {
        let mut others = group[0].parameters.clone();
        others.remove(parameter);
        let values = ratios.entry(json!(others).to_string()).or_default();
        for (values, wanted) in values.iter_mut().zip([better, than]) {
            values.extend(value_of(&group, parameter, wanted, metric));
        }
    }
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    let (all, mut left_out) = (ratios.len(), 0);
    for [better, than] in ratios.into_values() {
        match (median(better), median(than)) {
            (Some(better), Some(than)) if than > 0.0 => {
                let ratio = better / than;
                (least, most) = (least.min(ratio), most.max(ratio));
            }
            _ => left_out += 1,
        }
    }
    let [low, high] = printed;
    let printed = json!(format!("{low} to {high} times"));
    if least > most {
        return Found {
            printed,
            came: None,
            holds: None,
            reason: "no two runs to compare".to_owned(),
        };
    }
    let slack = 1.0 + percent / 100.0;
    Found {
        printed,
        came: Some(json!(format!("{least:.2} to {most:.2} times"))),
        holds: Some(least >= low / slack && most <= high * slack),
        reason: format!(
            "{least:.2} to {most:.2} times for {low} to {high}; {percent}% beyond is the same{}",
            left_out_text(left_out, all)
        ),
    }
}

fn finishes(parameter: &str, [with, without]: [&Json; 2], lines: &[&ResultLine]) -> Found {
    let count = |wanted: &Json| {
        let has = |line: &&&ResultLine| {
            let value = line.parameters.get(parameter);
            value.is_some_and(|value| same(value, wanted))
        };
        let runs: Vec<_> = lines.iter().filter(has).collect();
        let finished = runs.iter().filter(|line| line.finished).count();
        (finished, runs.len())
    };
    let ((with_finished, with_runs), (without_finished, without_runs)) =
        (count(with), count(without));
    let came = format!(
        "{with_finished} of {with_runs} with {}, {without_finished} of {without_runs} with {}",
        word(with),
        word(without)
    );
    Found {
        printed: json!(format!("with {}, not with {}", word(with), word(without))),
        holds: (with_runs > 0 && without_runs > 0)
            .then_some(with_finished == with_runs && without_finished == 0),
        reason: format!("finished: {came}"),
        came: Some(json!(came)),
    }
}

/// A value as people write it.
fn word(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// A definition claims nothing that could come out otherwise: our ratios are computed by it.
/// Those of a file may not be.
fn ratio_is_defined(lines: &[&ResultLine]) -> Found {
    let wrong = lines.iter().filter(|line| {
        let ratio = retransmission_ratio_percent(line.segments, line.retransmitted_segments);
        (ratio - line.retransmission_ratio_percent).abs() > 1e-9
    });
    let (wrong, all) = (wrong.count(), lines.len());
    let reason = if wrong == 0 {
        format!("a definition: the ratios of all {all} runs are computed by it")
    } else {
        format!("the ratios of {wrong} of {all} runs are not those of their segments")
    };
    Found {
        printed: json!("100 x retransmitted / (all - retransmitted)"),
        came: Some(json!(format!("{} of {all} runs", all - wrong))),
        holds: (wrong > 0).then_some(false),
        reason,
    }
}
