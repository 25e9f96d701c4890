// SPDX-License-Identifier: Apache-2.0
//! An MH that sends: its outages are detected, and its sender is woken.

use holdfast_wire::{Segment, SeqNum};

use super::bench::{Bench, LEN, bench, not_adopted, settings};
use crate::testing::MH;
use crate::{Action, LinkEvent, LinkSource, Scheme};

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
    upload(&mut bench, segments, unanswered);
    bench
}

fn upload(bench: &mut Bench, segments: u32, unanswered: u32) {
    for number in 0..segments {
        assert!(bench.put(data(bench, number)).forwarded);
        bench.wait(5);
        if number + unanswered < segments {
            assert!(bench.put(ack(bench, number + 1)).forwarded);
        }
    }
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
        // The waits are 220 ms, and twice as long each time, up to a minute.
        let again = bench.wait(200_000);
        assert_eq!(counts(&again, &newest), 9, "{scheme:?} {again:?}");
        assert_eq!(counts(&again, "UNREACHABLE"), 9, "{scheme:?} {again:?}");
        assert_eq!(bench.wait(600_000), [""; 0], "{scheme:?}");
        bench.put(data(&bench, 20));
        // The next outage: the MH sends at once.
        bench.link_down();
        bench.wait(3_000);
        assert!(!bench.link_up().is_empty());
        bench.put(data(&bench, 21));
        assert_eq!(bench.wait(60_000), [""; 0], "{scheme:?}");
    }
}

#[test]
fn after_a_long_outage_and_a_short_return_the_sender_is_woken_all_the_same() {
    for scheme in SCHEMES {
        let mut bench = uploads(scheme, 20, 0);
        for outage_ms in [300_000, 3_000, 100_000] {
            bench.link_down();
            bench.wait(outage_ms);
            assert_eq!(counts(&bench.link_up(), "UNREACHABLE"), 1, "{scheme:?}");
            // After 220, 660 and 1,540 ms.
            let again = bench.wait(2_000);
            assert_eq!(counts(&again, "UNREACHABLE"), 3, "{scheme:?} {again:?}");
        }
        assert_eq!(counts(&bench.wait(200_000), "UNREACHABLE"), 6, "{scheme:?}");
    }
}

/// Without timestamps the gateway knows no round trip.
#[test]
fn acks_at_the_ends_of_segments_go_ahead_of_the_newest() {
    for scheme in SCHEMES {
        let mut bench = not_adopted(settings(scheme));
        bench.timestamps = false;
        bench.shake_hands(0, 5000);
        upload(&mut bench, 20, 1);
        bench.link_down();
        // It comes in the outage.
        bench.put(ack(&bench, 20));
        bench.wait(3_000);
        let lines = bench.link_up();
        let acks: Vec<_> = (1..=20)
            .map(|number| format!("MADE to MH seq 1 ack {} ts 0", FIRST + number * LEN))
            .collect();
        assert_eq!(lines[..20], acks, "{scheme:?}");
        assert_eq!(
            lines[20],
            format!("UNREACHABLE seq {} x5", FIRST + 20 * LEN)
        );
    }
}

#[test]
fn acks_that_the_mh_has_received_or_that_came_in_the_outage_do_not_go_ahead() {
    for scheme in SCHEMES {
        let mut bench = bench(scheme);
        bench.wait(100);
        // The wireless half's round trip is 20 ms. On the wired half are ten segments.
        for number in 0..100 {
            let mut data = data(&bench, number);
            data.options.timestamps.as_mut().unwrap().tsecr = bench.clock() - 20;
            assert!(bench.put(data).forwarded);
            if let Some(acknowledged) = number.checked_sub(10) {
                assert!(bench.put(ack(&bench, acknowledged)).forwarded);
            }
            bench.wait(5);
        }
        bench.link_down();
        bench.put(ack(&bench, 100));
        bench.wait(3_000);
        let lines = bench.link_up();
        // It has surely received 84, which passed 25 ms before its last data. Of the others none but 85 to 88 had
        // passed then.
        let acks = [85, 86, 87, 88, 89, 100];
        for (line, number) in lines.iter().zip(acks) {
            let ack = format!("MADE to MH seq 1 ack {} ", FIRST + number * LEN);
            assert!(line.starts_with(&ack), "{scheme:?} {lines:?}");
        }
        assert_eq!(lines.len(), acks.len() + 1, "{scheme:?} {lines:?}");
    }
}

