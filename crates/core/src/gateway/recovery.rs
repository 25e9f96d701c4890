// SPDX-License-Identifier: Apache-2.0
//! Detects that a link is down, detects that it is up again, and sends what was cached.

use core::net::IpAddr;
use core::time::Duration;

use holdfast_wire::{Flags, Instant};

use super::deadlines::start_retransmit_timer;
use super::{Connection, Flows, Gateway};
use crate::flow::{Flow, LinkUp, Mute, Sender, Stage};
use crate::link_state::LinkSource;
use crate::mobile::{Link, Mobile};
use crate::outage::Outage;
use crate::schemes::{self, Context};
use crate::table::{FlowId, MobileId};
use crate::timers::Subject;
use crate::{Action, Actions, Payload};

/// The most flows of one MH that a probe looks at. The next probe goes on from there.
const PROBE_FLOWS_MAX: usize = 4096;

/// The flow whose segment shows that the link is up, and whether something of it had no ACK.
#[derive(Clone, Copy)]
pub(super) struct Answered {
    pub flow: FlowId,
    pub waited: bool,
}

impl<P: Payload> Gateway<P> {
    pub(super) fn on_mobile_due(
        &mut self,
        mobile_id: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        if mobile.falls_silent(&self.settings, now) {
            self.counters.silences += 1;
        }
        self.end_warning(mobile_id, now, actions);
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        let probe = mobile.poll_probe(&self.settings, now);
        let is_disconnected = mobile.counts_as_disconnected();
        if probe {
            self.probe(mobile_id, now, actions);
        }
        self.probe_upload(mobile_id, now, actions);
        if is_disconnected {
            self.on_disconnected(mobile_id, now, actions);
        }
        if self
            .mobiles
            .at(mobile_id)
            .is_some_and(|mobile| mobile.link == Link::Recovering)
        {
            self.send_on(mobile_id, now, actions);
        }
    }

