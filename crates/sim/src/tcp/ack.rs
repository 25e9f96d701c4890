// SPDX-License-Identifier: Apache-2.0
//! Processing of an ACK (RFC 9293, 3.10.7.4, "fifth, check the ACK field").

use holdfast_wire::{Duration, Instant, Segment};

use super::connection::Connection;
use super::hystart::Sample;
use super::settings::WindowUpdates;
use crate::packet::Packet;

impl Connection {
    /// Takes in acknowledgement, window and SACK blocks. False: the segment is to be dropped.
    pub(super) fn handle_ack(
        &mut self,
        segment: &Segment,
        seq: i64,
        now: Instant,
        out: &mut Vec<Packet>,
    ) -> bool {
        let ack = self.own_seq(segment.ack);
        if ack > self.snd.max as i64 {
            // "If the ACK acks something not yet sent (SEG.ACK > SND.NXT), then send an
            // ACK, drop the segment, and return."
            self.send_ack(now, out);
            return false;
        }
        if ack < self.snd.una as i64 {
            return true;
        }
        let ack = ack as u64;
        let window = u64::from(segment.window) << self.snd.scale;
        let window_stays = window == self.snd.wnd;
        self.update_window(seq, ack, window);
        self.probes_unanswered = 0;
        if self.uses_rack() {
            let is_bare = segment.is_empty() && window_stays;
            self.handle_rack_ack(ack, segment, is_bare, now);
            return true;
        }
        let reported = self.take_sack(segment);
        if ack > self.snd.una {
            self.handle_new_ack(ack, segment, now, out);
            // RFC 6675, 2: new SACK information counts whatever else the ACK has.
            if reported && !self.congestion.recovering {
                self.on_dup_ack(now, out);
            }
        } else if self.is_duplicate(segment, window_stays, reported) {
            self.counters.dup_acks_received += 1;
            self.on_dup_ack(now, out);
        }
        true
    }

    /// RFC 5681, 2: data is outstanding; the segment has no data, SYN or FIN, and leaves the
    /// window as it is. The caller has checked its number, the greatest ACK so far. With SACK,
    /// RFC 6675, 2 instead.
    fn is_duplicate(&self, segment: &Segment, window_stays: bool, reported: bool) -> bool {
        let awaits_ack = self.snd.una < self.snd.max && self.timers.retransmit.is_some();
        if self.uses_sack() {
            return awaits_ack && reported;
        }
        awaits_ack && segment.is_empty() && window_stays
    }

    fn update_window(&mut self, seq: i64, ack: u64, window: u64) {
        let snd = &mut self.snd;
        let newer = snd.wl1 < seq || (snd.wl1 == seq && snd.wl2 <= ack);
        let taken = match self.settings.window_updates {
            WindowUpdates::Rfc9293 => newer,
            // tcp_may_update_window of Linux before 6.6.
            WindowUpdates::NewAckToShrink => {
                ack > snd.una || snd.wl1 < seq || (snd.wl1 == seq && window > snd.wnd)
            }
        };
        if taken {
            (snd.wl1, snd.wl2) = (seq, ack);
            self.set_window(window);
        }
    }

    /// Sets SND.WND.
    pub(super) fn set_window(&mut self, window: u64) {
        self.snd.wnd = window;
        self.snd.wnd_max = self.snd.wnd_max.max(window);
    }

    /// RFC 2018, 5: whether the blocks report something new.
    fn take_sack(&mut self, segment: &Segment) -> bool {
        if segment.options.sack.is_empty() || !self.uses_sack() {
            return false;
        }
        let mut new = false;
        for (left, right) in segment.options.sack.iter() {
            let (left, right) = (self.own_seq(left), self.own_seq(right));
            // A block below `snd.una` reports a duplicate (RFC 2883), or is wrong.
            let plausible =
                left >= self.snd.una as i64 && left < right && right <= self.snd.max as i64;
            if plausible {
                new |= self.board.add(left as u64, right as u64);
            }
        }
        new
    }

    fn handle_new_ack(&mut self, ack: u64, segment: &Segment, now: Instant, out: &mut Vec<Packet>) {
        let (acked, flight) = (ack - self.snd.una, self.flight());
        self.sample_round_trip(ack, segment, now);
        self.retries = 0;
        self.congestion.timed_out = false;
        self.snd.una = ack;
        self.snd.nxt = self.snd.nxt.max(ack);
        self.note_ack_for_handoffs(now);
        self.board.advance(ack);
        if ack >= self.congestion.recover {
            self.congestion.after_timeout = false;
        }
        self.congestion.dup_acks = 0;
        if self.congestion.recovering {
            self.on_ack_in_recovery(acked, now, out);
        } else {
            self.restart_or_stop_timer(now);
            self.congestion.limited_bytes = 0;
            self.congestion.on_new_bytes(acked, flight, now);
        }
    }

    /// RFC 6298, 5.2 and 5.3.
    pub(super) fn restart_or_stop_timer(&mut self, now: Instant) {
        if self.snd.una == self.snd.max || self.persisting {
            self.timers.retransmit = None;
        } else {
            self.start_retransmission_timer(now);
        }
    }

    fn sample_round_trip(&mut self, ack: u64, segment: &Segment, now: Instant) {
        if let Some(timestamps) = segment.options.timestamps.filter(|_| self.has_timestamps) {
            // RFC 7323, 4.1: only an ACK of new data gives a sample. This is one.
            let elapsed = self.clock(now).wrapping_sub(timestamps.tsecr);
            if timestamps.tsecr != 0 && elapsed < 1 << 31 {
                let unit = self.settings.timestamp_clock.max(Duration::from_nanos(1));
                let rtt = unit.saturating_mul(elapsed.max(1));
                // RFC 7323, appendix G: ceil (FlightSize / (SMSS * 2)).
                let expected = self.flight().div_ceil(2 * self.smss);
                self.rto.on_timestamp_sample(rtt, expected as u32);
                self.note_round_trip(rtt, ack, now);
                self.counters.rtt_samples += 1;
            }
            return;
        }
        if let Some(timed) = self.timed
            && ack >= timed.end
        {
            self.timed = None;
            self.rto.on_timed(timed.sent, now);
            self.note_round_trip(now.saturating_since(timed.sent), ack, now);
            self.counters.rtt_samples += 1;
        }
    }

    /// The round trip of a segment up to `ack` is measured.
    fn note_round_trip(&mut self, rtt: Duration, ack: u64, now: Instant) {
        self.note_round_trip_for_handoffs(rtt);
        let sample = Sample {
            rtt,
            srtt: self.rto.srtt().unwrap_or(rtt),
            una: ack,
            nxt: self.snd.nxt,
        };
        self.congestion.on_round_trip(sample, now);
    }
}
