// SPDX-License-Identifier: Apache-2.0
//! Keeping, noticing, sending on: what all schemes share and `hold` is.

use holdfast_wire::{Flags, SeqNum};

use super::bench::{Bench, LEN, bench, bench_with, passed, settings, suppressed};
use crate::link_state::{LinkSource, LinkState};
use crate::{LinkEvent, MobileView, Scheme};

fn hold() -> Bench {
    bench(Scheme::Hold)
}

/// Segments `1..=count` sent, then the link goes.
fn away(count: u32) -> Bench {
    let mut bench = hold();
    bench.forward(1, count);
    assert!(bench.link_down().is_empty());
    bench
}

#[test]
fn connected_everything_passes_and_is_forgotten_when_acknowledged() {
    let mut bench = hold();
    bench.forward(1, 3);
    assert_eq!(bench.cached(), 3000);
    // Half a segment counts as one: it takes a buffer.
    assert_eq!(bench.up(1501), passed());
    assert_eq!(bench.cached(), 2000);
    assert_eq!(bench.up(3001), passed());
    assert_eq!(bench.cached(), 0);
}

#[test]
fn payload_of_an_mh_is_counted_in_both_directions() {
    let mut bench = hold();
    bench.forward(1, 2);
    bench.up(2001);
    for seq in [5001, 5101] {
        let mut segment = bench.mh_segment(2001);
        (segment.seq, segment.payload_len) = (SeqNum::new(seq), 100);
        assert_eq!(bench.put(segment), passed());
    }
    let mobile = bench.gateway.mobiles().next().expect("a mobile");
    assert_eq!((mobile.delivered_bytes, mobile.received_bytes), (2000, 200));
}

#[test]
fn in_an_outage_no_ack_is_sent_to_the_fh() {
    let mut bench = away(2);
    assert_eq!(bench.down(2001, LEN), suppressed(&[]));
    assert_eq!(bench.down(1, LEN), suppressed(&[]));
    assert_eq!(bench.down(2000, 0), passed());
    assert_eq!(bench.up(1001), passed());
    assert_eq!(bench.counter("segments_queued"), 2);
}

#[test]
fn after_an_outage_all_is_sent_in_order_with_the_timestamps_of_the_fh() {
    let mut bench = away(2);
    bench.wait(500);
    assert_eq!(bench.down(2001, LEN), suppressed(&[]));
    bench.wait(500);
    let lines = bench.recovers();
    let expected = [
        "DATA 1..1001 ts 1000",
        "DATA 1001..2001 ts 1000",
        "DATA 2001..3001 ts 1500",
    ];
    assert_eq!(lines, expected);
}

/// RFC 3168, 6.1.3: the FH does so until the MH has sent less, which it cannot show in an outage.
#[test]
fn what_waited_reports_congestion_if_the_fh_still_does() {
    for (does_still, ece) in [(true, " ECE"), (false, "")] {
        let mut bench = away(1);
        let mut segment = bench.fh_segment(1001, LEN);
        segment.flags = Flags::ACK.with(Flags::ECE);
        bench.put(segment);
        if !does_still {
            bench.down(2001, 0);
        }
        let mut lines = bench.recovers();
        lines.retain(|line| line.starts_with("DATA"));
        let expected = ["1..1001", "1001..2001"].map(|range| format!("DATA {range}{ece} ts 1000"));
        assert_eq!(lines, expected);
    }
}

#[test]
fn a_piece_gets_the_newest_timestamp_that_the_mh_has_seen() {
    let mut bench = hold();
    bench.forward(1, 1);
    bench.wait(30);
    bench.forward(1001, 1);
    // The first was lost; the MH has seen a clock of 1030 in the second.
    assert_eq!(bench.up_with_sack(1, 1001, 2001), passed());
    bench.link_down();
    bench.wait(500);
    assert_eq!(bench.recovers(), ["DATA 1..1001 ts 1030"]);
}

#[test]
fn ranges_that_the_mh_reported_are_skipped() {
    let mut bench = hold();
    bench.forward(1, 4);
    assert_eq!(bench.up_with_sack(1, 1001, 3001), passed());
    bench.link_down();
    bench.wait(500);
    let lines = bench.recovers();
    assert_eq!(lines, ["DATA 1..1001 ts 1000", "DATA 3001..4001 ts 1000"]);
}

