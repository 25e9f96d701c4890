// SPDX-License-Identifier: Apache-2.0
//! What tells the daemon of the link: each source a task of its own, that is started again
//! when it fails.
//!
//! A source says what it knows as it comes ([`Told`]). What becomes of the link when several
//! speak is decided in [`LinkClaims`]; signals become warnings in [`Forecast`].

mod carrier;
mod claims;
mod forecast;
mod modem;
mod script;
mod wifi;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use holdfast_core::mobile_host::HostLinkEvent;
use holdfast_net::monitor::LinkState;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::settings::MobileSettings;

pub(super) use claims::LinkClaims;
pub(super) use forecast::Forecast;

use carrier::CarrierSource;
use modem::ModemSource;
use script::ScriptSource;
use wifi::WifiSource;

/// Reports that wait for the daemon; a source that has more to say waits.
const WAITING_MAX: usize = 64;
/// Why a source ends when the daemon does.
const UNHEARD: &str = "nobody listens any more";
/// How long after a failure a source is tried again: at first...
const RETRY_MIN: Duration = Duration::from_secs(1);
/// ... and at most. One that has run for so long begins with the least again.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Who speaks of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SourceKind {
    /// The interface's carrier and addresses, by netlink.
    Carrier,
    /// Its Wi-Fi, by nl80211.
    Wifi,
    /// Its modem, by ModemManager.
    Modem,
    /// A program of the operator's.
    Script,
    /// A command on the control socket.
    Command,
}

impl SourceKind {
    /// Its name in the status and in the log.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Carrier => "carrier",
            Self::Wifi => "wifi",
            Self::Modem => "modem",
            Self::Script => "script",
            Self::Command => "command",
        }
    }
}

/// What a source says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    /// It runs.
    Runs,
    /// It has failed, for this reason, and is tried again.
    Failed(String),
    /// An interface is like this now (carrier alone).
    Interface(LinkState),
    /// Addresses or routes have changed (carrier alone).
    Addresses,
    /// Something became of the link.
    Link(HostLinkEvent),
    /// The link carries, as it may have done all along: if this source has said otherwise,
    /// that is over.
    Carries,
    /// What follows is another radio's signal.
    OtherRadio,
    /// The signal, dBm.
    Signal(f64),
    /// Something that an operator may want to know, and that changes nothing.
    Note(String),
}

/// What is said, and by whom.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// The source.
    pub(super) source: SourceKind,
    /// What it says.
    pub(super) told: Told,
}

/// A source's way to the daemon.
#[derive(Clone, Debug)]
struct Teller {
    source: SourceKind,
    reports: Sender<Report>,
}

impl Teller {
    /// Errors: the daemon is leaving.
    async fn tell(&self, told: Told) -> anyhow::Result<()> {
        let source = self.source;
        let report = Report { source, told };
        let sent = self.reports.send(report).await;
        sent.map_err(|_| anyhow::anyhow!(UNHEARD))
    }

    /// The same on a thread that may wait.
    fn tell_blocking(&self, told: Told) -> anyhow::Result<()> {
        let source = self.source;
        let report = Report { source, told };
        let sent = self.reports.blocking_send(report);
        sent.map_err(|_| anyhow::anyhow!(UNHEARD))
    }

    /// Errors: the daemon is leaving.
    fn is_heard(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.reports.is_closed(), UNHEARD);
        Ok(())
    }
}

/// Something that knows of the link.
trait LinkSource: Send + 'static {
    /// Tells what it hears, until it fails.
    ///
    /// Errors: one line, with what to do where the settings can help.
    fn run(&mut self, teller: &Teller) -> impl Future<Output = anyhow::Result<Infallible>> + Send;
}

/// Runs a source for as long as somebody listens.
async fn keep(mut source: impl LinkSource, teller: Teller) {
    let mut wait = RETRY_MIN;
    loop {
        let begun = Instant::now();
        let Err(error) = source.run(&teller).await;
        if teller
            .tell(Told::Failed(format!("{error:#}")))
            .await
            .is_err()
        {
            return;
        }
        if begun.elapsed() >= RETRY_MAX {
            wait = RETRY_MIN;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// The sources that the settings want, started.
pub(super) struct Sources {
    reports: Receiver<Report>,
    kinds: Vec<SourceKind>,
}

impl Sources {
    /// Starts them; within a tokio runtime.
    pub(super) fn start(settings: &MobileSettings) -> Self {
        let (sender, reports) = mpsc::channel(WAITING_MAX);
        let mut sources = Self {
            reports,
            kinds: Vec::new(),
        };
        let (interface, wanted) = (&settings.interface, &settings.sources);
        sources.add(SourceKind::Carrier, CarrierSource::default(), &sender);
        if wanted.wifi {
            let source = WifiSource::new(interface, wanted);
            sources.add(SourceKind::Wifi, source, &sender);
        }
        if let Some(modem) = &wanted.modem {
            let source = ModemSource::new(interface, modem.clone(), wanted.poll);
            sources.add(SourceKind::Modem, source, &sender);
        }
        if let Some(program) = &wanted.script {
            let source = ScriptSource::new(program, interface);
            sources.add(SourceKind::Script, source, &sender);
        }
        sources
    }

    fn add(&mut self, kind: SourceKind, source: impl LinkSource, reports: &Sender<Report>) {
        let teller = Teller {
            source: kind,
            reports: reports.clone(),
        };
        self.kinds.push(kind);
        tokio::spawn(keep(source, teller));
    }

    /// Those that were started.
    pub(super) fn kinds(&self) -> &[SourceKind] {
        &self.kinds
    }

    /// What the next one says.
    pub(super) async fn next(&mut self) -> Option<Report> {
        self.reports.recv().await
    }
}
