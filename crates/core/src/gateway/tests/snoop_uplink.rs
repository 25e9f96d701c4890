// SPDX-License-Identifier: Apache-2.0
//! Snoop, data of the MH: what the MH is told of a loss on the wireless half and when, and
//! what the gateway makes good on the wired half.

use core::time::Duration;

use holdfast_wire::{Flags, Segment, SeqNum};

use super::bench::{Answer, Bench, LEN, passed, settings, unmet};
use crate::mobile::LinkEvent;
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
    bench.wait(1);
    assert_eq!(fh_says(&mut bench, 0, &[]), passed());
    bench.wait(80);
    // The echo, and three packets beyond a hole.
    assert_eq!(send_all(&mut bench, [1, 2, 3]).len(), 1);
    assert_eq!(send_all(&mut bench, 4..84), NONE);
    assert_eq!(send_all(&mut bench, 84..250).len(), 1);
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

#[test]
fn an_mh_that_is_away_is_told_when_it_is_back() {
    let mut bench = bench_with_sack(Settings {
        snoop: SnoopSettings::today(),
        ..snoop()
    });
    assert_eq!(bench.say(LinkEvent::Down), NONE);
    assert_eq!(send_all(&mut bench, [1, 2, 3]), NONE);
    assert_eq!(bench.wait(90), NONE);
    // What comes after a round trip tells that it is back.
    bench.wait(200);
    assert_eq!(sends(&mut bench, 4), NONE);
    let told = report(&bench, nth(0), &[(nth(1), nth(5))]);
    assert_eq!(bench.wait(10), [told]);
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
    assert_eq!(bench.counter("passed.implausible"), before + 1);
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
    for round_trip in [10, 300] {
        bench.wait(1);
        assert!(fh_says(&mut bench, 0, &[]).forwarded);
        bench.wait(round_trip);
        let n = if round_trip == 10 { 0 } else { 2 };
        assert_eq!(sends(&mut bench, n), NONE);
    }
    assert_eq!(send_all(&mut bench, [3, 4, 5]), NONE);
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
