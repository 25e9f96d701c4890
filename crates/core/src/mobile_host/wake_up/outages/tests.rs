// SPDX-License-Identifier: Apache-2.0
//! Which flows an outage concerns, and which FHs are notified.

use holdfast_wire::SeqNum;

use super::*;
use crate::mobile_host::tests::wake_flow as host_flow;

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_000_000 + ms)
}

fn before(port: u16, data_ms: u64) -> HostFlow {
    known(host_flow(port, at(data_ms)), data_ms)
}

/// The flow with data at that time.
fn known(flow: HostFlow, data_ms: u64) -> HostFlow {
    HostFlow {
        data_at: Some(at(data_ms)),
        permits_sack: true,
        download: Some(Download {
            segments: 290,
            ..Download::default()
        }),
        ..flow
    }
}

/// A flow with this download.
fn with(port: u16, download: Download) -> HostFlow {
    HostFlow {
        download: Some(download),
        ..before(port, 0)
    }
}

/// An outage from `down` to `up`.
fn after(down: u64, up: u64) -> Outages {
    let mut outages = Outages::default();
    outages.handle_link(LinkEvent::Down, at(down));
    outages.handle_link(LinkEvent::Up, at(up));
    outages
}

#[test]
fn in_an_outage_that_was_reported_no_flow_is_silent() {
    let flow = host_flow(1, at(0));
    let mut outages = Outages::default();
    outages.handle_link(LinkEvent::Down, at(0));
    outages.begin_silence(&flow, at(100));
    assert_eq!(outages.poll_timeout(), None);
    outages.handle_link(LinkEvent::Up, at(200));
    let answered = HostFlow {
        download: Some(Download {
            pushed_end: Some(flow.rcv_nxt),
            ..Download::default()
        }),
        ..flow
    };
    outages.begin_silence(&answered, at(300));
    assert_eq!(outages.poll_timeout(), None, "the end of an answer");
    outages.begin_silence(&flow, at(400));
    assert!(outages.poll_timeout().is_some());
    outages.handle_link(LinkEvent::Down, at(500));
    assert_eq!(outages.poll_timeout(), None);
}

#[test]
fn an_fh_is_notified_only_if_something_of_the_flow_may_have_been_in_flight() {
    let unreported = Outages::default();
    let doublings =
        |outages: &Outages, data_ms, now| outages.rto_doublings(Some(at(data_ms)), at(now));
    assert_eq!(unreported.rto_doublings(None, at(0)), 0);
    assert!(doublings(&unreported, 0, 7_000) > 4);
    for (now, is_notified) in [(59_999, true), (60_000, false), (100_000, false)] {
        let is_some = doublings(&unreported, 0, now) > 0;
        assert_eq!(is_some, is_notified, "its begin is unknown: {now}");
    }
    let reported = after(10_000, 17_000);
    assert!(doublings(&reported, 6_000, 17_000) > 3);
    for (data_ms, is_notified) in [(4_000, false), (5_000, false), (5_001, true)] {
        let is_some = doublings(&reported, data_ms, 17_000) > 0;
        assert_eq!(is_some, is_notified, "idle before the outage: {data_ms}");
    }
    assert_eq!(
        doublings(&reported, 16_900, 17_000),
        0,
        "no time for a timeout"
    );
}

#[test]
fn a_repeated_down_does_not_move_the_outages_begin() {
    let mut outages = Outages::default();
    for ms in [0, 1_000, 6_000] {
        outages.handle_link(LinkEvent::Down, at(ms));
    }
    outages.handle_link(LinkEvent::Up, at(7_000));
    assert_ne!(
        outages.notifications(&before(1, 0), at(7_000)),
        Notifications::default()
    );
}

#[test]
fn a_second_link_up_by_another_source_gives_no_more_notifications() {
    let mut outages = after(0, 7_000);
    let first = outages.notifications(&before(1, 0), at(7_000));
    assert_eq!(
        first,
        Notifications {
            unreachables: doublings(Duration::from_secs(7)),
            boundary_acks: BOUNDARY_ACKS
        }
    );
    outages.handle_link(LinkEvent::Up, at(7_020));
    let again = Notifications {
        unreachables: 1,
        boundary_acks: 0,
    };
    assert_eq!(outages.notifications(&before(1, 0), at(7_060)), again);
    for (ms, up_ms) in [(7_999, 7_000), (8_000, 8_000)] {
        outages.handle_link(LinkEvent::Up, at(ms));
        assert_eq!(outages.up_at, Some(at(up_ms)));
    }
    // Much later it is another outage, with an unknown begin.
    outages.handle_link(LinkEvent::Up, at(9_000));
    assert_eq!(outages.down_at, None);
    assert!(
        outages
            .notifications(&before(1, 8_000), at(9_000))
            .unreachables
            > 1
    );
    outages.handle_link(LinkEvent::Down, at(10_000));
    outages.handle_link(LinkEvent::Up, at(10_300));
    assert!(
        outages
            .notifications(&before(1, 9_900), at(10_300))
            .boundary_acks
            > 0
    );
}

