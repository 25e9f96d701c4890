// SPDX-License-Identifier: Apache-2.0
//! Losses of the MH's own queue and of the wired half are distinguished from those of the wireless
//! half. The MH's reduction after a wireless loss is undone.

use holdfast_wire::SeqNum;

use super::super::bench::{Answer, Bench, LEN, not_adopted, passed, settings};
use super::{NONE, bench_with_sack, fh_acks, nth, packet, send_all, sends, snoop};
use crate::{Action, Direction, Scheme, Verdict, testing::Packet};

/// The MH's own queue has grown to 300 ms; it has sent 0, 1 and 3.
fn queued_at_the_mh() -> Bench {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    assert_eq!(sends(&mut bench, 0), NONE);
    for (n, round_trip) in [(1, 10), (3, 300)] {
        bench.wait(1);
        assert!(fh_acks(&mut bench, 0, &[]).forwarded);
        bench.wait(round_trip);
        assert_eq!(sends(&mut bench, n), NONE);
    }
    bench
}

#[test]
fn a_loss_while_the_mhs_queue_is_long_is_left_to_the_fh() {
    let mut bench = queued_at_the_mh();
    assert_eq!(send_all(&mut bench, [4, 5, 6]), NONE);
    assert_eq!(bench.wait(1000), NONE);
    assert_eq!(bench.counter("congested_uplink"), 1);
}

/// The handshake takes 10 ms; all data of the flow wait in the MH's queue for as long as this. True if the
/// MH is to undo what a loss has cost.
fn undone_behind_a_queue_from_the_start(queue_ms: u32) -> bool {
    let mut bench = not_adopted(settings(Scheme::Snoop));
    bench.sack_permitted = true;
    bench.shake_hands(0, 5000);
    bench.wait(10);
    assert!(bench.up(1).forwarded);
    assert_eq!(fh_acks(&mut bench, 0, &[]), passed());
    send_through_a_queue(&mut bench, 0..40, 10 + queue_ms);
    send_all(&mut bench, [41, 42, 43]);
    bench.wait(30);
    send_all(&mut bench, [40]);
    let newest = bench.mh_clock_newest;
    !fh_echoes(&mut bench, 44, newest).forwarded
}

#[test]
fn a_flow_that_begins_behind_a_queue_is_compared_with_its_handshake() {
    assert!(undone_behind_a_queue_from_the_start(5));
    assert!(!undone_behind_a_queue_from_the_start(120));
}

/// Only reports need the bytes: the wired half's losses of what they have named are the gateway's.
#[test]
fn bytes_of_an_upload_are_cached_only_if_holes_are_reported() {
    let cached = |settings| {
        let mut bench = bench_with_sack(settings);
        send_all(&mut bench, [0, 1, 3]);
        bench.cached()
    };
    assert_eq!(cached(snoop()), 3 * u64::from(LEN));
    assert_eq!(cached(settings(Scheme::Snoop)), 0);
    assert_eq!(cached(settings(Scheme::Auto)), 0);
}

#[test]
fn an_mh_that_had_nothing_to_send_has_no_queue() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    bench.wait(1);
    assert!(fh_acks(&mut bench, 0, &[]).forwarded);
    bench.wait(10);
    assert_eq!(sends(&mut bench, 0), NONE);
    bench.wait(10);
    // The FH has all that the MH has sent; the MH has more only later.
    assert!(fh_acks(&mut bench, 1, &[]).forwarded);
    bench.wait(1500);
    assert_eq!(send_all(&mut bench, [2, 3, 4]), NONE);
    assert_eq!(bench.counter("congested_uplink"), 0);
}

#[test]
fn an_echo_that_comes_very_late_shows_no_queue() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    bench.wait(1);
    assert_eq!(send_all(&mut bench, [0, 1]), NONE);
    assert!(fh_acks(&mut bench, 1, &[]).forwarded);
    bench.wait(10);
    assert_eq!(sends(&mut bench, 2), NONE);
    bench.wait(1);
    assert!(fh_acks(&mut bench, 2, &[]).forwarded);
    bench.wait(5000);
    assert_eq!(send_all(&mut bench, [4, 5, 6]), NONE);
    assert_eq!(bench.counter("congested_uplink"), 0);
}

