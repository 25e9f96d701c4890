// SPDX-License-Identifier: Apache-2.0
//! Freeze-TCP, fast retransmit and M-TCP at the MH, event by event.

use super::*;
use holdfast_wire::{Endpoint, SackBlocks, SeqNum};

mod false_alarms;
mod property;
mod steps;
mod transfers;

const LEAD: Duration = Duration::from_millis(300);
const RTT: Duration = Duration::from_millis(80);

fn at(millis: u64) -> Instant {
    Instant::from_millis(10_000 + millis)
}

fn flow(port: u16) -> HostFlow {
    let end = |host: u8, port| Endpoint {
        address: [10, 0, 0, host].into(),
        port,
    };
    HostFlow {
        key: FlowKey {
            fh: end(1, 443),
            mh: end(2, port),
        },
        snd_nxt: SeqNum::new(100),
        rcv_nxt: SeqNum::new(5_000),
        window: 501,
        window_shift: Some(7),
        timestamps: None,
        sack: SackBlocks::default(),
        srtt: Some(RTT),
        rtt: Some(RTT),
        sent_at: at(0),
        received_at: Some(at(0)),
        is_opaque: false,
        is_finished: false,
        data_at: None,
        permits_sack: true,
        download: None,
    }
}

/// A flow of this port that received a segment at that time.
pub(super) fn wake_flow(port: u16, received_at: Instant) -> HostFlow {
    HostFlow {
        srtt: Some(Duration::from_millis(50)),
        rtt: None,
        sent_at: received_at,
        received_at: Some(received_at),
        ..flow(port)
    }
}

/// A machine with its flows.
struct Bench {
    host: MobileHost,
    flows: Vec<HostFlow>,
}

impl Bench {
    fn new(settings: MobileHostSettings) -> Self {
        let flows = vec![flow(1000), flow(1001)];
        let host = MobileHost::new(settings);
        Self { host, flows }
    }

    fn of(scheme: MobileScheme) -> Self {
        Self::new(MobileHostSettings::new(scheme))
    }

    fn link(&mut self, event: LinkEvent, now: Instant) -> Vec<HostAction> {
        let mut actions = Vec::new();
        self.host.handle_link(event, &self.flows, now, &mut actions);
        actions
    }

    /// Lets time pass until `end`, and handles all timers. Returns the actions.
    fn until(&mut self, end: Instant) -> Vec<(Instant, HostAction)> {
        let mut all = Vec::new();
        while let Some(due) = self.host.poll_timeout().filter(|due| *due <= end) {
            let mut actions = Vec::new();
            self.host.handle_timeout(&self.flows, due, &mut actions);
            let again = self.host.poll_timeout();
            assert!(again.is_none_or(|again| again > due), "due for ever");
            all.extend(actions.into_iter().map(|action| (due, action)));
        }
        all
    }

    fn keys(&self) -> Vec<FlowKey> {
        self.flows.iter().map(|flow| flow.key).collect()
    }
}

fn send(key: FlowKey, ack: MadeAck, copies: u8) -> HostAction {
    HostAction::Send { key, ack, copies }
}

#[test]
fn a_warning_closes_each_window_one_round_trip_before_the_link_goes() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    let slow = Duration::from_millis(200);
    bench.flows[1].srtt = Some(slow);
    let [quick_key, slow_key] = bench.keys().try_into().unwrap();
    assert!(
        bench
            .link(LinkEvent::GoingDownSoon(Some(LEAD)), at(0))
            .is_empty()
    );
    let happened = bench.until(at(299));
    let expected = [(slow_key, slow), (quick_key, RTT)].map(|(key, ahead)| {
        let when = Instant::from_nanos(at(300).as_nanos() - ahead.as_nanos() as u64);
        [
            (when, HostAction::Close(key)),
            (when, send(key, MadeAck::ZeroWindow, 1)),
        ]
    });
    assert_eq!(happened, expected.concat());
    assert_eq!(bench.host.counters().acks_made, 2);
}

