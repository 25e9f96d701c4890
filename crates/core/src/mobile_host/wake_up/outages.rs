// SPDX-License-Identifier: Apache-2.0
//! The outages of an interface: when the link went down and up, which flows had data in flight, which
//! are silent without a report, and how many packets precede the ACK that wakes an FH.

use core::time::Duration;
use std::collections::BTreeSet;

use holdfast_wire::Instant;

use super::probe_timer::ProbeTimer;
use super::silent_flows::{ProbeReply, SilentFlows, TimedWakeUp};
use crate::FlowKey;
use crate::back_off::doublings;
use crate::link_state::LinkEvent;
use crate::mobile_host::flow::ROUND_TRIP_UNKNOWN;
use crate::mobile_host::{Download, FLOWS_SERVED_MAX, HostFlow, ON_ITS_WAY, SAME_UP};

/// The FH of a flow without data for this time before an outage has nothing in flight.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(5);
/// The same until link up, if the begin of the outage was not reported.
const OUTAGE_UNREPORTED_MAX: Duration = Duration::from_secs(60);
/// Limits for all flows together, at an `up` and at each repetition: ICMP unreachables (57 KB, by IPv6
/// 100), and ACKs at segment boundaries (42 KB, by IPv6 55). They are sent before the user's own packets.
const UNREACHABLES_MAX: u32 = 1024;
const BOUNDARY_ACKS_ALL_MAX: u32 = 640;
/// The limits begin anew after this time. Repetitions are further apart.
const BUDGET_LASTS: Duration = Duration::from_millis(80);
/// ACKs at segment boundaries of one flow, at most: as many as an outage may have lost.
const BOUNDARY_ACKS: u32 = 64;
/// The limit if the MH sends data too: then the ACKs of up to a round trip wait in the MH's queue.
const BOUNDARY_ACKS_MAX: u32 = 256;
/// From each of these times of silence on, a wake-up has one ICMP unreachable more. The number of
/// doublings of the FH's RTO is unknown.
const UNREACHABLES_FROM: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];
/// A download with this many segments in the last round trip is followed if it falls silent.
const FOLLOWED_SEGMENTS: u32 = 16;
/// It is silent after two round trips and this time without data, until `SILENT_WITHIN`.
const SILENT_AFTER: Duration = Duration::from_millis(200);
const SILENT_WITHIN: Duration = Duration::from_secs(10);
/// If the MH sent data within this time before the FH's newest data, the MH's data may delay its ACKs.
const UPLOADS_WITHIN: Duration = Duration::from_secs(1);

/// What an FH receives before the ACK that wakes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notifications {
    /// ICMP unreachables, 0 to 13.
    pub(super) unreachables: u8,
    /// ACKs at its newest segment boundaries, 0 to 256.
    pub(super) boundary_acks: u32,
}

/// What is due while flows are silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// Send a probe to the FH of this flow. If it left, call [`Outages::note_probed`].
    Probe(FlowKey),
    /// The FH of this flow has answered the first probe, so it pauses: it gets the MH's ACK once more.
    Pauses(FlowKey),
    /// An FH has answered a later probe: the link is up again.
    /// [`Outages::handle_link_up_inferred`] gives the flows to be woken.
    LinkUp,
}

/// The outages of an interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Outages {
    silent_flows: SilentFlows,
    probe_timer: ProbeTimer,
    is_down: bool,
    /// When the link was reported down, until the matching `up`.
    down_at: Option<Instant>,
    up_at: Option<Instant>,
    /// The last `up` was inferred from a probe, and not reported.
    is_inferred: bool,
    /// Flows whose FHs got notifications since link up.
    notified: BTreeSet<FlowKey>,
    unreachables_left: u32,
    boundary_acks_left: u32,
    budget_at: Instant,
}

impl Outages {
    /// Notes a report of the link, before the machine acts on it.
    pub(super) fn handle_link(&mut self, event: LinkEvent, now: Instant) {
        match event {
            LinkEvent::Down => {
                if !self.is_down {
                    self.down_at = Some(now);
                }
                self.is_down = true;
                self.is_inferred = false;
                // The source that reports the begin reports the end too.
                self.silent_flows.end();
            }
            LinkEvent::Up => {
                let since_up = self.up_at.map(|at| now.saturating_since(at));
                if !self.is_down && since_up.is_some_and(|since| since < SAME_UP) {
                    if core::mem::take(&mut self.is_inferred) {
                        // The inferred `up` is reported too: the machine wakes all flows.
                        self.silent_flows.end();
                    }
                    return;
                }
                if !self.is_down {
                    self.down_at = None;
                }
                self.is_down = false;
                // The machine wakes all flows now, and repeats these wake-ups.
                self.silent_flows.end();
                self.is_inferred = false;
                self.up_at = Some(now);
                self.notified.clear();
                self.renew_budget(now);
            }
            LinkEvent::GoingDownSoon(_) => {}
        }
    }

