// SPDX-License-Identifier: Apache-2.0
//! How fast the wireless half is sent to: slow start, round trips, a share of a cell; and who
//! repeats what it loses.

use holdfast_wire::SeqNum;

use super::super::bench::{LEN, SHIFT, bench_with, not_adopted, passed, suppressed};
use super::{ack_at_fh, counts, in_cell, mtcp, with};
use crate::{MtcpSettings, Verdict};

#[test]
fn slow_start_begins_with_a_segment_and_no_timeout_shrinks_its_window() {
    let mut bench = bench_with(with(MtcpSettings::published()));
    let first = bench.down(1, LEN);
    assert_eq!(first, suppressed(&["DATA 1..1001 ts 1000"]));
    for i in 1..8 {
        assert_eq!(bench.down(1 + i * LEN, LEN), suppressed(&[]));
    }
    let (_, lines) = bench.judge(bench.mh_segment(1001));
    let lines = [lines, bench.wait(20)].concat();
    assert_eq!(counts(&lines, "DATA"), 2, "{lines:?}");
    let (_, lines) = bench.judge(bench.mh_segment(3001));
    let lines = [lines, bench.wait(20)].concat();
    assert_eq!(counts(&lines, "DATA"), 4, "{lines:?}");
    // Away and back: as large as it was.
    bench.wait(5000);
    assert_eq!(bench.state(), "shrunk");
    let lines = bench.recovers();
    assert_eq!(counts(&lines, "DATA"), 4, "{lines:?}");
}

#[test]
fn slow_start_doubles_what_goes_out_each_round_trip_whatever_was_delivered_so_far() {
    let mut bench = bench_with(with(MtcpSettings::published()));
    for i in 0..127 {
        let _ = bench.down(1 + i * LEN, LEN);
    }
    let mut sent = Vec::new();
    for round in 0..6 {
        // All of the window is acknowledged at once, 50 ms after it went.
        let lines = bench.wait(50);
        let (_, more) = bench.judge(bench.mh_segment(1 + ((1 << (round + 1)) - 1) * LEN));
        sent.push(counts(&[lines, more, bench.wait(49)].concat(), "DATA"));
    }
    assert_eq!(sent, [2, 4, 8, 16, 32, 64]);
}

#[test]
fn the_round_trip_is_measured_while_the_cache_always_has_something_to_send() {
    let mut bench = bench_with(in_cell(100_000));
    for i in 0..100 {
        let _ = bench.down(1 + i * LEN, LEN);
    }
    // A segment each 10 ms; 50 ms later it is acknowledged.
    for i in 0..40 {
        bench.wait(10);
        if i >= 5 {
            let _ = bench.up(1001 + (i - 5) * LEN);
        }
    }
    let mobile = bench.gateway.mobiles.iter().next().unwrap();
    let srtt = mobile.rtt.srtt().unwrap().as_millis();
    assert!((40..=65).contains(&srtt), "{srtt} ms");
}

/// The numbers that both ends begin with may be any.
#[test]
fn the_round_trip_is_measured_from_numbers_above_2_gib_on_too() {
    let mut bench = not_adopted(in_cell(100_000));
    let first = 0x9000_0001;
    bench.shake_hands(first - 1, 5000);
    assert!(bench.up(first).forwarded);
    for i in 0..100 {
        let _ = bench.down(first + i * LEN, LEN);
    }
    // A segment each 10 ms; 50 ms later it is acknowledged.
    for i in 0..40 {
        bench.wait(10);
        if i >= 5 {
            let _ = bench.up(first + (i - 4) * LEN);
        }
    }
    let mobile = bench.gateway.mobiles.iter().next().unwrap();
    let srtt = mobile.rtt.srtt().unwrap().as_millis();
    assert!((40..=65).contains(&srtt), "{srtt} ms");
}

#[test]
fn after_an_outage_what_it_has_delayed_goes_at_the_rate_of_the_acks_before_it() {
    let mut bench = mtcp();
    // A segment each 10 ms; 50 ms later it is acknowledged.
    for i in 0..40 {
        let _ = bench.down(1 + i * LEN, LEN);
        bench.wait(10);
        if i >= 5 {
            let _ = bench.up(1001 + (i - 5) * LEN);
        }
    }
    bench.link_down();
    for i in 40..90 {
        let _ = bench.down(1 + i * LEN, LEN);
    }
    bench.wait(1_000);
    let lines = [bench.link_up(), bench.wait(100)].concat();
    // A sixteenth more than the rate, and the first segment at once.
    let sent = counts(&lines, "DATA");
    assert!((10..=12).contains(&sent), "{sent} segments in 100 ms");
}

