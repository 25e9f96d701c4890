// SPDX-License-Identifier: Apache-2.0
//! `auto`: a silence that has lost nothing, and one that has; and which losses are repaired.

use std::collections::VecDeque;

use holdfast_wire::SeqNum;

use super::bench::{Answer, Bench, LEN, bench, bench_with, not_adopted, passed, settings};
use crate::Scheme;
use crate::link_state::LinkState;
use crate::settings::Settings;

fn link(bench: &Bench) -> LinkState {
    bench.gateway.mobiles().next().expect("a mobile").link
}

/// A flow with eight segments in flight, after one that was answered each 20 ms.
struct Busy {
    /// The next byte of the FH.
    next: u32,
    /// The first byte without an ACK.
    una: u32,
    /// The timestamp of that byte's segment.
    tsval: u32,
}

fn busy(bench: &mut Bench) -> Busy {
    let mut una = 1;
    for _ in 0..20 {
        bench.forward(una, 1);
        bench.wait(20);
        una += LEN;
        assert!(bench.up(una).forwarded);
    }
    bench.forward(una, 1);
    bench.wait(2);
    let tsval = bench.clock();
    for segment in 1..=8 {
        bench.forward(una + segment * LEN, 1);
        bench.wait(2);
    }
    let answered = bench.fh_clock_seen;
    bench.fh_clock_seen = tsval - 2;
    una += LEN;
    assert!(bench.up(una).forwarded);
    bench.fh_clock_seen = answered;
    let next = una + 8 * LEN;
    Busy { next, una, tsval }
}

#[test]
fn silence_is_a_gap_longer_than_the_recent_ones() {
    let mut bench = bench(Scheme::Auto);
    busy(&mut bench);
    bench.wait(60);
    assert_eq!(link(&bench), LinkState::Up);
    bench.wait(60);
    assert_eq!(bench.counter("silences"), 1);
}

#[test]
fn while_the_mh_is_silent_segments_pass_as_they_come() {
    let mut bench = bench(Scheme::Auto);
    let Busy { next, una, .. } = busy(&mut bench);
    bench.wait(1_000);
    assert_eq!(bench.counter("silences"), 1);
    assert!(bench.down(next, LEN).forwarded, "new data");
    assert!(bench.down(una, LEN).forwarded, "a retransmission of the FH");
}

#[test]
fn a_silence_that_ends_a_recovery_lets_the_copies_of_the_fh_pass() {
    let mut bench = bench(Scheme::Auto);
    let Busy { una, .. } = busy(&mut bench);
    bench.wait(500);
    assert!(bench.down(una, LEN).forwarded);
    // The MH has got that one. All that the gateway sends then is lost.
    bench.up(una + LEN);
    assert_eq!(bench.counter("recoveries"), 1);
    let missing = una + LEN;
    bench.wait(2_000);
    assert_eq!(bench.counter("silences"), 2);
    assert!(bench.down(missing, LEN).forwarded);
}

#[test]
fn an_answer_to_older_data_ends_the_silence_and_nothing_is_retransmitted() {
    let mut bench = bench(Scheme::Auto);
    let Busy { una, tsval, .. } = busy(&mut bench);
    let probes = bench.wait(500);
    assert!(!probes.is_empty(), "the silence is probed");
    // A slow link: the first of the eight has arrived only now.
    bench.fh_clock_seen = tsval;
    let answer = bench.up(una + LEN);
    assert!(answer.forwarded);
    assert_eq!(answer.lines, Vec::<String>::new());
    assert_eq!(link(&bench), LinkState::Up);
    assert_eq!(bench.counter("false_silences"), 1);
    assert_eq!(bench.counter("recoveries"), 0);
    assert!(!bench.gateway.has_outages(), "the link was up");
    // The next silence has to be longer.
    bench.wait(500);
    assert_eq!(bench.counter("silences"), 1);
}

#[test]
fn an_answer_to_a_probe_shows_that_what_came_before_it_is_lost() {
    let mut bench = bench(Scheme::Auto);
    let Busy { una, .. } = busy(&mut bench);
    bench.wait(500);
    // The MH echoes the probe's timestamp, which is that of the newest segment.
    let mut lines = bench.up(una + 1).lines;
    lines.extend(bench.wait(200));
    assert_eq!(bench.counter("recoveries"), 1);
    assert!(bench.gateway.has_outages());
    for segment in 1..7 {
        let seq = format!("DATA {}", una + segment * LEN);
        assert!(
            lines.iter().any(|line| line.starts_with(&seq)),
            "{seq}: {lines:?}"
        );
    }
}

