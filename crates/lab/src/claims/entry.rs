// SPDX-License-Identifier: Apache-2.0
//! The entry of one claim: the printed value, our results, and the verdict.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::paper::Paper;
use crate::results::word;

/// One cell or statement, with our results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The paper's folder.
    pub paper: String,
    /// Table, row and column, or the statement's name.
    pub id: String,
    /// The printed value: a number, or a text.
    pub printed: Json,
    /// The result on the model; none: no run.
    pub model: Option<Json>,
    /// The result on Linux in a virtual kernel.
    pub linux: Option<Json>,
    /// The result on Linux by the wall clock.
    pub live: Option<Json>,
    /// The verdict by the rules of the claims file.
    pub verdict: Verdict,
    /// Why: the figures that the verdict rests on.
    pub reason: String,
    /// The assumption under which these results came out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub assumption: Option<String>,
    /// The verdict under the printed conditions, if there is an assumption that decides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict_as_printed: Option<Verdict>,
    /// The verdicts under assumptions that decide nothing, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub verdicts_beside: BTreeMap<String, Verdict>,
}

impl Entry {
    /// An entry from the results on each of [`super::SUBSTRATES`], and the judgement.
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
            assumption: None,
            verdict_as_printed: None,
            verdicts_beside: BTreeMap::new(),
        }
    }

    /// This entry is of runs under an assumption: adds the entry of the printed conditions beside
    /// it.
    pub(super) fn beside_printed(mut self, printed: Self, assumption: &str) -> Self {
        let came = printed.model.as_ref().map_or("no run".to_owned(), word);
        let verdict = printed.verdict.name();
        self.reason = format!(
            "assumption {assumption}: {}; as printed: {came}, {verdict}",
            self.reason
        );
        self.assumption = Some(assumption.to_owned());
        self.verdict_as_printed = Some(printed.verdict);
        // Assumptions have runs on the model alone.
        (self.linux, self.live) = (printed.linux, printed.live);
        self
    }

    /// This entry is of the printed conditions: adds the entry under an assumption beside it.
    pub(super) fn beside_assumed(mut self, assumed: &Self, assumption: &str) -> Self {
        let came = assumed.model.as_ref().map_or("no run".to_owned(), word);
        let verdict = assumed.verdict.name();
        let more = format!("; with assumption {assumption}: {came}, {verdict}");
        self.reason.push_str(&more);
        let name = assumption.to_owned();
        self.verdicts_beside.insert(name, assumed.verdict);
        self
    }
}

/// How many cells of a table are as printed if an open condition has one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The table.
    pub table: String,
    /// The parameter that the paper leaves open.
    pub parameter: String,
    /// The parameter's value.
    pub value: Json,
    /// Number of cells that are as printed.
    pub as_printed: usize,
    /// Number of cells.
    pub cells: usize,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The result here is as printed.
    #[serde(rename = "holds")]
    Holds,
    /// The result here is not as printed.
    #[serde(rename = "differs")]
    Differs,
    /// There is nothing to compare.
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

    /// The verdict from what was found; none: nothing could be compared.
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
    counts_of(entries.into_iter().map(|entry| entry.verdict))
}

/// The same counts under the printed conditions alone; none: no entry has an assumption that
/// decides.
pub fn counts_as_printed(entries: &[Entry]) -> Option<String> {
    entries.iter().find_map(|entry| entry.verdict_as_printed)?;
    let verdicts = entries.iter();
    let verdicts = verdicts.map(|entry| entry.verdict_as_printed.unwrap_or(entry.verdict));
    Some(counts_of(verdicts))
}

/// The same counts under an assumption that decides nothing.
pub fn counts_beside(entries: &[Entry], assumption: &str) -> String {
    let verdicts = entries.iter();
    let verdict = |entry: &Entry| entry.verdicts_beside.get(assumption).copied();
    counts_of(verdicts.map(|entry| verdict(entry).unwrap_or(entry.verdict)))
}

fn counts_of(verdicts: impl Iterator<Item = Verdict>) -> String {
    let mut counts = [0; 3];
    for verdict in verdicts {
        counts[verdict as usize] += 1;
    }
    let [hold, differ, incomparable] = counts;
    format!("{hold} hold, {differ} differ, {incomparable} cannot be compared")
}

/// Entries as a table for people.
pub fn table(entries: &[Entry]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
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
            assumption: None,
            verdict_as_printed: (verdict == Holds).then_some(Differs),
            verdicts_beside: [("odd".to_owned(), Holds)]
                .into_iter()
                .filter(|_| verdict == Differs)
                .collect(),
        });
        assert_eq!(counts(&entries), "1 hold, 1 differ, 3 cannot be compared");
        let printed = counts_as_printed(&entries).unwrap();
        assert_eq!(printed, "0 hold, 2 differ, 3 cannot be compared");
        assert_eq!(counts_as_printed(&entries[..1]), None);
        let beside = counts_beside(&entries, "odd");
        assert_eq!(beside, "2 hold, 0 differ, 3 cannot be compared");
    }
}
