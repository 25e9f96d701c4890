// SPDX-License-Identifier: Apache-2.0
//! Downloads that fall silent without a report of an outage: which flows these are, what the answers to
//! probes show, and their wake-ups at timers. The first wake-up after link up reaches the FH.
//! [`probe_timer`](super::probe_timer) decides when probes are sent.

use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::{Instant, SeqNum};

use crate::FlowKey;
use crate::mobile_host::flow::ROUND_TRIP_UNKNOWN;
use crate::mobile_host::{FLOWS_SERVED_MAX, HostFlow};

#[cfg(test)]
mod tests;

/// The first wake-up of a flow follows this time after the flow was found silent.
const FIRST_WAKE_UP_AFTER: Duration = Duration::from_millis(300);
/// The interval between two wake-ups doubles each time, up to this.
const WAKE_UP_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// A silent flow is woken for this time at most.
const WOKEN_FOR_MAX: Duration = Duration::from_secs(180);
/// A wake-up at link up is repeated this many times if no data arrive.
const REPETITIONS: u8 = 3;
/// The first repetition follows after a round trip, but no sooner than this.
const REPETITION_AFTER_MIN: Duration = Duration::from_millis(100);
/// A flow that was not known to be silent before link up is woken again for this time at most.
const UNLISTED_WOKEN_FOR_MAX: Duration = Duration::from_secs(1);
/// Silent flows that wait for link up, at most. Further ones get no help before link up.
const SILENT_MAX: usize = 64;
/// Flows whose FHs are probed by turns, at most: one FH may be dead.
const PROBED_MAX: usize = 3;
/// If the first probe leaves later than this after the silence began, an answer shows nothing of the time before.
const PROBED_WITHIN: Duration = Duration::from_secs(1);
/// An answer that arrives later than a round trip and this time after the first probe answers a later probe.
const LATE_ANSWER_AFTER: Duration = Duration::from_millis(150);
/// A longer round trip counts as this in that sum.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(5);
/// A flow is woken at link up this many times at most without data: the link may go down again.
const LINK_UP_WAKE_UPS_MAX: u8 = 3;
/// A probed flow that has received data is checked again after this time.
const CHECKED_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// If the flows cannot be read, the next try is after this time.
const UNREADABLE_RETRY_AFTER: Duration = Duration::from_millis(150);
/// A silent flow whose FH is to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedWakeUp {
    /// The flow.
    pub(super) key: FlowKey,
    /// The link is known to be up again: the packets are those after a reported outage.
    pub(super) link_is_up: bool,
}

/// What the answer to a probe shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeReply {
    /// The FH has answered the first probe in time: the link was up all the time, and the FH pauses.
    FhPauses,
    /// The FH has answered a later probe, or sends data: the first one was lost, and the link is up again.
    LinkUp,
    /// Data of the FH arrived no later than an answer to the first probe would. The FH may have answered, too.
    FhSends,
}

#[derive(Clone, Copy, Debug)]
struct Silent {
    /// When the silence began. No data have arrived since then.
    since: Instant,
    wake_up_at: Instant,
    interval: Duration,
    give_up_at: Instant,
    rcv_nxt: SeqNum,
    received_at: Option<Instant>,
    round_trip: Duration,
    /// When the flow's FH was probed first.
    probed_at: Option<Instant>,
    /// True: the flow waits for link up, and its FH may be probed. False: it was woken at link up.
    waits_for_link_up: bool,
    /// Wake-ups at link up, without repetitions.
    link_up_wake_ups: u8,
    /// Repetitions of such a wake-up that are left.
    repetitions_left: u8,
}

impl Silent {
    fn new(flow: &HostFlow, now: Instant) -> Self {
        Self {
            since: now,
            wake_up_at: now + FIRST_WAKE_UP_AFTER,
            interval: FIRST_WAKE_UP_AFTER,
            give_up_at: now + WOKEN_FOR_MAX,
            rcv_nxt: flow.rcv_nxt,
            received_at: flow.received_at,
            round_trip: flow.round_trip().unwrap_or(ROUND_TRIP_UNKNOWN),
            probed_at: None,
            waits_for_link_up: true,
            link_up_wake_ups: 0,
            repetitions_left: 0,
        }
    }

    fn on_woken(&mut self, now: Instant) {
        self.interval = self
            .round_trip
            .clamp(REPETITION_AFTER_MIN, WAKE_UP_INTERVAL_MAX);
        self.wake_up_at = now + self.interval;
        self.waits_for_link_up = false;
        self.link_up_wake_ups += 1;
        self.repetitions_left = REPETITIONS;
    }

    /// The wake-ups at link up had no effect, and no flow receives a segment: the link is down again.
    fn wait_for_link_up(&mut self, now: Instant) {
        self.waits_for_link_up = true;
        self.since = now;
        self.probed_at = None;
    }

