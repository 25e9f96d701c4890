// SPDX-License-Identifier: Apache-2.0
//! An outage that was announced and does not come: how long each flow's window is closed for it
//! (`today`).

use super::*;

/// A lead that is long enough for every flow here.
const EARLY: Duration = Duration::from_millis(1_500);
/// When the warning expects link down.
const GOES_MS: u64 = 1_500;

fn bench_of(round_trips_ms: &[u64], set: FreezeSet) -> Bench {
    let mut settings = MobileHostSettings::new(MobileScheme::Freeze);
    settings.set = set;
    let mut bench = Bench::new(settings);
    bench.flows = (1_000..).zip(round_trips_ms).map(with).collect();
    bench
}

fn with((port, round_trip_ms): (u16, &u64)) -> HostFlow {
    let round_trip = Some(Duration::from_millis(*round_trip_ms));
    HostFlow {
        srtt: round_trip,
        rtt: round_trip,
        ..flow(port)
    }
}

/// When a window was closed, and when it was opened: once each, in milliseconds.
fn closed_and_opened(happened: &[(Instant, HostAction)], key: FlowKey) -> (u64, u64) {
    let when = |wanted: HostAction| {
        let time_of = |(when, action): &(Instant, HostAction)| (*action == wanted).then_some(*when);
        let times: Vec<_> = happened.iter().filter_map(time_of).collect();
        assert_eq!(times.len(), 1, "{wanted:?}: {times:?}");
        times[0].saturating_since(at(0)).as_millis() as u64
    };
    (when(HostAction::Close(key)), when(HostAction::Open(key)))
}

#[test]
fn a_false_alarm_closes_a_window_for_less_than_a_second_up_to_a_round_trip_of_a_third_of_one() {
    let round_trips_ms = [20, 100, 160, 200, 250, 300, 350, 500];
    let mut bench = bench_of(&round_trips_ms, FreezeSet::Today);
    let warning = LinkEvent::GoingDownSoon(Some(EARLY));
    let mut happened: Vec<_> = bench
        .link(warning, at(0))
        .into_iter()
        .map(|action| (at(0), action))
        .collect();
    happened.extend(bench.until(at(60_000)));
    for (key, round_trip_ms) in bench.keys().into_iter().zip(round_trips_ms) {
        let (closed, opened) = closed_and_opened(&happened, key);
        assert_eq!(closed, GOES_MS - 2 * round_trip_ms);
        let after = opened - GOES_MS;
        match round_trip_ms {
            // A flow with enough time stays closed for all of `false_alarm`.
            ..=200 => assert_eq!(after, 500, "{round_trip_ms}"),
            201..=350 => assert!((880..=900).contains(&(opened - closed)), "{round_trip_ms}"),
            _ => assert_eq!(after, 200, "{round_trip_ms}"),
        }
        let sent = (at(opened), send(key, MadeAck::Last, 2));
        assert!(happened.contains(&sent), "{round_trip_ms}");
    }
    assert_eq!(bench.host.counters().false_alarms, 1);
    assert_eq!(bench.host.counters().frozen, round_trips_ms.len() as u64);
    assert_eq!(bench.host.counters().not_covered, 0, "none was left alone");
    assert_eq!(bench.host.poll_timeout(), None);
}

#[test]
fn a_longer_false_alarm_is_as_much_longer_and_the_published_set_has_one_for_all() {
    for (set, waited_ms) in [(FreezeSet::Today, 4_700), (FreezeSet::Published, 5_000)] {
        let mut bench = bench_of(&[350], set);
        bench.host = MobileHost::new(MobileHostSettings {
            set,
            false_alarm: Duration::from_secs(5),
            ..MobileHostSettings::new(MobileScheme::Freeze)
        });
        bench.link(LinkEvent::GoingDownSoon(Some(EARLY)), at(0));
        let happened = bench.until(at(60_000));
        let (_, opened) = closed_and_opened(&happened, bench.keys()[0]);
        assert_eq!(opened - GOES_MS, waited_ms, "{set:?}");
    }
}

