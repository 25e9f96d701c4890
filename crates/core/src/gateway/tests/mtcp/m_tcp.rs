// SPDX-License-Identifier: Apache-2.0
//! M-TCP, toward the MH: every arrow of the paper's figure 5.

use holdfast_wire::{SeqNum, Timestamps};

use super::super::bench::{Answer, LEN, WINDOW, bench_with, passed, suppressed};
use super::{
    RTO_INITIAL_MS, ack_at_fh, ack_line, counts, mtcp, one_of_three_acknowledged, shrunk, unpaced,
    with,
};
use crate::{MtcpPersist, MtcpSettings, RECONNECTION_FLAGS, Verdict};

/// Each segment that begins there went to the MH once.
#[track_caller]
fn assert_sent_once<const N: usize>(lines: &[String], begins: [u32; N]) {
    for seq in begins {
        let piece = format!("DATA {seq}..{}", seq + LEN);
        assert_eq!(counts(lines, &piece), 1, "{lines:?}");
    }
}

#[test]
fn nofreeze_rexmt_is_off_while_nothing_is_outstanding() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    let _ = ack_at_fh(&mut bench, 1001);
    bench.wait(60_000);
    assert_eq!(bench.counter("freezes"), 0);
}

#[test]
fn nofreeze_each_ack_sets_rexmt_anew() {
    let mut bench = mtcp();
    bench.forward(1, 30);
    for i in 0..30 {
        bench.wait(80);
        let _ = bench.up(1001 + i * LEN);
    }
    assert_eq!(bench.counter("freezes"), 0);
}

#[test]
fn nofreeze_to_frozen_rexmt_expires_and_nothing_is_retransmitted() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    let lines = bench.wait(RTO_INITIAL_MS - 1);
    assert_eq!((lines.len(), bench.state()), (0, "split"));
    let lines = bench.wait(2);
    assert_eq!((lines.len(), bench.state()), (0, "frozen"));
    assert_eq!(bench.counter("freezes"), 1);
    // What still comes is kept.
    assert_eq!(bench.down(3001, LEN), suppressed(&[]));
}

#[test]
fn freezing_shrinks_the_window_of_the_fh() {
    let mut bench = one_of_three_acknowledged();
    // New segments keep the wintimer from expiring.
    let mut lines = bench.wait(60);
    bench.forward(3001, 1);
    lines.extend(bench.wait(45));
    assert_eq!(lines, [ack_line(1001, 0, 1000, &bench)]);
    assert_eq!(bench.counter("freezes"), 1);
}

#[test]
fn frozen_persist_packets_go_after_5_s_and_then_at_doubled_intervals() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    bench.wait(RTO_INITIAL_MS);
    assert_eq!(bench.state(), "frozen");
    for (wait, packets) in [(4999, 0), (1, 1), (9999, 0), (1, 1), (19_999, 0), (1, 1)] {
        let lines = bench.wait(wait);
        assert_eq!(counts(&lines, "DATA 1..1001"), packets, "{lines:?}");
    }
}

#[test]
fn with_link_down_no_other_probe_is_sent_than_persist_packets() {
    let mut bench = shrunk();
    let lines = bench.wait(4_900);
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    let lines = bench.wait(200);
    assert_eq!(counts(&lines, "DATA"), 1, "{lines:?}");
}

#[test]
fn frozen_persist_packets_at_the_round_trip_if_set_so() {
    let mut bench = bench_with(with(MtcpSettings {
        persist: MtcpPersist::RoundTrip,
        ..unpaced()
    }));
    bench.forward(1, 1);
    bench.wait(50);
    let _ = ack_at_fh(&mut bench, 1001);
    bench.forward(1001, 1);
    bench.wait(150);
    assert_eq!(bench.state(), "shrunk");
    let lines = bench.wait(500);
    assert_eq!(counts(&lines, "DATA 1001..2001"), 10, "{lines:?}");
}

#[test]
fn frozen_to_nofreeze_after_the_marked_ack_everything_unacknowledged_is_retransmitted() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(3000);
    let mut marked = bench.mh_segment(1001);
    marked.flags = RECONNECTION_FLAGS;
    let Answer { forwarded, lines } = bench.put(marked);
    assert!(!forwarded);
    let lines = [lines, bench.wait(100)].concat();
    let window = format!("ACK 1001 wnd {WINDOW}");
    assert!(lines[0].starts_with(&window), "{lines:?}");
    assert_sent_once(&lines, [1001, 2001]);
}

