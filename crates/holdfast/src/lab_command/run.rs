// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab run`: carries scenarios out.

mod slurm;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use holdfast_lab::campaign;
use holdfast_lab::demo::own_binary;
use holdfast_lab::library;
use holdfast_lab::results::{self, COMMIT, ResultLine};
use holdfast_lab::scenario::{Run, Shard};
use holdfast_lab::substrate::{ExecutionSettings, Lacking, Substrate, SubstrateKind};
use holdfast_testbed::stop::{Interrupted, StopFlag};

use super::line_file::LineFile;
use super::load;
use super::output::{Output, OutputClosed, print};
use super::run_index::RunIndex;

/// Run scenarios, and print a table of what came out
///
/// Results are JSON lines in the order of the runs, however many run at a time. --resume
/// continues a command that was interrupted. The parts of a sweep that --shard makes can run
/// on different machines. Their lines together are those of the whole: concatenate the files,
/// and --resume puts them in order, drops what is there twice and repeats what was lost.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab run papers/mtcp-plus-2007/undisturbed.toml
  holdfast lab run papers --jobs 8 --out results.jsonl
  holdfast lab run papers --jobs 8 --out results.jsonl --resume
  holdfast lab run sweep.toml --shard 2/16 --out part-2.jsonl
  cat part-*.jsonl > sweep.jsonl && holdfast lab run sweep.toml --out sweep.jsonl --resume
  holdfast lab run sweep.toml --executor slurm --workers 40 --out sweep.jsonl")]
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
    /// Runs at a time; on live one, else as many as there are processors; with Slurm those of a
    /// task, one without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Only part I of N of the runs
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Write results to FILE, a line of JSON each; `-` is the standard output, instead
    /// of the table
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Keep the results that --out has, and carry out only the runs that are not there
    #[arg(long, requires = "out")]
    resume: bool,
    /// What carries the runs out
    #[arg(long, value_enum, value_name = "EXECUTOR", default_value_t)]
    executor: Executor,
    /// Tasks of the job array at most; with --executor slurm, 16 without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    workers: Option<u16>,
    /// Write the packets of each run to files in DIR, in pcapng
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// What results call the substrate: for the lab inside of a virtual kernel
    #[arg(long, value_name = "NAME", hide = true)]
    label: Option<String>,
    /// Only the runs whose indices are in FILE, one a line: for the tasks of Slurm
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "shard")]
    only: Option<PathBuf>,
}

/// `--executor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Executor {
    /// This machine
    #[default]
    Local,
    /// A job array of Slurm, whose nodes share this folder and this program; options of sbatch by
    /// its variables, such as SBATCH_PARTITION
    Slurm,
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

impl SubstrateArg {
    /// The name on the command line.
    fn name(self) -> &'static str {
        SubstrateKind::from(self).name()
    }
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

/// A run with its index among all runs of the scenarios.
type Indexed<'a> = (usize, &'a Run);