/// An ACK of the FH as it comes, and what goes to the MH for it.
fn fh_echoes(bench: &mut Bench, n: u32, tsecr: u32) -> Answer {
    let mut segment = bench.fh_segment(1, 0);
    segment.ack = SeqNum::new(nth(n));
    segment.options.timestamps.as_mut().expect("some").tsecr = tsecr;
    let way = Direction::Downlink;
    let packet = Packet::new(segment, &[], LEN);
    let mut actions = Vec::new();
    let now = bench.now;
    let verdict = bench
        .gateway
        .handle_segment(way, &segment, &packet, now, &mut actions);
    let lines = actions.iter().filter_map(|action| match action {
        Action::Send(made) => {
            let own = made.timestamps.expect("some");
            assert_eq!(own.tsval, segment.options.timestamps.expect("some").tsval);
            assert_eq!((made.seq, made.window), (segment.seq, segment.window));
            Some(format!("ack {:?} echo {}", made.ack, own.tsecr))
        }
        _ => None,
    });
    Answer {
        forwarded: verdict == Verdict::Forward,
        lines: lines.collect(),
    }
}

#[test]
fn what_the_mh_retransmits_after_a_timeout_is_not_undone() {
    for scheme in [Scheme::Snoop, Scheme::Auto] {
        let mut bench = bench_with_sack(settings(scheme));
        send_all(&mut bench, [0]);
        assert!(fh_acks(&mut bench, 1, &[]).forwarded);
        send_all(&mut bench, [2, 3, 5]);
        bench.wait(1500);
        send_all(&mut bench, [1]);
        let newest = bench.mh_clock_newest;
        assert_eq!(fh_echoes(&mut bench, 4, newest), passed());
        bench.wait(30);
        send_all(&mut bench, [4]);
        let newest = bench.mh_clock_newest;
        assert_eq!(fh_echoes(&mut bench, 6, newest), passed());
        assert_eq!(bench.counter("undone_uplink"), 0);
        if scheme == Scheme::Auto {
            continue;
        }
        // A hole of the next window is.
        send_all(&mut bench, [6, 8, 9]);
        bench.wait(30);
        send_all(&mut bench, [7]);
        let newest = bench.mh_clock_newest;
        assert!(!fh_echoes(&mut bench, 10, newest).forwarded);
        assert_eq!(bench.counter("undone_uplink"), 1);
    }
}

/// True if the MH is to undo what a hole has cost that it fills after this time, over a path of 8 + 92 ms. Meanwhile it sends
/// other data every 50 ms, or nothing.
fn undone_after(pause_ms: u64, is_busy: bool) -> bool {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    let mut next = 0;
    // The MH echoes after 8 ms, and the FH after 92 ms.
    for _ in 0..20 {
        send_all(&mut bench, [next]);
        next += 1;
        bench.wait(92);
        assert!(fh_acks(&mut bench, next, &[]).forwarded);
        bench.wait(8);
    }
    let hole = next;
    send_all(&mut bench, [hole + 1, hole + 2, hole + 3]);
    next += 4;
    let mut waited = 0;
    while is_busy && waited + 50 < pause_ms {
        bench.wait(50);
        waited += 50;
        send_all(&mut bench, [next]);
        next += 1;
    }
    bench.wait(pause_ms - waited);
    send_all(&mut bench, [hole]);
    let newest = bench.mh_clock_newest;
    !fh_echoes(&mut bench, next, newest).forwarded
}

#[test]
fn a_hole_is_undone_up_to_the_time_of_a_timeout_or_of_three_round_trips() {
    // More than 100 + 100 ms without data is a timeout.
    assert!(undone_after(150, false));
    assert!(!undone_after(250, false));
    // With data a retransmission may be lost once: 300 + 100 ms.
    assert!(undone_after(350, true));
    assert!(!undone_after(500, true));
}

#[test]
fn the_ack_of_a_hole_that_was_filled_echoes_the_clock_from_before() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    assert_eq!(send_all(&mut bench, [0]), NONE);
    let before = bench.clock() + 70_000;
    send_all(&mut bench, [2, 3, 4]);
    bench.wait(30);
    send_all(&mut bench, [1]);
    let newest = bench.mh_clock_newest;
    let expected = format!("ack {} echo {before}", nth(5));
    let Answer { forwarded, lines } = fh_echoes(&mut bench, 5, newest);
    assert!(!forwarded);
    assert_eq!(lines, [expected]);
    assert_eq!(bench.counter("undone_uplink"), 1);
    // And no other.
    send_all(&mut bench, [5]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 6, newest).forwarded);
}

