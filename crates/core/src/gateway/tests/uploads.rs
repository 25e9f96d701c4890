// SPDX-License-Identifier: Apache-2.0
//! An MH that sends: its outages are detected, and its sender is woken.

use holdfast_wire::{Segment, SeqNum};

use super::bench::{Bench, LEN, bench};
use crate::Scheme;

const SCHEMES: [Scheme; 2] = [Scheme::Hold, Scheme::Auto];
/// The MH's first byte.
const FIRST: u32 = 5001;

/// A data segment of the MH.
fn data(bench: &Bench, number: u32) -> Segment {
    let mut segment = bench.mh_segment(1);
    segment.seq = SeqNum::new(FIRST + number * LEN);
    segment.payload_len = LEN;
    segment
}

/// The FH's ACK of all before a segment of the MH.
fn ack(bench: &Bench, number: u32) -> Segment {
    let mut ack = bench.fh_segment(1, 0);
    ack.ack = SeqNum::new(FIRST + number * LEN);
    ack
}

/// Segments of the MH, one each 5 ms. The FH acknowledges all but the last `unanswered`.
fn uploads(scheme: Scheme, segments: u32, unanswered: u32) -> Bench {
    let mut bench = bench(scheme);
    for number in 0..segments {
        assert!(bench.put(data(&bench, number)).forwarded);
        bench.wait(5);
        if number + unanswered < segments {
            assert!(bench.put(ack(&bench, number + 1)).forwarded);
        }
    }
    bench
}

fn counts(lines: &[String], what: &str) -> usize {
    lines.iter().filter(|line| line.contains(what)).count()
}

#[test]
fn at_link_up_the_mh_gets_the_newest_ack_of_the_fh_until_it_sends() {
    for scheme in SCHEMES {
        let mut bench = uploads(scheme, 20, 0);
        bench.link_down();
        bench.wait(3_000);
        let lines = bench.link_up();
        let newest = format!("MADE to MH seq 1 ack {} ", FIRST + 20 * LEN);
        assert_eq!(counts(&lines, &newest), 1, "{scheme:?} {lines:?}");
        let report = format!("UNREACHABLE seq {} x", FIRST + 20 * LEN);
        assert_eq!(counts(&lines, &report), 1, "{scheme:?} {lines:?}");
        let again = bench.wait(3_000);
        assert_eq!(counts(&again, &newest), 3, "{scheme:?} {again:?}");
        assert_eq!(counts(&again, "UNREACHABLE"), 3, "{scheme:?} {again:?}");
        assert_eq!(bench.wait(30_000), [""; 0], "{scheme:?}");
        // The next outage: the MH sends at once.
        bench.link_down();
        bench.wait(3_000);
        assert!(!bench.link_up().is_empty());
        bench.put(data(&bench, 20));
        assert_eq!(bench.wait(60_000), [""; 0], "{scheme:?}");
    }
}

#[test]
fn acks_at_the_ends_of_segments_go_ahead_of_the_newest() {
    for scheme in SCHEMES {
        let mut bench = uploads(scheme, 20, 1);
        bench.link_down();
        // It comes in the outage.
        bench.put(ack(&bench, 20));
        bench.wait(3_000);
        let lines = bench.link_up();
        let acks: Vec<_> = (1..=20)
            .map(|number| format!("MADE to MH seq 1 ack {} ts 1100", FIRST + number * LEN))
            .collect();
        assert_eq!(lines[..20], acks, "{scheme:?}");
        assert_eq!(
            lines[20],
            format!("UNREACHABLE seq {} x5", FIRST + 20 * LEN)
        );
    }
}

#[test]
fn a_silent_outage_of_an_upload_is_detected_by_keep_alives() {
    for scheme in SCHEMES {
        let mut bench = uploads(scheme, 200, 0);
        let probes = bench.wait(1_000);
        let keep_alive = "MADE to MH seq 0 ";
        assert!(counts(&probes, keep_alive) >= 3, "{scheme:?} {probes:?}");
        assert_eq!(bench.counter("silences"), 1, "{scheme:?}");
        bench.wait(2_000);
        // The MH has sent more, which is lost; it answers the keep-alive.
        let mut answer = bench.mh_segment(1);
        answer.seq = SeqNum::new(FIRST + 240 * LEN);
        let answer = bench.put(answer);
        assert!(answer.forwarded);
        assert_eq!(counts(&answer.lines, "MADE to MH seq 1 "), 65, "{answer:?}");
        assert_eq!(counts(&answer.lines, "UNREACHABLE"), 1, "{answer:?}");
        assert_eq!(bench.counter("recoveries"), 1, "{scheme:?}");
    }
}

