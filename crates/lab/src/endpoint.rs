// SPDX-License-Identifier: Apache-2.0
//! The lab's own end of a transfer: a process that holds one TCP socket of its host's
//! kernel, and sends or takes seeded bytes with as few system calls as it can.
//!
//! The MH's end opens the connection. An end that sends closes when it has sent all;
//! the one that receives then does, too. No end waits for the clock by computing: in
//! virtual time that would never end.
//!
//! ```text
//!   standard input                          standard output
//!   the task, a line of JSON
//!                                           ready
//!   when to begin, a line of JSON
//!                                           the report, a line of JSON
//! ```
//!
//! The report comes when the connection has ended, or soon after the end of the
//! standard input, with what there is until then. [`pair`] is the other side of it.

mod conversation;
pub mod pair;
mod series;

use std::io::{self, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use holdfast_net::datapath::monotonic_ns;
use rustix::net::{self, AddressFamily, SocketType};
use serde::{Deserialize, Serialize};

use holdfast_testbed::seeded_file::Sha256Sum;
use series::{Grid, SocketSample, SocketSampler};

pub use series::SocketSample as Sample;

/// How our own binary is started as an endpoint; its command line must lead to
/// [`serve`].
pub const ENDPOINT_ARGUMENTS: [&str; 2] = ["lab", "endpoint"];

/// What it says when it is ready for its start.
const READY: &str = "ready";
/// How long a connection may take to end once it was shut down.
const END_LIMIT: Duration = Duration::from_secs(5);

/// What one end is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointTask {
    /// How it comes to its connection.
    pub opening: Opening,
    /// What it does then.
    pub work: Work,
}

/// How an end comes to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opening {
    /// It listens at this address and takes the first one.
    Listen(SocketAddr),
    /// It opens one to this address.
    Connect(SocketAddr),
    /// It opens one to the first address, from the second.
    ConnectFrom(SocketAddr, IpAddr),
}

/// What an end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Sends.
    Send {
        /// How many bytes.
        bytes: u64,
        /// Of which seed.
        seed: u64,
        /// How many bytes it waits for before each part.
        after_bytes: u64,
        /// In so many equal parts.
        parts: u32,
        /// How many bytes it takes from the other end meanwhile.
        back_bytes: u64,
        /// Distance of the points of a time series of its socket, nanoseconds.
        series_interval_ns: Option<u64>,
    },
    /// Receives until the other end closes.
    Receive {
        /// How many bytes it sends before; none: it waits.
        request_bytes: u64,
        /// More than one: so often, with an answer after each.
        requests: u32,
        /// Bytes of each answer, if there are several.
        answer_bytes: u64,
        /// From an answer to the next request, nanoseconds.
        think_ns: u64,
        /// How many bytes it sends meanwhile.
        back_bytes: u64,
    },
}

/// When to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointStart {
    /// Time zero of the links and of time series, CLOCK_MONOTONIC.
    pub origin_ns: u64,
    /// When the connection is to be opened.
    pub begin_ns: u64,
}

/// What an end tells of its connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// What it received, when: pairs of CLOCK_MONOTONIC in nanoseconds and all bytes so
    /// far.
    pub arrivals: Vec<(u64, u64)>,
    /// The SHA-256 of it.
    pub sha256: Sha256Sum,
    /// From each request to its answer's last byte, nanoseconds.
    pub latencies_ns: Vec<u64>,
    /// What came to the end that sends: bytes and their SHA-256; none: nothing was to come.
    pub back: Option<(u64, Sha256Sum)>,
    /// The series of its socket, if it was asked for.
    pub samples: Vec<SocketSample>,
    /// What broke the connection; none: it ended as it should.
    pub error: Option<String>,
}

