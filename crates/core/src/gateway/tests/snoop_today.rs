// SPDX-License-Identifier: Apache-2.0
//! Snoop for today's senders: which segments count as lost, when, and what the FH receives.

use holdfast_wire::{Flags, SackBlocks, SeqNum, Timestamps};

use super::bench::{Answer, Bench, LEN, bench_with, not_adopted, passed, settings, suppressed};
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
    ten_under_way_with(snoop())
}

fn ten_under_way_with(settings: Settings) -> Bench {
    let mut bench = bench_with(settings);
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
fn a_loss_is_retransmitted_and_the_fh_does_not_see_it() {
    let mut bench = ten_under_way();
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(2))]), suppressed(&[]));
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(3))]), suppressed(&[]));
    // Three segments beyond.
    let first = retransmits(&bench, 0);
    assert_eq!(
        up(&mut bench, nth(0), &[(nth(1), nth(4))]),
        suppressed(&[&first])
    );
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(5))]), suppressed(&[]));
    bench.wait(20);
    assert_eq!(bench.up(nth(10)), passed());
    assert_eq!(bench.counter("repaired"), 1);
}

#[test]
fn until_the_radio_has_lost_something_a_hole_with_the_longest_queue_is_reported_to_the_fh() {
    let mut bench = ten_under_way();
    bench.wait(150);
    assert_eq!(bench.up(nth(4)), passed());
    for last in 6..9 {
        assert_eq!(up(&mut bench, nth(4), &[(nth(5), nth(last))]), passed());
    }
    assert_eq!(bench.counter("repaired"), 0);
    // Its copy.
    assert_eq!(bench.down(nth(4), LEN), passed());
    assert_eq!(bench.up(nth(10)), passed());
    // The queue is short now.
    bench.forward(nth(10), 5);
    bench.wait(20);
    let lost = retransmits(&bench, 10);
    let sent = up(&mut bench, nth(10), &[(nth(11), nth(14))]);
    assert_eq!(sent, suppressed(&[&lost]));
}

/// A flow begins, and one of its packets is lost while its queue is the longest so far. True if
/// the duplicate ACK passes to the FH.
fn reports_loss_with_the_longest_queue(bench: &mut Bench) -> bool {
    bench.mh_port += 1;
    bench.shake_hands(0, 5000);
    bench.up(1);
    bench.forward(1, 11);
    bench.wait(150);
    bench.up(nth(4));
    up(bench, nth(4), &[(nth(5), nth(8))]).forwarded
}

#[test]
fn what_one_flow_has_found_of_the_radio_all_flows_of_the_mh_know_for_a_minute() {
    // A flow finds a loss, or not; it goes on for some seconds without any.
    let reports = |found: bool, seconds: u32| {
        let mut bench = ten_under_way();
        if found {
            assert!(!up(&mut bench, nth(0), &[(nth(1), nth(2))]).forwarded);
        }
        bench.up(nth(10));
        for n in 0..seconds {
            bench.forward(nth(10 + n), 1);
            bench.wait(20);
            assert_eq!(bench.up(nth(11 + n)), passed());
            bench.wait(980);
        }
        reports_loss_with_the_longest_queue(&mut bench)
    };
    assert!(reports(false, 0));
    assert!(!reports(true, 0));
    assert!(!reports(true, 59));
    assert!(reports(true, 61));
}

#[test]
fn several_holes_are_retransmitted_at_once() {
    let mut bench = ten_under_way();
    let blocks = [(nth(5), nth(9)), (nth(3), nth(4)), (nth(1), nth(2))];
    let lost = [0, 2, 4].map(|n| retransmits(&bench, n));
    let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
    assert_eq!(up(&mut bench, nth(0), &blocks), suppressed(&lost));
}

#[test]
fn a_loss_near_the_end_is_found_by_its_time() {
    let mut bench = ten_under_way();
    assert_eq!(bench.up(nth(8)), passed());
    assert_eq!(
        up(&mut bench, nth(8), &[(nth(9), nth(10))]),
        suppressed(&[])
    );
    let lost = retransmits(&bench, 8);
    assert_eq!(bench.wait(10), [lost]);
}

