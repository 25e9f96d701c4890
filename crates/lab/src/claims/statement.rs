// SPDX-License-Identifier: Apache-2.0
//! Statements: what a paper says in words, as rules about runs.

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

fn alike(metric: Metric, parameter: &str, percent: f64, lines: &[&ResultLine]) -> Found {
    let mut most = 0.0_f64;
    for group in groups(parameter, lines) {
        let values = || {
            group
                .iter()
                .map(|line| metric.of(line).unwrap_or(f64::INFINITY))
        };
        let least = values().fold(f64::INFINITY, f64::min);
        let largest = values().fold(0.0, f64::max);
        most = most.max((largest / least - 1.0) * 100.0);
    }
    Found {
        printed: json!("alike"),
        came: Some(json!(format!("{most:.2}% apart"))),
        holds: Some(most <= percent),
        reason: format!("at most {most:.2}% apart; up to {percent}% is alike"),
    }
}

fn gain(
    metric: Metric,
    parameter: &str,
    [better, than]: [&Json; 2],
    (printed, points): (f64, f64),
    lines: &[&ResultLine],
) -> Found {
    let gains = groups(parameter, lines).into_iter().filter_map(|group| {
        let value = |wanted| value_of(&group, parameter, wanted, metric);
        Some((value(than)? / value(better)? - 1.0) * 100.0)
    });
    let printed_json = json!(format!("{printed:+}%"));
    match median(gains.collect()) {
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
            reason: format!("{gain:+.1}% for {printed:+}%; {points} points apart is the same"),
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
    for group in groups(parameter, lines) {
        let Some(own) = value_of(&group, parameter, better, metric) else {
            continue;
        };
        for line in &group {
            let is_better = line
                .parameters
                .get(parameter)
                .is_some_and(|has| same(has, better));
            if let Some(other) = metric.of(line).filter(|_| !is_better) {
                let share = (1.0 - own / other) * 100.0;
                (least, most) = (least.min(share), most.max(share));
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
            "{least:.1}% to {most:.1}% for {low}% to {high}%; {points} points apart is the same"
        ),
    }
}

fn ratio_is_defined(lines: &[&ResultLine]) -> Found {
    let wrong = lines.iter().filter(|line| {
        let ratio = retransmission_ratio_percent(line.segments, line.retransmitted_segments);
        (ratio - line.retransmission_ratio_percent).abs() > 1e-9
    });
    let wrong = wrong.count();
    Found {
        printed: json!("100 x retransmitted / (all - retransmitted)"),
        came: Some(json!(format!(
            "{} of {} runs",
            lines.len() - wrong,
            lines.len()
        ))),
        holds: Some(wrong == 0),
        reason: format!(
            "the ratio of {} of {} runs is that of its segments",
            lines.len() - wrong,
            lines.len()
        ),
    }
}
