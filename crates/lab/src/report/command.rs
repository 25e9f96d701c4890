// SPDX-License-Identifier: Apache-2.0
//! The commands that make what is on the page.

use std::path::Path;

use maud::{Markup, html};

use crate::claims::{Paper, SUBSTRATES};
use crate::results::ResultLine;
use crate::scenario::Scenario;

/// The command that makes such lines again, from the scenario in `file`. It has the first seed if
/// that is not the scenario's own, and a results file of its own.
fn run(file: &Path, substrate: &str, lines: &[&ResultLine]) -> String {
    let mut command = format!("holdfast lab run {}", quoted(&file.display().to_string()));
    if substrate != "model" {
        command.push_str(&format!(" --substrate {substrate}"));
    }
    if let Some(seed) = own_seed(file, lines) {
        command.push_str(&format!(" --seed {seed}"));
    }
    let own = file.file_stem().unwrap_or_default().to_string_lossy();
    let out = quoted(&format!("{own}-{substrate}.jsonl"));
    command.push_str(&format!(" --out {out}"));
    command
}

/// The commands that make these lines, one for each substrate.
pub(super) fn commands(file: &Path, lines: &[&ResultLine]) -> Markup {
    let get = |substrate: &str| -> Vec<&ResultLine> {
        lines
            .iter()
            .copied()
            .filter(|line| line.substrate == substrate)
            .collect()
    };
    html! {
        @for substrate in SUBSTRATES {
            @let lines = get(substrate);
            @if !lines.is_empty() { pre.command { (run(file, substrate, &lines)) } }
        }
    }
}

/// The lines' first seed, if it is not the scenario's seed.
fn own_seed(file: &Path, lines: &[&ResultLine]) -> Option<u64> {
    let first = lines.iter().map(|line| line.seed).min()?;
    let runs = Scenario::load(file).ok()?.runs(None).ok()?;
    let own = runs.iter().map(|run| run.seed).min()?;
    (own != first).then_some(first)
}

/// The command that judges the paper's claims.
pub(super) fn claims(paper: &Paper) -> String {
    format!("holdfast lab claims --paper {}", quoted(&paper.name))
}

/// An argument as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_only_where_a_shell_would_split_them() {
        assert_eq!(quoted("papers/a-b/c_1.toml"), "papers/a-b/c_1.toml");
        assert_eq!(quoted("my papers"), "'my papers'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("$(x)"), "'$(x)'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_command_without_a_scenario_names_no_seed() {
        let file = Path::new("/nowhere/s.toml");
        assert_eq!(
            run(file, "model", &[]),
            "holdfast lab run /nowhere/s.toml --out s-model.jsonl"
        );
        assert_eq!(
            run(file, "linux", &[]),
            "holdfast lab run /nowhere/s.toml --substrate linux --out s-linux.jsonl"
        );
    }
}
