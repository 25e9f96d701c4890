// SPDX-License-Identifier: Apache-2.0
//! Which flows are silent, which are probed, which are woken.

use super::*;
use crate::back_off::doublings;
use crate::mobile_host::tests::wake_flow as host_flow;

fn at(ms: u64) -> Instant {
    Instant::from_millis(10_000 + ms)
}

/// A flow whose data arrived at 0.
fn flow(port: u16) -> HostFlow {
    delivering(port, 0)
}

/// That flow with a later segment of the FH.
fn delivering(port: u16, ms: u64) -> HostFlow {
    HostFlow {
        data_at: Some(at(0)),
        ..host_flow(port, at(ms))
    }
}

/// The flows that `silent_flows` follows, without a later segment.
fn followed(silent_flows: &SilentFlows) -> Vec<HostFlow> {
    let keys = silent_flows.flows.keys();
    keys.map(|key| flow(key.mh.port)).collect()
}

#[test]
fn a_silent_flow_is_woken_at_growing_intervals_until_a_segment_arrives() {
    let mut silent_flows = SilentFlows::default();
    silent_flows.begin(&flow(1), false, at(0));
    let mut times = Vec::new();
    for _ in 0..6 {
        let due = silent_flows.poll_timeout().unwrap();
        assert!(silent_flows.handle_timeout(&[flow(1)], at(0)).is_empty());
        assert_eq!(silent_flows.handle_timeout(&[flow(1)], due).len(), 1);
        times.push(due.saturating_since(at(0)).as_millis());
    }
    assert_eq!(times, [300, 900, 1_900, 2_900, 3_900, 4_900]);
    let segment = delivering(1, 5_000);
    assert!(
        silent_flows
            .handle_timeout(&[segment], at(6_000))
            .is_empty()
    );
    assert_eq!(silent_flows.poll_timeout(), None);
}

#[test]
fn a_pause_a_closed_window_and_what_is_gone_are_left_alone() {
    let mut silent_flows = SilentFlows::default();
    silent_flows.begin(&flow(1), true, at(0));
    let closed = HostFlow {
        window: 0,
        ..flow(2)
    };
    silent_flows.begin(&closed, false, at(0));
    assert_eq!(silent_flows.poll_timeout(), None);
    silent_flows.begin(&flow(3), false, at(0));
    assert!(silent_flows.handle_timeout(&[], at(300)).is_empty());
    assert_eq!(silent_flows.poll_timeout(), None);
    silent_flows.begin(&flow(4), false, at(0));
    silent_flows.end();
    assert_eq!(silent_flows.poll_timeout(), None);
}

#[test]
fn while_others_deliver_a_flow_is_woken_once_more() {
    for (delivered_ms, due_again) in [(200, true), (500, false)] {
        let mut silent_flows = SilentFlows::default();
        silent_flows.begin(&flow(1), false, at(0));
        let flows = [flow(1), delivering(2, delivered_ms)];
        let woken = silent_flows.handle_timeout(&flows, at(600));
        assert_eq!(woken.len(), 1);
        assert!(woken[0].key == flow(1).key && !woken[0].link_is_up);
        assert_eq!(
            silent_flows.poll_timeout().is_some(),
            due_again,
            "{delivered_ms} ms"
        );
    }
}

#[test]
fn wake_ups_end_and_the_number_of_followed_flows_is_limited() {
    let mut silent_flows = SilentFlows::default();
    for port in 0..200 {
        silent_flows.begin(&flow(port), false, at(0));
    }
    assert_eq!(silent_flows.flows.len(), SILENT_MAX);
    let mut sent = 0;
    while let Some(due) = silent_flows.poll_timeout() {
        let flows = followed(&silent_flows);
        sent += silent_flows.handle_timeout(&flows, due).len();
    }
    assert!(sent <= SILENT_MAX * 182, "{sent}");
}

#[test]
fn doublings_are_as_many_as_a_sender_can_have_made_and_one_more() {
    let doublings_of = |ms| doublings(Duration::from_millis(ms));
    assert_eq!(
        [0, 199, 200, 599, 600, 1_400].map(doublings_of),
        [0, 0, 2, 2, 3, 4]
    );
    assert_eq!([7_000, 60_000, u64::MAX].map(doublings_of), [6, 9, 13]);
}

