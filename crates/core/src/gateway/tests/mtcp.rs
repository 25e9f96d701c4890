// SPDX-License-Identifier: Apache-2.0
//! M-TCP at the supervisor host: every arrow of the paper's figures 4 (SH-TCP) and 5
//! (M-TCP), and the two halves' timers.
//!
//! Without slow start unless a test is about it, so that segments pass as they come.

use holdfast_wire::{Flags, SeqNum, Timestamps};

use super::bench::{Answer, Bench, LEN, WINDOW, bench_with, kept_back, passed, settings, unmet};
use crate::{
    BandwidthSettings, MtcpPersist, MtcpRelease, MtcpSettings, RECONNECTION_FLAGS, Scheme,
    Settings, Verdict,
};

/// As long as no round trip was measured (RFC 6298, 2.1).
const RTO_INITIAL_MS: u64 = 1000;

fn with(mtcp: MtcpSettings) -> Settings {
    Settings {
        mtcp,
        ..settings(Scheme::Mtcp)
    }
}

fn unpaced() -> MtcpSettings {
    MtcpSettings {
        slow_start: false,
        ..MtcpSettings::published()
    }
}

/// Without slow start, in one cell.
fn in_cell(bytes_per_s: u64) -> Settings {
    Settings {
        bandwidth: BandwidthSettings::one_cell(Some(bytes_per_s)),
        ..with(unpaced())
    }
}

fn mtcp() -> Bench {
    bench_with(with(unpaced()))
}

/// The MH acknowledges; the FH hears so much of it.
fn told(bench: &mut Bench, ack: u32) -> (u32, u16) {
    let (verdict, lines) = bench.judge(bench.mh_segment(ack));
    assert_eq!(lines, [] as [&str; 0]);
    match verdict {
        Verdict::Forward => (ack, WINDOW),
        Verdict::ForwardWithAck { ack, window } => (ack.get(), window),
        other => panic!("{other:?}"),
    }
}

fn ack_line(ack: u32, window: u32, tsecr: u32, bench: &Bench) -> String {
    let tsval = bench.mh_clock_newest;
    format!("ACK {ack} wnd {window} seq 5001 ts {tsval},{tsecr}")
}

fn counts(lines: &[String], what: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(what)).count()
}

/// Three segments on their way, of which the MH has acknowledged the first, and then no
/// more. 1000 ms: no round trip but one of 0 was measured.
fn one_of_three_acknowledged() -> Bench {
    let mut bench = mtcp();
    bench.forward(1, 3);
    assert_eq!(told(&mut bench, 1001), (1000, WINDOW));
    bench
}

/// The same, and the MH has gone.
fn shrunk() -> Bench {
    let mut bench = one_of_three_acknowledged();
    let lines = bench.goes_down();
    assert_eq!(lines, [ack_line(1001, 0, 1000, &bench)]);
    assert_eq!(bench.state(), "shrunk");
    bench
}

// Figure 4.

#[test]
fn noshrink_an_m_tcp_ack_of_x_makes_a_tcp_ack_of_x_less_one() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    assert_eq!(bench.state(), "split");
    assert_eq!(told(&mut bench, 1001), (1000, WINDOW));
    assert_eq!(told(&mut bench, 2001), (2000, WINDOW));
    assert_eq!(told(&mut bench, 3001), (3000, WINDOW));
}

#[test]
fn noshrink_to_shrunk_the_wintimer_expires_and_the_saved_byte_is_acknowledged_with_window_0() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(20);
    // A plain ACK keeps M-TCP from freezing first; it is not new, and the wintimer runs on.
    let lines = bench.wait(200);
    assert_eq!(counts(&lines, "ACK 1001 wnd 0"), 1, "{lines:?}");
    assert_eq!(bench.state(), "shrunk");
    assert_eq!(bench.counter("shrinks"), 1);
}

#[test]
fn the_wintimer_begins_anew_with_each_new_segment() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    assert_eq!(told(&mut bench, 1001), (1000, WINDOW));
    // The round trip of 0 and 100 ms make the RTO. M-TCP's own timer is quiet: what the MH
    // waits for is lost on the wired half.
    for i in 0..10 {
        let lines = bench.wait(60);
        assert_eq!(bench.down(2001 + i * 10, 10), passed());
        assert_eq!(counts(&lines, "ACK"), 0, "{i}: {lines:?}");
    }
    assert_eq!(counts(&bench.wait(110), "ACK 1001"), 1);
    assert_eq!(bench.state(), "split");
}

#[test]
fn exception_nothing_is_left_to_acknowledge_so_nothing_is_shrunk() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    // Nothing was acknowledged by the MH since the FH was told.
    let lines = bench.wait(RTO_INITIAL_MS + 100);
    assert_eq!(counts(&lines, "ACK"), 0, "{lines:?}");
    assert_eq!(bench.state(), "frozen", "M-TCP has frozen all the same");
    assert_eq!(bench.counter("shrinks"), 0);
}

#[test]
fn exception_the_saved_byte_acknowledges_all_so_it_goes_without_shrinking() {
    let mut bench = mtcp();
    bench.forward(1, 2);
    assert_eq!(told(&mut bench, 2001), (2000, WINDOW));
    let lines = bench.wait(300);
    assert_eq!(lines, [ack_line(2001, WINDOW.into(), 1000, &bench)]);
    assert_eq!((bench.state(), bench.counter("shrinks")), ("split", 0));
    // And then it is quiet.
    assert_eq!(bench.wait(60_000), [] as [&str; 0]);
}

