// SPDX-License-Identifier: Apache-2.0
//! M-TCP at the SH: the half toward the MH (sections 4.2 and 5.1, figure 5).
//!
//! ```text
//!               REXMT expires: freeze; SH-TCP shrinks the FH's window
//!   NOFREEZE ----------------------------------------------------------> FROZEN
//!      ^  ^                                                          persist packets
//!      |  +-- marked ACK (reconnection): all unacknowledged again -------+  |
//!      +----- any other ACK: nothing sent again ----------------------------+
//! ```
//!
//! REXMT runs while something in sequence is unacknowledged that the MH's window has room
//! for, and anew with each ACK of something new (RFC 6298, 5.3). The congestion window never
//! shrinks.
//!
//! Where the paper is silent:
//!
//! - an ACK of no more than the persist packet, in answer to it, tells that what was sent
//!   before is lost: all of it is sent again. That is how an MH without M-TCP comes back;
//! - an MH that is heard an RTO after something was sent, and does not acknowledge it, is not
//!   away: the first segment goes again, and an ACK of no more than that tells that what was
//!   sent after it is lost as well;
//! - what lies beyond the window of the MH when that is closed (probes) is the FH's to repeat;
//!   when it opens, all of that goes again;
//! - in a cell what is lost without an outage is found by SACK or three duplicate ACKs and
//!   repaired here (section 3.1, "local error recovery"); without, the FH hears of it;
//! - somebody's word of the link (a signal, the carrier) freezes and resumes as well.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::persist::Persist;
use super::{Context, Mtcp, RECONNECTION_FLAGS};
use crate::bandwidth::Share;
use crate::delivery::DeliveryRate;
use crate::flow::{AckOutcome, Flow, Sender};
use crate::{Action, Payload};

mod losses;
mod pace;

use losses::{answers, follow_loss};
use pace::{pace, quantum};

/// Pieces for one input; the rest a moment later.
const PIECES_MAX: usize = 64;
const PIECES_PAUSE: Duration = Duration::from_millis(1);

/// The M-TCP state (MS) of figure 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Freeze {
    #[default]
    NoFreeze,
    Frozen,
}

/// The sender toward the MH.
#[derive(Clone, Debug, Default)]
pub(super) struct MTcp {
    state: Freeze,
    /// The REXMT timer.
    rexmt_at: Option<Instant>,
    pub persist: Persist,
    /// The end of what went alone to make the MH answer: a persist packet, or the first
    /// segment again.
    asked_end: Option<SeqNum>,
    /// Its timestamp: an ACK that echoes an older one answers what went before (RFC 3522).
    asked_tsval: Option<u32>,
    /// What was sent before a freeze, and not again after it, ends here: if something beyond
    /// arrives sooner, it is lost.
    doubted_end: Option<SeqNum>,
    /// In a cell, without SACK: what was sent before the third duplicate ACK ends here
    /// (RFC 6582).
    loss_end: Option<SeqNum>,
    /// It was REXMT that froze it.
    expired: bool,
    /// Somebody has said that the MH is away.
    told_away: bool,
    /// Where the MH's ACKs stood when the timer expired last.
    expired_at: Option<SeqNum>,
    /// The MH offers no window: what was sent lies beyond.
    pub closed: bool,
    /// Bytes; none: no congestion window.
    pub cwnd: Option<u32>,
    /// The end of what was ever sent.
    sent_max: SeqNum,
    /// The end of what an outage has held up, as long as anything waits since.
    held_end: Option<SeqNum>,
    /// What the MH has reported beyond its ACK, bytes.
    reported: u32,
    /// In a cell what the wireless half loses is hidden from the FH.
    pub share: Share,
    /// What the MH has acknowledged of late.
    delivery: DeliveryRate,
}

impl MTcp {
    pub(super) const fn is_frozen(&self) -> bool {
        matches!(self.state, Freeze::Frozen)
    }

    /// Somebody has said that the MH is away, and nobody that it is back.
    pub(super) const fn is_told_away(&self) -> bool {
        self.told_away
    }