/// Two flows that delivered at 0 and fell silent at 200 ms. The first FH was probed at 240.
fn two() -> SilentFlows {
    let mut silent_flows = SilentFlows::default();
    for port in [1, 2] {
        assert!(silent_flows.begin(&flow(port), false, at(200)));
    }
    silent_flows.note_probed(&flow(1).key, at(240));
    silent_flows.note_probed(&flow(1).key, at(340));
    silent_flows
}

/// The wake-ups at timers until 8 s, with no answer of the FHs: port, time after 5,030 ms, and whether the link
/// counts as up.
fn tries(silent_flows: &mut SilentFlows) -> Vec<(u16, u128, bool)> {
    let mut tries = Vec::new();
    while let Some(due) = silent_flows.poll_timeout().filter(|due| *due < at(8_000)) {
        let since = due.saturating_since(at(5_030)).as_millis();
        let flows = followed(silent_flows);
        for TimedWakeUp { key, link_is_up } in silent_flows.handle_timeout(&flows, due) {
            tries.push((key.mh.port, since, link_is_up));
        }
    }
    tries
}

#[test]
fn an_answer_to_the_first_probe_shows_a_pause_and_a_later_one_link_up() {
    for (answered, reply) in [
        (230, None),
        (290, Some(ProbeReply::FhPauses)),
        (440, Some(ProbeReply::FhPauses)),
        (441, Some(ProbeReply::LinkUp)),
        (9_000, Some(ProbeReply::LinkUp)),
    ] {
        let mut silent_flows = two();
        assert_eq!(silent_flows.probed(), [flow(1).key]);
        assert_eq!(
            silent_flows.reply_of(&delivering(2, 290), at(9_000)),
            None,
            "not probed"
        );
        assert_eq!(
            silent_flows.reply_of(&delivering(1, answered), at(9_000)),
            reply
        );
        assert_eq!(
            silent_flows.follows(&flow(1).key),
            reply != Some(ProbeReply::FhPauses)
        );
    }
    // The measured round trip counts, up to five seconds.
    for (srtt_ms, answered, reply) in [
        (600, 980, ProbeReply::FhPauses),
        (60_000, 5_400, ProbeReply::LinkUp),
    ] {
        let mut silent_flows = SilentFlows::default();
        let far = HostFlow {
            srtt: Some(Duration::from_millis(srtt_ms)),
            ..flow(1)
        };
        silent_flows.begin(&far, false, at(200));
        silent_flows.note_probed(&far.key, at(240));
        assert_eq!(
            silent_flows.reply_of(&delivering(1, answered), at(9_000)),
            Some(reply)
        );
    }
}

#[test]
fn data_that_arrive_soon_show_nothing_and_later_data_show_link_up() {
    for (data_ms, reply, is_followed) in [
        (440, ProbeReply::FhSends, false),
        (441, ProbeReply::LinkUp, true),
    ] {
        let mut silent_flows = two();
        let goes_on = HostFlow {
            data_at: Some(at(data_ms)),
            ..delivering(1, data_ms)
        };
        assert_eq!(silent_flows.reply_of(&goes_on, at(data_ms)), Some(reply));
        assert_eq!(silent_flows.follows(&flow(1).key), is_followed);
        assert!(!silent_flows.pauses(&flow(1)));
        // Such a flow does not wait for link up.
        silent_flows.wake(&[flow(2)], at(data_ms));
        assert!(!silent_flows.follows(&flow(1).key));
    }
}

#[test]
fn an_fh_that_could_not_be_probed_for_long_does_not_pause() {
    for (probed_ms, reply) in [(1_200, ProbeReply::FhPauses), (1_201, ProbeReply::LinkUp)] {
        let mut silent_flows = SilentFlows::default();
        silent_flows.begin(&flow(1), false, at(200));
        silent_flows.note_probed(&flow(1).key, at(probed_ms));
        let answer = delivering(1, probed_ms + 50);
        assert_eq!(silent_flows.reply_of(&answer, at(1_300)), Some(reply));
    }
}

#[test]
fn a_flow_that_falls_silent_again_begins_a_new_silence() {
    let mut silent_flows = SilentFlows::default();
    assert!(silent_flows.begin(&flow(1), false, at(200)));
    assert!(
        !silent_flows.begin(&flow(1), false, at(220)),
        "it is so already"
    );
    let on = HostFlow {
        rcv_nxt: flow(1).rcv_nxt + 5_000,
        ..host_flow(1, at(230))
    };
    assert!(silent_flows.begin(&on, false, at(320)));
    assert_eq!(silent_flows.began(), Some([at(320); 2]));
}

