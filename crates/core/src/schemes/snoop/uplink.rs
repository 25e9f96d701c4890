// SPDX-License-Identifier: Apache-2.0
//! Data of the MH (section 3.2): a loss on the wireless half is reported to the MH within a round
//! trip of that half. The report is duplicate ACKs with SACK blocks, made in the FH's name. An
//! unmodified MH retransmits.
//!
//! The paper does not define the content of a report; its MH was modified. Today's senders count as
//! lost everything that was sent before a reported segment and is not reported itself (RFC 6675,
//! 4; RFC 8985, 6.2). Therefore:
//!
//! - A report names everything that has passed and that the FH has not acknowledged, on both sides
//!   of the hole; otherwise the MH would retransmit bytes that are in flight to the FH. All of it is
//!   cached ([`SegmentCache`]) until the FH acknowledges it. Only cached bytes are named, and a range
//!   that is not cached ends the report.
//! - The first byte after the MH's `snd.una` cannot be named (RFC 2018, 4: it would be
//!   acknowledged). The MH retransmits that byte, or the segment that contains it.
//! - An ACK of the FH that ends within a named range looks as if the FH had dropped what it
//!   reported (RFC 2018, 8). Linux then has a timeout. Such ACKs without data are withheld until the
//!   FH reaches the range's end: a round trip of the wired half, and [`WITHHOLD_MAX`] more at most. An
//!   ACK with data is not withheld. So nothing is reported while the FH sends data of its own, and for
//!   the same time after.
//!
//! If bytes were named and then lost on the wired half, the gateway must retransmit them, because
//! the MH does so only after a timeout ([`wired`]). Until that is over nothing is reported. If the
//! gateway dies, that timeout repairs the loss.
//!
//! `today`: nothing is reported ([`mod@report`]), and so nothing is cached. A loss on the wireless half
//! does not cost the MH its window in the end ([`undo`]), unless it is taken for the MH's overload.
//!
//! Reports are for flows with SACK at both ends. They begin after a number of packets beyond a hole,
//! or when nothing new arrives for a while. They are repeated after a round trip, at growing
//! intervals while the MH is silent.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, SackBlocks, Segment, SeqNum};

use super::echo::EchoTimer;
use super::fh_report::{DUP_THRESH, QUEUE_MIN};
use super::{Snoop, SnoopSet, SnoopSettings, has_bad_blocks};
use crate::cache::{Insertion, SegmentCache};
use crate::flow::{Arrivals, Flow, Sender, Stage, Transmissions};
use crate::rtt::RttEstimator;
use crate::sack::Scoreboard;
use crate::schemes::Context;
use crate::timers::earliest;
use crate::{Action, Payload};

mod report;
mod rest;
mod undo;
mod wired;

use report::report;
pub(in crate::schemes) use rest::{passes_at_rest_to_fh, passes_at_rest_to_mh};
use undo::Undo;
use wired::Wired;

/// Holes that are tracked, at most. `1995` does not report further ones.
const GAPS_MAX: usize = 64;
/// An ACK is withheld for the wired half's round trip plus this: less than a sender adds to the whole
/// path's (Linux: `TCP_RTO_MIN`, 200 ms).
const WITHHOLD_MAX: Duration = Duration::from_millis(100);
/// Before a round trip is known: an MH that is silent for longer had nothing to send (RFC 6298, 2.1).
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// A hole in the data of the MH.
#[derive(Clone, Copy, Debug)]
struct Gap {
    seq: SeqNum,
    end: SeqNum,
    /// The number of packets when it opened.
    packets: u32,
    /// The MH's clock at that time.
    tsval: Option<u32>,
    opened_at: Instant,
    /// The MH's own queue was long: its own overload.
    is_overload: bool,
    /// It must be reported.
    must_be_reported: bool,
    reported_at: Option<Instant>,
}

