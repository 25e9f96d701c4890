// SPDX-License-Identifier: Apache-2.0
//! RFC 6675 and RFC 2018, segment by segment.

use super::*;

fn sack() -> TcpSettings {
    TcpSettings {
        recovery: LossRecovery::Sack,
        sack: true,
        initial_window_segments: 10,
        ..plain()
    }
}

fn with_ten_in_flight() -> Script {
    let mut s = Script::sender(sack(), 200);
    assert_eq!(s.sent(), "0 1 2 3 4 5 6 7 8 9");
    s
}

/// RFC 6675, 5, step 4: RecoveryPoint, halved window, HighRxt, pipe.
#[test]
fn third_ack_with_new_sack_information_begins_recovery() {
    let mut s = with_ten_in_flight();
    assert_eq!(s.sack(0, &[(1000, 2000)]), "");
    assert_eq!(s.sack(0, &[(1000, 3000)]), "");
    assert_eq!(s.sack(0, &[(1000, 4000)]), "0");
    assert_eq!((s.ssthresh(), s.cwnd()), (5000, 5000));
    // Pipe: 0 retransmitted, and 4 to 9; it falls by one an ACK. (C): while cwnd - pipe
    // is a segment or more.
    assert_eq!(s.sack(0, &[(1000, 5000)]), "");
    assert_eq!(s.sack(0, &[(1000, 6000)]), "");
    assert_eq!(s.sack(0, &[(1000, 7000)]), "10");
    assert_eq!(s.sack(0, &[(1000, 8000)]), "11");
    // (A): recovery ends with an ACK of RecoveryPoint.
    assert_eq!(s.ack(9000), "12 13");
    assert!(s.end.view().recovering);
    s.ack(10_000);
    assert!(!s.end.view().recovering);
    assert_eq!(s.cwnd(), 5000);
}

/// RFC 6675, 2: an ACK without anything new is no duplicate.
#[test]
fn acks_without_new_information_begin_nothing() {
    let mut s = with_ten_in_flight();
    assert_eq!(s.sack(0, &[(1000, 2000)]), "");
    for _ in 0..5 {
        assert_eq!(s.sack(0, &[(1000, 2000)]), "");
        assert_eq!(s.ack(0), "");
    }
    assert_eq!(s.end.counters().fast_retransmits, 0);
}

/// RFC 6675, 5, step 2: IsLost (HighACK + 1) counts without three duplicates.
#[test]
fn one_ack_that_reports_enough_begins_recovery() {
    let mut s = with_ten_in_flight();
    assert_eq!(s.sack(0, &[(1000, 3000)]), "");
    assert_eq!(s.sack(0, &[(1000, 5000)]), "0");
    let mut three = with_ten_in_flight();
    let blocks = [(1000, 2000), (3000, 4000), (5000, 6000)];
    let sent = three.sack(0, &blocks);
    assert_eq!(sent.split(' ').next(), Some("0"));
}

/// NextSeg rule 1: holes that are lost go before new data; each once.
#[test]
fn lost_holes_are_filled_in_order_and_once() {
    let mut s = with_ten_in_flight();
    // 0, 2 and 4 are lost.
    s.sack(0, &[(1000, 2000)]);
    s.sack(0, &[(3000, 4000), (1000, 2000)]);
    let blocks = [(1000, 2000), (3000, 4000), (5000, 6000)];
    assert_eq!(s.sack(0, &blocks), "0");
    // 2 is lost now, 4 is not. Pipe: 0 again, 4, 7 to 9.
    let blocks = [(5000, 7000), (1000, 2000), (3000, 4000)];
    assert_eq!(s.sack(0, &blocks), "");
    // 4 is lost too. Pipe: 0 again, 8, 9.
    let blocks = [(5000, 8000), (1000, 2000), (3000, 4000)];
    assert_eq!(s.sack(0, &blocks), "2 4");
    let blocks = [(5000, 9000), (1000, 2000), (3000, 4000)];
    assert_eq!(s.sack(0, &blocks), "10");
    let blocks = [(5000, 10_000), (1000, 2000), (3000, 4000)];
    assert_eq!(s.sack(0, &blocks), "11");
    assert_eq!(s.end.counters().data_segments_repeated, 3);
}

/// NextSeg rule 4: at the end of a transfer the last bytes outstanding, once.
#[test]
fn rescue_repeats_the_last_segment_once() {
    let mut s = Script::sender(sack(), 10);
    assert_eq!(s.sent(), "0 1 2 3 4 5 6 7 8 9F");
    // 0, 8 and 9 are lost.
    s.sack(0, &[(1000, 2000)]);
    s.sack(0, &[(1000, 3000)]);
    assert_eq!(s.sack(0, &[(1000, 4000)]), "0");
    let mut sent = Vec::new();
    for end in 5..=8 {
        sent.push(s.sack(0, &[(1000, end * 1000)]));
    }
    // The last SMSS octets of sequence space, the FIN is one of them. It takes part in
    // pipe: a segment does not fit earlier.
    assert_eq!(sent, ["", "", "", "9001+999F"]);
    assert_eq!(s.ack(8000), "");
}

/// RFC 2018, 8; RFC 6675, 5.1: after a timeout the sender forgets the reports. It does not
/// retransmit what is reported later.
#[test]
fn timeout_forgets_reports_and_learns_from_new_ones() {
    let mut s = with_ten_in_flight();
    s.sack(0, &[(5000, 6000)]);
    s.sack(0, &[(5000, 7000)]);
    assert_eq!(s.wait(ms(1000)), "1000: 0");
    assert_eq!((s.cwnd(), s.ssthresh()), (1000, 5000));
    // 1 to 4 were lost too; the ACK of 0 reports 5 to 7 again.
    assert_eq!(s.sack(1000, &[(5000, 8000)]), "1 2");
    assert_eq!(s.sack(2000, &[(5000, 8000)]), "3 4");
    assert_eq!(s.sack(3000, &[(5000, 8000)]), "8 9");
    // RFC 6675, 5.1: no new recovery before RecoveryPoint.
    assert_eq!(s.end.counters().fast_retransmits, 0);
}

/// RFC 2018, 5: blocks beyond what was sent, or with exchanged edges, are ignored.
#[test]
fn nonsense_blocks_change_nothing() {
    let mut s = with_ten_in_flight();
    s.sack(0, &[(20_000, 30_000)]);
    s.sack(0, &[(3000, 2000)]);
    s.sack(0, &[(9000, 12_000)]);
    assert_eq!(s.end.counters().dup_acks_received, 0);
    s.ack(4000);
    // RFC 2883: a block below the acknowledgement reports a duplicate.
    s.sack(4000, &[(1000, 2000)]);
    assert_eq!(s.end.counters().dup_acks_received, 0);
}

/// Without SACK from the other end the recovery is NewReno's.
#[test]
fn without_sack_at_the_other_end_recovery_is_newreno() {
    let settings = TcpSettings {
        sack: false,
        ..sack()
    };
    let mut s = Script::sender(settings, 200);
    s.sent();
    assert_eq!(s.acks(3, 0), "0");
    assert_eq!(s.cwnd(), 8000);
}
