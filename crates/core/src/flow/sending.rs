// SPDX-License-Identifier: Apache-2.0
//! Sends from the cache: which bytes are next, which are lost, which ones the link has kept.

use holdfast_wire::{Flags, Instant, Segment, SeqNum, Timestamps};

use super::credible::CLOCK_RECENT_MAX;
use super::{Flow, Sender, Stage, WINDOW_MAX};
use crate::cache::Piece;
use crate::{Direction, Payload, Resend};

/// A piece is lost when the MH reports something that was sent after it and lies this number of
/// segments beyond (RFC 6675, `DupThresh`, measured as FACK does: by the farthest report).
const DUP_THRESH: u32 = 3;

/// The most pieces that one ACK makes the gateway retransmit: an ACK shows that two segments have left the link.
const LOSSES_AN_ACK_MAX: usize = 2;

/// After this number of advances of the MH that only segments from before the outage can cause, the
/// link has kept these segments. A single advance may repeat an ACK that was lost in the outage.
const ADVANCES_MIN: u32 = 2;

/// After this number of vain recoveries a flow is adopted anew. A forged segment may have opened it: then
/// the MH refuses what is cached of it.
const VAIN_RECOVERIES_MAX: u32 = 32;

/// The state at the end of an outage, while cached segments are sent after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeforeOutage {
    /// SND.UNA at link up.
    una: SeqNum,
    /// SND.NXT toward the MH at link up, and the newest timestamp that was sent by then.
    sent_nxt: SeqNum,
    tsval: Option<u32>,
    /// The end of what was retransmitted since.
    resent: SeqNum,
    /// The end of the MH's reports at its last advance that counts for [`ADVANCES_MIN`], and the advances so far.
    reported_end: SeqNum,
    advances: u32,
    /// Some bytes may have been retransmitted twice: ACKs of them are not timed (Karn).
    resent_twice: bool,
}

/// The first probe of a silence, or the first data that the FH has sent in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstProbe {
    /// The lowest number of all probes and of all data of the FH in the silence.
    seq: SeqNum,
    /// The timestamp of the first probe. An echo of an older one answers what was sent before.
    tsval: Option<u32>,
    /// The MH's ACK if it has received only the 1-byte probe since. A higher ACK answers the original segment.
    /// None: the probe is longer, that segment has another timestamp, or the FH has retransmitted it.
    probe_alone: Option<SeqNum>,
}

/// The state of sending from the cache since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resending {
    /// The highest end of a range that the MH has reported since.
    arrived_end: SeqNum,
    /// Lost pieces before this were retransmitted (RFC 6675, `HighRxt`).
    high_rxt: SeqNum,
}

impl Resending {
    /// Nothing of what follows `una` was retransmitted.
    pub(super) const fn from_start(una: SeqNum) -> Self {
        Self {
            arrived_end: una,
            high_rxt: una,
        }
    }
}

impl<P: Payload> Flow<P> {
    /// Everything that is cached and not reported by the MH is to be sent, from SND.UNA on. False:
    /// nothing is cached.
    pub(crate) fn rewind(&mut self) -> bool {
        let rewinds = self.stage == Stage::Open && !self.cache.is_empty();
        if rewinds {
            self.sent_nxt = self.fh.una;
            self.recover = self.cache.end();
            self.timed_segment = None;
            self.transmissions.clear();
            self.begin_resending();
            if let Some(before) = &mut self.before_outage {
                before.resent_twice = true;
            }
        }
        rewinds
    }

    /// The MH answers bytes that were sent once since link up, except for probes: its echo is not from before
    /// link up (Karn).
    pub(crate) fn answers_first_copy(&self, segment: &Segment) -> bool {
        if self.recover.is_none() {
            return true;
        }
        let Some(before) = self.before_outage.as_ref().filter(|it| !it.resent_twice) else {
            return false;
        };
        let newest_before = before.tsval.zip(segment.options.timestamps);
        newest_before.is_some_and(|(newest, ts)| ts.tsecr.wrapping_sub(newest) as i32 >= 0)
    }