    /// One segment of one flow, each flow in its turn: an answer shows that the link is up.
    fn probe(&mut self, mobile_id: MobileId, now: Instant, actions: &mut Actions<P>) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        let len_max = mobile.probe_len_max();
        for _ in 0..mobile.open_flows().len().min(PROBE_FLOWS_MAX) {
            mobile.cursor = (mobile.cursor + 1) % mobile.open_flows().len();
            let Some(Connection { flow, .. }) =
                self.flows.at_mut(mobile.open_flows()[mobile.cursor])
            else {
                continue;
            };
            // A split flow has persist packets of its own.
            if flow.has_own_sender || flow.waits_for_handoff {
                continue;
            }
            // An FH in persist state sends nothing that could show link up, and with nothing cached the
            // gateway has nothing to send either. The same holds for an FH that only receives.
            let has_nothing = (flow.in_persist && flow.stage == Stage::Open) || flow.is_uploading();
            let probe = match flow.probe(len_max) {
                Some(piece) => Some(Action::Resend(piece)),
                None if has_nothing => flow.made_probe(now),
                None => None,
            };
            if let Some(probe) = probe {
                self.counters.probes += 1;
                actions.push(probe);
                return;
            }
        }
    }

    /// The link is up again. `answered`: what shows it. The other flows are probed first: the
    /// silence may be one flow's alone.
    pub(super) fn begin_recovery(
        &mut self,
        mobile_id: MobileId,
        source: LinkSource,
        answered: Option<Answered>,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        let mut length = Duration::ZERO;
        if let Some(outage) = ended_outage(mobile, &self.flows, answered, now) {
            length = outage.length;
            self.counters.outages_lost += self.ended_outages.push(outage);
        }
        let answered = answered.map(|answered| answered.flow);
        mobile.enter_recovery(source, now);
        let caches = |flow_id: &FlowId| {
            let row = self.flows.at(*flow_id);
            row.is_some_and(|row| row.scheme.get().caches())
        };
        if !mobile.open_flows().iter().any(caches) {
            mobile.expect_no_answer();
        }
        let was_reported = mobile.take_disconnected();
        self.counters.recoveries += 1;
        let to_wake = mobile.open_flows().iter().filter(|flow_id| {
            let row = self.flows.at(**flow_id);
            row.is_some_and(|row| row.flow.may_be_woken())
        });
        let wait = mobile.upload_rto(&self.settings);
        let mut link_up = LinkUp::new(length, wait, to_wake.count());
        let mut woken = 0_u64;
        for index in 0..mobile.open_flows().len() {
            let flow_id = mobile.open_flows()[index];
            let Some(connection) = self.flows.at_mut(flow_id) else {
                continue;
            };
            let is_sent_by_others =
                connection.flow.has_own_sender || connection.flow.waits_for_handoff;
            if !is_sent_by_others {
                connection.rewind_after_outage();
            }
            let Connection { flow, scheme } = connection;
            flow.mute = Mute::No;
            flow.first_probe = None;
            if answered.is_some_and(|answered| answered != flow_id) {
                flow.wait_for_answer();
            }
            mobile.count_flow(flow, &mut self.budget);
            flow.join_send_queue(flow_id, &mut mobile.send_queue);
            let (settings, counters) = (&self.settings, &mut self.counters);
            let mut cx = Context::new(settings, mobile, self.draining, now, counters, actions);
            if was_reported {
                scheme.get_mut().on_reconnected(flow, &mut cx);
            }
            let ack_in_outage = flow.ack_in_outage.take();
            let is_answered = answered == Some(flow_id);
            let is_woken = flow.wake_sender(ack_in_outage, is_answered, &mut link_up, now, actions);
            woken += u64::from(is_woken);
        }
        self.counters.wake_ups += woken;
        self.send_on(mobile_id, now, actions);
        self.schedule_flows_of(mobile_id, now);
    }

    /// The MH was silent, and the link has lost nothing.
    pub(super) fn end_silence(
        &mut self,
        mobile_id: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        mobile.end_silence(now);
        let was_reported = mobile.take_disconnected();
        for flow_id in mobile.open_flows() {
            if let Some(Connection { flow, .. }) = self.flows.at_mut(*flow_id) {
                // The FH's newest ACK was forwarded in the silence.
                (flow.first_probe, flow.ack_in_outage) = (None, None);
                flow.forget_timed_upload();
            }
        }
        if was_reported {
            self.with_flows_of(mobile_id, now, actions, |scheme, flow, cx| {
                scheme.on_reconnected(flow, cx);
            });
        }
        self.counters.false_silences += 1;
        let waits = self
            .mobiles
            .at(mobile_id)
            .is_some_and(|mobile| !mobile.send_queue.is_empty());
        if waits {
            self.resume_recovery(mobile_id, now, actions);
        }
    }

    /// A backlog has come up while the link is up.
    pub(super) fn resume_recovery(
        &mut self,
        mobile_id: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        if mobile.link == Link::Up {
            mobile.resume_recovery(now);
        }
        if mobile.link == Link::Recovering {
            self.send_on(mobile_id, now, actions);
        }
        self.schedule_mobile(mobile_id);
    }

    /// Sends what the pace allows, one piece of each flow in turn.
    pub(super) fn send_on(&mut self, mobile_id: MobileId, now: Instant, actions: &mut Actions<P>) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        while let Some(next) = mobile.send_queue.pop_front() {
            let Some(Connection { flow, .. }) = self.flows.at_mut(next) else {
                continue;
            };
            if !flow.has_backlog() || !flow.may_send_on() {
                flow.is_in_send_queue = false;
                continue;
            }
            let Some(allowance) = mobile.allowance(now) else {
                mobile.send_queue.push_front(next);
                return;
            };
            let len_max = whole_segments(flow, allowance);
            let piece = if flow.mute == Mute::ToProbe {
                flow.probe_mute(mobile.probe_len_max())
            } else {
                flow.take_piece(len_max)
            };
            if let Some(piece) = piece {
                mobile.charge(piece.len.max(1), now);
                if schemes::notes_transmissions(&self.settings) {
                    let end = piece.seq + piece.len + u32::from(piece.flags.has(Flags::FIN));
                    flow.transmissions.record(piece.seq, end, Sender::Fh, now);
                }
                self.counters.sent_on += 1;
                actions.push(Action::Resend(piece));
            }
            mobile.count_flow(flow, &mut self.budget);
            mobile.send_queue.push_back(next);
            // The flow may not get another turn soon: its timer runs from now on.
            start_retransmit_timer(flow, mobile, &self.settings, now);
            let subject = Subject::Flow(next);
            self.timers
                .schedule(subject, &mut flow.scheduled, flow.retransmit_at);
        }
        mobile.end_recovery(now);
    }

    pub(super) fn schedule_flows_of(&mut self, mobile_id: MobileId, now: Instant) {
        for index in 0.. {
            let flow = self
                .mobiles
                .at(mobile_id)
                .and_then(|mobile| mobile.open_flows().get(index));
            let Some(flow) = flow.copied() else { return };
            self.schedule_flow(flow, now);
        }
    }

    pub(super) fn on_flow_due(&mut self, flow_id: FlowId, now: Instant, actions: &mut Actions<P>) {
        self.with_context(flow_id, now, actions, |scheme, flow, cx| {
            scheme.on_timeout(flow, cx);
        });
        self.wake_sender_again(flow_id, now, actions);
        self.close_if_done(flow_id, actions);
        let Some(connection) = self.flows.at_mut(flow_id) else {
            return;
        };
        let flow = &mut connection.flow;
        if flow.retransmit_at.is_none_or(|at| at > now) {
            return;
        }
        flow.retransmit_at = None;
        let mobile = flow.mobile;
        // In an outage there are the probes, and no retransmission arrives.
        if !flow.retransmits_itself() || self.mobiles.at(mobile).is_none_or(Mobile::is_away) {
            return;
        }
        // This flow is one of them.
        let has_others = self
            .mobiles
            .at(mobile)
            .is_some_and(|mobile| mobile.in_flight.flows > 1);
        flow.vain_retransmissions = flow.vain_retransmissions.saturating_add(1);
        if flow.mute == Mute::Probed {
            flow.mute = Mute::ToProbe;
        } else if flow.vain_retransmissions > 1 && has_others {
            // The MH answers the other flows, or it would be silent.
            flow.wait_for_answer();
        }
        // RFC 2018, 8: what was reported may have been dropped since.
        flow.sacked.clear();
        connection.rewind();
        self.count_in_flight(flow_id);
        self.counters.repaired += 1;
        self.resume_recovery(mobile, now, actions);
    }
}

