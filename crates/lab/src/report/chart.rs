// SPDX-License-Identifier: Apache-2.0
//! Charts as SVG within the page, drawn by plotters: axes, curves, points with bars, and shaded
//! times.
//!
//! Curves differ in colour, in their dashes and in the shape of their points, so that they also
//! differ on paper without colours. Charts need no script, no font file and no other page.

use std::io::Error;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// A chart's width in its own units: two of these units are one pixel of the page.
const WIDTH: u32 = 1520;
/// The size of letters, in the same units.
const LETTERS: u32 = 24;
/// The number of looks of curves.
pub(super) const LOOKS: usize = 6;
/// The look of the line that no curve can cross.
pub(super) const BOUND: usize = LOOKS;

/// The look of a curve: colour, lengths of its dashes and gaps, and the shape of its points.
struct Look(RGBColor, [u32; 2], &'static [(i32, i32)]);

const CIRCLE: &[(i32, i32)] = &[
    (-8, -3),
    (-3, -8),
    (3, -8),
    (8, -3),
    (8, 3),
    (3, 8),
    (-3, 8),
    (-8, 3),
];
const SQUARE: &[(i32, i32)] = &[(-7, -7), (7, -7), (7, 7), (-7, 7)];
const TRIANGLE: &[(i32, i32)] = &[(0, -9), (9, 7), (-9, 7)];
const DIAMOND: &[(i32, i32)] = &[(0, -10), (10, 0), (0, 10), (-10, 0)];

/// Colours that also colour-blind readers can distinguish (Okabe and Ito, 2008).
fn look(index: usize) -> Look {
    match index % (LOOKS + 1) {
        0 => Look(RGBColor(0x00, 0x72, 0xb2), [0, 0], CIRCLE),
        1 => Look(RGBColor(0xd5, 0x5e, 0x00), [14, 6], SQUARE),
        2 => Look(RGBColor(0x00, 0x9e, 0x73), [4, 6], TRIANGLE),
        3 => Look(RGBColor(0xa1, 0x4d, 0x82), [20, 6], DIAMOND),
        4 => Look(RGBColor(0x6b, 0x5a, 0x00), [28, 8], CIRCLE),
        5 => Look(RGBColor(0x33, 0x33, 0x33), [8, 4], SQUARE),
        _ => Look(RGBColor(0x6e, 0x6e, 0x6e), [2, 4], CIRCLE),
    }
}

/// One curve, in the values of its panel.
#[derive(Default)]
pub(super) struct Curve {
    /// The number of its look.
    pub(super) look: usize,
    /// Whether the line is thin.
    pub(super) thin: bool,
    /// Points that are connected by a line.
    pub(super) line: Vec<(f64, f64)>,
    /// Filled points.
    pub(super) points: Vec<(f64, f64)>,
    /// Hollow points.
    pub(super) hollow: Vec<(f64, f64)>,
    /// Bars, each at a value of x: the lower end, the middle and the upper end.
    pub(super) bars: Vec<(f64, [f64; 3])>,
    /// Values of x with a cross at the upper edge: transfers that did not finish.
    pub(super) crosses: Vec<f64>,
}

/// An area with axes. Its y axis begins at 0.
pub(super) struct Panel {
    /// A text within the panel.
    pub(super) caption: String,
    /// Its height, in the chart's units.
    pub(super) height: u32,
    /// The ends of the x axis.
    pub(super) x: [f64; 2],
    /// The name of the x axis.
    pub(super) x_name: String,
    /// The marks of the x axis; empty: round values.
    pub(super) marks: Vec<(f64, String)>,
    /// The upper end of the y axis.
    pub(super) highest: f64,
    /// The name of the y axis.
    pub(super) y_name: String,
    /// Ranges of x that are shaded.
    pub(super) shaded: Vec<[f64; 2]>,
    /// The curves.
    pub(super) curves: Vec<Curve>,
}

/// Panels below each other as one drawing; `label` describes it for screen readers.
pub(super) fn drawing(label: &str, panels: &[Panel]) -> Markup {
    let height: u32 = panels.iter().map(|panel| panel.height).sum();
    let mut text = String::new();
    // Writing to a string cannot fail.
    if draw(&mut text, height, panels).is_err() {
        text.clear();
    }
    // The SVG tag of plotters names a web address, although browsers do not fetch it.
    let within = text.split_once('>').map_or("", |(_, rest)| rest);
    let within = within
        .rsplit_once("</svg>")
        .map_or(within, |(within, _)| within);
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(label) { (PreEscaped(within)) }
    }
}

