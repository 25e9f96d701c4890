// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab copy`: scenarios and claims of the program as files.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args;
use holdfast_lab::library;

use super::output::print;

/// Copy scenarios and claims from the program to a folder, to change them
///
/// The files have the same paths in FOLDER as in the program. A file that is there is never
/// overwritten.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab copy papers/mtcp-plus-2007 mine
  holdfast lab copy scenarios/wake .")]
pub(super) struct CopyArgs {
    /// A name from `holdfast lab list`, or a file or folder below papers or docs/scenarios
    #[arg(value_name = "SCENARIO")]
    from: PathBuf,
    /// The folder
    #[arg(value_name = "FOLDER")]
    to: PathBuf,
}

pub(super) fn run(args: &CopyArgs) -> anyhow::Result<ExitCode> {
    let found = library::find(&args.from).with_context(|| {
        format!(
            "{}: is not in the program; takes a name from `holdfast lab list`, or papers or docs/scenarios",
            args.from.display()
        )
    })?;
    let mut files: Vec<PathBuf> = library::files_in(&found).collect();
    if files.is_empty() {
        files.push(found);
    }
    let targets: Vec<PathBuf> = files.iter().map(|file| args.to.join(file)).collect();
    // Copies all files or none.
    for target in &targets {
        ensure!(
            !target.exists(),
            "{}: is there and is not overwritten; name another folder",
            target.display()
        );
    }
    for (file, target) in files.iter().zip(&targets) {
        write(target, library::text(file).unwrap_or_default())
            .with_context(|| format!("{}: cannot be written", target.display()))?;
        print(target.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(target: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create_new(target)?.write_all(text.as_bytes())
}
