// SPDX-License-Identifier: Apache-2.0
//! Figures of a metric against a parameter: means of runs with bars and printed values, as a
//! drawing and as a table. They may also show the most that the link can carry, or the time that no
//! transfer can beat.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::chart::{self, Curve, Panel, number};
use super::selection::heading;
use crate::claims::Metric;
use crate::results::ResultLine;
use crate::results::ceiling::Ceiling;
use crate::statistics::Mean;

/// The drawing's height.
const HEIGHT: u32 = 700;
/// The distance of the curves' points at one value of x, as a share of the distance between two
/// values.
const APART: f64 = 0.1;

/// The meaning of a bar around a mean.
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

    fn name(self) -> &'static str {
        match self {
            Self::Deviation => "standard deviations",
            Self::Confidence => "95% confidence intervals of the means (Student's t)",
        }
    }
}

/// One value of x.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// The parameter's value.
    pub(super) x: f64,
    /// Its position in the drawing: neighbours are at least 1 apart.
    pub(super) at: f64,
    /// The most that the link can carry; none: not known, or not requested.
    pub(super) ceiling: Option<Ceiling>,
}

/// One curve.
pub(super) struct Row<'a> {
    /// Its name.
    pub(super) name: String,
    /// The printed value in each column; none: nothing is printed, or the transfer did not finish.
    pub(super) printed: Vec<Option<f64>>,
    /// The runs of each column.
    pub(super) runs: Vec<Vec<&'a ResultLine>>,
}

/// A figure with its table.
pub(super) struct Figure<'a> {
    /// The metric that is drawn.
    pub(super) metric: Metric,
    /// The parameters that all runs have in common, as text.
    pub(super) title: String,
    /// The name of the x axis.
    pub(super) x_name: String,
    /// The values of x, ascending.
    pub(super) columns: Vec<Column>,
    /// The meaning of the bars.
    pub(super) bar: Bar,
    /// Whether the mean of the times that no transfer can beat is drawn.
    pub(super) optimum: bool,
    /// The curves.
    pub(super) rows: Vec<Row<'a>>,
}

/// The runs of one curve in one column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// The mean of the metric; none: no run has it.
    pub(super) mean: Option<Mean>,
    unfinished: usize,
    runs: usize,
}

