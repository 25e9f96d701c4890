// SPDX-License-Identifier: Apache-2.0
//! Windows that open in steps, and an outage that is reported late.

use std::collections::VecDeque;

use super::*;
use crate::mobile_host::opening::Step;

const SEGMENT: u32 = 1448;
/// Segments in flight before the freeze: 172 on a path of 100 ms and 20 Mbit/s, and most of a queue of 50.
const FLIGHT: u32 = 200;
/// The round trip with that queue.
const FULL: Duration = Duration::from_millis(116);
/// Two such round trips less a millisecond: what is due two round trips before link down is due at once.
const SHORT_LEAD: Duration = Duration::from_millis(231);

fn today() -> Bench {
    let mut settings = MobileHostSettings::new(MobileScheme::Freeze);
    settings.set = FreezeSet::Today;
    let mut bench = Bench::new(settings);
    bench.flows.truncate(1);
    bench.flows[0].srtt = Some(FULL);
    bench.flows[0].rtt = Some(FULL);
    bench.flows[0].window = 24_000;
    bench
}

/// A window is closed at 0 with segments in flight. Link down is at 300 ms, link up `for_ms` later.
fn frozen(bench: &mut Bench, for_ms: u64) -> Vec<HostAction> {
    let actions = bench.link(LinkEvent::GoingDownSoon(Some(SHORT_LEAD)), at(0));
    let key = bench.keys()[0];
    assert_eq!(actions[0], HostAction::Close(key));
    bench.flows[0].rcv_nxt += FLIGHT * SEGMENT;
    bench.until(at(231));
    bench.link(LinkEvent::Down, at(231));
    bench.until(at(231 + for_ms));
    bench.link(LinkEvent::Up, at(231 + for_ms))
}

fn edge_of(action: &HostAction) -> Option<SeqNum> {
    match action {
        HostAction::Limit { edge, .. } => Some(*edge),
        _ => None,
    }
}

/// A sender in slow start at the far end of a link, in segments and milliseconds. The delay is 50 ms each way plus the
/// link's queue, which drains 12 segments in 7 ms.
struct Sender {
    window: u32,
    slow_until: u32,
    sent: u32,
    acked: u32,
    queue: u32,
    drained: u32,
    longest_queue: u32,
    to_mh: VecDeque<u64>,
    to_fh: VecDeque<(u64, u32)>,
    edges: VecDeque<(u64, u32)>,
    edge: u32,
    came: u32,
}

impl Sender {
    fn new(window: u32) -> Self {
        Self {
            window,
            slow_until: 160,
            sent: 0,
            acked: 0,
            queue: 0,
            drained: 0,
            longest_queue: 0,
            to_mh: VecDeque::new(),
            to_fh: VecDeque::new(),
            edges: VecDeque::new(),
            edge: 0,
            came: 0,
        }
    }

    /// Lets a millisecond pass. Returns what has arrived at the MH by then.
    fn tick(&mut self, now: u64) -> u32 {
        while let Some((_, edge)) = self.edges.front().filter(|(at, _)| *at <= now) {
            self.edge = self.edge.max(*edge);
            self.edges.pop_front();
        }
        while let Some((_, acked)) = self.to_fh.front().filter(|(at, _)| *at <= now) {
            if self.window < self.slow_until {
                self.window += acked - self.acked;
            }
            self.acked = *acked;
            self.to_fh.pop_front();
        }
        // The wired link is five times as fast.
        for _ in 0..8 {
            if self.sent < self.edge && self.sent - self.acked < self.window {
                self.sent += 1;
                self.queue += 1;
            }
        }
        self.longest_queue = self.longest_queue.max(self.queue);
        let drains = ((now + 1) * 12 / 7) - (now * 12 / 7);
        for _ in 0..drains {
            if self.queue > 0 {
                self.queue -= 1;
                self.drained += 1;
                self.to_mh.push_back(now + 50);
            }
        }
        while self.to_mh.front().is_some_and(|at| *at <= now) {
            self.to_mh.pop_front();
            self.came += 1;
            self.to_fh.push_back((now + 50, self.came));
        }
        self.came
    }
}