#[test]
fn what_only_the_fh_can_send_keeps_its_window_open() {
    let mut bench = one_of_three_acknowledged();
    // 3001..4001 is lost on the wired half.
    assert_eq!(bench.down(4001, LEN), passed());
    // Nothing is saved of what the FH is to go on from.
    assert_eq!(told(&mut bench, 3001), (3001, WINDOW));
    assert_eq!(bench.wait(300), [] as [&str; 0]);
    assert_eq!(bench.counter("shrinks"), 0);
}

#[test]
fn shrunk_persist_packets_are_answered_with_the_window_at_0() {
    let mut bench = shrunk();
    let answer = ack_line(1001, 0, 1000, &bench);
    // With a byte (BSD), without (Linux), and a whole segment (Linux's own timeout).
    assert_eq!(bench.down(1001, 1), kept_back(&[&answer]));
    assert_eq!(bench.down(1000, 0), kept_back(&[&answer]));
    assert_eq!(bench.down(1001, LEN), kept_back(&[&answer]));
    // New data that was on its way: kept.
    assert_eq!(bench.down(3001, LEN), kept_back(&[&answer]));
    assert_eq!(bench.state(), "shrunk");
    assert_eq!(bench.cached(), 3000);
    // A challenge ACK is not.
    assert_eq!(bench.down(4001, 0), passed());
}

#[test]
fn shrunk_to_recovering_the_mh_is_back_and_the_window_opens_with_an_old_ack() {
    let mut bench = shrunk();
    bench.wait(3000);
    let lines = bench.comes_up();
    assert_eq!(lines[0], ack_line(1001, WINDOW.into(), 1000, &bench));
    assert_eq!(bench.state(), "reopening");
}

#[test]
fn shrunk_to_recovering_a_new_m_tcp_ack_opens_the_window() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert_eq!(bench.state(), "shrunk");
    let answer = bench.up(2001);
    assert!(!answer.forwarded);
    assert_eq!(answer.lines.len(), 1, "nothing is sent again: {answer:?}");
    // No ACK of what the FH may have forgotten to have sent.
    assert!(
        answer.lines[0].starts_with("ACK 1001 wnd 1007 "),
        "{answer:?}"
    );
    assert_eq!(bench.state(), "reopening");
}

#[test]
fn recovering_acknowledges_no_more_than_the_fh_has_sent_since() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(3001).forwarded);
    assert_eq!(bench.state(), "reopening");
    // It has set snd_max back and begins anew from 1001.
    let answer = bench.down(1001, LEN);
    assert!(!answer.forwarded && answer.lines.len() == 1, "{answer:?}");
    assert!(answer.lines[0].starts_with("ACK 2001 wnd "), "{answer:?}");
    assert_eq!(bench.state(), "reopening");
}