#[test]
fn a_flow_that_was_opened_early_is_closed_again_by_a_late_link_down_if_nothing_arrives() {
    for answers in [false, true] {
        let mut bench = bench_of(&[20, 300], FreezeSet::Today);
        let [quick, slow] = bench.keys().try_into().unwrap();
        bench.link(LinkEvent::GoingDownSoon(Some(EARLY)), at(0));
        bench.until(at(GOES_MS + 350));
        assert_eq!(bench.host.closed_count(), 1, "the slow one's is open");
        if answers {
            bench.flows[1].received_at = Some(at(GOES_MS + 350));
        }
        let actions = bench.link(LinkEvent::Down, at(GOES_MS + 400));
        let again = [HostAction::Close(slow)];
        assert_eq!(actions, again[usize::from(answers)..]);
        assert!(bench.until(at(5_000)).is_empty());
        let actions = bench.link(LinkEvent::Up, at(5_000));
        assert!(actions.contains(&send(quick, MadeAck::Last, 3)));
        assert_eq!(actions.contains(&send(slow, MadeAck::Last, 3)), !answers);
        assert_eq!(bench.host.counters().false_alarms, 0);
    }
}

#[test]
fn warnings_one_after_another_do_not_keep_long_flows_closed_either() {
    let mut bench = bench_of(&[300], FreezeSet::Today);
    let mut closed = Duration::ZERO;
    for turn in 0..150 {
        let now = at(turn * 400);
        let warning = LinkEvent::GoingDownSoon(Some(Duration::from_millis(700)));
        let mut happened = bench.link(warning, now);
        for ms in 0..400 {
            let due = bench.until(now + Duration::from_millis(ms));
            happened.extend(due.into_iter().map(|(_, action)| action));
            closed += Duration::from_millis(bench.host.closed_count() as u64);
        }
        let opened = |action: &&HostAction| matches!(action, HostAction::Open(_));
        assert!(happened.iter().filter(opened).count() <= 1, "{happened:?}");
    }
    assert!(closed > Duration::from_secs(20), "{closed:?}: it is tried");
    assert!(closed < Duration::from_secs(36), "{closed:?} of 60 s");
}

#[test]
fn opening_many_flows_of_all_round_trips_asks_for_all_flows_a_few_times() {
    let round_trips_ms: Vec<_> = (0..1_000).map(|number| 5 + number / 2).collect();
    let mut bench = bench_of(&round_trips_ms, FreezeSet::Today);
    bench.link(LinkEvent::GoingDownSoon(Some(EARLY)), at(0));
    bench.until(at(GOES_MS));
    assert_eq!(bench.host.closed_count(), 1_000);
    let happened = bench.until(at(GOES_MS + 500));
    assert_eq!(bench.host.closed_count(), 0);
    let of_opening = happened
        .iter()
        .filter(|(_, action)| matches!(action, HostAction::Open(_)));
    let moments: BTreeSet<_> = of_opening.map(|(when, _)| *when).collect();
    assert!((4..=17).contains(&moments.len()), "{}", moments.len());
}

#[test]
fn a_later_warning_keeps_what_is_closed_so_and_opens_nothing_before_its_time() {
    let mut bench = bench_of(&[300], FreezeSet::Today);
    let warning = |ms| LinkEvent::GoingDownSoon(Some(Duration::from_millis(ms)));
    bench.link(warning(700), at(0));
    let mut happened = bench.until(at(599));
    let again = bench.link(warning(2_500), at(600));
    happened.extend(again.into_iter().map(|action| (at(600), action)));
    happened.extend(bench.until(at(10_000)));
    // The window opens two seconds and `false_alarm` after it was closed, whatever is announced.
    let key = bench.keys()[0];
    assert_eq!(closed_and_opened(&happened, key), (100, 2_600));
}

#[test]
fn a_false_alarm_that_is_waited_for_shortly_ends_then() {
    let mut bench = bench_of(&[350], FreezeSet::Today);
    bench.host = MobileHost::new(MobileHostSettings {
        set: FreezeSet::Today,
        false_alarm: Duration::from_millis(50),
        ..MobileHostSettings::new(MobileScheme::Freeze)
    });
    bench.link(LinkEvent::GoingDownSoon(Some(EARLY)), at(0));
    let happened = bench.until(at(60_000));
    let (_, opened) = closed_and_opened(&happened, bench.keys()[0]);
    assert_eq!(opened - GOES_MS, 50);
}
