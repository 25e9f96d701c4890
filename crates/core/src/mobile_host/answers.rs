// SPDX-License-Identifier: Apache-2.0
//! Windows that open, at once or in steps, and ACKs that are repeated to flows without an answer.

use std::collections::BTreeMap;

use holdfast_wire::{Instant, SeqNum};

use super::flow::HostFlow;
use super::opening::{ClosedWindow, Opening, Step};
use super::{
    COPIES_AFTER_FALSE_ALARM, FLOWS_SERVED_MAX, FreezeSet, HostAction, MadeAck, MobileHost,
    ORDER_LIFE, Phase, REPEATED_AFTER,
};
use crate::FlowKey;

/// Windows that open in steps at the same time; the others open at once.
const OPENINGS_MAX: usize = 32;
/// An ACK that opens a window is sent this many times, the first included.
const REPETITIONS_MAX: u32 = 7;

/// What is repeated to a flow that receives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repetition {
    /// This ACK.
    Ack(MadeAck),
    /// The packets that wake the FH.
    WakeUp,
}

/// ACKs that have no answer yet.
#[derive(Clone, Debug)]
pub(super) struct UnansweredAcks {
    pub(super) ack: Repetition,
    /// The flows that must answer; `None`: all live ones.
    pub(super) flows: Option<BTreeMap<FlowKey, ClosedWindow>>,
    pub(super) since: Instant,
    pub(super) repeat_at: Instant,
    pub(super) sent: u32,
    pub(super) most: u32,
}

impl MobileHost {
    /// Opens the closed windows and sends their ACKs; repeats them to flows that do not answer.
    pub(super) fn open_all(
        &mut self,
        now: Instant,
        copies: u8,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        self.pending.clear();
        self.closed_since = None;
        let opened = core::mem::take(&mut self.closed);
        self.open(opened, now, copies, flows, actions);
    }

    /// Opens these flows, which are no longer among the closed ones.
    pub(super) fn open(
        &mut self,
        opened: BTreeMap<FlowKey, ClosedWindow>,
        now: Instant,
        copies: u8,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        let steps = self.settings.set == FreezeSet::Today;
        let known: BTreeMap<_, _> = flows.iter().map(|flow| (flow.key, flow)).collect();
        for (key, closed) in &opened {
            let known = known.get(key).filter(|_| steps);
            let opening = known.and_then(|flow| Opening::begin(flow, closed, now));
            if let Some(opening) = opening.filter(|_| self.openings.len() < OPENINGS_MAX) {
                self.counters.opened_in_steps += 1;
                self.limit(*key, opening.advertised(), actions);
                self.openings.insert(*key, opening);
                continue;
            }
            actions.push(HostAction::Open(*key));
            if copies > 0 {
                self.send(*key, MadeAck::Last, copies, actions);
            }
        }
        if !opened.is_empty() && copies > 0 {
            let mut opened = opened;
            // A flow that has not answered an earlier ACK gets further repetitions.
            for (key, closed) in self.not_answered(flows) {
                if opened.len() < FLOWS_SERVED_MAX {
                    opened.entry(key).or_insert(closed);
                }
            }
            self.await_answers(
                Repetition::Ack(MadeAck::Last),
                Some(opened),
                REPETITIONS_MAX,
                now,
            );
        }
    }

    /// Flows of the last opening that are known and have not answered it.
    fn not_answered(&mut self, flows: &[HostFlow]) -> Vec<(FlowKey, ClosedWindow)> {
        let Some(UnansweredAcks {
            flows: Some(opened),
            since,
            ..
        }) = self.unanswered.take()
        else {
            return Vec::new();
        };
        let is_unanswered = |flow: &&HostFlow| flow.received_at.is_none_or(|at| at < since);
        let waiting = flows.iter().filter(is_unanswered);
        let waiting =
            waiting.filter_map(|flow| opened.get(&flow.key).map(|closed| (flow.key, *closed)));
        waiting.collect()
    }

    /// No input came until the orders expired: the caller hung or was suspended. Segments then left with
    /// unchanged windows, and the FHs received them. So the orders are not valid any more, except in an
    /// outage, in which no FH has received anything.
    pub(super) fn void_expired_orders(&mut self, now: Instant, actions: &mut Vec<HostAction>) {
        let called_at = core::mem::replace(&mut self.called_at, now);
        let some = !self.closed.is_empty() || !self.openings.is_empty();
        let lapsed = some && now.saturating_since(called_at) > ORDER_LIFE;
        if !lapsed || matches!(self.phase, Phase::Down { .. }) {
            return;
        }
        for key in core::mem::take(&mut self.openings).into_keys() {
            actions.push(HostAction::Open(key));
            self.send(key, MadeAck::Last, 1, actions);
        }
        // At once: it is too late for steps.
        self.open_all(now, COPIES_AFTER_FALSE_ALARM, &[], actions);
    }

