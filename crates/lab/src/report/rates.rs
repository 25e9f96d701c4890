// SPDX-License-Identifier: Apache-2.0
//! Figures of a metric against a rate, with the most that the link can carry or what no
//! transfer over it can beat: what is printed beside the means of the runs, a drawing and a table.

use maud::{Markup, html};

use super::chart::{self, Look, Panel};
use crate::statistics::Mean;
use super::selection::{
    grouped, has, heading, metric_name, metric_text, same, scenario_name, word,
};
use super::tables::{SUBSTRATES, commands};
use crate::claims::Paper;
use crate::claims::file::ClaimedFigure;
use crate::results::ceiling::Ceiling;
use crate::framing::Framing;
use crate::results::ResultLine;
use crate::scenario::{Run, Scenario};

/// The drawing's height.
const HEIGHT: f64 = 350.0;
/// Where the panel ends.
const BOTTOM: f64 = 302.0;
/// How far apart the curves' points are at one rate, as a share of a doubling.
const APART: f64 = 0.07;

/// What a bar around a mean is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bar {
    /// The standard deviation of the runs.
    Deviation,
    /// The 95% confidence interval of the mean.
    Confidence,
}

impl Bar {
    fn half(self, mean: Mean) -> Option<f64> {
        match self {
            Self::Deviation => mean.deviation,
            Self::Confidence => mean.half_width,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Deviation => "standard deviations",
            Self::Confidence => "95% confidence intervals of the means (Student's t)",
        }
    }
}

/// One rate, and what the link can carry there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// The parameter's value.
    pub(super) x: f64,
    /// None: not known, or not asked for.
    pub(super) ceiling: Option<Ceiling>,
}

/// One curve.
pub(super) struct Row<'a> {
    /// Its name.
    pub(super) name: String,
    /// What is printed: the rate and the value.
    pub(super) printed: Vec<(f64, f64)>,
    /// The runs of each rate.
    pub(super) runs: Vec<Vec<&'a ResultLine>>,
}

/// A figure with its table.
pub(super) struct RateFigure<'a> {
    /// What it is of.
    pub(super) of: &'a ClaimedFigure,
    /// What all runs have in common, in words.
    pub(super) title: String,
    /// The rates, ascending.
    pub(super) rates: Vec<Rate>,
    /// What the bars are.
    pub(super) bar: Bar,
    /// The curves.
    pub(super) rows: Vec<Row<'a>>,
}

/// What the runs of one curve at one rate say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// None: there is no run.
    pub(super) mean: Option<Mean>,
    unfinished: usize,
    runs: usize,
}

