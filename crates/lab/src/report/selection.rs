// SPDX-License-Identifier: Apache-2.0
//! Which lines belong to what on the page, and their names in words.

use std::path::Path;

use serde_json::Value as Json;

use crate::claims::Paper;
use crate::claims::file::{Metric, Where};
use crate::results::ResultLine;
use crate::scenario::Parameters;

/// The scenario of a paper that has today's senders in place of its own.
pub(super) const TODAY: &str = "today.toml";

/// The name that runs of a scenario in a paper's folder have.
pub(super) fn scenario_name(paper: &Paper, file: &str) -> String {
    format!("{}/{}", paper.name, stem(file))
}

fn stem(file: &str) -> String {
    Path::new(file)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Whether a line is of one of the paper's own scenarios.
pub(super) fn is_own(paper: &Paper, line: &ResultLine) -> bool {
    let own = line
        .scenario
        .strip_prefix(&paper.name)
        .is_some_and(|rest| rest.starts_with('/'));
    own && line.scenario != scenario_name(paper, TODAY)
}

/// Whether a line is of the paper's scenario with today's senders, on Linux.
pub(super) fn is_today(paper: &Paper, line: &ResultLine) -> bool {
    line.scenario == scenario_name(paper, TODAY) && line.substrate != "model"
}

/// Whether the line's parameters have these values.
pub(super) fn has(line: &ResultLine, of: &Where) -> bool {
    of.iter()
        .all(|(key, value)| line.parameters.get(key).is_some_and(|has| same(has, value)))
}

/// Equal; 5 and 5.0 too.
pub(super) fn same(a: &Json, b: &Json) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => a == b,
    }
}

/// Parameters without some of them.
pub(super) fn without(parameters: &Parameters, names: &[&str]) -> Parameters {
    let others = parameters
        .iter()
        .filter(|(name, _)| !names.contains(&name.as_str()));
    others
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Groups with equal keys, in the order in which their first members come.
pub(super) fn grouped<T, K: PartialEq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(&item);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// A value in words.
pub(super) fn word(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Parameters in words.
pub(super) fn words<'a>(parameters: impl IntoIterator<Item = (&'a String, &'a Json)>) -> String {
    let words = parameters.into_iter().map(|(name, value)| {
        let (name, unit) = name_and_unit(name);
        match (unit, value) {
            (Some(unit), _) => format!("{name} {} {unit}", word(value)),
            (None, _) => format!("{name} {}", word(value)),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// `delayed_ack=on disconnection_s=5`, as the names of orders have it, in words.
pub(super) fn order_words(parameters: &str) -> String {
    let parameters = parameters.split_whitespace();
    let pairs = parameters.filter_map(|word| word.split_once('='));
    let of = pairs.map(|(name, value)| (name.to_owned(), Json::from(value)));
    words(&of.collect::<Where>())
}

/// A parameter's name as a heading.
pub(super) fn heading(name: &str) -> String {
    match name_and_unit(name) {
        (name, Some(unit)) => format!("{name} ({unit})"),
        (name, None) => name,
    }
}

fn name_and_unit(name: &str) -> (String, Option<&'static str>) {
    let units = [
        ("_s", "s"),
        ("_ms", "ms"),
        ("_percent", "%"),
        ("_mbit_per_s", "Mb/s"),
        ("_bytes", "bytes"),
    ];
    let found = units
        .iter()
        .filter_map(|(end, unit)| Some((name.strip_suffix(end)?, *unit)));
    // `rate_mbit_per_s` ends in `_s` too: the shortest rest has the whole unit.
    let found = found.min_by_key(|(rest, _)| rest.len());
    let (rest, unit) = found.map_or((name, None), |(rest, unit)| (rest, Some(unit)));
    (rest.replace('_', " "), unit)
}

/// A metric's name with its unit.
pub(super) fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::TransferS => "Response time (s)",
        Metric::RetransmissionRatioPercent => "Retransmission ratio (%)",
        Metric::GoodputMbps => "Goodput (Mb/s)",
    }
}

/// A metric's value.
pub(super) fn metric_text(metric: Metric, value: f64) -> String {
    match metric {
        Metric::TransferS => format!("{value:.1}"),
        Metric::RetransmissionRatioPercent | Metric::GoodputMbps => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_parameters_become_words_with_units() {
        assert_eq!(heading("disconnection_s"), "disconnection (s)");
        assert_eq!(heading("rate_mbit_per_s"), "rate (Mb/s)");
        assert_eq!(heading("delayed_ack"), "delayed ack");
        let of = Where::from([
            ("delayed_ack".into(), json!("on")),
            ("disconnection_s".into(), json!(10)),
        ]);
        assert_eq!(words(&of), "delayed ack on, disconnection 10 s");
        assert_eq!(order_words("delayed_ack=on disconnection_s=10"), words(&of));
    }

    #[test]
    fn groups_keep_the_order_of_their_first_members() {
        let groups = grouped([3, 1, 4, 1, 5, 9], |number| number % 2);
        assert_eq!(groups, [(1, vec![3, 1, 1, 5, 9]), (0, vec![4])]);
    }
}
