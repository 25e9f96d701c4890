// SPDX-License-Identifier: Apache-2.0
//! Scenarios: an experiment in TOML, independent of the substrate that executes it.
//!
//! A [`Scenario`] is a document. Its `[[sweep]]`s multiply it to [`Run`]s, in an order that depends
//! on the document alone. A run has everything that a substrate needs ([`Conditions`]), checked.
//! The outages of its seed are drawn when it is executed ([`Run::drawn`]): they are the same on
//! every substrate.
//!
//! ```toml
//! description = "one outage, plain and with the gateway"
//!
//! [transfer]
//! bytes = 10_000_000
//!
//! [wireless]
//! rate_mbit_per_s = 20
//! delay_ms = 25
//! queue_packets_max = 200
//! outages = { kind = "list", list = [{ at_s = 2, for_s = 3 }] }
//!
//! [[sweep]]
//! name = "scheme"
//! key = "gateway.scheme"
//! values = ["none", "hold"]
//! ```

mod cells;
mod conditions;
mod direction;
mod gateway;
mod handoff;
mod hop;
mod host;
mod keys;
mod lc_cwe;
mod mobile;
mod sweep;
mod transfer;
mod unread;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, bail};
use serde::Serialize;
use toml::Table;

pub(crate) use cells::seed_of as cell_seed;
pub use cells::{Move, MoveAt, MovementConditions, Moves};
pub use conditions::{Conditions, CrossTraffic, Record, Stretch};
pub(crate) use conditions::{PART_WIRED, seconds};
pub use direction::DirectionChoice;
pub use gateway::{GatewayConditions, SchemeChoice, SignalChoice};
pub use handoff::{HandoffChoice, HandoffConditions};
pub use hop::HopConditions;
pub(crate) use hop::{TRACE_BYTES_MAX, TRACES_VARIABLE};
pub use host::HostConditions;
pub(crate) use host::PRESET_DEFAULT;
pub use lc_cwe::{LcCweConditions, OnHandoffChoice, OnNeitherChoice, TimeoutRttChoice};
pub use mobile::{MobileConditions, MobileSchemeChoice, MobileSignalChoice};
pub use sweep::{Parameters, word};
pub use transfer::TransferConditions;

use crate::library;
use holdfast_files::document::{self, DocumentError};

/// The longest scenario file, in bytes.
pub(crate) const SCENARIO_BYTES_MAX: u64 = 1 << 20;
/// The largest number of runs of one scenario.
const RUNS_MAX: usize = 1_000_000;

/// A scenario that is refused: one line with the file, the key, the value and the values that the
/// key takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(String);

impl ScenarioError {
    /// An error of one line.
    pub(crate) fn new(line: String) -> Self {
        Self(line)
    }
}

impl std::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

/// A scenario's document.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The names of its folder and of its file.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// A description for people.
    pub description: String,
    document: Table,
    /// The sweeps' combinations; empty until they are first needed.
    combinations: OnceLock<Vec<(sweep::Point, Conditions)>>,
}

/// One run: everything that its result depends on, except the substrate.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scenario's name.
    pub scenario: String,
    /// `name=value` of each sweep: it identifies the run in the scenario.
    pub variant: String,
    /// The sweeps' parameters with their values.
    pub parameters: Parameters,
    /// The seed of all random choices.
    pub seed: u64,
    /// The run's file and number.
    pub origin: Origin,
    /// The keys that the scenario sets, swept or not, with their tables: `wireless.delay_ms`. The
    /// other keys have their defaults; the run's line has them too.
    pub given: Arc<Parameters>,
    /// All other conditions.
    pub conditions: Conditions,
}

/// What is needed to make the same run again: it is the one at `index` of the scenario's runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The scenario's file.
    pub file: PathBuf,
    /// The seed that replaced the scenario's own.
    pub seed: Option<u64>,
    /// From 0.
    pub index: usize,
    /// The number of the scenario's runs.
    pub count: usize,
}

/// One of `count` parts of a list of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// The number of the part, from 1.
    pub number: usize,
    /// The number of parts.
    pub count: usize,
}

impl Shard {
    /// All runs.
    pub const WHOLE: Self = Self {
        number: 1,
        count: 1,
    };

    /// Whether the run at `index` belongs to this part. Each run belongs to exactly one part.
    pub const fn has(self, index: usize) -> bool {
        index % self.count == self.number - 1
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        match parsed {
            Some((number, count)) if (1..=count).contains(&number) => Ok(Self { number, count }),
            _ => Err(format!(
                "got `{text}`, takes I/N with I from 1 to N, as in 2/4"
            )),
        }
    }
}

