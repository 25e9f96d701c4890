// SPDX-License-Identifier: Apache-2.0
//! Snoop, data of the MH: what the MH is told of a loss on the wireless half and when, and
//! what the gateway makes good on the wired half.

use core::time::Duration;

use holdfast_wire::{Flags, Segment, SeqNum};

use super::bench::{Answer, Bench, LEN, passed, settings, unmet};
use crate::{Action, Direction, Scheme, Settings, SnoopSettings};

fn snoop() -> Settings {
    Settings {
        snoop: SnoopSettings::paper_1995(),
        ..settings(Scheme::Snoop)
    }
}

/// After a handshake with SACK; the FH speaks so much later than the MH.
fn bench_with_sack(settings: Settings) -> Bench {
    let mut bench = unmet(settings);
    bench.sack_permitted = true;
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    assert_eq!(fh_says(&mut bench, 0, &[]), passed());
    bench
}

/// The beginning of the nth packet of the MH.
const fn nth(n: u32) -> u32 {
    5001 + n * LEN
}

/// A data packet of the MH.
fn packet(bench: &Bench, n: u32) -> Segment {
    let mut segment = bench.mh_segment(1);
    (segment.seq, segment.payload_len) = (SeqNum::new(nth(n)), LEN);
    segment
}

fn sends(bench: &mut Bench, n: u32) -> Vec<String> {
    let answer = bench.put(packet(bench, n));
    assert!(answer.forwarded, "data always goes on");
    answer.lines
}

/// These packets, a millisecond apart; all that is said meanwhile.
fn send_all(bench: &mut Bench, packets: impl IntoIterator<Item = u32>) -> Vec<String> {
    let mut lines = Vec::new();
    for n in packets {
        lines.extend(sends(bench, n));
        lines.extend(bench.wait(1));
    }
    lines
}

/// The FH has everything before the nth packet, and these.
fn fh_says(bench: &mut Bench, n: u32, blocks: &[(u32, u32)]) -> Answer {
    let mut segment = bench.fh_segment(1, 0);
    segment.ack = SeqNum::new(nth(n));
    for (left, right) in blocks {
        let pushed = segment
            .options
            .sack
            .push(SeqNum::new(nth(*left)), SeqNum::new(nth(*right)));
        assert!(pushed);
    }
    bench.put(segment)
}

/// A report as the bench writes it, of ranges from one byte up to and not including another.
fn report(bench: &Bench, ack: u32, blocks: &[(u32, u32)]) -> String {
    let blocks: Vec<_> = blocks
        .iter()
        .map(|(left, right)| format!("{left}..{right}"))
        .collect();
    format!(
        "MADE to MH seq 1 ack {ack} ts {} sack {}",
        bench.fh_clock_seen,
        blocks.join(" ")
    )
}

fn data(bench: &Bench, n: u32) -> String {
    let tsval = bench.mh_clock_newest;
    format!("DATA {}..{} ts {tsval}", nth(n), nth(n + 1))
}

const NONE: [String; 0] = [];

#[test]
fn after_three_packets_beyond_a_hole_the_mh_is_told_all_that_has_passed() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [0, 1, 3, 4]), NONE);
    // Of the first byte beyond its ACK nothing can be said.
    let told = report(&bench, nth(0), &[(nth(3), nth(6)), (nth(0) + 1, nth(2))]);
    assert_eq!(sends(&mut bench, 5), [told]);
    assert_eq!(bench.counter("reports"), 1);
}

#[test]
fn a_hole_right_after_the_ack_needs_one_block() {
    let mut bench = bench_with_sack(snoop());
    let told = report(&bench, nth(0), &[(nth(1), nth(4))]);
    assert_eq!(send_all(&mut bench, [1, 2, 3]), [told]);
}

#[test]
fn a_super_segment_counts_as_its_pieces() {
    let mut bench = bench_with_sack(snoop());
    let mut super_segment = packet(&bench, 1);
    super_segment.payload_len = 3 * LEN;
    let told = report(&bench, nth(0), &[(nth(1), nth(4))]);
    assert_eq!(bench.put(super_segment).lines, [told]);
}

