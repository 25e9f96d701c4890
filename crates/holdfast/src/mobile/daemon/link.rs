// SPDX-License-Identifier: Apache-2.0
//! What the sources say of the link, and what is done of it.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::mobile_host::HostLinkEvent;
use holdfast_wire::Instant;

use super::Daemon;
use crate::mobile::sources::{Forecast, LinkClaims, Report, SourceKind, Told};
use crate::settings::SourceSettings;
use crate::status::SourceStatus;

/// A source's warning of which nothing has come so long after the time that it named was none:
/// the gateway hears that the link is up.
const FALSE_ALARM_AFTER: Duration = Duration::from_secs(2);

/// What a source has said holds for so long after it has failed: another run may say the same.
const HOLDS: Duration = Duration::from_secs(10);
/// A modem that is reset, and ModemManager, take longer to be there again.
const MODEM_HOLDS: Duration = Duration::from_secs(120);

/// What is known of a source.
#[derive(Debug, Default)]
struct SourceState {
    runs: bool,
    problem: Option<String>,
    note: Option<String>,
    events: u64,
    failures: u64,
    /// It has failed: until then what it has said holds, if it does not say otherwise.
    holds_until: Option<Instant>,
}

/// The link as its sources have it.
#[derive(Debug)]
pub(super) struct Link {
    claims: LinkClaims,
    forecast: Forecast,
    sources: BTreeMap<SourceKind, SourceState>,
    /// When a warning is taken for a false alarm, and whose it is.
    false_alarm: Option<(Instant, SourceKind)>,
}

impl Link {
    pub(super) fn new(settings: &SourceSettings) -> Self {
        Self {
            claims: LinkClaims::default(),
            forecast: Forecast::new(settings),
            sources: BTreeMap::new(),
            false_alarm: None,
        }
    }

    /// These sources were started.
    pub(super) fn note_started(&mut self, kinds: &[SourceKind]) {
        for kind in kinds {
            self.sources.entry(*kind).or_default();
        }
    }

    /// The mobile is in another cell: nothing that was said is about it.
    pub(super) fn forget(&mut self) {
        self.claims.forget();
        self.forecast.handle_link(true);
        self.false_alarm = None;
    }

    /// How long until something is due.
    pub(super) fn timeout(&self, now: Instant) -> Option<Duration> {
        let words = self.sources.values().filter_map(|state| state.holds_until);
        let due = words.chain(self.false_alarm.map(|(at, _)| at)).min()?;
        Some(due.saturating_since(now))
    }

    /// Sources that have failed, and whose word holds no longer.
    fn take_silent(&mut self, now: Instant) -> Vec<SourceKind> {
        let over = |state: &SourceState| state.holds_until.is_some_and(|until| until <= now);
        let silent = self.sources.iter_mut().filter(|(_, state)| over(state));
        let silent = silent.map(|(kind, state)| {
            state.holds_until = None;
            *kind
        });
        silent.collect()
    }

    /// What is shown of the sources.
    pub(super) fn status(&self) -> Vec<SourceStatus> {
        let shown = self.sources.iter().map(|(kind, state)| {
            let signal = self.forecast.view(*kind);
            SourceStatus {
                name: kind.name().into(),
                runs: state.runs,
                reports_down: self.claims.down().any(|down| down == *kind),
                problem: state.problem.clone(),
                note: state.note.clone(),
                events: state.events,
                failures: state.failures,
                signal_dbm: signal.dbm,
                samples: signal.samples,
                warnings: signal.warnings,
            }
        });
        shown.collect()
    }
}

impl Daemon {
    /// A source says something.
    pub(super) fn handle_report(&mut self, report: Report) {
        let Report { source, told } = report;
        let state = self.link.sources.entry(source).or_default();
        match told {
            Told::Runs => {
                state.runs = true;
                state.problem = None;
                tracing::info!(source = source.name(), "runs");
            }
            Told::Failed(problem) => self.handle_failure(source, problem),
            Told::Note(note) => {
                tracing::info!(source = source.name(), "{note}");
                state.note = Some(note);
            }
            Told::Interface(interface) => self.handle_interface(&interface),
            Told::Addresses => {
                self.read_addresses();
                self.look_where_it_is();
            }
            Told::Link(event) => self.hear(source, event),
            Told::Carries => self.lift(source),
            Told::OtherRadio => self.link.forecast.forget(source),
            Told::Signal(dbm) => {
                // Of another cell's it is no news what becomes of the one here.
                let now = self.now();
                if self.is_about_here(source)
                    && let Some(lead) = self.link.forecast.handle_signal(source, dbm, now)
                {
                    tracing::info!(source = source.name(), dbm, ?lead, "the signal is going");
                    let lead = (!lead.is_zero()).then_some(lead);
                    self.hear(source, HostLinkEvent::GoingDownSoon(lead));
                }
            }
        }
    }

