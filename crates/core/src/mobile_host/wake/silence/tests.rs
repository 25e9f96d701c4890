// SPDX-License-Identifier: Apache-2.0
//! Who is silent, who is asked, who is woken.

use super::super::tests::host_flow;
use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_millis(10_000 + ms)
}

fn flow(port: u16) -> HostFlow {
    host_flow(port, at(0))
}

/// Its data came at 0.
fn of(flow: HostFlow) -> Download {
    Download {
        flow,
        data_at: Some(at(0)),
    }
}

/// The same, heard since.
fn heard(port: u16, ms: u64) -> Download {
    of(host_flow(port, at(ms)))
}

#[test]
fn what_is_silent_is_woken_after_longer_and_longer_until_it_is_heard() {
    let mut silence = Silence::default();
    silence.begin(&flow(1), false, at(0));
    let mut times = Vec::new();
    for _ in 0..6 {
        let due = silence.poll_timeout().unwrap();
        assert!(
            silence
                .handle_timeout(at(0), [], |_| Some(of(flow(1))))
                .is_empty()
        );
        assert_eq!(
            silence.handle_timeout(due, [], |_| Some(of(flow(1)))).len(),
            1
        );
        times.push(due.saturating_since(at(0)).as_millis());
    }
    assert_eq!(times, [300, 900, 1_900, 2_900, 3_900, 4_900]);
    let heard = heard(1, 5_000);
    assert!(
        silence
            .handle_timeout(at(6_000), [], |_| Some(heard))
            .is_empty()
    );
    assert_eq!(silence.poll_timeout(), None);
}

#[test]
fn a_pause_a_closed_window_and_what_is_gone_are_left_alone() {
    let mut silence = Silence::default();
    silence.begin(&flow(1), true, at(0));
    let closed = HostFlow {
        window: 0,
        ..flow(2)
    };
    silence.begin(&closed, false, at(0));
    assert_eq!(silence.poll_timeout(), None);
    silence.begin(&flow(3), false, at(0));
    assert!(silence.handle_timeout(at(300), [], |_| None).is_empty());
    assert_eq!(silence.poll_timeout(), None);
    silence.begin(&flow(4), false, at(0));
    silence.end();
    assert_eq!(silence.poll_timeout(), None);
}

#[test]
fn where_others_are_heard_a_flow_is_woken_once_more() {
    for (heard, due_again) in [(200, true), (500, false)] {
        let mut silence = Silence::default();
        silence.begin(&flow(1), false, at(0));
        let others = [(flow(1).key, Some(at(0))), (flow(2).key, Some(at(heard)))];
        let woken = silence.handle_timeout(at(600), others, |_| Some(of(flow(1))));
        assert_eq!(woken.len(), 1);
        assert!(woken[0].key == flow(1).key && !woken[0].is_back);
        assert_eq!(silence.poll_timeout().is_some(), due_again, "{heard} ms");
    }
}

#[test]
fn nobody_is_woken_for_ever_nor_are_more_than_there_is_room_for() {
    let mut silence = Silence::default();
    for port in 0..200 {
        silence.begin(&flow(port), false, at(0));
    }
    assert_eq!(silence.flows.len(), SILENT_MAX);
    let mut sent = 0;
    while let Some(due) = silence.poll_timeout() {
        sent += silence
            .handle_timeout(due, [], |key| Some(of(flow(key.mh.port))))
            .len();
    }
    assert!(sent <= SILENT_MAX * 182, "{sent}");
}

#[test]
fn doublings_are_as_many_as_a_sender_can_have_made_and_one_more() {
    let of = |ms| doublings(Duration::from_millis(ms));
    assert_eq!(
        [of(0), of(199), of(200), of(599), of(600), of(1_400)],
        [0, 0, 2, 2, 3, 4]
    );
    assert_eq!((of(7_000), of(60_000), of(u64::MAX)), (6, 9, 13));
}

/// Two flows that were heard at 0 and fell silent at 200 ms; the FH of the first was asked at 240.
fn two() -> Silence {
    let mut silence = Silence::default();
    for port in [1, 2] {
        assert!(silence.begin(&flow(port), false, at(200)));
    }
    silence.note_asked(&flow(1).key, at(240));
    silence.note_asked(&flow(1).key, at(340));
    silence
}

/// The wake-ups by the clock until 8 s, of which FHs answer nothing: whose, how long after 5,030 ms, and
/// whether as after an outage.
fn tries(silence: &mut Silence) -> Vec<(u16, u128, bool)> {
    let mut tries = Vec::new();
    while let Some(due) = silence.poll_timeout().filter(|due| *due < at(8_000)) {
        let since = due.saturating_since(at(5_030)).as_millis();
        for Try { key, is_back } in
            silence.handle_timeout(due, [], |key| Some(of(flow(key.mh.port))))
        {
            tries.push((key.mh.port, since, is_back));
        }
    }
    tries
}

