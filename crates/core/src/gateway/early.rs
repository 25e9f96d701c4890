// SPDX-License-Identifier: Apache-2.0
//! Connections that are set up early (M-TCP, section 5.3.1): "complete the TCP connection
//! between the fixed host and the SH; then initiate and complete the M-TCP connection between
//! the SH and the MH." For one that the MH opens, the other way round.
//!
//! ```text
//!   end that opens            gateway                 the other end
//!        SYN  ------------------>|
//!        |<----------------- SYN/ACK                    (repeated 3 times at most)
//!        ACK  ------------------>| SYN, as it came ------->|
//!        data ------------------>| held                    | (repeated 3 times, then RST back)
//!        |                       |<------------------- SYN/ACK
//!        |                       | ACK and data, renumbered ->|
//!        |<======= renumbered, both ways =========>|
//! ```
//!
//! Offered in the other end's name before that has said a word: SACK if the opener has it (the
//! other end's refusal leaves out the blocks), a window scale if the opener has one (windows are
//! rescaled), no timestamps (they could not be taken back), an MSS of the opener's at most and
//! low enough for tunnels, for the other end's is not known and routers' words of packets that
//! were too big name numbers of the other half.
//!
//! No byte is acknowledged ahead of its receiver: what the opener sends is held and goes on when
//! the other half is there. What is given up is point 3 of what must always hold: without the
//! gateway each end takes the other's numbers for another connection's, and both stand still.

use core::hash::{Hash, Hasher};
use core::time::Duration;

use holdfast_wire::{Flags, Instant, Options, Segment, SeqNum};

use super::{Connection, Gateway};
use crate::flow::{Flow, Stage};
use crate::renumber::Renumber;
use crate::schemes::mtcp::MtcpSetUp;
use crate::settings::Scheme;
use crate::table::FlowId;
use crate::{Action, Actions, Direction, FlowKey, Payload, Side, Verdict};

mod opening;

pub(crate) use opening::Early;
use opening::{Opening, SHIFT, TRIES_MAX, WINDOW, answer_to, numbers};

/// Segments of the opener that are held at most.
const HELD_MAX: usize = 32;
/// Each counts as so many bytes at least: about what the buffer of a small frame takes.
const HELD_BYTES_MIN: usize = 2_304;
/// The other end's number has to differ from the one chosen in its name by more than a window of
/// ours ([`SHIFT`]) can hold: whatever passes when no gateway is there must not be taken for data.
const APART_MIN: u32 = 1 << 23;

impl<P: Payload> Gateway<P> {
    /// A segment on its way.
    pub fn handle_segment(
        &mut self,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        if !self.has_early {
            return self.judge(direction, segment, payload, now, actions);
        }
        let key = FlowKey::of(segment, direction);
        let found = self.flows.find(&key);
        let flow_id = found.or_else(|| self.meet_renumbered(key, now, actions));
        let flow = flow_id.and_then(|flow_id| self.flows.at(flow_id));
        let flow = flow.map(|row| &row.flow);
        match flow.and_then(|flow| flow.early.as_ref()) {
            Some(Early::Opening(opening)) if opening.is_contradicted(direction, segment) => {
                // The connection is there already: the SYN was none of its opener's.
                self.forget_opening(flow_id);
                self.judge(direction, segment, payload, now, actions)
            }
            Some(Early::Opening(opening))
                if opening.is_of_another_connection(direction, segment) =>
            {
                self.counters.segments += 1;
                Verdict::Forward
            }
            Some(Early::Opening(_)) => {
                self.counters.segments += 1;
                self.on_opening(key, direction, segment, payload, now, actions);
                Verdict::Suppress
            }
            Some(Early::Split(numbers)) => {
                let numbers = *numbers;
                let is_over = flow.is_none_or(|flow| flow.stage == Stage::Closed);
                if is_over && self.begins_early(segment, payload) {
                    return self.open_early(key, direction, segment, payload, now, actions);
                }
                self.pass_renumbered(&numbers, direction, segment, payload, now, actions);
                Verdict::Suppress
            }
            None => {
                // Of one that is known, or was to a predecessor, a SYN may be forged.
                let is_new = match flow {
                    Some(flow) => flow.stage == Stage::Closed,
                    None => self.predecessor.find(&key).is_none(),
                };
                if is_new && self.begins_early(segment, payload) {
                    return self.open_early(key, direction, segment, payload, now, actions);
                }
                self.judge(direction, segment, payload, now, actions)
            }
        }
    }

