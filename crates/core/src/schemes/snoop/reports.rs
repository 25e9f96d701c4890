// SPDX-License-Identifier: Apache-2.0
//! Losses detected by the MH's SACK and the times of sending, and which ACKs the FH receives meanwhile.
//!
//! A segment is lost when one that was sent after it with the same priority has arrived, and is
//! three segments beyond it or was sent a quarter of the round trip later (RFC 8985, 6.2, on one
//! hop). A retransmission without an answer is lost after the paper's round-trip timeout. Losses at
//! the end of a burst are detected by a probe (RFC 8985, 7), because nothing beyond them is
//! reported.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, SackBlocks, Segment, SeqNum};

use super::dup_acks::DupAcks;
use super::fh_report::{self, DUP_THRESH, Hole, QUEUE_MIN};
use super::{Snoop, radio, retransmit, speaks_sack};
use crate::flow::{AckOutcome, Arrivals, Flow, Sender, Transmission};
use crate::schemes::{Context, expects_changing_rates};
use crate::{Payload, Verdict};

/// Segments retransmitted at once in addition to as many as have arrived. What has left the link
/// makes room on it; a full queue would lose more.
const REPAIRS_BESIDES: u32 = 1;
/// The limit for one ACK, however many losses it shows.
const REPAIRS_MAX: u32 = 64;
/// Probes in a row; after these the silence is an outage.
const PROBES_MAX: u32 = 2;
/// Retransmissions by the timer at the usual interval while the flow's host is silent: it may have left,
/// although others behind the MH's address answer. After them the interval doubles. After the second limit
/// the timer stops.
const REPAIRS_AT_FIRST_INTERVAL: u32 = 8;
const UNANSWERED_REPAIRS_MAX: u32 = 16;
/// A host may delay the ACK of a single segment for this time (Linux: `TCP_DELACK_MIN`).
const DELAYED_ACK: Duration = Duration::from_millis(40);

#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    arrivals: Arrivals,
    /// The first packet that the MH lacks.
    hole: Option<Hole>,
    /// Since when a hole is hidden from the FH.
    pub(super) hidden_since: Option<Instant>,
    /// When a further segment may count as lost.
    lost_at: Option<Instant>,
    /// How often that timer has expired since the MH's last segment.
    unanswered_repairs: u32,
    /// The timer of the probe for lost last segments, and how many probes had no answer.
    probe_at: Option<Instant>,
    probes: u32,
}

impl Reports {
    pub(super) const fn deadlines(&self) -> [Option<Instant>; 2] {
        [self.lost_at, self.probe_at]
    }

    /// Stops the timer for a further loss.
    pub(super) fn wait_for_no_loss(&mut self) {
        self.lost_at = None;
    }

    /// The timer has retransmitted losses, and the MH is silent.
    fn note_unanswered_repair(&mut self, interval: Duration) {
        self.unanswered_repairs += 1;
        let doublings = self
            .unanswered_repairs
            .saturating_sub(REPAIRS_AT_FIRST_INTERVAL);
        let longer = interval * ((1 << doublings) - 1);
        let goes_on = self.unanswered_repairs < UNANSWERED_REPAIRS_MAX;
        self.lost_at = self.lost_at.filter(|_| goes_on).map(|at| at + longer);
    }

    /// A probe is scheduled.
    pub(super) const fn probe_runs(&self) -> bool {
        self.probe_at.is_some()
    }

    /// A probe is scheduled, or there were enough of them.
    fn needs_no_probe(&self) -> bool {
        self.probe_at.is_some() || self.probes >= PROBES_MAX
    }
}