    /// Forgets reports of the byte at SND.UNA: an MH that had it would have acknowledged it (RFC 2018, 8).
    pub(crate) fn forget_wrong_reports(&mut self) {
        let (missing, _) = self.sacked.next_missing(self.fh.una);
        if missing != self.fh.una {
            self.sacked.clear();
        }
    }

    /// Nothing after SND.UNA has been retransmitted.
    pub(super) const fn begin_resending(&mut self) {
        self.resending = Resending::from_start(self.fh.una);
    }

    /// From now on the scheme's own sender sends from the cache.
    pub(crate) fn begin_own_sender(&mut self) {
        self.has_own_sender = true;
        self.begin_resending();
    }

    /// The MH has acknowledged everything before `una`. No mark stays below it: after a wrap it would lie ahead.
    pub(super) fn follow_resending(&mut self, una: SeqNum) {
        let resending = &mut self.resending;
        resending.arrived_end = resending.arrived_end.max(una);
        resending.high_rxt = resending.high_rxt.max(una);
    }

    /// Bytes of payload in each segment of what is sent next; at least 1.
    pub(crate) fn next_segment_len(&self) -> u32 {
        self.cache.segment_len_at(self.sent_nxt).unwrap_or(1)
    }

    /// Nothing is being sent from the cache, timed or waited for any more.
    pub(super) fn forget_sending(&mut self) {
        self.recover = None;
        self.before_outage = None;
        self.retransmit_at = None;
        self.timed_segment = None;
        self.dup_acks = 0;
    }

    /// The end of what the MH has acknowledged, or reported by SACK above a hole.
    fn reported(&self) -> SeqNum {
        let una = self.fh.una;
        self.sacked.highest().map_or(una, |end| end.max(una))
    }

    /// The link is up again: the cache is sent from SND.UNA on, unless ACKs show that the link has kept
    /// the segments in flight. False: nothing is cached.
    pub(crate) fn rewind_after_outage(&mut self) -> bool {
        let sent_nxt = self.sent_nxt;
        let before = self.before_outage.as_ref();
        let is_vain = before.is_some_and(|before| before.una == self.fh.una);
        self.vain_recoveries = if is_vain {
            self.vain_recoveries.saturating_add(1)
        } else {
            0
        };
        if is_vain {
            // The recovery before this one was in vain. RFC 2018, 8: what was reported may have been
            // dropped since.
            self.sacked.clear();
        }
        // The MH may still answer what the previous recovery has sent.
        let resent_twice = self.recover.is_some();
        let rewinds = self.rewind();
        // The wait for an answer begins now.
        (self.retransmit_at, self.vain_retransmissions) = (None, 0);
        if self.recover.is_some() {
            self.before_outage = Some(Box::new(BeforeOutage {
                una: self.fh.una,
                sent_nxt,
                tsval: self.tsval_sent,
                resent: self.fh.una,
                reported_end: self.reported(),
                advances: 0,
                resent_twice,
            }));
        }
        rewinds
    }

    /// The numbers of an adopted flow may be wrong: the MH answers, and accepts nothing of the cache.
    pub(crate) fn is_adopted_in_vain(&self) -> bool {
        // The ends of such a flow rely on what the gateway has made.
        let is_bound = self.has_own_sender || self.owed.is_some() || self.renumber.is_some();
        let is_vain = self.vain_recoveries >= VAIN_RECOVERIES_MAX;
        is_vain && !is_bound && !self.began_with_syns()
    }

