// SPDX-License-Identifier: Apache-2.0
//! `--executor slurm`: the runs as a job array. Each task is a worker with a list of runs and a file of
//! its own, in a folder beside `--out`. When the tasks have ended their lines are collected. A run without
//! a line, because a worker was lost, is submitted again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use holdfast_lab::demo::own_binary;
use holdfast_lab::report::quoted;
use holdfast_testbed::stop::{Interrupted, StopFlag};

use super::{Indexed, Results, RunArgs};
use crate::lab_command::line_file::each_line;
use crate::lab_command::run_index::RunIndex;

/// The limit of tasks of the job array, unless given.
const WORKERS: u16 = 16;
/// The interval of the queries of Slurm's queue.
const POLL: Duration = Duration::from_secs(2);
/// The interval at which the state of the tasks is printed.
const REPORT: Duration = Duration::from_secs(10);
/// The longest time without an answer of the queue.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// The limit of the time in which cancelled tasks must end.
const CANCEL_MAX: Duration = Duration::from_secs(60);
/// The file with the number of the job that may still be in the queue.
const JOB_FILE: &str = "job";

/// Refuses wrong arguments, before anything is written.
///
/// # Errors
/// There is no `--out` with a file, an earlier command's folder exists, or Slurm is missing.
pub(super) fn check(args: &RunArgs) -> anyhow::Result<()> {
    ensure!(
        args.shard.is_none(),
        "--shard: got it with --executor slurm, which divides the runs itself; leave it out"
    );
    ensure!(
        args.label.is_none(),
        "--label: got it with --executor slurm, whose tasks do not have it; leave it out"
    );
    let out = args.out.as_deref();
    let Some(out) = out.filter(|out| out.as_os_str() != "-") else {
        bail!("--executor slurm: takes --out with a file in a folder that the nodes share");
    };
    let folder = parts_folder(out);
    ensure!(
        args.resume || !folder.exists(),
        "--out: {} is there from an interrupted command; add --resume, or remove it",
        folder.display()
    );
    let mut queue = Command::new("squeue");
    queue.arg("--version");
    output_of(queue, None).map(|_| ())
}

/// Makes the runs that have no result.
///
/// # Errors
/// Slurm refuses the job, or no task brings a result. [`Interrupted`] if `stop` was raised: the
/// tasks are cancelled then, and the lines that they have written are collected.
pub(super) fn run(
    args: &RunArgs,
    runs: &[Indexed<'_>],
    index: &RunIndex<'_>,
    results: &mut Results,
    stop: &StopFlag,
) -> anyhow::Result<()> {
    let out = args.out.as_deref().context("--out")?;
    let folder = std::path::absolute(parts_folder(out))?;
    fs::create_dir_all(&folder)
        .with_context(|| format!("--out: {} cannot be made", folder.display()))?;
    let array = Array {
        args,
        folder: &folder,
    };
    // The job of a command that died; its tasks may go on.
    if let Ok(job) = fs::read_to_string(folder.join(JOB_FILE)) {
        eprintln!("--resume: waits for job {job} of the earlier command");
        array.finish(&job, index, results, stop)?;
    } else {
        collect(&folder, index, results)?;
    }
    loop {
        let missing = runs.iter().map(|(index, _)| *index);
        let missing: Vec<usize> = missing.filter(|index| !results.has(*index)).collect();
        if missing.is_empty() {
            break;
        }
        let job = array.submit(&missing)?;
        let came = array.finish(&job, index, results, stop)?;
        ensure!(
            came > 0,
            "job {job}: no run of its tasks came to an end; {}",
            array.last_log()
        );
        if came < missing.len() {
            let left = missing.len() - came;
            eprintln!(
                "job {job}: {left} of {} runs are missing: submitted again",
                missing.len()
            );
        }
    }
    remove(&folder)
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    fs::remove_dir_all(folder)
        .with_context(|| format!("--out: {} cannot be removed", folder.display()))
}

/// The folder of the workers' files.
fn parts_folder(out: &Path) -> PathBuf {
    let mut folder = out.as_os_str().to_owned();
    folder.push(".parts");
    folder.into()
}

/// The job array.
struct Array<'a> {
    args: &'a RunArgs,
    folder: &'a Path,
}

