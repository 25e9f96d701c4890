// SPDX-License-Identifier: Apache-2.0
//! From what is printed and what came out to a verdict.

use std::path::Path;

use serde_json::{Value as Json, json};

use super::file::{ClaimedTable, Metric, Where};
use super::statement::statement;
use super::{Entry, Paper, Verdict};
use crate::outage_matrix::median;
use crate::results::ResultLine;

/// The substrates in the order in which a verdict prefers them.
pub(super) const SUBSTRATES: [&str; 3] = ["model", "linux", "live"];

/// What the runs of one cell came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// There is none.
    NoRun,
    /// Most did not finish.
    Unfinished,
    /// The median.
    Value(f64),
}

impl Outcome {
    fn json(self) -> Option<Json> {
        match self {
            Self::NoRun => None,
            Self::Unfinished => Some(json!("unfinished")),
            Self::Value(value) => Some(json!(rounded(value))),
        }
    }

    /// For comparison: what did not finish is longer than anything.
    fn rank(self) -> Option<f64> {
        match self {
            Self::NoRun => None,
            Self::Unfinished => Some(f64::INFINITY),
            Self::Value(value) => Some(value),
        }
    }
}

/// To a thousandth: what is shown, and what JSON has.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The lines of one scenario on one substrate that have the parameters' values.
pub(super) fn select<'a>(
    lines: &'a [ResultLine],
    paper: &Paper,
    scenario: &str,
    substrate: &str,
    of: &[&Where],
) -> Vec<&'a ResultLine> {
    let own = Path::new(scenario)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let name = format!("{}/{own}", paper.name);
    let has = |line: &ResultLine| {
        let mut wanted = of.iter().flat_map(|of| of.iter());
        wanted.all(|(key, value)| line.parameters.get(key).is_some_and(|has| same(has, value)))
    };
    let lines = lines.iter();
    lines
        .filter(|line| line.substrate == substrate && line.scenario == name && has(line))
        .collect()
}

/// Equal, 5 and 5.0 too.
pub(super) fn same(a: &Json, b: &Json) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => a == b,
    }
}

/// The median of a metric. A run that did not finish has every metric but none of them
/// means what the paper's does, except where the paper prints it all the same.
fn outcome(lines: &[&ResultLine], metric: Metric) -> Outcome {
    if lines.is_empty() {
        return Outcome::NoRun;
    }
    let values = lines
        .iter()
        .map(|line| metric.of(line).unwrap_or(f64::INFINITY));
    match median(values.collect()) {
        Some(value) if value.is_finite() => Outcome::Value(value),
        _ => Outcome::Unfinished,
    }
}

pub(super) fn entries(paper: &Paper, lines: &[ResultLine]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for table in &paper.claims.table {
        cells(paper, table, lines, &mut entries);
        orders(paper, table, lines, &mut entries);
    }
    for said in &paper.claims.statement {
        entries.push(statement(paper, said, lines));
    }
    entries
}

fn shown(of: &Where) -> String {
    let words = of
        .iter()
        .map(|(name, value)| format!("{name}={}", word(value)));
    words.collect::<Vec<_>>().join(" ")
}

