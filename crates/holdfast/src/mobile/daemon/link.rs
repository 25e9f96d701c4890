// SPDX-License-Identifier: Apache-2.0
//! The reports of the link sources, and what follows from them.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::{LinkEvent, LinkSource};
use holdfast_wire::Instant;

use super::Daemon;
use crate::control::SourceStatus;
use crate::mobile::sources::{LinkClaims, Report, SourceEvent};

/// A warning was a false alarm if no outage has come this time after the announced one. The gateway
/// then receives link up.
const FALSE_ALARM_AFTER: Duration = Duration::from_secs(2);

/// After a source has failed, its report holds for this time: its next run may repeat it.
const HOLDS: Duration = Duration::from_secs(10);
/// The same for a modem: a reset modem, and ModemManager, take longer to return.
const MODEM_HOLDS: Duration = Duration::from_secs(120);

/// The state of a source.
#[derive(Debug, Default)]
struct SourceState {
    runs: bool,
    problem: Option<String>,
    note: Option<String>,
    events: u64,
    /// The newest signal, dBm. `samples` is the number of signals.
    signal_dbm: Option<f64>,
    samples: u64,
    failures: u64,
    /// The source has failed: its report holds until then, or until its next report.
    holds_until: Option<Instant>,
}

/// The state of the link according to its sources.
#[derive(Debug, Default)]
pub(super) struct Link {
    claims: LinkClaims,
    sources: BTreeMap<LinkSource, SourceState>,
    /// When the newest warning counts as a false alarm, and the source of the warning.
    false_alarm: Option<(Instant, LinkSource)>,
    /// The source of the newest link down.
    down_by: LinkSource,
}

impl Link {
    /// Adds the sources that were started.
    pub(super) fn note_started(&mut self, kinds: &[LinkSource]) {
        for kind in kinds {
            self.sources.entry(*kind).or_default();
        }
    }

    /// Forgets all reports: the mobile is in another cell, which they are not about.
    pub(super) fn forget(&mut self) {
        self.claims.forget();
        self.false_alarm = None;
    }

    /// The time until something is due.
    pub(super) fn timeout(&self, now: Instant) -> Option<Duration> {
        let failed = self.sources.values().filter_map(|state| state.holds_until);
        let due = failed.chain(self.false_alarm.map(|(at, _)| at)).min()?;
        Some(due.saturating_since(now))
    }

    /// Sources that have failed, and whose reports hold no longer.
    fn take_silent(&mut self, now: Instant) -> Vec<LinkSource> {
        let over = |state: &SourceState| state.holds_until.is_some_and(|until| until <= now);
        let silent = self.sources.iter_mut().filter(|(_, state)| over(state));
        let silent = silent.map(|(kind, state)| {
            state.holds_until = None;
            *kind
        });
        silent.collect()
    }

    /// The source of the newest link down.
    pub(super) const fn down_by(&self) -> LinkSource {
        self.down_by
    }

    /// The status of the sources.
    pub(super) fn status(&self) -> Vec<SourceStatus> {
        let shown = self.sources.iter().map(|(kind, state)| SourceStatus {
            name: kind.name().into(),
            runs: state.runs,
            reports_down: self.claims.down().any(|down| down == *kind),
            problem: state.problem.clone(),
            note: state.note.clone(),
            events: state.events,
            failures: state.failures,
            signal_dbm: state.signal_dbm,
            samples: state.samples,
        });
        shown.collect()
    }
}

impl Daemon {
    /// Handles a report of a source.
    pub(super) fn handle_report(&mut self, report: Report) {
        let Report { source, event } = report;
        let state = self.link.sources.entry(source).or_default();
        match event {
            SourceEvent::Runs => {
                state.runs = true;
                state.problem = None;
                tracing::info!(source = source.name(), "runs");
            }
            SourceEvent::Failed(problem) => self.handle_failure(source, problem),
            SourceEvent::Note(note) => {
                tracing::info!(source = source.name(), "{note}");
                state.note = Some(note);
            }
            SourceEvent::Interface(interface) => self.handle_interface(&interface),
            SourceEvent::Addresses => {
                self.read_addresses();
                self.look_where_it_is();
            }
            SourceEvent::Link(event) => self.handle_event(source, event),
            SourceEvent::Lifted => self.lift(source),
            SourceEvent::Signal(dbm) => {
                state.signal_dbm = Some(dbm);
                state.samples += 1;
            }
        }
    }

