// SPDX-License-Identifier: Apache-2.0
//! Figures of a metric against the lengths of disconnections: what is printed beside the
//! means of the runs with their 95% confidence intervals.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::Value as Json;

use super::chart::{self, Look, Panel};
use crate::statistics::Mean;
use super::selection::{heading, metric_name, metric_text, word};
use crate::claims::file::Metric;
use crate::results::ResultLine;

/// The drawing's height.
const HEIGHT: f64 = 330.0;
/// Where the panel ends.
const BOTTOM: f64 = 282.0;
/// How far apart the curves' points are at one length, as a share of the distance of two
/// lengths: points at the same height stay apart.
const APART: f64 = 0.15;

/// One curve: its cells, one a column.
pub(super) struct Row<'a> {
    /// Its name.
    pub(super) name: String,
    /// What is printed; none: there is no such cell, or it did not finish.
    pub(super) printed: Vec<Option<f64>>,
    /// The runs of each cell.
    pub(super) runs: Vec<Vec<&'a ResultLine>>,
}

/// What a figure shows.
pub(super) struct Figure<'a> {
    /// The metric.
    pub(super) metric: Metric,
    /// The columns' parameter.
    pub(super) column: &'a str,
    /// Its values.
    pub(super) columns: &'a [Json],
    /// What all of its runs have in common, in words.
    pub(super) title: String,
    /// The curves.
    pub(super) rows: Vec<Row<'a>>,
}

/// What the runs of one cell say.
struct Cell {
    mean: Option<Mean>,
    finished: usize,
    runs: usize,
}

impl Cell {
    fn of(metric: Metric, runs: &[&ResultLine]) -> Self {
        let values: Vec<f64> = runs.iter().filter_map(|line| metric.of(line)).collect();
        Self {
            mean: Mean::of(&values),
            finished: values.len(),
            runs: runs.len(),
        }
    }

    fn highest(&self) -> Option<f64> {
        self.mean
            .map(|mean| mean.value + mean.half_width.unwrap_or(0.0))
    }
}

