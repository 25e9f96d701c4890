// SPDX-License-Identifier: Apache-2.0
//! A radio that loses some packets.

use holdfast_testbed::counters::TcpCounters;
use holdfast_testbed::harness::Flow;
use holdfast_testbed::topology::load_rules;

use super::{PORT, TCP_SCHEMES, connection, fh, harness, wired};

const MB: u64 = 1_000_000;

/// Drops packets before the MH's TCP receives them.
const LOSES_SOME: &str = "
table inet radio {
    chain arriving {
        type filter hook prerouting priority raw;
        meta l4proto tcp meta length > 1000 numgen inc mod 50 == 7 drop;
    }
}
";

#[test]
fn a_download_over_a_lossy_radio_arrives_whole() {
    in_virtual_kernel!();
    for scheme in TCP_SCHEMES {
        let harness = harness(&wired(1500), scheme);
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        load_rules(&harness.topology.mh, LOSES_SOME).unwrap();
        let flow = Flow::start(at_fh, at_mh, 8 * MB, 17);
        flow.finish()
            .unwrap_or_else(|error| panic!("{scheme}: {error:#}"));
        let fh = TcpCounters::read(&harness.topology.fh).unwrap();
        assert_eq!(fh.resets, 0, "{scheme}");
        // The FH sees losses; with Snoop it may see none.
        let sees_losses = fh.retransmitted_segments > 0;
        assert!(sees_losses || scheme == "snoop", "{scheme}");
    }
}