/// A newer echo shows BBR a path without the wired half, and it sends little for 10 s. An older one shows a
/// round trip as long as the outage.
#[test]
fn acks_at_link_up_echo_the_mhs_clock_as_it_was_a_round_trip_of_the_wired_half_before() {
    for (scheme, wired_ms) in SCHEMES
        .into_iter()
        .flat_map(|one| [5, 50, 150].map(|ms| (one, ms)))
    {
        let mut bench = bench(scheme);
        for number in 0..100 {
            assert!(bench.put(data(&bench, number)).forwarded);
            if let Some(acknowledged) = (number + 1).checked_sub(wired_ms / 5) {
                let mut ack = ack(&bench, acknowledged);
                ack.options.timestamps.as_mut().unwrap().tsecr = bench.clock() + 70_000 - wired_ms;
                assert!(bench.put(ack).forwarded);
            }
            bench.wait(5);
        }
        bench.link_down();
        bench.wait(3_000);
        let (from, now, mut actions) = (bench.clock(), bench.now, Vec::new());
        let up = LinkEvent::Up;
        bench
            .gateway
            .handle_link(&[MH.address], up, LinkSource::Signal, now, &mut actions);
        let echoes = actions.iter().filter_map(|action| match action {
            Action::Send(made) => Some(made.timestamps.unwrap().tsecr),
            _ => None,
        });
        let echoes: Vec<_> = echoes.collect();
        assert!(!echoes.is_empty(), "{scheme:?}");
        let expected = from + 70_000 - wired_ms;
        assert!(
            echoes.iter().all(|echo| *echo == expected),
            "{scheme:?} {echoes:?} {expected}"
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
        // The MH can have missed the last two ACKs alone.
        assert_eq!(counts(&answer.lines, "MADE to MH seq 1 "), 2, "{answer:?}");
        assert_eq!(counts(&answer.lines, "UNREACHABLE"), 1, "{answer:?}");
        assert_eq!(bench.counter("recoveries"), 1, "{scheme:?}");
    }
}

/// The MH's own retransmission ends the silence. It has not received what came in the outage.
#[test]
fn data_that_end_a_silence_show_nothing_of_the_acks_in_it() {
    for scheme in SCHEMES {
        let mut bench = uploads(scheme, 200, 20);
        bench.wait(200);
        for number in 181..=200 {
            bench.put(ack(&bench, number));
            bench.wait(5);
        }
        bench.wait(2_000);
        assert_eq!(bench.counter("silences"), 1, "{scheme:?}");
        let mut again = data(&bench, 180);
        again.options.timestamps.as_mut().unwrap().tsecr = 1_900;
        let lines = bench.put(again).lines;
        let first = format!("MADE to MH seq 1 ack {} ", FIRST + 181 * LEN);
        assert!(counts(&lines, &first) == 1, "{scheme:?} {lines:?}");
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
        // After 1, 2, 4, 8, 16 and 32 s: no round trip is known.
        let again = bench.wait(200_000);
        assert_eq!(counts(&again, "UNREACHABLE"), 6, "{scheme:?} {again:?}");
    }
}

#[test]
fn an_outage_is_no_round_trip() {
    for scheme in SCHEMES {
        let mut bench = uploads(scheme, 20, 5);
        bench.link_down();
        bench.put(ack(&bench, 20));
        bench.wait(3_000);
        bench.link_up();
        // The MH retransmits.
        assert!(bench.put(data(&bench, 15)).forwarded);
        bench.link_down();
        bench.wait(3_000);
        bench.link_up();
        // After 220, 660 and 1,540 ms, as before the outage.
        let again = bench.wait(2_000);
        assert_eq!(counts(&again, "UNREACHABLE"), 3, "{scheme:?} {again:?}");
    }
}

#[test]
fn many_flows_are_woken_in_batches() {
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
        assert_eq!(acks, 1_024 + 128, "{scheme:?}");
        // Each of the 128 flows gets the same: eight, and the newest.
        let ack = |number| format!("MADE to MH seq 1 ack {} ", FIRST + number * LEN);
        let of_each = (1..=20).filter(|number| counts(&lines, &ack(*number)) == 128);
        assert_eq!(of_each.count(), 9, "{scheme:?}");
        // No round trip is known: the next batches come after 1 and 2 s. They have eight ACKs below the
        // newest for each flow. The first batch is woken again after 1 and 3 s, the second after 2 s.
        for (ms, acks) in [
            (500, 0),
            (1_000, 128 * 9 + 128),
            (1_000, 44 * 9 + 128),
            (1_000, 44 + 128),
        ] {
            let lines = bench.wait(ms);
            assert_eq!(counts(&lines, "MADE to MH seq 1 "), acks, "{scheme:?} {ms}");
        }
        let again = bench.wait(200_000);
        assert_eq!(
            counts(&again, "MADE to MH seq 1 "),
            300 * 6 - 428,
            "{scheme:?}"
        );
        assert_eq!(bench.wait(600_000), [""; 0], "{scheme:?}");
    }
}
