// SPDX-License-Identifier: Apache-2.0
//! A program of the operator: the lines that it prints are events.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use holdfast_core::LinkEvent;
use holdfast_net::netns::guarded_command;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use super::{Reporter, SourceEvent, SourceTask};

/// The valid lines, for the message about another line.
const LINES: &str = "up, down, going-down-soon [MILLISECONDS], signal DBM";
/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 256;
/// The longest lead of a warning, ms: a signal to the gateway holds no larger number.
const LEAD_MS_MAX: u64 = u16::MAX as u64;

/// The program, started again when it ends.
pub(super) struct ScriptSource {
    program: PathBuf,
    interface: OsString,
}

impl ScriptSource {
    pub(super) fn new(program: &Path, interface: &str) -> Self {
        Self {
            program: program.to_owned(),
            interface: interface.into(),
        }
    }
}

/// The program and all processes that it has started; killed when dropped.
struct Group {
    program: Child,
    /// The process group. Its number is not used again before the program was waited for.
    number: Option<rustix::process::Pid>,
}

impl Group {
    fn new(program: Child) -> Self {
        let number = program.id().and_then(|id| i32::try_from(id).ok());
        let number = number.and_then(rustix::process::Pid::from_raw);
        Self { program, number }
    }

    fn kill(&self) {
        if let Some(number) = self.number {
            // An error means that all have ended already.
            let _ = rustix::process::kill_process_group(number, rustix::process::Signal::KILL);
        }
    }

