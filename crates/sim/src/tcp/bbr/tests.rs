// SPDX-License-Identifier: Apache-2.0
use super::*;

const SMSS: u64 = 1000;
const RTT: Duration = ms(100);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A sender and the ACKs that it gets. The round trip is 100 ms.
struct Path {
    bbr: Bbr,
    cwnd: u64,
    now: Instant,
    delivered: u64,
    lost: u64,
    phase: Phase,
    rtt: Duration,
    in_flight_segments: u64,
    is_app_limited: bool,
}

impl Path {
    fn new(seed: u64) -> Self {
        let now = Instant::from_millis(1000);
        Self {
            bbr: Bbr::new(SMSS, 10 * SMSS, Some(RTT), seed, now),
            cwnd: 10 * SMSS,
            now,
            delivered: 0,
            lost: 0,
            phase: Phase::Open,
            rtt: RTT,
            in_flight_segments: 100,
            is_app_limited: false,
        }
    }

    /// An ACK after `wait` of `acked` segments, `in_round` segments since the newest was sent, and `lost` segments.
    fn ack(&mut self, wait: Duration, acked: u64, in_round: u64, lost: u64) -> Decision {
        self.now += wait;
        self.delivered += acked * SMSS;
        self.lost += lost * SMSS;
        let report = Report {
            sample: Some(RateSample {
                prior_delivered: self.delivered - in_round * SMSS,
                delivered: in_round * SMSS,
                interval: Some(RTT),
                is_app_limited: self.is_app_limited,
            }),
            rtt: Some(self.rtt),
            is_delayed: false,
            acked: acked * SMSS,
            lost: lost * SMSS,
            prior_in_flight: self.in_flight_segments * SMSS,
            in_flight: self.in_flight_segments * SMSS,
            phase: self.phase,
            srtt: Some(RTT),
            wait: Duration::ZERO,
            totals: Totals {
                delivered: self.delivered,
                lost: self.lost,
                delivered_at: self.now,
            },
        };
        let decision = self.bbr.on_ack(&report, self.cwnd, self.now);
        self.cwnd = decision.cwnd;
        decision
    }

    /// A round trip in one ACK: `segments` each 100 ms.
    fn round_trip(&mut self, segments: u64) -> Decision {
        self.ack(RTT, segments, segments, 0)
    }

    /// ACKs of two segments each 2 ms: 1 MB/s.
    fn steady(&mut self, acks: u64) {
        for _ in 0..acks {
            self.ack(ms(2), 2, 100, 0);
        }
    }

    /// In ProbeBW, at 1 MB/s.
    fn cruising(seed: u64) -> Self {
        let mut path = Self::new(seed);
        path.in_flight_segments = 250;
        for segments in [10, 20, 40, 80, 100] {
            path.round_trip(segments);
        }
        path.steady(200);
        path.in_flight_segments = 100;
        path.steady(1);
        assert_eq!(path.bbr.mode, Mode::ProbeBw);
        path
    }

    /// The next phase with this gain has begun.
    fn until_gain(&mut self, gain: u64) {
        self.in_flight_segments = 140;
        for _ in 0..1000 {
            if self.bbr.pacing_gain == gain {
                return;
            }
            self.steady(1);
        }
        panic!("no phase with {gain}");
    }
}

/// 4.2.1: high_gain * InitialCwnd / SRTT, less a hundredth: 100 kB/s * 739 / 256 * 0.99.
#[test]
fn the_first_rate_is_that_of_the_initial_window() {
    let path = Path::new(0);
    assert_eq!(path.bbr.pacing_rate(), 285_785);
    // A millisecond until a round trip is measured; then anew.
    let mut bbr = Bbr::new(SMSS, 10 * SMSS, None, 0, Instant::ZERO);
    assert_eq!(bbr.pacing_rate(), 28_578_515);
    bbr.set_pacing_rate(HIGH_GAIN, 10 * SMSS, Some(RTT));
    assert_eq!(bbr.pacing_rate(), 285_785);
}

/// 4.2.2: one segment below 1.2 Mb/s, then two, then what the rate delivers in a millisecond.
#[test]
fn bursts_grow_with_the_rate() {
    let mut path = Path::new(0);
    let mut burst = |rate| {
        path.bbr.pacing_rate = rate;
        path.bbr.burst_segments()
    };
    assert_eq!([burst(149_999), burst(150_000)], [1, 2]);
    assert_eq!([burst(3_071_999), burst(3_072_000)], [2, 3]);
    assert_eq!(burst(1_000_000_000), 65);
}