/// The runs that the substrate carries out. Prints which runs it does not carry out, and why.
///
/// # Errors
/// No run is left, or a scenario named by its file needs hosts that the substrate lacks.
fn without_refused<'a>(
    mut runs: Vec<Indexed<'a>>,
    kind: SubstrateKind,
    named: &[PathBuf],
) -> anyhow::Result<Vec<Indexed<'a>>> {
    let mut without_hosts: BTreeMap<&Path, String> = BTreeMap::new();
    for (_, run) in &runs {
        if let Some(refusal) = kind.refusal(run)
            && refusal.lacks == Lacking::Hosts
        {
            without_hosts.entry(&run.origin.file).or_insert(refusal.why);
        }
    }
    for path in named {
        // The library's files have other names than the list shows.
        let path = match library::find(path) {
            Some(file) if !path.exists() => file,
            _ => path.clone(),
        };
        if let Some(why) = without_hosts.get(path.as_path()) {
            bail!("{}: {why}", path.display());
        }
    }
    let mut left_out: BTreeMap<String, (usize, BTreeSet<&str>)> = BTreeMap::new();
    let mut file = None;
    runs.retain(|(_, run)| {
        let of_scenario = without_hosts.get(run.origin.file.as_path()).cloned();
        let why = of_scenario.or_else(|| kind.refusal(run).map(|refusal| refusal.why));
        if let Some(why) = &why {
            file.get_or_insert(&run.origin.file);
            let (count, scenarios) = left_out.entry(why.clone()).or_default();
            *count += 1;
            scenarios.insert(&run.scenario);
        }
        why.is_none()
    });
    if let (true, Some(why), Some(file)) = (runs.is_empty(), left_out.keys().next(), file) {
        bail!("{}: {why}", file.display());
    }
    for (why, (count, scenarios)) in left_out {
        let scenarios = Vec::from_iter(scenarios).join(", ");
        let runs = if count == 1 { "run" } else { "runs" };
        eprintln!("left out: {count} {runs} of {scenarios}: {why}");
    }
    Ok(runs)
}

/// The results of a command, and their output.
#[derive(Debug)]
struct Results {
    output: Output,
    /// The results by the indices of their runs, without series: these are long, and the table does not
    /// need them.
    lines: BTreeMap<usize, ResultLine>,
}