#[test]
fn what_the_mhs_own_queue_or_the_wired_half_has_lost_is_not_undone() {
    let mut bench = queued_at_the_mh();
    bench.wait(30);
    send_all(&mut bench, [2]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 4, newest).forwarded, "its own queue");
    // The gateway has seen all; the FH lacks 4, and the MH sends it again.
    send_all(&mut bench, [4, 5, 6, 7, 4]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 8, newest).forwarded, "the wired half");
    assert_eq!(bench.counter("undone_uplink"), 0);
}

#[test]
fn as_published_no_ack_of_the_fh_is_touched_for_a_hole_that_was_filled() {
    let mut bench = bench_with_sack(snoop());
    send_all(&mut bench, [0, 2, 3, 4]);
    bench.wait(30);
    send_all(&mut bench, [1]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 5, newest).forwarded);
}

/// Sends these packets, a millisecond apart. Each echoes the FH's timestamp of `millis` before. The
/// FH acknowledges each before the next comes.
fn send_through_a_queue(bench: &mut Bench, packets: core::ops::Range<u32>, millis: u32) {
    for n in packets {
        let mut segment = packet(bench, n);
        let stamps = segment.options.timestamps.as_mut().expect("some");
        stamps.tsecr = bench.clock() - millis;
        assert!(bench.put(segment).forwarded);
        assert_eq!(fh_acks(bench, n + 1, &[]), passed());
        bench.wait(1);
    }
}

/// The FH is near and has acknowledged all that passed; the 200th packet is lost behind so
/// long a queue, and comes again. True if the MH is to undo what that has cost.
fn lost_near_the_fh_is_undone(queue_ms: u32) -> bool {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    send_through_a_queue(&mut bench, 0..40, 5);
    send_through_a_queue(&mut bench, 40..200, 5 + queue_ms);
    assert_eq!(send_all(&mut bench, [201, 202, 203]), NONE);
    assert_eq!(fh_acks(&mut bench, 200, &[(201, 204)]), passed());
    bench.wait(30);
    send_all(&mut bench, [200]);
    let overload = u64::from(queue_ms > 0);
    assert_eq!(bench.counter("congested_uplink"), overload);
    let newest = bench.mh_clock_newest;
    !fh_echoes(&mut bench, 204, newest).forwarded
}

#[test]
fn the_mhs_own_overload_shows_though_the_fh_lacks_nothing_that_has_passed() {
    assert!(lost_near_the_fh_is_undone(0), "a loss of the wireless half");
    assert!(!lost_near_the_fh_is_undone(80), "its own queue's");
}

#[test]
fn a_loss_of_the_wired_half_is_not_undone_with_one_of_the_wireless_half() {
    let mut bench = bench_with_sack(settings(Scheme::Snoop));
    // 2 is lost before the gateway, and 1 behind it.
    send_all(&mut bench, [0, 1, 3, 4, 5]);
    bench.wait(20);
    assert_eq!(fh_acks(&mut bench, 1, &[(3, 6)]), passed());
    send_all(&mut bench, [1, 2]);
    bench.wait(20);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 6, newest).forwarded);
    assert_eq!(bench.counter("undone_uplink"), 0);
    // The next one is.
    send_all(&mut bench, [6, 8, 9, 10]);
    bench.wait(20);
    assert_eq!(fh_acks(&mut bench, 7, &[(8, 11)]), passed());
    send_all(&mut bench, [7]);
    bench.wait(20);
    let newest = bench.mh_clock_newest;
    assert!(!fh_echoes(&mut bench, 11, newest).forwarded);
}

