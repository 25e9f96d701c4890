// SPDX-License-Identifier: Apache-2.0
//! Losses on the wired half of bytes that reports have named to the MH. They are detected by the
//! FH's ACKs, or by their absence, and retransmitted from the cache.
//!
//! For bytes that were not named, the FH's own ACKs reach the MH.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::{
    Action, Arrivals, DUP_THRESH, Flow, Payload, RttEstimator, Scoreboard, Sender, Snoop,
    Transmissions, Uplink, has_bad_blocks, reports_holes,
};
use crate::cache::Piece;
use crate::flow::Transmission;
use crate::schemes::Context;
use crate::{Direction, Resend};

/// Pieces retransmitted for one segment of the FH, at most, however many losses it shows.
const RESENDS_AT_ONCE: u32 = 32;
/// The least that is added to the round trip of the wired half: the FH may delay its ACKs.
const VARIATION_MIN: Duration = Duration::from_millis(200);
/// A super-segment goes out as segments of no more than this.
const SEGMENT_LEN_MAX: u32 = 1460;
/// Ranges on their way to the FH that are remembered, at most. The loss of others is not noticed.
const SENT_RANGES_MAX: usize = 512;
/// Memory for this many ranges stays while nothing is in flight to the FH: most flows upload little.
const SENT_ROOM_KEPT: usize = 16;
/// Timeouts in a row, at most; after these the MH has to retransmit.
const TIMEOUTS_MAX: u32 = 5;

/// The wired half of the uplink.
#[derive(Clone, Debug, Default)]
pub(super) struct Wired {
    /// What the FH has reported to hold beyond its ACK.
    reported: Scoreboard,
    /// When the bytes in flight to the FH were sent.
    sent: Transmissions,
    arrivals: Arrivals,
    /// The FH's window and its duplicate ACKs.
    window: Option<u16>,
    dup_acks: u32,
    /// What had passed when a loss was found: each ACK below it shows the next loss.
    recover: Option<SeqNum>,
    resend_at: Option<Instant>,
    timeouts: u32,
    /// The round trip, as the wired half's own estimator has it.
    pub(super) rtt: RttEstimator,
}

impl Wired {
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.resend_at
    }

    /// The wired half has lost something that the FH does not have yet.
    pub(super) const fn is_repairing(&self) -> bool {
        self.recover.is_some()
    }

    /// The FH has everything, and nothing is awaited.
    pub(super) fn is_idle(&self) -> bool {
        let waits = self.recover.is_some() || self.resend_at.is_some();
        !waits && self.reported.is_empty()
    }

    /// Notes the FH's window: a duplicate ACK repeats it.
    pub(super) const fn note_window(&mut self, segment: &Segment) {
        self.window = Some(segment.window);
    }

    /// `seq..end` goes to the FH at `now`; a gap from `from` up to it counts as sent with
    /// it, until it is filled.
    #[inline]
    pub(super) fn note_sent(&mut self, from: SeqNum, seq: SeqNum, end: SeqNum, now: Instant) {
        if self.sent.len() < SENT_RANGES_MAX {
            self.sent.record(from.min(seq), end, Sender::Fh, now);
        }
    }

    /// The FH has everything before `ack`.
    #[inline]
    fn advance(&mut self, ack: SeqNum, now: Instant) {
        let least = self.rtt.least().unwrap_or_default();
        self.sent.take_arrived(ack, least, now, &mut self.arrivals);
        self.sent.give_back_room(SENT_ROOM_KEPT);
        self.reported.purge(ack);
        (self.dup_acks, self.timeouts) = (0, 0);
        self.resend_at = None;
        self.recover = self.recover.filter(|recover| recover.after(ack));
    }

    /// The FH reports that it lacks something. The bytes may still be in flight.
    fn reports_loss(&self) -> bool {
        !self.reported.is_empty() || self.dup_acks >= DUP_THRESH
    }

    /// Notes the blocks of the FH that lie between its ACK and `nxt`. True if any does.
    fn take_reports(&mut self, segment: &Segment, nxt: SeqNum, now: Instant) -> bool {
        let least = self.rtt.least().unwrap_or_default();
        let mut any = false;
        for (left, right) in segment.options.sack.within(segment.ack + 1, nxt) {
            any = true;
            if self.reported.add(left, right) {
                self.sent
                    .arrived(left, right, least, now, &mut self.arrivals);
            }
        }
        any
    }

    /// What was sent at `seq` has had time for an answer.
    fn is_overdue(&self, seq: SeqNum, now: Instant) -> bool {
        let least = self.rtt.least().unwrap_or_default();
        let sent = self.sent.within(seq, seq + 1).next();
        sent.is_none_or(|sent| sent.at + least <= now)
    }
}

