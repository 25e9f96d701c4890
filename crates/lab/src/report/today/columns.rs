// SPDX-License-Identifier: Apache-2.0
//! Selects the lines that are judged together: those of one sender, with one gateway of each
//! scheme.

use std::collections::BTreeMap;

use super::line::{SCHEME, parameter};
use crate::results::{ResultLine, grouped, word};
use crate::scenario::Run;

/// The scheme of each gateway name in today's scenarios: several names may be `snoop` with
/// different parameters.
pub(super) struct Kinds(BTreeMap<(String, String), String>);

impl Kinds {
    /// From today's runs.
    pub(super) fn of(runs: &[Run]) -> Self {
        let kinds = runs.iter().filter_map(|run| {
            let name = word(run.parameters.get(SCHEME)?);
            let kind = run.conditions.gateway.scheme.name().to_owned();
            Some(((run.scenario.clone(), name), kind))
        });
        Self(kinds.collect())
    }

    /// The scheme of a line's gateway; if no run has that name, the name itself.
    pub(super) fn of_line(&self, line: &ResultLine) -> String {
        let name = parameter(line, SCHEME);
        let known = self.0.get(&(line.scenario.clone(), name.clone()));
        known.cloned().unwrap_or(name)
    }
}

/// The lines of a sender in named columns: one column for each set of parameters of a scheme.
pub(super) fn of<'a>(
    sender: &str,
    lines: &[&'a ResultLine],
    kinds: &Kinds,
) -> Vec<(String, Vec<&'a ResultLine>)> {
    let named = grouped(lines.iter().copied(), |line| {
        (kinds.of_line(line), parameter(line, SCHEME))
    });
    let several = |kind: &String| named.iter().filter(|((other, _), _)| other == kind).count() > 1;
    let columns: Vec<(String, Vec<&ResultLine>)> = named
        .iter()
        .filter(|((kind, _), _)| several(kind))
        .map(|((kind, name), _)| {
            let own = lines.iter().copied();
            let own =
                own.filter(|line| kinds.of_line(line) != *kind || parameter(line, SCHEME) == *name);
            (format!("{sender}, {name}"), own.collect())
        })
        .collect();
    if columns.is_empty() {
        return vec![(sender.to_owned(), lines.to_vec())];
    }
    columns
}
