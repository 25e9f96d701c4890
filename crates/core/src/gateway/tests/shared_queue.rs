// SPDX-License-Identifier: Apache-2.0
//! Several flows of one MH behind the same queue.

use super::auto::with_sack;
use super::bench::{Bench, LEN, bench_with, settings};
use crate::{Direction, FlowKey, LinkEvent, Scheme, Settings};

const FLOWS: u16 = 8;

/// Each of the flows has `segments` in flight, for `millis`. The first byte of each that the MH lacks.
fn eight_flows(scheme: Scheme, segments: u32, millis: u64) -> (Bench, u32) {
    let mut bench = bench_with(settings(scheme));
    let mut una = 0;
    for _ in 0..FLOWS {
        una = with_sack(&mut bench);
    }
    bench.mh_port -= FLOWS;
    for _ in 0..FLOWS {
        bench.mh_port += 1;
        bench.forward(una, segments);
    }
    bench.wait(millis);
    (bench, una)
}

/// How many flows get back their first segment of ten. Each of the first `losers` lacks it.
fn repaired(losers: u16) -> usize {
    let (mut bench, una) = eight_flows(Scheme::Auto, 10, 18);
    bench.mh_port -= FLOWS;
    let mut repaired = 0;
    for _ in 0..losers {
        bench.mh_port += 1;
        let answer = bench.up_with_sack(una, una + LEN, una + 10 * LEN);
        let first = format!("DATA {una}..");
        repaired += usize::from(answer.lines.iter().any(|line| line.starts_with(&first)));
    }
    repaired
}

/// When a queue overflows each of the flows that share it may lose a single segment.
#[test]
fn what_flows_lose_together_is_an_overflow() {
    assert_eq!(repaired(3), 3, "a few are the radio's");
    assert_eq!(repaired(FLOWS), 3, "four segments, and a sixteenth of all");
}

/// The queue has its order. The flows' segments are served one flow after the other.
#[test]
fn a_flow_is_not_probed_while_the_mh_answers_what_was_sent_before_its_last_segment() {
    for scheme in [Scheme::Auto, Scheme::Snoop] {
        let (mut bench, una) = eight_flows(scheme, 10, 0);
        bench.mh_port -= FLOWS;
        for flow in 0..FLOWS {
            bench.mh_port += 1;
            for segment in 1..=10 {
                // A segment takes 4 ms: the last flow waits for 14 round trips.
                let lines = bench.wait(4);
                assert_eq!(lines, [""; 0], "{scheme:?}, flow {flow}");
                bench.up(una + segment * LEN);
            }
        }
    }
}

#[test]
fn a_flows_last_segment_is_probed_for_if_the_mh_answers_what_was_sent_after_it() {
    for scheme in [Scheme::Auto, Scheme::Snoop] {
        let (mut bench, una) = eight_flows(scheme, 2, 1);
        let last = bench.mh_port;
        let end = una + 2 * LEN;
        let probe = format!("DATA {}..{end} ", una + LEN);
        let mut probes = 0;
        // The last flow goes on. The first one has no answer.
        for round in 0..20 {
            bench.mh_port = last;
            bench.forward(end + round * LEN, 1);
            let lines = bench.wait(10);
            probes += lines.iter().filter(|line| line.starts_with(&probe)).count();
            bench.up(end + (1 + round) * LEN);
            for port in last - FLOWS + 2..last {
                bench.mh_port = port;
                bench.up(end);
            }
        }
        assert!(probes > 0, "{scheme:?}");
    }
}

/// A flow that waits for what the other base station delivers sends nothing in the recovery of another flow.
#[test]
fn a_recovery_leaves_a_flow_that_waits_for_its_handoff() {
    let (mut bench, una) = eight_flows(Scheme::Hold, 1, 10);
    let waiting = bench.mh_port;
    let key = FlowKey::of(&bench.fh_segment(una, 0), Direction::Downlink);
    bench.gateway.queue_segments(&[key]);
    assert!(!bench.down(una + LEN, LEN).forwarded);
    let of_waiting = format!("DATA {}..", una + LEN);
    for port in waiting - FLOWS + 1..waiting {
        bench.mh_port = port;
        bench.up(una + LEN);
    }
    let mut lines = bench.signal(LinkEvent::Down);
    bench.mh_port -= 1;
    bench.down(una + LEN, LEN);
    lines.extend(bench.signal(LinkEvent::Up));
    lines.extend(bench.recovers());
    let sent = lines.iter().filter(|line| line.starts_with(&of_waiting));
    assert_eq!(sent.count(), 1, "{lines:?}");
}

/// What the gateway cannot retransmit is in flight for ever: then the FH's timer must not decide when the other
/// flows go on.
#[test]
fn what_is_not_cached_does_not_hold_up_what_is() {
    for scheme in [Scheme::Hold, Scheme::Auto] {
        let mut bench = bench_with(Settings {
            cache_bytes_max: 2 * LEN as usize,
            ..settings(scheme)
        });
        let una = with_sack(&mut bench);
        let cached = bench.mh_port;
        with_sack(&mut bench);
        bench.mh_port = cached;
        bench.forward(una, 2);
        bench.mh_port += 1;
        bench.forward(una, 40);
        assert_eq!(bench.gateway.budget.bytes(), 2 * LEN as usize, "{scheme:?}");
        let mut lines = bench.link_down();
        bench.wait(100);
        lines.extend(bench.link_up());
        lines.extend(bench.wait(3_000));
        let first = format!("DATA {una}..");
        let sent = lines.iter().any(|line| line.starts_with(&first));
        assert!(sent, "{scheme:?}: {lines:?}");
    }
}
