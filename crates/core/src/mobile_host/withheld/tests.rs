// SPDX-License-Identifier: Apache-2.0
//! The withheld segment against the cases, event by event, and against a random transfer.

use super::*;

const PIECE: u32 = 1_448;
const SCALE: u8 = 7;
const RTT: Duration = Duration::from_millis(50);
const START: u32 = 4_294_900_000;

fn at(millis: u64) -> Instant {
    Instant::from_millis(5_000 + millis)
}

fn after(segments: u32) -> SeqNum {
    SeqNum::new(START) + segments * PIECE
}

fn data(first: u32, count: u32) -> FhData {
    FhData {
        seq: after(first),
        len: count * PIECE,
        segment_bytes: PIECE,
        push: false,
    }
}

fn ack(segments: u32) -> MhSegment {
    MhSegment {
        own: AckAndWindow {
            ack: after(segments),
            window: 4_000,
        },
        scale: Some(SCALE),
        has_payload: false,
        has_sack: false,
        is_ending: false,
    }
}

/// A download of 200 segments in a round trip, after `segments` have arrived and are acknowledged. Its first two
/// arrived long before the others.
fn bulk(segments: u32) -> WithheldSegment {
    let mut withheld = WithheldSegment::default();
    withheld.handle_fh_data(&data(0, 2), Some(RTT), at(0) - ANSWER);
    withheld.handle_mh_segment(&ack(2), true, at(0) - ANSWER);
    download(&mut withheld, 2..segments, at(0));
    withheld
}

/// Sends these segments at this rate from `from` on; the MH acknowledges each two. Returns when an ACK was first
/// withheld.
fn download(
    withheld: &mut WithheldSegment,
    segments: core::ops::Range<u32>,
    from: Instant,
) -> Option<Duration> {
    let mut withheld_at = None;
    for number in segments.clone().step_by(2) {
        let since = Duration::from_millis(u64::from(number - segments.start) / 4);
        withheld.handle_fh_data(&data(number, 2), Some(RTT), from + since);
        let own = ack(number + 2);
        if withheld.handle_mh_segment(&own, true, from + since) != own.own {
            withheld_at = withheld_at.or(Some(since));
        }
    }
    withheld_at
}

#[test]
fn numbers_and_windows_are_those_of_the_cases() {
    let leaves = |ack, window| AckAndWindow {
        ack: SeqNum::new(ack),
        window,
    };
    for line in cases::cases() {
        let boundaries = SegmentBoundaries {
            start: SeqNum::new(line.start),
            end: SeqNum::new(line.end),
            segment_bytes: line.segment_bytes,
        };
        let own = leaves(line.ack, line.window);
        let left = lowered(own, line.scale, SeqNum::new(line.floor), &boundaries);
        assert_eq!(
            left,
            leaves(line.ack_left, line.window_left),
            "{}",
            line.text
        );
    }
}

#[test]
fn a_bulk_download_leaves_one_segment_unacknowledged_and_its_right_edge_where_it_is() {
    let mut withheld = bulk(400);
    withheld.handle_fh_data(&data(400, 2), Some(RTT), at(100));
    let left = withheld.handle_mh_segment(&ack(402), true, at(100));
    assert_eq!(left.ack, after(401));
    let edge = |leaves: AckAndWindow| leaves.ack + (u32::from(leaves.window) << SCALE);
    let short = edge(ack(402).own).distance_from(edge(left));
    assert!(short < 1 << SCALE, "{short}");
    assert!(withheld.is_withholding());
}

#[test]
fn few_segments_in_a_round_trip_are_no_bulk_unless_they_wait_in_a_queue() {
    for (rtt, held) in [(40, false), (80, true)] {
        let mut withheld = bulk(2);
        for number in 2..120 {
            let now = at(u64::from(number) * 2);
            // The shortest round trip is 40 ms: 20 segments.
            let rtt = Duration::from_millis(if number < 60 { 40 } else { rtt });
            withheld.handle_fh_data(&data(number, 1), Some(rtt), now);
            withheld.handle_mh_segment(&ack(number + 1), true, now);
        }
        assert_eq!(withheld.is_withholding(), held, "{rtt} ms");
    }
}