/// Runs the sender against the machine. Returns the longest queue, what arrived in the second second,
/// and the edges that left.
fn opened(window: u32, steps: bool) -> (u32, u32, Vec<SeqNum>) {
    let idle_ms = if window < 20 { 5_000 } else { 500 };
    let mut bench = today();
    let actions = frozen(&mut bench, idle_ms);
    let first = bench.flows[0].rcv_nxt;
    let mut sender = Sender::new(window);
    let mut edges: Vec<_> = actions.iter().filter_map(edge_of).collect();
    assert_eq!(edges.len(), 1);
    let own = bench.flows[0].window_bytes() / SEGMENT;
    let began = 231 + idle_ms;
    let mut second = 0;
    let segments_to = |edge: SeqNum| edge.distance_from(first) / SEGMENT;
    sender
        .edges
        .push_back((50, if steps { segments_to(edges[0]) } else { own }));
    for now in 0..2_000 {
        let came = sender.tick(now);
        bench.flows[0].rcv_nxt = first + came * SEGMENT;
        if came > 0 {
            bench.flows[0].received_at = Some(at(began + now));
        }
        for (_, action) in bench.until(at(began + now)) {
            if let Some(edge) = edge_of(&action) {
                edges.push(edge);
            }
            let edge = match action {
                HostAction::Limit { edge, .. } => segments_to(edge),
                HostAction::Open(_) => came + own,
                _ => continue,
            };
            if steps {
                sender.edges.push_back((now + 50, edge));
            }
        }
        if now == 999 {
            second = came;
        }
    }
    assert_eq!(bench.host.poll_timeout(), None, "it ends");
    assert_eq!(bench.host.counters().opened_in_steps, 1);
    (sender.longest_queue, sender.came - second, edges)
}

#[test]
fn a_sender_that_begins_again_overflows_no_short_queue_and_reaches_its_rate() {
    for window in [10, 50, 100] {
        let (queue, second, edges) = opened(window, true);
        assert!(queue <= 50, "{window}: {queue} segments wait");
        // The link delivers 1714 segments a second; the sender's own window is 160 in 100 ms.
        assert!(second >= 1_450, "{window}: {second} in the second second");
        for pair in edges.windows(2) {
            assert!(pair[1].after(pair[0]), "the edge moves on: {pair:?}");
        }
    }
    // For comparison: the same sender with a window that opens at once.
    let (queue, ..) = opened(50, false);
    assert!(queue > 50, "{queue}");
}

#[test]
fn a_sender_that_has_kept_its_window_is_at_its_rate_within_four_round_trips() {
    let mut bench = today();
    let actions = frozen(&mut bench, 5_000);
    let first = bench.flows[0].rcv_nxt;
    let mut sender = Sender::new(FLIGHT);
    let edge = edge_of(&actions[0]).unwrap();
    let segments_to = |edge: SeqNum| edge.distance_from(first) / SEGMENT;
    sender.edges.push_back((50, segments_to(edge)));
    let mut came_by = Vec::new();
    for now in 0..1_000 {
        let came = sender.tick(now);
        bench.flows[0].rcv_nxt = first + came * SEGMENT;
        for (_, action) in bench.until(at(5_231 + now)) {
            if let Some(edge) = edge_of(&action) {
                sender.edges.push_back((now + 50, segments_to(edge)));
            }
        }
        came_by.push(came);
    }
    assert!(sender.longest_queue <= 50, "{}", sender.longest_queue);
    let fifth = came_by[600] - came_by[500];
    assert!(fifth > 150, "{fifth} segments in the fifth round trip");
}