    /// Everything up to `sent` is on its way or acknowledged.
    pub(super) fn begin(&mut self, sent: SeqNum) {
        self.state = Freeze::NoFreeze;
        self.rexmt_at = None;
        self.persist = self.persist.afresh();
        (self.asked_end, self.expired) = (None, false);
        (self.told_away, self.closed) = (false, false);
        (self.sent_max, self.held_end) = (sent, None);
        (self.doubted_end, self.loss_end) = (None, None);
    }

    fn room(&self, in_flight: u32) -> u32 {
        self.cwnd
            .map_or(u32::MAX, |cwnd| cwnd.saturating_sub(in_flight))
    }
}

/// The half is set up: slow start begins.
pub(super) fn open<P: Payload>(mtcp: &mut Mtcp<P>, cx: &Context<'_, P>) {
    // How long a segment is is not known before the first one comes.
    mtcp.m.cwnd = cx.settings.mtcp.slow_start.then_some(1);
}

/// Something in sequence is on its way to the MH.
fn is_outstanding<P: Payload>(mtcp: &Mtcp<P>, flow: &Flow<P>) -> bool {
    flow.sent_nxt.after(flow.fh.una) && flow.cache.holds(flow.fh.una) && !mtcp.m.closed
}

fn rto<P: Payload>(cx: &Context<'_, P>) -> Duration {
    cx.rtt.rto(cx.settings.mtcp.rto_variation_min)
}

/// A segment that is in the cache may go as it came; then it counts as sent.
pub(super) fn takes<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    backlog: bool,
    cx: &Context<'_, P>,
) -> bool {
    if mtcp.m.is_frozen() {
        return false;
    }
    // What fills a hole in what was sent is not held up.
    let in_turn = flow.sent_nxt.at_or_before(segment.seq);
    let room = mtcp.m.room(flow.in_flight());
    let piece = flow.cache.segment_len_at(segment.seq).unwrap_or(1);
    let m = &mut mtcp.m;
    // Of a share no more at once than what is cut from the cache.
    let at_once = m
        .share
        .assigned
        .map_or(u32::MAX, |share| quantum(share).max(piece));
    let fits = segment.payload_len <= room.min(at_once) && m.share.pacer.is_ready(cx.now);
    if in_turn && (backlog || !fits) {
        return false;
    }
    if let Some(assigned) = m.share.assigned {
        m.share.pacer.charge(segment.payload_len, assigned, cx.now);
    }
    flow.on_forwarded(segment, cx.now);
    note_sent(mtcp, flow, segment.end(), cx);
    true
}

fn note_sent<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, end: SeqNum, cx: &Context<'_, P>) {
    let m = &mut mtcp.m;
    m.sent_max = m.sent_max.max(end);
    arm(mtcp, flow, cx);
}

/// REXMT runs while something is outstanding.
fn arm<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &Context<'_, P>) {
    if !mtcp.m.is_frozen() && is_outstanding(mtcp, flow) {
        mtcp.m.rexmt_at.get_or_insert(cx.now + rto(cx));
    }
}

/// A copy that the FH sends of what is kept goes no further. Without a share of a cell what
/// is lost without an outage is the FH's to repeat, which regulates itself by that; but not
/// what has not gone out yet, or goes out again from here, nor what it repeats because its
/// window was closed.
pub(super) fn repeats_itself<P: Payload>(
    mtcp: &Mtcp<P>,
    flow: &Flow<P>,
    segment: &Segment,
) -> bool {
    let m = &mtcp.m;
    let repeating = m.asked_end.is_some() || flow.recover.is_some();
    let ours = repeating || m.is_frozen() || m.share.in_cell || !mtcp.sh.is_open();
    let waits = segment.end().after(flow.sent_nxt);
    (ours || waits) && flow.cache.holds(flow.fh.una)
}

/// The window has room for the next segment, or nothing is in flight: no small pieces.
fn has_room<P: Payload>(mtcp: &Mtcp<P>, flow: &Flow<P>) -> bool {
    let in_flight = flow.in_flight();
    in_flight == 0 || mtcp.m.room(in_flight) >= flow.next_segment_len()
}

