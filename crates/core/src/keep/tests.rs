// SPDX-License-Identifier: Apache-2.0
//! The keeper between a model of the kernel's program and a link with outages.
//!
//! `HOLDFAST_SEED=n` replays one case, `HOLDFAST_CASES=n` changes how many are run.

mod limits;
mod property;
mod world;

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use holdfast_wire::Instant;

use super::{Answers, Arrival, Edge, KeepSettings, Keeper, Mode, PacketFlow, PeerId};
use crate::link_state::{LinkEvent, LinkSource};

const PEER: PeerId = PeerId(7);
const ANSWER_MAX: Duration = Duration::from_millis(150);
const TCP: u8 = 6;
const ICMP: u8 = 1;

/// An edge that notes what it is asked for.
#[derive(Default)]
struct Noted {
    sent: Vec<u32>,
    modes: Vec<Mode>,
    ignores: usize,
}

impl Edge<u32> for Noted {
    fn send(&mut self, frame: &u32) {
        self.sent.push(*frame);
    }

    fn set_mode(&mut self, _: PeerId, mode: Mode) {
        self.modes.push(mode);
    }

    fn ignore_silence(&mut self, _: PeerId) {
        self.ignores += 1;
    }
}

impl Noted {
    /// What was sent since the last call.
    fn take_sent(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.sent)
    }
}

fn flow(number: u32, protocol: u8) -> PacketFlow {
    PacketFlow {
        source: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)),
        destination: IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)),
        protocol,
        selector: 0,
    }
}

fn packet(flow: PacketFlow, frame: u32, answers: Answers) -> Arrival<u32> {
    Arrival {
        peer: PEER,
        flow,
        answers,
        bytes: 1_500,
        segments: 1,
        frame,
    }
}

const fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Four packets a flow.
fn settings() -> KeepSettings {
    KeepSettings {
        flow_packets_max: 4,
        flow_bytes_max: 64 << 10,
        ..KeepSettings::default()
    }
}

/// A keeper whose peer was called down at time 0, and its edge.
fn down() -> (Keeper<u32>, Noted) {
    let (mut keeper, mut edge) = (Keeper::new(settings()), Noted::default());
    keeper.handle_link(PEER, LinkEvent::Down, LinkSource::Signal, at(0), &mut edge);
    (keeper, edge)
}

#[test]
fn the_newest_packets_of_each_flow_go_out_in_order_and_flows_in_turn() {
    let (mut keeper, mut edge) = down();
    for number in 0..20 {
        let flow = flow(number % 2, TCP);
        keeper.handle_packet(packet(flow, number, Answers::Many), true, at(10), &mut edge);
    }
    assert!(edge.take_sent().is_empty(), "the link is down");
    keeper.handle_link(PEER, LinkEvent::Up, LinkSource::Signal, at(20), &mut edge);
    assert_eq!(edge.take_sent(), [12, 13, 14, 15, 16, 17, 18, 19]);
    assert_eq!(edge.modes, [Mode::Take, Mode::Drain]);
    assert_eq!(keeper.bytes(), 0);
}

#[test]
fn a_packet_of_the_peer_ends_an_outage_unless_it_was_on_its_way_before() {
    let (mut keeper, mut edge) = down();
    keeper.handle_packet(
        packet(flow(0, TCP), 1, Answers::Many),
        true,
        at(10),
        &mut edge,
    );
    keeper.see(PEER, 1, ANSWER_MAX, at(90), &mut edge);
    assert!(edge.take_sent().is_empty());
    keeper.see(PEER, 1, ANSWER_MAX, at(110), &mut edge);
    assert_eq!(edge.take_sent(), [1]);
}