/// Does what the standard input says and reports on the standard output.
///
/// # Errors
/// The task makes no sense, its address cannot be listened at, or nobody reads. That the
/// connection breaks is a report.
pub fn serve() -> anyhow::Result<()> {
    let task = next_line()?.context("standard input: no task")?;
    let task: EndpointTask = serde_json::from_str(&task).context("standard input: task")?;
    let listener = match task.opening {
        Opening::Connect(_) | Opening::ConnectFrom(..) => None,
        Opening::Listen(at) => {
            Some(TcpListener::bind(at).with_context(|| format!("{at}: cannot be listened at"))?)
        }
    };
    println!("{READY}");
    // Without a start there is nothing to do and nothing to tell.
    let Some(start) = next_line()? else {
        return Ok(());
    };
    let start: EndpointStart = serde_json::from_str(&start).context("standard input: start")?;
    let connection = Arc::new(Mutex::new(None));
    let (told, events) = mpsc::channel();
    let (input_told, shared) = (told.clone(), Arc::clone(&connection));
    thread::spawn(move || {
        let report = work(&task, listener, start, &shared);
        // Nobody waits for it any more.
        let _ = told.send(Some(report));
    });
    thread::spawn(move || watch_input(&input_told));
    let report = match events.recv()? {
        Some(report) => report,
        None => end_early(&connection, || {
            events.recv_timeout(END_LIMIT).ok().flatten()
        }),
    };
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &report)?;
    output.write_all(b"\n")?;
    Ok(output.flush()?)
}

/// The next line of the standard input; none: it is over.
fn next_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let len = io::stdin().read_line(&mut line)?;
    Ok((len > 0).then_some(line))
}

/// Tells when the standard input is over.
fn watch_input(told: &Sender<Option<EndpointReport>>) {
    while matches!(next_line(), Ok(Some(_))) {}
    // An error: the report is on its way.
    let _ = told.send(None);
}

/// Ends the connection, if there is one; what there is to report then.
fn end_early(
    connection: &Mutex<Option<TcpStream>>,
    report: impl FnOnce() -> Option<EndpointReport>,
) -> EndpointReport {
    let open = connection
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let ended = open.and_then(|stream| {
        // An error: it has ended by itself.
        let _ = stream.shutdown(Shutdown::Both);
        report()
    });
    ended.unwrap_or_else(|| EndpointReport {
        error: Some("there was no connection".to_owned()),
        ..EndpointReport::default()
    })
}

/// Opens the connection and does the work on it.
fn work(
    task: &EndpointTask,
    listener: Option<TcpListener>,
    start: EndpointStart,
    shared: &Mutex<Option<TcpStream>>,
) -> EndpointReport {
    let mut report = EndpointReport::default();
    let ended = open(task.opening, listener, start)
        .and_then(|stream| {
            let clone = stream.try_clone()?;
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(clone);
            Ok(stream)
        })
        .map_err(anyhow::Error::from)
        .and_then(|stream| match task.work {
            Work::Send { .. } => send(task, start, &stream, &mut report),
            Work::Receive { .. } => conversation::receive(&stream, task.work, &mut report),
        });
    report.error = ended.err().map(|error| format!("{error:#}"));
    report
}

fn open(
    opening: Opening,
    listener: Option<TcpListener>,
    start: EndpointStart,
) -> io::Result<TcpStream> {
    match (opening, listener) {
        (Opening::Listen(_), Some(listener)) => Ok(listener.accept()?.0),
        (Opening::Connect(to), _) | (Opening::Listen(to), None) => {
            sleep_until(start.begin_ns);
            TcpStream::connect(to)
        }
        (Opening::ConnectFrom(to, from), _) => {
            let socket = net::socket(family(from), SocketType::STREAM, None)?;
            net::bind(&socket, &SocketAddr::new(from, 0))?;
            sleep_until(start.begin_ns);
            net::connect(&socket, &to)?;
            Ok(socket.into())
        }
    }
}

const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    }
}

fn sleep_until(at_ns: u64) {
    let left_ns = at_ns.saturating_sub(monotonic_ns());
    if left_ns > 0 {
        thread::sleep(Duration::from_nanos(left_ns));
    }
}

/// Sends all, closes, and waits for the other end to close.
fn send(
    task: &EndpointTask,
    start: EndpointStart,
    stream: &TcpStream,
    report: &mut EndpointReport,
) -> anyhow::Result<()> {
    let Work::Send {
        bytes,
        series_interval_ns,
        ..
    } = task.work
    else {
        return Err(anyhow!("only an end that sends can send"));
    };
    let sampler = series_interval_ns
        .map(|interval_ns| {
            let grid = Grid {
                origin_ns: start.origin_ns,
                interval_ns,
            };
            let opens = !matches!(task.opening, Opening::Listen(_));
            SocketSampler::start(stream, grid, opens, bytes)
        })
        .transpose()?;
    let ended = conversation::send(stream, task.work, report);
    report.samples = sampler.map_or_else(Vec::new, SocketSampler::finish);
    ended
}
