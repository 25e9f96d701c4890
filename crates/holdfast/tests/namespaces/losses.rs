// SPDX-License-Identifier: Apache-2.0
//! A radio that loses packets now and then: what the FH hears of it.

use holdfast_lab::counters::TcpCounters;
use holdfast_lab::harness::Flow;
use holdfast_lab::topology::load_rules;

use super::{PORT, connection, fh, harness, wired};

const MB: u64 = 1_000_000;

/// Before the MH's TCP sees them.
const LOSES_SOME: &str = "
table inet radio {
    chain arriving {
        type filter hook prerouting priority raw;
        meta l4proto tcp meta length > 1000 numgen inc mod 50 == 7 drop;
    }
}
";

/// Segments that the FH sent again for a download of 8 MB.
fn sent_again_by_fh(test: &str, scheme: &str) -> Option<u64> {
    let harness = harness(test, &wired(1500), scheme)?;
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    load_rules(&harness.topology.mh, LOSES_SOME).unwrap();
    let before = TcpCounters::read(&harness.topology.fh).unwrap();
    let flow = Flow::start(at_fh, at_mh, 8 * MB, 17);
    flow.finish()
        .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
    let after = TcpCounters::read(&harness.topology.fh).unwrap();
    Some(after.retransmitted_segments - before.retransmitted_segments)
}

#[test]
fn snoop_keeps_the_losses_of_the_radio_from_the_fh() {
    let test = "snoop_keeps_the_losses_of_the_radio_from_the_fh";
    let Some(hold) = sent_again_by_fh(test, "hold") else {
        return;
    };
    let Some(snoop) = sent_again_by_fh(test, "snoop") else {
        return;
    };
    assert!(hold > 20, "{hold} sent again: nothing was lost");
    assert!(
        snoop < hold / 4,
        "sent again: {snoop}, without Snoop {hold}"
    );
}
