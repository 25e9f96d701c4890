// SPDX-License-Identifier: Apache-2.0
//! A segment of the MH on its way to the FH.

use holdfast_wire::{Instant, Segment};

use super::Gateway;
use super::recovery::Answered;
use super::turn::Turn;
use crate::flow::{AckOutcome, Mute, Stage};
use crate::link_state::LinkSource;
use crate::mobile::Link;
use crate::table::FlowId;
use crate::{Action, Actions, Payload, Verdict};

impl<P: Payload> Gateway<P> {
    /// A segment of the MH that is no SYN and no RST.
    pub(super) fn handle_uplink(
        &mut self,
        flow_id: FlowId,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let Some(mut turn) = self.turn(flow_id, now, actions) else {
            return Verdict::Forward;
        };
        let is_unknown = turn.flow.stage == Stage::Adopting;
        // What the MH sent before this segment may be lost unseen.
        let has_lost = segment.seq.after(turn.flow.fh.ack);
        let waited = !is_unknown && (has_lost || turn.flow.waits_for_ack());
        let is_first_copy = turn.flow.answers_first_copy(segment);
        let outcome = turn.follow_mh_segment(segment, payload);
        if !outcome.credible {
            turn.counters.implausible += u64::from(turn.flow.stage == Stage::Open);
            return Verdict::Forward;
        }
        if is_unknown && self.begin(flow_id, now, actions) {
            return Verdict::Suppress;
        }
        let Some(mut turn) = self.turn(flow_id, now, actions) else {
            return Verdict::Forward;
        };
        let mobile_id = turn.flow.mobile;
        let was_mute = core::mem::replace(&mut turn.flow.mute, Mute::No) != Mute::No;
        let kept = turn.shows_that_link_kept(segment, &outcome);
        if was_mute {
            turn.flow.first_probe = None;
        }
        turn.follow_upload(flow_id, segment, payload);
        let is_back = turn.learn_of_link(segment, &outcome, is_first_copy);
        let verdict = turn.answer_mh_segment(segment, payload, &outcome);
        let verdict_on_return = if is_back {
            let (scheme, settings) = (&*turn.scheme, turn.settings);
            scheme.verdict_on_return(turn.flow, segment, verdict, settings)
        } else {
            verdict
        };
        self.close_if_done(flow_id, actions);
        if was_mute {
            self.count_in_flight(flow_id);
            self.resume_recovery(mobile_id, now, actions);
        }
        if is_back && kept {
            self.end_silence(mobile_id, now, actions);
            return verdict;
        }
        if is_back && !self.carrier_down {
            self.adopt_anew_if_vain(flow_id, now);
            let flow = flow_id;
            let answered = Some(Answered { flow, waited });
            self.begin_recovery(mobile_id, LinkSource::Silence, answered, now, actions);
            return verdict_on_return;
        }
        verdict
    }

    /// The MH refuses what is cached: each of its answers would begin one more recovery, without end.
    fn adopt_anew_if_vain(&mut self, flow_id: FlowId, now: Instant) {
        let row = self.flows.at_mut(flow_id);
        if let Some(row) = row.filter(|row| row.flow.is_adopted_in_vain()) {
            row.adopt_anew(now);
            self.count_in_flight(flow_id);
        }
    }
}