/// Sends of the cache what window and pace allow.
pub(super) fn send<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    arm(mtcp, flow, cx);
    if mtcp.m.is_frozen() || !flow.has_backlog() {
        return;
    }
    let rate = pace(mtcp, flow, cx).max(1);
    let quantum = quantum(rate);
    let mut pieces = 0;
    while flow.has_backlog() && mtcp.m.share.pacer.is_ready(cx.now) {
        let segment_len = flow.next_segment_len();
        let in_flight = flow.in_flight();
        if mtcp.m.cwnd.is_some_and(|cwnd| cwnd < segment_len) {
            let segments = cx.settings.mtcp.initial_window_segments.max(1);
            mtcp.m.cwnd = Some(segment_len.saturating_mul(segments));
        }
        if !has_room(mtcp, flow) {
            break;
        }
        let room = mtcp.m.room(in_flight);
        if pieces == PIECES_MAX {
            mtcp.m.share.pacer.wait_until(cx.now + PIECES_PAUSE);
            break;
        }
        let len_max = (room.min(quantum) / segment_len).max(1) * segment_len;
        let first = !flow.sent_nxt.before(mtcp.m.sent_max);
        let piece = if first {
            flow.take_first(len_max, cx.now)
        } else {
            flow.take_piece(len_max)
        };
        let Some(mut piece) = piece else {
            continue;
        };
        mtcp.mark(flow.key, &mut piece, true);
        pieces += 1;
        let end = flow.sent_nxt;
        mtcp.m.share.pacer.charge(piece.len.max(1), rate, cx.now);
        cx.counters.sent_on += 1;
        cx.actions.push(Action::Resend(piece));
        note_sent(mtcp, flow, end, cx);
    }
    if !flow.has_backlog() {
        mtcp.m.held_end = None;
    }
}

/// A segment of the MH. True if it tells that the MH was away and is back.
pub(super) fn on_ack<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    outcome: &AckOutcome,
    cx: &mut Context<'_, P>,
) -> bool {
    let una = flow.fh.una;
    let m = &mut mtcp.m;
    if let Some(cwnd) = &mut m.cwnd {
        *cwnd = cwnd.saturating_add(outcome.acked);
    }
    let was_frozen = core::mem::take(&mut m.state) == Freeze::Frozen;
    if outcome.acked > 0 {
        m.delivery.on_acked(outcome.acked, cx.rtt.srtt(), cx.now);
    }
    let expired = core::mem::take(&mut m.expired);
    let marked = segment.is_empty() && segment.flags == RECONNECTION_FLAGS;
    // A mark says more than a timer that has not expired yet.
    let greets = marked && (was_frozen || is_outstanding(mtcp, flow));
    let reconnected = answers(mtcp, flow, segment, outcome, was_frozen) || greets;
    let m = &mut mtcp.m;
    if was_frozen && !reconnected {
        m.doubted_end = Some(flow.sent_nxt);
    }
    m.persist = m.persist.afresh();
    if let Some(compression) = &mut mtcp.compression {
        if was_frozen {
            compression.on_heard(marked, una);
        } else if reconnected && marked {
            compression.on_frozen();
            compression.on_heard(true, una);
        }
    }
    if reconnected {
        resume(mtcp, flow);
    } else if was_frozen && expired && outcome.acked == 0 && is_outstanding(mtcp, flow) {
        repeat_first(mtcp, flow, cx);
    }
    follow_window(mtcp, flow, segment);
    follow_loss(mtcp, flow, outcome, cx);
    // What is reported is news of the MH as well, and what it lacks is being repaired.
    let reported = flow.sacked.bytes_before(flow.sent_nxt);
    let reports_more = reported > core::mem::replace(&mut mtcp.m.reported, reported);
    let begins_anew = was_frozen || outcome.acked > 0 || reports_more;
    if !is_outstanding(mtcp, flow) {
        mtcp.m.rexmt_at = None;
    } else if begins_anew {
        mtcp.m.rexmt_at = Some(cx.now + rto(cx));
    } else {
        arm(mtcp, flow, cx);
    }
    reconnected
}

/// The MH is heard, and still lacks what was sent an RTO ago.
fn repeat_first<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    let Some(piece) = flow.first_missing(Sender::Gateway) else {
        return;
    };
    let fin = piece.flags.has(Flags::FIN);
    mtcp.m.asked_end = Some(piece.seq + piece.len + u32::from(fin));
    mtcp.m.asked_tsval = piece.timestamps.map(|own| own.tsval);
    mtcp.m.share.charge(piece.len, cx.now);
    mtcp.on_repeated();
    cx.counters.repaired += 1;
    mtcp.resend(flow, piece, cx.actions);
}