    fn handle_failure(&mut self, source: SourceKind, problem: String) {
        let holds = match source {
            SourceKind::Modem => MODEM_HOLDS,
            _ => HOLDS,
        };
        let until = self.now() + holds;
        let state = self.link.sources.entry(source).or_default();
        state.runs = false;
        state.failures += 1;
        // Once a reason: it is tried again and again.
        if state.problem.as_ref() == Some(&problem) {
            tracing::debug!(source = source.name(), "{problem}");
        } else {
            tracing::warn!(source = source.name(), "{problem}; trying again");
        }
        state.problem = Some(problem);
        // The carrier is as it was last seen: its next run tells of changes alone.
        if source != SourceKind::Carrier {
            state.holds_until.get_or_insert(until);
        }
    }

    /// What a source has said of an outage is over, or what it has warned of did not come.
    fn lift(&mut self, source: SourceKind) {
        let state = self.link.sources.entry(source).or_default();
        state.events += 1;
        state.holds_until = None;
        let warned = self.link.false_alarm.is_some_and(|(_, by)| by == source);
        let event = self.link.claims.withdraw(source);
        if let Some(event) = event.or(warned.then_some(HostLinkEvent::Up)) {
            self.link_becomes(source, event);
        }
    }

    /// What watches an interface tells nothing of a cell on another one.
    fn is_about_here(&self, source: SourceKind) -> bool {
        matches!(source, SourceKind::Carrier | SourceKind::Command)
            || self.cells.present().interface == self.settings.interface
    }

    /// A source says that this became of the link.
    pub(super) fn hear(&mut self, source: SourceKind, event: HostLinkEvent) {
        let is_about_here = self.is_about_here(source);
        let state = self.link.sources.entry(source).or_default();
        state.events += 1;
        state.holds_until = None;
        if (source, event) == (SourceKind::Carrier, HostLinkEvent::Up) {
            // It has seen the link come back; who has failed has not.
            for silent in self.link.take_silent(Instant::from_nanos(u64::MAX)) {
                self.link.claims.withdraw(silent);
            }
        }
        if is_about_here && let Some(event) = self.link.claims.handle(source, event) {
            self.link_becomes(source, event);
        }
    }

    fn link_becomes(&mut self, source: SourceKind, event: HostLinkEvent) {
        let is_warning = matches!(event, HostLinkEvent::GoingDownSoon(_));
        if is_warning && self.link.false_alarm.is_some() {
            // One who warns again and again is heard, and fills no log.
            tracing::debug!(source = source.name(), ?event, "link");
        } else {
            tracing::info!(source = source.name(), ?event, "link");
        }
        let now = self.now();
        self.link.false_alarm = None;
        match event {
            HostLinkEvent::Up => {
                self.link.forecast.handle_link(true);
                self.session.link_up(now);
            }
            HostLinkEvent::Down => {
                self.link.forecast.handle_link(false);
                self.session.link_down(now);
            }
            HostLinkEvent::GoingDownSoon(lead) => {
                let lead = lead.unwrap_or_default();
                let lead_ms = u16::try_from(lead.as_millis()).unwrap_or(u16::MAX);
                self.session.going_down_soon(lead_ms, now);
                // Who gives a command says himself when it was none.
                if source != SourceKind::Command {
                    self.link.false_alarm = Some((now + lead + FALSE_ALARM_AFTER, source));
                }
            }
        }
        self.tell_host(event);
    }

    /// Does what is due.
    pub(super) fn handle_link_timeout(&mut self) {
        let now = self.now();
        for source in self.link.take_silent(now) {
            if let Some(event) = self.link.claims.withdraw(source) {
                self.link_becomes(source, event);
            }
        }
        // A warning of which nothing has come: the gateway hears that the link is up. What the
        // own flows make of it is their machine's.
        if self.link.false_alarm.is_some_and(|(at, _)| at <= now) {
            self.link.false_alarm = None;
            tracing::info!("a false alarm");
            self.session.link_up(now);
        }
    }
}
