// SPDX-License-Identifier: Apache-2.0
//! Verdicts on the cells of tables, and the results under other assumptions where the paper leaves a
//! condition open. Those change no verdict: they show what the verdict depends on.

use serde_json::{Value as Json, json};

use super::entry::{Entry, Fit, Verdict};
use super::file::{Alternative, ClaimedTable};
use super::metric::Metric;
use super::paper::{Paper, SUBSTRATES};
use crate::results::{ResultLine, Same, Where, grouped, word};
use crate::statistics::{Mean, median};

/// The result of the runs of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// There is no run.
    NoRun,
    /// Most runs did not finish.
    Unfinished,
    /// The median or the mean of the metric.
    Value(f64),
}

impl Outcome {
    /// The median of a metric, or with `means` the mean. A run without the metric (it did not finish)
    /// counts as infinite in the median, and the mean leaves it out.
    fn of(lines: &[&ResultLine], metric: Metric, means: bool) -> Self {
        let values = lines
            .iter()
            .map(|line| metric.of(line).unwrap_or(f64::INFINITY));
        let values: Vec<f64> = values.collect();
        let finished: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        match median(values) {
            None => Self::NoRun,
            Some(value) if value.is_finite() => {
                let mean = Mean::of(&finished).filter(|_| means);
                Self::Value(mean.map_or(value, |mean| mean.value))
            }
            Some(_) => Self::Unfinished,
        }
    }

    /// As JSON, rounded to a thousandth.
    fn json(self) -> Option<Json> {
        match self {
            Self::NoRun => None,
            Self::Unfinished => Some(json!("unfinished")),
            Self::Value(value) => Some(json!((value * 1e3).round() / 1e3)),
        }
    }

    /// The value for comparisons: an unfinished cell is greater than any other.
    pub(super) fn rank(self) -> Option<f64> {
        match self {
            Self::NoRun => None,
            Self::Unfinished => Some(f64::INFINITY),
            Self::Value(value) => Some(value),
        }
    }
}

/// One cell of a table.
pub(super) struct Cell<'a> {
    pub(super) table: &'a ClaimedTable,
    row: &'a Where,
    column: &'a Json,
    /// The printed value.
    value: f64,
}

impl<'a> Cell<'a> {
    /// All cells of a table, row by row.
    pub(super) fn all(table: &'a ClaimedTable) -> impl Iterator<Item = Self> {
        table.row.iter().flat_map(move |row| {
            let columns = table.columns.iter().zip(&row.printed);
            columns.map(move |(column, value)| Self {
                table,
                row: &row.selection,
                column,
                value: *value,
            })
        })
    }

    /// The parameters of its runs.
    pub(super) fn runs(&self) -> Where {
        let mut runs = self.row.clone();
        runs.insert(self.table.column.clone(), self.column.clone());
        runs
    }

    /// Whether the printed value is the paper's mark of a transfer that did not finish.
    fn is_unfinished(&self) -> bool {
        let mark = self.table.unfinished;
        mark.is_some_and(|mark| mark.total_cmp(&self.value).is_eq())
    }

    /// The printed value as an outcome.
    pub(super) fn printed(&self) -> Outcome {
        if self.is_unfinished() {
            Outcome::Unfinished
        } else {
            Outcome::Value(self.value)
        }
    }

    /// The results on each substrate.
    pub(super) fn outcomes(&self, paper: &Paper, lines: &[ResultLine]) -> [Outcome; 3] {
        let runs = self.runs();
        SUBSTRATES.map(|substrate| {
            let lines = paper.select(lines, &self.table.scenario, substrate, &[&runs]);
            Outcome::of(&lines, self.table.metric, self.table.means)
        })
    }

    /// The verdict on an outcome, and the reason.
    fn judge(&self, paper: &Paper, outcome: Outcome) -> (Verdict, String) {
        let text = match (self.is_unfinished(), outcome) {
            (_, Outcome::NoRun) => {
                let reason = "no run has these parameters".to_owned();
                return (Verdict::NotComparable, reason);
            }
            (true, Outcome::Unfinished) => {
                return (Verdict::Holds, "unfinished in both".to_owned());
            }
            (true, Outcome::Value(_)) => "unfinished in print, finished here",
            (false, Outcome::Unfinished) => "finished in print, unfinished here",
            (false, Outcome::Value(value)) => return self.compare(paper, value),
        };
        (Verdict::Differs, text.to_owned())
    }

    fn compare(&self, paper: &Paper, value: f64) -> (Verdict, String) {
        let tolerance = paper.claims.tolerance.get(&self.table.metric);
        let tolerance = tolerance.copied().unwrap_or_default();
        let off = value - self.value;
        let percent = off * 100.0 / self.value;
        let within = percent.abs() <= tolerance.percent || off.abs() <= tolerance.absolute;
        let mut limit = format!("{}%", tolerance.percent);
        if tolerance.absolute > 0.0 {
            limit.push_str(&format!(" or {}", tolerance.absolute));
        }
        (
            Verdict::of(Some(within)),
            format!("{percent:+.1}% ({off:+.2}); within {limit} is the same"),
        )
    }

