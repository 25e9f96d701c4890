// SPDX-License-Identifier: Apache-2.0
//! Windows of congestion control: how they grow, and how a loss reduces them
//! (RFC 5681, 3.1; RFC 3465; RFC 9438; 4.3BSD-Reno).

use holdfast_wire::{Duration, Instant};

use super::cubic::Cubic;
use super::hystart::Sample;
use super::settings::{HalfOf, TcpSettings, WindowIncrease};

/// The largest window: 65535 bytes with the largest scale.
const WINDOW_MAX: u64 = 65_535 << 14;

/// The state of congestion control.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    pub cwnd: u64,
    pub ssthresh: u64,
    smss: u64,
    increase: WindowIncrease,
    half_of: HalfOf,
    limited_only: bool,
    initial_segments: u64,
    /// RFC 3465, 2.1: bytes acknowledged since the window last grew or was reduced.
    bytes_acked: u64,
    /// The state of [`WindowIncrease::Cubic`].
    pub cubic: Cubic,
    pub dup_acks: u32,
    /// In fast recovery.
    pub recovering: bool,
    /// RFC 6582's `recover` and RFC 6675's RecoveryPoint: the number after the highest one sent.
    pub recover: u64,
    pub partial_acks: u32,
    /// Segments beyond `snd.una` that have arrived, by count of duplicate ACKs (without SACK).
    pub left_segments: u64,
    /// RFC 6675's HighRxt and RescueRxt, as numbers after the highest one.
    pub high_rxt: u64,
    pub rescued_up_to: Option<u64>,
    /// Bytes sent by limited transmit (RFC 3042) and not yet counted otherwise.
    pub limited_bytes: u64,
    /// A timeout has retransmitted the segment at `snd.una` already.
    pub timed_out: bool,
    /// In slow start after a timeout: `recover` is not yet acknowledged.
    pub after_timeout: bool,
}

impl Congestion {
    pub(super) fn new(settings: &TcpSettings) -> Self {
        Self {
            cwnd: u64::from(settings.mss),
            ssthresh: settings.initial_ssthresh_bytes.map_or(u64::MAX, u64::from),
            smss: u64::from(settings.mss),
            increase: settings.increase,
            half_of: settings.half_of,
            limited_only: settings.increase_when_limited_only,
            initial_segments: u64::from(settings.initial_window_segments.max(1)),
            bytes_acked: 0,
            cubic: Cubic::default(),
            dup_acks: 0,
            recovering: false,
            recover: 0,
            partial_acks: 0,
            left_segments: 0,
            high_rxt: 0,
            rescued_up_to: None,
            limited_bytes: 0,
            timed_out: false,
            after_timeout: false,
        }
    }

    /// The connection is open.
    pub(super) fn begin(&mut self, smss: u64, syn_lost: bool) {
        self.smss = smss;
        // RFC 5681, 3.1: one segment if the SYN or the SYN,ACK was lost.
        self.cwnd = if syn_lost {
            smss
        } else {
            self.initial_window()
        };
    }

    /// BBR needs RACK, which this connection does not have.
    pub(super) fn forgo_bbr(&mut self) {
        self.increase = WindowIncrease::AllAcked;
    }

    fn initial_window(&self) -> u64 {
        self.initial_segments * self.smss
    }

    /// After an idle time: RFC 5681, 4.1: RW = min(IW, cwnd).
    pub(super) fn restart(&mut self) {
        self.cwnd = self.cwnd.min(self.initial_window());
    }

