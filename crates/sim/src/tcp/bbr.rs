// SPDX-License-Identifier: Apache-2.0
//! BBR, version 1 (Cardwell, Cheng, Gunn, Yeganeh and Jacobson, 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00), with Linux's additions: the rate behind a token bucket, ACK
//! aggregation, windows of whole segments.
//!
//! BBR estimates the bandwidth of the path (the largest of ten round trips) and its round trip (the least of ten
//! seconds). It sends at the bandwidth times a gain, which cycles. It limits the data in flight to a multiple of
//! their product. Beside the token bucket, losses matter only to the window, and only during recovery.

use holdfast_wire::{Duration, Instant};

use super::rack_state::Phase;
use super::rate::{RateSample, rate};

mod aggregation;
mod long_term;
mod max_filter;
mod window;

use aggregation::Aggregation;
pub(super) use long_term::Totals;
use long_term::{Event, LongTerm};
use max_filter::MaxFilter;

/// Gains are in 1/256.
const UNIT: u64 = 256;
/// 2 / ln 2 (4.3.2.1), and its inverse (4.3.3).
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
/// The gain of the window in ProbeBW (4.2.3.2).
const CWND_GAIN: u64 = 2 * UNIT;
/// ProbeBW's cycle (4.3.4.2).
const CYCLE: [u64; 8] = [
    UNIT * 5 / 4,
    UNIT * 3 / 4,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
];
/// Length of the bandwidth's filter, round trips (4.1.1.3).
const BANDWIDTH_ROUNDS: u64 = CYCLE.len() as u64 + 2;
/// The least round trip is measured anew after this time (4.1.2).
const MIN_RTT_TIME: Duration = Duration::from_secs(10);
/// How long ProbeRTT keeps the window small (4.3.5).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// The least window, segments (4.2.3.1).
const SEGMENTS_MIN: u64 = 4;
/// The window until a round trip is measured, segments.
const SEGMENTS_UNMEASURED: u64 = 10;
/// The pipe is full after three round trips without a quarter of growth (4.3.2.2).
const FULL_GROWTH: [u64; 2] = [5, 4];
const FULL_ROUNDS: u32 = 3;
/// The share of the bandwidth at which BBR sends, percent, so that a queue drains.
const MARGIN_PERCENT: u64 = 99;
/// Below this rate, bytes a second, bursts may have one segment (4.2.2: 1.2 Mb/s).
const SINGLE_RATE: u64 = 1_200_000 / 8;
/// The longest burst: what the rate delivers in 2^-10 s, and at most one packet with offload.
const BURST_SHARE: u64 = 1024;
const BURST_BYTES_MAX: u64 = 65_535 - 320;
const BURST_SEGMENTS_MAX: u64 = 127;

/// The draft's states (4.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// What an ACK reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub sample: Option<RateSample>,
    /// The round trip of the newest segment that was sent once, and whether its ACK may have been delayed.
    pub rtt: Option<Duration>,
    pub is_delayed: bool,
    /// Bytes newly delivered, and newly lost.
    pub acked: u64,
    pub lost: u64,
    /// Bytes in flight before and after.
    pub prior_in_flight: u64,
    pub in_flight: u64,
    pub phase: Phase,
    pub srtt: Option<Duration>,
    /// Time until the next burst departs.
    pub wait: Duration,
    pub totals: Totals,
}

/// What BBR decides on an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// The window, bytes.
    pub cwnd: u64,
    /// `ssthresh`, if it changes, bytes.
    pub ssthresh: Option<u64>,
    /// The sender keeps its window small: what is sent now does not show the network's rate.
    pub is_small: bool,
}

/// The state of one connection.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    smss: u64,
    mode: Mode,
    bandwidth: MaxFilter,
    long_term: LongTerm,
    aggregation: Aggregation,
    /// BBR.RTprop, and when it was measured.
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    /// When ProbeRTT may end, once its window is reached.
    probe_ends_at: Option<Instant>,
    has_probed_round: bool,
    /// Round trips by packets (4.1.1.2).
    rounds: u64,
    round_ends_at: u64,
    is_round: bool,
    prior_phase: Phase,
    /// The sender sends as many segments as arrive (4.2.3.4).
    conserves: bool,
    restarts: bool,
    full_bandwidth: u64,
    full_rounds: u32,
    is_full: bool,
    cycle: usize,
    cycle_began: Instant,
    pacing_gain: u64,
    cwnd_gain: u64,
    /// The window before a recovery or ProbeRTT.
    prior_cwnd: u64,
    pacing_rate: u64,
    has_seen_rtt: bool,
    random: u64,
}

