// SPDX-License-Identifier: Apache-2.0
//! When a loss on the wireless half is reported to the FH.
//!
//! A loss while the link's own queue is long, or a loss of more segments than a radio loses, is the
//! FH's overload: a gateway that hid every loss would keep the queue full. The gateway repairs the loss
//! all the same: a packet that waited for the FH's own retransmission would wait behind that queue
//! and let it run dry. Once a window, when a hole has been filled, the gateway reports that hole to
//! the FH: three duplicate ACKs with SACK of three segments at most beyond it. The MH has sent that
//! ACK many times. The MH's newer ACKs are withheld until the FH retransmits the segment, about a
//! round trip of the wired half; that retransmission is suppressed.
//!
//! ACKs that follow echo no timestamp older than that segment's: otherwise the FH would undo its
//! window's reduction (Eifel, RFC 3522), because the MH got the gateway's copy. They echo none (0): the
//! FH would take a newer one for a round trip without the wireless half, and BBR would use that for
//! ten seconds. And the first ACK comes so soon that the FH takes it for an answer to the lost copy
//! (RFC 8985, 6.2, step 2). Otherwise the FH would count as lost all that it has sent before its
//! second copy.
//!
//! A hole that stays hidden for most of the FH's retransmission timeout is reported, with everything
//! else: a fast retransmit costs the FH less than a timeout.

use core::time::Duration;

use holdfast_wire::{Instant, SackBlocks, Segment, SeqNum};

use super::{Snoop, SnoopSet, retransmit_first};
use crate::flow::Flow;
use crate::mobile::InFlight;
use crate::rtt::RttEstimator;
use crate::schemes::Context;
use crate::{Action, Made, Payload, Verdict};

/// Segments beyond a hole, or duplicate ACKs, that show a loss (RFC 5681, 3.2; RFC 6675,
/// `DupThresh`).
pub(super) const DUP_THRESH: u32 = 3;
/// A queue shorter than this is never congestion.
pub(super) const QUEUE_MIN: Duration = Duration::from_millis(10);
/// If the MH lacks this many segments, and this part of everything in flight, it is more than a
/// radio loses.
const OVERFLOW_SEGMENTS_MIN: u32 = 8;
const OVERFLOW_PART: u32 = 4;
/// Limits for a flow with more or less than its fair part of the bytes in flight: the smallest and
/// the largest factor of the queue's limit. Half leaves a queue of a round trip, so that a halved
/// window still fills the link. With a factor of four a flow with a quarter of its part gets a
/// report only after an overflow; its part is too small to make the queue.
const QUEUE_PART_MIN: f64 = 0.5;
const QUEUE_PART_MAX: f64 = 4.0;
/// The wait for an FH with an unknown round trip.
const ANSWER_WAIT: Duration = Duration::from_millis(50);
/// An FH that sees fewer than [`DUP_THRESH`] segments beyond a hole waits for a quarter of the
/// shortest round trip (RFC 8985, 6.2), with a timer of this resolution.
const TIMER_GRAIN: Duration = Duration::from_millis(10);
/// The echo of no timestamp (Linux, FreeBSD).
const NO_ECHO: u32 = 0;

/// The first packet that the MH lacks or lacked, and the length of its segments.
pub(super) type Hole = (SeqNum, u32);

/// The reports to the FH.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FhReport {
    /// A hole was hidden for too long: everything is reported until the MH has acknowledged this.
    all_until: Option<SeqNum>,
    /// When the open hole will have been hidden for too long.
    late_at: Option<Instant>,
    /// Since when a loss was congestion. The next hole that is filled must be reported.
    due_since: Option<Instant>,
    /// Congestion was reported: not again until the MH has acknowledged this.
    until: Option<SeqNum>,
    /// The FH is expected to retransmit this; the MH's ACKs are withheld until then.
    requested: Option<(SeqNum, Instant)>,
    /// The FH retransmits this because of the report: the MH's D-SACK of it would make the FH undo.
    last: Option<SeqNum>,
    /// No ACK may echo an older timestamp.
    echo_min: Option<u32>,
}

impl FhReport {
    /// The next deadline.
    pub(super) fn deadlines(&self) -> [Option<Instant>; 2] {
        [self.requested.map(|(_, at)| at), self.late_at]
    }

