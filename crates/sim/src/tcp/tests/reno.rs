// SPDX-License-Identifier: Apache-2.0
//! RFC 5681 and RFC 3042, segment by segment; 4.3BSD-Reno where it differs.

use super::*;
use crate::tcp::Preset;
use crate::tcp::settings::{IdleRestart, PersistSettings, ProbeKind, WindowIncrease};

/// RFC 5681, 3.1: "IW = 4 * SMSS ... at most" is a setting; equation 2: each ACK of a
/// segment lets two go.
#[test]
fn slow_start_doubles_the_window_each_round_trip() {
    let mut s = Script::sender(plain(), 100);
    assert_eq!(s.sent(), "0 1");
    assert_eq!(s.ack(1000), "2 3");
    assert_eq!(s.ack(2000), "4 5");
    assert_eq!(s.ack(3000), "6 7");
    assert_eq!(s.cwnd(), 5000);
    // Equation 2: cwnd += min (N, SMSS), whatever one ACK covers.
    assert_eq!(s.ack(5000), "8 9 10");
    assert_eq!(s.cwnd(), 6000);
}

/// RFC 5681, 3.1: "the RECOMMENDED way to increase cwnd during congestion avoidance is to
/// count the number of bytes that have been acknowledged": with an ACK for every second
/// segment too.
#[test]
fn congestion_avoidance_counts_bytes_whatever_the_acks() {
    let settings = TcpSettings {
        initial_ssthresh_bytes: Some(4000),
        initial_window_segments: 4,
        ..plain()
    };
    let mut s = Script::sender(settings, 100);
    assert_eq!(s.sent(), "0 1 2 3");
    assert_eq!((s.ack(2000), s.cwnd()), ("4 5".into(), 4000));
    assert_eq!((s.ack(4000), s.cwnd()), ("6 7 8".into(), 5000));
    assert_eq!((s.ack(6000), s.cwnd()), ("9 10".into(), 5000));
    assert_eq!((s.ack(8000), s.cwnd()), ("11 12".into(), 5000));
    assert_eq!((s.ack(9000), s.cwnd()), ("13 14".into(), 6000));
}

/// RFC 5681, 3.1, equation 3.
#[test]
fn congestion_avoidance_by_the_ack_adds_a_segment_each_round_trip() {
    let settings = TcpSettings {
        increase: WindowIncrease::PerAck,
        initial_ssthresh_bytes: Some(4000),
        ..plain()
    };
    let mut s = Script::sender(settings, 100);
    s.sent();
    assert_eq!((s.ack(1000), s.ack(2000)), ("2 3".into(), "4 5".into()));
    assert_eq!(s.cwnd(), 4000);
    assert_eq!(s.ack(3000), "6");
    assert_eq!(s.ack(4000), "7");
    assert_eq!(s.ack(5000), "8");
    assert_eq!((s.ack(6000), s.cwnd()), ("9".into(), 4919));
    assert_eq!((s.ack(7000), s.cwnd()), ("10 11".into(), 5122));
}

/// A sender with ten segments in flight, `first` the first of them.
fn with_ten_in_flight(settings: TcpSettings) -> Script {
    let settings = TcpSettings {
        initial_window_segments: 10,
        ..settings
    };
    let mut s = Script::sender(settings, 200);
    assert_eq!(s.sent(), "0 1 2 3 4 5 6 7 8 9");
    s
}

/// RFC 5681, 3.2, steps 2 to 6.
#[test]
fn third_duplicate_ack_repeats_the_segment_and_halves_the_window() {
    let mut s = with_ten_in_flight(plain());
    // Step 2 needs the third one.
    assert_eq!(s.acks(2, 0), "");
    // Step 3: ssthresh = max (FlightSize / 2, 2*SMSS), the lost segment, cwnd =
    // ssthresh + 3*SMSS.
    assert_eq!(s.acks(1, 0), "0");
    assert_eq!((s.ssthresh(), s.cwnd()), (5000, 8000));
    // Step 4: each further one inflates by SMSS; step 5: new data when it fits.
    assert_eq!(s.acks(2, 0), "");
    assert_eq!(s.acks(4, 0), "10 11 12 13");
    assert_eq!(s.cwnd(), 14_000);
    // Step 6: the ACK of new data deflates to ssthresh.
    assert_eq!(s.ack(10_000), "14");
    assert_eq!(s.cwnd(), 5000);
    assert!(!s.end.view().recovering);
}

/// RFC 5681, 2: ACKs that are no duplicate ACKs.
#[test]
fn an_ack_with_data_or_another_window_is_no_duplicate() {
    let mut s = with_ten_in_flight(plain());
    s.window = 65_534;
    for window in 65_500..65_510 {
        assert_eq!(s.window(0, window), "");
    }
    assert_eq!(s.end.counters().dup_acks_received, 0);
    // With data: the other end sends while it waits.
    for sent in 0..5 {
        let from = sent * 10;
        s.data(from, from + 10);
        s.sent = from + 10;
    }
    assert_eq!(s.end.counters().dup_acks_received, 0);
    assert_eq!(s.acks(3, 0), "0");
}

/// RFC 3042, 2; RFC 5681, 3.2, step 1.
#[test]
fn limited_transmit_sends_a_new_segment_for_each_of_the_first_two() {
    let settings = TcpSettings {
        limited_transmit: true,
        ..plain()
    };
    let mut s = with_ten_in_flight(settings);
    assert_eq!(s.acks(1, 0), "10");
    assert_eq!(s.acks(1, 0), "11");
    // Step 2: what limited transmit added is not counted in FlightSize.
    assert_eq!(s.acks(1, 0), "0");
    assert_eq!((s.ssthresh(), s.cwnd()), (5000, 8000));
}