/// 4.3.2: the rate follows the bandwidth, and the pipe is full after three round trips without a quarter of growth.
/// 4.3.3: then the rate sinks to 88 / 256, and `ssthresh` is what fits: 1 MB/s * 0.1 s are 100 segments, and three
/// bursts of two.
#[test]
fn startup_ends_when_the_bandwidth_grows_no_more_and_drain_when_the_queue_is_gone() {
    let mut path = Path::new(0);
    path.in_flight_segments = 250;
    for (segments, rate) in [
        (10, 285_785),
        (20, 571_570),
        (40, 1_143_140),
        (80, 2_286_281),
    ] {
        path.round_trip(segments);
        assert_eq!(path.bbr.pacing_rate(), rate);
    }
    let modes: Vec<_> = (0..4)
        .map(|_| (path.round_trip(100).ssthresh, path.bbr.mode))
        .collect();
    assert_eq!(modes[..3], [(None, Mode::Startup); 3]);
    assert_eq!(modes[3], (Some(106_000), Mode::Drain));
    assert_eq!(path.bbr.pacing_rate(), 1_000_000 * 88 * 99 / 25_600);
    path.in_flight_segments = 107;
    path.round_trip(100);
    assert_eq!(path.bbr.mode, Mode::Drain);
    path.in_flight_segments = 106;
    path.round_trip(100);
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
}

/// 4.3.2.2: a pause of the application does not show a full pipe.
#[test]
fn round_trips_limited_by_the_application_do_not_fill_the_pipe() {
    let mut path = Path::new(0);
    path.round_trip(10);
    path.is_app_limited = true;
    for _ in 0..10 {
        path.round_trip(10);
    }
    assert_eq!((path.bbr.mode, path.bbr.full_rounds), (Mode::Startup, 0));
    // 4.1.1.4: nor is the bandwidth less, but it may be more.
    path.round_trip(5);
    assert_eq!(path.bbr.bandwidth.get(), 100_000);
    path.round_trip(20);
    assert_eq!(path.bbr.bandwidth.get(), 200_000);
}

/// 4.3.4.2 and 4.3.4.3: 5/4 until a quarter more is in flight (134 segments with the bursts and two to probe with,
/// 132 before the next burst), 3/4 for a round trip or until the queue is empty, six round trips of 1.
#[test]
fn the_gain_cycles() {
    let mut path = Path::cruising(1);
    path.until_gain(UNIT * 5 / 4);
    path.in_flight_segments = 131;
    path.steady(200);
    assert_eq!(path.bbr.pacing_gain, UNIT * 5 / 4);
    assert_eq!(path.bbr.pacing_rate(), 1_000_000 * 320 * 99 / 25_600);
    path.in_flight_segments = 132;
    path.steady(1);
    assert_eq!(path.bbr.pacing_gain, UNIT * 3 / 4);
    // 51 ACKs are the first that are more than 100 ms.
    path.steady(50);
    assert_eq!(path.bbr.pacing_gain, UNIT * 3 / 4);
    path.steady(1);
    for _ in 0..6 {
        assert_eq!(path.bbr.pacing_gain, UNIT);
        path.steady(51);
    }
    assert_eq!(path.bbr.pacing_gain, UNIT * 5 / 4);
    // A loss ends it too, and what fits ends the next one.
    path.in_flight_segments = 110;
    path.steady(51);
    path.ack(ms(2), 2, 100, 1);
    assert_eq!(path.bbr.pacing_gain, UNIT * 3 / 4);
    path.in_flight_segments = 106;
    path.steady(1);
    assert_eq!(path.bbr.pacing_gain, UNIT);
}

/// 4.3.4.3: any phase but that of 3/4.
#[test]
fn a_cycle_begins_at_random_and_not_with_the_lowest_gain() {
    let mut begins = [0; 8];
    for seed in 0..700 {
        let mut bbr = Path::new(seed * 7919).bbr;
        bbr.enter_probe_bw(Totals::default());
        begins[bbr.cycle] += 1;
    }
    assert_eq!(begins[1], 0);
    let others = begins.iter().enumerate().filter(|(phase, _)| *phase != 1);
    for (phase, count) in others {
        assert!((60..140).contains(count), "{phase}: {count}");
    }
}

/// 4.2.3.1: twice what fits, the ACK aggregation (two segments), three bursts of two.
#[test]
fn the_window_is_twice_what_fits_and_room_for_bursts() {
    let mut path = Path::cruising(1);
    // A pause ends the series of ACKs that began with many at once, and ten round trips its memory.
    path.in_flight_segments = 140;
    path.ack(ms(200), 2, 100, 0);
    path.steady(1000);
    let probes = if path.bbr.cycle == 0 { 2 } else { 0 };
    assert_eq!(path.cwnd, (208 + probes) * SMSS);
}

/// 4.1.1.3: ten round trips of memory.
#[test]
fn a_lower_bandwidth_counts_after_ten_round_trips() {
    let mut path = Path::cruising(1);
    let bandwidths: Vec<_> = (0..12)
        .map(|_| {
            path.round_trip(50);
            path.bbr.bandwidth.get()
        })
        .collect();
    let first = bandwidths.iter().position(|rate| *rate == 500_000);
    assert!(matches!(first, Some(9..=10)), "{bandwidths:?}");
}