/// The state of the MH's data in flight to the FH.
#[derive(Clone, Debug)]
pub(crate) struct Uplink<P> {
    /// What the FH has acknowledged; `None` until the first segment of the MH.
    una: Option<SeqNum>,
    /// The highest ACK that the MH has got.
    acked: SeqNum,
    /// The FH has acknowledged all data of the MH, up to here, and nothing is cached, withheld or awaited. A
    /// download is mostly in this state, and its packets pass at little cost.
    idle_una: Option<SeqNum>,
    /// The bytes that have passed, and their cached part.
    passed: Scoreboard,
    cache: SegmentCache<P>,
    /// What reports have named.
    reported_ranges: Scoreboard,
    gaps: Vec<Gap>,
    /// Packets with new data; wraps around.
    packets: u32,
    /// When gaps are reported if no new data arrive.
    gaps_due_at: Option<Instant>,
    /// When to send the reports that are due.
    report_at: Option<Instant>,
    /// Reports since the MH last sent data.
    repeats: u32,
    /// Nothing is reported until the FH has acknowledged this.
    trusted_from: Option<SeqNum>,
    /// Until then no ACK is withheld either.
    passes_acks: bool,
    /// Since when ACKs of the FH are withheld.
    withheld_since: Option<Instant>,
    /// Until then no holes are reported, because the FH sends data.
    fh_sends_until: Option<Instant>,
    /// The FH's timestamps, echoed by the MH.
    echo: EchoTimer,
    /// The FH had everything that had passed when the wait for the echo began.
    may_be_idle: bool,
    /// When the last segment of the MH arrived, and the last one with data.
    received_at: Option<Instant>,
    data_at: Option<Instant>,
    rtt: RttEstimator,
    newest_rtt: Option<Duration>,
    /// When the newest round trip was measured.
    mh_queue_is_long: bool,
    /// `today`: losses that show until then are the MH's overload.
    congested_until: Option<Instant>,
    undo: Undo,
    wired: Wired,
}

impl<P> Default for Uplink<P> {
    fn default() -> Self {
        Self {
            una: None,
            acked: SeqNum::default(),
            idle_una: None,
            passed: Scoreboard::default(),
            cache: SegmentCache::default(),
            reported_ranges: Scoreboard::default(),
            gaps: Vec::new(),
            packets: 0,
            gaps_due_at: None,
            report_at: None,
            repeats: 0,
            trusted_from: None,
            passes_acks: false,
            withheld_since: None,
            fh_sends_until: None,
            echo: EchoTimer::default(),
            may_be_idle: false,
            received_at: None,
            data_at: None,
            rtt: RttEstimator::default(),
            newest_rtt: None,
            mh_queue_is_long: false,
            congested_until: None,
            undo: Undo::default(),
            wired: Wired::default(),
        }
    }
}

impl<P: Payload> Uplink<P> {
    /// Bytes of payload in the cache.
    pub(crate) const fn bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// True if the byte at `seq`, or the FIN, is cached.
    #[cfg(test)]
    pub(crate) fn holds(&self, seq: SeqNum) -> bool {
        self.cache.holds(seq)
    }

    /// Entries in the cache.
    pub(crate) fn entries(&self) -> usize {
        self.cache.entries()
    }

    /// Nothing of the MH's data is in flight to the FH.
    pub(super) fn is_empty(&self) -> bool {
        self.passed.is_empty() && self.cache.entries() == 0
    }