    /// Whether a segment of the flow came after the link was reported down: then the link is up, and
    /// the report of that is missing.
    pub(super) fn shows_link_up(&self, flow: &HostFlow) -> bool {
        let Some(down_at) = self.down_at.filter(|_| self.is_down) else {
            return false;
        };
        let late = down_at + flow.round_trip().unwrap_or_default().max(ON_ITS_WAY);
        flow.received_at.is_some_and(|received| received > late)
    }

    fn renew_budget(&mut self, now: Instant) {
        self.unreachables_left = UNREACHABLES_MAX;
        self.boundary_acks_left = BOUNDARY_ACKS_ALL_MAX;
        self.budget_at = now;
    }

    /// Whether a download has received no data for long, and no other flow a segment. Then
    /// [`begin_silence`](Self::begin_silence) is due for it, even if no segment of it was withheld.
    /// `newest`: when any flow last received a segment.
    pub(super) fn is_quiet(&self, flow: &HostFlow, newest: Option<Instant>, now: Instant) -> bool {
        let Some(data_at) = flow.data_at.filter(|_| was_download(flow)) else {
            return false;
        };
        let quiet = flow.round_trip().unwrap_or(ROUND_TRIP_UNKNOWN) * 2 + SILENT_AFTER;
        let silent = now.saturating_since(data_at);
        let is_known = self.silent_flows.is_silent(flow) || self.silent_flows.pauses(flow);
        let is_new = !self.is_down && !is_known;
        let all_are = newest.is_none_or(|newest| newest <= data_at + quiet);
        is_new && all_are && flow.is_live(now) && (quiet..SILENT_WITHIN).contains(&silent)
    }

    /// A flow receives no data: it is silent, unless its FH has just ended an answer.
    pub(super) fn begin_silence(&mut self, flow: &HostFlow, now: Instant) {
        if self.is_down {
            return;
        }
        let others_wait = self.silent_flows.began().is_some();
        if self.silent_flows.begin(flow, flow.is_answered(), now) {
            self.probe_timer.begin(others_wait, now);
        }
    }

    /// When [`poll_probe`](Self::poll_probe) or [`timed_wake_ups`](Self::timed_wake_ups) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let began = self.silent_flows.began();
        let probe_at = began.map(|_| self.probe_timer.poll_timeout());
        [self.silent_flows.poll_timeout(), probe_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether [`poll_probe`](Self::poll_probe) is due.
    pub(super) fn probe_is_due(&self, now: Instant) -> bool {
        self.silent_flows.began().is_some() && self.probe_timer.poll_timeout() <= now
    }

    /// The flows that [`poll_probe`](Self::poll_probe) needs.
    pub(super) fn probed(&self) -> Vec<FlowKey> {
        self.silent_flows.probed()
    }

    /// Whether a probed FH has answered, and if not, whether it is time for another probe. `flows`: those
    /// that were [`probed`](Self::probed).
    pub(super) fn poll_probe(&mut self, flows: &[HostFlow], now: Instant) -> Option<ProbeResult> {
        let turn = self.probe_timer.look(now);
        for key in self.silent_flows.probed() {
            let flow = flows.iter().find(|flow| flow.key == key);
            let reply = flow.and_then(|flow| self.silent_flows.reply_of(flow, now));
            let Some(reply) = reply else { continue };
            self.probe_timer.note_answer(now);
            return match reply {
                ProbeReply::FhPauses => Some(ProbeResult::Pauses(key)),
                ProbeReply::LinkUp => Some(ProbeResult::LinkUp),
                ProbeReply::FhSends => None,
            };
        }
        turn.and_then(|turn| self.silent_flows.to_probe(turn))
            .map(ProbeResult::Probe)
    }

    /// The probe to the FH of this flow has left.
    pub(super) fn note_probed(&mut self, key: &FlowKey, now: Instant) {
        self.silent_flows.note_probed(key, now);
    }

    /// When the first of the silent flows that wait for link up fell silent.
    pub(super) fn silence_began(&self) -> Option<Instant> {
        self.silent_flows.began().map(|[began, _]| began)
    }

    /// The answer of an FH shows that the link is up: the flows to be woken now, the one with the newest
    /// data first. `flows` are all.
    pub(super) fn handle_link_up_inferred(
        &mut self,
        flows: &[HostFlow],
        now: Instant,
    ) -> Vec<FlowKey> {
        let Some([began, _]) = self.silent_flows.began() else {
            return Vec::new();
        };
        self.notified.clear();
        self.renew_budget(now);
        self.down_at = Some(began);
        self.up_at = Some(now);
        self.is_inferred = true;
        let may_wait = |flow: &&HostFlow| {
            let was_in_flight =
                self.silent_flows.follows(&flow.key) || self.rto_doublings(flow.data_at, now) > 0;
            was_in_flight && self.silent_flows.may_wait(flow, ON_ITS_WAY)
        };
        let mut waiting: Vec<_> = flows.iter().filter(may_wait).copied().collect();
        waiting.sort_by_key(|flow| (core::cmp::Reverse(flow.data_at), flow.key));
        self.silent_flows.wake(&waiting, now)
    }

    /// The silent flows to be woken now: see [`SilentFlows::handle_timeout`].
    pub(super) fn timed_wake_ups(&mut self, flows: &[HostFlow], now: Instant) -> Vec<TimedWakeUp> {
        let others_wait = self.silent_flows.began().is_some();
        let wake_ups = self.silent_flows.handle_timeout(flows, now);
        if !others_wait && self.silent_flows.began().is_some() {
            self.probe_timer.begin(false, now);
        }
        wake_ups
    }

    /// When [`timed_wake_ups`](Self::timed_wake_ups) is due.
    pub(super) fn wake_up_at(&self) -> Option<Instant> {
        self.silent_flows.poll_timeout()
    }

    /// The flows cannot be read: everything due is put off.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.silent_flows.put_off(now);
    }