#[test]
fn a_warning_shorter_than_the_round_trip_closes_at_once_as_published_and_never_today() {
    for set in FreezeSet::ALL {
        let mut settings = MobileHostSettings::new(MobileScheme::Freeze);
        settings.set = set;
        for lead in [None, Some(RTT / 2)] {
            let mut bench = Bench::new(settings);
            let actions = bench.link(LinkEvent::GoingDownSoon(lead), at(0));
            let closed = bench.host.closed_count();
            match set {
                FreezeSet::Published => assert_eq!((actions.len(), closed), (4, 2)),
                FreezeSet::Today => {
                    assert_eq!((actions.len(), closed), (0, 0));
                    assert_eq!(bench.host.counters().not_covered, 2);
                }
            }
        }
    }
}

#[test]
fn today_a_warning_of_one_and_a_half_round_trips_is_the_shortest_that_counts() {
    let enough = RTT * 3 / 2;
    for (lead, not_covered) in [
        (enough, 0),
        (enough.saturating_sub(Duration::from_nanos(1)), 2),
    ] {
        let mut settings = MobileHostSettings::new(MobileScheme::Freeze);
        settings.set = FreezeSet::Today;
        let mut bench = Bench::new(settings);
        bench.link(LinkEvent::GoingDownSoon(Some(lead)), at(0));
        assert_eq!(bench.host.counters().not_covered, not_covered);
    }
}

#[test]
fn today_the_last_acks_have_the_time_to_arrive_and_a_round_trip_that_has_grown_counts() {
    let mut settings = MobileHostSettings::new(MobileScheme::Freeze);
    settings.set = FreezeSet::Today;
    let mut bench = Bench::new(settings);
    bench.flows.truncate(1);
    let key = bench.keys()[0];
    let warned = LinkEvent::GoingDownSoon(Some(Duration::from_secs(1)));
    assert!(bench.link(warned, at(0)).is_empty());
    bench.until(at(300));
    // Two round trips of 80 ms would be at 840.
    bench.flows[0].rtt = Some(RTT * 2);
    let happened = bench.until(at(999));
    assert_eq!(happened[0], (at(680), HostAction::Close(key)));

    // The round trip is longer than the time that is left: the window is not closed.
    let mut bench = Bench::new(settings);
    bench.flows.truncate(1);
    bench.link(warned, at(0));
    bench.until(at(300));
    bench.flows[0].rtt = Some(Duration::from_millis(600));
    assert!(bench.until(at(999)).is_empty());
    assert_eq!(bench.host.counters().not_covered, 1);
}

#[test]
fn after_a_warned_outage_windows_open_and_three_copies_of_the_last_ack_go_out() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    bench.link(LinkEvent::GoingDownSoon(None), at(0));
    assert!(bench.link(LinkEvent::Down, at(50)).is_empty());
    assert!(
        bench.until(at(20_000)).is_empty(),
        "closed as long as it lasts"
    );
    assert!(bench.host.orders_until(at(20_000)).is_some());
    let actions = bench.link(LinkEvent::Up, at(20_000));
    let keys = bench.keys();
    let expected = keys
        .iter()
        .map(|key| [HostAction::Open(*key), send(*key, MadeAck::Last, 3)]);
    assert_eq!(actions, expected.collect::<Vec<_>>().concat());
    assert_eq!(bench.host.orders_until(at(20_000)), None);
    // One flow answers, the other does not.
    bench.flows[0].received_at = Some(at(20_050));
    let again = bench.until(at(60_000));
    assert_eq!(again.len(), 6, "and then no more");
    assert!(
        again
            .iter()
            .all(|(_, action)| *action == send(keys[1], MadeAck::Last, 1))
    );
    assert_eq!(bench.host.poll_timeout(), None);
}

#[test]
fn a_flow_whose_answer_cannot_be_there_yet_gets_no_more_copies() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    let long = Duration::from_millis(650);
    bench.flows[1].srtt = Some(long);
    let [quick_key, long_key] = bench.keys().try_into().unwrap();
    bench.link(LinkEvent::GoingDownSoon(None), at(0));
    bench.link(LinkEvent::Down, at(50));
    bench.link(LinkEvent::Up, at(1_000));
    let again = bench.until(at(60_000));
    let first = |key| {
        let time_of = |(when, action): &(Instant, HostAction)| {
            (*action == send(key, MadeAck::Last, 1)).then_some(when.saturating_since(at(1_000)))
        };
        again.iter().find_map(time_of).unwrap()
    };
    assert!(first(quick_key) < Duration::from_millis(200));
    assert!(first(long_key) > long && first(long_key) < long * 2);
}

