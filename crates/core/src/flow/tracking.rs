// SPDX-License-Identifier: Apache-2.0
//! Following both ends' sequence numbers, and believing only what fits.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};

use super::adoption::{Adoption, Sighting};
use super::credible::Credit;
use super::{Arrivals, FhState, Flow, MhState, Stage};
use crate::Payload;

/// Duplicate ACKs that tell of a loss (RFC 5681, 3.2).
const DUP_ACK_THRESHOLD: u32 = 3;

/// A live connection with bytes in the cache gives way to a new one only after this silence.
/// RFC 9293, 3.6.1: the ends themselves wait 2 MSL, 60 s on Linux.
const QUIET_MIN_WITH_CACHE: Duration = Duration::from_secs(60);

/// The same with nothing in the cache.
const QUIET_MIN: Duration = Duration::from_secs(1);

/// The SYNs seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handshake {
    /// The newest SYN without an ACK, by side.
    mh_asks: Option<Syn>,
    fh_asks: Option<Syn>,
    /// The two SYNs of which one has answered the other.
    agreed: Option<Syns>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Syns {
    mh: Syn,
    fh: Syn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Syn {
    seq: SeqNum,
    window_scale: Option<u8>,
    sack_permitted: bool,
}

impl Handshake {
    /// The SYN that an answer of this side is for.
    const fn asked(&self, from_mh: bool) -> Option<Syn> {
        if from_mh { self.fh_asks } else { self.mh_asks }
    }
}

/// What a data segment of the FH is to the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataOutcome {
    /// Too little is known, or it does not fit what is: it passes.
    Unknown,
    /// The MH has acknowledged all of it.
    Old,
    /// It holds bytes that the MH may lack.
    Current,
}

/// What an MH's segment told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// It is the MH of this flow that speaks: the link carries.
    pub credible: bool,
    /// Bytes newly acknowledged.
    pub acked: u32,
    /// Bytes of the cache that this freed.
    pub freed: usize,
    /// A round trip of the wireless half.
    pub rtt: Option<Duration>,
    /// The third duplicate ACK in a row.
    pub loss: bool,
    /// What newly arrived, by when it was sent, and bytes of it.
    pub arrivals: Arrivals,
    pub arrived_bytes: u32,
    /// The MH has read what was compressed.
    pub proves_compression: bool,
}

impl<P: Payload> Flow<P> {
    /// A SYN passes. `quiet`: how long nothing that fits has passed. Returns the bytes freed if
    /// it starts the connection anew.
    ///
    /// A SYN may be forged (RFC 5961, 4). So it changes nothing before the other end has answered
    /// it, and a live connection gives way to a new one only when it is silent itself.
    pub(crate) fn on_syn(
        &mut self,
        from_mh: bool,
        segment: &Segment,
        quiet: Duration,
        now: Instant,
    ) -> usize {
        let syn = Syn {
            seq: segment.seq,
            window_scale: segment.options.window_scale,
            sack_permitted: segment.options.sack_permitted,
        };
        if !segment.flags.has(Flags::ACK) {
            let freed = match self.stage {
                Stage::Closed => self.begin_anew(now),
                Stage::Meeting | Stage::Open | Stage::Opaque => 0,
            };
            let asks = if from_mh {
                &mut self.handshake.mh_asks
            } else {
                &mut self.handshake.fh_asks
            };
            *asks = Some(syn);
            return freed;
        }
        let asked = self.handshake.asked(from_mh);
        let Some(asked) = asked.filter(|asked| asked.seq + 1 == segment.ack) else {
            return 0;
        };
        let (mh, fh) = if from_mh { (syn, asked) } else { (asked, syn) };
        let agreed = Some(Syns { mh, fh });
        if self.handshake.agreed == agreed || !self.gives_way(quiet) {
            return 0;
        }
        let freed = if self.stage == Stage::Meeting {
            0
        } else {
            self.begin_anew(now)
        };
        self.handshake.agreed = agreed;
        self.begin_at(mh, fh);
        freed
    }

