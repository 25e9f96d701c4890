// SPDX-License-Identifier: Apache-2.0
//! What may be sent, and the segments that carry it (RFC 9293, 3.8.6.2.1 and 3.10.2).

use holdfast_wire::{Flags, Instant, Options, SackBlocks, Segment};

use super::connection::Connection;
use super::rack_state::Waiting;
use super::settings::{IdleRestart, LossRecovery, OnShrunkWindow};
use super::variables::{State, Timed};
use crate::packet::{Origin, Packet};

impl Connection {
    /// Sends what the windows allow.
    pub(super) fn output(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if !self.may_send() || self.is_frozen_by_handoff() {
            return;
        }
        self.restart_if_idle(now);
        if self.snd.wnd == 0 && self.meets_closed_window(now) {
            return;
        }
        self.leave_persist_if_open();
        if self.uses_rack() {
            self.send_with_rack(now, out);
            self.note_if_app_limited();
        } else if self.congestion.recovering && self.uses_sack() {
            self.send_by_pipe(now, out);
        } else {
            self.send_by_window(now, out);
        }
        self.arm_persist_if_stuck(now);
    }

    pub(super) fn send_by_window(&mut self, now: Instant, out: &mut Vec<Packet>) {
        loop {
            while self.send_burst(now, out) {}
            let is_full = self.snd.nxt < self.data_end() && self.congestion_room() < self.smss;
            if !is_full || !self.extrapolate(now) {
                return;
            }
        }
    }

    /// Sends one burst. Returns whether anything was sent.
    fn send_burst(&mut self, now: Instant, out: &mut Vec<Packet>) -> bool {
        let mut next = self.next_segment();
        if next.is_none() {
            return false;
        }
        let (mut bytes, most) = (0, self.burst(now));
        for _ in 0..most {
            let Some((from, to)) = next else { break };
            self.emit(from, to, now, out);
            self.snd.nxt = self.snd.nxt.max(to);
            bytes += to - from;
            next = self.next_segment();
        }
        self.pace(bytes, now);
        bytes > 0
    }

    fn may_send(&self) -> bool {
        matches!(
            self.state,
            State::Established
                | State::CloseWait
                | State::FinWait1
                | State::Closing
                | State::LastAck
        )
    }

    /// RFC 6675 governs recovery.
    pub(super) fn uses_sack(&self) -> bool {
        self.has_sack && self.settings.recovery == LossRecovery::Sack
    }

    /// The number after the last byte that the application has given so far.
    pub(super) fn data_end(&self) -> u64 {
        if self.delivered() >= self.app.after_receiving {
            1 + self.app.sends
        } else {
            1
        }
    }

    /// All data is given, and the application closes.
    fn wants_to_close(&self) -> bool {
        let peer_closed = self.rcv.fin.is_some_and(|fin| fin < self.rcv.nxt);
        let answers = peer_closed && !self.app.relays;
        self.data_end() == self.fin_seq() && (self.app.closes_first || answers)
    }

    /// The number after all data and, if the application closes, after the FIN.
    pub(super) fn send_end(&self) -> u64 {
        self.data_end() + u64::from(self.wants_to_close())
    }

    /// FlightSize: what is sent, up to `snd.nxt`, and not acknowledged.
    pub(super) fn flight(&self) -> u64 {
        self.snd.nxt - self.snd.una
    }

    /// The right edge of what the other end's window and this end's buffer allow.
    pub(super) fn window_end(&self) -> u64 {
        let buffer = self.settings.send_buffer_bytes.map_or(u64::MAX, u64::from);
        self.snd.una + self.snd.wnd.min(buffer)
    }

    /// The next segment from `snd.nxt` on, if it may go now.
    fn next_segment(&mut self) -> Option<(u64, u64)> {
        if !self.board.is_empty() {
            // Below `snd.max`, this function sends only after a timeout. It skips reported bytes.
            self.snd.nxt = self.board.first_hole(self.snd.nxt);
        }
        let from = self.snd.nxt;
        let room = self.congestion_room();
        let (data_end, end) = (self.data_end(), self.send_end());
        if from >= data_end {
            // A FIN alone needs no window.
            return (from < end && self.may_send_fin(from)).then_some((from, end));
        }
        let limit = data_end.min(self.window_end()).min(from + room);
        let mut to = limit.min(from + self.smss);
        if let Some(reported) = self.board.next_range(from) {
            to = to.min(reported);
        }
        let len = to.saturating_sub(from);
        // RFC 9293, 3.8.6.2.1: no silly windows.
        let worth_it = len >= self.smss
            || (to == data_end && !self.waits_for_more())
            || len >= self.snd.wnd_max / 2
            || self.is_all_that_fits(to)
            || from < self.snd.max;
        if len == 0 || !worth_it {
            return None;
        }
        Some((from, if to == data_end { end } else { to }))
    }

