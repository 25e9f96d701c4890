// SPDX-License-Identifier: Apache-2.0
//! The two endpoints of a transfer as guarded children, one in each host.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use holdfast_core::{Direction, Side};
use holdfast_net::netns::{ChildGuard, NetNs};
use holdfast_testbed::download::{Arrival, Received};
use holdfast_testbed::seeded_file::{SeededContent, Sha256Sum};
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{Addresses, FH, SECOND_MH, Topology};

use super::conversation::BACK_SEED;
use super::{
    ENDPOINT_ARGUMENTS, EndpointReport, EndpointStart, EndpointTask, Opening, READY, Work,
};

/// The port at which the FH's end listens: one that Wireshark takes for no protocol.
pub const PORT: u16 = 40_000;

/// How long an end may take until it is ready.
const READY_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to report once it was told to end.
const REPORT_LIMIT: Duration = Duration::from_secs(10);
/// How often a wish to stop is looked for.
const POLL: Duration = Duration::from_millis(100);

/// What is sent from one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Which way.
    pub direction: Direction,
    /// How many bytes.
    pub bytes: u64,
    /// Of which seed.
    pub seed: u64,
    /// Bytes that the MH sends before the FH sends; on the downlink.
    pub request_bytes: u64,
    /// How often it does, each time for an equal part of the bytes.
    pub requests: u32,
    /// From an answer to the next request.
    pub think: Duration,
    /// Bytes the other way meanwhile.
    pub back_bytes: u64,
    /// Over IPv6.
    pub ipv6: bool,
    /// Distance of the points of a time series of the sender's socket.
    pub series_interval: Option<Duration>,
    /// So many connections at once, from [`PORT`] on.
    pub flows: u16,
    /// So many of them, the last ones, are a second mobile's.
    pub flows_of_second_mobile: u16,
}

impl Exchange {
    fn task(&self, of: Side, number: u16) -> EndpointTask {
        let address = |of: Addresses| {
            if self.ipv6 {
                IpAddr::V6(of.v6)
            } else {
                IpAddr::V4(of.v4)
            }
        };
        let fh = SocketAddr::new(address(FH), PORT + number);
        let request_bytes = match self.direction {
            Direction::Downlink => self.request_bytes,
            Direction::Uplink => 0,
        };
        EndpointTask {
            opening: match of {
                Side::Fh => Opening::Listen(fh),
                Side::Mh if number + self.flows_of_second_mobile >= self.flows => {
                    Opening::ConnectFrom(fh, address(SECOND_MH))
                }
                Side::Mh => Opening::Connect(fh),
            },
            work: if of == self.direction.sender() {
                Work::Send {
                    bytes: self.bytes,
                    seed: self.seed,
                    after_bytes: request_bytes,
                    parts: self.requests,
                    back_bytes: self.back_bytes,
                    series_interval_ns: self
                        .series_interval
                        .map(|interval| interval.as_nanos().max(1) as u64),
                }
            } else {
                Work::Receive {
                    request_bytes,
                    requests: self.requests,
                    answer_bytes: self.bytes / u64::from(self.requests.max(1)),
                    think_ns: self.think.as_nanos() as u64,
                    back_bytes: self.back_bytes,
                }
            },
        }
    }
}

/// What an end says.
#[derive(Debug)]
enum Said {
    Ready,
    Report(Box<EndpointReport>),
    /// It said something else, or ended.
    Silence,
}

/// An end's process; killed when dropped.
#[derive(Debug)]
struct Endpoint {
    _child: ChildGuard,
    /// Open as long as it is to go on.
    input: Option<ChildStdin>,
    report: Option<EndpointReport>,
}

/// Both ends, ready to begin.
#[derive(Debug)]
pub struct EndpointPair {
    fh: Endpoint,
    mh: Endpoint,
    sender: Side,
    said: Receiver<(Side, Said)>,
}

/// How an exchange ended.
#[derive(Clone, Debug)]
pub struct Exchanged {
    /// What arrived at the receiver.
    pub received: Received,
    /// The connection came to its end, good or bad, within the limit.
    pub ended: bool,
    /// What broke it at the sender; none: it ended well.
    pub sender_error: Option<String>,
    /// The same at the receiver.
    pub receiver_error: Option<String>,
    /// From each request to its answer's last byte, nanoseconds; of several requests.
    pub latencies_ns: Vec<u64>,
    /// What came the other way, if something was to.
    pub back: Option<Back>,
    /// The sender's socket over time, if asked for.
    pub samples: Vec<super::Sample>,
}

/// What came the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back {
    /// Bytes.
    pub bytes: u64,
    /// They are those that were sent.
    pub intact: bool,
}

impl Back {
    fn of((bytes, sha256): (u64, Sha256Sum)) -> Self {
        Self {
            bytes,
            intact: SeededContent::of(bytes, BACK_SEED).sha256 == sha256,
        }
    }
}

