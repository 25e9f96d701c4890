// SPDX-License-Identifier: Apache-2.0
//! One connection as the gateway knows it: where both ends are, what is kept for the
//! MH, what has been sent of it.

use core::time::Duration;

use holdfast_wire::{Endpoint, Flags, Instant, Segment, SeqNum, Timestamps};

use crate::cache::{Insertion, Piece, SegmentCache};
use crate::sack::Scoreboard;
use crate::schemes::mtcp_plus::Ahead;
use crate::timers::Scheduled;
use crate::{Action, Actions, Direction, FlowRecord, Made, Payload, Resend, Verdict};

mod tracking;
pub(crate) use tracking::DataOutcome;
use tracking::WINDOW_MAX;

/// A connection's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The end on the wired side.
    pub fh: Endpoint,
    /// The end on the wireless side.
    pub mh: Endpoint,
}

impl FlowKey {
    /// The flow of a segment that goes in `direction`.
    pub const fn of(segment: &Segment, direction: Direction) -> Self {
        match direction {
            Direction::Downlink => Self {
                fh: segment.from,
                mh: segment.to,
            },
            Direction::Uplink => Self {
                fh: segment.to,
                mh: segment.from,
            },
        }
    }
}

/// How well a flow is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not enough seen in both directions to keep anything.
    Meeting,
    /// Both directions agree.
    Open,
    /// It carries what a middle node must not copy (MPTCP, MD5, AO): passed on
    /// unchanged for ever.
    Opaque,
    /// Both ends are done, or one has reset it.
    Closed,
}

/// What the gateway knows of the FH as a sender of data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FhState {
    /// Highest SND.NXT seen.
    pub max: SeqNum,
    /// SND.UNA as the MH's ACKs give it, not ours.
    pub una: SeqNum,
    /// Newest SEG.ACK, its window and its timestamp echo.
    pub ack: SeqNum,
    pub window: u16,
    pub tsecr: u32,
    /// Sequence number after its FIN.
    pub fin: Option<SeqNum>,
    seen: bool,
}

/// What the gateway knows of the MH.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MhState {
    /// Highest SND.NXT seen.
    pub nxt: SeqNum,
    /// The shift of its windows; known if both SYNs were seen or a predecessor
    /// left it.
    pub window_scale: Option<u8>,
    /// The farthest right edge of its window, with `window_scale`.
    pub right_edge: Option<SeqNum>,
    /// Newest timestamps that it sent and that were forwarded.
    pub timestamps: Option<Timestamps>,
    pub fin: Option<SeqNum>,
}

/// What is remembered while the kept segments of an outage are sent on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeforeOutage {
    /// What had been sent then.
    sent_nxt: SeqNum,
    /// The MH's last leap beyond what was sent since, and when.
    leap: SeqNum,
    leapt_at: Instant,
}

/// A connection.
pub(crate) struct Flow<P: Payload> {
    pub key: FlowKey,
    pub stage: Stage,
    pub mobile: u32,
    pub generation: u32,
    pub scheduled: Scheduled,
    pub fh: FhState,
    pub mh: MhState,
    handshake: tracking::Handshake,
    /// An ACK of the MH for bytes that were never seen here.
    unseen_ack: Option<SeqNum>,
    pub cache: SegmentCache<P>,
    pub sacked: Scoreboard,
    /// What comes next to the MH: kept bytes from here on are a backlog.
    pub sent_nxt: SeqNum,
    /// Until the MH has acknowledged this, what is kept is ours to repeat.
    pub recover: Option<SeqNum>,
    /// How far it had been sent when the link went, and where the MH's ACKs stood at
    /// what time since: tells a link that kept what was on it.
    pub before_outage: Option<BeforeOutage>,
    /// When to repeat if nothing new is acknowledged; how often it was in vain.
    pub repair_at: Option<Instant>,
    pub repairs: u32,
    dup_acks: u32,
    /// A segment sent once whose ACK gives the round trip.
    timed: Option<(SeqNum, Instant)>,
    /// What of its MH's bytes in flight is this flow's.
    counted_in_flight: u32,
    /// M-TCP+: what was acknowledged ahead of the MH.
    pub ahead: Ahead,
    /// The newest ACK without data for the MH that an outage may have swallowed.
    pub held_ack: Option<P>,
    pub uplink_header: Option<P::Header>,
    pub downlink_header: Option<P::Header>,
    pub path_mtu: Option<u32>,
    /// Both ends are to get a RST for whatever they send.
    refused: bool,
    pub seen: Instant,
}

