// SPDX-License-Identifier: Apache-2.0
//! What an MH does for its own flows, without any gateway or with one: the decisions.
//!
//! The flows' packets take no detour: a data path notes the newest ACK header of each
//! ([`HostFlow`]), closes windows as it is told, and sends ACKs that look like the MH's last
//! one. [`MobileHost`] says when, and for which flow:
//!
//! ```text
//!        going-down-soon               down
//!   UP -----------------> WARNED -----------------> DOWN
//!    ^                      | nothing came of it      |
//!    +----------------------+-------------------------+
//!          windows opened, ACKs made            up
//! ```
//!
//! - `freeze` (T. Goff et al., "Freeze-TCP", 2000, section IV): WARNED closes each flow's
//!   window one round trip before the link goes; UP opens it by three copies of the last ACK.
//! - `fast-retransmit` (R. Caceres and L. Iftode, 1994): the three copies alone.
//! - `mtcp` (K. Brown and S. Singh, "M-TCP", 1997, section 5.1): one marked ACK, by which an
//!   M-TCP gateway knows that the MH is connected again.
//! - `wake` (ours, docs/schemes/wake.md): one ACK of a segment kept in reserve ([`wake`]), which
//!   wakes a Linux sender in its back-off.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use holdfast_wire::Instant;

use crate::FlowKey;

mod action;
mod answers;
mod flow;
mod opening;
mod settings;
#[cfg(test)]
mod tests;
pub mod wake;
mod warning;

pub use action::{HostAction, HostLinkEvent, MadeAck};
use answers::Unanswered;
pub use flow::HostFlow;
use flow::served;
use opening::{Closed, Opening};
pub use settings::{FreezeSet, MobileHostSettings, MobileScheme};

/// Flows for which ACKs are made at one event, the newest first.
pub const FLOWS_SERVED_MAX: usize = 1024;

/// Copies of the last ACK after an outage (Freeze-TCP, section IV: "TR-ACKs").
const COPIES_AFTER_OUTAGE: u8 = 3;
/// Copies of the ACK that opens a window of which the sender may know no outage: one more
/// than needed. Three might be taken for a loss.
const COPIES_AFTER_FALSE_ALARM: u8 = 2;
/// An `up` so soon after another is the same one, by another source.
const SAME_UP: Duration = Duration::from_secs(1);
/// How long closed windows stay closed if nobody says so again: longer than a slow caller can
/// keep the daemon from saying it.
const ORDER_LIFE: Duration = Duration::from_millis(500);
/// How often it is said again.
const ORDER_RENEWAL: Duration = Duration::from_millis(50);
/// The same for orders that always stand: what a hang of the daemon leaves held is one segment.
const STANDING_ORDER_RENEWAL: Duration = Duration::from_millis(200);
/// How often flows that begin after a warning are looked for, and round trips that have grown.
const ADOPTION: Duration = Duration::from_millis(100);
/// The marked ACK, and one that opens a window, is repeated to a flow of which nothing was
/// heard since: after so long...
const REPEATED_AFTER: Duration = Duration::from_millis(100);
/// ... and twice as long each time, so often, the first counted.
const MARKS_MAX: u32 = 4;
/// How often it is looked whether a link that is said to be down carries all the same.
const LOOK: Duration = Duration::from_secs(1);
/// What still comes so soon after a `down`, or a round trip after, was on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(500);
/// Warnings of which nothing comes keep windows closed for so long beyond `false_alarm`, and
/// are then not heard for as long.
const WARNED_MAX: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Up,
    /// `goes_at`: when the link is expected to go. At `until` it was a false alarm.
    Warned {
        goes_at: Option<Instant>,
        until: Instant,
        adopt_at: Instant,
    },
    /// `look_at`: when it is next looked whether that is so.
    Down {
        since: Instant,
        look_at: Instant,
    },
}

/// What the machine has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MobileHostCounters {
    /// Windows closed.
    pub frozen: u64,
    /// Flows that a warning came too late for (`today`).
    pub not_covered: u64,
    /// Warnings of which nothing came.
    pub false_alarms: u64,
    /// ACKs made, copies counted.
    pub acks_made: u64,
    /// Windows opened in steps (`today`).
    pub opened_in_steps: u64,
}

/// The machine. `flows` of its inputs is asked for what the data path knows at the moment, and only
/// when that is needed.
#[derive(Debug)]
pub struct MobileHost {
    settings: MobileHostSettings,
    phase: Phase,
    /// Whose windows are closed.
    closed: BTreeMap<FlowKey, Closed>,
    /// Whose windows open in steps.
    openings: BTreeMap<FlowKey, Opening>,
    /// Whose windows are to be closed, and when.
    pending: BTreeMap<FlowKey, Instant>,
    /// Flows that the warning came too late for.
    left_alone: BTreeSet<FlowKey>,
    renew_at: Instant,
    unanswered: Option<Unanswered>,
    last_up: Option<Instant>,
    /// Since when something is closed without an outage.
    closed_since: Option<Instant>,
    /// Warnings are not heard until then.
    deaf_until: Instant,
    /// When the machine was last asked; orders were renewed then.
    asked_at: Instant,
    counters: MobileHostCounters,
}