#[test]
fn a_waiting_flow_is_woken_at_link_up_and_three_more_times_until_data_arrive() {
    let mut silent_flows = two();
    // The third flow had data in flight, and was not followed.
    let woken = silent_flows.wake(&[flow(1), flow(3)], at(5_030));
    assert_eq!(woken, [flow(1).key, flow(3).key]);
    assert!(!silent_flows.follows(&flow(2).key), "an unknown flow");
    assert_eq!(silent_flows.began(), None, "no flow waits any more");
    assert_eq!(
        (silent_flows.to_probe(0), silent_flows.probed()),
        (None, Vec::new())
    );
    let tries = tries(&mut silent_flows);
    let tries_of = |port| {
        let own = tries.iter().filter(move |(of_port, ..)| *of_port == port);
        own.map(|(_, ms, link_is_up)| (*ms, *link_is_up))
            .collect::<Vec<_>>()
    };
    let thrice = [(100, true), (300, true), (700, true)];
    assert_eq!(tries_of(3), thrice, "not followed before");
    assert_eq!(tries_of(1)[..3], thrice);
    assert_eq!(tries_of(1)[3..], [(1_500, false), (2_500, false)]);
}

#[test]
fn without_a_segment_a_woken_flow_waits_for_link_up_again_but_not_for_ever() {
    let mut silent_flows = two();
    let mut now = at(5_030);
    for woken in 1..=LINK_UP_WAKE_UPS_MAX {
        assert_eq!(silent_flows.wake(&[flow(1)], now), [flow(1).key]);
        assert_eq!(silent_flows.to_probe(0), None);
        for _ in 0..REPETITIONS {
            now = silent_flows.poll_timeout().unwrap();
            silent_flows.handle_timeout(&[flow(1)], now);
        }
        let waits = silent_flows.to_probe(0);
        assert_eq!(waits.is_some(), woken < LINK_UP_WAKE_UPS_MAX, "{woken}");
        silent_flows.note_probed(&flow(1).key, now + Duration::from_millis(50));
        assert_eq!(silent_flows.began().is_some(), woken < LINK_UP_WAKE_UPS_MAX);
        now += Duration::from_secs(5);
    }
}

#[test]
fn a_woken_flow_waits_for_data_and_not_for_an_answer() {
    let mut silent_flows = two();
    silent_flows.wake(&[flow(1)], at(5_030));
    let answer = delivering(1, 5_070);
    let tries = silent_flows.handle_timeout(&[answer], at(5_130));
    assert_eq!(tries.len(), 1);
    let data = HostFlow {
        data_at: Some(at(5_200)),
        ..answer
    };
    assert!(silent_flows.handle_timeout(&[data], at(5_330)).is_empty());
    assert!(!silent_flows.follows(&flow(1).key));
}

#[test]
fn a_flow_that_delivered_since_the_others_fell_silent_waits_only_if_it_was_taken_for_a_pause() {
    let mut silent_flows = two();
    let late = Duration::from_millis(500);
    for (flow, waits) in [
        (delivering(1, 0), true),
        (delivering(3, 700), true),
        (delivering(3, 701), false),
        (
            HostFlow {
                data_at: Some(at(5_020)),
                ..delivering(2, 5_020)
            },
            false,
        ),
    ] {
        assert_eq!(silent_flows.may_wait(&flow, late), waits, "{flow:?}");
    }
    assert_eq!(
        silent_flows.reply_of(&delivering(1, 290), at(300)),
        Some(ProbeReply::FhPauses)
    );
    assert!(silent_flows.may_wait(&delivering(1, 2_000), late));
    silent_flows.wake(&[delivering(1, 2_000)], at(5_030));
    assert!(!silent_flows.may_wait(&delivering(1, 2_000), late), "once");
}

