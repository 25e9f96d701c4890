// SPDX-License-Identifier: Apache-2.0
//! How `auto` decides about a segment of the MH. It is Snoop for links whose rate changes. The gateway
//! retransmits what the radio loses, and hides nothing from the FH.
//!
//! The outages of `auto` are found in `changing_link.rs`. `schemes/policy.rs` lists in what else the
//! engine differs with `auto`.
//!
//! Each ACK but the one that shows link up reaches the FH as the MH sent it (`verdict_on_return`).
//! The gateway retransmits what a report shows to be lost, at once and with the original timestamp.
//! The FH itself decides what it does:
//!
//! - Cubic and Reno on Linux take their window back. The ACK of the gateway's retransmission echoes
//!   an older timestamp than that of the FH's own (Eifel, RFC 3522). Alternatively the MH reports the
//!   FH's own as a duplicate (RFC 2883). After some duplicates the FH waits longer before it takes a
//!   segment for lost (RFC 8985, 6.2, step 4). Then it does not notice the loss.
//! - BBR minds no loss, and receives every report of what has arrived.
//! - Other senders send less, as they would without a gateway.
//!
//! A loss may be the FH's own overload. The gateway then retransmits nothing of that window.

use core::time::Duration;

use holdfast_wire::{Instant, Segment, SeqNum};

use super::fh_report::{DUP_THRESH, path_rtt, short_queue};
use super::{Snoop, reports, speaks_sack};
use crate::Payload;
use crate::flow::{AckOutcome, Flow};
use crate::schemes::Context;

/// A queue has overflowed if the MH lacks this number of segments, and at least a part of the window.
const MANY_SEGMENTS_MIN: u32 = DUP_THRESH + 1;
/// The part is the window divided by this.
const MANY_PART: u64 = 16;
/// The same while the queue seems to be short, because a queue of a few packets overflows too. A queue
/// seems shorter than it is if the gateway never saw it empty.
const MANY_PART_OF_SHORT_QUEUE: u64 = 8;

/// The losses that are left to the FH.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnLosses {
    /// Holes before this have been classified.
    classified: Option<SeqNum>,
    /// The gateway retransmits nothing until the MH has acknowledged this.
    until: Option<SeqNum>,
    /// When the link's queue was last found to have overflowed with what was sent since link up.
    pub(super) overflowed_at: Option<Instant>,
}

impl OwnLosses {
    /// The MH lacks what the FH has to retransmit.
    pub(super) const fn is_known(&self) -> bool {
        self.until.is_some()
    }
}

/// Handles a segment of the MH. It is forwarded unchanged, unless it shows link up.
#[inline]
pub(super) fn on_mh_segment<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    cx: &mut Context<'_, P>,
) {
    snoop.fixed_half.on_mh_segment_sent(segment, cx.now);
    if segment.ack == flow.fh.una {
        snoop.window = Some(segment.window);
    }
    // Mostly an upload. No data of the FH is in flight: no round trip is timed, no hole is known, no timer runs.
    let is_upload = outcome.acked == 0 && !flow.has_unacknowledged();
    if !is_upload {
        follow_downlink(snoop, flow, segment, outcome, cx);
    }
}

/// What the segment shows of the FH's data. What the radio has lost of them is retransmitted.
fn follow_downlink<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    cx: &mut Context<'_, P>,
) {
    snoop.sample_round_trips(outcome, cx);
    // Without SACK nothing shows whether a queue has overflowed.
    snoop.sack_seen |= !flow.sacked.is_empty();
    if speaks_sack(snoop, flow) {
        let una = flow.fh.una;
        snoop.own_losses.until = snoop.own_losses.until.filter(|until| until.after(una));
        // A mark more than 2 GiB behind would seem to lie ahead.
        let classified = &mut snoop.own_losses.classified;
        *classified = classified.map(|classified| classified.max(una));
        classify_new_holes(snoop, flow, cx);
        reports::merge_arrivals(snoop, outcome);
        if snoop.own_losses.is_known() {
            snoop.reports.wait_for_no_loss();
        } else {
            reports::repair(snoop, flow, outcome.arrived_bytes, cx);
        }
    }
    // Data of the MH without a new ACK shows nothing about the FH's data.
    let is_answer = outcome.acked > 0 || outcome.arrived_bytes > 0 || segment.is_empty();
    reports::await_answer(snoop, flow, is_answer, cx);
}