    /// True if the MH goes on acknowledging or reporting what was sent before the outage: the link has
    /// kept it. All of that is still in flight, and is not sent twice.
    ///
    /// The time of an ACK proves nothing: the queue that made the round trips before may be gone. But
    /// an ACK echoes a timestamp (RFC 7323, 4.3), and a retransmission has at least the newest one from
    /// before the outage. Without timestamps a report must lie above everything that was retransmitted.
    pub(crate) fn finds_link_kept_all(&mut self, segment: &Segment) -> bool {
        let (una, reported) = (self.fh.una, self.reported());
        let Some(before) = &mut self.before_outage else {
            return false;
        };
        if self.recover.is_none() {
            self.before_outage = None;
            return false;
        }
        if before.sent_nxt.at_or_before(una) {
            return false;
        }
        let from_before = match (before.tsval, segment.options.timestamps) {
            (Some(newest), Some(ts)) => (ts.tsecr.wrapping_sub(newest) as i32) < 0,
            _ => reported.after(before.resent),
        };
        if !(from_before && reported.after(before.reported_end)) {
            return false;
        }
        before.reported_end = reported;
        before.advances += 1;
        let kept = before.advances >= ADVANCES_MIN;
        if kept {
            self.sent_nxt = self.sent_nxt.max(before.sent_nxt);
            self.before_outage = None;
        }
        kept
    }

    /// The MH reports a range that was not known to have arrived.
    pub(super) fn on_reported(&mut self, right: SeqNum) {
        self.resending.arrived_end = self.resending.arrived_end.max(right.min(self.sent_nxt));
    }

    /// Takes the next piece to send. The flow counts it as sent.
    pub(crate) fn take_piece(&mut self, len_max: u32) -> Option<Resend<P>> {
        let (from, limit) = self.sacked.next_missing(self.sent_nxt);
        let piece = self.cache.piece(from, limit, len_max);
        let Some(piece) = piece else {
            // All that is left was reported, or lies beyond a reported range.
            self.sent_nxt = limit.unwrap_or_else(|| self.cache.end().unwrap_or(from).max(from));
            return None;
        };
        self.sent_nxt = piece.end;
        self.mh.refuses_all = false;
        if let Some(before) = &mut self.before_outage {
            before.resent = before.resent.max(piece.end);
        }
        Some(self.resend(piece))
    }

    /// Takes the next piece, which was not sent before. A round trip that is being timed goes on.
    pub(crate) fn take_first(&mut self, len_max: u32, now: Instant) -> Option<Resend<P>> {
        let timed = self.timed_segment;
        let piece = self.take_piece(len_max);
        self.timed_segment = timed;
        if piece.is_some() {
            self.timed_segment.get_or_insert((self.sent_nxt, now));
        }
        piece
    }

    /// A lost piece that was sent from the cache and is not retransmitted yet, if there is one.
    pub(crate) fn take_lost(&mut self) -> Option<Resend<P>> {
        let from = self.fh.una.max(self.resending.high_rxt);
        let piece = self.missing_segment(from, u32::MAX)?;
        let reach = piece.end + DUP_THRESH * piece.payload.segment_len().max(1);
        if reach.at_or_before(self.resending.arrived_end) {
            self.resending.high_rxt = piece.end;
            return Some(self.resend(piece));
        }
        None
    }

    /// One segment of what the MH lacks at or after `from`, or the first bytes of it.
    fn missing_segment(&self, from: SeqNum, len_max: u32) -> Option<Piece<P>> {
        let (from, limit) = self.sacked.next_missing(from);
        let piece = self.cache.piece(from, limit, u32::MAX)?;
        let len = piece.payload.segment_len().max(1);
        self.cache.piece(from, limit, len.min(len_max))
    }

    /// The first piece that the MH has not acknowledged or reported, out of turn.
    pub(crate) fn first_missing(&mut self, sender: Sender) -> Option<Resend<P>> {
        let piece = self.missing_segment(self.fh.una, u32::MAX)?;
        Some(self.resend_by(sender, piece))
    }

    /// A piece of a lost range, out of turn.
    pub(crate) fn piece_of(
        &mut self,
        seq: SeqNum,
        end: SeqNum,
        len_max: u32,
        sender: Sender,
    ) -> Option<Resend<P>> {
        let piece = self.cache.piece(seq, Some(end), len_max)?;
        Some(self.resend_by(sender, piece))
    }

