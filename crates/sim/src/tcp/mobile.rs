// SPDX-License-Identifier: Apache-2.0
//! M-TCP at the mobile (Brown and Singh, 1997, 4.2): what a connection does when its host's
//! hardware reports link down and link up.
//!
//! - While the link is down the timers are stopped: a disconnection is no congestion.
//! - At link up it sends an ACK of the highest byte received in sequence, marked by a
//!   combination of flags that other segments do not have, and its timers go on.
//!
//! Where the paper is silent: a SYN that was not answered at link down is retransmitted
//! at link up; there is nothing to acknowledge then.

use holdfast_core::RECONNECTION_FLAGS;
use holdfast_wire::{Duration, Instant};

use super::connection::Connection;
use super::variables::{State, Timers};
use crate::packet::{Origin, Packet};

impl Connection {
    /// Whether this end gets reports of link up and link down.
    pub fn watches_link(&self) -> bool {
        self.settings.m_tcp || self.handles_handoffs()
    }

    /// Whether its host restores compressed segments (4.2.1).
    pub fn decompresses(&self) -> bool {
        self.settings.m_tcp
    }

    /// The host's link is up now, or down. Segments to send are added to `out`.
    pub fn handle_link(&mut self, up: bool, now: Instant, out: &mut Vec<Packet>) {
        if self.handles_handoffs() {
            return self.handle_handoff(up, now, out);
        }
        match (up, self.frozen_since) {
            (false, None) => self.frozen_since = Some(now),
            (true, Some(since)) => {
                self.frozen_since = None;
                self.thaw(now.saturating_since(since));
                self.send_marked_ack(now, out);
            }
            _ => {}
        }
    }

    /// Delays all timers, and the sending time of the timed segment, by `length`.
    fn thaw(&mut self, length: Duration) {
        let Timers {
            retransmit,
            persist,
            delayed_ack,
            dup_acks,
            // The application's timer ran on.
            read: _,
            pace,
            time_wait,
        } = &mut self.timers;
        for timer in [retransmit, persist, delayed_ack, dup_acks, pace, time_wait] {
            *timer = timer.map(|at| at + length);
        }
        if let Some(timed) = &mut self.timed {
            timed.sent += length;
        }
    }

    fn send_marked_ack(&mut self, now: Instant, out: &mut Vec<Packet>) {
        match self.state {
            State::Closed | State::Listen | State::SynReceived | State::TimeWait => {}
            State::SynSent => self.send_syn(now, out),
            State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck => {
                self.counters.pure_acks += 1;
                let seq = self.snd.nxt.max(self.snd.max);
                let flags = RECONNECTION_FLAGS;
                self.transmit(seq, 0, flags, Origin::default(), false, now, out);
            }
        }
    }

    /// During a disconnection only the application's timer runs.
    pub(super) fn handle_timeout_frozen(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.timers.read.is_some_and(|at| at <= now) {
            self.timers.read = None;
            self.read(now, out);
        }
    }
}