#[test]
fn the_last_packets_of_a_burst_are_found_by_a_probe() {
    let mut bench = ten_under_way();
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(2))]), suppressed(&[]));
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
fn losses_that_a_probe_with_a_fin_has_found_are_retransmitted_in_whole_segments() {
    let mut bench = ten_under_way();
    let mut fin = bench.fh_segment(nth(10), 0);
    fin.flags = fin.flags.with(Flags::FIN);
    assert_eq!(bench.put(fin), passed());
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(2))]), suppressed(&[]));
    assert_eq!(bench.up(nth(5)), passed());
    let probe = format!("DATA {}..{} FIN ts 1040", nth(10), nth(10) + 1);
    assert_eq!(bench.wait(60), [probe]);
    bench.wait(20);
    let mut found = up(&mut bench, nth(5), &[(nth(10), nth(10) + 1)]).lines;
    found.extend(bench.wait(30));
    let lost = [5, 6, 7, 8, 9].map(|n| retransmits(&bench, n));
    assert_eq!(found, lost);
}

#[test]
fn a_retransmission_that_is_lost_too_is_repeated() {
    let mut bench = ten_under_way();
    let first = retransmits(&bench, 0);
    let sent = up(&mut bench, nth(0), &[(nth(1), nth(10))]);
    assert_eq!(sent, suppressed(&[&first]));
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
    // The gateway's retransmission was unnecessary: that is not reported to the FH.
    assert!(!forwards_whole(&mut bench, nth(10), (nth(0), nth(1))));
    // The FH's: it undoes its window's reduction by that.
    assert_eq!(bench.down(nth(9), LEN), passed());
    assert!(forwards_whole(&mut bench, nth(10), (nth(9), nth(10))));
}

fn forwards_whole(bench: &mut Bench, ack: u32, block: (u32, u32)) -> bool {
    up(bench, ack, &[block]).forwarded
}

/// A loss while everything takes 200 ms longer than at the beginning. It is repaired as always,
/// and once the hole is filled it is reported to the FH.
fn congestion_to_report() -> Bench {
    let mut settings = snoop();
    settings.snoop.congested_rtts = 0.5;
    let mut bench = ten_under_way_with(settings);
    bench.forward(nth(10), 3);
    // The radio loses something.
    let second = retransmits(&bench, 1);
    let sent = up(&mut bench, nth(1), &[(nth(2), nth(5))]);
    assert_eq!(sent, suppressed(&[&second]));
    assert!(bench.up(nth(5)).forwarded);
    bench.wait(150);
    let sack = [(nth(9), nth(10)), (nth(6), nth(8))];
    let lost = [5, 8].map(|n| retransmits(&bench, n));
    let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
    assert_eq!(up(&mut bench, nth(5), &sack), suppressed(&lost[..1]));
    assert_eq!(bench.counter("congested"), 0);
    bench
}

#[test]
fn a_loss_while_the_queue_is_long_is_reported_to_the_fh_once() {
    let mut bench = congestion_to_report();
    let answer = bench.up(nth(11));
    let dup_ack = format!("ACK {} wnd 1000 seq 5001", nth(5));
    assert!(!answer.forwarded);
    assert_eq!(answer.lines.len(), 3, "{answer:?}");
    assert!(answer.lines.iter().all(|line| line.starts_with(&dup_ack)));
    assert_eq!(bench.counter("congested"), 1);
    // The MH's ACKs wait for the FH's answer, which is suppressed.
    assert_eq!(bench.up(nth(12)), suppressed(&[]));
    bench.wait(1);
    let released = bench.down(nth(5), LEN);
    assert!(!released.forwarded);
    assert!(
        is_ack_without_echo(&released.lines, nth(12)),
        "{released:?}"
    );
    // Once a window.
    bench.forward(nth(13), 5);
    bench.wait(20);
    let sent = up(&mut bench, nth(13), &[(nth(14), nth(17))]);
    assert_eq!(
        (sent.forwarded, sent.lines.len()),
        (false, 1),
        "hidden again"
    );
}

/// It would give the FH a round trip without the wireless half.
fn is_ack_without_echo(lines: &[String], ack: u32) -> bool {
    let begin = format!("ACK {ack} wnd 100");
    lines.len() == 1 && lines[0].starts_with(&begin) && lines[0].ends_with(",0")
}