impl<P: Payload> Flow<P> {
    pub(crate) fn new(key: FlowKey, mobile: u32, generation: u32, now: Instant) -> Self {
        Self {
            key,
            stage: Stage::Meeting,
            mobile,
            generation,
            scheduled: Scheduled::default(),
            fh: FhState::default(),
            mh: MhState::default(),
            handshake: tracking::Handshake::default(),
            unseen_ack: None,
            cache: SegmentCache::default(),
            sacked: Scoreboard::default(),
            sent_nxt: SeqNum::default(),
            recover: None,
            before_outage: None,
            repair_at: None,
            repairs: 0,
            dup_acks: 0,
            timed: None,
            counted_in_flight: 0,
            ahead: Ahead::default(),
            held_ack: None,
            uplink_header: None,
            downlink_header: None,
            path_mtu: None,
            refused: false,
            seen: now,
        }
    }

    /// What a successor has to know.
    pub(crate) fn record(&self) -> FlowRecord {
        FlowRecord {
            key: self.key,
            mh_window_scale: self.mh.window_scale,
            owed: self.ahead.owed,
            gone: false,
        }
    }

    /// Bytes sent to the MH and not acknowledged by it.
    pub(crate) fn in_flight(&self) -> u32 {
        if self.stage == Stage::Open {
            self.sent_nxt.distance_from(self.fh.una)
        } else {
            0
        }
    }

    /// Brings the MH's total up to date.
    pub(crate) fn count_in_flight(&mut self, total: &mut u64) {
        *total -= u64::from(self.counted_in_flight);
        self.counted_in_flight = self.in_flight();
        *total += u64::from(self.counted_in_flight);
    }

    /// There is something to be sent from the cache.
    pub(crate) fn has_backlog(&self) -> bool {
        self.cache.end().is_some_and(|end| end.after(self.sent_nxt))
    }

    /// What is kept of the flow is sent again by the gateway if it is lost.
    pub(crate) const fn repairs_itself(&self) -> bool {
        self.recover.is_some() || self.ahead.owed.is_some()
    }

    /// Everything kept and not reported by the MH is to be sent from the start.
    pub(crate) fn rewind(&mut self) {
        if self.stage == Stage::Open && !self.cache.is_empty() {
            self.sent_nxt = self.fh.una;
            self.recover = self.cache.end();
            self.timed = None;
        }
    }

    /// The end of what the MH has said it holds; behind a hole SACK tells.
    fn reported(&self) -> SeqNum {
        let una = self.fh.una;
        self.sacked.highest().map_or(una, |end| end.max(una))
    }

    /// The link is back: from the start, unless its ACKs show that the link has kept
    /// what was on it.
    pub(crate) fn begin_recovery(&mut self, now: Instant) {
        let sent_nxt = self.sent_nxt;
        self.rewind();
        if self.recover.is_some() {
            let (leap, leapt_at) = (self.reported(), now);
            self.before_outage = Some(BeforeOutage {
                sent_nxt,
                leap,
                leapt_at,
            });
        }
    }

