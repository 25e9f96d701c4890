// SPDX-License-Identifier: Apache-2.0
//! The page's second part: the paper's links with the senders of today's Linux.
//!
//! `PAPER/today.toml` and `PAPER/today-NAME.toml` sweep `congestion_control`, the gateway's
//! `scheme`, and parameters that the paper's own scenarios have too. The rules of the first part
//! judge the paper's claims on its variants, for each sender. For that a line replaces one of the
//! paper's runs: the first with the same scheme, the same values of those parameters, and a
//! receiver that delays its ACKs, as Linux does. If the line's scenario has a `NAME`, only runs of
//! `NAME.toml` count. If several of today's gateways have one scheme with different parameters,
//! each has a column.

mod against_rates;
mod columns;
pub(super) mod line;
mod measured;

use std::path::{Path, PathBuf};

use maud::{Markup, html};
use serde_json::Value as Json;

use super::command::{commands, quoted};
use super::selection::{
    counterpart, is_own, is_today, order_text, scenario_name, stem, today_files, variants_of,
    without,
};
use super::verdict_mark::{Notes, class, key, mark};
use super::{curves, rates};
use crate::claims::file::ClaimedTable;
use crate::claims::{self, Entry, Paper, SUBSTRATES, Verdict};
use crate::results::{ResultLine, Where, grouped, same, word};
use crate::scenario::{Run, Scenario};
use columns::Kinds;
use line::{SCHEME, SENDER, parameter};

/// The second part; without lines for it, the command that makes them.
pub(super) fn section(paper: &Paper, given: &[ResultLine]) -> anyhow::Result<Markup> {
    let all: Vec<&ResultLine> = given.iter().filter(|line| is_today(paper, line)).collect();
    let found = SUBSTRATES
        .into_iter()
        .find(|name| all.iter().any(|line| line.substrate == *name));
    let Some(substrate) = found else {
        return nothing(paper);
    };
    let lines: Vec<&ResultLine> = all
        .into_iter()
        .filter(|line| line.substrate == substrate)
        .collect();
    let (runs, todays_runs) = (papers_runs(paper)?, todays_runs(paper)?);
    let kinds = Kinds::of(&todays_runs);
    let senders = grouped(lines.iter().copied(), |line| parameter(line, SENDER));
    let judged: Vec<(String, Vec<Entry>)> = senders
        .iter()
        .flat_map(|(sender, lines)| columns::of(sender, lines, &kinds))
        .map(|(column, lines)| (column, judged(paper, &lines, &runs, &kinds)))
        .collect();
    let own: Vec<&ResultLine> = given.iter().filter(|line| is_own(paper, line)).collect();
    let against_rates = paper.claims.figure.iter();
    let against_rates: Vec<Markup> = against_rates
        .map(|figure| against_rates::section(paper, figure, &lines, &todays_runs, &own))
        .collect::<anyhow::Result<_>>()?;
    let by_file = by_file(paper, &lines)?;
    let tables = tables(paper);
    Ok(html! {
        p {
            "The paper's links and outages, with hosts as " (kernels(&lines)) " has them: its options, its "
            "buffers, its timers (" (substrate) ")."
        }
        @for (file, lines) in &by_file { (commands(file, lines)) }
        h3 { "Which of the paper's statements still hold" }
        p.quiet { "Judged by the rules of the first part. " (stand_ins(paper, &lines, &runs, &kinds).join("; ")) "." }
        (statements(paper, &judged))
        @for table in &tables {
            @if lines.iter().any(|line| line.parameters.contains_key(&table.column)) {
                (measured::table(table, &lines))
            }
        }
        @for section in &against_rates { (section) }
        @for (file, lines) in &by_file {
            @let is_shown = |line: &&ResultLine| {
                tables.iter().any(|table| line.parameters.contains_key(&table.column))
                    || paper.claims.figure.iter().any(|figure| rates::x_of(figure, line).is_some())
            };
            @if !lines.is_empty() && !lines.iter().any(is_shown) {
                (measured::by_scheme(paper, &description(file), lines))
            }
        }
        @for (sender, lines) in &senders {
            @let figures = curves::figures(lines, SCHEME, &|_| None);
            @if !figures.is_empty() {
                h3 { (sender) }
                @for figure in &figures { (figure) }
            }
        }
    })
}

/// The lines of each of today's scenarios.
fn by_file<'a>(
    paper: &Paper,
    lines: &[&'a ResultLine],
) -> anyhow::Result<Vec<(PathBuf, Vec<&'a ResultLine>)>> {
    let mut by_file = Vec::new();
    for file in today_files(paper)? {
        let name = scenario_name(paper, &file.to_string_lossy());
        let own = lines.iter().copied().filter(|line| line.scenario == name);
        by_file.push((file, own.collect()));
    }
    Ok(by_file)
}