/// A flow with timestamps, and one without. Each sends four segments at once, and then there is
/// silence until it is probed. Calls `test` with the first byte of them.
fn with_probe_like_its_segment(test: impl Fn(&mut Bench, u32)) {
    for timestamps in [true, false] {
        let mut bench = bench(Scheme::Auto);
        bench.timestamps = timestamps;
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        bench.up(1);
        let Busy { next, .. } = busy(&mut bench);
        bench.up(next);
        bench.wait(20);
        bench.forward(next, 4);
        let probes = bench.wait(500);
        let probe = format!("DATA {next}..{} ", next + 1);
        let is_probe = |line: &String| line.starts_with(&probe);
        assert!(
            !probes.is_empty() && probes.iter().all(is_probe),
            "{probes:?}"
        );
        test(&mut bench, next);
    }
}

#[test]
fn an_ack_beyond_the_byte_of_the_probe_shows_that_the_link_is_slow() {
    with_probe_like_its_segment(|bench, una| {
        let answer = bench.up(una + LEN);
        assert_eq!(answer.lines, Vec::<String>::new());
        assert_eq!(bench.counter("false_silences"), 1);
        assert_eq!(bench.counter("recoveries"), 0);
    });
}

/// It has passed: nothing is left of it for the next outage.
#[test]
fn an_ack_of_the_fh_in_a_silence_without_losses_is_not_repeated() {
    with_probe_like_its_segment(|bench, una| {
        let seen = bench.fh_clock_seen;
        assert!(bench.down(una + 4 * LEN, 0).forwarded);
        // The MH has not received it yet.
        bench.fh_clock_seen = seen;
        bench.up(una + LEN);
        assert_eq!(bench.counter("false_silences"), 1);
        bench.up(una + 4 * LEN);
        bench.link_down();
        bench.wait(1_000);
        let lines = bench.link_up();
        assert!(
            !lines.iter().any(|line| line.starts_with("AGAIN")),
            "{lines:?}"
        );
    });
}

#[test]
fn an_ack_of_the_byte_of_the_probe_shows_that_its_segment_is_lost() {
    with_probe_like_its_segment(|bench, una| {
        let mut lines = bench.up(una + 1).lines;
        lines.extend(bench.wait(200));
        assert_eq!(bench.counter("recoveries"), 1);
        let rest = format!("DATA {}..{} ", una + 1, una + LEN);
        assert!(lines[0].starts_with(&rest), "{lines:?}");
    });
}

#[test]
fn an_ack_of_the_fhs_own_copy_is_no_sign_of_a_slow_link() {
    with_probe_like_its_segment(|bench, una| {
        assert!(bench.down(una, LEN).forwarded);
        bench.up(una + LEN);
        assert_eq!(bench.counter("recoveries"), 1);
    });
}

#[test]
fn a_duplicate_of_an_earlier_silence_is_no_answer_to_the_probe_of_this_one() {
    let mut bench = bench(Scheme::Auto);
    let Busy { una, tsval, .. } = busy(&mut bench);
    bench.wait(500);
    bench.fh_clock_seen = tsval;
    bench.up(una + LEN);
    bench.wait(3_000);
    assert_eq!(bench.counter("silences"), 2);
    // The probe of the first silence was the byte at `una`.
    let answer = bench.up_with_sack(una + LEN, una, una + 1);
    assert!(answer.forwarded);
    assert_eq!(bench.counter("recoveries"), 0);
    bench.wait(3_000);
    // That of the second one.
    bench.up_with_sack(una + 3 * LEN, una + LEN, una + LEN + 1);
    assert_eq!(bench.counter("recoveries"), 1);
}

/// The MH had received more than its last ACK that came through. New data of the FH passes before
/// the flow is probed, for the other flow is probed first; then a probe, or the FH's own copy.
#[test]
fn a_duplicate_of_a_copy_is_its_answer_although_new_data_passed_before() {
    for (answers, by_fh) in [(0, false), (1, false), (0, true), (1, true)] {
        let mut bench = bench(Scheme::Auto);
        busy(&mut bench);
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        bench.up(1);
        let Busy { next, una, tsval } = busy(&mut bench);
        while bench.counter("silences") == 0 {
            bench.wait(2);
        }
        for _ in 0..2 {
            assert!(bench.down(next, LEN).forwarded);
            assert!(!by_fh || bench.down(una, LEN).forwarded);
            bench.mh_port ^= 1;
        }
        let copy_len = if by_fh { LEN } else { 1 };
        bench.wait(if by_fh { 0 } else { 500 });
        bench.mh_port ^= answers;
        bench.fh_clock_seen = tsval;
        bench.up_with_sack(una + 2 * LEN, una, una + copy_len);
        let counted = ["recoveries", "false_silences"].map(|name| bench.counter(name));
        assert_eq!(counted, [1, 0], "flow {answers} answers, by_fh: {by_fh}");
    }
}

