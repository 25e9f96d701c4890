// SPDX-License-Identifier: Apache-2.0
//! Tracks the sequence numbers of both ends, and believes only segments that fit.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::adoption::Sighting;
use super::credible::{Credit, WINDOW_MAX, near};
use super::handshake::{AFTER_SYN_MAX, Handshake};
use super::{Arrivals, Flow, Stage};
use crate::cache::SegmentCache;
use crate::{Direction, Payload};

/// Duplicate ACKs that show a loss (RFC 5681, 3.2).
const DUP_ACK_THRESHOLD: u32 = 3;

/// How a data segment of the FH fits the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DataOutcome {
    /// Too little is known, or the segment does not fit what is known: it passes.
    #[default]
    Unknown,
    /// The MH has acknowledged all of it.
    Old,
    /// It holds bytes that the MH may lack.
    Current,
}

/// What a segment of the FH has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FhOutcome {
    pub data: DataOutcome,
    /// Both ends have moved on unseen, and what was known before is wrong.
    pub is_resynchronised: bool,
}

/// What an MH's segment has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// The segment is from the MH of this flow: the link is up.
    pub credible: bool,
    /// Bytes newly acknowledged.
    pub acked: u32,
    /// Of `acked`: bytes that passed unseen, and the others, which show the link's rate.
    unseen: u32,
    pub delivered: u32,
    /// A round trip of the wireless half.
    pub rtt: Option<Duration>,
    /// A round trip of the wireless half in the handshake.
    pub handshake_rtt: Option<Duration>,
    /// The third duplicate ACK in a row.
    pub loss: bool,
    /// An ACK of SND.UNA without data that reports nothing new, while something above it is not acknowledged.
    pub reports_nothing_new: bool,
    /// The newest transmissions that newly arrived, and the number of bytes that newly arrived.
    pub arrivals: Arrivals,
    pub arrived_bytes: u32,
    /// In a recovery, the part of `arrived_bytes` that was sent since link up.
    pub arrived_since_up: u32,
    /// What was known of the flow was wrong; it was opened anew.
    pub is_opened_anew: bool,
}

impl<P: Payload> Flow<P> {
    /// A new connection has the same addresses and ports.
    pub(crate) fn begin_anew(&mut self, now: Instant) {
        let (key, mobile) = (self.key, self.mobile);
        let (scheduled, counted) = (self.scheduled, self.counted_in_flight);
        let counted_cached_bytes = self.counted_cached_bytes;
        let counted_confirmed = self.counted_confirmed;
        let (waits, index_at_mobile) = (self.is_in_send_queue, self.index_at_mobile);
        *self = Self::new(key, mobile, now);
        (self.scheduled, self.counted_in_flight) = (scheduled, counted);
        self.counted_cached_bytes = counted_cached_bytes;
        self.counted_confirmed = counted_confirmed;
        (self.is_in_send_queue, self.index_at_mobile) = (waits, index_at_mobile);
    }

    /// Forgets everything but the window scales of the SYNs, which a predecessor may have seen.
    pub(crate) fn adopt_anew(&mut self, now: Instant) {
        let (of_mh, of_fh) = (self.mh.window_scale, self.fh.window_scale);
        self.begin_anew(now);
        (self.mh.window_scale, self.fh.window_scale) = (of_mh, of_fh);
    }