/// The first of the paper's tables for each pair of metric and column parameter. Here the schemes
/// are in the rows.
fn tables(paper: &Paper) -> Vec<&ClaimedTable> {
    let tables = grouped(&paper.claims.table, |table| {
        (table.metric, table.column.as_str())
    });
    let first = tables
        .into_iter()
        .filter_map(|(_, tables)| tables.first().copied());
    first.filter(|table| table.column != SCHEME).collect()
}

fn nothing(paper: &Paper) -> anyhow::Result<Markup> {
    let files: Vec<String> = today_files(paper)?
        .iter()
        .map(|file| quoted(&file.display().to_string()))
        .collect();
    Ok(html! {
        p {
            "No results with today's senders were given. They come from real Linux TCP, on the substrate "
            code { "linux" } " (or " code { "live" } "):"
        }
        @if !files.is_empty() {
            pre.command {
                "holdfast lab run " (files.join(" ")) " --substrate linux --out today.jsonl"
            }
            pre.command { "holdfast lab report --paper " (paper.name) " --results today.jsonl" }
        }
    })
}

fn description(file: &Path) -> String {
    Scenario::load(file).map_or_else(|_| file.display().to_string(), |item| item.description)
}

fn kernels(lines: &[&ResultLine]) -> String {
    let kernels = grouped(
        lines.iter().filter_map(|line| line.kernel.as_deref()),
        |kernel| *kernel,
    );
    let names: Vec<String> = kernels
        .iter()
        .map(|(kernel, _)| format!("Linux {kernel}"))
        .collect();
    if names.is_empty() {
        "Linux".to_owned()
    } else {
        names.join(", ")
    }
}

/// The paper's own runs that a line with today's senders can replace.
fn papers_runs(paper: &Paper) -> anyhow::Result<Vec<Run>> {
    let tables = paper
        .claims
        .table
        .iter()
        .map(|table| table.scenario.as_str());
    let statements = paper
        .claims
        .statement
        .iter()
        .map(|statement| statement.scenario.as_str());
    let files = grouped(tables.chain(statements), |file| *file);
    let mut runs = Vec::new();
    for (file, _) in files {
        runs.extend(Scenario::load(&paper.folder.join(file))?.runs(None)?);
    }
    runs.retain(|run| run.conditions.mh.delayed_ack != Some(false));
    Ok(runs)
}

/// The runs with today's senders.
fn todays_runs(paper: &Paper) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for file in today_files(paper)? {
        runs.extend(Scenario::load(&file)?.runs(None)?);
    }
    Ok(runs)
}

/// The runs that a line replaces: at most one of each of the paper's scenarios.
fn matching_runs<'a>(
    paper: &Paper,
    line: &ResultLine,
    runs: &'a [Run],
    kinds: &Kinds,
) -> Vec<&'a Run> {
    let only = counterpart(paper, line);
    let shared = without(&line.parameters, &[SENDER, SCHEME]);
    let scheme = kinds.of_line(line);
    let fits = |run: &&Run| {
        only.as_ref().is_none_or(|only| run.scenario == *only)
            && run.conditions.gateway.scheme.name() == scheme
            && shared.iter().all(|(name, value)| {
                let other = run.parameters.get(name);
                other.is_some_and(|other| same(other, value))
            })
    };
    let fitting = grouped(runs.iter().filter(fits), |run| run.scenario.clone());
    fitting
        .into_iter()
        .filter_map(|(_, runs)| runs.first().copied())
        .collect()
}

/// The entries on orders and statements, with one sender's lines as if they were the model's.
fn judged(paper: &Paper, lines: &[&ResultLine], runs: &[Run], kinds: &Kinds) -> Vec<Entry> {
    let standing_in = lines.iter().flat_map(|line| {
        matching_runs(paper, line, runs, kinds)
            .into_iter()
            .map(|run| ResultLine {
                scenario: run.scenario.clone(),
                parameters: run.parameters.clone(),
                // Orders are judged on the model's lines alone.
                substrate: SUBSTRATES[0].to_owned(),
                series: None,
                ..(*line).clone()
            })
    });
    let lines: Vec<ResultLine> = standing_in.collect();
    let of_those_there = claims::order_and_statement_entries(&with_runs(paper, &lines), &lines);
    let mut entries = claims::order_and_statement_entries(paper, &lines);
    for entry in &mut entries {
        // A variant without a run here is left out of the verdict on the order; the reason names
        // it.
        if let Some(there) = of_those_there.iter().find(|there| there.id == entry.id) {
            entry.verdict = there.verdict;
        }
    }
    entries
}

