// SPDX-License-Identifier: Apache-2.0
//! Losses of what M-TCP has sent, detected by the MH's ACKs.

use holdfast_wire::{Segment, SeqNum};

use super::{Context, Mtcp};
use crate::Payload;
use crate::flow::{AckOutcome, Flow, Sender};

/// True if the ACK shows that what was sent before a freeze is lost: it answers a probe, or a later
/// segment has arrived.
pub(super) fn answers<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    was_frozen: bool,
) -> bool {
    let una = flow.fh.una;
    let all_arrived = flow.sent_nxt.at_or_before(una);
    let reported = flow.sacked.highest();
    let m = &mut mtcp.m;
    // After a hole, the answer reaches as far as the MH had received before.
    let holes = reported.is_some_and(|end| end.after(una));
    let late = m.asked_tsval.zip(segment.options.timestamps);
    let late = late.is_some_and(|(asked, own)| (own.tsecr.wrapping_sub(asked) as i32) < 0);
    let asked = m.asked_end.filter(|end| una.at_or_before(*end) || holes);
    let asked = asked.is_some() && !late;
    let asked_of_frozen = was_frozen && m.persist.sent > 0;
    let again = m
        .asked_end
        .is_some_and(|end| was_received_twice(segment, end));
    let answers = !all_arrived && (again || (asked && (outcome.acked > 0 || asked_of_frozen)));
    m.doubted_end = m.doubted_end.filter(|end| una.before(*end));
    let newer = |end: &SeqNum| reported.is_some_and(|reported| reported.after(*end));
    let lost = m.doubted_end.as_ref().is_some_and(newer);
    if answers || lost || !asked || outcome.acked > 0 {
        m.asked_end = None;
    }
    answers || lost
}

/// True if the MH had the bytes up to `end` before: a D-SACK (RFC 2883) answers a copy of them.
fn was_received_twice(segment: &Segment, end: SeqNum) -> bool {
    let first = segment.options.sack.iter().next();
    first.is_some_and(|(left, right)| {
        right.at_or_before(segment.ack) && left.before(end) && end.at_or_before(right)
    })
}

/// Without SACK, each ACK of a part of what was sent before a loss shows the next loss.
pub(super) fn follow_loss<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    outcome: &AckOutcome,
    cx: &mut Context<'_, P>,
) {
    let una = flow.fh.una;
    let m = &mut mtcp.m;
    if outcome.loss && m.share.in_cell {
        m.loss_end = Some(m.sent_max);
    }
    let Some(end) = m.loss_end.filter(|_| outcome.acked > 0) else {
        return;
    };
    if end.at_or_before(una) || !flow.sacked.is_empty() {
        m.loss_end = None;
    } else if let Some(piece) = flow.first_missing(Sender::Gateway) {
        mtcp.m.share.charge(piece.len, cx.now);
        mtcp.on_repeated();
        cx.counters.repaired += 1;
        mtcp.resend(flow, piece, cx.actions);
    }
}