impl EndpointPair {
    /// Starts both ends and waits until the FH's one listens. `holdfast` is our own
    /// binary, `number` the connection's among the exchange's flows.
    pub fn prepare(
        holdfast: &Path,
        topology: &Topology,
        exchange: &Exchange,
        number: u16,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        let (told, said) = mpsc::channel();
        let start =
            |side, ns| Endpoint::start(holdfast, ns, side, exchange.task(side, number), &told);
        let pair = Self {
            fh: start(Side::Fh, &topology.fh)?,
            mh: start(Side::Mh, &topology.mh)?,
            sender: exchange.direction.sender(),
            said,
        };
        drop(told);
        for _ in 0..2 {
            match pair.next(Instant::now() + READY_LIMIT, stop)? {
                Some((_, Said::Ready)) => {}
                Some((side, _)) => bail!("the endpoint at the {} ended", name(side)),
                None => bail!(
                    "an endpoint is not ready within {} s",
                    READY_LIMIT.as_secs()
                ),
            }
        }
        Ok(pair)
    }

    /// Begins at the time that `start` says, and waits for the end.
    ///
    /// # Errors
    /// An end died, or we are to stop. A connection that breaks is a result.
    pub fn run(
        mut self,
        start: EndpointStart,
        limit: Duration,
        stop: &StopFlag,
    ) -> anyhow::Result<Exchanged> {
        let deadline = Instant::now() + limit;
        for endpoint in [&mut self.fh, &mut self.mh] {
            let line = serde_json::to_string(&start)? + "\n";
            let input = endpoint
                .input
                .as_mut()
                .context("an endpoint has no input")?;
            input
                .write_all(line.as_bytes())
                .context("an endpoint cannot be started")?;
        }
        let mut ended = false;
        while !ended && self.take_report(deadline, stop)? {
            let broken = |report: &EndpointReport| report.error.is_some();
            ended = self.receiver().report.is_some()
                || self.sender().report.as_ref().is_some_and(broken);
        }
        // Whoever has not ended by now is told to.
        for endpoint in [&mut self.fh, &mut self.mh] {
            endpoint.input = None;
        }
        let deadline = Instant::now() + REPORT_LIMIT;
        while self.fh.report.is_none() || self.mh.report.is_none() {
            if !self.take_report(deadline, stop)? {
                bail!(
                    "an endpoint does not report within {} s",
                    REPORT_LIMIT.as_secs()
                );
            }
        }
        let receiver = self.receiver().report.take().unwrap_or_default();
        let sender = self.sender().report.take().unwrap_or_default();
        Ok(Exchanged {
            received: Received {
                arrivals: receiver
                    .arrivals
                    .into_iter()
                    .map(|(at_ns, bytes_total)| Arrival { at_ns, bytes_total })
                    .collect(),
                sha256: receiver.sha256,
            },
            ended,
            sender_error: sender.error,
            receiver_error: receiver.error,
            latencies_ns: receiver.latencies_ns,
            back: sender.back.map(Back::of),
            samples: sender.samples,
        })
    }

    /// Waits for a report; false if there is none until `deadline`.
    fn take_report(&mut self, deadline: Instant, stop: &StopFlag) -> anyhow::Result<bool> {
        let Some((side, said)) = self.next(deadline, stop)? else {
            return Ok(false);
        };
        let Said::Report(report) = said else {
            bail!("the endpoint at the {} ended", name(side));
        };
        self.of(side).report = Some(*report);
        Ok(true)
    }

    fn next(&self, deadline: Instant, stop: &StopFlag) -> anyhow::Result<Option<(Side, Said)>> {
        loop {
            stop.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left.min(POLL)) {
                // Its report is the last that an end has to say.
                Ok((side, Said::Silence)) if self.has_reported(side) => {}
                Ok(said) => return Ok(Some(said)),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("both endpoints ended"),
            }
        }
    }

    fn has_reported(&self, side: Side) -> bool {
        match side {
            Side::Fh => self.fh.report.is_some(),
            Side::Mh => self.mh.report.is_some(),
        }
    }

    fn of(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::Fh => &mut self.fh,
            Side::Mh => &mut self.mh,
        }
    }

    fn sender(&mut self) -> &mut Endpoint {
        self.of(self.sender)
    }

    fn receiver(&mut self) -> &mut Endpoint {
        self.of(self.sender.sends().toward())
    }
}

/// What an error calls an end.
const fn name(of: Side) -> &'static str {
    match of {
        Side::Fh => "FH",
        Side::Mh => "MH",
    }
}

impl Endpoint {
    fn start(
        holdfast: &Path,
        ns: &NetNs,
        side: Side,
        task: EndpointTask,
        told: &Sender<(Side, Said)>,
    ) -> anyhow::Result<Self> {
        let mut command = ns.command(holdfast);
        command.args(ENDPOINT_ARGUMENTS);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = ChildGuard::spawn(command)?;
        let pipes = child.child();
        let output = pipes.stdout.take().context("an endpoint has no output")?;
        let mut input = pipes.stdin.take().context("an endpoint has no input")?;
        let told = told.clone();
        thread::spawn(move || follow(output, side, &told));
        let task = serde_json::to_string(&task)? + "\n";
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

/// Passes on what an end says.
fn follow(output: ChildStdout, side: Side, told: &Sender<(Side, Said)>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let said = if line == READY {
            Said::Ready
        } else {
            serde_json::from_str(&line).map_or(Said::Silence, Said::Report)
        };
        // Nobody listens any more.
        if told.send((side, said)).is_err() {
            return;
        }
    }
    let _ = told.send((side, Said::Silence));
}
