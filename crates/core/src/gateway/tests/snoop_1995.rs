// SPDX-License-Identifier: Apache-2.0
//! Snoop as published: each branch of the two flowcharts, and both timers.

use holdfast_wire::SeqNum;

use super::bench::{Answer, Bench, LEN, bench_with, not_adopted, passed, settings, suppressed};
use crate::{Scheme, Settings, SnoopSettings};

fn snoop() -> Settings {
    Settings {
        snoop: SnoopSettings::paper_1995(),
        ..settings(Scheme::Snoop)
    }
}

/// Ten packets are on their way; the wireless round trip is 20 ms.
fn ten_under_way() -> Bench {
    let mut bench = bench_with(snoop());
    bench.forward(1, 1);
    bench.wait(20);
    assert_eq!(bench.up(1 + LEN), passed());
    bench.forward(1 + LEN, 10);
    bench.wait(5);
    bench
}

const FIRST: u32 = 1 + LEN;

fn retransmits(bench: &Bench, seq: u32) -> String {
    format!("DATA {seq}..{} ts {}", seq + LEN, bench.fh_clock_seen)
}

/// The next duplicate ACK is answered by nothing and goes no further.
fn is_hidden(bench: &mut Bench, ack: u32) {
    assert_eq!(bench.up(ack), suppressed(&[]));
}

// snoop_data, 1: a new packet in the normal TCP sequence.

#[test]
fn a_new_packet_is_cached_and_forwarded() {
    let mut bench = bench_with(snoop());
    assert_eq!(bench.down(1, LEN), passed());
    assert_eq!(bench.cached(), u64::from(LEN));
}

// snoop_data, 2: out of sequence, cached earlier.

#[test]
fn a_cached_packet_that_the_mh_lacks_is_forwarded_again() {
    let mut bench = ten_under_way();
    assert_eq!(bench.down(FIRST, LEN), passed());
}

#[test]
fn a_packet_that_the_mh_has_is_answered_by_the_last_ack() {
    let mut bench = ten_under_way();
    assert_eq!(bench.up(FIRST + 2 * LEN), passed());
    let answer = bench.down(FIRST, LEN);
    assert!(!answer.forwarded);
    assert_eq!(answer.lines.len(), 1);
    let ack = format!("ACK {} wnd 1000 seq 5001", FIRST + 2 * LEN);
    assert!(answer.lines[0].starts_with(&ack), "{}", answer.lines[0]);
}

// snoop_data, 3: out of sequence, not cached earlier.

#[test]
fn duplicate_acks_of_what_was_lost_before_the_gateway_are_the_fhs() {
    let mut bench = bench_with(snoop());
    bench.forward(1, 1);
    bench.forward(1 + 2 * LEN, 3);
    assert_eq!(bench.up(1 + LEN), passed());
    // It is not in the cache: to be resent by the FH.
    assert_eq!(bench.up(1 + LEN), passed());
    assert_eq!(bench.up(1 + LEN), passed());
    // It comes, and is marked: the FH goes on counting.
    assert_eq!(bench.down(1 + LEN, LEN), passed());
    assert_eq!(bench.up(1 + LEN), passed());
}

// snoop_ack, 1: a new ACK.

#[test]
fn a_new_ack_frees_the_cache_and_is_forwarded() {
    let mut bench = ten_under_way();
    assert_eq!(bench.up(FIRST + 4 * LEN), passed());
    assert_eq!(bench.cached(), u64::from(6 * LEN));
}

// snoop_ack, 2: a spurious ACK.

#[test]
fn an_ack_below_the_last_one_is_discarded() {
    let mut bench = ten_under_way();
    assert_eq!(bench.up(FIRST + 4 * LEN), passed());
    is_hidden(&mut bench, FIRST);
}

// snoop_ack, 3: a duplicate ACK.

#[test]
fn the_first_duplicate_ack_retransmits_and_the_expected_ones_are_discarded() {
    let mut bench = ten_under_way();
    let retransmission = retransmits(&bench, FIRST);
    assert_eq!(bench.up(FIRST), suppressed(&[&retransmission]));
    // Nine were sent after it: eight more may come of these.
    for _ in 0..8 {
        is_hidden(&mut bench, FIRST);
    }
    // One more than expected: the retransmission was lost.
    assert_eq!(bench.up(FIRST), suppressed(&[&retransmission]));
}

