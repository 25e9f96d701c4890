// SPDX-License-Identifier: Apache-2.0
//! Snoop (H. Balakrishnan, S. Seshan, E. Amir and R. Katz, 1995, "Improving TCP/IP
//! performance over wireless networks"): the gateway caches what the MH has not acknowledged,
//! detects and retransmits what the wireless half has lost, and hides the loss from the FH.
//!
//! `snoop_data()` and `snoop_ack()` of the paper are [`on_data`](FlowScheme::on_data) and
//! [`on_mh_segment`](FlowScheme::on_mh_segment).
//! There are two sets of parameters:
//!
//! - `1995`, as published ([`dup_acks`]): duplicate ACKs show a loss, with two timers;
//! - `today` ([`reports`]): SACK and the times of sending show losses, several are repaired at
//!   once, and the SACK and D-SACK blocks about them are removed from the MH's ACKs. Flows
//!   without SACK are served as in 1995.
//!
//! Where the paper is silent: a duplicate ACK must repeat the window too (RFC 5681, 2). An ACK with
//! data, or with ECN's echo, always passes, without the blocks.
//!
//! [`uplink`] serves data of the MH (section 3.2).
//!
//! ACKs made for the FH repeat the MH's: its last one, which the paper has for packets that the MH has
//! acknowledged, and those by which `today` reports congestion ([`fh_report`]). Nothing is
//! acknowledged ahead.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, SackBlocks, Segment, SeqNum};

use super::{Context, FlowScheme, expects_changing_rates};
use crate::cache::Insertion;
use crate::flow::{AckOutcome, Flow, Sender, WINDOW_MAX};
use crate::rtt::RttEstimator;
use crate::timers::earliest;
use crate::{Action, Payload, Resend, Settings, Verdict};

mod auto;
mod dup_acks;
mod echo;
mod fh_report;
mod fixed_half;
mod radio;
mod reports;
pub(super) mod uplink;

use auto::OwnLosses;
use dup_acks::DupAcks;
pub(crate) use echo::EchoTimer;
use fh_report::{FhReport, StandingRtt};
use fixed_half::FixedHalf;
pub use holdfast_settings::snoop::{SnoopSet, SnoopSettings};
use radio::Radio;
use reports::Reports;
pub(crate) use uplink::Uplink;

/// Snoop's state of a flow. It is soft state: a few packets restore it.
#[derive(Clone, Debug)]
pub(crate) struct Snoop<P> {
    dup_acks: DupAcks,
    reports: Reports,
    fixed_half: FixedHalf,
    /// `today`: the reports of losses to the FH.
    fh_report: FhReport,
    /// `today`: the newest packet that was sent once: when it was sent, and when it was answered.
    answered: Option<(Instant, Instant)>,
    /// `today`: the recent minimum of the round trips.
    standing: StandingRtt,
    /// `today`: whether packets are lost other than by a queue.
    radio: Radio,
    /// On a link whose rate changes: the losses that are left to the FH.
    own_losses: OwnLosses,
    /// `today`: the round trip of what went ahead of ordinary traffic.
    ahead_rtt: RttEstimator,
    /// The wireless half's round trip, smoothed as the paper does it.
    srtt: Option<Duration>,
    /// SEG.WND of the MH's last ACK.
    window: Option<u16>,
    /// Some ACK had SACK blocks.
    sack_seen: bool,
    /// The MH's data in flight to the FH.
    pub uplink: Uplink<P>,
}

impl<P> Default for Snoop<P> {
    fn default() -> Self {
        Self {
            dup_acks: DupAcks::default(),
            reports: Reports::default(),
            fixed_half: FixedHalf::default(),
            fh_report: FhReport::default(),
            answered: None,
            standing: StandingRtt::default(),
            radio: Radio::default(),
            own_losses: OwnLosses::default(),
            ahead_rtt: RttEstimator::default(),
            srtt: None,
            window: None,
            sack_seen: false,
            uplink: Uplink::default(),
        }
    }
}

impl<P: Payload> Snoop<P> {
    /// Copies to the flow how much of the MH's data is cached, and which ACK the MH has got.
    fn note_uplink(&self, flow: &mut Flow<P>) {
        flow.cached_elsewhere.bytes = self.uplink.bytes();
        flow.cached_elsewhere.entries = self.uplink.entries();
        flow.ack_shown = self.uplink.ack_shown();
    }

    /// The earliest of all timers.
    fn deadline(&self) -> Option<Instant> {
        let uplink = self.uplink.deadline();
        let [round_trip, persist] = self.dup_acks.deadlines();
        let [lost, probe] = self.reports.deadlines();
        let [requested, late] = self.fh_report.deadlines();
        earliest([round_trip, persist, lost, probe, requested, late, uplink])
    }

