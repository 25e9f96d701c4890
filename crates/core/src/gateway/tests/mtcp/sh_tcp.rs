// SPDX-License-Identifier: Apache-2.0
//! SH-TCP, toward the FH: every arrow of the paper's figure 4.

use super::super::bench::{LEN, SHIFT, WINDOW, not_adopted, passed, suppressed};
use super::{
    RTO_INITIAL_MS, ack_at_fh, ack_line, counts, mtcp, one_of_three_acknowledged, shrunk, unpaced,
    with,
};
use crate::MtcpSettings;

#[test]
fn noshrink_an_m_tcp_ack_of_x_makes_a_tcp_ack_of_x_less_one() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    assert_eq!(bench.state(), "split");
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    assert_eq!(ack_at_fh(&mut bench, 2001), (2000, WINDOW));
    assert_eq!(ack_at_fh(&mut bench, 3001), (3000, WINDOW));
}

#[test]
fn noshrink_to_shrunk_the_wintimer_expires_and_the_saved_byte_is_acknowledged_with_window_0() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(20);
    // A plain ACK keeps M-TCP from freezing first; it is not new, and the wintimer runs on.
    let lines = bench.wait(200);
    assert_eq!(counts(&lines, "ACK 1001 wnd 0"), 1, "{lines:?}");
    assert_eq!(bench.state(), "shrunk");
    assert_eq!(bench.counter("shrinks"), 1);
}

#[test]
fn the_wintimer_begins_anew_with_each_new_segment() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    // The round trip of 0 and 100 ms make the RTO. M-TCP's own timer does not run: what the MH
    // lacks was lost on the wired half.
    for i in 0..10 {
        let lines = bench.wait(60);
        assert_eq!(bench.down(2001 + i * 10, 10), passed());
        assert_eq!(counts(&lines, "ACK"), 0, "{i}: {lines:?}");
    }
    assert_eq!(counts(&bench.wait(110), "ACK 1001"), 1);
    assert_eq!(bench.state(), "split");
}

#[test]
fn exception_nothing_is_left_to_acknowledge_so_nothing_is_shrunk() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    // The MH has acknowledged nothing since the last ACK to the FH.
    let lines = bench.wait(RTO_INITIAL_MS + 100);
    assert_eq!(counts(&lines, "ACK"), 0, "{lines:?}");
    assert_eq!(bench.state(), "frozen", "M-TCP has frozen all the same");
    assert_eq!(bench.counter("shrinks"), 0);
}

#[test]
fn exception_the_saved_byte_acknowledges_all_so_it_goes_without_shrinking() {
    let mut bench = mtcp();
    bench.forward(1, 2);
    assert_eq!(ack_at_fh(&mut bench, 2001), (2000, WINDOW));
    let lines = bench.wait(300);
    assert_eq!(lines, [ack_line(2001, WINDOW.into(), 1000, &bench)]);
    assert_eq!((bench.state(), bench.counter("shrinks")), ("split", 0));
    // And then it is quiet.
    assert_eq!(bench.wait(60_000), [] as [&str; 0]);
}

#[test]
fn what_only_the_fh_can_send_keeps_its_window_open() {
    let mut bench = one_of_three_acknowledged();
    // 3001..4001 is lost on the wired half.
    assert_eq!(bench.down(4001, LEN), passed());
    // Nothing is saved of what the FH is to go on from.
    assert_eq!(ack_at_fh(&mut bench, 3001), (3001, WINDOW));
    assert_eq!(bench.wait(300), [] as [&str; 0]);
    assert_eq!(bench.counter("shrinks"), 0);
}

#[test]
fn shrunk_persist_packets_are_answered_with_the_window_at_0() {
    let mut bench = shrunk();
    let answer = ack_line(1001, 0, 1000, &bench);
    // With a byte (BSD), without (Linux), and a whole segment (Linux's own timeout).
    assert_eq!(bench.down(1001, 1), suppressed(&[&answer]));
    assert_eq!(bench.down(1000, 0), suppressed(&[&answer]));
    assert_eq!(bench.down(1001, LEN), suppressed(&[&answer]));
    // New data that was on its way: kept.
    assert_eq!(bench.down(3001, LEN), suppressed(&[&answer]));
    assert_eq!(bench.state(), "shrunk");
    assert_eq!(bench.cached(), 3000);
    // A challenge ACK is not.
    assert_eq!(bench.down(4001, 0), passed());
}

#[test]
fn shrunk_to_recovering_the_mh_reconnects_and_the_window_opens_with_an_old_ack() {
    let mut bench = shrunk();
    bench.wait(3000);
    let lines = bench.link_up();
    assert_eq!(lines[0], ack_line(1001, WINDOW.into(), 1000, &bench));
    assert_eq!(bench.state(), "reopening");
}