impl Results {
    /// Opens the output. With an index, also reads the results that the file has.
    fn open(
        path: Option<&Path>,
        resumed: Option<&RunIndex<'_>>,
        runs: &[Indexed<'_>],
    ) -> anyhow::Result<Self> {
        let output = match (path, resumed) {
            (None, _) => Output::Nowhere,
            (Some(path), None) if path.as_os_str() == "-" => Output::Standard,
            (Some(path), None) => Output::File(LineFile::create(path)?),
            (Some(path), Some(index)) => {
                let (file, lines) = LineFile::resume(path, index)?;
                let output = Output::File(file);
                let results = Self { output, lines };
                results.report_found(path, runs);
                return Ok(results);
            }
        };
        let lines = BTreeMap::new();
        Ok(Self { output, lines })
    }

    fn report_found(&self, path: &Path, runs: &[Indexed<'_>]) {
        let (done, all) = (self.done(runs), runs.len());
        eprintln!("--resume: {} has {done} of {all} runs", path.display());
        let of_others = self.lines.values().filter(|line| line.commit != COMMIT);
        let of_others = of_others.count();
        if of_others > 0 {
            eprintln!("--resume: {of_others} results are of another commit than {COMMIT}");
        }
    }

    /// The number of these runs that have a result.
    fn done(&self, runs: &[Indexed<'_>]) -> usize {
        runs.iter().filter(|(index, _)| self.has(*index)).count()
    }

    /// Whether the run has a result.
    fn has(&self, index: usize) -> bool {
        self.lines.contains_key(&index)
    }

    /// Adds the result of a run that has none yet; `text` is its line.
    fn add(&mut self, index: usize, text: String, mut line: ResultLine) -> anyhow::Result<()> {
        self.output.write(index, text)?;
        line.series = None;
        self.lines.insert(index, line);
        Ok(())
    }
}

/// Runs the scenarios; status 1 if bytes arrived that were not sent.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let stop = StopFlag::on_signals().context("cannot take over signals")?;
    ensure!(
        !(args.resume && args.out.as_ref().is_some_and(|out| out.as_os_str() == "-")),
        "--resume: got --out -, takes --out with a file"
    );
    let on_slurm = args.executor == Executor::Slurm;
    ensure!(
        on_slurm || args.workers.is_none(),
        "--workers: got it without --executor slurm; takes --jobs for this machine"
    );
    if on_slurm {
        slurm::check(args)?;
    }
    let mut all: Vec<Run> = Vec::new();
    for scenario in load(&args.scenarios)? {
        all.extend(scenario.runs(args.seed)?);
    }
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let only = args.only.as_deref().map(indices_in).transpose()?;
    let runs: Vec<Indexed<'_>> = all
        .iter()
        .enumerate()
        .filter(|(index, _)| shard.has(*index))
        .filter(|(index, _)| only.as_ref().is_none_or(|only| only.contains(index)))
        .collect();
    if let Some(folder) = &args.pcap {
        fs::create_dir_all(folder)
            .with_context(|| format!("--pcap: {} cannot be made", folder.display()))?;
    }
    let kind = SubstrateKind::from(args.substrate);
    if runs.is_empty() {
        eprintln!(
            "--shard {}/{}: none of the {} runs is in that part",
            shard.number,
            shard.count,
            all.len()
        );
    }
    let runs = without_refused(runs, kind, &args.scenarios)?;
    let substrate = args.label.as_deref().unwrap_or(kind.name());
    let index = (args.resume || on_slurm).then(|| RunIndex::new(&all, kind, substrate));
    let index = index.transpose()?;
    let mut results = Results::open(
        args.out.as_deref(),
        index.as_ref().filter(|_| args.resume),
        &runs,
    )?;
    let ended = match &index {
        Some(index) if on_slurm => slurm::run(args, &runs, index, &mut results, &stop),
        _ => run_here(args, &runs, &mut results, &stop),
    };
    conclude(results, &runs, ended)
}

/// The indices in the file of `--only`.
fn indices_in(path: &Path) -> anyhow::Result<BTreeSet<usize>> {
    let cannot = || format!("--only: {} cannot be read", path.display());
    let text = fs::read_to_string(path).with_context(cannot)?;
    let indices = text.lines().map(str::parse::<usize>);
    indices.collect::<Result<_, _>>().with_context(cannot)
}

/// Makes the runs that have no result, on this machine.
fn run_here(
    args: &RunArgs,
    runs: &[Indexed<'_>],
    results: &mut Results,
    stop: &StopFlag,
) -> anyhow::Result<()> {
    let kind = SubstrateKind::from(args.substrate);
    let jobs = args.jobs.map_or_else(|| kind.jobs_default(), usize::from);
    let settings = ExecutionSettings {
        holdfast: own_binary()?,
        label: args.label.clone(),
        pcap: args.pcap.clone(),
    };
    let substrate = Substrate::new(kind, settings)?;
    let missing = runs.iter().filter(|(index, _)| !results.has(*index));
    let (indices, runs): (Vec<usize>, Vec<&Run>) = missing.copied().unzip();
    let mut indices = indices.into_iter();
    campaign::run(&runs, &substrate, jobs, stop, |line| {
        let index = indices.next().context("more results than runs")?;
        results.add(index, serde_json::to_string(&line)?, line)
    })
}

/// Prints the table, and puts the file in order if all runs were carried out.
fn conclude(
    results: Results,
    runs: &[Indexed<'_>],
    ended: anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let done = results.done(runs);
    let Results { output, lines } = results;
    let lines: Vec<ResultLine> = lines.into_values().collect();
    if !matches!(output, Output::Standard) && !lines.is_empty() {
        print(results::table(&lines))?;
    }
    if ended
        .as_ref()
        .is_err_and(|error| !error.is::<OutputClosed>())
    {
        let is_interrupted = ended.as_ref().is_err_and(anyhow::Error::is::<Interrupted>);
        let remedy = match output {
            Output::File(_) if is_interrupted => "; the same command with --resume continues",
            _ => "",
        };
        eprintln!("{done} of {} runs were done{remedy}", runs.len());
    }
    ended?;
    output.finish()?;
    let broken = lines.iter().filter(|line| !line.is_sound()).count();
    ensure!(
        broken == 0,
        "{broken} of {} runs delivered other bytes than were sent",
        lines.len()
    );
    Ok(ExitCode::SUCCESS)
}