#[test]
fn a_segment_on_a_link_that_was_reported_down_shows_link_up() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    bench.link(LinkEvent::GoingDownSoon(None), at(0));
    bench.link(LinkEvent::Down, at(50));
    // This segment was in flight at link down.
    bench.flows[0].received_at = Some(at(550));
    assert!(bench.until(at(5_000)).is_empty());
    bench.flows[0].received_at = Some(at(5_100));
    let happened = bench.until(at(6_100));
    let opened = happened
        .iter()
        .filter(|(_, action)| matches!(action, HostAction::Open(_)));
    assert_eq!(opened.count(), 2);
    assert_eq!(bench.host.closed_count(), 0);
}

#[test]
fn warnings_one_after_another_do_not_keep_windows_closed() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    let mut closed = Duration::ZERO;
    for turn in 0..150 {
        let now = at(turn * 400);
        bench.link(LinkEvent::GoingDownSoon(None), now);
        bench.until(now + Duration::from_millis(399));
        if bench.host.closed_count() > 0 {
            closed += Duration::from_millis(400);
        }
    }
    assert!(closed < Duration::from_secs(36), "{closed:?} of 60 s");
}

#[test]
fn what_was_closed_is_opened_after_an_outage_of_any_length() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    bench.link(LinkEvent::GoingDownSoon(None), at(0));
    bench.link(LinkEvent::Down, at(50));
    bench.flows[0].is_finished = true;
    let now = at(3_600_000);
    let actions = bench.link(LinkEvent::Up, now);
    for key in bench.keys() {
        assert!(actions.contains(&send(key, MadeAck::Last, 3)));
    }
}

#[test]
fn a_flow_without_a_round_trip_is_not_closed_long_before_the_link_goes() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    for flow in &mut bench.flows {
        (flow.srtt, flow.rtt) = (None, None);
    }
    let lead = Duration::from_secs(60);
    bench.link(LinkEvent::GoingDownSoon(Some(lead)), at(0));
    bench.until(at(58_900));
    assert_eq!(bench.host.closed_count(), 0);
    bench.until(at(59_100));
    assert_eq!(bench.host.closed_count(), 2);
}

#[test]
fn flows_that_deliver_get_no_acks_at_an_unexpected_link_up() {
    let mut bench = Bench::of(MobileScheme::FastRetransmit);
    bench.flows[0].received_at = Some(at(4_990));
    let keys = bench.keys();
    let actions = bench.link(LinkEvent::Up, at(5_000));
    assert_eq!(actions, [send(keys[1], MadeAck::Last, 3)]);
}

#[test]
fn orders_are_renewed_well_before_they_lapse() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    bench.link(LinkEvent::GoingDownSoon(None), at(0));
    bench.link(LinkEvent::Down, at(1));
    let due = bench.host.poll_timeout().unwrap();
    let lapses = bench.host.orders_until(at(0)).unwrap();
    assert!(due + ORDER_RENEWAL * 2 < lapses);
}

#[test]
fn a_warning_of_which_nothing_comes_costs_less_than_a_second() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    bench.link(LinkEvent::GoingDownSoon(Some(LEAD)), at(0));
    let happened = bench.until(at(60_000));
    for key in bench.keys() {
        let when = |wanted: HostAction| {
            let time_of =
                |(when, action): &(Instant, HostAction)| (*action == wanted).then_some(*when);
            happened.iter().find_map(time_of).unwrap()
        };
        let frozen = when(HostAction::Open(key)).saturating_since(when(HostAction::Close(key)));
        assert!(frozen < Duration::from_secs(1), "{frozen:?}");
        assert!(
            happened
                .iter()
                .any(|(_, action)| *action == send(key, MadeAck::Last, 2))
        );
    }
    assert_eq!(bench.host.counters().false_alarms, 1);
    assert_eq!(bench.host.poll_timeout(), None);
}

#[test]
fn a_flow_that_begins_after_the_warning_is_closed_too() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    bench.link(LinkEvent::GoingDownSoon(Some(LEAD)), at(0));
    let late = flow(1002);
    bench.flows.push(late);
    let happened = bench.until(at(300));
    assert!(
        happened
            .iter()
            .any(|(_, action)| *action == HostAction::Close(late.key))
    );
}

