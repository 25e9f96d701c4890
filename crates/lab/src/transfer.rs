// SPDX-License-Identifier: Apache-2.0
//! One transfer over one link, plain or through a gateway, and its measurement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_core::Direction;
use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use holdfast_testbed::appointed::{Appointed, sleep_until};
use holdfast_testbed::counters::{TcpCounters, TimerCounts};
use holdfast_testbed::daemons::{Daemon, status_at};
use holdfast_testbed::download::DownloadWatch;
use holdfast_testbed::link_process::{EmulatedLink, LinkEnd, LinkProcess};
use holdfast_testbed::peers::HaProxy;
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{HostTuning, Topology};

use crate::cross_traffic::{DatagramStream, RunningStream};
use crate::endpoint::{Exchange, FlowResult};
use crate::movement;
use crate::own_flows::{self, Announced, OwnFlows};
use crate::results::DatagramFigures;
use crate::scenario::Move;
use crate::stall;
use application::ReadyApplication;

mod application;
mod parts;

/// The name of the file that is served.
pub const FILE_NAME: &str = "holdfast.bin";
/// The time between two queries of the base stations' buffers.
const BUFFERS_INTERVAL: Duration = Duration::from_millis(20);

/// What runs at the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Middle {
    /// The kernel's forwarding alone.
    Plain,
    /// `holdfast gateway` with this scheme.
    Gateway {
        /// The value of `--scheme`.
        scheme: String,
        /// Whether `holdfast mobile` runs at the MH. ([`EmulatedLink::carrier_follows`] decides on
        /// the carrier.)
        mobile_signals: bool,
    },
    /// HAProxy as a transparent split proxy.
    HaProxy,
}

/// The transport of the bytes of a [`Stream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The kernel's TCP.
    Tcp,
    /// QUIC by the library quinn.
    Quic,
}

/// One stream of seeded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The transport protocol.
    pub protocol: Protocol,
    /// The direction of the bytes.
    pub direction: Direction,
    /// Number of bytes.
    pub bytes: u64,
    /// The seed of the bytes.
    pub seed: u64,
}

/// The programs that send and receive.
#[derive(Clone, Copy, Debug)]
pub enum Application {
    /// nginx serves [`FILE_NAME`] of this size, curl downloads it.
    Web(u64),
    /// One stream between two sockets.
    Stream(Stream),
    /// The lab's own ends.
    Endpoints(Exchange),
}

impl Application {
    fn direction(&self) -> Direction {
        match self {
            Self::Web(_) => Direction::Downlink,
            Self::Stream(stream) => stream.direction,
            Self::Endpoints(exchange) => exchange.direction.into(),
        }
    }

    /// Bytes of each connection.
    fn bytes(&self) -> u64 {
        match self {
            Self::Web(bytes) => *bytes,
            Self::Stream(stream) => stream.bytes,
            Self::Endpoints(exchange) => exchange.bytes,
        }
    }
}

/// The settings of a transfer.
#[derive(Clone, Debug)]
pub struct TransferSettings {
    /// Our own binary.
    pub holdfast: PathBuf,
    /// What runs at the gateway.
    pub middle: Middle,
    /// The link between gateway and MH, as the MH sees it.
    pub link: EmulatedLink,
    /// The sender's congestion control.
    pub congestion_control: String,
    /// The longest time from the links' start to the transfer's end.
    pub limit: Duration,
    /// The programs that send and receive.
    pub application: Application,
    /// The emulated link between FH and gateway; none: there is none.
    pub wired: Option<EmulatedLink>,
    /// The link of each cell if there are several; it has outages while the MH is elsewhere. Empty:
    /// the only link is `link`.
    pub cells: Vec<EmulatedLink>,
    /// The moves of the MH from cell to cell.
    pub moves: Vec<Move>,
    /// The lines of the base stations' `[handoff]` section; none: there are no handoffs between
    /// them.
    pub handoff: Option<String>,
    /// The FH's own settings.
    pub fh: HostTuning,
    /// The MH's own settings.
    pub mh: HostTuning,
    /// More lines of the gateway's settings file.
    pub gateway_settings: String,
    /// Time from the start of the links' clocks to the transfer's begin.
    pub start_after: Duration,
    /// The streams of other traffic.
    pub cross_traffic: Vec<DatagramStream>,
    /// The work of the MH's daemon for its own flows; none: it has none.
    pub own_flows: Option<OwnFlows>,
}