    /// A new connection between the same two ports may take the place of this one.
    fn gives_way(&self, quiet: Duration) -> bool {
        match self.stage {
            Stage::Meeting => true,
            Stage::Closed => false,
            Stage::Opaque => quiet >= QUIET_MIN_WITH_CACHE,
            // What is owed is settled first, or given up.
            Stage::Open if self.ahead.owed.is_some() => false,
            Stage::Open if self.kept_bytes() > 0 => quiet >= QUIET_MIN_WITH_CACHE,
            Stage::Open => quiet >= QUIET_MIN,
        }
    }

    /// The numbers that follow from both SYNs.
    fn begin_at(&mut self, mh: Syn, fh: Syn) {
        // RFC 7323, 2.2: a shift counts if both SYNs had one.
        let scale = if fh.window_scale.is_some() {
            mh.window_scale
        } else {
            None
        };
        self.mh.window_scale = Some(scale.unwrap_or(0));
        self.fh.window_scale = Some(scale.and(fh.window_scale).unwrap_or(0));
        self.fh.sack = mh.sack_permitted && fh.sack_permitted;
        self.fh.max = fh.seq + 1;
        self.fh.una = fh.seq + 1;
        self.fh.ack = mh.seq + 1;
        self.mh.nxt = mh.seq + 1;
    }

    /// Both SYNs were seen and the connection is not open yet.
    pub(crate) fn knows_handshake(&self) -> bool {
        self.handshake.agreed.is_some() && self.stage == Stage::Meeting
    }

    /// Both SYNs were seen, and what has passed since was seen from its start.
    pub(crate) fn fh_has_acknowledged_nothing(&self) -> bool {
        let agreed = self.handshake.agreed;
        agreed.is_some_and(|syns| syns.mh.seq + 1 == self.fh.ack)
    }

    /// Another connection has the same two ports. Returns the bytes freed.
    pub(crate) fn begin_anew(&mut self, now: Instant) -> usize {
        let freed = self.kept_bytes();
        let (key, mobile, generation) = (self.key, self.mobile, self.generation);
        let (scheduled, counted) = (self.scheduled, self.counted_in_flight);
        let (waits, index_at_mobile) = (self.waits, self.index_at_mobile);
        let draining = self.ahead.draining;
        *self = Self::new(key, mobile, generation, now);
        (self.scheduled, self.counted_in_flight) = (scheduled, counted);
        (self.waits, self.index_at_mobile) = (waits, index_at_mobile);
        self.ahead.draining = draining;
        freed
    }

    /// A segment of the FH that is no SYN.
    pub(crate) fn on_fh_segment(
        &mut self,
        segment: &Segment,
        payload: &P,
        now: Instant,
    ) -> DataOutcome {
        if self.downlink_header.is_none() {
            self.downlink_header = payload.header();
        }
        if self.stage == Stage::Meeting {
            self.forget_handshake_that_is_over(segment);
            if !self.knows_handshake() {
                self.adoption.note_fh(segment, now);
            } else if self.fh_fits(segment) {
                self.fh.max = self.fh.max.max(segment.end());
                if segment.ack.after(self.fh.ack) {
                    self.note_fh(segment);
                }
            }
            return DataOutcome::Unknown;
        }
        if self.stage != Stage::Open || self.mh_drops_as_old(segment) {
            return DataOutcome::Unknown;
        }
        if let Some(unseen) = self.agree_on_unseen(segment) {
            self.resynchronise(segment, unseen);
        }
        if !self.fh_fits(segment) {
            return DataOutcome::Unknown;
        }
        if !self.tells_of_unseen(segment) {
            self.unseen = None;
        }
        if self.fh.ack.at_or_before(segment.ack) {
            self.note_fh(segment);
        }
        if segment.flags.has(Flags::FIN) {
            self.fh.fin = Some(segment.end());
        }
        // The FH has sent it indeed.
        self.fh.doubted = self
            .fh
            .doubted
            .filter(|doubted| doubted.after(segment.end()));
        if segment.end().at_or_before(self.fh.una) {
            return DataOutcome::Old;
        }
        self.fh.max = self.fh.max.max(segment.end());
        DataOutcome::Current
    }

