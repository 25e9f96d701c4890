// SPDX-License-Identifier: Apache-2.0
//! The results with today's senders: in the columns of one of the paper's tables, or a column for
//! each scheme if nothing else is swept.

use maud::{Markup, html};
use serde_json::Value as Json;

use super::line::{SCHEME, SENDER, median_text, optimum, parameter};
use crate::claims::file::ClaimedTable;
use crate::claims::{Metric, Paper};
use crate::report::figure::{Bar, Figure, Row};
use crate::report::selection::heading;
use crate::report::tables;
use crate::results::{ResultLine, grouped, word};

/// The name of the row with the lower bound.
const NO_TRANSFER: &str = "no transfer can beat";

/// A table of medians: two headings, the columns, and rows of names with cells. A row with one name
/// is about all rows of the other names.
fn median_table(
    heads: [&str; 2],
    columns: &[String],
    rows: &[(Vec<String>, Vec<String>)],
) -> Markup {
    html! {
        table {
            thead { tr {
                @for head in heads { th { (head) } }
                @for column in columns { th.number { (column) } }
            } }
            tbody {
                @for (names, cells) in rows {
                    tr {
                        @if let [name] = names.as_slice() {
                            th colspan="2" { (name) }
                        } @else {
                            @for name in names { th { (name) } }
                        }
                        @for cell in cells { td.cell { (cell) } }
                    }
                }
            }
        }
    }
}

/// The results in the columns of one of the paper's tables, with its figures.
pub(super) fn table(table: &ClaimedTable, lines: &[&ResultLine]) -> Markup {
    let values = lines
        .iter()
        .filter_map(|line| line.parameters.get(&table.column));
    let columns = grouped(values, |value| (*value).clone()).into_iter();
    let columns: Vec<Json> = columns.map(|(value, _)| value).collect();
    let cells = |lines: &[&ResultLine], text: &dyn Fn(&[&ResultLine]) -> String| {
        let cells = columns.iter().map(|column| text(&at(table, column, lines)));
        cells.collect::<Vec<_>>()
    };
    let rows = grouped(lines.iter().copied(), |line| {
        vec![parameter(line, SENDER), parameter(line, SCHEME)]
    });
    let mut rows: Vec<_> = rows
        .into_iter()
        .map(|(names, lines)| {
            (
                names,
                cells(&lines, &|lines| median_text(table.metric, lines)),
            )
        })
        .collect();
    if table.metric == Metric::TransferS {
        rows.push((vec![NO_TRANSFER.to_owned()], cells(lines, &optimum)));
    }
    let names: Vec<String> = columns.iter().map(word).collect();
    html! {
        section {
            h3 { (table.metric.name()) ", " (heading(&table.column)) }
            (median_table(["sender", "gateway"], &names, &rows))
            @for figure in figures(table, &columns, lines) { (figure) }
        }
    }
}

/// The lines of one column.
fn at<'a>(table: &ClaimedTable, column: &Json, lines: &[&'a ResultLine]) -> Vec<&'a ResultLine> {
    let is_at = |line: &&&ResultLine| line.is(&table.column, column);
    lines.iter().filter(is_at).copied().collect()
}

/// A figure for each sender, with a curve for each scheme.
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

/// The results where only the scheme differs: a row for each sender.
pub(super) fn by_scheme(paper: &Paper, title: &str, lines: &[&ResultLine]) -> Markup {
    let schemes = grouped(lines.iter().copied(), |line| parameter(line, SCHEME));
    let schemes: Vec<String> = schemes.into_iter().map(|(scheme, _)| scheme).collect();
    let senders = grouped(lines.iter().copied(), |line| parameter(line, SENDER));
    let mut rows = Vec::new();
    for (metric, _) in grouped(&paper.claims.table, |table| table.metric) {
        let name = metric.name().to_owned();
        for (sender, lines) in &senders {
            let cells = schemes.iter().map(|scheme| {
                let own = lines.iter().copied();
                let own = own.filter(|line| parameter(line, SCHEME) == *scheme);
                median_text(metric, &own.collect::<Vec<_>>())
            });
            rows.push((vec![name.clone(), sender.clone()], cells.collect()));
        }
        if metric == Metric::TransferS {
            let cells = schemes.iter().map(|_| optimum(lines)).collect();
            rows.push((vec![name, NO_TRANSFER.to_owned()], cells));
        }
    }
    html! {
        section {
            h3 { (title) }
            (median_table(["", "sender"], &schemes, &rows))
        }
    }
}