#[test]
fn a_hundred_flows_share_the_notifications_and_each_keeps_its_ack() {
    let mut outages = after(0, 7_000);
    // The packets arrive one after another. The last is the first one of its flow as well.
    let all: Vec<_> = (0..100)
        .map(|port| outages.notifications(&before(port, 0), at(7_000 + u64::from(port) / 2)))
        .collect();
    let unreachables: u32 = all.iter().map(|one| u32::from(one.unreachables)).sum();
    let boundary_acks: u32 = all.iter().map(|one| one.boundary_acks).sum();
    // A hundred flows of Cubic get all their notifications.
    let each = doublings(Duration::from_secs(7));
    assert_eq!(
        (unreachables, boundary_acks),
        (100 * u32::from(each), BOUNDARY_ACKS_ALL_MAX)
    );
    assert_eq!(
        all[3].boundary_acks, BOUNDARY_ACKS,
        "the flow with the newest segment first"
    );
}

#[test]
fn of_very_many_flows_those_without_a_notification_get_it_at_the_repetition() {
    let mut outages = after(0, 7_000);
    let mut notify = |ms| -> Vec<_> {
        let unreachables = |port| outages.notifications(&before(port, 0), at(ms)).unreachables;
        (0..300).map(unreachables).collect()
    };
    let (first, again) = (notify(7_000), notify(7_080));
    for sent in [&first, &again] {
        let sum: u32 = sent.iter().copied().map(u32::from).sum();
        assert!(sum <= UNREACHABLES_MAX, "{sum}");
    }
    assert!(first.contains(&0));
    for (first, again) in first.into_iter().zip(again) {
        assert_eq!(again == 1, first > 0, "{first} and {again}");
    }
}

#[test]
fn the_last_unreachables_of_the_budget_are_for_a_flow_that_needs_no_more() {
    let each = doublings(Duration::from_secs(7));
    for (left, sent) in [(each, each), (each - 1, 0)] {
        let mut outages = after(0, 7_000);
        outages.unreachables_left = left.into();
        let notifications = outages.notifications(&before(1, 0), at(7_000));
        assert_eq!(notifications.unreachables, sent);
    }
}

#[test]
fn a_download_without_a_withheld_segment_is_followed_too_if_all_are_silent() {
    let flow = host_flow(1, at(0));
    let mut outages = Outages::default();
    let quiet = |outages: &Outages, newest, now| {
        outages.is_quiet(&known(flow, 0), Some(at(newest)), at(now))
    };
    assert!(!quiet(&outages, 0, 250), "two round trips and 200 ms");
    assert!(quiet(&outages, 0, 350));
    assert!(!quiet(&outages, 320, 350), "another one delivers");
    assert!(!quiet(&outages, 0, 10_500), "long ago");
    outages.begin_silence(&flow, at(350));
    assert!(!quiet(&outages, 0, 400), "it is followed");
    let mut down = Outages::default();
    down.handle_link(LinkEvent::Down, at(100));
    assert!(!quiet(&down, 0, 350));
    let download_of = |segments| {
        with(
            1,
            Download {
                segments,
                ..Download::default()
            },
        )
    };
    assert!(was_download(&download_of(86)) && !was_download(&download_of(10)));
}

#[test]
fn where_the_mh_sends_data_too_as_many_acks_may_be_lost_as_a_round_trip_has() {
    for (segments, steps) in [(0, 64), (100, 100), (290, 256)] {
        let mut outages = after(0, 7_000);
        let upload_at = Some(at(0));
        let download = Download {
            segments,
            upload_at,
            ..Download::default()
        };
        let flow = with(1, download);
        assert_eq!(outages.notifications(&flow, at(7_000)).boundary_acks, steps);
        let mut misses = with(2, download);
        misses.sack.push(SeqNum::new(200), SeqNum::new(300));
        let without_scale = HostFlow {
            window_shift: None,
            ..with(3, download)
        };
        for flow in [misses, without_scale] {
            assert_eq!(outages.notifications(&flow, at(7_000)).boundary_acks, 0);
        }
    }
}

#[test]
fn an_fh_with_neither_sack_nor_timestamps_gets_no_notification() {
    let mut outages = after(0, 7_000);
    let neither = HostFlow {
        permits_sack: false,
        timestamps: None,
        ..before(1, 0)
    };
    let left = (outages.unreachables_left, outages.boundary_acks_left);
    assert_eq!(
        outages.notifications(&neither, at(7_000)),
        Notifications::default()
    );
    assert_eq!(
        (outages.unreachables_left, outages.boundary_acks_left),
        left
    );
}