    /// Both SYNs were seen, and then so much passed by unseen that their numbers tell
    /// nothing any more: the flow is met as one without a handshake.
    fn forget_handshake_that_is_over(&mut self, segment: &Segment) {
        if self.knows_handshake() && self.agree_on_unseen(segment).is_some() {
            self.handshake = Handshake::default();
            self.fh = FhState::default();
            self.mh = MhState::default();
            self.unseen = None;
        }
    }

    pub(super) fn note_fh(&mut self, segment: &Segment) {
        self.fh.ack = segment.ack;
        self.fh.window = segment.window;
        self.fh.window_largest = self.fh.window_largest.max(segment.window);
        if let Some(timestamps) = segment.options.timestamps {
            self.fh.tsecr = timestamps.tsecr;
        }
    }

    /// A segment of the MH that is no SYN. `least_rtt`: the wireless half's shortest round
    /// trip.
    pub(crate) fn on_mh_segment(
        &mut self,
        segment: &Segment,
        payload: &P,
        least_rtt: Option<Duration>,
        now: Instant,
    ) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        if !segment.flags.has(Flags::ACK) {
            return outcome;
        }
        if self.stage == Stage::Meeting && !self.knows_handshake() {
            let Some(fh) = self.adoption.agreeing(segment) else {
                return outcome;
            };
            self.open_adopted(&fh, segment);
        }
        if !matches!(self.stage, Stage::Meeting | Stage::Open) {
            return outcome;
        }
        let clock_fits =
            self.mh.timestamps.is_none() || self.clock_fits(segment.options.timestamps, now);
        match self.credit(segment, now) {
            Credit::Fits => {}
            Credit::FitsUnseen => {
                self.fh.max = segment.ack;
                self.fh.doubted = Some(segment.ack);
            }
            Credit::None => return outcome,
        }
        if self.stage == Stage::Meeting {
            self.open(segment);
        }
        outcome.credible = true;
        self.note_mh(segment, payload, clock_fits);
        if !self.transmissions.is_empty() {
            let least_rtt = least_rtt.unwrap_or_default();
            (outcome.arrivals, outcome.arrived_bytes) = self.arrivals(segment, least_rtt, now);
        }
        self.note_sack(segment);
        if segment.ack.after(self.fh.una) {
            self.advance(segment.ack, now, &mut outcome);
        } else if segment.ack == self.fh.una && segment.is_empty() && self.fh.max.after(self.fh.una)
        {
            self.dup_acks += 1;
            // With SACK, the ranges tell more.
            let counts = segment.options.sack.is_empty();
            outcome.loss = counts && self.dup_acks == DUP_ACK_THRESHOLD;
        }
        outcome
    }

    /// Both directions agree.
    fn open(&mut self, segment: &Segment) {
        self.stage = Stage::Open;
        self.fh.una = segment.ack;
        self.sent_nxt = self.fh.max;
        self.mh.nxt = segment.end().max(self.fh.ack);
    }

    /// The same of a connection whose SYNs were not seen, by a segment of each end.
    fn open_adopted(&mut self, fh: &Sighting, segment: &Segment) {
        self.fh.max = fh.end.max(segment.ack);
        self.fh.ack = fh.ack;
        self.fh.window = fh.window;
        self.fh.window_largest = fh.window;
        self.fh.tsecr = fh.timestamps.map_or(0, |ts| ts.tsecr);
        self.adoption = Adoption::default();
        self.open(segment);
    }

    fn note_mh(&mut self, segment: &Segment, payload: &P, clock_fits: bool) {
        self.mh.nxt = self.mh.nxt.max(segment.end());
        self.mh.window_largest = self.mh.window_largest.max(segment.window);
        if let Some(timestamps) = segment.options.timestamps.filter(|_| clock_fits) {
            let newer = self
                .mh
                .timestamps
                .is_none_or(|old| (timestamps.tsval.wrapping_sub(old.tsval) as i32) >= 0);
            if newer {
                self.mh.timestamps = Some(timestamps);
            }
        }
        if let Some(shift) = self.mh.window_scale {
            let edge = segment.ack + (u32::from(segment.window) << shift);
            self.mh.right_edge = Some(self.mh.right_edge.map_or(edge, |old| old.max(edge)));
        }
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

    fn note_sack(&mut self, segment: &Segment) {
        for (left, right) in self.reports_in(segment) {
            if self.sacked.add(left, right) {
                self.on_reported(right);
            }
        }
    }

    /// The blocks that report what lies beyond the ACK; one at or before it is a D-SACK
    /// (RFC 2883).
    fn reports_in(&self, segment: &Segment) -> impl Iterator<Item = (SeqNum, SeqNum)> + use<P> {
        let una = self.fh.una.max(segment.ack);
        segment.options.sack.within(una + 1, self.fh.max)
    }

    /// What the ACK and its reports tell to have arrived, less what was known.
    fn arrivals(&self, segment: &Segment, least_rtt: Duration, now: Instant) -> (Arrivals, u32) {
        let (mut arrivals, mut bytes) = (Arrivals::default(), 0_u32);
        let acked = (self.fh.una, segment.ack.max(self.fh.una));
        for (left, right) in core::iter::once(acked).chain(self.reports_in(segment)) {
            let mut at = left;
            while at.before(right) {
                let (from, reported) = self.sacked.next_missing(at);
                let to = reported.map_or(right, |reported| reported.min(right));
                if from.before(to) {
                    arrivals.merge(self.transmissions.arrived(from, to, least_rtt, now));
                    bytes = bytes.saturating_add(to.distance_from(from));
                }
                at = to.max(from);
            }
        }
        (arrivals, bytes)
    }

    fn advance(&mut self, ack: SeqNum, now: Instant, outcome: &mut AckOutcome) {
        let from = self.fh.una;
        outcome.acked = ack.distance_from(from);
        self.fh.una = ack;
        // What is owed is on its way: the wait for the MH begins anew.
        self.ahead.owed_since = None;
        self.sent_nxt = self.sent_nxt.max(ack);
        self.follow_resending(ack);
        if let Some(compression) = &mut self.compression {
            outcome.proves_compression = compression.on_acked(from, ack);
            if compression.has_dictionary() {
                self.cache.each_between(from, ack, |seq, octets| {
                    compression.keep(seq, octets);
                });
            }
        }
        outcome.freed = self.cache.purge(ack);
        self.sacked.purge(ack);
        self.transmissions.purge(ack);
        self.dup_acks = 0;
        self.repairs = 0;
        if let Some((end, sent)) = self.timed
            && end.at_or_before(ack)
        {
            outcome.rtt = Some(now.saturating_since(sent));
            self.timed = None;
        }
        if self
            .recover
            .is_some_and(|recover| recover.at_or_before(ack))
        {
            self.recover = None;
        }
    }

    /// RFC 5961, 3.2: a RST counts if it is exactly what the other end expects next;
    /// RFC 9293, 3.10.7.3: or acknowledges its SYN.
    pub(crate) fn accepts_rst(&self, from_mh: bool, segment: &Segment) -> bool {
        let expected = if from_mh {
            [self.mh.nxt, self.fh.ack]
        } else {
            [self.fh.una, self.fh.max]
        };
        let exact = expected.contains(&segment.seq);
        let asked = self.handshake.asked(from_mh);
        let answers = asked.is_some_and(|syn| syn.seq + 1 == segment.ack);
        match self.stage {
            Stage::Meeting => {
                (segment.flags.has(Flags::ACK) && answers) || (self.knows_handshake() && exact)
            }
            Stage::Open => exact,
            Stage::Opaque | Stage::Closed => false,
        }
    }

    /// Both FINs are acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        let fh_done = self.fh.fin.is_some_and(|fin| fin.at_or_before(self.fh.una));
        let mh_done = self.mh.fin.is_some_and(|fin| fin.at_or_before(self.fh.ack));
        fh_done && mh_done && self.mtcp.has_told(self.fh.una)
    }
}
