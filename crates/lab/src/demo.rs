// SPDX-License-Identifier: Apache-2.0
//! `holdfast demo`: transfers of the same bytes over the same link with outages, side by side. They
//! differ in the direction, in TCP or QUIC, and in plain or with Holdfast.

mod links;
mod live;
mod optimum;
mod progress;
mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_core::Direction;
use holdfast_link::{OutageAt, OutageEffect};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::scratch::Scratch;
use holdfast_testbed::seeded_file::write_seeded;
use holdfast_testbed::stop::{Interrupted, StopFlag};

use crate::own_flows::OwnFlows;
use crate::transfer::{
    Application, FILE_NAME, Measurement, Middle, PreparedTransfer, Protocol, Stream,
    TransferSettings, TransferWatch,
};

pub use links::DemoLink;
pub use live::LiveDemo;
use optimum::optimal_s;
use progress::{Lines, Progress};
pub use report::{DemoConditions, DemoReport, TransferResult};

/// The longest time that a transfer of the demo may take. The limit is twice the fastest transfer's
/// time if that is longer.
const LIMIT: Duration = Duration::from_secs(80);

/// One transfer of the demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoRun {
    /// The transport protocol.
    pub protocol: Protocol,
    /// The direction of the bytes.
    pub direction: Direction,
    /// The scheme: on the gateway for a download, on the mobile for an upload; none: plain.
    pub scheme: Option<String>,
}

impl DemoRun {
    /// The transfers of these schemes and of plain forwarding: downloads by TCP. With `auto` or
    /// `keep` also uploads, and QUIC in both directions.
    pub fn all(schemes: &[&str]) -> Vec<Self> {
        let mut runs = Vec::new();
        for direction in [Direction::Downlink, Direction::Uplink] {
            for protocol in [Protocol::Tcp, Protocol::Quic] {
                let is_first = (direction, protocol) == (Direction::Downlink, Protocol::Tcp);
                let fits = |scheme: &&&str| is_first || matches!(**scheme, "auto" | "keep");
                let get = |scheme: Option<&str>| Self {
                    protocol,
                    direction,
                    scheme: scheme.map(str::to_owned),
                };
                let shown: Vec<_> = schemes.iter().filter(fits).collect();
                if is_first || !shown.is_empty() {
                    runs.push(get(None));
                    runs.extend(shown.into_iter().map(|scheme| get(Some(scheme))));
                }
            }
        }
        runs
    }

    fn name(&self) -> String {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Quic => "QUIC",
        };
        let way = match self.direction {
            Direction::Downlink => "download",
            Direction::Uplink => "upload",
        };
        let scheme = self.scheme.as_deref().unwrap_or("plain");
        format!("{protocol} {way}, {scheme}")
    }

    fn middle(&self, settings: &DemoSettings) -> Middle {
        match (&self.scheme, self.direction) {
            (Some(scheme), Direction::Downlink) => Middle::Gateway {
                scheme: scheme.clone(),
                mobile_signals: settings.signals,
            },
            _ => Middle::Plain,
        }
    }

    fn application(&self, settings: &DemoSettings) -> Application {
        match (self.protocol, self.direction) {
            (Protocol::Tcp, Direction::Downlink) => Application::Web(settings.bytes),
            (protocol, direction) => Application::Stream(Stream {
                protocol,
                direction,
                bytes: settings.bytes,
                seed: settings.seed,
            }),
        }
    }

    fn transfer(
        &self,
        settings: &DemoSettings,
        link: &EmulatedLink,
        limit: Duration,
    ) -> TransferSettings {
        let on_mobile = self.scheme.as_ref();
        let on_mobile = on_mobile.filter(|_| self.direction == Direction::Uplink);
        let application = self.application(settings);
        let middle = self.middle(settings);
        TransferSettings {
            congestion_control: settings.congestion_control.clone(),
            limit,
            own_flows: on_mobile.map(|scheme| OwnFlows {
                settings: format!("scheme = \"{scheme}\"\n"),
                reports: Vec::new(),
            }),
            ..TransferSettings::new(&settings.holdfast, middle, link.clone(), application)
        }
    }
}

