// SPDX-License-Identifier: Apache-2.0
//! Snoop for today's senders: what is found to be lost, when, and what the FH hears.

use holdfast_wire::{Flags, SackBlocks, SeqNum};

use super::bench::{Answer, Bench, LEN, bench_with, kept_back, passed, settings};
use crate::{Scheme, Settings, Verdict};

fn snoop() -> Settings {
    settings(Scheme::Snoop)
}

const FIRST: u32 = 1 + LEN;

/// The beginning of the nth packet under way.
fn nth(n: u32) -> u32 {
    FIRST + n * LEN
}

/// Ten packets are on their way, one a millisecond; the wireless round trip is 20 ms.
fn ten_under_way() -> Bench {
    let mut bench = bench_with(snoop());
    bench.forward(1, 1);
    bench.wait(20);
    assert_eq!(bench.up(FIRST), passed());
    for n in 0..10 {
        bench.forward(nth(n), 1);
        bench.wait(1);
    }
    bench.wait(10);
    bench
}

fn blocks(ranges: &[(u32, u32)]) -> SackBlocks {
    let mut blocks = SackBlocks::default();
    for (left, right) in ranges {
        assert!(blocks.push(SeqNum::new(*left), SeqNum::new(*right)));
    }
    blocks
}

/// An ACK with these blocks.
fn up(bench: &mut Bench, ack: u32, ranges: &[(u32, u32)]) -> Answer {
    let mut segment = bench.mh_segment(ack);
    segment.options.sack = blocks(ranges);
    bench.put(segment)
}

/// The same, with the whole verdict.
fn judge(bench: &mut Bench, ack: u32, ranges: &[(u32, u32)]) -> (Verdict, Vec<String>) {
    let mut segment = bench.mh_segment(ack);
    segment.options.sack = blocks(ranges);
    bench.judge(segment)
}

fn retransmits(bench: &Bench, n: u32) -> String {
    let newest = bench.fh_clock_seen;
    format!("DATA {}..{} ts {newest}", nth(n), nth(n + 1))
}

#[test]
fn a_loss_is_repaired_and_the_fh_does_not_hear_of_it() {
    let mut bench = ten_under_way();
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(2))]), kept_back(&[]));
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(3))]), kept_back(&[]));
    // Three segments beyond.
    let first = retransmits(&bench, 0);
    assert_eq!(
        up(&mut bench, nth(0), &[(nth(1), nth(4))]),
        kept_back(&[&first])
    );
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(5))]), kept_back(&[]));
    bench.wait(20);
    assert_eq!(bench.up(nth(10)), passed());
    assert_eq!(bench.counter("repaired"), 1);
}

#[test]
fn several_holes_are_repaired_at_once() {
    let mut bench = ten_under_way();
    let blocks = [(nth(5), nth(9)), (nth(3), nth(4)), (nth(1), nth(2))];
    let lost = [0, 2, 4].map(|n| retransmits(&bench, n));
    let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
    assert_eq!(up(&mut bench, nth(0), &blocks), kept_back(&lost));
}

#[test]
fn a_loss_near_the_end_is_found_by_its_time() {
    let mut bench = ten_under_way();
    assert_eq!(bench.up(nth(8)), passed());
    assert_eq!(up(&mut bench, nth(8), &[(nth(9), nth(10))]), kept_back(&[]));
    let lost = retransmits(&bench, 8);
    assert_eq!(bench.wait(10), [lost]);
}

#[test]
fn the_last_packets_of_a_burst_are_found_by_a_probe() {
    let mut bench = ten_under_way();
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(2))]), kept_back(&[]));
    assert_eq!(bench.up(nth(5)), passed());
    // Nothing more comes: the last one is asked for.
    let last = retransmits(&bench, 9);
    let sent = bench.wait(60);
    assert_eq!(sent, [last]);
    let lost = [5, 6, 7, 8].map(|n| retransmits(&bench, n));
    bench.wait(20);
    let Answer { forwarded, lines } = up(&mut bench, nth(5), &[(nth(9), nth(10))]);
    assert!(!forwarded);
    let mut found = lines;
    found.extend(bench.wait(10));
    assert_eq!(found, lost);
}

#[test]
fn a_retransmission_that_is_lost_too_is_repeated() {
    let mut bench = ten_under_way();
    let first = retransmits(&bench, 0);
    let sent = up(&mut bench, nth(0), &[(nth(1), nth(10))]);
    assert_eq!(sent, kept_back(&[&first]));
    // No answer for twice srtt.
    let again = bench.wait(60);
    assert_eq!(again[0], first, "{again:?}");
}

#[test]
fn a_new_ack_passes_without_the_reports() {
    let mut bench = ten_under_way();
    let (verdict, _) = judge(&mut bench, nth(2), &[(nth(3), nth(4))]);
    assert_eq!(verdict, Verdict::ForwardWithSack(SackBlocks::default()));
}

