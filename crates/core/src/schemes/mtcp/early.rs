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
//!        data ------------------>| queued                  | (repeated 3 times, then RST back)
//!        |                       |<------------------- SYN/ACK
//!        |                       | ACK and data, renumbered ->|
//!        |<======= renumbered, both ways =========>|
//! ```
//!
//! The gateway's answer is an offer in the name of an end that has not sent anything yet. It has
//! SACK if the opener has it: if the other end refuses, the blocks are removed. It has a window scale
//! if the opener has one: windows are rescaled. It has no timestamps, because they could not be taken
//! back. Its MSS is the opener's at most, and low enough for tunnels. The other end's MSS is unknown,
//! and ICMP messages about packets that are too big have numbers of the other half.
//!
//! No byte is acknowledged before its receiver has it: what the opener sends is queued until
//! the other half is set up. One guarantee is given up (point 3 of what must always hold). Without the
//! gateway each end takes the other's numbers for another connection's, and both stand still.

use core::hash::{Hash, Hasher};
use core::time::Duration;

use holdfast_wire::{Flags, Instant, Options, Segment, SeqNum};

use super::{Context, Mtcp};
use crate::counters::Counters;
use crate::flow::Flow;
use crate::key::FlowKey;
use crate::schemes::{Joined, SetUp};
use crate::{Action, Actions, Direction, Payload, Settings, Side};

mod opening;

pub(super) use opening::Opening;
use opening::{SHIFT, TRIES_MAX, WINDOW, answer_to, numbers};

/// Segments of the opener that are queued at most.
const QUEUED_SEGMENTS_MAX: usize = 32;
/// Each counts as this number of bytes at least: about the buffer of a small frame.
const QUEUED_BYTES_MIN: usize = 2_304;
/// The other end's number must differ from the one in the gateway's answer by more than a window
/// ([`SHIFT`]) can hold. Otherwise segments that pass without the gateway could be taken for data.
const APART_MIN: u32 = 1 << 23;

/// The initial sequence number (RFC 6528): a keyed hash of the ends, plus a clock. An attacker off the
/// path cannot guess the hash. The clock keeps the numbers of one pair of ends apart.
fn choose_iss(settings: &Settings, key: &FlowKey, now: Instant) -> SeqNum {
    let mut hasher = std::hash::DefaultHasher::new();
    settings.hash_seed.hash(&mut hasher);
    key.hash(&mut hasher);
    settings.hash_seed.rotate_left(32).hash(&mut hasher);
    let ticks = now.as_nanos() / 4_000;
    SeqNum::new((hasher.finish() as u32).wrapping_add(ticks as u32))
}

