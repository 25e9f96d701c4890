// SPDX-License-Identifier: Apache-2.0
//! The MH's reader pauses: its window is closed by itself.

use holdfast_wire::{Segment, SeqNum};

use super::super::bench::{Bench, bench_with, passed};
use super::{ack_line, counts, in_cell};
use crate::Verdict;

/// With a cell; the MH has all, and no window.
fn paused() -> (Bench, Segment) {
    let mut bench = bench_with(in_cell(10_000_000));
    bench.forward(1, 1);
    let mut closed = bench.mh_segment(1001);
    closed.window = 0;
    assert_eq!(bench.put(closed), passed());
    (bench, closed)
}

#[test]
fn probes_of_a_closed_window_reach_the_mh_and_its_answers_the_fh() {
    let (mut bench, closed) = paused();
    for _ in 0..20 {
        assert_eq!(bench.down(1001, 1), passed());
        bench.wait(20);
        assert_eq!(bench.put(closed), passed());
        assert_eq!(bench.wait(4980), [] as [&str; 0]);
    }
    assert_eq!(bench.counter("freezes"), 0);
}

#[test]
fn a_probe_after_one_that_the_mh_did_not_answer_is_answered_for_it() {
    for (seq, len) in [(1001, 1), (1000, 0)] {
        let (mut bench, closed) = paused();
        assert_eq!(bench.down(seq, len), passed());
        bench.wait(5000);
        let answer = bench.down(seq, len);
        let ack = ack_line(1001, 0, 1000, &bench);
        assert_eq!((answer.forwarded, answer.lines), (true, vec![ack]));
        assert_eq!(bench.put(closed), passed());
        assert_eq!(bench.down(seq, len), passed());
    }
}

#[test]
fn a_window_that_opens_gets_the_byte_that_it_was_probed_with() {
    let (mut bench, closed) = paused();
    assert_eq!(bench.down(1001, 1), passed());
    assert_eq!(bench.put(closed), passed());
    let (verdict, lines) = bench.judge(bench.mh_segment(1001));
    // Within SH-TCP's own.
    let opened = Verdict::ForwardWithAck {
        ack: SeqNum::new(1001),
        window: 512,
    };
    assert_eq!(verdict, opened);
    let lines = [lines, bench.wait(50)].concat();
    assert_eq!(counts(&lines, "DATA 1001..1002"), 1, "{lines:?}");
}
