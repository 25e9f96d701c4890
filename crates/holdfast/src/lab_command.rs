// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab`: experiments from scenarios.

mod claims;
mod copy;
mod endpoint;
mod exec;
mod export;
mod inside;
mod line_file;
mod list;
mod new;
mod output;
mod plot;
mod report;
mod result_lines;
mod run;
mod run_index;
mod setup;
mod show;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use holdfast_lab::scenario::ScenarioError;
use holdfast_lab::scenario::{self, Scenario};
use holdfast_testbed::stop::Interrupted;
use output::OutputClosed;

/// The folder of the scenarios if none are named.
const SCENARIOS_DEFAULT: &str = "papers";
/// The exit status that a shell gives a program that SIGINT has ended: 128 and the signal's number.
const EXIT_INTERRUPTED: u8 = 130;

/// The same for a program that SIGPIPE has ended.
const EXIT_OUTPUT_CLOSED: u8 = 141;

/// Run experiments from scenarios
#[derive(Args, Clone, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
enum LabCommand {
    Exec(exec::ExecArgs),
    New(new::NewArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Copy(copy::CopyArgs),
    Claims(claims::ClaimsArgs),
    Report(report::ReportArgs),
    Run(run::RunArgs),
    Setup(setup::SetupArgs),
    Table(table::TableArgs),
    Plot(plot::PlotArgs),
    Export(export::ExportArgs),
    /// Be the first program of a virtual kernel
    #[command(hide = true)]
    Inside,
    /// Be one end of a transfer
    #[command(hide = true)]
    Endpoint,
}

/// Runs the subcommand.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<ExitCode> {
    let result = match &args.command {
        LabCommand::Claims(args) => claims::run(args),
        LabCommand::Copy(args) => copy::run(args),
        LabCommand::Exec(args) => exec::run(args),
        LabCommand::Export(args) => export::run(args),
        LabCommand::List(args) => list::run(args),
        LabCommand::New(args) => new::run(args),
        LabCommand::Plot(args) => plot::run(args),
        LabCommand::Report(args) => report::run(args),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Setup(args) => setup::run(args),
        LabCommand::Show(args) => show::run(args),
        LabCommand::Table(args) => table::run(args),
        LabCommand::Inside => inside::run(),
        LabCommand::Endpoint => endpoint::run(),
    };
    match result {
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("interrupted; no process and no network namespace is left behind");
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
        Err(error) if error.is::<OutputClosed>() => Ok(ExitCode::from(EXIT_OUTPUT_CLOSED)),
        result => result,
    }
}

/// Whether the error is about a wrong scenario.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<ScenarioError>()
}

/// The scenarios in files and folders; in `papers` if none are named. The program also contains the
/// scenarios of the repository.
fn load(paths: &[PathBuf]) -> anyhow::Result<Vec<Scenario>> {
    let default = [PathBuf::from(SCENARIOS_DEFAULT)];
    let paths = if paths.is_empty() { &default } else { paths };
    let mut scenarios = Vec::new();
    for path in paths {
        let remedy = "name a scenario's file, or a folder of them";
        let found =
            scenario::find(path).with_context(|| format!("{}: {remedy}", path.display()))?;
        ensure!(
            !found.is_empty(),
            "{}: has no scenario; {remedy}",
            path.display()
        );
        for file in found {
            scenarios.push(Scenario::load(&file)?);
        }
    }
    Ok(scenarios)
}