#[test]
fn nothing_is_withheld_without_order_scale_or_round_trip_nor_at_an_end() {
    let mut withheld = bulk(400);
    let bare = MhSegment {
        scale: None,
        ..ack(400)
    };
    let ending = MhSegment {
        is_ending: true,
        ..ack(400)
    };
    for (segment, ordered) in [(ack(400), false), (bare, true), (ending, true)] {
        let mut withheld = withheld;
        assert_eq!(
            withheld.handle_mh_segment(&segment, ordered, at(100)),
            segment.own
        );
        assert!(!withheld.is_withholding());
    }
    assert_ne!(
        withheld.handle_mh_segment(&ack(400), true, at(100)),
        ack(400).own
    );
    let mut unmeasured = WithheldSegment::default();
    for number in (0..400).step_by(2) {
        unmeasured.handle_fh_data(&data(number, 2), None, at(u64::from(number)));
        let left = unmeasured.handle_mh_segment(&ack(number + 2), true, at(u64::from(number)));
        assert_eq!(left, ack(number + 2).own);
    }
}

#[test]
fn while_something_is_missing_acks_pass_and_then_one_is_withheld_again() {
    for has_sack in [true, false] {
        let mut withheld = bulk(400);
        // Segment 400 is lost.
        for number in 401..410 {
            withheld.handle_fh_data(&data(number, 1), Some(RTT), at(100));
            let segment = MhSegment {
                has_sack,
                ..ack(400)
            };
            assert_eq!(
                withheld.handle_mh_segment(&segment, true, at(100)),
                segment.own
            );
        }
        withheld.handle_fh_data(&data(400, 1), Some(RTT), at(110));
        let left = withheld.handle_mh_segment(&ack(410), true, at(110));
        assert_eq!(left.ack, after(409));
    }
}

#[test]
fn a_new_request_acknowledges_the_whole_answer() {
    let mut withheld = bulk(400);
    let last = FhData {
        push: true,
        ..data(400, 2)
    };
    withheld.handle_fh_data(&last, Some(RTT), at(100));
    let pure = ack(402);
    assert_eq!(
        withheld.handle_mh_segment(&pure, true, at(100)).ack,
        after(401)
    );
    let request = MhSegment {
        has_payload: true,
        ..pure
    };
    assert_eq!(
        withheld.handle_mh_segment(&request, true, at(100)),
        request.own
    );
    // Upload in the same flow, amid the download.
    let mut withheld = bulk(400);
    withheld.handle_fh_data(&data(400, 2), Some(RTT), at(100));
    assert_eq!(
        withheld
            .handle_mh_segment(
                &MhSegment {
                    has_payload: true,
                    ..ack(402)
                },
                true,
                at(100)
            )
            .ack,
        after(401)
    );
}

#[test]
fn of_an_answer_nothing_is_withheld_until_it_is_a_download() {
    let is_late = |held: Option<Duration>| {
        held.is_some_and(|since| since >= ANSWER && since < ANSWER + RTT * 3)
    };
    // The first data of a flow are part of an answer, too.
    let mut withheld = WithheldSegment::default();
    assert!(is_late(download(&mut withheld, 0..12_000, at(0))));
    let end = FhData {
        push: true,
        ..data(12_000, 2)
    };
    // Data of the MH in the middle of a download do not count as a request, nor data while the FH has nothing
    // to send, nor an upload.
    for (push, requests_ms, is_answer) in [
        (true, &[3_000][..], true),
        (true, &[3_000, 3_001, 3_002], true),
        (true, &[3_400], true),
        (false, &[3_000], false),
        (true, &[], false),
        (true, &[3_000, 3_440], false),
    ] {
        let mut withheld = withheld;
        withheld.handle_fh_data(&FhData { push, ..end }, Some(RTT), at(3_000));
        for ms in requests_ms {
            let request = MhSegment {
                has_payload: true,
                ..ack(12_002)
            };
            withheld.handle_mh_segment(&request, true, at(*ms));
        }
        let held = download(&mut withheld, 12_002..24_002, at(3_451));
        let is_soon = held.is_some_and(|since| since < RTT * 3);
        assert_eq!(
            (is_late(held), is_soon),
            (is_answer, !is_answer),
            "{push} {requests_ms:?}"
        );
    }
}