    /// A probe of at most `len_max` bytes: bytes that the MH lacks, or else any cached ones. Those that
    /// it lacks may have been lost before they reached the gateway.
    pub(crate) fn probe(&mut self, len_max: u32) -> Option<Resend<P>> {
        let una = self.fh.una;
        let piece = self.missing_segment(una, len_max).or_else(|| {
            let piece = self.cache.piece(una, None, u32::MAX)?;
            let len = piece.payload.segment_len().max(1);
            self.cache.piece(una, None, len.min(len_max))
        })?;
        let has_timestamp_of_segment = self.tsval_sent.is_none_or(|sent| sent == piece.tsval);
        let probe_alone = (len_max == 1 && has_timestamp_of_segment)
            .then(|| self.sacked.next_missing(piece.end).0);
        let probed = self.first_probe.get_or_insert(FirstProbe {
            seq: piece.seq,
            tsval: self.tsval_sent,
            probe_alone,
        });
        probed.seq = probed.seq.min(piece.seq);
        Some(self.resend(piece))
    }

    /// Data of the FH passes in a silence: an answer to it is as good as one to a probe. If the FH
    /// retransmits the segment of the probe, an ACK above the probe may answer that copy. As long as no
    /// round trip is `measured`, the FH retransmits on slow links too.
    pub(crate) fn note_passed_probe(&mut self, segment: &Segment, measured: bool) {
        let probed = self.first_probe.get_or_insert(FirstProbe {
            seq: segment.seq,
            tsval: segment.options.timestamps.map(|ts| ts.tsval),
            probe_alone: None,
        });
        if measured && segment.seq.at_or_before(probed.seq) {
            probed.probe_alone = None;
        }
        probed.seq = probed.seq.min(segment.seq);
    }

    /// The MH's segment answers what was sent before the first probe: it echoes an older timestamp
    /// (RFC 7323, 4.3), it acknowledges more than the byte of the probe, or the flow was not probed at
    /// all. Without a report of something new it may answer a keep-alive, or be the MH's own
    /// retransmission.
    ///
    /// A D-SACK answers a copy. What was sent before the copy has arrived by then, or is lost.
    pub(crate) fn answers_from_before_probe(&self, segment: &Segment, reports_new: bool) -> bool {
        let Some(probed) = self.first_probe else {
            return reports_new;
        };
        let sack = segment.options.sack;
        let is_plausible = sack.all_within(self.fh.max - WINDOW_MAX, self.fh.max);
        let first = sack.iter().next().filter(|_| is_plausible);
        let duplicate = first.filter(|(_, right)| right.at_or_before(segment.ack));
        if let Some((left, _)) = duplicate {
            // A duplicate below all probes of this silence is from an earlier silence.
            return left.before(probed.seq);
        }
        let age = match (probed.tsval, segment.options.timestamps) {
            (Some(tsval), Some(ts)) => tsval.wrapping_sub(ts.tsecr) as i32,
            _ => 0,
        };
        let is_beyond = probed
            .probe_alone
            .is_some_and(|alone| segment.ack.after(alone));
        reports_new && (age > 0 || (age == 0 && is_beyond))
    }

    pub(super) fn resend(&mut self, piece: Piece<P>) -> Resend<P> {
        self.resend_by(Sender::Gateway, piece)
    }