impl Scenario {
    /// Reads a scenario and checks all of its combinations.
    ///
    /// # Errors
    /// One line with the file, the key, what it got and what it takes.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = library::read(path, SCENARIO_BYTES_MAX).with_context(|| {
            let shown = path.display();
            format!("{shown}: cannot be read; name a file, or a scenario of `holdfast lab list`")
        })?;
        let mut scenario = Self::parse(path, &text)?;
        // The name does not depend on the path from the current folder.
        scenario.name = name_of(&in_full(path));
        scenario.combinations()?;
        Ok(scenario)
    }

    /// Reads a scenario from `text`, which came from `path`.
    ///
    /// # Errors
    /// It is no TOML.
    pub fn parse(path: &Path, text: &str) -> anyhow::Result<Self> {
        let document = document::parse(text)
            .map_err(|error| ScenarioError(format!("{}: {error}", path.display())))?;
        let description = document.get("description").and_then(toml::Value::as_str);
        Ok(Self {
            name: name_of(path),
            path: path.to_owned(),
            description: description.unwrap_or_default().to_owned(),
            document,
            combinations: OnceLock::new(),
        })
    }

    /// All runs in order: repetitions are the outermost loop, then the document's sweeps in order,
    /// the last one innermost. `first_seed` replaces the document's seed.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn runs(&self, first_seed: Option<u64>) -> anyhow::Result<Vec<Run>> {
        let combinations = self.combinations()?;
        let repetitions = combinations.iter().map(|(_, c)| c.repetitions).max();
        let given = combinations.iter();
        let given = given.map(|(point, _)| Arc::new(sweep::given(&point.document)));
        let given: Vec<Arc<Parameters>> = given.collect();
        let mut runs = Vec::new();
        for repetition in 0..repetitions.unwrap_or(0) {
            for ((point, conditions), given) in combinations.iter().zip(&given) {
                if repetition >= conditions.repetitions {
                    continue;
                }
                let first = first_seed.unwrap_or(conditions.seed);
                runs.push(Run {
                    scenario: self.name.clone(),
                    variant: point.variant.clone(),
                    parameters: point.parameters.clone(),
                    seed: first.wrapping_add(repetition),
                    origin: Origin {
                        file: self.path.clone(),
                        seed: first_seed,
                        index: runs.len(),
                        count: 0,
                    },
                    given: Arc::clone(given),
                    conditions: conditions.clone(),
                });
                if runs.len() > RUNS_MAX {
                    bail!(
                        "{}: more than {RUNS_MAX} runs; sweep less",
                        self.path.display()
                    );
                }
            }
        }
        let count = runs.len();
        for run in &mut runs {
            run.origin.count = count;
        }
        Ok(runs)
    }

    /// The names of its sweeps, in order: they are the names of its runs' parameters.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn sweeps(&self) -> anyhow::Result<Vec<String>> {
        let combinations = self.combinations()?;
        let first = combinations.first().map(|(point, _)| &point.parameters);
        Ok(first
            .into_iter()
            .flat_map(|parameters| parameters.keys().cloned())
            .collect())
    }

    /// The sweeps' combinations, checked. Their outages are not drawn.
    fn combinations(&self) -> Result<&[(sweep::Point, Conditions)], ScenarioError> {
        if let Some(known) = self.combinations.get() {
            return Ok(known);
        }
        let points =
            sweep::points(&self.document).map_err(|error| self.explain(&error, &self.document))?;
        let checked = points.into_iter().map(|point| {
            let conditions = conditions::read(&point.document)
                .and_then(|conditions| {
                    conditions.check_links(self.path.parent())?;
                    Ok(conditions)
                })
                .map_err(|error| self.explain(&error, &point.document))?;
            Ok((point, conditions))
        });
        let checked = checked.collect::<Result<Vec<_>, ScenarioError>>()?;
        if let Some((document, error)) = unread::first(&checked) {
            return Err(self.explain(&error, document));
        }
        Ok(self.combinations.get_or_init(|| checked))
    }

    fn explain(&self, error: &DocumentError, document: &Table) -> ScenarioError {
        ScenarioError(error.explain(&self.path.display().to_string(), document, hop::OWN_KEYS))
    }
}

impl Run {
    /// The run with the outages of its seed: what a substrate executes.
    ///
    /// # Errors
    /// There are too many outages, or a trace can no longer be read: one line with the
    /// file and the key.
    pub fn drawn(&self) -> Result<Self, ScenarioError> {
        let file = &self.origin.file;
        let conditions = self
            .conditions
            .drawn(self.seed, file.parent())
            .map_err(|error| {
                let file = file.display().to_string();
                ScenarioError(error.explain(&file, &Table::new(), hop::OWN_KEYS))
            })?;
        Ok(Self {
            conditions,
            ..self.clone()
        })
    }
}

/// The path below its folder's canonical path; unchanged if the folder cannot be found.
pub(crate) fn in_full(path: &Path) -> PathBuf {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match (
        std::fs::canonicalize(folder.unwrap_or(Path::new("."))),
        path.file_name(),
    ) {
        (Ok(folder), Some(name)) => folder.join(name),
        // `.` and `..` have no file name: they are folders themselves.
        _ => std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
    }
}

/// `papers/mtcp-plus-2007/undisturbed.toml` is `mtcp-plus-2007/undisturbed`.
fn name_of(path: &Path) -> String {
    let own = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().and_then(Path::file_name);
    folder.map_or(own.to_string(), |folder| {
        format!("{}/{own}", folder.to_string_lossy())
    })
}

/// The scenarios in `path`: the file itself, or all scenarios of a folder and below it, sorted by
/// name. Other files (`claims.toml`) are left out. A path that does not exist on disk may be in the
/// [`library`].
pub fn find(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.exists()
        && let Some(found) = library::find(path)
    {
        if library::text(&found).is_some() {
            return Ok(vec![found]);
        }
        let files = library::files_in(&found);
        return Ok(files.filter(|file| is_scenario(file)).collect());
    }
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = || format!("{}: cannot be read", path.display());
    let mut entries: Vec<PathBuf> = std::fs::read_dir(path)
        .with_context(unreadable)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()
        .with_context(unreadable)?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        if entry.is_dir() {
            found.extend(find(&entry)?);
        } else if is_scenario(&entry) {
            found.push(entry);
        }
    }
    Ok(found)
}

fn is_scenario(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "toml")
        && file.file_name().is_some_and(|name| name != "claims.toml")
}

#[cfg(test)]
mod tests;