#[test]
fn a_flow_with_little_on_its_way_opens_at_once_and_as_published_every_flow_does() {
    let mut bench = today();
    bench.link(LinkEvent::GoingDownSoon(Some(SHORT_LEAD)), at(0));
    bench.flows[0].rcv_nxt += 10 * SEGMENT;
    bench.link(LinkEvent::Down, at(231));
    let key = bench.keys()[0];
    let at_once = [HostAction::Open(key), send(key, MadeAck::Last, 3)];
    assert_eq!(bench.link(LinkEvent::Up, at(900)), at_once);

    let mut bench = Bench::of(MobileScheme::Freeze);
    bench.flows.truncate(1);
    bench.link(LinkEvent::GoingDownSoon(None), at(0));
    bench.flows[0].rcv_nxt += FLIGHT * SEGMENT;
    bench.link(LinkEvent::Down, at(100));
    assert_eq!(bench.link(LinkEvent::Up, at(900)), at_once);
}

#[test]
fn unanswered_steps_end_and_the_opening_ack_is_repeated() {
    let mut bench = today();
    let actions = frozen(&mut bench, 500);
    assert!(edge_of(&actions[0]).is_some());
    let happened = bench.until(at(60_000));
    let opened = happened
        .iter()
        .find(|(_, action)| matches!(action, HostAction::Open(_)));
    let opened = opened.unwrap().0.saturating_since(at(731));
    assert!(opened < FULL * 5, "{opened:?}");
    let after = happened
        .iter()
        .filter(|(when, action)| {
            let last = matches!(
                action,
                HostAction::Send {
                    ack: MadeAck::Last,
                    ..
                }
            );
            last && when.saturating_since(at(731)) > opened
        })
        .count();
    assert!(after >= 3, "{after} more");
    assert_eq!(bench.host.poll_timeout(), None);
}

#[test]
fn an_outage_whose_word_comes_after_it_was_taken_for_a_false_alarm_is_one_all_the_same() {
    for carrier_late_ms in [760, 900, 1_400] {
        let mut bench = Bench::new(MobileHostSettings {
            set: FreezeSet::Today,
            ..MobileHostSettings::new(MobileScheme::Freeze)
        });
        bench.link(LinkEvent::GoingDownSoon(Some(RTT * 3)), at(0));
        // The link goes down at 240. Nothing arrives, and no source reports why.
        bench.until(at(carrier_late_ms));
        assert_eq!(bench.host.counters().false_alarms, 1);
        assert_eq!(bench.host.closed_count(), 0);
        bench.link(LinkEvent::Down, at(carrier_late_ms));
        assert_eq!(bench.host.closed_count(), 2, "they are closed again");
        bench.until(at(3_239));
        let actions = bench.link(LinkEvent::Up, at(3_240));
        for key in bench.keys() {
            assert!(actions.contains(&HostAction::Open(key)));
            assert!(actions.contains(&send(key, MadeAck::Last, 3)));
        }
    }
}

#[test]
fn a_flow_that_has_answered_since_the_false_alarm_is_not_closed_again() {
    let mut bench = today();
    bench.link(LinkEvent::GoingDownSoon(Some(FULL * 2)), at(0));
    bench.until(at(760));
    assert_eq!(bench.host.counters().false_alarms, 1);
    bench.flows[0].received_at = Some(at(800));
    assert!(bench.link(LinkEvent::Down, at(5_000)).is_empty());
    assert_eq!(bench.host.closed_count(), 0);
}

#[test]
fn an_outage_in_the_middle_of_the_steps_ends_them_until_link_up() {
    let mut bench = today();
    frozen(&mut bench, 500);
    bench.until(at(840));
    // Data have arrived: the FH has answered, and the MH's ACK is in flight.
    bench.flows[0].rcv_nxt += 20 * SEGMENT;
    bench.flows[0].received_at = Some(at(840));
    bench.until(at(1_100));
    let key = bench.keys()[0];
    assert_eq!(
        bench.link(LinkEvent::Down, at(1_100)),
        [HostAction::Close(key)]
    );
    let meanwhile = bench.until(at(4_000));
    assert!(meanwhile.is_empty(), "{meanwhile:?}");
    let actions = bench.link(LinkEvent::Up, at(4_000));
    // The bytes that were in flight before the first freeze count.
    assert!(edge_of(&actions[0]).is_some(), "{actions:?}");
}