impl RateFigure<'_> {
    /// What the runs of a curve say at the rate of this index.
    pub(super) fn point(&self, row: &Row<'_>, index: usize) -> Point {
        let runs = row.runs.get(index).map_or(&[][..], Vec::as_slice);
        let values: Vec<f64> = runs
            .iter()
            .filter_map(|line| self.of.metric.of(line))
            .collect();
        Point {
            mean: Mean::of(&values),
            unfinished: runs.iter().filter(|line| !line.finished).count(),
            runs: runs.len(),
        }
    }

    /// The drawing and the table; nothing without runs.
    pub(super) fn draw(&self) -> Markup {
        let points = self.rows.iter().map(|row| self.points(row));
        let points: Vec<Vec<Point>> = points.collect();
        if points.iter().flatten().all(|point| point.runs == 0) {
            return html! {};
        }
        let words = format!(
            "{} against {}, {}",
            metric_name(self.of.metric),
            self.x_name(),
            self.title
        );
        html! {
            figure {
                (self.legend(&points))
                (chart::drawing(HEIGHT, &words, self.content(&points)))
                figcaption {
                    (words) ". Points are means, bars " (self.bar.words()) ", of " (self.how_many()) " runs each."
                }
            }
            (self.table(&points))
        }
    }

    /// Where a rate stands on the axis: neighbours of a linear one are at least 1 apart.
    fn place(&self, x: f64) -> f64 {
        if !self.of.linear {
            return libm::log2(x);
        }
        let gaps = self.rates.windows(2).map(|pair| pair[1].x - pair[0].x);
        let least = gaps.fold(f64::INFINITY, f64::min);
        if least.is_finite() && least > 0.0 {
            x / least
        } else {
            x
        }
    }

    /// The mean of what no transfer of the runs at a rate can beat; none: not asked for.
    fn optimum(&self, index: usize) -> Option<f64> {
        let runs = self.rows.iter().filter_map(|row| row.runs.get(index));
        let of_runs = runs.flatten().filter_map(|line| line.optimal_s);
        let values: Vec<f64> = of_runs.filter(|_| self.of.optimum).collect();
        Mean::of(&values).map(|mean| mean.value)
    }

    /// The line that is drawn besides the curves.
    fn bound(&self, index: usize) -> Option<f64> {
        let ceiling = self.rates.get(index)?.ceiling;
        ceiling.map_or_else(|| self.optimum(index), |its| Some(its.goodput_mbps))
    }

    fn points(&self, row: &Row<'_>) -> Vec<Point> {
        (0..self.rates.len())
            .map(|index| self.point(row, index))
            .collect()
    }

    /// The x axis in words.
    pub(super) fn x_name(&self) -> String {
        let name = self.of.x_name.clone();
        name.unwrap_or_else(|| heading(&self.of.x))
    }

    fn how_many(&self) -> String {
        let counts = self
            .rows
            .iter()
            .flat_map(|row| row.runs.iter().map(Vec::len));
        let counts: Vec<usize> = counts.filter(|count| *count > 0).collect();
        match (counts.iter().min(), counts.iter().max()) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
            (_, most) => most.map_or_else(|| "0".to_owned(), usize::to_string),
        }
    }

    fn legend(&self, points: &[Vec<Point>]) -> Markup {
        let looks: Vec<(String, Look)> = self
            .rows
            .iter()
            .enumerate()
            .map(|(index, row)| (row.name.clone(), chart::look(index)))
            .collect();
        let any_printed = self.rows.iter().any(|row| !row.printed.is_empty());
        let any_ceiling = self.rates.iter().any(|rate| rate.ceiling.is_some());
        let any_optimum = self.of.optimum;
        let any_unfinished = points.iter().flatten().any(|point| point.unfinished > 0);
        chart::legend(
            &looks,
            true,
            html! {
                @if any_ceiling { (chart::ceiling_legend("the most that the link can carry")) }
                @if any_optimum { (chart::ceiling_legend("optimum: the link busy whenever it is up")) }
                @if any_printed { span { "hollow: as printed" } }
                @if any_unfinished { span { "× some not finished" } }
            },
        )
    }

    fn panel(&self, points: &[Vec<Point>]) -> Panel {
        let ours = points.iter().flatten().filter_map(|point| {
            let mean = point.mean?;
            Some(mean.value + self.bar.half(mean).unwrap_or(0.0))
        });
        let printed = self.rows.iter().flat_map(|row| &row.printed);
        let printed = printed.map(|(_, value)| *value);
        let ceilings = (0..self.rates.len()).filter_map(|index| self.bound(index));
        let highest = ours.chain(printed).chain(ceilings).fold(0.0, f64::max);
        let ends = [
            self.rates.first().map_or(0.0, |rate| self.place(rate.x)) - 0.5,
            self.rates.last().map_or(0.0, |rate| self.place(rate.x)) + 0.5,
        ];
        Panel::new(8.0, BOTTOM, ends, highest * 1.02)
    }

    fn content(&self, points: &[Vec<Point>]) -> Markup {
        let panel = self.panel(points);
        let ceilings: Vec<(f64, f64)> = self
            .rates
            .iter()
            .enumerate()
            .filter_map(|(index, rate)| Some((self.place(rate.x), self.bound(index)?)))
            .collect();
        html! {
            (panel.frame(metric_name(self.of.metric)))
            @for rate in &self.rates { (panel.x_mark(self.place(rate.x), &number(rate.x))) }
            (panel.x_name(&self.x_name()))
            (panel.curve(&ceilings, chart::CEILING, "curve"))
            @for (index, (row, points)) in self.rows.iter().zip(points).enumerate() {
                (self.curve(&panel, index, row, points))
            }
        }
    }

    fn curve(&self, panel: &Panel, index: usize, row: &Row<'_>, points: &[Point]) -> Markup {
        let look = chart::look(index);
        let offset = (index as f64 - (self.rows.len() as f64 - 1.0) / 2.0) * APART;
        let at = |rate: &Rate| self.place(rate.x) + offset;
        let text = |value: f64| metric_text(self.of.metric, value);
        let means = self.rates.iter().zip(points);
        let means: Vec<(f64, f64)> = means
            .filter_map(|(rate, point)| Some((at(rate), point.mean?.value)))
            .collect();
        html! {
            (panel.curve(&means, look, "curve"))
            @for (x, value) in &row.printed {
                @let words = format!("{}, printed: {}", row.name, text(*value));
                (panel.point((self.place(*x) + offset, *value), look, true, &words))
            }
            @for (rate, point) in self.rates.iter().zip(points) {
                @if let Some(mean) = point.mean {
                    @if let Some(half) = self.bar.half(mean) {
                        (panel.interval(at(rate), [(mean.value - half).max(0.0), mean.value + half], look))
                    }
                    @let words = format!("{}: {}", row.name, self.with_bar(mean));
                    (panel.point((at(rate), mean.value), look, false, &words))
                    @if point.unfinished > 0 {
                        @let words = format!("{}: {} of {} not finished", row.name, point.unfinished, point.runs);
                        (panel.unfinished(at(rate), look, 0, &words))
                    }
                }
            }
        }
    }

    /// `1.42 ± 0.04`.
    fn with_bar(&self, mean: Mean) -> String {
        let text = |value: f64| metric_text(self.of.metric, value);
        let half = self.bar.half(mean);
        let half = half.map_or(String::new(), |half| format!(" ± {}", text(half)));
        format!("{}{half}", text(mean.value))
    }

    fn table(&self, points: &[Vec<Point>]) -> Markup {
        let has_ceiling = self.rates.iter().any(|rate| rate.ceiling.is_some());
        let is_pair = self.rows.len() == 2;
        html! {
            table {
                thead { tr {
                    th { (self.x_name()) }
                    @if has_ceiling {
                        th.number { "segments lost" } th.number { "the link's most" }
                    }
                    @for row in &self.rows {
                        th.number { (row.name) }
                        @if has_ceiling { th.number { "of the most" } }
                    }
                    @if self.of.optimum { th.number { "optimum" } }
                    @if is_pair { th.number { (self.rows[0].name) " / " (self.rows[1].name) } }
                } }
                tbody {
                    @for (index, rate) in self.rates.iter().enumerate() {
                        tr {
                            th { (number(rate.x)) }
                            @if has_ceiling {
                                td.share { (rate.ceiling.map_or("–".to_owned(), |its| format!("{:.1}%", its.loss_share * 100.0))) }
                                td.share { (rate.ceiling.map_or("–".to_owned(), |its| metric_text(self.of.metric, its.goodput_mbps))) }
                            }
                            @for (row, points) in self.rows.iter().zip(points) {
                                (self.cells(row, rate, points[index], has_ceiling))
                            }
                            @if self.of.optimum {
                                td.share { (self.optimum(index).map_or("–".to_owned(), |s| metric_text(self.of.metric, s))) }
                            }
                            @if is_pair { td.share { (ratio(points[0][index], points[1][index])) } }
                        }
                    }
                }
            }
        }
    }

    fn cells(&self, row: &Row<'_>, rate: &Rate, point: Point, has_ceiling: bool) -> Markup {
        let printed = row
            .printed
            .iter()
            .filter(|(x, _)| x.total_cmp(&rate.x).is_eq());
        let share = rate.ceiling.zip(point.mean);
        let share = share.map(|(most, mean)| mean.value * 100.0 / most.goodput_mbps);
        html! {
            td.cell {
                @for (_, value) in printed {
                    span.printed { "printed " (metric_text(self.of.metric, *value)) }
                }
                (point.mean.map_or("–".to_owned(), |mean| self.with_bar(mean)))
                @if point.unfinished > 0 {
                    span.other { (point.unfinished) " of " (point.runs) " not finished" }
                }
            }
            @if has_ceiling { td.share { (share.map_or("–".to_owned(), |share| format!("{share:.0}%"))) } }
        }
    }
}

