// SPDX-License-Identifier: Apache-2.0
//! Drawing in SVG, within the page: axes, curves, points with intervals, shaded times.
//!
//! A curve is told by its colour and, on paper without colours, by its dashes and by the
//! shape of its points. Nothing needs a script, a font file or another page.

use maud::{Markup, html};

use super::scale::{Scale, mark_text, round_marks, thinned};

/// A drawing's width; the page scales it.
pub(super) const WIDTH: f64 = 760.0;
/// Room for the marks of the y axis.
const LEFT: f64 = 62.0;
/// Room beyond the last mark of the x axis.
const RIGHT: f64 = 14.0;

/// How one curve looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    colour: &'static str,
    dashes: &'static str,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
}

/// Colours that also those can tell apart who do not see all of them (Okabe and Ito, 2008).
const LOOKS: [Look; 6] = [
    Look {
        colour: "#0072b2",
        dashes: "none",
        shape: Shape::Circle,
    },
    Look {
        colour: "#d55e00",
        dashes: "7 3",
        shape: Shape::Square,
    },
    Look {
        colour: "#009e73",
        dashes: "2 3",
        shape: Shape::Triangle,
    },
    Look {
        colour: "#a14d82",
        dashes: "9 3 2 3",
        shape: Shape::Diamond,
    },
    Look {
        colour: "#6b5a00",
        dashes: "12 4",
        shape: Shape::Circle,
    },
    Look {
        colour: "#333333",
        dashes: "4 2",
        shape: Shape::Square,
    },
];

/// How a line looks that no curve can cross.
pub(super) const CEILING: Look = Look {
    colour: "#6e6e6e",
    dashes: "1 2",
    shape: Shape::Circle,
};

/// The look of the curve at `index`.
pub(super) fn look(index: usize) -> Look {
    LOOKS[index % LOOKS.len()]
}

/// The area of one drawing in which values have places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    /// The scale of x.
    pub(super) x: Scale,
    /// The scale of y; it grows upwards.
    pub(super) y: Scale,
    step: f64,
}

/// A place to one decimal: a tenth of a pixel is not seen.
pub(super) fn at(place: f64) -> String {
    let text = format!("{place:.1}");
    if text == "-0.0" {
        "0.0".to_owned()
    } else {
        text
    }
}

impl Panel {
    /// Between two heights of the drawing; y runs from 0 to at least `highest`.
    pub(super) fn new(top: f64, bottom: f64, x_values: [f64; 2], highest: f64) -> Self {
        let marks = round_marks(highest, ((bottom - top) / 45.0) as usize);
        let last = marks.last().copied().unwrap_or(1.0);
        Self {
            x: Scale {
                values: x_values,
                places: [LEFT, WIDTH - RIGHT],
            },
            y: Scale {
                values: [0.0, last],
                places: [bottom, top],
            },
            step: marks.get(1).copied().unwrap_or(1.0),
        }
    }

    /// The frame with the y axis, its marks and its name.
    pub(super) fn frame(&self, name: &str) -> Markup {
        let [left, right] = self.x.places;
        let [bottom, top] = self.y.places;
        let count = (self.y.values[1] / self.step).round() as usize;
        let middle = f64::midpoint(top, bottom);
        html! {
            @for mark in (0..=count).map(|index| index as f64 * self.step) {
                line.grid x1=(at(left)) x2=(at(right)) y1=(at(self.y.place(mark))) y2=(at(self.y.place(mark))) {}
                text.mark x=(at(left - 6.0)) y=(at(self.y.place(mark) + 4.0)) text-anchor="end" {
                    (mark_text(mark, self.step))
                }
            }
            rect.frame x=(at(left)) y=(at(top)) width=(at(right - left)) height=(at(bottom - top)) {}
            text.axis transform={ "translate(14 " (at(middle)) ") rotate(-90)" } text-anchor="middle" { (name) }
        }
    }

