// SPDX-License-Identifier: Apache-2.0
//! A sender with BBR: what its ACKs report, and the bursts in which it sends.

use holdfast_wire::{Duration, Instant};

use super::bbr::{Bbr, Report, Totals};
use super::connection::Connection;
use super::rack_state::{Ack, Resend};
use super::settings::WindowIncrease;
use crate::packet::Packet;

impl Connection {
    /// The handshake is done, with this round trip. BBR needs RACK's state of each segment.
    pub(super) fn begin_bbr(&mut self, rtt: Option<Duration>, now: Instant) {
        if self.settings.increase != WindowIncrease::Bbr {
            return;
        }
        if self.uses_rack() {
            let random = u64::from(self.me.iss.get());
            let cwnd = self.congestion.cwnd;
            self.bbr = Some(Bbr::new(self.smss, cwnd, rtt, random, now));
        } else {
            self.congestion.forgo_bbr();
        }
    }

    fn totals(&self) -> Totals {
        Totals {
            delivered: self.tlp.rates.delivered,
            lost: self.tlp.flight.lost_in_all(),
            delivered_at: self.tlp.rates.delivered_at,
        }
    }

    /// Processes an ACK. Before it, `prior_in_flight` bytes were in flight, and `prior_lost` lost in all.
    pub(super) fn control_by_bbr(
        &mut self,
        ack: &Ack,
        prior_in_flight: u64,
        prior_lost: u64,
        now: Instant,
    ) {
        let totals = self.totals();
        let in_flight = self.tlp.flight.in_flight();
        let report = Report {
            sample: ack.sample,
            rtt: ack.rtt,
            // Linux: the ACK delivers a single segment that is not full.
            is_delayed: ack.sample.is_some_and(|sample| {
                sample.delivered == ack.delivered && ack.delivered < self.smss
            }),
            acked: ack.delivered,
            lost: totals.lost - prior_lost,
            prior_in_flight,
            in_flight,
            phase: self.tlp.phase,
            srtt: self.rto.srtt(),
            wait: self.pacer.wait_left(now),
            totals,
        };
        let Some(bbr) = &mut self.bbr else { return };
        let decision = bbr.on_ack(&report, self.congestion.cwnd, now);
        self.congestion.cwnd = decision.cwnd;
        if let Some(ssthresh) = decision.ssthresh {
            self.congestion.ssthresh = ssthresh;
        }
        if decision.is_small {
            self.tlp.rates.limit_by_application(in_flight);
        }
    }

    /// A recovery or a timeout begins: BBR stores the window.
    pub(super) fn save_window_of_bbr(&mut self) {
        if let Some(bbr) = &mut self.bbr {
            bbr.save_cwnd(self.congestion.cwnd);
        }
    }

    /// A retransmission timeout.
    pub(super) fn time_out_bbr(&mut self) {
        let totals = self.totals();
        if let Some(bbr) = &mut self.bbr {
            bbr.on_timeout(totals);
        }
    }

    /// A reduction is undone.
    pub(super) fn undo_bbr(&mut self) {
        let totals = self.totals();
        if let Some(bbr) = &mut self.bbr {
            bbr.on_undo(totals);
        }
    }

    /// A segment is about to be sent.
    pub(super) fn restart_bbr(&mut self, now: Instant) {
        let is_restart = self.tlp.flight.in_flight() == 0 && self.tlp.rates.is_app_limited();
        if let Some(bbr) = &mut self.bbr
            && is_restart
            && let Some(cwnd) = bbr.on_restart(self.congestion.cwnd, now)
        {
            self.congestion.cwnd = cwnd;
        }
    }

    /// Segments that may be sent at once. Zero: the pacer waits.
    pub(super) fn burst(&mut self, now: Instant) -> u64 {
        let Some(bbr) = &self.bbr else {
            return u64::MAX;
        };
        let waits_until = self.pacer.waits_until(now);
        if waits_until.is_some() {
            self.timers.pace = waits_until;
            return 0;
        }
        bbr.burst_segments()
    }

    /// A burst of `bytes` is sent.
    pub(super) fn pace(&mut self, bytes: u64, now: Instant) {
        if let Some(bbr) = &self.bbr
            && bytes > 0
        {
            let segments = self.counters.data_segments;
            self.pacer.on_sent(bytes, bbr.pacing_rate(), segments, now);
        }
    }

    /// The pacer's timer has expired: lost segments are sent first.
    pub(super) fn on_pace_timeout(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.tlp.flight.next_lost(self.snd.una).is_some() {
            self.tlp.resend = Resend::Lost;
        }
        self.output(now, out);
    }

    /// Notes whether all data was sent and the window has room for more.
    pub(super) fn note_if_app_limited(&mut self) {
        let in_flight = self.tlp.flight.in_flight();
        let is_limited = self.bbr.is_some()
            && self.data_end().saturating_sub(self.snd.nxt) < self.smss
            && in_flight < self.congestion.cwnd
            && self.tlp.flight.next_lost(self.snd.una).is_none();
        if is_limited {
            self.tlp.rates.limit_by_application(in_flight);
        }
    }
}