    /// A segment of the FH that is no SYN.
    pub(crate) fn track_fh_segment(
        &mut self,
        segment: &Segment,
        payload: &P,
        now: Instant,
    ) -> FhOutcome {
        let mut outcome = FhOutcome::default();
        if self.downlink_header.is_none() {
            self.downlink_header = payload.header();
        }
        if self.stage == Stage::Adopting {
            self.note_for_adoption(segment, now);
            return outcome;
        }
        if self.stage != Stage::Open {
            return outcome;
        }
        if self.contradiction.is_some() {
            self.note_for_adoption(segment, now);
        }
        if self.mh_drops_as_old(segment, now) {
            self.note_for_adoption(segment, now);
            return outcome;
        }
        if let Some(unseen) = self.agree_on_unseen(segment) {
            self.resynchronise(segment, unseen);
            outcome.is_resynchronised = true;
        }
        if !self.fh_fits(segment) {
            self.note_beyond_window(segment);
            self.note_for_adoption(segment, now);
            return outcome;
        }
        if !core::mem::replace(&mut self.fh.has_header, true) {
            // The header from before may be that of a forged segment.
            self.downlink_header = payload.header();
        }
        (self.fh.last_end, self.fh.end_beyond_window) = (segment.end(), None);
        if !self.skips_unseen(segment) {
            self.unseen = None;
        }
        if self.fh.ack.at_or_before(segment.ack) {
            self.note_fh(segment);
            self.forget_old_clock(segment, now);
        }
        // An FH that sends bytes above its FIN has sent no FIN: that one was forged.
        self.fh.fin = self.fh.fin.filter(|fin| !segment.end().after(*fin));
        if segment.flags.has(Flags::FIN) {
            self.fh.fin = Some(segment.end());
        }
        // An ACK of these bytes is no longer in doubt: the FH has sent them.
        let end = segment.end();
        self.fh.doubted_ack = self
            .fh
            .doubted_ack
            .filter(|doubted_ack| doubted_ack.after(end));
        if end.at_or_before(self.fh.una) {
            outcome.data = DataOutcome::Old;
            return outcome;
        }
        self.fh.max = self.fh.max.max(end);
        outcome.data = DataOutcome::Current;
        outcome
    }

    /// The segment may agree with one of the MH.
    fn note_for_adoption(&mut self, segment: &Segment, now: Instant) {
        let adoption = self.adoption.get_or_insert_default();
        adoption.note_fh(segment, now);
    }

    /// The FH sends beyond the known window: it does not know of a smaller one, or the MH's ACKs have
    /// passed unseen. An attacker off the path does not know the number that the FH
    /// acknowledges.
    fn note_beyond_window(&mut self, segment: &Segment) {
        let exact = segment.ack == self.mh.nxt || segment.ack == self.fh.ack;
        let ahead = segment.end().distance_from(self.fh.max);
        if exact && segment.flags.has(Flags::ACK) && ahead > 0 && ahead < WINDOW_MAX {
            self.fh.end_beyond_window = Some(segment.end());
        }
    }

    pub(super) fn note_fh(&mut self, segment: &Segment) {
        self.fh.ack = segment.ack;
        self.fh.window = segment.window;
        self.fh.ece = Flags(segment.flags.0 & Flags::ECE.0);
        self.fh.window_largest = self.fh.window_largest.max(segment.window);
        if let Some(timestamps) = segment.options.timestamps {
            self.fh.tsecr = timestamps.tsecr;
        }
    }

