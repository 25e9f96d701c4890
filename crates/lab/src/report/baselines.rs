// SPDX-License-Identifier: Apache-2.0
//! The page's part on other authors' remedies. `PAPER/baselines.toml` and
//! `PAPER/baselines-NAME.toml` sweep `remedy` and one more parameter.

use maud::{Markup, html};
use serde_json::Value as Json;

use super::command::commands;
use super::figure::{Bar, Figure, Row};
use super::selection::{baseline_files, heading, scenario_name};
use super::tables;
use super::today::line::{median_text, parameter};
use crate::claims::{Metric, Paper};
use crate::results::{ResultLine, Same, grouped, word};
use crate::scenario::{Run, Scenario, SchemeChoice};

/// The parameter of the remedy.
const REMEDY: &str = "remedy";
/// The most curves of one drawing besides the first remedy, which is in each drawing.
const CURVES_MAX: usize = 5;

/// A section for each of the paper's files that has lines.
pub(super) fn sections(paper: &Paper, lines: &[&ResultLine]) -> anyhow::Result<Vec<Markup>> {
    let metric = paper.claims.table.first();
    let metric = metric.map_or(Metric::TransferS, |table| table.metric);
    let mut sections = Vec::new();
    for file in baseline_files(paper)? {
        let name = scenario_name(paper, &file.to_string_lossy());
        let own = lines.iter().copied().filter(|line| line.scenario == name);
        let own: Vec<&ResultLine> = own.collect();
        if own.is_empty() {
            continue;
        }
        let scenario = Scenario::load(&file)?;
        let changes = changes(&scenario.runs(None)?);
        sections.push(html! {
            section {
                h3 { (scenario.description) }
                (commands(&file, &own))
                @let columns = columns(paper, &own);
                (table(metric, &columns, &own, &changes))
                @for drawing in &drawings(metric, &columns, &own) { (drawing) }
            }
        });
    }
    Ok(sections)
}

/// The parameter of the columns, with its values: one that a table of the paper has as columns, or
/// else the first one but the remedy. Runs that differ in other parameters count as repetitions.
fn columns(paper: &Paper, lines: &[&ResultLine]) -> (String, Vec<Json>) {
    let names = lines.iter().flat_map(|line| line.parameters.keys());
    let names: Vec<&String> = names.filter(|name| *name != REMEDY).collect();
    let tables = &paper.claims.table;
    let is_claimed = |name: &&&String| tables.iter().any(|table| table.column == ***name);
    let name = names.iter().find(is_claimed).or(names.first());
    let name = name.map_or_else(String::new, |name| (*name).clone());
    let values = lines.iter().filter_map(|line| line.parameters.get(&name));
    let values = grouped(values, |value| Same(value)).into_iter();
    let values = values.filter_map(|(_, values)| values.first().map(|value| (*value).clone()));
    (name, values.collect())
}

/// The lines of each remedy.
fn rows<'a>(lines: &[&'a ResultLine]) -> Vec<(String, Vec<&'a ResultLine>)> {
    grouped(lines.iter().copied(), |line| parameter(line, REMEDY))
}

/// The lines for each value of the parameter.
fn cells<'a>(name: &str, values: &[Json], lines: &[&'a ResultLine]) -> Vec<Vec<&'a ResultLine>> {
    let at = |value: &Json| {
        let lines = lines.iter().copied();
        lines.filter(|line| line.is(name, value)).collect()
    };
    values.iter().map(at).collect()
}

/// The changes of each remedy, by its name: its first run's conditions that differ from those of
/// the first remedy.
fn changes(runs: &[Run]) -> Vec<(String, String)> {
    let remedies = grouped(runs, |run| run.parameters.get(REMEDY).map(word));
    let first = runs.first().map(|run| &run.conditions);
    let changes = remedies.into_iter().filter_map(|(remedy, runs)| {
        let (own, first) = (&runs.first()?.conditions, first?);
        let parts = [
            (
                own.fh != first.fh || own.gateway.scheme == SchemeChoice::Ebsn,
                "FH",
            ),
            (own.gateway.scheme != first.gateway.scheme, "base station"),
            (own.wireless != first.wireless, "link"),
            (own.mh != first.mh || own.mobile != first.mobile, "MH"),
        ];
        let parts = parts.into_iter().filter(|(differs, _)| *differs);
        let parts: Vec<&str> = parts.map(|(_, part)| part).collect();
        Some((remedy?, parts.join(", ")))
    });
    changes.collect()
}

fn table(
    metric: Metric,
    (name, values): &(String, Vec<Json>),
    lines: &[&ResultLine],
    changes: &[(String, String)],
) -> Markup {
    html! {
        p.quiet {
            (metric.name()) ", medians of the runs with the least and the most; then the most bytes that were "
            "acknowledged to the sender before the receiver had them, of all runs; then what the remedy changes."
        }
        table {
            thead {
                tr {
                    th rowspan="2" { (REMEDY) }
                    th colspan=(values.len()) { (heading(name)) }
                    th.number rowspan="2" { "acknowledged ahead (bytes)" }
                    th rowspan="2" { "changes" }
                }
                tr { @for value in values { th.number { (word(value)) } } }
            }
            tbody {
                @for (remedy, lines) in &rows(lines) {
                    tr {
                        th { (remedy) }
                        @for cell in &cells(name, values, lines) {
                            td.cell { (median_text(metric, cell)) }
                        }
                        td.cell { (ahead(lines)) }
                        td {
                            @for (_, parts) in changes.iter().filter(|(name, _)| name == remedy) { (parts) }
                        }
                    }
                }
            }
        }
    }
}

/// The most bytes that were acknowledged ahead; empty on substrates that do not count them.
fn ahead(lines: &[&ResultLine]) -> String {
    let known = lines
        .iter()
        .filter_map(|line| line.acknowledged_ahead_bytes);
    known
        .max()
        .map_or_else(|| "–".to_owned(), |bytes| bytes.to_string())
}

fn drawings(
    metric: Metric,
    (name, values): &(String, Vec<Json>),
    lines: &[&ResultLine],
) -> Vec<Markup> {
    let Some(columns) = tables::columns(values) else {
        return Vec::new();
    };
    let rows = rows(lines);
    let Some((first, others)) = rows.split_first() else {
        return Vec::new();
    };
    let figures = others.chunks(CURVES_MAX).filter_map(|others| {
        let shown = std::iter::once(first).chain(others);
        let rows = shown.map(|(remedy, lines)| Row {
            name: remedy.clone(),
            printed: Vec::new(),
            runs: cells(name, values, lines),
        });
        let figure = Figure {
            metric,
            title: "other authors' remedies".to_owned(),
            x_name: heading(name),
            columns: columns.clone(),
            bar: Bar::Confidence,
            optimum: false,
            rows: rows.collect(),
        };
        figure.draw()
    });
    figures.collect()
}