#[test]
fn after_a_gap_of_most_of_a_round_trip_nothing_is_withheld_for_a_round_trip() {
    // BBR looks for the shortest round trip: four segments, and nothing until they are acknowledged.
    for (gap_ms, held) in [(30, true), (40, false)] {
        let mut withheld = bulk(400);
        let now = at(99 + gap_ms);
        withheld.handle_fh_data(&data(400, 4), Some(RTT), now);
        let left = withheld.handle_mh_segment(&ack(404), true, now);
        assert_eq!(left.ack != after(404), held, "{gap_ms} ms");
    }
}

#[test]
fn a_message_long_after_a_download_is_no_download_and_ends_an_answer() {
    let mut withheld = bulk(400);
    assert!(withheld.segments() >= 16, "a download");
    let end = after(400);
    let message = FhData {
        seq: end,
        len: 300,
        segment_bytes: 300,
        push: true,
    };
    // The segment before was short, too.
    for (number, ms) in [(0, 1_000), (1, 2_000)] {
        let seq = end + 300 * number;
        withheld.handle_fh_data(&FhData { seq, ..message }, Some(RTT), at(100 + ms));
        assert!(withheld.segments() < 16);
        assert!(withheld.boundaries().ends_short(seq + 300));
    }
    // Larger segments end no answer either, each the first after a short one.
    let seq = end + 600;
    let larger = FhData {
        seq,
        len: 700,
        segment_bytes: 700,
        push: true,
    };
    withheld.handle_fh_data(&larger, Some(RTT), at(2_200));
    assert!(withheld.boundaries().ends_answer(seq + 700));
    assert!(!bulk(400).boundaries().ends_answer(after(400)));
}

#[test]
fn steps_end_where_segments_do_and_promise_no_window_that_the_mh_does_not_have() {
    let boundaries = SegmentBoundaries {
        start: after(0),
        end: after(300),
        segment_bytes: PIECE,
    };
    let own = ack(300).own;
    let steps = boundaries.acks_below(own, SCALE, 64, 64);
    assert_eq!(steps.len(), 64);
    assert_eq!(steps.last().map(|step| step.ack), Some(after(299)));
    for (number, step) in (236..).zip(&steps) {
        assert_eq!(step.ack, after(number), "ascending, one segment each");
        let edge = step.ack + (u32::from(step.window) << SCALE);
        let own_edge = own.ack + (u32::from(own.window) << SCALE);
        assert!(!edge.after(own_edge) && edge.distance_from(own_edge - (1 << SCALE)) <= 1 << SCALE);
    }
    // Windows of 16 segments reach no further; nor can a full field express more.
    let narrow = AckAndWindow { window: 181, ..own };
    assert_eq!(boundaries.acks_below(narrow, SCALE, 64, 64).len(), 16);
    let full = AckAndWindow {
        window: u16::MAX,
        ..own
    };
    assert_eq!(boundaries.acks_below(full, SCALE, 64, 64), []);
    assert_eq!(
        SegmentBoundaries::default().acks_below(own, SCALE, 64, 64),
        []
    );
}

#[test]
fn boundaries_are_known_from_the_first_of_equal_segments_on_and_the_last_may_be_smaller() {
    let second = after(1);
    for (len, segment_bytes, start) in [
        (PIECE, PIECE, after(0)),
        (3 * PIECE, PIECE, after(0)),
        (PIECE - 1, PIECE, after(0)),
        (PIECE + 1, PIECE + 1, second),
        (2 * PIECE, PIECE - 1, second),
    ] {
        let mut boundaries = SegmentBoundaries::default();
        boundaries.add(after(0), PIECE, PIECE);
        boundaries.add(second, len, segment_bytes);
        assert_eq!(boundaries.start, start, "{len} {segment_bytes}");
        assert_eq!(boundaries.end, second + len, "{len} {segment_bytes}");
    }
}

#[test]
fn of_a_download_of_any_length_the_newest_boundaries_are_known() {
    let mut boundaries = SegmentBoundaries::default();
    let at_once = 1_000 * PIECE;
    // More than half of all numbers, after which the first one would lie ahead.
    for number in 0..(1 << 31) / at_once + 2 {
        let seq = SeqNum::new(START) + number * at_once;
        boundaries.add(seq, at_once, PIECE);
        let end = seq + at_once;
        assert_eq!(boundaries.before(end), Some(end - PIECE), "{number}");
        let span = end.distance_from(boundaries.start);
        assert!(span <= SPAN_MAX && span.is_multiple_of(PIECE), "{span}");
    }
}