#[test]
fn a_segment_long_after_link_down_shows_link_up() {
    let mut outages = Outages::default();
    assert!(!outages.shows_link_up(&host_flow(1, at(5_000))));
    outages.handle_link(LinkEvent::Down, at(0));
    assert!(!outages.shows_link_up(&host_flow(1, at(500))), "on its way");
    assert!(outages.shows_link_up(&host_flow(1, at(501))));
    outages.handle_link(LinkEvent::Up, at(700));
    assert!(!outages.shows_link_up(&host_flow(1, at(800))));
}

/// Polls until there is a result other than a probe. Returns its time and all results. Each probe is sent at
/// once; the two FHs answered last at `answered_ms`.
fn poll_all(
    outages: &mut Outages,
    answered_ms: [u64; 2],
    from: u64,
    until: u64,
) -> (u64, Vec<ProbeResult>) {
    let mut seen = Vec::new();
    for ms in (from..until).filter(|ms| ms.is_multiple_of(20)) {
        if !outages.probe_is_due(at(ms)) {
            continue;
        }
        let flows = [1, 2].map(|port| {
            let answered_ms = answered_ms[usize::from(port) - 1];
            known(host_flow(port, at(answered_ms)), 0)
        });
        let Some(result) = outages.poll_probe(&flows, at(ms)) else {
            continue;
        };
        if let ProbeResult::Probe(key) = result {
            outages.note_probed(&key, at(ms));
        }
        seen.push(result);
        if !matches!(result, ProbeResult::Probe(_)) {
            return (ms, seen);
        }
    }
    (until, seen)
}

#[test]
fn an_unreported_outage_ends_like_a_reported_one() {
    let (flow, other) = (host_flow(1, at(0)), host_flow(2, at(0)));
    let long_ago = HostFlow {
        data_at: Some(Instant::from_millis(990_000)),
        ..known(host_flow(3, at(0)), 0)
    };
    let flows = [known(other, 0), known(flow, 0), long_ago];
    let mut outages = Outages::default();
    assert!(!outages.probe_is_due(at(0)));
    outages.begin_silence(&flow, at(300));
    let (_, probes) = poll_all(&mut outages, [0, 0], 300, 7_000);
    assert!((60..70).contains(&probes.len()), "{}", probes.len());
    assert!(
        probes
            .iter()
            .all(|probes| *probes == ProbeResult::Probe(flow.key))
    );
    let (ms, results) = poll_all(&mut outages, [7_010, 0], 7_000, 8_000);
    assert_eq!((ms, &results[..]), (7_000, &[ProbeResult::LinkUp][..]));
    let woken = outages.handle_link_up_inferred(&flows, at(7_020));
    assert_eq!(woken, [flow.key, other.key], "the other was not followed");
    let notifications = outages.notifications(&before(1, 0), at(7_020));
    let unreachables = doublings(Duration::from_millis(7_020));
    assert_eq!(
        (notifications.unreachables, notifications.boundary_acks),
        (unreachables, BOUNDARY_ACKS)
    );
    // From now on no answer causes a probe, and only timers cause wake-ups.
    assert!(!outages.probe_is_due(at(7_500)));
    assert!(
        outages
            .handle_link_up_inferred(&flows, at(7_500))
            .is_empty()
    );
    for event in [LinkEvent::Up, LinkEvent::Down] {
        outages.handle_link(event, at(10_000));
        assert_eq!(outages.poll_timeout(), None, "{event:?}");
    }
}

#[test]
fn an_fh_that_answers_its_first_probe_is_not_probed_again() {
    let flow = host_flow(1, at(0));
    let mut outages = Outages::default();
    outages.begin_silence(&flow, at(300));
    let (_, probes) = poll_all(&mut outages, [0, 0], 300, 350);
    assert_eq!(probes, [ProbeResult::Probe(flow.key)]);
    let (ms, results) = poll_all(&mut outages, [400, 0], 400, 1_000);
    assert_eq!(
        (ms, &results[..]),
        (400, &[ProbeResult::Pauses(flow.key)][..])
    );
    assert!(outages.poll_timeout().is_none());
    let answer = known(host_flow(1, at(400)), 0);
    for later in (400..12_000).step_by(100) {
        assert!(!outages.is_quiet(&answer, Some(at(400)), at(later)));
    }
}

