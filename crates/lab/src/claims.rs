// SPDX-License-Identifier: Apache-2.0
//! What a paper claims, beside what came out here.
//!
//! `papers/PAPER/claims.toml` has the paper's tables and statements as they are printed,
//! and says which runs of which scenario each is about ([`mod@file`]). A verdict is computed
//! from both by the rules in that file; nobody writes one. The rules:
//!
//! - a **cell** holds if the median of its runs is within the metric's tolerance of what is
//!   printed; a cell printed as unfinished holds if most of its runs do not finish;
//! - an **order** holds if each two variants that the paper prints apart are in the same
//!   order here, by whatever distance, and those that it prints as equal are equal here: within
//!   `tie_percent`, or the metric's `absolute` tolerance;
//! - a **statement** is a comparison of runs, with a tolerance of its own;
//! - what needs a condition that the paper does not print, or a variant for which there is no
//!   run, is **not comparable**.
//!
//! Where the paper leaves something open, a reason says besides what came out under other
//! assumptions; no verdict rests on them.

mod alternative;
pub mod file;
mod parameters;
mod statement;
mod verdict;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::campaign;
use crate::demo::own_binary;
use crate::results::ResultLine;
use crate::scenario::{Run, Scenario, in_full};
use crate::stop::StopFlag;
use crate::substrate::{ExecutionSettings, Substrate, SubstrateKind};
use crate::traced;
pub use file::ClaimsFile;
pub(crate) use verdict::{has, same, word};

/// The file in a paper's folder.
pub const CLAIMS_FILE: &str = "claims.toml";

/// One cell or statement, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The paper's folder.
    pub paper: String,
    /// Table, row and column, or the statement's name.
    pub id: String,
    /// What the paper says: a number, or words.
    pub printed: Json,
    /// What came out on the model; none: no run.
    pub model: Option<Json>,
    /// On Linux in a virtual kernel.
    pub linux: Option<Json>,
    /// On Linux by the wall clock.
    pub live: Option<Json>,
    /// What the rules say.
    pub verdict: Verdict,
    /// Why: the figures that the verdict rests on.
    pub reason: String,
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

/// What the rules say of a claim.
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
}

/// A paper's folder with its claims.
#[derive(Clone, Debug)]
pub struct Paper {
    /// The folder's name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// What is claimed.
    pub claims: ClaimsFile,
}

impl Paper {
    /// Reads `folder/claims.toml`.
    ///
    /// # Errors
    /// One line with the file, the key, what it got and what it takes.
    pub fn load(folder: &Path) -> anyhow::Result<Self> {
        let file = folder.join(CLAIMS_FILE);
        let claims = ClaimsFile::load(&file)?;
        // The scenarios' names have it, by whatever way it was reached.
        let name = in_full(folder)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let sweeps = |scenario: &str| Scenario::load(&folder.join(scenario))?.sweeps();
        claims.check_parameters(&file.display().to_string(), &sweeps)?;
        Ok(Self {
            name,
            folder: folder.to_owned(),
            claims,
        })
    }

    /// The papers in `folder`, by name: the folders with claims.
    pub fn find(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let unreadable = || format!("{}: cannot be read", folder.display());
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(folder).with_context(unreadable)? {
            let path = entry.with_context(unreadable)?.path();
            if path.join(CLAIMS_FILE).exists() {
                folders.push(path);
            }
        }
        folders.sort();
        folders.iter().map(|folder| Self::load(folder)).collect()
    }

    /// The runs that its claims need: all of each scenario that one of them names.
    pub fn runs(&self) -> anyhow::Result<Vec<Run>> {
        let mut runs = Vec::new();
        for file in self.claims.scenarios() {
            runs.extend(Scenario::load(&self.folder.join(file))?.runs(None)?);
        }
        Ok(runs)
    }

    /// The same without the alternatives: what the paper itself describes.
    pub fn stated_runs(&self) -> anyhow::Result<Vec<Run>> {
        let stated = self.claims.stated_scenarios();
        let mut runs = Vec::new();
        for file in stated {
            runs.extend(Scenario::load(&self.folder.join(file))?.runs(None)?);
        }
        Ok(runs)
    }

    /// Carries the runs out: all of them on the model, elsewhere those of what the paper
    /// itself describes, as far as the substrate can.
    pub fn measure(
        &self,
        substrate: &Substrate,
        jobs: usize,
        stop: &StopFlag,
    ) -> anyhow::Result<Vec<ResultLine>> {
        let runs = match substrate.kind() {
            SubstrateKind::Model => self.runs()?,
            SubstrateKind::Linux | SubstrateKind::Live => self.stated_runs()?,
        };
        let runs: Vec<&Run> = runs
            .iter()
            .filter(|run| substrate.refusal(run).is_none())
            .collect();
        self.carry_out(&runs, substrate, jobs, stop)
    }

    /// Carries runs out, and reads the packets of those of which a statement needs them.
    /// The lines are in the runs' order.
    pub fn carry_out(
        &self,
        runs: &[&Run],
        substrate: &Substrate,
        jobs: usize,
        stop: &StopFlag,
    ) -> anyhow::Result<Vec<ResultLine>> {
        let traced = self.claims.traced_scenarios().into_iter();
        let traced: Vec<String> = traced.map(|file| self.scenario_name(file)).collect();
        let is_traced = |run: &&Run| traced.contains(&run.scenario);
        let others: Vec<&Run> = runs.iter().copied().filter(|run| !is_traced(run)).collect();
        let mut of_others = Vec::with_capacity(others.len());
        campaign::run(&others, substrate, jobs, stop, |line| {
            of_others.push(line);
            Ok(())
        })?;
        let mut of_others = of_others.into_iter();
        let mut lines = Vec::with_capacity(runs.len());
        for run in runs {
            if is_traced(run) {
                lines.push(execute_traced(run, substrate, stop)?);
            } else {
                lines.extend(of_others.next());
            }
        }
        Ok(lines)
    }

    /// The name that runs of a scenario in this folder have.
    pub(crate) fn scenario_name(&self, file: &str) -> String {
        let stem = Path::new(file).file_stem().unwrap_or_default();
        format!("{}/{}", self.name, stem.to_string_lossy())
    }

    /// Every claim's entry, from lines of whatever substrates and scenarios there are.
    pub fn entries(&self, lines: &[ResultLine]) -> Vec<Entry> {
        verdict::entries(self, lines)
    }

    /// How well tables fit for each value of what the paper leaves open.
    pub fn fits(&self, lines: &[ResultLine]) -> Vec<Fit> {
        alternative::fits(self, lines)
    }
}

/// Carries out a run on a substrate of this kind, and reads its packets.
fn execute_traced(
    run: &Run,
    substrate: &Substrate,
    stop: &StopFlag,
) -> anyhow::Result<ResultLine> {
    let folder = tempfile::tempdir().context("no folder for packets can be made")?;
    let settings = ExecutionSettings {
        holdfast: own_binary()?,
        label: None,
        pcap: Some(folder.path().to_owned()),
    };
    let mut line = Substrate::new(substrate.kind(), settings)?.execute(run, stop)?;
    line.traced = Some(traced::read_folder(folder.path())?);
    Ok(line)
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
    let shown = |value: &Json| match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let option = |value: &Option<Json>| value.as_ref().map_or("-".to_owned(), shown);
    for entry in entries {
        table.add_row([
            format!("{}: {}", entry.paper, entry.id),
            shown(&entry.printed),
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
mod tests;
