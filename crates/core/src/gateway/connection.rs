// SPDX-License-Identifier: Apache-2.0
//! A row of the flow table: a connection's state that all schemes share, and its scheme's own state.

use holdfast_wire::{Instant, Segment};

use crate::flow::{Flow, Stage};
use crate::schemes::AnyScheme;
use crate::{Direction, Payload};

/// A connection.
pub(crate) struct Connection<P: Payload> {
    pub flow: Flow<P>,
    pub scheme: AnyScheme<P>,
}

impl<P: Payload> Connection<P> {
    /// Nothing more is done for the connection.
    pub(super) fn close(&mut self) {
        self.flow.close();
        self.scheme.get_mut().reset();
    }

    /// A SYN passes. `seen`: when the segment before it passed.
    pub(super) fn on_syn(
        &mut self,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        seen: Instant,
        now: Instant,
    ) {
        let quiet = now.saturating_since(seen);
        let from_mh = direction == Direction::Uplink;
        if self
            .flow
            .on_syn(from_mh, segment, payload.header(), quiet, now)
        {
            self.scheme.get_mut().reset();
        }
        if self.flow.stage != Stage::Adopting {
            self.flow.seen = seen;
        }
    }

    /// The flow is adopted from its next segments on.
    pub(super) fn adopt_anew(&mut self, now: Instant) {
        self.flow.adopt_anew(now);
        self.scheme.get_mut().reset();
    }

    /// Nothing is cached, owed or retransmitted any more.
    pub(super) fn forget_cached(&mut self) {
        self.flow.forget_cached();
        self.scheme.get_mut().reset();
    }

    /// Everything cached that the MH has not reported is sent from the start.
    pub(super) fn rewind(&mut self) {
        if self.flow.rewind() {
            self.scheme.get_mut().on_rewind();
        }
    }

    /// The same after an outage, unless the MH's ACKs show that the link has kept what was on it.
    pub(super) fn rewind_after_outage(&mut self) {
        if self.flow.rewind_after_outage() {
            self.scheme.get_mut().on_rewind();
        }
    }

    /// Both FINs are acknowledged, and the FH has every ACK that is due to it.
    pub(super) fn is_done(&self) -> bool {
        self.flow.is_done() && self.scheme.get().has_settled(&self.flow)
    }
}
