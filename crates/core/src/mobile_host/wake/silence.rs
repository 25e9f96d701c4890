// SPDX-License-Identifier: Apache-2.0
//! Downloads that fall silent though nobody says that the link is down: who they are, what the answers
//! of their FHs tell, and their wake-ups by the clock, of which the one that arrives when the link is
//! back wakes the FH. When who is asked: [`sentinel`](super::sentinel).

use core::time::Duration;
use std::collections::BTreeMap;

use holdfast_wire::{Instant, SeqNum};

use crate::FlowKey;
use crate::mobile_host::flow::ROUND_TRIP_UNKNOWN;
use crate::mobile_host::{FLOWS_SERVED_MAX, HostFlow};

#[cfg(test)]
mod tests;

/// The first repetition after the reserve was let go...
const FIRST_AFTER: Duration = Duration::from_millis(300);
/// ... the next ones after twice as long each, but no longer than this.
const REPEATED_AFTER_MAX: Duration = Duration::from_secs(1);
/// And for no longer than this.
const REPEATED_FOR: Duration = Duration::from_secs(180);
/// Those that are woken when the link is back are so often woken again, if no data come, ...
const AGAIN: u8 = 3;
/// ... the first time after a round trip, or this.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Those of them that did not seem to be silent are followed for so long.
const AGAIN_FOR: Duration = Duration::from_secs(1);
/// Flows that are followed at once; others are not helped before the link is back.
const SILENT_MAX: usize = 64;
/// So many FHs are asked in turn whether the link is back: one may be gone.
const ASKED_MAX: usize = 3;
/// An FH that was not asked for so long, for nothing could be sent, says nothing of the time before.
const ASKED_WITHIN: Duration = Duration::from_secs(1);
/// An answer that comes so long beyond a round trip after the first probe is one to a later probe...
const LATE: Duration = Duration::from_millis(150);
/// ... and of a round trip no more than this counts.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(5);
/// The link may go again before data come: so often those that wait are woken.
const WOKEN_MAX: u8 = 3;
/// An FH that was asked is looked at so soon again.
const LOOKED_AT_AFTER: Duration = Duration::from_millis(20);
/// If flows cannot be read it is tried again after so long.
const PUT_OFF: Duration = Duration::from_millis(150);
/// A Linux sender's first RTO is no shorter (`TCP_RTO_MIN`).
const RTO_MIN: Duration = Duration::from_millis(200);
/// More doublings than a sender has in ten minutes.
const DOUBLINGS_MAX: u8 = 12;

/// How often a sender of which nothing was heard for so long may have doubled its RTO, and once
/// more: so many words that a segment could not be delivered take it all back (RFC 6069). 0: not even
/// its first RTO can have passed.
pub fn doublings(silent: Duration) -> u8 {
    let mut doublings = 0;
    let mut all = RTO_MIN;
    while silent >= all && doublings < DOUBLINGS_MAX {
        doublings += 1;
        all = all * 2 + RTO_MIN;
    }
    if doublings == 0 { 0 } else { doublings + 1 }
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Download {
    /// The flow.
    pub flow: HostFlow,
    /// When its newest data came.
    pub data_at: Option<Instant>,
}

/// A silent flow whose FH is to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// Whose it is.
    pub key: FlowKey,
    /// The link is known to be back: what is said is as after an outage that was told of.
    pub is_back: bool,
}