    /// The next deadline.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.idle_una.is_some() {
            return None;
        }
        earliest([
            self.gaps_due_at,
            self.report_at,
            self.withheld_until(),
            self.wired.deadline(),
        ])
    }

    /// The highest ACK that the MH has got, while newer ones are withheld. A segment for the MH must not have a
    /// newer one, which may end within a named range.
    pub(super) fn ack_shown(&self) -> Option<SeqNum> {
        self.withheld_since.map(|_| self.acked)
    }

    /// The FH sends data: holes are not reported for a while.
    fn note_fh_sends(&mut self, now: Instant) {
        let wired = self.wired.rtt.srtt().unwrap_or_default();
        self.fh_sends_until = Some(now + wired + WITHHOLD_MAX);
    }

    /// True if `seq` is within a named range.
    fn has_named(&self, seq: SeqNum) -> bool {
        self.reported_ranges.next_missing(seq).0 != seq
    }

    /// The gateway has the byte at `seq`, and the MH relies on it: it was named, or is the byte before
    /// a named range, which cannot be named.
    fn answers_for(&self, seq: SeqNum) -> bool {
        self.cache.holds(seq) && (self.has_named(seq) || self.has_named(seq + 1))
    }

    fn withheld_until(&self) -> Option<Instant> {
        let wired = self.wired.rtt.srtt().unwrap_or_default();
        self.withheld_since
            .map(|since| since + wired + WITHHOLD_MAX)
    }

    /// The FH has everything before `una`.
    #[inline]
    fn advance(&mut self, una: SeqNum) {
        self.una = Some(una);
        self.passed.purge(una);
        self.reported_ranges.purge(una);
        if !self.cache.is_empty() {
            self.cache.purge(una);
        }
        if !self.gaps.is_empty() {
            self.gaps.retain(|gap| gap.end.after(una));
            self.stop_timers_without_gap();
        }
        self.trusted_from = self.trusted_from.filter(|from| from.after(una));
        self.passes_acks &= self.trusted_from.is_some();
    }

    /// Removes the gaps, and the parts of gaps, that were filled.
    fn forget_filled(&mut self, now: Instant) {
        let since = now - self.repair_max();
        let (passed, undo) = (&self.passed, &mut self.undo);
        self.gaps.retain_mut(|gap| {
            gap.seq = passed.next_missing(gap.seq).0;
            let open = gap.seq.before(gap.end);
            match passed.highest() {
                _ if open => {}
                // What the MH had sent before this retransmission is of the same window.
                Some(to) if gap.is_overload => undo.note_congestion(to),
                _ => undo.note_filled(gap, since),
            }
            open
        });
        self.stop_timers_without_gap();
    }

    /// Stops the timers for reports if there is no gap.
    fn stop_timers_without_gap(&mut self) {
        if self.gaps.is_empty() {
            (self.gaps_due_at, self.report_at) = (None, None);
        }
    }

    /// Notes the range of a data segment. `highest`: the end of all data that have passed. True if the range is new
    /// and was noted: then the wait for new data ends.
    fn note_passed(
        &mut self,
        (seq, end): (SeqNum, SeqNum),
        highest: SeqNum,
        packets: u32,
        (tsval, now): (Option<u32>, Instant),
    ) -> bool {
        let gap = seq.after(highest);
        if (gap && self.gaps.len() >= GAPS_MAX) || !self.passed.add(seq, end) {
            return false;
        }
        if gap {
            self.gaps.push(Gap {
                seq: highest,
                end: seq,
                packets: self.packets,
                tsval,
                opened_at: now,
                is_overload: false,
                must_be_reported: false,
                reported_at: None,
            });
        } else if seq.before(highest) {
            self.forget_filled(now);
        }
        self.packets = self.packets.wrapping_add(packets);
        self.gaps_due_at = None;
        true
    }

    /// The longest silence of an MH that has something to send.
    fn silence_max(&self) -> Duration {
        let least = self.rtt.least();
        least.map_or(SILENCE_MAX, |least| least + least.max(QUEUE_MIN))
    }

    /// Takes the echo of a passed timestamp. One from before a pause or an outage shows no round trip.
    #[inline]
    fn take_echo(&mut self, segment: &Segment, cx: &Context<'_, P>) {
        let now = cx.now;
        let received_at = self.received_at.replace(now);
        if self.may_be_idle {
            let silent_since = received_at.max(self.echo.awaited_since());
            let silence = silent_since.map(|since| now.saturating_since(since));
            if silence.is_some_and(|silence| silence > self.silence_max()) {
                self.echo.forget();
            }
        }
        let Some(rtt) = self.echo.handle_reply(segment.options.timestamps, now) else {
            return;
        };
        let losses = cx.upload_losses();
        if losses.is_some_and(|losses| losses.was_interrupted_within(rtt, now)) {
            return;
        }
        self.rtt.sample(rtt);
        self.newest_rtt = Some(rtt);
        self.mh_queue_is_long = self.has_long_queue(rtt, cx);
        if let Some(losses) = losses {
            losses.set_path_rtt(self.path_rtt());
        }
    }
}

/// Holes in the MH's data are reported to it.
pub(super) fn reports_holes(settings: &SnoopSettings) -> bool {
    settings.set == SnoopSet::Paper1995
}

/// A segment of the MH passes to the FH. `room`: bytes that the cache has left for its mobile.
pub(in crate::schemes) fn on_mh_segment<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    payload: &P,
    room: usize,
    cx: &mut Context<'_, P>,
) {
    if flow.stage != Stage::Open {
        return;
    }
    let uplink = &mut snoop.uplink;
    if uplink.idle_una.take().is_some() {
        uplink.wired.rtt = *snoop.fixed_half.rtt();
    }
    uplink.take_echo(segment, cx);
    let una = *uplink.una.get_or_insert_with(|| {
        let fh_ack = flow.fh.ack;
        uplink.acked = fh_ack;
        if segment.seq.after(fh_ack) && !flow.fh_has_acknowledged_nothing() {
            // It passed before this gateway was on the path.
            uplink.passed.add(fh_ack, segment.seq);
        }
        fh_ack
    });
    let (seq, end) = (segment.seq.max(una), segment.end());
    if seq.before(end) && !segment.is_empty() {
        if !reports_holes(&cx.settings.snoop) {
            uplink.note_timeout(seq, cx.now);
        }
        take_data(snoop, flow, segment, payload, (seq, end), room, cx);
    } else if reports_holes(&cx.settings.snoop)
        && snoop.uplink.report_at.is_none()
        && !snoop.uplink.gaps.is_empty()
    {
        // The MH sends data: gaps that were not reported while it was silent can be reported.
        let wait = cx.settings.snoop.nack_wait;
        snoop.uplink.gaps_due_at.get_or_insert(cx.now + wait);
    }
    if reports_holes(&cx.settings.snoop) {
        report(snoop, flow, cx);
    }
}

