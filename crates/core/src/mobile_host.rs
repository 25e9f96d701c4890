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

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use holdfast_wire::{Instant, SackBlocks, SeqNum, Timestamps};

use crate::FlowKey;

mod settings;
#[cfg(test)]
mod tests;

pub use settings::{FreezeSet, MobileHostSettings, MobileScheme};

/// Flows for which ACKs are made at one event, the newest first.
pub const FLOWS_SERVED_MAX: usize = 1024;

/// Copies of the last ACK after an outage (Freeze-TCP, section IV: "TR-ACKs").
const COPIES_AFTER_OUTAGE: u8 = 3;
/// Copies of the ACK that opens a window of which the sender may know no outage: one more
/// than needed. Three might be taken for a loss.
const COPIES_AFTER_FALSE_ALARM: u8 = 2;
/// A flow of which neither end was heard for so long has nothing to lose.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// An `up` so soon after another is the same one, by another source.
const SAME_UP: Duration = Duration::from_secs(1);
/// How long closed windows stay closed if nobody says so again.
const ORDER_LIFE: Duration = Duration::from_millis(200);
/// How often it is said again.
const ORDER_RENEWAL: Duration = Duration::from_millis(50);
/// How often flows that begin after a warning are looked for.
const ADOPTION: Duration = Duration::from_millis(100);
/// The marked ACK is repeated to a flow of which nothing was heard since: after so long...
const MARK_REPEATED_AFTER: Duration = Duration::from_millis(100);
/// ... and twice as long each time, so often.
const MARKS_MAX: u32 = 4;

/// A flow as the data path knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFlow {
    /// Its ends.
    pub key: FlowKey,
    /// The next byte that the MH sends: SEG.SEQ of a made ACK.
    pub snd_nxt: SeqNum,
    /// What the MH has acknowledged.
    pub rcv_nxt: SeqNum,
    /// The window that the MH itself said last, not scaled.
    pub window: u16,
    /// The newest clocks that the MH sent.
    pub timestamps: Option<Timestamps>,
    /// The SACK blocks of its last ACK.
    pub sack: SackBlocks,
    /// The smoothed round trip (RFC 6298), queues included.
    pub srtt: Option<Duration>,
    /// The newest round trip.
    pub rtt: Option<Duration>,
    /// When the MH last sent something.
    pub sent_at: Instant,
    /// When something of the FH last came.
    pub heard_at: Option<Instant>,
    /// It carries options that a made ACK could not have (MPTCP, MD5, AO).
    pub is_opaque: bool,
    /// The FH has sent all that it has to send.
    pub is_finished: bool,
}

impl HostFlow {
    /// The round trip that a warning has to cover: the longer of the newest and the usual.
    pub fn round_trip(&self) -> Option<Duration> {
        self.srtt.max(self.rtt)
    }

    fn newest(&self) -> Instant {
        self.heard_at
            .map_or(self.sent_at, |heard| heard.max(self.sent_at))
    }

    fn is_live(&self, now: Instant) -> bool {
        let idle = now.saturating_since(self.newest());
        !self.is_opaque && !self.is_finished && idle < IDLE_MAX
    }
}

/// What became of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLinkEvent {
    /// It carries again.
    Up,
    /// It carries nothing.
    Down,
    /// It will go in so long; none: soon.
    GoingDownSoon(Option<Duration>),
}

/// An ACK to be made for a flow. All have the newest SEQ, ACK, clocks and SACK blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeAck {
    /// With a window of 0 ("ZWA").
    ZeroWindow,
    /// The last one once more, with the true window.
    Last,
    /// The same with [`crate::RECONNECTION_FLAGS`].
    Marked,
}

/// What is to be done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAction {
    /// From now on the flow's window is 0 in all that goes out.
    Close(FlowKey),
    /// No longer.
    Open(FlowKey),
    /// Send so many of this ACK.
    Send {
        /// The flow.
        key: FlowKey,
        /// Which ACK.
        ack: MadeAck,
        /// How many.
        copies: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Up,
    /// `goes_at`: when the link is expected to go. At `until` it was a false alarm.
    Warned {
        goes_at: Option<Instant>,
        until: Instant,
        adopt_at: Instant,
    },
    Down,
}