    /// The MH has acknowledged everything before `una`.
    pub(super) fn on_acked(&mut self, una: SeqNum) {
        self.all_until = self.all_until.filter(|until| until.after(una));
        self.until = self.until.filter(|until| until.after(una));
    }

    /// True while every loss is reported to the FH.
    pub(super) const fn reports_all(&self) -> bool {
        self.all_until.is_some()
    }

    /// True while the MH's ACKs wait for the FH's retransmission.
    pub(super) const fn withholds_acks(&self) -> bool {
        self.requested.is_some()
    }

    /// True if a report made the FH retransmit something of `seq..end`.
    pub(super) fn has_requested(&self, seq: SeqNum, end: SeqNum) -> bool {
        let within = |hole: SeqNum| seq.at_or_before(hole) && hole.before(end);
        self.last.is_some_and(within)
    }

    /// No hole is open, or the FH knows it.
    pub(super) fn on_nothing_hidden(&mut self) {
        self.late_at = None;
    }
}

/// A hole is hidden since `since`. If that is too long ago, everything is reported.
pub(super) fn hide<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    since: Instant,
    cx: &mut Context<'_, P>,
) {
    let rto = snoop.fixed_half.rto(cx.rtt());
    let late_at = since + rto.mul_f64(cx.settings.snoop.hide_rtos);
    snoop.fh_report.late_at = Some(late_at);
    if cx.now > late_at {
        report_all(snoop, flow, cx);
    }
}

/// Reports everything until all that the FH has sent is acknowledged.
pub(super) fn report_all<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    snoop.fh_report.late_at = None;
    if snoop.fh_report.all_until.replace(flow.fh.max).is_none() {
        cx.counters.shown_late += 1;
    }
}

/// A packet that was sent once is lost: it must be reported if it is the FH's overload.
pub(super) fn judge_loss<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &Context<'_, P>,
) {
    let report = &snoop.fh_report;
    if report.until.is_none() && report.requested.is_none() && is_congested(snoop, flow, cx) {
        snoop.fh_report.due_since.get_or_insert(cx.now);
    }
}

/// A hole was filled. If congestion must be reported, that hole is reported with ACKs of the window
/// that the FH knows, and true is returned.
pub(super) fn report_filled<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    (hole, len): Hole,
    window: Option<u16>,
    cx: &mut Context<'_, P>,
) -> bool {
    let una = flow.fh.una;
    let left = hole + len;
    let report = snoop.fh_report;
    let waits = report.due_since.is_some() && report.requested.is_none();
    if !waits || cx.settings.snoop.set != SnoopSet::Today {
        return false;
    }
    let can_report = (left + len).at_or_before(una);
    if ends_waiting(snoop, flow, can_report, cx) {
        return false;
    }
    let tsecr = flow.mh.timestamps.map_or(0, |mh| mh.tsecr);
    let Some(window) = window.filter(|_| can_report) else {
        return false;
    };
    let right = una.min(left + DUP_THRESH.saturating_mul(len));
    let mut sack = SackBlocks::default();
    if snoop.sack_seen {
        sack.push(left, right);
    }
    for _ in 0..DUP_THRESH {
        if let Some(Action::Send(made)) = flow.made_ack(hole, window, tsecr) {
            cx.actions.push(Action::Send(Made { sack, ..made }));
        }
    }
    let fixed_half = &snoop.fixed_half;
    let mut wait = fixed_half.answer_wait(ANSWER_WAIT, QUEUE_MIN * 2);
    if right.distance_from(left) < DUP_THRESH.saturating_mul(len) {
        wait += path_rtt(snoop, cx.rtt()).unwrap_or_default() / 4 + TIMER_GRAIN;
    }
    let report = &mut snoop.fh_report;
    (report.due_since, report.until) = (None, Some(flow.fh.max));
    (report.requested, report.last) = (Some((hole, cx.now + wait)), Some(hole));
    cx.counters.congested += 1;
    true
}

