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

/// The first wake-up after the withheld segment was released...
const FIRST_AFTER: Duration = Duration::from_millis(300);
/// ... the next ones after twice as long each, but no longer than this.
const REPEATED_AFTER_MAX: Duration = Duration::from_secs(1);
/// And for no longer than this.
const REPEATED_FOR: Duration = Duration::from_secs(180);
/// Those that are woken at link up are woken again this many times, if no data come, ...
const AGAIN: u8 = 3;
/// ... the first time after a round trip, or this.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Those of them that did not seem to be silent are followed for this time.
const AGAIN_FOR: Duration = Duration::from_secs(1);
/// Flows that are followed at once; others get no help before link up.
const SILENT_MAX: usize = 64;
/// FHs that are probed in turn: one may be dead.
const PROBED_MAX: usize = 3;
/// If the first probe could not leave within this time, the answer shows nothing of the time before.
const PROBED_WITHIN: Duration = Duration::from_secs(1);
/// An answer that comes this long beyond a round trip after the first probe is one to a later probe...
const LATE: Duration = Duration::from_millis(150);
/// ... and of a round trip no more than this counts.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(5);
/// The link may go again before data come: so often those that wait are woken.
const WOKEN_MAX: u8 = 3;
/// A probed FH is looked at again after this time.
const LOOKED_AT_AFTER: Duration = Duration::from_millis(20);
/// If flows cannot be read it is tried again after this time.
const PUT_OFF: Duration = Duration::from_millis(150);
/// A silent flow whose FH is to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedWakeUp {
    /// Whose it is.
    pub(super) key: FlowKey,
    /// The link is known to be back: what is sent is as after an outage that was reported.
    pub(super) link_is_up: bool,
}

/// What the answer to a probe shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeReply {
    /// It has answered the first probe: the link was up all the time, and the FH pauses.
    Pauses,
    /// It has answered a later one, or sends data: the first was lost, and the link is up again.
    LinkUp,
    /// Its data have come. It may have answered, too.
    GoesOn,
}

#[derive(Clone, Copy, Debug)]
struct Silent {
    /// No data have come since.
    since: Instant,
    due: Instant,
    wait: Duration,
    until: Instant,
    rcv_nxt: SeqNum,
    received_at: Option<Instant>,
    round_trip: Duration,
    /// When its FH was probed first.
    probed_at: Option<Instant>,
    /// It waits for link up, and its FH may be probed; else it was woken, for the link was up again.
    waits: bool,
    /// How often it was woken so.
    woken: u8,
    /// So often again in the same way.
    again: u8,
}

impl Silent {
    fn new(flow: &HostFlow, now: Instant) -> Self {
        Self {
            since: now,
            due: now + FIRST_AFTER,
            wait: FIRST_AFTER,
            until: now + REPEATED_FOR,
            rcv_nxt: flow.rcv_nxt,
            received_at: flow.received_at,
            round_trip: flow.round_trip().unwrap_or(ROUND_TRIP_UNKNOWN),
            probed_at: None,
            waits: true,
            woken: 0,
            again: 0,
        }
    }

    fn note_woken(&mut self, now: Instant) {
        self.wait = self.round_trip.clamp(AGAIN_AFTER, REPEATED_AFTER_MAX);
        self.due = now + self.wait;
        self.waits = false;
        self.woken += 1;
        self.again = AGAIN;
    }

    /// It was woken, and again, and no flow receives a segment: the link is down again.
    fn waits_again(&mut self, now: Instant) {
        self.waits = true;
        self.since = now;
        self.probed_at = None;
    }

    /// Whether data have come.
    fn has_ended(&self, flow: &HostFlow) -> bool {
        flow.rcv_nxt != self.rcv_nxt || flow.data_at.is_some_and(|at| at > self.since)
    }

    /// Whether it is still to be tried. An answer to a probe or a wake-up is no data.
    fn is_silent(&self, flow: &HostFlow, now: Instant) -> bool {
        let answers = self.probed_at.is_some() || self.woken > 0;
        let has_answered = flow.received_at.is_some_and(|at| at > self.since);
        let is_silent = answers || !has_answered;
        flow.is_live(now) && now <= self.until && !self.has_ended(flow) && is_silent
    }
}

/// The flows of an interface that are silent.
#[derive(Clone, Debug, Default)]
pub(super) struct SilentFlows {
    flows: BTreeMap<FlowKey, Silent>,
    /// Whose FHs were found to pause, and when; so it is while the MH acknowledges no more than this.
    pausing: BTreeMap<FlowKey, (SeqNum, Instant)>,
}

impl SilentFlows {
    /// No data came for a round trip in a bulk download, and its withheld segment was released. `answered`: it was
    /// the end of an answer (PSH, in a short segment): then its sender pauses. Whether it is followed from
    /// now on.
    pub(super) fn begin(&mut self, flow: &HostFlow, answered: bool, now: Instant) -> bool {
        if self.pauses(flow) {
            return false;
        }
        self.pausing.remove(&flow.key);
        // A window of 0 is why a sender is silent.
        let is_full = !self.follows(&flow.key) && self.waiting().count() >= SILENT_MAX;
        if answered || flow.window == 0 || is_full || self.is_silent(flow) {
            return false;
        }
        self.flows.insert(flow.key, Silent::new(flow, now));
        true
    }

    /// Whether the flow is one of them.
    pub(super) fn follows(&self, key: &FlowKey) -> bool {
        self.flows.contains_key(key)
    }

