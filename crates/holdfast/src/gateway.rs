// SPDX-License-Identifier: Apache-2.0
//! `holdfast gateway`: the daemon for the network side.
//!
//! Two threads, with `auto` three. The packet worker ([`worker`]) owns the data path and the engine and
//! does nothing but packets and deadlines; the control thread ([`control`]) does the
//! rest. They share nothing but a queue of [`command`](crate::command)s. With the scheme `keep` the
//! worker is another one ([`crate::keep`]). With `auto` there are both: the engine has TCP, `keep`
//! the rest.
//!
//! ```text
//!   hfd, hfu devices --- worker: read, judge (holdfast_core), write
//!                           ^ commands, an eventfd
//!   status socket ------+   |
//!   mobiles' signals ---+-- control (tokio, one thread)
//!   netlink, SIGTERM ---+
//! ```
//!
//! Leaving in good order takes nothing from the router: the programs stop taking, what
//! was taken is given back, then programs and devices go. When the process dies the
//! kernel does the last part, and a successor finds the flows' [`records`].

use std::io;

use anyhow::Context as _;
use holdfast_core::{Direction, FLOW_RECORD_LEN, FlowRecord};
use holdfast_net::datapath::{DataPath, Interface, PathOptions};
use holdfast_net::keep_path::{Peers, Protocols};
use holdfast_net::monitor::LinkMonitor;
use holdfast_net::state_file::HEADER_BYTES;
use tokio::task::JoinSet;

use crate::control::ControlListener;
use crate::runtime::{DaemonKind, InterfaceLock, RUNTIME_DIRECTORY, prepare_parent, random_bytes};
use crate::settings::{GatewayArgs, GatewaySettings, SchemeName};

pub(crate) mod check;
mod control;
mod emit;
pub(crate) mod engine;
pub(crate) mod packet;
mod records;
mod station;
mod took_over;
mod worker;
mod workers;

use crate::command::RunningWorker;
use control::{Channels, Control, Interfaces};
use records::Records;
use station::{HandoffReport, REPORTS_MAX, Station, StationEdge};
use worker::WorkerSettings;
use workers::Workers;

const CANNOT_TAKE: &str = "cannot take packets; see: holdfast gateway --check";

/// Runs `holdfast gateway`: the check, or the daemon until a signal stops it.
///
/// Errors: one line each, with what to do about it.
pub(crate) fn run(args: &GatewayArgs) -> anyhow::Result<()> {
    if args.check {
        return crate::check::report(&check::run(&args.settings()?));
    }
    // First: errors in the settings are logged, and no thread may wait for a reader of the log.
    crate::log::start(args.log_format)?;
    serve(args.settings()?)
}

fn serve(settings: GatewaySettings) -> anyhow::Result<()> {
    let _lock = InterfaceLock::take(DaemonKind::Gateway, &settings.wireless)?;
    let mut devices = Vec::new();
    let mut running = Vec::new();
    let (report, reports) = tokio::sync::mpsc::channel(REPORTS_MAX);
    // First: a wrong path leaves no state file.
    let socket = ControlListener::bind(settings.daemon.control_socket.as_ref())?;
    let records = match settings.daemon.scheme {
        // It remembers nothing that a successor needs.
        SchemeName::Keep => None,
        _ => Some(open_records(&settings)?),
    };
    let signals = open_signal_socket(&settings)?;
    if let Some(records) = records {
        let (worker, injector) = start_engine(&settings, records, report)?;
        devices.extend(injector);
        running.push(worker);
    }
    if let Some(protocols) = kept_protocols(settings.daemon.scheme) {
        let taken = (Peers::ByAddress, protocols);
        let worker = crate::keep::start(&settings.wireless, taken, settings.keep);
        running.push(worker.context(CANNOT_TAKE)?);
    }
    // After the devices came up, or their coming up would look like a change.
    let monitor = LinkMonitor::open().context("watching the wireless interface")?;
    let channels = Channels {
        listener: socket.try_clone()?,
        signals,
        monitor,
        reports,
    };
    for worker in &running {
        devices.extend(&worker.devices);
    }
    let interfaces = Interfaces {
        wireless: running[0].link_ifindex,
        devices,
    };
    let workers = Workers::of(&running)?;
    let control = Control::new(settings, workers, interfaces, running[0].data_path)?;
    run_control(control, channels, running)
}

/// What `keep` takes with this scheme, if it runs.
const fn kept_protocols(scheme: SchemeName) -> Option<Protocols> {
    match scheme {
        SchemeName::Keep => Some(Protocols::All),
        SchemeName::Auto => Some(Protocols::AllButTcp),
        _ => None,
    }
}

