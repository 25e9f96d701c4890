// SPDX-License-Identifier: Apache-2.0
//! The interface's Wi-Fi: leaving an access point, joining one, the signal.

use std::convert::Infallible;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use holdfast_core::LinkEvent;
use holdfast_net::nl80211::{AccessPoint, StationSignal, WifiEvent, WifiMonitor};
use holdfast_net::readiness::wait_readable;

use super::{Reporter, SourceEvent, SourceTask};
use stronger::Stronger;

mod stronger;
use crate::settings::SourceSettings;

/// The signal must rise by this, dB, before the driver reports the next fall.
const THRESHOLD_HYSTERESIS_DB: u32 = 4;
/// A station was reported away, but has an access point after this time: it has returned
/// without an event.
const BACK_UNTOLD: Duration = Duration::from_secs(2);
/// A station without an access point for this time has left without an event.
const GONE_UNTOLD: Duration = Duration::from_secs(1);
/// The longest wait for the keys after an association. Some drivers never report the keys.
const KEYS_MAX: Duration = Duration::from_secs(2);
/// The interval of the queries while the keys are awaited.
const KEYS_POLL: Duration = Duration::from_millis(5);
/// The interval at which the thread checks whether the daemon still receives its reports.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// nl80211.
#[derive(Clone)]
pub(super) struct WifiSource {
    interface: String,
    poll: Duration,
    threshold_dbm: Option<i32>,
    stronger_db: Option<i32>,
    roam_command: Option<PathBuf>,
}

impl WifiSource {
    pub(super) fn new(interface: &str, settings: &SourceSettings) -> Self {
        Self {
            interface: interface.to_owned(),
            poll: settings.poll,
            threshold_dbm: settings.wifi_threshold_dbm,
            stronger_db: settings.wifi_stronger_db,
            roam_command: settings.wifi_roam_command.clone(),
        }
    }
}

impl SourceTask for WifiSource {
    /// Runs on a thread of its own: a driver may take long to query its hardware, above all
    /// while the station roams.
    async fn run(&mut self, reporter: &Reporter) -> anyhow::Result<Infallible> {
        let (watch, reporter) = (self.clone(), reporter.clone());
        let watched = tokio::task::spawn_blocking(move || watch.watch(&reporter)).await?;
        watched.context("sources.wifi")
    }
}

impl WifiSource {
    fn watch(&self, reporter: &Reporter) -> anyhow::Result<Infallible> {
        let mut monitor = WifiMonitor::open(&self.interface)?;
        reporter.report_blocking(SourceEvent::Runs)?;
        self.set_threshold(&mut monitor, reporter)?;
        let mut station = Station::default();
        let mut stronger = self.stronger_db.map(Stronger::new);
        let mut roaming: Option<Roaming> = None;
        let mut poll_at = Instant::now();
        loop {
            let left = poll_at.saturating_duration_since(Instant::now());
            let [ready] = wait_readable([monitor.as_fd()], Some(left.min(CHECK_INTERVAL)))?;
            if ready {
                while let Some(event) = monitor.poll_event()? {
                    if let Some(event) = station.handle(event, Instant::now()) {
                        reporter.report_blocking(event)?;
                    }
                    if event == WifiEvent::Joined {
                        self.set_threshold(&mut monitor, reporter)?;
                        poll_at = Instant::now();
                    }
                }
            }
            if Instant::now() >= poll_at {
                let signal = monitor.signal()?;
                for event in station.handle_signal(signal, Instant::now()) {
                    reporter.report_blocking(event)?;
                }
                if let (Some(stronger), StationSignal::Dbm(own)) = (&mut stronger, signal)
                    && let Some(point) =
                        stronger.look(own.into(), &monitor.access_points()?, Instant::now())
                {
                    reporter.report_blocking(stronger::begins(point, own))?;
                    reporter.report_blocking(SourceEvent::Link(LinkEvent::GoingDownSoon(None)))?;
                    self.roam(point, &mut roaming, reporter)?;
                }
                self.note_end(&mut roaming, reporter)?;
                let is_joining = station.joining_since.is_some();
                poll_at = Instant::now() + if is_joining { KEYS_POLL } else { self.poll };
            }
            reporter.is_connected()?;
        }
    }

    /// Runs the program that lets the interface roam, unless it still runs.
    fn roam(
        &self,
        to: &AccessPoint,
        running: &mut Option<Roaming>,
        reporter: &Reporter,
    ) -> anyhow::Result<()> {
        self.note_end(running, reporter)?;
        let (Some(program), None) = (&self.roam_command, &running) else {
            return Ok(());
        };
        let mut command = Command::new(program);
        command.arg(&self.interface).arg(stronger::text(to));
        match command.stdin(Stdio::null()).spawn() {
            Ok(child) => *running = Some(Roaming(child)),
            Err(error) => {
                let text = format!("sources.wifi_roam_command: {}: {error}", program.display());
                reporter.report_blocking(SourceEvent::Note(text))?;
            }
        }
        Ok(())
    }

