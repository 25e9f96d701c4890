// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab exec`: one program in a virtual kernel.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use holdfast_lab::demo;
use holdfast_lab::virtual_kernel::{Job, VirtualKernel};
use holdfast_testbed::stop::StopFlag;

/// A shell adds this to the number of a signal that has ended a program.
const EXIT_SIGNAL: i32 = 128;

/// Run a program in a virtual kernel, in virtual time
///
/// Needs `holdfast lab setup`. The program is root on a machine of its own, which has this machine's
/// files read-only, a /tmp and a /run of its own, and no network but what the program makes. Its time
/// is virtual: a sleep costs nothing, and the load of this machine changes nothing. The same seed
/// gives the same course. The program's output comes when it has ended; its exit status is that of
/// this command.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab exec -- uname -r
  holdfast lab exec --seed 7 --env TRIES=3 -- ./my-test.sh fast")]
pub(super) struct ExecArgs {
    /// Seed of all randomness of the kernel
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A variable of the program's environment; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Its current folder, the only one of this machine that it can write to; else a temporary one
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The longest that it may take of real time, in seconds
    #[arg(long, value_name = "S", default_value_t = 600)]
    limit_s: u64,
    /// The program, by name or by its path from here, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("got `{text}`, takes NAME=VALUE")),
    }
}

/// Runs the program, and passes on its output and its exit status.
pub(super) fn run(args: &ExecArgs) -> anyhow::Result<ExitCode> {
    let stop = StopFlag::on_signals().context("cannot take over signals")?;
    let kernel = VirtualKernel::require()?;
    let temporary = tempfile::Builder::new()
        .prefix("holdfast-virtual-")
        .tempdir()
        .context("no folder for the virtual kernel's files")?;
    let (program, arguments) = args.command.split_first().context("no program")?;
    let job = Job {
        arguments: arguments.to_vec(),
        environment: args.env.clone(),
        seed: args.seed,
        limit: Duration::from_secs(args.limit_s),
        current_folder: args.folder.clone(),
        ..Job::new(&demo::own_binary()?, program, temporary.path())
    };
    let outcome = kernel.run(&job, &stop)?;
    copy(&outcome.stdout, &mut io::stdout())?;
    copy(&outcome.stderr, &mut io::stderr())?;
    eprintln!(
        "virtual kernel: {:.1} s, in {:.1} s of real time",
        outcome.virtual_s, outcome.wall_s
    );
    let status = outcome
        .exit_code
        .or_else(|| outcome.signal.map(|signal| EXIT_SIGNAL + signal));
    Ok(ExitCode::from(
        u8::try_from(status.unwrap_or(1)).unwrap_or(1),
    ))
}

fn copy(path: &Path, to: &mut impl io::Write) -> anyhow::Result<()> {
    let mut from = File::open(path).with_context(|| format!("{}: no output", path.display()))?;
    io::copy(&mut from, to).context("cannot write the program's output")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_a_name_and_may_have_an_empty_value() {
        assert_eq!(variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(variable("A="), Ok(("A".into(), String::new())));
        for text in ["A", "=b"] {
            assert!(variable(text).unwrap_err().starts_with("got `"), "{text}");
        }
    }
}