#[test]
fn an_outage_without_a_warning_closes_nothing_and_ends_in_three_acks() {
    for scheme in [MobileScheme::Freeze, MobileScheme::FastRetransmit] {
        let mut bench = Bench::of(scheme);
        assert!(bench.link(LinkEvent::Down, at(0)).is_empty());
        let actions = bench.link(LinkEvent::Up, at(900));
        let keys = bench.keys();
        assert_eq!(
            actions,
            [0, 1].map(|n| send(keys[n], MadeAck::Last, 3)),
            "{scheme}"
        );
    }
}

#[test]
fn today_a_flow_that_was_not_closed_is_left_to_its_sender() {
    let mut settings = MobileHostSettings::new(MobileScheme::Freeze);
    settings.set = FreezeSet::Today;
    let mut bench = Bench::new(settings);
    bench.link(LinkEvent::GoingDownSoon(Some(RTT * 3)), at(0));
    let late = flow(1002);
    bench.until(at(239));
    bench.link(LinkEvent::Down, at(240));
    bench.flows.push(late);
    let actions = bench.link(LinkEvent::Up, at(900));
    let to_late =
        |action: &HostAction| matches!(action, HostAction::Send { key, .. } if *key == late.key);
    assert!(actions.len() == 4 && !actions.iter().any(to_late));
    for flow in &mut bench.flows {
        flow.received_at = Some(at(980));
    }
    // The next outage has no warning.
    bench.link(LinkEvent::Down, at(5_000));
    assert!(bench.link(LinkEvent::Up, at(9_000)).is_empty());
}

#[test]
fn without_tr_acks_only_closed_flows_get_acks_at_link_up_and_as_published_none() {
    for set in FreezeSet::ALL {
        let mut settings = MobileHostSettings::new(MobileScheme::Freeze);
        (settings.tr_acks, settings.set) = (false, set);
        let mut bench = Bench::new(settings);
        bench.flows.truncate(1);
        bench.link(LinkEvent::GoingDownSoon(Some(LEAD)), at(0));
        bench.until(at(299));
        bench.link(LinkEvent::Down, at(300));
        let key = bench.keys()[0];
        bench.flows.push(flow(1002));
        let actions = bench.link(LinkEvent::Up, at(1_000));
        let open = HostAction::Open(key);
        match set {
            FreezeSet::Published => {
                assert_eq!(actions, [open]);
                assert_eq!(bench.host.poll_timeout(), None);
            }
            FreezeSet::Today => assert_eq!(actions, [open, send(key, MadeAck::Last, 1)]),
        }
    }
}

#[test]
fn two_link_sources_that_report_one_link_up_cause_one_set_of_acks() {
    let mut bench = Bench::of(MobileScheme::FastRetransmit);
    bench.link(LinkEvent::Down, at(0));
    assert_eq!(bench.link(LinkEvent::Up, at(900)).len(), 2);
    assert!(bench.link(LinkEvent::Up, at(1_899)).is_empty());
    // This one shows an unreported outage.
    assert_eq!(bench.link(LinkEvent::Up, at(1_900)).len(), 2);
}

#[test]
fn the_marked_ack_is_sent_once_to_fhs_that_answer_and_repeated_to_the_others() {
    let mut bench = Bench::of(MobileScheme::Mtcp);
    bench.link(LinkEvent::Down, at(0));
    let keys = bench.keys();
    let actions = bench.link(LinkEvent::Up, at(2_000));
    assert_eq!(actions, [0, 1].map(|n| send(keys[n], MadeAck::Marked, 1)));
    bench.flows[0].received_at = Some(at(2_050));
    let happened = bench.until(at(60_000));
    let times: Vec<_> = happened
        .iter()
        .map(|(when, action)| {
            assert_eq!(*action, send(keys[1], MadeAck::Marked, 1));
            when.saturating_since(at(2_000)).as_millis()
        })
        .collect();
    assert_eq!(times, [100, 300, 700], "and then no more");
}