#[test]
fn without_a_carrier_nothing_but_the_carrier_ends_the_outage() {
    let (mut keeper, mut edge) = (Keeper::new(KeepSettings::default()), Noted::default());
    keeper.handle_link(PEER, LinkEvent::Down, LinkSource::Carrier, at(0), &mut edge);
    keeper.handle_packet(
        packet(flow(0, TCP), 1, Answers::Many),
        true,
        at(10),
        &mut edge,
    );
    keeper.see(PEER, 1, ANSWER_MAX, at(500), &mut edge);
    keeper.handle_link(PEER, LinkEvent::Up, LinkSource::Signal, at(600), &mut edge);
    keeper.handle_timeout(at(5_000), &mut edge);
    assert!(edge.take_sent().is_empty());
    keeper.handle_link(
        PEER,
        LinkEvent::Up,
        LinkSource::Carrier,
        at(6_000),
        &mut edge,
    );
    assert_eq!(edge.take_sent(), [1]);
}

#[test]
fn a_silent_peer_gets_its_packets_and_is_probed_ten_times_a_second_with_the_newest() {
    let (mut keeper, mut edge) = (Keeper::new(KeepSettings::default()), Noted::default());
    for number in 0..3 {
        keeper.handle_packet(
            packet(flow(0, TCP), number, Answers::Many),
            true,
            at(0),
            &mut edge,
        );
    }
    assert_eq!(edge.take_sent(), [0, 1, 2], "they go out as they come");
    let counters = keeper.counters();
    assert_eq!((counters.taken, counters.passed, counters.kept), (3, 3, 3));
    for millis in 0..1_000 {
        keeper.handle_timeout(at(millis), &mut edge);
    }
    assert_eq!(edge.take_sent(), [2; 9]);
    // The newest copy went out at 900 ms: it is what was answered.
    keeper.see(PEER, 1, ANSWER_MAX, at(1_000), &mut edge);
    assert_eq!(edge.take_sent(), [0, 1]);
    assert_eq!(edge.modes.last(), Some(&Mode::Drain));
    assert_eq!(keeper.counters().answered, 1);
}

#[test]
fn a_probe_whose_timer_is_late_is_sent_all_the_same() {
    let (mut keeper, mut edge) = (Keeper::new(KeepSettings::default()), Noted::default());
    let one = packet(flow(0, TCP), 1, Answers::Many);
    keeper.handle_packet(one, true, at(0), &mut edge);
    assert_eq!(edge.take_sent(), [1]);
    for (ms, probes) in [(99, 0), (350, 1), (449, 0), (450, 1)] {
        keeper.handle_timeout(at(ms), &mut edge);
        assert_eq!(edge.take_sent().len(), probes, "{ms}");
    }
}

#[test]
fn repeated_reports_of_link_down_do_not_put_off_the_probes() {
    let probes = |repeats: bool| {
        let (mut keeper, mut edge) = down();
        let one = packet(flow(0, TCP), 1, Answers::Many);
        keeper.handle_packet(one, true, at(10), &mut edge);
        for millis in (50..20_000).step_by(50) {
            if repeats {
                keeper.handle_link(
                    PEER,
                    LinkEvent::Down,
                    LinkSource::Signal,
                    at(millis),
                    &mut edge,
                );
            }
            keeper.handle_timeout(at(millis), &mut edge);
        }
        edge.take_sent().len()
    };
    assert!(probes(false) > 5);
    assert_eq!(probes(true), probes(false));
}

#[test]
fn a_false_alarm_sends_nothing_twice() {
    let (mut keeper, mut edge) = (Keeper::new(KeepSettings::default()), Noted::default());
    for number in 0..30 {
        let now = at(u64::from(number));
        keeper.handle_packet(
            packet(flow(0, TCP), number, Answers::Many),
            true,
            now,
            &mut edge,
        );
    }
    keeper.see(PEER, 1, ANSWER_MAX, at(40), &mut edge);
    keeper.handle_packet(
        packet(flow(0, TCP), 30, Answers::Many),
        false,
        at(41),
        &mut edge,
    );
    assert_eq!(edge.take_sent(), (0..31).collect::<Vec<_>>());
    assert_eq!(keeper.bytes(), 0);
}

