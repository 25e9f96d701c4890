// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab run`: carries scenarios out.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use holdfast_lab::campaign;
use holdfast_lab::demo::own_binary;
use holdfast_lab::results::{self, ResultLine};
use holdfast_lab::scenario::{Run, Shard};
use holdfast_lab::stop::StopFlag;
use holdfast_lab::substrate::{ExecutionSettings, Substrate, SubstrateKind};

use super::load;

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
    /// The first repetition's seed, in place of the scenarios' own
    #[arg(long)]
    seed: Option<u64>,
    /// Runs at a time; on live one, else as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Only part I of N of the runs
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Write results to FILE, a line of JSON each; `-` is the standard output, in
    /// place of the table
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

/// Where lines go.
enum Output {
    Nowhere,
    Standard,
    File(BufWriter<File>),
}

impl Output {
    fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        Ok(match path {
            None => Self::Nowhere,
            Some(path) if path.as_os_str() == "-" => Self::Standard,
            Some(path) => {
                Self::File(BufWriter::new(File::create(path).with_context(|| {
                    format!("--out: {} cannot be written", path.display())
                })?))
            }
        })
    }

    /// A line, at once: what is there when the run is interrupted is whole.
    fn write(&mut self, line: &ResultLine) -> anyhow::Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        let written: io::Result<()> = match self {
            Self::Nowhere => Ok(()),
            Self::Standard => io::stdout().write_all(text.as_bytes()),
            Self::File(file) => file.write_all(text.as_bytes()).and_then(|()| file.flush()),
        };
        written.context("--out: cannot write")
    }
}

/// The runs that the substrate can carry out; says how many it cannot, and why.
fn without_refused<'a>(runs: Vec<&'a Run>, substrate: &Substrate) -> anyhow::Result<Vec<&'a Run>> {
    let mut refused: Vec<(String, usize)> = Vec::new();
    let mut taken = Vec::with_capacity(runs.len());
    for run in runs {
        match substrate.refusal(run) {
            None => taken.push(run),
            Some(why) => match refused.iter_mut().find(|(other, _)| *other == why) {
                Some((_, count)) => *count += 1,
                None => refused.push((why, 1)),
            },
        }
    }
    if let (true, Some((why, _))) = (taken.is_empty(), refused.first()) {
        bail!("{why}");
    }
    for (why, count) in refused {
        eprintln!("{count} runs are left out: {why}");
    }
    Ok(taken)
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
    let substrate = Substrate::new(kind, settings)?;
    let runs = without_refused(runs, &substrate)?;
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
        println!("{}", results::table(&lines));
    }
    if ended.is_err() {
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
