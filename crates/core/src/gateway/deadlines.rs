// SPDX-License-Identifier: Apache-2.0
//! Handles the deadlines of flows and mobiles, and the sweep: it forgets idle flows, and gives up
//! bytes that are owed for too long.

use core::time::Duration;

use holdfast_wire::Instant;

use super::flows::Row;
use super::{Connection, Gateway, Tables};
use crate::flow::{Flow, Mute, Stage};
use crate::mobile::{Link, Mobile};
use crate::settings::Settings;
use crate::table::{FlowId, Keyed as _, MobileId, Table};
use crate::timers::{Subject, earliest};
use crate::{Action, Actions, Payload};

/// Slots of the table that one step of the sweep looks at.
pub(super) const SWEEP_SLOTS: u32 = 4096;
/// The wait between two steps.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// A flow that was never seen in both directions is forgotten after this time without a segment.
const ADOPTING_WAIT: Duration = Duration::from_secs(30);
/// A closed flow is forgotten after this time: as long as an end may stay in TIME-WAIT and repeat
/// its FIN (60 s on Linux).
const CLOSED_WAIT: Duration = Duration::from_secs(60);
/// The same for a flow whose end was seen only in part (RFC 5382, REQ-5: 4 minutes at least for a
/// transitory connection).
const CLOSING_WAIT: Duration = Duration::from_secs(240);
/// The same for a closed flow whose halves have their own numbers: twice the MSL (RFC 9293,
/// 3.4.2).
const RENUMBERED_CLOSED_WAIT: Duration = Duration::from_secs(240);
/// An FH with unacknowledged data sends something in this time: Linux retransmits every two minutes at least.
const GIVEN_UP_WAIT: Duration = Duration::from_secs(300);
/// A flow without a segment for this time is idle.
pub(super) const IDLE_WAIT: Duration = Duration::from_secs(60);
/// Forgotten flows are removed from [`Mobile::send_queue`] when it is longer than this and twice the
/// number of flows.
pub(super) const STALE_MAX: usize = 64;
/// A mute flow is probed at intervals of at most `probe_interval_max`. After each of this number of
/// probes the limit grows by `probe_interval_max`.
const MUTE_PROBES: u32 = 32;
/// The wait of a flow that is due again at once.
const UNSERVED_WAIT: Duration = Duration::from_millis(1);

