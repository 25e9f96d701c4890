// SPDX-License-Identifier: Apache-2.0
//! Retransmission by the link: order, limits, and the delay of the packets behind.

use super::*;
use crate::settings::ArqSettings;

fn lossy(loss: f64, attempts_max: Option<u32>, reassembly_ms: Option<f64>) -> LinkSettings {
    LinkSettings {
        loss,
        arq: Some(ArqSettings {
            retransmit_after_ms: 8.0,
            attempts_max,
            reassembly_ms,
            in_order: true,
        }),
        ..settings()
    }
}

/// What arrives of `packets` given at time zero, polled only at the link's own timeouts.
fn by_timeouts(link: &mut LinkModel<u64>, packets: u64) -> Vec<(u64, u64)> {
    send(link, 0..packets, ms(0));
    let mut arrived = Vec::new();
    let mut last = Instant::ZERO;
    while let Some(at) = link.poll_timeout() {
        assert!(at >= last, "{at:?} after {last:?}");
        last = at;
        arrived.extend(arrivals(link, at));
    }
    arrived
}

#[test]
fn without_a_limit_every_packet_arrives_once_and_in_order() {
    for seed in 0..20 {
        let mut link = LinkModel::new(&lossy(0.3, None, None), seed).unwrap();
        let arrived = by_timeouts(&mut link, 500);
        assert!(
            arrived.iter().map(|&(packet, _)| packet).eq(0..500),
            "seed {seed}"
        );
        assert!(arrived.is_sorted_by_key(|&(_, at)| at), "seed {seed}");
        // Lost attempts have used their time: 500 / 0.7 attempts of 1 ms each.
        let last_us = arrived.last().unwrap().1;
        assert!(
            (640_000..900_000).contains(&last_us),
            "seed {seed}: {last_us}"
        );
    }
}

#[test]
fn a_lost_attempt_delays_those_behind_it_and_then_they_arrive_together() {
    let settings = lossy(0.1, None, None);
    let mut stream = Stream::new(1, Part::RandomLoss);
    let first_lost = (0..1000).find(|_| stream.chance(0.1)).unwrap();
    let mut link = link(&settings);
    let arrived = by_timeouts(&mut link, first_lost + 5);
    let at = |packet: u64| arrived[packet as usize].1;
    // Retransmitted at least 8 ms after its first attempt had ended.
    assert!(at(first_lost) >= (first_lost + 1) * 1000 + 8_000 + 1_000 + 25_000);
    assert_eq!(at(first_lost + 1), at(first_lost));
}

#[test]
fn with_a_limit_packets_are_lost_and_offered_ones_are_accounted_for() {
    let mut late = 0;
    for (seed, reassembly_ms) in (0..20).flat_map(|seed| [(seed, 5.0), (seed, 40.0)]) {
        let settings = lossy(0.4, Some(3), Some(reassembly_ms));
        let mut link = LinkModel::new(&settings, seed).unwrap();
        let arrived = by_timeouts(&mut link, 500);
        assert!(
            arrived.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
            "seed {seed}"
        );
        let counters = link.counters();
        assert_eq!(link.packets_inside(), 0);
        assert_eq!(counters.delivered_packets + counters.dropped_packets(), 500);
        // 0.4 to the power of 3 is 0.064.
        assert!(
            (10..70).contains(&counters.dropped_random_loss),
            "seed {seed}"
        );
        late += counters.dropped_reassembly;
    }
    assert!(late > 0, "a timer of 5 ms ends before a retransmission");
}

#[test]
fn the_outcome_does_not_depend_on_how_often_the_link_is_polled() {
    let settings = lossy(0.3, Some(3), Some(15.0));
    let (mut seldom, mut often) = (link(&settings), link(&settings));
    let expected = by_timeouts(&mut often, 300);
    send(&mut seldom, 0..300, ms(0));
    assert_eq!(arrivals(&mut seldom, ms(10_000)), expected);
}

#[test]
fn an_outage_that_loses_leaves_a_gap_that_the_timer_closes() {
    let mut settings = with_outages(OutageEffect::Lose, &[(0.05, 0.1)]);
    settings.arq = lossy(0.0, Some(4), Some(30.0)).arq;
    let mut link = link(&settings);
    send(&mut link, 0..100, ms(0));
    let before = arrivals(&mut link, ms(149));
    send(&mut link, 100..110, ms(150));
    let after = arrivals(&mut link, ms(1000));
    assert_eq!(before.len(), 25);
    assert!(after.iter().map(|&(packet, _)| packet).eq(100..110));
    // Sent by 151 ms, there at 176 ms, released 30 ms later.
    assert_eq!(after[0].1, 206_000);
}

#[test]
fn without_order_nothing_waits_behind_a_lost_attempt() {
    for seed in 0..20 {
        let mut settings = lossy(0.3, None, None);
        if let Some(arq) = &mut settings.arq {
            arq.in_order = false;
        }
        let mut link = LinkModel::new(&settings, seed).unwrap();
        let arrived = by_timeouts(&mut link, 500);
        let mut packets: Vec<u64> = arrived.iter().map(|&(packet, _)| packet).collect();
        assert!(!packets.is_sorted(), "seed {seed}");
        packets.sort_unstable();
        assert!(packets.into_iter().eq(0..500), "seed {seed}");
        // One packet a millisecond, and never two at once.
        assert!(
            arrived.is_sorted_by(|a, b| a.1 + 1_000 <= b.1),
            "seed {seed}"
        );
    }
}

#[test]
fn a_limit_of_attempts_needs_a_reassembly_timer() {
    let error = lossy(0.1, Some(3), None).plan().unwrap_err();
    assert!(
        error.to_string().starts_with("arq.reassembly_ms: got none"),
        "{error}"
    );
    let mut settings = lossy(0.1, Some(3), None);
    if let Some(arq) = &mut settings.arq {
        arq.in_order = false;
    }
    assert!(settings.plan().is_ok());
    let mut useless = lossy(0.1, Some(3), Some(40.0));
    if let Some(arq) = &mut useless.arq {
        arq.in_order = false;
    }
    let error = useless.plan().unwrap_err().to_string();
    assert!(
        error.starts_with("arq.reassembly_ms: got a time"),
        "{error}"
    );
}
