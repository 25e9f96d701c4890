// SPDX-License-Identifier: Apache-2.0
//! Lines as text: parameters, medians.

use crate::claims::Metric;
use crate::results::{ResultLine, word};
use crate::statistics::median;

/// The parameter of the sender.
pub(super) const SENDER: &str = "congestion_control";
/// The parameter of the gateway's scheme.
pub(super) const SCHEME: &str = "scheme";

/// A parameter of a line as text.
pub(in crate::report) fn parameter(line: &ResultLine, name: &str) -> String {
    line.parameters
        .get(name)
        .map_or_else(|| "–".to_owned(), word)
}

/// The median, with the least and the greatest value if they differ. A line without the metric counts
/// as not finished; `–`: there are no lines.
pub(in crate::report) fn median_text(metric: Metric, lines: &[&ResultLine]) -> String {
    let values: Vec<f64> = lines
        .iter()
        .map(|line| metric.of(line).unwrap_or(f64::INFINITY))
        .collect();
    let shown = |value: f64| {
        if value.is_finite() {
            metric.text(value)
        } else {
            "not finished".to_owned()
        }
    };
    let least = values.iter().copied().min_by(f64::total_cmp);
    let most = values.iter().copied().max_by(f64::total_cmp);
    let (Some(least), Some(most), Some(middle)) = (least, most, median(values)) else {
        return "–".to_owned();
    };
    let [least, middle, most] = [least, middle, most].map(shown);
    if least == most {
        middle
    } else {
        format!("{middle} ({least} to {most})")
    }
}

/// The least optimum of the lines: it depends on the options of the sender's segments.
pub(super) fn optimum(lines: &[&ResultLine]) -> String {
    let least = lines
        .iter()
        .filter_map(|line| line.optimal_s)
        .fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        Metric::TransferS.text(least)
    } else {
        "–".to_owned()
    }
}