/// Panels below each other with a legend above them, as a file of its own.
pub(super) fn file(names: &[(String, usize)], more: &str, panels: &[Panel]) -> String {
    let legend = LEGEND_LINE * (names.len() as u32 + 1) + 16;
    let height: u32 = legend + panels.iter().map(|panel| panel.height).sum::<u32>();
    let mut text = String::new();
    let drawn = {
        let all = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        let (top, rest) = all.split_vertically(legend);
        all.fill(&WHITE)
            .and_then(|()| draw_legend(&top, names, more))
            .and_then(|()| draw_panels(rest, panels))
    };
    // Writing to a string cannot fail.
    if drawn.is_err() {
        text.clear();
    }
    text
}

/// The height of a line of a file's legend.
const LEGEND_LINE: u32 = 36;

/// Draws a line for each name, with its look, and one line of text.
fn draw_legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    names: &[(String, usize)],
    more: &str,
) -> Drawn {
    let letters = ("sans-serif", LETTERS);
    area.draw(&Text::new(more.to_owned(), (16, 12), letters))?;
    for (row, (name, index)) in (1..).zip(names) {
        let y = 12 + row * LEGEND_LINE as i32;
        let middle = y + LETTERS as i32 / 2;
        let Look(colour, [dash, gap], shape) = look(*index);
        let (from, to) = (16, 96);
        let dash = if dash == 0 { to - from } else { dash as i32 };
        for begin in (from..to).step_by((dash + gap as i32) as usize) {
            let ends = vec![(begin, middle), ((begin + dash).min(to), middle)];
            area.draw(&PathElement::new(ends, colour.stroke_width(4)))?;
        }
        let points = shape.iter().map(|(x, y)| (56 + x, middle + y));
        area.draw(&Polygon::new(points.collect::<Vec<_>>(), colour.filled()))?;
        area.draw(&Text::new(name.clone(), (112, y), letters))?;
    }
    Ok(())
}

/// An axis with given marks.
struct Axis {
    ends: RangedCoordf64,
    marks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.ends.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.ends.range()
    }
}

type Drawn = Result<(), DrawingAreaErrorKind<Error>>;

fn draw(text: &mut String, height: u32, panels: &[Panel]) -> Drawn {
    let area = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    draw_panels(area, panels)
}

fn draw_panels(mut rest: DrawingArea<SVGBackend<'_>, Shift>, panels: &[Panel]) -> Drawn {
    for panel in panels {
        let (area, below) = rest.split_vertically(panel.height);
        panel.draw(&area)?;
        rest = below;
    }
    rest.present()
}