#[test]
fn what_a_receiver_must_not_get_twice_is_sent_once() {
    let (mut keeper, mut edge) = (Keeper::new(KeepSettings::default()), Noted::default());
    keeper.handle_packet(
        packet(flow(0, ICMP), 1, Answers::Many),
        true,
        at(0),
        &mut edge,
    );
    keeper.handle_packet(
        packet(flow(1, TCP), 2, Answers::None),
        true,
        at(0),
        &mut edge,
    );
    for millis in 0..2_000 {
        keeper.handle_timeout(at(millis), &mut edge);
    }
    keeper.see(PEER, 1, ANSWER_MAX, at(2_000), &mut edge);
    assert_eq!(edge.take_sent(), [1, 2]);
}

#[test]
fn a_peer_without_waiting_flows_is_given_up() {
    let (mut keeper, mut edge) = (Keeper::new(KeepSettings::default()), Noted::default());
    keeper.handle_packet(
        packet(flow(0, TCP), 1, Answers::Many),
        true,
        at(0),
        &mut edge,
    );
    let mut probes = 0;
    while let Some(due) = keeper.poll_timeout() {
        probes += 1;
        assert!(probes < 10_000, "it is probed for ever");
        keeper.handle_timeout(due, &mut edge);
    }
    // Ten a second for a minute, then one a second.
    let sent = edge.take_sent().len();
    assert!((700..800).contains(&sent), "{sent}");
    assert_eq!((edge.ignores, edge.modes.last()), (1, Some(&Mode::Drain)));
    assert_eq!(keeper.counters().expired, 1);
    assert_eq!(keeper.peers().count(), 0);
}

#[test]
fn queued_packets_go_to_no_later_owner_of_the_address() {
    let (mut keeper, mut edge) = down();
    keeper.handle_packet(
        packet(flow(0, TCP), 1, Answers::Many),
        true,
        at(10),
        &mut edge,
    );
    keeper.forget(PEER, &mut edge);
    assert_eq!(edge.modes.last(), Some(&Mode::Drain));
    keeper.see(PEER, 1, ANSWER_MAX, at(500), &mut edge);
    keeper.handle_link(PEER, LinkEvent::Up, LinkSource::Signal, at(600), &mut edge);
    assert!(edge.take_sent().is_empty());
    assert_eq!((keeper.bytes(), keeper.poll_timeout()), (0, None));
}

#[test]
fn many_flows_go_out_at_the_pace_of_the_peers_answers() {
    let (mut keeper, mut edge) = down();
    for number in 0..100 {
        keeper.handle_packet(
            packet(flow(number, TCP), number, Answers::Many),
            true,
            at(0),
            &mut edge,
        );
    }
    keeper.handle_link(PEER, LinkEvent::Up, LinkSource::Signal, at(200), &mut edge);
    assert_eq!(edge.take_sent().len(), 10);
    keeper.see(PEER, 3, ANSWER_MAX, at(250), &mut edge);
    assert_eq!(edge.take_sent().len(), 6);
    // What follows of a flow that is through waits for nothing; what follows of another one does.
    keeper.handle_packet(
        packet(flow(0, TCP), 1_000, Answers::Many),
        true,
        at(251),
        &mut edge,
    );
    keeper.handle_packet(
        packet(flow(99, TCP), 1_099, Answers::Many),
        true,
        at(251),
        &mut edge,
    );
    assert_eq!(
        edge.take_sent(),
        [1_000, 16],
        "one that waits sends another"
    );
    let mut now = at(251);
    while let Some(due) = keeper.poll_timeout() {
        now = now.max(due);
        keeper.handle_timeout(now, &mut edge);
    }
    let sent = edge.take_sent();
    assert_eq!(sent.len(), 84);
    let of_99: Vec<_> = sent
        .into_iter()
        .filter(|frame| frame % 1_000 == 99)
        .collect();
    assert_eq!(of_99, [99, 1_099]);
    assert!(
        now.saturating_since(at(251)) < Duration::from_millis(900),
        "{now:?}"
    );
}

