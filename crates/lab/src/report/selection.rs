// SPDX-License-Identifier: Apache-2.0
//! Selects lines for the parts of the page, and gives their names as text.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::claims::Paper;
use crate::results::Where;
use crate::results::{ResultLine, word};
use crate::scenario::{self, Parameters};

/// The beginning of the names of scenarios with today's senders: `today.toml`, and
/// `today-NAME.toml` on the subject of the paper's `NAME.toml`.
const TODAY: &str = "today";

/// The beginning of the names of scenarios with other authors' remedies on the paper's links:
/// `baselines.toml`, and `baselines-NAME.toml`.
const BASELINES: &str = "baselines";

/// The files with today's senders, sorted by name.
pub(super) fn today_files(paper: &Paper) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = scenario::find(&paper.folder)?;
    files.retain(|file| is_today_file(file));
    Ok(files)
}

/// The files with other authors' remedies, sorted by name.
pub(super) fn baseline_files(paper: &Paper) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = scenario::find(&paper.folder)?;
    files.retain(|file| is_kind(BASELINES, &stem(&file.to_string_lossy())));
    Ok(files)
}

/// Whether a scenario has today's senders, by its file's name.
pub(super) fn is_today_file(file: &Path) -> bool {
    is_today_name(&stem(&file.to_string_lossy()))
}

fn is_today_name(name: &str) -> bool {
    is_kind(TODAY, name)
}

fn is_kind(kind: &str, name: &str) -> bool {
    name.strip_prefix(kind)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The name of a line's scenario in the paper's folder; none: it is in another folder.
fn own_name<'a>(paper: &Paper, line: &'a ResultLine) -> Option<&'a str> {
    line.scenario.strip_prefix(&paper.name)?.strip_prefix('/')
}

/// The paper's scenario that the name of a line's scenario with today's senders contains.
pub(super) fn counterpart(paper: &Paper, line: &ResultLine) -> Option<String> {
    let name = own_name(paper, line)?
        .strip_prefix(TODAY)?
        .strip_prefix('-')?;
    Some(scenario_name(paper, name))
}

/// The name that runs of a scenario in a paper's folder have.
pub(super) fn scenario_name(paper: &Paper, file: &str) -> String {
    paper.scenario_name(file)
}

/// The parameter of the paper's variants: that of its first table.
pub(super) fn variants_of(paper: &Paper) -> &str {
    let table = paper.claims.table.first();
    table.map_or("", |table| table.variants.as_str())
}

/// A file's name without its folder and its ending.
pub(super) fn stem(file: &str) -> String {
    Path::new(file)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Whether a line is of one of the paper's own scenarios.
pub(super) fn is_own(paper: &Paper, line: &ResultLine) -> bool {
    own_name(paper, line).is_some_and(|name| !is_today_name(name))
}

/// Whether a line is of a scenario of the paper with today's senders, on Linux.
pub(super) fn is_today(paper: &Paper, line: &ResultLine) -> bool {
    own_name(paper, line).is_some_and(is_today_name) && line.substrate != "model"
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

/// Parameters as text.
pub(super) fn parameters_text<'a>(
    parameters: impl IntoIterator<Item = (&'a String, &'a Json)>,
) -> String {
    let parameters_text = parameters.into_iter().map(|(name, value)| {
        let (name, unit) = name_and_unit(name);
        match (unit, value) {
            (Some(unit), _) => format!("{name} {} {unit}", word(value)),
            (None, _) => format!("{name} {}", word(value)),
        }
    });
    parameters_text.collect::<Vec<_>>().join(", ")
}

/// The parameters in an order's ID, such as `delayed_ack=on disconnection_s=5`, as text for people.
pub(super) fn order_text(parameters: &str) -> String {
    let parameters = parameters.split_whitespace();
    let pairs = parameters.filter_map(|word| word.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), Json::from(value)));
    parameters_text(&pairs.collect::<Where>())
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
        ("_kib", "KiB"),
    ];
    let found = units
        .iter()
        .filter_map(|(end, unit)| Some((name.strip_suffix(end)?, *unit)));
    // A name may end in several units: `rate_mbit_per_s` ends in `_s` too. The longest unit counts.
    let found = found.min_by_key(|(rest, _)| rest.len());
    let (rest, unit) = found.map_or((name, None), |(rest, unit)| (rest, Some(unit)));
    (rest.replace('_', " "), unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_parameters_become_text_with_units() {
        assert_eq!(heading("disconnection_s"), "disconnection (s)");
        assert_eq!(heading("rate_mbit_per_s"), "rate (Mb/s)");
        assert_eq!(heading("delayed_ack"), "delayed ack");
        let pairs = Where::from([
            ("delayed_ack".into(), json!("on")),
            ("disconnection_s".into(), json!(10)),
        ]);
        assert_eq!(
            parameters_text(&pairs),
            "delayed ack on, disconnection 10 s"
        );
        assert_eq!(
            order_text("delayed_ack=on disconnection_s=10"),
            parameters_text(&pairs)
        );
    }

    #[test]
    fn only_today_and_what_hangs_on_it_has_todays_senders() {
        let is: Vec<bool> = ["today", "today-congestion", "todays", "undisturbed"]
            .map(is_today_name)
            .into();
        assert_eq!(is, [true, true, false, false]);
    }
}
