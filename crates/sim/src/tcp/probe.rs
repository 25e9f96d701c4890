// SPDX-License-Identifier: Apache-2.0
//! Tail loss probes (RFC 8985, 7), and the one timer that they share with the retransmission
//! timeout and RACK's reordering timer, as on Linux.

use holdfast_core::lccwe::Cause;
use holdfast_wire::{Duration, Instant};

use super::connection::Connection;
use super::rack_state::{Ack, Phase, Probe, Resend, Waiting};
use super::settings::RtoFloor;
use crate::packet::Packet;

/// Added to two round trips (Linux: `TCP_TIMEOUT_MIN`).
const SLACK: Duration = Duration::from_millis(2);
/// The time until a probe before the first round trip is measured.
const INITIAL: Duration = Duration::from_secs(1);

impl Connection {
    /// Starts the shared timer: it expires after `length`, for `waiting`.
    pub(super) fn start_timer_for(&mut self, waiting: Waiting, length: Duration, now: Instant) {
        self.tlp.waiting = waiting;
        self.timers.retransmit = Some(self.rto.expiry(now, length));
    }

    /// The time left until the retransmission timeout of the oldest segment.
    fn timeout_left(&self, now: Instant) -> Duration {
        let rto = self.rto.rto();
        let since = self
            .tlp
            .flight
            .first()
            .map(|sent| now.saturating_since(sent.at));
        rto.saturating_sub(since.unwrap_or_default())
    }

    /// RFC 6298, 5.2 and 5.3; after another timer, what is left of the timeout (RFC 8985, 7.4).
    pub(super) fn rearm_timeout(&mut self, now: Instant) {
        if self.tlp.flight.is_empty() || self.persisting {
            self.timers.retransmit = None;
            self.tlp.waiting = Waiting::Timeout;
            return;
        }
        let length = match self.tlp.waiting {
            Waiting::Timeout => self.rto.rto(),
            Waiting::Reordering | Waiting::Probe => self.timeout_left(now),
        };
        self.start_timer_for(Waiting::Timeout, length, now);
    }

    /// RFC 8985, 7.2: a probe after two round trips; later if one segment is in flight, whose ACK
    /// may be delayed. `restarts`: the timeout would start anew.
    pub(super) fn schedule_probe(&mut self, restarts: bool, now: Instant) -> bool {
        let segments = self.tlp.flight.len();
        if segments == 0 || self.tlp.phase != Phase::Open || self.persisting {
            return false;
        }
        let length = self.rto.srtt().map_or(INITIAL, |srtt| {
            let (RtoFloor::Timeout(least) | RtoFloor::Variance(least)) = self.settings.rto.floor;
            srtt * 2 + if segments == 1 { least } else { SLACK }
        });
        let timeout = if restarts {
            self.rto.rto()
        } else {
            self.timeout_left(now)
        };
        let length = if timeout.is_zero() {
            length
        } else {
            length.min(timeout)
        };
        self.start_timer_for(Waiting::Probe, length, now);
        true
    }

    /// RFC 8985, 7.3: new data if there is any, else the last segment once more; one probe at a
    /// time.
    pub(super) fn on_probe_timeout(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.tlp.probe.is_some() || self.snd.wnd == 0 {
            self.rearm_timeout(now);
            return;
        }
        let is_repeat = if let Some((from, to)) = self.next_new() {
            self.emit(from, to, now, out);
            self.snd.nxt = to;
            self.pace(to - from, now);
            false
        } else if let Some(last) = self.tlp.flight.last().copied() {
            self.emit(last.from, last.to, now, out);
            self.pace(last.to - last.from, now);
            true
        } else {
            return;
        };
        self.tlp.probe = Some(Probe {
            end: self.snd.max,
            is_repeat,
        });
        self.start_retransmission_timer(now);
    }