/// What an FH that was asked has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It has answered the first probe: the link was up all the time, and the FH pauses.
    Pauses,
    /// It has answered a later one, or sends data: the first was lost, and the link is back.
    IsBack,
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
    heard_at: Option<Instant>,
    round_trip: Duration,
    /// When its FH was asked first.
    asked_at: Option<Instant>,
    /// It waits for the link, and its FH may be asked; else it was woken, for the link was back.
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
            heard_at: flow.heard_at,
            round_trip: flow.round_trip().unwrap_or(ROUND_TRIP_UNKNOWN),
            asked_at: None,
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

    /// It was woken, and again, and nothing is heard of anybody: the link has gone again.
    fn waits_again(&mut self, now: Instant) {
        self.waits = true;
        self.since = now;
        self.asked_at = None;
    }

    /// Whether data have come.
    fn has_ended(&self, of: &Download) -> bool {
        of.flow.rcv_nxt != self.rcv_nxt || of.data_at.is_some_and(|at| at > self.since)
    }

    /// Whether it is still to be tried. Who was asked or woken may have answered that, and nothing else.
    fn is_silent(&self, of: &Download, now: Instant) -> bool {
        let answers = self.asked_at.is_some() || self.woken > 0;
        let is_heard = of.flow.heard_at.is_some_and(|at| at > self.since);
        of.flow.is_live(now) && now <= self.until && !self.has_ended(of) && (answers || !is_heard)
    }
}

/// The flows of an interface that are silent.
#[derive(Clone, Debug, Default)]
pub struct Silence {
    flows: BTreeMap<FlowKey, Silent>,
    /// Whose FHs were found to pause, and when; so it is while the MH acknowledges no more than this.
    pausing: BTreeMap<FlowKey, (SeqNum, Instant)>,
}