#[test]
fn fewer_packets_are_told_of_after_a_wait() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2]), NONE);
    assert_eq!(bench.wait(38), NONE);
    let told = report(&bench, nth(0), &[(nth(1), nth(3))]);
    assert_eq!(bench.wait(1), [told]);
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
    let told = report(&bench, nth(0), &[(nth(1), nth(3))]);
    assert_eq!(bench.wait(8), [told]);
}

#[test]
fn a_hole_that_is_filled_in_time_is_not_told() {
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
    let told = report(&bench, nth(0), &[(nth(1), nth(43))]);
    assert_eq!(send_all(&mut bench, 40..45), [told]);
}

#[test]
fn the_round_trip_is_that_of_the_fhs_timestamp_and_its_echo() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [0]), NONE);
    assert_eq!(fh_says(&mut bench, 0, &[]), passed());
    bench.wait(80);
    // The echo, and three packets beyond a hole.
    assert_eq!(send_all(&mut bench, [2, 3, 4]).len(), 1);
    assert_eq!(send_all(&mut bench, 5..85), NONE);
    assert_eq!(send_all(&mut bench, 85..250).len(), 1);
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
    assert!(after.windows(3).all(|of| of[2] - of[1] > of[1] - of[0]));
    // It speaks, and is told again.
    assert_eq!(send_all(&mut bench, [4]).len(), 1);
}

#[test]
fn a_filled_hole_ends_the_reports_and_its_bytes_are_named_with_the_next() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2, 3]).len(), 1);
    assert_eq!(send_all(&mut bench, [0]), NONE);
    assert_eq!(bench.wait(200), NONE);
    let told = report(&bench, nth(0), &[(nth(5), nth(8)), (nth(0) + 1, nth(4))]);
    assert_eq!(send_all(&mut bench, [5, 6, 7]), [told]);
}

#[test]
fn a_second_hole_is_told_when_three_packets_are_beyond_it() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2, 3]).len(), 1);
    assert_eq!(send_all(&mut bench, [5, 6]), NONE);
    let told = report(&bench, nth(0), &[(nth(5), nth(8)), (nth(1), nth(4))]);
    assert_eq!(send_all(&mut bench, [7]), [told]);
}

#[test]
fn many_ranges_take_several_reports_the_lowest_first() {
    let mut bench = bench_with_sack(snoop());
    let lines = send_all(&mut bench, [1, 3, 5, 7, 9]);
    let ranges = |of: &[u32]| -> Vec<_> { of.iter().map(|n| (nth(*n), nth(n + 1))).collect() };
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
    let mut bench = unmet(snoop());
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    assert_eq!(fh_says(&mut bench, 0, &[]), passed());
    assert_eq!(send_all(&mut bench, [1, 2, 3]), NONE);
    assert_eq!(bench.wait(500), NONE);
    assert_eq!(bench.cached(), 0);
    assert_eq!(fh_says(&mut bench, 0, &[(1, 4)]), passed());
    // What passed before is not kept, so that nothing can be said until the FH has it.
    assert_eq!(send_all(&mut bench, [5, 6, 7]), NONE);
    let told = report(&bench, nth(4), &[(nth(5), nth(8))]);
    assert_eq!(fh_says(&mut bench, 4, &[(5, 8)]).lines, [told]);
}

#[test]
fn what_the_cache_does_not_take_is_not_named_nor_what_lies_beyond() {
    let mut bench = bench_with_sack(Settings {
        flow_cache_bytes_max: 3 * LEN as usize,
        ..snoop()
    });
    let told = report(&bench, nth(0), &[(nth(1), nth(4))]);
    assert_eq!(send_all(&mut bench, 1..4), std::slice::from_ref(&told));
    assert_eq!(send_all(&mut bench, 4..30), NONE);
    assert_eq!(bench.wait(15), [told], "no more than what is kept");
    assert_eq!(bench.cached(), 3 * u64::from(LEN));
}

// ACKs of the FH that end within what was named.

