// SPDX-License-Identifier: Apache-2.0
//! The ACKs that the FH receives with M-TCP+.

use core::time::Duration;

use holdfast_wire::Flags;

use super::bench::{
    Bench, LEN, WINDOW, bench, bench_with, not_adopted, passed, settings, suppressed,
};
use crate::gateway::tests::first_flow;
use crate::{Scheme, Settings};

fn mtcp_plus() -> Bench {
    bench(Scheme::MtcpPlus)
}

/// Two segments on their way when the link goes, sent at 1000 and 1005 ms.
fn frozen() -> Bench {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    bench.wait(5);
    bench.forward(1001, 1);
    assert_eq!(bench.link_down(), ["ACK 2001 wnd 0 seq 5001 ts 71000,1000"]);
    bench
}

#[test]
fn connected_it_makes_nothing() {
    let mut bench = mtcp_plus();
    bench.forward(1, 4);
    assert_eq!(bench.up(2001), passed());
    assert_eq!(bench.up(4001), passed());
    assert_eq!((bench.cached(), bench.state()), (0, "open"));
}

#[test]
fn at_disconnection_all_that_is_kept_is_acknowledged_with_a_window_of_0() {
    let bench = frozen();
    assert_eq!(bench.gateway.owed_bytes(), 2000);
    assert_eq!(bench.state(), "frozen");
}

#[test]
fn a_second_word_of_the_disconnection_changes_nothing() {
    let mut bench = frozen();
    assert!(bench.link_down().is_empty());
}

#[test]
fn what_still_arrives_in_an_outage_is_kept_and_acknowledged() {
    let mut bench = frozen();
    bench.wait(5);
    let answer = bench.down(2001, LEN);
    assert_eq!(
        answer,
        suppressed(&["ACK 3001 wnd 0 seq 5001 ts 71000,1010"])
    );
}

#[test]
fn nothing_is_acknowledged_across_a_hole_until_it_is_filled() {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    bench.forward(2001, 1);
    assert_eq!(bench.link_down(), ["ACK 1001 wnd 0 seq 5001 ts 71000,1000"]);
    let answer = bench.down(3001, LEN);
    assert_eq!(
        answer,
        suppressed(&["ACK 1001 wnd 0 seq 5001 ts 71000,1000"])
    );
    bench.wait(3);
    let answer = bench.down(1001, LEN);
    assert_eq!(
        answer,
        suppressed(&["ACK 4001 wnd 0 seq 5001 ts 71000,1003"])
    );
}

#[test]
fn a_probe_without_data_is_answered_and_a_challenge_ack_is_not() {
    let mut bench = frozen();
    let answer = bench.down(2000, 0);
    assert_eq!(
        answer,
        suppressed(&["ACK 2001 wnd 0 seq 5001 ts 71000,1000"])
    );
    assert_eq!(bench.down(2001, 0), passed());
}

#[test]
fn a_probe_with_a_byte_is_kept_and_answered() {
    let mut bench = frozen();
    let answer = bench.down(2001, 1);
    assert_eq!(
        answer,
        suppressed(&["ACK 2002 wnd 0 seq 5001 ts 71000,1005"])
    );
}

#[test]
fn a_retransmission_into_an_outage_is_answered_again() {
    let mut bench = frozen();
    let answer = bench.down(1, LEN);
    assert_eq!(
        answer,
        suppressed(&["ACK 2001 wnd 0 seq 5001 ts 71000,1000"])
    );
}

#[test]
fn an_ack_that_was_under_way_does_not_open_the_window_again() {
    let mut bench = frozen();
    assert_eq!(bench.up(1001), suppressed(&[]));
    assert_eq!(bench.gateway.owed_bytes(), 1000);
}

#[test]
fn at_reconnection_the_true_window_comes_first_and_then_the_kept_bytes_in_order() {
    let mut bench = frozen();
    bench.wait(3000);
    let open = (u32::from(WINDOW) * 128 - 2000) / 128;
    let lines = bench.recovers();
    assert_eq!(
        lines[0],
        format!("ACK 2001 wnd {open} seq 5001 ts 71000,1000")
    );
    assert_eq!(
        lines[1..],
        ["DATA 1..1001 ts 1005", "DATA 1001..2001 ts 1005"]
    );
    assert_eq!(bench.state(), "owing");
}

#[test]
fn the_ack_that_opens_the_window_is_repeated_until_the_fh_sends_something_new() {
    let mut bench = frozen();
    bench.link_up();
    let acks = |lines: &[String]| {
        lines
            .iter()
            .filter(|line| line.starts_with("ACK 2001"))
            .count()
    };
    assert_eq!(acks(&bench.wait(99)), 0);
    assert_eq!(acks(&bench.wait(1)), 1);
    assert_eq!(acks(&bench.wait(200)), 1);
    assert!(bench.down(2001, LEN).forwarded);
    assert_eq!(acks(&bench.wait(60_000)), 0);
}

