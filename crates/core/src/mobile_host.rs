// SPDX-License-Identifier: Apache-2.0
//! What an MH decides for its flows, and those of hosts behind it, with a gateway or without, sans-IO.
//!
//! The flows' packets take no detour. A data path notes the newest ACK header of each flow
//! ([`HostFlow`]), closes windows, withholds segments ([`withheld`]) and sends made ACKs.
//! [`MobileHost`] decides when, and for which flow. The daemon and the simulator run the same
//! object; both only move data between a data path and this machine.
//!
//! # Contract
//!
//! `MobileHost` reads no clock, no map and no socket. It has three kinds of methods:
//!
//! - **Inputs**, `handle_*`. Each takes the time `now`, which never goes back, and adds to
//!   [`HostAction`]s, which the caller does in order. Reports of the link:
//!   [`handle_link`](MobileHost::handle_link). Pauses that the data path has found:
//!   [`handle_pauses`](MobileHost::handle_pauses). A probe that has left:
//!   [`handle_probe_sent`](MobileHost::handle_probe_sent).
//! - **Outputs**, `poll_timeout`, `flows_needed`, `needs_segment_count` and `orders_until`. Call them again after
//!   each input.
//! - **Counters** and other getters.
//!
//! When [`poll_timeout`](MobileHost::poll_timeout) is due the caller does four things:
//!
//! 1. If [`needs_segment_count`](MobileHost::needs_segment_count), it gives the count to
//!    [`handle_segment_count`](MobileHost::handle_segment_count).
//! 2. It reads the flows that [`flows_needed`](MobileHost::flows_needed) names. If they cannot be
//!    read it calls [`handle_unreadable`](MobileHost::handle_unreadable) and goes on with none.
//! 3. It gives them to [`handle_timeout`](MobileHost::handle_timeout).
//! 4. It does the actions. What it has ordered holds until
//!    [`orders_until`](MobileHost::orders_until), and lapses if the caller hangs.
//!
//! # States
//!
//! ```text
//!        going-down-soon               down
//!   UP -----------------> WARNED -----------------> DOWN
//!    ^                      | false alarm             |
//!    +----------------------+-------------------------+
//!          windows opened, ACKs made            up
//! ```
//!
//! - `freeze` (T. Goff et al., "Freeze-TCP", 2000, section IV): WARNED closes each flow's
//!   window one round trip before link down; UP opens it by three copies of the last ACK.
//! - `fast-retransmit` (R. Caceres and L. Iftode, 1994): the three copies alone.
//! - `mtcp` (K. Brown and S. Singh, "M-TCP", 1997, section 5.1): one marked ACK, by which an
//!   M-TCP gateway knows that the MH is connected again.
//! - `wake` (ours, docs/schemes/wake.md): the ACK of a withheld segment and ICMP unreachables
//!   wake a Linux sender in its back-off. An outage without a report is seen by the silence of
//!   downloads, and its end by keep-alive probes.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use holdfast_wire::Instant;

use crate::outage::EndedOutages;
use crate::timers::earliest;
use crate::{FlowKey, LinkEvent, LinkSource};

mod action;
mod answers;
mod ended;
mod flow;
mod opening;
#[cfg(test)]
mod tests;
mod wake_up;
mod warning;
pub mod withheld;

pub use action::{HostAction, MadeAck, WakeUp};
use answers::{Repetition, UnansweredAcks};
pub use flow::HostFlow;
use flow::served;
pub use holdfast_settings::mobile::{FreezeSet, MobileHostSettings, MobileScheme};
use opening::{ClosedWindow, Opening};
use wake_up::WakeUps;
pub use withheld::Download;

/// Flows for which ACKs are made at one event, the newest first.
pub const FLOWS_SERVED_MAX: usize = 1024;