#[test]
fn an_ack_with_another_window_or_with_data_is_no_duplicate() {
    let mut bench = ten_under_way();
    let mut update = bench.mh_segment(FIRST);
    update.window += 1;
    assert_eq!(bench.put(update), passed());
    let mut data = bench.mh_segment(FIRST);
    (data.payload_len, data.window) = (10, update.window);
    assert_eq!(bench.put(data), passed());
}

#[test]
fn after_a_new_ack_the_next_loss_begins_anew() {
    let mut bench = ten_under_way();
    assert!(!bench.up(FIRST).forwarded);
    assert_eq!(bench.up(FIRST + 3 * LEN), passed());
    let second = retransmits(&bench, FIRST + 3 * LEN);
    assert_eq!(bench.up(FIRST + 3 * LEN), suppressed(&[&second]));
}

// Section 4: the cache's high-water mark and the timers.

#[test]
fn beyond_the_high_water_mark_only_older_packets_are_cached() {
    let mut low = snoop();
    low.snoop.high_water_mark_bytes = 2 * LEN as usize;
    let mut bench = bench_with(low);
    bench.forward(1, 1);
    bench.forward(1 + 2 * LEN, 3);
    assert_eq!(bench.cached(), u64::from(2 * LEN), "1, 3");
    assert_eq!(bench.down(1 + LEN, LEN), passed());
    assert_eq!(bench.cached(), u64::from(3 * LEN), "1, 2, 3");
}

#[test]
fn the_round_trip_timer_runs_after_a_first_retransmission_alone() {
    let mut bench = ten_under_way();
    assert_eq!(bench.wait(150), [] as [String; 0], "no duplicate ACK came");
    let retransmission = retransmits(&bench, FIRST);
    assert!(!bench.up(FIRST).forwarded);
    // Twice srtt (20 ms), and 40 ms at least.
    assert_eq!(bench.wait(39), [] as [String; 0]);
    assert_eq!(bench.wait(1), [retransmission.as_str()]);
    assert_eq!(bench.wait(40), [retransmission.as_str()]);
    // The FH has sent it itself: its local retransmissions count from zero.
    assert_eq!(bench.down(FIRST, LEN), passed());
    assert_eq!(bench.wait(100), [] as [String; 0]);
}

#[test]
fn twice_srtt_if_that_is_more() {
    let mut bench = bench_with(snoop());
    bench.forward(1, 1);
    bench.wait(100);
    assert_eq!(bench.up(1 + LEN), passed());
    bench.forward(FIRST, 1);
    bench.wait(60);
    // srtt: 3/4 of 100 ms and 1/4 of 60 ms.
    assert_eq!(bench.up(FIRST + LEN), passed());
    bench.forward(FIRST + LEN, 3);
    let second = retransmits(&bench, FIRST + LEN);
    assert_eq!(bench.up(FIRST + LEN), suppressed(&[&second]));
    assert_eq!(bench.wait(179), [] as [String; 0]);
    assert_eq!(bench.wait(1), [second]);
}

#[test]
fn the_persist_timer_retransmits_after_200_ms_without_any_packet() {
    let mut bench = ten_under_way();
    bench.wait(100);
    bench.forward(FIRST + 10 * LEN, 1);
    // Ahead of what waits: with its own timestamp, not the newest.
    let first = format!("DATA {FIRST}..{} ts 1020", FIRST + LEN);
    assert_eq!(bench.wait(199), [] as [String; 0]);
    assert_eq!(bench.wait(1), [first.as_str()]);
    assert_eq!(bench.wait(400), [first.as_str(), first.as_str()]);
    // It expects no duplicate ACK: the first to come is one of a loss.
    let again = retransmits(&bench, FIRST);
    assert_eq!(bench.up(FIRST), suppressed(&[&again]));
}

