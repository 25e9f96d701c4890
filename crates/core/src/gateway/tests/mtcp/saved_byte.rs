// SPDX-License-Identifier: Apache-2.0
//! The saved byte, which the FH gets no ACK of: no connection ends or waits because of it.

use holdfast_wire::{Flags, SeqNum};

use super::super::bench::{LEN, WINDOW, bench_with, passed, suppressed};
use super::{
    RTO_INITIAL_MS, ack_at_fh, ack_line, counts, mtcp, one_of_three_acknowledged, unpaced, with,
};
use crate::{MtcpRelease, MtcpSettings, Verdict};

#[test]
fn a_retransmission_of_acknowledged_data_gets_the_ack_of_the_last_byte_at_once() {
    let mut bench = mtcp();
    bench.forward(1, 2);
    assert_eq!(ack_at_fh(&mut bench, 2001), (2000, WINDOW));
    let answer = bench.down(1001, LEN);
    let ack = ack_line(2001, WINDOW.into(), 1000, &bench);
    assert_eq!(answer, suppressed(&[&ack]));
}

#[test]
fn a_keep_alive_reaches_the_mh_and_its_answer_is_forwarded_whole() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    assert_eq!(bench.down(999, 0), passed());
    assert_eq!(ack_at_fh(&mut bench, 1001), (1001, WINDOW));
}

#[test]
fn the_ack_of_a_fin_passes_as_it_is() {
    let mut bench = mtcp();
    let mut last = bench.fh_segment(1, LEN);
    last.flags = last.flags.with(Flags::FIN);
    assert_eq!(bench.put(last), passed());
    assert_eq!(ack_at_fh(&mut bench, 1002), (1002, WINDOW));
}

/// The MH drops the RST, whose number it has received before. Its next segment reaches the FH whole.
#[test]
fn a_reset_with_the_number_without_the_saved_byte_ends_the_split() {
    for (seq, state) in [(1000, "closed"), (999, "split")] {
        let mut bench = one_of_three_acknowledged();
        let mut reset = bench.fh_segment(seq, 0);
        (reset.flags, reset.options.timestamps) = (Flags::RST, None);
        assert_eq!(bench.put(reset), passed());
        assert_eq!(bench.state(), state);
        let ack = if state == "closed" { 1001 } else { 1000 };
        assert_eq!(ack_at_fh(&mut bench, 1001), (ack, WINDOW));
    }
}

#[test]
fn a_flow_is_not_closed_before_the_fh_has_an_ack_of_everything() {
    let mut bench = one_of_three_acknowledged();
    let mut last = bench.fh_segment(3001, 10);
    last.flags = last.flags.with(Flags::FIN);
    assert_eq!(bench.put(last), passed());
    let mut fin = bench.mh_segment(1001);
    fin.flags = fin.flags.with(Flags::FIN);
    assert!(!matches!(bench.judge(fin).0, Verdict::Suppress));
    let mut ack = bench.fh_segment(3012, 0);
    ack.ack = SeqNum::new(5002);
    assert_eq!(bench.put(ack), passed());
    bench.wait(220);
    assert_eq!(bench.state(), "shrunk");
    // Both FINs are acknowledged, and the FH has an ACK of 1000 bytes.
    let mut ack = bench.mh_segment(3012);
    ack.seq += 1;
    assert!(!bench.put(ack).forwarded);
    assert_eq!(bench.state(), "reopening");
    let lines = bench.wait(RTO_INITIAL_MS + 200);
    assert!(counts(&lines, "ACK 3012") > 0, "{lines:?}");
    // It may have set `snd_max` back: the recovery takes this time.
    bench.wait(60_000);
    assert_eq!(bench.state(), "split");
    let mut ack = bench.fh_segment(3012, 0);
    ack.ack = SeqNum::new(5002);
    let _ = bench.put(ack);
    assert_eq!(bench.state(), "closed");
}

#[test]
fn a_window_that_the_mh_itself_has_closed_leaves_no_byte_behind() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    let mut ack = bench.mh_segment(1001);
    ack.window = 0;
    assert_eq!(bench.put(ack), passed());
    // The FH's probe of the byte and the answer pass between the hosts.
    assert_eq!(bench.down(1000, 0), passed());
    assert_eq!(ack_at_fh(&mut bench, 1001), (1001, WINDOW));
}

#[test]
fn released_at_once_the_last_byte_waits_for_no_timer() {
    let mut bench = bench_with(with(MtcpSettings {
        release: MtcpRelease::AtOnce,
        ..unpaced()
    }));
    bench.forward(1, 2);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    assert_eq!(ack_at_fh(&mut bench, 2001), (2001, WINDOW));
}

#[test]
fn data_of_the_mh_goes_on_with_the_ack_that_the_fh_is_to_see() {
    let mut bench = mtcp();
    bench.forward(1, 2);
    let mut data = bench.mh_segment(1001);
    data.payload_len = 10;
    let expected = Verdict::ForwardWithAck {
        ack: SeqNum::new(1000),
        window: WINDOW,
    };
    assert_eq!(bench.judge(data), (expected, Vec::new()));
    bench.link_down();
    // It was on its way when the link went.
    data.seq += 10;
    let expected = Verdict::ForwardWithAck {
        ack: SeqNum::new(1001),
        window: 0,
    };
    assert_eq!(bench.judge(data), (expected, Vec::new()));
}

#[test]
fn an_older_ack_with_a_window_of_0_does_not_release_the_saved_byte() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    // The segment that closed the window was overtaken by the one that opened it again. BSD's FH
    // ignores a smaller window of a segment with equal numbers, but not with a higher ACK.
    let mut older = bench.mh_segment(1001);
    older.window = 0;
    let expected = Verdict::ForwardWithAck {
        ack: SeqNum::new(1000),
        window: 0,
    };
    assert_eq!(bench.judge(older), (expected, Vec::new()));
    // Other FHs take it, and get the open window with the saved byte's ACK.
    assert_eq!(counts(&bench.wait(RTO_INITIAL_MS), "ACK 1001 wnd"), 1);
}