    /// RFC 9293, 3.7.4 (Nagle): a relay will have more bytes soon. Other applications give all
    /// their bytes at once.
    pub(super) fn waits_for_more(&self) -> bool {
        self.app.relays && !self.app.closes_first && self.snd.una < self.snd.max
    }

    /// Nothing is outstanding, and the segment takes all that the send buffer can hold (4.3BSD's
    /// `tcp_output`: "idle").
    fn is_all_that_fits(&self, to: u64) -> bool {
        let buffer = self.settings.send_buffer_bytes.map_or(u64::MAX, u64::from);
        self.snd.una == self.snd.max && to == self.snd.una.saturating_add(buffer)
    }

    /// Bytes that `cwnd` has room for.
    fn congestion_room(&self) -> u64 {
        let congestion = &self.congestion;
        if self.uses_rack() {
            return congestion.cwnd.saturating_sub(self.tlp.flight.in_flight());
        }
        let mut window = congestion.cwnd;
        // RFC 3042, 2: one segment of "previously unsent data" for each of the first two
        // duplicate ACKs.
        let all_new = self.snd.nxt >= self.snd.max;
        if self.settings.limited_transmit && !congestion.recovering && all_new {
            window += u64::from(congestion.dup_acks.min(2)) * self.smss;
        }
        let mut flight = self.flight();
        if congestion.after_timeout && !self.board.is_empty() {
            // Bytes reported since the timeout are not retransmitted (RFC 6675, 5.1).
            flight -= self.board.bytes_within(self.snd.una, self.snd.nxt);
        }
        window.saturating_sub(flight)
    }

    fn may_send_fin(&self, from: u64) -> bool {
        from >= self.snd.max || self.congestion_room() > 0
    }

    /// Sends the bytes, and the FIN, from `from` up to `to`.
    pub(super) fn emit(&mut self, from: u64, to: u64, now: Instant, out: &mut Vec<Packet>) {
        let fin = self.fin_seq();
        let len = to.min(fin).saturating_sub(from);
        let mut flags = Flags::ACK;
        if to > fin {
            flags = flags.with(Flags::FIN);
        }
        if len > 0 && to >= fin {
            flags = flags.with(Flags::PSH);
        }
        if self.snd.una == self.snd.max {
            let idle = now.saturating_since(self.sent_at);
            self.congestion.cubic.on_idle(idle, now);
        }
        let repeated = self.snd.highest.min(from + len).saturating_sub(from);
        if !self.persisting {
            let counters = &mut self.counters;
            counters.data_segments += u64::from(len > 0);
            counters.data_segments_repeated += u64::from(repeated > 0);
            counters.data_bytes += len;
            counters.data_bytes_repeated += repeated;
            if len > 0 {
                counters.seconds_sending.count_second_of(now);
            }
            if repeated > 0 {
                counters.seconds_repeating.count_second_of(now);
            }
        }
        if self.persisting {
            // A probe is not timed.
        } else if from >= self.snd.highest {
            // One segment a round trip is timed, for connections without timestamps.
            let timed = Timed { end: to, sent: now };
            self.timed.get_or_insert(timed);
            if self.settings.limited_transmit
                && self.congestion.dup_acks > 0
                && !self.congestion.recovering
            {
                self.congestion.limited_bytes += len;
            }
        } else if self.timed.is_some_and(|timed| from < timed.end) {
            // RFC 6298, 3: Karn's algorithm.
            self.timed = None;
        }
        self.note_transmitted(from, now);
        if self.uses_rack() && !self.persisting {
            self.note_sent(from, to, now);
        }
        let is_repeated = from < self.snd.highest;
        self.snd.max = self.snd.max.max(to);
        self.snd.highest = self.snd.highest.max(to);
        let origin = Origin {
            stream: self.me.stream,
            offset: from - 1,
        };
        self.transmit(from, len as u32, flags, origin, is_repeated, now, out);
        if self.timers.retransmit.is_none() && !self.persisting {
            // RFC 6298, 5.1.
            self.start_retransmission_timer(now);
        }
    }

    /// An ACK without data.
    pub(super) fn send_ack(&mut self, now: Instant, out: &mut Vec<Packet>) {
        self.counters.pure_acks += 1;
        // RFC 9293, 3.10.7.4: <SEQ=SND.NXT>. The peer would take a lower number for an old one.
        let seq = self.snd.nxt.max(self.snd.max);
        self.transmit(seq, 0, Flags::ACK, Origin::default(), false, now, out);
    }