/// Notes and caches the new part of `seq..end`.
fn take_data<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    payload: &P,
    (seq, end): (SeqNum, SeqNum),
    room: usize,
    cx: &mut Context<'_, P>,
) {
    let are_reported = flow.fh.sack && reports_holes(&cx.settings.snoop);
    let uplink = &mut snoop.uplink;
    let una = uplink.una.unwrap_or(seq);
    let highest = uplink.passed.highest().unwrap_or(una).max(una);
    let packets = segment.payload_len.div_ceil(payload.segment_len().max(1));
    uplink.note_own_overload(cx.now);
    uplink.data_at = Some(cx.now);
    let tsval = segment.options.timestamps.map(|mh| mh.tsval);
    let is_new = uplink.note_passed((seq, end), highest, packets.max(1), (tsval, cx.now));
    uplink.repeats = 0;
    if is_new && seq.after(highest) {
        uplink.judge_newest_gap(cx);
    }
    if are_reported {
        uplink.cache_for_report(flow, segment, payload, is_new, room, cx);
    }
    // Where holes are reported, what is not cached is not named.
    if !are_reported || uplink.cache.holds(seq) {
        uplink.wired.note_sent(seq.min(highest), seq, end, cx.now);
    }
}

/// True for a pure ACK with valid fields: a made one can replace it.
fn is_bare(segment: &Segment, mh_nxt: SeqNum) -> bool {
    let plain = segment.flags == Flags::ACK && !segment.options.others;
    segment.is_empty() && plain && !has_bad_blocks(segment, mh_nxt)
}

/// Handles a segment of the FH that fits the connection. True: it is suppressed.
pub(in crate::schemes) fn on_fh_segment<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    segment: &Segment,
    cx: &mut Context<'_, P>,
) -> bool {
    let Some(una) = snoop.uplink.una else {
        return false;
    };
    if segment.ack.before(una) {
        return false;
    }
    let mh_nxt = flow.mh.nxt;
    if !segment.is_empty() && snoop.uplink.is_idle(segment, una, mh_nxt) {
        snoop.uplink.idle_una = Some(una);
        let wired = snoop.fixed_half.rtt();
        snoop.uplink.note_at_rest(segment, wired, cx);
        return false;
    }
    snoop.uplink.idle_una = None;
    wired::on_fh_segment(snoop, flow, segment, cx);
    let uplink = &mut snoop.uplink;
    let reports = reports_holes(&cx.settings.snoop);
    if reports && uplink.withholds(segment, mh_nxt, cx.now) {
        return true;
    }
    uplink.acked = uplink.acked.max(segment.ack);
    if !segment.is_empty() {
        uplink.note_fh_sends(cx.now);
    } else if segment.ack.before(mh_nxt) || segment.ack.after(una) {
        // An MH that has no more to send leaves it unanswered, or answers much later.
        uplink.echo.on_passed(segment.options.timestamps, cx.now);
        if uplink.echo.awaited_since() == Some(cx.now) {
            uplink.may_be_idle = segment.ack == mh_nxt;
        }
    }
    if !reports {
        return !uplink.undo.is_idle() && undo::sends_undo(snoop, flow, segment, cx);
    }
    if segment.ack.after(una) {
        report(snoop, flow, cx);
    }
    false
}

/// Handles the timers that are due.
pub(in crate::schemes) fn on_timeout<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let uplink = &mut snoop.uplink;
    let Some(una) = uplink.una else {
        return;
    };
    if uplink.gaps_due_at.is_some_and(|at| at <= cx.now) {
        uplink.gaps_due_at = None;
        for gap in &mut uplink.gaps {
            gap.must_be_reported = true;
        }
        report(snoop, flow, cx);
    } else if uplink.report_at.is_some_and(|at| at <= cx.now) {
        report(snoop, flow, cx);
    }
    let uplink = &mut snoop.uplink;
    if uplink.withheld_until().is_some_and(|until| until <= cx.now) {
        // The newest ACK of the FH is sent instead.
        uplink.acked = una;
        uplink.pass_acks();
        cx.actions
            .extend(flow.made_ack_with_sack(una, SackBlocks::default()));
    }
    wired::on_timeout(snoop, flow, cx);
}
