// SPDX-License-Identifier: Apache-2.0
//! One transfer over one link, plain or through a gateway, and what it took.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use holdfast_core::Direction;
use holdfast_link::{OutageSchedule, optimal_transfer};
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use holdfast_testbed::counters::{TcpCounters, TimerCounts};
use holdfast_testbed::daemons::Daemon;
use holdfast_testbed::download::Received;
use holdfast_testbed::link_process::{EmulatedLink, LinkEnd, LinkProcess, LinkSample};
use holdfast_testbed::peers::HaProxy;
use holdfast_testbed::seeded_file::SeededContent;
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{HostTuning, Topology};
use holdfast_wire::Instant;
use serde::Serialize;

use crate::cross_traffic::DatagramStream;
use crate::endpoint::Sample;
use crate::endpoint::pair::{Back, Exchange};
use crate::own_flows::{self, Announced, OwnFlows};
use crate::scenario::Move;
use application::ReadyApplication;
use course::Course;
use ended::{Ended, Times, stalls_s};

mod application;
mod buffers;
mod course;
mod ended;
mod parts;
mod stream;
mod watch;

pub use stream::{Protocol, Stream};
pub use watch::{Moment, TransferWatch};

/// Payload of a full segment over a 1500-octet link with timestamps.
const MSS_BYTES: u64 = 1448;
/// IPv4 header, TCP header, timestamps option.
const HEADER_BYTES: u64 = 20 + 32;

/// Name of the file that is served.
pub const FILE_NAME: &str = "holdfast.bin";

/// What stands at the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Middle {
    /// The kernel's forwarding alone.
    Plain,
    /// `holdfast gateway` with this scheme.
    Gateway {
        /// What `--scheme` takes.
        scheme: String,
        /// Whether `holdfast mobile` runs at the MH. (The carrier is the link's:
        /// [`EmulatedLink::carrier_follows`].)
        mobile_signals: bool,
    },
    /// HAProxy as a transparent split proxy.
    HaProxy,
}

/// A transfer to be run.
#[derive(Clone, Debug)]
pub struct TransferSettings {
    /// Its name in results.
    pub name: String,
    /// Our own binary.
    pub holdfast: PathBuf,
    /// What stands at the gateway.
    pub middle: Middle,
    /// The link between gateway and MH, as the MH finds it.
    pub link: EmulatedLink,
    /// The sender's congestion control.
    pub congestion_control: String,
    /// More kernel parameters at FH and MH.
    pub host_sysctls: Vec<(String, String)>,
    /// The longest that the download may take, since the link's start.
    pub limit: Duration,
    /// What most transfers do without.
    pub extras: TransferExtras,
}

/// What scenarios ask for beyond the usual transfer.
#[derive(Clone, Debug, Default)]
pub struct TransferExtras {
    /// An emulated link between FH and gateway, too.
    pub wired: Option<EmulatedLink>,
    /// The link of each cell, where there are several: in outage while the MH is elsewhere.
    /// Empty: the transfer's link is the only one.
    pub cells: Vec<EmulatedLink>,
    /// How the MH goes from cell to cell.
    pub moves: Vec<Move>,
    /// The base stations hand it over, with these lines in their `[handoff]` section; none:
    /// they know nothing of each other.
    pub handoff: Option<String>,
    /// What is the FH's own.
    pub fh: HostTuning,
    /// What is the MH's own.
    pub mh: HostTuning,
    /// More lines of the gateway's settings.
    pub gateway_settings: String,
    /// The download begins so long after the links' clocks.
    pub start_after: Duration,
    /// Other traffic.
    pub cross_traffic: Vec<DatagramStream>,
    /// What the lab's own ends exchange; none: nginx serves and curl downloads.
    pub exchange: Option<Exchange>,
    /// One stream by TCP or QUIC in their place; none: those.
    pub stream: Option<Stream>,
    /// What the MH's daemon does for its own flows; none: nothing.
    pub own_flows: Option<OwnFlows>,
}

/// What a transfer took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferResult {
    /// The transfer's name.
    pub name: String,
    /// From its begin to the last byte, in seconds; none: not finished.
    pub transfer_s: Option<f64>,
    /// The time that no transfer over this link can beat, in seconds.
    pub optimal_s: f64,
    /// For each outage that overlapped the transfer: from the link's return to the first
    /// new byte at the receiver, in seconds; none: none came before the next outage.
    pub stalls_s: Vec<Option<f64>>,
    /// Segments that the sender sent again, by the kernel's counter; with QUIC, packets that the
    /// sender took for lost.
    pub retransmitted_segments: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Whether they are the ones that were served.
    pub sha256_ok: bool,
}