    /// A segment of the MH that is no SYN. `least_rtt`: the wireless half's shortest round
    /// trip. `in_recovery`: the MH is recovering. `on_acked` gets the range that the segment acknowledges, before
    /// the range leaves the cache.
    pub(crate) fn track_mh_segment(
        &mut self,
        segment: &Segment,
        payload: &P,
        least_rtt: Option<Duration>,
        in_recovery: bool,
        on_acked: impl FnOnce(&SegmentCache<P>, (SeqNum, SeqNum)),
        now: Instant,
    ) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        if !segment.flags.has(Flags::ACK) {
            return outcome;
        }
        if self.stage == Stage::Adopting && !self.open(segment, now, &mut outcome) {
            self.adoption.get_or_insert_default().note_mh(segment);
            return outcome;
        }
        if self.stage != Stage::Open {
            return outcome;
        }
        let has_no_clock = self.has_no_clock(now);
        let clock_fits = has_no_clock || self.clock_fits(segment.options.timestamps, now);
        let is_contradicted = self.note_contradiction(segment, now);
        outcome.is_opened_anew = is_contradicted && self.open_anew(segment, now);
        if !outcome.is_opened_anew {
            match self.credit(segment, now) {
                Credit::Fits => {}
                Credit::FitsUnseen => {
                    outcome.unseen = segment.ack.distance_from(self.fh.max);
                    self.fh.max = segment.ack;
                    self.fh.doubted_ack = Some(segment.ack);
                }
                Credit::None if self.nothing_fits(segment, now) && self.open_anew(segment, now) => {
                    outcome.is_opened_anew = true;
                }
                Credit::None => return outcome,
            }
        }
        outcome.credible = true;
        self.note_mh(segment, payload, clock_fits);
        if !self.transmissions.is_empty() {
            let least_rtt = least_rtt.unwrap_or_default();
            (outcome.arrivals, outcome.arrived_bytes) = self.arrivals(segment, least_rtt, now);
            if in_recovery {
                outcome.arrived_since_up = self.arrived_since_up(segment);
            }
        }
        let reports_new = self.note_sack(segment);
        if segment.ack.after(self.fh.una) {
            self.advance(segment.ack, now, &mut outcome, on_acked);
        } else if segment.ack == self.fh.una && segment.is_empty() && self.fh.max.after(self.fh.una)
        {
            self.dup_acks = self.dup_acks.saturating_add(1);
            // With SACK, the ranges show more.
            let counts = segment.options.sack.is_empty();
            outcome.reports_nothing_new = !reports_new;
            outcome.loss = counts && self.dup_acks == DUP_ACK_THRESHOLD;
        }
        self.note_refusal(segment);
        outcome
    }

    /// Opens the flow if this segment of the MH agrees with the SYNs, or with one of the FH.
    fn open(&mut self, segment: &Segment, now: Instant, outcome: &mut AckOutcome) -> bool {
        if segment.options.others {
            return false;
        }
        let syns = self.syns_before(Direction::Uplink, segment);
        let adoption = self.adoption.as_ref();
        let seen = adoption.and_then(|adoption| adoption.agreeing(segment));
        // If both SYNs were seen, the first segments must be near them.
        let is_near = |fh: &Sighting| {
            syns.is_none_or(|syns| near(fh.end, syns.sighting().end, AFTER_SYN_MAX))
        };
        let seen = seen.filter(is_near);
        let Some(fh) = seen.or(syns.map(|syns| syns.sighting())) else {
            return false;
        };
        // All other SYNs are those of other connections.
        self.handshake = Handshake::opened_after(syns.as_ref());
        if let Some(syns) = syns {
            self.note_syns(&syns);
            outcome.handshake_rtt = syns.round_trip(now);
        }
        self.open_with_mh_segment(&fh, segment, now);
        true
    }

    /// No segment of the MH has fitted for a while.
    fn nothing_fits(&self, segment: &Segment, now: Instant) -> bool {
        // Without a clock that fits, two forged segments look the same in an outage.
        let clock_fits = self.clock_fits(segment.options.timestamps, now);
        self.unseen.as_ref().is_some_and(|unseen| {
            unseen.must_be_true(now) || (clock_fits && unseen.may_be_true(now))
        })
    }

    /// The tracked numbers are wrong. True if both ends agree with each other, and the flow is opened
    /// with their numbers.
    fn open_anew(&mut self, segment: &Segment, now: Instant) -> bool {
        // A split or owing flow: its FH relies on what the gateway has made.
        let is_bound = self.has_own_sender || self.owed.is_some();
        if is_bound || segment.options.others {
            return false;
        }
        let adoption = self.adoption.as_ref();
        let Some(fh) = adoption.and_then(|adoption| adoption.agreeing(segment)) else {
            return false;
        };
        self.forget_cached();
        self.mh.right_edge = None;
        self.mh.timestamps = None;
        self.unseen = None;
        self.contradiction = None;
        self.open_with_mh_segment(&fh, segment, now);
        true
    }

    /// The flow is open from a segment of the FH and this one of the MH on.
    fn open_with_mh_segment(&mut self, fh: &Sighting, segment: &Segment, now: Instant) {
        let adoption = self.adoption.take().unwrap_or_default();
        self.open_at(fh, segment.ack, segment.end(), now);
        self.fh.fin = adoption.fin_beside(fh, segment);
        self.mh.fin = adoption.mh_fin_before(segment);
    }

    /// The flow is open. The MH has everything before `una`, and has sent everything before `mh_end`.
    pub(super) fn open_at(&mut self, fh: &Sighting, una: SeqNum, mh_end: SeqNum, now: Instant) {
        self.stage = Stage::Open;
        self.adoption = None;
        self.fh.max = fh.end.max(una);
        self.fh.una = una;
        self.fh.last_end = fh.end;
        self.fh.end_beyond_window = None;
        self.fh.ack = fh.ack;
        self.fh.window = fh.window;
        self.fh.window_largest = fh.window;
        self.fh.tsecr = fh.timestamps.map_or(0, |ts| ts.tsecr);
        self.mh.nxt = mh_end.max(fh.ack);
        self.sent_nxt = self.fh.max;
        self.begin_resending();
        self.tsval_sent = fh.timestamps.map(|ts| ts.tsval);
        self.tsval_noted = now;
    }

    fn note_mh(&mut self, segment: &Segment, payload: &P, clock_fits: bool) {
        self.mh.nxt = self.mh.nxt.max(segment.end());
        self.mh.window_largest = self.mh.window_largest.max(segment.window);
        if let Some(timestamps) = segment.options.timestamps.filter(|_| clock_fits) {
            let newer = self
                .mh
                .timestamps
                .is_none_or(|old| (timestamps.tsval.wrapping_sub(old.tsval) as i32) >= 0);
            if newer || self.mh.clock_may_differ {
                self.mh.timestamps = Some(timestamps);
            }
            self.mh.clock_may_differ = false;
        }
        if let Some(shift) = self.mh.window_scale {
            let edge = segment.ack + (u32::from(segment.window) << shift);
            self.mh.right_edge = Some(self.mh.right_edge.map_or(edge, |old| old.max(edge)));
        }
        self.mh.fin = self.mh.fin.filter(|fin| !segment.end().after(*fin));
        if segment.flags.has(Flags::FIN) {
            self.mh.fin = Some(segment.end());
        }
        if segment.payload_len == 0
            && let Some(header) = payload.header()
        {
            self.uplink_header = Some(header);
        } else if self.uplink_header.is_none() {
            self.uplink_header = payload.header();
        }
    }

    fn advance(
        &mut self,
        ack: SeqNum,
        now: Instant,
        outcome: &mut AckOutcome,
        on_acked: impl FnOnce(&SegmentCache<P>, (SeqNum, SeqNum)),
    ) {
        let from = self.fh.una;
        outcome.acked = ack.distance_from(from);
        outcome.delivered = outcome.acked.saturating_sub(outcome.unseen);
        self.fh.una = ack;
        // What is owed is on its way: the wait for the MH begins anew.
        self.owed_since = None;
        self.sent_nxt = self.sent_nxt.max(ack);
        self.follow_resending(ack);
        on_acked(&self.cache, (from, ack));
        self.cache.purge(ack);
        self.sacked.purge(ack);
        self.transmissions.purge(ack);
        self.dup_acks = 0;
        (self.vain_retransmissions, self.vain_recoveries) = (0, 0);
        if let Some((end, sent)) = self.timed_segment
            && end.at_or_before(ack)
        {
            // An ACK of bytes that passed unseen may answer an earlier copy.
            outcome.rtt = (outcome.unseen == 0).then(|| now.saturating_since(sent));
            self.timed_segment = None;
        }
        self.recover = self.recover.filter(|recover| recover.after(ack));
    }

    /// A RST counts if its number is exactly what the other end expects next (RFC 5961, 3.2). It also counts if
    /// it acknowledges the other end's SYN (RFC 9293, 3.10.7.3). A RST that is not accepted is forwarded, and
    /// the end judges it. The state of the link does not matter. `acked`: the highest ACK that the FH
    /// was sent. An FH without a connection resets with that number (RFC 9293, 3.10.7.1).
    pub(crate) fn accepts_rst(&self, from_mh: bool, segment: &Segment, acked: SeqNum) -> bool {
        let expected = if from_mh {
            [self.mh.nxt, self.fh.ack]
        } else {
            [self.fh.una, self.fh.max]
        };
        let last = [
            Some(self.fh.last_end),
            Some(acked),
            self.fh.end_beyond_window,
        ];
        let exact = expected.contains(&segment.seq)
            || (!from_mh && self.stage == Stage::Open && last.contains(&Some(segment.seq)));
        let syn = self.handshake.answered_by(from_mh);
        let answers = syn.is_some_and(|syn| syn.is_acknowledged_by(segment.ack));
        match self.stage {
            Stage::Adopting => {
                let first = self.handshake.agreed().map(|syns| {
                    let own = if from_mh { syns.mh } else { syns.fh };
                    own.seq + 1
                });
                (segment.flags.has(Flags::ACK) && answers) || first == Some(segment.seq)
            }
            Stage::Open => exact,
            Stage::Opaque | Stage::Closed => false,
        }
    }

    /// Both ends have sent a FIN. In an adopted flow with nothing cached one FIN is enough: the other one
    /// may have passed unseen.
    pub(crate) fn may_be_closed(&self) -> bool {
        match (self.fh.fin, self.mh.fin) {
            (Some(_), Some(_)) => true,
            (None, None) => false,
            _ => !self.began_with_syns() && self.cached_bytes() == 0,
        }
    }

    /// Notes whether a segment of an opaque flow ends it.
    pub(crate) fn note_end(&mut self, direction: Direction, segment: &Segment) {
        let is_reset = segment.flags.has(Flags::RST);
        let has_fin = segment.flags.has(Flags::FIN);
        if is_reset || (has_fin && direction == Direction::Downlink) {
            self.fh.fin = Some(segment.end());
        }
        if is_reset || (has_fin && direction == Direction::Uplink) {
            self.mh.fin = Some(segment.end());
        }
    }

    /// Both FINs are acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        let fh_done = self.fh.fin.is_some_and(|fin| fin.at_or_before(self.fh.una));
        let mh_done = self.mh.fin.is_some_and(|fin| fin.at_or_before(self.fh.ack));
        fh_done && mh_done
    }
}

