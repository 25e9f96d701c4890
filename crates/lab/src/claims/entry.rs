// SPDX-License-Identifier: Apache-2.0
//! The entry of one claim: what is printed, what came out, and the verdict.

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::paper::Paper;
use crate::results::word;

/// One cell or statement, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The paper's folder.
    pub paper: String,
    /// Table, row and column, or the statement's name.
    pub id: String,
    /// What is printed: a number, or a text.
    pub printed: Json,
    /// What came out on the model; none: no run.
    pub model: Option<Json>,
    /// On Linux in a virtual kernel.
    pub linux: Option<Json>,
    /// On Linux by the wall clock.
    pub live: Option<Json>,
    /// By the rules.
    pub verdict: Verdict,
    /// Why: the figures that the verdict rests on.
    pub reason: String,
}

impl Entry {
    /// From what came out on each of [`super::SUBSTRATES`], and the judgement.
    pub(super) fn new(
        paper: &Paper,
        id: String,
        printed: Json,
        [model, linux, live]: [Option<Json>; 3],
        (verdict, reason): (Verdict, String),
    ) -> Self {
        Self {
            paper: paper.name.clone(),
            id,
            printed,
            model,
            linux,
            live,
            verdict,
            reason,
        }
    }
}

/// How well a table fits if something that the paper leaves open has one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The table.
    pub table: String,
    /// The parameter that is left open.
    pub parameter: String,
    /// Its value.
    pub value: Json,
    /// Cells that are as printed.
    pub as_printed: usize,
    /// Cells.
    pub cells: usize,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It came out here as it is printed.
    #[serde(rename = "holds")]
    Holds,
    /// It did not.
    #[serde(rename = "differs")]
    Differs,
    /// There is nothing to compare with.
    #[serde(rename = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Differs => "differs",
            Self::NotComparable => "not comparable",
        }
    }

    /// Of what was found; none: nothing could be compared.
    pub(super) fn of(holds: Option<bool>) -> Self {
        match holds {
            Some(true) => Self::Holds,
            Some(false) => Self::Differs,
            None => Self::NotComparable,
        }
    }
}

/// `12 hold, 3 differ, 5 cannot be compared`.
pub fn counts<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> String {
    let mut counts = [0; 3];
    for entry in entries {
        counts[entry.verdict as usize] += 1;
    }
    let [hold, differ, incomparable] = counts;
    format!("{hold} hold, {differ} differ, {incomparable} cannot be compared")
}

/// Entries as a table for people.
pub fn table(entries: &[Entry]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header([
        "claim", "printed", "model", "linux", "live", "verdict", "why",
    ]);
    for column in 1..=4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let option = |value: &Option<Json>| value.as_ref().map_or("-".to_owned(), word);
    for entry in entries {
        table.add_row([
            format!("{}: {}", entry.paper, entry.id),
            word(&entry.printed),
            option(&entry.model),
            option(&entry.linux),
            option(&entry.live),
            entry.verdict.name().to_owned(),
            entry.reason.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_counted_by_their_verdicts() {
        use Verdict::{Differs, Holds, NotComparable};
        let verdicts = [NotComparable, Holds, NotComparable, Differs, NotComparable];
        let entries = verdicts.map(|verdict| Entry {
            paper: "p".into(),
            id: "id".into(),
            printed: json!(1),
            model: None,
            linux: None,
            live: None,
            verdict,
            reason: String::new(),
        });
        assert_eq!(counts(&entries), "1 hold, 1 differ, 3 cannot be compared");
    }
}