/// The paper without the variants that have no run.
fn with_runs(paper: &Paper, lines: &[ResultLine]) -> Paper {
    let mut paper = paper.clone();
    for table in &mut paper.claims.table {
        let variants = table.variants.clone();
        let has_run = |value: &Json| {
            let selection = Where::from([(variants.clone(), value.clone())]);
            lines.iter().any(|line| line.has(&selection))
        };
        table
            .row
            .retain(|row| row.selection.get(&variants).is_none_or(has_run));
        if table.column == variants {
            let kept: Vec<bool> = table.columns.iter().map(has_run).collect();
            let mut keep = kept.iter().copied();
            table.columns.retain(|_| keep.next().unwrap_or(true));
            for row in &mut table.row {
                let mut keep = kept.iter().copied();
                row.printed.retain(|_| keep.next().unwrap_or(true));
            }
        }
    }
    paper
}

/// The claims that still hold: a row for each order and statement, a column for each sender.
fn statements(paper: &Paper, judged: &[(String, Vec<Entry>)]) -> Markup {
    let Some((_, first)) = judged.first() else {
        return html! {};
    };
    let is_known = |row: &usize| {
        judged
            .iter()
            .any(|(_, entries)| entries[*row].verdict != Verdict::NotComparable)
    };
    let (known, unknown): (Vec<usize>, Vec<usize>) = (0..first.len()).partition(is_known);
    let mut notes = Notes::new("today");
    let rows: Vec<(&Entry, Vec<Markup>)> = known
        .iter()
        .map(|row| {
            let cells = judged.iter().map(|(sender, entries)| {
                let entry = &entries[*row];
                statement_cell(
                    entry,
                    notes.refer(entry, format!("{sender}, {}", claim_text(paper, entry))),
                )
            });
            (&first[*row], cells.collect())
        })
        .collect();
    html! {
        (key())
        table {
            thead { tr {
                th { "statement of the paper" } th { "printed" }
                @for (sender, _) in judged { th { (sender) } }
            } }
            tbody {
                @for (entry, cells) in &rows {
                    tr {
                        td { (claim_text(paper, entry)) }
                        td { (word(&entry.printed)) }
                        @for cell in cells { (cell) }
                    }
                }
            }
        }
        (notes.list())
        @if !unknown.is_empty() {
            p.quiet {
                (unknown.len()) " more have no runs with today's senders, or the paper leaves a condition open: "
                (unknown.iter().map(|row| claim_text(paper, &first[*row])).collect::<Vec<_>>().join("; ")) "."
            }
        }
    }
}

/// A statement's text, or the cells that an order is about.
fn claim_text(paper: &Paper, entry: &Entry) -> String {
    let statement = paper
        .claims
        .statement
        .iter()
        .find(|statement| statement.id == entry.id);
    let order = paper.claims.table.iter().find_map(|table| {
        let rest = entry.id.strip_prefix(&table.id)?.strip_prefix("/order/")?;
        let selection = order_text(rest);
        let selection = if selection.is_empty() {
            selection
        } else {
            format!(": {selection}")
        };
        Some(format!(
            "{}, {}, order{selection}",
            table.metric.name(),
            stem(&table.scenario)
        ))
    });
    let statement = statement.map(|statement| statement.text.clone());
    statement.or(order).unwrap_or_else(|| entry.id.clone())
}

/// For each variant of the paper, the scheme that replaces it in the judged lines.
fn stand_ins(paper: &Paper, lines: &[&ResultLine], runs: &[Run], kinds: &Kinds) -> Vec<String> {
    let all = lines.iter().flat_map(|line| {
        matching_runs(paper, line, runs, kinds)
            .into_iter()
            .filter_map(|run| {
                let variant = run.parameters.get(variants_of(paper))?;
                Some((word(variant), parameter(line, SCHEME)))
            })
    });
    let names = grouped(all, Clone::clone)
        .into_iter()
        .map(|((variant, scheme), _)| {
            format!("{variant}: the sender with the gateway's scheme {scheme}")
        });
    names.collect()
}

fn statement_cell(entry: &Entry, reference: Markup) -> Markup {
    html! {
        td class=(class(entry.verdict)) title=(entry.reason) {
            @if let Some(came) = &entry.model { (word(came)) " " }
            (mark(entry.verdict)) (reference)
        }
    }
}
