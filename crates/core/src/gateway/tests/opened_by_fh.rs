// SPDX-License-Identifier: Apache-2.0
//! Connections that the FH opens: the MH's only segment before the first data is its SYN.

use holdfast_wire::SeqNum;

use super::bench::{Bench, bench, not_adopted, passed, settings};
use crate::Scheme;

fn opened(scheme: Scheme) -> Bench {
    let mut bench = not_adopted(settings(scheme));
    bench.shake_hands_by_fh(0, 5000);
    assert_eq!(bench.state(), "adopting");
    bench
}

/// What becomes of the first data in an outage. Without windows: an MH's SYN offers less.
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
        Some((ack, _)) => ack.to_owned(),
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
fn who_does_not_know_the_number_of_the_mhs_syn_opens_nothing() {
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
