// SPDX-License-Identifier: Apache-2.0
//! What a warning does: which windows are closed, when, and what happens after a false alarm.

use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::Instant;

use super::flow::{HostFlow, ROUND_TRIP_UNKNOWN, served};
use super::opening::{ClosedWindow, Opening};
use super::{
    ADOPTION, COPIES_AFTER_FALSE_ALARM, FLOWS_SERVED_MAX, FreezeSet, HostAction, MadeAck,
    MobileHost, MobileHostSettings, MobileScheme, ORDER_RENEWAL, Phase, WARNED_MAX,
};
use crate::FlowKey;

/// `today`: a false alarm closes a window for at most `false_alarm` plus this, 0.9 s with the default.
const CLOSED_MORE: Duration = Duration::from_millis(400);
/// A window stays closed until this time after the announced outage, because outages come late.
const LATE: Duration = Duration::from_millis(200);
/// Windows of flows with about the same round trip open together.
const OPENED_TOGETHER: Duration = Duration::from_millis(20);

/// How long before the outage the window of a flow with this round trip is closed. Today's senders
/// need one round trip more than the published one: what is sent until the zero window arrives has
/// to arrive, and so has its ACK.
fn lead_of(settings: &MobileHostSettings, round_trip: Duration) -> Duration {
    let more = match settings.set {
        FreezeSet::Published => 0.0,
        FreezeSet::Today => 1.0,
    };
    round_trips(settings, round_trip, more)
}

/// If there is less time than this, a window is not closed: an ACK takes half a round trip.
fn least_lead_of(settings: &MobileHostSettings, round_trip: Duration) -> Duration {
    round_trips(settings, round_trip, 0.5)
}

fn round_trips(settings: &MobileHostSettings, round_trip: Duration, more: f64) -> Duration {
    // Bounded, so that every setting gives a valid duration.
    let factor = settings.warning_round_trips.clamp(0.0, 16.0) + more;
    round_trip.min(Duration::from_secs(180)).mul_f64(factor)
}

impl MobileHost {
    pub(super) fn on_warning(
        &mut self,
        lead: Option<Duration>,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        let is_down = matches!(self.phase, Phase::Down { .. });
        if self.settings.scheme != MobileScheme::Freeze
            || is_down
            || now < self.warnings_ignored_until
        {
            return;
        }
        let down_expected_at = lead.map(|lead| now + lead);
        let until = down_expected_at.unwrap_or(now) + self.settings.false_alarm;
        // Successive warnings do not keep windows closed for ever.
        let most = self.settings.false_alarm + WARNED_MAX;
        let most = self.closed_since.map(|since| since + most);
        self.phase = Phase::Warned {
            down_expected_at,
            until: most.map_or(until, |most| until.min(most)),
            adopt_at: now + ADOPTION,
        };
        self.left_alone.clear();
        // A newer warning has a better time.
        self.pending.clear();
        self.warn_flows(down_expected_at, now, flows, actions);
        self.renew_at = now + ORDER_RENEWAL;
    }

    /// Closes the windows that are due, and notes when the others are due.
    pub(super) fn warn_flows(
        &mut self,
        down_expected_at: Option<Instant>,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        for flow in served(flows, now) {
            if self.closed.contains_key(&flow.key) {
                continue;
            }
            let round_trip = flow.round_trip();
            let assumed = round_trip.unwrap_or(ROUND_TRIP_UNKNOWN);
            let ahead = lead_of(&self.settings, assumed);
            let at = down_expected_at.map_or(now, |down_expected_at| down_expected_at - ahead);
            if self.settings.set == FreezeSet::Today {
                // A warning that does not cover the round trip does more harm than none.
                let left =
                    down_expected_at.map(|down_expected_at| down_expected_at.saturating_since(now));
                let least = round_trip.map(|round_trip| least_lead_of(&self.settings, round_trip));
                if least.is_none() || left < least {
                    self.pending.remove(&flow.key);
                    self.counters.not_covered += u64::from(self.left_alone.insert(flow.key));
                    continue;
                }
            }
            if at <= now {
                self.close(flow.key, ClosedWindow::new(Some(flow), now), now, actions);
            } else {
                self.pending.insert(flow.key, at);
            }
        }
    }