/// A report behind a hole echoes the timestamp from before the hole, whatever it reports. The last ACK before
/// the silence may be lost, too: then the ACK of the report is new.
#[test]
fn only_a_report_of_what_was_sent_before_the_silence_shows_that_the_link_kept_it() {
    for (sent_before, ack_is_new, counted) in [
        (true, false, [0, 1]),
        (true, true, [0, 1]),
        (false, false, [1, 0]),
        (false, true, [1, 0]),
    ] {
        let mut bench = bench(Scheme::Auto);
        let Busy { next, una, tsval } = busy(&mut bench);
        bench.wait(500);
        assert!(bench.down(next, LEN).forwarded);
        let ack = if ack_is_new { una + 2 * LEN } else { una };
        let reported = if sent_before { ack + LEN } else { next };
        bench.fh_clock_seen = tsval - 2;
        bench.up_with_sack(ack, reported, reported + LEN);
        let found = ["recoveries", "false_silences"].map(|name| bench.counter(name));
        assert_eq!(
            found, counted,
            "before: {sent_before}, new ACK: {ack_is_new}"
        );
    }
}

/// The FH lacks the last ACKs: it retransmits what the MH has acknowledged.
#[test]
fn a_duplicate_of_what_was_acknowledged_before_is_an_answer_too() {
    let mut bench = bench(Scheme::Auto);
    let Busy { una, tsval, .. } = busy(&mut bench);
    bench.wait(500);
    assert!(bench.down(una - LEN, LEN).forwarded);
    bench.fh_clock_seen = tsval;
    bench.up_with_sack(una + 2 * LEN, una - LEN, una);
    let counted = ["recoveries", "false_silences"].map(|name| bench.counter(name));
    assert_eq!(counted, [1, 0]);
}

#[test]
fn a_peer_is_taken_until_what_was_lost_has_arrived() {
    let mut bench = bench_with(Settings {
        takes_in_outages: true,
        ..settings(Scheme::Auto)
    });
    let taken = |bench: &mut Bench| bench.gateway.poll_peer().map(|(_, takes)| takes);
    let Busy { next, una, .. } = busy(&mut bench);
    bench.wait(500);
    assert_eq!(taken(&mut bench), Some(true));
    bench.up(una + LEN);
    while link(&bench) != LinkState::Up {
        bench.wait(2);
    }
    // All is sent, and not acknowledged: the FH's own copies are suppressed.
    assert_eq!(taken(&mut bench), None);
    assert!(!bench.down(una + LEN, LEN).forwarded);
    bench.up(next);
    assert_eq!(taken(&mut bench), Some(false));
}

#[test]
fn after_an_outage_the_window_follows_what_the_link_delivers_now() {
    let mut bench = bench_with(Settings {
        flow_cache_bytes_max: 1 << 20,
        ..settings(Scheme::Auto)
    });
    let Busy { next, una, .. } = busy(&mut bench);
    bench.link_down();
    for segment in 0..200 {
        bench.down(next + segment * LEN, LEN);
    }
    bench.wait(1_000);
    let mut sent = bench.link_up().len() as u32;
    // Ten segments (RFC 6928); no more without an answer.
    sent += bench.wait(60).len() as u32;
    assert!((10..=15).contains(&sent), "{sent}");
    // Each answer releases what it acknowledges and as much again.
    let more = bench.up(una + 5 * LEN).lines.len() + bench.wait(19).len();
    assert!((8..=11).contains(&more), "{more}");
}

/// A flow whose segments take 10 ms to the MH and back; the first byte without an ACK.
pub(super) fn with_sack(bench: &mut Bench) -> u32 {
    bench.sack_permitted = true;
    bench.mh_port += 1;
    bench.shake_hands(0, 5000);
    bench.up(1);
    let mut una = 1;
    for _ in 0..3 {
        bench.forward(una, 4);
        bench.wait(10);
        una += 4 * LEN;
        bench.up(una);
    }
    una
}