#[test]
fn recovering_to_noshrink_when_the_fh_has_sent_as_far_as_the_sh_has_received() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(3001).forwarded);
    assert!(!bench.down(1001, LEN).forwarded);
    let answer = bench.down(2001, LEN);
    assert!(answer.lines[0].starts_with("ACK 3000 wnd "), "{answer:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn recovering_to_noshrink_at_once_when_the_fh_goes_on_with_something_new() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(2001).forwarded);
    let answer = bench.down(3001, LEN);
    assert!(answer.forwarded && answer.lines.len() == 1, "{answer:?}");
    assert!(answer.lines[0].starts_with("ACK 2000 wnd "), "{answer:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn recovering_ends_when_the_fh_says_nothing_for_it_waits_for_acks() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(3001).forwarded);
    let lines = bench.wait(RTO_INITIAL_MS + 100);
    assert!(lines[0].starts_with("ACK 3000 wnd"), "{lines:?}");
    // And the byte that is left.
    assert!(counts(&lines, "ACK 3001 wnd") > 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn the_ack_that_opens_the_window_is_repeated_until_the_fh_is_heard() {
    let mut bench = shrunk();
    bench.wait(1000);
    assert_eq!(counts(&bench.comes_up(), "ACK 1001 wnd 1000"), 1);
    let lines = bench.wait(400);
    assert_eq!(counts(&lines, "ACK 1001 wnd 1000"), 2, "{lines:?}");
    let _ = bench.down(1001, LEN);
    let lines = bench.wait(60_000);
    assert_eq!(counts(&lines, "ACK 1001"), 0, "{lines:?}");
}

// The last byte: nobody gives up or waits.

#[test]
fn what_the_fh_sends_again_of_what_the_mh_has_gets_the_last_byte_at_once() {
    let mut bench = mtcp();
    bench.forward(1, 2);
    assert_eq!(told(&mut bench, 2001), (2000, WINDOW));
    let answer = bench.down(1001, LEN);
    let ack = ack_line(2001, WINDOW.into(), 1000, &bench);
    assert_eq!(answer, kept_back(&[&ack]));
}

#[test]
fn a_keep_alive_reaches_the_mh_and_its_answer_the_fh_to_the_last_byte() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    assert_eq!(told(&mut bench, 1001), (1000, WINDOW));
    assert_eq!(bench.down(999, 0), passed());
    assert_eq!(told(&mut bench, 1001), (1001, WINDOW));
}

#[test]
fn the_ack_of_a_fin_passes_as_it_is() {
    let mut bench = mtcp();
    let mut last = bench.fh_segment(1, LEN);
    last.flags = last.flags.with(Flags::FIN);
    assert_eq!(bench.put(last), passed());
    assert_eq!(told(&mut bench, 1002), (1002, WINDOW));
}

#[test]
fn a_flow_is_not_done_before_the_fh_was_told_all() {
    let mut bench = one_of_three_acknowledged();
    let mut last = bench.fh_segment(3001, 10);
    last.flags = last.flags.with(Flags::FIN);
    assert_eq!(bench.put(last), passed());
    let mut fin = bench.mh_segment(1001);
    fin.flags = fin.flags.with(Flags::FIN);
    assert!(!matches!(bench.judge(fin).0, Verdict::Suppress));
    let mut ack = bench.fh_segment(3012, 0);
    ack.ack = SeqNum::new(5002);
    assert_eq!(bench.put(ack), passed());
    bench.wait(220);
    assert_eq!(bench.state(), "shrunk");
    // Both FINs are acknowledged, and the FH has heard of 1000 bytes.
    let mut ack = bench.mh_segment(3012);
    ack.seq += 1;
    assert!(!bench.put(ack).forwarded);
    assert_eq!(bench.state(), "reopening");
    let lines = bench.wait(RTO_INITIAL_MS + 200);
    assert!(counts(&lines, "ACK 3012") > 0, "{lines:?}");
    // It may have set `snd_max` back: so long would it take to say so.
    bench.wait(60_000);
    assert_eq!(bench.state(), "split");
    let mut heard = bench.fh_segment(3012, 0);
    heard.ack = SeqNum::new(5002);
    let _ = bench.put(heard);
    assert_eq!(bench.state(), "closed");
}

#[test]
fn a_window_that_the_mh_itself_has_closed_leaves_no_byte_behind() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    let mut ack = bench.mh_segment(1001);
    ack.window = 0;
    assert_eq!(bench.put(ack), passed());
    // Neither the FH's probe of it, nor the answer, is anybody else's.
    assert_eq!(bench.down(1000, 0), passed());
    assert_eq!(told(&mut bench, 1001), (1001, WINDOW));
}

#[test]
fn released_at_once_the_last_byte_waits_for_no_timer() {
    let mut bench = bench_with(with(MtcpSettings {
        release: MtcpRelease::AtOnce,
        ..unpaced()
    }));
    bench.forward(1, 2);
    assert_eq!(told(&mut bench, 1001), (1000, WINDOW));
    assert_eq!(told(&mut bench, 2001), (2001, WINDOW));
}

#[test]
fn data_of_the_mh_goes_on_with_the_ack_that_the_fh_is_to_see() {
    let mut bench = mtcp();
    bench.forward(1, 2);
    let mut data = bench.mh_segment(1001);
    data.payload_len = 10;
    let expected = Verdict::ForwardWithAck {
        ack: SeqNum::new(1000),
        window: WINDOW,
    };
    assert_eq!(bench.judge(data), (expected, Vec::new()));
    bench.goes_down();
    // It was on its way when the link went.
    data.seq += 10;
    let expected = Verdict::ForwardWithAck {
        ack: SeqNum::new(1001),
        window: 0,
    };
    assert_eq!(bench.judge(data), (expected, Vec::new()));
}

#[test]
fn sh_tcps_own_window_is_all_that_the_fh_sees_of_a_larger_one() {
    let mut bench = unmet(with(MtcpSettings {
        window_bytes: 64 << 10,
        ..unpaced()
    }));
    bench.shake_hands(0, 5000);
    assert_eq!(told(&mut bench, 1), (1, 512));
    bench.forward(1, 2);
    let (_, window) = told(&mut bench, 1001);
    assert_eq!(u32::from(window) << super::bench::SHIFT, 64 << 10);
}

// Figure 5.

#[test]
fn nofreeze_rexmt_is_off_while_nothing_is_outstanding() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    let _ = told(&mut bench, 1001);
    bench.wait(60_000);
    assert_eq!(bench.counter("freezes"), 0);
}

#[test]
fn nofreeze_each_ack_sets_rexmt_anew() {
    let mut bench = mtcp();
    bench.forward(1, 30);
    for i in 0..30 {
        bench.wait(80);
        let _ = bench.up(1001 + i * LEN);
    }
    assert_eq!(bench.counter("freezes"), 0);
}

#[test]
fn nofreeze_to_frozen_rexmt_expires_and_nothing_is_retransmitted() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    let lines = bench.wait(RTO_INITIAL_MS - 1);
    assert_eq!((lines.len(), bench.state()), (0, "split"));
    let lines = bench.wait(2);
    assert_eq!((lines.len(), bench.state()), (0, "frozen"));
    assert_eq!(bench.counter("freezes"), 1);
    // What still comes is kept.
    assert_eq!(bench.down(3001, LEN), kept_back(&[]));
}

#[test]
fn freezing_shrinks_the_window_of_the_fh() {
    let mut bench = one_of_three_acknowledged();
    // New segments keep the wintimer from expiring.
    let mut lines = bench.wait(60);
    bench.forward(3001, 1);
    lines.extend(bench.wait(45));
    assert_eq!(lines, [ack_line(1001, 0, 1000, &bench)]);
    assert_eq!(bench.counter("freezes"), 1);
}