#[test]
fn flows_that_are_idle_finished_or_not_understood_are_left_alone() {
    let mut bench = Bench::of(MobileScheme::FastRetransmit);
    bench.flows[0].is_opaque = true;
    bench.flows[1].is_finished = true;
    let mut idle = flow(1002);
    let now = at(700_000);
    idle.received_at = None;
    bench.flows.push(idle);
    bench.link(LinkEvent::Down, at(0));
    assert!(bench.link(LinkEvent::Up, now).is_empty());
}

#[test]
fn no_event_makes_acks_for_more_flows_than_the_limit_and_the_newest_come_first() {
    let mut bench = Bench::of(MobileScheme::FastRetransmit);
    bench.flows = (0..3_000).map(flow).collect();
    for (number, flow) in bench.flows.iter_mut().enumerate() {
        flow.received_at = Some(at(number as u64));
    }
    bench.link(LinkEvent::Down, at(3_000));
    let actions = bench.link(LinkEvent::Up, at(4_000));
    assert_eq!(actions.len(), FLOWS_SERVED_MAX);
    assert_eq!(actions[0], send(flow(2_999).key, MadeAck::Last, 3));
}

#[test]
fn a_machine_that_stops_opens_what_is_closed() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    bench.link(LinkEvent::GoingDownSoon(None), at(0));
    let mut actions = Vec::new();
    bench.host.release(at(10), &mut actions);
    let opened = actions
        .iter()
        .filter(|action| matches!(action, HostAction::Open(_)));
    assert_eq!(opened.count(), 2);
    assert_eq!(bench.host.closed_count(), 0);
    assert_eq!(bench.host.poll_timeout(), None);
}

#[test]
fn a_warning_during_the_outage_changes_nothing() {
    let mut bench = Bench::of(MobileScheme::Freeze);
    bench.link(LinkEvent::Down, at(0));
    assert!(
        bench
            .link(LinkEvent::GoingDownSoon(None), at(10))
            .is_empty()
    );
    assert_eq!(bench.host.poll_timeout(), None);
}

#[test]
fn after_an_unforeseen_outage_each_live_flow_is_woken_and_again_until_it_answers() {
    let mut bench = Bench::of(MobileScheme::Wake);
    let keys = bench.keys();
    let renewed = bench.link(LinkEvent::Down, at(0));
    let lasts = Duration::from_secs(3_600);
    assert_eq!(
        renewed,
        [0, 1].map(|n| HostAction::RenewEcho {
            key: keys[n],
            lasts
        })
    );
    let wake_up = |key| {
        HostAction::WakeUp(WakeUp {
            key,
            unreachables: 0,
            boundary_acks: 0,
            sends_ack: true,
            renews_echo_for: Duration::from_secs(10),
        })
    };
    let actions = bench.link(LinkEvent::Up, at(2_000));
    assert_eq!(
        actions,
        [0, 1].map(|n| wake_up(keys[n])),
        "without data in flight"
    );
    bench.flows[0].received_at = Some(at(2_050));
    let times: Vec<_> = bench
        .until(at(10_000))
        .into_iter()
        .map(|(when, action)| {
            assert_eq!(action, wake_up(keys[1]));
            when.saturating_since(at(2_000)).as_millis()
        })
        .collect();
    assert_eq!(times, [100, 300, 700], "and then no more");
}

#[test]
fn the_order_to_withhold_is_valid_while_it_is_renewed() {
    let mut bench = Bench::of(MobileScheme::Wake);
    bench.until(at(0));
    let due = bench.host.poll_timeout().unwrap();
    let lapses = bench.host.orders_until(at(0)).unwrap();
    assert!(due + STANDING_ORDER_RENEWAL < lapses);
}

#[test]
fn a_pause_is_answered_by_the_true_number_but_not_in_an_outage() {
    let mut bench = Bench::of(MobileScheme::Wake);
    let flow = bench.flows[0];
    let key = flow.key;
    let mut actions = Vec::new();
    bench.host.handle_pauses(&[flow], at(0), &mut actions);
    assert_eq!(actions, [send(key, MadeAck::Last, 1)]);
    bench.link(LinkEvent::Down, at(0));
    actions.clear();
    bench.host.handle_pauses(&[flow], at(0), &mut actions);
    assert!(actions.is_empty());
}