    /// Whether data have arrived since the silence began.
    fn has_ended(&self, flow: &HostFlow) -> bool {
        flow.rcv_nxt != self.rcv_nxt || flow.data_at.is_some_and(|at| at > self.since)
    }

    /// Whether the flow is still to be woken. A segment without data ends the silence too, unless it may answer a
    /// probe or a wake-up.
    fn is_silent(&self, flow: &HostFlow, now: Instant) -> bool {
        let answers = self.probed_at.is_some() || self.link_up_wake_ups > 0;
        let has_answered = flow.received_at.is_some_and(|at| at > self.since);
        let is_silent = answers || !has_answered;
        flow.is_live(now) && now <= self.give_up_at && !self.has_ended(flow) && is_silent
    }
}

/// The flows of an interface that are silent.
#[derive(Clone, Debug, Default)]
pub(super) struct SilentFlows {
    flows: BTreeMap<FlowKey, Silent>,
    /// Flows whose FHs were found to pause: the MH's ACK at that time, and the time. A higher ACK ends the pause.
    pausing: BTreeMap<FlowKey, (SeqNum, Instant)>,
}

impl SilentFlows {
    /// A download is silent: no data came for a round trip, and nothing is withheld. `answered`: the newest data
    /// were the end of an answer (PSH, in a short segment), so the sender pauses. Returns whether the flow is
    /// followed from now on.
    pub(super) fn begin(&mut self, flow: &HostFlow, answered: bool, now: Instant) -> bool {
        if self.pauses(flow) {
            return false;
        }
        self.pausing.remove(&flow.key);
        // With a window of 0 the sender must be silent.
        let is_full = !self.follows(&flow.key) && self.waiting().count() >= SILENT_MAX;
        if answered || flow.window == 0 || is_full || self.is_silent(flow) {
            return false;
        }
        self.flows.insert(flow.key, Silent::new(flow, now));
        true
    }

    /// Whether the flow is followed.
    pub(super) fn follows(&self, key: &FlowKey) -> bool {
        self.flows.contains_key(key)
    }

    /// Whether the flow is followed, and no new data have arrived since it fell silent.
    pub(super) fn is_silent(&self, flow: &HostFlow) -> bool {
        let silent = self.flows.get(&flow.key);
        silent.is_some_and(|silent| silent.rcv_nxt == flow.rcv_nxt)
    }

    /// Whether the flow's FH is known to pause.
    pub(super) fn pauses(&self, flow: &HostFlow) -> bool {
        matches!(self.pausing.get(&flow.key), Some((rcv_nxt, _)) if *rcv_nxt == flow.rcv_nxt)
    }

    /// A source has reported link down or link up. It will report the next change too, so no flow is followed.
    pub(super) fn end(&mut self) {
        self.flows.clear();
    }

    /// When the first and when the last of the flows that wait for link up fell silent.
    pub(super) fn began(&self) -> Option<[Instant; 2]> {
        let since = || self.waiting().map(|(_, silent)| silent.since);
        Some([since().min()?, since().max()?])
    }

    /// Forgets all flows.
    pub(super) fn forget(&mut self) {
        self.flows.clear();
        self.pausing.clear();
    }

    /// The flows that wait for link up.
    fn waiting(&self) -> impl Iterator<Item = (&FlowKey, &Silent)> {
        self.flows
            .iter()
            .filter(|(_, silent)| silent.waits_for_link_up)
    }

    /// The flow whose FH is probed at this turn, one of [`PROBED_MAX`]. Flows of different FHs come first.
    /// Of these, the flow that received a segment most recently is first.
    pub(super) fn to_probe(&self, turn: usize) -> Option<FlowKey> {
        let mut flows: Vec<_> = self.waiting().collect();
        flows.sort_by_key(|(_, silent)| core::cmp::Reverse(silent.received_at));
        let mut of_address = BTreeMap::<_, u32>::new();
        flows.sort_by_cached_key(|(key, _)| {
            let rank = of_address.entry(key.fh.address).or_default();
            *rank += 1;
            *rank
        });
        flows.truncate(PROBED_MAX);
        let index = turn.checked_rem(flows.len())?;
        flows.get(index).map(|(key, _)| **key)
    }

    /// The flow's FH was probed.
    pub(super) fn note_probed(&mut self, key: &FlowKey, now: Instant) {
        if let Some(silent) = self.flows.get_mut(key) {
            silent.probed_at.get_or_insert(now);
        }
    }

    /// The flows whose FHs were probed, and have not answered.
    pub(super) fn probed(&self) -> Vec<FlowKey> {
        let probed = self.waiting();
        let probed = probed.filter(|(_, silent)| silent.probed_at.is_some());
        probed.map(|(key, _)| *key).collect()
    }

