// SPDX-License-Identifier: Apache-2.0
//! When the FH is told after all.
//!
//! A loss while the link's own queue is long, or among so many that the queue overflows, is
//! the FH's overload: whoever hid everything would fill the queue for ever. It is repaired
//! all the same, for whatever waited for the FH's own repair would wait behind that queue
//! and let it run dry. Once a window, when a hole has been filled, the FH hears of it as if
//! it were open still: three duplicate ACKs, with SACK of what lies beyond, three segments
//! at most; the MH has sent that ACK many times. The MH's newer ACKs wait until the FH sends
//! the segment again, about a round trip of the wired half; that goes no further. ACKs that
//! follow echo no timestamp older than that segment's: else the FH would take its window
//! back (Eifel, RFC 3522), for the MH got the gateway's copy. They echo none (0): the FH
//! would take a newer one for a round trip without the wireless half, and BBR's shortest
//! is with it for ten seconds. And the first one comes so soon that the FH takes it for an
//! answer to the lost copy (RFC 8985, 6.2, step 2); else all that it has sent before its
//! second copy, and knows nothing of, would be lost to it.
//!
//! A hole that stays hidden for most of the FH's retransmission timeout is shown, with
//! all else, for a fast retransmit costs it less.

use core::time::Duration;

use holdfast_wire::{Instant, SackBlocks, Segment, SeqNum};

use super::{Snoop, SnoopSet, retransmit_first};
use crate::flow::Flow;
use crate::mobile::InFlight;
use crate::rtt::RttEstimator;
use crate::schemes::Context;
use crate::{Action, Made, Payload, Verdict};

/// Segments beyond a hole, or duplicate ACKs, that make a loss of it (RFC 5681, 3.2;
/// RFC 6675, `DupThresh`).
pub(super) const DUP_THRESH: u32 = 3;
/// A queue shorter than this is never congestion.
pub(super) const QUEUE_MIN: Duration = Duration::from_millis(10);
/// So many segments that the MH lacks, and this part of all that is under way, are more than a
/// radio loses.
const OVERFLOW_SEGMENTS_MIN: u32 = 8;
const OVERFLOW_PART: u32 = 4;
/// A flow with more or less than its part of what is on its way: the least and the most of the
/// queue's limit that counts for it. Half leaves a path's round trip of queue, so that a halved
/// window still fills the link; with four times as much a flow of a quarter of its part hears of
/// nothing but an overflow, and its part is too small to make the queue.
const QUEUE_PART_MIN: f64 = 0.5;
const QUEUE_PART_MAX: f64 = 4.0;
/// The wait for an FH whose round trip is not known.
const ANSWER_WAIT: Duration = Duration::from_millis(50);
/// An FH that hears of less than [`DUP_THRESH`] segments beyond a hole waits for a quarter of
/// the shortest round trip (RFC 8985, 6.2), by a timer as coarse as this.
const TIMER_GRAIN: Duration = Duration::from_millis(10);
/// In place of a timestamp's echo: none (Linux, FreeBSD).
const NO_ECHO: u32 = 0;

/// The first packet that the MH lacks, or lacked, and the length of its segments.
pub(super) type Hole = (SeqNum, u32);

/// What the FH hears and has heard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// A hole was hidden for too long: everything, until the MH has acknowledged this.
    all_until: Option<SeqNum>,
    /// When that will be.
    late_at: Option<Instant>,
    /// Since when a loss was congestion, and the FH is to hear of the next hole that is filled.
    due_since: Option<Instant>,
    /// It has heard: not again until the MH has acknowledged this.
    until: Option<SeqNum>,
    /// It is asked to send this again, and the MH's ACKs are held until then.
    asked: Option<(SeqNum, Instant)>,
    /// What it was asked for last: the MH's D-SACK of that would have it undo.
    last: Option<SeqNum>,
    /// No ACK echoes an older timestamp.
    echo_min: Option<u32>,
}

impl Told {
    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let asked = self.asked.map(|(_, at)| at);
        [asked, self.late_at].into_iter().flatten().min()
    }

    /// The MH has acknowledged everything before `una`.
    pub(super) fn on_acked(&mut self, una: SeqNum) {
        self.all_until = self.all_until.filter(|until| until.after(una));
        self.until = self.until.filter(|until| until.after(una));
    }

    /// The FH hears everything.
    pub(super) const fn shows_all(&self) -> bool {
        self.all_until.is_some()
    }

    /// The MH's ACKs wait for the FH to send a segment again.
    pub(super) const fn holds_acks(&self) -> bool {
        self.asked.is_some()
    }

    /// The FH was asked for something of `seq..end`.
    pub(super) fn has_asked_for(&self, seq: SeqNum, end: SeqNum) -> bool {
        let within = |hole: SeqNum| seq.at_or_before(hole) && hole.before(end);
        self.last.is_some_and(within)
    }

    /// No hole is open, or the FH has been told.
    pub(super) fn hides_nothing(&mut self) {
        self.late_at = None;
    }
}

