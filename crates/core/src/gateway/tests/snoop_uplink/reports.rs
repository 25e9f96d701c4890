// SPDX-License-Identifier: Apache-2.0
//! Which losses on the wireless half are reported to the MH, and when.

use holdfast_wire::SeqNum;

use super::super::bench::{Answer, Bench, LEN, not_adopted, passed, settings};
use super::{NONE, bench_with_sack, fh_acks, nth, packet, report, send_all, sends, snoop};
use crate::{Scheme, Settings};

#[test]
fn after_three_packets_beyond_a_hole_all_that_has_passed_is_reported_to_the_mh() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [0, 1, 3, 4]), NONE);
    // A block cannot begin at the first byte beyond its ACK.
    let expected = report(&bench, nth(0), &[(nth(3), nth(6)), (nth(0) + 1, nth(2))]);
    assert_eq!(sends(&mut bench, 5), [expected]);
    assert_eq!(bench.counter("reports"), 1);
}

#[test]
fn a_hole_right_after_the_ack_needs_one_block() {
    let mut bench = bench_with_sack(snoop());
    let expected = report(&bench, nth(0), &[(nth(1), nth(4))]);
    assert_eq!(send_all(&mut bench, [1, 2, 3]), [expected]);
}

#[test]
fn a_super_segment_counts_as_its_pieces() {
    let mut bench = bench_with_sack(snoop());
    let mut super_segment = packet(&bench, 1);
    super_segment.payload_len = 3 * LEN;
    let expected = report(&bench, nth(0), &[(nth(1), nth(4))]);
    assert_eq!(bench.put(super_segment).lines, [expected]);
}

#[test]
fn fewer_packets_are_reported_after_a_delay() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2]), NONE);
    assert_eq!(bench.wait(38), NONE);
    let expected = report(&bench, nth(0), &[(nth(1), nth(3))]);
    assert_eq!(bench.wait(1), [expected]);
}

#[test]
fn new_packets_begin_the_wait_anew_and_old_ones_do_not() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1]), NONE);
    assert_eq!(bench.wait(30), NONE);
    assert_eq!(send_all(&mut bench, [2]), NONE);
    assert_eq!(bench.wait(30), NONE);
    // Not the one that is missing.
    assert_eq!(send_all(&mut bench, [2]), NONE);
    let expected = report(&bench, nth(0), &[(nth(1), nth(3))]);
    assert_eq!(bench.wait(8), [expected]);
}

#[test]
fn what_passed_unseen_below_the_first_packet_is_no_hole() {
    let mut bench = not_adopted(snoop());
    bench.sack_permitted = true;
    bench.shake_hands(0, 5000);
    // 0 to 4 pass unseen, and the FH has acknowledged 0 to 2.
    assert_eq!(fh_acks(&mut bench, 3, &[]), passed());
    assert_eq!(send_all(&mut bench, [5, 6, 7, 8]), NONE);
    assert_eq!(fh_acks(&mut bench, 6, &[]), passed());
    let expected = report(&bench, nth(6), &[(nth(10), nth(13)), (nth(6) + 1, nth(9))]);
    assert_eq!(send_all(&mut bench, [10, 11, 12]), [expected]);
}

#[test]
fn a_hole_that_is_filled_in_time_is_not_reported() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2, 0, 3, 4, 5]), NONE);
    assert_eq!(bench.wait(1000), NONE);
}

#[test]
fn a_report_is_repeated_after_a_round_trip_and_not_before() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2, 3]).len(), 1);
    // Nothing was measured: 40 ms stand for the round trip.
    assert_eq!(send_all(&mut bench, 4..40), NONE);
    let expected = report(&bench, nth(0), &[(nth(1), nth(43))]);
    assert_eq!(send_all(&mut bench, 40..45), [expected]);
}

#[test]
fn the_round_trip_is_that_of_the_fhs_timestamp_and_its_echo() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [0]), NONE);
    assert_eq!(fh_acks(&mut bench, 0, &[]), passed());
    bench.wait(80);
    // The echo, and three packets beyond a hole.
    assert_eq!(send_all(&mut bench, [2, 3, 4]).len(), 1);
    assert_eq!(send_all(&mut bench, 5..85), NONE);
    assert_eq!(send_all(&mut bench, 85..250).len(), 1);
}