#[test]
fn a_d_sack_passes_if_the_fh_has_sent_it_twice_and_not_if_the_gateway_has() {
    let mut bench = ten_under_way();
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(9))]).lines.len(), 1);
    bench.wait(20);
    assert_eq!(bench.up(nth(10)), passed());
    // The gateway's retransmission was one too many: nobody need know.
    assert!(!forwards_whole(&mut bench, nth(10), (nth(0), nth(1))));
    // The FH's: it undoes its window's reduction by that.
    assert_eq!(bench.down(nth(9), LEN), passed());
    assert!(forwards_whole(&mut bench, nth(10), (nth(9), nth(10))));
}

fn forwards_whole(bench: &mut Bench, ack: u32, block: (u32, u32)) -> bool {
    up(bench, ack, &[block]).forwarded
}

#[test]
fn of_a_loss_while_the_queue_is_long_the_fh_hears_once() {
    let mut bench = ten_under_way();
    assert_eq!(bench.up(nth(4)), passed());
    // Everything takes 200 ms longer than at the beginning.
    bench.wait(150);
    assert_eq!(bench.up(nth(5)), passed());
    // Three segments beyond make a loss, of the first hole alone.
    let told = [(nth(9), nth(10)), (nth(6), nth(8))];
    let (verdict, lines) = judge(&mut bench, nth(5), &told);
    assert_eq!(
        verdict,
        Verdict::ForwardWithSack(blocks(&[(nth(6), nth(8)), (nth(9), nth(10))]))
    );
    assert_eq!(lines, [] as [String; 0], "both holes are the FH's");
    assert_eq!(bench.counter("congested"), 1);
    assert_eq!(bench.down(nth(5), LEN), passed());
    assert_eq!(bench.down(nth(8), LEN), passed());
    assert_eq!(bench.up(nth(10)), passed());
    bench.forward(nth(10), 5);
    bench.wait(20);
    let sent = up(&mut bench, nth(10), &[(nth(11), nth(15))]);
    assert_eq!(
        (sent.forwarded, sent.lines.len()),
        (false, 1),
        "hidden again"
    );
}

#[test]
fn a_hole_is_hidden_for_less_than_the_fhs_timeout() {
    let mut bench = ten_under_way();
    assert!(!up(&mut bench, nth(0), &[(nth(1), nth(4))]).forwarded);
    bench.wait(120);
    assert!(!up(&mut bench, nth(0), &[(nth(1), nth(5))]).forwarded);
    bench.wait(120);
    // RTO: 200 ms and the round trip.
    assert!(up(&mut bench, nth(0), &[(nth(1), nth(6))]).forwarded);
    assert_eq!(bench.counter("shown_late"), 1);
}

#[test]
fn an_echo_of_congestion_always_passes() {
    let mut bench = ten_under_way();
    let mut ack = bench.mh_segment(nth(0));
    ack.flags = ack.flags.with(Flags::ECE);
    ack.options.sack = blocks(&[(nth(1), nth(2))]);
    let (verdict, _) = bench.judge(ack);
    assert_eq!(verdict, Verdict::ForwardWithSack(SackBlocks::default()));
}

#[test]
fn an_outage_is_survived_as_by_hold() {
    let mut bench = ten_under_way();
    assert_eq!(bench.goes_down(), [] as [String; 0]);
    assert!(!bench.down(nth(10), LEN).forwarded);
    let sent = bench.recovers();
    assert!(!sent.is_empty(), "what was kept is sent on");
}

#[test]
fn a_flow_without_sack_gets_the_next_hole_repaired_by_a_partial_ack() {
    let mut bench = ten_under_way();
    let first = retransmits(&bench, 0);
    assert_eq!(bench.up(nth(0)), kept_back(&[&first]));
    let second = retransmits(&bench, 3);
    let answer = bench.up(nth(3));
    assert_eq!((answer.forwarded, answer.lines), (true, vec![second]));
}

#[test]
fn of_what_the_wired_half_has_lost_the_fh_hears_at_once() {
    let mut bench = ten_under_way();
    assert_eq!(bench.up(nth(10)), passed());
    // The tenth never came.
    bench.forward(nth(11), 3);
    bench.wait(20);
    assert_eq!(up(&mut bench, nth(10), &[(nth(11), nth(14))]), passed());
}

#[test]
fn while_the_mh_is_away_nothing_is_repaired() {
    let mut bench = ten_under_way();
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(10))]).lines.len(), 1);
    assert_eq!(bench.goes_down(), [] as [String; 0]);
    let probes = bench.wait(500);
    let first = retransmits(&bench, 0);
    assert!(probes.iter().all(|sent| *sent == first), "{probes:?}");
    assert_eq!(probes.len() as u64, bench.counter("probes"));
}
