// SPDX-License-Identifier: Apache-2.0
//! The two processes of a connection as guarded children, one in each host.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use holdfast_net::netns::{ChildGuard, NetNs};
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::Topology;

use super::{
    BACK_SEED, Back, EndpointReport, EndpointStart, Exchange, FlowResult, READY, Task, seeded_sum,
};

/// The arguments of our own binary for an endpoint: they lead to [`super::process::serve`].
const ARGUMENTS: [&str; 2] = ["lab", "endpoint"];
/// The longest time until an end is ready.
const READY_LIMIT: Duration = Duration::from_secs(10);
/// The longest time until an end reports after its input is closed.
const REPORT_LIMIT: Duration = Duration::from_secs(10);
/// How often the stop flag is read.
const POLL: Duration = Duration::from_millis(100);

/// The names of the ends, by their index.
const NAMES: [&str; 2] = ["FH", "MH"];

/// The index of an end, and a line of its output; none: its output was closed.
type Event = (usize, Option<String>);

/// An end's process; killed when dropped.
#[derive(Debug)]
struct Endpoint {
    _child: ChildGuard,
    /// Closing it ends the process's work.
    input: Option<ChildStdin>,
    report: Option<EndpointReport>,
}

/// Both ends, ready to begin.
#[derive(Debug)]
pub struct EndpointPair {
    ends: [Endpoint; 2],
    sender: usize,
    expects_back: bool,
    events: Receiver<Event>,
}

impl EndpointPair {
    /// Starts both ends and waits until both are ready. `holdfast` is our own binary, `flow` the
    /// connection's number in the exchange.
    pub fn prepare(
        holdfast: &Path,
        topology: &Topology,
        exchange: &Exchange,
        flow: u16,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        let (events_sender, events) = mpsc::channel();
        let tasks = [true, false].map(|is_fh| Task {
            exchange: *exchange,
            is_fh,
            flow,
        });
        let start = |end: usize, ns: &NetNs| {
            Endpoint::start(holdfast, ns, &tasks[end], end, events_sender.clone())
        };
        let pair = Self {
            ends: [start(0, &topology.fh)?, start(1, &topology.mh)?],
            sender: usize::from(!tasks[0].sends()),
            expects_back: exchange.back_bytes > 0,
            events,
        };
        for _ in 0..2 {
            let (end, line) = pair
                .next(Instant::now() + READY_LIMIT, stop)?
                .with_context(|| {
                    format!(
                        "an endpoint is not ready within {} s",
                        READY_LIMIT.as_secs()
                    )
                })?;
            let is_ready = line.is_some_and(|line| line == READY);
            ensure!(is_ready, "the endpoint at the {} ended", NAMES[end]);
        }
        Ok(pair)
    }

    /// Begins at the time in `start`, and waits for the end.
    ///
    /// # Errors
    /// An end died, or the flag was raised. A connection that breaks is a result.
    pub fn run(
        mut self,
        start: EndpointStart,
        limit: Duration,
        stop: &StopFlag,
    ) -> anyhow::Result<FlowResult> {
        let deadline = Instant::now() + limit;
        let line = serde_json::to_string(&start)? + "\n";
        for end in &mut self.ends {
            let input = end.input.as_mut().context("an endpoint has no input")?;
            input
                .write_all(line.as_bytes())
                .context("an endpoint cannot be started")?;
        }
        let (sender, receiver) = (self.sender, 1 - self.sender);
        let mut in_time = false;
        while !in_time && self.take_report(deadline, stop)? {
            let is_broken = |report: &EndpointReport| report.error.is_some();
            in_time = self.ends[receiver].report.is_some()
                || self.ends[sender].report.as_ref().is_some_and(is_broken);
        }
        for end in &mut self.ends {
            end.input = None;
        }
        let deadline = Instant::now() + REPORT_LIMIT;
        while self.ends.iter().any(|end| end.report.is_none()) {
            ensure!(
                self.take_report(deadline, stop)?,
                "an endpoint does not report within {} s",
                REPORT_LIMIT.as_secs()
            );
        }
        let [fh, mh] = self.ends.map(|end| end.report.unwrap_or_default());
        let (sender, receiver) = if sender == 0 { (fh, mh) } else { (mh, fh) };
        let back = self.expects_back.then(|| Back {
            bytes: sender.received.bytes(),
            is_intact: sender.received.arrivals.is_empty()
                || sender.received.sha256 == seeded_sum(sender.received.bytes(), BACK_SEED),
        });
        Ok(FlowResult {
            received: receiver.received,
            in_time,
            is_whole: in_time && receiver.error.is_none(),
            latencies_ns: receiver.latencies_ns,
            back,
            samples: sender.samples,
            lost_packets: None,
        })
    }

    /// Waits for a report; false if none came until `deadline`.
    fn take_report(&mut self, deadline: Instant, stop: &StopFlag) -> anyhow::Result<bool> {
        let Some((end, line)) = self.next(deadline, stop)? else {
            return Ok(false);
        };
        let report = line.and_then(|line| serde_json::from_str(&line).ok());
        ensure!(report.is_some(), "the endpoint at the {} ended", NAMES[end]);
        self.ends[end].report = report;
        Ok(true)
    }

    /// The next event; none until `deadline`. An end prints nothing after its report.
    fn next(&self, deadline: Instant, stop: &StopFlag) -> anyhow::Result<Option<Event>> {
        loop {
            stop.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left.min(POLL)) {
                Ok((end, None)) if self.ends[end].report.is_some() => {}
                Ok(event) => return Ok(Some(event)),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("both endpoints ended"),
            }
        }
    }
}

impl Endpoint {
    fn start(
        holdfast: &Path,
        ns: &NetNs,
        task: &Task,
        end: usize,
        events: Sender<Event>,
    ) -> anyhow::Result<Self> {
        let mut command = ns.command(holdfast);
        command.args(ARGUMENTS);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = ChildGuard::spawn(command)?;
        let pipes = child.child();
        let output = pipes.stdout.take().context("an endpoint has no output")?;
        let mut input = pipes.stdin.take().context("an endpoint has no input")?;
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            // An error: the parent has ended.
            lines
                .map(Some)
                .chain([None])
                .try_for_each(|line| events.send((end, line)))
        });
        let task = serde_json::to_string(task)? + "\n";
        input
            .write_all(task.as_bytes())
            .context("an endpoint takes no task")?;
        Ok(Self {
            _child: child,
            input: Some(input),
            report: None,
        })
    }
}
