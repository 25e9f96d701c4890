// SPDX-License-Identifier: Apache-2.0
//! M-TCP at the SH: the half toward the MH (sections 4.2 and 5.1, figure 5).
//!
//! ```text
//!               REXMT expires: freeze; SH-TCP shrinks the FH's window
//!   NOFREEZE ----------------------------------------------------------> FROZEN
//!      ^  ^                                                          persist packets
//!      |  +-- marked ACK (reconnection): retransmit everything -----------+  |
//!      +----- any other ACK: retransmit nothing ----------------------------+
//! ```
//!
//! REXMT runs while something in sequence is unacknowledged that fits in the MH's window. Each new ACK
//! restarts it (RFC 6298, 5.3). The congestion window never shrinks.
//!
//! Where the paper is silent:
//!
//! - an answer to a persist packet that acknowledges no more than that packet shows that what was
//!   sent before is lost: all of it is retransmitted. This is how an MH without M-TCP continues;
//! - an MH that sends a segment an RTO after a transmission, without an ACK of it, is not away: the
//!   first segment is retransmitted. An ACK of no more than that shows that what was sent after it is
//!   lost as well;
//! - with a closed window of the MH, the FH retransmits what is beyond it (probes); when the window
//!   opens, all of that is retransmitted here;
//! - in a cell, losses without an outage are detected by SACK or three duplicate ACKs and retransmitted
//!   here (section 3.1, "local error recovery"); without a cell the FH gets the duplicate ACKs;
//! - a report of the link (a signal, the carrier) freezes and resumes as well.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::persist::Persist;
use super::{Context, Mtcp, RECONNECTION_FLAGS};
use crate::bandwidth::Share;
use crate::delivery::DeliveryRate;
use crate::flow::{AckOutcome, Flow, Sender};
use crate::timers::earliest;
use crate::{Action, Payload};

mod losses;
mod pace;

use losses::{follow_loss, shows_loss};
use pace::{pace, quantum};

/// Pieces for one input, at most; the rest follows a moment later.
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
    /// The end of a segment that was sent alone so that the MH answers: a persist packet, or a
    /// retransmission of the first segment.
    probe_end: Option<SeqNum>,
    /// The segment's timestamp: an ACK with an older echo answers something earlier (RFC 3522).
    probe_tsval: Option<u32>,
    /// The end of what was sent before a freeze and not retransmitted after it. If something beyond it
    /// arrives first, it is lost.
    doubted_end: Option<SeqNum>,
    /// In a cell, without SACK: the end of what was sent before the third duplicate ACK (RFC 6582).
    loss_end: Option<SeqNum>,
    /// REXMT has expired and frozen the flow.
    expired: bool,
    /// A link source has reported link down.
    reported_down: bool,
    /// The MH's highest ACK when the timer expired last.
    expired_at: Option<SeqNum>,
    /// The MH's window is closed: what was sent is beyond it.
    pub closed: bool,
    /// Bytes; `None`: no congestion window.
    pub cwnd: Option<u32>,
    sent_max: SeqNum,
    /// The end of what an outage has delayed, while part of it waits to be sent.
    delayed_end: Option<SeqNum>,
    /// Bytes that the MH has reported beyond its ACK.
    reported: u32,
    /// In a cell, losses on the wireless half are hidden from the FH.
    pub share: Share,
    /// The MH's recent ACKs.
    delivery: DeliveryRate,
}

/// The part of the state that an idle flow keeps.
pub(super) struct Idle {
    expired_at: Option<SeqNum>,
    cwnd: Option<u32>,
    closed: bool,
    in_cell: bool,
}

impl MTcp {
    /// The state of an idle flow: the MH has everything before `una`. `None`: the flow is not idle.
    pub(super) fn pack(&self, una: SeqNum) -> Option<Idle> {
        let is_over = |end: Option<SeqNum>| end.is_none_or(|end| end.at_or_before(una));
        let is_idle = !self.is_frozen()
            && self.rexmt_at.is_none()
            && self.persist.deadline().is_none()
            && self.probe_end.is_none()
            && self.delayed_end.is_none()
            && is_over(self.doubted_end)
            && is_over(self.loss_end)
            && !self.expired
            && !self.reported_down;
        is_idle.then_some(Idle {
            expired_at: self.expired_at,
            cwnd: self.cwnd,
            closed: self.closed,
            in_cell: self.share.in_cell,
        })
    }

    /// The state of a flow that was idle until now.
    pub(super) fn unpack(idle: &Idle, una: SeqNum) -> Self {
        Self {
            expired_at: idle.expired_at,
            cwnd: idle.cwnd,
            closed: idle.closed,
            sent_max: una,
            share: Share {
                in_cell: idle.in_cell,
                ..Share::default()
            },
            ..Self::default()
        }
    }
}

impl MTcp {
    pub(super) const fn is_frozen(&self) -> bool {
        matches!(self.state, Freeze::Frozen)
    }

    /// A link source has reported link down, and none has reported link up.
    pub(super) const fn is_reported_down(&self) -> bool {
        self.reported_down
    }

