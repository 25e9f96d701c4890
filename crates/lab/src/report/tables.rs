// SPDX-License-Identifier: Apache-2.0
//! A paper's tables: each printed cell with our result, and the verdict on it.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::Value as Json;

use super::command::commands;
use super::figure::{self, Bar, Column, Figure};
use super::selection::{heading, order_text, parameters_text, scenario_name};
use super::verdict_mark::{Notes, class, mark, mark_and_name};
use crate::claims::file::{ClaimedTable, Row};
use crate::claims::{self, Entry, Fit, Metric, Paper, SUBSTRATES, TableEntries};
use crate::results::{ResultLine, Where, grouped, word};
use crate::scenario::Scenario;

/// All tables of a paper.
pub(super) fn sections(paper: &Paper, own: &[ResultLine]) -> Vec<Markup> {
    let lines: Vec<&ResultLine> = own.iter().collect();
    let tables = paper.claims.table.iter().zip(1..);
    let sections = tables.map(|(table, number)| {
        let entries = claims::table_entries(paper, table, own);
        section(paper, number, table, &entries, &lines)
    });
    sections.collect()
}

/// How many cells are as printed, for each value of a condition that the paper leaves open.
fn fits(all: &[Fit]) -> Markup {
    let by_parameter = grouped(all, |fit| &fit.parameter);
    html! {
        @for (parameter, fits) in &by_parameter {
            table {
                thead { tr {
                    th { (heading(parameter)) ", not printed" } th.number { "cells as printed" }
                } }
                tbody {
                    // One row for each value: the values may not fit in the width of a page.
                    @for fit in fits {
                        tr { th.number { (word(&fit.value)) } td.cell { (fit.as_printed) " of " (fit.cells) } }
                    }
                }
            }
        }
    }
}

fn section(
    paper: &Paper,
    number: usize,
    table: &ClaimedTable,
    entries: &TableEntries,
    all: &[&ResultLine],
) -> Markup {
    let file = paper.folder.join(&table.scenario);
    let own = lines_of(paper, &table.scenario, all);
    let lines = own.as_slice();
    let description = Scenario::load(&file).map(|scenario| scenario.description);
    let mut notes = Notes::new(&format!("t{number}"));
    let body = body(table, &entries.cells, &mut notes);
    html! {
        section {
            h3 { "Table " (number) ". " (table.metric.name()) }
            p.quiet {
                @if let Ok(description) = &description { (description) "; " }
                code { (table.id) } ". " (how_many(table, lines))
            }
            (body)
            (notes.list())
            (fits(&entries.fits))
            (orders(table, &entries.orders))
            (commands(&file, lines))
            @for substrate in SUBSTRATES {
                @for figure in figures(table, lines, substrate, None) { (figure) }
            }
            @for assumption in assumptions(table) {
                @let lines = lines_of(paper, assumption.scenario, all);
                @let figures = figures(table, &lines, SUBSTRATES[0], Some(&assumption));
                @for figure in &figures { (figure) }
                @if !figures.is_empty() {
                    (commands(&paper.folder.join(assumption.scenario), &lines))
                }
            }
        }
    }
}

fn lines_of<'a>(paper: &Paper, scenario: &str, lines: &[&'a ResultLine]) -> Vec<&'a ResultLine> {
    let name = scenario_name(paper, scenario);
    lines
        .iter()
        .copied()
        .filter(|line| line.scenario == name)
        .collect()
}

/// Runs of the same cells under another assumption, drawn in one figure.
struct Assumption<'a> {
    scenario: &'a str,
    selection: Where,
    label: String,
}

/// The table's alternatives as assumptions. Numeric parameters are not selected: runs with all of
/// their values are a sample with a mean. Other parameters keep the alternative's value.
fn assumptions(table: &ClaimedTable) -> Vec<Assumption<'_>> {
    let others = table
        .alternative
        .iter()
        .filter(|other| other.scenario != table.scenario && other.metric.is_none());
    let all = others.map(|other| {
        let kept = other
            .selection
            .iter()
            .filter(|(_, value)| !value.is_number());
        let selection: Where = kept
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Assumption {
            scenario: &other.scenario,
            label: if selection.is_empty() {
                format!("all runs of {}", other.scenario)
            } else {
                other.text.clone()
            },
            selection,
        }
    });
    let mut assumptions: Vec<Assumption<'_>> = Vec::new();
    for assumption in all {
        let is_same = |other: &&mut Assumption<'_>| {
            other.scenario == assumption.scenario && other.selection == assumption.selection
        };
        match assumptions.iter_mut().find(is_same) {
            // The text of the last alternative: it may be about all values.
            Some(known) => known.label = assumption.label,
            None => assumptions.push(assumption),
        }
    }
    assumptions
}

/// The number of runs behind the mean or the median in a cell.
fn how_many(table: &ClaimedTable, lines: &[&ResultLine]) -> String {
    let counts: BTreeSet<usize> = table
        .row
        .iter()
        .flat_map(|row| table.columns.iter().map(move |column| (row, column)))
        .map(|(row, column)| runs_of(table, row, column, lines, SUBSTRATES[0]).len())
        .filter(|count| *count > 0)
        .collect();
    let values = if table.means { "Means" } else { "Medians" };
    match (counts.first(), counts.last()) {
        (Some(1), Some(1)) => "One run a cell.".to_owned(),
        (Some(least), Some(most)) if least == most => format!("{values} of {most} runs a cell."),
        (Some(least), Some(most)) => format!("{values} of {least} to {most} runs a cell."),
        _ => "No runs on the model.".to_owned(),
    }
}

