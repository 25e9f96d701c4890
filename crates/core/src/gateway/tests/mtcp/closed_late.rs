// SPDX-License-Identifier: Apache-2.0
//! The set for today's senders: the window is closed late.

use super::super::bench::{Bench, LEN, WINDOW, bench_with, suppressed};
use super::{ack_at_fh, ack_line, counts, with};
use crate::{MtcpPersist, MtcpSettings};

/// Three segments in flight. The MH has acknowledged the first. Then the link goes down, and the
/// FH receives no sign of that.
fn away_from_todays() -> Bench {
    let mut bench = bench_with(with(MtcpSettings {
        slow_start: false,
        ..MtcpSettings::today()
    }));
    bench.forward(1, 3);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    assert_eq!(bench.link_down(), [] as [&str; 0]);
    bench.wait(500);
    assert_eq!(bench.state(), "frozen");
    bench
}

#[test]
fn late_the_window_is_closed_when_the_fh_has_repeated_its_first_segment_three_times() {
    let mut bench = away_from_todays();
    for i in 0..3 {
        // A tail loss probe does not count.
        assert_eq!(bench.down(2001, LEN), suppressed(&[]));
        assert_eq!(bench.down(1000, LEN + 1), suppressed(&[]), "{i}");
    }
    assert_eq!(bench.counter("shrinks"), 0);
    let answer = ack_line(1000, 0, 1000, &bench);
    for _ in 0..20 {
        assert_eq!(bench.down(1000, LEN + 1), suppressed(&[&answer]));
    }
    assert_eq!(bench.state(), "shrunk");
}

#[test]
fn late_the_saved_byte_wakes_the_fh_when_the_mh_reconnects() {
    for copies in [0, 2, 5] {
        let mut bench = away_from_todays();
        for _ in 0..copies {
            bench.down(1000, LEN + 1);
        }
        let lines = bench.recovers();
        let wakes = ack_line(1001, WINDOW.into(), 1000, &bench);
        assert_eq!((&lines[0], counts(&lines, "ACK")), (&wakes, 1));
        assert_eq!(counts(&lines, "DATA"), 2, "{lines:?}");
        assert_eq!(ack_at_fh(&mut bench, 2001), (2000, WINDOW));
        assert_eq!(bench.state(), "split");
    }
}

#[test]
fn late_a_new_ack_of_the_mh_opens_the_window_as_it_is() {
    let mut bench = bench_with(with(MtcpSettings {
        slow_start: false,
        persist: MtcpPersist::Published,
        ..MtcpSettings::today()
    }));
    bench.forward(1, 3);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    bench.wait(150);
    for _ in 0..4 {
        bench.down(1000, LEN + 1);
    }
    assert_eq!(bench.state(), "shrunk");
    assert_eq!(ack_at_fh(&mut bench, 2001), (2000, WINDOW));
}

#[test]
fn late_an_fh_that_lacks_no_ack_gets_one_at_link_up_only_if_its_window_is_closed() {
    for (copies, acks) in [(0, 0), (4, 1)] {
        let mut bench = bench_with(with(MtcpSettings {
            slow_start: false,
            ..MtcpSettings::today()
        }));
        bench.forward(1, 3);
        assert_eq!(bench.link_down(), [] as [&str; 0]);
        for _ in 0..copies {
            bench.down(1, LEN);
        }
        let lines = bench.link_up();
        let opens = ack_line(1, WINDOW.into(), 1000, &bench);
        assert_eq!(counts(&lines, &opens), acks, "{copies}: {lines:?}");
        assert_eq!(counts(&lines, "ACK"), acks, "{copies}: {lines:?}");
        assert_eq!(bench.state(), "split");
    }
}

#[test]
fn late_an_fh_that_retransmits_while_the_link_is_up_keeps_its_window() {
    let mut bench = bench_with(with(MtcpSettings {
        slow_start: false,
        ..MtcpSettings::today()
    }));
    bench.forward(1, 3);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    for copy in 0..6 {
        let lines = bench.down(1000, LEN + 1).lines;
        assert_eq!(lines, [""; 0], "{copy}");
    }
    assert_eq!((bench.counter("shrinks"), bench.state()), (0, "split"));
}