#[test]
fn an_older_echo_than_the_fhs_answer_is_removed_from_the_acks_that_follow() {
    let mut bench = congestion_to_report();
    bench.up(nth(11));
    bench.wait(1);
    let newest = bench.clock();
    assert_eq!(bench.down(nth(5), LEN).lines.len(), 1);
    let mut ack = bench.mh_segment(nth(12));
    ack.options.timestamps = ack.options.timestamps.map(|ts| Timestamps {
        tsecr: newest - 1,
        ..ts
    });
    let answer = bench.put(ack);
    assert!(!answer.forwarded);
    assert!(is_ack_without_echo(&answer.lines, nth(12)), "{answer:?}");
    // The MH has got something newer.
    bench.forward(nth(13), 1);
    assert_eq!(bench.up(nth(14)), passed());
}

#[test]
fn an_fh_that_does_not_answer_gets_the_acks_after_a_while() {
    let mut bench = congestion_to_report();
    bench.up(nth(11));
    let sent = bench.wait(200);
    let ack = format!("ACK {} wnd 1000 seq 5001", nth(11));
    assert!(sent.iter().any(|line| line.starts_with(&ack)), "{sent:?}");
    assert_eq!(bench.up(nth(12)), passed());
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
fn a_hole_that_is_hidden_for_too_long_is_shown_though_no_ack_comes_meanwhile() {
    let mut bench = ten_under_way();
    assert!(!up(&mut bench, nth(0), &[(nth(1), nth(4))]).forwarded);
    let first = retransmits(&bench, 0);
    let sent = bench.wait(180);
    assert_eq!(bench.counter("shown_late"), 1);
    assert_eq!(sent.last(), Some(&first), "the MH is probed");
    assert!(up(&mut bench, nth(0), &[(nth(1), nth(4))]).forwarded);
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
    assert_eq!(bench.link_down(), [] as [String; 0]);
    assert!(!bench.down(nth(10), LEN).forwarded);
    let sent = bench.recovers();
    assert!(!sent.is_empty(), "what was kept is sent on");
}

#[test]
fn after_a_partial_ack_of_a_flow_without_sack_the_next_hole_is_retransmitted() {
    let mut bench = ten_under_way();
    let first = retransmits(&bench, 0);
    assert_eq!(bench.up(nth(0)), suppressed(&[&first]));
    let second = retransmits(&bench, 3);
    let answer = bench.up(nth(3));
    assert_eq!((answer.forwarded, answer.lines), (true, vec![second]));
}

#[test]
fn a_loss_on_the_wired_half_is_reported_to_the_fh_at_once() {
    let mut bench = ten_under_way();
    assert_eq!(bench.up(nth(10)), passed());
    // The tenth never came.
    bench.forward(nth(11), 3);
    bench.wait(20);
    assert_eq!(up(&mut bench, nth(10), &[(nth(11), nth(14))]), passed());
}

#[test]
fn while_the_mh_is_away_nothing_is_retransmitted() {
    let mut bench = ten_under_way();
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(10))]).lines.len(), 1);
    assert_eq!(bench.link_down(), [] as [String; 0]);
    let probes = bench.wait(500);
    let first = retransmits(&bench, 0);
    assert!(probes.iter().all(|sent| *sent == first), "{probes:?}");
    assert_eq!(probes.len() as u64, bench.counter("probes"));
}

#[test]
fn a_retransmission_that_overtakes_the_queue_has_no_newer_timestamp_than_the_queued_segments() {
    let mut bench = ten_under_way();
    // Sent a millisecond apart; the MH echoes what came last in sequence.
    let own = bench.fh_clock_seen - 9;
    let mut report = bench.mh_segment(nth(0));
    report.options.timestamps = report.options.timestamps.map(|ts| Timestamps {
        tsecr: own - 20,
        ..ts
    });
    report.options.sack = blocks(&[(nth(1), nth(4))]);
    let first = format!("DATA {}..{} ts {own}", nth(0), nth(1));
    assert_eq!(bench.put(report), suppressed(&[&first]));
}

#[test]
fn the_mhs_first_ack_after_an_outage_reports_no_losses() {
    let mut bench = ten_under_way();
    bench.link_down();
    bench.wait(500);
    let (verdict, _) = judge(&mut bench, nth(2), &[(nth(3), nth(6))]);
    assert_eq!(verdict, Verdict::ForwardWithSack(SackBlocks::default()));
    assert_eq!(bench.state(), "recovering");
}