#[test]
fn the_repetition_of_the_opening_ack_ends() {
    let mut bench = frozen();
    bench.link_up();
    assert_eq!(bench.up(2001), passed());
    let lines = bench.wait(60_000);
    assert!((1..=6).contains(&lines.len()), "{lines:?}");
}

#[test]
fn when_the_mh_has_acknowledged_what_was_owed_nothing_is_owed_and_acks_pass() {
    let mut bench = frozen();
    bench.link_up();
    bench.wait(20);
    assert_eq!(bench.up(1001), passed());
    assert_eq!(bench.gateway.owed_bytes(), 1000);
    assert_eq!(bench.up(2001), passed());
    assert_eq!(bench.gateway.owed_bytes(), 0);
    assert_eq!((bench.state(), bench.cached()), ("open", 0));
}

#[test]
fn delayed_acks_at_the_mh_make_no_difference() {
    let mut bench = mtcp_plus();
    bench.forward(1, 4);
    // Of the last two segments the MH may have one or both: its ACK was waiting.
    assert_eq!(bench.up(2001), passed());
    let lines = bench.link_down();
    assert_eq!(lines, ["ACK 4001 wnd 0 seq 5001 ts 71000,1000"]);
    bench.wait(1000);
    let sent_on = bench.recovers();
    assert_eq!(
        sent_on[1..],
        ["DATA 2001..3001 ts 1000", "DATA 3001..4001 ts 1000"]
    );
    assert_eq!(bench.up(4001), passed());
    assert_eq!(bench.gateway.owed_bytes(), 0);
}

#[test]
fn a_lost_piece_is_retransmitted_by_the_gateway_because_the_fh_has_forgotten_it() {
    let mut bench = frozen();
    bench.link_up();
    let lines = bench.wait(5000);
    let again = lines.iter().filter(|line| line.starts_with("DATA 1..1001"));
    assert!(again.count() >= 1, "{lines:?}");
}

#[test]
fn while_owing_a_retransmission_is_answered_with_the_true_window_and_nothing_more() {
    let mut bench = frozen();
    bench.recovers();
    assert_eq!(bench.down(2001, LEN), passed());
    let answer = bench.down(1, LEN);
    assert!(!answer.forwarded);
    assert_eq!(answer.lines, ["ACK 2001 wnd 984 seq 5001 ts 71000,1000"]);
}

#[test]
fn a_fin_is_not_acknowledged_ahead_and_is_sent_on_with_the_data() {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    bench.link_down();
    let mut last = bench.fh_segment(1001, LEN);
    last.flags = Flags::ACK.with(Flags::FIN);
    let answer = bench.put(last);
    assert_eq!(
        answer,
        suppressed(&["ACK 2001 wnd 0 seq 5001 ts 71000,1000"])
    );
    let lines = bench.recovers();
    assert_eq!(
        lines[1..],
        ["DATA 1..1001 ts 1000", "DATA 1001..2002 FIN ts 1000"]
    );
}

#[test]
fn after_the_mhs_fin_made_acks_carry_the_number_that_follows_it() {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    let mut fin = bench.mh_segment(1);
    fin.flags = Flags::ACK.with(Flags::FIN);
    assert_eq!(bench.put(fin), passed());
    assert_eq!(bench.link_down(), ["ACK 1001 wnd 0 seq 5002 ts 71000,1000"]);
    let answer = bench.down(1001, LEN);
    assert_eq!(
        answer,
        suppressed(&["ACK 2001 wnd 0 seq 5002 ts 71000,1000"])
    );
}

#[test]
fn the_timestamp_of_a_made_ack_is_the_newest_forwarded_one_however_late_it_is() {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    bench.wait(40);
    assert_eq!(bench.up(1), passed());
    bench.link_down();
    bench.wait(5000);
    let answer = bench.down(1001, LEN);
    assert_eq!(
        answer,
        suppressed(&["ACK 2001 wnd 0 seq 5001 ts 71040,6040"])
    );
}

#[test]
fn a_reset_by_the_fh_ends_it_and_nothing_more_is_made() {
    let mut bench = frozen();
    let mut reset = bench.fh_segment(2001, 0);
    reset.flags = Flags::RST;
    assert_eq!(bench.put(reset), passed());
    assert_eq!((bench.state(), bench.cached()), ("closed", 0));
    assert_eq!(bench.down(2001, LEN), passed());
    assert!(bench.link_up().is_empty());
    assert_eq!(bench.gateway.owed_bytes(), 0);
}

