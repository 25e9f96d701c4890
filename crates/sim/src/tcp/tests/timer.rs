// SPDX-License-Identifier: Apache-2.0
//! RFC 6298, 5 and Karn's algorithm, segment by segment; giving up.

use super::*;
use crate::tcp::variables::Ending;

/// RFC 6298, 5.1 to 5.6.
#[test]
fn timeout_repeats_the_earliest_segment_from_a_window_of_one() {
    let mut s = Script::sender(plain(), 100);
    assert_eq!(s.sent(), "0 1");
    // The handshake's round trip was 100 ms: the least RTO.
    assert_eq!(s.wait(ms(999)), "");
    assert_eq!(s.wait(ms(1)), "1: 0");
    assert_eq!(s.cwnd(), 1000);
    // 5.5: twice as long, then four times.
    assert_eq!(s.wait(ms(6000)), "2000: 0, 6000: 0");
    // Slow start; what lies beyond is retransmitted until an ACK covers it.
    assert_eq!(s.ack(1000), "1 2");
    // ssthresh is two segments (RFC 5681, 3.1, equation 4): avoidance from here.
    assert_eq!(s.ack(2000), "3");
}

/// 5.7: "if the timer expires awaiting the ACK of a SYN segment and the TCP implementation
/// is using an RTO less than 3 seconds, the RTO MUST be re-initialized to 3 seconds when
/// data transmission begins".
#[test]
fn lost_syn_leaves_a_timeout_of_three_seconds() {
    let mut s = Script::new(plain(), 10_000, true);
    s.end.open(s.now, &mut s.out);
    s.sent();
    assert_eq!(s.wait(ms(3500)), "1000: S, 3000: S");
    s.syn_ack();
    assert_eq!(s.sent(), "0");
    assert_eq!(s.wait(ms(2999)), "");
    assert_eq!(s.wait(ms(1)), "1: 0");
    // A later measurement replaces it.
    s.ack(1000);
    s.now += ms(100);
    s.ack(2000);
    assert_eq!(s.end.view().rto, ms(1000));
}

/// 5.3: each ACK of new data restarts the timer; 5.2: with nothing outstanding it is off.
#[test]
fn new_acks_restart_the_timer_and_the_last_one_stops_it() {
    let mut s = Script::sender(plain(), 2);
    assert_eq!(s.sent(), "0 1F");
    assert_eq!(s.wait(ms(900)), "");
    s.ack(1000);
    assert_eq!(s.wait(ms(900)), "");
    s.ack(2001);
    assert_eq!(s.end.poll_timeout(), None);
}

/// 5.1, and RFC 5681: duplicate ACKs do not restart the timer.
#[test]
fn duplicate_acks_do_not_restart_the_timer() {
    let mut s = Script::sender(plain(), 100);
    s.sent();
    assert_eq!(s.wait(ms(900)), "");
    s.acks(2, 0);
    assert_eq!(s.wait(ms(100)), "100: 0");
}

/// RFC 6298, 3: no sample of what was sent twice; 5.5, 5.7: the back-off stays until
/// there is a new one.
#[test]
fn karns_algorithm_keeps_the_back_off_until_something_new_is_timed() {
    let mut s = Script::sender(plain(), 100);
    s.sent();
    let samples = s.end.counters().rtt_samples;
    assert_eq!(s.wait(ms(1000)), "1000: 0");
    s.now += ms(10);
    assert_eq!(s.ack(1000), "1 2");
    assert_eq!(s.end.counters().rtt_samples, samples);
    assert_eq!(s.end.view().rto, ms(2000));
    // 2 was never sent before: its ACK is a sample.
    s.now += ms(100);
    s.ack(2000);
    assert_eq!(s.end.view().rto, ms(2000));
    s.ack(3000);
    assert_eq!(s.end.counters().rtt_samples, samples + 1);
    assert_eq!(s.end.view().rto, ms(1000));
}