fn word(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn cells(paper: &Paper, table: &ClaimedTable, lines: &[ResultLine], entries: &mut Vec<Entry>) {
    for row in &table.row {
        for (column, &printed) in table.columns.iter().zip(&row.printed) {
            let at = Where::from([(table.column.clone(), column.clone())]);
            let of = |substrate: &str| {
                let lines = select(lines, paper, &table.scenario, substrate, &[&row.of, &at]);
                outcome(&lines, table.metric)
            };
            let outcomes = SUBSTRATES.map(of);
            let is_unfinished = table
                .unfinished
                .is_some_and(|mark| mark.total_cmp(&printed).is_eq());
            let (verdict, mut reason) = cell(paper, table, printed, is_unfinished, outcomes);
            if verdict == Verdict::Differs {
                for other in &table.alternative {
                    let of = [&row.of, &at, &other.of];
                    let lines = select(lines, paper, &other.scenario, SUBSTRATES[0], &of);
                    if let Some(value) = outcome(&lines, table.metric).json() {
                        reason.push_str(&format!("; with {}: {}", other.text, word(&value)));
                    }
                }
            }
            entries.push(Entry {
                paper: paper.name.clone(),
                id: format!(
                    "{}/{}/{}={}",
                    table.id,
                    shown(&row.of),
                    table.column,
                    word(column)
                ),
                printed: if is_unfinished {
                    json!("unfinished")
                } else {
                    json!(printed)
                },
                model: outcomes[0].json(),
                linux: outcomes[1].json(),
                live: outcomes[2].json(),
                verdict,
                reason,
            });
        }
    }
}

/// The verdict on one cell: of the first substrate that has runs.
fn cell(
    paper: &Paper,
    table: &ClaimedTable,
    printed: f64,
    is_unfinished: bool,
    outcomes: [Outcome; 3],
) -> (Verdict, String) {
    if let Some(open) = &table.open {
        return (Verdict::NotComparable, format!("not printed: {open}"));
    }
    let outcome = outcomes
        .into_iter()
        .find(|outcome| *outcome != Outcome::NoRun);
    match (is_unfinished, outcome) {
        (_, None) => (
            Verdict::NotComparable,
            "no run has these parameters".to_owned(),
        ),
        (true, Some(Outcome::Unfinished)) => (Verdict::Holds, "unfinished in both".to_owned()),
        (true, Some(_)) => (
            Verdict::Differs,
            "unfinished in print, finished here".to_owned(),
        ),
        (false, Some(Outcome::Value(value))) => {
            let tolerance = paper
                .claims
                .tolerance
                .get(&table.metric)
                .copied()
                .unwrap_or_default();
            let off = value - printed;
            let percent = off * 100.0 / printed;
            let within = percent.abs() <= tolerance.percent || off.abs() <= tolerance.absolute;
            let verdict = if within {
                Verdict::Holds
            } else {
                Verdict::Differs
            };
            let limit = if tolerance.absolute > 0.0 {
                format!("{}% or {}", tolerance.percent, tolerance.absolute)
            } else {
                format!("{}%", tolerance.percent)
            };
            (
                verdict,
                format!("{percent:+.1}% ({off:+.2}); within {limit} is the same"),
            )
        }
        (false, Some(_)) => (
            Verdict::Differs,
            "finished in print, unfinished here".to_owned(),
        ),
    }
}

/// A variant's name, what is printed for it, and what its runs came to.
type Variant = (String, f64, Outcome);

/// One entry for the order of the variants in each group of cells that are otherwise the
/// same.
fn orders(paper: &Paper, table: &ClaimedTable, lines: &[ResultLine], entries: &mut Vec<Entry>) {
    let mut groups: Vec<(Where, Vec<Variant>)> = Vec::new();
    for row in &table.row {
        for (column, &printed) in table.columns.iter().zip(&row.printed) {
            let mut of = row.of.clone();
            of.insert(table.column.clone(), column.clone());
            let model = select(lines, paper, &table.scenario, SUBSTRATES[0], &[&of]);
            let Some(variant) = of.remove(&table.variants) else {
                continue;
            };
            let is_unfinished = table
                .unfinished
                .is_some_and(|mark| mark.total_cmp(&printed).is_eq());
            let printed = if is_unfinished {
                f64::INFINITY
            } else {
                printed
            };
            let one = (word(&variant), printed, outcome(&model, table.metric));
            match groups.iter_mut().find(|(others, _)| *others == of) {
                Some((_, group)) => group.push(one),
                None => groups.push((of, vec![one])),
            }
        }
    }
    for (of, group) in groups {
        let printed: Vec<_> = group
            .iter()
            .map(|(name, value, _)| (name.as_str(), *value))
            .collect();
        let came: Vec<_> = group
            .iter()
            .filter_map(|(name, _, outcome)| Some((name.as_str(), outcome.rank()?)))
            .collect();
        let (verdict, reason) = order(&printed, &came, paper.claims.tie_percent);
        entries.push(Entry {
            paper: paper.name.clone(),
            id: format!("{}/order/{}", table.id, shown(&of)),
            printed: json!(order_text(&printed, paper.claims.tie_percent)),
            model: (!came.is_empty()).then(|| json!(order_text(&came, paper.claims.tie_percent))),
            linux: None,
            live: None,
            verdict,
            reason,
        });
    }
}

/// Whether two values are apart by more than the tie, and which way.
fn compared(a: f64, b: f64, tie_percent: f64) -> std::cmp::Ordering {
    let near = (a - b).abs() <= a.abs().min(b.abs()) * tie_percent / 100.0;
    if a.total_cmp(&b).is_eq() || near {
        std::cmp::Ordering::Equal
    } else {
        a.total_cmp(&b)
    }
}

fn order(printed: &[(&str, f64)], came: &[(&str, f64)], tie_percent: f64) -> (Verdict, String) {
    let value = |name: &str| {
        came.iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| *value)
    };
    let (mut right, mut wrong, mut missing) = (0, Vec::new(), Vec::new());
    for (index, (a, printed_a)) in printed.iter().enumerate() {
        if value(a).is_none() {
            missing.push(*a);
        }
        for (b, printed_b) in &printed[index + 1..] {
            let (Some(came_a), Some(came_b)) = (value(a), value(b)) else {
                continue;
            };
            let apart = compared(*printed_a, *printed_b, tie_percent);
            let same = match apart {
                // Printed as equal: they have to be so here.
                std::cmp::Ordering::Equal => compared(came_a, came_b, tie_percent).is_eq(),
                apart => came_a.total_cmp(&came_b) == apart,
            };
            if same {
                right += 1;
            } else {
                wrong.push(format!("{a} and {b}"));
            }
        }
    }
    let without = if missing.is_empty() {
        String::new()
    } else {
        format!("; no run of {}", missing.join(", "))
    };
    match (right, wrong.is_empty()) {
        (0, true) => (
            Verdict::NotComparable,
            format!("nothing to compare{without}"),
        ),
        (_, true) => (Verdict::Holds, format!("{right} pairs as printed{without}")),
        (_, false) => {
            let wrong = wrong.join(", ");
            (
                Verdict::Differs,
                format!("{right} pairs as printed, not {wrong}{without}"),
            )
        }
    }
}

/// `a < b = c`.
fn order_text(values: &[(&str, f64)], tie_percent: f64) -> String {
    let mut values = values.to_vec();
    values.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut text = String::new();
    for (index, (name, value)) in values.iter().enumerate() {
        if index > 0 {
            let tie = compared(values[index - 1].1, *value, tie_percent).is_eq();
            text.push_str(if tie { " = " } else { " < " });
        }
        text.push_str(name);
    }
    text
}