#[test]
fn frozen_persist_packets_go_after_5_s_and_then_at_doubled_intervals() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    bench.wait(RTO_INITIAL_MS);
    assert_eq!(bench.state(), "frozen");
    for (wait, packets) in [(4999, 0), (1, 1), (9999, 0), (1, 1), (19_999, 0), (1, 1)] {
        let lines = bench.wait(wait);
        assert_eq!(counts(&lines, "DATA 1..1001"), packets, "{lines:?}");
    }
}

#[test]
fn frozen_persist_packets_at_the_round_trip_if_set_so() {
    let mut bench = bench_with(with(MtcpSettings {
        persist: MtcpPersist::RoundTrip,
        ..unpaced()
    }));
    bench.forward(1, 1);
    bench.wait(50);
    let _ = told(&mut bench, 1001);
    bench.forward(1001, 1);
    bench.wait(150);
    assert_eq!(bench.state(), "shrunk");
    let lines = bench.wait(500);
    assert_eq!(counts(&lines, "DATA 1001..2001"), 10, "{lines:?}");
}

#[test]
fn frozen_to_nofreeze_the_marked_ack_has_everything_unacknowledged_sent_again() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(3000);
    let mut marked = bench.mh_segment(1001);
    marked.flags = RECONNECTION_FLAGS;
    let Answer { forwarded, lines } = bench.put(marked);
    assert!(!forwarded);
    let lines = [lines, bench.wait(100)].concat();
    let window = format!("ACK 1001 wnd {WINDOW}");
    assert!(lines[0].starts_with(&window), "{lines:?}");
    assert_eq!(counts(&lines, "DATA 1001..2001"), 1, "{lines:?}");
    assert_eq!(counts(&lines, "DATA 2001..3001"), 1, "{lines:?}");
}

#[test]
fn frozen_to_nofreeze_a_plain_late_ack_has_nothing_sent_again() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    bench.wait(2000);
    assert_eq!(bench.state(), "frozen");
    let _ = bench.up(2001);
    let lines = bench.wait(50);
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
    // Also if it tells of more than the persist packet brought.
    bench.wait(20_000);
    assert!(bench.counter("probes") > 0);
    let _ = bench.down(3001, 10);
    let _ = bench.up(3001);
    let lines = bench.wait(50);
    assert_eq!(counts(&lines, "DATA 2001"), 0, "{lines:?}");
}

#[test]
fn frozen_to_nofreeze_an_answer_to_a_persist_packet_tells_that_the_rest_is_lost() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    bench.wait(6001);
    assert_eq!(bench.counter("probes"), 1);
    let answer = bench.up(1001);
    let lines = [answer.lines, bench.wait(100)].concat();
    assert_eq!(counts(&lines, "DATA 1001..2001"), 1, "{lines:?}");
    assert_eq!(counts(&lines, "DATA 2001..3001"), 1, "{lines:?}");
}

#[test]
fn an_ack_of_what_went_before_the_persist_packet_is_a_late_one_by_its_timestamp() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    bench.wait(5);
    bench.forward(1001, 2);
    bench.wait(6001);
    assert_eq!(bench.counter("probes"), 1);
    // The link has kept it: this is the first segment's, of 1000 ms.
    let late = bench.mh_segment(1001);
    assert_eq!(late.options.timestamps.map(|own| own.tsecr), Some(1005));
    let mut late = late;
    late.options.timestamps = late
        .options
        .timestamps
        .map(|own| Timestamps { tsecr: 1000, ..own });
    let lines = [bench.judge(late).1, bench.wait(50)].concat();
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

/// Section 4.2: "retransmits all packets greater than the ACK'ed byte as these must have been
/// lost during the disconnection", also of one that was shorter than REXMT.
#[test]
fn in_nofreeze_a_marked_ack_has_what_is_outstanding_sent_again() {
    let mut bench = one_of_three_acknowledged();
    let mut marked = bench.mh_segment(1001);
    marked.flags = RECONNECTION_FLAGS;
    let (_, lines) = bench.judge(marked);
    let lines = [lines, bench.wait(50)].concat();
    assert_eq!(counts(&lines, "DATA 1001..2001"), 1, "{lines:?}");
    assert_eq!(counts(&lines, "DATA 2001..3001"), 1, "{lines:?}");
    assert_eq!(bench.counter("freezes"), 0);
}

#[test]
fn an_answer_that_has_the_persist_packet_twice_tells_that_the_rest_is_lost() {
    let mut bench = mtcp();
    bench.forward(1, 5);
    bench.wait(6001);
    assert_eq!(bench.counter("probes"), 1);
    // Its ACKs went down with the link: it has more than it was asked with.
    let mut answer = bench.mh_segment(3001);
    answer.options.sack.push(SeqNum::new(1), SeqNum::new(1001));
    let lines = [bench.judge(answer).1, bench.wait(100)].concat();
    assert_eq!(counts(&lines, "DATA 3001..4001"), 1, "{lines:?}");
    assert_eq!(counts(&lines, "DATA 4001..5001"), 1, "{lines:?}");
}

#[test]
fn what_was_sent_before_a_freeze_is_lost_if_something_newer_arrives_sooner() {
    let mut bench = mtcp();
    bench.forward(1, 5);
    bench.wait(2000);
    assert_eq!(bench.state(), "frozen");
    let _ = bench.up(2001);
    let _ = bench.down(5001, LEN);
    let answer = bench.up_with_sack(2001, 5001, 6001);
    let lines = [answer.lines, bench.wait(300)].concat();
    for seq in [2001, 3001, 4001] {
        let piece = format!("DATA {seq}..{}", seq + LEN);
        assert_eq!(counts(&lines, &piece), 1, "{lines:?}");
    }
    assert_eq!(counts(&lines, "DATA 5001"), 0, "{lines:?}");
}