/// Loses `lost` segments at `una` of twenty; the others arrive `after_ms` later, one each
/// millisecond. Returns the segments that the gateway retransmits. Each report reaches the FH.
fn loses(bench: &mut Bench, una: u32, lost: u32, after_ms: u64) -> Vec<String> {
    bench.forward(una, 20);
    let mut repaired = bench.wait(after_ms);
    for segment in lost..20 {
        let (left, right) = (una + lost * LEN, una + (segment + 1) * LEN);
        let mut ack = bench.mh_segment(una);
        ack.options.sack.push(SeqNum::new(left), SeqNum::new(right));
        let (verdict, lines) = bench.judge(ack);
        assert_eq!(verdict, crate::Verdict::Forward);
        repaired.extend(lines);
        repaired.extend(bench.wait(1));
    }
    repaired
}

#[test]
fn a_loss_with_a_short_queue_is_retransmitted_once_and_the_fh_receives_each_report() {
    let mut bench = bench_with(settings(Scheme::Auto));
    let una = with_sack(&mut bench);
    let repaired = loses(&mut bench, una, 1, 12);
    assert_eq!(repaired.len(), 1, "{repaired:?}");
    assert!(
        repaired[0].starts_with(&format!("DATA {una}..")),
        "{repaired:?}"
    );
    // Nothing is left of it for the next one.
    let una = una + 20 * LEN;
    bench.up(una);
    assert_eq!(loses(&mut bench, una, 1, 12).len(), 1);
}

#[test]
fn a_loss_that_may_be_the_fhs_own_overload_is_left_to_the_fh() {
    // A queue of 15 ms on a path of 10 ms; five segments of twenty.
    for (lost, after_ms) in [(1, 25), (5, 12)] {
        let mut bench = bench_with(settings(Scheme::Auto));
        let una = with_sack(&mut bench);
        let repaired = loses(&mut bench, una, lost, after_ms);
        assert_eq!(repaired, [""; 0], "{lost} lost, {after_ms} ms");
    }
}

/// What a single flow lacked a moment ago and has received is no overflow. Only several flows add up what they lack.
#[test]
fn holes_that_were_filled_do_not_make_a_later_loss_of_one_flow_an_overflow() {
    let mut bench = bench_with(settings(Scheme::Auto));
    let una = with_sack(&mut bench);
    let nth = |segment: u32| una + segment * LEN;
    bench.forward(una, 20);
    bench.wait(12);
    // 0, 2 and 4 come after the next one.
    for late in [0, 2, 4] {
        assert_eq!(
            bench.up_with_sack(nth(late), nth(late + 1), nth(late + 2)),
            passed()
        );
        assert_eq!(bench.up(nth(late + 2)), passed());
    }
    let mut repaired = Vec::new();
    for end in 8..=20 {
        repaired.extend(bench.up_with_sack(nth(6), nth(7), nth(end)).lines);
        repaired.extend(bench.wait(1));
    }
    assert_eq!(repaired.len(), 1, "{repaired:?}");
    assert!(
        repaired[0].starts_with(&format!("DATA {}..", nth(6))),
        "{repaired:?}"
    );
}

/// A mark is compared on the circle of sequence numbers.
#[test]
fn losses_are_classified_also_after_2_gib_without_one() {
    const LONG: u32 = 60_000;
    let mut bench = bench_with(settings(Scheme::Auto));
    let mut una = with_sack(&mut bench);
    assert_eq!(loses(&mut bench, una, 1, 12).len(), 1);
    una += 20 * LEN;
    bench.up(una);
    for _ in 0..40_000 {
        assert!(bench.down(una, LONG).forwarded);
        una = una.wrapping_add(LONG);
        assert!(bench.up(una).forwarded);
    }
    bench.wait(1_000);
    una = una.wrapping_add(LEN);
    bench.forward(una.wrapping_sub(LEN), 1);
    bench.wait(10);
    bench.up(una);
    assert_eq!(loses(&mut bench, una, 5, 12), [""; 0], "an overflow");
}

/// A flow as in [`busy`], with SACK and all acknowledged; and the next byte of the FH.
fn busy_with_sack(settings: Settings) -> (Bench, u32) {
    let mut bench = not_adopted(settings);
    bench.sack_permitted = true;
    bench.shake_hands(0, 5000);
    bench.up(1);
    let Busy { next, .. } = busy(&mut bench);
    bench.up(next);
    (bench, next)
}