#[test]
fn a_reset_with_the_number_that_was_acknowledged_before_a_hole_ends_it() {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    bench.forward(2001, 1);
    assert_eq!(bench.link_down(), ["ACK 1001 wnd 0 seq 5001 ts 71000,1000"]);
    let mut reset = bench.fh_segment(1001, 0);
    reset.flags = Flags::RST;
    assert_eq!(bench.put(reset), passed());
    assert_eq!((bench.state(), bench.cached()), ("closed", 0));
}

#[test]
fn a_reset_with_another_number_changes_nothing() {
    let mut bench = frozen();
    for seq in [2002, 1000, 500_000] {
        let mut reset = bench.fh_segment(seq, 0);
        reset.flags = Flags::RST;
        assert_eq!(bench.put(reset), passed());
        assert_eq!((bench.state(), bench.cached()), ("frozen", 2000));
    }
}

#[test]
fn what_is_owed_is_not_forgotten_for_a_syn_even_if_it_is_answered() {
    for fh_iss in [0, 300_000, 3_000_000_000] {
        let mut bench = frozen();
        bench.wait(70_000);
        bench.shake_hands(fh_iss, 900_000);
        assert_eq!((bench.state(), bench.cached()), ("frozen", 2000));
        assert_eq!(bench.gateway.owed_bytes(), 2000);
    }
}

#[test]
fn without_the_window_scale_it_acts_as_hold() {
    let mut bench = not_adopted(settings(Scheme::MtcpPlus));
    assert_eq!(bench.down(1, LEN), passed());
    assert_eq!(bench.up(1001), passed());
    bench.forward(1001, 1);
    assert!(bench.link_down().is_empty());
    assert_eq!(bench.down(2001, LEN), suppressed(&[]));
    let lines = bench.recovers();
    assert_eq!(
        lines,
        ["DATA 1001..2001 ts 1000", "DATA 2001..3001 ts 1000"]
    );
}

#[test]
fn with_the_cache_full_only_what_is_held_is_acknowledged_and_nothing_is_dropped() {
    let mut limited = settings(Scheme::MtcpPlus);
    limited.flow_cache_bytes_max = 1500;
    let mut bench = bench_with(limited);
    bench.forward(1, 2);
    assert_eq!(bench.cached(), 1000);
    assert_eq!(bench.link_down(), ["ACK 1001 wnd 0 seq 5001 ts 71000,1000"]);
    assert_eq!(bench.down(2001, LEN), passed());
    assert_eq!(bench.counter("passed.cache_full"), 2);
}

#[test]
fn with_a_frozen_fh_and_an_empty_cache_the_gateway_still_probes_the_mh() {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    assert_eq!(bench.up(1001), passed());
    assert_eq!(bench.link_down(), ["ACK 1001 wnd 0 seq 5001 ts 71000,1000"]);
    let lines = bench.wait(1000);
    assert_eq!(lines[0], "MADE to MH seq 1000 ack 5001 ts 1000");
    let answer = bench.up(1001);
    assert!(answer.forwarded && bench.state() == "open", "{answer:?}");
}

#[test]
fn bytes_owed_by_a_dead_predecessor_reset_both_ends_however_often_they_ask() {
    let mut dead = frozen();
    dead.wait(10);
    let record = first_flow(&dead.gateway).record();
    let mut bench = not_adopted(settings(Scheme::MtcpPlus));
    bench.gateway.import(&record, bench.now);
    // The probe alone would draw nothing from the MH.
    let answer = bench.down(2000, 0);
    assert!(
        answer.forwarded && answer.lines[0].starts_with("MADE to MH"),
        "{answer:?}"
    );
    let resets = ["RST to FH seq 5001", "RST to MH seq 1"];
    assert_eq!(bench.up(1), suppressed(&resets));
    assert_eq!(bench.down(2000, 0), suppressed(&resets[..1]));
    assert_eq!(bench.up(1), suppressed(&resets[1..]));
    assert_eq!(bench.counter("owed_lost"), 1);
}

/// A segment is owed for at most this time, and the MH stays away for 8 s; and what the gateway sends.
fn owed_in_vain(owed_wait_max: Duration) -> (Bench, Vec<String>) {
    let mut bench = bench_with(Settings {
        owed_wait_max,
        ..settings(Scheme::MtcpPlus)
    });
    bench.forward(1, 1);
    bench.link_down();
    let lines = bench.wait(8000);
    (bench, lines)
}

#[test]
fn owed_bytes_whose_mh_does_not_come_back_end_in_a_reset_of_both_ends() {
    let (bench, lines) = owed_in_vain(Duration::from_secs(5));
    let resets: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("RST"))
        .collect();
    assert_eq!(resets, ["RST to FH seq 5001", "RST to MH seq 1"]);
    assert_eq!((bench.cached(), bench.gateway.owed_bytes()), (0, 0));
}