impl TransferSettings {
    /// A transfer without additional settings.
    pub fn new(
        holdfast: &Path,
        middle: Middle,
        link: EmulatedLink,
        application: Application,
    ) -> Self {
        Self {
            holdfast: holdfast.to_owned(),
            middle,
            link,
            congestion_control: "cubic".to_owned(),
            limit: Duration::from_secs(60),
            application,
            wired: None,
            cells: Vec::new(),
            moves: Vec::new(),
            handoff: None,
            fh: HostTuning::default(),
            mh: HostTuning::default(),
            gateway_settings: String::new(),
            start_after: Duration::ZERO,
            cross_traffic: Vec::new(),
            own_flows: None,
        }
    }
}

/// The parts of a transfer that other threads can watch.
#[derive(Debug, Default)]
pub struct TransferWatch {
    /// The progress of the download.
    pub download: DownloadWatch,
    origin_ns: AtomicU64,
}

impl TransferWatch {
    /// Time zero of the links, CLOCK_MONOTONIC; none before the start.
    pub fn origin_ns(&self) -> Option<u64> {
        let origin_ns = self.origin_ns.load(Ordering::Relaxed);
        (origin_ns > 0).then_some(origin_ns)
    }
}

/// The measurement of a transfer. Times are CLOCK_MONOTONIC.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Its connections: one or more.
    pub flows: Vec<FlowResult>,
    /// Number of bytes of each connection.
    pub bytes: u64,
    /// Time zero of the links.
    pub origin_ns: u64,
    /// When the transfer began.
    pub started_ns: u64,
    /// When the transfer ended, or was given up.
    pub ended_ns: u64,
    /// Segments that the sender retransmitted, by the kernel's counter; with QUIC, packets that the
    /// sender declared lost.
    pub retransmitted_segments: u64,
    /// Segments that the sender's host sent for the first time, by the kernel's counter.
    pub segments: u64,
    /// Segments that the receiver got again and reported by D-SACK (RFC 2883).
    pub duplicate_segments: u64,
    /// Packets that the sender's host sent because of its timers.
    pub sender_timers: TimerCounts,
    /// The report of the wireless link.
    pub link: LinkEnd,
    /// The figures of other traffic.
    pub cross_traffic: Vec<DatagramFigures>,
    /// The most bytes at a time that the base stations buffered for the MH; none: there are no
    /// handoffs.
    pub buffered_bytes_max: Option<u64>,
    /// The counters of the MH's daemon for own flows, if it has work for them.
    pub own_flows: Option<BTreeMap<String, u64>>,
}

impl Measurement {
    /// Whether all bytes of a connection arrived in time.
    pub fn is_complete(&self, flow: &FlowResult) -> bool {
        flow.is_whole && flow.received.bytes() == self.bytes
    }

    /// Time from the transfer's begin to the last byte that arrived, in seconds.
    pub fn last_byte_s(&self, flow: &FlowResult) -> f64 {
        let last = flow.received.arrivals.last();
        let last_ns = last.map_or(self.started_ns, |arrival| arrival.at_ns);
        last_ns.saturating_sub(self.started_ns) as f64 / 1e9
    }

    /// Seconds since the links' time zero.
    pub fn since_s(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.origin_ns) as f64 / 1e9
    }

    /// For each outage that overlapped the transfer: time from link up to the first new byte of the
    /// connection, in seconds; none: no new byte came before the next outage.
    pub fn stalls_s(&self, flow: &FlowResult, outages: &[OutageAt]) -> Vec<Option<f64>> {
        stall::stalls_s(outages, self.between_s(flow), |from_s, until_s| {
            let from_ns = self.origin_ns + (from_s * 1e9) as u64;
            let at_s = self.since_s(flow.received.first_from(from_ns)?.at_ns);
            (at_s < until_s).then_some(at_s)
        })
    }

    /// The begin and the end of a flow's transfer, since the start of the links' clocks.
    pub(crate) fn between_s(&self, flow: &FlowResult) -> [f64; 2] {
        let last = flow.received.arrivals.last();
        let last = last.filter(|_| self.is_complete(flow));
        let end_ns = last.map_or(self.ended_ns, |arrival| arrival.at_ns);
        [self.since_s(self.started_ns), self.since_s(end_ns)]
    }
}

/// The threads that work during a transfer.
struct Beside {
    moving: Option<Appointed<()>>,
    announcer: Option<Appointed<Announced>>,
    buffers: Option<Appointed<u64>>,
}

/// A transfer that is prepared.
#[derive(Debug)]
pub struct PreparedTransfer {
    // The fields are in the order in which they have to end.
    application: Option<ReadyApplication>,
    mobile: Option<Daemon>,
    /// The gateway of each cell, if gateways run.
    gateways: Vec<Daemon>,
    _proxy: Option<HaProxy>,
    topology: Topology,
    settings: TransferSettings,
}