#[test]
fn an_fh_that_answers_the_first_probe_pauses_and_a_later_one_says_that_the_link_is_back() {
    for (answered, told) in [
        (230, None),
        (290, Some(Told::Pauses)),
        (430, Some(Told::Pauses)),
        (450, Some(Told::IsBack)),
        (9_000, Some(Told::IsBack)),
    ] {
        let mut silence = two();
        assert_eq!(silence.asked(), [flow(1).key]);
        assert_eq!(
            silence.told_by(&heard(2, 290), at(9_000)),
            None,
            "not asked"
        );
        assert_eq!(silence.told_by(&heard(1, answered), at(9_000)), told);
        assert_eq!(silence.follows(&flow(1).key), told != Some(Told::Pauses));
    }
    // Its round trip is what it says, up to five seconds.
    for (srtt_ms, answered, told) in [(600, 980, Told::Pauses), (60_000, 5_400, Told::IsBack)] {
        let mut silence = Silence::default();
        let far = HostFlow {
            srtt: Some(Duration::from_millis(srtt_ms)),
            ..flow(1)
        };
        silence.begin(&far, false, at(200));
        silence.note_asked(&far.key, at(240));
        assert_eq!(silence.told_by(&heard(1, answered), at(9_000)), Some(told));
    }
}

#[test]
fn what_an_fh_sends_soon_says_nothing_and_later_that_the_link_is_back() {
    for (data_ms, told, is_followed) in [(300, Told::GoesOn, false), (5_000, Told::IsBack, true)] {
        let mut silence = two();
        let goes_on = Download {
            data_at: Some(at(data_ms)),
            ..heard(1, data_ms)
        };
        assert_eq!(silence.told_by(&goes_on, at(data_ms)), Some(told));
        assert_eq!(silence.follows(&flow(1).key), is_followed);
        assert!(!silence.pauses(&flow(1)));
        // Nor does it wait.
        silence.wake(&[of(flow(2))], at(data_ms));
        assert!(!silence.follows(&flow(1).key));
    }
}

#[test]
fn an_fh_that_could_not_be_asked_for_long_does_not_pause() {
    let mut silence = Silence::default();
    silence.begin(&flow(1), false, at(200));
    silence.note_asked(&flow(1).key, at(10_000));
    let answer = heard(1, 10_050);
    assert_eq!(silence.told_by(&answer, at(10_060)), Some(Told::IsBack));
}

#[test]
fn who_falls_silent_again_is_silent_anew() {
    let mut silence = Silence::default();
    assert!(silence.begin(&flow(1), false, at(200)));
    assert!(!silence.begin(&flow(1), false, at(220)), "it is so already");
    let on = HostFlow {
        rcv_nxt: flow(1).rcv_nxt + 5_000,
        ..host_flow(1, at(230))
    };
    assert!(silence.begin(&on, false, at(320)));
    assert_eq!(silence.began(), Some([at(320); 2]));
}

#[test]
fn who_waits_is_woken_when_the_link_is_back_and_thrice_more_until_data_come() {
    let mut silence = two();
    // The third was in flight and not followed.
    let woken = silence.wake(&[of(flow(1)), of(flow(3))], at(5_030));
    assert_eq!(woken, [flow(1).key, flow(3).key]);
    assert!(!silence.follows(&flow(2).key), "of which nothing is known");
    assert_eq!(silence.began(), None, "nobody waits any more");
    assert_eq!((silence.to_ask(0), silence.asked()), (None, Vec::new()));
    let tries = tries(&mut silence);
    let of = |port| {
        let its = tries.iter().filter(move |(of, ..)| *of == port);
        its.map(|(_, ms, is_back)| (*ms, *is_back))
            .collect::<Vec<_>>()
    };
    let thrice = [(100, true), (300, true), (700, true)];
    assert_eq!(of(3), thrice, "not followed before");
    assert_eq!(of(1)[..3], thrice);
    assert_eq!(of(1)[3..], [(1_500, false), (2_500, false)]);
}