#[test]
fn a_marked_ack_of_all_that_was_sent_is_an_ack_like_any_other() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    let mut marked = bench.mh_segment(1001);
    marked.flags = RECONNECTION_FLAGS;
    let (verdict, lines) = bench.judge(marked);
    let expected = Verdict::ForwardWithAck {
        ack: SeqNum::new(1000),
        window: WINDOW,
    };
    assert_eq!((verdict, lines.len()), (expected, 0));
}

/// Less a byte the FH would repeat one byte less than is missing, and that byte would wait for
/// its timeout.
#[test]
fn duplicate_acks_of_what_only_the_fh_can_send_pass_as_they_are() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    assert_eq!(told(&mut bench, 1001), (1000, WINDOW));
    // The second segment was lost on the wired half.
    assert_eq!(bench.down(2001, LEN), passed());
    for _ in 0..3 {
        assert_eq!(told(&mut bench, 1001), (1001, WINDOW));
    }
    // Filled: a byte is saved again.
    assert_eq!(bench.down(1001, LEN), passed());
    assert_eq!(told(&mut bench, 3001), (3000, WINDOW));
}

#[test]
fn somebodys_word_freezes_and_resumes_as_well() {
    let mut bench = shrunk();
    bench.wait(3000);
    let lines = bench.recovers();
    assert_eq!(counts(&lines, "DATA 1001..2001"), 1, "{lines:?}");
    assert_eq!(counts(&lines, "DATA 2001..3001"), 1, "{lines:?}");
}

/// The gateway had not called it away yet: REXMT froze the flow, and the mobile was silent for
/// less than it takes to be sure.
#[test]
fn an_mh_that_says_it_is_back_ends_every_freeze_whatever_was_known_of_its_absence() {
    for away_ms in (20..2500).step_by(20) {
        let mut bench = one_of_three_acknowledged();
        bench.wait(away_ms);
        let was_frozen = bench.counter("freezes") > 0;
        let mut lines = bench.comes_up();
        let state = bench.state();
        lines.extend(bench.wait(40));
        assert!(
            ["split", "reopening"].contains(&state),
            "{away_ms} ms: {state}"
        );
        let again = counts(&lines, "DATA 1001..2001");
        assert!(again == usize::from(was_frozen), "{away_ms} ms: {lines:?}");
    }
}

#[test]
fn slow_start_begins_with_a_segment_and_no_timeout_shrinks_its_window() {
    let mut bench = bench_with(with(MtcpSettings::published()));
    let first = bench.down(1, LEN);
    assert_eq!(first, kept_back(&["DATA 1..1001 ts 1000"]));
    for i in 1..8 {
        assert_eq!(bench.down(1 + i * LEN, LEN), kept_back(&[]));
    }
    let (_, lines) = bench.judge(bench.mh_segment(1001));
    let lines = [lines, bench.wait(20)].concat();
    assert_eq!(counts(&lines, "DATA"), 2, "{lines:?}");
    let (_, lines) = bench.judge(bench.mh_segment(3001));
    let lines = [lines, bench.wait(20)].concat();
    assert_eq!(counts(&lines, "DATA"), 4, "{lines:?}");
    // Away and back: as large as it was.
    bench.wait(5000);
    assert_eq!(bench.state(), "shrunk");
    let lines = bench.recovers();
    assert_eq!(counts(&lines, "DATA"), 4, "{lines:?}");
}

#[test]
fn slow_start_doubles_what_goes_out_each_round_trip_whatever_was_delivered_so_far() {
    let mut bench = bench_with(with(MtcpSettings::published()));
    for i in 0..127 {
        let _ = bench.down(1 + i * LEN, LEN);
    }
    let mut sent = Vec::new();
    for round in 0..6 {
        // All of the window is acknowledged at once, 50 ms after it went.
        let lines = bench.wait(50);
        let (_, more) = bench.judge(bench.mh_segment(1 + ((1 << (round + 1)) - 1) * LEN));
        sent.push(counts(&[lines, more, bench.wait(49)].concat(), "DATA"));
    }
    assert_eq!(sent, [2, 4, 8, 16, 32, 64]);
}

#[test]
fn the_round_trip_is_measured_while_the_cache_always_has_something_to_send() {
    let mut bench = bench_with(in_cell(100_000));
    for i in 0..100 {
        let _ = bench.down(1 + i * LEN, LEN);
    }
    // A segment each 10 ms; 50 ms later it is acknowledged.
    for i in 0..40 {
        bench.wait(10);
        if i >= 5 {
            let _ = bench.up(1001 + (i - 5) * LEN);
        }
    }
    let mobile = bench.gateway.mobiles.iter().next().unwrap();
    let srtt = mobile.rtt.srtt().unwrap().as_millis();
    assert!((40..=65).contains(&srtt), "{srtt} ms");
}

#[test]
fn todays_wireless_half_begins_with_the_window_that_the_fh_begins_with() {
    let mut bench = bench_with(with(MtcpSettings::today()));
    for i in 0..10 {
        let lines = bench.down(1 + i * LEN, LEN);
        assert!(lines.forwarded || counts(&lines.lines, "DATA") == 1);
    }
    assert_eq!(bench.down(10_001, LEN), kept_back(&[]));
}