/// Marked ACKs that wait for an answer.
#[derive(Clone, Copy, Debug)]
struct Marks {
    since: Instant,
    due: Instant,
    sent: u32,
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
}

/// The machine. `flows` of its inputs is asked for what the data path knows at the moment, and only
/// when that is needed.
#[derive(Debug)]
pub struct MobileHost {
    settings: MobileHostSettings,
    phase: Phase,
    /// Whose windows are closed.
    closed: BTreeSet<FlowKey>,
    /// Whose windows are to be closed, and when.
    pending: BTreeMap<FlowKey, Instant>,
    renew_at: Instant,
    marks: Option<Marks>,
    last_up: Option<Instant>,
    counters: MobileHostCounters,
}

impl MobileHost {
    /// A machine whose link is up.
    pub const fn new(settings: MobileHostSettings) -> Self {
        Self {
            settings,
            phase: Phase::Up,
            closed: BTreeSet::new(),
            pending: BTreeMap::new(),
            renew_at: Instant::ZERO,
            marks: None,
            last_up: None,
            counters: MobileHostCounters {
                frozen: 0,
                not_covered: 0,
                false_alarms: 0,
                acks_made: 0,
            },
        }
    }

    /// What it has done.
    pub const fn counters(&self) -> &MobileHostCounters {
        &self.counters
    }

    /// How many windows are closed.
    pub fn closed_count(&self) -> usize {
        self.closed.len()
    }

    /// Until when closed windows are to stay closed; none if none is.
    pub fn orders_until(&self, now: Instant) -> Option<Instant> {
        (!self.closed.is_empty()).then(|| now + ORDER_LIFE)
    }