/// Packet 3 is lost; all others up to 6 are named.
fn named_up_to_six() -> Bench {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [0, 1, 2, 4, 5, 6]).len(), 1);
    bench
}

#[test]
fn acks_within_a_named_range_are_held_back_and_its_end_passes() {
    let mut bench = named_up_to_six();
    assert!(!fh_says(&mut bench, 1, &[]).forwarded);
    assert!(!fh_says(&mut bench, 2, &[]).forwarded);
    assert_eq!(fh_says(&mut bench, 3, &[]), passed());
    assert_eq!(
        fh_says(&mut bench, 3, &[(4, 5)]),
        passed(),
        "a report of its own"
    );
    assert_eq!(fh_says(&mut bench, 7, &[]), passed());
    assert_eq!(bench.cached(), 0);
}

#[test]
fn what_is_held_back_is_said_after_a_while() {
    let mut bench = named_up_to_six();
    assert!(!fh_says(&mut bench, 1, &[]).forwarded);
    assert!(!fh_says(&mut bench, 2, &[]).forwarded);
    let said: Vec<_> = bench.wait(150);
    let plain = said.iter().filter(|line| !line.contains("sack"));
    let expected = format!("MADE to MH seq 1 ack {} ts {}", nth(2), bench.fh_clock_seen);
    assert_eq!(plain.collect::<Vec<_>>(), [&expected]);
    // From then on it hears all, and no reports.
    let more = bench.wait(1000);
    assert!(more.iter().all(|line| line.starts_with("DATA")), "{more:?}");
    assert_eq!(fh_says(&mut bench, 3, &[]), passed());
}

#[test]
fn an_ack_with_data_or_an_echo_of_congestion_is_never_held_back() {
    let mut bench = named_up_to_six();
    let mut ack = bench.fh_segment(1, 0);
    (ack.ack, ack.flags) = (SeqNum::new(nth(1)), Flags::ACK.with(Flags::ECE));
    assert_eq!(bench.put(ack), passed());
    let mut bench = named_up_to_six();
    let mut data = bench.fh_segment(1, LEN);
    data.ack = SeqNum::new(nth(1));
    assert_eq!(bench.put(data), passed());
    assert_eq!(fh_says(&mut bench, 2, &[]), passed(), "nor any after it");
}

// Loss on the wired half behind a report.

/// Packet 0 was lost on the wireless half and came again; the FH lacks 1, which was named.
fn named_and_lost() -> Bench {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, [1, 2, 3, 4, 5]).len(), 1);
    assert_eq!(send_all(&mut bench, [0]), NONE);
    bench.wait(10);
    bench
}

#[test]
fn three_duplicate_acks_of_the_fh_have_it_sent_again() {
    let mut bench = named_and_lost();
    assert_eq!(fh_says(&mut bench, 1, &[]).lines, NONE);
    assert_eq!(fh_says(&mut bench, 1, &[]).lines, NONE);
    assert_eq!(fh_says(&mut bench, 1, &[]).lines, NONE);
    let again = data(&bench, 1);
    assert_eq!(fh_says(&mut bench, 1, &[]).lines, [again]);
    assert_eq!(fh_says(&mut bench, 1, &[]).lines, NONE, "once");
    assert_eq!(bench.counter("repaired_uplink"), 1);
    assert_eq!(fh_says(&mut bench, 6, &[]), passed());
}

#[test]
fn reports_of_the_fh_have_it_sent_again() {
    let mut bench = named_and_lost();
    assert_eq!(fh_says(&mut bench, 1, &[(2, 3)]).lines, NONE);
    assert_eq!(fh_says(&mut bench, 1, &[(2, 4)]).lines, NONE);
    let again = data(&bench, 1);
    assert_eq!(fh_says(&mut bench, 1, &[(2, 5)]).lines, [again]);
}

#[test]
fn a_silent_fh_gets_it_again_later_and_later() {
    let mut bench = named_and_lost();
    assert_eq!(fh_says(&mut bench, 1, &[]).lines, NONE);
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
        at.windows(3).all(|of| of[2] - of[1] > of[1] - of[0]),
        "{at:?}"
    );
}