/// How many times one mean is the other.
fn ratio(one: Point, other: Point) -> String {
    match (one.mean, other.mean) {
        (Some(one), Some(other)) if other.value > 0.0 => format!("{:.1}", one.value / other.value),
        _ => "–".to_owned(),
    }
}

/// A rate without needless decimals.
pub(super) fn number(x: f64) -> String {
    let text = format!("{x:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The figure's parameter of a line; none: it has none, or it is no number above 0.
pub(super) fn x_of(figure: &ClaimedFigure, line: &ResultLine) -> Option<f64> {
    let x = line.parameters.get(&figure.x)?.as_f64()?;
    (x > 0.0 && x.is_finite()).then_some(x)
}

/// The rates of these runs, ascending, each once.
pub(super) fn rates<'a>(
    figure: &ClaimedFigure,
    runs: impl IntoIterator<Item = &'a Run>,
) -> Vec<Rate> {
    let mut rates: Vec<Rate> = Vec::new();
    for run in runs {
        let x = run
            .parameters
            .get(&figure.x)
            .and_then(serde_json::Value::as_f64);
        let Some(x) = x.filter(|x| *x > 0.0) else {
            continue;
        };
        if rates.iter().all(|rate| !rate.x.total_cmp(&x).is_eq()) {
            let framing = Framing::of(&run.conditions);
            let ceiling = figure
                .ceiling
                .then(|| Ceiling::of(&run.conditions, framing));
            rates.push(Rate {
                x,
                ceiling: ceiling.flatten(),
            });
        }
    }
    rates.sort_by(|a, b| a.x.total_cmp(&b.x));
    rates
}

/// The lines of one curve, by rate.
pub(super) fn by_rate<'a>(
    figure: &ClaimedFigure,
    rates: &[Rate],
    lines: &[&'a ResultLine],
) -> Vec<Vec<&'a ResultLine>> {
    let at = |rate: &Rate| {
        let lines = lines.iter().copied();
        let is_at =
            |line: &&ResultLine| x_of(figure, line).is_some_and(|x| x.total_cmp(&rate.x).is_eq());
        lines.filter(is_at).collect()
    };
    rates.iter().map(at).collect()
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
                @for figure in &drawn { (figure.draw()) }
            }
        });
    }
    Ok(sections)
}

