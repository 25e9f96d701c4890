// SPDX-License-Identifier: Apache-2.0
//! RACK-TLP, proportional rate reduction, F-RTO and undo, segment by segment (RFC 8985, 9937,
//! 5682, 3522, 2883).

use super::super::settings::{HalfOf, WindowIncrease};
use super::*;

fn rack() -> TcpSettings {
    TcpSettings {
        recovery: LossRecovery::RackTlp,
        sack: true,
        dsack: true,
        initial_window_segments: 10,
        increase: WindowIncrease::AllAcked,
        half_of: HalfOf::CongestionWindow,
        rto: RtoSettings {
            floor: RtoFloor::Variance(ms(200)),
            ..RtoSettings::RFC6298
        },
        ..plain()
    }
}

/// Ten segments in flight, and a round trip of 100 ms later.
fn with_ten_in_flight() -> Script {
    let mut s = Script::sender(rack(), 200);
    assert_eq!(s.sent(), "0 1 2 3 4 5 6 7 8 9");
    s.now += ms(100);
    s
}

/// RFC 8985, 6.2, step 5: one segment behind the hole. A new segment goes for it; the hole is
/// lost a quarter of 100 ms later, and 2 ms of slack. The window: 10, ssthresh 5; of 11
/// segments 9 are in flight; PRR lets one go.
#[test]
fn one_report_begins_recovery_a_quarter_of_a_round_trip_later() {
    let mut s = with_ten_in_flight();
    assert_eq!(s.sack(0, &[(1000, 2000)]), "10");
    assert!(!s.end.view().recovering);
    assert_eq!(s.wait(ms(27)), "27: 0");
    assert!(s.end.view().recovering);
    assert_eq!((s.ssthresh(), s.cwnd()), (5000, 10_000));
    // A segment that arrives in time is not lost.
    let mut s = with_ten_in_flight();
    s.sack(0, &[(1000, 2000)]);
    assert_eq!(s.wait(ms(26)), "");
    assert_eq!(s.ack(2000), "11 12");
    assert_eq!(s.end.counters().fast_retransmits, 0);
}

/// RFC 8985, 6.2, step 3: no reordering if the ACK number covers a segment below one that the same
/// ACK reports; three reports are then a loss at once. Below a segment that an earlier ACK reported
/// it is reordering, and three reports are no loss at once.
#[test]
fn reordering_is_what_arrives_below_an_earlier_report() {
    let mut s = with_ten_in_flight();
    s.sack(1000, &[(2000, 3000)]);
    s.sack(1000, &[(2000, 4000)]);
    let sent = s.sack(1000, &[(2000, 5000)]);
    assert!(sent.starts_with('1'), "{sent}");
    let mut s = with_ten_in_flight();
    s.sack(0, &[(2000, 3000)]);
    s.sack(1000, &[(2000, 3000)]);
    s.sack(1000, &[(2000, 4000)]);
    assert_eq!(s.sack(1000, &[(2000, 5000)]).split(' ').next(), Some("14"));
    assert_eq!(s.wait(ms(27)), "27: 1");
}

/// RFC 9937: from 10 to 5 by half a segment for each that arrives, ceil (n * 5 / 10).
#[test]
fn in_recovery_every_second_report_lets_a_segment_go() {
    let mut s = with_ten_in_flight();
    assert_eq!(s.sack(0, &[(1000, 2000)]), "10");
    assert_eq!(s.sack(0, &[(1000, 3000)]), "11");
    let sent: Vec<_> = (4..10)
        .map(|end| s.sack(0, &[(1000, end * 1000)]))
        .collect();
    assert_eq!(sent, ["0", "", "12", "", "13", ""]);
    assert_eq!(s.ack(10_000), "14");
    assert!(s.end.view().recovering);
    // At the end the window is ssthresh.
    s.ack(12_000);
    assert!(!s.end.view().recovering);
    assert_eq!(s.cwnd(), 5000);
}

/// A lost retransmission is retransmitted without a timeout, because 10 was sent after it and has
/// arrived. Three reports at once release ceil (3 * 5 / 10) = 2 segments.
#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    let mut s = with_ten_in_flight();
    assert_eq!(s.sack(0, &[(1000, 4000)]), "0 10");
    assert_eq!(s.sack(0, &[(1000, 10_000)]), "11 12 13");
    s.now += ms(100);
    let sent = s.sack(0, &[(1000, 11_000)]);
    assert!(sent.starts_with('0'), "{sent}");
    assert_eq!(s.end.counters().timeouts, 0);
}

/// RFC 8985, 7.2 and 7.3: PTO = 2 * SRTT, and 2 ms; the last segment goes again. A timeout of
/// 100 + 200 ms after it the oldest does.
#[test]
fn the_last_segment_is_the_probe_where_there_is_no_new_data() {
    let mut s = Script::sender(rack(), 3);
    assert_eq!(s.sent(), "0 1 2F");
    assert_eq!(s.wait(ms(600)), "202: 2F, 502: 0");
    assert_eq!(s.end.counters().timeouts, 1);
}

