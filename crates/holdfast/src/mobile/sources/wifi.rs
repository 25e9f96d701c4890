// SPDX-License-Identifier: Apache-2.0
//! The interface's Wi-Fi: leaving an access point, joining one, the signal.

use std::convert::Infallible;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use holdfast_core::mobile_host::HostLinkEvent;
use holdfast_net::nl80211::{WifiEvent, WifiMonitor};
use tokio::io::unix::AsyncFd;
use tokio::time::MissedTickBehavior;

use super::{LinkSource, Teller, Told};
use crate::settings::SourceSettings;

/// dB by which the signal has to rise again before the driver tells of the next fall.
const THRESHOLD_HYSTERESIS_DB: u32 = 4;
/// A station that is said to be away, and has an access point all the same after so long, has
/// come back without an event.
const BACK_UNTOLD: Duration = Duration::from_secs(2);
/// So many answers in a row without an access point: it has gone without an event.
const ABSENCES: u32 = 2;

/// nl80211.
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

struct MonitorFd(WifiMonitor);

impl AsRawFd for MonitorFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl AsFd for MonitorFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[expect(
    deprecated,
    reason = "its replacement is unsafe; the descriptor never changes"
)]
fn open(interface: &str) -> anyhow::Result<AsyncFd<MonitorFd>> {
    Ok(AsyncFd::new(MonitorFd(WifiMonitor::open(interface)?))?)
}

impl LinkSource for WifiSource {
    async fn run(&mut self, teller: &Teller) -> anyhow::Result<Infallible> {
        let opened = open(&self.interface);
        let mut monitor = opened.map_err(|error| anyhow::anyhow!("sources.wifi: {error:#}"))?;
        teller.tell(Told::Runs).await?;
        if let Some(dbm) = self.threshold_dbm
            && let Err(error) = monitor
                .get_mut()
                .0
                .set_threshold(dbm, THRESHOLD_HYSTERESIS_DB)
        {
            let text = format!("sources.wifi_threshold_dbm: the driver does not take it: {error}");
            teller.tell(Told::Note(text)).await?;
        }
        let mut station = Station::default();
        let mut poll = tokio::time::interval(self.poll);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let told = tokio::select! {
                ready = monitor.readable_mut() => {
                    let mut ready = ready?;
                    let mut told = Vec::new();
                    while let Some(event) = ready.get_inner_mut().0.poll_event()? {
                        told.extend(station.handle(event, Instant::now()));
                    }
                    ready.clear_ready();
                    told
                }
                _ = poll.tick() => {
                    let signal = monitor.get_mut().0.signal()?;
                    station.handle_signal(signal, Instant::now())
                }
            };
            for told in told {
                teller.tell(told).await?;
            }
        }
    }
}

/// What is known of the station.
#[derive(Debug, Default)]
struct Station {
    /// Since when it is with no access point, as events say.
    away_since: Option<Instant>,
    /// It had an access point when it was last asked.
    was_seen: bool,
    /// Answers in a row that told of none.
    absences: u32,
}

impl Station {
    /// An event; what is to be told of it.
    fn handle(&mut self, event: WifiEvent, now: Instant) -> Option<Told> {
        match event {
            WifiEvent::Authenticating | WifiEvent::Left => self.leaves(now),
            WifiEvent::Joined => {
                self.away_since = None;
                Some(Told::Link(HostLinkEvent::Up))
            }
            WifiEvent::Threshold { dbm, .. } => dbm.map(|dbm| Told::Signal(dbm.into())),
            WifiEvent::BeaconLoss => Some(Told::Link(HostLinkEvent::GoingDownSoon(None))),
            // The next answer shows what is so.
            WifiEvent::Refused | WifiEvent::Overrun => None,
        }
    }

    /// The answer to the question for the signal.
    fn handle_signal(&mut self, dbm: Option<i8>, now: Instant) -> Vec<Told> {
        let Some(dbm) = dbm else {
            self.absences += 1;
            if self.was_seen && self.absences >= ABSENCES {
                self.was_seen = false;
                return self.leaves(now).into_iter().collect();
            }
            return Vec::new();
        };
        self.was_seen = true;
        self.absences = 0;
        let is_back = |since: &Instant| now.duration_since(*since) >= BACK_UNTOLD;
        let mut told = Vec::new();
        if self.away_since.as_ref().is_some_and(is_back) {
            self.away_since = None;
            told.push(Told::Link(HostLinkEvent::Up));
        }
        told.push(Told::Signal(dbm.into()));
        told
    }

    fn leaves(&mut self, now: Instant) -> Option<Told> {
        let is_news = self.away_since.is_none();
        self.away_since.get_or_insert(now);
        is_news.then_some(Told::Link(HostLinkEvent::Down))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HostLinkEvent::{Down, GoingDownSoon, Up};

    fn at(millis: u64) -> Instant {
        static BEGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        *BEGIN + Duration::from_millis(millis)
    }

    #[test]
    fn roaming_is_an_outage_from_the_authentication_to_the_association() {
        let mut station = Station::default();
        station.handle_signal(Some(-70), at(0));
        // As wpa_supplicant roams: the old access point is told only then.
        let down = station.handle(WifiEvent::Authenticating, at(100));
        assert_eq!(down, Some(Told::Link(Down)));
        assert_eq!(station.handle(WifiEvent::Left, at(101)), None, "known");
        assert_eq!(station.handle(WifiEvent::Authenticating, at(110)), None);
        let up = station.handle(WifiEvent::Joined, at(160));
        assert_eq!(up, Some(Told::Link(Up)));
        // A driver that roams by itself says so afterwards.
        assert_eq!(
            station.handle(WifiEvent::Joined, at(900)),
            Some(Told::Link(Up))
        );
    }

    #[test]
    fn a_refusal_ends_no_outage_and_an_access_point_that_is_there_all_the_same_does() {
        let mut station = Station::default();
        station.handle(WifiEvent::Authenticating, at(0));
        assert_eq!(station.handle(WifiEvent::Refused, at(50)), None);
        let soon = station.handle_signal(Some(-60), at(500));
        assert_eq!(soon, [Told::Signal(-60.0)], "the old one, perhaps");
        let later = station.handle_signal(Some(-60), at(2_000));
        assert_eq!(later, [Told::Link(Up), Told::Signal(-60.0)]);
    }

    #[test]
    fn an_access_point_that_is_lost_without_an_event_is_missed() {
        let mut station = Station::default();
        assert_eq!(station.handle_signal(None, at(0)), [], "there was none yet");
        assert_eq!(station.handle_signal(None, at(500)), []);
        station.handle_signal(Some(-80), at(1_000));
        assert_eq!(station.handle_signal(None, at(1_500)), []);
        assert_eq!(station.handle_signal(None, at(2_000)), [Told::Link(Down)]);
        assert_eq!(station.handle_signal(None, at(2_500)), [], "once");
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