#[test]
fn after_such_a_loss_the_mh_hears_of_losses_from_the_fh_alone_until_that_has_all() {
    let mut bench = named_and_lost();
    for _ in 0..4 {
        fh_says(&mut bench, 1, &[]);
    }
    assert_eq!(bench.counter("repaired_uplink"), 1);
    assert_eq!(send_all(&mut bench, [7, 8, 9]), NONE);
    let told = report(&bench, nth(6), &[(nth(7), nth(10))]);
    assert_eq!(fh_says(&mut bench, 6, &[]).lines, [told]);
}

#[test]
fn a_partial_ack_has_the_next_loss_sent_again() {
    let mut bench = named_and_lost();
    for _ in 0..4 {
        fh_says(&mut bench, 1, &[]);
    }
    let again = data(&bench, 3);
    assert_eq!(fh_says(&mut bench, 3, &[]).lines, [again]);
}

#[test]
fn a_fin_is_kept_and_sent_again_with_its_data() {
    let mut bench = bench_with_sack(snoop());
    let mut last = packet(&bench, 1);
    last.flags = last.flags.with(Flags::FIN).with(Flags::ECE);
    assert_eq!(bench.put(last), passed());
    let told = report(&bench, nth(0), &[(nth(1), nth(2) + 1)]);
    assert_eq!(bench.wait(40), [told]);
    assert_eq!(send_all(&mut bench, [0]), NONE);
    bench.wait(10);
    for _ in 0..3 {
        assert_eq!(fh_says(&mut bench, 1, &[]).lines, NONE);
    }
    let tsval = bench.mh_clock_newest;
    let again = format!("DATA {}..{} FIN ts {tsval}", nth(1), nth(2) + 1);
    assert_eq!(fh_says(&mut bench, 1, &[]).lines, [again]);
}

#[test]
fn what_was_not_named_is_the_mhs_to_send_again() {
    let mut bench = bench_with_sack(snoop());
    assert_eq!(send_all(&mut bench, 0..6), NONE);
    bench.wait(10);
    for _ in 0..6 {
        assert_eq!(fh_says(&mut bench, 1, &[(2, 6)]), passed());
    }
    assert_eq!(bench.wait(5000), NONE);
}

#[test]
fn what_goes_to_the_fh_again_says_the_newest_of_the_mh() {
    let mut bench = named_and_lost();
    bench.forward(1, 2);
    let mut newest = packet(&bench, 6);
    (newest.ack, newest.window) = (SeqNum::new(1 + LEN), 777);
    assert!(bench.put(newest).forwarded);
    let mut actions = Vec::new();
    for _ in 0..4 {
        let mut ack = bench.fh_segment(1 + 2 * LEN, 0);
        ack.ack = SeqNum::new(nth(1));
        let packet = crate::testing::Packet::new(ack, &[], 1);
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
    let resent = resent.expect("sent again");
    assert_eq!((resent.ack, resent.window), (SeqNum::new(1 + LEN), 777));
    assert_eq!(resent.timestamps, newest.options.timestamps);
}

// What is not to be believed.

#[test]
fn blocks_outside_of_what_the_mh_has_sent_are_counted_and_change_nothing() {
    let mut bench = named_and_lost();
    assert_eq!(fh_says(&mut bench, 1, &[]).lines, NONE);
    let before = bench.counter("passed.implausible");
    assert_eq!(fh_says(&mut bench, 1, &[(2, 90)]).lines, NONE);
    assert_eq!(fh_says(&mut bench, 1, &[(5, 2)]).lines, NONE);
    assert_eq!(bench.counter("passed.implausible"), before + 2);
    assert_eq!(bench.counter("repaired_uplink"), 0);
}

#[test]
fn an_ack_of_what_the_mh_never_sent_frees_nothing() {
    let mut bench = named_up_to_six();
    let kept = bench.cached();
    assert_eq!(fh_says(&mut bench, 60, &[]), passed());
    assert_eq!(bench.cached(), kept);
    // One from before says nothing new.
    assert_eq!(fh_says(&mut bench, 3, &[]), passed());
    let kept = bench.cached();
    assert_eq!(fh_says(&mut bench, 1, &[]), passed());
    assert_eq!(bench.cached(), kept);
}

#[test]
fn a_flow_met_in_the_middle_is_reported_of_from_where_it_was_met() {
    let mut bench = unmet(snoop());
    assert_eq!(fh_says(&mut bench, 2, &[]), passed());
    assert_eq!(send_all(&mut bench, [10, 11]), NONE);
    assert_eq!(fh_says(&mut bench, 2, &[(4, 6)]), passed());
    assert_eq!(
        send_all(&mut bench, [12, 13, 15, 16, 17]),
        NONE,
        "3 is not known"
    );
    let told = report(
        &bench,
        nth(12),
        &[(nth(15), nth(18)), (nth(12) + 1, nth(14))],
    );
    assert_eq!(fh_says(&mut bench, 12, &[]).lines, [told]);
}

#[test]
fn a_loss_while_the_mhs_queue_is_long_is_left_to_the_fh() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    assert_eq!(sends(&mut bench, 0), NONE);
    for (n, round_trip) in [(1, 10), (3, 300)] {
        bench.wait(1);
        assert!(fh_says(&mut bench, 0, &[]).forwarded);
        bench.wait(round_trip);
        assert_eq!(sends(&mut bench, n), NONE);
    }
    assert_eq!(send_all(&mut bench, [4, 5, 6]), NONE);
    assert_eq!(bench.wait(1000), NONE);
    assert_eq!(bench.counter("congested_uplink"), 1);
}

