// SPDX-License-Identifier: Apache-2.0
//! RFC 6582, segment by segment.

use super::*;
use crate::tcp::settings::OnFullAck;

fn newreno() -> TcpSettings {
    TcpSettings {
        recovery: LossRecovery::NewReno,
        initial_window_segments: 10,
        ..plain()
    }
}

/// Ten segments in flight, 0, 4 and 6 of them lost; recovery has begun.
fn in_recovery(settings: TcpSettings) -> Script {
    let mut s = Script::sender(settings, 200);
    assert_eq!(s.sent(), "0 1 2 3 4 5 6 7 8 9");
    // Seven have arrived.
    assert_eq!(s.acks(3, 0), "0");
    assert_eq!((s.ssthresh(), s.cwnd()), (5000, 8000));
    assert_eq!(s.acks(4, 0), "10 11");
    assert_eq!(s.cwnd(), 12_000);
    s
}

/// RFC 6582, 3.2, step 3, partial acknowledgments: the next hole at once, the window
/// deflated by what was acknowledged, a segment added back.
#[test]
fn partial_ack_repeats_the_next_hole_and_deflates() {
    let mut s = in_recovery(newreno());
    s.now += ms(100);
    assert_eq!(s.ack(4000), "4 12");
    assert_eq!(s.cwnd(), 9000);
    // Two duplicate ACKs for data sent in recovery: new data as the window allows.
    assert_eq!(s.acks(2, 4000), "13 14");
    assert_eq!(s.ack(6000), "6 15");
    assert_eq!(s.cwnd(), 10_000);
    assert!(s.end.view().recovering);
}

/// Step 3, full acknowledgments, (1): cwnd = min (ssthresh, max (FlightSize, SMSS) +
/// SMSS).
#[test]
fn full_ack_ends_recovery_with_the_smaller_of_ssthresh_and_flight() {
    let mut s = in_recovery(newreno());
    s.ack(4000);
    s.ack(6000);
    let sent = s.end.view().snd_nxt;
    // Everything up to `recover`, which was 10000.
    let segments = s.ack(10_000);
    assert!(!s.end.view().recovering);
    let flight = sent - 10_000;
    assert_eq!(s.cwnd(), 5000.min(flight.max(1000) + 1000));
    assert!(!segments.contains('9'), "{segments}");
}

/// The same, (2): cwnd = ssthresh. A single loss, and little in flight when it is repaired.
#[test]
fn full_ack_may_set_the_window_to_ssthresh() {
    for (on_full_ack, cwnd) in [
        (OnFullAck::FlightSize, 1000 + 1000),
        (OnFullAck::Ssthresh, 5000),
    ] {
        let mut s = Script::sender(
            TcpSettings {
                on_full_ack,
                ..newreno()
            },
            200,
        );
        s.sent();
        assert_eq!(s.acks(3, 0), "0");
        s.ack(10_000);
        assert!(!s.end.view().recovering);
        assert_eq!(s.cwnd(), cwnd, "{on_full_ack:?}");
    }
}

/// RFC 6582, 4: Impatient restarts the timer with the first partial ACK alone,
/// Slow-but-Steady with each.
#[test]
fn impatient_variant_times_out_in_a_long_recovery() {
    for (impatient, timeouts) in [(true, 1), (false, 0)] {
        let mut s = in_recovery(TcpSettings {
            impatient,
            ..newreno()
        });
        s.now += ms(100);
        s.ack(4000);
        // The second partial ACK late, but less than an RTO after the first.
        let _ = s.wait(ms(700));
        s.ack(6000);
        let _ = s.wait(ms(700));
        assert_eq!(s.end.counters().timeouts, timeouts, "{impatient}");
    }
}

/// Step 2 and section 4: no second fast retransmit for the same window.
#[test]
fn duplicate_acks_after_a_timeout_do_not_begin_recovery() {
    let mut s = in_recovery(newreno());
    let sent = s.wait(ms(1200));
    assert_eq!(sent, "1000: 0");
    let (ssthresh, fast) = (s.ssthresh(), s.end.counters().fast_retransmits);
    // Segments sent before the timeout arrive and make duplicates of one ACK.
    s.ack(4000);
    s.acks(5, 4000);
    assert_eq!(s.end.counters().fast_retransmits, fast);
    assert_eq!(s.ssthresh(), ssthresh);
    // "covers more than recover": beyond it, it may.
    s.ack(12_000);
    s.acks(3, 12_000);
    assert_eq!(s.end.counters().fast_retransmits, fast);
    s.ack(13_000);
    s.acks(3, 13_000);
    assert_eq!(s.end.counters().fast_retransmits, fast + 1);
}

/// The same without a timeout: duplicate ACKs of `recover` itself start no recovery.
#[test]
fn duplicate_acks_of_the_full_ack_do_not_begin_recovery_again() {
    let mut s = in_recovery(newreno());
    s.ack(4000);
    s.ack(6000);
    s.ack(10_000);
    let fast = s.end.counters().fast_retransmits;
    s.acks(4, 10_000);
    assert_eq!(s.end.counters().fast_retransmits, fast);
}