    /// Nothing is cached, withheld or awaited. A few packets restore what was measured.
    pub(super) fn is_idle(&self) -> bool {
        let has_nothing = self.uplink.is_empty() && self.uplink.ack_shown().is_none();
        has_nothing && self.deadline().is_none()
    }

    /// What is in flight is sent anew from the cache, or no longer known. So no loss is hidden, and no
    /// answer is awaited.
    fn forget_sent(&mut self) {
        self.dup_acks = DupAcks::default();
        self.reports = Reports::default();
        self.fh_report = FhReport::default();
    }

    /// Adds the round trip of a packet that was sent once (section 4).
    fn sample(&mut self, rtt: Duration, alpha: f64) {
        let srtt = self
            .srtt
            .map_or(rtt, |srtt| srtt.mul_f64(1.0 - alpha) + rtt.mul_f64(alpha));
        self.srtt = Some(srtt);
    }

    /// The round trips that an ACK shows.
    fn sample_round_trips(&mut self, outcome: &AckOutcome, cx: &Context<'_, P>) {
        if let Some(rtt) = outcome.rtt {
            self.sample(rtt, cx.settings.snoop.alpha);
        }
        if let Some((sent, _)) = outcome.arrivals.ordinary {
            self.answered = Some((sent, cx.now));
            let before = cx.newest_arrival().get().map_or(sent, |(before, _)| before);
            cx.newest_arrival().set(Some((before.max(sent), cx.now)));
        }
        if let Some((sent, _)) = outcome.arrivals.ahead {
            self.ahead_rtt.sample(cx.now.saturating_since(sent));
        }
    }

    /// The round trip of the newest packet that was sent once.
    fn rtt(&self) -> Option<Duration> {
        self.answered.map(|(sent, at)| at.saturating_since(sent))
    }

    /// The queues that an ACK shows.
    fn sample_queues(&mut self, outcome: &AckOutcome, cx: &Context<'_, P>) {
        let (Some(_), Some(rtt)) = (outcome.arrivals.ordinary, self.rtt()) else {
            return;
        };
        let span = fh_report::path_rtt(self, cx.rtt()).unwrap_or(rtt);
        self.standing.sample(rtt, span, cx.now);
        if let Some(least) = cx.rtt().least() {
            self.radio.on_arrived(rtt.saturating_sub(least), cx.now);
        }
    }

    /// What reaches the FH of a segment of the MH, if losses are hidden from the FH.
    fn hide_losses(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        outcome: &AckOutcome,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        let sanitised = sanitised(segment, flow, cx);
        let segment = sanitised.as_ref().unwrap_or(segment);
        self.sample_round_trips(outcome, cx);
        self.sample_queues(outcome, cx);
        self.fh_report.on_acked(flow.fh.una);
        self.radio.on_acked(flow.fh.una);
        // Only valid blocks are in the scoreboard.
        self.sack_seen |= !flow.sacked.is_empty();
        // Data of the MH without a new ACK shows nothing about the FH's data.
        let is_answer = outcome.acked > 0 || outcome.arrived_bytes > 0 || segment.is_empty();
        // The window of an older ACK is out of date.
        let newest = segment.ack == flow.fh.una;
        let window = self.window;
        let same_window = window == Some(segment.window);
        if newest {
            self.window = Some(segment.window);
        }
        let speaks = !segment.is_empty() || segment.flags.has(Flags::ECE);
        // An FH that probes a closed window must get the answer.
        let closed = segment.window == 0;
        let duplicate = same_window && !closed && !speaks && outcome.acked == 0;
        let is_today = cx.settings.snoop.set == SnoopSet::Today;
        let verdict = if is_today && speaks_sack(self, flow) {
            reports::on_ack(self, flow, segment, outcome, duplicate, window, cx)
        } else {
            dup_acks::on_ack(self, flow, segment, outcome, duplicate, window, cx)
        };
        dup_acks::arm_persist(self, flow, cx);
        reports::await_answer(self, flow, is_answer, cx);
        let verdict = if speaks {
            passes(verdict)
        } else {
            fh_report::with_echo(self, flow, segment, verdict, cx)
        };
        if flow.is_done() {
            // Nothing that waits is left when the flow is closed.
            fh_report::release(self, flow, cx);
        }
        if verdict != Verdict::Suppress {
            self.fixed_half.on_mh_segment_sent(segment, cx.now);
        }
        verdict
    }