/// One more connection of a transfer.
#[derive(Clone, Debug)]
pub struct OtherFlow {
    /// What arrived when, and its hash.
    pub received: Received,
    /// It came to a good end within the limit.
    pub whole: bool,
    /// From the begin to its last byte that arrived, in seconds.
    pub last_byte_s: f64,
    /// As the transfer's own.
    pub stalls_s: Vec<Option<f64>>,
    /// As the transfer's own.
    pub latencies_ns: Vec<u64>,
    /// As the transfer's own.
    pub back: Option<Back>,
}

impl OtherFlow {
    /// One of which `bytes` bytes were to come.
    fn of(ended: Ended, link: &EmulatedLink, times: Times, bytes: u64) -> Self {
        let last = ended.received.arrivals.last();
        let last_ns = last.map_or(times.started_ns, |arrival| arrival.at_ns);
        Self {
            stalls_s: stalls_s(
                link,
                times,
                &ended.received,
                ended.whole && ended.received.bytes() == bytes,
            ),
            received: ended.received,
            whole: ended.whole,
            last_byte_s: last_ns.saturating_sub(times.started_ns) as f64 / 1e9,
            latencies_ns: ended.latencies_ns,
            back: ended.back,
        }
    }
}

/// A transfer's result and what else was counted.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The result.
    pub result: TransferResult,
    /// Segments that the sender's host sent for the first time, by the kernel's counter.
    pub segments: u64,
    /// Segments that the receiver got again and reported by D-SACK (RFC 2883).
    pub duplicate_segments: u64,
    /// What the sender's host has sent because of its timers.
    pub sender_timers: TimerCounts,
    /// The connection ended before the limit.
    pub ended: bool,
    /// From the begin to the last byte that arrived, in seconds.
    pub last_byte_s: f64,
    /// What arrived when, and its hash.
    pub received: Received,
    /// From each request to its answer's last byte, nanoseconds; of several requests.
    pub latencies_ns: Vec<u64>,
    /// What came the other way, if something was to.
    pub back: Option<Back>,
    /// The sender's socket over time, if asked for; times since the links' start.
    pub samples: Vec<Sample>,
    /// The wireless link over time, if asked for.
    pub link_samples: Vec<LinkSample>,
    /// Time zero of the links, CLOCK_MONOTONIC.
    pub origin_ns: u64,
    /// The transfer's other connections.
    pub others: Vec<OtherFlow>,
    /// The most bytes that the base stations were seen to keep for the MH at a time; none:
    /// they do not.
    pub buffered_bytes_max: Option<u64>,
    /// What the MH's daemon counted about its own flows, if it does something for them.
    pub own_flows: Option<BTreeMap<String, u64>>,
}

impl TransferResult {
    /// By how much the transfer took longer than it had to, in percent.
    pub fn over_optimum_percent(&self) -> Option<f64> {
        Some((self.transfer_s? / self.optimal_s - 1.0) * 100.0)
    }
}

/// A transfer with everything in place but the bytes.
#[derive(Debug)]
pub struct PreparedTransfer {
    // In the order in which they end.
    application: Option<ReadyApplication>,
    mobile: Option<Daemon>,
    /// Of each cell, if they run.
    gateways: Vec<Daemon>,
    _proxy: Option<HaProxy>,
    topology: Topology,
    settings: TransferSettings,
}

impl PreparedTransfer {
    /// Builds namespaces and link, starts daemons and applications. `folder`, which
    /// must exist, is the transfer's own; `files` holds [`FILE_NAME`] if it is a download
    /// by HTTP.
    pub fn prepare(
        settings: &TransferSettings,
        folder: &Path,
        files: &Path,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        let topology = Topology::build(&parts::topology(settings))?;
        let (gateways, mobile) = parts::daemons(settings, &topology, folder, stop)?;
        let proxy = match settings.middle {
            Middle::HaProxy => Some(HaProxy::start(
                &topology,
                folder,
                &settings.congestion_control,
                stop,
            )?),
            Middle::Plain | Middle::Gateway { .. } => None,
        };
        let settings = settings.clone();
        let application = ReadyApplication::prepare(&settings, &topology, folder, files, stop)?;
        Ok(Self {
            application: Some(application),
            mobile,
            gateways,
            _proxy: proxy,
            topology,
            settings,
        })
    }