/// A window opens while what the edge allows arrives a round trip later, at this part of the old rate. Returns how far
/// each edge is ahead of what has arrived, and the millisecond in which the window is open.
fn opens_at(quarters: u32) -> (Vec<u32>, u64) {
    let flight = FLIGHT * SEGMENT;
    let mut flow = flow(1_000);
    (flow.window, flow.window_shift) = (60_000, Some(7));
    let closed = ClosedWindow {
        rcv_nxt: None,
        at: at(0),
        round_trip: Some(FULL),
        flight: Some(flight),
    };
    let mut opening = Opening::begin(&flow, &closed, at(1_000)).unwrap();
    let a_millisecond = flight / 116 * quarters / 4;
    let mut edges = VecDeque::from([opening.advertised(); 116]);
    let mut ahead = Vec::new();
    for ms in 1..3_000 {
        edges.push_back(opening.advertised());
        let allowed = edges.pop_front().unwrap();
        if ms > 116 {
            flow.rcv_nxt = (flow.rcv_nxt + a_millisecond).min(allowed);
        }
        if opening.next_step_at() > at(1_000 + ms) {
            continue;
        }
        match opening.step(&flow, at(1_000 + ms)) {
            Step::Edge(edge) => ahead.push(edge.distance_from(flow.rcv_nxt)),
            Step::Open => return (ahead, ms),
        }
    }
    panic!("it does not open: {ahead:?}");
}

#[test]
fn at_the_old_rate_an_eighth_more_may_be_on_its_way_with_each_round_trip() {
    let flight = FLIGHT * SEGMENT;
    let (ahead, _) = opens_at(4);
    let most = *ahead.iter().max().unwrap();
    assert!(most > flight + flight / 8 * 3, "{most} of {flight}");
    assert!(most <= flight + flight / 8 * 6, "{most} of {flight}");
    // The edge never moves by more than an eighth and a step at once.
    for pair in ahead.windows(2) {
        assert!(pair[1].saturating_sub(pair[0]) <= flight / 6, "{pair:?}");
    }
}

#[test]
fn a_window_has_its_limit_for_sixteen_round_trips_if_the_old_rate_is_not_reached() {
    for (quarters, is_limited) in [(2, true), (4, false)] {
        let (_, opened_at) = opens_at(quarters);
        assert_eq!(opened_at >= 16 * 116, is_limited, "{opened_at} ms");
    }
}

#[test]
fn orders_that_have_expired_while_the_caller_hung_are_not_valid_again() {
    // Windows open in steps, and the caller hangs.
    let mut bench = today();
    frozen(&mut bench, 500);
    let key = bench.keys()[0];
    bench.until(at(800));
    assert_eq!(bench.host.opening_count(), 1);
    // The MH's own window has left meanwhile, and data has arrived beyond the limit.
    bench.flows[0].rcv_nxt += 2 * FLIGHT * SEGMENT;
    bench.flows[0].received_at = Some(at(2_900));
    let mut actions = Vec::new();
    let flows = bench.flows.clone();
    let late = at(3_000);
    bench.host.handle_timeout(&flows, late, &mut actions);
    assert_eq!(
        actions,
        [HostAction::Open(key), send(key, MadeAck::Last, 1)]
    );
    assert_eq!(bench.host.orders_until(late), None);

    // A window is closed, and the warning was a false alarm.
    let mut bench = today();
    bench.link(LinkEvent::GoingDownSoon(Some(SHORT_LEAD)), at(0));
    assert_eq!(bench.host.closed_count(), 1);
    let mut actions = Vec::new();
    let flows = bench.flows.clone();
    bench.host.handle_timeout(&flows, at(1_000), &mut actions);
    assert_eq!(actions[0], HostAction::Open(key));
    assert_eq!(bench.host.closed_count(), 0);
}