    /// Something became of the link.
    pub fn handle_link(
        &mut self,
        event: HostLinkEvent,
        now: Instant,
        flows: &mut dyn FnMut() -> Vec<HostFlow>,
        actions: &mut Vec<HostAction>,
    ) {
        match event {
            HostLinkEvent::GoingDownSoon(lead) => self.on_warning(lead, now, flows, actions),
            HostLinkEvent::Down => {
                self.phase = Phase::Down;
                // Nothing reaches the FH any more.
                self.pending.clear();
                self.marks = None;
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
            Phase::Up | Phase::Down => None,
        };
        let renewal = (!self.closed.is_empty()).then_some(self.renew_at);
        let pending = self.pending.values().min().copied();
        let mark = self.marks.map(|marks| marks.due);
        [warned, renewal, pending, mark].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_timeout(
        &mut self,
        now: Instant,
        flows: &mut dyn FnMut() -> Vec<HostFlow>,
        actions: &mut Vec<HostAction>,
    ) {
        let due: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            self.close(key, actions);
        }
        if let Phase::Warned {
            goes_at,
            until,
            adopt_at,
        } = self.phase
        {
            if now >= until {
                self.counters.false_alarms += 1;
                self.phase = Phase::Up;
                self.open_all(COPIES_AFTER_FALSE_ALARM, actions);
            } else if now >= adopt_at {
                self.phase = Phase::Warned {
                    goes_at,
                    until,
                    adopt_at: now + ADOPTION,
                };
                self.warn_flows(goes_at, now, &flows(), actions);
            }
        }
        if self.marks.is_some_and(|marks| marks.due <= now) {
            self.mark_again(now, &flows(), actions);
        }
        if now >= self.renew_at {
            self.renew_at = now + ORDER_RENEWAL;
        }
    }

    /// Opens what is closed: the owner is leaving.
    pub fn release(&mut self, actions: &mut Vec<HostAction>) {
        self.phase = Phase::Up;
        self.marks = None;
        self.open_all(COPIES_AFTER_OUTAGE, actions);
    }

    fn on_warning(
        &mut self,
        lead: Option<Duration>,
        now: Instant,
        flows: &mut dyn FnMut() -> Vec<HostFlow>,
        actions: &mut Vec<HostAction>,
    ) {
        if self.settings.scheme != MobileScheme::Freeze || self.phase == Phase::Down {
            return;
        }
        let goes_at = lead.map(|lead| now + lead);
        self.phase = Phase::Warned {
            goes_at,
            until: goes_at.unwrap_or(now) + self.settings.false_alarm,
            adopt_at: now + ADOPTION,
        };
        // A newer warning tells a better time.
        self.pending.clear();
        self.warn_flows(goes_at, now, &flows(), actions);
        self.renew_at = now + ORDER_RENEWAL;
    }

    /// Closes the windows of flows for which it is time, and notes when it is for the others.
    fn warn_flows(
        &mut self,
        goes_at: Option<Instant>,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        for flow in served(flows, now) {
            if self.closed.contains(&flow.key) || self.pending.contains_key(&flow.key) {
                continue;
            }
            let ahead = flow.round_trip().map(|rtt| self.settings.ahead(rtt));
            let at = match (goes_at, ahead) {
                (Some(goes_at), Some(ahead)) => Instant::from_nanos(
                    (goes_at.as_nanos()).saturating_sub(ahead.as_nanos() as u64),
                ),
                _ => now,
            };
            if self.settings.set == FreezeSet::Today {
                // A warning that does not cover the round trip does more harm than none.
                let covers = goes_at.is_some() && ahead.is_some() && at >= now;
                if !covers {
                    self.counters.not_covered += 1;
                    continue;
                }
            }
            if at <= now {
                self.close(flow.key, actions);
            } else {
                self.pending.insert(flow.key, at);
            }
        }
    }

    fn close(&mut self, key: FlowKey, actions: &mut Vec<HostAction>) {
        self.pending.remove(&key);
        self.closed.insert(key);
        self.counters.frozen += 1;
        actions.push(HostAction::Close(key));
        self.send(key, MadeAck::ZeroWindow, 1, actions);
    }

    fn open_all(&mut self, copies: u8, actions: &mut Vec<HostAction>) {
        self.pending.clear();
        for key in core::mem::take(&mut self.closed) {
            actions.push(HostAction::Open(key));
            self.send(key, MadeAck::Last, copies, actions);
        }
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
        let warned = matches!(was, Phase::Warned { .. });
        if warned && !self.closed.is_empty() {
            // The outage was shorter than anybody could see, or there was none.
            self.open_all(COPIES_AFTER_OUTAGE, actions);
            return;
        }
        let opened: Vec<_> = core::mem::take(&mut self.closed).into_iter().collect();
        self.pending.clear();
        actions.extend(opened.iter().map(|key| HostAction::Open(*key)));
        let flows = flows();
        match self.settings.scheme {
            MobileScheme::Freeze if !self.settings.tr_acks => {
                for key in opened {
                    self.send(key, MadeAck::Last, 1, actions);
                }
            }
            MobileScheme::Freeze | MobileScheme::FastRetransmit => {
                for flow in served(&flows, now) {
                    self.send(flow.key, MadeAck::Last, COPIES_AFTER_OUTAGE, actions);
                }
            }
            MobileScheme::Mtcp => {
                for flow in served(&flows, now) {
                    self.send(flow.key, MadeAck::Marked, 1, actions);
                }
                self.marks = Some(Marks {
                    since: now,
                    due: now + MARK_REPEATED_AFTER,
                    sent: 1,
                });
            }
        }
    }

    /// Flows of which nothing was heard since the link is back: the mark may be lost.
    fn mark_again(&mut self, now: Instant, flows: &[HostFlow], actions: &mut Vec<HostAction>) {
        let Some(marks) = self.marks.take() else {
            return;
        };
        let unanswered = |flow: &&HostFlow| flow.heard_at.is_none_or(|at| at < marks.since);
        for flow in served(flows, now).into_iter().filter(unanswered) {
            self.send(flow.key, MadeAck::Marked, 1, actions);
        }
        let sent = marks.sent + 1;
        self.marks = (sent < MARKS_MAX).then(|| Marks {
            due: now + MARK_REPEATED_AFTER * (1 << (sent - 1)),
            sent,
            ..marks
        });
    }

    fn send(&mut self, key: FlowKey, ack: MadeAck, copies: u8, actions: &mut Vec<HostAction>) {
        self.counters.acks_made += u64::from(copies);
        actions.push(HostAction::Send { key, ack, copies });
    }
}

/// The flows that something can be done for, the newest first.
fn served(flows: &[HostFlow], now: Instant) -> Vec<&HostFlow> {
    let mut live: Vec<_> = flows.iter().filter(|flow| flow.is_live(now)).collect();
    live.sort_by_key(|flow| (core::cmp::Reverse(flow.newest()), flow.key));
    live.truncate(FLOWS_SERVED_MAX);
    live
}