impl Figure<'_> {
    /// The runs of a curve in the column of this index.
    pub(super) fn point(&self, row: &Row<'_>, index: usize) -> Point {
        let runs = row.runs.get(index).map_or(&[][..], Vec::as_slice);
        let values = runs.iter().map(|line| self.metric.of(line));
        let values: Vec<f64> = values.flatten().collect();
        let is_out = |line: &&&ResultLine| !line.finished || self.metric.of(line).is_none();
        Point {
            mean: Mean::of(&values),
            unfinished: runs.iter().filter(is_out).count(),
            runs: runs.len(),
        }
    }

    /// The drawing and the table; none without runs.
    pub(super) fn draw(&self) -> Option<Markup> {
        let all = 0..self.columns.len();
        let points = self.rows.iter();
        let points = points.map(|row| all.clone().map(|index| self.point(row, index)).collect());
        let points: Vec<Vec<Point>> = points.collect();
        if points.iter().flatten().all(|point| point.runs == 0) {
            return None;
        }
        let label = format!(
            "{} against {}, {}",
            self.metric.name(),
            self.x_name,
            self.title
        );
        Some(html! {
            figure {
                (self.legend(&points))
                (chart::drawing(&label, &[self.panel(&points)]))
                figcaption { (label) ". " (self.how_many()) }
            }
            (self.table(&points))
        })
    }

    /// The mean of the times that no transfer of the runs in a column can beat; none: not
    /// requested.
    fn optimum(&self, index: usize) -> Option<f64> {
        let runs = self.rows.iter().filter_map(|row| row.runs.get(index));
        let of_runs = runs.flatten().filter_map(|line| line.optimal_s);
        let values: Vec<f64> = of_runs.filter(|_| self.optimum).collect();
        Mean::of(&values).map(|mean| mean.value)
    }

    /// The bound that is drawn besides the curves: the link's ceiling, or else the optimum.
    fn bound(&self) -> Vec<(f64, f64)> {
        let columns = self.columns.iter().enumerate();
        let bounds = columns.filter_map(|(index, column)| {
            let most = column.ceiling.map(|most| most.goodput_mbps);
            Some((column.at, most.or_else(|| self.optimum(index))?))
        });
        bounds.collect()
    }

    /// A text on the points: how many runs each has, and the meaning of bars.
    fn how_many(&self) -> String {
        let cells = || self.rows.iter().flat_map(|row| &row.runs);
        let cells = || cells().filter(|runs| !runs.is_empty());
        let counts: BTreeSet<usize> = cells().map(Vec::len).collect();
        let (least, most) = match (counts.first(), counts.last()) {
            (Some(least), Some(most)) if *most > 1 => (least, most),
            _ => return "One run a point: there is no interval.".to_owned(),
        };
        let differing: BTreeSet<String> = cells().flat_map(|runs| differing(runs)).collect();
        let differing: Vec<String> = differing.into_iter().collect();
        let count = if least == most {
            most.to_string()
        } else {
            format!("{least} to {most}")
        };
        format!(
            "Points are means of {count} runs that differ in {}; bars are {}.",
            differing.join(", "),
            self.bar.name()
        )
    }

    fn legend(&self, points: &[Vec<Point>]) -> Markup {
        let rows = self.rows.iter().enumerate();
        let mut looks: Vec<(String, usize)> = rows
            .map(|(index, row)| (row.name.clone(), index % chart::LOOKS))
            .collect();
        if self.columns.iter().any(|column| column.ceiling.is_some()) {
            looks.push(("the most that the link can carry".to_owned(), chart::BOUND));
        }
        if self.optimum {
            let label = "optimum: the link busy whenever it is up";
            looks.push((label.to_owned(), chart::BOUND));
        }
        let mut more = Vec::new();
        if self
            .rows
            .iter()
            .any(|row| row.printed.iter().any(Option::is_some))
        {
            more.push("hollow: as printed");
        }
        if points.iter().flatten().any(|point| point.unfinished > 0) {
            more.push("× some not finished");
        }
        chart::legend(&looks, true, &more)
    }

    fn panel(&self, points: &[Vec<Point>]) -> Panel {
        let mut curves = vec![Curve {
            look: chart::BOUND,
            line: self.bound(),
            ..Curve::default()
        }];
        let rows = self.rows.iter().zip(points).enumerate();
        curves.extend(rows.map(|(index, (row, points))| self.curve(index, row, points)));
        let highest = curves.iter().flat_map(|curve| {
            let bars = curve.bars.iter().map(|(_, [.., high])| *high);
            let points = curve.line.iter().chain(&curve.hollow).map(|(_, y)| *y);
            bars.chain(points)
        });
        // Unfinished transfers are marked above all others.
        let is_marked = curves.iter().any(|curve| !curve.crosses.is_empty());
        let room = if is_marked { 1.12 } else { 1.02 };
        let end = |column: Option<&Column>| column.map_or(0.0, |column| column.at);
        let marks = self.columns.iter();
        Panel {
            caption: String::new(),
            height: HEIGHT,
            x: [
                end(self.columns.first()) - 0.5,
                end(self.columns.last()) + 0.5,
            ],
            x_name: self.x_name.clone(),
            marks: marks.map(|column| (column.at, number(column.x))).collect(),
            highest: highest.fold(0.0, f64::max) * room,
            y_name: self.metric.name().to_owned(),
            shaded: Vec::new(),
            curves,
        }
    }

    fn curve(&self, index: usize, row: &Row<'_>, points: &[Point]) -> Curve {
        let offset = (index as f64 - (self.rows.len() as f64 - 1.0) / 2.0) * APART;
        let mut curve = Curve {
            look: index % chart::LOOKS,
            ..Curve::default()
        };
        for (index, (column, point)) in self.columns.iter().zip(points).enumerate() {
            let at = column.at + offset;
            if let Some(mean) = point.mean {
                curve.line.push((at, mean.value));
                if let Some(half) = self.bar.half(mean) {
                    let ends = [(mean.value - half).max(0.0), mean.value, mean.value + half];
                    curve.bars.push((at, ends));
                }
            }
            if let Some(Some(value)) = row.printed.get(index) {
                curve.hollow.push((at, *value));
            }
            if point.unfinished > 0 {
                curve.crosses.push(at);
            }
        }
        curve.points.clone_from(&curve.line);
        curve
    }

    /// `1.42 ± 0.04`.
    fn with_bar(&self, mean: Mean) -> String {
        let half = self.bar.half(mean);
        let half = half.map_or(String::new(), |half| {
            format!(" ± {}", self.metric.text(half))
        });
        format!("{}{half}", self.metric.text(mean.value))
    }

    fn table(&self, points: &[Vec<Point>]) -> Markup {
        let has_ceiling = self.columns.iter().any(|column| column.ceiling.is_some());
        let is_pair = self.rows.len() == 2;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let text = |value: f64| self.metric.text(value);
        html! {
            table {
                thead { tr {
                    th { (self.x_name) }
                    @if has_ceiling {
                        th.number { "segments lost" } th.number { "the link's most" }
                    }
                    @for row in &self.rows {
                        th.number { (row.name) }
                        @if has_ceiling { th.number { "of the most" } }
                    }
                    @if self.optimum { th.number { "optimum" } }
                    @if is_pair { th.number { (self.rows[0].name) " / " (self.rows[1].name) } }
                } }
                tbody {
                    @for (index, column) in self.columns.iter().enumerate() {
                        tr {
                            th { (number(column.x)) }
                            @if has_ceiling {
                                td.share { (or_none(column.ceiling.map(|most| format!("{:.1}%", most.loss_share * 100.0)))) }
                                td.share { (or_none(column.ceiling.map(|most| text(most.goodput_mbps)))) }
                            }
                            @for (row, points) in self.rows.iter().zip(points) {
                                (self.cell(row.printed.get(index).copied().flatten(), points[index]))
                                @if has_ceiling {
                                    @let share = column.ceiling.zip(points[index].mean);
                                    td.share { (or_none(share.map(|(most, mean)| format!("{:.0}%", mean.value * 100.0 / most.goodput_mbps)))) }
                                }
                            }
                            @if self.optimum { td.share { (or_none(self.optimum(index).map(text))) } }
                            @if is_pair { td.share { (or_none(ratio(points[0][index], points[1][index]))) } }
                        }
                    }
                }
            }
        }
    }

    fn cell(&self, printed: Option<f64>, point: Point) -> Markup {
        html! {
            td.cell {
                @if let Some(value) = printed { span.printed { "printed " (self.metric.text(value)) } }
                (point.mean.map_or("–".to_owned(), |mean| self.with_bar(mean)))
                @if point.unfinished > 0 {
                    span.other { (point.unfinished) " of " (point.runs) " not finished" }
                }
            }
        }
    }
}

/// One mean divided by the other.
fn ratio(one: Point, other: Point) -> Option<String> {
    let (one, other) = one.mean.zip(other.mean)?;
    (other.value > 0.0).then(|| format!("{:.1}", one.value / other.value))
}

/// The parameters that differ between the runs of one cell, as text.
fn differing(runs: &[&ResultLine]) -> Vec<String> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    let differs = |name: &String| {
        let mut others = others.iter();
        others.any(|other| other.parameters.get(name) != first.parameters.get(name))
    };
    let names = first.parameters.keys().filter(|name| differs(name));
    let mut label: Vec<String> = names.map(|name| heading(name)).collect();
    if others.iter().any(|other| other.seed != first.seed) {
        label.push("seed".to_owned());
    }
    label
}