/// A hole that was not there before is the radio's or the FH's own.
fn classify_new_holes<P: Payload>(snoop: &mut Snoop<P>, flow: &Flow<P>, cx: &Context<'_, P>) {
    let Some(highest) = flow.sacked.highest() else {
        return;
    };
    let from = snoop.own_losses.classified.unwrap_or(flow.fh.una);
    // What was sent after an overflow is judged when the FH has dealt with that one.
    let judged_to = snoop.own_losses.until.unwrap_or(highest).min(highest);
    snoop.own_losses.classified = Some(judged_to.max(from));
    let holes = || {
        let holes = flow.sacked.holes(from);
        holes.take_while(|(left, _)| left.before(judged_to))
    };
    let Some((left, right)) = holes().next() else {
        return;
    };
    let found = holes().map(|(left, right)| right.min(judged_to).distance_from(left));
    let missing = missing_of_all_flows(snoop, found.sum(), cx);
    if !is_fhs_own(snoop, flow, highest, missing, cx) || snoop.own_losses.is_known() {
        return;
    }
    snoop.own_losses.until = Some(flow.fh.max);
    let was_sent_since_up = flow.transmissions.bytes_within(left, right) > 0;
    if was_sent_since_up && snoop.rtt().is_some() {
        snoop.own_losses.overflowed_at = Some(cx.now);
    }
}

/// What all flows of the MH lack together, as reports of the last round trip over the wireless half show.
/// `found`: what this report shows.
fn missing_of_all_flows<P: Payload>(snoop: &Snoop<P>, found: u32, cx: &Context<'_, P>) -> u64 {
    let Some(round_trip) = snoop.rtt() else {
        return 0;
    };
    let mut missing = cx.missing().get();
    let of_late = missing.add(found, round_trip, cx.now);
    cx.missing().set(missing);
    of_late
}

/// A new hole is the FH's own: the queue is long, or has overflowed, or nothing is known of it.
/// `highest`: up to where the MH reports; `missing_of_all`: bytes, of all flows.
fn is_fhs_own<P: Payload>(
    snoop: &Snoop<P>,
    flow: &Flow<P>,
    highest: SeqNum,
    missing_of_all: u64,
    cx: &Context<'_, P>,
) -> bool {
    let (Some(rtt), Some(least), Some(path)) =
        (snoop.rtt(), cx.rtt().least(), path_rtt(snoop, cx.rtt()))
    else {
        return true;
    };
    // A window of the path and this queue, reduced to 0.7, still fills the path.
    let queue: Duration = rtt.saturating_sub(least);
    if queue >= path {
        return true;
    }
    let part = if queue < short_queue(snoop, cx.rtt()) {
        MANY_PART_OF_SHORT_QUEUE
    } else {
        MANY_PART
    };
    let una = flow.fh.una;
    let segment_len = flow.cache.segment_len_at(una).unwrap_or(1);
    let many = u64::from(MANY_SEGMENTS_MIN.saturating_mul(segment_len));
    let is_many = |missing: u64, sent: u64| missing >= many && missing >= sent / part;
    let reach = highest.distance_from(una);
    let missing = reach.saturating_sub(flow.sacked.bytes_before(highest));
    let window = flow.fh.max.distance_from(una);
    // Each of several flows that share a queue may have lost little.
    let shares_queue = cx.in_flight().flows > 1;
    is_many(missing.into(), window.into())
        || shares_queue && is_many(missing_of_all, cx.in_flight().bytes)
}