impl Figure<'_> {
    /// Draws it; nothing without runs.
    pub(super) fn draw(&self) -> Option<Markup> {
        let cells: Vec<Vec<Cell>> = self
            .rows
            .iter()
            .map(|row| {
                row.runs
                    .iter()
                    .map(|runs| Cell::of(self.metric, runs))
                    .collect()
            })
            .collect();
        if cells.iter().flatten().all(|cell| cell.runs == 0) {
            return None;
        }
        let any_unfinished = cells.iter().flatten().any(|cell| cell.finished < cell.runs);
        let panel = self.panel(&cells, any_unfinished);
        let content = html! {
            (panel.frame(metric_name(self.metric)))
            @for (index, column) in self.columns.iter().enumerate() {
                (panel.x_mark(index as f64, &word(column)))
            }
            (panel.x_name(&heading(self.column)))
            @for (index, (row, cells)) in self.rows.iter().zip(&cells).enumerate() {
                (self.curve(&panel, index, row, cells))
            }
        };
        let words = format!(
            "{} against {}, {}",
            metric_name(self.metric),
            heading(self.column),
            self.title
        );
        Some(html! {
            figure {
                (self.legend(any_unfinished))
                (chart::drawing(HEIGHT, &words, content))
                figcaption { (words) ". " (how_many(&self.rows)) }
            }
        })
    }

    fn panel(&self, cells: &[Vec<Cell>], any_unfinished: bool) -> Panel {
        let ours = cells.iter().flatten().filter_map(Cell::highest);
        let printed = self
            .rows
            .iter()
            .flat_map(|row| row.printed.iter().copied().flatten());
        let highest = ours.chain(printed).fold(0.0, f64::max);
        // What did not finish stands above all that did.
        let room = if any_unfinished { 1.12 } else { 1.02 };
        let ends = [-0.5, self.columns.len() as f64 - 0.5];
        Panel::new(8.0, BOTTOM, ends, highest * room)
    }

    fn legend(&self, any_unfinished: bool) -> Markup {
        let looks: Vec<(String, Look)> = self
            .rows
            .iter()
            .enumerate()
            .map(|(index, row)| (row.name.clone(), chart::look(index)))
            .collect();
        let has_printed = self
            .rows
            .iter()
            .any(|row| row.printed.iter().any(Option::is_some));
        chart::legend(
            &looks,
            true,
            html! {
                @if has_printed { span { "hollow: as printed" } }
                @if any_unfinished { span { "× not finished" } }
            },
        )
    }

    fn curve(&self, panel: &Panel, index: usize, row: &Row, cells: &[Cell]) -> Markup {
        let look = chart::look(index);
        let offset = (index as f64 - (self.rows.len() as f64 - 1.0) / 2.0) * APART;
        let place = |column: usize, beside: f64| column as f64 + offset + beside;
        let ours: Vec<(f64, f64)> = cells
            .iter()
            .enumerate()
            .filter_map(|(column, cell)| Some((place(column, 0.0), cell.mean?.value)))
            .collect();
        let text = |value| metric_text(self.metric, value);
        html! {
            (panel.curve(&ours, look, "curve"))
            @for (column, value) in row.printed.iter().enumerate() {
                @if let Some(value) = value {
                    @let words = format!("{}, printed: {}", row.name, text(*value));
                    (panel.point((place(column, -0.05), *value), look, true, &words))
                }
            }
            @for (column, cell) in cells.iter().enumerate() {
                @let x = place(column, 0.0);
                @if let Some(mean) = cell.mean {
                    @if let Some(half) = mean.half_width {
                        (panel.interval(x, [mean.value - half, mean.value + half], look))
                    }
                    @let half = mean.half_width.map(|half| format!(" ± {}", text(half))).unwrap_or_default();
                    @let words = format!("{}: {}{half}", row.name, text(mean.value));
                    (panel.point((x, mean.value), look, false, &words))
                }
                @if cell.finished < cell.runs {
                    @let words = format!("{}: {} of {} not finished", row.name, cell.runs - cell.finished, cell.runs);
                    (panel.unfinished(x, look, 0, &words))
                }
            }
        }
    }
}

/// What the points are, and whether they have intervals.
fn how_many(rows: &[Row]) -> String {
    let cells = || {
        rows.iter()
            .flat_map(|row| &row.runs)
            .filter(|runs| !runs.is_empty())
    };
    let counts: BTreeSet<usize> = cells().map(Vec::len).collect();
    let (Some(least), Some(most)) = (counts.first(), counts.last()) else {
        return String::new();
    };
    if *most == 1 {
        return "One run a point: there is no interval.".to_owned();
    }
    let differing: BTreeSet<String> = cells().flat_map(|runs| differing(runs)).collect();
    let differing: Vec<String> = differing.into_iter().collect();
    let count = if least == most {
        most.to_string()
    } else {
        format!("{least} to {most}")
    };
    format!(
        "Points are means of {count} runs that differ in {}; bars are their 95% confidence intervals (Student's t).",
        differing.join(", ")
    )
}

/// What differs between the runs of one cell, in words.
fn differing(runs: &[&ResultLine]) -> Vec<String> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    let differs = |name: &String| {
        others
            .iter()
            .any(|other| other.parameters.get(name) != first.parameters.get(name))
    };
    let names = first.parameters.keys().filter(|name| differs(name));
    let mut words: Vec<String> = names.map(|name| heading(name)).collect();
    if others.iter().any(|other| other.seed != first.seed) {
        words.push("seed".to_owned());
    }
    words
}

/// Whether a figure of these columns says more than their table: lengths, not names.
pub(super) fn is_drawable(columns: &[Json]) -> bool {
    columns.len() > 1 && columns.iter().all(Json::is_number)
}