/// Without SACK: packet 6 is lost on the wireless half, and perhaps 5 behind the gateway. True
/// if the MH is to undo what that has cost.
fn without_sack_is_undone(lost_behind: bool) -> bool {
    let mut bench = not_adopted(settings(Scheme::Snoop));
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    for n in 0..5 {
        send_all(&mut bench, [n]);
        bench.wait(9);
        assert_eq!(fh_acks(&mut bench, n + 1, &[]), passed());
    }
    // What it echoes with duplicate ACKs (RFC 7323, 4.3).
    let in_sequence = bench.mh_clock_newest;
    send_all(&mut bench, [5, 7, 8, 9, 10]);
    bench.wait(100);
    let lacks = if lost_behind { 5 } else { 6 };
    for _ in 0..4 {
        assert_eq!(fh_echoes(&mut bench, lacks, in_sequence), passed());
    }
    send_all(&mut bench, lacks..7);
    // What it sent before it got that.
    assert_eq!(fh_echoes(&mut bench, lacks, in_sequence), passed());
    bench.wait(9);
    let newest = bench.mh_clock_newest;
    !fh_echoes(&mut bench, 11, newest).forwarded
}

#[test]
fn without_sack_three_duplicate_acks_show_a_loss_on_the_wired_half() {
    assert!(without_sack_is_undone(false));
    assert!(!without_sack_is_undone(true));
}

#[test]
fn with_a_loss_of_the_mhs_own_no_other_hole_of_the_window_is_undone() {
    let mut bench = queued_at_the_mh();
    bench.wait(1);
    assert!(fh_acks(&mut bench, 0, &[]).forwarded);
    bench.wait(10);
    send_all(&mut bench, [4]);
    // 2 was lost in the queue. 5 is lost when the queue is short again.
    bench.wait(400);
    send_all(&mut bench, [6, 7, 8]);
    bench.wait(30);
    send_all(&mut bench, [2]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 5, newest).forwarded);
    send_all(&mut bench, [5]);
    let newest = bench.mh_clock_newest;
    assert!(fh_echoes(&mut bench, 9, newest).forwarded);
    assert_eq!(bench.counter("undone_uplink"), 0);
}

/// The MH uploads a packet each `each_ms` milliseconds.
fn upload(bench: &mut Bench, next: &mut u32, each_ms: u64) {
    for _ in 0..600 / each_ms {
        send_all(bench, [*next]);
        *next += 1;
        bench.wait(each_ms - 2);
        assert!(fh_acks(bench, *next, &[]).forwarded);
        bench.wait(1);
    }
}

/// The MH has lost its next packet, and retransmits it after three others. True if it is to undo what that has cost.
fn undoes_a_loss(bench: &mut Bench, next: &mut u32) -> bool {
    let hole = *next;
    send_all(bench, hole + 1..hole + 4);
    *next += 4;
    bench.wait(20);
    send_all(bench, [hole]);
    let newest = bench.mh_clock_newest;
    !fh_echoes(bench, *next, newest).forwarded
}

#[test]
fn auto_undoes_losses_at_a_lower_rate_and_every_loss_after_two_of_them() {
    let mut bench = bench_with_sack(settings(Scheme::Auto));
    let mut next = 0;
    for (each_ms, is_undone) in [
        // A queue may be full.
        (10, false),
        (10, false),
        (20, true),
        (20, true),
        // The radio is known to lose.
        (10, true),
    ] {
        upload(&mut bench, &mut next, each_ms);
        let undoes = undoes_a_loss(&mut bench, &mut next);
        assert_eq!(undoes, is_undone, "{next}");
    }
    assert_eq!(bench.counter("congested_uplink"), 2);
}

/// The MH sends nothing for 150 ms, and has lost a packet then. True if it is to undo what that has cost.
fn undoes_a_loss_after_an_outage(scheme: Scheme, last_ack_arrives: bool) -> bool {
    let mut bench = bench_with_sack(settings(scheme));
    let mut next = 0;
    upload(&mut bench, &mut next, 10);
    if last_ack_arrives {
        send_all(&mut bench, [next]);
        next += 1;
        assert!(fh_acks(&mut bench, next, &[]).forwarded);
    }
    bench.wait(150);
    undoes_a_loss(&mut bench, &mut next)
}

#[test]
fn an_outage_is_no_congestion() {
    for scheme in [Scheme::Snoop, Scheme::Auto] {
        for last_ack_arrives in [false, true] {
            assert!(
                undoes_a_loss_after_an_outage(scheme, last_ack_arrives),
                "{scheme:?}"
            );
        }
    }
}