    /// The cell's entry: its verdict is that of the first substrate that has runs.
    fn entry(&self, paper: &Paper, lines: &[ResultLine]) -> Entry {
        let table = self.table;
        let outcomes = self.outcomes(paper, lines);
        let judgement = if let Some(open) = &table.open {
            (Verdict::NotComparable, format!("not printed: {open}"))
        } else {
            let mut known = outcomes
                .iter()
                .filter(|outcome| **outcome != Outcome::NoRun);
            let first = known.next().copied().unwrap_or(Outcome::NoRun);
            let (verdict, mut reason) = self.judge(paper, first);
            for other in &table.alternative {
                reason.push_str(&self.alternative_text(paper, other, lines));
            }
            (verdict, reason)
        };
        let (row, column) = (shown(self.row), word(self.column));
        let id = format!("{}/{row}/{}={column}", table.id, table.column);
        let printed = if self.is_unfinished() {
            json!("unfinished")
        } else {
            json!(self.value)
        };
        Entry::new(paper, id, printed, outcomes.map(Outcome::json), judgement)
    }

    /// The results on the model under each of an alternative's assumptions, with the assumptions'
    /// values.
    fn alternatively(
        &self,
        paper: &Paper,
        other: &Alternative,
        lines: &[ResultLine],
    ) -> Vec<(Json, Outcome)> {
        let wanted = [&self.runs(), &other.selection];
        let runs = paper.select(lines, &other.scenario, SUBSTRATES[0], &wanted);
        let runs = runs.into_iter().filter_map(|run| {
            let value = match &other.over {
                None => &Json::Null,
                Some(over) => run.parameters.get(over)?,
            };
            Some((value, run))
        });
        let groups = grouped(runs, |(value, _)| Same(value));
        let metric = other.metric.unwrap_or(self.table.metric);
        let groups = groups.into_iter();
        groups
            .map(|(Same(value), runs)| {
                let runs: Vec<_> = runs.into_iter().map(|(_, run)| run).collect();
                (value.clone(), Outcome::of(&runs, metric, self.table.means))
            })
            .collect()
    }

    fn is_as_printed(&self, paper: &Paper, outcome: Outcome) -> bool {
        self.table.open.is_none() && self.judge(paper, outcome).0 == Verdict::Holds
    }

    /// The text that an alternative adds to the reason of the verdict.
    fn alternative_text(&self, paper: &Paper, other: &Alternative, lines: &[ResultLine]) -> String {
        let came = self.alternatively(paper, other, lines);
        let mut outcomes: Vec<Outcome> = came.iter().map(|(_, outcome)| *outcome).collect();
        outcomes.sort_by(|a, b| f64::total_cmp(&a.rank().unwrap_or(0.0), &b.rank().unwrap_or(0.0)));
        let shown = |outcome: &Outcome| outcome.json().as_ref().map(word).unwrap_or_default();
        let (Some(least), Some(most)) = (outcomes.first(), outcomes.last()) else {
            return String::new();
        };
        if other.over.is_none() {
            return format!("; with {}: {}", other.text, shown(least));
        }
        let fitting = outcomes
            .iter()
            .filter(|outcome| self.is_as_printed(paper, **outcome));
        format!(
            "; with {}: {} to {}, as printed for {} of {}",
            other.text,
            shown(least),
            shown(most),
            fitting.count(),
            outcomes.len()
        )
    }
}

/// `delayed_ack=on disconnection_s=5`.
pub(super) fn shown(parameters: &Where) -> String {
    let parameters = parameters.iter();
    let pairs = parameters.map(|(name, value)| format!("{name}={}", word(value)));
    pairs.collect::<Vec<_>>().join(" ")
}

/// An entry for each cell.
pub(super) fn entries(paper: &Paper, table: &ClaimedTable, lines: &[ResultLine]) -> Vec<Entry> {
    Cell::all(table)
        .map(|cell| cell.entry(paper, lines))
        .collect()
}

/// For each value of a condition that the paper leaves open: how many of a table's cells are as
/// printed.
pub(super) fn fits(paper: &Paper, table: &ClaimedTable, lines: &[ResultLine]) -> Vec<Fit> {
    let open = table.alternative.iter();
    let open = open.filter_map(|other| Some((other, other.over.as_ref()?)));
    let fits = open.flat_map(|(other, over)| {
        let outcomes: Vec<(Json, bool)> = Cell::all(table)
            .flat_map(|cell| {
                let outcomes = cell.alternatively(paper, other, lines).into_iter();
                outcomes.map(move |(value, outcome)| (value, cell.is_as_printed(paper, outcome)))
            })
            .collect();
        let groups = grouped(&outcomes, |(value, _)| Same(value)).into_iter();
        let fits = groups.map(|(Same(value), outcomes)| Fit {
            table: table.id.clone(),
            parameter: over.clone(),
            value: value.clone(),
            as_printed: outcomes.iter().filter(|(_, fits)| *fits).count(),
            cells: outcomes.len(),
        });
        fits.collect::<Vec<_>>()
    });
    fits.collect()
}
