// SPDX-License-Identifier: Apache-2.0
//! The SYNs of a flow, and what follows from them.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum, Timestamps};

use super::adoption::Sighting;
use super::credible::{QUIET_MIN, near};
use super::{Flow, Stage};
use crate::{Direction, Payload};

/// How far the first segments after the SYNs may lie from these: a window without a scale.
pub(super) const AFTER_SYN_MAX: u32 = u16::MAX as u32;

/// The SYNs seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handshake {
    /// A SYN and its answer: the first ones.
    pub(super) agreed: Option<Syns>,
    /// Others; only as long as the flow is not open.
    others: Option<Box<OtherSyns>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OtherSyns {
    /// The newest SYN without an ACK, by side.
    mh_opens: Option<Syn>,
    fh_opens: Option<Syn>,
    /// The newest SYN and its answer: the first ones may be forged.
    newest: Option<Syns>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syns {
    pub(super) mh: Syn,
    pub(super) fh: Syn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syn {
    pub(super) seq: SeqNum,
    window: u16,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<Timestamps>,
}

impl Syns {
    /// Where both ends stand, as a segment of the FH would show it that follows them.
    pub(super) fn sighting(&self) -> Sighting {
        Sighting {
            seq: self.fh.seq + 1,
            end: self.fh.seq + 1,
            ack: self.mh.seq + 1,
            window: self.fh.window,
            timestamps: self.fh.timestamps,
        }
    }
}

impl Handshake {
    /// The SYN that an answer of this side is for.
    pub(super) fn answered_by(&self, from_mh: bool) -> Option<Syn> {
        let others = self.others.as_ref()?;
        if from_mh {
            others.fh_opens
        } else {
            others.mh_opens
        }
    }
}

impl<P: Payload> Flow<P> {
    /// A SYN passes. `quiet`: how long nothing that fits has passed. True if it starts the
    /// connection anew.
    ///
    /// A SYN may be forged (RFC 5961, 4). So it changes nothing before the other end has answered
    /// it, and a live connection gives way to a new one only when it is silent itself.
    pub(crate) fn on_syn(
        &mut self,
        from_mh: bool,
        segment: &Segment,
        quiet: Duration,
        now: Instant,
    ) -> bool {
        let syn = Syn {
            seq: segment.seq,
            window: segment.window,
            window_scale: segment.options.window_scale,
            sack_permitted: segment.options.sack_permitted,
            timestamps: segment.options.timestamps,
        };
        if !segment.flags.has(Flags::ACK) {
            let others = self.handshake.others.get_or_insert_default();
            let opens = if from_mh {
                &mut others.mh_opens
            } else {
                &mut others.fh_opens
            };
            *opens = Some(syn);
            return false;
        }
        let asked = self.handshake.answered_by(from_mh);
        let Some(asked) = asked.filter(|asked| asked.seq + 1 == segment.ack) else {
            return false;
        };
        let (mh, fh) = if from_mh { (syn, asked) } else { (asked, syn) };
        let agreed = Some(Syns { mh, fh });
        if self.handshake.agreed == agreed || !self.gives_way(quiet) {
            return false;
        }
        let is_anew = self.stage != Stage::Adopting;
        if is_anew {
            self.begin_anew(now);
        }
        self.handshake.agreed = self.handshake.agreed.or(agreed);
        self.handshake.others.get_or_insert_default().newest = agreed;
        is_anew
    }

    /// A new connection between the same two ports may take the place of this one.
    fn gives_way(&self, quiet: Duration) -> bool {
        match self.stage {
            Stage::Adopting | Stage::Closed => true,
            // What is owed is settled first, or given up.
            Stage::Open | Stage::Opaque => self.owed.is_none() && quiet >= QUIET_MIN,
        }
    }

    /// What follows from both SYNs, besides the numbers.
    pub(super) fn note_syns(&mut self, syns: &Syns) {
        let Syns { mh, fh } = syns;
        // RFC 7323, 2.2: a shift counts if both SYNs had one.
        let scale = if fh.window_scale.is_some() {
            mh.window_scale
        } else {
            None
        };
        self.mh.window_scale = Some(scale.unwrap_or(0));
        self.fh.window_scale = Some(scale.and(fh.window_scale).unwrap_or(0));
        self.fh.sack = mh.sack_permitted && fh.sack_permitted;
    }

    /// The SYNs that this segment follows.
    pub(super) fn syns_before(&self, direction: Direction, segment: &Segment) -> Option<Syns> {
        let Handshake { agreed, others } = &self.handshake;
        let newest = others.as_ref().and_then(|others| others.newest);
        let mut seen = (*agreed).into_iter().chain(newest);
        seen.find(|syns| {
            let (fh, mh) = (syns.fh.seq + 1, syns.mh.seq + 1);
            match direction {
                Direction::Downlink => {
                    let exact = segment.seq == fh || segment.ack == mh;
                    let is_near = near(segment.seq, fh, AFTER_SYN_MAX);
                    exact && is_near && near(segment.ack, mh, AFTER_SYN_MAX)
                }
                Direction::Uplink => syns.sighting().agrees_with(segment, AFTER_SYN_MAX),
            }
        })
    }

    /// The flow is not open, its SYNs were seen, and this segment follows them.
    pub(crate) fn follows_syns(&self, direction: Direction, segment: &Segment) -> bool {
        self.stage == Stage::Adopting && self.syns_before(direction, segment).is_some()
    }

    /// The flow was opened by a segment that follows both SYNs.
    pub(crate) const fn began_with_syns(&self) -> bool {
        self.handshake.agreed.is_some()
    }

    /// Both SYNs were seen, and what has passed since was seen from its start.
    pub(crate) fn fh_has_acknowledged_nothing(&self) -> bool {
        let agreed = self.handshake.agreed;
        agreed.is_some_and(|syns| syns.mh.seq + 1 == self.fh.ack)
    }
}
