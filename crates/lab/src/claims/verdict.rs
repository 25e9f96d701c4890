// SPDX-License-Identifier: Apache-2.0
//! From what is printed and what came out to a verdict.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::alternative::{alternative_text, alternatively};
use super::file::{ClaimedTable, Metric, Where};
use super::statement::statement;
use super::{Entry, Paper, Verdict};
use crate::statistics::median;
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
    pub(super) fn rank(self) -> Option<f64> {
        match self {
            Self::NoRun => None,
            Self::Unfinished => Some(f64::INFINITY),
            Self::Value(value) => Some(value),
        }
    }
}

/// To a thousandth: what is shown, and what JSON has.
pub(super) fn rounded(value: f64) -> f64 {
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
    let name = paper.scenario_name(scenario);
    let lines = lines.iter();
    lines
        .filter(|line| line.substrate == substrate && line.scenario == name)
        .filter(|line| of.iter().all(|of| has(line, of)))
        .collect()
}

/// Whether the line's parameters have these values.
pub(crate) fn has(line: &ResultLine, of: &Where) -> bool {
    of.iter()
        .all(|(key, value)| line.parameters.get(key).is_some_and(|has| same(has, value)))
}

/// Equal, 5 and 5.0 too.
pub(crate) fn same(a: &Json, b: &Json) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => a == b,
    }
}

