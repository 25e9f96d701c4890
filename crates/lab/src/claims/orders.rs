// SPDX-License-Identifier: Apache-2.0
//! Verdicts on the order of a table's variants. A group of cells differs in the variant alone.

use std::cmp::Ordering;

use serde_json::json;

use super::cells::{Cell, Outcome, shown};
use super::entry::{Entry, Verdict};
use super::file::ClaimedTable;
use super::paper::Paper;
use crate::results::{ResultLine, Where, grouped, word};

/// A variant's name, its printed value, and its results on each substrate.
type Variant = (String, Outcome, [Outcome; 3]);

/// The variants' names with their values.
type Ranks<'a> = Vec<(&'a str, f64)>;

/// The difference up to which two values are equal.
#[derive(Clone, Copy, Debug)]
struct Tie {
    /// In percent of the lesser value.
    percent: f64,
    /// In the metric's own unit, as for cells.
    absolute: f64,
}

impl Tie {
    /// The order of two values; equal: their difference is within the tie.
    fn compare(self, a: f64, b: f64) -> Ordering {
        let apart = (a - b).abs();
        let near = apart <= a.abs().min(b.abs()) * self.percent / 100.0 || apart <= self.absolute;
        if a.total_cmp(&b).is_eq() || near {
            Ordering::Equal
        } else {
            a.total_cmp(&b)
        }
    }

    /// `a < b = c`.
    fn order_text(self, values: &Ranks<'_>) -> String {
        let mut values = values.clone();
        values.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut text = String::new();
        for (index, (name, value)) in values.iter().enumerate() {
            if index > 0 {
                let is_tie = self.compare(values[index - 1].1, *value).is_eq();
                text.push_str(if is_tie { " = " } else { " < " });
            }
            text.push_str(name);
        }
        text
    }
}

/// One entry for each group; its verdict is that of the first substrate that has runs.
pub(super) fn entries(paper: &Paper, table: &ClaimedTable, lines: &[ResultLine]) -> Vec<Entry> {
    let tolerance = paper.claims.tolerance.get(&table.metric);
    let tie = Tie {
        percent: paper.claims.tie_percent,
        absolute: tolerance.map_or(0.0, |tolerance| tolerance.absolute),
    };
    let groups = groups(paper, table, lines).into_iter();
    let entries = groups.map(|(others, group)| {
        let ranks = |outcome: &dyn Fn(&Variant) -> Outcome| -> Vec<(&str, f64)> {
            let ranks = group
                .iter()
                .filter_map(|variant| Some((variant.0.as_str(), outcome(variant).rank()?)));
            ranks.collect()
        };
        let printed = ranks(&|variant| variant.1);
        let came = [0, 1, 2].map(|substrate| ranks(&|variant| variant.2[substrate]));
        let judged = came.iter().find(|came| !came.is_empty());
        let judgement = judge(&printed, judged.unwrap_or(&came[0]), tie);
        let text = |came: &Ranks<'_>| (!came.is_empty()).then(|| json!(tie.order_text(came)));
        let id = format!("{}/order/{}", table.id, shown(&others));
        let printed = json!(tie.order_text(&printed));
        Entry::new(paper, id, printed, came.each_ref().map(text), judgement)
    });
    entries.collect()
}

/// The groups of cells that differ in the variant alone, with their variants.
fn groups(paper: &Paper, table: &ClaimedTable, lines: &[ResultLine]) -> Vec<(Where, Vec<Variant>)> {
    let variants = Cell::all(table).filter_map(|cell| {
        let mut others = cell.runs();
        let variant = others.remove(&table.variants)?;
        let variant = (word(&variant), cell.printed(), cell.outcomes(paper, lines));
        Some((others, variant))
    });
    let groups = grouped(variants, |(others, _)| others.clone()).into_iter();
    groups
        .map(|(others, group)| (others, group.into_iter().map(|(_, one)| one).collect()))
        .collect()
}

fn judge(printed: &Ranks<'_>, came: &Ranks<'_>, tie: Tie) -> (Verdict, String) {
    let value = |name: &str| {
        let found = came.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| *value)
    };
    let (mut right, mut wrong, mut missing) = (0, Vec::new(), Vec::new());
    // Pairs in the printed order whose difference counts as equal.
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
            if tie.compare(came_a, came_b) == apart {
                right += 1;
            } else {
                barely += usize::from(came_a.total_cmp(&came_b) == apart);
                wrong.push(format!("{a} and {b}"));
            }
        }
    }
    let mut text = format!("{right} pairs as printed");
    if right == 0 && wrong.is_empty() {
        "nothing to compare".clone_into(&mut text);
    }
    if !wrong.is_empty() {
        text.push_str(&format!(", not {}", wrong.join(", ")));
    }
    if barely > 0 {
        text.push_str(&format!(
            "; {barely} of these in the printed order, by less than what counts as equal"
        ));
    }
    if !missing.is_empty() {
        text.push_str(&format!("; no run of {}", missing.join(", ")));
    }
    let verdict = match (wrong.is_empty(), right) {
        (false, _) => Verdict::Differs,
        // A missing variant could be anywhere in the order.
        (true, right) if right == 0 || !missing.is_empty() => Verdict::NotComparable,
        (true, _) => Verdict::Holds,
    };
    (verdict, text)
}