    /// What the MH's ACK shows to be lost; with `dup_acks`, duplicate ACKs alone show it.
    pub(crate) fn take_losses(&mut self, dup_acks: bool) -> impl Iterator<Item = Resend<P>> + '_ {
        let first = if dup_acks {
            self.first_missing(Sender::Gateway)
        } else {
            None
        };
        let lost = core::iter::from_fn(|| self.take_lost());
        first.into_iter().chain(lost.take(LOSSES_AN_ACK_MAX))
    }

    /// Takes a cached segment as pieces of the cache, which are sent for the first time.
    pub(crate) fn take_pieces_of(&mut self, segment: &Segment, mut take: impl FnMut(Resend<P>)) {
        let (timed, end) = (self.timed_segment, segment.end());
        let mut seq = segment.seq;
        while let Some(piece) = self.cache.piece(seq, Some(end), u32::MAX) {
            seq = piece.end;
            take(self.resend(piece));
        }
        self.timed_segment = timed;
    }

    /// The ACK number to send to the MH. `newest` is the FH's own.
    pub(crate) fn ack_for_mh(&self, newest: SeqNum) -> SeqNum {
        self.ack_shown.unwrap_or(newest)
    }

    fn resend_by(&mut self, sender: Sender, piece: Piece<P>) -> Resend<P> {
        // Karn: what is sent twice is not timed.
        self.timed_segment = None;
        let (ahead, ack) = (sender == Sender::GatewayAhead, Flags::ACK.with(self.fh.ece));
        let timestamps = self.mh.timestamps.map(|mh| Timestamps {
            tsval: if ahead {
                overtaking_tsval(piece.tsval, mh)
            } else {
                self.note_tsval(piece.tsval)
            },
            tsecr: self.fh.tsecr,
        });
        Resend {
            direction: Direction::Downlink,
            ahead,
            offset: piece.offset,
            len: piece.len,
            seq: piece.seq,
            ack: self.ack_for_mh(self.fh.ack),
            window: self.fh.window,
            flags: piece.flags.without(Flags::ECE).with(ack),
            timestamps,
            segment_len: piece.payload.segment_len().max(1),
            path_mtu: self.path_mtu,
            compress: None,
            payload: piece.payload,
        }
    }

    /// Notes whether the MH answers with a zero window. Some stacks close it before an outage: bytes within
    /// the window from before are in flight.
    pub(super) fn note_refusal(&mut self, segment: &Segment) {
        if segment.ack == self.fh.una {
            let is_at_edge = self.mh.right_edge == Some(self.fh.una);
            self.mh.refuses_all = segment.window == 0 && is_at_edge;
        }
    }

    /// The MH's timestamp clock is unknown, or too old to compare: after a long pause it may have any value.
    pub(super) fn has_no_clock(&mut self, now: Instant) -> bool {
        self.mh.clock_may_differ |= now.saturating_since(self.mh.received_at) >= CLOCK_RECENT_MAX;
        self.mh.timestamps.is_none() || self.mh.clock_may_differ
    }

    /// After a long pause of the FH, timestamps from before this segment are no longer compared.
    pub(super) fn forget_old_clock(&mut self, segment: &Segment, now: Instant) {
        let Some(timestamps) = segment.options.timestamps else {
            return;
        };
        if now.saturating_since(self.tsval_noted) >= CLOCK_RECENT_MAX {
            self.tsval_sent = None;
            if let Some(mh) = &mut self.mh.timestamps {
                mh.tsecr = timestamps.tsval;
            }
        }
    }

    /// Notes a segment of the FH that goes to the MH unchanged, with or without data.
    pub(crate) fn note_passed(&mut self, segment: &Segment, now: Instant) {
        // RFC 7323, 4.3: the MH takes a timestamp only from a segment that it accepts in order.
        let in_turn =
            segment.seq.at_or_before(self.sent_nxt) && self.fh.una.at_or_before(segment.end());
        let Some(timestamps) = segment.options.timestamps.filter(|_| in_turn) else {
            return;
        };
        let elapsed = now.saturating_since(self.tsval_noted).as_micros();
        let limit = u32::try_from(elapsed)
            .unwrap_or(u32::MAX)
            .saturating_add(1_000_000);
        let plausible = |sent: u32| timestamps.tsval.wrapping_sub(sent) <= limit;
        if self.tsval_sent.is_none_or(plausible) {
            self.tsval_noted = now;
            self.note_tsval(timestamps.tsval);
        }
    }

    /// The timestamp to send with a segment that has `tsval`. It is the FH's own, so that the echo
    /// shows the FH that nothing was lost (RFC 3522). If the MH may have received a newer one, it is that one:
    /// the MH would drop an older one by PAWS (RFC 7323, 5.3). The MH's echo is no proof: its newest ACKs
    /// are lost with the link.
    pub(super) fn note_tsval(&mut self, tsval: u32) -> u32 {
        let echoed = self.mh.timestamps.map(|mh| mh.tsecr);
        let known = [self.tsval_sent, echoed].into_iter().flatten();
        let newest = known.fold(tsval, |newest, other| {
            let newer = (other.wrapping_sub(newest) as i32) > 0;
            if newer { other } else { newest }
        });
        self.tsval_sent = Some(newest);
        newest
    }
}