/// Copies of the last ACK after an outage (Freeze-TCP, section IV: "TR-ACKs").
const COPIES_AFTER_OUTAGE: u8 = 3;
/// Copies of the ACK that opens a window after a false alarm: one more than needed. Three might be taken for a loss.
const COPIES_AFTER_FALSE_ALARM: u8 = 2;
/// An `up` within this time after another one is the same event, reported by another source.
const SAME_UP: Duration = Duration::from_secs(1);
/// Closed windows stay closed for this time without a renewal. No slow caller delays the daemon's renewal for
/// longer.
const ORDER_LIFE: Duration = Duration::from_millis(500);
/// How often the order is renewed.
const ORDER_RENEWAL: Duration = Duration::from_millis(50);
/// The same for `wake`, whose order always stands: if the daemon hangs, only one segment stays withheld.
const STANDING_ORDER_RENEWAL: Duration = Duration::from_millis(200);
/// How often the machine looks for flows that began, and round trips that grew, after a warning.
const ADOPTION: Duration = Duration::from_millis(100);
/// The marked ACK, and one that opens a window, is repeated to a flow that has received nothing since. The first
/// repetition is due after this time, which doubles each time.
const REPEATED_AFTER: Duration = Duration::from_millis(100);
/// A marked ACK or a wake-up is sent this many times at most, the first included.
const MARKS_MAX: u32 = 4;
/// How often a link that is reported down is checked for new segments.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// What arrives within this time, or a round trip, after a `down` was already in flight.
const ON_ITS_WAY: Duration = Duration::from_millis(500);
/// False alarms keep windows closed for this time beyond `false_alarm`; warnings are then ignored
/// for as long.
const WARNED_MAX: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Up,
    /// `down_expected_at`: when link down is expected. At `until` the warning is a false alarm.
    Warned {
        down_expected_at: Option<Instant>,
        until: Instant,
        adopt_at: Instant,
    },
    /// `check_at`: when the machine next checks whether the link is still down.
    Down {
        since: Instant,
        check_at: Instant,
    },
}

crate::counters! {
    /// What the machine has done.
    pub struct MobileHostCounters {
        /// Windows that were closed.
        pub frozen = "frozen",
        /// Flows that a warning came too late for (`today`).
        pub not_covered = "not-covered",
        /// Warnings without an outage.
        pub false_alarms = "false-alarms",
        /// ACKs made, copies counted.
        pub acks_made = "acks-made",
        /// Windows opened in steps (`today`).
        pub opened_in_steps = "opened-in-steps",
        /// Keep-alive probes sent (`wake`).
        pub probes = "probes",
        /// FHs that answered the first probe: they pause (`wake`).
        pub pauses = "pauses",
        /// Outages without a report whose end a probed FH has shown (`wake`).
        pub silent_outages = "silent-outages",
        /// Wake-ups of silent flows at their timers (`wake`).
        pub timed_wake_ups = "silences",
        /// Outages that are not in the list of outages: too many had ended at the same time.
        pub outages_lost = "outages-lost",
    }
}

/// The flows whose state the machine has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowsNeeded {
    /// These.
    Some(BTreeSet<FlowKey>),
    /// All.
    All,
}

/// The machine.
#[derive(Debug)]
pub struct MobileHost {
    settings: MobileHostSettings,
    phase: Phase,
    /// Flows whose windows are closed.
    closed: BTreeMap<FlowKey, ClosedWindow>,
    /// Flows whose windows open in steps.
    openings: BTreeMap<FlowKey, Opening>,
    /// Flows whose windows are to be closed, and when.
    pending: BTreeMap<FlowKey, Instant>,
    /// Flows that the warning came too late for.
    left_alone: BTreeSet<FlowKey>,
    renew_at: Instant,
    unanswered: Option<UnansweredAcks>,
    last_up: Option<Instant>,
    /// Since when a window is closed without an outage.
    closed_since: Option<Instant>,
    /// Warnings are ignored until then.
    warnings_ignored_until: Instant,
    /// When the last input came; orders were renewed then.
    called_at: Instant,
    /// The state of `wake`.
    wake_ups: WakeUps,
    ended_outages: EndedOutages<()>,
    counters: MobileHostCounters,
}

