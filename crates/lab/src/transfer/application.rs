// SPDX-License-Identifier: Apache-2.0
//! What sends and what receives: a web server and curl, as a user has them, or the lab's
//! own endpoints, for scenarios.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::download::Download;
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{FH, Topology};
use holdfast_testbed::web_server::WebServer;

use super::ended::Ended;
use super::{FILE_NAME, Stream, TransferSettings, TransferWatch};
use crate::endpoint::EndpointStart;
use crate::endpoint::pair::EndpointPair;

/// Both ends of a transfer, ready to begin.
#[derive(Debug)]
pub(super) enum ReadyApplication {
    /// A download by HTTP.
    Web(WebServer),
    /// The lab's own.
    Endpoints(Vec<EndpointPair>),
    /// One stream, by TCP or QUIC, with this congestion control.
    Stream(Stream, String),
}

/// Several connections at once.
fn run_all(
    pairs: Vec<EndpointPair>,
    start: EndpointStart,
    limit: Duration,
    stop: &StopFlag,
) -> anyhow::Result<Vec<Ended>> {
    let run = |pair: EndpointPair| {
        let exchanged = pair.run(start, limit, stop)?;
        Ok(Ended {
            whole: exchanged.ended && exchanged.receiver_error.is_none(),
            samples: exchanged.samples,
            latencies_ns: exchanged.latencies_ns,
            back: exchanged.back,
            ..Ended::of(exchanged.received, exchanged.ended)
        })
    };
    thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .into_iter()
            .map(|pair| scope.spawn(move || run(pair)))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.map_err(|_| anyhow!("a connection's thread panicked"))?
        });
        ended.collect()
    })
}

impl ReadyApplication {
    /// Starts what has to listen.
    pub(super) fn prepare(
        settings: &TransferSettings,
        topology: &Topology,
        folder: &Path,
        files: &Path,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        if let Some(stream) = settings.extras.stream {
            return Ok(Self::Stream(stream, settings.congestion_control.clone()));
        }
        Ok(match &settings.extras.exchange {
            None => Self::Web(WebServer::start(&topology.fh, folder, files, stop)?),
            Some(exchange) => {
                let pair = |number| {
                    EndpointPair::prepare(&settings.holdfast, topology, exchange, number, stop)
                };
                Self::Endpoints(
                    (0..exchange.flows)
                        .map(pair)
                        .collect::<anyhow::Result<_>>()?,
                )
            }
        })
    }

    /// Carries the transfer out: it begins at the second of `times`, and ends at the
    /// latest `limit` after the first one, both CLOCK_MONOTONIC in nanoseconds.
    pub(super) fn run(
        self,
        topology: &Topology,
        times: (u64, u64),
        limit: Duration,
        watch: &TransferWatch,
        stop: &StopFlag,
    ) -> anyhow::Result<Ended> {
        let (origin_ns, begin_ns) = times;
        let end_ns = origin_ns + limit.as_nanos() as u64;
        let left = || Duration::from_nanos(end_ns.saturating_sub(monotonic_ns()));
        match self {
            Self::Stream(stream, congestion_control) => {
                let times = (begin_ns, left());
                stream.run(topology, &congestion_control, times, &watch.download, stop)
            }
            Self::Endpoints(pairs) => {
                let start = EndpointStart {
                    origin_ns,
                    begin_ns,
                };
                let mut all = run_all(pairs, start, left(), stop)?.into_iter();
                let first = all.next().context("a transfer without a connection")?;
                Ok(Ended {
                    others: all.collect(),
                    ..first
                })
            }
            Self::Web(_server) => {
                stop.wait_for("the time of the download", limit, || {
                    Ok((monotonic_ns() >= begin_ns).then_some(()))
                })?;
                let url = format!("http://{}/{FILE_NAME}", FH.v4);
                let download = Download::start(&topology.mh, &url, &watch.download)?;
                let waited = stop.wait_for("the download ends", left(), || {
                    Ok(download.is_finished().then_some(()))
                });
                stop.check()?;
                let in_time = waited.is_ok();
                let (whole, received) = if in_time {
                    let (status, received) = download.finish()?;
                    (status.success(), received)
                } else {
                    (false, download.abort()?)
                };
                Ok(Ended {
                    whole,
                    ..Ended::of(received, in_time)
                })
            }
        }
    }
}
