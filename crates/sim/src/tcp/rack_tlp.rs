// SPDX-License-Identifier: Apache-2.0
//! How an ACK changes the state of RACK-TLP (RFC 8985), with proportional rate reduction
//! (RFC 9937), F-RTO (RFC 5682) and undo, in the states of Linux.

use holdfast_core::lccwe::Cause;
use holdfast_wire::{Duration, Instant};

use super::connection::Connection;
use super::prr::{Prr, Report};
use super::rack::Situation;
use super::rack_state::{Ack, Phase, Resend, Waiting};
use super::settings::LossRecovery;
use crate::packet::Packet;

/// Added to the reordering timer, so that it does not expire too soon.
const TIMER_SLACK: Duration = Duration::from_millis(2);

impl Connection {
    /// RACK-TLP governs recovery.
    pub(super) fn uses_rack(&self) -> bool {
        self.has_sack && self.settings.recovery == LossRecovery::RackTlp
    }

    fn situation(&self) -> Situation {
        Situation {
            recovers: self.tlp.phase >= Phase::Recovery,
            srtt: self.rto.srtt().unwrap_or_default(),
        }
    }

    /// Linux's state machine (`tcp_fastretrans_alert`), for an ACK that may show a loss.
    pub(super) fn process_losses(&mut self, ack: &mut Ack, now: Instant) {
        if self.tlp.phase == Phase::Open {
            self.tlp.undo.forget_stamp();
        } else if self.tlp.phase == Phase::Recovery && self.snd.una >= self.congestion.recover {
            self.end_recovery(ack);
        }
        match self.tlp.phase {
            Phase::Recovery => {
                if ack.advances && self.undo_by_partial_ack(ack) {
                    return;
                }
                if self.undo_by_dsack() {
                    self.set_open_or_disorder();
                }
                self.detect_losses(ack, now);
                if self.tlp.phase != Phase::Recovery {
                    if self.tlp.flight.lost() == 0 {
                        return;
                    }
                    self.enter_rack_recovery(now);
                }
                self.tlp.resend = Resend::Lost;
            }
            Phase::Loss => {
                self.process_after_timeout(ack);
                self.detect_losses(ack, now);
                let is_lost_again = ack.lost_repeat && self.tlp.phase == Phase::Loss;
                if self.tlp.phase == Phase::Open || is_lost_again {
                    self.recover_if_lost(now);
                }
            }
            Phase::Open | Phase::Disorder => {
                self.undo_by_dsack();
                self.detect_losses(ack, now);
                self.recover_if_lost(now);
            }
        }
    }

    fn recover_if_lost(&mut self, now: Instant) {
        if self.tlp.flight.lost() > 0 {
            self.enter_rack_recovery(now);
            self.tlp.resend = Resend::Lost;
        } else {
            self.set_open_or_disorder();
        }
    }

    pub(super) fn set_open_or_disorder(&mut self) {
        let tlp = &mut self.tlp;
        tlp.forget_stamp_if_unused();
        let is_suspect = tlp.flight.sacked_or_lost() > 0 || tlp.has_repeated();
        self.congestion.recovering = false;
        let phase = if is_suspect {
            Phase::Disorder
        } else {
            Phase::Open
        };
        if tlp.phase != phase {
            tlp.phase = phase;
            self.congestion.recover = self.snd.max;
        }
    }

    /// RFC 8985, 6.2, step 5: finds losses, and starts the reordering timer.
    fn detect_losses(&mut self, ack: &mut Ack, now: Instant) {
        let situation = self.situation();
        let tlp = &mut self.tlp;
        let retransmitted = tlp.flight.retransmitted_in_flight();
        let (bytes, wait) = tlp.rack.detect_on_ack(&mut tlp.flight, situation, now);
        ack.newly_lost += bytes;
        ack.lost_repeat |= tlp.flight.retransmitted_in_flight() < retransmitted;
        if let Some(wait) = wait {
            ack.restarts_timer = false;
            self.start_timer_for(Waiting::Reordering, wait + TIMER_SLACK, now);
        }
    }

    /// The reordering timer has expired (RFC 8985, 6.3).
    pub(super) fn on_reordering_timeout(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let situation = self.situation();
        let tlp = &mut self.tlp;
        let (bytes, _) = tlp.rack.detect(&mut tlp.flight, situation, now);
        if bytes > 0 {
            if tlp.phase != Phase::Recovery {
                self.enter_rack_recovery(now);
                self.reduce_window(1, false);
            }
            self.resend_lost(now, out);
        }
        if self.tlp.waiting != Waiting::Timeout {
            self.rearm_timeout(now);
        }
    }

