// SPDX-License-Identifier: Apache-2.0
//! Losses found by what the MH reports and when it was sent; what the FH hears meanwhile.
//!
//! A segment is lost when one that was sent after it on the same way has arrived, and lies
//! three segments beyond or has waited a quarter of the round trip longer (RFC 8985, 6.2,
//! on one hop). A retransmission without an answer is lost after the paper's round-trip
//! time-out; the last segments of a burst, of which nothing can be reported, are found by a
//! probe (RFC 8985, 7).

use core::time::Duration;

use holdfast_wire::{Flags, Instant, SackBlocks, Segment, SeqNum};

use super::dup_acks::DupAcks;
use super::retransmit;
use super::told::{self, DUP_THRESH, QUEUE_MIN, Told};
use crate::flow::{AckOutcome, Arrivals, Flow, Sender, Transmission};
use crate::schemes::Context;
use crate::{Payload, Verdict};

/// Segments retransmitted at once besides as many as have arrived: what has left the link
/// makes room on it, and a full queue would lose them again.
const REPAIRS_BESIDES: u32 = 1;
/// Probes in a row; after these the silence is an outage.
const PROBES_MAX: u32 = 2;
/// A host may delay the ACK of a single segment so long (Linux: `TCP_DELACK_MIN`).
const DELAYED_ACK: Duration = Duration::from_millis(40);

#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    arrivals: Arrivals,
    /// Since when the FH has not been told of a hole.
    hidden_since: Option<Instant>,
    /// When a segment may be taken for lost that is not yet.
    lost_at: Option<Instant>,
    /// The probe for lost last segments, and how many were in vain.
    probe_at: Option<Instant>,
    probes: u32,
}

impl Reports {
    pub(super) fn deadline(&self) -> Option<Instant> {
        let timers = [self.lost_at, self.probe_at];
        timers.into_iter().flatten().min()
    }
}

/// An ACK of a flow with SACK.
pub(super) fn on_ack<P: Payload>(
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    duplicate: bool,
    cx: &mut Context<'_, P>,
) -> Verdict {
    // What was begun before the MH was known to speak SACK.
    flow.snoop.dup_acks = DupAcks::default();
    let reports = &mut flow.snoop.reports;
    reports.probes = 0;
    reports.arrivals.merge(outcome.arrivals);
    if outcome.acked > 0 {
        reports.hidden_since = None;
    }
    repair(flow, outcome.arrived_bytes, cx);
    let hole = !flow.sacked.is_empty();
    let reports = &mut flow.snoop.reports;
    if !hole {
        reports.hidden_since = None;
    } else if flow.snoop.told.is_none() {
        let since = *reports.hidden_since.get_or_insert(cx.now);
        // What the wired half has lost only the FH can send.
        if !flow.cache.holds(flow.fh.una) || told::is_late(flow, since, cx) {
            told::tell(flow, Told::Late, cx);
        }
    }
    if flow.snoop.shows_all() {
        return Verdict::Forward;
    }
    let shown = if flow.snoop.shows_hole(flow.fh.una) {
        hole_shown(flow, segment)
    } else {
        shown_blocks(flow, segment)
    };
    // Less its D-SACK, a duplicate ACK would tell of a loss that is none.
    let told_nothing = hole || !segment.options.sack.is_empty();
    if duplicate && shown.is_empty() && told_nothing {
        return Verdict::Suppress;
    }
    if shown == segment.options.sack {
        Verdict::Forward
    } else {
        Verdict::ForwardWithSack(shown)
    }
}

/// Of the blocks in an ACK those that the FH may see: D-SACK (RFC 2883) of what the FH
/// itself has sent twice.
fn shown_blocks<P: Payload>(flow: &Flow<P>, segment: &Segment) -> SackBlocks {
    let mut shown = SackBlocks::default();
    let mut blocks = segment.options.sack.iter();
    let (Some((left, right)), second) = (blocks.next(), blocks.next()) else {
        return shown;
    };
    let inside =
        |outer: (SeqNum, SeqNum)| outer.0.at_or_before(left) && right.at_or_before(outer.1);
    let twice = right.at_or_before(segment.ack) || second.is_some_and(inside);
    if twice && flow.snoop.fixed_half.has_repeated(left, right) {
        shown.push(left, right);
    }
    shown
}

/// Of what the MH has reported just so much that the FH takes the first hole for lost. No
/// more blocks than the ACK has: they take their places.
fn hole_shown<P: Payload>(flow: &mut Flow<P>, segment: &Segment) -> SackBlocks {
    told::show_more(flow);
    let mut blocks = SackBlocks::default();
    let Some(shown) = flow.snoop.shown_end() else {
        return blocks;
    };
    let places = segment.options.sack.iter().count();
    for (left, right) in flow.sacked.iter().take(places) {
        if left.before(shown) {
            blocks.push(left, right.min(shown));
        }
    }
    blocks
}