#[test]
fn of_even_round_trips_a_report_is_repeated_after_one_and_a_quarter() {
    let mut bench = bench_with_sack(snoop());
    for n in 0..40 {
        assert_eq!(send_all(&mut bench, [n]), NONE);
        assert_eq!(fh_acks(&mut bench, n, &[]), passed());
        bench.wait(39);
    }
    assert_eq!(send_all(&mut bench, [41, 42, 43]).len(), 1);
    let repeated = (1..1000).find(|_| !bench.wait(1).is_empty());
    assert!((45..=50).contains(&repeated.unwrap()), "{repeated:?}");
}

#[test]
fn while_the_mh_is_silent_reports_become_rarer_and_end() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2, 3]).len(), 1);
    let mut reports = 1;
    let mut after = Vec::new();
    for millis in 0..60_000 {
        let lines = bench.wait(1);
        if !lines.is_empty() {
            reports += lines.len();
            after.push(millis);
        }
    }
    assert_eq!(reports, 9, "{after:?}");
    assert!(after.windows(3).all(|at| at[2] - at[1] > at[1] - at[0]));
    // The MH sends, and gets a report again.
    assert_eq!(send_all(&mut bench, [4]).len(), 1);
}

#[test]
fn a_filled_hole_ends_the_reports_and_its_bytes_are_named_with_the_next() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2, 3]).len(), 1);
    assert_eq!(send_all(&mut bench, [0]), NONE);
    assert_eq!(bench.wait(200), NONE);
    let expected = report(&bench, nth(0), &[(nth(5), nth(8)), (nth(0) + 1, nth(4))]);
    assert_eq!(send_all(&mut bench, [5, 6, 7]), [expected]);
}

#[test]
fn a_second_hole_is_reported_when_three_packets_are_beyond_it() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2, 3]).len(), 1);
    assert_eq!(send_all(&mut bench, [5, 6]), NONE);
    let expected = report(&bench, nth(0), &[(nth(5), nth(8)), (nth(1), nth(4))]);
    assert_eq!(send_all(&mut bench, [7]), [expected]);
}

#[test]
fn many_ranges_take_several_reports_the_lowest_first() {
    let mut bench = bench_with_sack(snoop());
    let lines = send_all(&mut bench, [1, 3, 5, 7, 9]);
    let ranges =
        |numbers: &[u32]| -> Vec<_> { numbers.iter().map(|n| (nth(*n), nth(n + 1))).collect() };
    // Two packets lie beyond the third hole, and one beyond the fourth.
    assert_eq!(
        lines.last().unwrap(),
        &report(&bench, nth(0), &ranges(&[5, 3, 1]))
    );
    let all = bench.wait(40);
    let expected = [ranges(&[5, 3, 1]), ranges(&[9, 7])];
    assert_eq!(all, expected.map(|blocks| report(&bench, nth(0), &blocks)));
}

#[test]
fn a_flow_without_sack_is_left_alone_until_the_fh_sends_some() {
    let mut bench = not_adopted(snoop());
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    assert_eq!(fh_acks(&mut bench, 0, &[]), passed());
    assert_eq!(send_all(&mut bench, [1, 2, 3]), NONE);
    assert_eq!(bench.wait(500), NONE);
    assert_eq!(bench.cached(), 0);
    assert_eq!(fh_acks(&mut bench, 0, &[(1, 4)]), passed());
    // What passed before is not cached, so nothing can be reported until the FH has it.
    assert_eq!(send_all(&mut bench, [5, 6, 7]), NONE);
    let expected = report(&bench, nth(4), &[(nth(5), nth(8))]);
    assert_eq!(fh_acks(&mut bench, 4, &[(5, 8)]).lines, [expected]);
}

#[test]
fn what_the_cache_does_not_take_is_not_named_nor_what_lies_beyond() {
    let mut bench = bench_with_sack(Settings {
        flow_cache_bytes_max: 3 * LEN as usize,
        ..snoop()
    });
    let expected = report(&bench, nth(0), &[(nth(1), nth(4))]);
    assert_eq!(send_all(&mut bench, 1..4), std::slice::from_ref(&expected));
    assert_eq!(send_all(&mut bench, 4..30), NONE);
    assert_eq!(bench.wait(15), [expected], "no more than what is cached");
    assert_eq!(bench.cached(), 3 * u64::from(LEN));
}

