// SPDX-License-Identifier: Apache-2.0
//! Verdicts on statements: a paper's statements as rules about runs.

use serde_json::json;

use super::entry::{Entry, Verdict};
use super::file::Statement;
use super::judge::{self, Found};
use super::paper::{Paper, SUBSTRATES};
use crate::results::ResultLine;

/// The entry of a statement; its verdict is that of the first substrate that has runs.
pub(super) fn entry(paper: &Paper, statement: &Statement, lines: &[ResultLine]) -> Entry {
    let found = SUBSTRATES.map(|substrate| {
        let lines = paper.select(
            lines,
            &statement.scenario,
            substrate,
            &[&statement.selection],
        );
        (!lines.is_empty()).then(|| judge(statement, &lines))
    });
    let first = found.iter().flatten().next();
    let judgement = match (first, &statement.open) {
        (None, _) => (
            Verdict::NotComparable,
            "no run has these parameters".to_owned(),
        ),
        (Some(_), Some(open)) => (Verdict::NotComparable, format!("not printed: {open}")),
        (Some(found), None) => (Verdict::of(found.holds), found.reason.clone()),
    };
    let printed = json!(first.map_or(&statement.text, |found| &found.printed));
    let came = found
        .each_ref()
        .map(|found| found.as_ref()?.came.as_ref().map(|came| json!(came)));
    Entry::new(paper, statement.id.clone(), printed, came, judgement)
}

/// Combines what all rules of a statement found.
fn judge(statement: &Statement, lines: &[&ResultLine]) -> Found {
    let found: Vec<Found> = statement
        .rule
        .iter()
        .map(|rule| judge::judge(rule, lines))
        .collect();
    let joined = |text: &dyn Fn(&Found) -> String| {
        let texts: Vec<String> = found.iter().map(text).collect();
        texts.join("; ")
    };
    let mut holds = found.iter().map(|one| one.holds);
    let came: Option<Vec<&String>> = found.iter().map(|one| one.came.as_ref()).collect();
    let mut reason = joined(&|one| one.reason.clone());
    let mut holds = holds.try_fold(true, |all, one| Some(all & one?));
    if statement.definition {
        holds = holds.filter(|holds| !holds);
        reason.insert_str(0, "a definition: ");
    }
    Found {
        printed: joined(&|one| one.printed.clone()),
        came: came.map(|_| joined(&|one| one.came.clone().unwrap_or_default())),
        holds,
        reason,
    }
}
