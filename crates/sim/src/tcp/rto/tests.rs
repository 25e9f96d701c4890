// SPDX-License-Identifier: Apache-2.0
use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn rfc(floor_ms: u64) -> RtoEstimator {
    RtoEstimator::new(RtoSettings {
        floor: RtoFloor::Timeout(ms(floor_ms)),
        ..RtoSettings::RFC6298
    })
}

/// RFC 6298, 2.1: until an RTT has been measured the RTO is 1 second.
#[test]
fn before_a_measurement_the_timeout_is_one_second() {
    assert_eq!(rfc(1000).rto(), ms(1000));
}

/// RFC 6298, 2.2 and 2.3, worked by hand for R = 100, 100, 180 ms without a floor.
#[test]
fn estimates_follow_the_equations() {
    let mut estimator = rfc(0);
    estimator.on_rtt(ms(100));
    assert_eq!(
        (estimator.srtt(), estimator.rttvar()),
        (Some(ms(100)), ms(50))
    );
    assert_eq!(estimator.rto(), ms(300));
    estimator.on_rtt(ms(100));
    assert_eq!(estimator.rttvar(), Duration::from_micros(37_500));
    assert_eq!(estimator.rto(), ms(250));
    estimator.on_rtt(ms(180));
    // RTTVAR = 3/4 * 37.5 + 1/4 * 80 = 48.125; SRTT = 7/8 * 100 + 1/8 * 180 = 110.
    assert_eq!(estimator.rttvar(), Duration::from_micros(48_125));
    assert_eq!(estimator.srtt(), Some(ms(110)));
    assert_eq!(estimator.rto(), Duration::from_micros(302_500));
}

/// RFC 6298, 2.4, 2.5, 5.5.
#[test]
fn the_timeout_is_at_least_a_second_doubles_and_ends_at_the_maximum() {
    let mut estimator = rfc(1000);
    estimator.on_rtt(ms(20));
    let mut timeouts = vec![estimator.rto().as_secs()];
    for _ in 0..8 {
        estimator.back_off();
        timeouts.push(estimator.rto().as_secs());
    }
    assert_eq!(timeouts, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    // RFC 6298, 5.7, note: a new measurement makes it collapse.
    estimator.on_rtt(ms(20));
    assert_eq!(estimator.rto(), ms(1000));
}

/// Darwin's timeouts: the slop is not doubled, and does not delay a SYN.
#[test]
fn slop_is_added_after_the_back_off() {
    let mut estimator = RtoEstimator::new(RtoSettings {
        floor: RtoFloor::Timeout(ms(100)),
        slop: ms(200),
        ..RtoSettings::RFC6298
    });
    assert_eq!(estimator.rto(), ms(1000));
    estimator.on_rtt(ms(20));
    for timeout_ms in [300, 400, 600, 1000] {
        assert_eq!(estimator.rto(), ms(timeout_ms));
        estimator.back_off();
    }
}

/// RFC 6298, 2.3: the variance's term is no smaller than the clock's granularity.
#[test]
fn granularity_bounds_the_variance_term() {
    let mut estimator = RtoEstimator::new(RtoSettings {
        floor: RtoFloor::Timeout(ms(0)),
        clock: RttClock::Rfc6298 {
            granularity: ms(500),
        },
        ..RtoSettings::RFC6298
    });
    for i in 0..40 {
        estimator.on_timed(
            Instant::from_millis(i * 7),
            Instant::from_millis(i * 7 + 90),
        );
    }
    assert_eq!(estimator.srtt(), Some(ms(500)));
    assert_eq!(estimator.rto(), ms(1000));
}

#[test]
fn a_floor_of_the_variance_leaves_the_round_trip_on_top() {
    let mut estimator = RtoEstimator::new(RtoSettings {
        floor: RtoFloor::Variance(ms(200)),
        ..RtoSettings::RFC6298
    });
    for _ in 0..40 {
        estimator.on_rtt(ms(50));
    }
    assert_eq!(estimator.rto(), ms(250));
}

/// By hand with `tcp_xmit_timer` (TCP/IP Illustrated 2, 25.10): measurements of 0 ticks
/// leave srtt at 7/8 and rttvar at 3/4 of a tick, which TCP_REXMTVAL takes for 0 + 3.
#[test]
fn a_fast_path_has_bsds_timeout_of_three_ticks() {
    let mut estimator = RtoEstimator::new(RtoSettings::BSD);
    assert_eq!(estimator.rto(), ms(6000));
    for i in 0..40 {
        let sent = Instant::from_millis(i * 500 + 7);
        estimator.on_timed(sent, sent + ms(10));
    }
    let mut timeouts = Vec::new();
    for _ in 0..8 {
        timeouts.push(estimator.rto().as_millis());
        estimator.back_off();
    }
    assert_eq!(
        timeouts,
        [1500, 3000, 6000, 12_000, 24_000, 48_000, 64_000, 64_000]
    );
}

/// The same by hand for one measurement of 3 ticks: t_rtt is 4, so srtt is 4 ticks and
/// rttvar's term 8.
#[test]
fn bsds_first_measurement_makes_a_timeout_of_three_times_it() {
    let mut estimator = RtoEstimator::new(RtoSettings::BSD);
    estimator.on_timed(Instant::from_millis(100), Instant::from_millis(1600));
    assert_eq!(estimator.rto(), ms(6000));
}

/// A slow timer set to n ticks expires between n - 1 and n ticks later.
#[test]
fn a_bsd_timer_runs_out_at_a_tick() {
    let estimator = RtoEstimator::new(RtoSettings::BSD);
    for at_ms in [0, 1, 250, 499] {
        assert_eq!(
            estimator.expiry(Instant::from_millis(3000 + at_ms), ms(1000)),
            Instant::from_millis(4000)
        );
    }
    let shifted = RtoEstimator::new(RtoSettings {
        tick_phase: ms(130),
        ..RtoSettings::BSD
    });
    assert_eq!(
        shifted.expiry(Instant::from_millis(3000), ms(1000)),
        Instant::from_millis(3630)
    );
    let exact = RtoEstimator::new(RtoSettings {
        timer_tick: Some(ms(500)),
        ..RtoSettings::RFC6298
    });
    assert_eq!(
        exact.expiry(Instant::from_millis(3001), ms(1000)),
        Instant::from_millis(4500)
    );
}

/// RFC 7323, appendix G: alpha' = alpha / ExpectedSamples, beta' = beta / ExpectedSamples.
#[test]
fn many_samples_a_round_trip_have_the_weight_of_one() {
    let mut each = rfc(0);
    each.on_rtt(ms(100));
    each.on_timestamp_sample(ms(180), 2);
    // RTTVAR = 7/8 * 50 + 1/8 * 80; SRTT = 15/16 * 100 + 1/16 * 180.
    assert_eq!(each.rttvar(), Duration::from_micros(53_750));
    assert_eq!(each.srtt(), Some(ms(105)));
    // Linux gives each the full weight.
    let mut full = RtoEstimator::new(RtoSettings {
        floor: RtoFloor::Timeout(ms(0)),
        samples_share_weight: false,
        ..RtoSettings::RFC6298
    });
    full.on_rtt(ms(100));
    full.on_timestamp_sample(ms(180), 2);
    assert_eq!(full.srtt(), Some(ms(110)));
}
