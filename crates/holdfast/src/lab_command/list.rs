// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab list`: the scenarios and how many runs they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use holdfast_lab::scenario::Run;
use holdfast_lab::substrate::SubstrateKind;
use serde::Serialize;

use super::load;
use super::output::print;

/// List scenarios
///
/// Those below papers and docs/scenarios are in the program: what is not a folder here is looked up
/// there. `holdfast lab show`, `copy` and `run` take the names, too.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab list
  holdfast lab list docs/scenarios
  holdfast lab list my-scenarios --json")]
pub(super) struct ListArgs {
    /// Scenarios, or folders of them; `papers` if none are named
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// One scenario.
#[derive(Serialize)]
struct Entry {
    name: String,
    file: PathBuf,
    runs: usize,
    /// How many of the runs each substrate carries out.
    runs_on: BTreeMap<&'static str, usize>,
    variants: Vec<String>,
    description: String,
}

impl Entry {
    /// `model, linux (24), live (24)`: with the number of runs if the substrate does not take all.
    fn substrates(&self) -> String {
        let all = SubstrateKind::ALL.map(SubstrateKind::name);
        let some = all.into_iter().filter_map(|name| {
            let runs = self.runs_on.get(name).copied().unwrap_or_default();
            match runs {
                0 => None,
                runs if runs == self.runs => Some(name.to_owned()),
                runs => Some(format!("{name} ({runs})")),
            }
        });
        some.collect::<Vec<_>>().join(", ")
    }
}

/// The variants in the order of their first runs.
fn variants(runs: &[Run]) -> Vec<String> {
    let mut known = BTreeSet::new();
    let variants = runs.iter().map(|run| &run.variant);
    let variants = variants.filter(|variant| known.insert(*variant));
    variants.cloned().collect()
}

pub(super) fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let mut entries = Vec::new();
    for scenario in load(&args.scenarios)? {
        let runs = scenario.runs(None)?;
        let runs_on = SubstrateKind::ALL.map(|kind| (kind.name(), kind.takes(&runs)));
        entries.push(Entry {
            name: scenario.name,
            file: scenario.path,
            runs: runs.len(),
            runs_on: runs_on.into(),
            variants: variants(&runs),
            description: scenario.description,
        });
    }
    if args.json {
        print(serde_json::to_string(&entries)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["scenario", "runs", "runs on", "what it is about"]);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for entry in &entries {
        table.add_row([
            &entry.name,
            &entry.runs.to_string(),
            &entry.substrates(),
            &entry.description,
        ]);
    }
    print(table)?;
    Ok(ExitCode::SUCCESS)
}
