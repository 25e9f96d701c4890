// SPDX-License-Identifier: Apache-2.0
//! Segments of the opener that are held until the other half is set up: how many, and how many bytes.

use super::*;

#[test]
fn queued_segments_have_a_limit() {
    let mut bench = Bench::new(Direction::Downlink);
    let iss = bench.ask();
    for number in 0..200 {
        let seq = SeqNum::new(OPENER + 1 + number);
        let data = bench.segment(true, Flags::ACK, seq, iss + 1);
        assert!(bench.give(data, b"x", 11).is_empty());
    }
    let answer = bench.answer();
    assert_eq!(bench.give(answer, &[], 20).len(), 32);
    assert_eq!(
        bench
            .wait(20 + Duration::from_secs(1).as_millis() as u64)
            .len(),
        0
    );
}

#[test]
fn what_is_held_counts_against_the_caches_limit() {
    let mut bench = Bench::new(Direction::Downlink);
    bench.gateway = Gateway::new(Settings {
        cache_bytes_max: 10_000,
        ..settings()
    });
    let iss = bench.ask();
    let kept = bench.gateway.budget.bytes();
    assert!(kept > 0, "the ACK");
    for number in 0..32 {
        let seq = SeqNum::new(OPENER + 1 + number);
        let data = bench.segment(true, Flags::ACK, seq, iss + 1);
        assert!(bench.give(data, b"x", 11).is_empty());
        assert!(bench.gateway.budget.bytes() <= 10_000);
    }
    let refused = bench.segment(
        false,
        Flags::RST.with(Flags::ACK),
        SeqNum::default(),
        SeqNum::new(OPENER + 1),
    );
    let _ = bench.give(refused, &[], 12);
    assert_eq!(bench.gateway.budget.bytes(), 0);
}

/// How many segments of the opener go to the other end once that has answered: those that were held.
fn held(settings: Settings, pieces: &[(SeqNum, usize)]) -> usize {
    let mut bench = Bench {
        gateway: Gateway::new(settings),
        ..Bench::new(Direction::Uplink)
    };
    let iss = bench.ask();
    for (seq, len) in pieces {
        let data = bench.segment(true, Flags::ACK, *seq, iss + 1);
        assert!(bench.give(data, &vec![7; *len], 11).is_empty());
    }
    let answer = bench.answer();
    bench.give(answer, &[], 20).len()
}

#[test]
fn of_the_openers_data_no_byte_outside_the_offered_window_is_queued() {
    let first = SeqNum::new(OPENER + 1);
    // Ten segments of 1460 bytes were offered. The ACK of our answer is held too.
    for (seq, len, expected) in [
        (first, 1000, 2),
        (first - 1, 1000, 1),
        (first + 13_600, 1000, 2),
        (first + 13_601, 1000, 1),
        (first + 13_600, 1001, 1),
    ] {
        assert_eq!(held(settings(), &[(seq, len)]), expected, "{seq:?} {len}");
    }
}

#[test]
fn of_the_openers_data_no_more_segments_are_queued_than_the_limit() {
    let small: Vec<_> = (0..40).map(|n| (SeqNum::new(OPENER + 1 + n), 1)).collect();
    assert_eq!(held(settings(), &small[..31]), 32);
    assert_eq!(held(settings(), &small), 32);
}

#[test]
fn of_the_openers_data_no_more_is_queued_than_the_cache_has_room_for() {
    let pieces = [0, 1000, 2000].map(|n| (SeqNum::new(OPENER + 1 + n), 1000));
    // Each segment counts as 2304 bytes, and so does the ACK of our answer.
    for (bytes_max, expected) in [(4 * 2304, 4), (4 * 2304 - 1, 3), (3 * 2304, 3)] {
        let settings = Settings {
            flow_cache_bytes_max: bytes_max,
            ..settings()
        };
        assert_eq!(held(settings, &pieces), expected, "{bytes_max}");
    }
}