    /// Checks whether the program that lets the interface roam has ended.
    fn note_end(&self, running: &mut Option<Roaming>, reporter: &Reporter) -> anyhow::Result<()> {
        let Some(Roaming(child)) = running else {
            return Ok(());
        };
        let (Some(program), Some(status)) = (&self.roam_command, child.try_wait()?) else {
            return Ok(());
        };
        *running = None;
        if status.success() {
            return Ok(());
        }
        let text = format!("sources.wifi_roam_command: {}: {status}", program.display());
        reporter.report_blocking(SourceEvent::Note(text))
    }

    /// Sets the threshold of the signal. It ends with each association, so it is set for each.
    fn set_threshold(&self, monitor: &mut WifiMonitor, reporter: &Reporter) -> anyhow::Result<()> {
        let Some(dbm) = self.threshold_dbm else {
            return Ok(());
        };
        let set = monitor.set_threshold(dbm, THRESHOLD_HYSTERESIS_DB);
        set.or_else(|error| {
            let text = format!("sources.wifi_threshold_dbm: the driver does not take it: {error}");
            reporter.report_blocking(SourceEvent::Note(text))
        })
    }
}

/// The program that lets the interface roam. It ends with the source.
struct Roaming(Child);

impl Drop for Roaming {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The state of the station.
#[derive(Debug, Default)]
struct Station {
    /// Since when the station has no access point, by events.
    away_since: Option<Instant>,
    /// The station had an access point at the last query.
    was_seen: bool,
    /// Since when the queries show no access point.
    absent_since: Option<Instant>,
    /// Since when the station joins an access point, without keys yet.
    joining_since: Option<Instant>,
}

impl Station {
    /// Handles an event; returns what is to be reported.
    fn handle(&mut self, event: WifiEvent, now: Instant) -> Option<SourceEvent> {
        match event {
            WifiEvent::Authenticating | WifiEvent::Left => self.leaves(now),
            // The link is up only when the keys are there.
            WifiEvent::Joined => {
                self.joining_since = Some(now);
                None
            }
            WifiEvent::Threshold { dbm, .. } => dbm.map(|dbm| SourceEvent::Signal(dbm.into())),
            WifiEvent::BeaconLoss => Some(SourceEvent::Link(LinkEvent::GoingDownSoon(None))),
            // The next query shows the state.
            WifiEvent::Refused | WifiEvent::Overrun => None,
        }
    }

    /// Handles the answer to a query of the signal.
    fn handle_signal(&mut self, signal: StationSignal, now: Instant) -> Vec<SourceEvent> {
        if signal == StationSignal::NoStation {
            let since = *self.absent_since.get_or_insert(now);
            if self.was_seen && now.duration_since(since) >= GONE_UNTOLD {
                self.was_seen = false;
                return self.leaves(now).into_iter().collect();
            }
            // Some drivers list no access point at all.
            if self.joining_since.is_some() && !self.waits_for_keys(now) {
                self.joining_since = None;
                self.away_since = None;
                return vec![SourceEvent::Link(LinkEvent::Up)];
            }
            return Vec::new();
        }
        self.absent_since = None;
        if signal == StationSignal::Joining {
            if self.away_since.is_some() {
                // The event of the association may have been lost.
                self.joining_since.get_or_insert(now);
            }
            if self.waits_for_keys(now) {
                return Vec::new();
            }
        }
        let mut events = Vec::new();
        if self.joining_since.take().is_some() {
            self.away_since = None;
            self.was_seen = true;
            events.push(SourceEvent::Link(LinkEvent::Up));
        }
        let is_back = |since: &Instant| now.duration_since(*since) >= BACK_UNTOLD;
        // With the first answer the report of an earlier run is over.
        if !self.was_seen && self.away_since.is_none()
            || self.away_since.as_ref().is_some_and(is_back)
        {
            self.away_since = None;
            events.push(SourceEvent::Lifted);
        }
        self.was_seen = true;
        if let StationSignal::Dbm(dbm) = signal {
            events.push(SourceEvent::Signal(dbm.into()));
        }
        events
    }

    fn waits_for_keys(&self, now: Instant) -> bool {
        self.joining_since
            .is_some_and(|since| now.duration_since(since) < KEYS_MAX)
    }