/// For a round trip no hole was filled that could be reported. Without a queue nothing is reported
/// any more. Otherwise, unless this hole `can_report`, everything is reported for a window. True in
/// both cases.
fn ends_waiting<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    can_report: bool,
    cx: &mut Context<'_, P>,
) -> bool {
    let wired = snoop.fixed_half.least_rtt().unwrap_or_default();
    let rtt = snoop.rtt().unwrap_or_default() + wired;
    let is_over = |since: Instant| cx.now.saturating_since(since) > rtt;
    if !snoop.fh_report.due_since.is_some_and(is_over) {
        return false;
    }
    let congested = is_congested(snoop, flow, cx);
    if congested && can_report {
        return false;
    }
    snoop.fh_report.due_since = None;
    if congested {
        snoop.fh_report.until = Some(flow.fh.max);
        cx.counters.congested += 1;
        report_all(snoop, flow, cx);
    }
    true
}

/// True if this segment of the FH is the expected retransmission. Then the withheld ACKs are sent.
pub(super) fn is_answered<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) -> bool {
    let Some((hole, _)) = snoop.fh_report.requested else {
        return false;
    };
    if !(segment.seq.at_or_before(hole) && hole.before(segment.end())) {
        return false;
    }
    snoop.fh_report.echo_min = segment.options.timestamps.map(|own| own.tsval);
    snoop.fh_report.until = Some(flow.fh.max);
    release(snoop, flow, cx);
    true
}

/// Sends the newest withheld ACK.
pub(super) fn release<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    if snoop.fh_report.requested.take().is_none() {
        return;
    }
    let newest = flow.mh.timestamps.map_or(NO_ECHO, |mh| mh.tsecr);
    let least = snoop.fh_report.echo_min.unwrap_or(newest);
    let tsecr = if is_older(newest, least) {
        NO_ECHO
    } else {
        newest
    };
    let made = snoop
        .window
        .and_then(|window| flow.made_ack(flow.fh.una, window, tsecr));
    cx.actions.extend(made);
}

/// An FH that has not answered gets the report at the next loss. A hole that was hidden for too long
/// is reported by the MH's next ACK, which a retransmission causes.
pub(super) fn on_timeout<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let report = snoop.fh_report;
    if report.requested.is_some_and(|(_, at)| at <= cx.now) {
        release(snoop, flow, cx);
    }
    if report.late_at.is_some_and(|at| at <= cx.now) {
        report_all(snoop, flow, cx);
        if !flow.retransmits_itself() {
            retransmit_first(flow, cx);
        }
    }
}

const fn is_older(tsecr: u32, least: u32) -> bool {
    (least.wrapping_sub(tsecr) as i32) > 0
}

/// Removes the echo of an ACK for the FH if it is too old.
pub(super) fn with_echo<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    verdict: Verdict,
    cx: &mut Context<'_, P>,
) -> Verdict {
    let bare = match verdict {
        Verdict::Forward => segment.options.sack.is_empty(),
        Verdict::ForwardWithSack(blocks) => blocks.is_empty(),
        _ => false,
    };
    let (Some(least), Some(own)) = (snoop.fh_report.echo_min, segment.options.timestamps) else {
        return verdict;
    };
    if !is_older(own.tsecr, least) {
        snoop.fh_report.echo_min = None;
        return verdict;
    }
    if !bare {
        return verdict;
    }
    match flow.made_ack(segment.ack, segment.window, NO_ECHO) {
        Some(made) => {
            cx.actions.push(made);
            Verdict::Suppress
        }
        None => verdict,
    }
}

/// The recent minimum of the wireless half's round trip. Its excess over the shortest ever is the
/// standing queue. An ACK of a filled hole makes the FH send a burst; the queue of that burst comes
/// and goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StandingRtt {
    begun: Option<Instant>,
    current: Option<Duration>,
    previous: Option<Duration>,
}

impl StandingRtt {
    /// Adds a round trip; `span` is the time over which the minimum counts.
    pub(super) fn sample(&mut self, rtt: Duration, span: Duration, now: Instant) {
        let over = self
            .begun
            .is_none_or(|begun| now.saturating_since(begun) >= span);
        if over {
            (self.begun, self.previous, self.current) = (Some(now), self.current, None);
        }
        self.current = Some(self.current.map_or(rtt, |least| least.min(rtt)));
    }