#[test]
fn if_nothing_is_heard_who_was_woken_waits_for_the_link_again_but_not_for_ever() {
    let mut silence = two();
    let mut now = at(5_030);
    for woken in 1..=WOKEN_MAX {
        assert_eq!(silence.wake(&[of(flow(1))], now), [flow(1).key]);
        assert_eq!(silence.to_ask(0), None);
        for _ in 0..AGAIN {
            now = silence.poll_timeout().unwrap();
            silence.handle_timeout(now, [], |_| Some(of(flow(1))));
        }
        let waits = silence.to_ask(0);
        assert_eq!(waits.is_some(), woken < WOKEN_MAX, "{woken}");
        silence.note_asked(&flow(1).key, now + Duration::from_millis(50));
        assert_eq!(silence.began().is_some(), woken < WOKEN_MAX);
        now += Duration::from_secs(5);
    }
}

#[test]
fn an_answer_is_not_what_somebody_who_was_woken_waits_for() {
    let mut silence = two();
    silence.wake(&[of(flow(1))], at(5_030));
    let answer = heard(1, 5_070);
    let tries = silence.handle_timeout(at(5_130), [], |_| Some(answer));
    assert_eq!(tries.len(), 1);
    let data = Download {
        data_at: Some(at(5_200)),
        ..answer
    };
    assert!(
        silence
            .handle_timeout(at(5_330), [], |_| Some(data))
            .is_empty()
    );
    assert!(!silence.follows(&flow(1).key));
}

#[test]
fn who_was_heard_since_the_others_fell_silent_does_not_wait_unless_it_was_taken_for_one_that_pauses()
 {
    let mut silence = two();
    let late = Duration::from_millis(500);
    for (of, waits) in [
        (heard(1, 0), true),
        (heard(3, 700), true),
        (heard(3, 701), false),
        (
            Download {
                data_at: Some(at(5_020)),
                ..heard(2, 5_020)
            },
            false,
        ),
    ] {
        assert_eq!(silence.may_wait(&of, late), waits, "{of:?}");
    }
    assert_eq!(silence.told_by(&heard(1, 290), at(300)), Some(Told::Pauses));
    assert!(silence.may_wait(&heard(1, 2_000), late));
    silence.wake(&[heard(1, 2_000)], at(5_030));
    assert!(!silence.may_wait(&heard(1, 2_000), late), "once");
}

#[test]
fn a_round_trip_passes_before_a_flow_is_woken_again() {
    let far = HostFlow {
        srtt: Some(Duration::from_millis(600)),
        ..flow(1)
    };
    let mut silence = Silence::default();
    silence.begin(&far, false, at(700));
    let woken = silence.wake(&[of(far)], at(5_000));
    assert_eq!((woken.len(), silence.poll_timeout()), (1, Some(at(5_600))));
}

#[test]
fn an_fh_that_pauses_is_left_alone_until_it_goes_on_however_many_have_paused_before() {
    let mut silence = Silence::default();
    let mut pause = |port: u16, ms: u64| {
        let of = heard(port, ms);
        assert!(silence.begin(&of.flow, false, at(ms)), "{port}");
        silence.note_asked(&of.flow.key, at(ms + 10));
        let answer = heard(port, ms + 60);
        assert_eq!(silence.told_by(&answer, at(ms + 60)), Some(Told::Pauses));
    };
    for port in 0..2 * SILENT_MAX as u16 {
        pause(2_000 - port, u64::from(port) * 100);
    }
    pause(1, 20_000);
    pause(2, 20_100);
    assert_eq!(silence.pausing.len(), SILENT_MAX);
    for port in [1, 2] {
        let is_new = silence.begin(&flow(port), false, at(21_000));
        assert!(!is_new && silence.pauses(&flow(port)));
    }
    let on = HostFlow {
        rcv_nxt: flow(1).rcv_nxt + 5_000,
        ..flow(1)
    };
    assert!(silence.begin(&on, false, at(22_000)));
    assert!(!silence.pauses(&flow(1)), "of long ago");
}

#[test]
fn a_few_fhs_are_asked_in_turn_those_of_other_addresses_first_and_who_was_heard_last() {
    let mut silence = Silence::default();
    assert_eq!(silence.to_ask(0), None);
    let mut begin = |address: &str, port, heard| {
        let mut flow = host_flow(port, at(heard));
        flow.key.fh.address = address.parse().unwrap();
        silence.begin(&flow, false, at(500));
    };
    begin("10.1.0.1", 1, 100);
    begin("10.1.0.1", 2, 200);
    begin("10.1.0.2", 3, 300);
    begin("10.1.0.3", 4, 50);
    let asked: Vec<_> = (0..4)
        .map(|turn| silence.to_ask(turn).unwrap().mh.port)
        .collect();
    assert_eq!(asked, [3, 2, 4, 3]);
    assert_eq!(two().to_ask(1), Some(flow(2).key), "of the same address");
}
