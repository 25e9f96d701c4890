// SPDX-License-Identifier: Apache-2.0
//! Connections that the FH opens: the MH's only segment before the first data is its SYN.

use core::time::Duration;

use holdfast_wire::{Flags, SeqNum, Timestamps};

use super::bench::{Bench, bench, not_adopted, passed, settings};
use super::first_flow;
use crate::Scheme;

fn opened(scheme: Scheme) -> Bench {
    let mut bench = not_adopted(settings(scheme));
    bench.shake_hands_by_fh(0, 5000);
    assert_eq!(bench.state(), "adopting");
    bench
}

/// What becomes of the first data in an outage. Windows are left out: the MH's SYN offers a smaller
/// one.
fn outage(bench: &mut Bench) -> Vec<String> {
    let mut lines = Vec::new();
    for seq in [1, 1001] {
        let answer = bench.down(seq, 1000);
        lines.push(format!("{seq} {}", answer.forwarded));
        lines.extend(answer.lines);
    }
    lines.extend(bench.link_down());
    lines.extend(bench.wait(500));
    lines.extend(bench.link_up());
    lines.extend(bench.wait(2_000));
    let without_window = |line: String| match line.split_once(" wnd ") {
        Some((ack, rest)) => format!("{ack} {}", rest.split_once(' ').expect("more").1),
        None => line,
    };
    lines.into_iter().map(without_window).collect()
}

#[test]
fn the_first_data_is_served_as_in_a_flow_that_the_mh_opens() {
    for scheme in Scheme::ALL {
        let (mut by_fh, mut by_mh) = (opened(*scheme), bench(*scheme));
        assert_eq!(by_fh.down(1, 0), passed(), "{scheme:?}");
        assert_eq!(by_fh.state(), by_mh.state(), "{scheme:?}");
        assert_eq!(by_fh.counter("flows_adopted"), 1, "{scheme:?}");
        assert_eq!(outage(&mut by_fh), outage(&mut by_mh), "{scheme:?}");
        assert_eq!(by_fh.cached(), by_mh.cached(), "{scheme:?}");
        assert_eq!(by_fh.up(2001), by_mh.up(2001), "{scheme:?}");
        assert_eq!(by_fh.cached(), 0, "{scheme:?}");
    }
}

#[test]
fn without_the_third_segment_the_first_data_opens_the_flow() {
    let mut bench = opened(Scheme::Hold);
    // The first segment was lost before the gateway.
    bench.forward(1001, 1);
    assert_eq!((bench.state(), bench.cached()), ("open", 1000));
    bench.forward(1, 1);
    assert_eq!(bench.cached(), 2000);
}

#[test]
fn a_segment_with_one_wrong_number_opens_nothing() {
    for (seq, ack) in [(1, 5002), (1, 900_000), (700_000, 5001)] {
        let mut bench = opened(Scheme::Hold);
        let mut forged = bench.fh_segment(seq, 1000);
        forged.ack = SeqNum::new(ack);
        assert_eq!(bench.put(forged), passed());
        assert_eq!((bench.state(), bench.cached()), ("adopting", 0), "{seq}");
        bench.forward(1, 1);
        assert_eq!((bench.state(), bench.cached()), ("open", 1000));
    }
}

#[test]
fn a_segment_without_an_ack_opens_nothing_and_one_with_an_unknown_option_is_not_served() {
    let mut bench = opened(Scheme::Hold);
    let mut segment = bench.fh_segment(1, 1000);
    segment.flags = Flags::PSH;
    assert_eq!(bench.put(segment), passed());
    assert_eq!(bench.state(), "adopting");
    segment.flags = Flags::ACK;
    segment.options.others = true;
    assert_eq!(bench.put(segment), passed());
    assert_eq!(bench.state(), "opaque");
}

#[test]
fn a_segment_of_the_fh_opens_nothing_if_the_mh_opens_the_connection() {
    let mut bench = not_adopted(settings(Scheme::Hold));
    bench.shake_hands(0, 5000);
    assert_eq!(bench.down(1, 1000), passed());
    assert_eq!((bench.state(), bench.cached()), ("adopting", 0));
}

#[test]
fn a_fin_may_be_the_first_segment() {
    let mut bench = opened(Scheme::Hold);
    let mut fin = bench.fh_segment(1, 0);
    fin.flags = fin.flags.with(Flags::FIN);
    assert_eq!(bench.put(fin), passed());
    assert_eq!(first_flow(&bench.gateway).fh.fin, Some(SeqNum::new(2)));
}

#[test]
fn a_window_scale_counts_if_both_syns_have_one() {
    for (both, scale) in [(true, 7), (false, 0)] {
        let mut bench = not_adopted(settings(Scheme::Hold));
        let (mut syn, mut answer) = bench.syns_by_fh(0, 5000);
        if !both {
            syn.options.window_scale = None;
        }
        for segment in [&mut syn, &mut answer] {
            assert_eq!(bench.put(*segment), passed());
        }
        assert_eq!(bench.down(1, 0), passed());
        assert_eq!(first_flow(&bench.gateway).mh.window_scale, Some(scale));
    }
}

/// The path of the copies is not that of the packets: what the FH answers may come first.
#[test]
fn the_mhs_first_segment_opens_the_flow_if_the_fhs_was_not_seen_after_the_syns() {
    for is_seen in [false, true] {
        let mut bench = not_adopted(settings(Scheme::Hold));
        let (syn, answer) = bench.syns_by_fh(0, 5000);
        assert_eq!(bench.put(syn), passed());
        bench.wait(50);
        if is_seen {
            assert_eq!(bench.down(1, 0), passed());
        } else {
            // The MH echoes it all the same.
            bench.fh_clock_seen = bench.clock();
        }
        assert_eq!(bench.put(answer), passed());
        bench.wait(50);
        assert_eq!(bench.up(1), passed());
        assert_eq!(bench.state(), "open");
        assert_eq!(first_flow(&bench.gateway).mh.window_scale, Some(7));
    }
}

/// A middlebox may answer a SYN for the MH.
#[test]
fn the_clock_of_the_mhs_syn_may_be_another_one() {
    let mut bench = not_adopted(settings(Scheme::MtcpPlus));
    let (syn, mut answer) = bench.syns_by_fh(0, 5000);
    answer.options.timestamps = answer.options.timestamps.map(|ts| Timestamps {
        tsval: ts.tsval.wrapping_sub(1 << 30),
        ..ts
    });
    assert_eq!(bench.put(syn), passed());
    assert_eq!(bench.put(answer), passed());
    bench.forward(1, 1);
    bench.now += Duration::from_secs(3);
    assert_eq!(bench.up(1001), passed());
    let clock = first_flow(&bench.gateway).mh.timestamps;
    assert_eq!(clock.map(|ts| ts.tsval), Some(bench.clock() + 70_000));
}
