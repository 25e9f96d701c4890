// SPDX-License-Identifier: Apache-2.0
//! Which segments are believed. Their numbers lie within the windows that both ends have offered,
//! or both directions agree on bytes that passed unseen.
//!
//! The ends check both numbers of a segment (RFC 9293, 3.10.7.4; RFC 5961, 5). If the gateway were
//! less strict, an attacker off the path could mislead it. The gateway also knows less than the ends:
//! after a hang or a restart, true segments lie outside of everything that it has seen.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum, Timestamps};

use super::{CachedElsewhere, Flow};
use crate::Payload;

/// How far apart two numbers of one direction may lie: the largest window (RFC 7323,
/// 2.3).
pub(crate) const WINDOW_MAX: u32 = 1 << 30;

/// The largest shift of a window (RFC 7323, 2.3).
const SHIFT_MAX: u8 = 14;

/// How far a segment may go beyond a window: the byte of a probe, and a FIN (RFC 9293, 3.8.6.1).
const BEYOND_WINDOW: u32 = 2;

/// After this time without a segment of the MH that fits, a segment that does not fit may be true.
const DOUBT_MIN: Duration = Duration::from_secs(1);

/// A live connection gives way to a new one between the same ports only after this silence: the
/// ends themselves wait 2 MSL (RFC 9293, 3.6.1), 60 s on Linux.
pub(super) const QUIET_MIN: Duration = Duration::from_secs(60);

/// A timestamp that is older than this is not compared: a clock with ticks of 1 µs covers half its range in
/// 35 minutes (RFC 7323, 5.5).
pub(super) const CLOCK_RECENT_MAX: Duration = Duration::from_secs(30 * 60);

/// How far a host's timestamp clock may deviate from the gateway's clock, in ticks.
const CLOCK_SLACK_TICKS: u32 = 1_000_000;

/// The shortest time of contradictions that shows SND.UNA to be wrong: no path reorders segments for longer.
const CONTRADICTED_MIN: Duration = Duration::from_secs(5);

/// The fewest contradictions that show SND.UNA to be wrong: fewer segments may be old copies.
const CONTRADICTIONS_MIN: u32 = 3;

/// How far the numbers of an end may go beyond everything seen, in bytes, if its window scale is unknown.
/// It is the largest window that today's hosts offer by default.
pub(super) const BEYOND_SEEN_MAX: u32 = 4 << 20;

/// The largest window of one end, in bytes: MAX.SND.WND of the other. It is at least the largest
/// window without a scale, because the first windows may have passed unseen. With an unknown scale
/// it follows from the bytes in flight.
fn window_max(largest: u16, scale: Option<u8>, in_flight: u32) -> u32 {
    let window = match scale {
        Some(shift) => u32::from(largest) << shift.min(SHIFT_MAX),
        None => in_flight.saturating_add(BEYOND_SEEN_MAX),
    };
    window.clamp(u16::MAX.into(), WINDOW_MAX)
}

/// A segment of the MH that does not fit what is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unseen {
    end: SeqNum,
    /// It ends with the MH's FIN, or follows it.
    has_fin: bool,
    pub ack: SeqNum,
    window: u16,
    /// One of its two numbers fits.
    half_fits: bool,
    seq_fits: bool,
    clock_fits: bool,
    timestamps: Option<Timestamps>,
    /// Since this time no segment of the MH that fits has come.
    since: Instant,
}

impl Unseen {
    /// The tracked connection would have sent a segment that fits by now.
    pub(super) fn may_be_true(&self, now: Instant) -> bool {
        now.saturating_since(self.since) >= DOUBT_MIN
    }

    /// The tracked connection would have sent one by now, even in an outage.
    pub(super) fn must_be_true(&self, now: Instant) -> bool {
        now.saturating_since(self.since) >= QUIET_MIN
    }
}

/// Segments of the MH that acknowledge less than SND.UNA. A path that reorders segments causes them for
/// a short time. After that time SND.UNA is wrong: a forged segment was believed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contradiction {
    /// The highest ACK of these segments. An ACK more than a window away begins the count anew.
    ack: SeqNum,
    since: Instant,
    segments: u32,
}

