// SPDX-License-Identifier: Apache-2.0
//! The order of packets: two stations, and packets that go ahead of ordinary ones.

use proptest::prelude::*;

use super::*;

#[test]
fn two_stations_take_turns_and_each_has_its_own_limits() {
    let mut link = link(&LinkSettings {
        queue_packets_max: Some(3),
        ..settings()
    });
    let mut offer =
        |station, packet| link.enqueue_from(station, Priority::Ordinary, packet, 1500, ms(0));
    // 10 is sent at once; three more fit.
    for packet in 10..14 {
        assert_eq!(offer(Station::First, packet), Enqueue::Enqueued);
    }
    for packet in 20..23 {
        assert_eq!(offer(Station::Second, packet), Enqueue::Enqueued);
    }
    let refused = Enqueue::Dropped {
        reason: DropReason::QueuePackets,
    };
    assert_eq!(offer(Station::First, 14), refused);
    assert_eq!(offer(Station::Second, 23), refused);
    assert_eq!(
        (link.queue_len_of(Station::First), link.queue_len()),
        (3, 6)
    );
    let order: Vec<u64> = arrivals(&mut link, ms(100)).iter().map(|a| a.0).collect();
    assert_eq!(order, [10, 20, 11, 21, 12, 22, 13]);
}

/// Numbers of all that arrives, in order.
fn order(link: &mut LinkModel<u64>) -> Vec<u64> {
    arrivals(link, end()).iter().map(|a| a.0).collect()
}

#[test]
fn what_goes_ahead_leaves_before_all_that_is_ordinary_and_in_its_own_order() {
    let mut link = link(&settings());
    send(&mut link, 0..3, ms(0));
    let mut offer = |packet, now| {
        link.enqueue_from(Station::First, Priority::Ahead, packet, 1500, now);
    };
    offer(50, ms(0));
    offer(51, ms(0));
    // 0 is on the medium until 1 ms, 50 until 2 ms, 51 until 3 ms, 1 until 4 ms.
    offer(52, us(3500));
    assert_eq!(order(&mut link), [0, 50, 51, 1, 52, 2]);
    assert_eq!(link.counters().ahead_packets, 3);
    assert_eq!(link.counters().offered_packets, 6);
}

#[test]
fn a_full_queue_of_one_priority_drops_its_own_newcomers_and_no_others() {
    let full = |reason| Enqueue::Dropped { reason };
    let mut link = link(&LinkSettings {
        queue_packets_max: Some(2),
        queue_bytes_max: Some(2000),
        ..settings()
    });
    let mut offer = |priority, packet, len_bytes| {
        link.enqueue_from(Station::First, priority, packet, len_bytes, ms(0))
    };
    // Sent at once: it counts in no queue.
    assert_eq!(offer(Priority::Ahead, 0, 1500), Enqueue::Enqueued);
    for (priority, first) in [(Priority::Ordinary, 10), (Priority::Ahead, 20)] {
        assert_eq!(offer(priority, first, 1500), Enqueue::Enqueued);
        let by_bytes = full(DropReason::QueueBytes);
        assert_eq!(offer(priority, first + 1, 501), by_bytes);
        assert_eq!(offer(priority, first + 2, 500), Enqueue::Enqueued);
        let by_packets = full(DropReason::QueuePackets);
        assert_eq!(offer(priority, first + 3, 0), by_packets);
    }
    assert_eq!(link.queue_len(), 4);
    assert_eq!(order(&mut link), [0, 20, 22, 10, 12]);
    let c = link.counters();
    assert_eq!(c.ahead_packets, 5);
    assert_eq!((c.dropped_queue_bytes, c.dropped_queue_packets), (2, 2));
    assert_eq!(c.offered_packets, c.delivered_packets + c.dropped_packets());
}

#[test]
fn priority_counts_within_a_station_and_the_stations_still_take_turns() {
    let mut link = link(&settings());
    let mut offer = |station, priority, packet| {
        let outcome = link.enqueue_from(station, priority, packet, 1500, ms(0));
        assert_eq!(outcome, Enqueue::Enqueued);
    };
    for packet in 10..13 {
        offer(Station::First, Priority::Ordinary, packet);
        offer(Station::Second, Priority::Ordinary, packet + 10);
    }
    for packet in 30..32 {
        offer(Station::First, Priority::Ahead, packet);
        offer(Station::Second, Priority::Ahead, packet + 10);
    }
    assert_eq!(link.queue_len_of(Station::First), 4);
    assert_eq!(link.queue_len_of(Station::Second), 5);
    assert_eq!(order(&mut link), [10, 40, 30, 41, 31, 20, 11, 21, 12, 22]);
}

#[test]
fn an_outage_that_loses_takes_what_waits_ahead_too() {
    let mut link = link(&with_outages(OutageEffect::Lose, &[(0.0005, 0.010)]));
    send(&mut link, 0..2, ms(0));
    link.enqueue_from(Station::First, Priority::Ahead, 9, 1500, ms(0));
    assert_eq!(order(&mut link), [0; 0]);
    assert_eq!(link.counters().dropped_outage_queued, 3);
    assert_eq!(link.packets_inside(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Without bit errors and jitter only the order differs, and it stays the same within a station
    /// and a priority.
    #[test]
    fn priorities_change_the_order_between_queues_alone(
        seed: u64,
        packets in prop::collection::vec((0u64..2_000, 1u64..2000, any::<bool>(), any::<bool>()), 1..80),
    ) {
        let plan = LinkSettings { queue_packets_max: Some(1000), ..settings() }.plan().unwrap();
        let mut link = LinkModel::from_plan(&plan, seed);
        let mut now_us = 0;
        let mut kinds = Vec::new();
        for (n, &(gap_us, len_bytes, second, ahead)) in packets.iter().enumerate() {
            now_us += gap_us;
            let station = if second { Station::Second } else { Station::First };
            let priority = if ahead { Priority::Ahead } else { Priority::Ordinary };
            prop_assert_eq!(
                link.enqueue_from(station, priority, n, len_bytes, us(now_us)),
                Enqueue::Enqueued
            );
            kinds.push((second, ahead));
        }
        let out: Vec<_> = std::iter::from_fn(|| link.poll_departure(end())).collect();
        prop_assert_eq!(out.len(), packets.len());
        for kind in [(false, false), (false, true), (true, false), (true, true)] {
            let own = out.iter().map(|d| d.packet).filter(|&n| kinds[n] == kind);
            prop_assert!(own.is_sorted());
        }
        // The link is never idle while a packet waits: it ends when a link with one queue would.
        let mut one_queue = LinkModel::from_plan(&plan, seed);
        let mut now_us = 0;
        for (n, &(gap_us, len_bytes, ..)) in packets.iter().enumerate() {
            now_us += gap_us;
            let _: Enqueue = one_queue.enqueue(n, len_bytes, us(now_us));
        }
        let last = std::iter::from_fn(|| one_queue.poll_departure(end())).last();
        prop_assert_eq!(out.last().map(|d| d.at), last.map(|d| d.at));
    }
}
