// SPDX-License-Identifier: Apache-2.0
//! Adopting a connection in mid-stream, when its SYNs were not seen.
//!
//! A segment of the FH and a segment of the MH belong to one connection if they agree. One of
//! the numbers must be exactly the other end's: SEG.ACK of one is where the other one's data
//! begins or ends. The other number must lie within a window of its counterpart. Somebody off
//! the path does not know these numbers: a forged segment agrees with a true one by a chance of
//! 4 in 2^32.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum, Timestamps};

use super::credible::{WINDOW_MAX, near};

/// An FH's segment is compared with the MH's for this long, then with its successors only.
const ANCHOR_AGE_MAX: Duration = Duration::from_secs(1);

/// What one segment says of where its sender stands.
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

    /// The MH's segment is of the same connection.
    fn agrees_with(&self, mh: &Segment) -> bool {
        let mh_end = mh.end();
        let exact =
            mh.seq == self.ack || mh_end == self.ack || mh.ack == self.end || mh.ack == self.seq;
        exact && near(mh.ack, self.end, WINDOW_MAX) && near(mh_end, self.ack, WINDOW_MAX)
    }
}

/// The FH's segments that the MH's are compared with.
///
/// The newest one fits where one direction carries data. Where both do, the MH answers much
/// later: for that an older one is remembered, the anchor. A newer segment replaces either, so
/// a forged one delays the adoption and does not prevent it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Adoption {
    newest: Option<Sighting>,
    anchor: Option<(Sighting, Instant)>,
}

impl Adoption {
    /// A segment of the FH. What has options that we do not know is no evidence.
    pub(super) fn note_fh(&mut self, segment: &Segment, now: Instant) {
        if !segment.flags.has(Flags::ACK) || segment.options.others {
            return;
        }
        let sighting = Sighting::of(segment);
        self.newest = Some(sighting);
        let is_fresh =
            |(_, since): (Sighting, Instant)| now.saturating_since(since) < ANCHOR_AGE_MAX;
        if !self.anchor.is_some_and(is_fresh) {
            self.anchor = Some((sighting, now));
        }
    }

    /// The FH's segment with which this one of the MH agrees.
    pub(super) fn agreeing(&self, mh: &Segment) -> Option<Sighting> {
        if mh.options.others {
            return None;
        }
        let anchor = self.anchor.map(|(sighting, _)| sighting);
        let mut seen = self.newest.into_iter().chain(anchor);
        seen.find(|sighting| sighting.agrees_with(mh))
    }
}
