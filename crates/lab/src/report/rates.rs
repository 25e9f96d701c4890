// SPDX-License-Identifier: Apache-2.0
//! The figures of a paper's claims file, redrawn from runs.

use maud::{Markup, html};

use super::command::commands;
use super::figure::{Bar, Column, Figure, Row};
use super::selection::{heading, scenario_name};
use crate::claims::file::ClaimedFigure;
use crate::claims::{Paper, SUBSTRATES};
use crate::framing::Framing;
use crate::results::ceiling::Ceiling;
use crate::results::{ResultLine, grouped, same, word};
use crate::scenario::{Run, Scenario};

/// The line's value of the figure's parameter; none: the line has none, or it is no number above 0.
pub(super) fn x_of(figure: &ClaimedFigure, line: &ResultLine) -> Option<f64> {
    let x = line.parameters.get(&figure.x)?.as_f64()?;
    (x > 0.0 && x.is_finite()).then_some(x)
}

/// A curve: its name, the printed values with their x, the lines.
type PrintedRow<'a> = (String, Vec<(f64, f64)>, Vec<&'a ResultLine>);

/// The figure of these runs. Each of `rows` is a curve.
pub(super) fn figure<'a, 'b>(
    figure: &ClaimedFigure,
    title: String,
    runs: impl IntoIterator<Item = &'b Run>,
    bar: Bar,
    rows: Vec<PrintedRow<'a>>,
) -> Figure<'a> {
    let columns = columns(figure, runs);
    let rows = rows.into_iter().map(|(name, printed, lines)| Row {
        name,
        printed: columns
            .iter()
            .map(|column| {
                let mut printed = printed.iter();
                let known = printed.find(|(x, _)| x.total_cmp(&column.x).is_eq());
                known.map(|(_, value)| *value)
            })
            .collect(),
        runs: columns
            .iter()
            .map(|column| {
                let is_at = |line: &&ResultLine| {
                    x_of(figure, line).is_some_and(|x| x.total_cmp(&column.x).is_eq())
                };
                lines.iter().copied().filter(is_at).collect()
            })
            .collect(),
    });
    Figure {
        metric: figure.metric,
        title,
        x_name: figure.x_name.clone().unwrap_or_else(|| heading(&figure.x)),
        rows: rows.collect(),
        columns,
        bar,
        optimum: figure.optimum,
    }
}

/// The values of x of these runs, ascending and without repetition.
fn columns<'b>(figure: &ClaimedFigure, runs: impl IntoIterator<Item = &'b Run>) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for run in runs {
        let x = run.parameters.get(&figure.x);
        let Some(x) = x.and_then(serde_json::Value::as_f64).filter(|x| *x > 0.0) else {
            continue;
        };
        if columns.iter().all(|column| !column.x.total_cmp(&x).is_eq()) {
            let ceiling = figure.ceiling.then(|| {
                let framing = Framing::of(&run.conditions);
                Ceiling::of(&run.conditions, framing)
            });
            columns.push(Column {
                x,
                at: libm::log2(x),
                ceiling: ceiling.flatten(),
            });
        }
    }
    columns.sort_by(|a, b| a.x.total_cmp(&b.x));
    if figure.linear {
        let gaps = columns.windows(2).map(|pair| pair[1].x - pair[0].x);
        let least = gaps.fold(f64::INFINITY, f64::min);
        let gap = if least.is_finite() && least > 0.0 {
            least
        } else {
            1.0
        };
        for column in &mut columns {
            column.at = column.x / gap;
        }
    }
    columns
}

/// The paper's own figures, redrawn from its own runs.
pub(super) fn sections(paper: &Paper, lines: &[&ResultLine]) -> anyhow::Result<Vec<Markup>> {
    let mut sections = Vec::new();
    for figure in &paper.claims.figure {
        let drawn = own(paper, figure, lines)?;
        let files = figure.scenarios.iter().map(|file| {
            let name = scenario_name(paper, file);
            let own = lines.iter().copied().filter(|line| line.scenario == name);
            (paper.folder.join(file), own.collect::<Vec<_>>())
        });
        let files: Vec<_> = files.collect();
        sections.push(html! {
            section {
                h3 { (figure.text) }
                @for (file, lines) in &files { (commands(file, lines)) }
                @for figure in drawn.iter().filter_map(Figure::draw) { (figure) }
            }
        });
    }
    Ok(sections)
}

/// A figure from the paper's own runs, for each substrate that has runs.
pub(super) fn own<'a>(
    paper: &Paper,
    claimed: &ClaimedFigure,
    lines: &[&'a ResultLine],
) -> anyhow::Result<Vec<Figure<'a>>> {
    let mut runs: Vec<Run> = Vec::new();
    for file in &claimed.scenarios {
        runs.extend(Scenario::load(&paper.folder.join(file))?.runs(None)?);
    }
    let scenarios = claimed.scenarios.iter();
    let names: Vec<String> = scenarios.map(|file| scenario_name(paper, file)).collect();
    let bar = if claimed.intervals {
        Bar::Confidence
    } else {
        Bar::Deviation
    };
    let mut figures = Vec::new();
    for substrate in SUBSTRATES {
        let is_own = |line: &&ResultLine| {
            line.substrate == substrate
                && names.contains(&line.scenario)
                && line.has(&claimed.selection)
        };
        let lines: Vec<&ResultLine> = lines.iter().copied().filter(is_own).collect();
        if lines.is_empty() {
            continue;
        }
        let curves = grouped(lines, |line| {
            line.parameters.get(&claimed.variants).cloned()
        });
        let rows = curves.into_iter().filter_map(|(variant, lines)| {
            let variant = variant?;
            let printed = claimed.printed.iter();
            let printed = printed.filter(|point| same(&point.variant, &variant));
            let printed = printed.map(|point| (point.x, point.value)).collect();
            Some((word(&variant), printed, lines))
        });
        let rows = rows.collect();
        figures.push(figure(claimed, substrate.to_owned(), &runs, bar, rows));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests;