impl Panel {
    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Drawn {
        let highest = if self.highest.is_normal() {
            self.highest
        } else {
            1.0
        };
        let [from, to] = self.x;
        let ends = RangedCoordf64::from(from..to);
        let marks: Vec<f64> = if self.marks.is_empty() {
            ends.key_points(BoldPoints(11))
        } else {
            self.marks.iter().map(|(x, _)| *x).collect()
        };
        let mut chart = ChartBuilder::on(area)
            .margin_top(8)
            .margin_right(28)
            .y_label_area_size(124)
            .x_label_area_size(88)
            .build_cartesian_2d(Axis { ends, marks }, 0.0..highest)?;
        let named = |x: &f64| {
            let known = self
                .marks
                .iter()
                .find(|(mark, _)| mark.total_cmp(x).is_eq());
            known.map_or_else(|| number(*x), |(_, name)| name.clone())
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", LETTERS))
            .x_labels(self.marks.len().max(11))
            .y_labels(7)
            .x_label_formatter(&named)
            .y_label_formatter(&|y| number(*y))
            .x_desc(self.x_name.as_str())
            .y_desc(self.y_name.as_str())
            .draw()?;
        let grey = RGBColor(0xdd, 0xdd, 0xdd).filled();
        let shaded = self.shaded.iter();
        chart.draw_series(
            shaded.map(|[from, to]| Rectangle::new([(*from, 0.0), (*to, highest)], grey)),
        )?;
        for curve in &self.curves {
            let Look(colour, [dash, gap], shape) = look(curve.look);
            let style = colour.stroke_width(if curve.thin { 2 } else { 4 });
            let line = thinned(&curve.line, to - from);
            if dash == 0 {
                chart.draw_series(LineSeries::new(line, style))?;
            } else {
                chart.draw_series(DashedLineSeries::new(line, dash, gap, style))?;
            }
            let bars = curve.bars.iter();
            chart.draw_series(bars.map(|(x, [low, middle, high])| {
                ErrorBar::new_vertical(*x, *low, *middle, *high, colour.filled(), 16)
            }))?;
            let points = curve.points.iter().map(|at| (at, colour));
            let hollow = curve.hollow.iter().map(|at| (at, WHITE));
            let outline: Vec<(i32, i32)> = shape.iter().chain(&shape[..1]).copied().collect();
            chart.draw_series(points.chain(hollow).map(|(at, fill)| {
                EmptyElement::at(*at)
                    + Polygon::new(shape.to_vec(), fill.filled())
                    + PathElement::new(outline.clone(), colour.stroke_width(3))
            }))?;
            let crosses = curve.crosses.iter();
            chart.draw_series(
                crosses.map(|x| Cross::new((*x, highest * 0.97), 8, colour.stroke_width(4))),
            )?;
        }
        let at = (from + (to - from) * 0.01, highest * 0.97);
        let caption = Text::new(self.caption.clone(), at, ("sans-serif", LETTERS));
        chart.draw_series(std::iter::once(caption))?;
        Ok(())
    }
}

/// A number without needless decimals.
pub(super) fn number(x: f64) -> String {
    let text = format!("{x:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// Thins the points of a curve: of the points within one unit's width the first, the least, the
/// greatest and the last remain, in their order. The curve looks the same.
fn thinned(points: &[(f64, f64)], width: f64) -> Vec<(f64, f64)> {
    let column = |point: &(f64, f64)| (point.0 / width * f64::from(WIDTH)).floor();
    let mut kept = Vec::new();
    for points in points.chunk_by(|a, b| column(a).total_cmp(&column(b)).is_eq()) {
        let by_value = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
        let least = (0..points.len()).min_by(by_value).unwrap_or(0);
        let greatest = (0..points.len()).max_by(by_value).unwrap_or(0);
        let mut indices = [0, least, greatest, points.len() - 1].to_vec();
        indices.sort_unstable();
        indices.dedup();
        kept.extend(indices.into_iter().map(|index| points[index]));
    }
    kept
}

/// The legend: names with their looks, whether they have points, and more text.
pub(super) fn legend(curves: &[(String, usize)], points: bool, more: &[&str]) -> Markup {
    let swatch = |index: usize| {
        let Look(RGBColor(r, g, b), [dash, _], shape) = look(index);
        let line = match dash {
            0 => "solid",
            dash if dash < 10 => "dotted",
            _ => "dashed",
        };
        let sign = match shape.len() {
            _ if !points || index == BOUND => "",
            3 => "▲",
            4 if shape[0].0 == 0 => "◆",
            4 => "■",
            _ => "●",
        };
        html! {
            span.swatch aria-hidden="true" style=(format!("color:#{r:02x}{g:02x}{b:02x};border-bottom-style:{line}")) {
                (sign)
            }
        }
    };
    html! {
        p.legend {
            @for (name, look) in curves { span { (swatch(*look)) " " (name) } }
            @for label in more { span { (label) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(line: Vec<(f64, f64)>, caption: &str) -> String {
        let panel = Panel {
            caption: caption.to_owned(),
            height: 400,
            x: [0.0, 10.0],
            x_name: "x".into(),
            marks: Vec::new(),
            highest: 100.0,
            y_name: "y".into(),
            shaded: Vec::new(),
            curves: vec![Curve {
                line,
                ..Curve::default()
            }],
        };
        drawing("label", &[panel]).into_string()
    }

    #[test]
    fn a_curve_goes_from_corner_to_corner_of_its_panel() {
        let text = panel(vec![(0.0, 0.0), (10.0, 100.0)], "");
        assert!(text.contains("points=\"124,311 1491,8 \""), "{text}");
    }

    #[test]
    fn text_in_a_drawing_is_escaped() {
        let text = panel(Vec::new(), "<script>&\"");
        assert!(text.contains("&lt;script&gt;&amp;"), "{text}");
    }

    #[test]
    fn no_two_of_the_first_four_looks_share_a_colour_dashes_or_shape() {
        for one in 0..4 {
            for other in 0..one {
                let (one, other) = (look(one), look(other));
                assert!(one.0 != other.0 && one.1 != other.1 && one.2 != other.2);
            }
        }
    }

    #[test]
    fn numbers_have_no_more_decimals_than_they_need() {
        assert_eq!([5.0, 0.25, -0.0001].map(number), ["5", "0.25", "0"]);
    }

    #[test]
    fn what_remains_of_a_dense_curve_has_its_extremes() {
        let dense: Vec<(f64, f64)> = (0..100_000)
            .map(|n| {
                (
                    f64::from(n) / 1e4,
                    if n == 55_555 { 9.0 } else { f64::from(n % 3) },
                )
            })
            .collect();
        let kept = thinned(&dense, 10.0);
        assert!(kept.len() <= 4 * (WIDTH as usize + 1), "{}", kept.len());
        assert!(kept.contains(&(5.5555, 9.0)));
        assert_eq!((kept[0], kept[kept.len() - 1]), (dense[0], dense[99_999]));
        let few = [(0.0, 1.0), (5.0, 2.0), (9.0, 1.0)];
        assert_eq!(thinned(&few, 10.0), few);
    }
}
