// SPDX-License-Identifier: Apache-2.0
//! Executes many runs, several at a time. The results come in the order of the runs.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use holdfast_testbed::stop::{Interrupted, StopFlag};
use indicatif::{ProgressBar, ProgressStyle};

use crate::results::ResultLine;
use crate::scenario::Run;
use crate::substrate::Substrate;

/// The time between two lines of progress where no bar can be drawn.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);
/// The time between two updates of the bar while no run ends.
const TICK: Duration = Duration::from_millis(200);

/// Executes `runs`, `jobs` at a time, and gives each result to `on_line`. The order of the results
/// is that of the runs, for any number of jobs.
///
/// # Errors
/// The first error of a run: it ends the other runs. [`Interrupted`] if `stop` was raised:
/// `on_line` has then received a complete beginning of the results.
pub fn run(
    runs: &[&Run],
    substrate: &Substrate,
    jobs: usize,
    stop: &StopFlag,
    on_line: impl FnMut(ResultLine) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let execute = |run: &Run, stop: &StopFlag| substrate.execute(run, stop);
    run_with(runs, execute, jobs, stop, on_line)
}

/// As [`run`], with any function that executes a run.
fn run_with(
    runs: &[&Run],
    execute: impl Fn(&Run, &StopFlag) -> anyhow::Result<ResultLine> + Sync,
    jobs: usize,
    stop: &StopFlag,
    on_line: impl FnMut(ResultLine) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let jobs = jobs.clamp(1, runs.len().max(1));
    let next = AtomicUsize::new(0);
    // `over` follows `stop`: a run sees at once that the user wants to stop.
    let over = stop.within();
    let mut progress = Progress::new(runs.len());
    let result = thread::scope(|scope| {
        let (results, receiver) = mpsc::sync_channel(jobs);
        for _ in 0..jobs {
            let (results, next, over, execute) = (results.clone(), &next, &over, &execute);
            scope.spawn(move || {
                while let Some(index) = take(next, runs.len(), over) {
                    let result = carry_out(|| execute(runs[index], over), over);
                    // An error: the collector has ended.
                    if results.send((index, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        let collected = collect(&receiver, runs, &mut progress, stop, &over, on_line);
        over.raise();
        collected
    });
    progress.finish();
    result
}

/// Executes one run. Its result does not count if `over` is raised: a signal may have ended the
/// run's own programs. A panic becomes an error: the collector waits for this run's line.
fn carry_out(
    execute: impl FnOnce() -> anyhow::Result<ResultLine>,
    over: &StopFlag,
) -> anyhow::Result<ResultLine> {
    let result = catch_unwind(AssertUnwindSafe(execute))
        .unwrap_or_else(|panic| Err(anyhow!("the run panicked: {}", panic_text(&*panic))));
    over.check()?;
    result
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

/// The next run to be carried out.
fn take(next: &AtomicUsize, runs: usize, over: &StopFlag) -> Option<usize> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    (index < runs && !over.is_raised()).then_some(index)
}

type Received = (usize, anyhow::Result<ResultLine>);

fn collect(
    receiver: &mpsc::Receiver<Received>,
    runs: &[&Run],
    progress: &mut Progress,
    stop: &StopFlag,
    over: &StopFlag,
    mut on_line: impl FnMut(ResultLine) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    while next < runs.len() {
        if stop.is_raised() {
            over.raise();
            return Err(Interrupted.into());
        }
        match receiver.recv_timeout(TICK) {
            Ok((index, Ok(line))) => {
                progress.one_more();
                waiting.insert(index, line);
            }
            Ok((index, Err(error))) => {
                over.raise();
                let run = runs[index];
                stop.check()?;
                return Err(error).with_context(|| {
                    format!("{} {} seed={}", run.scenario, run.variant, run.seed)
                });
            }
            Err(mpsc::RecvTimeoutError::Timeout) => progress.tick(),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                // The workers may have seen that the user wants to stop before this thread did.
                stop.check()?;
                anyhow::bail!("the workers ended early");
            }
        }
        while let Some(line) = waiting.remove(&next) {
            stop.check()?;
            on_line(line)?;
            next += 1;
        }
    }
    Ok(())
}

/// The progress, on the standard error: a bar on a terminal, lines elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    began: Instant,
    printed_at: Instant,
}

impl Progress {
    fn new(total: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let template = "[{bar:40}] {pos} of {len} runs, {elapsed} gone, about {eta} left";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> ");
            ProgressBar::new(total as u64).with_style(style)
        });
        let now = Instant::now();
        Self {
            bar,
            total,
            done: 0,
            began: now,
            printed_at: now,
        }
    }

    fn one_more(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        self.tick();
    }

    fn tick(&mut self) {
        if let Some(bar) = &self.bar {
            bar.tick();
        } else if self.printed_at.elapsed() >= PLAIN_INTERVAL {
            self.printed_at = Instant::now();
            let left = self
                .left_s()
                .map_or(String::new(), |s| format!(", about {s:.0} s left"));
            eprintln!("{} of {} runs{left}", self.done, self.total);
        }
    }

    fn left_s(&self) -> Option<f64> {
        let each = self.began.elapsed().as_secs_f64() / self.done.max(1) as f64;
        (self.done > 0).then(|| each * (self.total - self.done) as f64)
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Framing;
    use crate::scenario::{Scenario, Shard};
    use crate::substrate::{ExecutionSettings, SubstrateKind};
    use std::path::Path;

    const SWEEP: &str = r#"
        repetitions = 3
        record = ["cwnd", "sequence", "queue", "link-state"]
        [transfer]
        bytes = 400000
        limit_s = 120
        [wireless]
        rate_mbit_per_s = 5
        delay_ms = 20
        loss = 0.01
        jitter = { kind = "normal", mean_ms = 2, deviation_ms = 1 }
        outages = { kind = "exponential", up_mean_s = 1, down_mean_s = 0.5 }
        [[cross_traffic]]
        over = "wireless"
        rate_mbit_per_s = 0.5
        poisson = true
        [[sweep]]
        name = "scheme"
        key = "gateway.scheme"
        values = ["none", "hold", "mtcp-plus"]
        [[sweep]]
        name = "delay_ms"
        key = "wireless.delay_ms"
        values = [5, 50]
    "#;

    fn runs(text: &str) -> Vec<Run> {
        Scenario::parse(Path::new("s.toml"), text)
            .unwrap()
            .runs(None)
            .unwrap()
    }

    fn model() -> Substrate {
        let settings = ExecutionSettings {
            holdfast: "/nonexistent".into(),
            label: None,
            pcap: None,
        };
        Substrate::new(SubstrateKind::Model, settings).unwrap()
    }

    /// All lines that a campaign writes.
    fn lines(runs: &[&Run], jobs: usize) -> Vec<String> {
        let mut lines = Vec::new();
        run(runs, &model(), jobs, &StopFlag::default(), |line| {
            lines.push(serde_json::to_string(&line)?);
            Ok(())
        })
        .unwrap();
        lines
    }

    #[test]
    fn lines_are_the_same_bytes_in_the_same_order_for_any_number_of_jobs() {
        let runs = runs(SWEEP);
        let runs: Vec<&Run> = runs.iter().collect();
        let one = lines(&runs, 1);
        assert_eq!(one.len(), 18);
        for (line, run) in one.iter().zip(&runs) {
            assert!(
                line.contains(&format!("\"variant\":\"{}\"", run.variant)),
                "{line}"
            );
        }
        assert_eq!(lines(&runs, 2), one);
        assert_eq!(lines(&runs, 7), one);
    }

    #[test]
    fn shards_together_are_the_lines_of_the_whole() {
        let runs = runs(SWEEP);
        let all: Vec<&Run> = runs.iter().collect();
        let mut whole = lines(&all, 2);
        let mut merged = Vec::new();
        for number in 1..=4 {
            let shard = Shard { number, count: 4 };
            let part = all
                .iter()
                .enumerate()
                .filter(|(index, _)| shard.has(*index));
            let part: Vec<&Run> = part.map(|(_, run)| *run).collect();
            merged.extend(lines(&part, 2));
        }
        whole.sort();
        merged.sort();
        assert_eq!(merged, whole);
    }

    #[test]
    fn every_run_delivers_what_was_sent_and_has_its_figures() {
        let runs = runs(SWEEP);
        let runs: Vec<&Run> = runs.iter().collect();
        for line in lines(&runs, 2) {
            let line: ResultLine = serde_json::from_str(&line).unwrap();
            assert!(line.finished && line.intact, "{line:?}");
            assert!(line.transfer_s >= line.optimal_s, "{line:?}");
            assert_eq!((line.bytes, line.ending.as_str()), (400_000, "delivered"));
            let series = line.series.unwrap();
            assert!(series.t_s.len() > 3 && series.cwnd.len() == series.t_s.len());
            assert!(series.rcv_nxt.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }

    #[test]
    fn another_seed_is_another_run_and_the_same_seed_the_same() {
        let scenario = Scenario::parse(Path::new("s.toml"), SWEEP).unwrap();
        let get = |seed| {
            let runs = scenario.runs(Some(seed)).unwrap();
            lines(&runs.iter().take(1).collect::<Vec<_>>(), 1)
        };
        assert_eq!(get(5), get(5));
        assert_ne!(get(5), get(6));
    }

    #[test]
    fn what_the_model_cannot_do_ends_the_campaign_with_a_remedy() {
        let text = "[transfer]\nbytes = 1000\n[wireless]\n[hosts]\ncongestion_control = \"vegas\"";
        let runs = runs(text);
        let refs: Vec<&Run> = runs.iter().collect();
        let error = run(&refs, &model(), 1, &StopFlag::default(), |_| Ok(())).unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("fh.congestion_control: got vegas, the model takes reno, cubic and bbr"),
            "{error}"
        );
    }

    fn line_of(run: &Run) -> ResultLine {
        let framing = Framing::new(1460, false);
        ResultLine::of(run, "model", "reno".into(), framing)
    }

    #[test]
    fn a_run_that_ends_while_the_user_interrupts_is_no_result() {
        let runs = runs(SWEEP);
        let refs: Vec<&Run> = runs.iter().collect();
        for jobs in [1, 3] {
            let stop = StopFlag::default();
            let mut given = 0;
            // The signal that interrupts this process has also ended the run's programs.
            let execute = |run: &Run, _: &StopFlag| {
                stop.raise();
                Ok(line_of(run))
            };
            let error = run_with(&refs, execute, jobs, &stop, |_| {
                given += 1;
                Ok(())
            })
            .unwrap_err();
            assert!(error.is::<Interrupted>(), "{error:#}");
            assert_eq!(given, 0);
        }
    }

    #[test]
    fn a_run_learns_of_the_users_wish_at_once() {
        let runs = runs(SWEEP);
        let stop = StopFlag::default();
        let execute = |run: &Run, over: &StopFlag| {
            stop.raise();
            assert!(over.is_raised());
            Ok(line_of(run))
        };
        let error = run_with(&[&runs[0]], execute, 1, &stop, |_| Ok(())).unwrap_err();
        assert!(error.is::<Interrupted>(), "{error:#}");
    }

    #[test]
    fn a_panic_in_one_run_ends_the_campaign_with_its_message() {
        let runs = runs(SWEEP);
        let refs: Vec<&Run> = runs.iter().cycle().take(500).collect();
        for jobs in [1, 2] {
            let first = std::sync::atomic::AtomicBool::new(true);
            let execute = |run: &Run, _: &StopFlag| {
                let is_first = first.swap(false, std::sync::atomic::Ordering::Relaxed);
                assert!(!is_first, "a wheel came off");
                Ok(line_of(run))
            };
            let ended = run_with(&refs, execute, jobs, &StopFlag::default(), |_| Ok(()));
            let error = format!("{:#}", ended.unwrap_err());
            assert!(
                error.contains("the run panicked: a wheel came off"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_run_on_the_model_that_would_take_for_ever_is_interrupted() {
        let text = "[transfer]\nbytes = 1000000000000\nlimit_s = 1000000\n\
            [wireless]\nrate_mbit_per_s = 1000\n";
        let runs = runs(text);
        let stop = StopFlag::default();
        let (ended, end) = mpsc::channel();
        let flag = stop.clone();
        thread::spawn(move || ended.send(run(&[&runs[0]], &model(), 1, &flag, |_| Ok(()))));
        assert!(end.recv_timeout(Duration::from_millis(300)).is_err());
        stop.raise();
        // A worker that ignores the flag would run for hours.
        let result = end.recv_timeout(Duration::from_secs(60));
        let error = result.expect("the run goes on").unwrap_err();
        assert!(error.is::<Interrupted>(), "{error:#}");
    }

    #[test]
    fn a_raised_flag_ends_it_as_interrupted() {
        let runs = runs(SWEEP);
        let refs: Vec<&Run> = runs.iter().collect();
        let stop = StopFlag::default();
        stop.raise();
        let mut given = 0;
        let error = run(&refs, &model(), 2, &stop, |_| {
            given += 1;
            Ok(())
        })
        .unwrap_err();
        assert!(error.is::<Interrupted>());
        assert_eq!(given, 0);
    }
}
