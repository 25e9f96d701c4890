// SPDX-License-Identifier: Apache-2.0
//! Results of other runs, read from files.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use holdfast_lab::results::ResultLine;

/// The lines of a file, in their order; `option` is the option that has named the file.
pub(super) fn read(option: &str, path: &Path) -> anyhow::Result<Vec<ResultLine>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("{option}: {shown} cannot be read"))?;
    let lines = BufReader::new(file).lines().enumerate();
    lines
        .map(|(number, line)| {
            let line = line.with_context(|| format!("{option}: {shown} cannot be read"))?;
            serde_json::from_str(&line).with_context(|| {
                format!(
                    "{option}: {shown}, line {}: no result of `holdfast lab run`",
                    number + 1
                )
            })
        })
        .collect()
}

/// Adds lines to `lines`. Of two results of one run the first counts. Returns how many
/// were left out.
pub(super) fn add(lines: &mut Vec<ResultLine>, more: Vec<ResultLine>) -> usize {
    let before = lines.len() + more.len();
    let mut known: HashSet<_> = lines.iter().map(run_of).collect();
    lines.extend(more.into_iter().filter(|line| known.insert(run_of(line))));
    before - lines.len()
}

/// The run of a line: in overlapping files it counts once.
fn run_of(line: &ResultLine) -> (u64, String, String, String) {
    let [substrate, scenario, variant] =
        [&line.substrate, &line.scenario, &line.variant].map(String::clone);
    (line.seed, substrate, scenario, variant)
}

/// All lines of the files that `option` names, each run once. Prints how many further results of the
/// same runs were left out.
pub(super) fn read_all(option: &str, paths: &[PathBuf]) -> anyhow::Result<Vec<ResultLine>> {
    let mut lines = Vec::new();
    for path in paths {
        let left_out = add(&mut lines, read(option, path)?);
        if left_out > 0 {
            eprintln!(
                "{option}: {}: {left_out} results are of runs that were there before: left out",
                path.display()
            );
        }
    }
    Ok(lines)
}
