// SPDX-License-Identifier: Apache-2.0
//! An ACK at a sender with RACK-TLP: what it delivers, the round trip that it gives, and the
//! window (RFC 8985, 6.2; RFC 2018; RFC 2883).

use holdfast_wire::{Duration, Instant, Segment};

use super::connection::Connection;
use super::hystart::Sample;
use super::rack_state::{Ack, Phase, Resend, Times};

impl Connection {
    /// An acceptable ACK. `is_bare`: it has no data, and leaves the window as it is.
    pub(super) fn handle_rack_ack(
        &mut self,
        number: u64,
        segment: &Segment,
        is_bare: bool,
        now: Instant,
    ) {
        let prior_una = self.snd.una;
        let prior_in_flight = self.tlp.flight.in_flight();
        let prior_lost = self.tlp.flight.lost_in_all();
        let was_empty = self.tlp.flight.is_empty();
        let prior_flight = self.flight();
        let echo = segment.options.timestamps.filter(|_| self.has_timestamps);
        let mut ack = Ack {
            advances: number > prior_una,
            is_bare: is_bare && number == prior_una,
            echo: echo.map(|stamps| stamps.tsecr).filter(|echo| *echo != 0),
            ..Ack::default()
        };
        let mut times = Times {
            highest: self.tlp.flight.highest_sacked(),
            ..Times::default()
        };
        self.take_blocks(segment, number, &mut ack, &mut times, now);
        self.take_cumulative(number, &mut ack, &mut times, now);
        if times.is_reordered {
            self.tlp.rack.on_reordering();
        }
        self.take_round_trip(&mut ack, &times, now);
        let min_rtt = self.tlp.rack.min_rtt();
        let rates = &mut self.tlp.rates;
        ack.sample = rates.on_ack(ack.delivered, times.newest_new, min_rtt, now);
        if let Some((_, prior)) = times.newest {
            self.tlp.rack.update_steps(prior, rates.delivered);
        }
        self.process_probe_ack(&ack);
        self.tlp.resend = Resend::Nothing;
        let is_dubious = ack.is_bare || ack.reports || ack.duplicate;
        if is_dubious || self.tlp.phase != Phase::Open {
            self.counters.dup_acks_received += u64::from(!ack.advances && ack.reports);
            self.process_losses(&mut ack, now);
        }
        if ack.restarts_timer && !self.schedule_probe(true, now) {
            self.rearm_timeout(now);
        }
        if self.bbr.is_some() {
            if !was_empty {
                self.control_by_bbr(&ack, prior_in_flight, prior_lost, now);
            }
        } else if self.tlp.phase == Phase::Recovery {
            self.reduce_window(ack.delivered, ack.advances && ack.newly_lost == 0);
        } else if ack.advances {
            let flight = if self.congestion.in_slow_start() {
                prior_flight
            } else {
                prior_in_flight
            };
            self.congestion.on_new_bytes(ack.delivered, flight, now);
        }
    }

    /// Takes the SACK blocks. The first may report a duplicate (RFC 2883, 4).
    fn take_blocks(
        &mut self,
        segment: &Segment,
        number: u64,
        ack: &mut Ack,
        times: &mut Times,
        now: Instant,
    ) {
        let blocks: Vec<_> = segment.options.sack.iter().collect();
        let blocks = blocks.into_iter().map(|(left, right)| {
            let (left, right) = (self.own_seq(left), self.own_seq(right));
            (left.max(0) as u64, right.max(0) as u64)
        });
        let mut blocks: Vec<_> = blocks.collect();
        let is_duplicate = match blocks[..] {
            [(left, right), (outer_left, outer_right), ..] => {
                left < number || (outer_left <= left && right <= outer_right)
            }
            [(left, _)] => left < number,
            [] => false,
        };
        if is_duplicate {
            let (left, right) = blocks.remove(0);
            self.take_duplicate(left, right, ack);
        }
        for (left, right) in blocks {
            let is_plausible = left >= number && left < right && right <= self.snd.max;
            if is_plausible && self.board.add(left, right) {
                self.take_block(left, right, ack, times, now);
            }
        }
    }