#[test]
fn todays_wireless_half_begins_with_the_window_that_the_fh_begins_with() {
    let mut bench = bench_with(with(MtcpSettings::today()));
    for i in 0..10 {
        let lines = bench.down(1 + i * LEN, LEN);
        assert!(lines.forwarded || counts(&lines.lines, "DATA") == 1);
    }
    assert_eq!(bench.down(10_001, LEN), suppressed(&[]));
}

#[test]
fn without_a_cell_the_fh_retransmits_what_the_wireless_half_loses() {
    let mut bench = mtcp();
    bench.forward(1, 5);
    let _ = ack_at_fh(&mut bench, 1001);
    let mut forwarded = 0;
    for _ in 0..3 {
        let (verdict, lines) = bench.judge(bench.mh_segment(1001));
        assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
        forwarded += i32::from(verdict != Verdict::Suppress);
    }
    assert_eq!(forwarded, 3, "the FH receives the duplicate ACKs");
    assert_eq!(bench.down(1001, LEN), passed());
}

#[test]
fn with_a_cell_the_fh_receives_no_duplicate_ack_of_a_wireless_loss() {
    let mut bench = bench_with(in_cell(10_000_000));
    bench.down(1, LEN);
    for i in 1..5 {
        bench.wait(5);
        bench.down(1 + i * LEN, LEN);
    }
    let _ = ack_at_fh(&mut bench, 1001);
    for _ in 0..3 {
        assert!(!bench.up(1001).forwarded);
    }
    assert!(bench.counter("repaired") > 0);
    let _ = ack_at_fh(&mut bench, 5001);
}

#[test]
fn a_connection_is_paced_to_its_share_of_the_cell() {
    let mut bench = bench_with(in_cell(10_000));
    for i in 0..20 {
        let _ = bench.down(1 + i * LEN, LEN);
    }
    // M-TCP does not freeze within its first RTO of a second.
    let sent = 1 + counts(&bench.wait(990), "DATA");
    assert!((10..=11).contains(&sent), "{sent} segments in a second");
}

/// RFC 9293, 3.8.6: a receiver does not take back what it has offered.
#[test]
fn the_window_of_a_connection_that_was_idle_does_not_shrink_with_its_next_share() {
    let mut bench = bench_with(in_cell(100_000));
    assert_eq!(bench.down(1, LEN), passed());
    let _ = ack_at_fh(&mut bench, 1001);
    bench.wait(200_000);
    assert_eq!(bench.gateway.flows.iter().count(), 0, "in use");
    let edge = |(ack, window): (u32, u16)| ack + (u32::from(window) << SHIFT);
    // A keep-alive's answer.
    let offered = edge(ack_at_fh(&mut bench, 1001));
    let _ = bench.down(1001, LEN);
    let next = edge(ack_at_fh(&mut bench, 2001));
    // Windows are rounded down to their scale.
    assert!(next + (1 << SHIFT) > offered, "{next} after {offered}");
}

#[test]
fn two_connections_share_the_cell() {
    let mut bench = bench_with(in_cell(100_000));
    bench.mh_port = 40_001;
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    let ports = [40_000, 40_001];
    let mut sent = [0; 2];
    let mut next = [1; 2];
    for _ in 0..20 {
        for (flow, port) in ports.into_iter().enumerate() {
            bench.mh_port = port;
            // The first needs all, the second a fifth.
            for _ in 0..[10, 1][flow] {
                let _ = bench.down(next[flow], LEN);
                next[flow] += LEN;
            }
            let _ = bench.up(1);
        }
        bench.wait(50);
    }
    for (flow, port) in ports.into_iter().enumerate() {
        let view = bench.gateway.flows().find(|view| view.key.mh.port == port);
        let flow_at = bench.gateway.flows.find(&view.unwrap().key).unwrap();
        let it = &bench.gateway.flows.at(flow_at).unwrap().flow;
        sent[flow] = it.sent_nxt.distance_from(SeqNum::new(1)) / LEN;
    }
    assert!((18..=20).contains(&sent[1]), "{sent:?}");
    assert!((75..=90).contains(&sent[0]), "{sent:?}");
}