/// The outage of the mobile that ends now, if one does. `answered`: see [`Gateway::begin_recovery`].
/// A mobile without an open flow, or one that paused without loss, leaves no record.
fn ended_outage<P: Payload>(
    mobile: &mut Mobile,
    flows: &Flows<P>,
    answered: Option<Answered>,
    now: Instant,
) -> Option<Outage<IpAddr>> {
    let waits = |flow_id: &&FlowId| match answered {
        Some(answered) if answered.flow == **flow_id => answered.waited,
        _ => flows
            .at(**flow_id)
            .is_some_and(|row| row.flow.waits_for_ack()),
    };
    let waiting = mobile.open_flows().iter().filter(waits).count();
    let answered_waited = answered.is_some_and(|answered| answered.waited);
    let is_pause = mobile.link == Link::Silent && waiting == 0 && !answered_waited;
    if is_pause {
        mobile.take_back_outage();
    }
    let answered = answered.and_then(|answered| flows.at(answered.flow));
    // Without a cache there are no probes: the MH has answered the FH's own retransmission.
    let is_shown_late = answered.is_some_and(|row| !row.scheme.get().caches());
    let has_flows = !mobile.open_flows().is_empty();
    let outage = mobile.end_outage(waiting as u32, is_shown_late, now);
    outage.filter(|_| has_flows)
}

/// `allowance`, in whole segments of what the flow sends next; one at least.
fn whole_segments<P: Payload>(flow: &Flow<P>, allowance: u32) -> u32 {
    let segment_len = flow
        .cache
        .piece(flow.sent_nxt, None, u32::MAX)
        .map_or(1, |piece| piece.payload.segment_len().max(1));
    (allowance / segment_len).max(1) * segment_len
}