/// Handles an ACK of a flow with SACK; `window` is the one that the FH knew before.
pub(super) fn on_ack<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    duplicate: bool,
    window: Option<u16>,
    cx: &mut Context<'_, P>,
) -> Verdict {
    // State from before the MH was known to send SACK.
    snoop.dup_acks = DupAcks::default();
    merge_arrivals(snoop, outcome);
    let reports = &mut snoop.reports;
    let filled = reports.hole.take().filter(|_| outcome.acked > 0);
    if outcome.acked > 0 {
        reports.hidden_since = None;
    }
    if !knows_radio(snoop, flow, segment, cx) {
        (snoop.reports.lost_at, snoop.reports.hidden_since) = (None, None);
        return Verdict::Forward;
    }
    repair(snoop, flow, outcome.arrived_bytes, cx);
    let hole = !flow.sacked.is_empty();
    note_hole(snoop, flow, hole, cx);
    let has_more = !segment.is_empty() || segment.flags.has(Flags::ECE);
    let reported = filled.is_some_and(|filled| {
        !has_more && fh_report::report_filled(snoop, flow, filled, window, cx)
    });
    if reported || snoop.fh_report.withholds_acks() {
        return Verdict::Suppress;
    }
    if snoop.fh_report.reports_all() {
        return Verdict::Forward;
    }
    let shown = shown_blocks(snoop, segment);
    // Without its D-SACK a duplicate ACK would report a loss that is none.
    let is_repeated = hole || !segment.options.sack.is_empty();
    if duplicate && shown.is_empty() && is_repeated {
        return Verdict::Suppress;
    }
    if shown == segment.options.sack {
        Verdict::Forward
    } else {
        Verdict::ForwardWithSack(shown)
    }
}

/// The radio is known to lose packets, or a new hole shows it.
fn knows_radio<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &Context<'_, P>,
) -> bool {
    if flow.retransmits_itself() {
        return true;
    }
    let is_known = radio::is_known(snoop.radio.lost_at().max(cx.radio_lost_at()), cx.now);
    let (Some(noted), Some(rtt), Some(least)) =
        (flow.sacked.highest(), snoop.rtt(), cx.rtt().least())
    else {
        return is_known;
    };
    // A block that a full table refuses must not count as new later.
    let reported = segment.options.sack.iter().map(|(_, right)| right);
    let highest = reported.fold(noted, SeqNum::max);
    let from = snoop.radio.unjudged(flow.fh.una, highest);
    let has_new_hole = flow.sacked.holes(from).next().is_some();
    let queue = rtt.saturating_sub(least);
    if has_new_hole {
        let queue_min = fh_report::short_queue(snoop, cx.rtt());
        snoop.radio.on_hole(queue, queue_min, is_known, cx.now);
    }
    is_known || radio::is_known(snoop.radio.lost_at(), cx.now)
}

/// Notes whether there is a hole, and since when the FH does not know it.
fn note_hole<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    hole: bool,
    cx: &mut Context<'_, P>,
) {
    let una = flow.fh.una;
    if !hole {
        snoop.reports.hidden_since = None;
        snoop.fh_report.on_nothing_hidden();
        return;
    }
    let len = flow.cache.segment_len_at(una);
    snoop.reports.hole = len.map(|len| (una, len));
    if snoop.fh_report.reports_all() {
        return;
    }
    let since = *snoop.reports.hidden_since.get_or_insert(cx.now);
    if flow.cache.holds(una) {
        fh_report::hide(snoop, flow, since, cx);
    } else {
        // Only the FH can send what the wired half has lost.
        fh_report::report_all(snoop, flow, cx);
    }
}

/// The blocks of an ACK that the FH may see: D-SACK (RFC 2883) of what the FH itself has sent twice.
fn shown_blocks<P: Payload>(snoop: &Snoop<P>, segment: &Segment) -> SackBlocks {
    let mut shown = SackBlocks::default();
    let mut blocks = segment.options.sack.iter();
    let (Some((left, right)), second) = (blocks.next(), blocks.next()) else {
        return shown;
    };
    let inside =
        |outer: (SeqNum, SeqNum)| outer.0.at_or_before(left) && right.at_or_before(outer.1);
    let twice = right.at_or_before(segment.ack) || second.is_some_and(inside);
    let requested = snoop.fh_report.has_requested(left, right);
    if twice && !requested && snoop.fixed_half.has_repeated(left, right) {
        shown.push(left, right);
    }
    shown
}

/// Notes what an ACK shows to have arrived.
pub(super) fn merge_arrivals<P>(snoop: &mut Snoop<P>, outcome: &AckOutcome) {
    snoop.reports.arrivals.merge(outcome.arrivals);
}

