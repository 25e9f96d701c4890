// SPDX-License-Identifier: Apache-2.0
//! Opening a flow: a segment of the FH and one of the MH must agree.
//!
//! One number must match exactly: SEG.ACK of one segment is where the other segment begins or ends.
//! The other number must be near its counterpart. An attacker off the path does not know these
//! numbers: a forged segment agrees with a true one by a chance of 4 in 2^32. A SYN and its answer
//! are compared in the same way, because both may be forged.
//!
//! In this way the gateway also adopts a connection in mid-stream, without its SYNs.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum, Timestamps};

use super::credible::{BEYOND_SEEN_MAX, is_older, near};

/// The anchor, an older segment of the FH, is compared for this time. Then a newer one replaces it.
const ANCHOR_AGE_MAX: Duration = Duration::from_secs(1);

/// How far the MH's ACK may lie above the segment of the FH that it agrees with, in bytes: a window
/// without a scale.
const AHEAD_MAX: u32 = u16::MAX as u32;

/// The numbers of both ends in one segment of the FH.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub seq: SeqNum,
    pub end: SeqNum,
    pub ack: SeqNum,
    pub window: u16,
    pub timestamps: Option<Timestamps>,
}

impl Sighting {
    fn of(segment: &Segment) -> Self {
        Self {
            seq: segment.seq,
            end: segment.end(),
            ack: segment.ack,
            window: segment.window,
            timestamps: segment.options.timestamps,
        }
    }

    /// RFC 7323, 5.3: one of the ends would drop the other one's segment for its timestamp.
    fn is_dropped_as_old(&self, mh: &Segment) -> bool {
        match (self.timestamps, mh.options.timestamps) {
            (Some(fh), Some(mh)) => is_older(fh.tsval, mh.tsecr) || is_older(mh.tsval, fh.tsecr),
            _ => false,
        }
    }

    /// One number of the MH's segment is exact, and the other one is at most `apart` away.
    pub(super) fn has_numbers_of(&self, mh: &Segment, apart: u32) -> bool {
        let mh_end = mh.end();
        let exact =
            mh.seq == self.ack || mh_end == self.ack || mh.ack == self.end || mh.ack == self.seq;
        // The MH's ACK may be a little above this segment: the FH may have sent a probe, or old data.
        let ahead = mh.ack.distance_from(self.end);
        exact
            && ahead <= AHEAD_MAX
            && near(mh.ack, self.end, apart)
            && near(mh_end, self.ack, apart)
    }
}

/// The FH's segments that the MH's are compared with.
///
/// If one direction carries data, the MH's segment agrees with the newest one. If both do, the MH
/// answers much later: the anchor is an older segment for that case. A newer segment replaces each
/// of them, so a forged one delays the adoption and does not prevent it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Adoption {
    newest: Option<Sighting>,
    anchor: Option<(Sighting, Instant)>,
    /// The FH's FIN, and the number after the MH's FIN.
    fin: Option<Sighting>,
    mh_fin: Option<SeqNum>,
}

impl Adoption {
    /// Notes a segment of the FH. A segment with unknown options is no evidence.
    pub(super) fn note_fh(&mut self, segment: &Segment, now: Instant) {
        if !segment.flags.has(Flags::ACK) || segment.options.others {
            return;
        }
        let sighting = Sighting::of(segment);
        self.newest = Some(sighting);
        if segment.flags.has(Flags::FIN) {
            self.fin = Some(sighting);
        }
        let is_fresh =
            |(_, since): (Sighting, Instant)| now.saturating_since(since) < ANCHOR_AGE_MAX;
        if !self.anchor.is_some_and(is_fresh) {
            self.anchor = Some((sighting, now));
        }
    }