impl Bbr {
    /// A connection is open, with a first window and perhaps a round trip of its handshake. `random` decides in
    /// which phases the cycles begin.
    pub(super) fn new(
        smss: u64,
        cwnd: u64,
        rtt: Option<Duration>,
        random: u64,
        now: Instant,
    ) -> Self {
        let mut aggregation = Aggregation::default();
        aggregation.begin(now);
        let mut bbr = Self {
            smss,
            mode: Mode::Startup,
            bandwidth: MaxFilter::default(),
            long_term: LongTerm::default(),
            aggregation,
            min_rtt: rtt,
            min_rtt_at: now,
            probe_ends_at: None,
            has_probed_round: false,
            rounds: 0,
            round_ends_at: 0,
            is_round: false,
            prior_phase: Phase::Open,
            conserves: false,
            restarts: false,
            full_bandwidth: 0,
            full_rounds: 0,
            is_full: false,
            cycle: 0,
            cycle_began: Instant::ZERO,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            prior_cwnd: 0,
            pacing_rate: 0,
            has_seen_rtt: false,
            random,
        };
        bbr.begin_pacing(cwnd, rtt);
        bbr
    }

    /// 4.2.1: the first rate is a window each round trip, or each millisecond before one is measured.
    fn begin_pacing(&mut self, cwnd: u64, rtt: Option<Duration>) {
        self.has_seen_rtt = rtt.is_some();
        let rtt = rtt.unwrap_or(Duration::from_millis(1));
        self.pacing_rate = paced(rate(cwnd, rtt), HIGH_GAIN);
    }

    /// Bytes a second.
    pub(super) fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    /// Segments in a burst (4.2.2).
    pub(super) fn burst_segments(&self) -> u64 {
        let least = if self.pacing_rate < SINGLE_RATE { 1 } else { 2 };
        let bytes = (self.pacing_rate / BURST_SHARE).min(BURST_BYTES_MAX);
        (bytes / self.smss).clamp(least, BURST_SEGMENTS_MAX)
    }

    /// BBR.BtlBw, or the rate behind a token bucket.
    fn bandwidth(&self) -> u64 {
        self.long_term.rate().unwrap_or(self.bandwidth.get())
    }

    /// A recovery, a timeout or ProbeRTT begins, which may reduce the window (4.2.3.4).
    pub(super) fn save_cwnd(&mut self, cwnd: u64) {
        let is_good = self.prior_phase < Phase::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if is_good {
            cwnd
        } else {
            self.prior_cwnd.max(cwnd)
        };
    }

    /// The retransmission timer has expired: this also ends a round trip.
    pub(super) fn on_timeout(&mut self, totals: Totals) {
        self.prior_phase = Phase::Loss;
        self.full_bandwidth = 0;
        self.is_round = true;
        self.sample_long_term(true, false, totals);
    }

    /// The losses were spurious.
    pub(super) fn on_undo(&mut self, totals: Totals) {
        (self.full_bandwidth, self.full_rounds) = (0, 0);
        self.long_term.reset(totals);
    }

    /// The application resumes after a pause, and nothing is in flight (4.3.4.4). Returns the window, if it
    /// changes.
    pub(super) fn on_restart(&mut self, cwnd: u64, now: Instant) -> Option<u64> {
        self.restarts = true;
        self.aggregation.begin(now);
        match self.mode {
            Mode::ProbeBw => {
                self.set_pacing_rate(UNIT, cwnd, None);
                None
            }
            Mode::ProbeRtt => self.end_probe_rtt(cwnd, now),
            Mode::Startup | Mode::Drain => None,
        }
    }

    /// 4.1 and 4.2: the model of the path, then rate and window.
    pub(super) fn on_ack(&mut self, report: &Report, cwnd: u64, now: Instant) -> Decision {
        self.update_bandwidth(report);
        if let Some(RateSample {
            interval: Some(_), ..
        }) = report.sample
            && report.acked > 0
        {
            let (rate, is_round) = (self.bandwidth(), self.is_round);
            self.aggregation
                .on_ack(report.acked, rate, cwnd, self.smss, is_round, now);
        }
        if self.mode == Mode::ProbeBw && self.is_next_phase(report) {
            self.advance_cycle(report.totals);
        }
        self.check_full(report);
        let ssthresh = self.check_drain(report);
        let (cwnd, is_small) = self.update_min_rtt(report, cwnd, now);
        self.update_gains();
        self.set_pacing_rate(self.pacing_gain, cwnd, report.srtt);
        Decision {
            cwnd: self.next_cwnd(report, cwnd),
            ssthresh,
            is_small,
        }
    }

    /// 4.1.1.
    fn update_bandwidth(&mut self, report: &Report) {
        self.is_round = false;
        let Some(sample) = report.sample else { return };
        let Some(rate) = sample.rate() else { return };
        // 4.1.1.2: the delivered segment was sent after the round trip had begun.
        if sample.prior_delivered >= self.round_ends_at {
            self.round_ends_at = report.totals.delivered;
            self.rounds += 1;
            self.is_round = true;
            self.conserves = false;
        }
        self.sample_long_term(report.lost > 0, sample.is_app_limited, report.totals);
        // 4.1.1.4: a rate that the application limits counts only if it is higher.
        if !sample.is_app_limited || rate >= self.bandwidth.get() {
            self.bandwidth.update(rate, self.rounds, BANDWIDTH_ROUNDS);
        }
    }

