// SPDX-License-Identifier: Apache-2.0
//! What was measured with today's senders, in the columns of one of the paper's tables.

use maud::{Markup, html};
use serde_json::Value as Json;

use super::{SCHEME, SENDER, median_text, optimum, parameter};
use crate::claims::file::{ClaimedTable, Metric};
use crate::report::lengths::{self, Figure};
use crate::report::selection::{grouped, heading, metric_name, same, word};
use crate::results::ResultLine;

/// What was measured, in the columns of one of the paper's tables, with its figures.
pub(super) fn table(table: &ClaimedTable, lines: &[&ResultLine]) -> Markup {
    let values = lines
        .iter()
        .filter_map(|line| line.parameters.get(&table.column));
    let columns: Vec<Json> = grouped(values, |value| (*value).clone())
        .into_iter()
        .map(|(value, _)| value)
        .collect();
    let rows = grouped(lines.iter().copied(), |line| {
        (parameter(line, SENDER), parameter(line, SCHEME))
    });
    html! {
        section {
            h3 { (metric_name(table.metric)) ", " (heading(&table.column)) }
            table {
                thead { tr {
                    th { "sender" } th { "gateway" }
                    @for column in &columns { th.number { (word(column)) } }
                } }
                tbody {
                    @for ((sender, scheme), lines) in &rows {
                        tr {
                            th { (sender) } th { (scheme) }
                            @for column in &columns {
                                td.cell { (median_text(table.metric, &at(table, column, lines))) }
                            }
                        }
                    }
                    @if table.metric == Metric::TransferS {
                        tr {
                            th colspan="2" { "no transfer can beat" }
                            @for column in &columns {
                                td.cell { (optimum(&at(table, column, lines))) }
                            }
                        }
                    }
                }
            }
            @if lengths::is_drawable(&columns) {
                @for figure in figures(table, &columns, lines) { (figure) }
            }
        }
    }
}

/// The lines of one column.
fn at<'a>(table: &ClaimedTable, column: &Json, lines: &[&'a ResultLine]) -> Vec<&'a ResultLine> {
    let is_at = |line: &&&ResultLine| {
        line.parameters
            .get(&table.column)
            .is_some_and(|value| same(value, column))
    };
    lines.iter().filter(is_at).copied().collect()
}

/// One figure a sender, one curve a scheme.
fn figures(table: &ClaimedTable, columns: &[Json], lines: &[&ResultLine]) -> Vec<Markup> {
    let senders = grouped(lines.iter().copied(), |line| parameter(line, SENDER));
    let figures = senders.into_iter().filter_map(|(sender, lines)| {
        let schemes = grouped(lines, |line| parameter(line, SCHEME));
        let rows = schemes.into_iter().map(|(scheme, lines)| lengths::Row {
            name: scheme,
            printed: Vec::new(),
            runs: columns
                .iter()
                .map(|column| at(table, column, &lines))
                .collect(),
        });
        let figure = Figure {
            metric: table.metric,
            column: &table.column,
            columns,
            title: sender,
            rows: rows.collect(),
        };
        figure.draw()
    });
    figures.collect()
}