/// 4.3.5: after ten seconds without a round trip this short, the window is four segments for 200 ms and a round
/// trip. Then it is the window from before.
#[test]
fn the_round_trip_is_measured_anew_with_four_segments_in_flight() {
    let mut path = Path::cruising(1);
    path.rtt = ms(110);
    path.in_flight_segments = 140;
    path.steady(4990);
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
    let before = path.cwnd;
    path.steady(20);
    assert_eq!((path.bbr.mode, path.cwnd), (Mode::ProbeRtt, 4 * SMSS));
    // It has measured 110 ms by then.
    assert_eq!(path.bbr.min_rtt, Some(ms(110)));
    path.in_flight_segments = 4;
    assert!(path.ack(ms(2), 2, 4, 0).is_small);
    for _ in 0..2 {
        path.ack(RTT, 4, 4, 0);
        assert_eq!((path.bbr.mode, path.cwnd), (Mode::ProbeRtt, 4 * SMSS));
    }
    let decision = path.ack(ms(2), 4, 4, 0);
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
    assert!(decision.cwnd >= before, "{}, {before}", decision.cwnd);
}

/// 4.3.5: a round trip as short begins the ten seconds anew.
#[test]
fn a_round_trip_as_short_as_the_least_needs_no_probe() {
    let mut path = Path::cruising(1);
    path.in_flight_segments = 140;
    path.steady(15_000);
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
}

/// 4.2.3.4: in the first round trip what arrives; then at most twice as much; then the window from before.
#[test]
fn a_recovery_conserves_packets_and_gives_the_window_back() {
    let mut path = Path::cruising(1);
    path.in_flight_segments = 140;
    path.steady(1000);
    path.bbr.save_cwnd(path.cwnd);
    let before = path.cwnd;
    path.phase = Phase::Recovery;
    path.in_flight_segments = 90;
    path.ack(ms(2), 2, 100, 8);
    assert_eq!(path.cwnd, 92 * SMSS);
    path.in_flight_segments = 80;
    // Losses reduce the window, but not below what is in flight.
    path.ack(ms(2), 2, 100, 20);
    assert_eq!(path.cwnd, 82 * SMSS);
    path.ack(ms(2), 1, 1, 0);
    assert_eq!(path.cwnd, 83 * SMSS, "the round trip is over");
    path.ack(ms(2), 2, 100, 0);
    assert_eq!(path.cwnd, 85 * SMSS);
    path.phase = Phase::Open;
    path.ack(ms(2), 2, 100, 0);
    assert!(
        path.cwnd.abs_diff(before) <= 2 * SMSS,
        "{}, {before}",
        path.cwnd
    );
}

/// 4.2.3.4 for a timeout; and the pipe may be larger than it was (Linux).
#[test]
fn a_timeout_keeps_the_window_for_later_and_the_bandwidth() {
    let mut path = Path::cruising(1);
    path.in_flight_segments = 140;
    path.steady(1000);
    let before = path.cwnd;
    path.bbr.save_cwnd(path.cwnd);
    path.cwnd = SMSS;
    path.phase = Phase::Loss;
    path.bbr.on_timeout(Totals::default());
    assert_eq!(path.bbr.full_bandwidth, 0);
    // A second one must not forget it.
    path.bbr.save_cwnd(path.cwnd);
    path.in_flight_segments = 1;
    path.ack(RTT, 1, 1, 0);
    assert_eq!(path.cwnd, 4 * SMSS);
    assert_eq!(path.bbr.bandwidth.get(), 1_000_000);
    path.phase = Phase::Open;
    path.ack(RTT, 4, 4, 0);
    assert!(
        path.cwnd.abs_diff(before) <= 4 * SMSS,
        "{}, {before}",
        path.cwnd
    );
}

/// 4.3.4.4: after a pause the sender sends at the bandwidth, in any phase.
#[test]
fn after_a_pause_it_sends_at_the_bandwidth() {
    let mut path = Path::cruising(1);
    path.until_gain(UNIT * 5 / 4);
    assert_eq!(path.bbr.on_restart(path.cwnd, path.now), None);
    assert_eq!(path.bbr.pacing_rate(), 990_000);
    // The pause does not cause ProbeRTT.
    path.rtt = ms(110);
    path.now += ms(20_000);
    path.ack(ms(2), 2, 100, 0);
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
}

/// Linux: two intervals with a fifth of losses: the gain is 1 at the rate that was delivered.
#[test]
fn behind_a_token_bucket_it_does_not_probe() {
    let mut path = Path::cruising(1);
    path.in_flight_segments = 140;
    for n in 0..20 {
        path.ack(RTT, 50, 50, if n % 4 == 0 { 60 } else { 0 });
    }
    assert_eq!(path.bbr.long_term.rate(), Some(500_000));
    assert_eq!(path.bbr.pacing_gain, UNIT);
    assert_eq!(path.bbr.pacing_rate(), 495_000);
    // An undo: the losses were spurious.
    path.bbr.on_undo(Totals::default());
    assert_eq!(path.bbr.long_term.rate(), None);
}
