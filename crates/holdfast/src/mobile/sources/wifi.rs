// SPDX-License-Identifier: Apache-2.0
//! The interface's Wi-Fi: leaving an access point, joining one, the signal.

use std::convert::Infallible;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use holdfast_core::mobile_host::HostLinkEvent;
use holdfast_net::nl80211::{StationSignal, WifiEvent, WifiMonitor};
use holdfast_net::readiness::wait_readable;

use super::{LinkSource, Teller, Told};
use crate::settings::SourceSettings;

/// dB by which the signal has to rise again before the driver tells of the next fall.
const THRESHOLD_HYSTERESIS_DB: u32 = 4;
/// A station that is said to be away, and has an access point all the same after so long, has
/// come back without an event.
const BACK_UNTOLD: Duration = Duration::from_secs(2);
/// No access point for so long: it has gone without an event.
const GONE_UNTOLD: Duration = Duration::from_secs(1);
/// After an association the keys are exchanged. Some drivers never show that they are there.
const KEYS_MAX: Duration = Duration::from_secs(2);
/// How often it is asked for them.
const KEYS_POLL: Duration = Duration::from_millis(5);
/// How often it is looked whether anybody listens.
const LOOK: Duration = Duration::from_millis(200);

/// nl80211.
#[derive(Clone)]
pub(super) struct WifiSource {
    interface: String,
    poll: Duration,
    threshold_dbm: Option<i32>,
}

impl WifiSource {
    pub(super) fn new(interface: &str, settings: &SourceSettings) -> Self {
        Self {
            interface: interface.to_owned(),
            poll: settings.poll,
            threshold_dbm: settings.wifi_threshold_dbm,
        }
    }
}

impl LinkSource for WifiSource {
    /// On a thread of its own: a driver may take long to ask its hardware, and does so best
    /// while the station roams.
    async fn run(&mut self, teller: &Teller) -> anyhow::Result<Infallible> {
        let (watch, teller) = (self.clone(), teller.clone());
        let watched = tokio::task::spawn_blocking(move || watch.watch(&teller)).await?;
        watched.context("sources.wifi")
    }
}

impl WifiSource {
    fn watch(&self, teller: &Teller) -> anyhow::Result<Infallible> {
        let mut monitor = WifiMonitor::open(&self.interface)?;
        teller.tell_blocking(Told::Runs)?;
        self.set_threshold(&mut monitor, teller)?;
        let mut station = Station::default();
        let mut poll_at = Instant::now();
        loop {
            let left = poll_at.saturating_duration_since(Instant::now());
            let [ready] = wait_readable([monitor.as_fd()], Some(left.min(LOOK)))?;
            if ready {
                while let Some(event) = monitor.poll_event()? {
                    if let Some(told) = station.handle(event, Instant::now()) {
                        teller.tell_blocking(told)?;
                    }
                    if event == WifiEvent::Joined {
                        self.set_threshold(&mut monitor, teller)?;
                        poll_at = Instant::now();
                    }
                }
            }
            if Instant::now() >= poll_at {
                let signal = monitor.signal()?;
                for told in station.handle_signal(signal, Instant::now()) {
                    teller.tell_blocking(told)?;
                }
                let is_joining = station.joining_since.is_some();
                poll_at = Instant::now() + if is_joining { KEYS_POLL } else { self.poll };
            }
            teller.is_heard()?;
        }
    }

    /// It ends with each association: another one's comes in its place.
    fn set_threshold(&self, monitor: &mut WifiMonitor, teller: &Teller) -> anyhow::Result<()> {
        let Some(dbm) = self.threshold_dbm else {
            return Ok(());
        };
        let set = monitor.set_threshold(dbm, THRESHOLD_HYSTERESIS_DB);
        set.or_else(|error| {
            let text = format!("sources.wifi_threshold_dbm: the driver does not take it: {error}");
            teller.tell_blocking(Told::Note(text))
        })
    }
}

/// What is known of the station.
#[derive(Debug, Default)]
struct Station {
    /// Since when it is with no access point, as events say.
    away_since: Option<Instant>,
    /// It had an access point when it was last asked.
    was_seen: bool,
    /// Since when the answers tell of none.
    absent_since: Option<Instant>,
    /// Since when it joins an access point, without keys yet.
    joining_since: Option<Instant>,
}

impl Station {
    /// An event; what is to be told of it.
    fn handle(&mut self, event: WifiEvent, now: Instant) -> Option<Told> {
        match event {
            WifiEvent::Authenticating | WifiEvent::Left => self.leaves(now),
            // The link carries when the keys are there.
            WifiEvent::Joined => {
                self.joining_since = Some(now);
                None
            }
            WifiEvent::Threshold { dbm, .. } => dbm.map(|dbm| Told::Signal(dbm.into())),
            WifiEvent::BeaconLoss => Some(Told::Link(HostLinkEvent::GoingDownSoon(None))),
            // The next answer shows what is so.
            WifiEvent::Refused | WifiEvent::Overrun => None,
        }
    }

