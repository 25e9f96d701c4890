// SPDX-License-Identifier: Apache-2.0
//! The content of a report about the MH's data, and when it is sent. What it names is cached, and the FH's ACKs of
//! that are withheld.
//!
//! Only with `1995`: a report costs a Linux MH more than it gives (measured). The segment at its `snd.una`, which
//! cannot be named, is retransmitted without need. The D-SACK of that makes RACK wait longer for each later loss.
//! The time since a named segment was sent becomes the shortest round trip, whatever the ACK echoes
//! (`tcp_sacktag_one`). So BBR takes the wireless half for the path. Every report has such a sample: RACK needs a
//! segment that was sent after the lost one, and such a segment is younger than the path's round trip.

use core::time::Duration;

use holdfast_wire::{Instant, SackBlocks, Segment, SeqNum};

use super::{Context, Flow, Gap, Insertion, Payload, Snoop, Uplink, is_bare, wired};

/// SACK blocks in a report: with timestamps no more fit (RFC 2018, 3).
const BLOCKS: usize = 3;
/// Reports at once, which may be needed to name all ranges.
const REPORTS_AT_ONCE: usize = 4;
/// Repetitions while the MH sends nothing at all.
const REPEATS_MAX: u32 = 8;

impl<P: Payload> Uplink<P> {
    /// A data segment that a report may name is cached, and gaps below it may be due. `is_new`: it brings something
    /// new; `room`: bytes that the cache has left for its mobile.
    pub(super) fn cache_for_report(
        &mut self,
        flow: &Flow<P>,
        segment: &Segment,
        payload: &P,
        is_new: bool,
        room: usize,
        cx: &mut Context<'_, P>,
    ) {
        if self.cache.contradicts(segment, payload) {
            cx.counters.implausible += 1;
        }
        if !is_new {
            return;
        }
        let settings = cx.settings;
        self.find_due(settings.snoop.nack_threshold_packets);
        let waits = !self.gaps.is_empty();
        self.gaps_due_at = waits.then(|| cx.now + settings.snoop.nack_wait);
        if Flow::may_cache(segment, payload) {
            let una = self.una.unwrap_or(segment.seq);
            let bytes_free = room.min(flow.bytes_free_of_flow(settings));
            let entries_max = settings.flow_cache_entries_max;
            let entries_max = entries_max.saturating_sub(flow.cache.entries());
            // At a limit it is not cached, and so not named.
            let _: Insertion = self
                .cache
                .insert(segment, payload, una, bytes_free, entries_max);
        }
    }

    /// Gaps with `threshold` packets beyond them are due.
    fn find_due(&mut self, threshold: u32) {
        let packets = self.packets;
        for gap in &mut self.gaps {
            gap.must_be_reported |= packets.wrapping_sub(gap.packets) >= threshold;
        }
    }

    /// The ranges that a report may name, in order: what the FH has and what is cached. They end at the first gap
    /// that is not due, and at the first range that is not cached. Empty if none of them lies beyond a gap.
    fn nameable(&self, una: SeqNum) -> Vec<(SeqNum, SeqNum)> {
        let mut ranges: Vec<(SeqNum, SeqNum)> = Vec::new();
        // Bytes that a withheld ACK acknowledges.
        if una.after(self.acked) {
            ranges.push((self.acked, una));
        }
        let undue = self
            .gaps
            .iter()
            .find(|gap| !gap.must_be_reported)
            .map(|gap| gap.seq);
        let mut beyond = false;
        for (left, right) in self.passed.iter() {
            if undue.is_some_and(|undue| undue.before(left)) {
                break;
            }
            let kept = self.cache.held_end(left).min(right);
            beyond |= left.after(una);
            match ranges.last_mut() {
                Some(last) if last.1 == left => last.1 = kept,
                _ => ranges.push((left, kept)),
            }
            if kept.before(right) {
                break;
            }
        }
        ranges.retain_mut(|(left, right)| {
            // RFC 2018, 4: no block begins at the ACK.
            *left = (*left).max(self.acked + 1);
            left.before(*right)
        });
        ranges.truncate(REPORTS_AT_ONCE * BLOCKS);
        if beyond && ranges.last().is_some_and(|last| last.0.after(una)) {
            ranges
        } else {
            Vec::new()
        }
    }

    /// From now on no ACK of the FH is withheld, until it acknowledges everything that has passed.
    pub(super) fn pass_acks(&mut self) {
        self.withheld_since = None;
        self.trusted_from = self.passed.highest();
        self.passes_acks = self.trusted_from.is_some();
    }

