// SPDX-License-Identifier: Apache-2.0
//! Loss on the wired half behind a report: what the gateway makes good there, and what it
//! believes of it.

use core::time::Duration;

use holdfast_wire::{Flags, SeqNum};

use super::super::bench::{Bench, LEN, not_adopted, passed};
use super::{NONE, bench_with_sack, data, fh_acks, nth, packet, report, send_all, snoop};
use crate::{Action, Direction, testing::Packet};

/// Packet 0 was lost on the wireless half and came again; the FH lacks 1, which was named.
fn named_and_lost() -> Bench {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2, 3, 4, 5]).len(), 1);
    assert_eq!(send_all(&mut bench, [0]), NONE);
    bench.wait(10);
    bench
}

#[test]
fn after_three_duplicate_acks_of_the_fh_the_gateway_retransmits() {
    let mut bench = named_and_lost();
    assert_eq!(fh_acks(&mut bench, 1, &[]).lines, NONE);
    assert_eq!(fh_acks(&mut bench, 1, &[]).lines, NONE);
    assert_eq!(fh_acks(&mut bench, 1, &[]).lines, NONE);
    let again = data(&bench, 1);
    assert_eq!(fh_acks(&mut bench, 1, &[]).lines, [again]);
    assert_eq!(fh_acks(&mut bench, 1, &[]).lines, NONE, "once");
    assert_eq!(bench.counter("repaired_uplink"), 1);
    assert_eq!(fh_acks(&mut bench, 6, &[]), passed());
}

#[test]
fn after_reports_of_the_fh_the_gateway_retransmits() {
    let mut bench = named_and_lost();
    assert_eq!(fh_acks(&mut bench, 1, &[(2, 3)]).lines, NONE);
    assert_eq!(fh_acks(&mut bench, 1, &[(2, 4)]).lines, NONE);
    let again = data(&bench, 1);
    assert_eq!(fh_acks(&mut bench, 1, &[(2, 5)]).lines, [again]);
}

#[test]
fn the_packet_at_the_ack_is_retransmitted_though_its_first_byte_cannot_be_named() {
    let mut bench = bench_with_sack(snoop());
    // The wireless half has lost 2, and the wired half 0.
    let expected = report(&bench, nth(0), &[(nth(3), nth(6)), (nth(0) + 1, nth(2))]);
    assert_eq!(send_all(&mut bench, [0, 1, 3, 4, 5]), [expected]);
    bench.wait(10);
    let mut lines = Vec::new();
    for _ in 0..3 {
        lines.extend(fh_acks(&mut bench, 0, &[]).lines);
    }
    assert_eq!(lines, [data(&bench, 0)]);
}

#[test]
fn duplicate_acks_from_before_a_packet_can_be_answered_do_not_show_its_loss() {
    for (wait_ms, is_lost) in [(1, false), (20, true)] {
        let mut bench = not_adopted(snoop());
        bench.sack_permitted = true;
        bench.shake_hands(0, 5000);
        assert!(bench.up(1).forwarded);
        bench.wait(20);
        assert_eq!(fh_acks(&mut bench, 0, &[]), passed());
        // The wireless half has lost 1, and then 5. The second report names 1, which has just passed.
        assert_eq!(send_all(&mut bench, [0]), NONE);
        let echo = bench.mh_clock_newest;
        assert_eq!(send_all(&mut bench, [2, 3, 4]).len(), 1);
        bench.wait(10);
        let expected = report(&bench, nth(0), &[(nth(6), nth(9)), (nth(0) + 1, nth(5))]);
        assert_eq!(send_all(&mut bench, [1, 6, 7, 8]), [expected]);
        bench.wait(wait_ms);
        let again = data(&bench, 1);
        let mut lines = Vec::new();
        // The ACK of 0, and one for each of 2, 3 and 4.
        for _ in 0..4 {
            lines.extend(bench.wait(1));
            let mut ack = bench.fh_segment(1, 0);
            ack.ack = SeqNum::new(nth(1));
            let timestamps = ack.options.timestamps.as_mut();
            timestamps.expect("timestamps").tsecr = echo;
            lines.extend(bench.put(ack).lines);
        }
        assert_eq!(lines.contains(&again), is_lost, "{lines:?}");
    }
}

#[test]
fn a_silent_fh_gets_retransmissions_at_growing_intervals() {
    let mut bench = named_and_lost();
    assert_eq!(fh_acks(&mut bench, 1, &[]).lines, NONE);
    let mut at = Vec::new();
    for millis in 0..100_000 {
        for line in bench.wait(1) {
            if line.starts_with("DATA") {
                assert_eq!(line, data(&bench, 1));
                at.push(millis);
            }
        }
    }
    assert_eq!(at.len(), 5, "then it is the MH's: {at:?}");
    assert!(
        at.windows(3).all(|at| at[2] - at[1] > at[1] - at[0]),
        "{at:?}"
    );
}