#[test]
fn a_new_gateway_passes_what_an_old_one_had_reported() {
    let mut bench = named_and_lost();
    bench.gateway = crate::Gateway::new(snoop());
    // The FH's duplicate ACKs pass; the MH's timeout repairs what was named.
    for _ in 0..5 {
        assert_eq!(fh_says(&mut bench, 1, &[(2, 6)]), passed());
    }
    assert_eq!(send_all(&mut bench, 1..6), NONE);
    assert_eq!(fh_says(&mut bench, 6, &[]), passed());
    assert_eq!(bench.wait(Duration::from_secs(10).as_millis() as u64), NONE);
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
    // An ACK that ends within what was named cannot be held back if it has data with it.
    assert_eq!(send_all(&mut bench, [0, 1, 3, 4, 5]), NONE);
    // It has been quiet for longer than a round trip.
    let told = report(&bench, nth(0), &[(nth(3), nth(6)), (nth(0) + 1, nth(2))]);
    let told = told.replace("seq 1 ", &format!("seq {} ", 1 + LEN));
    assert_eq!(bench.wait(90), NONE);
    assert_eq!(bench.wait(20), [told]);
}

#[test]
fn of_a_hole_of_many_ranges_no_more_is_sent_again_than_has_arrived_and_one() {
    let mut bench = bench_with_sack(snoop());
    bench.wait(1);
    send_all(&mut bench, 1..100);
    assert!(bench.counter("reports") > 0);
    send_all(&mut bench, [0]);
    bench.wait(50);
    // It has the first, and then one far beyond: 48 were overtaken.
    let again = fh_says(&mut bench, 1, &[(49, 60)]).lines;
    assert_eq!(again.len(), 13, "{again:?}");
    assert_eq!(again[0], data(&bench, 1));
    // The first again by the partial ACK.
    let more = fh_says(&mut bench, 3, &[(49, 60)]).lines;
    assert_eq!(more, [3, 14, 15, 16].map(|n| data(&bench, n)));
}

#[test]
fn an_mh_that_had_nothing_to_send_has_no_queue() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    bench.wait(1);
    assert!(fh_says(&mut bench, 0, &[]).forwarded);
    bench.wait(10);
    assert_eq!(sends(&mut bench, 0), NONE);
    bench.wait(10);
    // The FH has all that the MH has sent; the MH has more only later.
    assert!(fh_says(&mut bench, 1, &[]).forwarded);
    bench.wait(1500);
    assert_eq!(send_all(&mut bench, [2, 3, 4]), NONE);
    assert_eq!(bench.counter("congested_uplink"), 0);
}

