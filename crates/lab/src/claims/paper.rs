// SPDX-License-Identifier: Apache-2.0
//! A paper's folder: its claims, the runs that they need, and the results of those runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use holdfast_testbed::stop::StopFlag;

use super::file::ClaimsFile;
use crate::campaign;
use crate::demo::own_binary;
use crate::library;
use crate::results::{ResultLine, Where};
use crate::scenario::{Run, Scenario, in_full};
use crate::substrate::{ExecutionSettings, Substrate, SubstrateKind};
use crate::traced;

/// The file in a paper's folder.
pub const CLAIMS_FILE: &str = "claims.toml";
/// The substrates in the order in which a verdict prefers them.
pub const SUBSTRATES: [&str; 3] = ["model", "linux", "live"];

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
        // The scenarios' names contain the full name, whatever path led to the folder.
        let name = in_full(folder)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // Caches the sweeps: most tables name the same few scenarios.
        let known = RefCell::new(BTreeMap::new());
        let sweeps = |scenario: &str| -> anyhow::Result<Vec<String>> {
            if let Some(sweeps) = known.borrow().get(scenario) {
                return Ok(Vec::clone(sweeps));
            }
            let sweeps = Scenario::load(&folder.join(scenario))?.sweeps()?;
            known
                .borrow_mut()
                .insert(scenario.to_owned(), sweeps.clone());
            Ok(sweeps)
        };
        let claims = ClaimsFile::load(&file, &sweeps)?;
        Ok(Self {
            name,
            folder: folder.to_owned(),
            claims,
        })
    }

    /// The papers in `folder`, by name: the folders with claims. A folder that does not exist on
    /// disk may be one of the [`library`].
    pub fn find(folder: &Path) -> anyhow::Result<Vec<Self>> {
        if !folder.exists() && library::is_folder(folder) {
            let claims = library::files_in(folder).filter(|file| file.ends_with(CLAIMS_FILE));
            let folders = claims.filter_map(|file| Some(file.parent()?.to_owned()));
            return folders.map(|folder| Self::load(&folder)).collect();
        }
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

    /// The runs that its claims need: all runs of each scenario that a claim names. Without
    /// alternatives these are the runs that the paper itself describes.
    pub fn runs(&self, with_alternatives: bool) -> anyhow::Result<Vec<Run>> {
        let mut runs = Vec::new();
        for file in self.claims.scenarios(with_alternatives) {
            runs.extend(Scenario::load(&self.folder.join(file))?.runs(None)?);
        }
        Ok(runs)
    }

    /// Executes the runs: all of them on the model. Other substrates execute those that the paper
    /// itself describes, if they can.
    pub fn measure(
        &self,
        substrate: &Substrate,
        jobs: usize,
        stop: &StopFlag,
    ) -> anyhow::Result<Vec<ResultLine>> {
        let runs = self.runs(substrate.kind() == SubstrateKind::Model)?;
        let runs: Vec<&Run> = runs
            .iter()
            .filter(|run| substrate.refusal(run).is_none())
            .collect();
        self.carry_out(&runs, substrate, jobs, stop)
    }

    /// Executes runs, and reads their packets where a statement needs them. The lines are in the
    /// order of the runs.
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

    /// The scenario's name in the lines of its runs.
    pub(crate) fn scenario_name(&self, file: &str) -> String {
        let stem = Path::new(file).file_stem().unwrap_or_default();
        format!("{}/{}", self.name, stem.to_string_lossy())
    }

    /// The lines of one scenario on one substrate whose parameters have these values.
    pub(super) fn select<'a>(
        &self,
        lines: &'a [ResultLine],
        scenario: &str,
        substrate: &str,
        wanted: &[&Where],
    ) -> Vec<&'a ResultLine> {
        let name = self.scenario_name(scenario);
        let lines = lines.iter();
        lines
            .filter(|line| line.substrate == substrate && line.scenario == name)
            .filter(|line| wanted.iter().all(|wanted| line.has(wanted)))
            .collect()
    }
}

/// Executes a run on a substrate of this kind, and reads its packets.
fn execute_traced(run: &Run, substrate: &Substrate, stop: &StopFlag) -> anyhow::Result<ResultLine> {
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