#[test]
fn shrunk_to_recovering_a_new_m_tcp_ack_opens_the_window() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert_eq!(bench.state(), "shrunk");
    let answer = bench.up(2001);
    assert!(!answer.forwarded);
    assert_eq!(
        answer.lines.len(),
        1,
        "nothing is retransmitted: {answer:?}"
    );
    // No ACK of what the FH may have forgotten to have sent.
    assert!(
        answer.lines[0].starts_with("ACK 1001 wnd 1007 "),
        "{answer:?}"
    );
    assert_eq!(bench.state(), "reopening");
}

#[test]
fn recovering_acknowledges_no_more_than_the_fh_has_sent_since() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(3001).forwarded);
    assert_eq!(bench.state(), "reopening");
    // It has set snd_max back and begins anew from 1001.
    let answer = bench.down(1001, LEN);
    assert!(!answer.forwarded && answer.lines.len() == 1, "{answer:?}");
    assert!(answer.lines[0].starts_with("ACK 2001 wnd "), "{answer:?}");
    assert_eq!(bench.state(), "reopening");
}

#[test]
fn recovering_to_noshrink_when_the_fh_has_sent_as_far_as_the_sh_has_received() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(3001).forwarded);
    assert!(!bench.down(1001, LEN).forwarded);
    let answer = bench.down(2001, LEN);
    assert!(answer.lines[0].starts_with("ACK 3000 wnd "), "{answer:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn recovering_to_noshrink_at_once_when_the_fh_goes_on_with_something_new() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(2001).forwarded);
    let answer = bench.down(3001, LEN);
    assert!(answer.forwarded && answer.lines.len() == 1, "{answer:?}");
    assert!(answer.lines[0].starts_with("ACK 2000 wnd "), "{answer:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn recovering_ends_when_the_fh_is_silent_because_it_waits_for_acks() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(3001).forwarded);
    let lines = bench.wait(RTO_INITIAL_MS + 100);
    assert!(lines[0].starts_with("ACK 3000 wnd"), "{lines:?}");
    // And the byte that is left.
    assert!(counts(&lines, "ACK 3001 wnd") > 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn the_ack_that_opens_the_window_is_repeated_until_the_fh_answers() {
    let mut bench = shrunk();
    bench.wait(1000);
    assert_eq!(counts(&bench.link_up(), "ACK 1001 wnd 1000"), 1);
    let lines = bench.wait(400);
    assert_eq!(counts(&lines, "ACK 1001 wnd 1000"), 2, "{lines:?}");
    let _ = bench.down(1001, LEN);
    let lines = bench.wait(60_000);
    assert_eq!(counts(&lines, "ACK 1001"), 0, "{lines:?}");
}

#[test]
fn sh_tcps_own_window_is_all_that_the_fh_sees_of_a_larger_one() {
    let mut bench = not_adopted(with(MtcpSettings {
        window_bytes: 64 << 10,
        ..unpaced()
    }));
    bench.shake_hands(0, 5000);
    assert_eq!(ack_at_fh(&mut bench, 1), (1, 512));
    bench.forward(1, 2);
    let (_, window) = ack_at_fh(&mut bench, 1001);
    assert_eq!(u32::from(window) << SHIFT, 64 << 10);
}

#[test]
fn an_fh_that_retransmits_only_its_first_segment_in_recovering_gets_acks_of_the_rest() {
    let mut bench = one_of_three_acknowledged();
    bench.forward(3001, 1);
    bench.wait(220);
    assert!(!bench.up(2001).forwarded);
    assert_eq!(bench.state(), "reopening");
    assert!(!bench.down(2001, LEN).forwarded);
    // It was slow, and all that went before the window was closed has come.
    assert!(!bench.up(4001).forwarded);
    let lines = bench.wait(RTO_INITIAL_MS + 100);
    assert!(counts(&lines, "ACK 4000 wnd") > 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn recovering_goes_on_while_the_fh_waits_for_an_ack_of_what_it_has_sent_since() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    bench.link_down();
    bench.link_up();
    // It has set snd_max back, and its congestion window is one segment.
    assert!(!bench.down(1001, LEN).forwarded);
    bench.link_down();
    bench.wait(RTO_INITIAL_MS + 2000);
    bench.link_up();
    assert_eq!(bench.state(), "reopening");
    let answer = bench.up(3001);
    assert!(answer.lines[0].starts_with("ACK 2001 wnd "), "{answer:?}");
    // Its silence after that ACK shows that it has forgotten nothing.
    let lines = bench.wait(RTO_INITIAL_MS + 100);
    assert!(counts(&lines, "ACK 3000 wnd") > 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}
