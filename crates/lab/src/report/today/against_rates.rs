// SPDX-License-Identifier: Apache-2.0
//! The paper's figures with today's senders, and where a plain one does better than what
//! was published.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{SCHEME, SENDER, parameter};
use crate::claims::Paper;
use crate::claims::file::{ClaimedFigure, TodaysComparison};
use crate::statistics::{Mean, Standing};
use crate::report::rates::{self, Bar, RateFigure, Row};
use crate::report::selection::{grouped, metric_text, word};
use crate::results::ResultLine;
use crate::scenario::Run;

/// A figure for each sender, and the comparison that the paper's file asks for; nothing if
/// no line has the figure's parameter. `runs` are today's, `own` the paper's own lines.
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
    let drawn: Vec<(String, RateFigure<'_>)> = senders
        .into_iter()
        .map(|(sender, lines)| (sender.clone(), of_sender(figure, sender, &lines, &runs)))
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
                (figure.draw())
            }
        }
    })
}

fn of_sender<'a>(
    figure: &'a ClaimedFigure,
    sender: String,
    lines: &[&'a ResultLine],
    runs: &[&Run],
) -> RateFigure<'a> {
    let rates = rates::rates(figure, runs.iter().copied());
    let schemes = grouped(lines.iter().copied(), |line| parameter(line, SCHEME));
    let rows = schemes.into_iter().map(|(scheme, lines)| Row {
        name: scheme,
        printed: Vec::new(),
        runs: rates::by_rate(figure, &rates, &lines),
    });
    let rows = rows.collect();
    let substrate = lines.first().map_or("", |line| line.substrate.as_str());
    RateFigure {
        of: figure,
        title: format!("{sender}, {substrate}"),
        rates,
        bar: Bar::Confidence,
        rows,
    }
}

/// The means of a row, by rate.
fn means(figure: &RateFigure<'_>, name: &str) -> Vec<(f64, Option<Mean>)> {
    let row = figure.rows.iter().find(|row| row.name == name);
    let rates = figure.rates.iter().enumerate();
    rates
        .map(|(index, rate)| (rate.x, row.and_then(|row| figure.point(row, index).mean)))
        .collect()
}

fn at(means: &[(f64, Option<Mean>)], x: f64) -> Option<Mean> {
    let found = means.iter().find(|(other, _)| other.total_cmp(&x).is_eq());
    found.and_then(|(_, mean)| *mean)
}

/// A plain sender against the published mechanism, before that sender and before the
/// paper's own.
fn comparison(
    compared: &TodaysComparison,
    drawn: &[(String, RateFigure<'_>)],
    published: Option<&RateFigure<'_>>,
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
        .flat_map(|(_, figure, _, _)| figure.rates.iter().map(|rate| rate.x.to_bits()))
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
                    th rowspan="2" { (drawn.first().map_or(String::new(), |(_, figure)| figure.x_name())) }
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
                        th { (rates::number(x)) }
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

/// How a mean stands to another, in words with both.
fn cell(figure: &RateFigure<'_>, one: Option<Mean>, other: Option<Mean>) -> Markup {
    let text = |mean: Mean| metric_text(figure.of.metric, mean.value);
    let standing = one
        .zip(other)
        .and_then(|(one, other)| Standing::of(one, other));
    let word = match standing {
        None => "–",
        Some(Standing::Higher) => "better",
        Some(Standing::Lower) => "worse",
        Some(Standing::NotToldApart) => "not told apart",
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
