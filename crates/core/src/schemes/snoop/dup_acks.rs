// SPDX-License-Identifier: Apache-2.0
//! Losses found by duplicate ACKs, and the round-trip and persist timers: the paper's
//! sections 3.1.2 and 4.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::fh_report::{self, Hole};
use super::{Snoop, SnoopSet, retransmit_first, speaks_sack};
use crate::flow::{AckOutcome, Flow};
use crate::schemes::Context;
use crate::{Payload, Verdict};

/// What is known of the first packet that the MH lacks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DupAcks {
    /// Duplicate ACKs that may still come of packets sent after the lost one, before its
    /// retransmission.
    expected: u32,
    /// What the FH had sent when the first packet was retransmitted.
    recover: Option<SeqNum>,
    /// Since when a hole is hidden from the FH.
    hidden_since: Option<Instant>,
    /// That hole.
    hole: Option<Hole>,
    /// The round-trip timer: runs once the gateway has retransmitted the first packet.
    round_trip_at: Option<Instant>,
    /// The persist timer.
    persist_at: Option<Instant>,
    /// Retransmissions by timers since the last segment of the MH.
    unanswered: u32,
}

/// Retransmissions by timers until the intervals double, and how often they double. The paper has no
/// limit, but then a dead MH would get retransmissions for ever. A radio that loses every other
/// packet and every other ACK leaves one try in four: 32 failures in a row have a chance of one in
/// 10,000.
const TRIES: u32 = 32;
const DOUBLINGS_MAX: u32 = 6;

impl DupAcks {
    pub(super) const fn deadlines(&self) -> [Option<Instant>; 2] {
        [self.round_trip_at, self.persist_at]
    }

    /// Counts one more retransmission by a timer. Returns the factor of the next wait.
    fn tries_again(&mut self) -> u32 {
        self.unanswered = self.unanswered.saturating_add(1);
        1 << self.unanswered.saturating_sub(TRIES).min(DOUBLINGS_MAX)
    }

    /// The FH has sent the first packet again: its local retransmissions count from zero.
    pub(super) fn on_first_repeated(&mut self) {
        self.round_trip_at = None;
    }
}

/// Handles the three kinds of ACK: new, spurious, duplicate. `window`: the one that the FH knew
/// before.
pub(super) fn on_ack<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    duplicate: bool,
    window: Option<u16>,
    cx: &mut Context<'_, P>,
) -> Verdict {
    let today = cx.settings.snoop.set == SnoopSet::Today;
    on_answer(snoop, cx);
    if outcome.acked > 0 {
        let filled = snoop.dup_acks.hole;
        on_new_ack(snoop, flow, today, cx);
        let has_more = !segment.is_empty() || segment.flags.has(Flags::ECE);
        let reported = filled.is_some_and(|filled| {
            !has_more && fh_report::report_filled(snoop, flow, filled, window, cx)
        });
        return if reported || snoop.fh_report.withholds_acks() {
            Verdict::Suppress
        } else {
            Verdict::Forward
        };
    }
    if segment.ack.before(flow.fh.una) {
        // A spurious one.
        return Verdict::Suppress;
    }
    let outstanding = flow.fh.max.after(flow.fh.una);
    if !duplicate || !outstanding || flow.retransmits_itself() {
        return Verdict::Forward;
    }
    let una = flow.fh.una;
    let cached = flow.cache.holds(una);
    if !cached || snoop.fixed_half.has_repeated(una, una + 1) {
        // The FH has to retransmit it, and counts these duplicate ACKs.
        return Verdict::Forward;
    }
    if today && !hides(snoop, flow, cx) {
        return Verdict::Forward;
    }
    if snoop.dup_acks.expected > 0 {
        snoop.dup_acks.expected -= 1;
    } else {
        retransmit_and_expect(snoop, flow, cx);
    }
    Verdict::Suppress
}

/// The MH has answered: intervals that its silence has made long are short again.
fn on_answer<P: Payload>(snoop: &mut Snoop<P>, cx: &Context<'_, P>) {
    let wait = snoop.retransmission_wait(&cx.settings.snoop);
    let dup_acks = &mut snoop.dup_acks;
    if core::mem::take(&mut dup_acks.unanswered) > TRIES {
        dup_acks.round_trip_at = dup_acks.round_trip_at.map(|_| cx.now + wait);
        dup_acks.persist_at = None;
    }
}