impl<P: Payload> Mtcp<P> {
    /// Answers a SYN in the other end's name. False: no answer can be made.
    pub(super) fn begin_opening(
        &mut self,
        flow: &mut Flow<P>,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        cx: &mut Context<'_, P>,
    ) -> bool {
        let mut syn = *segment;
        syn.options.timestamps = None;
        // Without ECN too: the other end's consent is not known when the opener is answered.
        syn.flags = Flags::SYN;
        let iss = choose_iss(cx.settings, &flow.key, cx.now);
        let answer = payload.answered(&answer_to(&syn, iss));
        let (Some(answer), Some(syn_packet)) = (answer, payload.renumbered(&syn)) else {
            return false;
        };
        flow.begin_anew(cx.now);
        flow.on_syn(
            direction == Direction::Uplink,
            &syn,
            None,
            Duration::ZERO,
            cx.now,
        );
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
            is_confirmed: false,
            again_at: None,
            tries: 0,
            queued_segments: Vec::new(),
            queued_bytes: 0,
        };
        opening.wait(cx.now);
        *self = Self {
            opening: Some(Box::new(opening)),
            ..Self::default()
        };
        cx.actions.push(Action::Repeat(answer));
        true
    }

    /// A segment of a connection that is being set up.
    pub(super) fn on_opening_segment(
        &mut self,
        flow: &mut Flow<P>,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        room: usize,
        cx: &mut Context<'_, P>,
    ) -> SetUp<P> {
        let Some(opening) = &self.opening else {
            return SetUp::Unrelated;
        };
        if opening.is_contradicted(direction, segment) {
            // The connection exists already: its opener did not send this SYN.
            self.forget_opening(flow);
            return SetUp::Contradicted;
        }
        if opening.is_of_another_connection(direction, segment) {
            return SetUp::Unrelated;
        }
        if direction.sender() == opening.opener {
            return self.on_opener(flow, segment, payload, room, cx);
        }
        let flags = segment.flags;
        let is_answer = flags.has(Flags::ACK) && segment.ack == opening.syn.seq + 1;
        if is_answer && flags.has(Flags::RST) {
            return self.refuse(flow, cx.counters, cx.actions);
        }
        if is_answer && flags.has(Flags::SYN) {
            return self.join_halves(flow, segment, cx);
        }
        // The other end is still in an older connection: it gets the RST that the opener would send
        // (RFC 9293, 3.5.1).
        let is_ack = flags.has(Flags::ACK) && !flags.has(Flags::SYN) && !flags.has(Flags::RST);
        if opening.is_confirmed && !is_answer && is_ack {
            let reset = opening.reset_other_at(segment.ack);
            cx.actions.extend(reset.map(Action::Repeat));
        }
        SetUp::Handled
    }

    /// A segment of the end that opens.
    fn on_opener(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        payload: &P,
        room: usize,
        cx: &mut Context<'_, P>,
    ) -> SetUp<P> {
        let bytes_free = room.min(flow.bytes_free_of_flow(cx.settings));
        let Some(opening) = &mut self.opening else {
            return SetUp::Handled;
        };
        let first = opening.syn.seq + 1;
        if segment.flags.has(Flags::SYN) && segment.seq != opening.syn.seq {
            if opening.is_confirmed {
                // The opener is connected as far as it knows: it gets a challenge ACK
                // (RFC 5961, 4).
                cx.actions.extend(opening.challenge().map(Action::Repeat));
                return SetUp::Handled;
            }
            if opening.tries < 2 {
                // The first SYN has just been answered, and either of the two may be forged.
                return SetUp::Handled;
            }
            // The opener has forgotten its first SYN.
            self.forget_opening(flow);
            return SetUp::Restarted;
        }
        if segment.flags.has(Flags::SYN) {
            cx.actions.push(Action::Repeat(opening.answer.clone()));
        } else if segment.flags.has(Flags::RST) {
            // RFC 5961, 3.2: the number must be exactly the one that is expected next.
            let next = opening
                .queued_segments
                .iter()
                .map(|(queued, _)| queued.end());
            if next.fold(first, SeqNum::max) == segment.seq || segment.seq == first {
                if opening.is_confirmed {
                    cx.actions.extend(opening.reset_other().map(Action::Repeat));
                }
                self.forget_opening(flow);
                return SetUp::Closed;
            }
        } else if segment.flags.has(Flags::ACK) && segment.ack == opening.iss + 1 {
            opening.queue(segment, payload, bytes_free);
            flow.cached_elsewhere.bytes = opening.queued_bytes;
            if !core::mem::replace(&mut opening.is_confirmed, true) {
                opening.tries = 0;
                opening.wait(cx.now);
                cx.actions.push(Action::Repeat(opening.syn_packet.clone()));
            }
        }
        SetUp::Handled
    }

    /// Forgets a set-up.
    pub(super) fn forget_opening(&mut self, flow: &mut Flow<P>) -> Option<Box<Opening<P>>> {
        flow.cached_elsewhere.bytes = 0;
        self.opening.take()
    }

    /// The other end does not want the connection, or does not answer: the opener is reset.
    fn refuse(
        &mut self,
        flow: &mut Flow<P>,
        counters: &mut Counters,
        actions: &mut Actions<P>,
    ) -> SetUp<P> {
        let Some(opening) = self.forget_opening(flow) else {
            return SetUp::Handled;
        };
        let queued = opening
            .queued_segments
            .iter()
            .map(|(queued, _)| queued.end());
        let ack = queued.fold(opening.syn.seq + 1, SeqNum::max);
        let reset = Segment {
            seq: opening.iss + 1,
            ack,
            flags: Flags::RST.with(Flags::ACK),
            window: 0,
            options: Options::default(),
            ..answer_to(&opening.syn, opening.iss)
        };
        actions.extend(opening.syn_packet.answered(&reset).map(Action::Repeat));
        counters.early_refused += 1;
        flow.refuse();
        SetUp::Closed
    }

    /// The mobile is at another station, which cannot continue a set-up: the opener must begin
    /// anew, and the other end forget the connection.
    pub(super) fn cancel_opening(
        &mut self,
        flow: &mut Flow<P>,
        counters: &mut Counters,
        actions: &mut Actions<P>,
    ) {
        if let Some(opening) = &self.opening {
            if opening.is_confirmed {
                actions.extend(opening.reset_other().map(Action::Repeat));
            }
            let _ = self.refuse(flow, counters, actions);
        }
    }

    /// The other end has answered: both halves are there.
    fn join_halves(
        &mut self,
        flow: &mut Flow<P>,
        answer: &Segment,
        cx: &mut Context<'_, P>,
    ) -> SetUp<P> {
        let Some(opening) = &self.opening else {
            return SetUp::Handled;
        };
        let apart = opening.iss.get().wrapping_sub(answer.seq.get());
        if apart.wrapping_add(APART_MIN) < 2 * APART_MIN {
            cx.actions.extend(opening.reset_other().map(Action::Repeat));
            return self.refuse(flow, cx.counters, cx.actions);
        }
        let Some(opening) = self.forget_opening(flow) else {
            return SetUp::Handled;
        };
        let numbers = numbers(&opening, answer);
        let mut own = match opening.opener {
            Side::Fh => *answer,
            Side::Mh => numbers.to_mh(answer),
        };
        own.options.timestamps = None;
        if opening.opener == Side::Mh {
            // The gateway has offered the MH this scale in the FH's name.
            own.options.window_scale = opening.syn.options.window_scale.map(|_| SHIFT);
        }
        SetUp::Joined(Box::new(Joined {
            numbers,
            answers_fh: opening.opener == Side::Fh,
            answer: own,
            direction: opening.opener.sends(),
            queued_segments: opening.queued_segments,
        }))
    }

    /// Handles the timer of a connection that is being set up. `None`: nothing changes.
    pub(super) fn on_opening_timeout(
        &mut self,
        flow: &mut Flow<P>,
        cx: &mut Context<'_, P>,
    ) -> Option<SetUp<P>> {
        let opening = self.opening.as_mut()?;
        if opening.again_at.is_none_or(|at| at > cx.now) {
            return None;
        }
        if opening.tries < TRIES_MAX {
            opening.wait(cx.now);
            let again = if opening.is_confirmed {
                &opening.syn_packet
            } else {
                &opening.answer
            };
            cx.actions.push(Action::Repeat(again.clone()));
            None
        } else if opening.is_confirmed {
            Some(self.refuse(flow, cx.counters, cx.actions))
        } else {
            // The opener is not there any more, or never was.
            self.forget_opening(flow);
            Some(SetUp::Closed)
        }
    }
}

impl<P: Payload> Opening<P> {
    /// Queues what the opener sends. What has no room gets no ACK, so the opener retransmits it.
    fn queue(&mut self, segment: &Segment, payload: &P, bytes_free: usize) {
        let first = self.syn.seq + 1;
        let farthest = first + u32::from(WINDOW);
        let is_known =
            |(queued, _): &(Segment, P)| (queued.seq, queued.end()) == (segment.seq, segment.end());
        let fits = first.at_or_before(segment.seq) && segment.end().at_or_before(farthest);
        let bytes = (segment.payload_len as usize).max(QUEUED_BYTES_MIN);
        let has_room = self.queued_segments.len() < QUEUED_SEGMENTS_MAX && bytes <= bytes_free;
        let may_cache = Flow::may_cache(segment, payload);
        if fits && has_room && may_cache && !self.queued_segments.iter().any(is_known) {
            self.queued_segments.push((*segment, payload.clone()));
            self.queued_bytes += bytes;
        }
    }
}
