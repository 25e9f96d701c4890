// SPDX-License-Identifier: Apache-2.0
//! From values to places on paper: scales, their marks, and curves with no more points
//! than can be seen.

/// A straight scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// The values at its ends.
    pub(super) values: [f64; 2],
    /// Their places, in pixels.
    pub(super) places: [f64; 2],
}

impl Scale {
    /// The place of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let [low, high] = self.values;
        let [from, to] = self.places;
        from + (value - low) / (high - low) * (to - from)
    }
}

/// The least and the greatest value that a scale shows; what is beyond is nothing, or cannot
/// be drawn.
const HIGHEST: std::ops::RangeInclusive<f64> = 1e-9..=1e300;

/// Round values from 0 to at least `highest`, about `wanted` of them: steps of 1, 2 or 5
/// times a power of ten.
pub(super) fn round_marks(highest: f64, wanted: usize) -> Vec<f64> {
    let highest = if HIGHEST.contains(&highest) {
        highest
    } else {
        1.0
    };
    let rough = highest / wanted.max(1) as f64;
    let mut power = 1.0_f64;
    while power > rough {
        power /= 10.0;
    }
    while power * 10.0 <= rough {
        power *= 10.0;
    }
    let step = [1.0, 2.0, 5.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough);
    let step = step.unwrap_or(power * 10.0);
    let count = (highest / step - 1e-9).ceil() as usize;
    (0..=count).map(|index| index as f64 * step).collect()
}

/// A mark's words: no more decimals than its step needs.
pub(super) fn mark_text(value: f64, step: f64) -> String {
    let decimals = (0..6).find(|decimals| {
        let scaled = step * 10_f64.powi(*decimals);
        (scaled - scaled.round()).abs() < 1e-6
    });
    format!("{value:.*}", decimals.unwrap_or(6) as usize)
}

/// The points of a curve, thinned: of all points within one pixel's width, the first, the
/// least, the greatest and the last remain, in their order. What remains looks the same.
pub(super) fn thinned(points: &[(f64, f64)], x: &Scale) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    let mut rest = points;
    while let Some(first) = rest.first() {
        let column = x.place(first.0).floor();
        let same = |point: &(f64, f64)| x.place(point.0).floor().total_cmp(&column).is_eq();
        let count = rest.iter().take_while(|point| same(point)).count().max(1);
        let (column, others) = rest.split_at(count);
        let by_value = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let least = (0..count).min_by(by_value).unwrap_or(0);
        let greatest = (0..count).max_by(by_value).unwrap_or(0);
        let mut indices = [0, least, greatest, count - 1];
        indices.sort_unstable();
        for (place, index) in indices.iter().enumerate() {
            if place == 0 || indices[place - 1] != *index {
                kept.push(column[*index]);
            }
        }
        rest = others;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_cover_everything() {
        assert_eq!(round_marks(622.4, 5), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert_eq!(round_marks(100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(round_marks(9.2, 4), [0.0, 5.0, 10.0]);
        let small: Vec<String> = round_marks(0.3, 3)
            .iter()
            .map(|m| mark_text(*m, 0.1))
            .collect();
        assert_eq!(small, ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(mark_text(400.0, 200.0), "400");
        let least = f64::from_bits(1);
        for highest in [1e-9, 1e300] {
            assert!(
                (3..=11).contains(&round_marks(highest, 5).len()),
                "{highest}"
            );
        }
        for nothing in [0.0, f64::NAN, f64::INFINITY, -3.0, least, f64::MAX] {
            assert!(round_marks(nothing, 5).len() <= 11);
            assert!(
                round_marks(nothing, 5)
                    .last()
                    .is_some_and(|last| *last >= 1.0)
            );
        }
    }

    #[test]
    fn a_thinned_curve_keeps_every_peak_and_its_ends() {
        let scale = Scale {
            values: [0.0, 1000.0],
            places: [0.0, 100.0],
        };
        let mut points: Vec<(f64, f64)> = (0..10_000)
            .map(|index| (f64::from(index) / 10.0, f64::from(index % 7)))
            .collect();
        points[5_003].1 = 99.0;
        points[7_777].1 = -5.0;
        let kept = thinned(&points, &scale);
        assert!(kept.len() <= 4 * 101, "{}", kept.len());
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
        assert!(kept.contains(&points[5_003]) && kept.contains(&points[7_777]));
        assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert_eq!(thinned(&points[..1], &scale), &points[..1]);
        assert!(thinned(&[], &scale).is_empty());
    }
}