impl Silence {
    /// Nothing came for a round trip in a bulk download, whose reserve was let go. `answered`: it was
    /// the end of an answer (PSH, in a short segment): then its sender pauses. Whether it is followed from
    /// now on.
    pub fn begin(&mut self, flow: &HostFlow, answered: bool, now: Instant) -> bool {
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
    pub fn follows(&self, key: &FlowKey) -> bool {
        self.flows.contains_key(key)
    }

    /// The same, and nothing has come since.
    pub fn is_silent(&self, flow: &HostFlow) -> bool {
        let silent = self.flows.get(&flow.key);
        silent.is_some_and(|silent| silent.rcv_nxt == flow.rcv_nxt)
    }

    /// Whether the flow's FH is known to pause.
    pub fn pauses(&self, flow: &HostFlow) -> bool {
        matches!(self.pausing.get(&flow.key), Some((rcv_nxt, _)) if *rcv_nxt == flow.rcv_nxt)
    }

    /// The link is said to be down, or up: who says so says it of the other too.
    pub fn end(&mut self) {
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

    /// The flow whose FH is to be asked at this turn whether the link is back, of a few: those of different
    /// addresses first, of these the one that was heard last.
    pub(super) fn to_ask(&self, turn: usize) -> Option<FlowKey> {
        let mut flows: Vec<_> = self.waiting().collect();
        flows.sort_by_key(|(_, silent)| core::cmp::Reverse(silent.heard_at));
        let mut of_address = BTreeMap::<_, u32>::new();
        flows.sort_by_cached_key(|(key, _)| {
            let place = of_address.entry(key.fh.address).or_default();
            *place += 1;
            *place
        });
        flows.truncate(ASKED_MAX);
        let of = turn.checked_rem(flows.len())?;
        flows.get(of).map(|(key, _)| **key)
    }

    /// The flow's FH was asked.
    pub(super) fn note_asked(&mut self, key: &FlowKey, now: Instant) {
        if let Some(silent) = self.flows.get_mut(key) {
            silent.asked_at.get_or_insert(now);
        }
    }

    /// The flows whose FHs were asked, and have not answered.
    pub(super) fn asked(&self) -> Vec<FlowKey> {
        let asked = self.waiting();
        let asked = asked.filter(|(_, silent)| silent.asked_at.is_some());
        asked.map(|(key, _)| *key).collect()
    }

    /// What the FH of this flow, which was asked, has told; none: nothing yet. Whoever pauses or goes on is
    /// followed no more.
    pub(super) fn told_by(&mut self, of: &Download, now: Instant) -> Option<Told> {
        let key = &of.flow.key;
        let silent = *self.flows.get(key)?;
        let asked_at = silent.asked_at?;
        let in_time = asked_at + silent.round_trip.min(ROUND_TRIP_MAX) + LATE;
        if silent.has_ended(of) {
            if of.data_at.is_some_and(|at| at > in_time) {
                return Some(Told::IsBack);
            }
            self.flows.remove(key);
            return Some(Told::GoesOn);
        }
        let answered_at = of.flow.heard_at.filter(|at| *at > asked_at)?;
        if asked_at > silent.since + ASKED_WITHIN || answered_at > in_time {
            return Some(Told::IsBack);
        }
        self.flows.remove(key);
        if self.pausing.len() >= SILENT_MAX {
            let oldest = self.pausing.iter().min_by_key(|(_, (_, at))| *at);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.pausing.remove(&oldest);
            }
        }
        self.pausing.insert(*key, (of.flow.rcv_nxt, now));
        Some(Told::Pauses)
    }

    /// The link is back: whether the flow may wait for it. Who was heard since all the others fell silent
    /// does not, unless it was taken for one that pauses since the first of them did.
    pub(super) fn may_wait(&self, of: &Download, still_comes: Duration) -> bool {
        if let Some(silent) = self.flows.get(&of.flow.key) {
            return silent.waits && !silent.has_ended(of);
        }
        let Some([first, last]) = self.began() else {
            return false;
        };
        let paused = self.pausing.get(&of.flow.key);
        let was_mistaken = paused.is_some_and(|(_, at)| *at >= first) && self.pauses(&of.flow);
        was_mistaken || of.flow.heard_at.is_none_or(|at| at <= last + still_comes)
    }

    /// The link is back, and these flows wait for it. Returns those that are woken now; they are woken
    /// again until data come, as far as there is room to follow them.
    pub(super) fn wake(&mut self, waiting: &[Download], now: Instant) -> Vec<FlowKey> {
        let mut woken = Vec::new();
        for Download { flow, .. } in waiting {
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
        // Those of which nothing is known any more, and who goes on.
        self.flows.retain(|_, silent| !silent.waits);
        woken
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.flows.values().map(|silent| silent.due).min()
    }

    /// What is due is due a little later.
    pub(super) fn put_off(&mut self, now: Instant) {
        for silent in self.flows.values_mut() {
            silent.due = silent.due.max(now + PUT_OFF);
        }
    }

    /// The flows that are to be woken now, still silent. `known` is what is known of one; `heard`: when
    /// each flow was last heard. Where others are heard it is not the link that is silent, or it is
    /// back: a flow is woken once more then, and left alone.
    pub fn handle_timeout(
        &mut self,
        now: Instant,
        heard: impl IntoIterator<Item = (FlowKey, Option<Instant>)>,
        mut known: impl FnMut(&FlowKey) -> Option<Download>,
    ) -> Vec<Try> {
        let of_others = heard
            .into_iter()
            .filter(|(key, _)| !self.flows.contains_key(key))
            .filter_map(|(_, at)| at)
            .max();
        let mut woken = Vec::new();
        self.flows.retain(|key, silent| {
            if silent.due > now {
                return true;
            }
            let Some(of) = known(key) else { return false };
            if silent.waits && silent.asked_at.is_some() && silent.has_ended(&of) {
                // That tells something of the others: see `told_by`.
                silent.due = now + LOOKED_AT_AFTER;
                return now <= silent.until;
            }
            if !silent.is_silent(&of, now) {
                return false;
            }
            let is_back = silent.again > 0;
            silent.again = silent.again.saturating_sub(1);
            woken.push(Try { key: *key, is_back });
            let others_are_heard = of_others.is_some_and(|at| at > silent.since + FIRST_AFTER);
            if others_are_heard && silent.again == 0 {
                return false;
            }
            if is_back && silent.again == 0 && silent.woken < WOKEN_MAX {
                silent.waits_again(now);
            }
            silent.wait = (silent.wait * 2).min(REPEATED_AFTER_MAX);
            silent.due = now + silent.wait;
            true
        });
        woken
    }
}