    /// The MH's namespace.
    pub fn mobile_namespace(&self) -> NetNs {
        self.topology.mh.clone()
    }

    /// Carries it out, with the link's clock starting at the same moment, or sooner if
    /// [`TransferExtras::start_after`] says so.
    pub fn run(
        self,
        content: &SeededContent,
        watch: &TransferWatch,
        stop: &StopFlag,
    ) -> anyhow::Result<TransferResult> {
        Ok(self.measure(content, watch, stop)?.result)
    }

    /// As [`Self::run`], with everything that was counted.
    pub fn measure(
        mut self,
        content: &SeededContent,
        watch: &TransferWatch,
        stop: &StopFlag,
    ) -> anyhow::Result<Measurement> {
        let application = self.application.take();
        let application = application.context("the transfer was carried out before")?;
        let (retransmitted_before, before) = (self.retransmitted()?, self.counters()?);
        let origin_ns = self.start_links()?;
        let extras = &self.settings.extras;
        let _streams = extras
            .cross_traffic
            .iter()
            .map(|stream| stream.start(&self.topology, origin_ns))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let course = Course::set_out(&self, origin_ns)?;
        let started_ns = origin_ns + extras.start_after.as_nanos() as u64;
        watch.started_ns.store(origin_ns, Ordering::Relaxed);
        let times = (origin_ns, started_ns);
        let ended = application.run(&self.topology, times, self.settings.limit, watch, stop)?;
        let times = Times {
            origin_ns,
            started_ns,
            ended_ns: monotonic_ns(),
        };
        let (buffered_bytes_max, announced) = course.finish()?;
        let retransmitted = match ended.resent {
            Some(resent) => resent,
            None => self.retransmitted()? - retransmitted_before,
        };
        let after = self.counters()?;
        let result = self.result(content, times, &ended.received, ended.whole, retransmitted)?;
        let last = ended.received.arrivals.last();
        let last_ns = last.map_or(started_ns, |arrival| arrival.at_ns);
        let link = &self.settings.link;
        let others = ended.others.into_iter();
        Ok(Measurement {
            result,
            segments: after.0.segments - before.0.segments,
            duplicate_segments: after.1.duplicates_reported - before.1.duplicates_reported,
            sender_timers: after.0.timers.since(before.0.timers),
            ended: ended.in_time,
            last_byte_s: last_ns.saturating_sub(started_ns) as f64 / 1e9,
            others: others
                .map(|one| OtherFlow::of(one, link, times, content.bytes))
                .collect(),
            received: ended.received,
            latencies_ns: ended.latencies_ns,
            back: ended.back,
            samples: ended.samples,
            own_flows: self.own_flows(announced)?,
            link_samples: self.end()?,
            origin_ns,
            buffered_bytes_max,
        })
    }

    /// What the MH's daemon has counted about its own flows, and what it was told ahead.
    fn own_flows(
        &self,
        announced: Option<Announced>,
    ) -> anyhow::Result<Option<BTreeMap<String, u64>>> {
        let (Some(daemon), Some(announced)) = (&self.mobile, announced) else {
            return Ok(None);
        };
        let mut counters = own_flows::counters(daemon)?;
        counters.insert("announced".to_owned(), announced.heard);
        counters.insert("unheard".to_owned(), announced.unheard);
        Ok(Some(counters))
    }

    /// Starts the clocks of all links at one moment, which it returns.
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

    fn result(
        &self,
        content: &SeededContent,
        times: Times,
        received: &Received,
        finished: bool,
        retransmitted_segments: u64,
    ) -> anyhow::Result<TransferResult> {
        let started_ns = times.started_ns;
        let last_ns = received
            .arrivals
            .last()
            .map_or(started_ns, |arrival| arrival.at_ns);
        let finished = finished && received.bytes() == content.bytes;
        Ok(TransferResult {
            name: self.settings.name.clone(),
            transfer_s: finished.then(|| (last_ns - started_ns) as f64 / 1e9),
            optimal_s: optimal_s(&self.settings.link, content.bytes)?,
            stalls_s: stalls_s(&self.settings.link, times, received, finished),
            retransmitted_segments,
            bytes: received.bytes(),
            sha256_ok: received.sha256 == content.sha256,
        })
    }

    /// The host that sends the bytes.
    fn sender(&self) -> &NetNs {
        if self.sends_uplink() {
            &self.topology.mh
        } else {
            &self.topology.fh
        }
    }

