// SPDX-License-Identifier: Apache-2.0
//! What was measured with today's senders: in the columns of one of the paper's tables, or
//! by the gateway's scheme where that is all that is swept besides them.

use maud::{Markup, html};
use serde_json::Value as Json;

use super::line::{SCHEME, SENDER, median_text, optimum, parameter};
use crate::claims::file::ClaimedTable;
use crate::claims::{Metric, Paper};
use crate::report::figure::{Bar, Figure, Row};
use crate::report::selection::{grouped, heading};
use crate::report::tables;
use crate::results::{ResultLine, word};

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
            h3 { (table.metric.name()) ", " (heading(&table.column)) }
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
            @for figure in figures(table, &columns, lines) { (figure) }
        }
    }
}

/// The lines of one column.
fn at<'a>(table: &ClaimedTable, column: &Json, lines: &[&'a ResultLine]) -> Vec<&'a ResultLine> {
    let is_at = |line: &&&ResultLine| line.is(&table.column, column);
    lines.iter().filter(is_at).copied().collect()
}

/// One figure a sender, one curve a scheme.
fn figures(table: &ClaimedTable, values: &[Json], lines: &[&ResultLine]) -> Vec<Markup> {
    let Some(columns) = tables::columns(values) else {
        return Vec::new();
    };
    let senders = grouped(lines.iter().copied(), |line| parameter(line, SENDER));
    let figures = senders.into_iter().filter_map(|(sender, lines)| {
        let schemes = grouped(lines, |line| parameter(line, SCHEME));
        let rows = schemes.into_iter().map(|(scheme, lines)| Row {
            name: scheme,
            printed: Vec::new(),
            runs: values
                .iter()
                .map(|column| at(table, column, &lines))
                .collect(),
        });
        let figure = Figure {
            metric: table.metric,
            title: sender,
            x_name: heading(&table.column),
            columns: columns.clone(),
            bar: Bar::Confidence,
            optimum: false,
            rows: rows.collect(),
        };
        figure.draw()
    });
    figures.collect()
}

/// What was measured where the scheme is all that differs: a row a sender.
pub(super) fn by_scheme(paper: &Paper, title: &str, lines: &[&ResultLine]) -> Markup {
    let schemes: Vec<String> = grouped(lines.iter().copied(), |line| parameter(line, SCHEME))
        .into_iter()
        .map(|(scheme, _)| scheme)
        .collect();
    let senders = grouped(lines.iter().copied(), |line| parameter(line, SENDER));
    let metrics = grouped(&paper.claims.table, |table| table.metric);
    let cell = |lines: &[&ResultLine], metric: Metric, scheme: &String| {
        let own = lines.iter().copied();
        let own: Vec<&ResultLine> = own
            .filter(|line| parameter(line, SCHEME) == *scheme)
            .collect();
        median_text(metric, &own)
    };
    html! {
        section {
            h3 { (title) }
            table {
                thead { tr {
                    th { "" } th { "sender" }
                    @for scheme in &schemes { th.number { (scheme) } }
                } }
                tbody {
                    @for (metric, _) in &metrics {
                        @for (sender, lines) in &senders {
                            tr {
                                th { (metric.name()) } th { (sender) }
                                @for scheme in &schemes {
                                    td.cell { (cell(lines, *metric, scheme)) }
                                }
                            }
                        }
                        @if *metric == Metric::TransferS {
                            tr {
                                th { (metric.name()) } th { "no transfer can beat" }
                                @for _ in &schemes { td.cell { (optimum(lines)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