#[test]
fn an_echo_that_comes_very_late_tells_of_no_queue() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    bench.wait(1);
    assert_eq!(send_all(&mut bench, [0, 1]), NONE);
    assert!(fh_says(&mut bench, 1, &[]).forwarded);
    bench.wait(10);
    assert_eq!(sends(&mut bench, 2), NONE);
    bench.wait(1);
    assert!(fh_says(&mut bench, 2, &[]).forwarded);
    bench.wait(5000);
    assert_eq!(send_all(&mut bench, [4, 5, 6]), NONE);
    assert_eq!(bench.counter("congested_uplink"), 0);
}

#[test]
fn today_nothing_is_reported() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    assert_eq!(send_all(&mut bench, [0, 1, 3, 4, 5, 6]), NONE);
    assert_eq!(bench.wait(100), NONE);
    assert_eq!(fh_says(&mut bench, 2, &[(3, 7)]), passed());
    assert_eq!(bench.wait(1000), NONE);
    assert_eq!(bench.counter("reports"), 0);
}

/// An ACK of the FH as it comes, and what goes to the MH for it.
fn fh_echoes(bench: &mut Bench, n: u32, tsecr: u32) -> Answer {
    let mut segment = bench.fh_segment(1, 0);
    segment.ack = SeqNum::new(nth(n));
    segment.options.timestamps.as_mut().expect("some").tsecr = tsecr;
    let way = Direction::Downlink;
    let packet = crate::testing::Packet::new(segment, &[], LEN);
    let mut actions = Vec::new();
    let now = bench.now;
    let verdict = bench
        .gateway
        .handle_segment(way, &segment, &packet, now, &mut actions);
    let lines = actions.iter().filter_map(|action| match action {
        Action::Send(made) => {
            let own = made.timestamps.expect("some");
            assert_eq!(own.tsval, segment.options.timestamps.expect("some").tsval);
            assert_eq!((made.seq, made.window), (segment.seq, segment.window));
            Some(format!("ack {:?} echo {}", made.ack, own.tsecr))
        }
        _ => None,
    });
    Answer {
        forwarded: verdict == crate::Verdict::Forward,
        lines: lines.collect(),
    }
}

#[test]
fn the_ack_of_a_hole_that_was_filled_echoes_the_clock_from_before() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    assert_eq!(send_all(&mut bench, [0]), NONE);
    let before = bench.clock() + 70_000;
    send_all(&mut bench, [2, 3, 4]);
    bench.wait(30);
    send_all(&mut bench, [1]);
    let newest = bench.mh_clock_newest;
    let expected = format!("ack {} echo {before}", nth(5));
    let Answer { forwarded, lines } = fh_echoes(&mut bench, 5, newest);
    assert!(!forwarded);
    assert_eq!(lines, [expected]);
    assert_eq!(bench.counter("undone_uplink"), 1);
    // And no other.
    send_all(&mut bench, [5]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 6, newest).forwarded);
}

#[test]
fn what_the_mhs_own_queue_or_the_wired_half_has_lost_is_not_undone() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    assert_eq!(sends(&mut bench, 0), NONE);
    for (n, round_trip) in [(1, 10), (3, 300)] {
        bench.wait(1);
        assert!(fh_says(&mut bench, 0, &[]).forwarded);
        bench.wait(round_trip);
        assert_eq!(sends(&mut bench, n), NONE);
    }
    bench.wait(30);
    send_all(&mut bench, [2]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 4, newest).forwarded, "its own queue");
    // The gateway has seen all; the FH lacks 4, and the MH sends it again.
    send_all(&mut bench, [4, 5, 6, 7, 4]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 8, newest).forwarded, "the wired half");
    assert_eq!(bench.counter("undone_uplink"), 0);
}

#[test]
fn as_published_no_ack_of_the_fh_is_touched_for_a_hole_that_was_filled() {
    let mut bench = bench_with_sack(snoop());
    send_all(&mut bench, [0, 2, 3, 4]);
    bench.wait(30);
    send_all(&mut bench, [1]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 5, newest).forwarded);
}

