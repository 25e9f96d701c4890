// SPDX-License-Identifier: Apache-2.0
//! `holdfast generate`: files made from the program itself, for packagers.

use std::path::Path;

use anyhow::{Context as _, bail};
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::{Cli, Generated};
use crate::runtime::SETTINGS_DIRECTORY;
use crate::settings::{MANUAL_FILE, example_files, settings_manual, settings_page};

/// Makes `what` in `directory`.
pub(crate) fn run(what: Generated, directory: &Path) -> anyhow::Result<()> {
    let remedy = "name a folder that is there and that this user can write to";
    let failed = || format!("{}: cannot write there; {remedy}", directory.display());
    match what {
        Generated::Man => {
            clap_mangen::generate_to(Cli::command(), directory).with_context(failed)?;
            std::fs::write(directory.join(MANUAL_FILE), settings_manual()).with_context(failed)?;
        }
        Generated::Completions => {
            for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
                clap_complete::generate_to(shell, &mut Cli::command(), "holdfast", directory)
                    .with_context(failed)?;
            }
        }
        Generated::Settings => {
            std::fs::write(directory.join("settings.md"), settings_page()).with_context(failed)?;
        }
        Generated::Examples => {
            if directory == Path::new(SETTINGS_DIRECTORY) {
                bail!(
                    "{SETTINGS_DIRECTORY}: has the settings that are in use; name another directory, or \
                     see: holdfast setup --help"
                );
            }
            for (name, text) in example_files() {
                std::fs::write(directory.join(name), text).with_context(failed)?;
            }
        }
    }
    Ok(())
}