    /// RFC 8985, 7.4.2: whether the probe replaced a lost segment that nothing else shows.
    pub(super) fn process_probe_ack(&mut self, ack: &Ack) {
        let Some(probe) = self.tlp.probe.filter(|probe| self.snd.una >= probe.end) else {
            return;
        };
        if !probe.is_repeat || ack.duplicate_probe {
            self.tlp.probe = None;
        } else if self.snd.una > probe.end {
            self.begin_reduction(false);
            if self.bbr.is_none() {
                self.congestion.cwnd = self.congestion.ssthresh;
            }
            self.set_open_or_disorder();
        } else if ack.is_bare && !ack.reports {
            self.tlp.probe = None;
        }
    }

    /// The shared timer has expired. Handles a probe and the reordering window. False: it is a
    /// timeout.
    pub(super) fn handle_other_timer(&mut self, now: Instant, out: &mut Vec<Packet>) -> bool {
        match self.tlp.waiting {
            Waiting::Timeout => return false,
            Waiting::Reordering => self.on_reordering_timeout(now, out),
            Waiting::Probe => self.on_probe_timeout(now, out),
        }
        true
    }

    /// A retransmission timeout (Linux: `tcp_enter_loss`). `probes`: it sends a zero-window probe.
    pub(super) fn on_rack_timeout(&mut self, probes: bool, now: Instant, out: &mut Vec<Packet>) {
        let cause = self.cause_of_loss(true, now);
        let first_recovery = self.tlp.phase < Phase::Recovery;
        self.mark_timed_out(now);
        let is_new = self.tlp.phase <= Phase::Disorder
            || self.snd.una >= self.congestion.recover
            || (self.tlp.phase == Phase::Loss && self.tlp.timeouts == 0);
        match cause {
            Cause::Congestion => {
                self.forget_kept_windows();
                if is_new {
                    self.remember_windows();
                }
                let in_flight = self.tlp.flight.in_flight();
                let (flight, window) = (self.flight(), self.snd.wnd);
                if is_new {
                    self.save_window_of_bbr();
                    self.congestion.on_loss(flight, window);
                }
                self.congestion
                    .begin_after_timeout(in_flight, self.snd.max, now);
            }
            Cause::Handoff => self.restore_windows(),
        }
        self.congestion.recovering = false;
        self.congestion.recover = self.snd.max;
        let tlp = &mut self.tlp;
        tlp.phase = Phase::Loss;
        tlp.probe = None;
        tlp.resend = Resend::Nothing;
        tlp.frto = self.settings.f_rto && (first_recovery || tlp.timeouts > 0);
        if !probes {
            tlp.timeouts += 1;
        }
        self.time_out_bbr();
        self.rto.back_off();
        if let Some(first) = self.tlp.flight.first().copied() {
            self.emit(first.from, first.to, now, out);
            self.pace(first.to - first.from, now);
        }
        self.start_retransmission_timer(now);
    }

    /// RFC 8985, 6.3: the oldest segment is lost, and all that were sent a round trip ago or more.
    fn mark_timed_out(&mut self, now: Instant) {
        let una = self.snd.una;
        let tlp = &mut self.tlp;
        // RFC 2018, 8: the receiver has dropped what it reported.
        let has_reneged = tlp.flight.first().is_some_and(|sent| sent.sacked);
        if has_reneged {
            tlp.flight.forget_reports();
            self.board.clear();
        }
        let rack = &tlp.rack;
        tlp.flight.mark_lost(|sent| {
            has_reneged || sent.from == una || rack.remaining(sent, Duration::ZERO, now).is_none()
        });
    }

    /// The window has closed over data in flight, and persist begins: all of it is lost.
    pub(super) fn lose_all(&mut self) {
        self.tlp.flight.mark_lost(|_| true);
        self.tlp.phase = Phase::Loss;
        self.tlp.resend = Resend::Lost;
        self.snd.nxt = self.snd.max;
        self.congestion.recover = self.snd.max;
    }
}
