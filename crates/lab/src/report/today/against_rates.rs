// SPDX-License-Identifier: Apache-2.0
//! The paper's figures with today's senders, and the points at which a plain sender is better than
//! the published mechanism.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::line::{SCHEME, SENDER, parameter};
use crate::claims::Paper;
use crate::claims::file::{ClaimedFigure, TodaysComparison};
use crate::report::chart::number;
use crate::report::figure::{Bar, Figure};
use crate::report::rates;
use crate::results::{ResultLine, grouped, word};
use crate::scenario::Run;
use crate::statistics::{Mean, Standing};

/// A figure for each sender, and the comparison in the paper's claims file; nothing if no line has
/// the figure's parameter. `runs` have today's senders, `own` are lines of the paper's own runs.
pub(super) fn section(
    paper: &Paper,
    figure: &ClaimedFigure,
    lines: &[&ResultLine],
    runs: &[Run],
    own: &[&ResultLine],
) -> anyhow::Result<Markup> {
    let lines: Vec<&ResultLine> = lines
        .iter()
        .copied()
        .filter(|line| rates::x_of(figure, line).is_some())
        .collect();
    if lines.is_empty() {
        return Ok(html! {});
    }
    let scenarios: BTreeSet<&String> = lines.iter().map(|line| &line.scenario).collect();
    let runs = runs.iter().filter(|run| scenarios.contains(&run.scenario));
    let runs: Vec<&Run> = runs.collect();
    let senders = grouped(lines.iter().copied(), |line| parameter(line, SENDER));
    let drawn: Vec<(String, Figure<'_>)> = senders
        .into_iter()
        .map(|(sender, lines)| {
            let figure = of_sender(figure, &sender, &lines, &runs);
            (sender, figure)
        })
        .collect();
    let published = rates::own(paper, figure, own)?;
    Ok(html! {
        section {
            h3 { (figure.text) ", with today's senders" }
            @if let Some(compared) = &figure.today {
                (comparison(compared, &drawn, published.first()))
            }
            @for (sender, figure) in &drawn {
                h4 { (sender) }
                @if let Some(drawn) = figure.draw() { (drawn) }
            }
        }
    })
}

fn of_sender<'a>(
    figure: &ClaimedFigure,
    sender: &str,
    lines: &[&'a ResultLine],
    runs: &[&Run],
) -> Figure<'a> {
    let schemes = grouped(lines.iter().copied(), |line| parameter(line, SCHEME));
    let rows = schemes.into_iter();
    let rows = rows.map(|(scheme, lines)| (scheme, Vec::new(), lines));
    let substrate = lines.first().map_or("", |line| line.substrate.as_str());
    let title = format!("{sender}, {substrate}");
    let runs = runs.iter().copied();
    rates::figure(figure, title, runs, Bar::Confidence, rows.collect())
}

/// The means of a row, by rate.
fn means(figure: &Figure<'_>, name: &str) -> Vec<(f64, Option<Mean>)> {
    let row = figure.rows.iter().find(|row| row.name == name);
    let rates = figure.columns.iter().enumerate();
    rates
        .map(|(index, rate)| (rate.x, row.and_then(|row| figure.point(row, index).mean)))
        .collect()
}

fn at(means: &[(f64, Option<Mean>)], x: f64) -> Option<Mean> {
    let found = means.iter().find(|(other, _)| other.total_cmp(&x).is_eq());
    found.and_then(|(_, mean)| *mean)
}

/// Compares a plain sender with the published mechanism: with the same sender behind it, and with
/// the paper's own sender.
fn comparison(
    compared: &TodaysComparison,
    drawn: &[(String, Figure<'_>)],
    published: Option<&Figure<'_>>,
) -> Markup {
    let [plain, mechanism, own] = [&compared.plain, &compared.published, &compared.own].map(word);
    let published = published.map(|figure| (figure, means(figure, &own)));
    let senders: Vec<_> = drawn
        .iter()
        .map(|(sender, figure)| {
            (
                sender,
                figure,
                means(figure, &plain),
                means(figure, &mechanism),
            )
        })
        .collect();
    let rates: BTreeSet<u64> = senders
        .iter()
        .flat_map(|(_, figure, _, _)| figure.columns.iter().map(|rate| rate.x.to_bits()))
        .collect();
    html! {
        p.quiet {
            "A sender without help (" code { (plain) } ") against what was published: before the same sender (" code { (mechanism) }
            "), and with the paper's own sender (" code { (own) } ", " (published.as_ref().map_or("no run", |(figure, _)| figure.title.as_str()))
            "). Better: the mean is higher and the 95% confidence intervals of the two means do not overlap; worse: the reverse."
        }
        table {
            thead {
                tr {
                    th rowspan="2" { (drawn.first().map_or(String::new(), |(_, figure)| figure.x_name.clone())) }
                    @for (sender, ..) in &senders { th colspan="2" { (sender) " alone" } }
                }
                tr {
                    @for _ in &senders {
                        th.number { "against " (mechanism) } th.number { "against the paper's " (own) }
                    }
                }
            }
            tbody {
                @for x in rates.iter().map(|bits| f64::from_bits(*bits)) {
                    tr {
                        th { (number(x)) }
                        @for (_, figure, plain, mechanism) in &senders {
                            (cell(figure, at(plain, x), at(mechanism, x)))
                            (cell(figure, at(plain, x), published.as_ref().and_then(|(_, means)| at(means, x))))
                        }
                    }
                }
            }
        }
    }
}

/// The comparison of one mean with another, with both values.
fn cell(figure: &Figure<'_>, one: Option<Mean>, other: Option<Mean>) -> Markup {
    let text = |mean: Mean| figure.metric.text(mean.value);
    let standing = one
        .zip(other)
        .and_then(|(one, other)| Standing::of(one, other));
    let word = match standing {
        None => "–",
        Some(Standing::Higher) => "better",
        Some(Standing::Lower) => "worse",
        Some(Standing::Overlapping) => "not distinguished",
    };
    html! {
        td.cell {
            @if standing == Some(Standing::Higher) { span.ours { (word) } } @else { (word) }
            @if let (Some(one), Some(other)) = (one, other) {
                span.other { (text(one)) " for " (text(other)) }
            }
        }
    }
}
