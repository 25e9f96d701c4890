// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab setup`: builds the virtual kernel, once.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use holdfast_lab::demo;
use holdfast_lab::virtual_kernel::{SetupOptions, VirtualKernel};
use holdfast_testbed::stop::{Interrupted, StopFlag};

use super::EXIT_INTERRUPTED;
use super::output::print;

/// Build the virtual kernel that `--substrate linux` runs on, once
///
/// A Linux that runs as an ordinary process, in virtual time. Takes some minutes of
/// both processors and, while it builds, 2 GB in the cache folder (XDG_CACHE_HOME,
/// else ~/.cache); it can be interrupted, and goes on from there. Needs no root if
/// gcc, binutils, make, flex, bison, bc, patch, tar and xz-utils are installed; as root
/// it installs what is missing.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab setup
  holdfast lab setup --source linux-6.18.tar.xz --jobs 4")]
pub(super) struct SetupArgs {
    /// The kernel's sources, 6.16 or newer; else Debian's, by apt
    #[arg(long, value_name = "TARBALL")]
    source: Option<PathBuf>,
    /// Compilers at the same time; else one for each processor
    #[arg(long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Build it even if it is there
    #[arg(long)]
    again: bool,
}

fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=1024).contains(&number) => Ok(number),
        _ => Err(format!("got `{text}`, takes a number from 1 to 1024")),
    }
}

/// Builds the kernel, or reports that it exists.
pub(super) fn run(args: &SetupArgs) -> anyhow::Result<ExitCode> {
    let stop = StopFlag::on_signals().context("cannot take over signals")?;
    let options = SetupOptions {
        source: args.source.clone(),
        jobs: args.jobs,
        again: args.again,
        holdfast: demo::own_binary()?,
    };
    let kernel = match VirtualKernel::setup(&options, &stop) {
        Err(error) if error.is::<Interrupted>() => {
            eprintln!(
                "interrupted; what was built so far is kept, and holdfast lab setup goes on there"
            );
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
        kernel => kernel?,
    };
    print(format_args!(
        "virtual kernel {}: {}",
        kernel.release(),
        kernel.program().display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_job_at_least() {
        assert_eq!(jobs("3"), Ok(3));
        for text in ["0", "-1", "many"] {
            assert!(jobs(text).unwrap_err().starts_with("got `"), "{text}");
        }
    }
}
