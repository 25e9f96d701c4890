// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab claims`: the claims of papers, beside the results.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use comfy_table::ContentArrangement;
use holdfast_lab::claims::{self, Entry, Fit, Paper};
use holdfast_lab::demo::own_binary;
use holdfast_lab::library;
use holdfast_lab::substrate::{ExecutionSettings, Substrate, SubstrateKind};
use holdfast_testbed::stop::StopFlag;
use rustix::termios::tcgetwinsize;

use super::SCENARIOS_DEFAULT;
use super::output::print;
use super::result_lines;

/// Check what papers claim
///
/// Runs what the claims need on the model, and prints for each the paper's value, what
/// came out, and a verdict computed from both. Results of other substrates, from
/// `holdfast lab run --out`, can be laid beside them.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab claims
  holdfast lab claims --paper mtcp-plus-2007 --json
  holdfast lab claims --linux
  holdfast lab run papers/mtcp-plus-2007 --substrate live --out live.jsonl
  holdfast lab claims --with live.jsonl")]
pub(super) struct ClaimsArgs {
    /// Only this paper: a folder, or its name in `papers`
    #[arg(long, value_name = "PAPER")]
    paper: Option<PathBuf>,
    /// Carry the paper's own runs out on a real Linux too (after `holdfast lab setup`)
    #[arg(long)]
    linux: bool,
    /// Results of other runs, to be laid beside; may be given again
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
    /// Runs at a time; as many as there are processors unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write JSON: a list with an entry for each cell or statement
    #[arg(long)]
    json: bool,
}

/// Runs, judges, prints. A claim that differs is a result, not a failure.
pub(super) fn run(args: &ClaimsArgs) -> anyhow::Result<ExitCode> {
    let stop = StopFlag::on_signals().context("cannot take over signals")?;
    // A wrong file is reported before the papers are read, which takes seconds.
    let mut others = result_lines::read_all("--with", &args.with)?;
    let papers = papers(args.paper.as_deref())?;
    let mut kinds = vec![SubstrateKind::Model];
    if args.linux {
        kinds.push(SubstrateKind::Linux);
    }
    let given = others.len();
    others.retain(|line| !kinds.iter().any(|kind| kind.name() == line.substrate));
    if others.len() < given {
        let names = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>();
        eprintln!(
            "--with: {} results of {} left out: those runs are carried out here",
            given - others.len(),
            names.join(" and ")
        );
    }
    let settings = ExecutionSettings {
        holdfast: own_binary()?,
        label: None,
        pcap: None,
    };
    let substrates = kinds
        .iter()
        .map(|kind| Substrate::new(*kind, settings.clone()));
    let substrates: Vec<Substrate> = substrates.collect::<anyhow::Result<_>>()?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut fits: Vec<Fit> = Vec::new();
    for paper in &papers {
        let mut lines = Vec::new();
        for substrate in &substrates {
            let jobs = args
                .jobs
                .map_or_else(|| substrate.kind().jobs_default(), usize::from);
            lines.extend(paper.measure(substrate, jobs, &stop)?);
        }
        lines.extend(others.iter().cloned());
        entries.extend(claims::entries(paper, &lines));
        fits.extend(claims::fits(paper, &lines));
    }
    print_all(&papers, &entries, &fits, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn print_all(papers: &[Paper], entries: &[Entry], fits: &[Fit], json: bool) -> anyhow::Result<()> {
    if json {
        return print(serde_json::to_string_pretty(entries)?);
    }
    let mut table = claims::table(entries);
    // Some reasons have hundreds of characters.
    if let Ok(size) = tcgetwinsize(io::stdout())
        && size.ws_col > 0
    {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(size.ws_col);
    }
    print(table)?;
    for fit in fits {
        print(format_args!(
            "{}: {} of {} cells are as printed with {}={}",
            fit.table, fit.as_printed, fit.cells, fit.parameter, fit.value
        ))?;
    }
    for paper in papers {
        for assumption in &paper.claims.assumption {
            let beside = if assumption.decides {
                ""
            } else {
                "; it decides no verdict"
            };
            print(format_args!(
                "assumption {} of {}: {}, because {}{beside}",
                assumption.id, paper.name, assumption.what, assumption.why
            ))?;
        }
    }
    print(claims::counts(entries))?;
    if let Some(counts) = claims::counts_as_printed(entries) {
        print(format_args!("with the printed conditions alone: {counts}"))?;
    }
    for paper in papers {
        let assumptions = paper.claims.assumption.iter();
        for assumption in assumptions.filter(|assumption| !assumption.decides) {
            let own = entries.iter().filter(|entry| entry.paper == paper.name);
            let own: Vec<Entry> = own.cloned().collect();
            let counts = claims::counts_beside(&own, &assumption.id);
            print(format_args!(
                "{} with {} beside: {counts}",
                paper.name, assumption.id
            ))?;
        }
    }
    Ok(())
}

pub(super) fn papers(wanted: Option<&Path>) -> anyhow::Result<Vec<Paper>> {
    let all = Path::new(SCENARIOS_DEFAULT);
    let Some(wanted) = wanted else {
        return Paper::find(all);
    };
    for folder in [wanted.to_owned(), all.join(wanted)] {
        if library::exists(&folder.join(claims::CLAIMS_FILE)) {
            return Ok(vec![Paper::load(&folder)?]);
        }
    }
    bail!(
        "--paper: {} has no {}; takes a folder, or its name in {SCENARIOS_DEFAULT}",
        wanted.display(),
        claims::CLAIMS_FILE
    )
}
