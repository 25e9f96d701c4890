// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab report`: a paper and the results, as one HTML page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args;
use holdfast_lab::claims::Paper;
use holdfast_lab::demo::own_binary;
use holdfast_lab::report;
use holdfast_lab::results::{self, ResultLine};
use holdfast_lab::scenario::Run;
use holdfast_lab::substrate::{ExecutionSettings, Substrate, SubstrateKind};
use holdfast_testbed::stop::StopFlag;

use super::claims::papers;
use super::output::print;
use super::result_lines;

/// Write a page a paper: its tables beside ours, its figures redrawn
///
/// Runs what the page needs on the model, unless --results has it, and writes
/// DIR/PAPER.html, one file that needs no network, and DIR/PAPER.jsonl, the results that
/// it was made from. Today's senders need results of real Linux TCP.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab report
  holdfast lab report --paper mtcp-plus-2007 --out pages
  holdfast lab run papers/mtcp-plus-2007/today.toml --substrate linux --out today.jsonl
  holdfast lab report --results today.jsonl")]
pub(super) struct ReportArgs {
    /// Only this paper: a folder, or its name in `papers`
    #[arg(long, value_name = "PAPER")]
    paper: Option<PathBuf>,
    /// Write the pages to DIR
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Results of `holdfast lab run --out`; may be given again
    #[arg(long, value_name = "FILE", num_args = 1..)]
    results: Vec<PathBuf>,
    /// Runs at a time; as many as there are processors unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

/// Makes the missing runs, and writes. A claim that differs is a result, not a failure.
pub(super) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let stop = StopFlag::on_signals().context("cannot take over signals")?;
    let papers = papers(args.paper.as_deref())?;
    let mut given: Vec<ResultLine> = Vec::new();
    for path in &args.results {
        let lines = result_lines::read("--results", path)?;
        let is_used = |line| papers.iter().any(|paper| report::is_about(paper, line));
        ensure!(
            lines.iter().any(is_used),
            "--results: {} has no result that is about {}; takes those of their scenarios",
            path.display(),
            papers
                .iter()
                .map(|paper| paper.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        );
        result_lines::add(&mut given, lines);
    }
    let of_others = given.iter().filter(|line| {
        line.substrate == SubstrateKind::Model.name() && line.commit != results::COMMIT
    });
    let of_others = of_others.count();
    if of_others > 0 {
        eprintln!(
            "--results: {of_others} results of the model are of another commit than {}: their \
             runs are carried out again",
            results::COMMIT
        );
    }
    fs::create_dir_all(&args.out)
        .with_context(|| format!("--out: {} cannot be made", args.out.display()))?;
    for paper in &papers {
        let mut lines = measured(paper, &given, args.jobs, &stop)?;
        let others = given.iter().filter(|line| report::is_about(paper, line));
        lines.extend(
            others
                .filter(|line| line.substrate != SubstrateKind::Model.name())
                .cloned(),
        );
        let page = report::page(paper, &lines, &made_by(args))?;
        let mut text = String::new();
        for line in &lines {
            text.push_str(&serde_json::to_string(line)?);
            text.push('\n');
        }
        write(&args.out.join(format!("{}.jsonl", paper.name)), &text)?;
        let path = args.out.join(format!("{}.html", paper.name));
        write(&path, &page)?;
        print(path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of the model, in the order of their runs. A run without a given line is carried
/// out now.
fn measured(
    paper: &Paper,
    given: &[ResultLine],
    jobs: Option<u16>,
    stop: &StopFlag,
) -> anyhow::Result<Vec<ResultLine>> {
    let runs = report::runs(paper)?;
    let mut lines: Vec<Option<ResultLine>> = runs
        .iter()
        .map(|run| given.iter().find(|line| report::is_of(line, run)).cloned())
        .collect();
    let missing: Vec<&Run> = runs
        .iter()
        .zip(&lines)
        .filter(|(_, line)| line.is_none())
        .map(|(run, _)| run)
        .collect();
    let kind = SubstrateKind::Model;
    let settings = ExecutionSettings {
        holdfast: own_binary()?,
        label: None,
        pcap: None,
    };
    let substrate = Substrate::new(kind, settings)?;
    let jobs = jobs.map_or_else(|| kind.jobs_default(), usize::from);
    let carried_out = paper.carry_out(&missing, &substrate, jobs, stop)?;
    let mut carried_out = carried_out.into_iter();
    for line in &mut lines {
        if line.is_none() {
            *line = carried_out.next();
        }
    }
    Ok(lines.into_iter().flatten().collect())
}

/// The command that makes the page again.
fn made_by(args: &ReportArgs) -> String {
    let mut parts = vec!["holdfast lab report".to_owned()];
    let mut add = |option: &str, value: &Path| {
        parts.push(format!(
            "{option} {}",
            report::quoted(&value.display().to_string())
        ));
    };
    if let Some(paper) = &args.paper {
        add("--paper", paper);
    }
    for path in &args.results {
        add("--results", path);
    }
    parts.join(" ")
}

/// Writes a file whole, or not at all.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, path))
        .map_err(|error| {
            let _ = fs::remove_file(&part);
            anyhow::Error::new(error)
                .context(format!("--out: {} cannot be written", path.display()))
        })
}