    /// The MH acknowledges or reports, sooner than a round trip after it could be sent again,
    /// what was sent before the outage: the link has kept it. Then all of that is on
    /// its way still and is not sent twice. Returns true if so.
    ///
    /// One leap proves nothing: the MH may have had the bytes, and only its ACK been
    /// lost. The next, after less than a round trip, does.
    pub(crate) fn finds_link_kept_all(&mut self, least_rtt: Duration, now: Instant) -> bool {
        let (una, reported) = (self.fh.una, self.reported());
        let Some(before) = &mut self.before_outage else {
            return false;
        };
        if before.sent_nxt.at_or_before(una) || self.recover.is_none() {
            self.before_outage = None;
            return false;
        }
        if reported.after(before.leap) && now.saturating_since(before.leapt_at) < least_rtt * 3 / 4
        {
            self.sent_nxt = self.sent_nxt.max(before.sent_nxt);
            self.before_outage = None;
            return true;
        }
        if reported.after(before.leap) && self.sent_nxt.at_or_before(reported) {
            (before.leap, before.leapt_at) = (reported, now);
        }
        false
    }

    /// Keeps what is new in a data segment.
    pub(crate) fn keep(
        &mut self,
        segment: &Segment,
        payload: &P,
        bytes_free: usize,
        entries_max: usize,
    ) -> Insertion {
        if !payload.is_cacheable() || segment.options.others || segment.flags.has(Flags::URG) {
            return Insertion::Full;
        }
        self.cache
            .insert(segment, payload, self.fh.una, bytes_free, entries_max)
    }

    /// A segment of the FH goes to the MH as it came.
    pub(crate) fn on_forwarded(&mut self, segment: &Segment, now: Instant) {
        let end = segment.end();
        if end.after(self.sent_nxt) {
            self.sent_nxt = end;
            self.timed.get_or_insert((end, now));
        } else {
            // Karn: what is sent twice is not timed.
            self.timed = None;
        }
    }

    /// The next piece to send, and the flow as if it were sent.
    pub(crate) fn take_piece(&mut self, len_max: u32) -> Option<Resend<P>> {
        let (from, limit) = self.sacked.next_missing(self.sent_nxt);
        let piece = self.cache.piece(from, limit, len_max);
        let Some(piece) = piece else {
            // All that is left was reported, or lies beyond a reported range.
            self.sent_nxt = limit.unwrap_or_else(|| self.cache.end().unwrap_or(from).max(from));
            return None;
        };
        self.sent_nxt = piece.end;
        Some(self.resend(piece))
    }

    /// The first piece that the MH has not acknowledged or reported, out of turn.
    pub(crate) fn first_missing(&self) -> Option<Resend<P>> {
        let (from, limit) = self.sacked.next_missing(self.fh.una);
        let piece = self.cache.piece(from, limit, u32::MAX)?;
        let len = piece.payload.segment_len().max(1);
        let piece = self.cache.piece(from, limit, len)?;
        Some(self.resend(piece))
    }

    /// Something that makes the MH answer: what it lacks, or else anything kept (what
    /// it lacks may have been lost before it came here).
    pub(crate) fn probe(&self) -> Option<Resend<P>> {
        self.first_missing().or_else(|| {
            let len = self.cache.piece(self.fh.una, None, u32::MAX)?;
            let len = len.payload.segment_len().max(1);
            let piece = self.cache.piece(self.fh.una, None, len)?;
            Some(self.resend(piece))
        })
    }