/// Retransmits the lost segments.
pub(super) fn repair<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    arrived_bytes: u32,
    cx: &mut Context<'_, P>,
) {
    snoop.reports.lost_at = None;
    // After an outage everything cached is retransmitted anyway.
    if flow.sacked.is_empty() || flow.retransmits_itself() {
        return;
    }
    let segment_len = flow.cache.segment_len_at(flow.fh.una).unwrap_or(u32::MAX);
    let arrived = arrived_bytes.div_ceil(segment_len);
    let mut left = (arrived + REPAIRS_BESIDES).min(REPAIRS_MAX);
    let (lost, next) = find_lost(snoop, flow, left, cx);
    // On a link whose rate changes nothing is hidden from the FH.
    let reports_to_fh = !expects_changing_rates(cx.settings);
    for lost in lost {
        if left == 0 {
            break;
        }
        if reports_to_fh && lost.retransmissions == 0 && !lost.by_fh {
            fh_report::judge_loss(snoop, flow, cx);
        }
        let sent = retransmit_range(flow, lost.seq, lost.end, left, Sender::GatewayAhead, cx);
        if sent == 0 {
            // Not cached: the FH must retransmit it.
            let (seq, end) = (lost.seq, lost.end);
            flow.transmissions.record(seq, end, Sender::Gateway, cx.now);
            if reports_to_fh {
                fh_report::report_all(snoop, flow, cx);
            }
        }
        left = left.saturating_sub(sent.max(1));
    }
    snoop.reports.lost_at = if left == 0 {
        // The rest with the next ACK, or after this interval.
        Some(cx.now + cx.settings.snoop.retransmit_interval_min)
    } else {
        next
    };
}

/// Retransmits `seq..end`, at most `segments_max` segments. Returns their number.
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
        let Some(piece) = flow.piece_of(seq, end, len_max, sender) else {
            break;
        };
        seq = piece.seq + piece.len + u32::from(piece.flags.has(Flags::FIN));
        segments += piece.len.div_ceil(segment_len).max(1);
        retransmit(flow, piece, sender, cx);
    }
    segments
}

/// Returns the first lost ranges, at most `most`, and when there may be another.
fn find_lost<P: Payload>(
    snoop: &Snoop<P>,
    flow: &Flow<P>,
    most: u32,
    cx: &Context<'_, P>,
) -> (Vec<Transmission>, Option<Instant>) {
    let arrivals = &snoop.reports.arrivals;
    let highest = flow.sacked.highest().unwrap_or(flow.fh.una);
    let (mut lost, mut next) = (Vec::new(), None);
    for (left, right) in flow.sacked.holes(flow.fh.una) {
        for sent in flow.transmissions.within(left, right) {
            let segment_len = sent.end.distance_from(sent.seq).clamp(1, 1460);
            let far = highest.distance_from(sent.end) >= DUP_THRESH * segment_len;
            let at = match (arrivals.overtook(&sent), far) {
                (true, true) => cx.now,
                (true, false) => sent.at + reordering_wait(snoop, cx),
                (false, _) if sent.retransmissions > 0 => unanswered_until(snoop, flow, &sent, cx),
                (false, _) => continue,
            };
            // A segment is not sent twice at the same moment.
            let at = if sent.at < cx.now {
                at
            } else {
                at.max(cx.now + cx.settings.snoop.retransmit_interval_min)
            };
            if at > cx.now {
                next = Some(next.map_or(at, |next: Instant| next.min(at)));
                continue;
            }
            lost.push(sent);
            if lost.len() >= most as usize {
                return (lost, None);
            }
        }
    }
    (lost, next)
}

/// A segment that fewer than three later ones have overtaken may still arrive within this time.
fn reordering_wait<P: Payload>(snoop: &Snoop<P>, cx: &Context<'_, P>) -> Duration {
    let rtt = newest_rtt(snoop, cx);
    rtt + cx.rtt().least().unwrap_or(rtt) / 4
}

fn newest_rtt<P: Payload>(snoop: &Snoop<P>, cx: &Context<'_, P>) -> Duration {
    let wait = || snoop.retransmission_wait(&cx.settings.snoop);
    snoop.rtt().unwrap_or_else(wait)
}

