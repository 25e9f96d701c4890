// SPDX-License-Identifier: Apache-2.0
//! Checks that a claims file names parameters that its scenarios sweep. A parameter that no run
//! has would make groups of one run each, and rules about them could not fail.

use holdfast_files::document::{DocumentError, nearest};
use toml::{Table, Value};

/// The parameters that a scenario sweeps, by its file.
type Sweeps<'a> = &'a dyn Fn(&str) -> anyhow::Result<Vec<String>>;

/// Keys whose value is the name of a parameter.
const NAMING: [&str; 7] = [
    "column",
    "variants",
    "over",
    "x",
    "per",
    "parameter",
    "window",
];

/// The first parameter in a table of the file that not all of its scenarios sweep, with its key and
/// the nearest known parameter. `scenarios` are those of the table around it.
///
/// # Errors
/// A scenario cannot be read.
pub(super) fn unknown(
    table: &Table,
    scenarios: &[String],
    sweeps: Sweeps<'_>,
) -> anyhow::Result<Option<DocumentError>> {
    let named = texts(table.get("scenarios").or(table.get("scenario")));
    let scenarios = if named.is_empty() { scenarios } else { &named };
    for (key, value) in table {
        let names = match value {
            Value::Table(parameters) if key == "where" => parameters.keys().cloned().collect(),
            _ if NAMING.contains(&key.as_str()) => texts(Some(value)),
            _ => Vec::new(),
        };
        for name in names {
            for scenario in scenarios {
                if let Some(problem) = problem(&name, scenario, &sweeps(scenario)?) {
                    return Ok(Some(DocumentError::at(key, problem)));
                }
            }
        }
        let (tables, is_list): (Vec<&Value>, bool) = match value {
            Value::Array(items) => (items.iter().collect(), true),
            value => (vec![value], false),
        };
        for (number, item) in tables.into_iter().enumerate() {
            let Value::Table(inner) = item else { continue };
            if let Some(mut error) = unknown(inner, scenarios, sweeps)? {
                if is_list {
                    error = error.within(&number.to_string());
                }
                return Ok(Some(error.within(key)));
            }
        }
    }
    Ok(None)
}

/// A text, or the texts of a list.
fn texts(value: Option<&Value>) -> Vec<String> {
    let one = |value: &Value| value.as_str().map(str::to_owned);
    match value {
        Some(Value::Array(items)) => items.iter().filter_map(one).collect(),
        value => value.and_then(one).into_iter().collect(),
    }
}

fn problem(name: &str, scenario: &str, swept: &[String]) -> Option<String> {
    if swept.iter().any(|known| known == name) {
        return None;
    }
    let remedy = nearest(name, swept.iter().map(String::as_str))
        .map_or(String::new(), |known| format!("; did you mean `{known}`?"));
    Some(format!(
        "got `{name}`, which {scenario} does not sweep{remedy}"
    ))
}