    /// Notes a segment of the MH that agrees with no segment of the FH yet.
    pub(super) fn note_mh(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::FIN) {
            self.mh_fin = Some(segment.end());
        }
    }

    /// The number after the MH's FIN, if this segment of the MH follows it.
    pub(super) fn mh_fin_before(&self, mh: &Segment) -> Option<SeqNum> {
        self.mh_fin.filter(|fin| *fin == mh.seq)
    }

    /// The end of the FH's FIN, if the FIN has the same ACK as `fh` and is near it.
    pub(super) fn fin_beside(&self, fh: &Sighting, mh: &Segment) -> Option<SeqNum> {
        let fin = self.fin.filter(|fin| !fin.is_dropped_as_old(mh));
        let fin = fin.filter(|fin| fin.ack == fh.ack && near(fin.end, fh.end, BEYOND_SEEN_MAX));
        fin.map(|fin| fin.end)
    }

    /// The number after the FH's FIN, if a segment of the FH with this number follows it.
    pub(super) fn fh_fin_before(&self, seq: SeqNum) -> Option<SeqNum> {
        let fin = self.fin.map(|fin| fin.end);
        fin.filter(|fin| *fin == seq)
    }

    /// The FH's segment with which this one of the MH agrees.
    pub(super) fn agreeing(&self, mh: &Segment) -> Option<Sighting> {
        let anchor = self.anchor.map(|(sighting, _)| sighting);
        let mut seen = self.newest.into_iter().chain(anchor);
        seen.find(|sighting| {
            !sighting.is_dropped_as_old(mh) && sighting.has_numbers_of(mh, BEYOND_SEEN_MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FH, MH, data};

    /// An ACK of the FH at this number.
    fn fh_segment(seq: u32, ack: u32, flags: Flags) -> Segment {
        let (mut segment, _) = data(seq, b"");
        (segment.ack, segment.flags) = (SeqNum::new(ack), flags);
        segment
    }

    /// An ACK of the MH for everything before `ack`.
    fn mh_segment(ack: u32) -> Segment {
        let (mut segment, _) = data(5000, b"");
        (segment.from, segment.to, segment.ack) = (MH, FH, SeqNum::new(ack));
        segment
    }

    #[test]
    fn a_fin_counts_beside_a_segment_that_is_near_and_has_the_same_ack() {
        let far = 100 + BEYOND_SEEN_MAX + 1;
        let fin = Flags::ACK.with(Flags::FIN);
        for (fin_seq, fin_ack, is_beside) in [
            (99, 5000, true),
            (far - 2, 5000, true),
            (far - 1, 5000, false),
            (99, 5001, false),
        ] {
            let mut adoption = Adoption::default();
            adoption.note_fh(&fh_segment(fin_seq, fin_ack, fin), Instant::ZERO);
            let fh = Sighting::of(&fh_segment(100, 5000, Flags::ACK));
            let mh = mh_segment(100);
            let end = is_beside.then(|| SeqNum::new(fin_seq + 1));
            assert_eq!(adoption.fin_beside(&fh, &mh), end, "{fin_seq} {fin_ack}");
        }
    }

    #[test]
    fn the_mh_agrees_with_an_fh_that_it_is_ahead_of_by_a_window_without_a_scale() {
        let fh = Sighting::of(&fh_segment(100, 5000, Flags::ACK));
        for (ahead, agrees) in [(AHEAD_MAX, true), (AHEAD_MAX + 1, false)] {
            let mh = mh_segment(100 + ahead);
            assert_eq!(fh.has_numbers_of(&mh, BEYOND_SEEN_MAX), agrees, "{ahead}");
        }
    }

    #[test]
    fn one_exact_number_is_enough_if_the_other_one_is_near() {
        let (mut fh, mut mh) = (fh_segment(100, 5000, Flags::ACK), mh_segment(0));
        (fh.payload_len, mh.payload_len) = (10, 20);
        let fh = Sighting::of(&fh);
        for (seq, ack, agrees) in [
            (5000, 105, true),
            (4980, 105, true),
            (4990, 110, true),
            (4990, 100, true),
            (4990, 105, false),
        ] {
            (mh.seq, mh.ack) = (SeqNum::new(seq), SeqNum::new(ack));
            let has = fh.has_numbers_of(&mh, BEYOND_SEEN_MAX);
            assert_eq!(has, agrees, "{seq} {ack}");
        }
    }

    #[test]
    fn an_mh_with_an_older_clock_or_an_older_echo_agrees_with_no_fh() {
        let clock = |tsval, tsecr| Some(Timestamps { tsval, tsecr });
        let mut fh = fh_segment(100, 5000, Flags::ACK);
        fh.options.timestamps = clock(500, 700);
        let mut adoption = Adoption::default();
        adoption.note_fh(&fh, Instant::ZERO);
        for (tsval, tsecr, agrees) in [
            (700, 500, true),
            // The MH has an FH's segment with a newer timestamp, or the FH one of the MH.
            (700, 501, false),
            (699, 500, false),
        ] {
            let mut mh = mh_segment(100);
            mh.options.timestamps = clock(tsval, tsecr);
            let is_some = adoption.agreeing(&mh).is_some();
            assert_eq!(is_some, agrees, "{tsval} {tsecr}");
        }
    }

    #[test]
    fn an_older_segment_of_the_fh_is_compared_for_a_second() {
        for (ms, is_kept) in [(999, true), (1_000, false)] {
            let mut adoption = Adoption::default();
            adoption.note_fh(&fh_segment(100, 5000, Flags::ACK), Instant::ZERO);
            let now = Instant::from_millis(ms);
            adoption.note_fh(&fh_segment(1 << 30, 9000, Flags::ACK), now);
            let is_some = adoption.agreeing(&mh_segment(100)).is_some();
            assert_eq!(is_some, is_kept, "{ms} ms");
        }
    }
}