    /// Everything up to `sent` is in flight or acknowledged.
    pub(super) fn begin(&mut self, sent: SeqNum) {
        self.state = Freeze::NoFreeze;
        self.rexmt_at = None;
        self.persist = self.persist.afresh();
        (self.probe_end, self.expired) = (None, false);
        (self.reported_down, self.closed) = (false, false);
        (self.sent_max, self.delayed_end) = (sent, None);
        (self.doubted_end, self.loss_end) = (None, None);
    }

    fn room(&self, in_flight: u32) -> u32 {
        self.cwnd
            .map_or(u32::MAX, |cwnd| cwnd.saturating_sub(in_flight))
    }
}

/// The half is set up: slow start begins.
pub(super) fn open<P: Payload>(mtcp: &mut Mtcp<P>, cx: &Context<'_, P>) {
    // The length of a segment is unknown before the first one.
    mtcp.m.cwnd = cx.settings.mtcp.slow_start.then_some(1);
}

/// Something in sequence is in flight to the MH.
fn is_outstanding<P: Payload>(mtcp: &Mtcp<P>, flow: &Flow<P>) -> bool {
    flow.sent_nxt.after(flow.fh.una) && flow.cache.holds(flow.fh.una) && !mtcp.m.closed
}

fn rto<P: Payload>(cx: &Context<'_, P>) -> Duration {
    cx.rtt().rto(cx.settings.mtcp.rto_variation_min)
}

/// Forwards a cached segment as it is, if that is allowed: true, and the segment counts as sent.
pub(super) fn try_forward<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    backlog: bool,
    cx: &Context<'_, P>,
) -> bool {
    if mtcp.m.is_frozen() {
        return false;
    }
    // A segment that fills a hole does not wait.
    let in_turn = flow.sent_nxt.at_or_before(segment.seq);
    let room = mtcp.m.room(flow.in_flight());
    let piece = flow.cache.segment_len_at(segment.seq).unwrap_or(1);
    let m = &mut mtcp.m;
    // With a share, a forwarded segment is no longer than a piece of the cache.
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

/// REXMT runs while something is in flight.
fn arm<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &Context<'_, P>) {
    if !mtcp.m.is_frozen() && is_outstanding(mtcp, flow) {
        mtcp.m.rexmt_at.get_or_insert(cx.now + rto(cx));
    }
}

/// True if the gateway suppresses the FH's retransmission, because it sends those bytes itself.
/// Without a share of a cell, the FH retransmits what was lost outside outages, so that its congestion
/// control sees the loss.
pub(super) fn retransmits_itself<P: Payload>(
    mtcp: &Mtcp<P>,
    flow: &Flow<P>,
    segment: &Segment,
) -> bool {
    let m = &mtcp.m;
    let retransmits = m.probe_end.is_some() || flow.recover.is_some();
    let ours = retransmits || m.is_frozen() || m.share.in_cell || !mtcp.sh.is_open();
    let waits = segment.end().after(flow.sent_nxt);
    (ours || waits) && flow.cache.holds(flow.fh.una)
}

/// The window has room for a whole segment, or nothing is in flight.
fn has_room<P: Payload>(mtcp: &Mtcp<P>, flow: &Flow<P>) -> bool {
    let in_flight = flow.in_flight();
    in_flight == 0 || mtcp.m.room(in_flight) >= flow.next_segment_len()
}

/// Sends from the cache what window and pace allow.
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
        mtcp.m.delayed_end = None;
    }
}

/// Handles a segment of the MH. True if it shows that the MH was away and is connected again.
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
        m.delivery.on_acked(outcome.acked, cx.rtt().srtt(), cx.now);
    }
    let expired = core::mem::take(&mut m.expired);
    let marked = segment.is_empty() && segment.flags == RECONNECTION_FLAGS;
    // A marked ACK reports an outage also if the timer has not expired.
    let reports_reconnection = marked && (was_frozen || is_outstanding(mtcp, flow));
    let reconnected = shows_loss(mtcp, flow, segment, outcome, was_frozen) || reports_reconnection;
    let m = &mut mtcp.m;
    if was_frozen && !reconnected {
        m.doubted_end = Some(flow.sent_nxt);
    }
    m.persist = m.persist.afresh();
    if let Some(compression) = &mut mtcp.compression {
        if was_frozen {
            compression.on_contact(marked, una);
        } else if reconnected && marked {
            compression.on_frozen();
            compression.on_contact(true, una);
        }
    }
    if reconnected {
        resume(mtcp, flow);
    } else if was_frozen && expired && outcome.acked == 0 && is_outstanding(mtcp, flow) {
        retransmit_first(mtcp, flow, cx);
    }
    follow_window(mtcp, flow, segment);
    follow_loss(mtcp, flow, outcome, cx);
    // New SACK blocks show that the MH answers, so REXMT restarts.
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

