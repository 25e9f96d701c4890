// SPDX-License-Identifier: Apache-2.0
//! Closed windows: persist state and its probes, windows that shrink over bytes in
//! flight (RFC 9293, 3.8.6; 4.3BSD-Reno; Linux).

use super::*;
use crate::tcp::settings::{
    OnPersistExit, OnShrunkWindow, PersistSettings, ProbeKind, WindowUpdates,
};
use crate::tcp::variables::Ending;

fn probing(probe: ProbeKind) -> TcpSettings {
    TcpSettings {
        persist: PersistSettings {
            probe,
            max: ms(3000),
            ..PersistSettings::RFC9293
        },
        ..plain()
    }
}

/// RFC 9293, 3.8.6.1: the first probe after an RTO, then at intervals that double.
#[test]
fn closed_window_is_probed_with_a_byte_at_growing_intervals() {
    let mut s = Script::sender(probing(ProbeKind::NextByte), 100);
    s.sent();
    assert_eq!(s.window(2000, 0), "");
    let probe = "2000+1";
    assert_eq!(
        s.wait(ms(9500)),
        format!("1000: {probe}, 3000: {probe}, 6000: {probe}, 9000: {probe}")
    );
    assert_eq!((s.end.counters().timeouts, s.end.counters().probes), (0, 4));
    // The window opens: the byte is part of the segment.
    assert_eq!(s.window(2000, 60_000).split(' ').next(), Some("2"));
}

/// Probes at 1, 3, 6 and 9 s: no probe precedes the first one. After the window has opened nothing
/// is retransmitted.
#[test]
fn seconds_with_a_probe_after_an_unanswered_one_are_counted() {
    let mut s = Script::sender(probing(ProbeKind::NextByte), 100);
    s.sent();
    s.window(2000, 0);
    let seconds = |s: &Script| {
        let counters = s.end.counters();
        (
            counters.seconds_sending.count(),
            counters.seconds_repeating.count(),
        )
    };
    assert_eq!(seconds(&s), (1, 0));
    s.wait(ms(9500));
    assert_eq!(seconds(&s), (5, 3));
    // An answer: the next probe follows an answered one.
    s.window(2000, 0);
    s.wait(ms(3000));
    assert_eq!(seconds(&s), (6, 3));
}

#[test]
fn seconds_with_retransmissions_are_counted_once_each() {
    let mut s = Script::sender(plain(), 100);
    s.sent();
    let sent = s.wait(ms(2900));
    let seconds = s.end.counters().seconds_repeating.count();
    assert_eq!((seconds, sent.split(", ").count()), (1, 1), "{sent}");
    // The retransmission is lost too: the next one is in another second.
    s.wait(ms(2000));
    assert_eq!(s.end.counters().seconds_repeating.count(), 2);
}

#[test]
fn probe_without_a_byte_is_a_number_below_the_window() {
    let mut s = Script::sender(probing(ProbeKind::Empty), 100);
    s.sent();
    s.window(2000, 0);
    s.now = s.end.poll_timeout().unwrap();
    s.end.handle_timeout(s.now, &mut s.out);
    let probe = *s.out[0].segment().unwrap();
    assert_eq!(probe.payload_len, 0);
    assert_eq!(probe.seq + 1, SeqNum::new(OWN_ISS) + 2001);
}

/// A receiver that takes the byte of a probe acknowledges it: the next probe is the
/// next byte.
#[test]
fn an_accepted_probe_byte_moves_on() {
    let mut s = Script::sender(probing(ProbeKind::NextByte), 100);
    s.sent();
    s.window(2000, 0);
    assert_eq!(s.wait(ms(1000)), "1000: 2000+1");
    assert_eq!(s.window(2001, 0), "");
    assert_eq!(s.wait(ms(2000)), "2000: 2001+1");
    assert_eq!(s.window(2001, 60_000), "2001+1000 3001+1000 4001+1000");
}