/// RFC 3042, 2: "of previously unsent data": not a retransmission of a timeout.
#[test]
fn limited_transmit_repeats_nothing_after_a_timeout() {
    let settings = TcpSettings {
        limited_transmit: true,
        ..plain()
    };
    let mut s = with_ten_in_flight(settings);
    assert_eq!(s.wait(ms(1000)), "1000: 0");
    assert_eq!(s.acks(2, 0), "");
}

/// RFC 3042, 2: only if the receiver's window allows it.
#[test]
fn limited_transmit_respects_the_receivers_window() {
    let settings = TcpSettings {
        limited_transmit: true,
        ..plain()
    };
    let mut s = with_ten_in_flight(settings);
    assert_eq!(s.window(0, 10_000), "");
    assert_eq!(s.acks(2, 0), "");
}

#[test]
fn tahoe_begins_again_from_one_segment() {
    let settings = TcpSettings {
        recovery: LossRecovery::Tahoe,
        ..plain()
    };
    let mut s = with_ten_in_flight(settings);
    assert_eq!(s.acks(3, 0), "0");
    assert_eq!((s.ssthresh(), s.cwnd()), (5000, 1000));
    assert_eq!(s.acks(4, 0), "");
    // All but one of them had arrived.
    assert_eq!(s.ack(10_000), "10 11");
}

/// A second loss in the window: Reno leaves recovery with the first new ACK and needs
/// three more duplicates (what RFC 6582, 1 is about).
#[test]
fn reno_leaves_recovery_with_the_first_new_ack() {
    let mut s = with_ten_in_flight(plain());
    assert_eq!(s.acks(3, 0), "0");
    s.acks(6, 0);
    let before = s.end.counters().fast_retransmits;
    s.ack(4000);
    assert!(!s.end.view().recovering);
    assert_eq!(s.end.counters().fast_retransmits, before);
    assert_eq!(s.acks(3, 4000).split(' ').next(), Some("4"));
}

/// 4.3BSD-Reno's window grows by an eighth of a segment more (RFC 5681, 3.1 names it).
#[test]
fn bsd_adds_an_eighth_of_a_segment_besides() {
    let settings = TcpSettings {
        increase: WindowIncrease::Bsd,
        initial_ssthresh_bytes: Some(2000),
        initial_window_segments: 4,
        ..plain()
    };
    let mut s = Script::sender(settings, 100);
    s.ack(1000);
    assert_eq!(s.cwnd(), 4000 + 250 + 125);
}

/// RFC 5681, 4.1: "has not sent data in an interval exceeding the RTO". Probes without a byte are
/// no data. (4.3BSD also counts from the last segment received.)
#[test]
fn after_an_idle_rto_the_window_is_the_initial_one() {
    for (idle_restart, expected) in [
        (IdleRestart::Never, "0 1 2 3 4 5 6"),
        (IdleRestart::SinceSent, "0 1"),
    ] {
        let settings = TcpSettings {
            idle_restart,
            persist: PersistSettings {
                probe: ProbeKind::Empty,
                ..PersistSettings::RFC9293
            },
            ..plain()
        };
        let mut s = Script::sender(settings, 100);
        // A window of seven segments, and then nothing to do: the window is closed.
        for acked in 1..=4 {
            s.ack(acked * 1000);
        }
        assert_eq!(s.cwnd(), 6000);
        let closed = s.end.view().snd_nxt;
        s.window = 0;
        assert_eq!(s.ack(closed), "");
        s.now += ms(400);
        // Probes are answered with a closed window until it opens.
        let opened = s.now + ms(9000);
        while let Some(at) = s.end.poll_timeout().filter(|at| *at <= opened) {
            s.now = at;
            s.end.handle_timeout(at, &mut s.out);
            s.out.clear();
        }
        s.now = opened + ms(3000);
        let sent = s.window(closed, 60_000);
        let first: u64 = sent.split(' ').next().unwrap().parse().unwrap();
        let relative: Vec<_> = sent
            .split(' ')
            .map(|segment| (segment.parse::<u64>().unwrap() - first).to_string())
            .collect();
        assert_eq!(relative.join(" "), expected, "{idle_restart:?}");
    }
}

/// RFC 5681, 3.1: "if the SYN or SYN/ACK is lost, the initial window used by a sender
/// after a correctly transmitted SYN MUST be one segment".
#[test]
fn lost_syn_leaves_an_initial_window_of_one_segment() {
    let mut s = Script::new(plain(), 10_000, true);
    s.end.open(s.now, &mut s.out);
    assert_eq!(s.sent(), "S");
    assert_eq!(s.wait(ms(1500)), "1000: S");
    s.syn_ack();
    assert_eq!(s.sent(), "0");
}

/// TCP/IP Illustrated 2, 26: no SACK, no timestamps, no window scale, one segment first.
#[test]
fn bsd_preset_opens_with_the_mss_alone_and_one_segment() {
    let settings = Preset::Reno43bsd.settings();
    let mut s = Script::new(settings, 10_000, true);
    s.end.open(s.now, &mut s.out);
    let options = s.out[0].segment().unwrap().options;
    assert_eq!(
        options,
        Options {
            mss: Some(1460),
            ..Options::default()
        }
    );
    s.out.clear();
    s.syn_ack();
    assert_eq!(s.sent(), "0");
}