    /// A flow of a predecessor whose halves have their own numbers.
    fn meet_renumbered(
        &mut self,
        key: FlowKey,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Option<FlowId> {
        self.predecessor.get(&key)?.renumber?;
        self.meet(key, now, actions)
    }

    /// Flows may have numbers of their own on either half.
    pub(super) fn expects_early(settings: &crate::Settings) -> bool {
        settings.scheme == Scheme::Mtcp && settings.mtcp.set_up == MtcpSetUp::Early
    }

    /// A SYN that begins a connection which can be set up early.
    fn begins_early(&self, segment: &Segment, payload: &P) -> bool {
        let others = Flags::ACK.with(Flags::RST).with(Flags::FIN);
        Self::expects_early(&self.settings)
            && !self.draining
            && segment.flags.has(Flags::SYN)
            && (segment.flags.0 & others.0) == 0
            && segment.payload_len == 0
            && !segment.options.others
            && payload.is_cacheable()
    }

    fn open_early(
        &mut self,
        key: FlowKey,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let mut syn = *segment;
        syn.options.timestamps = None;
        // Without ECN too: the other end's consent is not known when the opener is answered.
        syn.flags = Flags::SYN;
        let iss = self.choose_iss(&key, now);
        let answer = payload.answered(&answer_to(&syn, iss));
        let syn_packet = payload.renumbered(&syn);
        let flow_id = self.find_or_meet(key, now, actions);
        let (Some(answer), Some(syn_packet), Some(flow_id)) = (answer, syn_packet, flow_id) else {
            return self.judge(direction, segment, payload, now, actions);
        };
        self.predecessor.remove(&key);
        let Some(connection) = self.flows.at_mut(flow_id) else {
            return Verdict::Forward;
        };
        self.counters.segments += 1;
        connection.begin_anew(now);
        let flow = &mut connection.flow;
        flow.on_syn(direction == Direction::Uplink, &syn, Duration::ZERO, now);
        let (own, back) = match direction {
            Direction::Downlink => (&mut flow.downlink_header, &mut flow.uplink_header),
            Direction::Uplink => (&mut flow.uplink_header, &mut flow.downlink_header),
        };
        *own = payload.header();
        *back = answer.header();
        let mut opening = Opening {
            opener: direction.sender(),
            syn,
            syn_packet,
            answer: answer.clone(),
            iss,
            asked: false,
            again_at: None,
            tries: 0,
            held: Vec::new(),
            held_bytes: 0,
        };
        opening.wait(now);
        flow.early = Some(Early::Opening(Box::new(opening)));
        flow.seen = now;
        self.sweep_at
            .get_or_insert(now + super::deadlines::SWEEP_INTERVAL);
        actions.push(Action::Repeat(answer));
        self.count_in_flight(flow_id);
        self.schedule_flow(flow_id, now);
        Verdict::Suppress
    }

    /// Nobody off the path can tell it (RFC 6528): a keyed hash of the ends, and a clock that
    /// keeps numbers of one pair of ends apart.
    fn choose_iss(&self, key: &FlowKey, now: Instant) -> SeqNum {
        let mut hasher = std::hash::DefaultHasher::new();
        self.settings.hash_seed.hash(&mut hasher);
        key.hash(&mut hasher);
        self.settings.hash_seed.rotate_left(32).hash(&mut hasher);
        let ticks = now.as_nanos() / 4_000;
        SeqNum::new((hasher.finish() as u32).wrapping_add(ticks as u32))
    }

    /// A segment of a connection of which one half is not there yet.
    fn on_opening(
        &mut self,
        key: FlowKey,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(flow_id) = self.flows.find(&key) else {
            return;
        };
        let Some(Connection { flow, .. }) = self.flows.at_mut(flow_id) else {
            return;
        };
        let Some(Early::Opening(opening)) = &mut flow.early else {
            return;
        };
        flow.seen = now;
        let is_opener = direction.sender() == opening.opener;
        let flags = segment.flags;
        if is_opener && flags.has(Flags::SYN) && segment.seq != opening.syn.seq {
            if opening.asked {
                // It is connected as far as it has said: RFC 5961, 4.
                actions.extend(opening.challenge().map(Action::Repeat));
                return;
            }
            if opening.tries < 2 {
                // The first one has just been answered: either may be forged.
                return;
            }
            // It has forgotten the one before.
            self.forget_opening(Some(flow_id));
            if self.begins_early(segment, payload) {
                let _ = self.open_early(key, direction, segment, payload, now, actions);
            }
            return;
        }
        let is_answer = flags.has(Flags::ACK) && segment.ack == opening.syn.seq + 1;
        if !is_opener && opening.asked && !is_answer && !flags.has(Flags::RST) {
            // It is still in an older connection: what the opener would say to that (RFC 9293,
            // 3.5.1).
            let ack = flags.has(Flags::ACK) && !flags.has(Flags::SYN);
            let reset = if ack {
                opening.reset_other_at(segment.ack)
            } else {
                None
            };
            actions.extend(reset.map(Action::Repeat));
            return;
        }
        if is_opener {
            self.hear_opener(flow_id, segment, payload, now, actions);
        } else if is_answer {
            if flags.has(Flags::RST) {
                self.refuse(flow_id, actions);
            } else if flags.has(Flags::SYN) {
                self.join_halves(flow_id, segment, now, actions);
            }
        }
        self.schedule_flow(flow_id, now);
    }

    /// The end that opens says something.
    fn hear_opener(
        &mut self,
        flow_id: FlowId,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(Connection { flow, .. }) = self.flows.at_mut(flow_id) else {
            return;
        };
        let mobile = self.mobiles.at(flow.mobile);
        let room = mobile.map_or(0, |mobile| mobile.cache_room(&self.budget));
        let bytes_free = room.min(flow.bytes_free_of_flow(&self.settings));
        let Some(Early::Opening(opening)) = &mut flow.early else {
            return;
        };
        let first = opening.syn.seq + 1;
        if segment.flags.has(Flags::SYN) {
            actions.push(Action::Repeat(opening.answer.clone()));
        } else if segment.flags.has(Flags::RST) {
            // RFC 5961, 3.2: exactly what is expected next.
            let next = opening.held.iter().map(|(held, _)| held.end());
            if next.fold(first, SeqNum::max) == segment.seq || segment.seq == first {
                if opening.asked {
                    actions.extend(opening.reset_other().map(Action::Repeat));
                }
                self.forget_opening(Some(flow_id));
                self.close_flow(flow_id);
            }
        } else if segment.flags.has(Flags::ACK) && segment.ack == opening.iss + 1 {
            let farthest = first + u32::from(WINDOW);
            let known =
                |(held, _): &(Segment, P)| (held.seq, held.end()) == (segment.seq, segment.end());
            let fits = first.at_or_before(segment.seq) && segment.end().at_or_before(farthest);
            let bytes = (segment.payload_len as usize).max(HELD_BYTES_MIN);
            // What has no room its sender sends again: nobody has acknowledged it.
            let has_room = opening.held.len() < HELD_MAX && bytes <= bytes_free;
            let may_keep = Flow::may_keep(segment, payload);
            if fits && has_room && may_keep && !opening.held.iter().any(known) {
                opening.held.push((*segment, payload.clone()));
                opening.held_bytes += bytes;
            }
            if !core::mem::replace(&mut opening.asked, true) {
                opening.tries = 0;
                opening.wait(now);
                actions.push(Action::Repeat(opening.syn_packet.clone()));
            }
        }
        self.count_kept_bytes(flow_id);
    }

    /// Nothing more is known of a set-up; the flow is as one that was not met.
    pub(super) fn forget_opening(&mut self, flow_id: Option<FlowId>) {
        let row = flow_id.and_then(|flow_id| self.flows.at_mut(flow_id));
        if let Some(Connection { flow, .. }) = row
            && let Some(Early::Opening(_)) = flow.early.take()
        {
            flow.stage = Stage::Meeting;
        }
        flow_id.into_iter().for_each(|id| self.count_kept_bytes(id));
    }

    fn close_flow(&mut self, flow_id: FlowId) {
        if let Some(connection) = self.flows.at_mut(flow_id) {
            connection.close();
        }
        self.count_kept_bytes(flow_id);
    }

    /// The mobile has gone to another station, which cannot go on with a set-up: the opener is
    /// to begin anew, and the other end to forget it.
    pub(super) fn end_opening(&mut self, flow_id: FlowId, actions: &mut Actions<P>) {
        let row = self.flows.at(flow_id);
        if let Some(Early::Opening(opening)) = row.and_then(|row| row.flow.early.as_ref()) {
            if opening.asked {
                actions.extend(opening.reset_other().map(Action::Repeat));
            }
            self.refuse(flow_id, actions);
        }
    }

    /// The other end does not want the connection, or does not answer: the opener is reset.
    pub(super) fn refuse(&mut self, flow_id: FlowId, actions: &mut Actions<P>) {
        let Some(connection) = self.flows.at_mut(flow_id) else {
            return;
        };
        let Some(Early::Opening(opening)) = connection.flow.early.take() else {
            return;
        };
        let held = opening.held.iter().map(|(held, _)| held.end());
        let ack = held.fold(opening.syn.seq + 1, SeqNum::max);
        let reset = Segment {
            seq: opening.iss + 1,
            ack,
            flags: Flags::RST.with(Flags::ACK),
            window: 0,
            options: Options::default(),
            ..answer_to(&opening.syn, opening.iss)
        };
        actions.extend(opening.syn_packet.answered(&reset).map(Action::Repeat));
        self.counters.early_refused += 1;
        connection.flow.refuse();
        connection.close();
        self.count_kept_bytes(flow_id);
    }

    /// The other end has answered: both halves are there.
    fn join_halves(
        &mut self,
        flow_id: FlowId,
        answer: &Segment,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(Connection { flow, .. }) = self.flows.at_mut(flow_id) else {
            return;
        };
        let Some(Early::Opening(opening)) = &flow.early else {
            return;
        };
        let apart = opening.iss.get().wrapping_sub(answer.seq.get());
        if apart.wrapping_add(APART_MIN) < 2 * APART_MIN {
            actions.extend(opening.reset_other().map(Action::Repeat));
            return self.refuse(flow_id, actions);
        }
        let Some(Early::Opening(opening)) = flow.early.take() else {
            return;
        };
        let numbers = numbers(&opening, answer);
        let mut own = match opening.opener {
            Side::Fh => *answer,
            Side::Mh => numbers.to_mh(answer),
        };
        own.options.timestamps = None;
        if opening.opener == Side::Mh {
            // What the MH believes of the FH's half.
            own.options.window_scale = opening.syn.options.window_scale.map(|_| SHIFT);
        }
        flow.on_syn(opening.opener == Side::Fh, &own, Duration::ZERO, now);
        flow.early = Some(Early::Split(numbers));
        self.counters.early_joined += 1;
        actions.push(Action::Record(flow.record()));
        self.count_kept_bytes(flow_id);
        let direction = opening.opener.sends();
        for (segment, payload) in &opening.held {
            self.pass_renumbered(&numbers, direction, segment, payload, now, actions);
        }
    }

    /// A segment of a connection whose halves have their own numbers.
    fn pass_renumbered(
        &mut self,
        numbers: &Renumber,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let at = actions.len();
        let (own, own_payload) = match direction {
            Direction::Uplink => (*segment, Some(payload.clone())),
            Direction::Downlink => {
                let own = numbers.to_mh(segment);
                (own, payload.renumbered(&own))
            }
        };
        let Some(own_payload) = own_payload else {
            // As it came it would be another connection's.
            self.counters.early_lost += 1;
            return;
        };
        let mut out = own;
        if segment.flags.has(Flags::SYN) {
            // Nothing is known by it: it may be a copy of an old one, or forged. The other end
            // judges it.
            if direction == Direction::Uplink {
                out = numbers.to_fh(&out);
            }
            actions.extend(payload.renumbered(&out).map(Action::Repeat));
            return;
        }
        match self.judge(direction, &own, &own_payload, now, actions) {
            Verdict::Forward => {}
            Verdict::ForwardWithSack(sack) => out.options.sack = sack,
            Verdict::ForwardWithAck { ack, window } => (out.ack, out.window) = (ack, window),
            Verdict::Suppress => return,
        }
        if direction == Direction::Uplink {
            out = numbers.to_fh(&out);
        }
        let renumbered = payload.renumbered(&out);
        self.counters.early_lost += u64::from(renumbered.is_none());
        if let Some(packet) = renumbered {
            actions.insert(at, Action::Repeat(packet));
        }
    }

    /// What is due for a connection that is being set up.
    pub(super) fn on_early_due(&mut self, flow_id: FlowId, now: Instant, actions: &mut Actions<P>) {
        let Some(Connection { flow, .. }) = self.flows.at_mut(flow_id) else {
            return;
        };
        let Some(Early::Opening(opening)) = &mut flow.early else {
            return;
        };
        if opening.again_at.is_none_or(|at| at > now) {
            return;
        }
        if opening.tries < TRIES_MAX {
            opening.wait(now);
            let again = if opening.asked {
                &opening.syn_packet
            } else {
                &opening.answer
            };
            actions.push(Action::Repeat(again.clone()));
        } else if opening.asked {
            self.refuse(flow_id, actions);
        } else {
            // The opener has gone, or never was.
            self.forget_opening(Some(flow_id));
            self.close_flow(flow_id);
        }
    }
}
