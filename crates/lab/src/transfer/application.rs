// SPDX-License-Identifier: Apache-2.0
//! The programs and sockets of an [`Application`].

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use holdfast_core::Direction;
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::download::{Download, DownloadWatch};
use holdfast_testbed::harness::{Flow, accept, connect, listen};
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{FH, Topology};
use holdfast_testbed::web_server::WebServer;

use super::{Application, FILE_NAME, Protocol, Stream, TransferSettings, TransferWatch};
use crate::endpoint::pair::EndpointPair;
use crate::endpoint::{EndpointStart, FlowResult};
use crate::quic::QuicStream;

/// The port at which the FH listens for a stream.
const STREAM_PORT: u16 = 4433;

/// Both ends of a transfer, ready to begin.
#[derive(Debug)]
pub(super) enum ReadyApplication {
    Web(WebServer),
    Stream(Stream),
    Endpoints(Vec<EndpointPair>),
}

impl ReadyApplication {
    /// Starts the programs that listen.
    pub(super) fn prepare(
        settings: &TransferSettings,
        topology: &Topology,
        folder: &Path,
        files: &Path,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        Ok(match &settings.application {
            Application::Web(_) => Self::Web(WebServer::start(&topology.fh, folder, files, stop)?),
            Application::Stream(stream) => Self::Stream(*stream),
            Application::Endpoints(exchange) => {
                let pairs = (0..exchange.flows).map(|flow| {
                    EndpointPair::prepare(&settings.holdfast, topology, exchange, flow, stop)
                });
                Self::Endpoints(pairs.collect::<anyhow::Result<_>>()?)
            }
        })
    }

    /// Executes the transfer. `times` are the links' start and the transfer's begin,
    /// CLOCK_MONOTONIC. The limit [`TransferSettings::limit`] counts from the first.
    pub(super) fn run(
        self,
        settings: &TransferSettings,
        topology: &Topology,
        (origin_ns, begin_ns): (u64, u64),
        watch: &TransferWatch,
        stop: &StopFlag,
    ) -> anyhow::Result<Vec<FlowResult>> {
        let end_ns = origin_ns + settings.limit.as_nanos() as u64;
        let left = || Duration::from_nanos(end_ns.saturating_sub(monotonic_ns()));
        let wait_for_begin = || {
            stop.wait_for("the time of the transfer", settings.limit, || {
                Ok((monotonic_ns() >= begin_ns).then_some(()))
            })
        };
        let watch = &watch.download;
        match self {
            Self::Endpoints(pairs) => {
                let start = EndpointStart {
                    origin_ns,
                    begin_ns,
                };
                run_pairs(pairs, start, left(), stop)
            }
            Self::Stream(stream) if stream.protocol == Protocol::Quic => {
                let quic = QuicStream {
                    direction: stream.direction,
                    bytes: stream.bytes,
                    seed: stream.seed,
                    congestion_control: &settings.congestion_control,
                };
                let at = SocketAddr::new(FH.v4.into(), STREAM_PORT);
                let hosts = [&topology.fh, &topology.mh];
                let result = quic.run(hosts, at, (begin_ns, left()), watch, stop)?;
                Ok(vec![result])
            }
            Self::Stream(stream) => {
                let listener = listen(&topology.fh, FH.v4.into(), STREAM_PORT)?;
                wait_for_begin()?;
                let at_mh = connect(&topology.mh, FH.v4.into(), STREAM_PORT)?;
                let (at_fh, _) = accept(&listener)?;
                Ok(vec![run_tcp(&stream, [at_fh, at_mh], left(), watch, stop)?])
            }
            Self::Web(_server) => {
                wait_for_begin()?;
                Ok(vec![download(topology, left(), watch, stop)?])
            }
        }
    }
}

/// Runs several connections at the same time.
fn run_pairs(
    pairs: Vec<EndpointPair>,
    start: EndpointStart,
    limit: Duration,
    stop: &StopFlag,
) -> anyhow::Result<Vec<FlowResult>> {
    thread::scope(|scope| {
        let run = |pair: EndpointPair| scope.spawn(move || pair.run(start, limit, stop));
        let threads: Vec<_> = pairs.into_iter().map(run).collect();
        let results = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.map_err(|_| anyhow!("a connection's thread panicked"))?
        });
        results.collect()
    })
}

/// Downloads the file with curl.
fn download(
    topology: &Topology,
    limit: Duration,
    watch: &DownloadWatch,
    stop: &StopFlag,
) -> anyhow::Result<FlowResult> {
    let url = format!("http://{}/{FILE_NAME}", FH.v4);
    let download = Download::start(&topology.mh, &url, watch)?;
    let waited = stop.wait_for("the download ends", limit, || {
        Ok(download.is_finished().then_some(()))
    });
    stop.check()?;
    let in_time = waited.is_ok();
    let (is_whole, received) = if in_time {
        let (status, received) = download.finish()?;
        (status.success(), received)
    } else {
        (false, download.abort()?)
    };
    Ok(FlowResult {
        received,
        in_time,
        is_whole,
        ..FlowResult::default()
    })
}

/// Sends one stream by TCP, between the FH's socket and the MH's.
fn run_tcp(
    stream: &Stream,
    [at_fh, at_mh]: [TcpStream; 2],
    limit: Duration,
    watch: &DownloadWatch,
    stop: &StopFlag,
) -> anyhow::Result<FlowResult> {
    // The sockets have no time limits: an outage may be long.
    let without_limits = |end: &TcpStream| -> io::Result<TcpStream> {
        end.set_read_timeout(None)?;
        end.set_write_timeout(None)?;
        end.try_clone()
    };
    let ends = [without_limits(&at_fh)?, without_limits(&at_mh)?];
    let (from, to) = match stream.direction {
        Direction::Downlink => (at_fh, at_mh),
        Direction::Uplink => (at_mh, at_fh),
    };
    let flow = Flow::start_watched(from, to, stream.bytes, stream.seed, watch);
    let waited = stop.wait_for("the transfer ends", limit, || {
        Ok(flow.is_finished().then_some(()))
    });
    for end in ends {
        // An error: the connection has ended already.
        let _ = end.shutdown(Shutdown::Both);
    }
    stop.check()?;
    let (received, outcome) = flow.end()?;
    Ok(FlowResult {
        received,
        in_time: waited.is_ok(),
        is_whole: outcome.is_ok(),
        ..FlowResult::default()
    })
}