    /// The interface was removed, and with it all that was known of flows. Reports of the link stay.
    pub(super) fn forget_flows(&mut self) {
        self.silent_flows.forget();
        self.notified.clear();
    }

    /// What the FH of a flow receives before the ACK that wakes it.
    ///
    /// The first wake-up has the unreachables that undo the FH's whole back-off (RFC 6069), and ACKs at
    /// its newest segment boundaries. A repetition has one unreachable. All flows share one budget.
    pub(super) fn notifications(&mut self, flow: &HostFlow, now: Instant) -> Notifications {
        let doublings = self.rto_doublings(flow.data_at, now);
        if doublings == 0 || !flow.takes_unreachable() {
            return Notifications::default();
        }
        if now.saturating_since(self.budget_at) >= BUDGET_LASTS {
            self.renew_budget(now);
        }
        let is_first = !self.notified.contains(&flow.key);
        let unreachables = if is_first { doublings } else { 1 };
        if u32::from(unreachables) > self.unreachables_left {
            // The budget is used up. The repetition will notify the FH.
            return Notifications::default();
        }
        self.unreachables_left -= u32::from(unreachables);
        if self.notified.len() < FLOWS_SERVED_MAX {
            self.notified.insert(flow.key);
        }
        let boundary_acks = if is_first {
            boundary_acks(flow).min(self.boundary_acks_left)
        } else {
            0
        };
        self.boundary_acks_left -= boundary_acks;
        Notifications {
            unreachables,
            boundary_acks,
        }
    }

    /// How often an FH whose data last arrived at `data_at` may have doubled its RTO, and one more. 0 if
    /// it can have had nothing in flight.
    fn rto_doublings(&self, data_at: Option<Instant>, now: Instant) -> u8 {
        let Some(data_at) = data_at else {
            return 0;
        };
        let silent = now.saturating_since(data_at);
        let in_flight = match self.down_at {
            Some(down_at) => down_at.saturating_since(data_at) < IN_FLIGHT_MAX,
            None => silent < OUTAGE_UNREPORTED_MAX,
        };
        if in_flight { doublings(silent) } else { 0 }
    }
}

/// The number of ACKs at segment boundaries for a flow. An FH with SACK takes them for a recovery, if the
/// MH misses nothing. 0 for other flows.
fn boundary_acks(flow: &HostFlow) -> u32 {
    let is_missing = flow.sack.iter().next().is_some();
    let Some(download) = flow.download.filter(|_| flow.permits_sack && !is_missing) else {
        return 0;
    };
    match flow.window_shift {
        Some(_) if uploads(flow, &download) => {
            download.segments.clamp(BOUNDARY_ACKS, BOUNDARY_ACKS_MAX)
        }
        Some(_) => BOUNDARY_ACKS,
        None => 0,
    }
}

/// The MH sent data too.
fn uploads(flow: &HostFlow, download: &Download) -> bool {
    let counts_until = download.upload_at.map(|at| at + UPLOADS_WITHIN);
    counts_until
        .zip(flow.data_at)
        .is_some_and(|(until, data_at)| until > data_at)
}

/// How many ICMP unreachables the FH of a silent flow gets with this wake-up.
pub(super) fn unreachables_for_silent(flow: &HostFlow, now: Instant) -> u8 {
    let data_at = flow.data_at.filter(|_| flow.takes_unreachable());
    let Some(silent) = data_at.map(|at| now.saturating_since(at)) else {
        return 0;
    };
    UNREACHABLES_FROM
        .iter()
        .filter(|from| silent >= **from)
        .count() as u8
}

/// Whether a flow had as many segments in its last round trip as a download.
fn was_download(flow: &HostFlow) -> bool {
    let download = flow.download;
    download.is_some_and(|download| download.segments >= FOLLOWED_SEGMENTS)
}

#[cfg(test)]
mod tests;
