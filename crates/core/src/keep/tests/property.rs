// SPDX-License-Identifier: Apache-2.0
//! Anything that can happen, thousands of times.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{FLOWS, Numbered, REPEATING, World};
use super::*;

const CASES: u64 = 2_000;

fn for_each_seed(case: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = match number("HOLDFAST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HOLDFAST_CASES").unwrap_or(CASES),
    };
    for seed in seeds {
        let _shown = ShownIfItFails(seed);
        case(seed);
    }
}

/// Prints the seed of a case that fails.
struct ShownIfItFails(u64);

impl Drop for ShownIfItFails {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with HOLDFAST_SEED={}", self.0);
        }
    }
}

/// Each flow's deliveries.
fn by_flow(world: &World) -> BTreeMap<u32, Vec<u32>> {
    let mut flows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for Numbered { flow, number } in &world.below.delivered {
        flows.entry(*flow).or_default().push(*number);
    }
    flows
}

/// Some milliseconds in which senders send, the daemon works, and the peer answers.
fn live(world: &mut World, millis: u32, alarms: bool) {
    for _ in 0..millis {
        world.now += Duration::from_millis(1);
        for _ in 0..world.below(3) {
            let flow_number = world.below(FLOWS);
            let alarm = alarms && world.below(20) == 0;
            world.send(flow_number, alarm);
        }
        if world.below(4) > 0 {
            let frames = world.below(10);
            world.read(frames);
        }
        if world.below(20) == 0 {
            world.answer();
        }
        world.turn();
    }
}

/// The link is up, the daemon catches up, and packets pass by themselves again.
fn settle(world: &mut World) {
    world.below.set_link(true);
    for _ in 0..2_000 {
        world.now += Duration::from_millis(1);
        world.answer();
        world.turn();
        world.read(10);
    }
    for flow_number in 0..FLOWS {
        world.send(flow_number, false);
    }
    assert!(world.below.passes(), "the detour never ends");
    assert_eq!((world.keeper.peers().count(), world.keeper.bytes()), (0, 0));
}

#[test]
fn reported_outages_change_no_order_and_double_nothing() {
    for_each_seed(|seed| {
        let mut world = World::new(seed);
        for _ in 0..5 {
            let millis = 1 + world.below(100);
            live(&mut world, millis, false);
            let source = [LinkSource::Carrier, LinkSource::Signal][world.below(2) as usize];
            world.below.set_link(false);
            world.link(LinkEvent::Down, source);
            // Reported outages are not probed for a second.
            let millis = 1 + world.below(700);
            live(&mut world, millis, false);
            world.below.set_link(true);
            world.link(LinkEvent::Up, source);
        }
        settle(&mut world);
        for (flow, numbers) in by_flow(&world) {
            assert!(
                numbers.is_sorted_by(|a, b| a < b),
                "flow {flow}: {numbers:?}"
            );
        }
    });
}

#[test]
fn the_newest_of_each_flow_arrive_after_a_reported_outage() {
    for_each_seed(|seed| {
        let mut world = World::new(seed);
        live(&mut world, 20, false);
        settle(&mut world);
        world.below.set_link(false);
        world.link(LinkEvent::Down, LinkSource::Carrier);
        let mut sent = BTreeMap::new();
        for _ in 0..world.below(200) {
            let flow_number = world.below(FLOWS);
            let packet = world.send(flow_number, false);
            sent.entry(flow_number)
                .or_insert_with(Vec::new)
                .push(packet.number);
            world.read(2);
        }
        world.below.delivered.clear();
        world.below.set_link(true);
        world.link(LinkEvent::Up, LinkSource::Carrier);
        settle(&mut world);
        let arrived = by_flow(&world);
        for (flow, sent) in sent {
            let newest = &sent[sent.len().saturating_sub(world.packets_max())..];
            assert!(
                arrived[&flow].starts_with(newest),
                "flow {flow}: {newest:?} of {arrived:?}"
            );
        }
    });
}

#[test]
fn false_alarms_lose_nothing_and_keep_the_order() {
    for_each_seed(|seed| {
        let mut world = World::new(seed);
        // The peer answers within 150 ms nearly always: 20 in a row do not in a case of 2,000.
        live(&mut world, 1_000, true);
        settle(&mut world);
        for (flow, numbers) in by_flow(&world) {
            let once: BTreeSet<_> = numbers.iter().copied().collect();
            let all = world.next[&flow];
            assert_eq!(once.len() as u32, all, "flow {flow}: some are missing");
            // First arrivals are in order; a copy may come again.
            let mut newest = None;
            for number in &numbers {
                if newest.is_none_or(|newest| *number > newest) {
                    assert_eq!(
                        *number,
                        newest.map_or(0, |newest| newest + 1),
                        "flow {flow}"
                    );
                    newest = Some(*number);
                } else {
                    assert!(flow < REPEATING, "flow {flow}: {number} came twice");
                }
            }
        }
    });
}

#[test]
fn silence_reports_and_crashes_in_any_order_double_only_what_may_repeat() {
    for_each_seed(|seed| {
        let mut world = World::new(seed);
        for _ in 0..12 {
            match world.below(8) {
                0 => world.below.set_link(false),
                1 => world.below.set_link(true),
                2 => world.link(LinkEvent::Down, LinkSource::Signal),
                3 => world.link(LinkEvent::Up, LinkSource::Signal),
                4 => world.link(LinkEvent::Down, LinkSource::Carrier),
                5 => world.link(LinkEvent::Up, LinkSource::Carrier),
                6 => world.crash(),
                _ => world.link(LinkEvent::GoingDownSoon(None), LinkSource::Signal),
            }
            let millis = 1 + world.below(400);
            live(&mut world, millis, true);
        }
        world.below.set_link(true);
        world.link(LinkEvent::Up, LinkSource::Carrier);
        settle(&mut world);
        for (flow, numbers) in by_flow(&world) {
            let once: BTreeSet<_> = numbers.iter().copied().collect();
            let doubled = once.len() < numbers.len();
            assert!(flow < REPEATING || !doubled, "flow {flow}: {numbers:?}");
        }
    });
}