#[test]
fn without_a_cell_what_the_wireless_half_loses_is_the_fhs_to_repeat() {
    let mut bench = mtcp();
    bench.forward(1, 5);
    let _ = told(&mut bench, 1001);
    let mut forwarded = 0;
    for _ in 0..3 {
        let (verdict, lines) = bench.judge(bench.mh_segment(1001));
        assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
        forwarded += i32::from(verdict != Verdict::Suppress);
    }
    assert_eq!(forwarded, 3, "the FH hears of it");
    assert_eq!(bench.down(1001, LEN), passed());
}

#[test]
fn a_report_of_what_came_out_of_order_sets_rexmt_anew() {
    let mut bench = mtcp();
    bench.forward(1, 20);
    bench.wait(50);
    let _ = bench.up(1001);
    for i in 0..15 {
        bench.wait(80);
        let _ = bench.up_with_sack(1001, 2001, 3001 + i * LEN);
    }
    assert_eq!(bench.counter("freezes"), 0);
    bench.wait(400);
    assert_eq!(bench.counter("freezes"), 1);
}

#[test]
fn an_answer_to_a_persist_packet_that_reaches_a_further_hole_tells_that_the_rest_is_lost() {
    let mut bench = mtcp();
    bench.forward(1, 6);
    let _ = bench.up_with_sack(1, 1001, 2001);
    let _ = bench.up_with_sack(1, 3001, 4001);
    bench.wait(6101);
    assert_eq!(bench.counter("probes"), 1);
    let mut answer = bench.mh_segment(2001);
    answer
        .options
        .sack
        .push(SeqNum::new(3001), SeqNum::new(4001));
    let lines = [bench.judge(answer).1, bench.wait(100)].concat();
    assert_eq!(counts(&lines, "DATA 2001..3001"), 1, "{lines:?}");
    assert_eq!(counts(&lines, "DATA 3001..4001"), 0, "{lines:?}");
    assert_eq!(counts(&lines, "DATA 4001..5001"), 1, "{lines:?}");
}

#[test]
fn with_a_cell_the_fh_hears_nothing_of_what_the_wireless_half_loses() {
    let mut bench = bench_with(in_cell(10_000_000));
    bench.down(1, LEN);
    for i in 1..5 {
        bench.wait(5);
        bench.down(1 + i * LEN, LEN);
    }
    let _ = told(&mut bench, 1001);
    for _ in 0..3 {
        assert!(!bench.up(1001).forwarded);
    }
    assert!(bench.counter("repaired") > 0);
    let _ = told(&mut bench, 5001);
}

#[test]
fn a_connection_is_paced_to_its_share_of_the_cell() {
    let mut bench = bench_with(in_cell(10_000));
    for i in 0..20 {
        let _ = bench.down(1 + i * LEN, LEN);
    }
    // M-TCP does not freeze within its first RTO of a second.
    let sent = 1 + counts(&bench.wait(990), "DATA");
    assert!((10..=11).contains(&sent), "{sent} segments in a second");
}

#[test]
fn two_connections_share_the_cell() {
    let mut bench = bench_with(in_cell(100_000));
    bench.mh_port = 40_001;
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    let ports = [40_000, 40_001];
    let mut sent = [0; 2];
    let mut next = [1; 2];
    for _ in 0..20 {
        for (flow, port) in ports.into_iter().enumerate() {
            bench.mh_port = port;
            // The first needs all, the second a fifth.
            for _ in 0..[10, 1][flow] {
                let _ = bench.down(next[flow], LEN);
                next[flow] += LEN;
            }
            let _ = bench.up(1);
        }
        bench.wait(50);
    }
    for (flow, port) in ports.into_iter().enumerate() {
        let view = bench.gateway.flows().find(|view| view.key.mh.port == port);
        let flow_at = bench.gateway.flows.find(&view.unwrap().key).unwrap();
        let it = bench.gateway.flows.at(flow_at).unwrap();
        sent[flow] = it.sent_nxt.distance_from(SeqNum::new(1)) / LEN;
    }
    assert!((18..=20).contains(&sent[1]), "{sent:?}");
    assert!((75..=90).contains(&sent[0]), "{sent:?}");
}

// Today's senders: the window is closed late.

/// Three segments on their way, of which the MH has acknowledged the first; it has gone, and
/// the FH has heard nothing of that.
fn away_from_todays() -> Bench {
    let mut bench = bench_with(with(MtcpSettings {
        slow_start: false,
        ..MtcpSettings::today()
    }));
    bench.forward(1, 3);
    assert_eq!(told(&mut bench, 1001), (1000, WINDOW));
    assert_eq!(bench.goes_down(), [] as [&str; 0]);
    bench.wait(500);
    assert_eq!(bench.state(), "frozen");
    bench
}

#[test]
fn late_the_window_is_closed_when_the_fh_has_repeated_its_first_segment_three_times() {
    let mut bench = away_from_todays();
    for i in 0..3 {
        // A tail loss probe does not count.
        assert_eq!(bench.down(2001, LEN), kept_back(&[]));
        assert_eq!(bench.down(1000, LEN + 1), kept_back(&[]), "{i}");
    }
    assert_eq!(bench.counter("shrinks"), 0);
    let answer = ack_line(1000, 0, 1000, &bench);
    for _ in 0..20 {
        assert_eq!(bench.down(1000, LEN + 1), kept_back(&[&answer]));
    }
    assert_eq!(bench.state(), "shrunk");
}