/// The median of a metric. A run that did not finish has every metric but none of them
/// means what the paper's does, except where the paper prints it all the same.
pub(super) fn outcome(lines: &[&ResultLine], metric: Metric) -> Outcome {
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

/// A value in words.
pub(crate) fn word(value: &Json) -> String {
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
            let is_unfinished = is_mark(table, printed);
            let (verdict, mut reason) = cell(paper, table, printed, is_unfinished, outcomes);
            if table.open.is_none() {
                let of: Where = row.of.clone().into_iter().chain(at).collect();
                for other in &table.alternative {
                    let came = alternatively(paper, table, other, &of, lines);
                    reason.push_str(&alternative_text(paper, table, printed, other, &came));
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

/// Whether what is printed is the paper's mark of a transfer that did not finish.
pub(super) fn is_mark(table: &ClaimedTable, printed: f64) -> bool {
    table
        .unfinished
        .is_some_and(|mark| mark.total_cmp(&printed).is_eq())
}

/// The verdict on one cell: of the first substrate that has runs.
pub(super) fn cell(
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

/// A variant's name, what is printed for it, and what its runs came to on each substrate.
type Variant = (String, f64, [Outcome; 3]);

/// How close two values are that are in no order.
#[derive(Clone, Copy, Debug)]
struct Tie {
    /// In percent of the lesser.
    percent: f64,
    /// In the metric's own unit: as close as that is the same in a cell, too.
    absolute: f64,
}

impl Tie {
    fn of(paper: &Paper, metric: Metric) -> Self {
        let tolerance = paper.claims.tolerance.get(&metric);
        Self {
            percent: paper.claims.tie_percent,
            absolute: tolerance.map_or(0.0, |tolerance| tolerance.absolute),
        }
    }

    /// Whether two values are apart by more than a tie, and which way.
    fn compare(self, a: f64, b: f64) -> std::cmp::Ordering {
        let apart = (a - b).abs();
        let near = apart <= a.abs().min(b.abs()) * self.percent / 100.0 || apart <= self.absolute;
        if a.total_cmp(&b).is_eq() || near {
            std::cmp::Ordering::Equal
        } else {
            a.total_cmp(&b)
        }
    }
}

/// One entry for the order of the variants in each group of cells that are otherwise the
/// same; its verdict is that of the first substrate that has runs.
fn orders(paper: &Paper, table: &ClaimedTable, lines: &[ResultLine], entries: &mut Vec<Entry>) {
    let tie = Tie::of(paper, table.metric);
    for (of, group) in order_groups(paper, table, lines) {
        let printed: Vec<_> = group
            .iter()
            .map(|(name, value, _)| (name.as_str(), *value))
            .collect();
        let came = [0, 1, 2].map(|substrate| -> Vec<_> {
            let ranks = group.iter().filter_map(|(name, _, outcomes)| {
                Some((name.as_str(), outcomes[substrate].rank()?))
            });
            ranks.collect()
        });
        let judged = came.iter().find(|came| !came.is_empty());
        let (verdict, reason) = order(&printed, judged.unwrap_or(&came[0]), tie);
        let text = |came: &[(&str, f64)]| (!came.is_empty()).then(|| json!(order_text(came, tie)));
        entries.push(Entry {
            paper: paper.name.clone(),
            id: format!("{}/order/{}", table.id, shown(&of)),
            printed: json!(order_text(&printed, tie)),
            model: text(&came[0]),
            linux: text(&came[1]),
            live: text(&came[2]),
            verdict,
            reason,
        });
    }
}

/// The variants of each group of cells that differ in the variant alone.
fn order_groups(
    paper: &Paper,
    table: &ClaimedTable,
    lines: &[ResultLine],
) -> Vec<(Where, Vec<Variant>)> {
    let mut groups: Vec<(Where, Vec<Variant>)> = Vec::new();
    for row in &table.row {
        for (column, &printed) in table.columns.iter().zip(&row.printed) {
            let mut of = row.of.clone();
            of.insert(table.column.clone(), column.clone());
            let outcomes = SUBSTRATES.map(|substrate| {
                let lines = select(lines, paper, &table.scenario, substrate, &[&of]);
                outcome(&lines, table.metric)
            });
            let Some(variant) = of.remove(&table.variants) else {
                continue;
            };
            let is_unfinished = is_mark(table, printed);
            let printed = if is_unfinished {
                f64::INFINITY
            } else {
                printed
            };
            let one = (word(&variant), printed, outcomes);
            match groups.iter_mut().find(|(others, _)| *others == of) {
                Some((_, group)) => group.push(one),
                None => groups.push((of, vec![one])),
            }
        }
    }
    groups
}

fn order(printed: &[(&str, f64)], came: &[(&str, f64)], tie: Tie) -> (Verdict, String) {
    let value = |name: &str| {
        came.iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| *value)
    };
    let (mut right, mut wrong, mut missing) = (0, Vec::new(), Vec::new());
    // As printed, and yet no further apart than what counts as equal.
    let mut barely = 0;
    for (index, (a, printed_a)) in printed.iter().enumerate() {
        if value(a).is_none() {
            missing.push(*a);
        }
        for (b, printed_b) in &printed[index + 1..] {
            let (Some(came_a), Some(came_b)) = (value(a), value(b)) else {
                continue;
            };
            let apart = tie.compare(*printed_a, *printed_b);
            let same = match apart {
                // Printed as equal: they have to be so here.
                std::cmp::Ordering::Equal => tie.compare(came_a, came_b).is_eq(),
                apart => came_a.total_cmp(&came_b) == apart,
            };
            if same {
                right += 1;
                barely += usize::from(apart.is_ne() && tie.compare(came_a, came_b).is_eq());
            } else {
                wrong.push(format!("{a} and {b}"));
            }
        }
    }
    let without = reservations(barely, &missing);
    match (right, wrong.is_empty()) {
        (0, true) => (
            Verdict::NotComparable,
            format!("nothing to compare{without}"),
        ),
        // Whoever is missing may stand anywhere.
        (_, true) if !missing.is_empty() => (
            Verdict::NotComparable,
            format!("{right} pairs as printed{without}"),
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

/// What an order's reason says besides: pairs that are barely apart, variants without runs.
fn reservations(barely: usize, missing: &[&str]) -> String {
    let mut words = String::new();
    if barely > 0 {
        let _ = write!(
            words,
            "; {barely} of them by less than what counts as equal"
        );
    }
    if !missing.is_empty() {
        let _ = write!(words, "; no run of {}", missing.join(", "));
    }
    words
}

/// `a < b = c`.
fn order_text(values: &[(&str, f64)], tie: Tie) -> String {
    let mut values = values.to_vec();
    values.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut text = String::new();
    for (index, (name, value)) in values.iter().enumerate() {
        if index > 0 {
            let is_tie = tie.compare(values[index - 1].1, *value).is_eq();
            text.push_str(if is_tie { " = " } else { " < " });
        }
        text.push_str(name);
    }
    text
}