#[test]
fn new_data_is_the_probe_where_there_is_some() {
    let mut s = Script::sender(rack(), 200);
    s.sent();
    assert_eq!(s.wait(ms(300)), "202: 10");
    // The window is as it was.
    assert_eq!(s.cwnd(), 10_000);
}

/// Linux: with one segment in flight a delayed ACK may be on its way: 2 * 100 + 200 ms, but not
/// after the timeout of 300 ms.
#[test]
fn one_segment_waits_for_a_delayed_ack() {
    let mut s = Script::sender(rack(), 1);
    assert_eq!(s.sent(), "0F");
    assert_eq!(s.wait(ms(500)), "300: 0F");
    assert_eq!(s.end.counters().timeouts, 0);
}

/// The ACK of the probe reports the loss before it.
#[test]
fn a_probe_turns_a_lost_tail_into_fast_recovery() {
    let mut s = Script::sender(rack(), 3);
    s.sent();
    assert_eq!(s.wait(ms(202)), "202: 2F");
    s.now += ms(100);
    assert_eq!(s.sack(0, &[(2000, 3001)]), "0 1");
    let counters = s.end.counters();
    assert_eq!((counters.timeouts, counters.fast_retransmits), (0, 1));
}

/// Ten segments, the probe and a timeout of the first: 502 ms.
fn timed_out(mut s: Script) -> Script {
    s.sent();
    assert_eq!(s.wait(ms(510)), "202: 10, 502: 0");
    assert_eq!((s.cwnd(), s.ssthresh()), (1000, 5000));
    s
}

/// RFC 5682, 3.1, steps 2.b and 3.b: two new segments; then a segment arrives that was sent
/// once: the timeout was spurious.
#[test]
fn an_original_after_a_timeout_takes_it_back() {
    let mut s = timed_out(Script::sender(rack(), 200));
    assert_eq!(s.ack(1000), "11 12");
    s.ack(2000);
    assert!(s.cwnd() >= 10_000, "{}", s.cwnd());
    assert_eq!(s.ssthresh(), u64::MAX);
    assert_eq!(s.end.counters().data_segments_repeated, 1);
}

/// Step 3.a: the new data alone arrives: the loss was real.
#[test]
fn new_data_alone_after_a_timeout_shows_that_the_loss_was_real() {
    let mut s = timed_out(Script::sender(rack(), 200));
    assert_eq!(s.ack(1000), "11 12");
    assert_eq!(s.sack(1000, &[(11_000, 12_000)]), "1");
    assert_eq!(s.ssthresh(), 5000);
}

/// Without F-RTO lost segments are sent before new data.
#[test]
fn without_f_rto_an_ack_after_a_timeout_lets_what_is_lost_go() {
    let settings = TcpSettings {
        f_rto: false,
        ..rack()
    };
    let mut s = timed_out(Script::sender(settings, 200));
    assert_eq!(s.ack(1000), "1 2");
}

/// RFC 3522: the ACK echoes a timestamp from before the retransmission.
#[test]
fn an_old_echo_after_a_timeout_takes_it_back() {
    let settings = TcpSettings {
        mss: SMSS as u16 + 12,
        timestamps: true,
        ..rack()
    };
    for (late_ms, is_spurious) in [(510, true), (8, false)] {
        let mut s = timed_out(Script::sender(settings, 200));
        let mut options = s.options(false);
        let echo = s.end.clock(s.now) - late_ms;
        options.timestamps.as_mut().unwrap().tsecr = echo;
        let segment = s.segment(1, Flags::ACK, 1001, options);
        s.deliver(segment, 0);
        assert_eq!(s.cwnd() >= 10_000, is_spurious, "{}", s.cwnd());
    }
}

/// RFC 2883 and 3708: the retransmission was a duplicate.
#[test]
fn a_dsack_takes_fast_recovery_back() {
    let mut s = with_ten_in_flight();
    assert!(s.sack(0, &[(1000, 4000)]).starts_with('0'));
    s.ack(4000);
    assert!(s.end.view().recovering && s.cwnd() < 10_000);
    s.sack(4000, &[(0, 1000)]);
    assert!(!s.end.view().recovering);
    assert!(s.cwnd() >= 10_000, "{}", s.cwnd());
}

/// RFC 2883, 4: the first block reports what has arrived twice.
#[test]
fn a_receiver_reports_duplicates() {
    let mut s = Script::receiver(rack());
    assert_eq!(s.data(0, 1000), "=1000");
    assert_eq!(s.data(0, 1000), "=1000[0-1]");
    assert_eq!(s.data(2000, 3000), "=1000[2-3]");
    assert_eq!(s.data(2000, 3000), "=1000[2-3][2-3]");
    assert_eq!(s.data(1000, 2000), "=3000");
}