    pub(super) fn enter_rack_recovery(&mut self, now: Instant) {
        self.counters.fast_retransmits += 1;
        self.tlp.forget_stamp_if_unused();
        match self.cause_of_loss(false, now) {
            Cause::Congestion => self.begin_reduction(true),
            Cause::Handoff => {
                self.keep_windows();
                self.congestion.recover = self.snd.max;
                self.tlp.probe = None;
                self.tlp.prr = Prr::begin(self.congestion.cwnd / self.smss);
                self.congestion.ssthresh = self.congestion.cwnd;
            }
        }
        self.tlp.phase = Phase::Recovery;
        self.congestion.recovering = true;
    }

    /// Reduces `ssthresh`, and stores the windows from before if the reduction may be undone.
    pub(super) fn begin_reduction(&mut self, may_be_undone: bool) {
        if may_be_undone {
            self.remember_windows();
        }
        let before = self.congestion.cwnd;
        self.save_window_of_bbr();
        self.congestion.on_loss(self.flight(), self.snd.wnd);
        self.congestion.recover = self.snd.max;
        self.tlp.probe = None;
        self.tlp.prr = Prr::begin(before / self.smss);
    }

    /// Stores the windows to which an undo of this reduction returns.
    pub(super) fn remember_windows(&mut self) {
        let congestion = &self.congestion;
        let ssthresh = congestion.ssthresh.max(congestion.cwnd / 4 * 3);
        let retransmitted = self
            .tlp
            .flight
            .retransmitted_in_flight()
            .div_ceil(self.smss) as u32;
        let probes = self.tlp.probe.is_some_and(|probe| probe.is_repeat);
        let repeats = retransmitted + u32::from(probes);
        let (una, cwnd) = (self.snd.una, congestion.cwnd);
        self.tlp.undo.begin(una, repeats, ssthresh, cwnd);
    }

    /// RFC 9937, 6.2: the window after an ACK that delivers this many bytes.
    pub(super) fn reduce_window(&mut self, delivered: u64, is_safe: bool) {
        if self.bbr.is_some() {
            // BBR's own window.
            return;
        }
        let (smss, in_flight) = (self.smss, self.tlp.flight.in_flight());
        let report = Report {
            delivered: delivered.div_ceil(smss),
            in_flight: in_flight.div_ceil(smss),
            ssthresh: self.congestion.ssthresh / smss,
            is_safe,
        };
        if let Some(count) = self.tlp.prr.on_ack(report) {
            self.congestion.cwnd = in_flight + count * smss;
        }
    }

    /// All that was in flight when recovery began is acknowledged.
    fn end_recovery(&mut self, ack: &Ack) {
        self.undo_if_spurious(ack, false);
        let is_bbr = self.bbr.is_some();
        if !is_bbr && self.tlp.undo.stands() && self.congestion.ssthresh < u64::MAX {
            self.congestion.cwnd = self.congestion.ssthresh;
        }
        self.tlp.phase = Phase::Open;
        self.tlp.rack.on_recovered();
        self.congestion.recovering = false;
        self.restore_windows();
    }

    fn undo_if_spurious(&mut self, ack: &Ack, clears_losses: bool) -> bool {
        let undo = &self.tlp.undo;
        let is_spurious = undo.all_repeats_were_duplicates() || undo.is_of_original(ack.echo);
        if is_spurious {
            self.undo_reduction(clears_losses);
        }
        is_spurious
    }

    fn undo_reduction(&mut self, clears_losses: bool) {
        if clears_losses {
            self.tlp.flight.forget_losses();
        }
        if let Some((ssthresh, cwnd)) = self.tlp.undo.take_windows() {
            if self.bbr.is_none() {
                self.congestion.cwnd = self.congestion.cwnd.max(cwnd);
            }
            self.congestion.ssthresh = self.congestion.ssthresh.max(ssthresh);
            self.undo_bbr();
        }
        self.tlp.rack.look_again();
    }

    /// A late segment filled a hole, and not its retransmission.
    fn undo_by_partial_ack(&mut self, ack: &Ack) -> bool {
        if !self.tlp.undo.is_of_original(ack.echo) {
            return false;
        }
        self.tlp.rack.on_reordering();
        if self.tlp.flight.retransmitted_in_flight() > 0 {
            return true;
        }
        self.undo_reduction(true);
        self.set_open_or_disorder();
        false
    }