fn runs_of<'a>(
    table: &ClaimedTable,
    row: &Row,
    column: &Json,
    lines: &[&'a ResultLine],
    substrate: &str,
) -> Vec<&'a ResultLine> {
    let is_of = |line: &&&ResultLine| {
        line.substrate == substrate && line.has(&row.selection) && line.is(&table.column, column)
    };
    lines.iter().filter(is_of).copied().collect()
}

fn body(table: &ClaimedTable, cells: &[Entry], notes: &mut Notes) -> Markup {
    let keys: BTreeSet<&String> = table
        .row
        .iter()
        .flat_map(|row| row.selection.keys())
        .collect();
    let rows = table.row.iter().zip(cells.chunks(table.columns.len()));
    html! {
        table {
            thead {
                tr {
                    @for key in &keys { th rowspan="2" { (heading(key)) } }
                    th colspan=(table.columns.len()) { (heading(&table.column)) }
                }
                tr { @for column in &table.columns { th.number { (word(column)) } } }
            }
            tbody {
                @for (row, cells) in rows {
                    tr {
                        @for key in &keys {
                            th { (row.selection.get(*key).map(word).unwrap_or_default()) }
                        }
                        @for (column, entry) in table.columns.iter().zip(cells) {
                            (cell(table, &row.selection, column, entry, notes))
                        }
                    }
                }
            }
        }
    }
}

fn cell(
    table: &ClaimedTable,
    row: &Where,
    column: &Json,
    entry: &Entry,
    notes: &mut Notes,
) -> Markup {
    let mut selection = row.clone();
    selection.insert(table.column.clone(), column.clone());
    let reference = notes.refer(entry, parameters_text(&selection));
    let values = [
        ("model", &entry.model),
        ("linux", &entry.linux),
        ("live", &entry.live),
    ];
    let known: Vec<(&str, String)> = values
        .iter()
        .filter_map(|(name, value)| Some((*name, shown(table.metric, value.as_ref()?))))
        .collect();
    html! {
        td class={ "cell " (class(entry.verdict)) } title=(entry.reason) {
            span.printed { "printed " (word(&entry.printed)) }
            @match known.first() {
                Some((name, value)) => {
                    @if *name != SUBSTRATES[0] { (name) " " }
                    span.ours { (value) }
                },
                None => span.ours { "no run" },
            }
            " " (mark(entry.verdict)) (reference)
            @for (name, value) in known.iter().skip(1) { span.other { (name) " " (value) } }
        }
    }
}

/// A value of a cell: a number of the metric, or text.
fn shown(metric: Metric, value: &Json) -> String {
    value
        .as_f64()
        .map_or_else(|| word(value), |value| metric.text(value))
}

fn orders(table: &ClaimedTable, entries: &[Entry]) -> Markup {
    let prefix = format!("{}/order/", table.id);
    html! {
        @if !entries.is_empty() {
            table {
                thead { tr {
                    th { "Order by " (heading(&table.variants)) }
                    th { "printed" } th { "here" } th { "verdict" } th { "why" }
                } }
                tbody {
                    @for entry in entries {
                        tr {
                            th { (order_text(entry.id.strip_prefix(&prefix).unwrap_or(&entry.id))) }
                            td { (word(&entry.printed)) }
                            td { (entry.model.as_ref().map_or_else(|| "–".to_owned(), word)) }
                            td class={ "verdict " (class(entry.verdict)) } { (mark_and_name(entry.verdict)) }
                            td { (entry.reason) }
                        }
                    }
                }
            }
        }
    }
}

/// A figure for each combination of the rows' parameters other than the variants.
fn figures(
    table: &ClaimedTable,
    lines: &[&ResultLine],
    substrate: &str,
    assumption: Option<&Assumption>,
) -> Vec<Markup> {
    let Some(columns) = columns(&table.columns) else {
        return Vec::new();
    };
    if table.column == table.variants {
        return Vec::new();
    }
    let is_assumed = |line: &&ResultLine| assumption.is_none_or(|item| line.has(&item.selection));
    let lines: Vec<&ResultLine> = lines.iter().copied().filter(is_assumed).collect();
    let groups = grouped(&table.row, |row| {
        let mut others = row.selection.clone();
        others.remove(&table.variants);
        others
    });
    let figures = groups.into_iter().filter_map(|(selection, rows)| {
        let rows = rows.into_iter().map(|row| figure::Row {
            name: row
                .selection
                .get(&table.variants)
                .map(word)
                .unwrap_or_default(),
            printed: row
                .printed
                .iter()
                .map(|value| finished(table, *value))
                .collect(),
            runs: table
                .columns
                .iter()
                .map(|column| runs_of(table, row, column, &lines, substrate))
                .collect(),
        });
        let figure = Figure {
            metric: table.metric,
            title: title(&selection, substrate, assumption),
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

/// The columns of a figure; none: the values are names, so that a figure shows no more than its
/// table.
pub(super) fn columns(values: &[Json]) -> Option<Vec<Column>> {
    let columns = values.iter().enumerate().map(|(index, value)| {
        Some(Column {
            x: value.as_f64()?,
            at: index as f64,
            ceiling: None,
        })
    });
    columns
        .collect::<Option<Vec<Column>>>()
        .filter(|columns| columns.len() > 1)
}

/// The parameters that the runs of a figure have in common.
fn title(selection: &Where, substrate: &str, assumption: Option<&Assumption>) -> String {
    let assumed = assumption.map(|assumption| assumption.label.clone());
    let parts = [
        parameters_text(selection),
        assumed.unwrap_or_default(),
        substrate.to_owned(),
    ];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(", ")
}

/// The printed value, unless it is the mark of an unfinished transfer.
fn finished(table: &ClaimedTable, printed: f64) -> Option<f64> {
    let is_mark = table
        .unfinished
        .is_some_and(|mark| mark.total_cmp(&printed).is_eq());
    (!is_mark).then_some(printed)
}