/// The settings of the demo.
#[derive(Clone, Debug)]
pub struct DemoSettings {
    /// Our own binary.
    pub holdfast: PathBuf,
    /// The transfers: they run at the same time, and are shown in this order.
    pub runs: Vec<DemoRun>,
    /// The link that they run over.
    pub link: DemoLink,
    /// Lengths of the steady link's outages in seconds.
    pub outages_s: Vec<f64>,
    /// What an outage does to the packets on the link and in its queue.
    pub outage_effect: OutageEffect,
    /// Whether the gateway gets signals of outages (carrier, and `holdfast mobile`).
    pub signals: bool,
    /// The sender's congestion control.
    pub congestion_control: String,
    /// Seed of the file and of the outages' times.
    pub seed: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// Runs the demo and returns its report; meanwhile `live` has the figures. A run that does not finish
/// in time is in the report. Error: [`Interrupted`] if the user stopped it.
pub fn run(
    settings: &DemoSettings,
    stop: &StopFlag,
    live: &LiveDemo,
) -> anyhow::Result<DemoReport> {
    let folder = Scratch::new("holdfast-demo-")?;
    let files = folder.path().join("files");
    fs::create_dir(&files)?;
    let content = write_seeded(&files.join(FILE_NAME), settings.bytes, settings.seed)?;
    let link = settings.link.emulated(settings)?;
    let progress = Progress::new();
    let about = opening(settings, &link);
    progress.print(&about);
    let names: Vec<String> = settings.runs.iter().map(DemoRun::name).collect();
    live.begin(&about, &names, &link.outages, settings.bytes);
    let fastest = Duration::from_secs_f64(optimal_s(&link, settings.bytes)?);
    let limit = LIMIT.max(fastest * 2);
    let mut prepared = Vec::new();
    for (number, run) in settings.runs.iter().enumerate() {
        stop.check()?;
        let own = folder.path().join(number.to_string());
        fs::create_dir(&own)?;
        let transfer = run.transfer(settings, &link, limit);
        let ready = PreparedTransfer::prepare(&transfer, &own, &files, stop);
        // After Ctrl-C the failed step is not reported: it looks like any other error.
        stop.check()?;
        prepared.push(ready.with_context(|| format!("run {}", run.name()))?);
    }
    let mut lines = progress.lines(&names, &link, settings.bytes, live);
    let measured = side_by_side(prepared, &names, &mut lines, stop)?;
    let results = settings
        .runs
        .iter()
        .zip(&measured)
        .map(|(run, measured)| TransferResult::of(run.name(), measured, &link, &content));
    let report = DemoReport {
        runs: results.collect::<anyhow::Result<_>>()?,
        conditions: DemoConditions::of(settings, &link)?,
        bytes: content.bytes,
    };
    live.finish(&report);
    Ok(report)
}

/// Runs all transfers at the same time. The first error ends the others.
fn side_by_side(
    prepared: Vec<PreparedTransfer>,
    names: &[String],
    lines: &mut Lines<'_>,
    stop: &StopFlag,
) -> anyhow::Result<Vec<Measurement>> {
    let watches: Vec<TransferWatch> = prepared.iter().map(|_| TransferWatch::default()).collect();
    let all_end = StopFlag::default();
    let results = thread::scope(|scope| {
        let workers: Vec<_> = prepared
            .into_iter()
            .zip(&watches)
            .map(|(transfer, watch)| scope.spawn(|| transfer.measure(watch, &all_end)))
            .collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            if stop.is_raised() {
                all_end.raise();
            }
            lines.show(&watches);
            thread::sleep(progress::INTERVAL);
        }
        lines.finish(&watches);
        let joined = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.collect::<Vec<_>>()
    });
    if stop.is_raised() {
        return Err(Interrupted.into());
    }
    let results = names.iter().zip(results);
    results
        .map(|(name, result)| result.with_context(|| format!("run {name}")))
        .collect()
}

fn opening(settings: &DemoSettings, link: &EmulatedLink) -> String {
    let rate = match &link.description {
        Some(_) => "a rate that varies".to_owned(),
        None => format!("{} Mb/s", link.rate_mbit_per_s),
    };
    format!(
        "{:.1} MB over {rate}, {} ms round trip, {} packets of queue; {} (seed {}).",
        settings.bytes as f64 / 1e6,
        2.0 * link.delay_ms,
        link.queue_packets,
        outages(&link.outages),
        settings.seed,
    )
}

fn outages(outages: &[OutageAt]) -> String {
    if outages.is_empty() {
        return "no outages".to_owned();
    }
    if outages.len() > report::COLUMNS_MAX {
        return "outages that come and go".to_owned();
    }
    let times = outages
        .iter()
        .map(|outage| format!("{:.1} s at {:.1} s", outage.for_s, outage.at_s));
    format!("outages of {}", times.collect::<Vec<_>>().join(", "))
}

/// The path of our own binary.
pub fn own_binary() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the own binary")?;
    anyhow::ensure!(
        Path::exists(&path),
        "{}: the own binary no longer exists",
        path.display()
    );
    Ok(path)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(super) fn settings(outages_s: &[f64]) -> DemoSettings {
        DemoSettings {
            holdfast: PathBuf::new(),
            runs: DemoRun::all(&["keep", "hold"]),
            link: DemoLink::Steady,
            outages_s: outages_s.to_vec(),
            outage_effect: OutageEffect::Lose,
            signals: true,
            congestion_control: "cubic".into(),
            seed: 1,
            bytes: 25_000_000,
        }
    }

    #[test]
    fn the_plain_run_comes_first_and_has_no_scheme() {
        let settings = settings(&[]);
        let names: Vec<_> = settings.runs.iter().map(DemoRun::name).collect();
        assert_eq!(
            names,
            [
                "TCP download, plain",
                "TCP download, keep",
                "TCP download, hold",
                "QUIC download, plain",
                "QUIC download, keep",
                "TCP upload, plain",
                "TCP upload, keep",
                "QUIC upload, plain",
                "QUIC upload, keep",
            ]
        );
        let transfer = |number: usize| {
            settings.runs[number].transfer(&settings, &EmulatedLink::default(), LIMIT)
        };
        let keep = transfer(6);
        assert!(keep.own_flows.is_some() && keep.middle == Middle::Plain);
        assert_eq!(transfer(0).middle, Middle::Plain);
        let only_hold = DemoRun::all(&["hold"]);
        assert_eq!(only_hold.len(), 2, "{only_hold:?}");
        let of_auto = DemoRun::all(&["auto"]);
        let names: Vec<_> = of_auto.iter().map(DemoRun::name).collect();
        assert_eq!(
            names,
            [
                "TCP download, plain",
                "TCP download, auto",
                "QUIC download, plain",
                "QUIC download, auto",
                "TCP upload, plain",
                "TCP upload, auto",
                "QUIC upload, plain",
                "QUIC upload, auto",
            ]
        );
    }
}
