// SPDX-License-Identifier: Apache-2.0
//! What a mobile without a daemon sends, through outages that the gateway detects.

use holdfast_testbed::daemons::status_at;
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::topology::TopologySettings;

use super::mobile_host::MB;
use super::mobile_wake::with_outages;
use super::{PORT, assert_shorter_than, connection, emulated, fh, start_link, topology};

const SECOND_NS: u64 = 1_000_000_000;
/// When outages begin, and how long they last, in seconds.
const OUTAGES: [(u64, u64); 3] = [(1, 1), (4, 3), (10, 7)];

fn link(carrier_follows: bool) -> EmulatedLink {
    EmulatedLink {
        carrier_follows,
        ..with_outages(&OUTAGES.map(|(at, length)| (at as f64, length as f64)))
    }
}

fn counter(harness: &Harness, name: &str) -> u64 {
    let status = status_at(&harness.folder().join("gateway.sock")).unwrap();
    status["counters"][name].as_u64().unwrap_or_default()
}

/// From each link up to the first new byte at the FH, in milliseconds.
fn stalls_ms(control: &str, scheme: Option<&str>, carrier_follows: bool) -> [u64; 3] {
    let settings = TopologySettings {
        congestion_control: control.to_owned(),
        ..emulated(link(carrier_follows))
    };
    let mut harness = topology(&settings, scheme);
    let (at_fh, at_mh) = connection(&harness, fh(), PORT);
    let flow = Flow::start(at_mh, at_fh, 20 * MB, 5);
    let start_ns = start_link(&mut harness);
    let received = flow.finish().unwrap();
    let up_ns = OUTAGES.map(|(at, length)| start_ns + (at + length) * SECOND_NS);
    let stalls = up_ns.map(|up_ns| received.stall_ms(up_ns));
    println!("{control}, {scheme:?}, carrier {carrier_follows}: {stalls:?} ms");
    if scheme.is_some() {
        let count = |name| counter(&harness, name);
        println!(
            "  {} silences, {} probes, {} wake-ups, {} ICMP",
            count("silences"),
            count("probes"),
            count("wake_ups"),
            count("worker.unreachables")
        );
    }
    stalls
}

#[test]
fn figures() {
    in_virtual_kernel!();
    for control in ["cubic", "bbr"] {
        for carrier in [true, false] {
            for scheme in [None, Some("hold"), Some("auto")] {
                stalls_ms(control, scheme, carrier);
            }
        }
    }
    assert_shorter_than(1, "x", 0);
}