    fn handle_failure(&mut self, source: LinkSource, problem: String) {
        let holds = match source {
            LinkSource::Modem => MODEM_HOLDS,
            _ => HOLDS,
        };
        let until = self.now() + holds;
        let state = self.link.sources.entry(source).or_default();
        state.runs = false;
        state.failures += 1;
        // One warning for each reason: the source is tried again and again.
        if state.problem.as_ref() == Some(&problem) {
            tracing::debug!(source = source.name(), "{problem}");
        } else {
            tracing::warn!(source = source.name(), "{problem}; trying again");
        }
        state.problem = Some(problem);
        // The carrier's last report holds until its next run reports the present state.
        if source != LinkSource::Carrier {
            state.holds_until.get_or_insert(until);
        }
    }

    /// A source's outage is over, or the outage that it announced did not come.
    fn lift(&mut self, source: LinkSource) {
        let state = self.link.sources.entry(source).or_default();
        state.events += 1;
        state.holds_until = None;
        let warned = self.link.false_alarm.is_some_and(|(_, by)| by == source);
        let event = self.link.claims.withdraw(source);
        if let Some(event) = event.or(warned.then_some(LinkEvent::Up)) {
            self.link_becomes(source, event);
        }
    }

    /// The interface's sources report nothing about a cell on another interface.
    fn is_about_here(&self, source: LinkSource) -> bool {
        matches!(source, LinkSource::Carrier | LinkSource::Command)
            || self.cells.present().interface == self.settings.interface
    }

    /// Handles an event of the link, reported by a source.
    pub(super) fn handle_event(&mut self, source: LinkSource, event: LinkEvent) {
        let is_about_here = self.is_about_here(source);
        let state = self.link.sources.entry(source).or_default();
        state.events += 1;
        state.holds_until = None;
        if (source, event) == (LinkSource::Carrier, LinkEvent::Up) {
            // The carrier has seen link up. A source that has failed cannot see it: its report ends.
            for silent in self.link.take_silent(Instant::from_nanos(u64::MAX)) {
                self.link.claims.withdraw(silent);
            }
        }
        if !is_about_here {
            return;
        }
        if let Some(event) = self.link.claims.handle(source, event) {
            self.link_becomes(source, event);
        } else if (source, event) == (LinkSource::Carrier, LinkEvent::Down) {
            // Nothing changes for the link, but the kernel forgets its neighbours now.
            self.notify_uplink(event);
        }
    }

    fn link_becomes(&mut self, source: LinkSource, event: LinkEvent) {
        let is_warning = matches!(event, LinkEvent::GoingDownSoon(_));
        if is_warning && self.link.false_alarm.is_some() {
            // Repeated warnings take effect, but do not fill the log.
            tracing::debug!(source = source.name(), ?event, "link");
        } else {
            tracing::info!(source = source.name(), ?event, "link");
        }
        let now = self.now();
        self.link.false_alarm = None;
        match event {
            LinkEvent::Up => self.session.link_up(now),
            LinkEvent::Down => {
                self.link.down_by = source;
                self.session.link_down(now);
            }
            LinkEvent::GoingDownSoon(lead) => {
                let lead = lead.unwrap_or_default();
                let lead_ms = u16::try_from(lead.as_millis()).unwrap_or(u16::MAX);
                self.session.going_down_soon(lead_ms, now);
                // A command's warning is ended only by a command.
                if source != LinkSource::Command {
                    self.link.false_alarm = Some((now + lead + FALSE_ALARM_AFTER, source));
                }
            }
        }
        self.notify_host(event);
    }

    /// Does what is due.
    pub(super) fn handle_link_timeout(&mut self) {
        let now = self.now();
        for source in self.link.take_silent(now) {
            if let Some(event) = self.link.claims.withdraw(source) {
                self.link_becomes(source, event);
            }
        }
        // No outage followed a warning: the gateway receives link up. For the mobile's
        // own flows their machine decides.
        if self.link.false_alarm.is_some_and(|(at, _)| at <= now) {
            self.link.false_alarm = None;
            tracing::info!("a false alarm");
            self.session.link_up(now);
        }
    }
}