/// RFC 9293, 3.8.6.1: never given up while probes are answered; a limit is a setting.
#[test]
fn unanswered_probes_end_the_connection_only_if_set_so() {
    let mut settings = probing(ProbeKind::NextByte);
    let mut s = Script::sender(settings, 100);
    s.sent();
    s.window(2000, 0);
    s.wait(ms(600_000));
    assert_eq!(s.end.ending(), Ending::Open);
    settings.persist.unanswered_max = Some(3);
    let mut s = Script::sender(settings, 100);
    s.sent();
    s.window(2000, 0);
    for _ in 0..10 {
        s.wait(ms(3000));
        s.ack(2000);
    }
    assert_eq!(s.end.ending(), Ending::Open);
    s.wait(ms(60_000));
    assert_eq!(s.end.ending(), Ending::GaveUp);
}

/// RFC 9293, 3.8.6.2.1: a window too small for a segment waits for the override timeout.
#[test]
fn small_window_is_used_after_the_override_timeout() {
    let mut s = Script::sender(probing(ProbeKind::NextByte), 100);
    s.sent();
    assert_eq!(s.window(2000, 300), "");
    assert_eq!(s.wait(ms(1000)), "1000: 2000+300");
    assert_eq!(s.window(2300, 60_000).split(' ').next(), Some("2300+1000"));
}

/// 4.3BSD-Reno's tcp_output: the retransmission timer is cancelled and snd.nxt pulled
/// back; nothing times out, however long, and the windows stay as they were.
#[test]
fn window_that_shrinks_to_zero_over_bytes_in_flight_is_persist_at_once() {
    let mut s = Script::sender(probing(ProbeKind::NextByte), 100);
    s.sent();
    for acked in 1..=4 {
        s.ack(acked * 1000);
    }
    assert_eq!(s.cwnd(), 6000);
    // 4 to 9 are in flight.
    assert_eq!(s.window(4000, 0), "");
    assert!(s.end.view().persisting);
    let sent = s.wait(ms(60_000));
    assert!(sent.starts_with("1000: 4000+1, 3000: 4000+1"), "{sent}");
    assert_eq!((s.end.counters().timeouts, s.cwnd()), (0, 6000));
    // Brown and Singh, 1997: it begins again from the byte after the last one
    // acknowledged, "possibly duplicating previous sends".
    assert_eq!(s.window(4000, 60_000), "4 5 6 7 8 9");
}

/// Linux: the timer keeps running, each expiry is a timeout, the second one halves
/// again; but the connection is not given up.
#[test]
fn retransmission_timer_runs_on_over_a_shrunk_window_as_on_linux() {
    let mut settings = probing(ProbeKind::Empty);
    settings.on_shrunk_window = OnShrunkWindow::RetransmissionTimerRuns;
    settings.rto.retries_max = 2;
    let mut s = Script::sender(settings, 100);
    s.sent();
    for acked in 1..=8 {
        s.ack(acked * 1000);
    }
    assert_eq!(s.cwnd(), 10_000);
    assert_eq!(s.window(8000, 0), "");
    assert!(!s.end.view().persisting);
    assert_eq!(s.wait(ms(1000)), "1000: 8");
    assert_eq!((s.cwnd(), s.ssthresh()), (1000, 5000));
    assert_eq!(s.wait(ms(2000)), "2000: 8");
    assert_eq!(s.ssthresh(), 2000);
    s.wait(ms(120_000));
    assert_eq!(s.end.ending(), Ending::Open);
    assert_eq!(s.window(8000, 60_000), "");
    assert_eq!(s.ack(9000), "9 10");
}

/// OPNET, as M-TCP+ describes it: persist needs a window of zero and nothing outstanding. Until
/// then each expiry retransmits the segment and counts.
#[test]
fn timer_that_counts_gives_up_over_a_shrunk_window_and_persists_over_an_empty_one() {
    let mut settings = probing(ProbeKind::NextByte);
    settings.on_shrunk_window = OnShrunkWindow::RetransmissionTimerCounts;
    settings.rto.retries_max = 2;
    for all_acknowledged in [false, true] {
        let mut s = Script::sender(settings, 100);
        s.sent();
        for acked in 1..=4 {
            s.ack(acked * 1000);
        }
        assert_eq!(s.window(4000, 0), "");
        assert!(!s.end.view().persisting);
        if all_acknowledged {
            // The rest of what is in flight, the window still closed.
            assert_eq!(s.window(10_000, 0), "");
            assert!(s.end.view().persisting);
        } else {
            assert_eq!(s.wait(ms(1000)), "1000: 4");
            assert_eq!(s.wait(ms(2000)), "2000: 4");
        }
        s.wait(ms(120_000));
        let ending = if all_acknowledged {
            Ending::Open
        } else {
            Ending::GaveUp
        };
        assert_eq!(s.end.ending(), ending);
    }
}