    /// The same, and nothing has come since.
    pub(super) fn is_silent(&self, flow: &HostFlow) -> bool {
        let silent = self.flows.get(&flow.key);
        silent.is_some_and(|silent| silent.rcv_nxt == flow.rcv_nxt)
    }

    /// Whether the flow's FH is known to pause.
    pub(super) fn pauses(&self, flow: &HostFlow) -> bool {
        matches!(self.pausing.get(&flow.key), Some((rcv_nxt, _)) if *rcv_nxt == flow.rcv_nxt)
    }

    /// Link down or link up is reported: that source reports the other too.
    pub(super) fn end(&mut self) {
        self.flows.clear();
    }

    /// When the first one of those that wait for the link fell silent, and when the last one.
    pub(super) fn began(&self) -> Option<[Instant; 2]> {
        let since = || self.waiting().map(|(_, silent)| silent.since);
        Some([since().min()?, since().max()?])
    }

    /// No flow is known any more.
    pub(super) fn forget(&mut self) {
        self.flows.clear();
        self.pausing.clear();
    }

    /// Those that wait for the link.
    fn waiting(&self) -> impl Iterator<Item = (&FlowKey, &Silent)> {
        self.flows.iter().filter(|(_, silent)| silent.waits)
    }

    /// The flow whose FH is probed at this turn, of a few: those of different
    /// addresses first, of these the one that received a segment last.
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

    /// What the answer of a probed FH shows; none: there is none yet. A flow that pauses or goes on is
    /// followed no more.
    pub(super) fn reply_of(&mut self, flow: &HostFlow, now: Instant) -> Option<ProbeReply> {
        let key = &flow.key;
        let silent = *self.flows.get(key)?;
        let probed_at = silent.probed_at?;
        let in_time = probed_at + silent.round_trip.min(ROUND_TRIP_MAX) + LATE;
        if silent.has_ended(flow) {
            if flow.data_at.is_some_and(|at| at > in_time) {
                return Some(ProbeReply::LinkUp);
            }
            self.flows.remove(key);
            return Some(ProbeReply::GoesOn);
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
        Some(ProbeReply::Pauses)
    }

    /// Link up: whether the flow may wait for it. One that received a segment since all the others fell silent
    /// does not, unless it was taken for one that pauses since the first of them did.
    pub(super) fn may_wait(&self, flow: &HostFlow, still_comes: Duration) -> bool {
        if let Some(silent) = self.flows.get(&flow.key) {
            return silent.waits && !silent.has_ended(flow);
        }
        let Some([first, last]) = self.began() else {
            return false;
        };
        let paused = self.pausing.get(&flow.key);
        let was_mistaken = paused.is_some_and(|(_, at)| *at >= first) && self.pauses(flow);
        was_mistaken || flow.received_at.is_none_or(|at| at <= last + still_comes)
    }

    /// Link up, and these flows wait for it. Returns those that are woken now; they are woken
    /// again until data come, as far as there is room to follow them.
    pub(super) fn wake(&mut self, waiting: &[HostFlow], now: Instant) -> Vec<FlowKey> {
        let mut woken = Vec::new();
        for flow in waiting {
            if !flow.is_live(now) || woken.len() >= FLOWS_SERVED_MAX {
                continue;
            }
            self.pausing.remove(&flow.key);
            let silent = self.flows.entry(flow.key).or_insert_with(|| Silent {
                until: now + AGAIN_FOR,
                ..Silent::new(flow, now)
            });
            silent.note_woken(now);
            woken.push(flow.key);
        }
        // Flows that are not known any more, and those that go on.
        self.flows.retain(|_, silent| !silent.waits);
        woken
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.flows.values().map(|silent| silent.due).min()
    }

    /// What is due is due a little later.
    pub(super) fn put_off(&mut self, now: Instant) {
        for silent in self.flows.values_mut() {
            silent.due = silent.due.max(now + PUT_OFF);
        }
    }

    /// The flows that are to be woken now, still silent, of `flows`, which are all. Where other flows
    /// receive segments the link is up: a flow is woken once more then,
    /// and left alone.
    pub(super) fn handle_timeout(&mut self, flows: &[HostFlow], now: Instant) -> Vec<TimedWakeUp> {
        let of_others = flows
            .iter()
            .filter(|flow| !self.flows.contains_key(&flow.key))
            .filter_map(|flow| flow.received_at)
            .max();
        let mut woken = Vec::new();
        self.flows.retain(|key, silent| {
            if silent.due > now {
                return true;
            }
            let Some(flow) = flows.iter().find(|flow| flow.key == *key) else {
                return false;
            };
            if silent.waits && silent.probed_at.is_some() && silent.has_ended(flow) {
                // That shows something of the others: see `reply_of`.
                silent.due = now + LOOKED_AT_AFTER;
                return now <= silent.until;
            }
            if !silent.is_silent(flow, now) {
                return false;
            }
            let link_is_up = silent.again > 0;
            silent.again = silent.again.saturating_sub(1);
            woken.push(TimedWakeUp {
                key: *key,
                link_is_up,
            });
            let others_receive = of_others.is_some_and(|at| at > silent.since + FIRST_AFTER);
            if others_receive && silent.again == 0 {
                return false;
            }
            if link_is_up && silent.again == 0 && silent.woken < WOKEN_MAX {
                silent.waits_again(now);
            }
            silent.wait = (silent.wait * 2).min(REPEATED_AFTER_MAX);
            silent.due = now + silent.wait;
            true
        });
        woken
    }
}