#[test]
fn an_ack_of_part_of_a_segment_leaves_the_rest() {
    let mut bench = hold();
    bench.forward(1, 2);
    assert_eq!(bench.up(401), passed());
    bench.link_down();
    assert_eq!(
        bench.recovers(),
        ["DATA 401..1001 ts 1000", "DATA 1001..2001 ts 1000"]
    );
}

#[test]
fn what_is_kept_goes_out_at_a_pace_and_not_as_one_burst() {
    let mut bench = away(100);
    let at_once = bench.link_up().len();
    assert!((1..=15).contains(&at_once), "{at_once} at once");
    let mut sent = at_once as u32;
    let mut largest = 0;
    for _ in 0..2000 {
        let lines = bench.wait(1);
        largest = largest.max(lines.len());
        sent += lines.len() as u32;
        let answer = bench.up((1 + sent * LEN).min(100_001));
        assert!(answer.forwarded);
        largest = largest.max(answer.lines.len());
        sent += answer.lines.len() as u32;
        if bench.cached() == 0 {
            break;
        }
    }
    assert!(largest <= 15, "{largest} in a millisecond");
    assert_eq!(bench.cached(), 0, "not all of it went out");
}

#[test]
fn a_piece_has_as_many_whole_segments_as_may_be_sent_at_once() {
    let mut bench = hold();
    bench.forward(1, 1);
    // In a round trip of a millisecond the pace allows the whole window, ten segments of 1460 bytes.
    bench.wait(1);
    bench.up(1001);
    bench.link_down();
    assert_eq!(bench.down(1001, 20 * LEN), suppressed(&[]));
    assert_eq!(bench.link_up(), ["DATA 1001..15001 ts 1001"]);
    assert_eq!(bench.wait(2), ["DATA 15001..16001 ts 1001"]);
}

#[test]
fn what_the_fh_sends_while_the_backlog_waits_comes_after_it() {
    let mut bench = away(40);
    let first = bench.link_up();
    assert!(first.len() < 40);
    assert!(!bench.down(40_001, LEN).forwarded);
    let mut sent: Vec<String> = first;
    for _ in 0..1000 {
        sent.extend(bench.wait(5));
        let acked = sent.len() as u32 * LEN + 1;
        sent.extend(bench.up(acked.min(41_001)).lines);
        if bench.cached() == 0 {
            break;
        }
    }
    assert_eq!(sent.len(), 41);
    assert_eq!(sent.last().expect("one"), "DATA 40001..41001 ts 1000");
    bench.forward(41_001, 1);
}

#[test]
fn retransmissions_of_the_fh_go_no_further_while_the_gateway_repeats_by_itself() {
    let mut bench = away(3);
    assert_eq!(bench.recovers().len(), 3);
    assert_eq!(bench.down(1, LEN), suppressed(&[]));
    assert_eq!(bench.up(3001), passed());
    bench.forward(3001, 1);
    assert_eq!(bench.down(3001, LEN), passed());
}

#[test]
fn a_piece_lost_after_the_outage_is_repeated_at_the_third_duplicate_ack() {
    let mut bench = away(5);
    assert_eq!(bench.recovers().len(), 5);
    assert_eq!(bench.up(1001), passed());
    for i in 0..2 {
        assert_eq!(bench.up_with_sack(1001, 2001, 3001 + i * LEN), passed());
    }
    let answer = bench.up_with_sack(1001, 2001, 5001);
    assert_eq!(answer.lines, ["DATA 1001..2001 ts 1000"]);
}

#[test]
fn silence_is_detected_and_probed_and_the_answer_ends_it() {
    let mut bench = hold();
    bench.forward(1, 1);
    bench.wait(50);
    assert_eq!(bench.up(1001), passed());
    bench.forward(1001, 2);
    // 50 ms and the 200 ms that are added at least.
    assert!(bench.wait(249).is_empty());
    let lines = bench.wait(111);
    assert_eq!(lines, ["DATA 1001..2001 ts 1050"; 3]);
    assert_eq!(bench.counter("silences"), 1);
    assert_eq!(bench.down(3001, LEN), suppressed(&[]));
    let answer = bench.up(2001);
    assert!(answer.forwarded);
    assert_eq!(answer.lines, ["DATA 2001..3001 ts 1050"]);
    assert_eq!(bench.wait(20), ["DATA 3001..4001 ts 1410"]);
    assert_eq!(bench.up(4001), passed());
    assert_eq!(bench.down(4001, LEN), passed());
}