impl Array<'_> {
    /// Submits tasks for the missing runs; returns the job's number.
    fn submit(&self, missing: &[usize]) -> anyhow::Result<String> {
        let tasks = missing
            .len()
            .min(usize::from(self.args.workers.unwrap_or(WORKERS)));
        for task in 0..tasks {
            let own = missing.iter().skip(task).step_by(tasks);
            let own: Vec<String> = own.map(ToString::to_string).collect();
            self.write(&format!("runs-{}.txt", task + 1), &own.join("\n"))?;
        }
        let jobs = self.args.jobs.unwrap_or(1);
        let mut sbatch = Command::new("sbatch");
        sbatch
            .args(["--parsable", "--requeue", "--open-mode=append"])
            .args(["--job-name=holdfast-lab", "--ntasks=1"])
            .arg(format!("--array=1-{tasks}"))
            .arg(format!("--cpus-per-task={jobs}"))
            .arg(format!("--output={}/log-%a.txt", self.folder.display()));
        let job = output_of(sbatch, Some(&self.script(jobs)?))?;
        let job = job.trim().to_owned();
        ensure!(
            parts_of(&job).0.parse::<u64>().is_ok(),
            "sbatch: got `{job}` for the job's number"
        );
        let runs = missing.len();
        eprintln!("job {job}: {runs} runs in {tasks} tasks");
        if let Err(error) = self.write(JOB_FILE, &job) {
            // Without the file no later command would know the job's number.
            cancel(&job)?;
            return Err(error);
        }
        Ok(job)
    }

    /// Waits for the job and collects its lines; returns how many were new. An interrupt cancels the job
    /// and removes the folder: `--resume` needs no list of missing runs.
    fn finish(
        &self,
        job: &str,
        index: &RunIndex<'_>,
        results: &mut Results,
        stop: &StopFlag,
    ) -> anyhow::Result<usize> {
        let ended = match wait(job, stop) {
            // The tasks of the job may go on.
            Err(error) if !error.is::<Interrupted>() => return Err(error),
            ended => ended,
        };
        let came = collect(self.folder, index, results)?;
        if ended.is_err() {
            remove(self.folder)?;
        }
        ended?;
        Ok(came)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let file = self.folder.join(name);
        fs::write(&file, text)
            .with_context(|| format!("--out: {} cannot be written", file.display()))
    }

    /// The script of a task. A task that Slurm starts again continues its own file.
    fn script(&self, jobs: u16) -> anyhow::Result<String> {
        let args = self.args;
        let word = |path: &Path| -> anyhow::Result<String> {
            let path = path.to_str().context("a path is not UTF-8")?;
            Ok(quoted(path))
        };
        let mut script = format!("#!/bin/sh\nexec {} lab run", word(&own_binary()?)?);
        for scenario in &args.scenarios {
            let _ = write!(script, " {}", word(scenario)?);
        }
        let _ = write!(
            script,
            " --substrate {} --jobs {jobs}",
            args.substrate.name()
        );
        if let Some(seed) = args.seed {
            let _ = write!(script, " --seed {seed}");
        }
        if let Some(pcap) = &args.pcap {
            let _ = write!(script, " --pcap {}", word(pcap)?);
        }
        let folder = word(self.folder)?;
        let task = "\"$SLURM_ARRAY_TASK_ID\"";
        let _ = writeln!(
            script,
            " --only {folder}/runs-{task}.txt --resume --out {folder}/part-{task}.jsonl"
        );
        Ok(script)
    }

    /// The end of the newest log of a task, for an error.
    fn last_log(&self) -> String {
        let Ok(entries) = fs::read_dir(self.folder) else {
            return "their folder cannot be read".to_owned();
        };
        let logs = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let logs = logs.filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("log-"))
        });
        let newest = logs.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
        let Some(log) = newest else {
            return "no task has a log: is the folder shared with the nodes?".to_owned();
        };
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        format!("{} ends: {}", log.display(), last.unwrap_or("(empty)"))
    }
}

/// Collects the workers' lines, and removes their files: no task is left in the queue. Returns how many
/// lines were new.
fn collect(folder: &Path, index: &RunIndex<'_>, results: &mut Results) -> anyhow::Result<usize> {
    let unreadable = || format!("{} cannot be read", folder.display());
    let entries = fs::read_dir(folder).with_context(unreadable)?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths
        .collect::<anyhow::Result<Vec<_>>>()
        .with_context(unreadable)?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    paths.sort();
    let mut came = 0;
    for path in &paths {
        each_line("a worker's results", path, index, |text, result| {
            if let Some((index, line)) = result.filter(|(index, _)| !results.has(*index)) {
                results.add(index, String::from_utf8(text.to_vec())?, line)?;
                came += 1;
            }
            Ok(())
        })?;
    }
    for path in paths {
        fs::remove_file(&path).with_context(|| format!("{}", path.display()))?;
    }
    let job = folder.join(JOB_FILE);
    if job.exists() {
        fs::remove_file(&job).with_context(|| format!("{}", job.display()))?;
    }
    Ok(came)
}

