// SPDX-License-Identifier: Apache-2.0
//! A paper and the results of its experiments, as one HTML page.
//!
//! The page needs no other file: it contains its style and its drawings, no script, and no outside address. It has no
//! date: the same lines give the same bytes.
//!
//! First are the paper's tables beside ours, cell by cell, and its statements, with the verdicts of [`crate::claims`].
//! Then come the figures against time, for each scenario in the paper's folder that records series. Today's senders and
//! other authors' remedies on the same links follow. The scenarios are last. Each table and figure has the command that
//! makes it.

mod baselines;
mod chart;
mod command;
mod curves;
mod figure;
pub mod plot;
mod rates;
mod selection;
mod statements;
mod tables;
mod today;
mod verdict_mark;

use std::collections::BTreeSet;
use std::path::PathBuf;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::claims::Metric;
use crate::claims::{self, CLAIMS_FILE, Entry, Paper};
use crate::library;
use crate::results::{COMMIT, ResultLine, grouped, same};
use crate::scenario::{self, Run, SCENARIO_BYTES_MAX, Scenario};
use crate::substrate::SubstrateKind;
use selection::{is_own, is_today, scenario_name};

pub use command::quoted;

/// The page's style.
const STYLE: &str = include_str!("report/style.css");

/// Whether a line belongs on the paper's page.
pub fn is_about(paper: &Paper, line: &ResultLine) -> bool {
    is_own(paper, line) || is_today(paper, line)
}

/// The runs on the model that the page needs: those of the claims, and those of the paper's scenarios that record
/// series or have other authors' remedies.
///
/// # Errors
/// A scenario that cannot be read: one line with the file, the key and the remedy.
pub fn runs(paper: &Paper) -> anyhow::Result<Vec<Run>> {
    let mut runs = paper.runs(true)?;
    let recorded = recording(paper)?.into_iter().map(|file| (file, false));
    let compared = selection::baseline_files(paper)?;
    let compared = compared.into_iter().map(|file| (file, true));
    for (file, compares) in recorded.chain(compared) {
        let name = scenario_name(paper, &file.to_string_lossy());
        if !runs.iter().any(|run| run.scenario == name) {
            let mut own = Scenario::load(&file)?.runs(None)?;
            let taken = SubstrateKind::Model.takes(&own);
            // Nothing of a scenario whose hosts the model lacks, and no comparison with missing runs.
            if taken > 0 && (!compares || taken == own.len()) {
                own.retain(|run| SubstrateKind::Model.refusal(run).is_none());
                runs.extend(own);
            }
        }
    }
    Ok(runs)
}

/// Whether `line` is the result of `run` on the model, with this commit: another commit may give other results.
pub fn is_of(line: &ResultLine, run: &Run) -> bool {
    line.substrate == "model"
        && line.commit == COMMIT
        && line.scenario == run.scenario
        && line.variant == run.variant
        && line.seed == run.seed
}

/// The page from the lines about the paper; `made_by` is the command that made it.
///
/// # Errors
/// A scenario that cannot be read.
pub fn page(paper: &Paper, lines: &[ResultLine], made_by: &str) -> anyhow::Result<String> {
    let own: Vec<ResultLine> = lines
        .iter()
        .filter(|line| is_own(paper, line))
        .cloned()
        .collect();
    let entries = claims::entries(paper, &own);
    let tables = tables::sections(paper, &own);
    let own: Vec<&ResultLine> = own.iter().collect();
    let rates = rates::sections(paper, &own)?;
    let curves = curve_sections(paper, &own)?;
    let baselines = baselines::sections(paper, &own)?;
    let today = today::section(paper, lines)?;
    let about: Vec<&ResultLine> = lines.iter().filter(|line| is_about(paper, line)).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (paper.name) ": the paper and what came out here" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (header(paper, &about, &entries, made_by))
                main {
                    h2 { "1. The paper beside what came out here" }
                    p.quiet {
                        "Verdicts are computed from the printed values and the runs, by the rules in "
                        code { (paper.folder.join(CLAIMS_FILE).display()) } "."
                    }
                    @for table in &tables { (table) }
                    (statements::section(paper, &entries))
                    @for figure in &rates { (figure) }
                    @for curve in &curves { (curve) }
                    h2 { "2. Today's senders" }
                    (today)
                    @if !baselines.is_empty() { h2 { "3. Other authors' remedies" } }
                    @for section in &baselines { (section) }
                    h2 { (if baselines.is_empty() { 3 } else { 4 }) ". Scenarios" }
                    (scenarios(paper)?)
                }
            }
        }
    };
    Ok(page.into_string())
}