#[test]
fn a_pause_of_the_application_costs_one_probe() {
    for scheme in SCHEMES {
        let mut bench = uploads(scheme, 200, 0);
        let probes = bench.wait(200);
        assert_eq!(probes.len(), 1, "{scheme:?} {probes:?}");
        let mut answer = bench.mh_segment(1);
        answer.seq = SeqNum::new(FIRST + 200 * LEN);
        assert!(bench.put(answer).lines.is_empty());
        assert_eq!(bench.wait(60_000), [""; 0], "{scheme:?}");
        assert_eq!(bench.counter("silences"), 0, "{scheme:?}");
    }
}

#[test]
fn requests_far_between_are_not_probed() {
    for scheme in SCHEMES {
        let mut bench = bench(scheme);
        for number in 0..30 {
            bench.put(data(&bench, number));
            bench.put(ack(&bench, number + 1));
            assert_eq!(bench.wait(1_200), [""; 0], "{scheme:?}");
        }
    }
}

#[test]
fn an_upload_that_has_ended_is_not_probed() {
    for scheme in SCHEMES {
        let mut bench = uploads(scheme, 200, 0);
        let mut fin = data(&bench, 200);
        fin.flags = fin.flags.with(holdfast_wire::Flags::FIN);
        bench.put(fin);
        let mut answer = ack(&bench, 201);
        answer.ack += 1;
        bench.put(answer);
        assert_eq!(bench.wait(5_000), [""; 0], "{scheme:?}");
        assert_eq!(bench.counter("silences"), 0, "{scheme:?}");
    }
}

#[test]
fn a_download_brings_no_messages_for_a_sender() {
    for scheme in SCHEMES {
        let mut bench = uploads(scheme, 1, 0);
        bench.forward(1, 4);
        bench.wait(20);
        let mut answer = bench.mh_segment(1001);
        answer.seq = SeqNum::new(FIRST + LEN);
        bench.put(answer);
        bench.link_down();
        bench.wait(3_000);
        let mut lines = bench.recovers();
        answer = bench.mh_segment(4001);
        answer.seq = SeqNum::new(FIRST + LEN);
        lines.extend(bench.put(answer).lines);
        lines.extend(bench.wait(60_000));
        assert!(
            lines.iter().all(|line| line.starts_with("DATA")),
            "{lines:?}"
        );
    }
}

#[test]
fn pauses_of_the_application_are_no_round_trips() {
    for scheme in SCHEMES {
        let mut bench = bench(scheme);
        for number in 0..4 {
            bench.put(data(&bench, number));
            bench.wait(20);
            bench.put(ack(&bench, number + 1));
            bench.wait(30_000);
        }
        bench.put(data(&bench, 4));
        bench.link_down();
        bench.wait(3_000);
        assert_eq!(counts(&bench.link_up(), "UNREACHABLE"), 1, "{scheme:?}");
        // After 1, 2 and 4 s: no round trip is known.
        let again = bench.wait(8_000);
        assert_eq!(counts(&again, "UNREACHABLE"), 3, "{scheme:?} {again:?}");
    }
}

#[test]
fn many_flows_share_what_is_sent_at_link_up() {
    for scheme in SCHEMES {
        let mut bench = bench(scheme);
        for _ in 0..300 {
            bench.mh_port += 1;
            bench.shake_hands(0, 5000);
            for number in 0..20 {
                bench.put(data(&bench, number));
            }
            bench.put(ack(&bench, 20));
        }
        bench.link_down();
        bench.wait(3_000);
        let lines = bench.link_up();
        let acks = counts(&lines, "MADE to MH seq 1 ");
        assert_eq!(acks, 640 + 128, "{scheme:?}");
        let again = bench.wait(60_000);
        assert_eq!(counts(&again, "MADE to MH seq 1 "), 3 * 128, "{scheme:?}");
    }
}