    /// After an idle time longer than `rto`, as Linux: halves `cwnd` for each timeout.
    pub(super) fn decay(&mut self, idle: Duration, rto: Duration) {
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let least = self.initial_window().min(self.cwnd);
        let halvings = idle.as_nanos().div_ceil(rto.as_nanos().max(1)) - 1;
        self.cwnd = self
            .cwnd
            .checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX))
            .unwrap_or(0)
            .max(least);
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// A round trip is measured: HyStart may end slow start.
    pub(super) fn on_round_trip(&mut self, sample: Sample, now: Instant) {
        if self.increase != WindowIncrease::Cubic {
            return;
        }
        let (slow, cwnd, smss) = (self.in_slow_start(), self.cwnd, self.smss);
        if self.cubic.on_round_trip(sample, slow, cwnd, smss, now) {
            self.ssthresh = cwnd;
        }
    }

    /// `acked` new bytes are acknowledged, `flight` were outstanding before.
    pub(super) fn on_new_bytes(&mut self, acked: u64, flight: u64, now: Instant) {
        if self.limited_only && !self.is_limiting(flight) {
            return;
        }
        let smss = self.smss;
        match self.increase {
            WindowIncrease::PerAck if self.in_slow_start() => self.grow(acked.min(smss)),
            // RFC 5681, 3.1, equation 3, and at least a byte.
            WindowIncrease::PerAck => self.grow((smss * smss / self.cwnd.max(1)).max(1)),
            WindowIncrease::Bsd if self.cwnd <= self.ssthresh => self.grow(smss),
            WindowIncrease::Bsd => self.grow(smss * smss / self.cwnd.max(1) + smss / 8),
            // RFC 3465, 2.2; after a timeout L is 1 (2.3).
            WindowIncrease::ByBytes { limit } if self.in_slow_start() => {
                let limit = if self.after_timeout {
                    1
                } else {
                    u64::from(limit.max(1))
                };
                self.grow(acked.min(limit * smss));
            }
            WindowIncrease::ByBytes { .. } => self.avoid_by_bytes(acked),
            // BBR has its own window.
            WindowIncrease::Bbr => {}
            WindowIncrease::AllAcked => {
                let rest = self.grow_to_ssthresh(acked);
                self.avoid_by_bytes(rest);
            }
            WindowIncrease::Cubic => {
                let rest = self.grow_to_ssthresh(acked);
                if rest > 0 {
                    let grown = self.cubic.on_new_bytes(rest, self.cwnd, smss, now);
                    self.grow(grown * smss);
                }
            }
        }
    }

    /// Slow start without a limit. Returns what is left of `acked` for congestion avoidance.
    fn grow_to_ssthresh(&mut self, acked: u64) -> u64 {
        let room = self.ssthresh.saturating_sub(self.cwnd);
        self.grow(acked.min(room));
        acked.saturating_sub(room)
    }

    /// RFC 3465, 2.1.
    fn avoid_by_bytes(&mut self, acked: u64) {
        self.bytes_acked += acked;
        if self.bytes_acked >= self.cwnd {
            self.bytes_acked -= self.cwnd;
            self.grow(self.smss);
        }
    }

    fn grow(&mut self, bytes: u64) {
        self.cwnd = (self.cwnd + bytes).min(WINDOW_MAX);
    }

    /// Whether `cwnd`, and nothing else, limits the sender.
    fn is_limiting(&self, flight: u64) -> bool {
        if self.in_slow_start() {
            // The window may double as long as half of it is used.
            self.cwnd < 2 * flight
        } else {
            flight + self.smss > self.cwnd
        }
    }

    /// RFC 5681, 3.1, equation 4, with `flight` bytes outstanding and the other end's
    /// window.
    pub(super) fn halved(&self, flight: u64, window: u64) -> u64 {
        let half = match self.half_of {
            // RFC 5681, 3.2, step 2: not what limited transmit has added.
            HalfOf::FlightSize => flight.saturating_sub(self.limited_bytes) / 2,
            HalfOf::Window => self.cwnd.min(window) / 2 / self.smss * self.smss,
            HalfOf::CongestionWindow => self.cwnd / 2 / self.smss * self.smss,
        };
        half.max(2 * self.smss)
    }

    /// `ssthresh` after a loss.
    fn reduced(&mut self, flight: u64, window: u64) -> u64 {
        match self.increase {
            WindowIncrease::Cubic => self.cubic.on_reduction(self.cwnd / self.smss) * self.smss,
            WindowIncrease::Bbr => self.ssthresh,
            _ => self.halved(flight, window),
        }
    }

    /// FlightSize in fast recovery without SACK: `flight` bytes less those that arrived by count
    /// of duplicate ACKs, as Linux and ns-3 do. By RFC 5681's definition, FlightSize would include
    /// bytes that a long recovery has accumulated at the receiver.
    pub(super) fn in_network(&self, flight: u64) -> u64 {
        if self.recovering {
            flight.saturating_sub(self.left_segments * self.smss)
        } else {
            flight
        }
    }

    /// Duplicate ACKs report a loss: sets `ssthresh`. `flight` bytes are outstanding, and `window`
    /// is the other end's. Bytes counted toward the larger window are dropped: with them, the
    /// window would grow by more than a segment a round trip (RFC 5681, 3.1).
    pub(super) fn on_loss(&mut self, flight: u64, window: u64) {
        self.ssthresh = self.reduced(flight, window);
        self.bytes_acked = 0;
        self.cubic.forget_counted();
        self.limited_bytes = 0;
        self.partial_acks = 0;
    }

    /// The retransmission timer has expired. RFC 5681, 3.1: equation 4, once for each segment, and
    /// a loss window of one segment.
    pub(super) fn on_timeout(
        &mut self,
        flight: u64,
        window: u64,
        max: u64,
        probes_shrunk_window: bool,
        now: Instant,
    ) {
        let halves = match self.half_of {
            HalfOf::FlightSize => !self.timed_out || probes_shrunk_window,
            HalfOf::Window => true,
            HalfOf::CongestionWindow => {
                !self.recovering && (!self.timed_out || probes_shrunk_window)
            }
        };
        if halves {
            self.ssthresh = self.reduced(flight, window);
        }
        self.cwnd = self.smss;
        self.timed_out = true;
        self.cubic.on_timeout(max, now);
        self.on_timeout_without_congestion(max);
    }

    /// The retransmission timer of a sender with RACK has expired: the window has room for one
    /// segment more than is in flight. The caller has set `ssthresh`.
    pub(super) fn begin_after_timeout(&mut self, in_flight: u64, max: u64, now: Instant) {
        self.cwnd = in_flight + self.smss;
        self.cubic.on_timeout(max, now);
    }

    /// The retransmission timer has expired without congestion: `cwnd` and `ssthresh` stay.
    pub(super) fn on_timeout_without_congestion(&mut self, max: u64) {
        self.after_timeout = true;
        self.left_segments = 0;
        self.recovering = false;
        self.bytes_acked = 0;
        self.dup_acks = 0;
        self.limited_bytes = 0;
        // RFC 6582, 4; RFC 6675, 5.1.
        self.recover = max;
        self.rescued_up_to = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn congestion(increase: WindowIncrease, cwnd: u64, ssthresh: u64) -> Congestion {
        let mut congestion = Congestion::new(&TcpSettings {
            increase,
            increase_when_limited_only: false,
            mss: 1000,
            ..TcpSettings::default()
        });
        congestion.begin(1000, false);
        (congestion.cwnd, congestion.ssthresh) = (cwnd, ssthresh);
        congestion
    }

    /// RFC 5681, 3.1, equation 2: cwnd += min (N, SMSS).
    #[test]
    fn slow_start_adds_what_is_acknowledged_up_to_a_segment() {
        let mut state = congestion(WindowIncrease::PerAck, 4000, 100_000);
        state.on_new_bytes(300, 4000, Instant::ZERO);
        assert_eq!(state.cwnd, 4300);
        state.on_new_bytes(2000, 4000, Instant::ZERO);
        assert_eq!(state.cwnd, 5300);
    }

    /// RFC 5681, 3.1, equation 3: cwnd += SMSS*SMSS/cwnd.
    #[test]
    fn avoidance_adds_a_segment_a_window() {
        let mut state = congestion(WindowIncrease::PerAck, 10_000, 10_000);
        for _ in 0..10 {
            state.on_new_bytes(1000, 10_000, Instant::ZERO);
        }
        assert!((10_900..=11_000).contains(&state.cwnd), "{}", state.cwnd);
        let mut bsd = congestion(WindowIncrease::Bsd, 10_000, 9_000);
        bsd.on_new_bytes(1000, 10_000, Instant::ZERO);
        assert_eq!(bsd.cwnd, 10_000 + 100 + 125);
    }

    /// RFC 3465, 2.1 and 2.2.
    #[test]
    fn byte_counting_follows_the_bytes_whatever_the_acks() {
        let mut state = congestion(WindowIncrease::ByBytes { limit: 2 }, 4000, 8000);
        state.on_new_bytes(5000, 4000, Instant::ZERO);
        assert_eq!(state.cwnd, 6000);
        state.cwnd = 8000;
        for _ in 0..4 {
            assert_eq!(state.cwnd, 8000);
            state.on_new_bytes(2000, 8000, Instant::ZERO);
        }
        assert_eq!(state.cwnd, 9000);
        state.after_timeout = true;
        state.cwnd = 2000;
        state.on_new_bytes(2000, 2000, Instant::ZERO);
        assert_eq!(state.cwnd, 3000);
    }

    /// RFC 5681, 3.1: "during congestion avoidance, cwnd MUST NOT be increased by more
    /// than SMSS bytes per RTT", after a loss neither.
    #[test]
    fn bytes_counted_before_a_loss_do_not_count_after_it() {
        for increase in [
            WindowIncrease::ByBytes { limit: 2 },
            WindowIncrease::AllAcked,
        ] {
            let mut state = congestion(increase, 20_000, 10_000);
            for _ in 0..19 {
                state.on_new_bytes(1000, 20_000, Instant::ZERO);
            }
            state.on_loss(20_000, 65_535);
            state.cwnd = state.ssthresh;
            assert_eq!(state.cwnd, 10_000);
            for _ in 0..9 {
                state.on_new_bytes(1000, 10_000, Instant::ZERO);
                assert_eq!(state.cwnd, 10_000, "{increase:?}");
            }
            state.on_new_bytes(1000, 10_000, Instant::ZERO);
            assert_eq!(state.cwnd, 11_000);
        }
    }

    /// Linux, `tcp_slow_start`: up to `ssthresh` whatever one ACK covers, the rest in
    /// avoidance.
    #[test]
    fn all_that_is_acknowledged_counts_up_to_ssthresh_and_then_in_avoidance() {
        let mut state = congestion(WindowIncrease::AllAcked, 2000, 10_000);
        state.after_timeout = true;
        state.on_new_bytes(5000, 2000, Instant::ZERO);
        assert_eq!(state.cwnd, 7000);
        state.on_new_bytes(9000, 7000, Instant::ZERO);
        assert_eq!(state.cwnd, 10_000);
        state.on_new_bytes(4000, 10_000, Instant::ZERO);
        assert_eq!(state.cwnd, 11_000);
    }

    /// Linux, `tcp_reno_ssthresh` and `tcp_enter_loss`.
    #[test]
    fn half_of_the_window_is_whole_segments_and_taken_once_a_recovery() {
        let mut state = congestion(WindowIncrease::AllAcked, 11_500, 100_000);
        state.half_of = HalfOf::CongestionWindow;
        state.on_loss(3000, 4000);
        assert_eq!(state.ssthresh, 5000);
        (state.recovering, state.cwnd) = (true, 12_000);
        state.on_timeout(3000, 65_535, 50, false, Instant::ZERO);
        assert_eq!((state.ssthresh, state.cwnd), (5000, 1000));
        (state.timed_out, state.cwnd) = (false, 8000);
        state.on_timeout(3000, 65_535, 50, false, Instant::ZERO);
        assert_eq!(state.ssthresh, 4000);
    }

    /// RFC 5681, 3.1, equation 4: max (FlightSize / 2, 2*SMSS), and held constant when
    /// the same segment times out again.
    #[test]
    fn a_timeout_halves_the_flight_once_a_segment() {
        let mut state = congestion(WindowIncrease::PerAck, 20_000, 100_000);
        state.on_timeout(12_000, 65_535, 50, false, Instant::ZERO);
        assert_eq!(
            (state.ssthresh, state.cwnd, state.recover),
            (6000, 1000, 50)
        );
        state.on_timeout(1000, 65_535, 50, false, Instant::ZERO);
        assert_eq!(state.ssthresh, 6000);
        state.timed_out = false;
        state.on_timeout(1000, 65_535, 50, false, Instant::ZERO);
        assert_eq!(state.ssthresh, 2000);
    }

    #[test]
    fn bsd_halves_the_window_in_whole_segments_each_time() {
        let mut state = congestion(WindowIncrease::Bsd, 11_500, 100_000);
        state.half_of = HalfOf::Window;
        assert_eq!(state.halved(3000, 9_999), 4000);
        state.on_timeout(3000, 65_535, 0, false, Instant::ZERO);
        assert_eq!(state.ssthresh, 5000);
        state.on_timeout(3000, 65_535, 0, false, Instant::ZERO);
        assert_eq!(state.ssthresh, 2000);
    }

    #[test]
    fn a_window_that_limits_nothing_does_not_grow() {
        let mut state = congestion(WindowIncrease::PerAck, 10_000, 10_000);
        state.limited_only = true;
        state.on_new_bytes(1000, 5000, Instant::ZERO);
        assert_eq!(state.cwnd, 10_000);
        state.on_new_bytes(1000, 9_500, Instant::ZERO);
        assert!(state.cwnd > 10_000);
    }
}