fn header(paper: &Paper, lines: &[&ResultLine], entries: &[Entry], made_by: &str) -> Markup {
    let intact = lines.iter().filter(|line| line.intact).count();
    let names = |values: Vec<String>, none: &str| {
        if values.is_empty() {
            none.to_owned()
        } else {
            values.join(", ")
        }
    };
    let commits = distinct(lines, |line| Some(line.commit.clone()));
    let kernels = distinct(lines, |line| line.kernel.clone());
    let substrates = grouped(lines.iter().copied(), |line| line.substrate.clone());
    let substrates: Vec<String> = substrates
        .iter()
        .map(|(name, lines)| format!("{name}, {}", counted(lines.len(), "run")))
        .collect();
    let facts = [
        (
            "Program",
            format!("holdfast, commit {}", names(commits, "not known")),
        ),
        ("Substrates", names(substrates, "no runs")),
        ("Kernel", names(kernels, "none: no run was on Linux")),
        ("Seeds", names(seeds(lines), "none")),
        (
            "Bytes",
            format!(
                "as they were sent in {intact} of {}",
                counted(lines.len(), "run")
            ),
        ),
        ("Claims", claims::counts(entries)),
    ];
    html! {
        header {
            h1 { (paper.claims.title) }
            table { tbody {
                @for (name, value) in &facts { tr { th { (name) } td { (value) } } }
            } }
            (verdict_mark::key())
            p { "This page is made by" }
            pre.command { (made_by) }
        }
    }
}

/// `1 run`, `2 runs`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

fn distinct(lines: &[&ResultLine], get: impl Fn(&ResultLine) -> Option<String>) -> Vec<String> {
    let values: BTreeSet<String> = lines.iter().filter_map(|line| get(line)).collect();
    values.into_iter().collect()
}

/// The seeds as text, with ranges of neighbours.
fn seeds(lines: &[&ResultLine]) -> Vec<String> {
    let seeds: BTreeSet<u64> = lines.iter().map(|line| line.seed).collect();
    let mut ranges: Vec<[u64; 2]> = Vec::new();
    for seed in seeds {
        match ranges.last_mut() {
            Some([_, last]) if last.checked_add(1) == Some(seed) => *last = seed,
            _ => ranges.push([seed, seed]),
        }
    }
    let ranges_text = ranges.iter().map(|[first, last]| {
        if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        }
    });
    ranges_text.collect()
}

/// The paper's own scenarios that record series.
fn recording(paper: &Paper) -> anyhow::Result<Vec<PathBuf>> {
    let mut recording = Vec::new();
    let files = scenario::find(&paper.folder)?.into_iter();
    for file in files.filter(|file| !selection::is_today_file(file)) {
        let runs = Scenario::load(&file)?.runs(None)?;
        if runs.iter().any(|run| !run.conditions.record.is_empty()) {
            recording.push(file);
        }
    }
    Ok(recording)
}

/// The figures against time, for each scenario.
fn curve_sections(paper: &Paper, lines: &[&ResultLine]) -> anyhow::Result<Vec<Markup>> {
    let mut sections = Vec::new();
    for file in recording(paper)? {
        let name = scenario_name(paper, &file.to_string_lossy());
        let own: Vec<&ResultLine> = lines
            .iter()
            .copied()
            .filter(|line| line.scenario == name && line.series.is_some())
            .collect();
        let figures = curves::figures(&own, selection::variants_of(paper), &|line| {
            printed(paper, line)
        });
        if figures.is_empty() {
            continue;
        }
        let description = Scenario::load(&file)?.description;
        sections.push(html! {
            section {
                h3 { (description) }
                (command::commands(&file, &own))
                @for figure in &figures { (figure) }
            }
        });
    }
    Ok(sections)
}

/// The goodput that a table of the paper prints for a line's run.
fn printed(paper: &Paper, line: &ResultLine) -> Option<f64> {
    let tables = paper.claims.table.iter();
    let mut tables = tables.filter(|table| {
        table.metric == Metric::GoodputMbps
            && scenario_name(paper, &table.scenario) == line.scenario
    });
    tables.find_map(|table| {
        let row = table.row.iter().find(|row| line.has(&row.selection))?;
        let own = line.parameters.get(&table.column)?;
        let column = table.columns.iter().position(|value| same(value, own))?;
        row.printed.get(column).copied()
    })
}

/// The scenario files themselves: they show what was assumed, and how values were chosen that are not printed.
fn scenarios(paper: &Paper) -> anyhow::Result<Markup> {
    let mut files: Vec<PathBuf> = paper
        .claims
        .scenarios(true)
        .iter()
        .map(|file| paper.folder.join(file))
        .collect();
    for file in recording(paper)? {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files.extend(selection::today_files(paper)?);
    files.extend(selection::baseline_files(paper)?);
    Ok(html! {
        section {
            p.quiet { "What was assumed, and how what the paper does not print was chosen." }
            @for file in &files {
                @if let Ok(text) = library::read(file, SCENARIO_BYTES_MAX) {
                    details {
                        summary { code { (file.display()) } }
                        pre { (text) }
                    }
                }
            }
        }
    })
}

#[cfg(test)]
mod tests;
