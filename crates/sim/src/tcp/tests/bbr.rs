// SPDX-License-Identifier: Apache-2.0
//! A sender with BBR and its pacer, segment by segment (draft-cardwell-iccrg-bbr-congestion-control-00). What BBR
//! makes of its ACKs is tested beside it.

use super::super::settings::WindowIncrease;
use super::*;

fn bbr() -> TcpSettings {
    TcpSettings {
        recovery: LossRecovery::RackTlp,
        sack: true,
        dsack: true,
        initial_window_segments: 10,
        increase: WindowIncrease::Bbr,
        rto: RtoSettings {
            floor: RtoFloor::Variance(ms(200)),
            ..RtoSettings::RFC6298
        },
        ..plain()
    }
}

/// Ten segments in flight, and a round trip of 100 ms later.
fn with_ten_in_flight() -> Script {
    let mut s = Script::sender(bbr(), 200);
    assert_eq!(s.sent(), "0 1 2 3 4 5 6 7 8 9");
    s.now += ms(100);
    s
}

/// 4.2.1 and 4.2.2: the initial window goes at once. Then 100 kB/s times 2.8867 * 0.99 are 285 785 B/s, and two
/// segments take 6.998 ms. The first burst is 100 ms late, which the second makes good by half of that time: 3.5 ms.
/// The window is 20 segments.
#[test]
fn after_the_initial_window_bursts_of_two_segments_go_at_the_rate() {
    let mut s = with_ten_in_flight();
    assert_eq!(s.ack(10_000), "10 11");
    let paced = "3: 12 13, 10: 14 15, 17: 16 17, 24: 18 19, 31: 20 21, 38: 22 23, 45: 24 25, 52: 26 27, 59: 28 29";
    assert_eq!(s.wait(ms(100)), paced);
    assert_eq!(s.cwnd(), 20_000);
}

/// Lost segments are sent first, also at the pacing rate.
#[test]
fn retransmissions_are_paced_and_go_before_new_data() {
    let mut s = with_ten_in_flight();
    // Four are lost: the sender sends as much as has arrived (4.2.3.4).
    assert_eq!(s.sack(0, &[(4000, 10_000)]), "0 1");
    assert!(s.end.view().recovering);
    assert_eq!(s.cwnd(), 6000);
    assert_eq!(s.wait(ms(20)), "3: 2 3, 10: 10 11");
}

/// Linux: no rule of proportional rate reduction; the window is given back when all is repaired. The one segment's
/// time is 3.5 ms; half of it is made good.
#[test]
fn recovery_ends_with_the_window_from_before() {
    let mut s = with_ten_in_flight();
    assert_eq!(s.sack(0, &[(1000, 10_000)]), "0");
    assert_eq!(s.cwnd(), 9000);
    assert_eq!(s.wait(ms(100)), "1: 10 11, 8: 12 13, 15: 14 15, 22: 16 17");
    assert!(s.end.view().recovering);
    s.ack(10_000);
    assert!(!s.end.view().recovering);
    // One more segment is acknowledged.
    assert_eq!(s.cwnd(), 11_000);
}

/// RFC 6298, 5.4: the oldest segment is sent at once; later the window from before returns.
#[test]
fn a_timeout_begins_from_one_segment_and_ends_with_the_window_from_before() {
    let mut s = with_ten_in_flight();
    s.ack(10_000);
    s.wait(ms(100));
    assert_eq!(s.cwnd(), 20_000);
    let sent = s.wait(ms(1500));
    assert!(sent.contains(": 10"), "{sent}");
    assert_eq!(s.end.counters().timeouts, 2);
    assert_eq!(s.cwnd(), 1000);
    s.ack(11_000);
    assert!(s.cwnd() >= 4000, "{}", s.cwnd());
    s.wait(ms(100));
    s.ack(30_000);
    s.ack(31_000);
    assert!(s.cwnd() >= 20_000, "{}", s.cwnd());
}

/// Draft-cheng-iccrg-delivery-rate-estimation, 3.4: after all data was sent, samples show the application's rate.
#[test]
fn the_end_of_the_data_is_noticed() {
    let mut s = Script::sender(bbr(), 5);
    assert_eq!(s.sent(), "0 1 2 3 4F");
    assert!(s.end.tlp.rates.is_app_limited());
    let mut s = with_ten_in_flight();
    s.ack(10_000);
    assert!(!s.end.tlp.rates.is_app_limited());
}

/// BBR needs to know when each segment was delivered.
#[test]
fn without_sack_at_the_other_end_it_is_reno_without_a_pacer() {
    let mut s = Script::new(bbr(), 200_000, true);
    s.end.open(s.now, &mut s.out);
    s.sent();
    s.now += ms(100);
    let mut options = s.options(true);
    options.sack_permitted = false;
    s.deliver(s.segment(0, Flags::SYN.with(Flags::ACK), 1, options), 0);
    s.out.remove(0);
    assert_eq!(s.sent(), "0 1 2 3 4 5 6 7 8 9");
    s.now += ms(100);
    assert_eq!(s.ack(2000), "10 11 12 13");
    assert_eq!(s.cwnd(), 12_000);
}