impl PreparedTransfer {
    /// Builds namespaces and links, and starts daemons and applications. `folder` must exist, and
    /// belongs to this transfer. `files` contains [`FILE_NAME`] for a download by HTTP.
    pub fn prepare(
        settings: &TransferSettings,
        folder: &Path,
        files: &Path,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        let topology = Topology::build(&parts::topology(settings))?;
        let (gateways, mobile) = parts::daemons(settings, &topology, folder, stop)?;
        let control = &settings.congestion_control;
        let proxy = (settings.middle == Middle::HaProxy)
            .then(|| HaProxy::start(&topology, folder, control, stop))
            .transpose()?;
        let application = ReadyApplication::prepare(settings, &topology, folder, files, stop)?;
        Ok(Self {
            application: Some(application),
            mobile,
            gateways,
            _proxy: proxy,
            topology,
            settings: settings.clone(),
        })
    }

    /// The MH's namespace.
    pub fn mobile_namespace(&self) -> NetNs {
        self.topology.mh.clone()
    }

    /// Executes the transfer. It begins [`TransferSettings::start_after`] after the start of the
    /// links' clocks.
    pub fn measure(
        mut self,
        watch: &TransferWatch,
        stop: &StopFlag,
    ) -> anyhow::Result<Measurement> {
        let application = self.application.take();
        let application = application.context("the transfer was carried out before")?;
        let (retransmitted_before, before) = (self.retransmitted()?, self.counters()?);
        let origin_ns = self.start_links()?;
        let settings = &self.settings;
        let streams = settings.cross_traffic.iter();
        let streams: Vec<RunningStream> = streams
            .map(|stream| stream.start(&self.topology, origin_ns))
            .collect::<anyhow::Result<_>>()?;
        let beside = self.set_out(origin_ns)?;
        let started_ns = origin_ns + settings.start_after.as_nanos() as u64;
        watch.origin_ns.store(origin_ns, Ordering::Relaxed);
        let times = (origin_ns, started_ns);
        let flows = application.run(settings, &self.topology, times, watch, stop)?;
        let ended_ns = monotonic_ns();
        let cross_traffic = streams
            .into_iter()
            .map(RunningStream::finish)
            .collect::<anyhow::Result<_>>()?;
        beside.moving.map_or(Ok(()), Appointed::finish)?;
        let announced = beside.announcer.map(Appointed::finish).transpose()?;
        let buffered_bytes_max = beside.buffers.map(Appointed::finish).transpose()?;
        let retransmitted_segments = match flows[0].lost_packets {
            Some(lost) => lost,
            None => self.retransmitted()? - retransmitted_before,
        };
        let after = self.counters()?;
        Ok(Measurement {
            flows,
            bytes: self.settings.application.bytes(),
            origin_ns,
            started_ns,
            ended_ns,
            retransmitted_segments,
            segments: after.0.segments - before.0.segments,
            duplicate_segments: after.1.duplicates_reported - before.1.duplicates_reported,
            sender_timers: after.0.timers.since(before.0.timers),
            own_flows: self.own_flows(announced)?,
            link: self.end()?,
            cross_traffic,
            buffered_bytes_max,
        })
    }

    /// Starts the threads that work during the transfer: the MH's moves, reports about its link,
    /// and queries of the base stations' buffers.
    fn set_out(&self, origin_ns: u64) -> anyhow::Result<Beside> {
        let settings = &self.settings;
        let daemon = self.mobile.as_ref().map(Daemon::socket);
        let hands_over = settings.handoff.is_some();
        let moving = (!settings.moves.is_empty()).then(|| {
            let routes = (settings.congestion_control.as_str(), &settings.mh);
            let socket = daemon.filter(|_| hands_over);
            movement::set_out(&self.topology, &settings.moves, routes, socket, origin_ns)
        });
        let own_flows = settings.own_flows.as_ref().zip(daemon);
        Ok(Beside {
            moving: moving.transpose()?,
            announcer: own_flows.map(|(own, to)| own_flows::announce(&own.reports, to, origin_ns)),
            buffers: hands_over.then(|| watch_buffers(&self.gateways)),
        })
    }

    /// The daemon's counters for own flows, and the number of warnings that it got.
    fn own_flows(
        &self,
        announced: Option<Announced>,
    ) -> anyhow::Result<Option<BTreeMap<String, u64>>> {
        let (Some(daemon), Some(announced)) = (&self.mobile, announced) else {
            return Ok(None);
        };
        let mut counters = own_flows::counters(daemon)?;
        counters.insert("announced".to_owned(), announced.given);
        counters.insert("not_given".to_owned(), announced.not_given);
        Ok(Some(counters))
    }