    /// The wait for an ACK of a retransmission (section 4).
    fn retransmission_wait(&self, settings: &SnoopSettings) -> Duration {
        let srtts = self.srtt.unwrap_or(settings.persist) * settings.retransmit_srtts;
        srtts.max(settings.retransmit_interval_min)
    }
}

impl<P: Payload> FlowScheme<P> for Snoop<P> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    /// Bytes that the cache takes of a segment: beyond the high-water mark only what comes out of
    /// sequence, because the older packets matter more (section 4).
    fn cache_room(&self, flow: &Flow<P>, segment: &Segment, settings: &Settings) -> usize {
        if segment.seq.before(flow.sent_nxt) {
            return usize::MAX;
        }
        settings
            .snoop
            .high_water_mark_bytes
            .saturating_sub(flow.cache.bytes())
    }

    /// `snoop_data()`: a segment of the FH is about to be forwarded to the MH.
    fn on_data(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        insertion: Insertion,
        cx: &mut Context<'_, P>,
    ) {
        let (seq, end) = (segment.seq, segment.end());
        let repeated = seq.before(flow.sent_nxt);
        let today = cx.settings.snoop.set == SnoopSet::Today;
        if repeated {
            let cached_before = insertion == Insertion::Cached { new_bytes: 0 };
            if cached_before && seq == flow.fh.una {
                self.dup_acks.on_first_repeated();
            }
            // Not cached earlier: the wired half has lost or delayed it (section 3.1.1, 3).
            if today || !cached_before {
                self.fixed_half.note_repeated(seq, end);
            }
        }
        if today && matches!(insertion, Insertion::Cached { .. }) {
            flow.transmissions.record(seq, end, Sender::Fh, cx.now);
        }
        if expects_changing_rates(cx.settings) {
            // The next ACK starts the timer again.
            if !self.reports.probe_runs() {
                reports::arm_probe(self, flow, cx);
            }
            return;
        }
        fh_report::is_answered(self, flow, segment, cx);
        dup_acks::arm_persist(self, flow, cx);
        reports::arm_probe(self, flow, cx);
    }

    /// If the MH has acknowledged the segment, its ACK may have been lost on the wired half. So the ACK is
    /// repeated (section 3.1.1, 2). With `today` the segment passes: the D-SACK in the MH's own answer
    /// lets the FH undo its timeout. The verdict about a copy of cached bytes is ignored.
    fn on_nothing_new(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        if segment.is_empty() || flow.fh.is_doubted() {
            return Verdict::Forward;
        }
        self.fixed_half.note_repeated(segment.seq, segment.end());
        if fh_report::is_answered(self, flow, segment, cx) {
            return Verdict::Suppress;
        }
        // The MH itself must answer a keep-alive (RFC 9293, 3.8.4).
        let keep_alive = segment.payload_len <= 1 && segment.seq + 1 == flow.fh.una;
        if cx.settings.snoop.set == SnoopSet::Today || keep_alive {
            return Verdict::Forward;
        }
        let Some(window) = self.window else {
            return Verdict::Forward;
        };
        let tsecr = flow.mh.timestamps.map_or(0, |mh| mh.tsecr);
        match flow.made_ack(flow.fh.una, window, tsecr) {
            Some(again) => {
                cx.actions.push(again);
                Verdict::Suppress
            }
            None => Verdict::Forward,
        }
    }

    /// `snoop_ack()`: a segment of the MH, after the flow has followed its ACK.
    fn on_mh_segment(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        outcome: &AckOutcome,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        if segment.ack.before(flow.fh.una) && flow.fh.is_doubted() {
            return Verdict::Forward;
        }
        if expects_changing_rates(cx.settings) {
            auto::on_mh_segment(self, flow, segment, outcome, cx);
            return Verdict::Forward;
        }
        self.hide_losses(flow, segment, outcome, cx)
    }

    /// Handles the timers that are due. While the MH is away nothing is retransmitted; what is in flight
    /// then is retransmitted later. As published, Snoop has no such rule.
    fn on_timeout(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {
        if cx.is_away() {
            fh_report::release(self, flow, cx);
            self.forget_sent();
        } else {
            fh_report::on_timeout(self, flow, cx);
            dup_acks::on_timeout(self, flow, cx);
            reports::on_timeout(self, flow, cx);
        }
        uplink::on_timeout(self, flow, cx);
        self.note_uplink(flow);
    }

    fn on_fh_ack(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        cx: &mut Context<'_, P>,
    ) -> bool {
        self.fixed_half.on_fh_segment(segment, cx.now);
        if uplink::passes_at_rest_to_mh(self, segment, cx) {
            return false;
        }
        let is_withheld = uplink::on_fh_segment(self, flow, segment, cx);
        self.note_uplink(flow);
        is_withheld
    }

    fn on_mh_data(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        payload: &P,
        room: usize,
        cx: &mut Context<'_, P>,
    ) {
        if uplink::passes_at_rest_to_fh(self, segment, cx) {
            return;
        }
        uplink::on_mh_segment(self, flow, segment, payload, room, cx);
        self.note_uplink(flow);
    }

    /// The segment is forwarded. With `today` its report of losses is removed, because everything cached
    /// is retransmitted. If the first lost byte is not cached, the FH must retransmit it and gets the
    /// report.
    fn verdict_on_return(
        &self,
        flow: &Flow<P>,
        segment: &Segment,
        _verdict: Verdict,
        settings: &Settings,
    ) -> Verdict {
        let has_report = !segment.options.sack.is_empty();
        let is_today = settings.snoop.set == SnoopSet::Today;
        if has_report && is_today && flow.cache.holds(flow.fh.una) {
            Verdict::ForwardWithSack(SackBlocks::default())
        } else {
            Verdict::Forward
        }
    }

    fn next_timeout(&self, _flow: &Flow<P>, settings: &Settings) -> Option<Instant> {
        if !expects_changing_rates(settings) || uplink::reports_holes(&settings.snoop) {
            return self.deadline();
        }
        // Nothing is hidden from the FH, and nothing reported to the MH.
        let deadline = earliest(self.reports.deadlines());
        debug_assert_eq!(deadline, self.deadline(), "another timer runs");
        deadline
    }

    fn on_rewind(&mut self) {
        self.forget_sent();
    }

    /// Forgets the MH's window too.
    fn on_resynchronised(&mut self, _una: SeqNum) {
        self.forget_sent();
        (self.window, self.own_losses) = (None, OwnLosses::default());
        self.uplink = Uplink::default();
    }

    fn radio_lost_at(&self) -> Option<Instant> {
        self.radio.lost_at()
    }

    fn overflowed_at(&self) -> Option<Instant> {
        self.own_losses.overflowed_at
    }
}