    fn undo_by_dsack(&mut self) -> bool {
        let is_spurious = self.tlp.undo.all_repeats_were_duplicates();
        if is_spurious {
            self.undo_reduction(false);
        }
        is_spurious
    }

    /// An ACK after a timeout: Eifel, and F-RTO with SACK (RFC 5682, 3.1).
    fn process_after_timeout(&mut self, ack: &Ack) {
        let has_recovered = self.snd.una >= self.congestion.recover;
        if ack.advances && self.undo_if_spurious(ack, true) {
            self.leave_loss();
            return;
        }
        if self.tlp.frto {
            // Step 3.b: something that was sent once has arrived.
            if ack.delivers_original && self.tlp.undo.stands() {
                self.undo_reduction(true);
                self.leave_loss();
                return;
            }
            if self.snd.max > self.congestion.recover {
                // Step 3.a: the loss was real.
                self.tlp.frto &= !ack.reports;
            } else if ack.advances && !has_recovered {
                self.congestion.recover = self.snd.max;
                // Step 2.b: two new segments, if there are any.
                if self.snd.max < self.data_end() && self.window_end() > self.snd.max {
                    self.tlp.resend = Resend::NewFirst;
                    return;
                }
                self.tlp.frto = false;
            }
        }
        if has_recovered {
            self.undo_if_spurious(ack, false);
            self.leave_loss();
            return;
        }
        self.tlp.resend = Resend::Lost;
    }

    fn leave_loss(&mut self) {
        self.tlp.phase = Phase::Open;
        self.tlp.timeouts = 0;
        self.tlp.rack.on_recovered();
    }

    /// Sends what an ACK has made room for.
    pub(super) fn send_with_rack(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let was_empty = self.tlp.flight.is_empty();
        let before = self.snd.max;
        if self.tlp.resend == Resend::NewFirst {
            self.send_by_window(now, out);
            if self.snd.max <= self.congestion.recover {
                self.tlp.frto = false;
                self.tlp.resend = Resend::Lost;
            }
        }
        if self.tlp.resend == Resend::Lost {
            self.resend_lost(now, out);
        }
        self.send_by_window(now, out);
        if self.snd.max > before {
            if was_empty || self.tlp.waiting == Waiting::Probe {
                self.rearm_timeout(now);
            }
            self.schedule_probe(false, now);
        }
    }

    /// Retransmits lost segments in order, as far as the window has room.
    pub(super) fn resend_lost(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let mut from = self.snd.una;
        let (mut burst, mut bytes) = (0, 0);
        while let Some(sent) = self.tlp.flight.next_lost(from) {
            let room = self.congestion.cwnd;
            let room = room.saturating_sub(self.tlp.flight.in_flight());
            let is_first = sent.from == self.snd.una;
            // Linux does not retransmit beyond the edge of a shrunk window.
            let is_outside = sent.to.min(self.fin_seq()) > self.window_end();
            if room < self.smss.min(sent.to - sent.from) || (is_outside && !is_first) {
                break;
            }
            if burst == 0 || sent.from != from {
                // A segment that does not follow the last one begins a new burst.
                self.pace(bytes, now);
                (burst, bytes) = (self.burst(now), 0);
            }
            if burst == 0 {
                break;
            }
            self.emit(sent.from, sent.to, now, out);
            from = sent.to;
            burst -= 1;
            bytes += sent.to - sent.from;
            if is_first && self.tlp.waiting != Waiting::Reordering {
                self.start_retransmission_timer(now);
            }
        }
        self.pace(bytes, now);
    }

    /// Retransmits the oldest segment, as after a loss that ACKs have shown.
    pub(super) fn lose_first(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let una = self.snd.una;
        if self.tlp.phase < Phase::Recovery
            && self.tlp.flight.mark_lost(|sent| sent.from == una) > 0
        {
            self.enter_rack_recovery(now);
            self.reduce_window(self.smss, false);
            self.resend_lost(now, out);
        }
    }

    /// Bytes from `from` up to `to` are sent.
    pub(super) fn note_sent(&mut self, from: u64, to: u64, now: Instant) {
        self.restart_bbr(now);
        let recovers = self.tlp.phase >= Phase::Recovery;
        if from < self.snd.max && recovers {
            self.tlp.undo.on_repeat(self.clock(now));
        }
        if self.tlp.phase == Phase::Recovery {
            self.tlp.prr.on_sent(1);
        }
        let is_first = self.tlp.flight.is_empty();
        let snapshot = self.tlp.rates.on_send(is_first, now);
        self.tlp.flight.on_sent(from, to, recovers, snapshot, now);
    }
}