#[test]
fn after_such_a_loss_only_the_fh_reports_losses_to_the_mh_until_the_fh_has_all() {
    let mut bench = named_and_lost();
    for _ in 0..4 {
        fh_acks(&mut bench, 1, &[]);
    }
    assert_eq!(bench.counter("repaired_uplink"), 1);
    assert_eq!(send_all(&mut bench, [7, 8, 9]), NONE);
    let expected = report(&bench, nth(6), &[(nth(7), nth(10))]);
    assert_eq!(fh_acks(&mut bench, 6, &[]).lines, [expected]);
}

#[test]
fn after_a_partial_ack_the_next_loss_is_retransmitted() {
    let mut bench = named_and_lost();
    for _ in 0..4 {
        fh_acks(&mut bench, 1, &[]);
    }
    let again = data(&bench, 3);
    assert_eq!(fh_acks(&mut bench, 3, &[]).lines, [again]);
}

#[test]
fn a_fin_is_cached_and_retransmitted_with_its_data() {
    let mut bench = bench_with_sack(snoop());
    let mut last = packet(&bench, 1);
    last.flags = last.flags.with(Flags::FIN).with(Flags::ECE);
    assert_eq!(bench.put(last), passed());
    let expected = report(&bench, nth(0), &[(nth(1), nth(2) + 1)]);
    assert_eq!(bench.wait(40), [expected]);
    assert_eq!(send_all(&mut bench, [0]), NONE);
    bench.wait(10);
    for _ in 0..3 {
        assert_eq!(fh_acks(&mut bench, 1, &[]).lines, NONE);
    }
    let tsval = bench.mh_clock_newest;
    let again = format!("DATA {}..{} FIN ts {tsval}", nth(1), nth(2) + 1);
    assert_eq!(fh_acks(&mut bench, 1, &[]).lines, [again]);
}

#[test]
fn what_was_not_named_is_the_mhs_to_send_again() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, 0..6), NONE);
    bench.wait(10);
    for _ in 0..6 {
        assert_eq!(fh_acks(&mut bench, 1, &[(2, 6)]), passed());
    }
    assert_eq!(bench.wait(5000), NONE);
}

#[test]
fn a_retransmission_to_the_fh_has_the_newest_ack_window_and_timestamps_of_the_mh() {
    let mut bench = named_and_lost();
    bench.forward(1, 2);
    let mut newest = packet(&bench, 6);
    (newest.ack, newest.window) = (SeqNum::new(1 + LEN), 777);
    assert!(bench.put(newest).forwarded);
    let mut actions = Vec::new();
    for _ in 0..4 {
        let mut ack = bench.fh_segment(1 + 2 * LEN, 0);
        ack.ack = SeqNum::new(nth(1));
        let packet = Packet::new(ack, &[], 1);
        let now = bench.now;
        let way = Direction::Downlink;
        let _ = bench
            .gateway
            .handle_segment(way, &ack, &packet, now, &mut actions);
    }
    let resent = actions.iter().find_map(|action| match action {
        Action::Resend(resend) if resend.direction == Direction::Uplink => Some(resend),
        _ => None,
    });
    let resent = resent.expect("retransmitted");
    assert_eq!((resent.ack, resent.window), (SeqNum::new(1 + LEN), 777));
    assert_eq!(resent.timestamps, newest.options.timestamps);
}

#[test]
fn blocks_outside_of_what_the_mh_has_sent_are_counted_and_change_nothing() {
    let mut bench = named_and_lost();
    assert_eq!(fh_acks(&mut bench, 1, &[]).lines, NONE);
    let before = bench.counter("passed.implausible");
    assert_eq!(fh_acks(&mut bench, 1, &[(2, 90)]).lines, NONE);
    assert_eq!(fh_acks(&mut bench, 1, &[(5, 2)]).lines, NONE);
    assert_eq!(bench.counter("passed.implausible"), before + 2);
    assert_eq!(bench.counter("repaired_uplink"), 0);
}

#[test]
fn a_new_gateway_passes_what_an_old_one_had_reported() {
    let mut bench = named_and_lost();
    bench.gateway = crate::Gateway::new(snoop());
    // The FH's duplicate ACKs pass; the MH's timeout repairs what was named.
    for _ in 0..5 {
        assert_eq!(fh_acks(&mut bench, 1, &[(2, 6)]), passed());
    }
    assert_eq!(send_all(&mut bench, 1..6), NONE);
    assert_eq!(fh_acks(&mut bench, 6, &[]), passed());
    assert_eq!(bench.wait(Duration::from_secs(10).as_millis() as u64), NONE);
}

#[test]
fn of_a_hole_of_many_ranges_no_more_is_retransmitted_than_has_arrived_and_one_segment() {
    let mut bench = bench_with_sack(snoop());
    bench.wait(1);
    send_all(&mut bench, 1..100);
    assert!(bench.counter("reports") > 0);
    send_all(&mut bench, [0]);
    bench.wait(50);
    // It has the first, and then one far beyond: 48 were overtaken.
    let again = fh_acks(&mut bench, 1, &[(49, 60)]).lines;
    assert_eq!(again.len(), 13, "{again:?}");
    assert_eq!(again[0], data(&bench, 1));
    // The first again by the partial ACK.
    let more = fh_acks(&mut bench, 3, &[(49, 60)]).lines;
    assert_eq!(more, [3, 14, 15, 16].map(|n| data(&bench, n)));
}