/// Retransmits what is lost.
fn repair<P: Payload>(flow: &mut Flow<P>, arrived_bytes: u32, cx: &mut Context<'_, P>) {
    flow.snoop.reports.lost_at = None;
    // After an outage all that is kept is being sent on.
    if flow.repairs_itself() {
        return;
    }
    let segment_len = flow.cache.segment_len_at(flow.fh.una).unwrap_or(u32::MAX);
    let mut left = arrived_bytes.div_ceil(segment_len) + REPAIRS_BESIDES;
    while left > 0 {
        let (lost, next) = first_lost(flow, cx);
        let Some(lost) = lost else {
            flow.snoop.reports.lost_at = next;
            return;
        };
        let sent_once = lost.retransmissions == 0 && !lost.by_fh;
        if sent_once {
            told::judge_loss(flow, lost.seq, cx);
        }
        if flow.snoop.leaves_to_fh(&lost) {
            continue;
        }
        let sent = retransmit_range(flow, lost.seq, lost.end, left, Sender::GatewayAhead, cx);
        if sent == 0 {
            // Not cached: to be resent by the FH.
            let (seq, end) = (lost.seq, lost.end);
            flow.transmissions.note(seq, end, Sender::Gateway, cx.now);
            told::tell(flow, Told::Late, cx);
        }
        left = left.saturating_sub(sent.max(1));
    }
    // The rest with the next ACK, or at once if none comes.
    flow.snoop.reports.lost_at = Some(cx.now + cx.settings.snoop.retransmit_interval_min);
}

/// Sends `seq..end` again, at most so many segments; how many it were.
fn retransmit_range<P: Payload>(
    flow: &mut Flow<P>,
    mut seq: SeqNum,
    end: SeqNum,
    segments_max: u32,
    sender: Sender,
    cx: &mut Context<'_, P>,
) -> u32 {
    let mut segments = 0;
    while seq.before(end) && segments < segments_max && flow.cache.holds(seq) {
        let segment_len = flow.cache.segment_len_at(seq).unwrap_or(1);
        let len_max = segment_len.saturating_mul(segments_max - segments);
        let Some(piece) = flow.piece_of(seq, end, len_max) else {
            break;
        };
        seq = piece.seq + piece.len + u32::from(piece.flags.has(Flags::FIN));
        segments += piece.len.div_ceil(segment_len).max(1);
        retransmit(flow, piece, sender, cx);
    }
    segments
}

/// The first lost range, or else when there may be one.
fn first_lost<P: Payload>(
    flow: &Flow<P>,
    cx: &Context<'_, P>,
) -> (Option<Transmission>, Option<Instant>) {
    let reports = &flow.snoop.reports;
    let wait = flow.snoop.retransmission_wait(&cx.settings.snoop);
    let highest = flow.sacked.highest().unwrap_or(flow.fh.una);
    let rtt = flow.snoop.rtt.unwrap_or(wait);
    let reorder_wait = rtt + cx.rtt.least().unwrap_or(rtt) / 4;
    let mut next: Option<Instant> = None;
    for (left, right) in flow.sacked.holes(flow.fh.una) {
        let holes = flow.transmissions.within(left, right);
        for sent in holes.filter(|sent| !flow.snoop.leaves_to_fh(sent)) {
            let retransmitted = sent.retransmissions > 0;
            let overtaken = reports.arrivals.overtook(&sent);
            let segment_len = sent.end.distance_from(sent.seq).clamp(1, 1460);
            let far = highest.distance_from(sent.end) >= DUP_THRESH * segment_len;
            let at = match (overtaken, retransmitted) {
                (true, _) if far => cx.now,
                (true, _) => sent.at + reorder_wait,
                (false, true) => sent.at + wait,
                (false, false) => continue,
            };
            if at <= cx.now && sent.at < cx.now {
                return (Some(sent), None);
            }
            next = Some(next.map_or(at, |next| next.min(at)));
        }
    }
    (None, next)
}

/// The probe's wait begins anew with each segment of either end.
pub(super) fn arm_probe<P: Payload>(flow: &mut Flow<P>, cx: &Context<'_, P>) {
    let in_flight = flow.in_flight();
    let runs = flow.snoop.sack_seen
        && in_flight > 0
        && flow.snoop.reports.probes < PROBES_MAX
        && !flow.repairs_itself();
    let Some(srtt) = flow.snoop.srtt.filter(|_| runs) else {
        flow.snoop.reports.probe_at = None;
        return;
    };
    let single = flow
        .transmissions
        .within(flow.fh.una, flow.sent_nxt)
        .nth(1)
        .is_none();
    let delayed = if single { DELAYED_ACK } else { Duration::ZERO };
    flow.snoop.reports.probe_at = Some(cx.now + srtt * 2 + delayed + QUEUE_MIN);
}

pub(super) fn on_timeout<P: Payload>(flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    if flow.snoop.reports.lost_at.is_some_and(|at| at <= cx.now) {
        repair(flow, 0, cx);
    }
    if flow.snoop.reports.probe_at.is_some_and(|at| at <= cx.now) {
        flow.snoop.reports.probe_at = None;
        probe(flow, cx);
        flow.snoop.reports.probes += 1;
        arm_probe(flow, cx);
    }
}

/// The last segment that the MH has not reported, once more.
fn probe<P: Payload>(flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    let reported = flow
        .sacked
        .highest()
        .unwrap_or(flow.fh.una)
        .max(flow.fh.una);
    let last = flow
        .transmissions
        .within(reported, flow.sent_nxt)
        .next_back();
    let Some(last) = last.or_else(|| flow.transmissions.within(flow.fh.una, reported).next())
    else {
        return;
    };
    let segment_len = flow.cache.segment_len_at(last.seq).unwrap_or(1);
    let tail = last.end.distance_from(last.seq) % segment_len;
    let len = if tail == 0 { segment_len } else { tail };
    let seq = (last.end - len).max(last.seq);
    retransmit_range(flow, seq, last.end, 1, Sender::Gateway, cx);
}
