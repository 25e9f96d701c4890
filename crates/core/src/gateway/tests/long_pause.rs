// SPDX-License-Identifier: Apache-2.0
//! The FH's timestamp clock counts microseconds, and goes more than half round in a pause of 40 minutes (RFC 7323, 5.5).

use holdfast_wire::{Segment, Timestamps};

use super::bench::{Bench, LEN, bench};
use crate::Scheme;

/// A download after the pause, the FH's next segment, and what the gateway has to send of it: with an older
/// timestamp the MH would drop what follows by PAWS.
fn after_long_pause() -> (Bench, Segment, String) {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 1);
    bench.wait(50);
    assert!(bench.up(1001).forwarded);
    bench.wait(40 * 60 * 1000);
    let tsval = 1050_u32.wrapping_add(2_400_000_000);
    let mut next = bench.fh_segment(1001, LEN);
    next.options.timestamps = Some(Timestamps {
        tsval,
        tsecr: 71_050,
    });
    (bench, next, format!("DATA 1001..2001 ts {tsval}"))
}

#[test]
fn after_a_long_pause_a_clock_that_has_gone_half_round_is_believed() {
    let (mut bench, next, fresh) = after_long_pause();
    bench.put(next);
    assert_eq!(bench.cached(), 1000);
    bench.link_down();
    bench.wait(2_000);
    let lines = bench.link_up();
    assert!(lines.contains(&fresh), "{lines:?}");
}

#[test]
fn after_a_long_pause_what_waited_for_link_up_has_its_own_timestamp() {
    let (mut bench, next, fresh) = after_long_pause();
    bench.link_down();
    assert!(!bench.put(next).forwarded);
    bench.wait(2_000);
    let lines = bench.link_up();
    assert!(lines.contains(&fresh), "{lines:?}");
}
