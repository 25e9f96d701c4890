// SPDX-License-Identifier: Apache-2.0
//! The ACKs that the FH receives with M-TCP as the M-TCP+ paper models it.

use holdfast_wire::{Flags, SeqNum};

use super::bench::{Bench, LEN, WINDOW, bench, passed, suppressed};
use crate::{Scheme, Verdict};

fn mtcp_2007() -> Bench {
    bench(Scheme::Mtcp2007)
}

/// The verdict of an ACK of the MH with a SACK block, which has to be forwarded.
fn acknowledges(bench: &mut Bench, ack: u32) -> Verdict {
    let mut segment = bench.mh_segment(ack);
    let left = SeqNum::new(ack + LEN);
    segment.options.sack.push(left, left + LEN);
    let (verdict, lines) = bench.judge(segment);
    assert_eq!(lines, [""; 0]);
    verdict
}

fn as_ack(ack: u32, window: u16) -> Verdict {
    Verdict::ForwardWithAck {
        ack: SeqNum::new(ack),
        window,
    }
}

#[test]
fn an_ack_is_reduced_by_one_as_long_as_another_can_follow() {
    let mut bench = mtcp_2007();
    bench.forward(1, 3);
    assert_eq!(acknowledges(&mut bench, 1001), as_ack(1000, WINDOW));
    assert_eq!(bench.up(3001), passed());
}

/// The FH has no connection any more, and answers the reduced ACK.
#[test]
fn a_reset_with_the_reduced_number_closes_the_flow() {
    for (seq, state) in [(1000, "closed"), (999, "open")] {
        let mut bench = mtcp_2007();
        bench.forward(1, 3);
        assert_eq!(acknowledges(&mut bench, 1001), as_ack(1000, WINDOW));
        let mut reset = bench.fh_segment(seq, 0);
        (reset.flags, reset.options.timestamps) = (Flags::RST, None);
        assert_eq!(bench.put(reset), passed());
        assert_eq!(bench.state(), state);
    }
}

#[test]
fn at_disconnection_the_last_byte_is_acknowledged_and_nothing_that_the_mh_has_not() {
    let mut bench = mtcp_2007();
    bench.forward(1, 3);
    assert!(!bench.up(2001).forwarded);
    assert_eq!(bench.link_down(), ["ACK 2001 wnd 0 seq 5001 ts 71000,1000"]);
    assert_eq!(bench.gateway.owed_bytes(), 0);
    // What still arrives is kept without an answer; a probe is answered.
    assert_eq!(bench.down(3001, LEN), suppressed(&[]));
    let answer = suppressed(&["ACK 2001 wnd 0 seq 5001 ts 71000,1000"]);
    assert_eq!(bench.down(4001, 1), answer);
    assert_eq!(bench.down(2000, 0), answer);
}

#[test]
fn at_reconnection_the_true_window_is_given_back_and_what_was_lost_is_sent_on() {
    let mut bench = mtcp_2007();
    bench.forward(1, 3);
    assert!(!bench.up(2001).forwarded);
    bench.link_down();
    bench.wait(3000);
    let lines = bench.recovers();
    let open = format!("ACK 2001 wnd {WINDOW} seq 5001 ts 71000,1000");
    assert_eq!(lines, [open.as_str(), "DATA 2001..3001 ts 1000"]);
}

#[test]
fn a_warning_closes_the_window_and_the_last_byte_of_what_still_arrives_is_acknowledged() {
    let mut bench = mtcp_2007();
    bench.forward(1, 3);
    let closed = |ack: u32| format!("ACK {ack} wnd 0 seq 5001 ts 71000,1000");
    assert_eq!(bench.link_warning(), [closed(1)]);
    assert_eq!(acknowledges(&mut bench, 1001), as_ack(1001, 0));
    let (verdict, _) = bench.judge(bench.mh_segment(3001));
    assert_eq!(verdict, as_ack(3001, 0));
    assert_eq!(bench.gateway.owed_bytes(), 0);
}

#[test]
fn the_ack_that_opens_the_window_is_repeated_until_the_fh_sends_something_new() {
    for sends_new in [false, true] {
        let mut bench = mtcp_2007();
        bench.forward(1, 3);
        assert!(!bench.up(2001).forwarded);
        bench.link_down();
        bench.wait(3000);
        assert_eq!(bench.recovers().len(), 2);
        if sends_new {
            bench.forward(3001, 1);
        }
        let open = format!("ACK 2001 wnd {WINDOW} ");
        let lines = bench.wait(100);
        let acks = lines.iter().filter(|line| line.starts_with(&open));
        assert_eq!(acks.count(), usize::from(!sends_new), "{lines:?}");
    }
}