/// The senders for which SH-TCP has its state RECOVERING: after persist they reject an ACK of
/// data that they sent before it.
#[test]
fn sender_that_resets_snd_max_does_not_believe_acks_of_what_it_sent_before() {
    for (on_persist_exit, believed) in [
        (OnPersistExit::KeepSndMax, true),
        (OnPersistExit::ResetSndMax, false),
    ] {
        let mut s = Script::sender(
            TcpSettings {
                on_persist_exit,
                ..probing(ProbeKind::NextByte)
            },
            100,
        );
        s.sent();
        for acked in 1..=4 {
            s.ack(acked * 1000);
        }
        s.window(4000, 0);
        // 4 to 9 were sent; the window opens for two segments.
        assert_eq!(s.window(4000, 2000), "4 5");
        let sent = s.ack(9000);
        assert_eq!(s.end.view().snd_una == 9000, believed);
        if !believed {
            // RFC 9293, 3.10.7.4: an ACK of something not yet sent is answered.
            assert_eq!(sent, "=0");
        }
    }
}

/// Data that the sender has forgotten is still a retransmission: it counts, and is not timed
/// (RFC 6298, 3).
#[test]
fn what_a_sender_forgot_to_have_sent_counts_as_repeated_and_is_not_timed() {
    for on_persist_exit in [OnPersistExit::KeepSndMax, OnPersistExit::ResetSndMax] {
        let settings = TcpSettings {
            on_persist_exit,
            ..probing(ProbeKind::NextByte)
        };
        let mut s = Script::sender(settings, 100);
        s.sent();
        for acked in 1..=4 {
            s.ack(acked * 1000);
        }
        s.window(4000, 0);
        let before = *s.end.counters();
        // 4 to 9 were sent.
        assert_eq!(s.window(4000, 60_000), "4 5 6 7 8 9");
        let after = *s.end.counters();
        assert_eq!(after.data_segments - before.data_segments, 6);
        assert_eq!(
            after.data_segments_repeated - before.data_segments_repeated,
            6
        );
        assert_eq!(after.data_bytes_repeated - before.data_bytes_repeated, 6000);
        s.now += ms(700);
        s.ack(5000);
        assert_eq!(s.end.counters().rtt_samples, before.rtt_samples);
    }
}

/// RFC 9293, 3.10.7.4: SND.WL1, SND.WL2; Linux before 6.6 does not let a duplicate ACK
/// shrink the window.
#[test]
fn duplicate_ack_closes_the_window_only_where_the_rules_let_it() {
    for (window_updates, closed) in [
        (WindowUpdates::Rfc9293, true),
        (WindowUpdates::NewAckToShrink, false),
    ] {
        let mut s = Script::sender(
            TcpSettings {
                window_updates,
                ..plain()
            },
            100,
        );
        s.sent();
        s.ack(1000);
        s.window(1000, 0);
        assert_eq!(s.end.view().rwnd == 0, closed, "{window_updates:?}");
        // An ACK of new data shrinks the window for both, and opens it for both.
        s.window(2000, 0);
        assert_eq!(s.end.view().rwnd, 0);
        s.window(2000, 5000);
        assert_eq!(s.end.view().rwnd, 5000);
    }
}

/// An older segment does not bring an older window back.
#[test]
fn old_segment_does_not_update_the_window() {
    let mut s = Script::sender(plain(), 100);
    s.sent();
    s.window(2000, 9000);
    s.window(1000, 400);
    assert_eq!(s.end.view().rwnd, 9000);
}