#[cfg(test)]
mod tests {
    use holdfast_wire::Timestamps;

    use super::*;
    use crate::flow::handoff::tests::{flow, state};
    use crate::testing::{Bytes, data};

    const NOW: Instant = Instant::from_millis(1000);

    /// The FH has sent 2000..9000 and acknowledged 5100; the MH has sent up to 5200.
    fn open() -> Flow<Bytes> {
        let mut flow = flow();
        flow.adopt(&state(), NOW);
        flow
    }

    fn segment(seq: SeqNum, ack: u32) -> Segment {
        let (mut segment, _) = data(seq.get(), b"");
        segment.ack = SeqNum::new(ack);
        segment
    }

    #[test]
    fn data_beyond_the_window_are_noted_if_they_acknowledge_a_number_that_is_exact() {
        let max = SeqNum::new(9_000);
        for (end, ack, is_noted) in [
            (max + 1, 5_200, true),
            (max + 1, 5_100, true),
            (max + 1, 5_201, false),
            (max + 1, 5_199, false),
            (max + 1, 5_099, false),
            (max, 5_200, false),
            (max + (WINDOW_MAX - 1), 5_200, true),
            (max + WINDOW_MAX, 5_200, false),
        ] {
            let mut flow = open();
            flow.note_beyond_window(&segment(end, ack));
            let noted = is_noted.then_some(end);
            assert_eq!(flow.fh.end_beyond_window, noted, "{end:?} {ack}");
        }
    }