    fn sample_long_term(&mut self, has_losses: bool, is_app_limited: bool, totals: Totals) {
        let event = Event {
            totals,
            is_round: self.is_round,
            has_losses,
            is_app_limited,
        };
        let was_used = self.long_term.rate().is_some();
        if self.long_term.on_event(event, self.mode == Mode::ProbeBw) {
            self.enter_probe_bw(totals);
        } else if !was_used && self.long_term.rate().is_some() {
            self.pacing_gain = UNIT;
        }
    }

    /// 4.3.2.2.
    fn check_full(&mut self, report: &Report) {
        let is_app_limited = report.sample.is_some_and(|sample| sample.is_app_limited);
        if self.is_full || !self.is_round || is_app_limited {
            return;
        }
        let [more, than] = FULL_GROWTH;
        if self.bandwidth.get() * than >= self.full_bandwidth * more {
            self.full_bandwidth = self.bandwidth.get();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.is_full = self.full_rounds >= FULL_ROUNDS;
    }

    /// 4.3.3: returns `ssthresh` when Drain begins.
    fn check_drain(&mut self, report: &Report) -> Option<u64> {
        let target = || self.inflight(self.bandwidth.get(), UNIT);
        let ssthresh = (self.mode == Mode::Startup && self.is_full).then(target);
        if ssthresh.is_some() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain
            && self.in_network(report.in_flight, report.wait)
                <= self.inflight(self.bandwidth.get(), UNIT)
        {
            self.enter_probe_bw(report.totals);
        }
        ssthresh
    }

    /// 4.3.4.3: the cycle begins in a random phase, but not in the one of the lowest gain.
    fn enter_probe_bw(&mut self, totals: Totals) {
        self.mode = Mode::ProbeBw;
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.cycle = CYCLE.len() - 1 - (self.random >> 33) as usize % (CYCLE.len() - 1);
        self.advance_cycle(totals);
    }

    fn advance_cycle(&mut self, totals: Totals) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_began = totals.delivered_at;
    }

    /// 4.3.4.3.
    fn is_next_phase(&self, report: &Report) -> bool {
        let elapsed = report
            .totals
            .delivered_at
            .saturating_since(self.cycle_began);
        let is_full_length = Some(elapsed) > self.min_rtt;
        if self.pacing_gain == UNIT {
            return is_full_length;
        }
        let in_network = self.in_network(report.prior_in_flight, report.wait);
        let bandwidth = self.bandwidth.get();
        if self.pacing_gain > UNIT {
            let is_reached =
                report.lost > 0 || in_network >= self.inflight(bandwidth, self.pacing_gain);
            return is_full_length && is_reached;
        }
        is_full_length || in_network <= self.inflight(bandwidth, UNIT)
    }

    /// 4.3.5: returns the window, and whether it is kept small.
    fn update_min_rtt(&mut self, report: &Report, cwnd: u64, now: Instant) -> (u64, bool) {
        let has_expired = now.saturating_since(self.min_rtt_at) > MIN_RTT_TIME;
        if let Some(rtt) = report.rtt
            && (self.min_rtt.is_none_or(|least| rtt <= least)
                || (has_expired && !report.is_delayed))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt), now);
        }
        if has_expired && !self.restarts && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(cwnd);
            self.probe_ends_at = None;
        }
        let is_small = self.mode == Mode::ProbeRtt;
        let mut cwnd = cwnd;
        if is_small {
            if self.probe_ends_at.is_some() {
                self.has_probed_round |= self.is_round;
                if self.has_probed_round {
                    cwnd = self.end_probe_rtt(cwnd, now).unwrap_or(cwnd);
                }
            } else if report.in_flight <= SEGMENTS_MIN * self.smss {
                self.probe_ends_at = Some(now + PROBE_RTT_TIME);
                self.has_probed_round = false;
                self.round_ends_at = report.totals.delivered;
            }
        }
        if report.sample.is_some_and(|sample| sample.delivered > 0) {
            self.restarts = false;
        }
        (cwnd, is_small)
    }

    /// Ends ProbeRTT, if it has lasted long enough, and returns the window.
    fn end_probe_rtt(&mut self, cwnd: u64, now: Instant) -> Option<u64> {
        if self.probe_ends_at.is_none_or(|at| now <= at) {
            return None;
        }
        self.min_rtt_at = now;
        if self.is_full {
            self.enter_probe_bw(Totals {
                delivered_at: now,
                ..Totals::default()
            });
        } else {
            self.mode = Mode::Startup;
        }
        Some(cwnd.max(self.prior_cwnd))
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.long_term.rate().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.cycle], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// 4.2.1: the rate does not decrease until the pipe is full.
    fn set_pacing_rate(&mut self, gain: u64, cwnd: u64, srtt: Option<Duration>) {
        if !self.has_seen_rtt && srtt.is_some() {
            self.begin_pacing(cwnd, srtt);
        }
        let rate = paced(self.bandwidth(), gain);
        if self.is_full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }
}

/// The rate for a bandwidth, bytes a second.
fn paced(bandwidth: u64, gain: u64) -> u64 {
    let rate = u128::from(bandwidth) * u128::from(gain * MARGIN_PERCENT) / u128::from(100 * UNIT);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