/// When an unanswered retransmission counts as lost. If it waits in turn, a later segment shows its
/// loss; the timer is for the last one. If it overtakes ordinary traffic it waits in no queue and
/// has a round trip of its own.
fn unanswered_until<P: Payload>(
    snoop: &Snoop<P>,
    flow: &Flow<P>,
    sent: &Transmission,
    cx: &Context<'_, P>,
) -> Instant {
    let wait = snoop.retransmission_wait(&cx.settings.snoop);
    let ahead = &snoop.ahead_rtt;
    if sent.ahead && ahead.srtt().is_some() {
        return sent.at + ahead.rto(QUEUE_MIN);
    }
    let srtt = snoop.srtt.unwrap_or(wait);
    let wait = wait.max(newest_rtt(snoop, cx) + srtt);
    let newest = flow.transmissions.newest().unwrap_or(sent.at);
    sent.at.max(newest) + wait
}

/// A segment of the MH has arrived. The probe's timer restarts with an answer, and starts if it does not run
/// yet.
pub(super) fn await_answer<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    is_answer: bool,
    cx: &Context<'_, P>,
) {
    snoop.reports.unanswered_repairs = 0;
    if is_answer {
        snoop.reports.probes = 0;
    }
    if is_answer || !snoop.reports.needs_no_probe() {
        arm_probe(snoop, flow, cx);
    }
}

/// Starts the probe's timer again: with data of the FH, and with each ACK of the MH.
pub(super) fn arm_probe<P: Payload>(snoop: &mut Snoop<P>, flow: &mut Flow<P>, cx: &Context<'_, P>) {
    let in_flight = flow.in_flight();
    // An ACK of what the FH itself has to retransmit would restart the FH's timer.
    let runs = speaks_sack(snoop, flow)
        && !snoop.own_losses.is_known()
        && in_flight > 0
        && snoop.reports.probes < PROBES_MAX
        && !flow.retransmits_itself();
    let wait = runs.then(|| probe_wait(snoop, flow, cx)).flatten();
    snoop.reports.probe_at = wait.map(|wait| cx.now + wait);
}

/// The wait for an answer before a probe. `None`: no round trip is known.
fn probe_wait<P: Payload>(
    snoop: &Snoop<P>,
    flow: &Flow<P>,
    cx: &Context<'_, P>,
) -> Option<Duration> {
    // Other flows of the MH may have a measurement that this one lacks.
    let srtt = snoop.srtt.or(cx.rtt().srtt())?;
    let sent = &flow.transmissions;
    let slack = if sent.has_several_within(flow.fh.una, flow.sent_nxt) {
        QUEUE_MIN
    } else {
        const { QUEUE_MIN.saturating_add(DELAYED_ACK) }
    };
    Some(srtt + srtt + slack)
}

/// The flow's last segment may still wait in the link's queue: other flows get answers to what was sent
/// before it.
fn may_wait_in_queue<P: Payload>(snoop: &Snoop<P>, flow: &Flow<P>, cx: &Context<'_, P>) -> bool {
    let (Some((newest, answered_at)), Some(last), Some(wait)) = (
        cx.newest_arrival().get(),
        flow.transmissions.newest(),
        probe_wait(snoop, flow, cx),
    ) else {
        return false;
    };
    newest <= last && cx.now.saturating_since(answered_at) < wait
}

pub(super) fn on_timeout<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    if snoop.reports.lost_at.is_some_and(|at| at <= cx.now) {
        repair(snoop, flow, 0, cx);
        let interval = cx.settings.snoop.retransmit_interval_min;
        snoop.reports.note_unanswered_repair(interval);
    }
    if snoop.reports.probe_at.is_some_and(|at| at <= cx.now) {
        snoop.reports.probe_at = None;
        if !may_wait_in_queue(snoop, flow, cx) {
            probe(flow, cx);
            snoop.reports.probes += 1;
        }
        arm_probe(snoop, flow, cx);
    }
}

/// Retransmits the last segment that the MH has not reported.
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