#[test]
fn for_an_adopted_flow_reports_begin_where_it_was_adopted() {
    let mut bench = not_adopted(snoop());
    assert_eq!(fh_acks(&mut bench, 2, &[]), passed());
    assert_eq!(send_all(&mut bench, [10, 11]), NONE);
    assert_eq!(fh_acks(&mut bench, 2, &[(4, 6)]), passed());
    assert_eq!(
        send_all(&mut bench, [12, 13, 15, 16, 17]),
        NONE,
        "3 is not known"
    );
    let expected = report(
        &bench,
        nth(12),
        &[(nth(15), nth(18)), (nth(12) + 1, nth(14))],
    );
    assert_eq!(fh_acks(&mut bench, 12, &[]).lines, [expected]);
}

#[test]
fn blocks_of_a_report_are_of_no_more_than_three() {
    let mut bench = bench_with_sack(snoop());
    let lines = send_all(&mut bench, (1..40).filter(|n| n % 2 == 1));
    let most = |line: &String| line.matches("..").count() <= 3;
    assert!(!lines.is_empty() && lines.iter().all(most), "{lines:?}");
}

/// A segment of the FH with data of its own, that has everything before the nth packet.
fn fh_sends(bench: &mut Bench, seq: u32, n: u32) -> Answer {
    let mut segment = bench.fh_segment(seq, LEN);
    segment.ack = SeqNum::new(nth(n));
    bench.put(segment)
}

#[test]
fn while_the_fh_sends_data_of_its_own_nothing_is_reported() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(fh_sends(&mut bench, 1, 0), passed());
    // An ACK that ends within a named range cannot be withheld if it carries data.
    assert_eq!(send_all(&mut bench, [0, 1, 3, 4, 5]), NONE);
    // It has been quiet for longer than a round trip.
    let expected = report(&bench, nth(0), &[(nth(3), nth(6)), (nth(0) + 1, nth(2))]);
    let expected = expected.replace("seq 1 ", &format!("seq {} ", 1 + LEN));
    assert_eq!(bench.wait(90), NONE);
    assert_eq!(bench.wait(20), [expected]);
}

#[test]
fn after_data_of_the_fh_reports_wait_for_the_wired_halfs_round_trip_and_a_tenth_of_a_second() {
    let mut bench = bench_with_sack(snoop());
    // The round trips of the wired half: 0, and three of 80 ms.
    for n in 0..3 {
        bench.wait(10);
        assert_eq!(send_all(&mut bench, [n]), NONE);
        bench.wait(79);
        assert_eq!(fh_acks(&mut bench, n + 1, &[]), passed());
    }
    assert_eq!(fh_sends(&mut bench, 1, 3), passed());
    assert_eq!(send_all(&mut bench, [4, 5, 6, 7]), NONE);
    let reported = (5..300).find(|_| !bench.wait(1).is_empty());
    assert_eq!(reported, Some(127), "26 ms, by RFC 6298, and 100 ms");
}

#[test]
fn today_nothing_is_reported() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    assert_eq!(send_all(&mut bench, [0, 1, 3, 4, 5, 6]), NONE);
    assert_eq!(bench.wait(100), NONE);
    assert_eq!(fh_acks(&mut bench, 2, &[(3, 7)]), passed());
    assert_eq!(bench.wait(1000), NONE);
    assert_eq!(bench.counter("reports"), 0);
}

#[test]
fn a_hole_before_the_first_data_of_a_connection_seen_from_its_start_is_reported() {
    let mut bench = not_adopted(snoop());
    bench.sack_permitted = true;
    bench.shake_hands(0, 5000);
    // The radio has lost the MH's ACK and its first packet. The FH sends first.
    assert_eq!(fh_acks(&mut bench, 0, &[]), passed());
    let expected = report(&bench, nth(0), &[(nth(1), nth(4))]);
    assert_eq!(send_all(&mut bench, [1, 2, 3]), [expected]);
}