#[test]
fn a_flow_that_has_answered_an_opening_gets_nothing_of_the_next_ones_repetitions() {
    let mut bench = today();
    bench.flows.push(flow(1_001));
    let other = bench.flows[1].key;
    // A false alarm for both flows; the other one answers.
    bench.link(LinkEvent::GoingDownSoon(Some(FULL * 2)), at(0));
    bench.until(at(740));
    assert_eq!(bench.host.counters().false_alarms, 1);
    bench.flows[1].received_at = Some(at(800));
    bench.until(at(1_000));
    // A false alarm for the first flow alone: the other one is finished.
    bench.flows[1].is_finished = true;
    bench.link(LinkEvent::GoingDownSoon(Some(FULL * 2)), at(1_000));
    let happened = bench.until(at(20_000));
    let to_other = |(_, action): &(Instant, HostAction)| matches!(action, HostAction::Send { key, .. } if *key == other);
    assert!(!happened.iter().any(to_other), "{happened:?}");
}

#[test]
fn one_download_among_many_idle_flows_opens_in_steps() {
    let mut bench = today();
    bench.flows.extend((2_000..2_040).map(flow));
    let lead = FULL * 3;
    bench.link(LinkEvent::GoingDownSoon(Some(lead)), at(0));
    bench.until(at(346));
    assert_eq!(bench.host.closed_count(), 41);
    bench.flows[0].rcv_nxt += FLIGHT * SEGMENT;
    bench.link(LinkEvent::Down, at(347));
    bench.link(LinkEvent::Up, at(847));
    assert_eq!(bench.host.counters().opened_in_steps, 1);
}

#[test]
fn steps_of_one_download_ask_for_no_other_flow_however_many_there_are() {
    let mut bench = today();
    bench.flows.extend((2_000..4_000).map(flow));
    bench.link(LinkEvent::GoingDownSoon(Some(FULL * 3)), at(0));
    let look = bench.host.poll_timeout().unwrap();
    assert_eq!(
        bench.host.flows_needed(look),
        FlowsNeeded::All,
        "new ones are looked for"
    );
    bench.until(at(346));
    assert!(bench.host.closed_count() >= 1_000);
    bench.flows[0].rcv_nxt += FLIGHT * SEGMENT;
    bench.link(LinkEvent::Down, at(347));
    bench.link(LinkEvent::Up, at(847));
    assert_eq!(bench.host.counters().opened_in_steps, 1);
    // Neither a renewal nor an answer is due with the first step.
    let step = at(848) + FULL / 16;
    let key = bench.flows[0].key;
    assert_eq!(
        bench.host.flows_needed(step),
        FlowsNeeded::Some([key].into())
    );
}

#[test]
fn a_second_source_that_reports_the_same_link_up_asks_for_no_flow() {
    let mut bench = today();
    bench.link(LinkEvent::Down, at(0));
    bench.link(LinkEvent::Up, at(100));
    let none = FlowsNeeded::Some([].into());
    assert_eq!(bench.host.flows_needed_for(LinkEvent::Up, at(200)), none);
    let later = bench.host.flows_needed_for(LinkEvent::Up, at(2_000));
    assert_eq!(later, FlowsNeeded::All);
}

#[test]
fn a_flow_whose_scale_is_not_known_opens_at_once() {
    let mut bench = today();
    // Its SYN was not seen, so an edge cannot be expressed in its units.
    bench.flows[0].window_shift = None;
    let key = bench.keys()[0];
    let actions = frozen(&mut bench, 500);
    assert_eq!(
        actions,
        [HostAction::Open(key), send(key, MadeAck::Last, 3)]
    );
}

/// A flow that was closed with 200 segments in flight. The last one arrived `took_ms` later. The measured round
/// trip is `usual`.
fn closed_over(usual: Duration, took_ms: u64) -> (HostFlow, ClosedWindow) {
    let mut flow = flow(1_000);
    (flow.window, flow.window_shift) = (60_000, Some(7));
    let closed = ClosedWindow::new(
        Some(&HostFlow {
            srtt: Some(usual),
            ..flow
        }),
        at(0),
    );
    flow.rcv_nxt += FLIGHT * SEGMENT;
    flow.received_at = Some(at(took_ms));
    (flow, closed)
}