/// Retransmits the first packet. Each packet sent after it may still cause a duplicate ACK, except
/// the one that caused this ACK.
fn retransmit_and_expect<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let expected = packets_after_first(flow).saturating_sub(1);
    if retransmit_first(flow, cx) {
        let wait = snoop.retransmission_wait(&cx.settings.snoop);
        let max = flow.fh.max;
        let dup_acks = &mut snoop.dup_acks;
        dup_acks.expected = expected;
        dup_acks.round_trip_at = Some(cx.now + wait);
        dup_acks.recover.get_or_insert(max);
    }
}

/// A new ACK: the state of the first packet ends. With `today`, an ACK of a part of what was sent
/// before the retransmission shows the next loss (RFC 6582, 3.2). The paper waits for a duplicate
/// ACK of it.
fn on_new_ack<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    today: bool,
    cx: &mut Context<'_, P>,
) {
    let una = flow.fh.una;
    let recover = snoop.dup_acks.recover.filter(|recover| recover.after(una));
    snoop.dup_acks = DupAcks::default();
    snoop.fh_report.on_nothing_hidden();
    let repairs = today && !flow.retransmits_itself();
    if let (true, Some(recover)) = (repairs, recover) {
        snoop.dup_acks.recover = Some(recover);
        fh_report::judge_loss(snoop, flow, cx);
        retransmit_and_expect(snoop, flow, cx);
    }
}

/// Whether a loss is hidden from an FH without SACK. It is not hidden for too long.
fn hides<P: Payload>(snoop: &mut Snoop<P>, flow: &mut Flow<P>, cx: &mut Context<'_, P>) -> bool {
    if snoop.fh_report.reports_all() {
        return false;
    }
    let una = flow.fh.una;
    let dup_acks = &mut snoop.dup_acks;
    let first = dup_acks.hidden_since.is_none();
    let since = *dup_acks.hidden_since.get_or_insert(cx.now);
    if first {
        dup_acks.hole = flow.cache.segment_len_at(una).map(|len| (una, len));
        fh_report::judge_loss(snoop, flow, cx);
    }
    fh_report::hide(snoop, flow, since, cx);
    !snoop.fh_report.reports_all()
}

/// Packets in flight to the MH after the first.
fn packets_after_first<P: Payload>(flow: &Flow<P>) -> u32 {
    let una = flow.fh.una;
    let Some(first) = flow.cache.piece(una, None, u32::MAX) else {
        return 0;
    };
    let segment_len = first.payload.segment_len().max(1);
    let beyond = flow.sent_nxt.distance_from(una + segment_len);
    beyond.div_ceil(segment_len)
}

pub(super) fn on_timeout<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let settings = &cx.settings.snoop;
    let persist = persist_wait(snoop, flow, cx);
    let timers = snoop.dup_acks;
    if timers.round_trip_at.is_some_and(|at| at <= cx.now) {
        let wait = snoop.retransmission_wait(settings);
        let again = retransmit_first(flow, cx);
        let dup_acks = &mut snoop.dup_acks;
        let wait = wait * dup_acks.tries_again();
        dup_acks.round_trip_at = again.then_some(cx.now + wait);
    }
    if timers.persist_at.is_some_and(|at| at <= cx.now) {
        snoop.dup_acks.persist_at = None;
        let Some(persist) = persist else {
            return;
        };
        if cx.now < flow.seen + persist {
            snoop.dup_acks.persist_at = Some(flow.seen + persist);
        } else if retransmit_first(flow, cx) {
            let dup_acks = &mut snoop.dup_acks;
            dup_acks.expected = 0;
            dup_acks.persist_at = Some(cx.now + persist * dup_acks.tries_again());
        }
    }
}

/// The persist timer runs while something cached is not acknowledged.
pub(super) fn arm_persist<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &Context<'_, P>,
) {
    let wait = persist_wait(snoop, flow, cx).filter(|_| !flow.cache.is_empty());
    let seen = flow.seen;
    let timer = &mut snoop.dup_acks.persist_at;
    // Each packet puts the timer off; a retransmission may have put it off further.
    *timer = wait.map(|wait| timer.map_or(seen + wait, |old| old.max(seen + wait)));
}

/// The persist timer's wait, if it runs. With `today`, SACK shows what is lost. Without SACK a round
/// trip may be longer than the paper's wait.
fn persist_wait<P: Payload>(
    snoop: &Snoop<P>,
    flow: &Flow<P>,
    cx: &Context<'_, P>,
) -> Option<Duration> {
    let settings = &cx.settings.snoop;
    if settings.set == SnoopSet::Paper1995 {
        return Some(settings.persist);
    }
    let srtt = snoop.srtt.or(cx.rtt().srtt())?;
    // While the window is closed, the MH has refused the unacknowledged segments: they are not lost.
    let waits = !speaks_sack(snoop, flow) && !flow.mh.refuses_all;
    waits.then(|| settings.persist.max(srtt * 2))
}