#[test]
fn a_report_to_an_fh_that_knows_the_last_segments_only_by_sack_blocks_nothing() {
    let mut bench = congestion_to_report();
    bench.up(nth(12));
    assert_eq!(bench.counter("congested"), 1);
    assert_eq!(bench.down(nth(5), LEN).lines.len(), 1, "it has answered");
    bench.forward(nth(13), 20);
    bench.wait(1);
    assert!(!up(&mut bench, nth(12), &[(nth(13), nth(14))]).forwarded);
    // The gateway was not scheduled for a while: its timers are late, and all round trips seem
    // longer by that.
    bench.now += core::time::Duration::from_millis(300);
    let answer = up(&mut bench, nth(20), &[(nth(21), nth(25))]);
    assert_eq!(bench.counter("congested"), 2, "{answer:?}");
    bench.wait(200);
    assert_eq!(bench.counter("unserved"), 0);
    assert!(up(&mut bench, nth(33), &[]).forwarded);
}

#[test]
fn a_window_of_nothing_is_not_kept_from_the_fh() {
    let mut bench = ten_under_way();
    let closed = |bench: &Bench| {
        let mut ack = bench.mh_segment(nth(10));
        ack.window = 0;
        ack
    };
    assert_eq!(bench.put(closed(&bench)), passed());
    for _ in 0..3 {
        bench.wait(30);
        assert_eq!(bench.down(nth(10), 1), passed(), "a probe");
        assert_eq!(bench.put(closed(&bench)), passed());
    }
}

#[test]
fn the_last_packets_are_probed_for_though_the_mh_sends_data() {
    let mut bench = ten_under_way();
    assert_eq!(up(&mut bench, nth(0), &[(nth(1), nth(2))]), suppressed(&[]));
    assert_eq!(bench.up(nth(9)), passed());
    let last = retransmits(&bench, 9);
    let mut sent = Vec::new();
    for n in 0..110 {
        let mut data = bench.mh_segment(nth(9));
        (data.seq, data.payload_len) = (SeqNum::new(5001 + n * 100), 100);
        sent.extend(bench.put(data).lines);
        sent.extend(bench.wait(1));
    }
    assert_eq!(sent.first(), Some(&last));
}

#[test]
fn an_mh_that_may_use_sack_is_not_sent_to_before_a_round_trip_is_known() {
    let mut bench = not_adopted(snoop());
    bench.sack_permitted = true;
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    bench.forward(1, 3);
    assert_eq!(bench.wait(600), [] as [String; 0]);
    assert_eq!(bench.up(nth(2)), passed());
}

#[test]
fn without_sack_a_packet_is_retransmitted_no_sooner_than_after_two_round_trips() {
    let mut bench = bench_with(snoop());
    bench.forward(1, 1);
    assert_eq!(bench.wait(300), [] as [String; 0], "none is known");
    assert_eq!(bench.up(FIRST), passed());
    bench.forward(FIRST, 1);
    assert_eq!(bench.wait(599), [] as [String; 0]);
    assert_eq!(bench.wait(1), [retransmits(&bench, 0)]);
}

#[test]
fn congestion_is_reported_though_no_hole_is_followed_by_much() {
    let mut settings = snoop();
    settings.snoop.congested_rtts = 0.5;
    let mut bench = ten_under_way_with(settings);
    // The radio loses something, and then the first of four each time; all take 160 ms.
    assert!(!up(&mut bench, nth(0), &[(nth(1), nth(2))]).forwarded);
    bench.up(nth(10));
    for n in 0..20 {
        let sent = 10 + 4 * n;
        bench.forward(nth(sent), 4);
        bench.wait(20);
        if n >= 4 {
            let first = sent - 16;
            up(&mut bench, nth(first), &[(nth(first + 1), nth(first + 4))]);
        }
        bench.wait(20);
        if n >= 3 {
            bench.up(nth(sent - 12));
        }
    }
    assert!(bench.counter("repaired") > 10);
    assert!((1..5).contains(&bench.counter("congested")));
    assert_eq!(bench.counter("shown_late"), 0, "by one hole each time");
}