/// The MH answers, but lacks what was sent an RTO ago.
fn retransmit_first<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    let Some(piece) = flow.first_missing(Sender::Gateway) else {
        return;
    };
    let fin = piece.flags.has(Flags::FIN);
    mtcp.m.probe_end = Some(piece.seq + piece.len + u32::from(fin));
    mtcp.m.probe_tsval = piece.timestamps.map(|own| own.tsval);
    mtcp.m.share.charge(piece.len, cx.now);
    mtcp.on_retransmitted();
    cx.counters.repaired += 1;
    mtcp.resend(flow, piece, cx.actions);
}

/// What was sent into a closed window is retransmitted when the window opens.
fn follow_window<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, segment: &Segment) {
    if segment.ack.before(flow.fh.una) {
        return;
    }
    let was_closed = core::mem::replace(&mut mtcp.m.closed, segment.window == 0);
    if was_closed && is_outstanding(mtcp, flow) {
        mtcp.on_retransmitted();
        flow.rewind();
    }
}

/// Freezes: the MH is away. Nothing is sent, and REXMT stops.
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
    m.probe_end = None;
    arm_persist(mtcp, flow, cx);
}

/// A link source reports link down.
pub(super) fn on_disconnected<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    freeze(mtcp, flow, cx);
    (mtcp.m.reported_down, mtcp.m.expired) = (true, false);
}

/// A link source reports link up: if the MH was away, everything unacknowledged is retransmitted.
pub(super) fn on_reconnected<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>) {
    if mtcp.m.is_frozen() || mtcp.m.reported_down {
        if let Some(compression) = &mut mtcp.compression {
            compression.on_contact(true, flow.fh.una);
        }
        resume(mtcp, flow);
    }
}

/// Starts the persist timer if a segment is cached that can probe the MH.
fn arm_persist<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>, cx: &Context<'_, P>) {
    if !flow.cache.is_empty() {
        let interval_min = cx.settings.probe_interval_min;
        let persist = &mut mtcp.m.persist;
        persist.arm(cx.settings.mtcp.persist, cx.rtt(), interval_min, cx.now);
    }
}

/// Resumes: everything unacknowledged is retransmitted.
fn resume<P: Payload>(mtcp: &mut Mtcp<P>, flow: &mut Flow<P>) {
    let m = &mut mtcp.m;
    m.state = Freeze::NoFreeze;
    m.rexmt_at = None;
    m.persist = m.persist.afresh();
    (m.probe_end, m.expired, m.reported_down) = (None, false, false);
    m.delayed_end = flow.cache.end();
    (m.doubted_end, m.loss_end) = (None, None);
    flow.forget_wrong_reports();
    flow.rewind_after_outage();
}

/// Handles the timers that are due. True if M-TCP has frozen.
pub(super) fn on_timeout<P: Payload>(
    mtcp: &mut Mtcp<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) -> bool {
    if mtcp.m.is_frozen() {
        arm_persist(mtcp, flow, cx);
        let interval_min = cx.settings.probe_interval_min;
        let mode = cx.settings.mtcp.persist;
        let due = mtcp.m.persist.is_due(mode, cx.rtt(), interval_min, cx.now);
        if let (true, Some(packet)) = (due, flow.probe(u32::MAX)) {
            let fin = packet.flags.has(Flags::FIN);
            mtcp.m.probe_end = Some(packet.seq + packet.len + u32::from(fin));
            mtcp.m.probe_tsval = packet.timestamps.map(|own| own.tsval);
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
        // RFC 2018, 8: the MH may have dropped what it reported by SACK.
        flow.sacked.clear();
    }
    freeze(mtcp, flow, cx);
    mtcp.m.expired = true;
    true
}

/// The next deadline.
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
    earliest([m.rexmt_at, pace])
}

#[cfg(test)]
mod tests {
    use super::super::MtcpPersist;
    use super::*;
    use crate::rtt::RttEstimator;

    #[test]
    fn a_half_is_idle_if_nothing_at_all_is_left_of_it() {
        type Change = fn(&mut MTcp);
        let una = SeqNum::new(1000);
        let changes: [(&str, Change); 9] = [
            ("frozen", |m| m.state = Freeze::Frozen),
            ("REXMT", |m| m.rexmt_at = Some(Instant::ZERO)),
            ("persist packets", |m| {
                let (rtt, least) = (RttEstimator::default(), Duration::ZERO);
                m.persist
                    .arm(MtcpPersist::RoundTrip, &rtt, least, Instant::ZERO);
            }),
            ("probed", |m| m.probe_end = Some(SeqNum::new(1000))),
            ("delayed", |m| m.delayed_end = Some(SeqNum::new(1000))),
            ("doubted", |m| m.doubted_end = Some(SeqNum::new(1001))),
            ("lost", |m| m.loss_end = Some(SeqNum::new(1001))),
            ("expired", |m| m.expired = true),
            ("reported down", |m| m.reported_down = true),
        ];
        let idle = || MTcp {
            doubted_end: Some(una),
            loss_end: Some(una),
            ..MTcp::default()
        };
        assert!(idle().pack(una).is_some());
        for (name, change) in changes {
            let mut m = idle();
            change(&mut m);
            assert!(m.pack(una).is_none(), "{name}");
        }
    }
}
