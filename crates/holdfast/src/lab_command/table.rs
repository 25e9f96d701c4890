// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab table`: results side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use holdfast_lab::results::comparison::comparison;

use super::output::print;
use super::result_lines::read_all;

/// Lay a scenario's results side by side
///
/// A row for each combination of what was swept, a column for each value of one parameter; what
/// the cells show stands below.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab run docs/scenarios/wake.toml --substrate linux --out wake.jsonl
  holdfast lab table wake.jsonl")]
pub(super) struct TableArgs {
    /// What `holdfast lab run --out` wrote; of a run that is in several files, the first counts
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The parameter with a column for each value; without: the last sweep's
    #[arg(long, value_name = "PARAMETER")]
    across: Option<String>,
    /// Take runs that differ in it for repetitions; may be given several times
    #[arg(long, value_name = "PARAMETER")]
    pool: Vec<String>,
}

pub(super) fn run(args: &TableArgs) -> anyhow::Result<ExitCode> {
    let lines = read_all("FILE", &args.files)?;
    let (table, foot) = comparison(&lines, args.across.as_deref(), &args.pool)?;
    print(table)?;
    print(format!("\n{foot}"))?;
    Ok(ExitCode::SUCCESS)
}