    /// The marks of an x axis of time, and its name.
    pub(super) fn time_axis(&self, name: &str) -> Markup {
        let marks = round_marks(self.x.values[1], 10);
        let step = marks.get(1).copied().unwrap_or(1.0);
        let shown = marks.into_iter().filter(|mark| *mark <= self.x.values[1]);
        html! {
            @for mark in shown { (self.x_mark(mark, &mark_text(mark, step))) }
            (self.x_name(name))
        }
    }

    /// One mark of the x axis.
    pub(super) fn x_mark(&self, value: f64, text: &str) -> Markup {
        let (x, bottom) = (self.x.place(value), self.y.places[0]);
        html! {
            line.tick x1=(at(x)) x2=(at(x)) y1=(at(bottom)) y2=(at(bottom + 4.0)) {}
            text.mark x=(at(x)) y=(at(bottom + 17.0)) text-anchor="middle" { (text) }
        }
    }

    /// The name of the x axis.
    pub(super) fn x_name(&self, name: &str) -> Markup {
        let [left, right] = self.x.places;
        html! {
            text.axis x=(at(f64::midpoint(left, right))) y=(at(self.y.places[0] + 35.0)) text-anchor="middle" {
                (name)
            }
        }
    }

    /// Shades a stretch of x.
    pub(super) fn shade(&self, [from, to]: [f64; 2]) -> Markup {
        let (from, to) = (self.x.place(from), self.x.place(to));
        let [bottom, top] = self.y.places;
        html! {
            rect.outage x=(at(from)) y=(at(top)) width=(at((to - from).max(0.3))) height=(at(bottom - top)) {}
        }
    }

    /// A curve through points, one straight line from each to the next.
    pub(super) fn curve(&self, points: &[(f64, f64)], look: Look, class: &str) -> Markup {
        let mut places = String::new();
        for (x, y) in thinned(points, &self.x) {
            if !places.is_empty() {
                places.push(' ');
            }
            places.push_str(&format!("{},{}", at(self.x.place(x)), at(self.y.place(y))));
        }
        html! {
            polyline class=(class) points=(places) stroke=(look.colour) stroke-dasharray=(look.dashes) {}
        }
    }

    /// A point, filled or hollow, with what it is in words.
    pub(super) fn point(
        &self,
        (x, y): (f64, f64),
        look: Look,
        hollow: bool,
        words: &str,
    ) -> Markup {
        marker((self.x.place(x), self.y.place(y)), look, hollow, words)
    }

    /// An interval around a value.
    pub(super) fn interval(&self, x: f64, [low, high]: [f64; 2], look: Look) -> Markup {
        let (x, low, high) = (self.x.place(x), self.y.place(low), self.y.place(high));
        html! {
            g.interval stroke=(look.colour) {
                line x1=(at(x)) x2=(at(x)) y1=(at(low)) y2=(at(high)) {}
                line x1=(at(x - 4.0)) x2=(at(x + 4.0)) y1=(at(low)) y2=(at(low)) {}
                line x1=(at(x - 4.0)) x2=(at(x + 4.0)) y1=(at(high)) y2=(at(high)) {}
            }
        }
    }

    /// A cross just below the upper edge: a transfer that did not finish.
    pub(super) fn unfinished(&self, x: f64, look: Look, row: usize, words: &str) -> Markup {
        let (x, y) = (self.x.place(x), self.y.places[1] + 9.0 + row as f64 * 11.0);
        html! {
            g.cross stroke=(look.colour) {
                title { (words) }
                line x1=(at(x - 4.0)) x2=(at(x + 4.0)) y1=(at(y - 4.0)) y2=(at(y + 4.0)) {}
                line x1=(at(x - 4.0)) x2=(at(x + 4.0)) y1=(at(y + 4.0)) y2=(at(y - 4.0)) {}
            }
        }
    }