#[test]
fn without_data_in_flight_there_is_no_silence() {
    let mut bench = hold();
    bench.forward(1, 1);
    bench.up(1001);
    assert!(bench.wait(60_000).is_empty());
    assert_eq!(bench.counter("silences"), 0);
}

#[test]
fn the_newest_ack_of_the_fh_that_may_be_lost_in_an_outage_is_repeated() {
    let mut bench = hold();
    bench.forward(1, 1);
    bench.link_down();
    let mut ack = bench.fh_segment(1001, 0);
    ack.ack = ack.ack - 1;
    bench.put(ack);
    bench.wait(30);
    assert_eq!(bench.down(1001, 0), passed());
    let lines = bench.link_up();
    assert!(
        lines.contains(&"AGAIN to MH seq 1001 ack 5001 ts 1030".into()),
        "{lines:?}"
    );
}

#[test]
fn a_warning_changes_nothing_yet() {
    let mut bench = hold();
    assert!(bench.signal(LinkEvent::GoingDownSoon(None)).is_empty());
    bench.forward(1, 1);
}

#[test]
fn recovery_ends_when_nothing_is_kept_however_much_is_in_flight() {
    let mut nothing = settings(Scheme::Hold);
    nothing.cache_bytes_max = 0;
    let mut bench = bench_with(nothing);
    bench.forward(1, 30);
    bench.link_down();
    assert!(bench.recovers().is_empty());
    bench.forward(1, 1);
    assert_eq!(bench.counter("passed.cache_full"), 31);
    let link = bench.gateway.mobiles().next().expect("a mobile").link;
    assert_eq!(link, crate::LinkState::Up);
}

#[test]
fn the_probe_is_any_cached_segment_if_the_missing_one_was_lost_on_the_wired_half() {
    let mut bench = hold();
    bench.forward(1001, 1);
    assert_eq!(bench.up_with_sack(1, 1001, 2001), passed());
    bench.link_down();
    bench.wait(500);
    let probe = bench.wait(500);
    assert_eq!(probe[0], "DATA 1001..2001 ts 1000");
    assert!(bench.up(1).forwarded);
    // The FH's own retransmission fills the hole and is not suppressed.
    assert_eq!(bench.down(1, LEN), passed());
}

#[test]
fn a_gateway_that_adopts_the_flow_in_mid_stream_serves_it() {
    let mut bench = super::bench::not_adopted(settings(Scheme::Hold));
    assert_eq!(bench.down(700_001, LEN), passed());
    assert_eq!(bench.up(701_001), passed());
    assert_eq!(bench.down(701_001, LEN), passed());
    bench.link_down();
    assert_eq!(bench.down(702_001, LEN), suppressed(&[]));
    let lines = bench.recovers();
    let expected = ["DATA 701001..702001 ts 1000", "DATA 702001..703001 ts 1000"];
    assert_eq!(lines, expected);
}

#[test]
fn no_piece_is_older_than_what_the_mh_may_have_seen() {
    let mut bench = hold();
    bench.forward(1, 2);
    bench.wait(30);
    // The FH repeats the first; the MH's ACK of it goes down with the link.
    bench.forward(1, 1);
    bench.link_down();
    bench.wait(500);
    let expected = ["DATA 1..1001 ts 1030", "DATA 1001..2001 ts 1030"];
    assert_eq!(bench.recovers(), expected);
}

#[test]
fn reported_bytes_do_not_count_as_on_their_way() {
    let mut bench = away(100);
    let mut sent = bench.link_up().len() as u32;
    // The first piece is lost for good; what is behind it arrives and makes room for
    // more, beyond the ten segments that a window is at first.
    for _ in 0..50 {
        sent += bench.wait(4).len() as u32;
        let mut lines = bench.up_with_sack(1, 1001, 1 + sent * LEN).lines;
        lines.retain(|line| line != "DATA 1..1001 ts 1000");
        sent += lines.len() as u32;
    }
    assert!(sent > 40, "{sent} segments went out behind a hole");
}