#[test]
fn late_the_saved_byte_wakes_the_fh_when_the_mh_is_back() {
    for copies in [0, 2, 5] {
        let mut bench = away_from_todays();
        for _ in 0..copies {
            bench.down(1000, LEN + 1);
        }
        let lines = bench.recovers();
        let wakes = ack_line(1001, WINDOW.into(), 1000, &bench);
        assert_eq!((&lines[0], counts(&lines, "ACK")), (&wakes, 1));
        assert_eq!(counts(&lines, "DATA"), 2, "{lines:?}");
        assert_eq!(told(&mut bench, 2001), (2000, WINDOW));
        assert_eq!(bench.state(), "split");
    }
}

#[test]
fn late_a_new_ack_of_the_mh_opens_the_window_as_it_is() {
    let mut bench = bench_with(with(MtcpSettings {
        slow_start: false,
        persist: MtcpPersist::Published,
        ..MtcpSettings::today()
    }));
    bench.forward(1, 3);
    assert_eq!(told(&mut bench, 1001), (1000, WINDOW));
    bench.wait(150);
    for _ in 0..4 {
        bench.down(1000, LEN + 1);
    }
    assert_eq!(bench.state(), "shrunk");
    assert_eq!(told(&mut bench, 2001), (2000, WINDOW));
}

// What must always hold.

#[test]
fn without_the_window_scale_it_acts_as_hold() {
    let mut bench = unmet(with(unpaced()));
    assert!(bench.down(1, LEN).forwarded);
    assert!(bench.up(1).forwarded);
    assert!(bench.down(1001, LEN).forwarded);
    assert_eq!(bench.state(), "open");
    assert_eq!(bench.up(2001), passed());
    bench.forward(2001, 1);
    assert_eq!(bench.goes_down(), [] as [&str; 0]);
    assert_eq!(bench.down(3001, LEN), kept_back(&[]));
    bench.wait(3000);
    let lines = bench.recovers();
    assert_eq!(counts(&lines, "DATA"), 2, "{lines:?}");
}

#[test]
fn a_successor_goes_on_with_what_the_mh_has_said_and_saves_nothing_of_that() {
    let mut bench = shrunk();
    let mut actions = Vec::new();
    let record = bench.gateway.flows.iter().next().unwrap().record();
    bench.gateway = crate::Gateway::new(with(unpaced()));
    bench.gateway.import(&record, bench.now);
    bench.gateway.handle_timeout(bench.now, &mut actions);
    bench.wait(100);
    // The FH probes, as its window is 0; the MH answers, and the window opens.
    assert!(bench.down(1000, 0).forwarded);
    assert_eq!(told(&mut bench, 1001), (1001, WINDOW));
    bench.wait(10);
    assert!(bench.down(1001, LEN).forwarded);
    // Met: all that the MH says first.
    assert_eq!(told(&mut bench, 2001), (2001, WINDOW));
    assert_eq!(bench.state(), "split");
    assert!(bench.down(2001, LEN).forwarded);
    assert_eq!(told(&mut bench, 3001), (3000, WINDOW));
}

#[test]
fn a_gateway_that_leaves_gives_back_byte_and_window() {
    let mut bench = shrunk();
    let mut actions = Vec::new();
    bench.gateway.stop_acknowledging();
    bench.gateway.abandon_owed(&mut actions);
    let lines = super::bench::lines(actions);
    assert_eq!(lines, [ack_line(1001, WINDOW.into(), 1000, &bench)]);
    assert_eq!(bench.gateway.owed_bytes(), 0);
}

#[test]
fn a_gateway_that_releases_a_mobile_gives_its_fhs_back_byte_and_window() {
    let mut bench = shrunk();
    let (mut pieces, mut actions) = (Vec::new(), Vec::new());
    let addresses = [crate::testing::MH.address];
    bench.gateway.release(&addresses, &mut pieces, &mut actions);
    let lines = super::bench::lines(actions);
    assert_eq!(lines, [ack_line(1001, WINDOW.into(), 1000, &bench)]);
}

#[test]
fn with_the_cache_full_segments_pass_and_none_is_dropped() {
    let mut bench = bench_with(Settings {
        flow_cache_bytes_max: 2500,
        ..with(unpaced())
    });
    bench.forward(1, 5);
    bench.goes_down();
    assert!(bench.down(5001, LEN).forwarded);
    assert_eq!(bench.cached(), 2000);
}

// The MH is heard, and lacks something.

/// The MH sends a data segment each 5 ms, with this ACK, for so long.
fn upload(bench: &mut Bench, sent: &mut u32, ack: u32, millis: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..millis / 5 {
        lines.extend(bench.wait(5));
        let mut data = bench.mh_segment(ack);
        data.seq += *sent;
        data.payload_len = 10;
        *sent += 10;
        lines.extend(bench.judge(data).1);
    }
    lines
}

#[test]
fn a_tail_that_is_lost_while_the_mh_uploads_is_sent_again_after_an_rto() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    let mut sent = 0;
    let lines = upload(&mut bench, &mut sent, 2001, 300);
    let again = counts(&lines, "DATA 2001..3001");
    assert!((1..=3).contains(&again), "{lines:?}");
    // The FH's own copies add nothing.
    assert!(!bench.down(2001, LEN).forwarded);
    let lines = upload(&mut bench, &mut sent, 3001, 300);
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_ne!(bench.state(), "shrunk");
}