#[test]
fn frozen_to_nofreeze_after_a_plain_late_ack_nothing_is_retransmitted() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    bench.wait(2000);
    assert_eq!(bench.state(), "frozen");
    let _ = bench.up(2001);
    let lines = bench.wait(50);
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
    // Also if it acknowledges more than the persist packet brought.
    bench.wait(20_000);
    assert!(bench.counter("probes") > 0);
    let _ = bench.down(3001, 10);
    let _ = bench.up(3001);
    let lines = bench.wait(50);
    assert_eq!(counts(&lines, "DATA 2001"), 0, "{lines:?}");
}

#[test]
fn frozen_to_nofreeze_an_answer_to_a_persist_packet_shows_that_the_rest_is_lost() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    bench.wait(6001);
    assert_eq!(bench.counter("probes"), 1);
    let answer = bench.up(1001);
    let lines = [answer.lines, bench.wait(100)].concat();
    assert_sent_once(&lines, [1001, 2001]);
}

#[test]
fn an_ack_of_what_went_before_the_persist_packet_is_a_late_one_by_its_timestamp() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    bench.wait(5);
    bench.forward(1001, 2);
    bench.wait(6001);
    assert_eq!(bench.counter("probes"), 1);
    // The link has kept it: this is the first segment's, of 1000 ms.
    let late = bench.mh_segment(1001);
    assert_eq!(late.options.timestamps.map(|own| own.tsecr), Some(1005));
    let mut late = late;
    late.options.timestamps = late
        .options
        .timestamps
        .map(|own| Timestamps { tsecr: 1000, ..own });
    let lines = [bench.judge(late).1, bench.wait(50)].concat();
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

/// The link has kept what was sent: after such an ACK the answer to the retransmission shows no loss.
#[test]
fn a_late_ack_after_a_retransmission_shows_that_the_rest_is_not_lost() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    bench.wait(5);
    bench.forward(1001, 2);
    bench.wait(2000);
    assert_eq!(bench.state(), "frozen");
    let mut late = bench.mh_segment(1);
    late.options.timestamps = late
        .options
        .timestamps
        .map(|own| Timestamps { tsecr: 1000, ..own });
    let lines = bench.judge(late).1;
    assert_eq!(counts(&lines, "DATA 1..1001"), 1, "{lines:?}");
    assert_eq!(bench.judge(late).1, [""; 0]);
    let lines = [bench.up(1001).lines, bench.wait(50)].concat();
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
}

/// Section 4.2: "retransmits all packets greater than the ACK'ed byte as these must have been
/// lost during the disconnection", also of one that was shorter than REXMT.
#[test]
fn in_nofreeze_after_a_marked_ack_everything_in_flight_is_retransmitted() {
    let mut bench = one_of_three_acknowledged();
    let mut marked = bench.mh_segment(1001);
    marked.flags = RECONNECTION_FLAGS;
    let (_, lines) = bench.judge(marked);
    let lines = [lines, bench.wait(50)].concat();
    assert_sent_once(&lines, [1001, 2001]);
    assert_eq!(bench.counter("freezes"), 0);
}

#[test]
fn an_answer_that_has_the_persist_packet_twice_shows_that_the_rest_is_lost() {
    let mut bench = mtcp();
    bench.forward(1, 5);
    bench.wait(6001);
    assert_eq!(bench.counter("probes"), 1);
    // Its ACKs were lost in the outage: it has more than the probe's segment.
    let mut answer = bench.mh_segment(3001);
    answer.options.sack.push(SeqNum::new(1), SeqNum::new(1001));
    let lines = [bench.judge(answer).1, bench.wait(100)].concat();
    assert_sent_once(&lines, [3001, 4001]);
}

#[test]
fn what_was_sent_before_a_freeze_is_lost_if_something_newer_arrives_sooner() {
    let mut bench = mtcp();
    bench.forward(1, 5);
    bench.wait(2000);
    assert_eq!(bench.state(), "frozen");
    let _ = bench.up(2001);
    let _ = bench.down(5001, LEN);
    let answer = bench.up_with_sack(2001, 5001, 6001);
    let lines = [answer.lines, bench.wait(300)].concat();
    assert_sent_once(&lines, [2001, 3001, 4001]);
    assert_eq!(counts(&lines, "DATA 5001"), 0, "{lines:?}");
}

#[test]
fn a_marked_ack_of_all_that_was_sent_is_an_ack_like_any_other() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    let mut marked = bench.mh_segment(1001);
    marked.flags = RECONNECTION_FLAGS;
    let (verdict, lines) = bench.judge(marked);
    let expected = Verdict::ForwardWithAck {
        ack: SeqNum::new(1000),
        window: WINDOW,
    };
    assert_eq!((verdict, lines.len()), (expected, 0));
}

