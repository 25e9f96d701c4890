// SPDX-License-Identifier: Apache-2.0
use super::*;

const SMSS: u64 = 1000;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// The window, segments, after each round trip of `rtt_ms` from 10 s on. Each ACK covers two
/// segments.
fn windows(state: &mut Cubic, mut cwnd: u64, rtt_ms: u64, round_trips: u64) -> Vec<u64> {
    let mut windows = vec![cwnd];
    for n in 0..round_trips {
        let acks = cwnd / 2;
        for ack in 0..acks {
            let now = at(10_000 + n * rtt_ms + ack * rtt_ms / acks);
            cwnd += state.on_new_bytes(2 * SMSS, cwnd * SMSS, SMSS, now);
        }
        windows.push(cwnd);
    }
    windows
}

/// RFC 9438, 4.6: 0.7; 4.7: below the last W_max the next is (1 + 0.7) / 2 of the window. With
/// 717 / 1024: 70.02; 70 * 0.8501 = 59.5; 49.01.
#[test]
fn a_loss_takes_three_tenths_and_fast_convergence_lowers_the_plateau() {
    let mut state = Cubic::default();
    assert_eq!((state.on_reduction(100), state.w_max), (70, 100));
    assert_eq!((state.on_reduction(70), state.w_max), (49, 59));
    assert_eq!((state.on_reduction(60), state.w_max), (42, 60));
    assert_eq!(state.on_reduction(2), 2);
}

/// W_max 1000, from 700: K = cbrt (300 / 0.4) = 9.09 s. W (0) = 700; W (K / 2 = 4.5) = 1000 -
/// 0.4 * 4.59^3 = 961; W (9.1) = 1000; W (14.1) = 1000 + 0.4 * 5.01^3 = 1050. The window runs
/// behind W (t) by less than a round trip.
#[test]
fn the_window_follows_the_curve() {
    let mut state = Cubic::default();
    assert_eq!(state.on_reduction(1000), 700);
    let windows = windows(&mut state, 700, 100, 150);
    for (round_trips, least, most) in [(45, 959, 962), (91, 998, 1001), (141, 1047, 1051)] {
        let cwnd = windows[round_trips];
        assert!((least..=most).contains(&cwnd), "{round_trips}: {cwnd}");
    }
}

/// W_max 100, a window of 90: K = cbrt (10 / 0.4) = 2.92 s. W (0) = 90, and the whole 9 of
/// 9.99 below the plateau makes it 91: 90 / 1. W (1) = 100 - 0.4 * 1.92^3 = 97.2: the rise is a whole 2, and 90 / 8 = 11. W (2.92) = 100: 90 / 10 =
/// 9. W (4.93) = 100 + 0.4 * 2^3 = 103.2: 90 / 13 = 6.
#[test]
fn the_curve_gives_the_segments_for_one_more() {
    let epoch = Epoch::begin(90, 100, 0, at(0));
    assert_eq!(epoch.k, 2993);
    let each = |ms| epoch.by_curve(90, Duration::ZERO, at(ms));
    assert_eq!([each(1000), each(2923), each(4930)], [11, 9, 6]);
    assert_eq!(each(0), 90);
    // A round trip ahead: RFC 9438, 4.2, W (t + RTT).
    assert_eq!(epoch.by_curve(90, Duration::from_secs(1), at(0)), 11);
}

/// RFC 9438, 4.3, with 15 eighths of a window for a segment: from 100 segments and a round trip
/// of 10 ms, 34 round trips give some 3700 segments acknowledged, 187 to 220 for each: 18
/// segments, and the window is up to two behind.
/// The curve alone: K = cbrt (42 / 0.4) = 4.72 s, W (0.34) = 142 - 0.4 * 4.38^3 = 108.
#[test]
fn over_a_short_path_it_grows_as_reno_does() {
    let mut state = Cubic::default();
    state.on_reduction(142);
    let grown = windows(&mut state, 100, 10, 34)[34] - 100;
    assert!((16..=18).contains(&grown), "{grown}");
}

/// A window of 200 segments grows by 200 / 20 in a round trip, whatever the curve.
#[test]
fn a_first_plateau_is_left_by_a_twentieth_a_round_trip() {
    let mut state = Cubic::default();
    assert_eq!(windows(&mut state, 200, 100, 1), [200, 210]);
    // After a timeout as well.
    state.on_reduction(1000);
    state.on_timeout(1, at(0));
    assert_eq!(windows(&mut state, 200, 100, 1), [200, 210]);
}

/// 12 s after the epoch's begin W is 100 + 0.4 * 9.08^3 = 399: half a segment an ACK. Were 10 s
/// of them idle, W (2) = 99.7: 90 / 10.
#[test]
fn time_without_data_does_not_count() {
    let each = |idle_s| {
        let mut state = Cubic {
            epoch: Some(Epoch::begin(90, 100, 0, at(0))),
            w_max: 100,
            ..Cubic::default()
        };
        state.on_idle(Duration::from_secs(idle_s), at(12_000));
        state.acks_each(90, 1, at(12_000))
    };
    assert_eq!((each(0), each(10)), (2, 9));
    // No epoch begins in the future.
    assert_eq!(each(20), 90);
}

/// W_max 10000, a window of 9000: K = 13.57 s, and W rises by 3 * 0.4 * 13.57^2 = 221 segments a
/// second: from 9001 by 7.06 in 32 ms.
#[test]
fn a_window_that_stays_is_computed_anew_after_a_thirty_second_of_a_second() {
    let mut state = Cubic {
        w_max: 10_000,
        ..Cubic::default()
    };
    let first = state.acks_each(9000, 1, at(0));
    assert_eq!(first, 9000);
    assert_eq!(state.acks_each(9000, 1, at(31)), first);
    assert_eq!(state.acks_each(9000, 1, at(32)), 9000 / 7);
    // A window that has changed: at once, and not within a jiffy.
    assert_eq!(state.acks_each(9001, 1, at(33)), 9001 / 7);
    assert_eq!(state.acks_each(9002, 1, at(33)), 9001 / 7);
}

/// After a reduction no delay is measured for a second: the queue empties meanwhile.
#[test]
fn delays_after_a_reduction_are_not_sampled() {
    let mut state = Cubic::default();
    let sample = |state: &mut Cubic, rtt_ms, ms| {
        let sample = Sample {
            rtt: Duration::from_millis(rtt_ms),
            srtt: Duration::from_millis(100),
            una: 1,
            nxt: 2,
        };
        state.on_round_trip(sample, false, 90 * SMSS, SMSS, at(ms));
        state.delay_min.map(|delay| delay.as_millis())
    };
    assert_eq!(sample(&mut state, 100, 0), Some(100));
    state.acks_each(90, 1, at(0));
    assert_eq!(sample(&mut state, 50, 999), Some(100));
    assert_eq!(sample(&mut state, 50, 1000), Some(50));
}

#[test]
fn the_cube_root_is_the_whole_part() {
    for root in [0, 1, 2, 4316, 2_000_000] {
        assert_eq!(cube_root(root * root * root), root);
        assert_eq!(cube_root((root + 1).pow(3) - 1), root);
    }
}
