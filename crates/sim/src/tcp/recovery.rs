// SPDX-License-Identifier: Apache-2.0
//! Losses found by duplicate ACKs: fast retransmit and fast recovery (RFC 5681, 3.2),
//! NewReno (RFC 6582), SACK (RFC 6675).

use holdfast_core::lccwe::Cause;
use holdfast_wire::Instant;

use super::connection::Connection;
use super::scoreboard::Loss;
use super::settings::{LossRecovery, OnFullAck};
use crate::packet::Packet;

/// The result of RFC 6675's NextSeg ().
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextSeg {
    /// Bytes sent before, by rule 1 or 3.
    Retransmission(u64, u64),
    /// Bytes never sent, by rule 2.
    NewData(u64, u64),
    /// The last bytes outstanding, by rule 4.
    Rescue(u64, u64),
}

impl Connection {
    /// Without SACK at both ends, SACK recovery is NewReno.
    fn recovery(&self) -> LossRecovery {
        match self.settings.recovery {
            LossRecovery::Sack | LossRecovery::RackTlp if !self.has_sack => LossRecovery::NewReno,
            recovery => recovery,
        }
    }

    fn loss(&self) -> Loss {
        Loss {
            dup_thresh: self.settings.dup_ack_threshold.max(1),
            smss: self.smss,
        }
    }

    /// A duplicate ACK.
    pub(super) fn on_dup_ack(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let recovery = self.recovery();
        self.congestion.dup_acks += 1;
        if self.congestion.recovering {
            if recovery != LossRecovery::Sack {
                // RFC 5681, 3.2, step 4: a segment has left the network.
                self.congestion.cwnd += self.smss;
                self.congestion.left_segments += 1;
            }
            return;
        }
        let dup_acks = self.congestion.dup_acks;
        let threshold = self.settings.dup_ack_threshold.max(1);
        let lost = match recovery {
            // RFC 6675, 5, steps 1 and 2.
            LossRecovery::Sack => {
                dup_acks >= threshold || self.board.is_lost(self.snd.una, self.loss())
            }
            _ => dup_acks == threshold,
        };
        if lost && self.may_recover(recovery) {
            self.enter_recovery(recovery, now, out);
        }
    }

    fn may_recover(&self, recovery: LossRecovery) -> bool {
        let (una, recover) = (self.snd.una, self.congestion.recover);
        match recovery {
            LossRecovery::Tahoe | LossRecovery::Reno => {
                !self.settings.recovers_once || una > recover
            }
            // RFC 6582, 3.2, step 2: "covers more than recover".
            LossRecovery::NewReno => una > recover,
            // RFC 6675, 5.1: not before HighACK reaches RecoveryPoint.
            LossRecovery::Sack => una >= recover,
            // RACK-TLP handles ACKs in `rack_ack`.
            LossRecovery::RackTlp => false,
        }
    }

    fn enter_recovery(&mut self, recovery: LossRecovery, now: Instant, out: &mut Vec<Packet>) {
        self.counters.fast_retransmits += 1;
        self.timed = None;
        let halved = match self.cause_of_loss(false, now) {
            Cause::Congestion => {
                self.congestion.on_loss(self.flight(), self.snd.wnd);
                self.congestion.ssthresh
            }
            Cause::Handoff => {
                self.keep_windows();
                self.congestion.partial_acks = 0;
                self.congestion.cwnd
            }
        };
        let (una, max, smss) = (self.snd.una, self.snd.max, self.smss);
        let to = self.first_unacknowledged();
        let congestion = &mut self.congestion;
        match recovery {
            LossRecovery::Tahoe => {
                congestion.cwnd = smss;
                self.snd.nxt = to;
            }
            LossRecovery::Reno | LossRecovery::NewReno => {
                congestion.recovering = true;
                congestion.recover = max;
                congestion.left_segments = u64::from(congestion.dup_acks);
                // RFC 5681, 3.2, step 3: ssthresh plus the segments that have left.
                congestion.cwnd = halved + u64::from(congestion.dup_acks) * smss;
                self.snd.nxt = self.snd.nxt.max(to);
            }
            LossRecovery::Sack => {
                congestion.recovering = true;
                // RFC 6675, 5, (4.1) to (4.3).
                congestion.recover = max;
                congestion.cwnd = halved;
                congestion.high_rxt = to;
                congestion.rescued_up_to = None;
                self.snd.nxt = max;
            }
            LossRecovery::RackTlp => {}
        }
        self.timers.retransmit = None;
        self.emit(una, to, now, out);
    }

    /// Retransmits the segment at `snd.una`, as after enough duplicate ACKs.
    pub(super) fn fast_retransmit(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.uses_rack() {
            self.lose_first(now, out);
        } else if !self.congestion.recovering {
            self.congestion.dup_acks = self.settings.dup_ack_threshold.max(1);
            self.enter_recovery(self.recovery(), now, out);
        }
    }

    /// The end of the first segment that is not acknowledged.
    pub(super) fn first_unacknowledged(&self) -> u64 {
        let una = self.snd.una;
        let mut to = (una + self.smss).min(self.snd.max);
        if to >= self.data_end() && una < self.data_end() {
            // With the FIN, if it was sent.
            to = self.snd.max.min(self.send_end());
        }
        to.min(self.board.next_range(una).unwrap_or(u64::MAX))
    }