    #[test]
    fn a_reset_counts_only_with_a_number_of_its_own_direction() {
        let mut flow = open();
        let acked = SeqNum::new(1_999);
        flow.fh.last_end = SeqNum::new(8_000);
        flow.fh.end_beyond_window = Some(SeqNum::new(61_000));
        for seq in [2_000, 9_000, 1_999, 8_000, 61_000] {
            let reset = segment(SeqNum::new(seq), 0);
            assert!(flow.accepts_rst(false, &reset, acked), "FH: {seq}");
            assert!(!flow.accepts_rst(true, &reset, acked), "MH: {seq}");
        }
        for seq in [5_200, 5_100] {
            let reset = segment(SeqNum::new(seq), 0);
            assert!(flow.accepts_rst(true, &reset, acked), "MH: {seq}");
            assert!(!flow.accepts_rst(false, &reset, acked), "FH: {seq}");
        }
    }

    #[test]
    fn of_equal_clocks_of_the_mh_the_last_echo_is_the_newest() {
        for (tsval, is_noted) in [(71_499, false), (71_500, true), (71_501, true)] {
            let mut flow = open();
            let mut segment = segment(SeqNum::new(5_200), 2_000);
            let new = Timestamps {
                tsval,
                tsecr: 1_450,
            };
            segment.options.timestamps = Some(new);
            let known = flow.mh.timestamps;
            flow.note_mh(&segment, &Bytes(b""[..].into()), true);
            let newest = if is_noted { Some(new) } else { known };
            assert_eq!(flow.mh.timestamps, newest, "{tsval}");
        }
    }