/// The timestamp of a segment that overtakes the link's queue: its own, or the one that the MH has
/// echoed. With a newer one the MH would drop all that waits in the queue by PAWS (RFC 7323, 5.3).
/// Observed: a third of a transfer was sent twice.
fn overtaking_tsval(tsval: u32, mh: Timestamps) -> u32 {
    let older = (mh.tsecr.wrapping_sub(tsval) as i32) > 0;
    if older { mh.tsecr } else { tsval }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowKey;
    use crate::table::{Id as _, MobileId, Slot};
    use crate::testing::{Bytes, data};

    const NOW: Instant = Instant::from_millis(1000);

    /// A flow whose MH has everything before `una`, with this number of cached segments in flight.
    fn flow(una: SeqNum, segments: u32) -> Flow<Bytes> {
        let (first, _) = data(0, b"");
        let key = FlowKey::of(&first, Direction::Downlink);
        let mut flow = Flow::new(key, MobileId::new(Slot::default()), NOW);
        flow.stage = Stage::Open;
        flow.fh.una = una;
        flow.begin_resending();
        cache(&mut flow, segments);
        flow
    }

    fn cache(flow: &mut Flow<Bytes>, segments: u32) {
        let una = flow.fh.una;
        for n in 0..segments {
            let (segment, payload) = data((una + n * 1000).get(), &[7; 1000]);
            let _ = flow.cache.insert(&segment, &payload, una, 1 << 20, 100);
        }
        flow.fh.max = una + segments * 1000;
        flow.sent_nxt = flow.fh.max;
    }

    fn lost(flow: &mut Flow<Bytes>) -> Option<(u32, u32)> {
        let lost = flow.take_lost();
        lost.map(|piece| (piece.seq.get(), piece.len))
    }

    #[test]
    fn a_piece_is_lost_when_three_segments_beyond_it_have_arrived_and_no_byte_sooner() {
        for (reported, found) in [(4000, None), (4001, Some((1, 1000)))] {
            let mut flow = flow(SeqNum::new(1), 5);
            let (left, right) = (SeqNum::new(1001), SeqNum::new(reported));
            flow.sacked.add(left, right);
            flow.on_reported(right);
            assert_eq!(lost(&mut flow), found, "{reported}");
            assert_eq!(lost(&mut flow), None, "once");
        }
    }

    #[test]
    fn a_report_of_the_byte_at_snd_una_shows_that_the_reports_are_wrong() {
        let una = SeqNum::new(1);
        for (left, is_wrong) in [(0, true), (1, false), (1000, false)] {
            let mut flow = flow(una, 3);
            flow.sacked.add(una + left, una + 3000);
            flow.forget_wrong_reports();
            assert_eq!(flow.sacked.is_empty(), is_wrong, "{left}");
        }
    }

    #[test]
    fn losses_are_found_when_the_numbers_have_gone_round() {
        let mut flow = flow(SeqNum::new(1), 0);
        for _ in 0..3 {
            flow.fh.una += 1 << 30;
            flow.follow_resending(flow.fh.una);
        }
        cache(&mut flow, 4);
        let una = flow.fh.una;
        flow.sacked.add(una + 1000, una + 4000);
        flow.on_reported(una + 4000);
        assert_eq!(lost(&mut flow), Some((una.get(), 1000)));
    }
}
