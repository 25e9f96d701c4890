// SPDX-License-Identifier: Apache-2.0
//! The link sources of the daemon. Each is a task of its own, which is started again when it fails.
//!
//! A source reports each [`SourceEvent`]. [`LinkClaims`] makes one link state of several sources.

mod carrier;
mod claims;
mod modem;
mod script;
mod wifi;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use holdfast_core::{LinkEvent, LinkSource};
use holdfast_net::monitor::InterfaceState;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

use crate::settings::MobileSettings;

pub(super) use claims::LinkClaims;
pub(super) use modem::find_modem;
pub(crate) use modem::modem_interfaces;

use carrier::CarrierSource;
use modem::ModemSource;
use script::ScriptSource;
use wifi::WifiSource;

/// The limit of reports that wait for the daemon. A source with a further report waits.
const WAITING_MAX: usize = 64;
/// The longest that the daemon's end waits for sources that have something to undo.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// Why a source ends when the daemon does.
const DAEMON_LEAVES: &str = "the daemon ends";
/// The wait after a source's first failure. It doubles with each further failure.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The limit of that wait. A source that has run for this time begins with `RETRY_MIN` again.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// What a source reports.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SourceEvent {
    /// It runs.
    Runs,
    /// The source has failed, for this reason, and is tried again.
    Failed(String),
    /// The present state of an interface (only from the carrier source).
    Interface(InterfaceState),
    /// Addresses or routes have changed (only from the carrier source).
    Addresses,
    /// An event of the link.
    Link(LinkEvent),
    /// A `down` or a warning of this source is over. The link is up, and may have been up all the time.
    Lifted,
    /// The signal, dBm.
    Signal(f64),
    /// Information for the operator, which changes nothing.
    Note(String),
}

/// An event, and its source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// The source.
    pub(super) source: LinkSource,
    /// What it reports.
    pub(super) event: SourceEvent,
}

/// A source's end of the queue to the daemon.
#[derive(Clone, Debug)]
struct Reporter {
    source: LinkSource,
    reports: Sender<Report>,
}

impl Reporter {
    /// Errors: the daemon is leaving.
    async fn report(&self, event: SourceEvent) -> anyhow::Result<()> {
        let source = self.source;
        let report = Report { source, event };
        let sent = self.reports.send(report).await;
        sent.map_err(|_| anyhow::anyhow!(DAEMON_LEAVES))
    }

    /// The same for a thread that may block.
    fn report_blocking(&self, event: SourceEvent) -> anyhow::Result<()> {
        let source = self.source;
        let report = Report { source, event };
        let sent = self.reports.blocking_send(report);
        sent.map_err(|_| anyhow::anyhow!(DAEMON_LEAVES))
    }

    /// Waits until the daemon is leaving.
    async fn closed(&self) -> anyhow::Result<Infallible> {
        self.reports.closed().await;
        Err(anyhow::anyhow!(DAEMON_LEAVES))
    }

    /// Errors: the daemon is leaving.
    fn is_connected(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.reports.is_closed(), DAEMON_LEAVES);
        Ok(())
    }
}

/// A source of reports about the link.
trait SourceTask: Send + 'static {
    /// Reports events until it fails.
    ///
    /// Errors: one line, with what to do where the settings can help.
    fn run(
        &mut self,
        reporter: &Reporter,
    ) -> impl Future<Output = anyhow::Result<Infallible>> + Send;
}

/// Runs a source until the daemon ends. After a failure it is started again.
async fn keep(mut source: impl SourceTask, reporter: Reporter) {
    let mut wait = RETRY_MIN;
    loop {
        let begun = Instant::now();
        let Err(error) = source.run(&reporter).await;
        if reporter
            .report(SourceEvent::Failed(format!("{error:#}")))
            .await
            .is_err()
        {
            return;
        }
        if begun.elapsed() >= RETRY_MAX {
            wait = RETRY_MIN;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = reporter.closed() => return,
        }
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// The started sources.
pub(super) struct Sources {
    reports: Receiver<Report>,
    kinds: Vec<LinkSource>,
    /// The sources that have something to undo.
    undoing: Vec<JoinHandle<()>>,
}

impl Sources {
    /// Starts the sources; needs a tokio runtime.
    pub(super) fn start(settings: &MobileSettings) -> Self {
        let (sender, reports) = mpsc::channel(WAITING_MAX);
        let mut sources = Self {
            reports,
            kinds: Vec::new(),
            undoing: Vec::new(),
        };
        let (interface, wanted) = (&settings.interface, &settings.sources);
        sources.add(LinkSource::Carrier, CarrierSource::default(), &sender);
        if wanted.wifi {
            let source = WifiSource::new(interface, wanted);
            let task = sources.add(LinkSource::Wifi, source, &sender);
            sources.undoing.push(task);
        }
        if let Some(modem) = &wanted.modem {
            let source = ModemSource::new(interface, modem.clone(), wanted.poll);
            let task = sources.add(LinkSource::Modem, source, &sender);
            sources.undoing.push(task);
        }
        if let Some(program) = &wanted.script {
            let source = ScriptSource::new(program, interface);
            sources.add(LinkSource::Script, source, &sender);
        }
        sources
    }

    fn add(
        &mut self,
        kind: LinkSource,
        source: impl SourceTask,
        reports: &Sender<Report>,
    ) -> JoinHandle<()> {
        let reporter = Reporter {
            source: kind,
            reports: reports.clone(),
        };
        self.kinds.push(kind);
        tokio::spawn(keep(source, reporter))
    }

    /// The kinds of the started sources.
    pub(super) fn kinds(&self) -> &[LinkSource] {
        &self.kinds
    }

    /// Ends the sources, at a regular end of the daemon.
    pub(super) async fn leave(self) {
        drop(self.reports);
        // The end must not wait for a service that does not answer.
        let ends = futures_util::future::join_all(self.undoing);
        let _ = tokio::time::timeout(LEAVE_WITHIN, ends).await;
    }

    /// The next report.
    pub(super) async fn next(&mut self) -> Option<Report> {
        self.reports.recv().await
    }
}
