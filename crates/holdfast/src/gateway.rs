// SPDX-License-Identifier: Apache-2.0
//! `holdfast gateway`: the daemon for the network side.
//!
//! Two threads, with `auto` three. The packet worker ([`worker`]) owns the data path and the engine and
//! handles nothing but packets and deadlines. The control thread ([`control`]) does the
//! rest. They share only a queue of [`command`](crate::command)s. Scheme `keep` has another
//! worker ([`crate::keep`]). Scheme `auto` has both: the engine serves TCP, `keep`
//! the other protocols.
//!
//! ```text
//!   hfd, hfu devices --- worker: read, judge (holdfast_core), write
//!                           ^ commands, an eventfd
//!   status socket ------+   |
//!   mobiles' signals ---+-- control (tokio, one thread)
//!   netlink, SIGTERM ---+
//! ```
//!
//! An orderly exit loses no packet: the programs stop taking packets, the worker sends those that
//! were taken, then programs and devices are removed. If the process dies, the
//! kernel removes them, and a successor finds the flows' [`records`].

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use anyhow::Context as _;
use holdfast_core::{Direction, FLOW_RECORD_LEN, FlowRecord};
use holdfast_net::datapath::{DataPath, Interface, PathOptions};
use holdfast_net::keep_path::{Peers, Protocols};
use holdfast_net::monitor::LinkMonitor;
use holdfast_net::replies;
use holdfast_net::state_file::HEADER_BYTES;

use crate::check::report_findings;
use crate::control::{CONTROL_SOCKET_FLAG, ControlListener};
use crate::counters::by_name;
use crate::outages::{OutageSender, QUEUED_MAX};
use crate::runtime::{DaemonKind, InterfaceLock, RUNTIME_DIRECTORY, prepare_parent, random_bytes};
use crate::settings::{GatewayArgs, GatewaySettings, SchemeName};
use crate::{broker, interface, keep, listen, log, metrics, web};

pub(crate) mod check;
mod control;
pub(crate) mod counters;
mod emit;
pub(crate) mod engine;
mod links;
pub(crate) mod packet;
mod records;
mod reload;
mod station;
mod took_over;
mod worker;
mod worker_status;

use crate::command::RunningWorker;
use control::{Channels, Control};
use links::WirelessLink;
use records::Records;
use station::{HandoffReport, REPORTS_MAX, Station, StationEdge};
use worker::WorkerSettings;

const CANNOT_TAKE: &str = "cannot take packets; see: the same command with --check";

/// Runs `holdfast gateway`: the check, or the daemon until a signal stops it.
///
/// Errors: one line each, with what to do about it.
pub(crate) fn run(args: &GatewayArgs) -> anyhow::Result<()> {
    if args.check {
        return report_findings(&check::run(&args.settings()?));
    }
    // The log starts first: it reports errors in the settings, and no thread may wait for its reader.
    log::start(args.log_format)?;
    let settings = args.settings()?;
    log::set_filter(settings.daemon.log_filter.as_deref());
    // The broker starts before any thread that reads packets.
    let moves_routes = settings
        .station
        .as_ref()
        .is_some_and(|station| station.took_over_command.is_some());
    broker::start(DaemonKind::Gateway, &settings.wireless, moves_routes)?;
    serve(args.clone(), settings)
}

fn serve(args: GatewayArgs, settings: GatewaySettings) -> anyhow::Result<()> {
    settings
        .wireless
        .iter()
        .try_for_each(|name| interface::check_name(name))?;
    let locks = settings.wireless.iter();
    let locks = locks.map(|wireless| InterfaceLock::take(DaemonKind::Gateway, wireless));
    let _locks: Vec<_> = locks.collect::<anyhow::Result<_>>()?;
    let control_socket = settings.daemon.control_socket.as_ref();
    // Bound before the state file is made: a wrong path leaves no state file.
    let socket = ControlListener::bind(control_socket, CONTROL_SOCKET_FLAG)?;
    let _metrics = metrics::serve(
        &settings.metrics,
        control_socket,
        by_name(counters::groups()),
    )?;
    let _page = web::serve(&settings.web, control_socket)?;
    let signals = open_signal_socket(&settings)?;
    let (report, reports) = tokio::sync::mpsc::channel(REPORTS_MAX);
    let (outage, outages) = tokio::sync::mpsc::channel(QUEUED_MAX);
    let wireless = settings.wireless.clone();
    let settings = Rc::new(RefCell::new(settings));
    let links = wireless.into_iter().map(|wireless| {
        let starter = Starter {
            wireless: wireless.clone(),
            settings: Rc::clone(&settings),
            report: report.clone(),
            outages: outage.clone(),
        };
        WirelessLink::open(&wireless, starter)
    });
    let links = links.collect::<anyhow::Result<_>>()?;
    // Opened after the daemon's devices came up: otherwise it would report them as changes.
    let monitor = LinkMonitor::open().context("watching the wireless interface")?;
    let channels = Channels {
        listener: socket.try_clone()?,
        signals,
        monitor,
        reports,
        outages,
    };
    let control = Control::new(args, settings, links)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio::task::LocalSet::new().block_on(&runtime, control.run(channels))
}

