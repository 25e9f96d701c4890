// SPDX-License-Identifier: Apache-2.0
//! The scheme `observe`: every segment passes, and outages are counted.

use super::bench::{LEN, bench, passed};
use crate::Scheme;

const NOTHING: [String; 0] = [];

fn cost(bench: &super::bench::Bench) -> [u64; 3] {
    [
        "observed.outages",
        "observed.waits_ms",
        "observed.waiting_bytes",
    ]
    .map(|name| bench.counter(name))
}

#[test]
fn every_segment_of_an_outage_passes_and_nothing_is_sent_in_its_name() {
    let mut bench = bench(Scheme::Observe);
    bench.forward(1, 3);
    assert_eq!(bench.goes_down(), NOTHING);
    assert_eq!(bench.down(1, LEN), passed(), "a retransmission of the FH");
    assert_eq!(bench.down(3001, LEN), passed(), "new data");
    assert_eq!(bench.down(4001, 0), passed(), "an ACK for the MH");
    assert_eq!(bench.wait(1_500), NOTHING, "no probe");
    assert_eq!(bench.cached(), 0);
    assert_eq!(bench.recovers(), NOTHING, "nothing is retransmitted");
    assert_eq!(cost(&bench), [1, 1_500, 4_000]);
    assert_eq!(bench.up(4001), passed());
}

#[test]
fn a_silence_begins_with_the_first_segment_that_got_no_answer() {
    let mut bench = bench(Scheme::Observe);
    bench.forward(1, 2);
    assert_eq!(bench.wait(3_000), NOTHING);
    assert_eq!(bench.down(1, LEN), passed(), "the FH retransmits");
    assert_eq!(bench.up(1001), passed());
    assert_eq!(cost(&bench), [1, 3_000, 1_000]);
}

#[test]
fn an_outage_that_holds_nothing_up_costs_nothing() {
    let mut bench = bench(Scheme::Observe);
    bench.forward(1, 1);
    assert_eq!(bench.up(1001), passed());
    assert_eq!(bench.goes_down(), NOTHING);
    assert_eq!(bench.wait(500), NOTHING);
    assert_eq!(bench.recovers(), NOTHING);
    assert_eq!(cost(&bench), [0, 0, 0]);
}