    #[test]
    fn in_an_opaque_flow_a_fin_ends_its_own_direction_and_a_reset_both() {
        for (direction, flags, ends) in [
            (Direction::Downlink, Flags::FIN, [true, false]),
            (Direction::Uplink, Flags::FIN, [false, true]),
            (Direction::Downlink, Flags::ACK, [false, false]),
            (Direction::Uplink, Flags::ACK, [false, false]),
            (Direction::Uplink, Flags::RST, [true, true]),
        ] {
            let mut flow = flow();
            let mut segment = segment(SeqNum::new(100), 0);
            segment.flags = flags;
            flow.note_end(direction, &segment);
            let noted = [flow.fh.fin, flow.mh.fin].map(|fin| fin.is_some());
            assert_eq!(noted, ends, "{direction:?} {flags:?}");
        }
    }

    #[test]
    fn numbers_that_fit_nothing_open_the_flow_anew_if_both_ends_agree_on_them_for_a_second() {
        let mut flow = open();
        let clock = |tsval, tsecr| Some(Timestamps { tsval, tsecr });
        // The ACK is farther ahead than the largest window, and not below the known ones.
        let (end, ack) = (SeqNum::new(9_000) + WINDOW_MAX, 1 << 29);
        let mut of_fh = segment(end, ack);
        of_fh.options.timestamps = clock(1_500, 71_500);
        let payload = Bytes(b""[..].into());
        let outcome = flow.track_fh_segment(&of_fh, &payload, NOW);
        assert_eq!(outcome, FhOutcome::default());
        let mut of_mh = segment(SeqNum::new(ack), end.get());
        of_mh.options.timestamps = clock(71_500, 1_500);
        for (ms, is_opened_anew) in [(0, false), (999, false), (1_000, true)] {
            let now = NOW + Duration::from_millis(ms);
            let outcome = flow.track_mh_segment(&of_mh, &payload, None, false, |_, _| {}, now);
            let found = (outcome.is_opened_anew, outcome.credible);
            assert_eq!(found, (is_opened_anew, is_opened_anew), "{ms} ms");
        }
    }
}
