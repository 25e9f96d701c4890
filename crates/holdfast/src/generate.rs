// SPDX-License-Identifier: Apache-2.0
//! `holdfast generate`: files made from the program itself, for packagers.

use std::path::Path;

use anyhow::{Context as _, bail};
use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::{Cli, Generated};
use crate::counters::{self, CounterGroup};
use crate::runtime::SETTINGS_DIRECTORY;
use crate::settings::{MANUAL_FILE, example_files, settings_manual, settings_page};
use crate::{gateway, mobile};

/// Makes `what` in `directory`.
pub(crate) fn run(what: Generated, directory: &Path) -> anyhow::Result<()> {
    let remedy = "name a folder that is there and that this user can write to";
    let failed = || format!("{}: cannot write there; {remedy}", directory.display());
    match what {
        Generated::Man => {
            let mut program = Cli::command().disable_help_subcommand(true);
            program.build();
            write_manual(&program, directory).with_context(failed)?;
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
        Generated::Counters => {
            let page = counters::page(counter_groups());
            std::fs::write(directory.join("counters.md"), page).with_context(failed)?;
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

/// The counters of both daemons. A counter that both have is there twice.
fn counter_groups() -> impl Iterator<Item = CounterGroup> {
    gateway::counters::groups().chain(mobile::counters::groups())
}

/// Makes the pages of a command and of its subcommands: section 8 for the daemons, 1 for all others.
fn write_manual(command: &clap::Command, directory: &Path) -> std::io::Result<()> {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        write_manual(subcommand, directory)?;
    }
    let name = command.get_display_name().unwrap_or("holdfast");
    let daemon = ["holdfast-gateway", "holdfast-mobile"]
        .iter()
        .any(|daemon| name.starts_with(daemon));
    let page = Man::new(command.clone()).section(if daemon { "8" } else { "1" });
    let mut text = Vec::new();
    page.render(&mut text)?;
    // A page names its subcommands with its own section.
    let text = String::from_utf8_lossy(&text)
        .replace("gateway(1)", "gateway(8)")
        .replace("mobile(1)", "mobile(8)");
    std::fs::write(directory.join(page.get_filename()), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_one_description_which_is_a_sentence() {
        let described = counters::by_name(counter_groups());
        for (prefix, infos) in counter_groups() {
            for info in infos {
                let name = format!("{prefix}{}", info.name);
                assert_eq!(described[&name], info, "{name} has two descriptions");
                let text = info.description;
                assert!(text.ends_with('.') && text.len() > 15, "{name}: {text:?}");
            }
        }
    }

    #[test]
    fn the_page_of_counters_is_what_the_program_makes() {
        let page_file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
        let found = std::fs::read_to_string(page_file).unwrap_or_default();
        let page = counters::page(counter_groups());
        assert!(found == page, "run: holdfast generate counters docs");
    }
}