#[test]
fn a_piece_lost_after_the_outage_is_repeated_when_three_behind_it_have_arrived() {
    let mut bench = away(9);
    let sent = bench.recovers();
    assert_eq!(sent.len(), 9);
    assert_eq!(bench.up_with_sack(1001, 2001, 3001).lines, [""; 0]);
    assert_eq!(bench.up_with_sack(1001, 2001, 4001).lines, [""; 0]);
    let lost = ["DATA 1001..2001 ts 1000"];
    assert_eq!(bench.up_with_sack(1001, 2001, 5001).lines, lost);
    // Once: its own ACK is on its way now.
    assert_eq!(bench.up_with_sack(1001, 2001, 6001).lines, [""; 0]);
    // A second hole behind the first.
    assert_eq!(bench.up_with_sack(1001, 7001, 8001).lines, [""; 0]);
    let second = ["DATA 6001..7001 ts 1040"];
    assert_eq!(bench.up_with_sack(1001, 7001, 9001).lines, [""; 0]);
    bench.forward(9001, 1);
    assert_eq!(bench.up_with_sack(1001, 7001, 10_001).lines, second);
}

#[test]
fn what_was_reported_before_the_outage_does_not_make_a_piece_lost() {
    let mut bench = hold();
    bench.forward(1, 12);
    assert_eq!(bench.up_with_sack(1, 4001, 12_001), passed());
    bench.link_down();
    bench.wait(500);
    let lines = bench.recovers();
    assert_eq!(lines.len(), 4, "{lines:?}");
    // D-SACK: the MH had the first; the others are on their way.
    for _ in 0..4 {
        assert_eq!(bench.up_with_sack(1001, 1, 1001).lines, [""; 0]);
    }
}

#[test]
fn of_many_flows_those_with_a_backlog_alone_are_looked_at_and_in_turn() {
    let mut bench = hold();
    let (first, idle) = (bench.mh_port, 2000);
    for _ in 0..idle {
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        assert!(bench.up(1).forwarded);
    }
    let busy = [first, first + 1000];
    for port in busy {
        bench.mh_port = port;
        bench.forward(1, 2);
    }
    bench.link_down();
    let waiting = |bench: &Bench| {
        bench
            .gateway
            .mobiles
            .iter()
            .next()
            .expect("a mobile")
            .send_queue
            .len()
    };
    assert_eq!(waiting(&bench), 0);
    bench.wait(500);
    let lines = bench.link_up();
    assert!(waiting(&bench) <= 2);
    let lines = [lines, bench.wait(40)].concat();
    let expected = ["DATA 1..1001 ts 1000", "DATA 1001..2001 ts 1000"];
    let turns: Vec<_> = expected.into_iter().flat_map(|line| [line; 2]).collect();
    assert_eq!(lines, turns);
    assert_eq!(waiting(&bench), 0);
}

/// The round trip is 50 ms; then 40 segments, one each millisecond, are on their way
/// when the link goes for a second.
fn away_with_a_window_in_flight() -> Bench {
    let mut bench = hold();
    bench.forward(1, 1);
    bench.wait(50);
    assert_eq!(bench.up(1001), passed());
    for i in 1..=40 {
        bench.forward(1 + i * LEN, 1);
        bench.wait(1);
    }
    bench.link_down();
    bench.wait(1000);
    bench
}

#[test]
fn a_link_that_answers_faster_than_before_has_not_kept_anything() {
    let mut bench = away_with_a_window_in_flight();
    let mut sent = bench.link_up().len() as u32;
    // Without its queue the link takes 4 ms.
    for _ in 0..100 {
        let before = sent;
        sent += bench.wait(4).len() as u32;
        sent += bench.up(1001 + before * LEN).lines.len() as u32;
    }
    assert_eq!((sent, bench.counter("links_that_kept")), (40, 0));
}

#[test]
fn acks_of_what_was_sent_before_show_that_the_link_has_queued_it() {
    let mut bench = away_with_a_window_in_flight();
    let mut sent = bench.link_up().len();
    for i in 1..=40 {
        sent += bench.wait(1).len();
        bench.fh_clock_seen = 1050 + i;
        sent += bench.up(1001 + i * LEN).lines.len();
    }
    assert!(sent < 8, "{sent} segments were sent twice");
    assert_eq!(bench.counter("links_that_kept"), 1);
}