#[test]
fn an_ack_of_a_fin_that_waits_is_forwarded() {
    let mut bench = congestion_to_report();
    let mut fin = bench.fh_segment(nth(13), 0);
    fin.flags = fin.flags.with(Flags::FIN);
    assert_eq!(bench.put(fin), passed());
    let mut fin = bench.mh_segment(nth(5));
    fin.flags = fin.flags.with(Flags::FIN);
    bench.put(fin);
    let mut answer = bench.fh_segment(nth(13) + 1, 0);
    answer.ack = SeqNum::new(5002);
    assert_eq!(bench.put(answer), passed());
    let mut ack = bench.mh_segment(nth(13) + 1);
    ack.seq = SeqNum::new(5002);
    let answer = bench.put(ack);
    let whole = format!("ACK {} ", nth(13) + 1);
    let reaches_fh = answer.forwarded || answer.lines.iter().any(|line| line.starts_with(&whole));
    assert!(reaches_fh, "{answer:?}");
}

#[test]
fn an_ack_of_the_fh_that_was_replaced_is_repeated_after_an_outage() {
    let mut bench = ten_under_way();
    let sends = |bench: &mut Bench, n: u32| {
        let mut data = bench.mh_segment(nth(0));
        (data.seq, data.payload_len) = (SeqNum::new(5001 + n * LEN), LEN);
        assert!(bench.put(data).forwarded);
        bench.wait(1);
    };
    for n in [0, 2, 3, 4] {
        sends(&mut bench, n);
    }
    bench.wait(30);
    sends(&mut bench, 1);
    assert_eq!(bench.link_down(), [] as [String; 0]);
    let mut ack = bench.fh_segment(nth(10), 0);
    ack.ack = SeqNum::new(5001 + 5 * LEN);
    let answer = bench.put(ack);
    assert_eq!((answer.forwarded, answer.lines.len()), (false, 1));
    assert_eq!(bench.counter("undone_uplink"), 1);
    let sent = bench.recovers();
    assert!(sent[0].starts_with("AGAIN to MH"), "{sent:?}");
}

/// A hole of an FH without SACK is hidden while the queue is long, and then filled.
fn hole_to_report() -> Bench {
    let mut settings = snoop();
    settings.snoop.congested_rtts = 0.5;
    let mut bench = ten_under_way_with(settings);
    bench.wait(150);
    assert_eq!(bench.up(nth(2)), passed());
    let lost = retransmits(&bench, 2);
    assert_eq!(bench.up(nth(2)), suppressed(&[&lost]));
    bench
}

#[test]
fn an_ack_with_data_or_with_an_echo_of_congestion_is_not_replaced_by_a_report() {
    let mut bench = hole_to_report();
    let answer = bench.up(nth(6));
    let dup_ack = format!("ACK {} wnd 1000", nth(2));
    let reports = |lines: &[String]| {
        let all = lines.iter().filter(|line| line.starts_with(&dup_ack));
        all.count()
    };
    assert_eq!((answer.forwarded, reports(&answer.lines)), (false, 3));
    for (flags, len) in [(Flags::ACK.with(Flags::ECE), 0), (Flags::ACK, 100)] {
        let mut bench = hole_to_report();
        let mut ack = bench.mh_segment(nth(6));
        (ack.flags, ack.payload_len) = (flags, len);
        let answer = bench.put(ack);
        let expected = (true, 0);
        assert_eq!(
            (answer.forwarded, reports(&answer.lines)),
            expected,
            "{len}"
        );
    }
}

#[test]
fn an_fh_that_sees_fewer_than_three_segments_beyond_a_hole_has_longer_to_answer() {
    let waits_ms = |acked: u32| {
        let mut bench = congestion_to_report();
        bench.up(nth(acked));
        assert_eq!(bench.counter("congested"), 1, "{acked}");
        let released = format!("ACK {} wnd 1000", nth(acked));
        let is_released = |lines: &[String]| lines.iter().any(|line| line.starts_with(&released));
        let waited = (1..500).find(|_| is_released(&bench.wait(1)));
        waited.expect("an ACK")
    };
    let [two, three, five] = [8, 9, 11].map(waits_ms);
    assert_eq!(three, five);
    // A quarter of the path's round trip of 20 to 40 ms, and the resolution of a timer of 10 ms.
    assert!((15..=20).contains(&(two - three)), "{two} {three}");
}

#[test]
fn a_hole_is_reported_if_a_segment_beyond_it_is_acknowledged() {
    for (acked, reported) in [(6, 0), (7, 1)] {
        let mut bench = congestion_to_report();
        bench.up(nth(acked));
        assert_eq!(bench.counter("congested"), reported, "{acked}");
    }
}