#[test]
fn the_round_trip_of_before_ends_with_the_last_that_came() {
    let measured = Duration::from_millis(340);
    for (took_ms, usual_ms) in [
        // The queue has drained since the round trip was measured.
        (172, 172),
        // A zero-window probe arrived after the round trip.
        (900, 340),
        // A short burst, or nothing at all.
        (3, 85),
        (0, 340),
    ] {
        let (flow, closed) = closed_over(measured, took_ms);
        let opening = Opening::begin(&flow, &closed, at(1_000)).unwrap();
        let usual = Duration::from_millis(usual_ms);
        assert_eq!(opening.flight_time(), usual, "{took_ms}");
    }
}

#[test]
fn a_queue_that_was_a_third_of_the_round_trip_and_is_empty_takes_all_at_once() {
    let usual = Duration::from_millis(172);
    for (idle_ms, round_trip_ms, roomy) in [
        (1_000, 60, true),
        (1_000, 110, true),
        (1_000, 130, false),
        // The sender was idle for less than its timeout: it has its whole window.
        (300, 80, true),
        (300, 110, false),
        // These segments are no answers: the link had queued them.
        (1_000, 6, false),
        (1_000, 30, false),
    ] {
        let (mut flow, closed) = closed_over(usual, 172);
        let began = at(172 + idle_ms);
        let mut opening = Opening::begin(&flow, &closed, began).unwrap();
        let first = began + Duration::from_millis(round_trip_ms);
        while opening.next_step_at() < first {
            opening.step(&flow, opening.next_step_at());
        }
        flow.rcv_nxt += 4 * SEGMENT;
        let Step::Edge(edge) = opening.step(&flow, first) else {
            panic!("it goes on in steps");
        };
        let ahead = edge.distance_from(flow.rcv_nxt);
        let all = ahead >= FLIGHT * SEGMENT;
        assert_eq!(all, roomy, "{idle_ms}, {round_trip_ms}: {ahead}");
        assert!(ahead <= FLIGHT * SEGMENT + 128, "{ahead}");
    }
}

#[test]
fn a_window_opens_in_steps_for_no_less_than_32_kib_and_no_more_than_two_windows() {
    let begins = |flight: u32| {
        let (flow, closed) = closed_over(Duration::from_millis(172), 172);
        let flow = HostFlow {
            rcv_nxt: closed.rcv_nxt.unwrap() + flight,
            ..flow
        };
        Opening::begin(&flow, &closed, at(1_000)).is_some()
    };
    let window = 60_000 << 7;
    assert_eq!(
        [32_767, 32_768, 2 * window, 2 * window + 1].map(begins),
        [false, true, true, false]
    );
}

#[test]
fn a_sender_that_begins_again_gets_twice_its_window_and_no_more_than_half_of_the_flight() {
    for (timeouts, part) in [(0, 2), (1, 2), (2, 2), (3, 4), (4, 8)] {
        let (flow, closed) = closed_over(Duration::from_millis(172), 172);
        // The sender's timeout is a round trip and 200 ms.
        let begins_at = 172 + 372 * timeouts;
        let mut opening = Opening::begin(&flow, &closed, at(begins_at)).unwrap();
        // Nothing arrives for a round trip and a half.
        for ms in (10..260).step_by(10) {
            let step = opening.step(&flow, at(begins_at + ms));
            assert_eq!(step, Step::Edge(opening.advertised()), "{timeouts}");
        }
        let ahead = opening.advertised().distance_from(flow.rcv_nxt);
        let unaligned = FLIGHT * SEGMENT / part;
        assert!(ahead.abs_diff(unaligned) < 1 << 7, "{timeouts}: {ahead}");
    }
}

#[test]
fn a_flow_that_is_missing_at_eight_steps_has_ended() {
    let (flow, closed) = closed_over(Duration::from_millis(172), 172);
    let mut opening = Opening::begin(&flow, &closed, at(1_000)).unwrap();
    let edge = Step::Edge(opening.advertised());
    for step in 1..8 {
        assert_eq!(opening.on_missing(at(1_000 + step)), edge, "{step}");
    }
    // A step is due after a 16th of the round trip.
    let due = at(1_007) + Duration::from_micros(10_750);
    assert_eq!(opening.next_step_at(), due);
    assert_eq!(opening.on_missing(due), Step::Open);
}
