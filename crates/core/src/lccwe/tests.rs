// SPDX-License-Identifier: Apache-2.0
//! The classifier branch by branch, and the arithmetic against the vectors that the BPF
//! program is held against too.

use super::arithmetic::{
    Window, grow, next_ack_interval, next_alpha, p_congestion, p_handoff, parp, steps,
};
use super::*;

const VECTORS: &str = include_str!("vectors.txt");

#[test]
fn arithmetic_is_as_in_the_vectors() {
    let mut checked = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split_whitespace();
        let function = fields.next().unwrap();
        let n: Vec<u64> = fields.map(|field| field.parse().unwrap()).collect();
        let w = |index: usize| n[index] as u32;
        let (came, expected) = match function {
            "p_handoff" => (u64::from(p_handoff(parp(n[0], w(1), w(2)), n[3])), n[4]),
            "p_congestion" => (u64::from(p_congestion(w(0), w(1), w(2))), n[3]),
            "next_alpha" => (u64::from(next_alpha(w(0), w(1), w(2), w(3))), n[4]),
            "next_ack_interval" => (next_ack_interval(n[0], n[1], w(2)), n[3]),
            "steps" => (u64::from(steps(n[0], w(1), n[2])), n[3]),
            "grow" => {
                let grown = grow(
                    Window {
                        cwnd: w(0),
                        counted: w(1),
                        ssthresh: w(2),
                    },
                    w(3),
                );
                let pack = |cwnd: u64, counted: u64| cwnd << 32 | counted;
                (
                    pack(grown.cwnd.into(), grown.counted.into()),
                    pack(n[4], n[5]),
                )
            }
            other => panic!("no function {other}"),
        };
        assert_eq!(came, expected, "{line}");
        checked += 1;
    }
    assert!(checked > 150, "{checked}");
}

const SRTT: Duration = Duration::from_millis(600);
const RTTVAR: Duration = Duration::from_millis(50);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn timeout_of(transmitted: Instant) -> Loss {
    Loss {
        sign: LossSign::Timeout {
            rto: Duration::from_millis(1200),
        },
        transmitted,
        srtt: SRTT,
        rttvar: RTTVAR,
    }
}

fn dup_acks_of(transmitted: Instant) -> Loss {
    Loss {
        sign: LossSign::DupAcks,
        ..timeout_of(transmitted)
    }
}

/// A sender with a handoff from 10 to 11 s, and a last round trip.
fn after_handoff(rtt_ms: u64) -> LcCwe {
    let mut lccwe = LcCwe::new(Parameters::DEFAULT);
    lccwe.handle_round_trip(Duration::from_millis(rtt_ms));
    lccwe.handle_handoff_start(at(10_000));
    lccwe.handle_handoff_finish(at(11_000));
    lccwe
}

#[test]
fn without_a_handoff_every_loss_is_congestion() {
    for rtt_ms in [500, 600, 700] {
        let mut lccwe = LcCwe::new(Parameters::DEFAULT);
        lccwe.handle_round_trip(Duration::from_millis(rtt_ms));
        let judged = lccwe.judge(&timeout_of(at(1000)), at(2200));
        assert_eq!((judged.cause, judged.p_handoff), (Cause::Congestion, 0));
    }
}

#[test]
fn a_handoff_that_goes_on_takes_the_blame() {
    let mut lccwe = LcCwe::new(Parameters::DEFAULT);
    lccwe.handle_round_trip(Duration::from_secs(9));
    lccwe.handle_handoff_start(at(10_000));
    let judged = lccwe.judge(&timeout_of(at(9_900)), at(11_100));
    assert_eq!((judged.cause, judged.p_handoff), (Cause::Handoff, ONE));
}

#[test]
fn a_period_before_the_end_is_the_handoffs_and_one_beyond_it_is_not() {
    // Its PARP ends at 10.55 s.
    let before = after_handoff(700).judge(&dup_acks_of(at(9_900)), at(11_200));
    assert_eq!((before.cause, before.p_handoff), (Cause::Handoff, ONE));
    // It begins at 11.05 s.
    let beyond = after_handoff(700).judge(&dup_acks_of(at(10_500)), at(11_300));
    assert_eq!((beyond.cause, beyond.p_handoff), (Cause::Congestion, 0));
}

#[test]
fn in_the_ambiguous_period_the_larger_probability_decides() {
    // Its PARP is 10.975 to 11.075 s: a quarter lies before the end.
    let loss = dup_acks_of(at(10_425));
    let judged = after_handoff(500).judge(&loss, at(11_200));
    assert_eq!(
        judged,
        Judgement {
            cause: Cause::Handoff,
            p_handoff: ONE / 4,
            p_congestion: 0
        }
    );
    // Above alpha (1) times SRTT.
    let judged = after_handoff(601).judge(&loss, at(11_200));
    assert_eq!(
        (judged.cause, judged.p_congestion),
        (Cause::Congestion, ONE)
    );
}