#[test]
fn owed_bytes_are_given_up_also_if_no_sweep_falls_on_the_end_of_the_wait() {
    let (bench, lines) = owed_in_vain(Duration::from_millis(4_567));
    assert!(lines.iter().any(|line| line == "RST to FH seq 5001"));
    assert_eq!(bench.gateway.owed_bytes(), 0);
}

#[test]
fn the_fh_of_a_flow_that_was_reset_is_reset_again_as_long_as_it_sends_something() {
    let mut bench = frozen();
    bench.gateway.abandon_owed(&mut Vec::new());
    for _ in 0..4 {
        bench.wait(40_000);
        assert_eq!(bench.down(2000, 0), suppressed(&["RST to FH seq 5001"]));
    }
}

#[test]
fn nothing_is_acknowledged_sooner_than_the_mh_could_have() {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    bench.wait(50);
    assert_eq!(bench.up(1001), passed());
    bench.forward(1001, 1);
    let acks = |bench: &mut Bench, millis| {
        let mut lines = bench.wait(millis);
        lines.retain(|line| line.starts_with("ACK"));
        lines
    };
    // The round trip to the MH is 50 ms, and what went a moment ago is not yet there.
    assert!(bench.link_down().is_empty());
    assert!(acks(&mut bench, 30).is_empty());
    assert_eq!(bench.down(2001, LEN), suppressed(&[]));
    let first = ["ACK 2001 wnd 0 seq 5001 ts 71050,1050"];
    assert_eq!(acks(&mut bench, 20), first);
    assert!(acks(&mut bench, 49).is_empty());
    let second = ["ACK 3001 wnd 0 seq 5001 ts 71050,1080"];
    assert_eq!(acks(&mut bench, 1), second);
    assert!(acks(&mut bench, 5000).is_empty());
}

#[test]
fn an_outage_that_ends_before_anything_was_acknowledged_changes_nothing_for_the_fh() {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    bench.wait(50);
    assert_eq!(bench.up(1001), passed());
    bench.forward(1001, 1);
    assert!(bench.link_down().is_empty());
    bench.wait(20);
    assert_eq!(bench.recovers(), ["DATA 1001..2001 ts 1050"]);
    assert_eq!(bench.gateway.owed_bytes(), 0);
}

#[test]
fn the_wait_for_an_answer_begins_at_link_up() {
    let mut bench = frozen();
    // Bytes have been owed for almost an RTO, or for many.
    for millis in [990, 3700] {
        bench.wait(millis);
        let pieces = ["DATA 1..1001 ts 1005", "DATA 1001..2001 ts 1005"];
        let mut lines = bench.recovers();
        lines.retain(|line| line.starts_with("DATA"));
        assert_eq!(lines, pieces);
        let mut early = bench.wait(900);
        early.retain(|line| line.starts_with("DATA"));
        assert_eq!(early, [""; 0]);
        bench.link_down();
    }
}

/// A round trip of 50 ms is known, and two segments have been on their way for 45 ms when
/// the link goes.
fn gone_within_a_round_trip() -> Bench {
    let mut bench = mtcp_plus();
    bench.forward(1, 1);
    bench.wait(50);
    assert_eq!(bench.up(1001), passed());
    bench.forward(1001, 2);
    bench.wait(45);
    assert!(bench.link_down().is_empty());
    bench
}

#[test]
fn until_the_fh_has_got_a_closed_window_the_mhs_acks_pass() {
    let mut bench = gone_within_a_round_trip();
    bench.wait(5);
    assert!(bench.up(3001).forwarded);
    bench.wait(10);
    assert!(bench.link_up().is_empty());
}

#[test]
fn a_second_outage_does_not_make_it_forget_to_open_the_window() {
    let mut bench = gone_within_a_round_trip();
    bench.wait(60);
    let opens = |lines: &[String]| {
        lines
            .iter()
            .any(|line| line.starts_with("ACK 3001 wnd") && !line.contains("wnd 0 "))
    };
    // This one is lost.
    assert!(opens(&bench.link_up()));
    bench.wait(10);
    bench.link_down();
    bench.wait(20);
    assert!(opens(&bench.link_up()));
}

#[test]
fn a_gateway_about_to_leave_acknowledges_nothing_ahead_for_a_new_connection_either() {
    let mut bench = mtcp_plus();
    bench.gateway.stop_acknowledging();
    let mut reset = bench.fh_segment(1, 0);
    reset.flags = Flags::RST;
    assert_eq!(bench.put(reset), passed());
    bench.shake_hands(300_000, 5000);
    assert!(bench.up(300_001).forwarded);
    bench.forward(300_001, 1);
    assert!(bench.link_down().is_empty());
    assert_eq!(bench.gateway.owed_bytes(), 0);
}