/// Handles what a segment of the FH acknowledges and reports of the MH's bytes.
#[inline]
pub(super) fn on_fh_segment<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) {
    let (ack, nxt) = (segment.ack, flow.mh.nxt);
    let uplink = &mut snoop.uplink;
    let una = uplink.una.unwrap_or(ack);
    let wired = &mut uplink.wired;
    wired.rtt = *snoop.fixed_half.rtt();
    let same_window = wired.window.replace(segment.window) == Some(segment.window);
    let reported = wired.reported.bytes_before(nxt);
    if ack.after(una) {
        wired.advance(ack, cx.now);
    }
    let reports = !segment.options.sack.is_empty() && wired.take_reports(segment, nxt, cx.now);
    let arrived_bytes =
        (ack.distance_from(una) + wired.reported.bytes_before(nxt)).saturating_sub(reported);
    cx.counters.implausible += u64::from(has_bad_blocks(segment, nxt));
    flow.fh.sack |= reports;
    if ack.after(una) {
        uplink.advance(ack);
        // RFC 6582, 3.2: a partial acknowledgment.
        if uplink.wired.recover.is_some() && uplink.wired.is_overdue(ack, cx.now) {
            resend_first(snoop, flow, cx);
        }
    } else if segment.is_empty() && nxt.after(ack) && (same_window || reports) {
        wired.dup_acks = wired.dup_acks.saturating_add(1);
        if wired.dup_acks == DUP_THRESH && wired.is_overdue(ack, cx.now) {
            resend_first(snoop, flow, cx);
        }
    }
    let uplink = &mut snoop.uplink;
    if uplink.wired.reports_loss()
        && uplink.lacks_what_passed(cx.now)
        && let Some(highest) = uplink.passed.highest()
    {
        uplink.undo.note_congestion(highest);
    }
    // Only what a report has named is retransmitted.
    if reports_holes(&cx.settings.snoop) {
        resend_lost(snoop, flow, arrived_bytes, cx);
        arm(snoop, cx);
    }
}

impl<P: Payload> Uplink<P> {
    /// The FH's reports or duplicate ACKs show that it lacks something that has passed and had time to
    /// arrive.
    fn lacks_what_passed(&self, now: Instant) -> bool {
        let Some(una) = self.una else {
            return false;
        };
        let wired = &self.wired;
        let has_passed = |seq: SeqNum| self.passed.next_missing(seq).0 != seq;
        let lost = |sent: &Transmission| has_passed(sent.seq) && wired.arrivals.overtook(sent);
        let mut holes = wired.reported.holes(una);
        if holes.any(|(from, to)| wired.sent.within(from, to).any(|sent| lost(&sent))) {
            return true;
        }
        let wait = wired.rtt.rto(Duration::ZERO);
        let sent = wired.sent.within(una, una + 1).next();
        let late = sent.is_some_and(|sent| sent.at + wait <= now);
        wired.dup_acks >= DUP_THRESH && has_passed(una) && late
    }
}

/// The timer runs while a report has named the first byte that the FH lacks.
pub(super) fn arm<P: Payload>(snoop: &mut Snoop<P>, cx: &Context<'_, P>) {
    let uplink = &mut snoop.uplink;
    let lacks = uplink.una.is_some_and(|una| uplink.answers_for(una));
    let wired = &mut uplink.wired;
    if !lacks || wired.timeouts >= TIMEOUTS_MAX {
        wired.resend_at = None;
        return;
    }
    let wait = wired.rtt.rto(VARIATION_MIN) * (1 << wired.timeouts);
    wired.resend_at.get_or_insert(cx.now + wait);
}