    fn take_duplicate(&mut self, left: u64, right: u64, ack: &mut Ack) {
        ack.duplicate = true;
        let probe = self.tlp.probe;
        ack.duplicate_probe = probe.is_some_and(|probe| probe.is_repeat && probe.end == right);
        if !ack.duplicate_probe {
            self.tlp.rack.on_dsack();
        }
        let segments = right.saturating_sub(left).div_ceil(self.smss).max(1) as u32;
        self.tlp.undo.on_dsack(right, segments);
        self.tlp.flight.end_repeats(left, right);
    }

    fn take_block(
        &mut self,
        left: u64,
        right: u64,
        ack: &mut Ack,
        times: &mut Times,
        now: Instant,
    ) {
        let recover = self.congestion.recover;
        let rack = &mut self.tlp.rack;
        self.tlp.flight.take_sacked(left, right, |sent| {
            rack.on_delivered(sent, now);
            times.note_delivered(sent);
            ack.reports = true;
            ack.delivered += sent.to - sent.from;
            if !sent.repeated {
                ack.delivers_original |= sent.to <= recover;
                Times::note(&mut times.sacked, sent.at);
            }
        });
    }

    /// Takes SEG.ACK.
    fn take_cumulative(&mut self, number: u64, ack: &mut Ack, times: &mut Times, now: Instant) {
        if ack.advances {
            let clock = self.settings.timestamp_clock.as_nanos().max(1);
            let stamp = |at: Instant| (u128::from(at.as_nanos()) / clock + 1) as u32;
            let is_older = |echo: Option<u32>, at: Instant| {
                echo.is_some_and(|echo| (echo.wrapping_sub(stamp(at)) as i32) < 0)
            };
            let recover = self.congestion.recover;
            let rack = &mut self.tlp.rack;
            self.tlp.flight.take_acked(number, |sent| {
                times.note_delivered(sent);
                if sent.repeated {
                    times.acks_repeat = true;
                } else if !sent.sacked {
                    ack.delivers_original |= sent.to <= recover;
                    Times::note(&mut times.acked, sent.at);
                }
                if !sent.sacked {
                    ack.delivered += sent.to - sent.from;
                    // An older echo shows that the original has arrived.
                    if !(sent.repeated && is_older(ack.echo, sent.at)) {
                        rack.on_delivered(sent, now);
                    }
                }
            });
            self.retries = 0;
            self.tlp.timeouts = 0;
            self.snd.una = number;
            self.snd.nxt = self.snd.max;
            self.board.advance(number);
            self.note_ack_for_handoffs(now);
            ack.restarts_timer = true;
        } else if let (Some([oldest, _]), Some(first)) = (times.sacked, self.tlp.flight.first()) {
            // The reported data must have been sent before the oldest segment was last sent.
            ack.restarts_timer = oldest < first.at;
        }
    }

    /// RFC 6298 with the sending times of segments; with the echo if all were retransmitted.
    fn take_round_trip(&mut self, ack: &mut Ack, times: &Times, now: Instant) {
        let since = |at: Instant| now.saturating_since(at);
        let acked = times.acked.filter(|_| !times.acks_repeat);
        let newest = times.sacked.or(acked).map(|[_, newest]| since(newest));
        let oldest = acked.or(times.sacked).map(|[oldest, _]| since(oldest));
        let by_echo = ack.echo.filter(|_| ack.advances).and_then(|echo| {
            let elapsed = self.clock(now).wrapping_sub(echo);
            let unit = self.settings.timestamp_clock.max(Duration::from_nanos(1));
            (elapsed < 1 << 31).then(|| unit.saturating_mul(elapsed.max(1)))
        });
        ack.rtt = newest;
        let Some(rtt) = oldest.or(by_echo) else {
            return;
        };
        let newest = newest.unwrap_or(rtt);
        self.counters.rtt_samples += 1;
        self.tlp.rack.on_round_trip(newest);
        self.rto.on_rtt(rtt);
        self.note_round_trip_for_handoffs(rtt);
        let sample = Sample {
            rtt: newest,
            srtt: self.rto.srtt().unwrap_or(rtt),
            una: self.snd.una,
            nxt: self.snd.max,
        };
        self.congestion.on_round_trip(sample, now);
    }
}
