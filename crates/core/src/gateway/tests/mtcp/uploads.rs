// SPDX-License-Identifier: Apache-2.0
//! The MH lacks data while it uploads, so the gateway receives its segments all the time.

use holdfast_wire::SeqNum;

use super::super::bench::{Bench, LEN, WINDOW};
use super::{ack_at_fh, counts, mtcp, one_of_three_acknowledged};

/// The MH sends a data segment each 5 ms, with this ACK, for `millis`.
fn upload(bench: &mut Bench, sent: &mut u32, ack: u32, millis: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..millis / 5 {
        lines.extend(bench.wait(5));
        let mut data = bench.mh_segment(ack);
        data.seq += *sent;
        data.payload_len = 10;
        *sent += 10;
        lines.extend(bench.judge(data).1);
    }
    lines
}

#[test]
fn a_tail_that_is_lost_while_the_mh_uploads_is_retransmitted_after_an_rto() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    let mut sent = 0;
    let lines = upload(&mut bench, &mut sent, 2001, 300);
    let again = counts(&lines, "DATA 2001..3001");
    assert!((1..=3).contains(&again), "{lines:?}");
    // The FH's own copies add nothing.
    assert!(!bench.down(2001, LEN).forwarded);
    let lines = upload(&mut bench, &mut sent, 3001, 300);
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_ne!(bench.state(), "shrunk");
}

#[test]
fn an_mh_that_uploads_after_an_outage_gets_all_that_was_lost_in_it() {
    let mut bench = mtcp();
    bench.forward(1, 5);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    bench.wait(2000);
    assert_eq!(bench.state(), "shrunk");
    let mut sent = 0;
    let lines = upload(&mut bench, &mut sent, 1001, 150);
    assert!(counts(&lines, "DATA 1001..2001") > 0, "{lines:?}");
    // The rest follows at the rate of a link that is not measured yet.
    let mut lines = Vec::new();
    for ack in [2001, 3001, 4001] {
        lines.extend(upload(&mut bench, &mut sent, ack, 90));
    }
    for seq in [2001, 3001, 4001] {
        let piece = format!("DATA {seq}..{}", seq + LEN);
        assert_eq!(counts(&lines, &piece), 1, "{lines:?}");
    }
    let lines = upload(&mut bench, &mut sent, 5001, 1500);
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn an_old_ack_of_the_fh_shows_nothing_to_an_mh_that_has_sent_no_data() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(2001).forwarded);
    assert_eq!(bench.state(), "reopening");
    let answer = bench.down(1001, 0);
    assert_eq!(counts(&answer.lines, "MADE"), 0, "{answer:?}");
}

#[test]
fn an_old_ack_of_the_fh_shows_the_mh_which_of_its_data_has_arrived() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(2001).forwarded);
    assert_eq!(bench.state(), "reopening");
    let mut sent = 0;
    let _ = upload(&mut bench, &mut sent, 2001, 5);
    // It has set snd_max back: its highest sequence number is 1001.
    let mut ack = bench.fh_segment(1001, 0);
    ack.ack = SeqNum::new(5011);
    let answer = bench.put(ack);
    assert!(!answer.forwarded);
    let made = counts(&answer.lines, "MADE to MH seq 3001 ack 5011");
    assert_eq!(made, 1, "{answer:?}");
    let again = bench.put(ack);
    assert_eq!(counts(&again.lines, "MADE"), 0, "{again:?}");
}
