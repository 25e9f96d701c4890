// SPDX-License-Identifier: Apache-2.0
//! Connections whose halves have their own sequence numbers, or are still being set up.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment};

use super::deadlines::SWEEP_INTERVAL;
use super::{Connection, Gateway};
use crate::flow::Stage;
use crate::renumber::Renumber;
use crate::schemes::{self, SetUp};
use crate::table::FlowId;
use crate::{Action, Actions, Direction, FlowKey, Payload, Verdict};

impl<P: Payload> Gateway<P> {
    /// A segment, if some flows are set up by the gateway or have different numbers on their halves.
    pub(super) fn handle_by_halves(
        &mut self,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let key = FlowKey::of(segment, direction);
        let found = self.flows.find(&key);
        let flow_id = found.or_else(|| self.adopt_renumbered(key, now, actions));
        if let Some(flow_id) = flow_id {
            let set_up = self.follow_set_up(flow_id, direction, segment, payload, now, actions);
            match set_up {
                Some(SetUp::Unrelated) => {
                    self.counters.segments += 1;
                    return Verdict::Forward;
                }
                Some(SetUp::Contradicted) => {
                    return self.decide(direction, segment, payload, now, actions);
                }
                Some(set_up) => {
                    self.counters.segments += 1;
                    if matches!(set_up, SetUp::Restarted) && self.may_set_up(segment, payload) {
                        let _ = self.set_up(key, direction, segment, payload, now, actions);
                    }
                    return Verdict::Suppress;
                }
                None => {}
            }
        }
        // A SYN for a flow that a predecessor knew may be forged: the connection may still be open.
        let is_new = flow_id.is_some() || self.predecessor.find(&key).is_none();
        let row = flow_id.and_then(|flow_id| self.unpack(flow_id));
        let is_new = is_new
            && row
                .as_ref()
                .is_none_or(|row| row.flow.stage == Stage::Closed);
        let numbers = row.and_then(|row| row.flow.renumber);
        if is_new && self.may_set_up(segment, payload) {
            return self.set_up(key, direction, segment, payload, now, actions);
        }
        match numbers {
            Some(numbers) => {
                self.pass_renumbered(&numbers, direction, segment, payload, now, actions);
                Verdict::Suppress
            }
            None => self.decide(direction, segment, payload, now, actions),
        }
    }

    /// Adopts a predecessor's flow whose halves have different numbers.
    fn adopt_renumbered(
        &mut self,
        key: FlowKey,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Option<FlowId> {
        self.predecessor.get(&key)?.renumber?;
        self.add_flow(key, now, actions)
    }

    /// A SYN that begins a connection which the gateway itself may set up.
    fn may_set_up(&self, segment: &Segment, payload: &P) -> bool {
        let others = Flags::ACK.with(Flags::RST).with(Flags::FIN);
        schemes::sets_up_connections(&self.settings)
            && !self.draining
            && segment.flags.has(Flags::SYN)
            && (segment.flags.0 & others.0) == 0
            && segment.payload_len == 0
            && !segment.options.others
            && payload.is_cacheable()
    }

    /// The scheme sets up the connection that a SYN begins.
    fn set_up(
        &mut self,
        key: FlowKey,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Verdict {
        let flow_id = self.find_or_adopt(key, now, actions);
        let begun = flow_id.and_then(|flow_id| {
            self.make_live(flow_id, segment);
            self.with_context(flow_id, now, actions, |scheme, flow, cx| {
                scheme.begin_set_up(flow, direction, segment, payload, cx)
            })
        });
        let (Some(flow_id), Some(true)) = (flow_id, begun) else {
            return self.decide(direction, segment, payload, now, actions);
        };
        self.predecessor.remove(&key);
        self.counters.segments += 1;
        self.sweep_at.get_or_insert(now + SWEEP_INTERVAL);
        self.count_in_flight(flow_id);
        self.schedule_flow(flow_id, now);
        Verdict::Suppress
    }

    /// A segment of a connection that is being set up. None: it is not.
    fn follow_set_up(
        &mut self,
        flow_id: FlowId,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> Option<SetUp<P>> {
        let mut turn = self.turn(flow_id, now, actions)?;
        turn.scheme.set_up_stage()?;
        let room = turn.cache_room();
        let set_up = turn.hook(|scheme, flow, cx| {
            scheme.on_set_up_segment(flow, direction, segment, payload, room, cx)
        });
        if !matches!(set_up, SetUp::Unrelated | SetUp::Contradicted) {
            turn.flow.seen = now;
        }
        Some(self.end_set_up(flow_id, set_up, now, actions))
    }

    /// A connection that is being set up may have waited too long for an end.
    pub(super) fn on_set_up_due(
        &mut self,
        flow_id: FlowId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let set_up = self.with_context(flow_id, now, actions, |scheme, flow, cx| {
            scheme.on_set_up_timeout(flow, cx)
        });
        if let Some(set_up) = set_up.flatten() {
            let _ = self.end_set_up(flow_id, set_up, now, actions);
        }
    }

    /// Applies the result of a step of a set-up to its flow.
    fn end_set_up(
        &mut self,
        flow_id: FlowId,
        set_up: SetUp<P>,
        now: Instant,
        actions: &mut Actions<P>,
    ) -> SetUp<P> {
        let Some(connection) = self.flows.at_mut(flow_id) else {
            return set_up;
        };
        let Connection { flow, .. } = connection;
        match &set_up {
            SetUp::Unrelated | SetUp::Handled => {}
            SetUp::Contradicted | SetUp::Restarted => flow.stage = Stage::Adopting,
            SetUp::Closed => connection.close(),
            SetUp::Joined(joined) => {
                flow.on_syn(joined.answers_fh, &joined.answer, None, Duration::ZERO, now);
                flow.renumber = Some(joined.numbers);
                self.counters.early_joined += 1;
                actions.push(Action::Record(flow.record()));
                for (segment, payload) in &joined.queued_segments {
                    let direction = joined.direction;
                    self.pass_renumbered(
                        &joined.numbers,
                        direction,
                        segment,
                        payload,
                        now,
                        actions,
                    );
                }
            }
        }
        self.count_cached_bytes(flow_id);
        self.schedule_flow(flow_id, now);
        set_up
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
            // Unchanged, the segment would be another connection's.
            self.counters.early_lost += 1;
            return;
        };
        let mut out = own;
        if segment.flags.has(Flags::SYN) {
            // A SYN proves nothing: it may be a copy of an old one, or forged. The other end
            // judges it.
            if direction == Direction::Uplink {
                out = numbers.to_fh(&out);
            }
            actions.extend(payload.renumbered(&out).map(Action::Repeat));
            return;
        }
        match self.decide(direction, &own, &own_payload, now, actions) {
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
}
