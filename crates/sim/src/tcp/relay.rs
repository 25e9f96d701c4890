// SPDX-License-Identifier: Apache-2.0
//! An end whose application relays: one connection sends what another one receives.

use holdfast_wire::Instant;

use super::connection::Connection;
use super::variables::{Ending, Received, State};
use crate::packet::Packet;

impl Connection {
    /// What this end has received in order so far.
    pub(crate) fn received(&self) -> Received {
        Received {
            bytes: self.delivered(),
            closed: self.rcv.fin.is_some_and(|fin| fin < self.rcv.nxt),
        }
    }

    /// The application gives all bytes up to `upto`, counted from the first byte.
    pub(crate) fn supply(&mut self, upto: Received, now: Instant, out: &mut Vec<Packet>) {
        if upto.bytes == self.app.sends && upto.closed == self.app.closes_first {
            return;
        }
        self.app.sends = upto.bytes;
        self.app.closes_first = upto.closed;
        self.output(now, out);
        self.advance_closing(now);
    }

    /// The application has passed on all bytes up to `total`: the buffer has room again.
    pub(crate) fn read_up_to(&mut self, total: u64, now: Instant, out: &mut Vec<Packet>) {
        let unread = self.delivered().saturating_sub(total);
        if unread >= self.rcv.unread {
            return;
        }
        self.rcv.unread = unread;
        if !matches!(self.state, State::Closed | State::TimeWait) {
            self.offer_room(now, out);
        }
    }

    /// The application resets the connection.
    pub(crate) fn abort(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.state != State::Closed {
            self.give_up(now, out);
        }
    }

    /// The host has lost the connection's state: it answers each later segment with a RST.
    pub(crate) fn forget(&mut self) {
        self.close(Ending::Reset);
    }
}