#[test]
fn an_fh_whose_data_come_with_its_answer_is_not_probed_before_it_answers_again() {
    let mut outages = Outages::default();
    let mut flow = known(host_flow(1, at(0)), 0);
    outages.begin_silence(&flow, at(60));
    // Linux answers once in half a second.
    let (mut probes, mut answers_from, mut answer_at) = (Vec::new(), 0, None);
    for ms in 60..2_000 {
        if answer_at == Some(ms) || ms == 119 {
            flow.received_at = Some(at(ms));
        }
        if ms == 119 {
            flow.data_at = Some(at(ms));
            flow.rcv_nxt += 5_000;
        }
        if ms == 215 {
            outages.begin_silence(&flow, at(ms));
        }
        let result = outages
            .probe_is_due(at(ms))
            .then(|| outages.poll_probe(&[flow], at(ms)));
        match result.flatten() {
            None | Some(ProbeResult::Pauses(_)) => {}
            Some(ProbeResult::LinkUp) => panic!("{ms} ms: the link was up all the time"),
            Some(ProbeResult::Probe(key)) => {
                outages.note_probed(&key, at(ms));
                probes.push(ms);
                if ms >= answers_from {
                    (answers_from, answer_at) = (ms + 500, Some(ms + 20));
                }
            }
        }
    }
    assert_eq!(probes.len(), 2, "{probes:?}");
}

#[test]
fn an_up_ends_what_was_found_though_it_comes_soon_after() {
    let flow = host_flow(1, at(0));
    let mut outages = Outages::default();
    outages.begin_silence(&flow, at(300));
    assert_eq!(
        outages
            .handle_link_up_inferred(&[known(flow, 0)], at(5_000))
            .len(),
        1
    );
    outages.handle_link(LinkEvent::Up, at(5_400));
    assert_eq!(outages.poll_timeout(), None);
    // A second `up` so soon has no effect, and a new silence goes on.
    outages.begin_silence(&flow, at(5_500));
    outages.handle_link(LinkEvent::Up, at(5_600));
    assert!(outages.poll_timeout().is_some());
}

#[test]
fn an_fh_that_never_answers_beside_others_that_do_is_woken_by_the_clock_alone() {
    let dead = host_flow(1, at(0));
    let mut outages = Outages::default();
    outages.begin_silence(&dead, at(300));
    let mut probes = 0;
    let mut tries = 0;
    for ms in (300..200_000).step_by(20) {
        let chatty_ms = ms / 800 * 800;
        let flows = [known(dead, 0), host_flow(2, at(chatty_ms))];
        if outages.probe_is_due(at(ms)) {
            let result = outages.poll_probe(&flows, at(ms));
            assert!(
                matches!(result, None | Some(ProbeResult::Probe(_))),
                "{result:?}"
            );
            if let Some(ProbeResult::Probe(key)) = result {
                outages.note_probed(&key, at(ms));
                probes += 1;
            }
        }
        let tried = outages.timed_wake_ups(&flows, at(ms));
        assert!(tried.iter().all(|tried| !tried.link_is_up));
        tries += tried.len();
    }
    // The wake-ups end when the other FH delivers.
    assert!(probes < 10 && tries <= 2, "{probes} probes, {tries} tries");
    assert_eq!(outages.poll_timeout(), None);
}

#[test]
fn a_silent_fh_is_notified_from_a_second_on() {
    let without_data = host_flow(1, at(0));
    assert_eq!(unreachables_for_silent(&without_data, at(0)), 0);
    let flow = before(1, 0);
    let unreachables = [900, 1_000, 3_000, 60_000].map(|ms| unreachables_for_silent(&flow, at(ms)));
    assert_eq!(unreachables, [0, 1, 2, 3]);
}

#[test]
fn a_wake_up_at_a_timer_does_not_begin_the_probes_anew() {
    let flow = host_flow(1, at(0));
    let mut outages = Outages::default();
    outages.begin_silence(&flow, at(300));
    let (_, probes) = poll_all(&mut outages, [0, 0], 300, 60_000);
    assert!(!probes.is_empty());
    let woken = outages.timed_wake_ups(&[known(flow, 0)], at(60_000));
    assert_eq!(woken.len(), 1);
    // In a silence of a minute a probe is due each two fifths of a second.
    let (_, probes) = poll_all(&mut outages, [0, 0], 60_000, 62_000);
    assert!(probes.len() <= 5, "{}", probes.len());
}

#[test]
fn flows_are_forgotten_with_their_interface() {
    let (pausing, silent) = (host_flow(1, at(0)), host_flow(2, at(0)));
    let mut outages = after(0, 100);
    let _ = outages.notifications(&before(3, 0), at(100));
    outages.begin_silence(&pausing, at(300));
    let (_, results) = poll_all(&mut outages, [350, 0], 300, 500);
    assert_eq!(results.last(), Some(&ProbeResult::Pauses(pausing.key)));
    outages.begin_silence(&silent, at(500));
    assert_eq!(outages.silence_began(), Some(at(500)));
    outages.forget_flows();
    assert_eq!(
        (outages.silence_began(), outages.poll_timeout()),
        (None, None)
    );
    assert!(outages.notified.is_empty());
    // The FH's pause is forgotten too.
    outages.begin_silence(&pausing, at(600));
    assert_eq!(outages.silence_began(), Some(at(600)));
}
