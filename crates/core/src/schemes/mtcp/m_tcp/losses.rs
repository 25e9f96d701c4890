// SPDX-License-Identifier: Apache-2.0
//! Losses of what M-TCP has sent, detected by the MH's ACKs.

use holdfast_wire::{Segment, SeqNum};

use super::{Context, Mtcp};
use crate::Payload;
use crate::flow::{AckOutcome, Flow, Sender};

/// True if the ACK shows that what was sent before a freeze is lost: it answers a probe, or a later
/// segment has arrived.
pub(super) fn shows_loss<P: Payload>(
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
    // With a hole at SND.UNA, the answer to a probe may acknowledge more than the probe.
    let has_hole = reported.is_some_and(|end| end.after(una));
    let stamps = m.probe_tsval.zip(segment.options.timestamps);
    let echoes_older =
        stamps.is_some_and(|(tsval, own)| (own.tsecr.wrapping_sub(tsval) as i32) < 0);
    let end = m.probe_end.filter(|end| una.at_or_before(*end) || has_hole);
    let may_answer = end.is_some() && !echoes_older;
    let was_probed_frozen = was_frozen && m.persist.sent > 0;
    let had_probe = m
        .probe_end
        .is_some_and(|end| was_received_twice(segment, end));
    let is_answer = may_answer && (outcome.acked > 0 || was_probed_frozen);
    let answers = !all_arrived && (had_probe || is_answer);
    m.doubted_end = m.doubted_end.filter(|end| una.before(*end));
    let is_older = |end: &SeqNum| reported.is_some_and(|reported| reported.after(*end));
    let lost = m.doubted_end.as_ref().is_some_and(is_older);
    if answers || lost || !may_answer || outcome.acked > 0 {
        m.probe_end = None;
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
        mtcp.on_retransmitted();
        cx.counters.repaired += 1;
        mtcp.resend(flow, piece, cx.actions);
    }
}

#[cfg(test)]
mod tests {
    use holdfast_wire::SackBlocks;

    use super::*;
    use crate::testing::data;

    #[test]
    fn only_a_report_that_has_the_end_in_it_answers_a_copy() {
        let answers = |left: u32, right: u32| {
            let (mut segment, _) = data(1, b"");
            let mut sack = SackBlocks::default();
            sack.push(SeqNum::new(left), SeqNum::new(right));
            (segment.ack, segment.options.sack) = (SeqNum::new(3000), sack);
            was_received_twice(&segment, SeqNum::new(2000))
        };
        assert!(answers(1000, 2000) && answers(1000, 3000));
        assert!(!answers(1000, 1999), "it ends before");
        assert!(!answers(2000, 3000), "it begins behind");
        assert!(!answers(1000, 3001), "it is no D-SACK");
    }
}