#[test]
fn a_keeper_that_ends_sends_all_to_a_peer_whose_link_is_up_and_nothing_to_others() {
    for (is_up, sent) in [(true, 90), (false, 0)] {
        let (mut keeper, mut edge) = down();
        for number in 0..100 {
            let packet = packet(flow(number, TCP), number, Answers::Many);
            keeper.handle_packet(packet, true, at(0), &mut edge);
        }
        if is_up {
            keeper.handle_link(PEER, LinkEvent::Up, LinkSource::Signal, at(200), &mut edge);
            assert_eq!(edge.take_sent().len(), 10);
        }
        keeper.finish(&mut edge);
        assert_eq!(edge.take_sent().len(), sent, "{is_up}");
    }
}

#[test]
fn a_fast_flow_without_answers_is_soon_sent_by_the_kernel_again() {
    let (mut keeper, mut edge) = down();
    let take = |keeper: &mut Keeper<u32>, edge: &mut Noted, number: u32, millis: u64| {
        let packet = packet(flow(number % 4, TCP), number, Answers::None);
        keeper.handle_packet(packet, true, at(millis), edge);
    };
    for number in 0..16 {
        take(&mut keeper, &mut edge, number, 10);
    }
    keeper.handle_link(PEER, LinkEvent::Up, LinkSource::Signal, at(20), &mut edge);
    assert_eq!(keeper.peers().count(), 1, "six still wait");
    // A thousand packets a second: the time alone allows a hundred.
    let mut millis = 20;
    while keeper.peers().count() > 0 {
        millis += 1;
        assert!(millis < 200, "{} bytes still wait", keeper.bytes());
        take(&mut keeper, &mut edge, millis as u32, millis);
        if keeper.poll_timeout().is_some_and(|due| due <= at(millis)) {
            keeper.handle_timeout(at(millis), &mut edge);
        }
    }
    assert_eq!(edge.modes.last(), Some(&Mode::Drain));
    let sent = edge.take_sent();
    for flow in 0..4 {
        let own: Vec<_> = sent.iter().filter(|number| *number % 4 == flow).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
}

#[test]
fn a_reported_outage_has_its_length_and_what_was_queued() {
    let (mut keeper, mut edge) = down();
    let one = packet(flow(0, TCP), 1, Answers::Many);
    keeper.handle_packet(one, true, at(10), &mut edge);
    keeper.handle_link(
        PEER,
        LinkEvent::Up,
        LinkSource::Signal,
        at(3_000),
        &mut edge,
    );
    let outage = keeper.poll_outage().expect("it has ended");
    assert_eq!((outage.mobile, outage.source), (PEER, LinkSource::Signal));
    assert_eq!(
        (outage.begin, outage.length),
        (at(0), Duration::from_secs(3))
    );
    assert_eq!(outage.flows, 1);
    assert!(outage.cached_bytes >= 1_500);
    // The RTO is 1 s: the sender would have sent at 1.01 s, and next at 3.01 s.
    assert_eq!(outage.stall_saved, Duration::from_millis(10));
    assert_eq!(keeper.poll_outage(), None);
}

#[test]
fn outages_beyond_the_limit_of_the_list_are_counted() {
    let (mut keeper, mut edge) = (Keeper::<u32>::new(settings()), Noted::default());
    for number in 0..super::OUTAGES_MAX as u64 + 2 {
        for (event, ms) in [(LinkEvent::Down, 0), (LinkEvent::Up, 500)] {
            let now = at(number * 1_000 + ms);
            keeper.handle_link(PEER, event, LinkSource::Signal, now, &mut edge);
        }
    }
    assert_eq!(keeper.counters().outages_lost, 2);
}

#[test]
fn a_silence_is_an_outage_only_if_something_was_lost() {
    for (seen_at, is_outage) in [(100, false), (2_000, true)] {
        let (mut keeper, mut edge) = (Keeper::new(settings()), Noted::default());
        let one = packet(flow(0, TCP), 1, Answers::Many);
        keeper.handle_packet(one, true, at(10), &mut edge);
        keeper.see(PEER, 1, ANSWER_MAX, at(seen_at), &mut edge);
        let outage = keeper.poll_outage();
        assert_eq!(outage.is_some(), is_outage, "an answer at {seen_at} ms");
        assert!(outage.is_none_or(|outage| outage.source == LinkSource::Silence));
    }
}

#[test]
fn an_outage_of_a_peer_that_was_given_up_has_its_whole_length() {
    let (mut keeper, mut edge) = down();
    while let Some(due) = keeper.poll_timeout() {
        keeper.handle_timeout(due, &mut edge);
    }
    assert_eq!(keeper.peers().count(), 0, "it was given up");
    keeper.handle_link(
        PEER,
        LinkEvent::Down,
        LinkSource::Signal,
        at(500_000),
        &mut edge,
    );
    keeper.handle_link(
        PEER,
        LinkEvent::Up,
        LinkSource::Signal,
        at(600_000),
        &mut edge,
    );
    let outage = keeper.poll_outage().expect("it has ended");
    assert_eq!(
        (outage.begin, outage.length),
        (at(0), Duration::from_secs(600))
    );
    assert_eq!((outage.flows, outage.stall_saved), (0, Duration::ZERO));
    assert_eq!(keeper.poll_outage(), None, "once");
}

#[test]
fn an_outage_of_a_peer_that_came_back_unreported_does_not_reach_into_the_next() {
    let (mut keeper, mut edge) = down();
    while let Some(due) = keeper.poll_timeout() {
        keeper.handle_timeout(due, &mut edge);
    }
    assert_eq!(keeper.known_peers().count(), 1, "it was given up");
    let arrival = packet(flow(0, TCP), 1, Answers::Many);
    keeper.handle_packet(arrival, true, at(500_000), &mut edge);
    let (down, up) = (LinkEvent::Down, LinkEvent::Up);
    keeper.handle_link(PEER, down, LinkSource::Signal, at(501_000), &mut edge);
    keeper.handle_link(PEER, up, LinkSource::Signal, at(502_000), &mut edge);
    let outage = keeper.poll_outage().expect("it has ended");
    assert_eq!(outage.begin, at(500_000));
    assert_eq!(keeper.poll_outage(), None);
}

#[test]
fn peers_with_other_numbers_keep_their_packets_and_those_without_one_lose_them() {
    let (mut keeper, mut edge) = down();
    let other = PeerId(8);
    keeper.handle_link(other, LinkEvent::Down, LinkSource::Signal, at(0), &mut edge);
    let of_other = Arrival {
        peer: other,
        ..packet(flow(0, TCP), 2, Answers::Many)
    };
    keeper.handle_packet(
        packet(flow(0, TCP), 1, Answers::Many),
        true,
        at(10),
        &mut edge,
    );
    keeper.handle_packet(of_other, true, at(10), &mut edge);
    let renamed = PeerId(3);
    keeper.renumber(|peer| (peer == PEER).then_some(renamed), at(20), &mut edge);
    assert_eq!(keeper.peers().count(), 1);
    keeper.handle_link(other, LinkEvent::Up, LinkSource::Signal, at(30), &mut edge);
    keeper.handle_link(
        renamed,
        LinkEvent::Up,
        LinkSource::Signal,
        at(30),
        &mut edge,
    );
    assert_eq!((edge.take_sent(), keeper.bytes()), (vec![1], 0));
}

#[test]
fn a_smaller_limit_holds_from_the_next_packet_of_a_flow_on() {
    let (mut keeper, mut edge) = down();
    let mut take = |keeper: &mut Keeper<u32>, number| {
        let arrival = packet(flow(0, TCP), number, Answers::Many);
        keeper.handle_packet(arrival, true, at(10), &mut edge);
    };
    (0..4).for_each(|number| take(&mut keeper, number));
    keeper.set_settings(KeepSettings {
        flow_packets_max: 2,
        ..settings()
    });
    take(&mut keeper, 4);
    keeper.handle_link(PEER, LinkEvent::Up, LinkSource::Signal, at(20), &mut edge);
    assert_eq!(edge.take_sent(), [3, 4]);
}
