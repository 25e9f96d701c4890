// SPDX-License-Identifier: Apache-2.0
//! What a warning does: which windows are closed, when, and what if nothing comes of it.

use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::Instant;

use super::flow::{HostFlow, ROUND_TRIP_UNKNOWN, served};
use super::opening::{Closed, Opening};
use super::{
    ADOPTION, COPIES_AFTER_FALSE_ALARM, FLOWS_SERVED_MAX, FreezeSet, HostAction, MadeAck,
    MobileHost, MobileHostSettings, MobileScheme, ORDER_RENEWAL, Phase, WARNED_MAX,
};
use crate::FlowKey;

/// `today`: a false alarm closes a window for no longer than `false_alarm` and this, 0.9 s in all...
const CLOSED_MORE: Duration = Duration::from_millis(400);
/// ... but it stays closed for this time after the announced one: outages come late.
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
    // Bounded: no setting makes of it what is no duration.
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
        if self.settings.scheme != MobileScheme::Freeze || is_down || now < self.deaf_until {
            return;
        }
        let goes_at = lead.map(|lead| now + lead);
        let until = goes_at.unwrap_or(now) + self.settings.false_alarm;
        // Warnings one after another do not keep windows closed for ever.
        let most = self.settings.false_alarm + WARNED_MAX;
        let most = self.closed_since.map(|since| since + most);
        self.phase = Phase::Warned {
            goes_at,
            until: most.map_or(until, |most| until.min(most)),
            adopt_at: now + ADOPTION,
        };
        self.left_alone.clear();
        // A newer warning has a better time.
        self.pending.clear();
        self.warn_flows(goes_at, now, flows, actions);
        self.renew_at = now + ORDER_RENEWAL;
    }

    /// Closes the windows of flows for which it is time, and notes when it is for the others.
    pub(super) fn warn_flows(
        &mut self,
        goes_at: Option<Instant>,
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
            let at = goes_at.map_or(now, |goes_at| goes_at - ahead);
            if self.settings.set == FreezeSet::Today {
                // A warning that does not cover the round trip does more harm than none.
                let left = goes_at.map(|goes_at| goes_at.saturating_since(now));
                let least = round_trip.map(|round_trip| least_lead_of(&self.settings, round_trip));
                if least.is_none() || left < least {
                    self.pending.remove(&flow.key);
                    self.counters.not_covered += u64::from(self.left_alone.insert(flow.key));
                    continue;
                }
            }
            if at <= now {
                self.close(flow.key, Closed::over(Some(flow), now), now, actions);
            } else {
                self.pending.insert(flow.key, at);
            }
        }
    }

    /// Closes the windows for which it is time.
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
            let over = Closed::over(known.get(&key).copied(), now);
            self.close(key, over, now, actions);
        }
    }

    fn close(&mut self, key: FlowKey, over: Closed, now: Instant, actions: &mut Vec<HostAction>) {
        self.pending.remove(&key);
        if self.closed.len() >= FLOWS_SERVED_MAX {
            return;
        }
        let before = self.openings.remove(&key);
        let flight = before.as_ref().map(Opening::flight);
        self.closed.insert(key, Closed { flight, ..over });
        self.closed_since.get_or_insert(now);
        self.counters.frozen += 1;
        actions.push(HostAction::Close(key));
        self.send(key, MadeAck::ZeroWindow, 1, actions);
    }

    /// When this window is opened if nothing comes of the warning: at `until`, or sooner.
    ///
    /// A false alarm costs the time before the announced one, two round trips, and that after it. Who was
    /// closed early is opened early; if the outage has come all the same, and is not reported yet,
    /// the flow receives nothing, and it is closed again with the report.
    fn opens_at(&self, closed: &Closed, goes_at: Option<Instant>, until: Instant) -> Instant {
        if self.settings.set == FreezeSet::Published {
            return until;
        }
        let most = self.settings.false_alarm;
        // Of warnings one after another `until` may be sooner.
        let earliest = goes_at.map_or(until, |goes_at| until.min(goes_at + LATE));
        let wanted = (closed.at + most + CLOSED_MORE).as_nanos();
        let together = OPENED_TOGETHER.as_nanos() as u64;
        Instant::from_nanos(wanted - wanted % together).clamp(earliest, until)
    }

    /// When the first window is opened if nothing comes of the warning.
    pub(super) fn next_false_alarm(&self) -> Option<Instant> {
        let Phase::Warned { goes_at, until, .. } = self.phase else {
            return None;
        };
        let closed = self.closed.values();
        closed
            .map(|closed| self.opens_at(closed, goes_at, until))
            .min()
    }

    /// Nothing came of a warning for flows that were closed early enough for it.
    pub(super) fn open_early(
        &mut self,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        let Phase::Warned { goes_at, until, .. } = self.phase else {
            return;
        };
        let closed = core::mem::take(&mut self.closed);
        let (due, others) = closed
            .into_iter()
            .partition(|(_, closed)| self.opens_at(closed, goes_at, until) <= now);
        self.closed = others;
        // Not one that this warning does not cover.
        self.left_alone.extend(due.keys());
        self.open(due, now, COPIES_AFTER_FALSE_ALARM, flows, actions);
    }

    /// Nothing came of a warning, or of one after another.
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
                self.deaf_until = now + closed;
            }
        }
        self.phase = Phase::Up;
        self.open_all(now, COPIES_AFTER_FALSE_ALARM, flows, actions);
    }
}