    /// Closes the windows that are due.
    pub(super) fn close_due(
        &mut self,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        let is_due = |(key, at): (&FlowKey, &Instant)| (*at <= now).then_some(*key);
        let due: Vec<_> = self.pending.iter().filter_map(is_due).collect();
        let known: BTreeMap<_, _> = flows.iter().map(|flow| (flow.key, flow)).collect();
        for key in due {
            let closed_window = ClosedWindow::new(known.get(&key).copied(), now);
            self.close(key, closed_window, now, actions);
        }
    }

    fn close(
        &mut self,
        key: FlowKey,
        closed_window: ClosedWindow,
        now: Instant,
        actions: &mut Vec<HostAction>,
    ) {
        self.pending.remove(&key);
        if self.closed.len() >= FLOWS_SERVED_MAX {
            return;
        }
        let before = self.openings.remove(&key);
        let flight = before.as_ref().map(Opening::flight);
        self.closed.insert(
            key,
            ClosedWindow {
                flight,
                ..closed_window
            },
        );
        self.closed_since.get_or_insert(now);
        self.counters.frozen += 1;
        actions.push(HostAction::Close(key));
        self.send(key, MadeAck::ZeroWindow, 1, actions);
    }

    /// When this window is opened if the warning is a false alarm: at `until`, or sooner.
    ///
    /// A false alarm costs two round trips before the announced outage, and the time after it. A window
    /// that was closed early is opened early. If the outage has begun and is not reported yet, the flow
    /// receives nothing, and its window is closed again with the report.
    fn opens_at(
        &self,
        closed: &ClosedWindow,
        down_expected_at: Option<Instant>,
        until: Instant,
    ) -> Instant {
        if self.settings.set == FreezeSet::Published {
            return until;
        }
        let most = self.settings.false_alarm;
        // After successive warnings `until` may be sooner.
        let earliest =
            down_expected_at.map_or(until, |down_expected_at| until.min(down_expected_at + LATE));
        let wanted = (closed.at + most + CLOSED_MORE).as_nanos();
        let together = OPENED_TOGETHER.as_nanos() as u64;
        Instant::from_nanos(wanted - wanted % together).clamp(earliest, until)
    }

    /// When the first window is opened if the warning is a false alarm.
    pub(super) fn next_false_alarm(&self) -> Option<Instant> {
        let Phase::Warned {
            down_expected_at,
            until,
            ..
        } = self.phase
        else {
            return None;
        };
        let closed = self.closed.values();
        closed
            .map(|closed| self.opens_at(closed, down_expected_at, until))
            .min()
    }

    /// Opens windows before `until`: for these flows the warning was a false alarm.
    pub(super) fn open_early(
        &mut self,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        let Phase::Warned {
            down_expected_at,
            until,
            ..
        } = self.phase
        else {
            return;
        };
        let closed = core::mem::take(&mut self.closed);
        let (due, others) = closed
            .into_iter()
            .partition(|(_, closed)| self.opens_at(closed, down_expected_at, until) <= now);
        self.closed = others;
        // They do not count as flows that the warning did not cover.
        self.left_alone.extend(due.keys());
        self.open(due, now, COPIES_AFTER_FALSE_ALARM, flows, actions);
    }

    /// The warning, or a series of warnings, was a false alarm.
    pub(super) fn end_false_alarm(
        &mut self,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        self.counters.false_alarms += 1;
        if let Some(since) = self.closed_since {
            let closed = now.saturating_since(since);
            if closed >= self.settings.false_alarm + WARNED_MAX {
                self.warnings_ignored_until = now + closed;
            }
        }
        self.phase = Phase::Up;
        self.open_all(now, COPIES_AFTER_FALSE_ALARM, flows, actions);
    }
}
