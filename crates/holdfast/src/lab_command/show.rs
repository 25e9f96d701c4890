// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab show`: a scenario's or a claims file's text.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use holdfast_lab::library;

use super::output::print;

/// The longest file that is printed, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Print a scenario or the claims of a paper
///
/// A file that is not here may be in the program: those below papers and docs/scenarios are, by
/// their path or by their name in `holdfast lab list`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab show mtcp-plus-2007/undisturbed
  holdfast lab show papers/mtcp-plus-2007/claims.toml
  holdfast lab show scenarios/wake > my-wake.toml")]
pub(super) struct ShowArgs {
    /// A name, or a file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
}

pub(super) fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let found = library::find(&args.scenario).filter(|_| !args.scenario.exists());
    let file = found.as_ref().unwrap_or(&args.scenario);
    let text = library::read(file, BYTES_MAX).with_context(|| {
        format!(
            "{}: cannot be read; takes a name from `holdfast lab list`, or a file",
            file.display()
        )
    })?;
    print(text.trim_end_matches('\n'))?;
    Ok(ExitCode::SUCCESS)
}