    /// Starts the clocks of all links at the same moment, and returns that moment.
    fn start_links(&mut self) -> anyhow::Result<u64> {
        let origin_ns = monotonic_ns();
        let topology = &mut self.topology;
        for cell in &mut topology.cells {
            let link = cell.link.as_mut();
            link.context("a transfer needs an emulated link")?
                .start_clock(origin_ns)?;
        }
        if let Some(wired) = &mut topology.wired_link {
            wired.start_clock(origin_ns)?;
        }
        Ok(origin_ns)
    }

    /// The host that sends the bytes, and the one that receives them.
    fn hosts(&self) -> [&NetNs; 2] {
        match self.settings.application.direction() {
            Direction::Downlink => [&self.topology.fh, &self.topology.mh],
            Direction::Uplink => [&self.topology.mh, &self.topology.fh],
        }
    }

    /// The counters of the sender's kernel, and of the receiver's.
    fn counters(&self) -> anyhow::Result<(TcpCounters, TcpCounters)> {
        let [sender, receiver] = self.hosts();
        Ok((TcpCounters::read(sender)?, TcpCounters::read(receiver)?))
    }

    /// Segments that the sender and the gateway have retransmitted so far. A split proxy at the
    /// gateway has TCP of its own; other gateways have none.
    fn retransmitted(&self) -> anyhow::Result<u64> {
        let gateways = self.topology.cells.iter().map(|cell| &cell.gateway);
        std::iter::once(self.hosts()[0])
            .chain(gateways)
            .map(|ns| Ok(TcpCounters::read(ns)?.retransmitted_segments))
            .sum()
    }

    /// Ends daemons and links as an operator would, and returns the report of the wireless link.
    /// Error: one of them does not end.
    fn end(&mut self) -> anyhow::Result<LinkEnd> {
        for daemon in self.mobile.iter_mut().chain(&mut self.gateways) {
            daemon.stop()?;
        }
        // Links end after the gateways: a gateway would report the loss of its interface as an
        // error.
        let topology = &mut self.topology;
        if let Some(wired) = topology.wired_link.take() {
            wired.end()?;
        }
        let links = topology
            .cells
            .iter_mut()
            .filter_map(|cell| cell.link.take());
        let ends: Vec<LinkEnd> = links.map(LinkProcess::end).collect::<anyhow::Result<_>>()?;
        // With several cells only the first link's report is used.
        Ok(ends.into_iter().next().unwrap_or_default())
    }
}

/// Queries the stations' status until it is ended, and returns the largest sum of the bytes that
/// they buffered. A station that does not answer counts as 0.
fn watch_buffers(gateways: &[Daemon]) -> Appointed<u64> {
    let sockets: Vec<PathBuf> = gateways
        .iter()
        .map(|gateway| gateway.socket().to_owned())
        .collect();
    let buffered = |socket: &PathBuf| {
        let status = status_at(socket).unwrap_or_default();
        status["handoff"]["buffered_bytes"].as_u64().unwrap_or(0)
    };
    Appointed::start(move |over| {
        let mut bytes_max = 0;
        // The first query is due at once.
        while sleep_until(0, over) {
            bytes_max = bytes_max.max(sockets.iter().map(buffered).sum());
            thread::sleep(BUFFERS_INTERVAL);
        }
        Ok(bytes_max)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_testbed::download::{Arrival, Received};

    #[test]
    fn stalls_are_counted_from_the_links_clock_within_the_transfer() {
        let second = 1_000_000_000;
        let arrivals = [1, 2, 7, 8].map(|at| Arrival {
            at_ns: 100 + at * second,
            bytes_total: at,
        });
        let get = |[started_s, ended_s]: [u64; 2], count: usize, is_whole| {
            let flow = FlowResult {
                received: Received {
                    arrivals: arrivals[..count].to_vec(),
                    ..Received::default()
                },
                is_whole,
                ..FlowResult::default()
            };
            let measured = Measurement {
                bytes: flow.received.bytes(),
                flows: vec![flow.clone()],
                origin_ns: 100,
                started_ns: 100 + started_s * second,
                ended_ns: 100 + ended_s * second,
                retransmitted_segments: 0,
                segments: 0,
                duplicate_segments: 0,
                sender_timers: TimerCounts::default(),
                link: LinkEnd::default(),
                cross_traffic: Vec::new(),
                buffered_bytes_max: None,
                own_flows: None,
            };
            let outage = OutageAt {
                at_s: 2.0,
                for_s: 3.0,
            };
            measured.stalls_s(&flow, &[outage])
        };
        assert_eq!(get([0, 9], 4, true), [Some(2.0)]);
        // All bytes arrived before the outage began.
        assert!(get([0, 9], 1, true).is_empty());
        assert_eq!(get([0, 9], 1, false), [None]);
        // The transfer was given up before the outage.
        assert!(get([0, 2], 1, false).is_empty());
        // The transfer began after the outage.
        assert!(get([6, 9], 4, true).is_empty());
    }
}