    /// The answer to the question for the signal.
    fn handle_signal(&mut self, signal: StationSignal, now: Instant) -> Vec<Told> {
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
                return vec![Told::Link(HostLinkEvent::Up)];
            }
            return Vec::new();
        }
        self.absent_since = None;
        if signal == StationSignal::Joining {
            if self.away_since.is_some() {
                // The event of the association may be lost.
                self.joining_since.get_or_insert(now);
            }
            if self.waits_for_keys(now) {
                return Vec::new();
            }
        }
        let mut told = Vec::new();
        if self.joining_since.take().is_some() {
            self.away_since = None;
            self.was_seen = true;
            told.push(Told::Link(HostLinkEvent::Up));
        }
        let is_back = |since: &Instant| now.duration_since(*since) >= BACK_UNTOLD;
        // The first answer: what the run before has said is over.
        if !self.was_seen && self.away_since.is_none()
            || self.away_since.as_ref().is_some_and(is_back)
        {
            self.away_since = None;
            told.push(Told::Carries);
        }
        self.was_seen = true;
        if let StationSignal::Dbm(dbm) = signal {
            told.push(Told::Signal(dbm.into()));
        }
        told
    }

    fn waits_for_keys(&self, now: Instant) -> bool {
        self.joining_since
            .is_some_and(|since| now.duration_since(since) < KEYS_MAX)
    }

    fn leaves(&mut self, now: Instant) -> Option<Told> {
        let is_news = self.away_since.is_none();
        self.joining_since = None;
        self.away_since.get_or_insert(now);
        is_news.then_some(Told::Link(HostLinkEvent::Down))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HostLinkEvent::{Down, GoingDownSoon, Up};
    use StationSignal::{Dbm, Joining, NoStation, Unknown};

    fn at(millis: u64) -> Instant {
        static BEGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        *BEGIN + Duration::from_millis(millis)
    }

    #[test]
    fn roaming_is_an_outage_from_the_authentication_to_the_association() {
        let mut station = Station::default();
        let first = station.handle_signal(Dbm(-70), at(0));
        assert_eq!(first, [Told::Carries, Told::Signal(-70.0)]);
        // As wpa_supplicant roams: the old access point is told only then.
        let down = station.handle(WifiEvent::Authenticating, at(100));
        assert_eq!(down, Some(Told::Link(Down)));
        assert_eq!(station.handle(WifiEvent::Left, at(101)), None, "known");
        assert_eq!(station.handle(WifiEvent::Authenticating, at(110)), None);
        assert_eq!(station.handle(WifiEvent::Joined, at(160)), None);
        let up = station.handle_signal(Unknown, at(160));
        assert_eq!(up, [Told::Link(Up)]);
        // A driver that roams by itself says so afterwards.
        assert_eq!(station.handle(WifiEvent::Joined, at(900)), None);
        let up = station.handle_signal(Dbm(-50), at(900));
        assert_eq!(up, [Told::Link(Up), Told::Signal(-50.0)]);
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
        assert_eq!(up, [Told::Link(Up), Told::Signal(-70.0)]);
        // A driver that never shows them.
        station.handle(WifiEvent::Left, at(6_000));
        station.handle(WifiEvent::Joined, at(6_100));
        assert_eq!(station.handle_signal(Joining, at(8_000)), []);
        assert_eq!(station.handle_signal(Joining, at(8_100)), [Told::Link(Up)]);
        assert_eq!(station.handle_signal(Joining, at(9_000)), []);
    }

    #[test]
    fn the_link_is_up_after_a_lost_association_and_with_a_driver_that_lists_no_station() {
        let mut station = Station::default();
        station.handle_signal(Dbm(-70), at(0));
        station.handle(WifiEvent::Left, at(100));
        assert_eq!(station.handle_signal(Joining, at(200)), []);
        assert_eq!(station.handle_signal(Joining, at(2_100)), []);
        assert_eq!(station.handle_signal(Joining, at(2_200)), [Told::Link(Up)]);
        let mut station = Station::default();
        station.handle(WifiEvent::Left, at(100));
        station.handle(WifiEvent::Joined, at(200));
        assert_eq!(station.handle_signal(NoStation, at(300)), []);
        assert_eq!(
            station.handle_signal(NoStation, at(2_200)),
            [Told::Link(Up)]
        );
        assert_eq!(station.handle_signal(NoStation, at(2_300)), []);
    }

    #[test]
    fn a_refusal_ends_no_outage_and_an_access_point_that_is_there_all_the_same_does() {
        let mut station = Station::default();
        station.handle(WifiEvent::Authenticating, at(0));
        assert_eq!(station.handle(WifiEvent::Refused, at(50)), None);
        let soon = station.handle_signal(Dbm(-60), at(500));
        assert_eq!(soon, [Told::Signal(-60.0)], "the old one, perhaps");
        let later = station.handle_signal(Unknown, at(2_000));
        assert_eq!(later, [Told::Carries], "of whose signal nothing is known");
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
        // However often it is asked, and whatever the driver knows of the signal.
        for ms in (2_050..2_500).step_by(50) {
            assert_eq!(station.handle_signal(Unknown, at(ms)), []);
        }
        assert_eq!(station.handle_signal(NoStation, at(2_500)), []);
        assert_eq!(station.handle_signal(NoStation, at(3_400)), []);
        assert_eq!(
            station.handle_signal(NoStation, at(3_500)),
            [Told::Link(Down)]
        );
        assert_eq!(station.handle_signal(NoStation, at(4_500)), [], "once");
        let back = station.handle_signal(Dbm(-70), at(6_000));
        assert_eq!(back, [Told::Carries, Told::Signal(-70.0)]);
    }

    #[test]
    fn a_threshold_is_a_sample_and_lost_beacons_are_a_warning() {
        let mut station = Station::default();
        let crossed = WifiEvent::Threshold {
            is_low: true,
            dbm: Some(-77),
        };
        assert_eq!(station.handle(crossed, at(0)), Some(Told::Signal(-77.0)));
        let lost = station.handle(WifiEvent::BeaconLoss, at(0));
        assert_eq!(lost, Some(Told::Link(GoingDownSoon(None))));
    }
}