/// A figure from the paper's own runs, one for each substrate that has any.
pub(super) fn own<'a>(
    paper: &'a Paper,
    figure: &'a ClaimedFigure,
    lines: &[&'a ResultLine],
) -> anyhow::Result<Vec<RateFigure<'a>>> {
    let mut runs: Vec<Run> = Vec::new();
    for file in &figure.scenarios {
        runs.extend(Scenario::load(&paper.folder.join(file))?.runs(None)?);
    }
    let names: Vec<String> = figure
        .scenarios
        .iter()
        .map(|file| scenario_name(paper, file))
        .collect();
    let mut figures = Vec::new();
    for substrate in SUBSTRATES {
        let is_own = |line: &&ResultLine| {
            line.substrate == substrate && names.contains(&line.scenario) && has(line, &figure.of)
        };
        let lines: Vec<&ResultLine> = lines.iter().copied().filter(is_own).collect();
        if lines.is_empty() {
            continue;
        }
        let rates = rates(figure, &runs);
        let curves = grouped(lines, |line| line.parameters.get(&figure.variants).cloned());
        let rows = curves.into_iter().filter_map(|(variant, lines)| {
            let variant = variant?;
            let printed = figure.printed.iter();
            let printed = printed.filter(|point| same(&point.variant, &variant));
            Some(Row {
                name: word(&variant),
                printed: printed.map(|point| (point.x, point.value)).collect(),
                runs: by_rate(figure, &rates, &lines),
            })
        });
        let rows = rows.collect();
        figures.push(RateFigure {
            of: figure,
            title: substrate.to_owned(),
            rates,
            bar: if figure.intervals {
                Bar::Confidence
            } else {
                Bar::Deviation
            },
            rows,
        });
    }
    Ok(figures)
}

#[cfg(test)]
mod tests;
