// SPDX-License-Identifier: Apache-2.0
//! `auto` over a link that takes longer for a segment than other links for a window.

use super::bench::{Bench, LEN, bench};
use crate::Scheme;

/// A flow over a link that delivers a segment each 375 ms; four are always in flight. The first
/// byte without an ACK.
fn over_slow_link(bench: &mut Bench) -> u32 {
    let mut una = 1;
    bench.forward(una, 4);
    for _ in 0..12 {
        bench.wait(375);
        una += LEN;
        bench.up(una);
        bench.forward(una + 3 * LEN, 1);
    }
    una
}

#[test]
fn on_a_slow_link_probes_are_bytes_and_three_a_second() {
    let mut bench = bench(Scheme::Auto);
    let una = over_slow_link(&mut bench);
    let probes = bench.wait(6_000);
    assert!((15..=20).contains(&probes.len()), "{probes:?}");
    let probe = format!("DATA {una}..{} ", una + 1);
    assert!(
        probes.iter().all(|line| line.starts_with(&probe)),
        "{probes:?}"
    );
}

#[test]
fn a_slow_link_gets_no_ten_segments_at_once_after_an_outage() {
    let mut bench = bench(Scheme::Auto);
    let una = over_slow_link(&mut bench);
    bench.link_down();
    for segment in 4..20 {
        bench.down(una + segment * LEN, LEN);
    }
    bench.wait(3_000);
    let sent = bench.link_up().len() + bench.wait(300).len();
    assert!((2..=3).contains(&sent), "{sent}");
}

#[test]
fn on_a_slow_link_the_probes_of_flows_without_an_answer_are_bytes() {
    let mut bench = bench(Scheme::Auto);
    for _ in 0..9 {
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        bench.up(1);
        bench.forward(1, 1);
    }
    bench.mh_port += 1;
    bench.shake_hands(0, 5000);
    bench.up(1);
    let una = over_slow_link(&mut bench);
    bench.wait(4_000);
    let mut lines = bench.up(una + 1).lines;
    lines.extend(bench.wait(300));
    let of_others: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("DATA 1.."))
        .collect();
    assert!(!of_others.is_empty(), "{lines:?}");
    assert!(
        of_others.iter().all(|line| line.starts_with("DATA 1..2 ")),
        "{lines:?}"
    );
}

#[test]
fn while_a_slow_link_delivers_copies_recovery_waits_for_its_answer() {
    let mut bench = bench(Scheme::Auto);
    let una = over_slow_link(&mut bench);
    bench.link_down();
    bench.wait(3_000);
    bench.link_up();
    bench.wait(200);
    let mut retransmitted = Vec::new();
    for _ in 0..8 {
        retransmitted.extend(bench.wait(375));
        retransmitted.extend(bench.up(una).lines);
    }
    // The third duplicate ACK may show a loss.
    assert!(retransmitted.len() <= 1, "{retransmitted:?}");
    assert!(!bench.wait(2_000).is_empty());
}
