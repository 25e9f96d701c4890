// SPDX-License-Identifier: Apache-2.0
//! The process of one end.

use std::io::{self, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_net::datapath::monotonic_ns;
use rustix::net::{self, AddressFamily, SocketType};

use super::series::{SampleTimes, SocketSampler};
use super::{EndpointReport, EndpointStart, READY, Task, conversation};

/// The longest time that a connection may take to end after its shutdown.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The open connection, for the thread that ends it early.
type Shared = Arc<Mutex<Option<TcpStream>>>;

/// Executes the task from the standard input, and reports on the standard output.
///
/// # Errors
/// There is no task, its address cannot be listened at, or the report cannot be written. A connection
/// that breaks is a report.
pub fn serve() -> anyhow::Result<()> {
    let task = next_line()?.context("standard input: no task")?;
    let task: Task = serde_json::from_str(&task).context("standard input: task")?;
    let at = task.fh_address();
    let listener = task
        .is_fh
        .then(|| TcpListener::bind(at).with_context(|| format!("{at}: cannot be listened at")))
        .transpose()?;
    println!("{READY}");
    let Some(start) = next_line()? else {
        return Ok(());
    };
    let start: EndpointStart = serde_json::from_str(&start).context("standard input: start")?;
    let shared = Shared::default();
    let (sender, events) = mpsc::channel();
    let (input_sender, work_shared) = (sender.clone(), Arc::clone(&shared));
    thread::spawn(move || {
        // An error: the process is ending.
        let _ = sender.send(Some(work(&task, listener, start, &work_shared)));
    });
    thread::spawn(move || watch_input(&input_sender));
    let report = match events.recv()? {
        Some(report) => report,
        None => shut_down(&shared)
            .and_then(|()| events.recv_timeout(END_LIMIT).ok().flatten())
            .unwrap_or_else(|| EndpointReport {
                error: Some("there was no connection".to_owned()),
                ..EndpointReport::default()
            }),
    };
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &report)?;
    output.write_all(b"\n")?;
    Ok(output.flush()?)
}

/// The next line of the standard input; none: it was closed.
fn next_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let len = io::stdin().read_line(&mut line)?;
    Ok((len > 0).then_some(line))
}

/// Sends `None` when the standard input is closed.
fn watch_input(sender: &Sender<Option<EndpointReport>>) {
    while matches!(next_line(), Ok(Some(_))) {}
    // An error: the report has been sent.
    let _ = sender.send(None);
}

/// Shuts the connection down; none: there is none.
fn shut_down(shared: &Shared) -> Option<()> {
    let stream = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
    // An error: the connection has ended already.
    let _ = stream?.shutdown(Shutdown::Both);
    Some(())
}

/// Opens the connection, and exchanges the bytes.
fn work(
    task: &Task,
    listener: Option<TcpListener>,
    start: EndpointStart,
    shared: &Shared,
) -> EndpointReport {
    let mut report = EndpointReport::default();
    let ended = open(task, listener, start).and_then(|stream| {
        let clone = stream.try_clone()?;
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(clone);
        if task.sends() {
            send(task, start, &stream, &mut report)
        } else {
            conversation::receive(&stream, &task.exchange, &mut report)
        }
    });
    report.error = ended.err().map(|error| format!("{error:#}"));
    report
}

fn open(
    task: &Task,
    listener: Option<TcpListener>,
    start: EndpointStart,
) -> anyhow::Result<TcpStream> {
    if let Some(listener) = listener {
        return Ok(listener.accept()?.0);
    }
    let to = task.fh_address();
    let Some(from) = task.second_mobile() else {
        sleep_until(start.begin_ns);
        return Ok(TcpStream::connect(to)?);
    };
    let family = match from {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = net::socket(family, SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddr::new(from, 0))?;
    sleep_until(start.begin_ns);
    net::connect(&socket, &to)?;
    Ok(socket.into())
}

fn sleep_until(at_ns: u64) {
    let left_ns = at_ns.saturating_sub(monotonic_ns());
    if left_ns > 0 {
        thread::sleep(Duration::from_nanos(left_ns));
    }
}

/// Sends all bytes, with a time series of the socket if requested.
fn send(
    task: &Task,
    start: EndpointStart,
    stream: &TcpStream,
    report: &mut EndpointReport,
) -> anyhow::Result<()> {
    let exchange = &task.exchange;
    let sampler = exchange
        .series_interval_ns
        .map(|interval_ns| {
            let times = SampleTimes {
                origin_ns: start.origin_ns,
                interval_ns,
            };
            SocketSampler::start(stream, times, !task.is_fh, exchange.bytes)
        })
        .transpose()?;
    let ended = conversation::send(stream, exchange, report);
    report.samples = sampler.map_or_else(Vec::new, SocketSampler::finish);
    ended
}