/// The job's number, and `--clusters` with its cluster if sbatch has chosen one: `123;cluster`.
fn parts_of(job: &str) -> (&str, Option<String>) {
    match job.split_once(';') {
        Some((number, cluster)) => (number, Some(format!("--clusters={cluster}"))),
        None => (job, None),
    }
}

/// Waits until no task of the job is in the queue.
fn wait(job: &str, stop: &StopFlag) -> anyhow::Result<()> {
    let (mut printed_at, mut answered_at) = (Instant::now(), Instant::now());
    loop {
        if stop.is_raised() {
            cancel(job)?;
            return Err(Interrupted.into());
        }
        match tasks(job) {
            Ok(tasks) if tasks.is_empty() => return Ok(()),
            Ok(tasks) => {
                answered_at = Instant::now();
                if printed_at.elapsed() >= REPORT {
                    printed_at = Instant::now();
                    let tasks = tasks
                        .iter()
                        .map(|(state, count)| format!("{count} {state}"));
                    eprintln!("job {job}: tasks: {}", tasks.collect::<Vec<_>>().join(", "));
                }
            }
            Err(error) if answered_at.elapsed() > SILENCE_MAX => {
                return Err(error.context(format!(
                    "job {job} goes on without this command; --resume continues"
                )));
            }
            Err(error) => eprintln!("job {job}: {error:#}; tried again"),
        }
        thread::sleep(POLL);
    }
}

/// The number of tasks in each state, with Slurm's reason for the state.
fn tasks(job: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut squeue = Command::new("squeue");
    let (number, cluster) = parts_of(job);
    squeue.args([
        "--noheader",
        "--array",
        "--format=%T (%r)",
        "--jobs",
        number,
    ]);
    squeue.args(cluster);
    let text = match output_of(squeue, None) {
        // Slurm has forgotten the job.
        Err(error) if format!("{error:#}").contains("Invalid job id") => String::new(),
        text => text?,
    };
    let mut tasks = BTreeMap::new();
    // With a cluster its name is on the first line.
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("CLUSTER:")) {
        *tasks.entry(line.replace(" (None)", "")).or_insert(0) += 1;
    }
    Ok(tasks)
}

/// Cancels the job and waits until its tasks have ended.
fn cancel(job: &str) -> anyhow::Result<()> {
    let mut scancel = Command::new("scancel");
    let (number, cluster) = parts_of(job);
    scancel.args(cluster).arg(number);
    output_of(scancel, None)?;
    let began = Instant::now();
    while !tasks(job)?.is_empty() {
        ensure!(
            began.elapsed() < CANCEL_MAX,
            "job {job} is cancelled, but its tasks have not ended; --resume waits for them"
        );
        thread::sleep(POLL);
    }
    Ok(())
}

/// Runs a command of Slurm; returns its output.
fn output_of(mut command: Command, input: Option<&str>) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Ctrl-C must not reach the command: sbatch would queue a job without returning its number.
    let child = command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.with_context(|| {
        format!("{name}: cannot be started; --executor slurm needs Slurm's commands here")
    })?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    // A command that does not read its input ends earlier.
    let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
    drop(stdin);
    let output = child.wait_with_output().with_context(|| name.clone())?;
    let error = String::from_utf8_lossy(&output.stderr);
    let error = error.trim().replace('\n', "; ");
    ensure!(output.status.success(), "{name}: {error}");
    String::from_utf8(output.stdout).with_context(|| format!("{name}: not text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_a_cluster_is_looked_for_there() {
        assert_eq!(parts_of("12"), ("12", None));
        assert_eq!(
            parts_of("12;east"),
            ("12", Some("--clusters=east".to_owned()))
        );
    }

    #[test]
    fn the_workers_files_are_beside_the_results() {
        assert_eq!(
            parts_folder(Path::new("folder/sweep.jsonl")),
            Path::new("folder/sweep.jsonl.parts")
        );
    }
}