/// What was sent into a closed window is sent again when that opens.
fn follow_window<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, segment: &Segment) {
    if segment.ack.before(flow.fh.una) {
        return;
    }
    let was_closed = core::mem::replace(&mut mtcp.m.closed, segment.window == 0);
    if was_closed && is_outstanding(mtcp, flow) {
        mtcp.on_repeated();
        flow.rewind();
    }
}

/// The MH is gone: nothing more is sent, and none of what was is timed.
pub(super) fn freeze<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    let m = &mut mtcp.m;
    if m.is_frozen() {
        return;
    }
    cx.counters.freezes += 1;
    m.state = Freeze::Frozen;
    m.delivery.interrupt();
    if let Some(compression) = &mut mtcp.compression {
        compression.on_frozen();
    }
    m.rexmt_at = None;
    m.persist = m.persist.afresh();
    m.asked_end = None;
    arm_persist(mtcp, flow, cx);
}

/// Somebody says that the MH is away.
pub(super) fn on_disconnected<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    freeze(mtcp, flow, cx);
    (mtcp.m.told_away, mtcp.m.expired) = (true, false);
}

/// Somebody says that the MH is there: if it was away, everything unacknowledged is sent
/// again.
pub(super) fn on_reconnected<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>) {
    if mtcp.m.is_frozen() || mtcp.m.told_away {
        if let Some(compression) = &mut mtcp.compression {
            compression.on_heard(true, flow.fh.una);
        }
        resume(mtcp, flow);
    }
}

/// There is something to ask the MH with.
fn arm_persist<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &Context<'_, P>) {
    if !flow.cache.is_empty() {
        let interval_min = cx.settings.probe_interval_min;
        let persist = &mut mtcp.m.persist;
        persist.arm(cx.settings.mtcp.persist, cx.rtt, interval_min, cx.now);
    }
}

/// The MH is back: everything unacknowledged is sent again.
fn resume<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>) {
    let m = &mut mtcp.m;
    m.state = Freeze::NoFreeze;
    m.rexmt_at = None;
    m.persist = m.persist.afresh();
    (m.asked_end, m.expired, m.told_away) = (None, false, false);
    m.held_end = flow.cache.end();
    (m.doubted_end, m.loss_end) = (None, None);
    flow.begin_recovery();
}

/// Something may be due. True if M-TCP has frozen.
pub(super) fn on_timeout<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) -> bool {
    if mtcp.m.is_frozen() {
        arm_persist(mtcp, flow, cx);
        let interval_min = cx.settings.probe_interval_min;
        let mode = cx.settings.mtcp.persist;
        let due = mtcp.m.persist.is_due(mode, cx.rtt, interval_min, cx.now);
        if let (true, Some(packet)) = (due, flow.probe()) {
            let fin = packet.flags.has(Flags::FIN);
            mtcp.m.asked_end = Some(packet.seq + packet.len + u32::from(fin));
            mtcp.m.asked_tsval = packet.timestamps.map(|own| own.tsval);
            cx.counters.probes += 1;
            mtcp.resend(flow, packet, cx.actions);
        }
        return false;
    }
    if mtcp.m.rexmt_at.is_none_or(|at| at > cx.now) {
        return false;
    }
    mtcp.m.rexmt_at = None;
    if !is_outstanding(mtcp, flow) {
        return false;
    }
    if mtcp.m.expired_at.replace(flow.fh.una) == Some(flow.fh.una) {
        // RFC 2018, 8: what was reported may have been dropped since.
        flow.sacked.clear();
    }
    freeze(mtcp, flow, cx);
    mtcp.m.expired = true;
    true
}

/// When something is due.
pub(super) fn deadline<P: Payload>(mtcp: &Mtcp<P>, flow: &Flow<P>) -> Option<Instant> {
    let m = &mtcp.m;
    if m.is_frozen() {
        return m.persist.deadline();
    }
    let sends = flow.has_backlog() && has_room(mtcp, flow);
    let pace = if sends {
        Some(m.share.pacer.ready_at())
    } else {
        None
    };
    [m.rexmt_at, pace].into_iter().flatten().min()
}
