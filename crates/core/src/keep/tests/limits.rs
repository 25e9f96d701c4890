// SPDX-License-Identifier: Apache-2.0
//! What is kept is bounded, and made-up flows take nothing from true ones.

use super::super::PEER_BYTES_MIN;
use super::*;

/// Packets of invented flows, each of another one.
fn flood(keeper: &mut Keeper<u32>, edge: &mut Noted, packets: u32, peer: PeerId) {
    for number in 0..packets {
        let made_up = Arrival {
            peer,
            ..packet(flow(1_000 + number, TCP), 1_000 + number, Answers::None)
        };
        keeper.handle_packet(made_up, true, at(20), edge);
    }
}

#[test]
fn a_million_made_up_flows_take_nothing_from_a_true_one() {
    let (mut keeper, mut edge) = down();
    for number in 0..4 {
        keeper.handle_packet(
            packet(flow(0, TCP), number, Answers::Many),
            true,
            at(10),
            &mut edge,
        );
    }
    flood(&mut keeper, &mut edge, 1_000_000, PEER);
    let settings = KeepSettings::default();
    let of_peer = keeper.peers().next().expect("it is away");
    assert!(of_peer.flows <= settings.peer_flows_max + 1);
    keeper.handle_link(PEER, LinkEvent::Up, LinkSource::Signal, at(30), &mut edge);
    let true_ones: Vec<_> = edge
        .take_sent()
        .into_iter()
        .filter(|frame| *frame < 1_000)
        .collect();
    assert_eq!(true_ones, [0, 1, 2, 3]);
}

#[test]
fn a_flood_to_all_peers_leaves_each_of_them_room_for_its_true_flows() {
    let (mut keeper, mut edge) = (Keeper::new(KeepSettings::default()), Noted::default());
    let peers = || (0..1_000).map(PeerId);
    for peer in peers() {
        keeper.handle_link(peer, LinkEvent::Down, LinkSource::Signal, at(0), &mut edge);
        flood(&mut keeper, &mut edge, 300, peer);
    }
    let max = KeepSettings::default().bytes_max;
    assert!(
        keeper.bytes() <= max / 4 + 1_000 * PEER_BYTES_MIN,
        "{} of {max}",
        keeper.bytes()
    );
    for peer in peers() {
        let true_one = Arrival {
            peer,
            ..packet(flow(0, TCP), peer.0, Answers::Many)
        };
        keeper.handle_packet(true_one, true, at(30), &mut edge);
    }
    for peer in peers() {
        keeper.handle_link(peer, LinkEvent::Up, LinkSource::Signal, at(40), &mut edge);
        assert_eq!(edge.take_sent().first(), Some(&peer.0));
    }
}

#[test]
fn greedy_peers_leave_room_for_those_that_come_later() {
    let settings = KeepSettings {
        bytes_max: 1 << 20,
        peer_flows_max: 1 << 20,
        ..KeepSettings::default()
    };
    let (mut keeper, mut edge) = (Keeper::new(settings), Noted::default());
    for peer in (0..200).map(PeerId) {
        keeper.handle_link(peer, LinkEvent::Down, LinkSource::Signal, at(0), &mut edge);
        for number in 0..500 {
            let arrival = Arrival {
                peer,
                ..packet(flow(number, TCP), number, Answers::Many)
            };
            keeper.handle_packet(arrival, true, at(1), &mut edge);
        }
    }
    let bytes: Vec<_> = keeper.peers().map(|peer| peer.bytes).collect();
    let sum: usize = bytes.iter().sum();
    assert!(
        sum <= settings.bytes_max / 4 * 3 + 200 * PEER_BYTES_MIN,
        "{sum}"
    );
    let least = bytes.iter().min();
    assert!(least >= Some(&(PEER_BYTES_MIN - 2_304)), "{bytes:?}");
}

#[test]
fn a_packet_longer_than_a_flow_may_keep_is_kept_alone() {
    let (mut keeper, mut edge) = down();
    for number in 0..3 {
        let long = Arrival {
            bytes: 70_000,
            segments: 48,
            ..packet(flow(0, TCP), number, Answers::Many)
        };
        keeper.handle_packet(long, true, at(1), &mut edge);
    }
    keeper.handle_link(PEER, LinkEvent::Up, LinkSource::Signal, at(200), &mut edge);
    assert_eq!(edge.take_sent(), [2]);
}

#[test]
fn what_is_too_old_is_not_sent() {
    let (mut keeper, mut edge) = down();
    keeper.handle_packet(
        packet(flow(0, TCP), 1, Answers::Many),
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
    keeper.handle_packet(
        packet(flow(1, TCP), 3, Answers::None),
        true,
        at(1_500),
        &mut edge,
    );
    keeper.handle_link(
        PEER,
        LinkEvent::Up,
        LinkSource::Signal,
        at(2_000),
        &mut edge,
    );
    assert_eq!(edge.take_sent(), [1, 3]);
    assert_eq!(keeper.counters().expired, 1);
}

/// Three quarters of the memory are for flows whose packets are answered.
#[test]
fn a_peer_gets_four_fifths_of_what_is_left_and_the_next_peer_four_fifths_of_the_rest() {
    let settings = KeepSettings {
        bytes_max: 16 << 20,
        peer_bytes_max: 16 << 20,
        peer_flows_max: 1 << 20,
        ..KeepSettings::default()
    };
    let (mut keeper, mut edge) = (Keeper::new(settings), Noted::default());
    let mut left = settings.bytes_max / 4 * 3;
    for peer in [PeerId(1), PeerId(2)] {
        keeper.handle_link(peer, LinkEvent::Down, LinkSource::Signal, at(0), &mut edge);
        for number in 0..8_000 {
            let arrival = Arrival {
                peer,
                ..packet(flow(number, TCP), number, Answers::Many)
            };
            keeper.handle_packet(arrival, true, at(1), &mut edge);
        }
        let view = keeper.peers().find(|view| view.peer == peer);
        let bytes = view.expect("it is away").bytes;
        let share = left / 5 * 4;
        assert!(
            (share - 2_304..=share).contains(&bytes),
            "{bytes} of {left}"
        );
        left -= bytes;
    }
}