impl<P: Payload> Turn<'_, P> {
    /// The flow takes in the numbers of the segment.
    fn follow_mh_segment(&mut self, segment: &Segment, payload: &P) -> AckOutcome {
        let (key, least_rtt) = (self.flow.key, self.mobile.rtt.least());
        let in_recovery = self.mobile.link == Link::Recovering;
        let (scheme, shared, counters) =
            (&mut *self.scheme, &mut *self.shared, &mut *self.counters);
        let outcome = self.flow.track_mh_segment(
            segment,
            payload,
            least_rtt,
            in_recovery,
            |cache, range| scheme.on_acked(&key, cache, range, shared, counters),
            self.now,
        );
        if outcome.is_opened_anew {
            self.scheme.reset();
        }
        outcome
    }

    /// True if the MH was silent and answers what was sent before the silence: the link has kept that.
    fn shows_that_link_kept(&self, segment: &Segment, outcome: &AckOutcome) -> bool {
        let caches = self.scheme.caches();
        let is_judged = self.mobile.changing.is_some() || !caches;
        let was_silent = self.mobile.link == Link::Silent && is_judged;
        // No timestamp shows whether the MH answers a keep-alive or what came before it.
        let is_upload = self.mobile.upload_is_silent();
        // Behind a hole what was sent in the silence may arrive although the hole is lost. The report
        // echoes an older timestamp all the same.
        let reports_new = match outcome.arrivals.newest_sent() {
            Some(sent_at) if !self.flow.sacked.is_empty() => sent_at <= self.mobile.since,
            _ => outcome.acked > 0,
        };
        was_silent && !is_upload && self.flow.answers_from_before_probe(segment, reports_new)
    }

    /// What the segment shows of the link. `is_first_copy`: the result of the flow's `answers_first_copy`. True
    /// if the segment shows that the link is up again.
    fn learn_of_link(
        &mut self,
        segment: &Segment,
        outcome: &AckOutcome,
        is_first_copy: bool,
    ) -> bool {
        let mobile = &mut *self.mobile;
        mobile.received_bytes += u64::from(segment.payload_len);
        if let Some(rtt) = outcome.rtt.filter(|_| !mobile.is_away()) {
            mobile.rtt.sample(rtt);
        }
        if let Some(rtt) = outcome.handshake_rtt {
            mobile.note_handshake(rtt, self.now);
        }
        if outcome.acked > 0 {
            mobile.cell.acked_bytes += u64::from(outcome.delivered);
            mobile.delivered_bytes += u64::from(outcome.delivered);
            mobile.on_delivered(outcome.delivered, self.now);
            self.flow.retransmit_at = None;
        } else if outcome.reports_nothing_new {
            // A copy has arrived. What the MH lacks may wait behind others in a slow link's queue.
            let next = self.now + mobile.next_answer_in(self.settings, self.now);
            let at = &mut self.flow.retransmit_at;
            *at = at.map(|at| at.max(next));
        }
        if mobile.link == Link::Recovering {
            if let (Some((sent, _)), true) = (outcome.arrivals.ordinary, is_first_copy)
                && sent >= mobile.since
            {
                mobile.note_recovery_round_trip(sent, self.now);
            }
            mobile.grow_window(outcome.delivered, outcome.arrived_since_up, self.now);
        }
        mobile.radio_lost_at = mobile.radio_lost_at.max(self.scheme.radio_lost_at());
        let kept_all = self.flow.finds_link_kept_all(segment);
        mobile.count_flow(self.flow, self.budget);
        if kept_all {
            self.counters.links_that_kept += 1;
            mobile.widen_window_to_flight();
        }
        mobile.on_segment(self.now)
    }

    /// Decides what the FH receives of the segment, and retransmits what the MH lacks.
    fn answer_mh_segment(
        &mut self,
        segment: &Segment,
        payload: &P,
        outcome: &AckOutcome,
    ) -> Verdict {
        let verdict =
            self.hook(|scheme, flow, cx| scheme.on_mh_segment(flow, segment, outcome, cx));
        if self.scheme.overflowed_at() == Some(self.now) {
            self.mobile.on_overflow(self.now);
        }
        let room = if segment.is_empty() {
            0
        } else {
            self.mobile.cache_room(self.budget)
        };
        self.hook(|scheme, flow, cx| scheme.on_mh_data(flow, segment, payload, room, cx));
        if self.flow.retransmits_itself() {
            for piece in self.flow.take_losses(outcome.loss) {
                self.counters.repaired += 1;
                self.actions.push(Action::Resend(piece));
            }
        }
        verdict
    }
}
