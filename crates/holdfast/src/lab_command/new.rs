// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab new`: a scenario to begin with.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use holdfast_lab::new_scenario::{PLAIN, Recording};

use super::output::print;

/// Write a scenario to begin with
///
/// The scenario has comments, and runs as it is. With --trace its link is a recording, in
/// Mahimahi's format (a whole number of milliseconds a line, each for 1500 bytes) or in steps
/// (`t_end_s mbit_per_s` a line); outages are its gaps. A file that is there is never overwritten.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab new
  holdfast lab run scenario.toml --out results.jsonl
  holdfast lab new --trace train.down
  holdfast lab new --trace recordings/ferry.txt --out ferry.toml")]
pub(super) struct NewArgs {
    /// A recording of a link's rate
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The scenario's file; without: the recording's name with .toml, or scenario.toml, here
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &NewArgs) -> anyhow::Result<ExitCode> {
    let trace_name = args.trace.as_deref().and_then(Path::file_name);
    let name = Path::new(trace_name.unwrap_or(OsStr::new("scenario"))).with_extension("toml");
    let path = args.out.clone().unwrap_or(name);
    let text = match &args.trace {
        Some(trace) => Recording::read(trace)?.scenario(&path)?,
        None => PLAIN.to_owned(),
    };
    let shown = path.display();
    let mut file = match File::create_new(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("--out: {shown} is there and is not overwritten; name another file")
        }
        file => file.with_context(|| format!("--out: {shown} cannot be written"))?,
    };
    file.write_all(text.as_bytes())
        .with_context(|| format!("--out: {shown} cannot be written"))?;
    print(&shown)?;
    Ok(ExitCode::SUCCESS)
}