    fn leaves(&mut self, now: Instant) -> Option<SourceEvent> {
        let is_news = self.away_since.is_none();
        self.joining_since = None;
        self.away_since.get_or_insert(now);
        is_news.then_some(SourceEvent::Link(LinkEvent::Down))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LinkEvent::{Down, GoingDownSoon, Up};
    use StationSignal::{Dbm, Joining, NoStation, Unknown};

    fn at(millis: u64) -> Instant {
        static BEGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        *BEGIN + Duration::from_millis(millis)
    }

    #[test]
    fn roaming_is_an_outage_from_the_authentication_to_the_association() {
        let mut station = Station::default();
        let first = station.handle_signal(Dbm(-70), at(0));
        assert_eq!(first, [SourceEvent::Lifted, SourceEvent::Signal(-70.0)]);
        // As wpa_supplicant roams: the old access point is notified only then.
        let down = station.handle(WifiEvent::Authenticating, at(100));
        assert_eq!(down, Some(SourceEvent::Link(Down)));
        assert_eq!(station.handle(WifiEvent::Left, at(101)), None, "known");
        assert_eq!(station.handle(WifiEvent::Authenticating, at(110)), None);
        assert_eq!(station.handle(WifiEvent::Joined, at(160)), None);
        let up = station.handle_signal(Unknown, at(160));
        assert_eq!(up, [SourceEvent::Link(Up)]);
        // A driver that roams by itself reports that afterwards.
        assert_eq!(station.handle(WifiEvent::Joined, at(900)), None);
        let up = station.handle_signal(Dbm(-50), at(900));
        assert_eq!(up, [SourceEvent::Link(Up), SourceEvent::Signal(-50.0)]);
    }

    #[test]
    fn the_link_is_up_when_the_keys_are_there() {
        let mut station = Station::default();
        station.handle_signal(Dbm(-70), at(0));
        station.handle(WifiEvent::Left, at(100));
        // However long ago it left: it authenticates, and has no access point yet.
        assert_eq!(station.handle_signal(Joining, at(5_000)), []);
        station.handle(WifiEvent::Joined, at(5_010));
        assert_eq!(station.handle_signal(Joining, at(5_015)), []);
        let up = station.handle_signal(Dbm(-70), at(5_040));
        assert_eq!(up, [SourceEvent::Link(Up), SourceEvent::Signal(-70.0)]);
        // A driver that never shows them.
        station.handle(WifiEvent::Left, at(6_000));
        station.handle(WifiEvent::Joined, at(6_100));
        assert_eq!(station.handle_signal(Joining, at(8_000)), []);
        assert_eq!(
            station.handle_signal(Joining, at(8_100)),
            [SourceEvent::Link(Up)]
        );
        assert_eq!(station.handle_signal(Joining, at(9_000)), []);
    }

    #[test]
    fn the_link_is_up_after_a_lost_association_and_with_a_driver_that_lists_no_station() {
        let mut station = Station::default();
        station.handle_signal(Dbm(-70), at(0));
        station.handle(WifiEvent::Left, at(100));
        assert_eq!(station.handle_signal(Joining, at(200)), []);
        assert_eq!(station.handle_signal(Joining, at(2_100)), []);
        assert_eq!(
            station.handle_signal(Joining, at(2_200)),
            [SourceEvent::Link(Up)]
        );
        let mut station = Station::default();
        station.handle(WifiEvent::Left, at(100));
        station.handle(WifiEvent::Joined, at(200));
        assert_eq!(station.handle_signal(NoStation, at(300)), []);
        assert_eq!(
            station.handle_signal(NoStation, at(2_200)),
            [SourceEvent::Link(Up)]
        );
        assert_eq!(station.handle_signal(NoStation, at(2_300)), []);
    }

    #[test]
    fn a_refusal_ends_no_outage_and_an_access_point_that_is_there_all_the_same_does() {
        let mut station = Station::default();
        station.handle(WifiEvent::Authenticating, at(0));
        assert_eq!(station.handle(WifiEvent::Refused, at(50)), None);
        let soon = station.handle_signal(Dbm(-60), at(500));
        assert_eq!(soon, [SourceEvent::Signal(-60.0)], "the old one, perhaps");
        let later = station.handle_signal(Unknown, at(2_000));
        assert_eq!(
            later,
            [SourceEvent::Lifted],
            "of whose signal nothing is known"
        );
    }

    #[test]
    fn an_access_point_that_is_lost_without_an_event_is_missed() {
        let mut station = Station::default();
        assert_eq!(
            station.handle_signal(NoStation, at(0)),
            [],
            "there was none yet"
        );
        assert_eq!(station.handle_signal(NoStation, at(1_500)), []);
        station.handle_signal(Dbm(-80), at(2_000));
        // However often it is queried, and whatever the driver knows of the signal.
        for ms in (2_050..2_500).step_by(50) {
            assert_eq!(station.handle_signal(Unknown, at(ms)), []);
        }
        assert_eq!(station.handle_signal(NoStation, at(2_500)), []);
        assert_eq!(station.handle_signal(NoStation, at(3_400)), []);
        assert_eq!(
            station.handle_signal(NoStation, at(3_500)),
            [SourceEvent::Link(Down)]
        );
        assert_eq!(station.handle_signal(NoStation, at(4_500)), [], "once");
        let back = station.handle_signal(Dbm(-70), at(6_000));
        assert_eq!(back, [SourceEvent::Lifted, SourceEvent::Signal(-70.0)]);
    }

    #[test]
    fn a_threshold_is_a_sample_and_lost_beacons_are_a_warning() {
        let mut station = Station::default();
        let crossed = WifiEvent::Threshold {
            is_low: true,
            dbm: Some(-77),
        };
        assert_eq!(
            station.handle(crossed, at(0)),
            Some(SourceEvent::Signal(-77.0))
        );
        let lost = station.handle(WifiEvent::BeaconLoss, at(0));
        assert_eq!(lost, Some(SourceEvent::Link(GoingDownSoon(None))));
    }
}
