// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab list`: the scenarios and how many runs they are.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::load;

/// List scenarios
#[derive(Args, Clone, Debug)]
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
    variants: Vec<String>,
    description: String,
}

pub(super) fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let mut entries = Vec::new();
    for scenario in load(&args.scenarios)? {
        let runs = scenario.runs(None)?;
        let mut variants: Vec<String> = runs.iter().map(|run| run.variant.clone()).collect();
        let count = variants.len();
        variants.dedup();
        entries.push(Entry {
            name: scenario.name,
            file: scenario.path,
            runs: count,
            variants,
            description: scenario.description,
        });
    }
    if args.json {
        println!("{}", serde_json::to_string(&entries)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["scenario", "runs", "what it is about"]);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for entry in &entries {
        table.add_row([&entry.name, &entry.runs.to_string(), &entry.description]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}
