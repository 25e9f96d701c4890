// SPDX-License-Identifier: Apache-2.0
//! Losses found by the retransmission timer, and persist state (RFC 6298, 5; RFC 9293, 3.8.3
//! and 3.8.6.1).

use holdfast_core::lccwe::Cause;
use holdfast_wire::{Flags, Instant};

use super::connection::Connection;
use super::settings::{OnPersistExit, OnShrunkWindow, ProbeKind};
use super::variables::{Ending, State};
use crate::packet::{Origin, Packet};

impl Connection {
    /// The retransmission timer has expired.
    pub(super) fn on_retransmission_timeout(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.on_syn_timeout(now, out);
            return;
        }
        if self.uses_rack() && self.handle_other_timer(now, out) {
            return;
        }
        // Linux: "Receiver dastardly shrinks window. Our retransmits become zero probes,
        // but we should not timeout this connection."
        let probes_shrunk_window = self.snd.wnd == 0
            && self.snd.una < self.data_end()
            && self.settings.on_shrunk_window == OnShrunkWindow::RetransmissionTimerRuns;
        if probes_shrunk_window {
            self.counters.probes += 1;
        } else if !self.count_retry(self.settings.rto.retries_max, now, out) {
            return;
        }
        self.counters.timeouts += 1;
        if self.uses_rack() {
            return self.on_rack_timeout(probes_shrunk_window, now, out);
        }
        let flight = self.congestion.in_network(self.flight());
        let (window, max) = (self.snd.wnd, self.snd.max);
        match self.cause_of_loss(true, now) {
            Cause::Congestion => {
                self.forget_kept_windows();
                self.congestion
                    .on_timeout(flight, window, max, probes_shrunk_window, now);
            }
            Cause::Handoff => {
                self.restore_windows();
                self.congestion.on_timeout_without_congestion(max);
            }
        }
        // RFC 6298, 5.5; and 3: Karn's algorithm.
        self.rto.back_off();
        self.timed = None;
        // RFC 2018, 8: the receiver may have dropped what it reported.
        self.board.clear();
        // RFC 6298, 5.4: the earliest segment.
        let mut to = self.first_unacknowledged();
        if self.snd.wnd > 0 {
            to = to.min(self.window_end().max(self.snd.una + 1));
        }
        self.emit(self.snd.una, to, now, out);
        self.snd.nxt = to;
    }

    /// A message reports that a link of the path is bad. If this sender heeds such messages, the
    /// retransmission timer starts anew, with the present timeout.
    pub fn handle_bad_link(&mut self, now: Instant) {
        if self.settings.heeds_bad_link && self.timers.retransmit.is_some() {
            self.start_retransmission_timer(now);
        }
    }

    fn on_syn_timeout(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.count_retry(self.settings.rto.syn_retries_max, now, out) {
            self.counters.timeouts += 1;
            self.rto.back_off();
            self.send_syn(now, out);
        }
    }

    /// Counts one more timeout in a row. False: there were more than `most`, and the connection
    /// is given up (R2 of RFC 9293, 3.8.3).
    fn count_retry(&mut self, most: u32, now: Instant, out: &mut Vec<Packet>) -> bool {
        self.retries += 1;
        if self.retries <= most {
            return true;
        }
        self.give_up(now, out);
        false
    }

    /// 4.3BSD's `tcp_drop`: the other end is notified, if possible.
    pub(super) fn give_up(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.state != State::SynSent {
            let flags = Flags::RST.with(Flags::ACK);
            self.transmit(self.snd.nxt, 0, flags, Origin::default(), false, now, out);
        }
        self.close(Ending::GaveUp);
    }

    /// The window is closed, or too small for the data.
    pub(super) fn enter_persist(&mut self, now: Instant) {
        self.persisting = true;
        self.probes = 0;
        self.arm_persist(now);
    }

    fn arm_persist(&mut self, now: Instant) {
        let settings = self.settings.persist;
        let first = settings.initial.unwrap_or_else(|| self.rto.base());
        let length = first
            .saturating_mul(1 << self.probes.min(20))
            .clamp(settings.min, settings.max.max(settings.min));
        self.timers.persist = Some(self.rto.expiry(now, length));
    }

    /// If the window is open, normal sending goes on from `snd.nxt`.
    pub(super) fn leave_persist_if_open(&mut self) {
        if !self.persisting || self.snd.wnd == 0 {
            return;
        }
        if self.timers.persist.is_some() && self.snd.una == self.snd.max && self.is_stuck() {
            // The window is too small: the timer decides.
            return;
        }
        self.persisting = false;
        self.timers.persist = None;
        self.probes = 0;
        if self.settings.on_persist_exit == OnPersistExit::ResetSndMax {
            (self.snd.max, self.snd.nxt) = (self.snd.una, self.snd.una);
        }
    }

    /// The persist timer has expired.
    pub(super) fn on_persist_timeout(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.snd.wnd > 0 {
            // RFC 9293, 3.8.6.2.1: the override timeout.
            self.persisting = false;
            let from = self.snd.nxt;
            let to = (from + self.smss)
                .min(self.data_end())
                .min(self.window_end());
            if to > from {
                self.emit(from, to, now, out);
                self.snd.nxt = to;
            }
            return;
        }
        if (self.settings.persist.unanswered_max).is_some_and(|most| self.probes_unanswered >= most)
        {
            self.give_up(now, out);
            return;
        }
        self.counters.seconds_sending.count_second_of(now);
        if self.probes_unanswered > 0 {
            self.counters.seconds_repeating.count_second_of(now);
        }
        self.probes = self.probes.saturating_add(1);
        self.probes_unanswered = self.probes_unanswered.saturating_add(1);
        self.counters.probes += 1;
        match self.settings.persist.probe {
            // The probe does not move `snd.nxt` (4.3BSD's t_force).
            ProbeKind::NextByte => self.emit(self.snd.una, self.snd.una + 1, now, out),
            ProbeKind::Empty => {
                let seq = self.snd.una.saturating_sub(1);
                self.transmit(seq, 0, Flags::ACK, Origin::default(), false, now, out);
            }
        }
        self.arm_persist(now);
    }
}