    /// A keep-alive (RFC 9293, 3.8.4) in the FH's name: with nothing kept, all that
    /// makes the MH answer.
    pub(crate) fn made_probe(&self) -> Option<Action<P>> {
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template: self.downlink_header.clone()?,
            seq: self.fh.una - 1,
            ack: self.fh.ack,
            window: self.fh.window,
            flags: Flags::ACK,
            timestamps: self.mh.timestamps.map(|mh| Timestamps {
                tsval: mh.tsecr,
                tsecr: self.fh.tsecr,
            }),
        }))
    }

    /// An old SEG.SEQ makes the MH say where it stands (RFC 9293, 3.10.7.4), as nothing
    /// does that lies ahead of the bytes it was never sent.
    pub(crate) fn made_question(&self, segment: &Segment, owed: SeqNum) -> Option<Action<P>> {
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template: self.downlink_header.clone()?,
            seq: owed - WINDOW_MAX,
            ack: segment.ack,
            window: segment.window,
            flags: Flags::ACK,
            timestamps: segment.options.timestamps,
        }))
    }

    fn resend(&self, piece: Piece<P>) -> Resend<P> {
        // The FH's own timestamp, so that the echo tells it that nothing was lost
        // (RFC 3522); unless the MH has seen a newer one and would drop it by PAWS
        // (RFC 7323, 5.3).
        let timestamps = self.mh.timestamps.map(|mh| {
            let newer = (mh.tsecr.wrapping_sub(piece.tsval) as i32) > 0;
            Timestamps {
                tsval: if newer { mh.tsecr } else { piece.tsval },
                tsecr: self.fh.tsecr,
            }
        });
        Resend {
            offset: piece.offset,
            len: piece.len,
            seq: piece.seq,
            ack: self.fh.ack,
            window: self.fh.window,
            flags: piece.flags.with(Flags::ACK),
            timestamps,
            segment_len: piece.payload.segment_len().max(1),
            path_mtu: self.path_mtu,
            payload: piece.payload,
        }
    }

    /// An ACK to the FH in the MH's name.
    pub(crate) fn made_ack(&self, ack: SeqNum, window: u16, tsecr: u32) -> Option<Action<P>> {
        Some(Action::Send(Made {
            direction: Direction::Uplink,
            template: self.uplink_header.clone()?,
            seq: self.mh.nxt,
            ack,
            window,
            flags: Flags::ACK,
            timestamps: self.mh.timestamps.map(|mh| Timestamps {
                tsval: mh.tsval,
                tsecr,
            }),
        }))
    }

    /// Both ends get a RST, each with the sequence number that it expects next; and
    /// again whenever they send something, for a RST may be lost.
    pub(crate) fn reset_both_ends(&mut self, actions: &mut Actions<P>) {
        let owed = self.ahead.owed.unwrap_or(self.fh.max);
        actions.extend(self.made_reset(Direction::Uplink, self.fh.ack, owed));
        actions.extend(self.made_reset(Direction::Downlink, self.fh.una, self.mh.nxt));
        self.refused = true;
        self.close();
    }

    /// A segment of a flow that is closed.
    pub(crate) fn on_closed_segment(
        &self,
        direction: Direction,
        segment: &Segment,
        actions: &mut Actions<P>,
    ) -> Verdict {
        if !self.refused || segment.flags.has(Flags::RST) {
            return Verdict::Forward;
        }
        let back = match direction {
            Direction::Downlink => Direction::Uplink,
            Direction::Uplink => Direction::Downlink,
        };
        let Some(reset) = self.made_reset(back, segment.ack, segment.end()) else {
            return Verdict::Forward;
        };
        actions.push(reset);
        Verdict::Suppress
    }

    fn made_reset(&self, direction: Direction, seq: SeqNum, ack: SeqNum) -> Option<Action<P>> {
        let template = match direction {
            Direction::Uplink => self.uplink_header.clone(),
            Direction::Downlink => self.downlink_header.clone(),
        };
        Some(Action::Send(Made {
            direction,
            template: template?,
            seq,
            ack,
            window: 0,
            flags: Flags::RST.with(Flags::ACK),
            timestamps: None,
        }))
    }

    /// Nothing more is done for the flow; returns the bytes freed.
    pub(crate) fn close(&mut self) -> usize {
        self.stage = Stage::Closed;
        self.forget_kept()
    }

    /// Nothing is kept, owed or repeated any more; returns the bytes freed.
    pub(crate) fn forget_kept(&mut self) -> usize {
        self.ahead = Ahead::default();
        self.recover = None;
        self.before_outage = None;
        self.repair_at = None;
        self.held_ack = None;
        self.sacked.clear();
        self.sent_nxt = self.fh.max;
        self.cache.clear()
    }
}