/// Less a byte the FH would repeat one byte less than is missing, and that byte would wait for
/// its timeout.
#[test]
fn duplicate_acks_of_what_only_the_fh_can_send_pass_as_they_are() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    // The second segment was lost on the wired half.
    assert_eq!(bench.down(2001, LEN), passed());
    for _ in 0..3 {
        assert_eq!(ack_at_fh(&mut bench, 1001), (1001, WINDOW));
    }
    // Filled: a byte is saved again.
    assert_eq!(bench.down(1001, LEN), passed());
    assert_eq!(ack_at_fh(&mut bench, 3001), (3000, WINDOW));
}

#[test]
fn somebodys_word_freezes_and_resumes_as_well() {
    let mut bench = shrunk();
    bench.wait(3000);
    let lines = bench.recovers();
    assert_sent_once(&lines, [1001, 2001]);
}

/// The gateway had not called it away yet: REXMT froze the flow, and the mobile was silent for
/// less than it takes to be sure.
#[test]
fn an_mh_that_reports_link_up_ends_every_freeze_even_without_a_link_down() {
    for away_ms in (20..2500).step_by(20) {
        let mut bench = one_of_three_acknowledged();
        bench.wait(away_ms);
        let was_frozen = bench.counter("freezes") > 0;
        let mut lines = bench.link_up();
        let state = bench.state();
        lines.extend(bench.wait(40));
        assert!(
            ["split", "reopening"].contains(&state),
            "{away_ms} ms: {state}"
        );
        let again = counts(&lines, "DATA 1001..2001");
        assert!(again == usize::from(was_frozen), "{away_ms} ms: {lines:?}");
    }
}

#[test]
fn a_report_of_what_came_out_of_order_sets_rexmt_anew() {
    let mut bench = mtcp();
    bench.forward(1, 20);
    bench.wait(50);
    let _ = bench.up(1001);
    for i in 0..15 {
        bench.wait(80);
        let _ = bench.up_with_sack(1001, 2001, 3001 + i * LEN);
    }
    assert_eq!(bench.counter("freezes"), 0);
    bench.wait(400);
    assert_eq!(bench.counter("freezes"), 1);
}

#[test]
fn an_answer_to_a_persist_packet_that_reaches_a_further_hole_shows_that_the_rest_is_lost() {
    let mut bench = mtcp();
    bench.forward(1, 6);
    let _ = bench.up_with_sack(1, 1001, 2001);
    let _ = bench.up_with_sack(1, 3001, 4001);
    bench.wait(6101);
    assert_eq!(bench.counter("probes"), 1);
    let mut answer = bench.mh_segment(2001);
    answer
        .options
        .sack
        .push(SeqNum::new(3001), SeqNum::new(4001));
    let lines = [bench.judge(answer).1, bench.wait(100)].concat();
    assert_eq!(counts(&lines, "DATA 2001..3001"), 1, "{lines:?}");
    assert_eq!(counts(&lines, "DATA 3001..4001"), 0, "{lines:?}");
    assert_eq!(counts(&lines, "DATA 4001..5001"), 1, "{lines:?}");
}

#[test]
fn after_a_false_warning_nothing_is_retransmitted() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    bench.link_warning();
    bench.wait(10);
    let lines = [bench.link_up(), bench.wait(50)].concat();
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn an_ack_that_came_while_the_flow_was_frozen_is_repeated_once() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    bench.wait(RTO_INITIAL_MS + 10);
    assert_eq!(bench.state(), "frozen");
    assert_eq!(bench.down(1001, 0), passed());
    assert_eq!(counts(&bench.up(1001).lines, "AGAIN to MH"), 1);
    let lines = [bench.link_down(), bench.link_up()].concat();
    assert_eq!(counts(&lines, "AGAIN"), 0, "{lines:?}");
}

/// The link is down: the MH would not receive the ACK, and its sender would wait for it after the outage.
#[test]
fn a_late_segment_after_a_report_of_link_down_has_the_fhs_ack_repeated_at_link_up_only() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    bench.link_down();
    assert_eq!(bench.down(1001, 0), passed());
    let late = bench.up(1001).lines;
    assert_eq!(counts(&late, "AGAIN to MH"), 0, "{late:?}");
    let lines = bench.link_up();
    assert_eq!(counts(&lines, "AGAIN to MH"), 1, "{lines:?}");
}

#[test]
fn one_input_sends_64_pieces_at_most_and_the_rest_follows_a_millisecond_later() {
    let mut bench = mtcp();
    bench.forward(1, 100);
    let mut closed = bench.mh_segment(1);
    closed.window = 0;
    let _ = bench.put(closed);
    let opened = bench.up(1).lines;
    assert_eq!(counts(&opened, "DATA"), 64, "{opened:?}");
    assert_eq!(counts(&bench.wait(1), "DATA"), 36);
}
