// SPDX-License-Identifier: Apache-2.0
//! A radio that loses packets now and then.

use holdfast_testbed::counters::TcpCounters;
use holdfast_testbed::harness::Flow;
use holdfast_testbed::topology::load_rules;

use super::{PORT, TCP_SCHEMES, connection, fh, harness, wired};

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
        // Something was lost; Snoop may keep all of it from the FH.
        let hears = fh.retransmitted_segments > 0;
        assert!(hears || scheme == "snoop", "{scheme}");
    }
}