    /// The minimum of the last span and of the present one.
    fn get(&self) -> Option<Duration> {
        Some(self.current?.min(self.previous?))
    }
}

/// The whole path's shortest round trip.
pub(super) fn path_rtt<P>(snoop: &Snoop<P>, rtt: &RttEstimator) -> Option<Duration> {
    let least = rtt.least()?;
    Some(least + snoop.fixed_half.least_rtt().unwrap_or(least))
}

/// A shorter queue counts as one that has not overflowed, although a queue of a few packets may have.
pub(super) fn short_queue<P>(snoop: &Snoop<P>, rtt: &RttEstimator) -> Duration {
    path_rtt(snoop, rtt).map_or(QUEUE_MIN, |path| QUEUE_MIN.min(path / 8))
}

/// The MH lacks so much of what was sent that a queue must have overflowed, and a queue stands. A
/// radio never loses so much of a window, except in a burst. What a burst of the FH loses in a queue
/// that runs empty after it is no congestion either.
fn overflows<P: Payload>(snoop: &Snoop<P>, flow: &Flow<P>, cx: &Context<'_, P>) -> bool {
    let una = flow.fh.una;
    let (Some(standing), Some(least)) = (snoop.standing.get(), cx.rtt().least()) else {
        return false;
    };
    if standing.saturating_sub(least) < short_queue(snoop, cx.rtt()) {
        return false;
    }
    let (Some(highest), Some(len)) = (flow.sacked.highest(), flow.cache.segment_len_at(una)) else {
        return false;
    };
    let reach = highest.distance_from(una);
    let missing = reach.saturating_sub(flow.sacked.bytes_before(highest));
    let sent = flow.fh.max.distance_from(una);
    missing >= OVERFLOW_SEGMENTS_MIN.saturating_mul(len) && missing >= sent / OVERFLOW_PART
}

/// All flows of the MH share the queue. A flow with more bytes in flight than the others gets a
/// report sooner, one with fewer later; otherwise flows that began small would stay small.
fn queue_part(own_bytes: u32, all: InFlight) -> f64 {
    if own_bytes == 0 {
        return 1.0;
    }
    (all.fair_part() as f64 / f64::from(own_bytes)).clamp(QUEUE_PART_MIN, QUEUE_PART_MAX)
}

/// The link's own queue overflows, or its length makes a loss the FH's overload. The limit is the
/// whole path's shortest round trip, or the settings' part of it, for a flow with its fair part of
/// the bytes in flight.
fn is_congested<P: Payload>(snoop: &Snoop<P>, flow: &Flow<P>, cx: &Context<'_, P>) -> bool {
    let Some(least) = cx.rtt().least() else {
        return false;
    };
    let path = path_rtt(snoop, cx.rtt()).unwrap_or(least);
    let queue_max = path
        .mul_f64(cx.settings.snoop.congested_rtts * queue_part(flow.in_flight(), cx.in_flight()))
        .max(QUEUE_MIN);
    let is_over =
        |rtt: Option<Duration>, limit| rtt.is_some_and(|rtt| rtt.saturating_sub(least) > limit);
    // The queue that a burst of one window makes is empty after one round trip. Twice the limit is a
    // slow start that has overshot.
    overflows(snoop, flow, cx)
        || is_over(snoop.standing.get(), queue_max)
        || is_over(snoop.rtt(), queue_max * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part in percent for the first of flows with these bytes in flight.
    fn percent(flows: &[u32]) -> u32 {
        let mut all = InFlight::default();
        for bytes in flows {
            all.count(0, *bytes);
        }
        (queue_part(flows[0], all) * 100.0).round() as u32
    }

    #[test]
    fn a_flow_with_more_in_flight_gets_a_report_sooner_and_one_with_less_later() {
        assert_eq!(percent(&[100]), 100, "a flow alone");
        assert_eq!(percent(&[100, 100, 0]), 100, "one idle");
        assert_eq!(percent(&[150, 100, 50]), 67);
        assert_eq!(percent(&[50, 150, 100]), 200);
        assert_eq!(percent(&[10_000, 1, 1, 1]), 50, "at the least");
        assert_eq!(percent(&[1, 10_000, 1, 1]), 400, "at the most");
        assert_eq!(percent(&[0]), 100);
    }
}