#[test]
fn one_ack_that_was_lost_in_the_outage_shows_nothing() {
    let mut bench = away_with_a_window_in_flight();
    let mut sent = bench.link_up().len() as u32;
    bench.wait(4);
    // The MH had ten of them. It acknowledges them when it drops the first piece.
    bench.fh_clock_seen = 1060;
    sent += bench.up(11_001).lines.len() as u32;
    bench.fh_clock_seen = 1090;
    for i in 0..60 {
        sent += bench.wait(4).len() as u32;
        sent += bench.up((12_001 + i * LEN).min(41_001)).lines.len() as u32;
    }
    assert!(sent >= 30, "{sent}");
    assert_eq!(bench.counter("links_that_kept"), 0);
}

#[test]
fn without_timestamps_two_advances_beyond_the_retransmissions_show_it() {
    let mut bench = hold();
    let bare = |bench: &mut Bench, mut segment: holdfast_wire::Segment| {
        segment.options.timestamps = None;
        bench.put(segment)
    };
    for i in 0..40 {
        let segment = bench.fh_segment(1 + i * LEN, LEN);
        bare(&mut bench, segment);
    }
    bench.link_down();
    bench.wait(1000);
    bench.link_up();
    for (ack, kept) in [(20_001, 0), (39_001, 1)] {
        let segment = bench.mh_segment(ack);
        bare(&mut bench, segment);
        assert_eq!(bench.counter("links_that_kept"), kept);
    }
}

#[test]
fn the_answer_to_a_probe_is_no_round_trip() {
    let mut bench = hold();
    bench.forward(1, 1);
    bench.wait(50);
    assert_eq!(bench.up(1001), passed());
    bench.forward(1001, 1);
    assert!(bench.wait(10_000).len() > 2);
    assert!(bench.up(2001).forwarded);
    // Were it one of 10 s, silence would be noticed after as long.
    bench.forward(2001, 1);
    assert!(!bench.wait(300).is_empty());
}

#[test]
fn from_the_fourth_recovery_in_vain_on_the_fhs_copies_pass_until_an_ack_of_something_new() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 8);
    for recovery in 1..=4 {
        bench.link_down();
        bench.wait(1_000);
        bench.recovers();
        assert_eq!(bench.down(1, LEN).forwarded, recovery == 4, "{recovery}");
    }
    bench.up(1001);
    assert!(!bench.down(1001, LEN).forwarded);
}

fn view(bench: &Bench) -> MobileView {
    bench.gateway.mobiles().next().expect("a mobile")
}

#[test]
fn a_warning_without_an_outage_is_shown_for_a_second() {
    let mut bench = hold();
    bench.link_warning();
    bench.wait(900);
    assert_eq!(view(&bench).link, LinkState::GoingDownSoon);
    bench.wait(200);
    assert_eq!(view(&bench).link, LinkState::Up);
}

#[test]
fn a_flow_that_is_packed_because_it_is_idle_is_shown_as_open() {
    let mut bench = hold();
    bench.wait(62_000);
    assert_eq!(bench.gateway.flows.iter().count(), 0, "in use");
    assert_eq!(bench.state(), "open");
}

#[test]
fn repeated_reports_of_link_down_do_not_put_off_the_probes() {
    let probes = |sources: &[LinkSource]| {
        let mut bench = away(3);
        let mut sent = 0;
        for _ in 0..200 {
            for source in sources {
                bench.report(LinkEvent::Down, *source);
            }
            sent += bench.wait(10).len();
        }
        sent
    };
    let once = probes(&[]);
    assert!(once > 5, "{once}");
    assert_eq!(probes(&[LinkSource::Signal]), once);
    assert_eq!(probes(&[LinkSource::Command, LinkSource::Signal]), once);
}

#[test]
fn without_a_carrier_another_report_of_link_down_starts_no_probes() {
    let mut bench = hold();
    bench.forward(1, 3);
    bench.report(LinkEvent::Down, LinkSource::Carrier);
    bench.link_down();
    assert!(bench.wait(5_000).is_empty());
    bench.report(LinkEvent::Up, LinkSource::Carrier);
    bench.wait(40);
    assert_eq!(bench.counter("recoveries"), 1);
}