/// The MH sends SACK: both ends have permitted it, or it was seen.
fn speaks_sack<P: Payload>(snoop: &Snoop<P>, flow: &Flow<P>) -> bool {
    flow.fh.sack || snoop.sack_seen
}

/// If a block of the ACK is impossible, returns the segment to read instead: without blocks. The valid
/// blocks were noted before, because each alone is as good as an ACK.
fn sanitised<P: Payload>(
    segment: &Segment,
    flow: &Flow<P>,
    cx: &mut Context<'_, P>,
) -> Option<Segment> {
    if !has_bad_blocks(segment, flow.fh.max) {
        return None;
    }
    cx.counters.implausible += 1;
    let mut read = *segment;
    read.options.sack = SackBlocks::default();
    Some(read)
}

/// True for a block that reports what was never sent, or is no range: hosts ignore it (RFC 2018, 8). A
/// block before the ACK is a D-SACK (RFC 2883). `max`: SND.NXT of the receiver.
fn has_bad_blocks(segment: &Segment, max: SeqNum) -> bool {
    let sack = segment.options.sack;
    !sack.is_empty() && !sack.all_within(max - WINDOW_MAX, max)
}

/// A segment with more than an ACK always passes. Instead of suppression, its blocks are removed.
fn passes(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Suppress => Verdict::ForwardWithSack(SackBlocks::default()),
        other => other,
    }
}

/// Retransmits a piece to the MH: a known loss ahead of ordinary traffic, a probe behind it.
fn retransmit<P: Payload>(
    flow: &mut Flow<P>,
    piece: Resend<P>,
    sender: Sender,
    cx: &mut Context<'_, P>,
) {
    let end = piece.seq + piece.len + u32::from(piece.flags.has(Flags::FIN));
    flow.transmissions.record(piece.seq, end, sender, cx.now);
    cx.counters.repaired += 1;
    cx.actions.push(Action::Resend(piece));
}

/// Retransmits the first packet, if it is cached.
fn retransmit_first<P: Payload>(flow: &mut Flow<P>, cx: &mut Context<'_, P>) -> bool {
    if !flow.cache.holds(flow.fh.una) {
        return false;
    }
    let Some(piece) = flow.first_missing(Sender::GatewayAhead) else {
        return false;
    };
    retransmit(flow, piece, Sender::GatewayAhead, cx);
    true
}