/// These packets, a millisecond apart, each with the echo of what the FH said so many
/// milliseconds before; the FH acknowledges each before the next comes.
fn send_through_a_queue(bench: &mut Bench, packets: core::ops::Range<u32>, millis: u32) {
    for n in packets {
        let mut segment = packet(bench, n);
        let stamps = segment.options.timestamps.as_mut().expect("some");
        stamps.tsecr = bench.clock() - millis;
        assert!(bench.put(segment).forwarded);
        assert_eq!(fh_says(bench, n + 1, &[]), passed());
        bench.wait(1);
    }
}

/// The FH is near and has acknowledged all that passed; the 200th packet is lost behind so
/// long a queue, and comes again. True if the MH is to undo what that has cost.
fn lost_near_the_fh_is_undone(queue_ms: u32) -> bool {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    send_through_a_queue(&mut bench, 0..40, 5);
    send_through_a_queue(&mut bench, 40..200, 5 + queue_ms);
    assert_eq!(send_all(&mut bench, [201, 202, 203]), NONE);
    assert_eq!(fh_says(&mut bench, 200, &[(201, 204)]), passed());
    bench.wait(30);
    send_all(&mut bench, [200]);
    let overload = u64::from(queue_ms > 0);
    assert_eq!(bench.counter("congested_uplink"), overload);
    let newest = bench.mh_clock_newest;
    !fh_echoes(&mut bench, 204, newest).forwarded
}

#[test]
fn the_mhs_own_overload_shows_though_the_fh_lacks_nothing_that_has_passed() {
    assert!(lost_near_the_fh_is_undone(0), "a loss of the wireless half");
    assert!(!lost_near_the_fh_is_undone(80), "its own queue's");
}

#[test]
fn a_loss_of_the_wired_half_is_not_undone_with_one_of_the_wireless_half() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    // 2 is lost before the gateway, and 1 behind it.
    send_all(&mut bench, [0, 1, 3, 4, 5]);
    bench.wait(20);
    assert_eq!(fh_says(&mut bench, 1, &[(3, 6)]), passed());
    send_all(&mut bench, [1, 2]);
    bench.wait(20);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 6, newest).forwarded);
    assert_eq!(bench.counter("undone_uplink"), 0);
    // The next one is.
    send_all(&mut bench, [6, 8, 9, 10]);
    bench.wait(20);
    assert_eq!(fh_says(&mut bench, 7, &[(8, 11)]), passed());
    send_all(&mut bench, [7]);
    bench.wait(20);
    let newest = bench.mh_clock_newest;
    assert!(!fh_echoes(&mut bench, 11, newest).forwarded);
}

/// Without SACK: packet 6 is lost on the wireless half, and perhaps 5 behind the gateway. True
/// if the MH is to undo what that has cost.
fn without_sack_is_undone(lost_behind: bool) -> bool {
    let mut bench = unmet(settings(Scheme::Snoop));
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    for n in 0..5 {
        send_all(&mut bench, [n]);
        bench.wait(9);
        assert_eq!(fh_says(&mut bench, n + 1, &[]), passed());
    }
    // What it echoes with duplicate ACKs (RFC 7323, 4.3).
    let in_sequence = bench.mh_clock_newest;
    send_all(&mut bench, [5, 7, 8, 9, 10]);
    bench.wait(100);
    let lacks = if lost_behind { 5 } else { 6 };
    for _ in 0..4 {
        assert_eq!(fh_echoes(&mut bench, lacks, in_sequence), passed());
    }
    send_all(&mut bench, lacks..7);
    // What it said before it got that.
    assert_eq!(fh_echoes(&mut bench, lacks, in_sequence), passed());
    bench.wait(9);
    let newest = bench.mh_clock_newest;
    !fh_echoes(&mut bench, 11, newest).forwarded
}

#[test]
fn without_sack_three_duplicate_acks_tell_of_a_loss_of_the_wired_half() {
    assert!(without_sack_is_undone(false));
    assert!(!without_sack_is_undone(true));
}