/// Handles the timer if it is due.
pub(super) fn on_timeout<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let wired = &mut snoop.uplink.wired;
    if wired.resend_at.is_some_and(|at| at <= cx.now) {
        wired.resend_at = None;
        wired.timeouts += 1;
        // RFC 2018, 8: what was reported may have been dropped since.
        wired.reported.clear();
        resend_first(snoop, flow, cx);
        arm(snoop, cx);
    }
}

/// Retransmits the first segment that the FH lacks, if a report has named it.
#[cold]
fn resend_first<P: Payload>(snoop: &mut Snoop<P>, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
    let uplink = &snoop.uplink;
    let Some(una) = uplink.una.filter(|una| uplink.answers_for(*una)) else {
        return;
    };
    let segment_len = uplink
        .cache
        .piece(una, None, u32::MAX)
        .map_or(1, |piece| piece.payload.segment_len().max(1));
    if let Some(piece) = uplink.cache.piece(una, None, segment_len) {
        resend(snoop, flow, piece, cx);
    }
}

/// Retransmits what was named, was overtaken in flight, and lies DupThresh segments below what the FH
/// has reported. At most as much is sent as has arrived, plus one segment, because a loss on the wired
/// half is congestion.
fn resend_lost<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    arrived_bytes: u32,
    cx: &mut Context<'_, P>,
) {
    let uplink = &snoop.uplink;
    let wired = &uplink.wired;
    let (Some(una), Some(highest)) = (uplink.una, wired.reported.highest()) else {
        return;
    };
    let mut lost = Vec::new();
    let mut left = None;
    'holes: for (from, to) in wired.reported.holes(una) {
        for sent in wired.sent.within(from, to) {
            let segment_len = sent.end.distance_from(sent.seq).clamp(1, SEGMENT_LEN_MAX);
            let far = highest.distance_from(sent.end) >= DUP_THRESH * segment_len;
            if !(far && wired.arrivals.overtook(&sent) && uplink.answers_for(sent.seq)) {
                continue;
            }
            let named = uplink
                .reported_ranges
                .next_missing(sent.seq + 1)
                .0
                .min(sent.end);
            let Some(piece) = uplink.cache.piece(sent.seq, Some(named), u32::MAX) else {
                continue;
            };
            let allowed = (arrived_bytes / segment_len + 1).min(RESENDS_AT_ONCE);
            let left = left.get_or_insert(allowed);
            let segments = piece.len.div_ceil(segment_len).max(1);
            if *left == 0 {
                break 'holes;
            }
            *left = left.saturating_sub(segments);
            lost.push(piece);
        }
    }
    for piece in lost {
        resend(snoop, flow, piece, cx);
    }
}

/// Retransmits a piece to the FH with the MH's newest ACK and window. What the wired half loses is
/// congestion: until the FH has everything, only the FH reports losses to the MH.
fn resend<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    piece: Piece<P>,
    cx: &mut Context<'_, P>,
) {
    let Some(window) = snoop.window else {
        return;
    };
    let uplink = &mut snoop.uplink;
    let highest = uplink.passed.highest();
    let wired = &mut uplink.wired;
    wired
        .sent
        .record(piece.seq, piece.end, Sender::Gateway, cx.now);
    wired.recover = wired.recover.or(highest);
    uplink.trusted_from = highest;
    cx.counters.repaired_uplink += 1;
    cx.actions.push(Action::Resend(Resend {
        direction: Direction::Uplink,
        ahead: false,
        offset: piece.offset,
        len: piece.len,
        seq: piece.seq,
        ack: flow.fh.una,
        window,
        flags: piece
            .flags
            .without(Flags::ECE.with(Flags::CWR))
            .with(Flags::ACK),
        timestamps: flow.mh.timestamps,
        segment_len: piece.payload.segment_len().max(1),
        path_mtu: None,
        compress: None,
        payload: piece.payload,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_fh_that_acknowledges_nothing_does_not_cost_memory_without_limit() {
        let mut wired = Wired::default();
        for n in 0..10_000 {
            let (seq, end) = (SeqNum::new(2 * n), SeqNum::new(2 * n + 1));
            wired.note_sent(seq, seq, end, Instant::from_millis(u64::from(n)));
        }
        assert_eq!(wired.sent.len(), SENT_RANGES_MAX);
    }
}