impl MobileHost {
    /// A machine whose link is up.
    pub fn new(settings: MobileHostSettings) -> Self {
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
            warnings_ignored_until: Instant::ZERO,
            called_at: Instant::ZERO,
            wake_ups: WakeUps::default(),
            ended_outages: EndedOutages::new(ended::OUTAGES_MAX),
            counters: MobileHostCounters::default(),
        }
    }

    /// What the machine has done.
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

    /// Until when closed windows are to stay closed, and limited ones limited; `None` without such windows.
    ///
    /// With `wake` there is always such a time: until then segments are withheld.
    pub fn orders_until(&self, now: Instant) -> Option<Instant> {
        self.has_orders().then(|| now + ORDER_LIFE)
    }

    fn has_orders(&self) -> bool {
        let some = !self.closed.is_empty() || !self.openings.is_empty();
        self.settings.scheme == MobileScheme::Wake || some
    }

    /// The link is reported down.
    pub const fn is_down(&self) -> bool {
        matches!(self.phase, Phase::Down { .. })
    }

    /// The flows that [`handle_link`](Self::handle_link) has to know for this event.
    pub fn flows_needed_for(&self, event: LinkEvent, now: Instant) -> FlowsNeeded {
        use MobileScheme::{FastRetransmit, Freeze, Mtcp};
        let needs_none = match event {
            LinkEvent::GoingDownSoon(_) => self.settings.scheme != Freeze,
            LinkEvent::Down => matches!(self.settings.scheme, FastRetransmit | Mtcp),
            LinkEvent::Up => self.is_same_up(now),
        };
        if needs_none {
            FlowsNeeded::Some(BTreeSet::new())
        } else {
            FlowsNeeded::All
        }
    }

    /// Another source has reported this link up already.
    fn is_same_up(&self, now: Instant) -> bool {
        let is_same = |last| now.saturating_since(last) < SAME_UP;
        self.phase == Phase::Up && self.last_up.is_some_and(is_same)
    }

    /// A report about the link. `flows` are those that
    /// [`flows_needed_for`](Self::flows_needed_for) names.
    pub fn handle_link(
        &mut self,
        event: LinkEvent,
        flows: &[HostFlow],
        now: Instant,
        actions: &mut Vec<HostAction>,
    ) {
        self.void_expired_orders(now, actions);
        self.wake_ups.handle_link(event, now);
        match event {
            LinkEvent::GoingDownSoon(lead) => self.on_warning(lead, now, flows, actions),
            LinkEvent::Down => self.on_down(flows, now, actions),
            LinkEvent::Up => self.on_up(flows, now, actions),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let warned = match self.phase {
            Phase::Warned {
                until, adopt_at, ..
            } => Some(until.min(adopt_at)),
            Phase::Down { check_at, .. } if !self.closed.is_empty() => Some(check_at),
            Phase::Up | Phase::Down { .. } => None,
        };
        let renewal = self.has_orders().then_some(self.renew_at);
        let pending = self.pending.values().min().copied();
        let step = self.openings.values().map(Opening::next_step_at).min();
        let repetition = self.unanswered.as_ref().map(|acks| acks.repeat_at);
        let early = self.next_false_alarm();
        let wake_up = self.wake_ups.poll_timeout(self.called_at);
        let all = [warned, early, renewal, pending, step, repetition, wake_up];
        earliest(all)
    }

    /// The flows that [`handle_timeout`](Self::handle_timeout) has to know at this time. Steps and probes are due
    /// every few milliseconds, and need few flows.
    pub fn flows_needed(&self, now: Instant) -> FlowsNeeded {
        let needs_all = match self.phase {
            Phase::Warned {
                until, adopt_at, ..
            } => until.min(adopt_at) <= now || self.next_false_alarm().is_some_and(|at| at <= now),
            Phase::Down { check_at, .. } => check_at <= now && !self.closed.is_empty(),
            Phase::Up => false,
        };
        if needs_all || self.wake_ups.need_all(now) {
            return FlowsNeeded::All;
        }
        let pending = self.pending.iter().filter(|(_, at)| **at <= now);
        let mut due: BTreeSet<_> = pending.map(|(key, _)| *key).collect();
        let openings = self.openings.iter();
        let is_due = |opening: &Opening| opening.next_step_at() <= now;
        due.extend(openings.filter_map(|(key, opening)| is_due(opening).then_some(*key)));
        match &self.unanswered {
            Some(acks) if acks.repeat_at <= now => match &acks.flows {
                Some(flows) => due.extend(flows.keys()),
                None => return FlowsNeeded::All,
            },
            _ => {}
        }
        due.extend(self.wake_ups.probed(now));
        FlowsNeeded::Some(due)
    }

    /// Does what is due. `flows` are those that [`flows_needed`](Self::flows_needed) names.
    pub fn handle_timeout(
        &mut self,
        flows: &[HostFlow],
        now: Instant,
        actions: &mut Vec<HostAction>,
    ) {
        self.void_expired_orders(now, actions);
        if now >= self.renew_at {
            self.renew_at = now
                + if self.settings.scheme == MobileScheme::Wake {
                    STANDING_ORDER_RENEWAL
                } else {
                    ORDER_RENEWAL
                };
        }
        if self.pending.values().any(|at| *at <= now) {
            self.close_due(now, flows, actions);
        }
        if self.openings.values().any(|one| one.next_step_at() <= now) {
            self.step_openings(now, flows, actions);
        }
        if let Phase::Warned { until, .. } = self.phase
            && now < until
            && self.next_false_alarm().is_some_and(|at| at <= now)
        {
            self.open_early(now, flows, actions);
        }
        match self.phase {
            Phase::Warned { until, .. } if now >= until => {
                self.end_false_alarm(now, flows, actions);
            }
            Phase::Warned {
                down_expected_at,
                until,
                adopt_at,
            } if now >= adopt_at => {
                self.phase = Phase::Warned {
                    down_expected_at,
                    until,
                    adopt_at: now + ADOPTION,
                };
                self.warn_flows(down_expected_at, now, flows, actions);
            }
            Phase::Down { since, check_at } if now >= check_at && !self.closed.is_empty() => {
                let check_at = now + CHECK_INTERVAL;
                self.phase = Phase::Down { since, check_at };
                self.check_link_down(since, now, flows, actions);
            }
            _ => {}
        }
        if matches!(&self.unanswered, Some(unanswered) if unanswered.repeat_at <= now) {
            self.repeat_acks(now, flows, actions);
        }
        if self.settings.scheme == MobileScheme::Wake {
            self.handle_wake_timeout(flows, now, actions);
        }
    }

    /// A link that is reported down, but delivers new segments, is up: the report of link up is missing.
    fn check_link_down(
        &mut self,
        since: Instant,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        let is_up = flows.iter().any(|flow| {
            let late = since + flow.round_trip().unwrap_or_default().max(ON_ITS_WAY);
            flow.received_at.is_some_and(|received| received > late)
        });
        if is_up {
            self.phase = Phase::Up;
            self.last_up = Some(now);
            self.note_outage(since, LinkSource::Signal, flows, now);
            self.open_all(now, COPIES_AFTER_OUTAGE, flows, actions);
        }
    }

    /// Opens all windows: the daemon leaves.
    pub fn release(&mut self, now: Instant, actions: &mut Vec<HostAction>) {
        self.phase = Phase::Up;
        // No later input takes steps: the windows open at once.
        self.open_all(now, COPIES_AFTER_OUTAGE, &[], actions);
        for key in core::mem::take(&mut self.openings).into_keys() {
            actions.push(HostAction::Open(key));
            self.send(key, MadeAck::Last, 1, actions);
        }
        self.unanswered = None;
    }

    fn on_down(&mut self, flows: &[HostFlow], now: Instant, actions: &mut Vec<HostAction>) {
        if !self.is_down() {
            let (since, check_at) = (now, now + CHECK_INTERVAL);
            self.phase = Phase::Down { since, check_at };
        }
        // Nothing reaches the FH any more.
        self.pending.clear();
        self.closed_since = None;
        self.close_again(flows, actions);
        if self.settings.scheme == MobileScheme::Wake {
            Self::renew_echoes(flows, actions);
        }
    }

    fn on_up(&mut self, flows: &[HostFlow], now: Instant, actions: &mut Vec<HostAction>) {
        if self.is_same_up(now) {
            return;
        }
        let phase_before = core::mem::replace(&mut self.phase, Phase::Up);
        self.last_up = Some(now);
        if let Phase::Down { since, .. } = phase_before {
            self.note_outage(since, LinkSource::Signal, flows, now);
        }
        // Windows that were closed are opened first, whatever is known of their flows.
        let opened: BTreeSet<_> = self.closed.keys().copied().collect();
        let MobileHostSettings {
            scheme,
            set,
            tr_acks,
            ..
        } = self.settings;
        let copies = match (scheme, set) {
            (MobileScheme::Freeze, FreezeSet::Today) if !tr_acks => 1,
            // Section IV-A, "No TR-ACK": it waits for the sender's next segment.
            (MobileScheme::Freeze, FreezeSet::Published) if !tr_acks => 0,
            _ => COPIES_AFTER_OUTAGE,
        };
        self.open_all(now, copies, flows, actions);
        let repeated = match (scheme, set) {
            // An ACK with an old echo may make a Linux sender undo its timeout, and wait for what is lost.
            (MobileScheme::Freeze, FreezeSet::Today) => return,
            (MobileScheme::Freeze, FreezeSet::Published) if !tr_acks => return,
            (MobileScheme::Freeze | MobileScheme::FastRetransmit, _) => None,
            (MobileScheme::Mtcp, _) => Some(Repetition::Ack(MadeAck::Marked)),
            (MobileScheme::Wake, _) => Some(Repetition::WakeUp),
        };
        let was_down = matches!(phase_before, Phase::Down { .. });
        for flow in served(flows, now) {
            // Without a report of an outage: a flow that receives data needs nothing, and its
            // sender would take three equal ACKs for a loss.
            let receives_data = !was_down && flow.has_received_lately(now);
            if receives_data || opened.contains(&flow.key) {
                continue;
            }
            match repeated {
                None => self.send(flow.key, MadeAck::Last, copies, actions),
                Some(ack) => self.send_repeated(ack, flow, now, actions),
            }
        }
        if let Some(ack) = repeated {
            self.await_answers(ack, None, MARKS_MAX, now);
        }
    }

    fn send(&mut self, key: FlowKey, ack: MadeAck, copies: u8, actions: &mut Vec<HostAction>) {
        self.counters.acks_made += u64::from(copies);
        actions.push(HostAction::Send { key, ack, copies });
    }
}