/// Whether a segment of the MH fits the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credit {
    /// Both numbers fit.
    Fits,
    /// It acknowledges bytes that passed unseen, and is from the MH.
    FitsUnseen,
    /// It is not believed.
    None,
}

/// `number` lies from `first` up to `last`.
fn within(number: SeqNum, first: SeqNum, last: SeqNum) -> bool {
    first.at_or_before(number) && number.at_or_before(last)
}

/// `a` is the older of two values of one timestamp clock (RFC 7323, 5.3).
pub(super) const fn is_older(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

const fn oldest(a: u32, b: u32) -> u32 {
    if is_older(a, b) { a } else { b }
}

/// A receiver that has accepted the timestamp `recent` drops the segment.
fn is_dropped_as_old(segment: &Segment, recent: u32) -> bool {
    let own = segment.options.timestamps;
    own.is_none_or(|own| is_older(own.tsval, recent))
}

/// The numbers are at most `window` apart, in either order.
pub(super) fn near(a: SeqNum, b: SeqNum, window: u32) -> bool {
    a.distance_from(b).max(b.distance_from(a)) <= window
}

impl<P: Payload> Flow<P> {
    /// The largest window that the MH has offered, `window` included.
    fn mh_window_max(&self, window: u16) -> u32 {
        let in_flight = self.fh.max.distance_from(self.fh.una);
        let largest = self.mh.window_largest.max(window);
        window_max(largest, self.mh.window_scale, in_flight)
    }

    /// The largest window that the FH has offered, `window` included.
    fn fh_window_max(&self, window: u16) -> u32 {
        let in_flight = self.mh.nxt.distance_from(self.fh.ack);
        let largest = self.fh.window_largest.max(window);
        window_max(largest, self.fh.window_scale, in_flight)
    }

    /// The sequence numbers of a segment of the MH fit: in the FH's window, or in the window before it
    /// (retransmissions, keep-alives).
    fn mh_seq_fits(&self, segment: &Segment) -> bool {
        let window = self.fh_window_max(0);
        let edge = (self.fh.ack + window).max(self.mh.nxt) + BEYOND_WINDOW;
        self.fh.ack.distance_from(segment.seq) <= window
            && segment.seq.distance_from(self.fh.ack) <= window + BEYOND_WINDOW
            && segment.end().at_or_before(edge)
    }

    /// Judges a segment of the MH. A segment that is not believed is remembered: the FH may confirm it.
    pub(super) fn credit(&mut self, segment: &Segment, now: Instant) -> Credit {
        let is_old = self.fh_drops_as_old(segment, now);
        let seq_fits = self.mh_seq_fits(segment);
        let ack_fits = self.mh_ack_fits(segment.ack);
        if seq_fits && ack_fits && !is_old {
            return self.give_credit(Credit::Fits, now);
        }
        let clock_fits = self.clock_fits(segment.options.timestamps, now);
        let is_of_mh = self.fits_but_for_unseen_data(segment, seq_fits, clock_fits)
            || self.is_confirmed_by_fh(segment)
            || self.both_have_moved_on(segment, clock_fits, now);
        if is_of_mh && !is_old && self.acks_unseen_data(segment.ack) {
            return self.give_credit(Credit::FitsUnseen, now);
        }
        let last = self.unseen.as_deref();
        let since = last.map_or(now, |last| last.since);
        let follows_fin = last.is_some_and(|last| last.has_fin && last.end == segment.end());
        self.unseen = Some(Box::new(Unseen {
            end: segment.end(),
            has_fin: segment.flags.has(Flags::FIN) || follows_fin,
            ack: segment.ack,
            window: segment.window,
            half_fits: seq_fits || ack_fits,
            seq_fits,
            clock_fits,
            timestamps: segment.options.timestamps,
            since,
        }));
        Credit::None
    }

    /// Notes a segment of the MH that acknowledges less than SND.UNA. True if three such segments have
    /// come over at least five seconds: SND.UNA is wrong.
    pub(super) fn note_contradiction(&mut self, segment: &Segment, now: Instant) -> bool {
        if !segment.ack.before(self.fh.una) {
            if self.contradiction.is_some() && self.mh_ack_fits(segment.ack) {
                (self.contradiction, self.adoption) = (None, None);
            }
            return false;
        }
        if !self.mh_seq_fits(segment) || self.fh_drops_as_old(segment, now) {
            return false;
        }
        let window = self.mh_window_max(segment.window);
        let last = self.contradiction.as_deref().copied();
        let last = last.filter(|last| near(segment.ack, last.ack, window));
        let contradiction = Contradiction {
            ack: last.map_or(segment.ack, |last| last.ack.max(segment.ack)),
            since: last.map_or(now, |last| last.since),
            segments: last.map_or(1, |last| last.segments.saturating_add(1)),
        };
        self.contradiction = Some(Box::new(contradiction));
        contradiction.segments >= CONTRADICTIONS_MIN
            && now.saturating_since(contradiction.since) >= CONTRADICTED_MIN
    }

    fn give_credit(&mut self, credit: Credit, now: Instant) -> Credit {
        self.unseen = None;
        self.mh.received_at = now;
        credit
    }

    /// RFC 5961, 5: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT, of the FH.
    fn mh_ack_fits(&self, ack: SeqNum) -> bool {
        self.fh.una.distance_from(ack) <= self.mh_window_max(0) && ack.at_or_before(self.fh.max)
    }

    /// The ACK is above all that was seen of the FH, by less than the largest window (RFC 7323,
    /// 2.3).
    fn acks_unseen_data(&self, ack: SeqNum) -> bool {
        let ahead = ack.distance_from(self.fh.max);
        ack.after(self.fh.una) && ahead > 0 && ahead < WINDOW_MAX
    }

    /// SEG.SEQ is RCV.NXT, as RFC 5961, 3.2 requires of a RST. The MH's FIN may have passed unseen.
    fn mh_seq_is_exact(&self, segment: &Segment) -> bool {
        [self.mh.nxt, self.mh.nxt + 1, self.fh.ack].contains(&segment.seq)
    }

    /// The segment acknowledges no more than the FH may send (RFC 9293, 3.8.6), and its sequence
    /// number is the MH's.
    fn fits_but_for_unseen_data(
        &self,
        segment: &Segment,
        seq_fits: bool,
        clock_fits: bool,
    ) -> bool {
        let has_no_clock = self.mh.timestamps.is_none();
        let is_of_mh = self.mh_seq_is_exact(segment) || seq_fits && (clock_fits || has_no_clock);
        is_of_mh && self.is_in_window(segment.ack)
    }

    /// A segment of the FH that ends at this ACK or above it was seen.
    fn is_confirmed_by_fh(&self, segment: &Segment) -> bool {
        let is_sent = |end: SeqNum| segment.ack.at_or_before(end);
        self.mh_seq_is_exact(segment) && self.fh.end_beyond_window.is_some_and(is_sent)
    }

    /// Both directions have moved on by more than a window, and the FH is silent. Without this rule
    /// the MH is probed for ever. A clock alone releases no owed bytes.
    fn both_have_moved_on(&self, segment: &Segment, clock_fits: bool, now: Instant) -> bool {
        let unseen = self.unseen.as_ref();
        let is_doubted = unseen.is_some_and(|unseen| unseen.may_be_true(now));
        is_doubted && (self.mh_seq_is_exact(segment) || clock_fits && self.owed.is_none())
    }

    /// The MH may have acknowledged bytes that passed unseen: the tracked numbers may be old.
    pub(crate) fn is_in_doubt(&self) -> bool {
        let unseen = self.unseen.as_ref();
        unseen.is_some_and(|unseen| unseen.seq_fits)
    }

    /// True if `ack` is no farther than the MH's window allows the FH to send.
    fn is_in_window(&self, ack: SeqNum) -> bool {
        let edge = match self.mh.right_edge {
            Some(edge) => edge + BEYOND_WINDOW,
            None => self.fh.max + BEYOND_SEEN_MAX,
        };
        ack.at_or_before(edge)
    }

    /// Both timestamps have advanced by no more than the elapsed time, at 1 µs a tick. RFC 7323, 5.4
    /// allows ticks of 1 ms or more, but Linux has some of 1 µs.
    pub(super) fn clock_fits(&self, timestamps: Option<Timestamps>, now: Instant) -> bool {
        let Some(last) = self.mh.timestamps else {
            return false;
        };
        let elapsed = now.saturating_since(self.mh.received_at).as_micros();
        let ticks = u32::try_from(elapsed).unwrap_or(u32::MAX);
        let limit = ticks.saturating_add(2 * CLOCK_SLACK_TICKS);
        let fits =
            |new: u32, old: u32| new.wrapping_sub(old.wrapping_sub(CLOCK_SLACK_TICKS)) <= limit;
        timestamps.is_some_and(|new| fits(new.tsval, last.tsval) && fits(new.tsecr, last.tsecr))
    }

    /// RFC 7323, 5.3 (PAWS): the MH drops a segment whose timestamp is older than the newest one that it
    /// has accepted. Its bytes are not the connection's. The MH echoes the newest accepted one.
    /// An echo of a timestamp that was never sent proves nothing.
    ///
    /// RFC 7323, 3.2 has the same rule for a segment without a timestamp if all others have one. Linux
    /// takes such a segment; here it passes and is not cached.
    pub(super) fn mh_drops_as_old(&self, segment: &Segment, now: Instant) -> bool {
        let (Some(mh), Some(sent)) = (self.mh.timestamps, self.tsval_sent) else {
            return false;
        };
        now.saturating_since(self.tsval_noted) < CLOCK_RECENT_MAX
            && is_dropped_as_old(segment, oldest(mh.tsecr, sent))
    }

    /// The same at the FH, of a segment of the MH.
    fn fh_drops_as_old(&self, segment: &Segment, now: Instant) -> bool {
        let Some(mh) = self.mh.timestamps.filter(|_| self.fh.tsecr != 0) else {
            return false;
        };
        now.saturating_since(self.mh.received_at) < CLOCK_RECENT_MAX
            && is_dropped_as_old(segment, oldest(self.fh.tsecr, mh.tsval))
    }

    /// RFC 9293, 3.10.7.4: within the window that the MH has offered, and with an ACK
    /// of what the MH has sent.
    pub(super) fn fh_fits(&self, segment: &Segment) -> bool {
        let window = self.mh_window_max(0);
        let edge = match self.mh.right_edge {
            Some(edge) => edge.max(self.fh.max),
            None => self.fh.una + window,
        };
        let first = self.fh.ack - self.fh_window_max(0);
        segment.end().at_or_before(edge + BEYOND_WINDOW)
            && self.fh.una.distance_from(segment.seq) <= window
            && segment.flags.has(Flags::ACK)
            && within(segment.ack, first, self.mh.nxt)
    }

    /// True if the segment is not the next in turn: something before it passed unseen, or was lost.
    pub(super) fn skips_unseen(&self, segment: &Segment) -> bool {
        segment.seq.after(self.fh.max) || segment.ack.after(self.mh.nxt)
    }

    /// A segment of the FH and the MH's last one agree on what has passed by unseen (a
    /// hang, a restart).
    pub(super) fn agree_on_unseen(&self, segment: &Segment) -> Option<Unseen> {
        let unseen = **self.unseen.as_ref()?;
        let news = self.skips_unseen(segment);
        let mh_window = self.mh_window_max(unseen.window);
        let fh_window = self.fh_window_max(segment.window);
        let agree = news
            && segment.flags.has(Flags::ACK)
            && within(
                segment.end(),
                unseen.ack,
                unseen.ack + mh_window + BEYOND_WINDOW,
            )
            && near(unseen.end, segment.ack, fh_window + BEYOND_WINDOW);
        let tied = if self.mh.timestamps.is_some() {
            unseen.clock_fits
        } else {
            unseen.half_fits || unseen.must_be_true(self.seen)
        };
        // Owed bytes that the cache drops are lost.
        let possible = self.owed.is_none() || self.is_in_window(unseen.ack);
        (agree && tied && possible).then_some(unseen)
    }

    /// Begins anew where both directions agree.
    pub(super) fn resynchronise(&mut self, segment: &Segment, unseen: Unseen) {
        self.unseen = None;
        self.fh.max = segment.end();
        self.fh.una = unseen.ack;
        self.mh.nxt = unseen.end.max(segment.ack);
        let fin = unseen.has_fin.then_some(unseen.end);
        self.mh.fin = fin.or(self.mh.fin.filter(|fin| !unseen.end.after(*fin)));
        let adoption = self.adoption.take();
        let fh_fin = adoption.and_then(|adoption| adoption.fh_fin_before(segment.seq));
        self.fh.fin = fh_fin.or(self.fh.fin);
        self.note_fh(segment);
        self.mh.window_largest = self.mh.window_largest.max(unseen.window);
        self.mh.right_edge = None;
        self.mh.timestamps = unseen.timestamps;
        self.cache.purge(unseen.ack);
        self.cached_elsewhere = CachedElsewhere::default();
        self.ack_shown = None;
        self.sacked.clear();
        self.transmissions.clear();
        self.sent_nxt = self.fh.max;
        self.forget_sending();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::handoff::tests::{flow, state};
    use crate::handoff::FlowState;
    use crate::testing::{Bytes, data};

    const NOW: Instant = Instant::from_millis(1000);
    /// The MH's window is 610 << 7; the FH's is less than one without a scale.
    const MH_WINDOW: u32 = 78_080;
    const FH_WINDOW: u32 = 65_535;

    /// The FH has sent 2000..9000 and acknowledged 5100; the MH has sent up to 5200, and its window
    /// ends at 60,000.
    fn open() -> Flow<Bytes> {
        let mut flow = flow();
        flow.adopt(&state(), NOW);
        flow
    }

    fn segment(seq: SeqNum, len: u32, ack: SeqNum) -> Segment {
        let (mut segment, _) = data(seq.get(), b"");
        (segment.ack, segment.payload_len) = (ack, len);
        segment
    }

    #[test]
    fn a_segment_of_the_fh_fits_up_to_the_edges_of_both_windows() {
        let flow = open();
        let seq = SeqNum::new;
        for (at, len, ack, fits) in [
            // The byte of a probe, and a FIN.
            (seq(59_002), 1000, seq(5_100), true),
            (seq(59_003), 1000, seq(5_100), false),
            (seq(2_000) - MH_WINDOW, 0, seq(5_100), true),
            (seq(2_000) - MH_WINDOW - 1, 0, seq(5_100), false),
            (seq(9_000), 0, seq(5_200), true),
            (seq(9_000), 0, seq(5_201), false),
            (seq(9_000), 0, seq(5_100) - FH_WINDOW, true),
            (seq(9_000), 0, seq(5_100) - FH_WINDOW - 1, false),
        ] {
            let mut segment = segment(at, len, ack);
            assert_eq!(flow.fh_fits(&segment), fits, "{at:?} {len} {ack:?}");
            segment.flags = Flags::PSH;
            assert!(!flow.fh_fits(&segment), "no ACK");
        }
    }

    #[test]
    fn numbers_of_the_mh_fit_up_to_the_edges_of_both_windows() {
        let flow = open();
        let seq = SeqNum::new;
        for (at, len, fits) in [
            (seq(5_100) - FH_WINDOW, 0, true),
            (seq(5_100) - FH_WINDOW - 1, 0, false),
            (seq(5_102) + FH_WINDOW, 0, true),
            (seq(5_103) + FH_WINDOW, 0, false),
            (seq(5_002) + FH_WINDOW, 100, true),
            (seq(5_002) + FH_WINDOW, 101, false),
        ] {
            let segment = segment(at, len, seq(2_000));
            assert_eq!(flow.mh_seq_fits(&segment), fits, "{at:?} {len}");
        }
        for (ack, fits) in [
            (seq(9_000), true),
            (seq(9_001), false),
            (seq(2_000) - MH_WINDOW, true),
            (seq(2_000) - MH_WINDOW - 1, false),
        ] {
            assert_eq!(flow.mh_ack_fits(ack), fits, "{ack:?}");
        }
        for (ack, unseen) in [
            (seq(9_000), false),
            (seq(9_001), true),
            (seq(9_000) + WINDOW_MAX - 1, true),
            (seq(9_000) + WINDOW_MAX, false),
        ] {
            assert_eq!(flow.acks_unseen_data(ack), unseen, "{ack:?}");
        }
        let in_window = |flow: &Flow<Bytes>, ack| [ack, ack + 1].map(|ack| flow.is_in_window(ack));
        assert_eq!(in_window(&flow, seq(60_002)), [true, false]);
        let mut without_edge = open();
        without_edge.mh.right_edge = None;
        let last = seq(9_000) + BEYOND_SEEN_MAX;
        assert_eq!(in_window(&without_edge, last), [true, false]);
    }

    #[test]
    fn the_largest_window_is_the_scaled_one_within_the_limits() {
        for (largest, scale, in_flight, bytes) in [
            (65_535, Some(7), 0, 65_535 << 7),
            (65_535, Some(15), 0, 65_535 << 14),
            (1, Some(14), 0, 65_535),
            (9, None, 5, BEYOND_SEEN_MAX + 5),
            (9, None, u32::MAX, WINDOW_MAX),
        ] {
            assert_eq!(window_max(largest, scale, in_flight), bytes, "{scale:?}");
        }
        let (a, b) = (SeqNum::new(5), SeqNum::new(5) - 100);
        assert!(near(a, b, 100) && near(b, a, 100));
        assert!(!near(a, b, 99) && !near(b, a, 99));
    }

    #[test]
    fn clocks_fit_if_they_have_moved_no_farther_than_time_and_a_second() {
        let flow = open();
        let last = flow.mh.timestamps.expect("timestamps");
        let fits = |tsval: u32, tsecr: u32, elapsed_ms: u64| {
            let new = Timestamps {
                tsval: last.tsval.wrapping_add(tsval),
                tsecr: last.tsecr.wrapping_add(tsecr),
            };
            flow.clock_fits(Some(new), NOW + Duration::from_millis(elapsed_ms))
        };
        let back = |ticks: u32| ticks.wrapping_neg();
        assert!(fits(1_000_000, 1_000_000, 0));
        assert!(!fits(1_000_001, 0, 0) && !fits(0, 1_000_001, 0));
        assert!(fits(1_005_000, 1_005_000, 5));
        assert!(!fits(1_005_001, 0, 5) && !fits(0, 1_005_001, 5));
        assert!(fits(back(1_000_000), back(1_000_000), 5));
        assert!(!fits(back(1_000_001), 0, 5) && !fits(0, back(1_000_001), 5));
        assert!(!flow.clock_fits(None, NOW));
    }

    #[test]
    fn three_contradictions_in_five_seconds_show_that_what_is_known_is_wrong() {
        let contradicts = |times_ms: &[u64], acks: &[u32]| {
            let mut flow = open();
            let mut is_wrong = false;
            for (ms, ack) in times_ms.iter().zip(acks) {
                let mut segment = segment(SeqNum::new(5_200), 0, SeqNum::new(*ack));
                segment.options.timestamps = flow.mh.timestamps;
                assert!(!is_wrong, "the last one alone");
                let now = NOW + Duration::from_millis(*ms);
                is_wrong = flow.note_contradiction(&segment, now);
            }
            is_wrong
        };
        assert!(contradicts(&[0, 2_500, 5_000], &[1_999; 3]));
        assert!(!contradicts(&[0, 2_500, 4_999], &[1_999; 3]));
        assert!(!contradicts(&[0, 5_000], &[1_999; 2]));
        assert!(!contradicts(&[0, 2_500, 5_000], &[2_000; 3]), "none");
        // One that is a window away begins the count anew.
        let far = 1_999_u32.wrapping_sub(MH_WINDOW);
        assert!(contradicts(&[0, 2_500, 5_000], &[far, 1_999, 1_999]));
        assert!(!contradicts(&[0, 2_500, 5_000], &[far - 1, 1_999, 1_999]));
    }

    #[test]
    fn what_does_not_fit_contradicts_nothing_and_an_ack_that_fits_ends_the_count() {
        let mut flow = open();
        let known = flow.mh.timestamps;
        let mut note = |seq: u32, tsval: u32, ack: u32| {
            let mut segment = segment(SeqNum::new(seq), 0, SeqNum::new(ack));
            segment.options.timestamps = known.map(|known| Timestamps { tsval, ..known });
            let _ = flow.note_contradiction(&segment, NOW);
            flow.contradiction.is_some()
        };
        assert!(!note(500_000, 71_500, 1_999), "far away");
        assert!(!note(5_200, 70_999, 1_999), "an old copy");
        assert!(note(5_200, 71_000, 1_999));
        assert!(note(5_200, 71_500, 9_001), "of what was never sent");
        assert!(!note(5_200, 71_500, 9_000));
    }

    #[test]
    fn a_timestamp_separates_old_from_new_for_half_an_hour() {
        let flow = open();
        let mut segment = segment(SeqNum::new(9_000), 0, SeqNum::new(5_100));
        let mut drops = |tsval: Option<u32>, minutes: u64| {
            let timestamps = tsval.map(|tsval| Timestamps { tsval, tsecr: 0 });
            segment.options.timestamps = timestamps;
            let now = NOW + Duration::from_secs(60 * minutes);
            flow.mh_drops_as_old(&segment, now)
        };
        // The MH has echoed 1400, of 1500 that were sent.
        assert!(drops(Some(1_399), 0) && !drops(Some(1_400), 0));
        assert!(drops(Some(1_399), 29) && !drops(Some(1_399), 30));
        assert!(drops(None, 29));
        // The FH has echoed 71,000, of 71,500 that passed here.
        let fh_drops = |tsval: u32, minutes: u64| {
            let mut segment = self::segment(SeqNum::new(5_200), 0, SeqNum::new(2_000));
            segment.options.timestamps = Some(Timestamps { tsval, tsecr: 0 });
            flow.fh_drops_as_old(&segment, NOW + Duration::from_secs(60 * minutes))
        };
        assert!(fh_drops(70_999, 0) && !fh_drops(71_000, 0));
        assert!(fh_drops(70_999, 29) && !fh_drops(70_999, 30));
        let mut silent: Flow<Bytes> = open();
        silent.adopt(
            &FlowState {
                tsval_sent: None,
                ..state()
            },
            NOW,
        );
        assert!(!silent.mh_drops_as_old(&segment, NOW));
    }

    /// The MH sends a segment with this number that acknowledges what was never seen.
    fn after_unseen(mut flow: Flow<Bytes>, seq: u32) -> Flow<Bytes> {
        let strange = segment(SeqNum::new(seq), 0, SeqNum::new(100_000));
        assert_eq!(flow.credit(&strange, NOW), Credit::None);
        flow
    }

    #[test]
    fn a_segment_that_does_not_fit_may_be_true_after_a_second_and_must_be_after_a_minute() {
        let flow = after_unseen(open(), 1 << 30);
        let unseen = flow.unseen.expect("the segment");
        for (ms, may_be, must_be) in [
            (999, false, false),
            (1_000, true, false),
            (59_999, true, false),
            (60_000, true, true),
        ] {
            let now = NOW + Duration::from_millis(ms);
            let is_true = (unseen.may_be_true(now), unseen.must_be_true(now));
            assert_eq!(is_true, (may_be, must_be), "{ms} ms");
        }
    }

    #[test]
    fn without_clocks_both_ends_agree_on_the_unseen_if_a_number_fits_or_after_a_minute() {
        for (mh_seq, silent_s, agree) in [
            (5_200, 0, true),
            (1 << 30, 0, false),
            (1 << 30, 59, false),
            (1 << 30, 60, true),
        ] {
            let mut flow = flow();
            let without_clock = FlowState {
                mh_timestamps: None,
                ..state()
            };
            flow.adopt(&without_clock, NOW);
            let mut flow = after_unseen(flow, mh_seq);
            flow.seen = NOW + Duration::from_secs(silent_s);
            let of_fh = segment(SeqNum::new(100_000), 0, SeqNum::new(mh_seq));
            let is_some = flow.agree_on_unseen(&of_fh).is_some();
            assert_eq!(is_some, agree, "{mh_seq} after {silent_s} s");
        }
    }
}
