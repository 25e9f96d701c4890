// SPDX-License-Identifier: Apache-2.0
//! The SYNs of a flow, and what follows from them.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum, Timestamps};

use super::adoption::Sighting;
use super::credible::{QUIET_MIN, is_older, near};
use super::{Flow, Stage};
use crate::{Direction, Payload};

/// How far the first segments after the SYNs may lie from these: a window without a scale.
pub(super) const AFTER_SYN_MAX: u32 = u16::MAX as u32;

/// What is known of how the flow began.
#[derive(Clone, Debug, Default)]
pub(super) struct Handshake {
    /// SEG.SEQ of the MH's SYN and of the FH's SYN with which the flow was opened.
    began: Option<(SeqNum, SeqNum)>,
    /// The SYNs that wait for an answer, or for a segment that follows them.
    syns: Option<Box<SeenSyns>>,
}

/// The SYNs seen.
#[derive(Clone, Copy, Debug, Default)]
struct SeenSyns {
    /// The first SYN and its answer.
    agreed: Option<Syns>,
    /// The newest SYN without an ACK, by side.
    mh_opens: Option<Syn>,
    fh_opens: Option<Syn>,
    /// The newest SYN and its answer: the first ones may be forged.
    newest: Option<Syns>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Syns {
    pub(super) mh: Syn,
    pub(super) fh: Syn,
    /// The FH opens the connection, and the MH's SYN is the answer.
    mh_answers: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Syn {
    pub(super) seq: SeqNum,
    /// The number after the SYN, and after its data if it has data (RFC 7413).
    end: SeqNum,
    window: u16,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<Timestamps>,
    /// When it passed.
    at: Instant,
}

impl Syn {
    /// The other end acknowledges the SYN, alone or with its data.
    pub(super) fn is_acknowledged_by(&self, ack: SeqNum) -> bool {
        ack == self.seq + 1 || ack == self.end
    }
}

impl Syns {
    /// The numbers of both ends, as in a segment of the FH that follows the SYNs.
    pub(super) fn sighting(&self) -> Sighting {
        let (_, fh_shift) = self.shifts();
        // RFC 7323, 3.2: a SYN without an ACK echoes nothing.
        let clocks = self.fh.timestamps.zip(self.mh.timestamps);
        let timestamps = clocks.map(|(fh, mh)| Timestamps {
            tsval: fh.tsval,
            tsecr: mh.tsval,
        });
        Sighting {
            seq: self.fh.seq + 1,
            end: self.fh.seq + 1,
            ack: self.mh.seq + 1,
            // RFC 7323, 2.2: the window in a SYN is not scaled.
            window: self.fh.window >> fh_shift,
            timestamps,
        }
    }

    /// A round trip of the wireless half, if the MH acknowledges the FH's SYN-ACK now.
    pub(super) fn round_trip(&self, now: Instant) -> Option<Duration> {
        (!self.mh_answers).then(|| now.saturating_since(self.fh.at))
    }

    /// SEG.SEQ of the MH's SYN and of the FH's SYN.
    const fn numbers(&self) -> (SeqNum, SeqNum) {
        (self.mh.seq, self.fh.seq)
    }

    /// The shifts of the windows of MH and FH. RFC 7323, 2.2: a shift counts if both SYNs had one.
    fn shifts(&self) -> (u8, u8) {
        let shifts = self.mh.window_scale.zip(self.fh.window_scale);
        shifts.unwrap_or_default()
    }
}

impl Handshake {
    /// The flow is open, after these SYNs if they were seen.
    pub(super) fn opened_after(syns: Option<&Syns>) -> Self {
        Self {
            began: syns.map(Syns::numbers),
            syns: None,
        }
    }

    /// A SYN and its answer that were seen first, while the flow is not open.
    pub(super) fn agreed(&self) -> Option<Syns> {
        self.syns.as_ref()?.agreed
    }

    /// The first SYN and its answer, and the newest: one of them may be forged.
    fn pairs(&self) -> impl Iterator<Item = Syns> + use<> {
        let newest = self.syns.as_ref().and_then(|seen| seen.newest);
        self.agreed().into_iter().chain(newest)
    }

    /// The SYN that a SYN-ACK of this side answers.
    pub(super) fn answered_by(&self, from_mh: bool) -> Option<Syn> {
        let seen = self.syns.as_ref()?;
        if from_mh {
            seen.fh_opens
        } else {
            seen.mh_opens
        }
    }

    /// The flow began with these SYNs.
    fn is_of(&self, syns: &Syns) -> bool {
        let numbers = Some(syns.numbers());
        self.began == numbers || self.agreed().map(|agreed| agreed.numbers()) == numbers
    }

    /// The number of the MH's SYN that the flow began with.
    fn mh_syn(&self) -> Option<SeqNum> {
        let agreed = || self.agreed().map(|syns| syns.mh.seq);
        self.began.map(|(mh, _)| mh).or_else(agreed)
    }

    /// SYNs are waiting for their answer, or for a segment that follows them.
    pub(super) const fn has_syns(&self) -> bool {
        self.syns.is_some()
    }

    /// No answer to a SYN counts any more.
    pub(super) fn forget_syns(&mut self) {
        self.syns = None;
    }
}

impl<P: Payload> Flow<P> {
    /// A SYN passes. `header` is its header; that of an MH's SYN is the template of made ACKs. `quiet` is
    /// the time without a segment that fits. True if the SYN starts the connection anew.
    ///
    /// A SYN may be forged (RFC 5961, 4). So it changes nothing before the other end has answered
    /// it, and a live connection gives way to a new one only when it is silent itself.
    pub(crate) fn on_syn(
        &mut self,
        from_mh: bool,
        segment: &Segment,
        header: Option<P::Header>,
        quiet: Duration,
        now: Instant,
    ) -> bool {
        let syn = Syn {
            seq: segment.seq,
            end: segment.end(),
            window: segment.window,
            window_scale: segment.options.window_scale,
            sack_permitted: segment.options.sack_permitted,
            timestamps: segment.options.timestamps,
            at: now,
        };
        if !segment.flags.has(Flags::ACK) {
            let seen = self.handshake.syns.get_or_insert_default();
            let opens = if from_mh {
                &mut seen.mh_opens
            } else {
                &mut seen.fh_opens
            };
            *opens = Some(syn);
            return false;
        }
        let opening = self.handshake.answered_by(from_mh);
        let Some(opening) = opening.filter(|opening| opening.is_acknowledged_by(segment.ack))
        else {
            return false;
        };
        let (mh, fh) = if from_mh {
            (syn, opening)
        } else {
            (opening, syn)
        };
        let agreed = Syns {
            mh,
            fh,
            mh_answers: from_mh,
        };
        if self.handshake.is_of(&agreed) || !self.gives_way(quiet) {
            return false;
        }
        let is_anew = self.stage != Stage::Adopting;
        if is_anew {
            self.begin_anew(now);
        }
        if from_mh && header.is_some() {
            self.uplink_header = header;
        }
        let seen = self.handshake.syns.get_or_insert_default();
        seen.agreed.get_or_insert(agreed);
        seen.newest = Some(agreed);
        is_anew
    }

    /// A new connection between the same two ports may replace this one.
    fn gives_way(&self, quiet: Duration) -> bool {
        match self.stage {
            Stage::Adopting | Stage::Closed => true,
            // What is owed is settled first, or given up.
            Stage::Open | Stage::Opaque => self.owed.is_none() && quiet >= QUIET_MIN,
        }
    }

    /// Notes what both SYNs have negotiated: the window scales, and SACK.
    pub(super) fn note_syns(&mut self, syns: &Syns) {
        let (mh_shift, fh_shift) = syns.shifts();
        self.mh.window_scale = Some(mh_shift);
        self.fh.window_scale = Some(fh_shift);
        self.fh.sack = syns.mh.sack_permitted && syns.fh.sack_permitted;
    }

    /// The SYNs that this segment follows.
    pub(super) fn syns_before(&self, direction: Direction, segment: &Segment) -> Option<Syns> {
        self.handshake.pairs().find(|syns| {
            let (fh, mh) = (syns.fh.seq + 1, syns.mh.seq + 1);
            match direction {
                Direction::Downlink => {
                    let exact = segment.seq == fh || segment.ack == mh;
                    let is_near = near(segment.seq, fh, AFTER_SYN_MAX);
                    exact && is_near && near(segment.ack, mh, AFTER_SYN_MAX)
                }
                Direction::Uplink => {
                    // The MH may echo a segment of the FH that was not seen here.
                    let clocks = syns.mh.timestamps.zip(segment.options.timestamps);
                    let is_old = clocks.is_some_and(|(syn, own)| is_older(own.tsval, syn.tsval));
                    !is_old && syns.sighting().has_numbers_of(segment, AFTER_SYN_MAX)
                }
            }
        })
    }

    /// The flow is not open, its SYNs were seen, and this segment follows them.
    pub(crate) fn follows_syns(&self, direction: Direction, segment: &Segment) -> bool {
        self.stage == Stage::Adopting && self.syns_before(direction, segment).is_some()
    }

    /// Opens the flow if this segment of the FH follows the MH's answer to its SYN: the first data
    /// may be lost before the MH sends another segment. An attacker off the path does not know the
    /// number of the MH's SYN.
    pub(crate) fn open_after_syns(&mut self, segment: &Segment, now: Instant) -> bool {
        let is_answered = |syns: &Syns| {
            syns.mh_answers
                && segment.flags.has(Flags::ACK)
                && segment.ack == syns.mh.seq + 1
                && near(segment.seq, syns.fh.seq + 1, AFTER_SYN_MAX)
        };
        let Some(syns) = self.handshake.pairs().find(is_answered) else {
            return false;
        };
        let fh = syns.sighting();
        self.handshake = Handshake::opened_after(Some(&syns));
        self.note_syns(&syns);
        self.open_at(&fh, fh.end, fh.ack, now);
        let (mh_shift, _) = syns.shifts();
        self.mh.right_edge = Some(fh.end + u32::from(syns.mh.window));
        self.mh.window_largest = syns.mh.window >> mh_shift;
        self.mh.timestamps = syns.fh.timestamps.and(syns.mh.timestamps);
        (self.mh.clock_may_differ, self.mh.received_at) = (true, now);
        true
    }

    /// The flow was opened by a segment that follows both SYNs.
    pub(crate) fn began_with_syns(&self) -> bool {
        self.handshake.mh_syn().is_some()
    }

    /// Both SYNs were seen, and the FH has acknowledged nothing except the MH's SYN.
    pub(crate) fn fh_has_acknowledged_nothing(&self) -> bool {
        let syn = self.handshake.mh_syn();
        syn.is_some_and(|syn| syn + 1 == self.fh.ack)
    }
}