/// A hole is hidden since `since`; when it has been for too long, the FH hears everything.
pub(super) fn hide<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    since: Instant,
    cx: &mut Context<'_, P>,
) {
    let rto = snoop.fixed_half.rto(cx.rtt);
    let late_at = since + rto.mul_f64(cx.settings.snoop.hide_rtos);
    snoop.told.late_at = Some(late_at);
    if cx.now > late_at {
        tell_all(snoop, flow, cx);
    }
}

/// The FH hears everything until all that it has sent is acknowledged.
pub(super) fn tell_all<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    snoop.told.late_at = None;
    if snoop.told.all_until.replace(flow.fh.max).is_none() {
        cx.counters.shown_late += 1;
    }
}

/// A packet that was sent once is lost: the FH is to be told if it is its overload.
pub(super) fn judge_loss<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &Context<'_, P>,
) {
    let told = &snoop.told;
    if told.until.is_none() && told.asked.is_none() && is_congested(snoop, flow, cx) {
        snoop.told.due_since.get_or_insert(cx.now);
    }
}

/// A hole was filled: if the FH is to be told of congestion it hears of that hole, in ACKs
/// with the window that it knows, and true is returned.
pub(super) fn tells_of_filled<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    (hole, len): Hole,
    window: Option<u16>,
    cx: &mut Context<'_, P>,
) -> bool {
    let una = flow.fh.una;
    let left = hole + len;
    let told = snoop.told;
    let waits = told.due_since.is_some() && told.asked.is_none();
    if !waits || cx.settings.snoop.set != SnoopSet::Today {
        return false;
    }
    let tells = (left + len).at_or_before(una);
    if ends_waiting(snoop, flow, tells, cx) {
        return false;
    }
    let tsecr = flow.mh.timestamps.map_or(0, |mh| mh.tsecr);
    let Some(window) = window.filter(|_| tells) else {
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
        wait += path_rtt(snoop, cx.rtt).unwrap_or_default() / 4 + TIMER_GRAIN;
    }
    let told = &mut snoop.told;
    (told.due_since, told.until) = (None, Some(flow.fh.max));
    (told.asked, told.last) = (Some((hole, cx.now + wait)), Some(hole));
    cx.counters.congested += 1;
    true
}

/// For a round trip no hole has been filled by which the FH could be told. If the queue is
/// gone there is nothing to tell any more; else, unless this hole `tells`, the FH hears
/// everything for a window. True if one of these is so.
fn ends_waiting<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    tells: bool,
    cx: &mut Context<'_, P>,
) -> bool {
    let wired = snoop.fixed_half.least_rtt().unwrap_or_default();
    let rtt = snoop.rtt.unwrap_or_default() + wired;
    let is_over = |since: Instant| cx.now.saturating_since(since) > rtt;
    if !snoop.told.due_since.is_some_and(is_over) {
        return false;
    }
    let congested = is_congested(snoop, flow, cx);
    if congested && tells {
        return false;
    }
    snoop.told.due_since = None;
    if congested {
        snoop.told.until = Some(flow.fh.max);
        cx.counters.congested += 1;
        tell_all(snoop, flow, cx);
    }
    true
}

/// A segment of the FH: if it was asked for, the ACKs that wait go on. Whether it was.
pub(super) fn is_answered<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) -> bool {
    let Some((hole, _)) = snoop.told.asked else {
        return false;
    };
    if !(segment.seq.at_or_before(hole) && hole.before(segment.end())) {
        return false;
    }
    snoop.told.echo_min = segment.options.timestamps.map(|own| own.tsval);
    snoop.told.until = Some(flow.fh.max);
    release(snoop, flow, cx);
    true
}

/// The newest ACK that has waited goes on.
pub(super) fn release<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    if snoop.told.asked.take().is_none() {
        return;
    }
    let newest = flow.mh.timestamps.map_or(NO_ECHO, |mh| mh.tsecr);
    let least = snoop.told.echo_min.unwrap_or(newest);
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

/// Whoever has not answered is told at the next loss; whoever does not know of a hole for
/// too long hears of it by the MH's next ACK, which is asked for.
pub(super) fn on_timeout<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let told = snoop.told;
    if told.asked.is_some_and(|(_, at)| at <= cx.now) {
        release(snoop, flow, cx);
    }
    if told.late_at.is_some_and(|at| at <= cx.now) {
        tell_all(snoop, flow, cx);
        if !flow.repairs_itself() {
            retransmit_first(flow, cx);
        }
    }
}

const fn is_older(tsecr: u32, least: u32) -> bool {
    (least.wrapping_sub(tsecr) as i32) > 0
}