#[test]
fn an_mh_that_comes_back_uploading_gets_all_that_the_outage_took() {
    let mut bench = mtcp();
    bench.forward(1, 5);
    assert_eq!(told(&mut bench, 1001), (1000, WINDOW));
    bench.wait(2000);
    assert_eq!(bench.state(), "shrunk");
    let mut sent = 0;
    let lines = upload(&mut bench, &mut sent, 1001, 150);
    assert!(counts(&lines, "DATA 1001..2001") > 0, "{lines:?}");
    // The rest follows, at the pace of a link of which little is known.
    let mut lines = Vec::new();
    for ack in [2001, 3001, 4001] {
        lines.extend(upload(&mut bench, &mut sent, ack, 90));
    }
    for seq in [2001, 3001, 4001] {
        let piece = format!("DATA {seq}..{}", seq + LEN);
        assert_eq!(counts(&lines, &piece), 1, "{lines:?}");
    }
    let lines = upload(&mut bench, &mut sent, 5001, 1500);
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn a_warning_that_comes_to_nothing_has_nothing_sent_again() {
    let mut bench = mtcp();
    bench.forward(1, 3);
    bench.is_warned();
    bench.wait(10);
    let lines = [bench.comes_up(), bench.wait(50)].concat();
    assert_eq!(counts(&lines, "DATA"), 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

// The MH's reader pauses.

/// With a cell; the MH has all, and no window.
fn paused() -> (Bench, holdfast_wire::Segment) {
    let mut bench = bench_with(in_cell(10_000_000));
    bench.forward(1, 1);
    let mut closed = bench.mh_segment(1001);
    closed.window = 0;
    assert_eq!(bench.put(closed), passed());
    (bench, closed)
}

#[test]
fn probes_of_a_closed_window_reach_the_mh_and_its_answers_the_fh() {
    let (mut bench, closed) = paused();
    for _ in 0..20 {
        assert_eq!(bench.down(1001, 1), passed());
        bench.wait(20);
        assert_eq!(bench.put(closed), passed());
        assert_eq!(bench.wait(4980), [] as [&str; 0]);
    }
    assert_eq!(bench.counter("freezes"), 0);
}

#[test]
fn a_probe_after_one_that_the_mh_did_not_answer_is_answered_for_it() {
    for (seq, len) in [(1001, 1), (1000, 0)] {
        let (mut bench, closed) = paused();
        assert_eq!(bench.down(seq, len), passed());
        bench.wait(5000);
        let answer = bench.down(seq, len);
        let ack = ack_line(1001, 0, 1000, &bench);
        assert_eq!((answer.forwarded, answer.lines), (true, vec![ack]));
        assert_eq!(bench.put(closed), passed());
        assert_eq!(bench.down(seq, len), passed());
    }
}

#[test]
fn a_window_that_opens_gets_the_byte_that_it_was_probed_with() {
    let (mut bench, closed) = paused();
    assert_eq!(bench.down(1001, 1), passed());
    assert_eq!(bench.put(closed), passed());
    let (verdict, lines) = bench.judge(bench.mh_segment(1001));
    // Within SH-TCP's own.
    let opened = Verdict::ForwardWithAck {
        ack: SeqNum::new(1001),
        window: 512,
    };
    assert_eq!(verdict, opened);
    let lines = [lines, bench.wait(50)].concat();
    assert_eq!(counts(&lines, "DATA 1001..1002"), 1, "{lines:?}");
}

#[test]
fn an_fh_that_repeats_only_its_first_segment_in_recovering_is_told_the_rest() {
    let mut bench = one_of_three_acknowledged();
    bench.forward(3001, 1);
    bench.wait(220);
    assert!(!bench.up(2001).forwarded);
    assert_eq!(bench.state(), "reopening");
    assert!(!bench.down(2001, LEN).forwarded);
    // It was slow, and all that went before the window was closed has come.
    assert!(!bench.up(4001).forwarded);
    let lines = bench.wait(RTO_INITIAL_MS + 100);
    assert!(counts(&lines, "ACK 4000 wnd") > 0, "{lines:?}");
    assert_eq!(bench.state(), "split");
}

#[test]
fn an_ack_that_came_while_the_flow_was_frozen_is_repeated_once() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    bench.wait(RTO_INITIAL_MS + 10);
    assert_eq!(bench.state(), "frozen");
    assert_eq!(bench.down(1001, 0), passed());
    assert_eq!(counts(&bench.up(1001).lines, "AGAIN to MH"), 1);
    let lines = [bench.goes_down(), bench.comes_up()].concat();
    assert_eq!(counts(&lines, "AGAIN"), 0, "{lines:?}");
}

#[test]
fn an_old_ack_of_the_fh_tells_the_mh_what_of_its_data_has_arrived() {
    let mut bench = one_of_three_acknowledged();
    bench.wait(220);
    assert!(!bench.up(2001).forwarded);
    assert_eq!(bench.state(), "reopening");
    let mut sent = 0;
    let _ = upload(&mut bench, &mut sent, 2001, 5);
    // It has set snd_max back: 1001 is all that it says it has sent.
    let mut ack = bench.fh_segment(1001, 0);
    ack.ack = SeqNum::new(5011);
    let answer = bench.put(ack);
    assert!(!answer.forwarded);
    let made = counts(&answer.lines, "MADE to MH seq 3001 ack 5011");
    assert_eq!(made, 1, "{answer:?}");
    let again = bench.put(ack);
    assert_eq!(counts(&again.lines, "MADE"), 0, "{again:?}");
}