/// The first ACK after an outage acknowledges 60 segments that the MH had before. Only what has arrived
/// since link up widens the window.
#[test]
fn what_had_arrived_before_the_outage_does_not_widen_the_window_after_it() {
    let sent_in_a_round_trip = |had_arrived: u32| {
        let (mut bench, next) = busy_with_sack(settings(Scheme::Auto));
        // The first one is lost.
        let end = next + (1 + had_arrived) * LEN;
        bench.forward(next, 1 + had_arrived);
        bench.wait(20);
        bench.up_with_sack(next, next + LEN, end);
        bench.link_down();
        for segment in 0..60 {
            bench.down(end + segment * LEN, LEN);
        }
        bench.wait(1_000);
        bench.link_up();
        bench.wait(20);
        let mut lines = bench.up(end).lines;
        lines.extend(bench.wait(20));
        lines.len()
    };
    // The segment that has arrived makes room for itself and for one more.
    assert_eq!([4, 60].map(sent_in_a_round_trip), [2, 2]);
}

/// What is reported behind a hole widens the window as what is acknowledged does.
#[test]
fn what_is_reported_after_an_outage_widens_the_window() {
    let (mut bench, next) = busy_with_sack(Settings {
        flow_cache_bytes_max: 1 << 20,
        ..settings(Scheme::Auto)
    });
    bench.forward(next, 1);
    bench.link_down();
    for segment in 1..100 {
        bench.down(next + segment * LEN, LEN);
    }
    bench.wait(1_000);
    let mut sent = bench.link_up().len();
    sent += bench.wait(20).len();
    // All but the first have arrived.
    for segment in 2..=sent as u32 {
        sent += bench
            .up_with_sack(next, next + LEN, next + segment * LEN)
            .lines
            .len();
    }
    sent += bench.wait(20).len();
    assert!((40..=48).contains(&sent), "{sent}");
}

/// Of 100 segments the first ones are lost, and ten behind them are reported after this time. The shortest round
/// trip is 18 ms: a queue below 2 ms is nearly empty.
fn a_burst_is_lost(lost: u32, report_after_ms: u64) -> (Bench, u32, Answer) {
    let (mut bench, next) = busy_with_sack(Settings {
        flow_cache_bytes_max: 1 << 20,
        ..settings(Scheme::Auto)
    });
    bench.forward(next, 100);
    bench.wait(report_after_ms);
    let answer = bench.up_with_sack(next, next + lost * LEN, next + (lost + 10) * LEN);
    (bench, next, answer)
}

/// A queue has overflowed. The ACK of a probe would restart the FH's timer: with one probe in a round trip
/// the FH waited for half a minute.
#[test]
fn losses_that_are_left_to_the_fh_are_not_probed() {
    let (mut bench, next, answer) = a_burst_is_lost(8, 30);
    assert_eq!(answer, passed());
    // Only the silence is probed, with a byte.
    let byte = format!("DATA {next}..{} ", next + 1);
    let lines = bench.wait(1_000);
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line.starts_with(&byte)),
        "{lines:?}"
    );
}

/// A queue that is nearly empty has not overflowed, if less than an eighth of the window is missing.
#[test]
fn a_few_losses_behind_a_short_queue_are_the_radios() {
    for (lost, is_repaired) in [(8, true), (20, false)] {
        let (_, next, answer) = a_burst_is_lost(lost, 18);
        let first = format!("DATA {next}..");
        let repaired = answer.lines.iter().any(|line| line.starts_with(&first));
        assert_eq!(repaired, is_repaired, "{lost} lost: {answer:?}");
    }
}