    /// What the answer of a probed FH shows; `None`: it has not answered yet. A flow that pauses or goes on is no
    /// longer followed.
    pub(super) fn reply_of(&mut self, flow: &HostFlow, now: Instant) -> Option<ProbeReply> {
        let key = &flow.key;
        let silent = *self.flows.get(key)?;
        let probed_at = silent.probed_at?;
        let in_time = probed_at + silent.round_trip.min(ROUND_TRIP_MAX) + LATE_ANSWER_AFTER;
        if silent.has_ended(flow) {
            if flow.data_at.is_some_and(|at| at > in_time) {
                return Some(ProbeReply::LinkUp);
            }
            self.flows.remove(key);
            return Some(ProbeReply::FhSends);
        }
        let answered_at = flow.received_at.filter(|at| *at > probed_at)?;
        if probed_at > silent.since + PROBED_WITHIN || answered_at > in_time {
            return Some(ProbeReply::LinkUp);
        }
        self.flows.remove(key);
        if self.pausing.len() >= SILENT_MAX {
            let oldest = self.pausing.iter().min_by_key(|(_, (_, at))| *at);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.pausing.remove(&oldest);
            }
        }
        self.pausing.insert(*key, (flow.rcv_nxt, now));
        Some(ProbeReply::FhPauses)
    }

    /// At link up: whether the flow waited for it. A flow that received a segment after the last silent one fell
    /// silent did not. A flow that was found to pause during the silence did wait: the finding was wrong.
    pub(super) fn may_wait(&self, flow: &HostFlow, still_comes: Duration) -> bool {
        if let Some(silent) = self.flows.get(&flow.key) {
            return silent.waits_for_link_up && !silent.has_ended(flow);
        }
        let Some([first, last]) = self.began() else {
            return false;
        };
        let paused = self.pausing.get(&flow.key);
        let was_mistaken = paused.is_some_and(|(_, at)| *at >= first) && self.pauses(flow);
        was_mistaken || flow.received_at.is_none_or(|at| at <= last + still_comes)
    }

    /// At link up: begins to wake the flows that waited for it, and returns those that are woken now. They are
    /// woken again until data arrive.
    pub(super) fn wake(&mut self, waiting: &[HostFlow], now: Instant) -> Vec<FlowKey> {
        let mut woken = Vec::new();
        for flow in waiting {
            if !flow.is_live(now) || woken.len() >= FLOWS_SERVED_MAX {
                continue;
            }
            self.pausing.remove(&flow.key);
            let silent = self.flows.entry(flow.key).or_insert_with(|| Silent {
                give_up_at: now + UNLISTED_WOKEN_FOR_MAX,
                ..Silent::new(flow, now)
            });
            silent.on_woken(now);
            woken.push(flow.key);
        }
        // The others are no longer known, or have received data.
        self.flows.retain(|_, silent| !silent.waits_for_link_up);
        woken
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.flows.values().map(|silent| silent.wake_up_at).min()
    }

    /// The flows cannot be read: everything due is put off.
    pub(super) fn put_off(&mut self, now: Instant) {
        for silent in self.flows.values_mut() {
            silent.wake_up_at = silent.wake_up_at.max(now + UNREADABLE_RETRY_AFTER);
        }
    }

    /// Returns the silent flows that are to be woken now. `flows` are all flows. If other flows receive segments,
    /// the link is up: a silent flow is then woken once more, and no longer followed.
    pub(super) fn handle_timeout(&mut self, flows: &[HostFlow], now: Instant) -> Vec<TimedWakeUp> {
        let others_received_at = flows
            .iter()
            .filter(|flow| !self.flows.contains_key(&flow.key))
            .filter_map(|flow| flow.received_at)
            .max();
        let mut woken = Vec::new();
        self.flows.retain(|key, silent| {
            if silent.wake_up_at > now {
                return true;
            }
            let Some(flow) = flows.iter().find(|flow| flow.key == *key) else {
                return false;
            };
            if silent.waits_for_link_up && silent.probed_at.is_some() && silent.has_ended(flow) {
                // The data show whether the link was down: see `reply_of`.
                silent.wake_up_at = now + CHECKED_AGAIN_AFTER;
                return now <= silent.give_up_at;
            }
            if !silent.is_silent(flow, now) {
                return false;
            }
            let link_is_up = silent.repetitions_left > 0;
            silent.repetitions_left = silent.repetitions_left.saturating_sub(1);
            woken.push(TimedWakeUp {
                key: *key,
                link_is_up,
            });
            let others_receive =
                others_received_at.is_some_and(|at| at > silent.since + FIRST_WAKE_UP_AFTER);
            if others_receive && silent.repetitions_left == 0 {
                return false;
            }
            if link_is_up
                && silent.repetitions_left == 0
                && silent.link_up_wake_ups < LINK_UP_WAKE_UPS_MAX
            {
                silent.wait_for_link_up(now);
            }
            silent.interval = (silent.interval * 2).min(WAKE_UP_INTERVAL_MAX);
            silent.wake_up_at = now + silent.interval;
            true
        });
        woken
    }
}