    /// A segment with this end's acknowledgement and window.
    #[expect(
        clippy::too_many_arguments,
        reason = "a segment's fields, used in one file"
    )]
    pub(super) fn transmit(
        &mut self,
        seq: u64,
        payload_len: u32,
        flags: Flags,
        origin: Origin,
        repeated: bool,
        now: Instant,
        out: &mut Vec<Packet>,
    ) {
        let timestamps = self.timestamps(now);
        let sack = self.sack_blocks();
        self.rcv.duplicate = None;
        let window = self.window_to_offer();
        let segment = Segment {
            from: self.me.endpoint,
            to: self.peer.endpoint,
            seq: self.wire_seq(seq),
            ack: self.rcv.irs + self.rcv.nxt as u32,
            flags,
            window,
            options: Options {
                timestamps,
                sack,
                ..Options::default()
            },
            payload_len,
        };
        self.counters.segments += 1;
        if payload_len > 0 || flags.has(Flags::FIN) {
            self.sent_at = now;
        }
        self.rcv.last_ack_sent = self.rcv.nxt;
        self.rcv.unacked_segments = 0;
        self.timers.delayed_ack = None;
        out.push(self.packet(segment, origin, repeated));
    }

    /// RFC 2018, 4: the newest first; three blocks beside timestamps, else four.
    fn sack_blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if !self.has_sack {
            return blocks;
        }
        let mut most = if self.has_timestamps { 3 } else { 4 };
        // RFC 2883, 4: the duplicate is reported before all others.
        if let Some((left, right)) = self.rcv.duplicate {
            blocks.push(self.rcv.irs + left as u32, self.rcv.irs + right as u32);
            most -= 1;
        }
        if self.rcv.ahead.is_empty() {
            return blocks;
        }
        for (left, right) in self.rcv.ahead.newest_first(most) {
            blocks.push(self.rcv.irs + left as u32, self.rcv.irs + right as u32);
        }
        blocks
    }

    /// RFC 5681, 4.1.
    fn restart_if_idle(&mut self, now: Instant) {
        let since = match self.settings.idle_restart {
            IdleRestart::Never => return,
            IdleRestart::SinceSent | IdleRestart::HalvedEachTimeout => self.sent_at,
            IdleRestart::SinceReceived => self.sent_at.max(self.received_at),
        };
        let is_idle = self.snd.una == self.snd.max && self.snd.nxt == self.snd.una;
        let idle = now.saturating_since(since);
        if !is_idle || idle <= self.rto.rto() {
            return;
        }
        if self.settings.idle_restart == IdleRestart::HalvedEachTimeout {
            self.congestion.decay(idle, self.rto.rto());
        } else {
            self.congestion.restart();
        }
    }

    /// Handles a window of 0. True: nothing but probes may be sent.
    fn meets_closed_window(&mut self, now: Instant) -> bool {
        let unacked_data = self.snd.una < self.data_end();
        if !unacked_data {
            return false;
        }
        let outstanding = self.snd.una < self.snd.max;
        if outstanding && !self.persisting {
            match self.settings.on_shrunk_window {
                // tcp_output of 4.3BSD-Reno: "if window shrank to 0, cancel pending
                // retransmit and pull snd_nxt back to (closed) window".
                OnShrunkWindow::PersistAtOnce if self.uses_rack() => {
                    self.timers.retransmit = None;
                    self.lose_all();
                }
                OnShrunkWindow::PersistAtOnce => {
                    self.timers.retransmit = None;
                    self.snd.nxt = self.snd.una;
                    self.congestion.recovering = false;
                    self.congestion.dup_acks = 0;
                }
                OnShrunkWindow::RetransmissionTimerRuns
                | OnShrunkWindow::RetransmissionTimerCounts => return true,
            }
        }
        if !self.persisting {
            self.enter_persist(now);
        }
        true
    }

    /// Nothing is outstanding, and the data or the window is too small for a segment: the persist
    /// timer sends it (RFC 9293, 3.8.6.2.1, the override timeout).
    fn arm_persist_if_stuck(&mut self, now: Instant) {
        let stuck = self.snd.una == self.snd.max
            && self.snd.nxt < self.data_end()
            && self.timers.retransmit.is_none()
            && self.timers.persist.is_none();
        if stuck {
            self.enter_persist(now);
        }
    }

    /// There are bytes to send, and no segment of them may be sent now.
    pub(super) fn is_stuck(&mut self) -> bool {
        self.snd.nxt < self.data_end() && self.next_segment().is_none()
    }

    /// RFC 6298, 5.1, 5.3 and 5.6.
    pub(super) fn start_retransmission_timer(&mut self, now: Instant) {
        let rto = self.rto.rto();
        self.start_timer_for(Waiting::Timeout, rto, now);
    }
}