impl MobileHost {
    /// A machine whose link is up.
    pub const fn new(settings: MobileHostSettings) -> Self {
        Self {
            settings,
            phase: Phase::Up,
            closed: BTreeMap::new(),
            openings: BTreeMap::new(),
            pending: BTreeMap::new(),
            left_alone: BTreeSet::new(),
            renew_at: Instant::ZERO,
            unanswered: None,
            last_up: None,
            closed_since: None,
            deaf_until: Instant::ZERO,
            asked_at: Instant::ZERO,
            counters: MobileHostCounters {
                frozen: 0,
                not_covered: 0,
                false_alarms: 0,
                acks_made: 0,
                opened_in_steps: 0,
            },
        }
    }

    /// What it has done.
    pub const fn counters(&self) -> &MobileHostCounters {
        &self.counters
    }

    /// How many windows open in steps.
    pub fn opening_count(&self) -> usize {
        self.openings.len()
    }

    /// How many windows are closed.
    pub fn closed_count(&self) -> usize {
        self.closed.len()
    }

    /// Until when closed windows are to stay closed, and limited ones limited; none if there is none.
    ///
    /// With `wake` it holds always: until then a reserve is kept.
    pub fn orders_until(&self, now: Instant) -> Option<Instant> {
        self.has_orders().then(|| now + ORDER_LIFE)
    }

    fn has_orders(&self) -> bool {
        let some = !self.closed.is_empty() || !self.openings.is_empty();
        self.settings.scheme == MobileScheme::Wake || some
    }

    /// The FH pauses, and the data path has let the flow's reserve go: nothing below the MH's own
    /// number leaves any more.
    pub fn handle_pause(&mut self, key: FlowKey, actions: &mut Vec<HostAction>) {
        // In an outage it would be lost; what wakes the FH then says the same.
        if !matches!(self.phase, Phase::Down { .. }) {
            self.send(key, MadeAck::Last, 1, actions);
        }
    }

