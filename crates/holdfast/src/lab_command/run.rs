// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab run`: carries scenarios out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use holdfast_lab::campaign;
use holdfast_lab::demo::own_binary;
use holdfast_lab::results;
use holdfast_lab::scenario::{Run, Shard};
use holdfast_lab::substrate::{ExecutionSettings, Lacking, Substrate, SubstrateKind};
use holdfast_testbed::stop::StopFlag;

use super::load;
use super::output::{Output, OutputClosed, print};

/// Run scenarios, and print a table of what came out
///
/// Results are JSON lines in the order of the runs, however many run at a time.
/// The parts of a sweep that `--shard` makes can run on different machines; their
/// lines together, in any order, are those of the whole.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab run papers/mtcp-plus-2007/undisturbed.toml
  holdfast lab run papers --jobs 8 --out results.jsonl
  holdfast lab run sweep.toml --shard 2/16 --out part-2.jsonl")]
pub(super) struct RunArgs {
    /// Scenarios, or folders of them
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<PathBuf>,
    /// What they run on
    #[arg(long, value_enum, value_name = "SUBSTRATE", default_value_t)]
    substrate: SubstrateArg,
    /// The first repetition's seed, instead of the scenarios' own
    #[arg(long)]
    seed: Option<u64>,
    /// Runs at a time; on live one, else as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Only part I of N of the runs
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Write results to FILE, a line of JSON each; `-` is the standard output, instead
    /// of the table
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the packets of each run to files in DIR, in pcapng
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// What results call the substrate: for the lab inside of a virtual kernel
    #[arg(long, value_name = "NAME", hide = true)]
    label: Option<String>,
}

/// `--substrate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SubstrateArg {
    /// The simulator: the same to the bit everywhere, much faster than real time
    #[default]
    Model,
    /// Linux TCP in a virtual kernel, in virtual time (after `holdfast lab setup`)
    Linux,
    /// Linux TCP in network namespaces of this kernel, by the wall clock (root)
    Live,
}

impl From<SubstrateArg> for SubstrateKind {
    fn from(arg: SubstrateArg) -> Self {
        match arg {
            SubstrateArg::Model => Self::Model,
            SubstrateArg::Linux => Self::Linux,
            SubstrateArg::Live => Self::Live,
        }
    }
}

/// The runs that the substrate carries out; reports which it does not, and why.
///
/// # Errors
/// None is left, or a scenario named by its file needs hosts that the substrate has not.
fn without_refused<'a>(
    mut runs: Vec<&'a Run>,
    kind: SubstrateKind,
    named: &[PathBuf],
) -> anyhow::Result<Vec<&'a Run>> {
    let mut without_hosts: BTreeMap<&Path, String> = BTreeMap::new();
    for run in &runs {
        if let Some(refusal) = kind.refusal(run)
            && refusal.lacks == Lacking::Hosts
        {
            without_hosts.entry(&run.origin.file).or_insert(refusal.why);
        }
    }
    for path in named {
        if let Some(why) = without_hosts.get(path.as_path()) {
            bail!("{}: {why}", path.display());
        }
    }
    let mut left_out: BTreeMap<String, (usize, BTreeSet<&str>)> = BTreeMap::new();
    runs.retain(|run| {
        let of_scenario = without_hosts.get(run.origin.file.as_path()).cloned();
        let why = of_scenario.or_else(|| kind.refusal(run).map(|refusal| refusal.why));
        if let Some(why) = &why {
            let (count, scenarios) = left_out.entry(why.clone()).or_default();
            *count += 1;
            scenarios.insert(&run.scenario);
        }
        why.is_none()
    });
    if let (true, Some(why)) = (runs.is_empty(), left_out.keys().next()) {
        bail!("{why}");
    }
    for (why, (count, scenarios)) in left_out {
        let scenarios = Vec::from_iter(scenarios).join(", ");
        let runs = if count == 1 { "run" } else { "runs" };
        eprintln!("left out: {count} {runs} of {scenarios}: {why}");
    }
    Ok(runs)
}

/// Runs them; status 1 if bytes arrived that were not sent.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let stop = StopFlag::on_signals().context("cannot take over signals")?;
    let mut all: Vec<Run> = Vec::new();
    for scenario in load(&args.scenarios)? {
        all.extend(scenario.runs(args.seed)?);
    }
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let runs: Vec<&Run> = all
        .iter()
        .enumerate()
        .filter(|(index, _)| shard.has(*index))
        .map(|(_, run)| run)
        .collect();
    if let Some(folder) = &args.pcap {
        fs::create_dir_all(folder)
            .with_context(|| format!("--pcap: {} cannot be made", folder.display()))?;
    }
    let kind = SubstrateKind::from(args.substrate);
    let jobs = args.jobs.map_or_else(|| kind.jobs_default(), usize::from);
    let settings = ExecutionSettings {
        holdfast: own_binary()?,
        label: args.label.clone(),
        pcap: args.pcap.clone(),
    };
    if runs.is_empty() {
        eprintln!(
            "--shard {}/{}: none of the {} runs is in that part",
            shard.number,
            shard.count,
            all.len()
        );
    }
    let runs = without_refused(runs, kind, &args.scenarios)?;
    let substrate = Substrate::new(kind, settings)?;
    let mut output = Output::open(args.out.as_deref())?;
    let mut lines = Vec::new();
    let ended = campaign::run(&runs, &substrate, jobs, &stop, |mut line| {
        output.write(&line)?;
        // The table does not need them, and they are long.
        line.series = None;
        lines.push(line);
        Ok(())
    });
    if !matches!(output, Output::Standard) && !lines.is_empty() {
        print(results::table(&lines))?;
    }
    if ended
        .as_ref()
        .is_err_and(|error| !error.is::<OutputClosed>())
    {
        eprintln!("{} of {} runs were done", lines.len(), runs.len());
    }
    ended?;
    let broken = lines.iter().filter(|line| !line.is_sound()).count();
    ensure!(
        broken == 0,
        "{broken} of {} runs delivered other bytes than were sent",
        lines.len()
    );
    Ok(ExitCode::SUCCESS)
}