impl<P: Payload> Gateway<P> {
    /// Something may be due.
    pub fn handle_timeout(&mut self, now: Instant, actions: &mut Actions<P>) {
        while let Some((at, subject)) = self.timers.pop_due(now) {
            match subject {
                Subject::Mobile(mobile_id) => {
                    let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
                        continue;
                    };
                    if mobile.scheduled.popped(at) {
                        self.on_mobile_due(mobile_id, now, actions);
                        self.schedule_mobile(mobile_id);
                    }
                }
                Subject::Flow(flow_id) => {
                    let Some(Connection { flow, .. }) = self.flows.at_mut(flow_id) else {
                        continue;
                    };
                    if flow.scheduled.popped(at) {
                        self.on_set_up_due(flow_id, now, actions);
                        self.on_flow_due(flow_id, now, actions);
                        self.schedule_flow(flow_id, now);
                        self.put_off(flow_id, now);
                    }
                }
            }
        }
        let (flows, mobiles) = (&mut self.flows, &mut self.mobiles);
        self.cells.handle_timeout(Tables { flows, mobiles }, now);
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep(now, actions);
        }
    }

    /// Puts off a flow that was served and is still due: a part that does not update its deadline must
    /// not stop all others.
    fn put_off(&mut self, flow_id: FlowId, now: Instant) {
        let Some(Connection { flow, .. }) = self.flows.at_mut(flow_id) else {
            return;
        };
        if flow.scheduled.is_due(now) {
            debug_assert!(false, "a deadline that was not served");
            self.counters.unserved += 1;
            let at = now + UNSERVED_WAIT;
            self.timers
                .put_off(Subject::Flow(flow_id), &mut flow.scheduled, at);
        }
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        earliest([self.timers.next(), self.sweep_at, self.cells.next_timeout()])
    }

    /// One step through the table: forgets idle and closed flows, and gives up bytes that are owed for
    /// too long.
    fn sweep(&mut self, now: Instant, actions: &mut Actions<P>) {
        let slots = self.flows.slots();
        for _ in 0..slots.min(SWEEP_SLOTS) {
            self.swept = (self.swept + 1) % slots;
            let Some(flow_id) = self.flows.id_in(self.swept) else {
                continue;
            };
            let live = self.flows.at_mut(flow_id);
            if let Some(Connection { flow, .. }) = live.filter(|row| row.flow.owed.is_some()) {
                let since = *flow.owed_since.get_or_insert(now);
                if now.saturating_since(since) > self.settings.owed_wait_max {
                    self.abandon(flow_id, actions);
                    if let Some(Connection { flow, .. }) = self.flows.at_mut(flow_id) {
                        // Its ends may still send something, and get a RST for it.
                        flow.seen = now;
                    }
                }
                continue;
            }
            let Some(row) = self.flows.row(flow_id) else {
                continue;
            };
            let (seen, wait) = match row {
                Row::Live(row) => (row.flow.seen, self.longest_wait(&row.flow)),
                Row::Idle(row) => (row.flow.seen, self.settings.flow_idle_max),
                Row::Closed(row) => (row.seen, CLOSED_WAIT),
            };
            let quiet = now.saturating_since(seen);
            if quiet > wait {
                self.forget_flow(flow_id, actions);
                continue;
            }
            self.flows.shrink_closed(flow_id);
            if quiet >= IDLE_WAIT {
                self.forget_upload(flow_id);
                self.flows.shrink_idle(flow_id);
            }
        }
        self.timers.shrink();
        if self.predecessor_until.is_some_and(|at| at <= now) {
            self.predecessor_until = None;
            let unmet = core::mem::replace(&mut self.predecessor, Table::new(0, 0));
            actions.extend(unmet.iter().map(|record| Action::Record(record.ended())));
        }
        let busy = self.flows.len() > 0 || self.predecessor_until.is_some();
        self.sweep_at = busy.then(|| now + SWEEP_INTERVAL);
    }

    /// The time without a segment after which a flow in use is forgotten.
    fn longest_wait(&self, flow: &Flow<P>) -> Duration {
        let is_renumbered = flow.renumber.is_some();
        match flow.stage {
            // Without the difference of the numbers its ends could exchange nothing more.
            Stage::Closed if is_renumbered => RENUMBERED_CLOSED_WAIT,
            Stage::Adopting if is_renumbered => self.settings.flow_idle_max,
            Stage::Closed => CLOSED_WAIT,
            Stage::Adopting => ADOPTING_WAIT,
            Stage::Open | Stage::Opaque if flow.may_be_closed() => {
                CLOSING_WAIT.min(self.settings.flow_idle_max)
            }
            // The FH has given up.
            Stage::Open if flow.has_unacknowledged() && flow.cached_bytes() > 0 => {
                GIVEN_UP_WAIT.min(self.settings.flow_idle_max)
            }
            Stage::Open | Stage::Opaque => self.settings.flow_idle_max,
        }
    }

    /// Owed bytes are given up: both ends get a RST.
    fn abandon(&mut self, flow_id: FlowId, actions: &mut Actions<P>) {
        let Some(Connection { flow, scheme }) = self.flows.at_mut(flow_id) else {
            return;
        };
        // Its record stays until the flow is forgotten: the RSTs may be lost.
        flow.reset_both_ends(actions);
        scheme.get_mut().reset();
        self.counters.owed_lost += 1;
        self.count_in_flight(flow_id);
    }

    /// The gateway is about to leave: from now on nothing further is acknowledged
    /// ahead of an MH, so that [`Self::owed_bytes`] can only fall.
    pub fn stop_acknowledging(&mut self) {
        self.draining = true;
    }

    /// Gives up everything owed: the gateway leaves, and no other takes over. FHs are sent the ACKs that
    /// are due to them.
    pub fn abandon_owed(&mut self, actions: &mut Actions<P>) {
        for index in 0..self.flows.slots() {
            let Some(flow_id) = self.flows.id_in(index) else {
                continue;
            };
            let Some(Connection { flow, scheme }) = self.flows.unpack(flow_id) else {
                continue;
            };
            scheme.get_mut().on_leave(flow, actions);
            if flow.owed.is_some() {
                self.abandon(flow_id, actions);
            }
        }
    }

    /// The connection is over: its cached bytes and its record are removed.
    pub(super) fn end_flow(&mut self, flow_id: FlowId, actions: &mut Actions<P>) {
        if let Some(connection) = self.flows.at_mut(flow_id) {
            connection.close();
            actions.push(Action::Record(connection.flow.record().ended()));
            self.count_in_flight(flow_id);
            self.flows.shrink_closed(flow_id);
        }
    }

    pub(super) fn forget_flow(&mut self, flow_id: FlowId, actions: &mut Actions<P>) {
        if let Some(connection) = self.flows.unpack(flow_id) {
            connection.close();
            self.count_in_flight(flow_id);
        }
        let Some(key) = self.flows.row(flow_id).map(|row| *row.key()) else {
            return;
        };
        let mobile = self.flows.mobile_of(flow_id, &self.mobiles);
        self.leave_mobile(flow_id);
        // A predecessor's record of owed bytes stays until the flow is adopted.
        let removed = self.flows.remove(&key);
        if let Some(row) = removed.filter(|_| self.predecessor.find(&key).is_none()) {
            actions.push(Action::Record(row.record().ended()));
        }
        if let Some(mobile) = mobile {
            self.forget_mobile_without_flows(mobile);
        }
    }

    /// A flow that has been opened or closed moves among its mobile's: what is done for all flows of
    /// a mobile does not look at those that an attacker can make up.
    pub(super) fn sort_among_flows_of_mobile(&mut self, flow_id: FlowId) {
        let Some(Connection { flow, .. }) = self.flows.at(flow_id) else {
            return;
        };
        let (index, is_open) = (flow.index_at_mobile as usize, flow.stage == Stage::Open);
        let Some(mobile) = self.mobiles.at_mut(flow.mobile) else {
            return;
        };
        if is_open == (index < mobile.open) || index >= mobile.flows.len() {
            return;
        }
        let other = if is_open {
            mobile.open
        } else {
            mobile.open - 1
        };
        mobile.flows.swap(index, other);
        let at = [index, other].map(|index| (index, mobile.flows[index]));
        mobile.open = if is_open { other + 1 } else { other };
        for (index, flow_id) in at {
            self.flows.set_index_at_mobile(flow_id, index as u32);
        }
    }

    /// Removes a flow that is not open from the flows of its mobile.
    fn leave_mobile(&mut self, flow_id: FlowId) {
        let Some(index) = self.flows.index_at_mobile(flow_id) else {
            return;
        };
        let index = index as usize;
        let mobile = self.flows.mobile_of(flow_id, &self.mobiles);
        let mobile = mobile.and_then(|mobile| self.mobiles.at_mut(mobile));
        let Some(mobile) = mobile.filter(|mobile| mobile.flows.get(index) == Some(&flow_id)) else {
            return;
        };
        mobile.flows.swap_remove(index);
        if mobile.send_queue.len() > 2 * mobile.flows.len() + STALE_MAX {
            let flows = &self.flows;
            mobile
                .send_queue
                .retain(|flow_id| flows.row(*flow_id).is_some());
        }
        if let Some(moved) = mobile.flows.get(index) {
            self.flows.set_index_at_mobile(*moved, index as u32);
        }
    }

    pub(super) fn forget_mobile_without_flows(&mut self, mobile_id: MobileId) {
        let Some(mobile) = self.mobiles.at(mobile_id) else {
            return;
        };
        if mobile.flows.is_empty() {
            let address = mobile.address;
            if mobile.is_redirected {
                self.peers_to_take.push_back((address, false));
            }
            self.mobiles.remove(&address);
        }
    }

    pub(super) fn schedule_flow(&mut self, flow_id: FlowId, now: Instant) {
        let Some(Connection { flow, scheme }) = self.flows.at_mut(flow_id) else {
            return;
        };
        if let Some(mobile) = self.mobiles.at(flow.mobile) {
            start_retransmit_timer(flow, mobile, &self.settings, now);
        }
        let wake_up = flow
            .uploads
            .as_ref()
            .and_then(|uploads| uploads.next_timeout());
        let scheme_timeout = scheme.get().next_timeout(flow, &self.settings);
        let deadline = earliest([flow.retransmit_at, wake_up, scheme_timeout]);
        self.timers
            .schedule(Subject::Flow(flow_id), &mut flow.scheduled, deadline);
    }

    pub(super) fn schedule_mobile(&mut self, mobile_id: MobileId) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        let deadline = mobile.deadline(&self.settings);
        self.timers
            .schedule(Subject::Mobile(mobile_id), &mut mobile.scheduled, deadline);
        let (was_redirected, is_up) = (mobile.is_redirected, mobile.link == Link::Up);
        let is_redirected = !is_up || was_redirected && self.suppresses_copies_to(mobile_id);
        if self.settings.takes_in_outages
            && was_redirected != is_redirected
            && let Some(mobile) = self.mobiles.at_mut(mobile_id)
        {
            mobile.is_redirected = is_redirected;
            self.peers_to_take
                .push_back((mobile.address, is_redirected));
        }
    }

    /// Whether the FHs' copies of cached segments are suppressed for a flow of the mobile. It looks
    /// first at the flow that it found last.
    fn suppresses_copies_to(&mut self, mobile_id: MobileId) -> bool {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return false;
        };
        let count = mobile.open_flows().len();
        for _ in 0..count {
            mobile.cursor %= count;
            let flow = self.flows.at(mobile.open_flows()[mobile.cursor]);
            if flow.is_some_and(|row| row.flow.retransmits_alone()) {
                return true;
            }
            mobile.cursor += 1;
        }
        false
    }
}

/// Starts the timer for an answer to what was sent from the cache, if it does not run yet.
pub(super) fn start_retransmit_timer<P: Payload>(
    flow: &mut Flow<P>,
    mobile: &Mobile,
    settings: &Settings,
    now: Instant,
) {
    // RFC 2018, 8: the MH may drop what it has reported, so an answer to that is awaited too.
    let waits_for_answer = flow.sent_nxt.after(flow.fh.una) || flow.mute == Mute::Probed;
    if flow.retransmit_at.is_some() || !flow.retransmits_itself() || !waits_for_answer {
        return;
    }
    let mut wait = mobile.rto(settings) * (1 << flow.vain_retransmissions.min(6));
    if flow.mute == Mute::Probed {
        // The link may be down again: then there are no other probes for link up.
        wait =
            wait.min(settings.probe_interval_max * (1 + flow.vain_retransmissions / MUTE_PROBES));
    }
    flow.retransmit_at = Some(now + wait);
}