/// An ACK that goes to the FH: without its echo if that is older than may be.
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
    let (Some(least), Some(own)) = (snoop.told.echo_min, segment.options.timestamps) else {
        return verdict;
    };
    if !is_older(own.tsecr, least) {
        snoop.told.echo_min = None;
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

/// What the wireless half's round trip has been at least of late: what is left of it
/// without the shortest ever is the queue that stands. An ACK of a hole that was filled lets
/// the FH send a burst; the queue that this makes comes and goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StandingRtt {
    begun: Option<Instant>,
    now: Option<Duration>,
    before: Option<Duration>,
}

impl StandingRtt {
    /// A round trip, with the time over which the least counts.
    pub(super) fn sample(&mut self, rtt: Duration, span: Duration, now: Instant) {
        let over = self
            .begun
            .is_none_or(|begun| now.saturating_since(begun) >= span);
        if over {
            (self.begun, self.before, self.now) = (Some(now), self.now, None);
        }
        self.now = Some(self.now.map_or(rtt, |least| least.min(rtt)));
    }

    /// The least of the last span and of what has passed of this one.
    fn get(&self) -> Option<Duration> {
        Some(self.now?.min(self.before?))
    }
}

/// The whole path's shortest round trip.
pub(super) fn path_rtt<P>(snoop: &Snoop<P>, rtt: &RttEstimator) -> Option<Duration> {
    let least = rtt.least()?;
    Some(least + snoop.fixed_half.least_rtt().unwrap_or(least))
}

/// A queue shorter than this does not overflow.
pub(super) fn short_queue<P>(snoop: &Snoop<P>, rtt: &RttEstimator) -> Duration {
    path_rtt(snoop, rtt).map_or(QUEUE_MIN, |path| QUEUE_MIN.min(path / 8))
}

/// The MH lacks so much of what has been sent that a queue must have overflowed, and one
/// stands. What a radio loses is never so much of a window, or comes in a burst; what a burst
/// of the FH loses in a queue that runs empty after it is no congestion either.
fn overflows<P: Payload>(snoop: &Snoop<P>, flow: &Flow<P>, cx: &Context<'_, P>) -> bool {
    let una = flow.fh.una;
    let (Some(standing), Some(least)) = (snoop.standing.get(), cx.rtt.least()) else {
        return false;
    };
    if standing.saturating_sub(least) < short_queue(snoop, cx.rtt) {
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

/// The queue is of all flows of the MH: who has more on its way than the others hears of it
/// sooner, and who has less later, or those that began small would stay small.
fn queue_part(own_bytes: u32, all: InFlight) -> f64 {
    if own_bytes == 0 {
        return 1.0;
    }
    (all.fair_part() as f64 / f64::from(own_bytes)).clamp(QUEUE_PART_MIN, QUEUE_PART_MAX)
}

/// The link's own queue overflows, or is so long that a loss is the FH's overload: as long as
/// the whole path's shortest round trip takes, or the settings' part of it, for a flow with its
/// fair part of what is on its way.
fn is_congested<P: Payload>(snoop: &Snoop<P>, flow: &Flow<P>, cx: &Context<'_, P>) -> bool {
    let Some(least) = cx.rtt.least() else {
        return false;
    };
    let path = path_rtt(snoop, cx.rtt).unwrap_or(least);
    let queue_max = path
        .mul_f64(cx.settings.snoop.congested_rtts * queue_part(flow.in_flight(), cx.in_flight))
        .max(QUEUE_MIN);
    let is_over =
        |rtt: Option<Duration>, limit| rtt.is_some_and(|rtt| rtt.saturating_sub(least) > limit);
    // What a burst of a window's length makes is over after one round trip; twice that is
    // slow start that has overshot.
    overflows(snoop, flow, cx)
        || is_over(snoop.standing.get(), queue_max)
        || is_over(snoop.rtt, queue_max * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part, in percent, for a flow with the first of so many bytes on their way.
    fn percent(flows: &[u32]) -> u32 {
        let mut all = InFlight::default();
        for bytes in flows {
            all.count(0, *bytes);
        }
        (queue_part(flows[0], all) * 100.0).round() as u32
    }

    #[test]
    fn who_has_more_than_the_others_hears_of_the_queue_sooner_and_who_has_less_later() {
        assert_eq!(percent(&[100]), 100, "a flow alone");
        assert_eq!(percent(&[100, 100, 0]), 100, "one idle");
        assert_eq!(percent(&[150, 100, 50]), 67);
        assert_eq!(percent(&[50, 150, 100]), 200);
        assert_eq!(percent(&[10_000, 1, 1, 1]), 50, "at the least");
        assert_eq!(percent(&[1, 10_000, 1, 1]), 400, "at the most");
        assert_eq!(percent(&[0]), 100);
    }
}