/// A queue that overflows loses single segments of a large window: more ranges are reported than an ACK has
/// blocks for. What the MH has reported is not retransmitted to it.
#[test]
fn reports_of_300_holes_are_not_forgotten() {
    const SHORT: u32 = 100;
    let (mut bench, next) = busy_with_sack(settings(Scheme::Auto));
    for segment in 0..600 {
        assert!(bench.down(next + segment * SHORT, SHORT).forwarded);
    }
    bench.wait(20);
    // Of each two segments the first is lost.
    let second_of = |pair: u32| next + (2 * pair + 1) * SHORT;
    for pair in 0..300 {
        bench.up_with_sack(next, second_of(pair), second_of(pair) + SHORT);
    }
    bench.link_down();
    let mut una = next;
    let mut lines = bench.link_up();
    // The MH acknowledges what it receives, and with it what it has reported.
    while una < second_of(299) {
        lines.extend(bench.wait(20));
        una += 2 * SHORT;
        lines.extend(bench.up(una).lines);
    }
    let begins = |line: &String| -> u32 {
        let range = line.trim_start_matches("DATA ");
        range[..range.find("..").unwrap()].parse().unwrap()
    };
    let mut sent: Vec<u32> = lines.iter().map(begins).collect();
    sent.sort_unstable();
    sent.dedup();
    let lost: Vec<u32> = (0..300).map(|pair| second_of(pair) - SHORT).collect();
    assert_eq!(sent, lost);
}

/// Recovery over a link that takes a segment each millisecond, and as many come for it. After 100 ms the next `lost` segments are
/// dropped. Returns what waits on the link 40 ms later.
fn queue_in_recovery(lost: usize) -> usize {
    let (mut bench, next) = busy_with_sack(Settings {
        flow_cache_bytes_max: 1 << 20,
        ..settings(Scheme::Auto)
    });
    bench.link_down();
    let segments = next + 120 * LEN;
    for seq in (next..segments).step_by(LEN as usize) {
        bench.down(seq, LEN);
    }
    bench.wait(1_000);
    let mut sent = bench.link_up();
    let mut queue = VecDeque::new();
    let mut una = next;
    for ms in 0..140 {
        for line in sent.drain(..).filter(|line| line.starts_with("DATA")) {
            let (seq, end) = line[5..]
                .split_once(' ')
                .unwrap()
                .0
                .split_once("..")
                .unwrap();
            let (seq, end): (u32, u32) = (seq.parse().unwrap(), end.parse().unwrap());
            queue.extend((seq..end).step_by(LEN as usize));
        }
        if ms == 100 {
            queue.drain(..lost);
        }
        if let Some(seq) = queue.pop_front() {
            let answer = if seq == una {
                una += LEN;
                bench.up(una)
            } else {
                bench.up_with_sack(una, una + lost as u32 * LEN, seq + LEN)
            };
            sent.extend(answer.lines);
        }
        bench.down(segments + ms * LEN, LEN);
        sent.extend(bench.wait(1));
    }
    queue.len()
}

#[test]
fn after_an_overflow_recovery_leaves_a_part_of_the_queue_free() {
    let [kept, overflowed] = [0, 6].map(queue_in_recovery);
    assert!(overflowed < kept * 8 / 10, "{overflowed} of {kept}");
    assert!(overflowed > kept / 2, "{overflowed} of {kept}");
}

/// The queue is as long as it was at the overflow: the second loss is the FH's own, too.
#[test]
fn what_is_lost_after_an_overflow_is_judged_when_the_fh_has_retransmitted_the_first() {
    let mut bench = bench(Scheme::Auto);
    let una = with_sack(&mut bench);
    bench.forward(una, 60);
    bench.wait(40);
    // Behind a queue of 30 ms, on a path of 10.
    let first = bench.up_with_sack(una, una + LEN, una + 60 * LEN);
    bench.forward(una + 60 * LEN, 30);
    bench.wait(40);
    let second = bench.up_with_sack(una, una + 65 * LEN, una + 90 * LEN);
    assert!(bench.down(una, LEN).forwarded);
    bench.wait(40);
    let end = una + 60 * LEN;
    let last = bench.up_with_sack(end, end + 5 * LEN, end + 30 * LEN);
    let repaired = [first, second, last].map(|answer| answer.lines.len());
    assert_eq!(repaired, [0; 3]);
}

#[test]
fn the_last_segment_is_probed_for_although_the_mh_uploads() {
    let mut bench = bench_with(settings(Scheme::Auto));
    let una = with_sack(&mut bench);
    bench.forward(una, 4);
    bench.wait(10);
    // Of four segments the last two are lost.
    let ack = una + 2 * LEN;
    bench.up(ack);
    let mut sent = Vec::new();
    for number in 0..60 {
        let mut data = bench.mh_segment(ack);
        (data.seq, data.payload_len) = (SeqNum::new(5001 + number * 100), 100);
        sent.extend(bench.put(data).lines);
        sent.extend(bench.wait(1));
    }
    let last = format!("DATA {}..", ack + LEN);
    assert!(sent.iter().any(|line| line.starts_with(&last)), "{sent:?}");
}