/// The current settings: a reload replaces them.
type SharedSettings = Rc<RefCell<GatewaySettings>>;

/// Starts the packet workers of a wireless interface.
struct Starter {
    wireless: String,
    settings: SharedSettings,
    report: tokio::sync::mpsc::Sender<HandoffReport>,
    outages: OutageSender,
}

impl Starter {
    /// Errors: the packets of the interface cannot be taken; the state file. One line.
    fn start(&self, running: &mut Vec<RunningWorker>) -> anyhow::Result<()> {
        let settings = self.settings.borrow();
        if let Some(records) = self.open_records()? {
            let (report, outages) = (self.report.clone(), self.outages.clone());
            running.push(start_engine(
                &self.wireless,
                &settings,
                records,
                report,
                outages,
            )?);
        }
        if let Some(protocols) = kept_protocols(settings.daemon.scheme) {
            let taken = (Peers::ByAddress, protocols);
            let outages = self.outages.clone();
            let worker = keep::start(&self.wireless, taken, settings.keep, outages);
            running.push(worker.context(CANNOT_TAKE)?);
        }
        Ok(())
    }

    /// The records for the engine, if it runs: `keep` remembers nothing that a successor needs.
    fn open_records(&self) -> anyhow::Result<Option<(Records, Vec<FlowRecord>)>> {
        let settings = self.settings.borrow();
        let needs_records = settings.daemon.scheme != SchemeName::Keep;
        let open = || open_records(&settings, &settings.state_file(&self.wireless));
        needs_records.then(open).transpose()
    }
}

/// The protocols that `keep` takes with this scheme, if it runs.
const fn kept_protocols(scheme: SchemeName) -> Option<Protocols> {
    match scheme {
        SchemeName::Keep => Some(Protocols::All),
        SchemeName::Auto => Some(Protocols::AllButTcp),
        _ => None,
    }
}

/// Attaches the data path for TCP and starts the engine's worker. If there are neighbours, also opens
/// the device of a base station.
fn start_engine(
    wireless: &str,
    settings: &GatewaySettings,
    (records, found): (Records, Vec<FlowRecord>),
    report: tokio::sync::mpsc::Sender<HandoffReport>,
    outages: OutageSender,
) -> anyhow::Result<RunningWorker> {
    let options = PathOptions {
        ahead_dscp: settings.core.resend_dscp,
        ..PathOptions::default()
    };
    let path = DataPath::attach_with(wireless, options).context(CANNOT_TAKE)?;
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
    let worker_settings = worker_settings(settings, outages)?;
    let mut worker = engine::start(path, worker_settings, (records, found), station)?;
    worker.injector = injector;
    Ok(worker)
}

/// Logs the start.
fn announce(settings: &GatewaySettings, path: &DataPath, found: usize) {
    tracing::info!(
        wireless = path.interface().name,
        scheme = settings.daemon.scheme.name(),
        data_path = worker::path_name(path),
        detaches_on_death = path.detaches_on_death(),
        device_down = path.device_name(Direction::Downlink),
        device_up = path.device_name(Direction::Uplink),
        flows_of_predecessor = found,
        "gateway starts"
    );
}

fn worker_settings(
    settings: &GatewaySettings,
    outages: OutageSender,
) -> anyhow::Result<WorkerSettings> {
    let mut core = settings.core.clone();
    core.hash_seed = u64::from_ne_bytes(random_bytes()?);
    // A missing or unsupported wired interface sets no limit: --check reports it.
    let wired = settings.daemon.wired.as_deref().map(Interface::query);
    Ok(WorkerSettings {
        core,
        drain: settings.daemon.drain,
        wired_mtu: wired.and_then(Result::ok).map(|wired| wired.mtu),
        resend_dscp: settings.core.resend_dscp,
        outages,
    })
}

/// Opens the records; also returns those that a predecessor left.
///
/// Errors: one line. A file that cannot be opened, or belongs to another program, is a wrong setting.
/// A full file system is no error: without the gateway each outage costs more than a restart
/// without records. The gateway then runs, logs the error, and acknowledges nothing ahead.
fn open_records(
    settings: &GatewaySettings,
    path: &Path,
) -> anyhow::Result<(Records, Vec<FlowRecord>)> {
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
    let socket = listen::udp(listen).with_context(|| {
        format!("{listen}: cannot receive the mobiles' signals; name another with --signal-listen")
    })?;
    replies::note_arrivals(&socket)?;
    socket.set_nonblocking(true)?;
    Ok(Some(socket))
}