    /// Words within the panel, at its upper left.
    pub(super) fn caption(&self, words: &str) -> Markup {
        html! {
            text.panel x=(at(self.x.places[0] + 7.0)) y=(at(self.y.places[1] + 15.0)) { (words) }
        }
    }
}

fn marker((x, y): (f64, f64), look: Look, hollow: bool, words: &str) -> Markup {
    let fill = if hollow { "#ffffff" } else { look.colour };
    let corners = match look.shape {
        Shape::Circle => None,
        Shape::Square => Some(vec![(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)]),
        Shape::Triangle => Some(vec![(0.0, -4.5), (4.5, 3.5), (-4.5, 3.5)]),
        Shape::Diamond => Some(vec![(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
    };
    let corners = corners.map(|corners| {
        let places = corners
            .iter()
            .map(|(dx, dy)| format!("{},{}", at(x + dx), at(y + dy)));
        places.collect::<Vec<_>>().join(" ")
    });
    html! {
        g.point fill=(fill) stroke=(look.colour) {
            @if !words.is_empty() { title { (words) } }
            @match corners {
                None => circle cx=(at(x)) cy=(at(y)) r="4" {},
                Some(places) => polygon points=(places) {},
            }
        }
    }
}

/// A whole drawing; `words` says what it shows to those who do not see it.
pub(super) fn drawing(height: f64, words: &str, content: Markup) -> Markup {
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(words) { (content) }
    }
}

/// What the looks mean: `curves` with lines, `points` whether they have points too.
pub(super) fn legend(curves: &[(String, Look)], points: bool, more: Markup) -> Markup {
    html! {
        p.legend {
            @for (name, look) in curves {
                span {
                    svg.swatch viewBox="0 0 34 12" aria-hidden="true" {
                        line x1="1" x2="33" y1="6" y2="6" stroke=(look.colour) stroke-dasharray=(look.dashes) {}
                        @if points { (marker((17.0, 6.0), *look, false, "")) }
                    }
                    " " (name)
                }
            }
            (more)
        }
    }
}

/// The legend's words for [`CEILING`].
pub(super) fn ceiling_legend(words: &str) -> Markup {
    html! {
        span {
            svg.swatch viewBox="0 0 34 12" aria-hidden="true" {
                line x1="1" x2="33" y1="6" y2="6" stroke=(CEILING.colour) stroke-dasharray=(CEILING.dashes) {}
            }
            " " (words)
        }
    }
}

/// The legend's word for a shaded time.
pub(super) fn outage_legend() -> Markup {
    html! {
        span {
            svg.swatch viewBox="0 0 34 12" aria-hidden="true" { rect.outage x="1" y="0" width="32" height="12" {} }
            " link down"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_short_and_never_minus_nought() {
        assert_eq!(
            (at(1.26), at(-0.04), at(0.0)),
            ("1.3".into(), "0.0".into(), "0.0".into())
        );
    }

    #[test]
    fn a_curve_goes_through_the_places_of_its_values() {
        let panel = Panel::new(10.0, 110.0, [0.0, 10.0], 100.0);
        let text = panel
            .curve(&[(0.0, 0.0), (10.0, 100.0)], look(0), "curve")
            .into_string();
        assert!(text.contains("points=\"62.0,110.0 746.0,10.0\""), "{text}");
    }

    #[test]
    fn words_in_a_drawing_are_escaped() {
        let panel = Panel::new(10.0, 110.0, [0.0, 10.0], 100.0);
        let text = panel.caption("<script>&\"").into_string();
        assert!(text.contains("&lt;script&gt;&amp;&quot;"), "{text}");
    }

    #[test]
    fn no_two_of_the_first_four_looks_share_a_colour_dashes_or_shape() {
        for (index, one) in LOOKS[..4].iter().enumerate() {
            for other in &LOOKS[..index] {
                assert!(
                    one.colour != other.colour
                        && one.dashes != other.dashes
                        && one.shape != other.shape
                );
            }
        }
    }
}
