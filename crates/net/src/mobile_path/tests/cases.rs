// SPDX-License-Identifier: Apache-2.0
//! The noted records, with the cases that test the simulator's records too.

use std::collections::BTreeMap;

use super::*;

#[path = "../../../../sim/src/network/mobile/noted/cases.rs"]
mod lines;

use lines::{Line, written};

fn spec(line: &Line, flow: FlowKey) -> Spec {
    Spec {
        flow,
        downlink: line.is_downlink,
        seq: line.seq.get(),
        ack: line.ack.get(),
        flags: line.flags,
        window: line.window,
        clocks: line.clocks.map(|clocks| (clocks.tsval, clocks.tsecr)),
        payload: line.payload_bytes as usize,
    }
}

/// Runs a flow's lines at their times. Hardly any time passes while a program runs.
fn run(loaded: &Loaded, lines: &[Line], flow: FlowKey) {
    let began = monotonic_ns();
    // Begin and end of the run of a millisecond's last line.
    let mut ran_ns = BTreeMap::new();
    for line in lines {
        sleep_until(began + line.at_ms * 1_000_000);
        let frame = spec(line, flow).frame_with(&line.sack);
        // The kernel's clock here is some hundred ns behind the clock of a program.
        let from = monotonic_ns() - 1_000;
        if line.is_downlink {
            loaded.run("mobile_ingress", &frame);
        } else {
            loaded.egress(&frame);
        }
        ran_ns.insert(line.at_ms, from..=monotonic_ns());
        let (noted, text) = (loaded.maps.flow(&flow).unwrap(), line.text);
        assert_eq!(noted.is_some(), line.noted.is_some(), "{text}");
        let (Some(noted), Some(expected)) = (noted, line.noted) else {
            continue;
        };
        let sack = sender::without_dsack(&noted.flow.sack, noted.flow.rcv_nxt);
        assert_eq!(written(&noted.flow, &sack), expected.newest_ack, "{text}");
        assert_eq!(noted.flow.is_finished, expected.is_finished, "{text}");
        let received_ns = noted.flow.received_at.map(Instant::as_nanos);
        let is_then = match (received_ns, expected.received_ms) {
            (Some(ns), Some(ms)) => ran_ns[&ms].contains(&ns),
            (ns, ms) => ns.is_none() && ms.is_none(),
        };
        assert!(is_then, "{received_ns:?} of {ran_ns:?}: {text}");
        let rtt_ms = noted.flow.rtt.map(|rtt| rtt.as_nanos() as u64);
        let rtt_ms = rtt_ms.map(|ns| (ns + 500_000) / 1_000_000);
        assert_eq!(rtt_ms, expected.rtt_ms, "round trip: {text}");
    }
}

#[test]
fn what_the_kernel_notes_is_what_the_cases_expect() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let loaded = Loaded::new("what_the_kernel_notes_is_what_the_cases_expect").unwrap();
    for (lines, number) in lines::flows().into_iter().zip(0..) {
        for is_v6 in [false, true] {
            run(&loaded, &lines, flow(is_v6, 10_000 + number));
        }
    }
}