#[test]
fn an_mh_that_has_gone_is_sent_to_ever_more_rarely() {
    let mut bench = ten_under_way();
    assert_eq!(bench.wait(1000).len(), 5, "each 200 ms");
    let minute = bench.wait(60_000).len();
    // 27 more, then six that are each twice as late as the one before.
    assert!((33..=36).contains(&minute), "{minute}");
    assert_eq!(bench.wait(12_800).len(), 1, "64 times as long at the most");
    // The link is up again.
    let first = retransmits(&bench, FIRST);
    assert_eq!(bench.up(FIRST), suppressed(&[&first]));
    assert_eq!(bench.wait(40), [first.as_str()]);
}

#[test]
fn a_keep_alive_with_a_byte_is_answered_by_the_mh_itself() {
    let mut bench = ten_under_way();
    assert_eq!(bench.up(FIRST + 10 * LEN), passed());
    // RFC 9293, 3.8.4: one byte before what is expected next.
    assert_eq!(bench.down(FIRST + 10 * LEN - 1, 1), passed());
}

#[test]
fn a_flow_without_losses_is_left_alone() {
    let mut bench = bench_with(snoop());
    for i in 0..50 {
        bench.forward(1 + i * LEN, 1);
        bench.wait(10);
        assert_eq!(bench.up(1 + (i + 1) * LEN), passed());
    }
    assert_eq!(bench.wait(1000), [] as [String; 0]);
    assert_eq!(bench.counter("repaired"), 0);
}

#[test]
fn an_adopted_flow_is_served_after_a_few_packets() {
    let mut bench = not_adopted(snoop());
    bench.forward(1, 1);
    assert_eq!(bench.up(1 + LEN), passed());
    bench.forward(FIRST, 4);
    let first = retransmits(&bench, FIRST);
    let Answer { lines, forwarded } = bench.up(FIRST);
    assert_eq!((lines, forwarded), (vec![first], false));
}

#[test]
fn an_outage_is_nothing_special() {
    let mut bench = ten_under_way();
    assert_eq!(bench.link_down(), [] as [String; 0]);
    assert_eq!(bench.down(FIRST + 10 * LEN, LEN), passed());
    bench.wait(3000);
    assert_eq!(bench.counter("silences"), 0);
    assert_eq!(bench.counter("probes"), 0);
}

#[test]
fn a_window_of_nothing_is_not_kept_from_the_fh() {
    let mut bench = ten_under_way();
    let closed = |bench: &Bench| {
        let mut ack = bench.mh_segment(FIRST + 10 * LEN);
        ack.window = 0;
        ack
    };
    assert_eq!(bench.put(closed(&bench)), passed());
    for _ in 0..3 {
        bench.wait(30);
        // A probe with a byte (RFC 9293, 3.8.6.1).
        assert_eq!(bench.down(FIRST + 10 * LEN, 1), passed());
        assert_eq!(bench.put(closed(&bench)), passed());
    }
}

#[test]
fn an_mh_that_returns_with_data_is_served_as_before() {
    let mut bench = ten_under_way();
    bench.wait(60_000);
    let mut data = bench.mh_segment(FIRST);
    data.payload_len = 10;
    assert_eq!(bench.put(data), passed());
    assert_eq!(bench.wait(200).len(), 1);
}

#[test]
fn the_persist_timer_begins_anew_with_a_bare_ack_of_the_fh() {
    let mut bench = ten_under_way();
    bench.wait(150);
    assert_eq!(bench.down(FIRST + 10 * LEN, 0), passed());
    let first = format!("DATA {FIRST}..{} ts 1020", FIRST + LEN);
    assert_eq!(bench.wait(199), [] as [String; 0]);
    assert_eq!(bench.wait(1), [first]);
}

#[test]
fn what_does_not_fit_is_no_sign_of_life() {
    let mut bench = ten_under_way();
    for _ in 0..3 {
        bench.wait(50);
        let mut forged = bench.mh_segment(FIRST.wrapping_add(1 << 31));
        forged.seq = SeqNum::new(1 << 30);
        forged.options.timestamps = None;
        assert_eq!(bench.put(forged), passed());
    }
    assert_eq!(bench.counter("passed.implausible"), 3);
    assert_eq!(bench.wait(50).len(), 1);
}
