// SPDX-License-Identifier: Apache-2.0
//! One of several flows of an MH gets no answer: the device behind the MH's address has left, or its segment
//! was lost once more. The others go on.

use super::auto::with_sack;
use super::bench::{Bench, LEN, bench, bench_with, settings};
use crate::Scheme;

const SCHEMES: [Scheme; 3] = [Scheme::Auto, Scheme::Hold, Scheme::Snoop];

/// Two flows of equal numbers, the first byte that each MH lacks, and the port of the first one.
fn two_flows(scheme: Scheme) -> (Bench, u32, u16) {
    let mut bench = bench_with(settings(scheme));
    with_sack(&mut bench);
    let una = with_sack(&mut bench);
    let first = bench.mh_port - 1;
    (bench, una, first)
}

/// The flow of the present port goes on, a segment each 10 ms. The lines of all flows meanwhile.
fn go_on(bench: &mut Bench, una: &mut u32, millis: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..millis / 10 {
        lines.extend(bench.down(*una, LEN).lines);
        lines.extend(bench.wait(10));
        *una += LEN;
        lines.extend(bench.up(*una).lines);
    }
    lines
}

fn copies_of(seq: u32, lines: &[String]) -> usize {
    let begin = format!("DATA {seq}..");
    lines.iter().filter(|line| line.starts_with(&begin)).count()
}

/// The pace lets it out when only the other flow, or none, has its turn.
#[test]
fn a_piece_that_is_lost_once_more_is_retransmitted_in_any_flows_turn() {
    for scheme in SCHEMES {
        let (mut bench, una, first) = two_flows(scheme);
        let second = bench.mh_port;
        bench.link_down();
        bench.mh_port = first;
        for segment in 0..4 {
            bench.down(una + segment * LEN, LEN);
        }
        bench.mh_port = second;
        bench.down(una, LEN);
        bench.wait(5_000);
        bench.mh_port = first;
        bench.link_up();
        bench.wait(30);
        let mut next = una + 4 * LEN;
        bench.up(next);
        let lines = go_on(&mut bench, &mut next, 3_000);
        assert!(copies_of(una, &lines) > 0, "{scheme:?}: {lines:?}");
    }
}

#[test]
fn what_the_fh_sends_meanwhile_does_not_put_off_the_retransmission_of_a_piece() {
    for scheme in SCHEMES {
        let (mut bench, una, first) = two_flows(scheme);
        let (second, mut next) = (bench.mh_port, una);
        go_on(&mut bench, &mut next, 10);
        bench.link_down();
        bench.mh_port = first;
        bench.down(una, LEN);
        bench.wait(5_000);
        assert_eq!(copies_of(una, &bench.recovers()), 1, "{scheme:?}");
        let mut lines = Vec::new();
        for _ in 0..60 {
            bench.mh_port = first;
            lines.extend(bench.down(una, LEN).lines);
            bench.mh_port = second;
            lines.extend(go_on(&mut bench, &mut next, 50));
        }
        assert!(copies_of(una, &lines) > 0, "{scheme:?}: {lines:?}");
    }
}

#[test]
fn retransmissions_end_if_nothing_comes_from_the_flows_end_any_more() {
    for scheme in [Scheme::Auto, Scheme::Snoop] {
        let (mut bench, una, first) = two_flows(scheme);
        let second = bench.mh_port;
        bench.mh_port = first;
        bench.forward(una, 46);
        bench.wait(11);
        for hole in 0..3 {
            let left = una + (1 + 15 * hole) * LEN;
            bench.up_with_sack(una, left, left + 14 * LEN);
            bench.wait(1);
        }
        let last = una + 31 * LEN;
        bench.up_with_sack(una, last, last + 14 * LEN);
        bench.mh_port = second;
        let mut next = una + 100 * LEN;
        bench.forward(una, 100);
        bench.up(next);
        let lines = go_on(&mut bench, &mut next, 60_000);
        let holes = [0, 15, 30].map(|segment| copies_of(una + segment * LEN, &lines));
        let copies: usize = holes.iter().sum();
        assert!((1..=48).contains(&copies), "{scheme:?}: {holes:?}");
    }
}

/// The flow that has no answer makes no recovery of the others: their segments pass at once.
#[test]
fn a_retransmission_of_one_flow_queues_nothing_of_the_others() {
    for scheme in [Scheme::Auto, Scheme::Hold] {
        let (mut bench, una, first) = two_flows(scheme);
        let second = bench.mh_port;
        // Both lose a segment in an outage, and the first flow's end has left.
        bench.mh_port = first;
        bench.down(una, LEN);
        bench.mh_port = second;
        bench.down(una, LEN);
        bench.wait(1_000);
        let mut sent = una + LEN;
        bench.up(sent);
        let mut acked = sent;
        let mut queued = Vec::new();
        for step in 0..4_000 {
            // Sixty segments are in flight, and one arrives each millisecond.
            while sent < acked + 60 * LEN {
                let passes = bench.down(sent, LEN).forwarded;
                queued.extend((!passes && step > 1_000).then_some(step));
                sent += LEN;
            }
            bench.wait(1);
            if step > 20 {
                acked += LEN;
                bench.up(acked);
            }
        }
        assert_eq!(queued, [0; 0], "{scheme:?}");
    }
}

/// Linux gives up after some 15 minutes, and an FH that still waits retransmits every two minutes.
#[test]
fn what_no_fh_retransmits_any_more_leaves_the_cache_in_minutes() {
    for scheme in SCHEMES {
        let mut bench = bench(scheme);
        bench.forward(1, 3);
        bench.link_down();
        for _ in 0..8 {
            bench.wait(120_000);
            bench.down(1, LEN);
        }
        assert_eq!(bench.cached(), 3_000, "{scheme:?}");
        bench.wait(6 * 60_000);
        assert_eq!(bench.cached(), 0, "{scheme:?}");
    }
}