/// Attaches the data path for TCP and starts the engine's worker. With it goes the device of a base
/// station, where there are neighbours.
fn start_engine(
    settings: &GatewaySettings,
    (records, found): (Records, Vec<FlowRecord>),
    report: tokio::sync::mpsc::Sender<HandoffReport>,
) -> anyhow::Result<(RunningWorker, Option<u32>)> {
    let options = PathOptions {
        ahead_dscp: settings.core.resend_dscp,
        ..PathOptions::default()
    };
    let path = DataPath::attach_with(&settings.wireless, options).context(CANNOT_TAKE)?;
    let edge = match &settings.station {
        Some(station) => Some(StationEdge::open(
            station,
            u64::from_ne_bytes(random_bytes()?),
        )?),
        None => None,
    };
    announce(settings, &path, found.len());
    let injector = edge.as_ref().map(StationEdge::ifindex);
    let of_station = edge.zip(settings.station.clone());
    let station = || of_station.map(|(edge, settings)| Station::new(edge, settings, report));
    let worker = engine::start(path, worker_settings(settings)?, (records, found), station)?;
    Ok((worker, injector))
}

/// Runs the control thread until all workers are done.
fn run_control(
    control: Control,
    channels: Channels,
    running: Vec<RunningWorker>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut ends = JoinSet::new();
    let mut threads = Vec::new();
    for worker in running {
        ends.spawn_on(worker.done, runtime.handle());
        threads.push(worker.thread);
    }
    let result = tokio::task::LocalSet::new().block_on(&runtime, control.run(channels, ends));
    if result.is_ok() {
        for thread in threads {
            // The worker has reported its end.
            let _ = thread.join();
        }
        tracing::info!("gateway left");
    }
    result
}

/// Logs the start.
fn announce(settings: &GatewaySettings, path: &DataPath, found: usize) {
    tracing::info!(
        wireless = settings.wireless,
        scheme = settings.daemon.scheme.name(),
        data_path = engine::path_name(path),
        detaches_on_death = path.detaches_on_death(),
        device_down = path.device_name(Direction::Downlink),
        device_up = path.device_name(Direction::Uplink),
        flows_of_predecessor = found,
        "gateway starts"
    );
}

fn worker_settings(settings: &GatewaySettings) -> anyhow::Result<WorkerSettings> {
    let mut core = settings.core.clone();
    core.hash_seed = u64::from_ne_bytes(random_bytes()?);
    // A missing or strange one limits nothing: --check reports it.
    let wired = settings.daemon.wired.as_deref().map(Interface::query);
    Ok(WorkerSettings {
        core,
        drain: settings.daemon.drain,
        wired_mtu: wired.and_then(Result::ok).map(|wired| wired.mtu),
        resend_dscp: settings.core.resend_dscp,
    })
}

/// The records, what a predecessor left, and whether all that is in a file.
///
/// Errors: one line. A file that cannot be opened, or belongs to another program, is a wrong setting.
/// A full file system is none: without the gateway each outage costs more than a restart
/// without records does, so the gateway serves, logs it, and acknowledges nothing ahead.
fn open_records(settings: &GatewaySettings) -> anyhow::Result<(Records, Vec<FlowRecord>)> {
    let path = std::path::Path::new(&settings.daemon.state_file);
    let shown = path.display();
    let remedy = "make it, or name another path with --state-file";
    prepare_parent(path, RUNTIME_DIRECTORY, remedy)?;
    let opened = Records::open(path, settings.core.flows_max);
    let (records, found, full) = opened.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            anyhow::anyhow!("{shown}: another gateway has it open; name another with --state-file")
        }
        _ => anyhow::anyhow!("{shown}: {error}; name another with --state-file"),
    })?;
    if let Some(error) = full {
        let bytes = HEADER_BYTES + settings.core.flows_max * FLOW_RECORD_LEN;
        tracing::error!(
            "{shown}: {error}; the gateway runs without its state file, and a restart loses what it \
             knows of the flows; free {} KiB there, or set a smaller flows_max, and restart",
            bytes.div_ceil(1024)
        );
    }
    Ok((records, found))
}

fn open_signal_socket(settings: &GatewaySettings) -> anyhow::Result<Option<std::net::UdpSocket>> {
    if settings.mobiles.is_empty() {
        return Ok(None);
    }
    let listen = settings.signals.listen;
    let socket = std::net::UdpSocket::bind(listen).with_context(|| {
        format!("{listen}: cannot receive the mobiles' signals; name another with --signal-listen")
    })?;
    socket.set_nonblocking(true)?;
    Ok(Some(socket))
}
