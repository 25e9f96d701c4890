// SPDX-License-Identifier: Apache-2.0
//! Compares the packets of every run that the model can carry out with a committed file.
//!
//! ```text
//! make same                                      compare everything; status 1 if a run differs
//! make same ARGS='papers/snoop-1995'             only the runs of these files and folders
//! make same ARGS='--write'                       write the file anew
//! ```
//!
//! A change of behaviour is a commit of its own, which writes the file and gives the reason.
//!
//! The file holds a section for each scenario: its path, then one digest for each run, in the
//! order of the runs. A digest is a hash over every packet of a run with its time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use holdfast_lab::campaign;
use holdfast_lab::scenario::{self, Run, Scenario};
use holdfast_lab::substrate::{ExecutionSettings, Substrate, SubstrateKind};
use holdfast_testbed::stop::StopFlag;

/// The committed digests.
const DIGESTS: &str = "crates/lab/examples/same.digests";
/// Where scenarios are.
const SCENARIOS: [&str; 2] = ["papers", "docs/scenarios"];
const DIGESTS_A_LINE: usize = 7;
/// Runs that differ and are named; the others are only counted.
const NAMED_MAX: usize = 20;

/// Digests of each scenario's runs, by the scenario's path.
type Digests = BTreeMap<String, Vec<String>>;

fn main() -> anyhow::Result<ExitCode> {
    let mut write = false;
    let mut paths = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--write" => write = true,
            option if option.starts_with('-') => bail!("{option}: takes --write and paths"),
            path => paths.push(PathBuf::from(path)),
        }
    }
    ensure!(
        !write || paths.is_empty(),
        "--write: writes all scenarios; leave the paths out"
    );
    let is_whole = paths.is_empty();
    if is_whole {
        paths.extend(SCENARIOS.map(PathBuf::from));
    }
    let runs = runs_of_model(&paths)?;
    let digests = digests_of(&runs)?;
    if write {
        fs::write(DIGESTS, formatted(&digests)).context(DIGESTS)?;
        println!("{DIGESTS}: {} runs", runs.len());
        return Ok(ExitCode::SUCCESS);
    }
    let text = fs::read_to_string(DIGESTS).context(DIGESTS)?;
    let committed = parsed(&text);
    let mut differing = differences(&committed, &digests, &runs);
    if is_whole {
        let gone = committed.keys().filter(|file| !digests.contains_key(*file));
        differing.extend(gone.map(|file| format!("{file}: all of its runs are gone")));
    }
    for line in differing.iter().take(NAMED_MAX) {
        println!("{line}");
    }
    println!("{} runs, {} differ", runs.len(), differing.len());
    Ok(ExitCode::from(u8::from(!differing.is_empty())))
}

/// The runs that the model can carry out, in the order of paths and runs.
fn runs_of_model(paths: &[PathBuf]) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for path in paths {
        let files = scenario::find(path).with_context(|| path.display().to_string())?;
        for file in files {
            let of_scenario = Scenario::load(&file)?.runs(None)?;
            if SubstrateKind::Model.takes(&of_scenario) > 0 {
                runs.extend(
                    of_scenario
                        .into_iter()
                        .filter(|run| SubstrateKind::Model.refusal(run).is_none()),
                );
            }
        }
    }
    ensure!(!runs.is_empty(), "the model can carry out none of the runs");
    Ok(runs)
}

fn digests_of(runs: &[Run]) -> anyhow::Result<Digests> {
    let stop = StopFlag::on_signals().context("cannot take over signals")?;
    let settings = ExecutionSettings {
        holdfast: PathBuf::new(),
        label: None,
        pcap: None,
    };
    let substrate = Substrate::new(SubstrateKind::Model, settings)?;
    let jobs = SubstrateKind::Model.jobs_default();
    let references: Vec<&Run> = runs.iter().collect();
    let mut of_runs = references.iter();
    let mut digests = Digests::new();
    campaign::run(&references, &substrate, jobs, &stop, |line| {
        let run = of_runs.next().context("more results than runs")?;
        let digest = line.digest.context("a run of the model has no digest")?;
        digests
            .entry(name(&run.origin.file))
            .or_default()
            .push(digest);
        Ok(())
    })?;
    Ok(digests)
}

fn name(file: &Path) -> String {
    file.display().to_string()
}

fn formatted(digests: &Digests) -> String {
    let mut text = String::from("# Written by `make same ARGS=--write`. One digest a run.\n");
    for (file, digests) in digests {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{file}");
        for line in digests.chunks(DIGESTS_A_LINE) {
            let _ = writeln!(text, "{}", line.join(" "));
        }
    }
    text
}

fn parsed(text: &str) -> Digests {
    let mut digests = Digests::new();
    let mut file = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.contains('/') {
            file = line;
        } else if !line.is_empty() {
            let of_file = digests.entry(file.to_owned()).or_default();
            of_file.extend(line.split(' ').map(str::to_owned));
        }
    }
    digests
}

/// A line for each run whose digest is another one, is missing, or has no run any more.
fn differences(committed: &Digests, made: &Digests, runs: &[Run]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut index_in_file: BTreeMap<String, usize> = BTreeMap::new();
    for run in runs {
        let file = name(&run.origin.file);
        let index = index_in_file.entry(file.clone()).or_default();
        let was = committed.get(&file).and_then(|all| all.get(*index));
        let is = made.get(&file).and_then(|all| all.get(*index));
        *index += 1;
        if was != is {
            let was = was.map_or("no digest", String::as_str);
            let is = is.map_or("no digest", String::as_str);
            let (variant, seed) = (&run.variant, run.seed);
            lines.push(format!(
                "{file}: {variant}, seed {seed}: {is}, committed {was}"
            ));
        }
    }
    for (file, count) in index_in_file {
        let committed = committed.get(&file).map_or(0, Vec::len);
        lines.extend(
            (count..committed).map(|index| format!("{file}: run {index} no longer exists")),
        );
    }
    lines
}