    fn limit(&mut self, key: FlowKey, edge: SeqNum, actions: &mut Vec<HostAction>) {
        actions.push(HostAction::Limit { key, edge });
        self.send(key, MadeAck::Limited(edge), 1, actions);
    }

    /// Takes the steps that are due.
    pub(super) fn step_openings(
        &mut self,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        let mut openings = core::mem::take(&mut self.openings);
        openings.retain(|key, opening| {
            if opening.next_step_at() > now {
                return true;
            }
            let flow = flows.iter().find(|flow| flow.key == *key);
            let before = opening.advertised();
            let step = match flow {
                Some(flow) => opening.step(flow, now),
                // A flow that could not be read may still exist.
                None => opening.on_missing(now),
            };
            match step {
                Step::Edge(edge) if edge == before => true,
                Step::Edge(edge) => {
                    self.limit(*key, edge, actions);
                    true
                }
                Step::Open => {
                    actions.push(HostAction::Open(*key));
                    self.send(*key, MadeAck::Last, 1, actions);
                    false
                }
            }
        });
        self.openings = openings;
    }

    /// Link down: flows whose windows were being opened, or that have not answered yet, may have closed
    /// windows at the FH. They are closed again.
    ///
    /// The carrier may report so late that the announced outage was taken for a false alarm.
    pub(super) fn close_again(&mut self, flows: &[HostFlow], actions: &mut Vec<HostAction>) {
        let openings = core::mem::take(&mut self.openings);
        let stepped = openings.iter().map(|(key, opening)| {
            let closed_window = ClosedWindow {
                rcv_nxt: None,
                at: opening.closed_at(),
                round_trip: Some(opening.flight_time()),
                flight: Some(opening.flight()),
            };
            (*key, closed_window)
        });
        let mut to_close: BTreeMap<_, _> = stepped.collect();
        for (key, closed_window) in self.not_answered(flows) {
            to_close.entry(key).or_insert(closed_window);
        }
        for (key, closed_window) in to_close {
            if self.closed.len() < FLOWS_SERVED_MAX {
                self.closed.insert(key, closed_window);
                actions.push(HostAction::Close(key));
            } else {
                actions.push(HostAction::Open(key));
            }
        }
    }

    pub(super) fn await_answers(
        &mut self,
        ack: Repetition,
        flows: Option<BTreeMap<FlowKey, ClosedWindow>>,
        most: u32,
        now: Instant,
    ) {
        self.unanswered = Some(UnansweredAcks {
            ack,
            flows,
            since: now,
            repeat_at: now + REPEATED_AFTER,
            sent: 1,
            most,
        });
    }

    pub(super) fn send_repeated(
        &mut self,
        ack: Repetition,
        flow: &HostFlow,
        now: Instant,
        actions: &mut Vec<HostAction>,
    ) {
        match ack {
            Repetition::Ack(ack) => self.send(flow.key, ack, 1, actions),
            Repetition::WakeUp => {
                self.counters.acks_made += 1;
                self.wake_up(flow, now, actions);
            }
        }
    }

    /// Repeats the ACK to flows that received nothing since it was sent: it may be lost.
    pub(super) fn repeat_acks(
        &mut self,
        now: Instant,
        flows: &[HostFlow],
        actions: &mut Vec<HostAction>,
    ) {
        let Some(mut unanswered) = self.unanswered.take() else {
            return;
        };
        let is_unanswered = |flow: &&HostFlow| {
            let counts = unanswered
                .flows
                .as_ref()
                .is_none_or(|keys| keys.contains_key(&flow.key));
            counts && flow.received_at.is_none_or(|at| at < unanswered.since)
        };
        let waiting: Vec<_> = flows.iter().filter(is_unanswered).copied().collect();
        for flow in waiting.iter().take(FLOWS_SERVED_MAX) {
            // Marked ACKs are for live flows; a closed window must be opened in any case.
            let wanted = unanswered.flows.is_some() || flow.is_live(now);
            // A flow that opens in steps gets an ACK with each step; one that is closed again waits.
            let is_open =
                !self.openings.contains_key(&flow.key) && !self.closed.contains_key(&flow.key);
            let wanted = wanted && is_open;
            if wanted && flow.is_late(unanswered.since, now) {
                self.send_repeated(unanswered.ack, flow, now, actions);
            }
        }
        unanswered.repeat_at = now + REPEATED_AFTER * (1 << unanswered.sent);
        unanswered.sent += 1;
        if unanswered.sent < unanswered.most && !waiting.is_empty() {
            self.unanswered = Some(unanswered);
        }
    }
}
