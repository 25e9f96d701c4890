// SPDX-License-Identifier: Apache-2.0
//! What is noted, against the cases that the simulator's notes are held against too.

use super::*;

#[path = "../../../../sim/src/network/mobile/noted/cases.rs"]
mod lines;

use lines::{Line, written};

/// How long a ms of the cases is here, tried in turn: on a busy machine pauses creep in, and what
/// the kernel may take another pause for it then.
const SCALES: [u64; 18] = [1, 1, 1, 1, 1, 1, 5, 5, 5, 5, 5, 20, 20, 20, 20, 50, 50, 50];

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

/// Whether this time, ns, can have passed between two of the lines, `ms` of the cases apart: each
/// took from one time to another, however late it was.
fn is_between(ran: &[(u64, u64, u64)], ms: u64, ns: u64) -> bool {
    ran.iter().any(|(begun, from, to)| {
        ran.iter().any(|(ended, later_from, later_to)| {
            let range = later_from.saturating_sub(*to)..=later_to.saturating_sub(*from);
            *ended == begun + ms && range.contains(&ns)
        })
    })
}

/// Runs a flow's lines at their times, `scale` times as slow; what was wrong, if it was a time.
fn run(loaded: &Loaded, lines: &[Line], flow: FlowKey, scale: u64) -> Result<(), String> {
    let began = monotonic_ns();
    // When each was run: from, to.
    let mut ran = Vec::new();
    for line in lines {
        // Not before its time, and as little after it as can be.
        while monotonic_ns() < began + line.at_ms * scale * 1_000_000 {
            std::hint::spin_loop();
        }
        let frame = spec(line, flow).frame_with(&line.sack);
        let from = monotonic_ns();
        if line.is_downlink {
            loaded.run("mobile_ingress", &frame);
        } else {
            loaded.egress(&frame);
        }
        let to = monotonic_ns();
        ran.push((line.at_ms, from, to));
        let (noted, text) = (loaded.maps.flow(&flow).unwrap(), line.text);
        assert_eq!(noted.is_some(), line.noted.is_some(), "{text}");
        let (Some(noted), Some(expected)) = (noted, line.noted) else {
            continue;
        };
        let sack = sender::without_dsack(&noted.flow.sack, noted.flow.rcv_nxt);
        assert_eq!(written(&noted.flow, &sack), expected.newest_ack, "{text}");
        assert_eq!(noted.flow.is_finished, expected.is_finished, "{text}");
        let received = noted.flow.received_at.map(Instant::as_nanos);
        let is_then = |received: u64| {
            let mut at = ran
                .iter()
                .filter(|(at, ..)| Some(*at) == expected.received_ms);
            at.any(|(_, from, to)| (*from..=*to).contains(&received))
        };
        assert_eq!(received.is_some(), expected.received_ms.is_some(), "{text}");
        assert!(received.is_none_or(is_then), "{text}");
        let rtt = noted.flow.rtt.map(|rtt| rtt.as_nanos() as u64);
        let is_right = match (rtt, expected.rtt_ms) {
            (Some(ns), Some(ms)) => is_between(&ran, ms, ns),
            (rtt, expected) => rtt.is_none() && expected.is_none(),
        };
        if !is_right {
            return Err(format!("a round trip of {rtt:?} ns: {text}"));
        }
    }
    Ok(())
}

#[test]
fn what_the_kernel_notes_is_what_the_cases_expect() {
    let test = "what_the_kernel_notes_is_what_the_cases_expect";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    for (lines, number) in lines::flows().into_iter().zip(0..) {
        for is_v6 in [false, true] {
            let mut wrong = String::new();
            let went = SCALES.into_iter().zip(0..).any(|(scale, again)| {
                let flow = flow(is_v6, 10_000 + 100 * number + again);
                let ran = run(&loaded, &lines, flow, scale);
                ran.map_err(|error| wrong = error).is_ok()
            });
            assert!(went, "{wrong}");
        }
    }
}