#[test]
fn in_a_pause_the_ack_is_released_before_the_fh_probes_and_the_number_never_goes_back() {
    let mut withheld = bulk(400);
    let now = at(100);
    assert_eq!(
        withheld.handle_mh_segment(&ack(400), true, now).ack,
        after(399)
    );
    let due = withheld.poll_timeout(Some(RTT)).unwrap();
    // Linux probes 200 ms after a round trip.
    assert!(due > now + RTT && due <= now + RTT + Duration::from_millis(100));
    assert_eq!(withheld.handle_timeout(Some(RTT), now), None);
    assert_eq!(withheld.handle_timeout(Some(RTT), due), Some(after(400)));
    assert_eq!(withheld.poll_timeout(Some(RTT)), None);
    // A window update, then the download goes on.
    assert_eq!(
        withheld.handle_mh_segment(&ack(400), true, due),
        ack(400).own
    );
    withheld.handle_fh_data(&data(400, 2), Some(RTT), due);
    assert_eq!(
        withheld.handle_mh_segment(&ack(402), true, due),
        ack(402).own,
        "not bulk any more"
    );
}

#[test]
fn a_released_number_is_the_floor_if_it_is_a_little_ahead_of_what_has_left() {
    let out = SeqNum::new(u32::MAX - 5);
    assert_eq!(floor_of(None, Some(out)), None, "nothing has left");
    assert_eq!(floor_of(Some(out), None), Some(out));
    for (released, is_floor) in [
        (out - 1, false),
        (out + 1, true),
        (out + AHEAD_MAX - 1, true),
        (out + AHEAD_MAX, false),
    ] {
        let floor = if is_floor { released } else { out };
        assert_eq!(
            floor_of(Some(out), Some(released)),
            Some(floor),
            "{released:?}"
        );
    }
}

#[test]
fn what_is_overtaken_on_the_way_out_leaves_as_it_is() {
    let mut withheld = bulk(400);
    assert_eq!(
        withheld.handle_mh_segment(&ack(300), true, at(100)),
        ack(300).own
    );
    assert_eq!(
        withheld.handle_mh_segment(&ack(400), true, at(100)).ack,
        after(399)
    );
}

#[test]
fn whatever_comes_nothing_is_acknowledged_that_was_not_received_and_no_number_goes_back() {
    let mut times_held = 0;
    for seed in 1..200_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % limit
        };
        let mut withheld = bulk(2);
        let (mut received, mut highest, mut out) = (2_u32, 2_u32, None::<SeqNum>);
        let mut now = at(0);
        for _ in 0..2_000 {
            now += Duration::from_micros(below(1_500));
            let count = 1 + below(4) as u32;
            let first = if below(50) == 0 {
                highest + 1
            } else {
                highest.min(received + 8)
            };
            let first = if below(30) == 0 { received } else { first };
            let push = below(40) == 0;
            withheld.handle_fh_data(
                &FhData {
                    push,
                    ..data(first, count)
                },
                Some(RTT),
                now,
            );
            highest = highest.max(first + count);
            if first <= received {
                received = received.max(first + count);
            }
            let segment = MhSegment {
                has_payload: below(9) == 0,
                has_sack: highest > received,
                ..ack(received)
            };
            let left = withheld.handle_mh_segment(&segment, below(100) > 0, now);
            assert!(!left.ack.after(segment.own.ack), "seed {seed}");
            assert!(
                out.is_none_or(|out| !left.ack.before(out)),
                "seed {seed}: back"
            );
            let held = segment.own.ack.distance_from(left.ack);
            assert!(held <= PIECE, "seed {seed}: {held} bytes held");
            times_held += u32::from(held > 0);
            out = Some(left.ack);
            if below(200) == 0 {
                now += Duration::from_millis(300);
                let released = withheld.handle_timeout(Some(RTT), now);
                assert_eq!(released.is_some(), held > 0, "seed {seed}");
                out = Some(released.unwrap_or(left.ack));
            }
        }
    }
    assert!(times_held > 1_000, "{times_held}");
}