    /// Withholds an ACK of the FH that ends within a named range, unless the time for that is over. True if it is
    /// withheld.
    pub(super) fn withholds(&mut self, segment: &Segment, mh_nxt: SeqNum, now: Instant) -> bool {
        let within = segment.ack.after(self.acked) && self.has_named(segment.ack);
        let late = self.withheld_until().is_some_and(|until| until <= now);
        if within && is_bare(segment, mh_nxt) && !self.passes_acks && !late {
            self.withheld_since.get_or_insert(now);
            return true;
        }
        self.withheld_since = None;
        if within {
            self.pass_acks();
        }
        false
    }

    /// The wait between two reports of the same gaps: a round trip of the wireless half.
    fn repeat_wait<Q: Payload>(&self, cx: &Context<'_, Q>) -> Duration {
        let estimator = [&self.rtt, cx.rtt()]
            .into_iter()
            .find(|rtt| rtt.srtt().is_some());
        let wait = estimator.map_or(cx.settings.snoop.nack_wait, |rtt| {
            rtt.rto(rtt.srtt().unwrap_or_default() / 4)
        });
        let wait = wait.max(cx.settings.snoop.retransmit_interval_min);
        wait * (1 << self.repeats.saturating_sub(1).min(REPEATS_MAX))
    }

    /// The gaps that are due are reported at `now`. `is_empty`: nothing could be named, and only gaps that were
    /// reported before get the new time.
    fn note_reported(&mut self, is_empty: bool, now: Instant) {
        for gap in self.gaps.iter_mut().filter(|gap| gap.must_be_reported) {
            if gap.reported_at.is_some() || !is_empty {
                gap.reported_at = Some(now);
            }
        }
        self.repeats += u32::from(!is_empty);
    }
}

/// Sends the reports that are due, and finds out when the next are. Only where [`super::reports_holes`].
pub(super) fn report<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    cx: &mut Context<'_, P>,
) {
    let uplink = &mut snoop.uplink;
    uplink.report_at = None;
    let Some(una) = uplink.una else {
        return;
    };
    let may = flow.fh.sack && !cx.is_away() && uplink.trusted_from.is_none();
    if !may || flow.downlink_header.is_none() || uplink.repeats > REPEATS_MAX {
        return;
    }
    if let Some(until) = uplink.fh_sends_until.filter(|until| cx.now < *until) {
        uplink.report_at = uplink
            .gaps
            .iter()
            .any(|gap| gap.must_be_reported)
            .then_some(until);
        return;
    }
    let wait = uplink.repeat_wait(cx);
    let ready =
        |gap: &Gap| gap.must_be_reported && gap.reported_at.is_none_or(|at| at + wait <= cx.now);
    if uplink.gaps.iter().any(ready) {
        let ranges = uplink.nameable(una);
        uplink.note_reported(ranges.is_empty(), cx.now);
        for blocks in ranges.chunks(BLOCKS) {
            if !send_report(snoop, flow, blocks, cx) {
                break;
            }
        }
    }
    let uplink = &mut snoop.uplink;
    let wait = uplink.repeat_wait(cx);
    let reported = uplink.gaps.iter().filter_map(|gap| gap.reported_at).min();
    let again = uplink.repeats <= REPEATS_MAX;
    uplink.report_at = reported.filter(|_| again).map(|at| at + wait);
}

/// Sends one report with these blocks, the farthest first. False if it cannot be made.
fn send_report<P: Payload>(
    snoop: &mut Snoop<P>,
    flow: &mut Flow<P>,
    blocks: &[(SeqNum, SeqNum)],
    cx: &mut Context<'_, P>,
) -> bool {
    let uplink = &mut snoop.uplink;
    let mut named = SackBlocks::default();
    for (left, right) in blocks.iter().rev() {
        uplink.reported_ranges.add(*left, *right);
        // The scoreboard has a limit: what it does not take in is not named.
        if right.at_or_before(uplink.reported_ranges.next_missing(*left).0) {
            named.push(*left, *right);
        }
    }
    let acked = uplink.acked;
    if named.is_empty() {
        return false;
    }
    let Some(made) = flow.made_ack_with_sack(acked, named) else {
        return false;
    };
    cx.counters.reports += 1;
    cx.actions.push(made);
    wired::arm(snoop, cx);
    true
}
