// SPDX-License-Identifier: Apache-2.0
//! Resets both ends of a flow, and answers with a RST whatever they send afterwards.

use holdfast_wire::{Flags, SackBlocks, Segment, SeqNum};

use super::Flow;
use crate::{Action, Actions, Direction, Made, Payload, Verdict};

impl<P: Payload> Flow<P> {
    /// Sends each end a RST with the sequence number that it expects next. Later segments get a RST
    /// too, because a RST may be lost.
    pub(crate) fn reset_both_ends(&mut self, actions: &mut Actions<P>) {
        let owed = self.owed.unwrap_or(self.fh.max);
        actions.extend(self.made_reset(Direction::Uplink, self.fh.ack, owed));
        actions.extend(self.made_reset(Direction::Downlink, self.fh.una, self.mh.nxt));
        self.answers_with_rst = true;
        self.close();
    }

    /// From now on each segment of an end is answered with a RST.
    pub(crate) const fn refuse(&mut self) {
        self.answers_with_rst = true;
    }

    /// Each segment of an end is answered with a RST.
    pub(crate) const fn answers_with_rst(&self) -> bool {
        self.answers_with_rst
    }

    /// A segment of a flow that is closed.
    pub(crate) fn on_closed_segment(
        &self,
        direction: Direction,
        segment: &Segment,
        actions: &mut Actions<P>,
    ) -> Verdict {
        if !self.answers_with_rst || segment.flags.has(Flags::RST) {
            return Verdict::Forward;
        }
        let Some(reset) = self.made_reset(direction.back(), segment.ack, segment.end()) else {
            return Verdict::Forward;
        };
        actions.push(reset);
        Verdict::Suppress
    }

    fn made_reset(&self, direction: Direction, seq: SeqNum, ack: SeqNum) -> Option<Action<P>> {
        let (seq, ack) = match direction {
            Direction::Uplink => {
                let (seq, ack, _) = self.for_fh(seq, ack, 0);
                (seq, ack)
            }
            Direction::Downlink => (seq, ack),
        };
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
            sack: SackBlocks::default(),
        }))
    }
}
