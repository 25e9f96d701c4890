// SPDX-License-Identifier: Apache-2.0
//! Segments that the gateway makes in the name of an end.

use holdfast_wire::{Flags, Instant, SackBlocks, Segment, SeqNum, Timestamps};

use super::{Flow, WINDOW_MAX};
use crate::{Action, Direction, Made, Payload};

impl<P: Payload> Flow<P> {
    /// A keep-alive (RFC 9293, 3.8.4) in the FH's name: it makes the MH answer if nothing is cached.
    ///
    /// It has the newest timestamp that was sent to the MH: a segment with an older one may get no
    /// answer (Linux, `PAWSOldAck`). If the MH uploads, the keep-alive echoes the MH's clock as it was
    /// a round trip ago. So an engine at the MH learns from it only that the link is up.
    pub(crate) fn made_probe(&mut self, now: Instant) -> Option<Action<P>> {
        let template = self.downlink_header.clone()?;
        let uploads = self.uploads.as_ref();
        let tsecr = uploads.map_or(self.fh.tsecr, |uploads| uploads.echo(now));
        let timestamps = self.mh.timestamps.map(|mh| Timestamps {
            tsval: self.note_tsval(mh.tsecr),
            tsecr,
        });
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template,
            seq: self.fh.una - 1,
            ack: self.ack_for_mh(self.fh.ack),
            window: self.fh.window,
            flags: Flags::ACK,
            timestamps,
            sack: SackBlocks::default(),
        }))
    }

    /// An ACK with an old SEG.SEQ: the MH answers with its state (RFC 9293, 3.10.7.4). The MH would not
    /// answer a segment above the bytes that it was sent.
    pub(crate) fn made_query(&self, segment: &Segment, owed: SeqNum) -> Option<Action<P>> {
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template: self.downlink_header.clone()?,
            seq: owed - WINDOW_MAX,
            ack: segment.ack,
            window: segment.window,
            flags: Flags::ACK,
            timestamps: segment.options.timestamps,
            sack: SackBlocks::default(),
        }))
    }

    /// An ACK to the FH in the MH's name.
    pub(crate) fn made_ack(&self, ack: SeqNum, window: u16, tsecr: u32) -> Option<Action<P>> {
        let (seq, ack, window) = self.for_fh(self.mh.nxt, ack, window);
        Some(Action::Send(Made {
            direction: Direction::Uplink,
            template: self.uplink_header.clone()?,
            seq,
            ack,
            window,
            flags: Flags::ACK,
            timestamps: self.mh.timestamps.map(|mh| Timestamps {
                tsval: mh.tsval,
                tsecr,
            }),
            sack: SackBlocks::default(),
        }))
    }

    /// Converts the numbers of a segment in the MH's name from the MH's half to the FH's half.
    pub(crate) fn for_fh(&self, seq: SeqNum, ack: SeqNum, window: u16) -> (SeqNum, SeqNum, u16) {
        match self.renumber {
            None => (seq, ack, window),
            Some(numbers) => (
                seq + numbers.uplink,
                ack + numbers.downlink.wrapping_neg(),
                numbers.uplink_window.apply(window),
            ),
        }
    }

    /// An ACK to the MH in the FH's name, with SACK blocks. It acknowledges no more than the FH has,
    /// and its window has the right edge of the FH's.
    pub(crate) fn made_ack_with_sack(
        &mut self,
        ack: SeqNum,
        sack: SackBlocks,
    ) -> Option<Action<P>> {
        let template = self.downlink_header.clone()?;
        let behind = self.fh.ack.distance_from(ack);
        let behind = self.fh.window_scale.map_or(0, |shift| behind >> shift);
        let window = u32::from(self.fh.window).saturating_add(behind);
        let timestamps = self.mh.timestamps.map(|mh| Timestamps {
            tsval: self.note_tsval(mh.tsecr),
            tsecr: self.fh.tsecr,
        });
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template,
            seq: self.fh.max,
            ack,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            flags: Flags::ACK,
            timestamps,
            sack,
        }))
    }

    /// A copy of an ACK of the FH without data, with another timestamp echo.
    pub(crate) fn made_echo(&self, ack: &Segment, tsecr: u32) -> Option<Action<P>> {
        Some(Action::Send(Made {
            direction: Direction::Downlink,
            template: self.downlink_header.clone()?,
            seq: ack.seq,
            ack: ack.ack,
            window: ack.window,
            flags: Flags::ACK,
            timestamps: ack
                .options
                .timestamps
                .map(|own| Timestamps { tsecr, ..own }),
            sack: ack.options.sack,
        }))
    }
}