/// RFC 7323, 4: timestamps also give a sample for a retransmitted segment, since they show which
/// transmission is acknowledged.
#[test]
fn timestamps_measure_a_repeated_segment() {
    let settings = TcpSettings {
        timestamps: true,
        mss: 1012,
        ..plain()
    };
    let mut s = Script::sender(settings, 100);
    assert_eq!(s.sent(), "0 1");
    assert_eq!(s.wait(ms(1000)), "1000: 0");
    assert_eq!(s.end.view().rto, ms(2000));
    let echo = (s.now.as_nanos() / 1_000_000 + 1) as u32;
    s.now += ms(300);
    s.tsval += 1;
    let mut options = s.options(false);
    options.timestamps = Some(Timestamps {
        tsval: s.tsval,
        tsecr: echo,
    });
    let samples = s.end.counters().rtt_samples;
    s.deliver(s.segment(1, Flags::ACK, 1001, options), 0);
    assert_eq!(s.end.counters().rtt_samples, samples + 1);
    // SRTT 7/8 * 100 + 1/8 * 300 = 125, RTTVAR 3/4 * 50 + 1/4 * 200 = 87.5.
    let srtt = s.end.rto_estimator().srtt();
    assert_eq!(srtt, Some(ms(125)));
    assert_eq!(
        s.end.rto_estimator().rttvar(),
        Duration::from_micros(87_500)
    );
}

/// RFC 9293, 3.8.3, R2.
#[test]
fn too_many_timeouts_of_one_segment_end_the_connection() {
    let mut settings = plain();
    settings.rto.retries_max = 3;
    let mut s = Script::sender(settings, 100);
    s.sent();
    assert_eq!(s.wait(ms(20_000)), "1000: 0, 3000: 0, 7000: 0, 15000: R");
    assert_eq!(s.end.ending(), Ending::GaveUp);
    assert_eq!(s.end.poll_timeout(), None);
}

#[test]
fn an_ack_of_something_new_begins_the_count_anew() {
    let mut settings = plain();
    settings.rto.retries_max = 2;
    let mut s = Script::sender(settings, 100);
    s.sent();
    s.wait(ms(3000));
    assert_eq!(s.end.counters().timeouts, 2);
    s.ack(1000);
    assert_eq!(s.end.view().rto, ms(4000));
    s.wait(ms(4000));
    assert_eq!(s.end.counters().timeouts, 3);
    assert_eq!(s.end.ending(), Ending::Open);
}

/// RFC 9293, 3.8.3 for a SYN.
#[test]
fn syn_is_repeated_and_then_given_up() {
    let mut settings = plain();
    settings.rto.syn_retries_max = 2;
    let mut s = Script::new(settings, 1000, true);
    s.end.open(s.now, &mut s.out);
    assert_eq!(s.sent(), "S");
    assert_eq!(s.wait(ms(10_000)), "1000: S, 3000: S");
    assert_eq!(s.end.ending(), Ending::GaveUp);
}

/// RFC 9293, 3.8.3, MUST-23: "R2 for a SYN segment MUST be set large enough to provide
/// retransmission of the segment for at least 3 minutes".
#[test]
fn syn_is_repeated_for_three_minutes_at_least() {
    let mut s = Script::new(plain(), 1000, true);
    s.end.open(s.now, &mut s.out);
    s.sent();
    let sent = s.wait(ms(600_000));
    assert_eq!(s.end.ending(), Ending::GaveUp);
    let last = sent.rsplit(", ").next().unwrap();
    let last_ms: u64 = last.split(':').next().unwrap().parse().unwrap();
    assert!(last_ms >= 180_000, "{sent}");
}

/// 4.3BSD: timers expire at the slow timer's ticks of 500 ms.
#[test]
fn bsd_timeouts_come_at_ticks() {
    let settings = TcpSettings {
        rto: RtoSettings::BSD,
        ..plain()
    };
    let mut s = Script::sender(settings, 100);
    s.sent();
    let opened_ms = s.now.as_nanos() / 1_000_000;
    assert_eq!(opened_ms % 500, 100);
    // One measurement of no tick: 1.5 s, less the part of the tick that has passed.
    assert_eq!(s.wait(ms(5000)), "1400: 0, 4400: 0");
}

/// Bakshi and others (1997): the message restarts the timer with the present timeout, back-off
/// included. A sender that does not heed it is not affected.
#[test]
fn message_of_a_bad_link_restarts_the_timer_of_a_sender_that_knows_it() {
    for (heeds, expiries) in [(true, "1000: 0"), (false, "300: 0")] {
        let settings = TcpSettings {
            heeds_bad_link: heeds,
            ..plain()
        };
        let mut s = Script::sender(settings, 10);
        s.sent();
        s.now += ms(700);
        s.end.handle_bad_link(s.now);
        assert_eq!(s.wait(ms(1200)), expiries);
        assert_eq!(s.end.counters().timeouts, 1);
    }
    let mut s = Script::sender(
        TcpSettings {
            heeds_bad_link: true,
            ..plain()
        },
        1,
    );
    s.ack(1000);
    s.end.handle_bad_link(s.now);
    assert_eq!(s.wait(ms(900)), "");
}