#[test]
fn equal_probabilities_are_the_handoffs_unless_both_are_nothing() {
    let mut lccwe = after_handoff(700);
    lccwe.handle_round_trip(Duration::from_secs(2));
    let judged = lccwe.judge(&dup_acks_of(at(9_900)), at(11_200));
    assert_eq!((judged.p_handoff, judged.p_congestion), (ONE, ONE));
    assert_eq!(judged.cause, Cause::Handoff);
    let neither = dup_acks_of(at(12_000));
    let judged = after_handoff(500).judge(&neither, at(13_000));
    assert_eq!((judged.p_handoff, judged.p_congestion), (0, 0));
    assert_eq!(judged.cause, Cause::Congestion);
    let mut to_the_letter = LcCwe::new(Parameters {
        on_neither: OnNeither::Handoff,
        ..Parameters::DEFAULT
    });
    to_the_letter.handle_round_trip(Duration::from_millis(500));
    let judged = to_the_letter.judge(&neither, at(13_000));
    assert_eq!(judged.cause, Cause::Handoff);
}

#[test]
fn the_history_is_of_losses_outside_of_the_ambiguous_period() {
    let mut lccwe = after_handoff(700);
    lccwe.judge(&dup_acks_of(at(10_500)), at(11_599));
    assert_eq!(lccwe.history(), ONE);
    lccwe.judge(&dup_acks_of(at(10_500)), at(11_600));
    // 0.2 * 1 + 0.8 * 700/600.
    assert!(lccwe.history().abs_diff(74_274) < 4, "{}", lccwe.history());
    // After a timeout its sample is the timeout: 0.2 * 1 + 0.8 * 2.
    let mut lccwe = after_handoff(700);
    lccwe.judge(&timeout_of(at(10_500)), at(20_000));
    assert!(lccwe.history().abs_diff(117_965) < 4, "{}", lccwe.history());
}

#[test]
fn a_timeouts_own_length_counts_where_it_is_to() {
    let mut lccwe = LcCwe::new(Parameters {
        timeout_rtt: TimeoutRtt::Timeout,
        ..Parameters::DEFAULT
    });
    lccwe.handle_round_trip(Duration::from_millis(500));
    let judged = lccwe.judge(&timeout_of(at(1000)), at(2200));
    assert_eq!(judged.p_congestion, ONE);
}

/// ACKs a millisecond apart up to the handoff.
fn with_acks() -> LcCwe {
    let mut lccwe = LcCwe::new(Parameters::DEFAULT);
    lccwe.handle_round_trip(SRTT);
    for ms in 9_900..10_000 {
        lccwe.handle_ack(at(ms));
    }
    lccwe.handle_handoff_start(at(10_000));
    lccwe
}

const WINDOW: Window = Window {
    cwnd: 100,
    counted: 0,
    ssthresh: 50,
};

#[test]
fn the_window_grows_once_and_in_the_ambiguous_period_alone() {
    let mut lccwe = with_acks();
    assert_eq!(lccwe.ack_interval(), Duration::from_millis(1));
    assert_eq!(lccwe.extrapolate(WINDOW, SRTT, at(10_100)), None);
    lccwe.handle_handoff_finish(at(10_250));
    assert!(lccwe.is_ambiguous(SRTT, at(10_849)) && !lccwe.is_ambiguous(SRTT, at(10_850)));
    assert_eq!(lccwe.clone().extrapolate(WINDOW, SRTT, at(10_850)), None);
    // 250 passes: 100 and 101 make a segment each, 49 are left.
    let grown = lccwe.extrapolate(WINDOW, SRTT, at(10_300)).unwrap();
    assert_eq!((grown.cwnd, grown.counted), (102, 49));
    assert_eq!(lccwe.extrapolate(WINDOW, SRTT, at(10_300)), None);
    // The next handoff is made up for again.
    lccwe.handle_handoff_start(at(20_000));
    lccwe.handle_handoff_finish(at(20_001));
    assert!(lccwe.extrapolate(WINDOW, SRTT, at(20_002)).is_some());
}

#[test]
fn the_time_of_a_handoff_is_no_interval_between_acks() {
    let mut lccwe = with_acks();
    lccwe.handle_handoff_finish(at(15_000));
    lccwe.handle_ack(at(15_100));
    assert_eq!(lccwe.ack_interval(), Duration::from_millis(1));
    lccwe.handle_ack(at(15_101));
    assert_eq!(lccwe.ack_interval(), Duration::from_millis(1));
}

#[test]
fn a_long_handoff_is_made_up_for_by_a_round_trip() {
    let mut lccwe = with_acks();
    lccwe.handle_handoff_finish(at(15_000));
    let grown = lccwe.extrapolate(WINDOW, SRTT, at(15_000)).unwrap();
    assert_eq!(grown, grow(WINDOW, 600));
}

#[test]
fn congestion_leaves_nothing_to_be_made_up_for() {
    let mut lccwe = with_acks();
    lccwe.handle_handoff_finish(at(10_250));
    // Sent in the handoff, and its PARP is beyond it.
    let judged = lccwe.judge(&dup_acks_of(at(10_200)), at(10_300));
    assert_eq!(judged.cause, Cause::Congestion);
    assert_eq!(lccwe.extrapolate(WINDOW, SRTT, at(10_300)), None);
}

#[test]
fn an_end_without_a_start_is_nothing() {
    let mut lccwe = LcCwe::new(Parameters::DEFAULT);
    lccwe.handle_handoff_finish(at(10_250));
    assert!(!lccwe.is_ambiguous(SRTT, at(10_300)));
    assert_eq!(lccwe.extrapolate(WINDOW, SRTT, at(10_300)), None);
}