#[test]
fn a_pause_was_mistaken_if_it_began_in_the_silence_and_no_data_came_since() {
    for (paused_ms, more_bytes, waits) in [(210, 0, true), (210, 1, false), (60, 0, false)] {
        let mut silent_flows = SilentFlows::default();
        assert!(silent_flows.begin(&flow(3), false, at(10)));
        silent_flows.note_probed(&flow(3).key, at(20));
        let paused = silent_flows.reply_of(&delivering(3, 50), at(paused_ms));
        assert_eq!(paused, Some(ProbeReply::FhPauses));
        assert!(silent_flows.begin(&flow(1), false, at(200)));
        let mut delivers = delivering(3, 2_000);
        delivers.rcv_nxt += more_bytes;
        let is_mistaken = silent_flows.may_wait(&delivers, Duration::from_millis(500));
        assert_eq!(is_mistaken, waits, "{paused_ms} {more_bytes}");
    }
}

#[test]
fn a_round_trip_passes_before_a_flow_is_woken_again() {
    let far = HostFlow {
        srtt: Some(Duration::from_millis(600)),
        ..flow(1)
    };
    let mut silent_flows = SilentFlows::default();
    silent_flows.begin(&far, false, at(700));
    let woken = silent_flows.wake(&[far], at(5_000));
    assert_eq!(
        (woken.len(), silent_flows.poll_timeout()),
        (1, Some(at(5_600)))
    );
}

#[test]
fn an_fh_that_pauses_is_not_probed_until_it_sends_however_many_have_paused_before() {
    let mut silent_flows = SilentFlows::default();
    let mut pause = |port: u16, ms: u64| {
        let flow = delivering(port, ms);
        assert!(silent_flows.begin(&flow, false, at(ms)), "{port}");
        silent_flows.note_probed(&flow.key, at(ms + 10));
        let answer = delivering(port, ms + 60);
        assert_eq!(
            silent_flows.reply_of(&answer, at(ms + 60)),
            Some(ProbeReply::FhPauses)
        );
    };
    for port in 0..2 * SILENT_MAX as u16 {
        pause(2_000 - port, u64::from(port) * 100);
    }
    pause(1, 20_000);
    pause(2, 20_100);
    assert_eq!(silent_flows.pausing.len(), SILENT_MAX);
    for port in [1, 2] {
        let is_new = silent_flows.begin(&flow(port), false, at(21_000));
        assert!(!is_new && silent_flows.pauses(&flow(port)));
    }
    let on = HostFlow {
        rcv_nxt: flow(1).rcv_nxt + 5_000,
        ..flow(1)
    };
    assert!(silent_flows.begin(&on, false, at(22_000)));
    assert!(!silent_flows.pauses(&flow(1)), "of long ago");
}

#[test]
fn a_few_fhs_are_probed_in_turn_other_addresses_first_and_the_newest_segment_first() {
    let mut silent_flows = SilentFlows::default();
    assert_eq!(silent_flows.to_probe(0), None);
    let mut begin = |address: &str, port, delivered_ms| {
        let mut flow = host_flow(port, at(delivered_ms));
        flow.key.fh.address = address.parse().unwrap();
        silent_flows.begin(&flow, false, at(500));
    };
    begin("10.1.0.1", 1, 100);
    begin("10.1.0.1", 2, 200);
    begin("10.1.0.2", 3, 300);
    begin("10.1.0.3", 4, 50);
    let probed: Vec<_> = (0..4)
        .map(|turn| silent_flows.to_probe(turn).unwrap().mh.port)
        .collect();
    assert_eq!(probed, [3, 2, 4, 3]);
    assert_eq!(two().to_probe(1), Some(flow(2).key), "of the same address");
}

#[test]
fn no_more_flows_are_woken_at_once_than_the_limit() {
    let all: Vec<_> = (0..2_000).map(flow).collect();
    let woken = SilentFlows::default().wake(&all, at(0));
    assert_eq!(woken.len(), FLOWS_SERVED_MAX);
}

/// The FH is not woken, and the daemon's timer does not expire again at once.
#[test]
fn a_probed_flow_whose_data_have_come_is_looked_at_again_20_ms_later() {
    let mut silent_flows = two();
    let goes_on = HostFlow {
        data_at: Some(at(440)),
        ..delivering(1, 440)
    };
    assert_eq!(silent_flows.poll_timeout(), Some(at(500)));
    let woken = silent_flows.handle_timeout(&[goes_on, flow(2)], at(500));
    let woken: Vec<_> = woken.iter().map(|woken| woken.key).collect();
    assert_eq!(woken, [flow(2).key]);
    assert_eq!(silent_flows.poll_timeout(), Some(at(520)));
}