    fn sends_uplink(&self) -> bool {
        let extras = &self.settings.extras;
        let of_exchange = extras.exchange.as_ref().map(|one| one.direction);
        extras.stream.map(|one| one.direction).or(of_exchange) == Some(Direction::Uplink)
    }

    /// What the sender's kernel counts, and the receiver's.
    fn counters(&self) -> anyhow::Result<(TcpCounters, TcpCounters)> {
        let receiver = if self.sends_uplink() {
            &self.topology.fh
        } else {
            &self.topology.mh
        };
        Ok((
            TcpCounters::read(self.sender())?,
            TcpCounters::read(receiver)?,
        ))
    }

    /// Segments sent again so far by the sender, and by the gateway where a split
    /// proxy sends in its place; a gateway without one has no TCP of its own.
    fn retransmitted(&self) -> anyhow::Result<u64> {
        let gateways = self.topology.cells.iter().map(|cell| &cell.gateway);
        std::iter::once(self.sender())
            .chain(gateways)
            .map(|ns| Ok(TcpCounters::read(ns)?.retransmitted_segments))
            .sum()
    }

    /// Ends daemons and links as an operator would; an error if one does not. What the
    /// wireless link has sampled.
    fn end(&mut self) -> anyhow::Result<Vec<LinkSample>> {
        for daemon in self.mobile.iter_mut().chain(&mut self.gateways) {
            daemon.stop()?;
        }
        // The gateway would take the end of its interface for an accident.
        let topology = &mut self.topology;
        if let Some(wired) = topology.wired_link.take() {
            wired.end()?;
        }
        let links = topology
            .cells
            .iter_mut()
            .filter_map(|cell| cell.link.take());
        let ends: Vec<LinkEnd> = links.map(LinkProcess::end).collect::<anyhow::Result<_>>()?;
        // Of several cells nobody asks for more than the first's.
        let first = ends.into_iter().next();
        Ok(first.map(|end| end.samples).unwrap_or_default())
    }
}

/// The time that no transfer of `bytes` over this link can beat: the link busy
/// whenever it is up, every segment full.
pub fn optimal_s(link: &EmulatedLink, bytes: u64) -> anyhow::Result<f64> {
    let wire_bytes = bytes + bytes.div_ceil(MSS_BYTES) * HEADER_BYTES;
    let plan = link.plan()?;
    let mut schedule = OutageSchedule::new(&plan.outages, link.seed);
    let end = optimal_transfer(&plan, &mut schedule, Instant::ZERO, wire_bytes);
    let end = end.context("the link is too slow for the file")?;
    ensure!(end > Instant::ZERO, "nothing to transfer");
    Ok(end.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_testbed::download::Arrival;

    fn link() -> EmulatedLink {
        EmulatedLink::with_outage(2.0, 3.0)
    }

    #[test]
    fn stalls_are_counted_from_the_links_clock_within_the_transfer() {
        let second = 1_000_000_000;
        let times = |started_s: u64, ended_s: u64| Times {
            origin_ns: 100,
            started_ns: 100 + started_s * second,
            ended_ns: 100 + ended_s * second,
        };
        let arrivals = [1, 2, 7, 8].map(|at| Arrival {
            at_ns: 100 + at * second,
            bytes_total: at,
        });
        let received = |count: usize| Received {
            arrivals: arrivals[..count].to_vec(),
            sha256: [0; 32],
        };
        let of = |times, count, finished| stalls_s(&link(), times, &received(count), finished);
        // The outage is from 2 to 5 s.
        assert_eq!(of(times(0, 9), 4, true), [Some(2.0)]);
        // All had come before it began.
        assert!(of(times(0, 9), 1, true).is_empty());
        assert_eq!(of(times(0, 9), 1, false), [None]);
        // It was given up before.
        assert!(of(times(0, 2), 1, false).is_empty());
        // It began after it.
        assert!(of(times(6, 9), 4, true).is_empty());
    }

    #[test]
    fn the_optimum_counts_headers_and_outages() {
        // 2 s at 20 Mb/s are 5 MB on the wire: 3333 segments.
        let at_once = optimal_s(&link(), 3333 * 1448).unwrap();
        assert!(
            (at_once - (2.0 - 0.0002 + 3.025)).abs() < 1e-9 || at_once < 5.03,
            "{at_once}"
        );
        let without = optimal_s(&EmulatedLink::default(), 1448).unwrap();
        assert!((without - (0.0006 + 0.025)).abs() < 1e-9, "{without}");
    }
}
