// SPDX-License-Identifier: Apache-2.0
//! The same cells under other assumptions, where the paper leaves something open. They
//! change no verdict: they say what a verdict hangs on.

use serde_json::{Value as Json, json};

use super::file::{Alternative, ClaimedTable, Where};
use super::verdict::{Outcome, SUBSTRATES, cell, is_mark, outcome, rounded, same, select, word};
use super::{Fit, Paper, Verdict};
use crate::results::ResultLine;

/// What came out on the model under each of an alternative's assumptions, by their values.
pub(super) fn alternatively(
    paper: &Paper,
    table: &ClaimedTable,
    other: &Alternative,
    of: &Where,
    lines: &[ResultLine],
) -> Vec<(Json, Outcome)> {
    let runs = select(
        lines,
        paper,
        &other.scenario,
        SUBSTRATES[0],
        &[of, &other.of],
    );
    let mut groups: Vec<(Json, Vec<&ResultLine>)> = Vec::new();
    for run in runs {
        let value = match &other.over {
            None => Json::Null,
            Some(over) => match run.parameters.get(over) {
                Some(value) => value.clone(),
                None => continue,
            },
        };
        match groups.iter_mut().find(|(known, _)| same(known, &value)) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((value, vec![run])),
        }
    }
    let outcomes = groups.into_iter();
    outcomes
        .map(|(value, runs)| (value, outcome(&runs, other.metric.unwrap_or(table.metric))))
        .collect()
}

/// What an alternative adds to the reason of a cell's verdict.
pub(super) fn alternative_text(
    paper: &Paper,
    table: &ClaimedTable,
    printed: f64,
    other: &Alternative,
    came: &[(Json, Outcome)],
) -> String {
    let values: Vec<f64> = came
        .iter()
        .filter_map(|(_, outcome)| outcome.rank())
        .collect();
    let shown = |value: f64| {
        if value.is_finite() {
            word(&json!(rounded(value)))
        } else {
            "unfinished".to_owned()
        }
    };
    let (Some(least), Some(most)) = (
        values.iter().copied().min_by(f64::total_cmp),
        values.iter().copied().max_by(f64::total_cmp),
    ) else {
        return String::new();
    };
    if other.over.is_none() {
        return format!("; with {}: {}", other.text, shown(least));
    }
    let fitting = came
        .iter()
        .filter(|(_, outcome)| is_as_printed(paper, table, printed, *outcome))
        .count();
    format!(
        "; with {}: {} to {}, as printed for {fitting} of {}",
        other.text,
        shown(least),
        shown(most),
        came.len()
    )
}

/// Whether an outcome of a cell is what is printed there, by the rule of cells.
fn is_as_printed(paper: &Paper, table: &ClaimedTable, printed: f64, outcome: Outcome) -> bool {
    let outcomes = [outcome, Outcome::NoRun, Outcome::NoRun];
    let (verdict, _) = cell(paper, table, printed, is_mark(table, printed), outcomes);
    verdict == Verdict::Holds
}

/// For each value of an assumption that the paper leaves open: how many of a table's cells
/// are as printed if it is that one.
pub(super) fn fits(paper: &Paper, lines: &[ResultLine]) -> Vec<Fit> {
    let mut fits: Vec<Fit> = Vec::new();
    for table in &paper.claims.table {
        for other in &table.alternative {
            if let Some(over) = &other.over {
                fits.extend(fits_of(paper, table, other, over, lines));
            }
        }
    }
    fits
}

fn fits_of(
    paper: &Paper,
    table: &ClaimedTable,
    other: &Alternative,
    over: &str,
    lines: &[ResultLine],
) -> Vec<Fit> {
    let mut fits: Vec<Fit> = Vec::new();
    let rows = table.row.iter();
    let cells = rows.flat_map(|row| {
        let columns = table.columns.iter().zip(&row.printed);
        columns.map(move |(column, printed)| (row, column, *printed))
    });
    for (row, column, printed) in cells {
        let mut of = row.of.clone();
        of.insert(table.column.clone(), column.clone());
        for (value, outcome) in alternatively(paper, table, other, &of, lines) {
            let as_printed = usize::from(is_as_printed(paper, table, printed, outcome));
            match fits.iter_mut().find(|fit| same(&fit.value, &value)) {
                Some(fit) => {
                    fit.cells += 1;
                    fit.as_printed += as_printed;
                }
                None => fits.push(Fit {
                    table: table.id.clone(),
                    parameter: over.to_owned(),
                    value,
                    as_printed,
                    cells: 1,
                }),
            }
        }
    }
    fits
}
