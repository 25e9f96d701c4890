// SPDX-License-Identifier: Apache-2.0
//! The commands of the set-up: each with its output in one log, watched by line, and
//! ended with all that it started when we are told to stop.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use holdfast_testbed::stop::StopFlag;

/// How often a wish to stop is looked for.
const POLL: Duration = Duration::from_millis(100);
/// Lines of the log that an error shows.
const LINES_SHOWN: usize = 5;

/// A child that leads a process group of its own; the group is killed when dropped.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
}

impl Group {
    pub(super) fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.process_group(0).spawn();
        let child = child.with_context(|| format!("cannot start {program}"))?;
        Ok(Self { child })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Errors mean that all have ended already.
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed())
            && !matches!(self.child.try_wait(), Ok(Some(_)))
        {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Runs commands one after the other.
pub(super) struct Steps<'a> {
    log_path: PathBuf,
    log: File,
    stop: &'a StopFlag,
}

impl<'a> Steps<'a> {
    /// Everything that the commands say goes to `log_path`.
    pub(super) fn new(log_path: &Path, stop: &'a StopFlag) -> anyhow::Result<Self> {
        let log = File::create(log_path)
            .with_context(|| format!("{}: cannot be written", log_path.display()))?;
        Ok(Self {
            log_path: log_path.to_owned(),
            log,
            stop,
        })
    }

    /// Runs `command` to its end, with each line of its output to `watch`.
    ///
    /// Errors: it cannot be started, it ended with another status than 0 (its last
    /// lines are shown), or we are to stop.
    pub(super) fn run(
        &mut self,
        command: &mut Command,
        mut watch: impl FnMut(&str),
    ) -> anyhow::Result<()> {
        self.stop.check()?;
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(self.log.try_clone()?);
        let mut group = Group::spawn(command)?;
        let output = group.child().stdout.take().context("no output to read")?;
        // As far as the reader may run ahead, in lines.
        let (lines, read) = mpsc::sync_channel(1024);
        thread::spawn(move || {
            let all = BufReader::new(output).lines();
            all.map_while(Result::ok)
                .try_for_each(|line| lines.send(line))
        });
        loop {
            match read.recv_timeout(POLL) {
                Ok(line) => {
                    writeln!(self.log, "{line}")?;
                    watch(&line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.stop.check()?;
        }
        let status = group.child().wait()?;
        if !status.success() {
            bail!(
                "{program}: {status}: {} (all of it: {})",
                last_lines(&self.log_path),
                self.log_path.display()
            );
        }
        Ok(())
    }
}

/// The last lines of a file, in one.
pub(super) fn last_lines(path: &Path) -> String {
    let octets = std::fs::read(path).unwrap_or_default();
    last_lines_of(&String::from_utf8_lossy(&octets))
}

/// The last lines of a text, in one.
pub(super) fn last_lines_of(text: &str) -> String {
    let mut lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .rev()
        .take(LINES_SHOWN)
        .collect();
    if lines.is_empty() {
        return "(it said nothing)".to_owned();
    }
    lines.reverse();
    lines.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_testbed::stop::Interrupted;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_are_watched_and_a_failure_shows_the_last_ones() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let stop = StopFlag::default();
        let mut steps = Steps::new(&log, &stop).unwrap();
        let mut seen = Vec::new();
        steps
            .run(&mut sh("echo one; echo two"), |line| {
                seen.push(line.to_owned());
            })
            .unwrap();
        assert_eq!(seen, ["one", "two"]);
        let error = steps
            .run(&mut sh("echo no such header >&2; exit 2"), |_| {})
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("no such header") && text.contains("exit status: 2"),
            "{text}"
        );
    }

    #[test]
    fn a_stop_ends_all_that_was_started() {
        let folder = tempfile::tempdir().unwrap();
        let stop = StopFlag::default();
        let mut steps = Steps::new(&folder.path().join("log"), &stop).unwrap();
        let mut child = None;
        let error = steps
            .run(&mut sh("sleep 300 & echo $!; wait"), |line| {
                child = line.parse::<i32>().ok();
                stop.raise();
            })
            .unwrap_err();
        assert!(error.is::<Interrupted>());
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        let process = format!("/proc/{}/stat", child.unwrap());
        // Gone, or a zombie until somebody inherits it.
        while std::fs::read_to_string(&process).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(std::time::Instant::now() < deadline, "the child still runs");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