    /// Ends the group; returns the program's status.
    async fn end(&mut self) -> std::io::Result<std::process::ExitStatus> {
        self.kill();
        let status = self.program.wait().await?;
        self.number = None;
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl SourceTask for ScriptSource {
    async fn run(&mut self, reporter: &Reporter) -> anyhow::Result<Infallible> {
        let shown = self.program.display();
        // The kernel kills the program when the thread that starts it ends. That is the main thread, which
        // ends with the daemon in any case.
        let mut command = Command::from(guarded_command(&self.program));
        command.arg(&self.interface).kill_on_drop(true);
        // Processes that the program has started may watch its input, which ends too.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.spawn();
        let mut group = Group::new(started.with_context(|| {
            format!("sources.script = \"{shown}\" cannot be started; takes an executable file")
        })?);
        let mut output = group.program.stdout.take().context("no standard output")?;
        reporter.report(SourceEvent::Runs).await?;
        let mut lines = Lines::default();
        let mut has_complained = false;
        let mut octets = [0; 1024];
        loop {
            let length = output.read(&mut octets).await?;
            if length == 0 {
                let status = group.end().await?;
                bail!("sources.script = \"{shown}\" has ended, or closed its output: {status}");
            }
            for line in lines.split(&octets[..length]) {
                match parse(&line) {
                    Ok(event) => reporter.report(event).await?,
                    Err(problem) if !has_complained => {
                        has_complained = true;
                        let text = format!("sources.script = \"{shown}\": {problem}");
                        reporter.report(SourceEvent::Note(text)).await?;
                    }
                    Err(_) => {}
                }
            }
        }
    }
}

/// Bytes that are split into lines.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
    /// The present line is too long, and is skipped to its end.
    too_long: bool,
}

impl Lines {
    /// The lines that end in these bytes.
    fn split(&mut self, octets: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for octet in octets {
            if *octet == b'\n' {
                let line = String::from_utf8_lossy(&self.begun).trim().to_owned();
                if self.too_long || !line.is_empty() {
                    found.push(line);
                }
                self.begun.clear();
                self.too_long = false;
            } else if self.begun.len() < LINE_BYTES_MAX && !self.too_long {
                self.begun.push(*octet);
            } else {
                // Such a line is no event; the message shows its beginning.
                self.too_long = true;
            }
        }
        found
    }
}

fn parse(line: &str) -> Result<SourceEvent, String> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let refused = || format!("{line:?} is no event; takes {LINES}");
    match fields[..] {
        ["up"] => Ok(SourceEvent::Lifted),
        ["down"] => Ok(SourceEvent::Link(LinkEvent::Down)),
        ["going-down-soon"] => Ok(SourceEvent::Link(LinkEvent::GoingDownSoon(None))),
        ["going-down-soon", lead] => match lead.parse::<u64>() {
            Ok(ms) if ms <= LEAD_MS_MAX => {
                let lead = (ms > 0).then(|| Duration::from_millis(ms));
                Ok(SourceEvent::Link(LinkEvent::GoingDownSoon(lead)))
            }
            _ => Err(refused()),
        },
        ["signal", dbm] => match dbm.parse::<f64>() {
            Ok(dbm) if (-200.0..0.0).contains(&dbm) => Ok(SourceEvent::Signal(dbm)),
            _ => Err(refused()),
        },
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::super::{LinkSource, Report, keep};
    use super::*;

    #[test]
    fn lines_are_events_and_others_are_refused_with_those_that_are() {
        let soon = |lead| Ok(SourceEvent::Link(LinkEvent::GoingDownSoon(lead)));
        assert_eq!(parse("up"), Ok(SourceEvent::Lifted));
        assert_eq!(parse(" down "), Ok(SourceEvent::Link(LinkEvent::Down)));
        assert_eq!(parse("going-down-soon"), soon(None));
        assert_eq!(parse("going-down-soon 0"), soon(None));
        let lead = Duration::from_millis(400);
        assert_eq!(parse("going-down-soon 400"), soon(Some(lead)));
        assert_eq!(parse("signal -97"), Ok(SourceEvent::Signal(-97.0)));
        for line in [
            "UP",
            "down 3",
            "going-down-soon -4",
            "going-down-soon 65536",
            "signal",
            "signal NaN",
            "signal 0",
            "signal -97 dBm",
        ] {
            let problem = parse(line).expect_err(line);
            assert!(
                problem.contains(LINES) && !problem.contains('\n'),
                "{problem}"
            );
        }
    }

    #[test]
    fn lines_come_in_pieces_and_have_a_limit() {
        let mut lines = Lines::default();
        assert_eq!(lines.split(b"do"), [""; 0]);
        assert_eq!(lines.split(b"wn\r\n\n  \nup\nsig"), ["down", "up"]);
        let long = vec![b'x'; 10 * LINE_BYTES_MAX];
        assert_eq!(lines.split(&long), [""; 0]);
        assert!(lines.begun.len() <= LINE_BYTES_MAX);
        let rest = lines.split(b"\nup\n");
        assert_eq!(rest.len(), 2);
        assert!(parse(&rest[0]).is_err());
        assert_eq!(rest[1], "up");
    }

    /// Runs a script of this text, and hands its reports to `judge` until that is content.
    fn run(text: &str, mut judge: impl FnMut(&SourceEvent) -> bool) {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("link-watch");
        holdfast_testbed::harness::write_script(&program, text).expect("written");
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (reports, mut received) = mpsc::channel(8);
            let source = LinkSource::Script;
            let reporter = Reporter { source, reports };
            tokio::spawn(keep(ScriptSource::new(&program, "wwan0"), reporter));
            let content = async {
                while let Some(Report { event, .. }) = received.recv().await {
                    if judge(&event) {
                        return;
                    }
                }
                panic!("no more reports");
            };
            let limit = Duration::from_secs(60);
            tokio::time::timeout(limit, content).await.expect("in time");
        });
    }

    #[test]
    fn a_script_is_read_and_started_again_when_it_ends() {
        let mut events = Vec::new();
        let text =
            "#!/bin/sh\necho \"signal -9$#\"\necho nonsense\necho nonsense\necho down\nexit 3\n";
        run(text, |report| {
            events.push(report.clone());
            events
                .iter()
                .filter(|event| **event == SourceEvent::Runs)
                .count()
                == 2
        });
        let [
            SourceEvent::Runs,
            SourceEvent::Signal(dbm),
            SourceEvent::Note(note),
            down,
            SourceEvent::Failed(end),
            SourceEvent::Runs,
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert!((dbm + 91.0).abs() < 1e-9, "one argument: {dbm}");
        assert!(
            note.contains("nonsense") && note.contains("sources.script"),
            "{note}"
        );
        assert_eq!(*down, SourceEvent::Link(LinkEvent::Down));
        assert!(end.contains("exit status: 3"), "{end}");
    }

    #[test]
    fn one_that_cannot_be_started_is_named_with_its_key_and_the_remedy() {
        run("#!/no/such/shell\n", |report| {
            let SourceEvent::Failed(problem) = report else {
                panic!("{report:?}");
            };
            assert!(problem.contains("sources.script") && problem.contains("executable"));
            assert!(!problem.contains('\n'), "{problem}");
            true
        });
    }

    /// Whether the process whose number is in this file runs.
    fn runs(number: &Path) -> bool {
        let number = std::fs::read_to_string(number).expect("its number");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", number.trim()));
        let stat = stat.unwrap_or_default();
        // A zombie waits for its new parent alone.
        !stat.is_empty() && !stat.contains(") Z")
    }

    fn await_end(number: &Path) {
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while runs(number) {
            assert!(std::time::Instant::now() < deadline, "it still runs");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_a_script_leaves_behind_when_it_ends_ends_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let number = folder.path().join("number");
        let shown = number.display();
        let text = format!("#!/bin/sh\nsleep 600 > /dev/null &\necho $! > {shown}\nexit 0\n");
        run(&text, |event| matches!(event, SourceEvent::Failed(_)));
        await_end(&number);
    }

    #[test]
    fn what_a_script_has_started_ends_with_the_daemon() {
        let folder = tempfile::tempdir().expect("a folder");
        let number = folder.path().join("number");
        let text = format!(
            "#!/bin/sh\nsleep 600 &\necho $! > {}.new\nmv {}.new {}\necho up\nwait\n",
            number.display(),
            number.display(),
            number.display()
        );
        run(&text, |event| *event == SourceEvent::Lifted);
        await_end(&number);
    }
}