    /// Something became of the link.
    pub fn handle_link(
        &mut self,
        event: HostLinkEvent,
        now: Instant,
        flows: &mut dyn FnMut() -> Vec<HostFlow>,
        actions: &mut Vec<HostAction>,
    ) {
        self.void_what_has_lapsed(now, actions);
        match event {
            HostLinkEvent::GoingDownSoon(lead) => self.on_warning(lead, now, flows, actions),
            HostLinkEvent::Down => {
                if !matches!(self.phase, Phase::Down { .. }) {
                    let (since, look_at) = (now, now + LOOK);
                    self.phase = Phase::Down { since, look_at };
                }
                // Nothing reaches the FH any more.
                self.pending.clear();
                self.closed_since = None;
                if self.unanswered.is_some() || !self.openings.is_empty() {
                    self.close_again(&flows(), actions);
                }
            }
            HostLinkEvent::Up => self.on_up(now, flows, actions),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let warned = match self.phase {
            Phase::Warned {
                until, adopt_at, ..
            } => Some(until.min(adopt_at)),
            Phase::Down { look_at, .. } if !self.closed.is_empty() => Some(look_at),
            Phase::Up | Phase::Down { .. } => None,
        };
        let renewal = self.has_orders().then_some(self.renew_at);
        let pending = self.pending.values().min().copied();
        let step = self.openings.values().map(Opening::due).min();
        let repetition = self.unanswered.as_ref().map(|unanswered| unanswered.due);
        let early = self.next_false_alarm();
        let all = [warned, early, renewal, pending, step, repetition];
        all.into_iter().flatten().min()
    }

    /// Of which flows [`handle_timeout`](Self::handle_timeout) asks at this time; none: of all. Who can
    /// look up a single one need not read the others: steps are due every few milliseconds.
    pub fn flows_due(&self, now: Instant) -> Option<BTreeSet<FlowKey>> {
        let asks_for_all = match self.phase {
            Phase::Warned {
                until, adopt_at, ..
            } => until.min(adopt_at) <= now || self.next_false_alarm().is_some_and(|at| at <= now),
            Phase::Down { look_at, .. } => look_at <= now && !self.closed.is_empty(),
            Phase::Up => false,
        };
        if asks_for_all {
            return None;
        }
        let pending = self.pending.iter().filter(|(_, at)| **at <= now);
        let mut due: BTreeSet<_> = pending.map(|(key, _)| *key).collect();
        let openings = self.openings.iter();
        due.extend(openings.filter_map(|(key, its)| (its.due() <= now).then_some(*key)));
        if let Some(unanswered) = self.unanswered.as_ref().filter(|its| its.due <= now) {
            due.extend(unanswered.of.as_ref()?.keys());
        }
        Some(due)
    }

    /// Does what is due.
    pub fn handle_timeout(
        &mut self,
        now: Instant,
        flows: &mut dyn FnMut() -> Vec<HostFlow>,
        actions: &mut Vec<HostAction>,
    ) {
        self.void_what_has_lapsed(now, actions);
        if now >= self.renew_at {
            self.renew_at = now
                + if self.settings.scheme == MobileScheme::Wake {
                    STANDING_ORDER_RENEWAL
                } else {
                    ORDER_RENEWAL
                };
        }
        if self.pending.values().any(|at| *at <= now) {
            self.close_due(now, &flows(), actions);
        }
        if self.openings.values().any(|opening| opening.due() <= now) {
            self.step_openings(now, &flows(), actions);
        }
        if let Phase::Warned { until, .. } = self.phase
            && now < until
            && self.next_false_alarm().is_some_and(|at| at <= now)
        {
            self.open_early(now, &flows(), actions);
        }
        match self.phase {
            Phase::Warned { until, .. } if now >= until => {
                self.end_false_alarm(now, &flows(), actions);
            }
            Phase::Warned {
                goes_at,
                until,
                adopt_at,
            } if now >= adopt_at => {
                self.phase = Phase::Warned {
                    goes_at,
                    until,
                    adopt_at: now + ADOPTION,
                };
                self.warn_flows(goes_at, now, &flows(), actions);
            }
            Phase::Down { since, look_at } if now >= look_at && !self.closed.is_empty() => {
                let look_at = now + LOOK;
                self.phase = Phase::Down { since, look_at };
                self.look_whether_it_carries(since, now, &flows(), actions);
            }
            _ => {}
        }
        if matches!(&self.unanswered, Some(unanswered) if unanswered.due <= now) {
            self.say_again(now, &flows(), actions);
        }
    }

    /// A link that is said to be down, but of which something new is heard, is up: nobody may
    /// be there to say so.
    fn look_whether_it_carries(
        &mut self,
        since: Instant,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        let carries = flows.iter().any(|flow| {
            let late = since + flow.round_trip().unwrap_or_default().max(ON_ITS_WAY);
            flow.heard_at.is_some_and(|heard| heard > late)
        });
        if carries {
            self.phase = Phase::Up;
            self.last_up = Some(now);
            self.open_all(now, COPIES_AFTER_OUTAGE, flows, actions);
        }
    }

    /// Opens what is closed: the owner is leaving.
    pub fn release(&mut self, now: Instant, actions: &mut Vec<HostAction>) {
        self.phase = Phase::Up;
        // Nobody is there for steps.
        self.open_all(now, COPIES_AFTER_OUTAGE, &[], actions);
        for key in core::mem::take(&mut self.openings).into_keys() {
            actions.push(HostAction::Open(key));
            self.send(key, MadeAck::Last, 1, actions);
        }
        self.unanswered = None;
    }

    fn on_up(
        &mut self,
        now: Instant,
        flows: &mut dyn FnMut() -> Vec<HostFlow>,
        actions: &mut Vec<HostAction>,
    ) {
        let same = self
            .last_up
            .is_some_and(|last| now.saturating_since(last) < SAME_UP);
        let was = core::mem::replace(&mut self.phase, Phase::Up);
        if was == Phase::Up && same {
            return;
        }
        self.last_up = Some(now);
        // Those that were closed come first, whatever is known of them.
        let opened: BTreeSet<_> = self.closed.keys().copied().collect();
        let known = if opened.is_empty() {
            Vec::new()
        } else {
            flows()
        };
        let is_freeze = self.settings.scheme == MobileScheme::Freeze;
        let without_tr_acks = is_freeze && !self.settings.tr_acks;
        let is_today = self.settings.set == FreezeSet::Today;
        // Section IV-A, "No TR-ACK": it waits for the sender's next segment.
        let copies = [COPIES_AFTER_OUTAGE, u8::from(is_today)][usize::from(without_tr_acks)];
        self.open_all(now, copies, &known, actions);
        // An ACK with an old clock may make a Linux sender undo its timeout, and wait for what is lost.
        if without_tr_acks || is_freeze && is_today {
            return;
        }
        let (ack, copies) = match self.settings.scheme {
            MobileScheme::Freeze | MobileScheme::FastRetransmit => (MadeAck::Last, copies),
            MobileScheme::Mtcp => (MadeAck::Marked, 1),
            MobileScheme::Wake => (MadeAck::Wake, 1),
        };
        let was_down = matches!(was, Phase::Down { .. });
        for flow in served(&flows(), now) {
            // Without a word of an outage: one that is heard needs nothing, and its sender
            // would take three equal ACKs for a loss.
            let is_well = !was_down && flow.is_heard(now);
            if !is_well && !opened.contains(&flow.key) {
                self.send(flow.key, ack, copies, actions);
            }
        }
        if matches!(ack, MadeAck::Marked | MadeAck::Wake) {
            self.await_answers(ack, None, MARKS_MAX, now);
        }
    }

    fn send(&mut self, key: FlowKey, ack: MadeAck, copies: u8, actions: &mut Vec<HostAction>) {
        self.counters.acks_made += u64::from(copies);
        actions.push(HostAction::Send { key, ack, copies });
    }
}