    /// New bytes are acknowledged in fast recovery.
    pub(super) fn on_ack_in_recovery(&mut self, acked: u64, now: Instant, out: &mut Vec<Packet>) {
        let all = self.snd.una >= self.congestion.recover;
        match self.recovery() {
            LossRecovery::Tahoe | LossRecovery::Reno => {
                // RFC 5681, 3.2, step 6.
                self.congestion.cwnd = self.congestion.ssthresh;
                self.congestion.recovering = false;
                self.restore_windows();
                self.restart_or_stop_timer(now);
            }
            LossRecovery::NewReno if all => {
                // RFC 6582, 3.2, step 3, full acknowledgments, (1) and (2).
                let most = match self.settings.on_full_ack {
                    OnFullAck::FlightSize => self.flight().max(self.smss) + self.smss,
                    OnFullAck::Ssthresh => u64::MAX,
                };
                self.congestion.cwnd = self.congestion.ssthresh.min(most);
                self.congestion.recovering = false;
                self.restore_windows();
                self.restart_or_stop_timer(now);
            }
            LossRecovery::NewReno => self.on_partial_ack(acked, now, out),
            LossRecovery::Sack | LossRecovery::RackTlp => {
                // RFC 6675, 5, (A) and (B).
                self.congestion.recovering = !all;
                if all {
                    self.restore_windows();
                }
                self.restart_or_stop_timer(now);
            }
        }
    }

    /// RFC 6582, 3.2, step 3, partial acknowledgments.
    fn on_partial_ack(&mut self, acked: u64, now: Instant, out: &mut Vec<Packet>) {
        let smss = self.smss;
        let congestion = &mut self.congestion;
        congestion.partial_acks += 1;
        // The first segment filled the hole. Those behind it had arrived before.
        let arrived_before = (acked / smss).saturating_sub(1);
        congestion.left_segments = congestion.left_segments.saturating_sub(arrived_before);
        congestion.cwnd = congestion.cwnd.saturating_sub(acked);
        if acked >= smss {
            congestion.cwnd += smss;
        }
        congestion.cwnd = congestion.cwnd.max(smss);
        // "for the first partial ACK ..., also reset the retransmit timer".
        if congestion.partial_acks == 1 || !self.settings.impatient {
            self.restart_or_stop_timer(now);
        }
        let to = self.first_unacknowledged();
        self.emit(self.snd.una, to, now, out);
        self.snd.nxt = self.snd.nxt.max(to);
    }

    /// RFC 6675, 5, (C): sends as long as cwnd - pipe >= 1 SMSS.
    pub(super) fn send_by_pipe(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let loss = self.loss();
        let (una, high_rxt) = (self.snd.una, self.congestion.high_rxt);
        let mut pipe = self.board.pipe(una, self.snd.max, high_rxt, loss);
        while self.congestion.cwnd >= pipe + self.smss {
            let Some(next) = self.next_seg(loss) else {
                return;
            };
            let (from, to) = match next {
                NextSeg::Retransmission(from, to) => {
                    self.congestion.high_rxt = to;
                    (from, to)
                }
                NextSeg::NewData(from, to) => {
                    self.snd.nxt = to;
                    (from, to)
                }
                NextSeg::Rescue(from, to) => {
                    self.congestion.rescued_up_to = Some(self.congestion.recover);
                    (from, to)
                }
            };
            self.emit(from, to, now, out);
            pipe += to - from;
        }
    }

    /// NextSeg (): RFC 6675, 4.
    fn next_seg(&self, loss: Loss) -> Option<NextSeg> {
        let hole = self.next_hole();
        if let Some((from, to)) = hole
            && self.board.is_lost(from, loss)
        {
            return Some(NextSeg::Retransmission(from, to));
        }
        if let Some((from, to)) = self.next_new() {
            return Some(NextSeg::NewData(from, to));
        }
        if let Some((from, to)) = hole {
            return Some(NextSeg::Retransmission(from, to));
        }
        self.rescue().map(|(from, to)| NextSeg::Rescue(from, to))
    }

    /// Rule 1, (1.a) and (1.b): the first byte that was neither reported nor retransmitted,
    /// below the highest one reported.
    fn next_hole(&self) -> Option<(u64, u64)> {
        let from = self.congestion.high_rxt.max(self.snd.una);
        let from = self.board.first_hole(from);
        let end = self.board.next_range(from)?;
        Some((from, end.min(from + self.smss)))
    }

    /// Rule 2: bytes that were never sent, at most one segment.
    pub(super) fn next_new(&self) -> Option<(u64, u64)> {
        let (from, data_end) = (self.snd.max, self.data_end());
        let to = (from + self.smss).min(data_end).min(self.window_end());
        let is_rest = to == data_end && !self.waits_for_more();
        let fits = to > from && (to - from == self.smss || is_rest);
        fits.then(|| (from, if to == data_end { self.send_end() } else { to }))
    }

    /// Rule 4, once in a recovery: the last outstanding bytes that were not reported.
    fn rescue(&self) -> Option<(u64, u64)> {
        let una = self.snd.una;
        if self
            .congestion
            .rescued_up_to
            .is_some_and(|up_to| una <= up_to)
        {
            return None;
        }
        let to = self.board.end_of_last_hole(self.snd.max);
        let from = to.saturating_sub(self.smss).max(una);
        let from = from.max(self.board.end_below(to));
        (from < to).then_some((from, to))
    }
}
