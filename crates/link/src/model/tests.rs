// SPDX-License-Identifier: Apache-2.0
//! Rate, delay, queue, outages and random parts of a link, each for itself.

use super::*;
use crate::outage::{OutageAt, OutageSettings};
use crate::settings::{BitErrorEffect, GilbertElliott, Jitter};

mod arq;
mod chance;
mod order;

/// 12 Mb/s: a packet of 1500 bytes takes 1 ms.
fn settings() -> LinkSettings {
    LinkSettings {
        rate_mbit_per_s: Some(12.0),
        delay_ms: 25.0,
        ..LinkSettings::default()
    }
}

fn with_outages(effect: OutageEffect, outages: &[(f64, f64)]) -> LinkSettings {
    let list = outages
        .iter()
        .map(|&(at_s, for_s)| OutageAt { at_s, for_s })
        .collect();
    LinkSettings {
        outages: OutageSettings::List { list },
        outage_effect: effect,
        ..settings()
    }
}

fn link(settings: &LinkSettings) -> LinkModel<u64> {
    LinkModel::new(settings, 1).unwrap()
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn us(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

fn end() -> Instant {
    Instant::from_nanos(u64::MAX)
}

/// (packet, arrival in microseconds) of all that has arrived by `now`.
fn arrivals(link: &mut LinkModel<u64>, now: Instant) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| link.poll_departure(now))
        .map(|d| (d.packet, d.at.as_nanos() / 1000))
        .collect()
}

fn send(link: &mut LinkModel<u64>, packets: std::ops::Range<u64>, now: Instant) {
    for n in packets {
        assert_eq!(link.enqueue(n, 1500, now), Enqueue::Enqueued);
    }
}

#[test]
fn packets_leave_one_after_another_and_arrive_a_delay_later() {
    let mut link = link(&settings());
    send(&mut link, 0..3, ms(10));
    assert_eq!(
        link.poll_timeout(),
        Some(ms(11)),
        "nothing on the way yet: when the first is sent"
    );
    assert_eq!(link.poll_departure(ms(11)), None);
    assert_eq!(link.poll_timeout(), Some(ms(36)));
    assert_eq!(link.poll_departure(Instant::from_nanos(35_999_999)), None);
    assert_eq!(arrivals(&mut link, ms(36)), [(0, 36_000)]);
    assert_eq!(arrivals(&mut link, ms(100)), [(1, 37_000), (2, 38_000)]);
    assert_eq!(link.poll_timeout(), None);
}

#[test]
fn an_idle_link_starts_afresh_and_gives_no_credit() {
    let mut link = link(&settings());
    send(&mut link, 0..1, ms(0));
    send(&mut link, 1..2, us(10_500));
    assert_eq!(arrivals(&mut link, end()), [(0, 26_000), (1, 36_500)]);
}

#[test]
fn no_rounding_adds_up_over_a_million_packets() {
    // 1500 bytes at 7 Mb/s take 1714285.714... ns.
    let settings = LinkSettings {
        rate_mbit_per_s: Some(7.0),
        ..LinkSettings::default()
    };
    let mut link = link(&settings);
    let (mut last, mut sent) = (Instant::ZERO, 0);
    while sent < 1_000_000 {
        while link.queue_len() < 10 {
            send(&mut link, sent..sent + 1, last);
            sent += 1;
        }
        last = link.poll_timeout().unwrap();
        while link.poll_departure(last).is_some() {}
    }
    let all = std::iter::from_fn(|| link.poll_departure(end()))
        .last()
        .unwrap();
    assert_eq!(
        u128::from(all.at.as_nanos()),
        (u128::from(sent) * 12_000 * 1_000_000_000).div_ceil(7_000_000)
    );
}

#[test]
fn lengths_count_in_bytes() {
    let mut link = link(&settings());
    link.enqueue(0, 150, ms(0));
    link.enqueue(1, 3000, ms(0));
    assert_eq!(arrivals(&mut link, end()), [(0, 25_100), (1, 27_100)]);
}

#[test]
fn a_link_without_a_rate_only_delays() {
    let mut link = link(&LinkSettings {
        rate_mbit_per_s: None,
        ..settings()
    });
    send(&mut link, 0..2, ms(5));
    assert_eq!(link.poll_timeout(), Some(ms(30)));
    assert_eq!(arrivals(&mut link, ms(30)), [(0, 30_000), (1, 30_000)]);
}

#[test]
fn a_full_queue_drops_the_newcomer_by_packets_or_by_bytes() {
    let full = |reason| Enqueue::Dropped { reason };
    let mut by_packets = link(&LinkSettings {
        queue_packets_max: Some(2),
        ..settings()
    });
    send(&mut by_packets, 0..3, ms(0));
    assert_eq!(
        by_packets.enqueue(3, 1500, ms(0)),
        full(DropReason::QueuePackets)
    );
    assert_eq!(
        by_packets.enqueue(4, 1500, us(999)),
        full(DropReason::QueuePackets)
    );
    assert_eq!(by_packets.enqueue(5, 1500, ms(1)), Enqueue::Enqueued);
    let mut by_bytes = link(&LinkSettings {
        queue_bytes_max: Some(3000),
        ..settings()
    });
    send(&mut by_bytes, 0..2, ms(0));
    assert_eq!(
        by_bytes.enqueue(2, 1501, ms(0)),
        full(DropReason::QueueBytes)
    );
    assert_eq!(by_bytes.enqueue(3, 1500, ms(0)), Enqueue::Enqueued);
    assert_eq!(by_bytes.enqueue(4, 1, ms(0)), full(DropReason::QueueBytes));
    assert_eq!(by_bytes.enqueue(5, 1500, ms(1)), Enqueue::Enqueued);
    assert_eq!(by_bytes.enqueue(6, 1, ms(1)), full(DropReason::QueueBytes));
    assert_eq!(
        arrivals(&mut by_bytes, end())
            .iter()
            .map(|a| a.0)
            .collect::<Vec<_>>(),
        [0, 1, 3, 5]
    );
    assert_eq!(by_bytes.counters().dropped_queue_bytes, 3);
}

#[test]
fn an_outage_that_loses_takes_queue_and_way_and_what_arrives() {
    // Sent at 1, 2, 3... ms, arriving at 26, 27, 28...; the outage from 27 to 37 ms.
    let mut link = link(&with_outages(OutageEffect::Lose, &[(0.027, 0.010)]));
    send(&mut link, 0..30, ms(0));
    assert_eq!(
        link.enqueue(90, 1500, ms(27)),
        Enqueue::Dropped {
            reason: DropReason::OutageArrival
        }
    );
    assert_eq!(
        link.enqueue(91, 1500, us(36_999)),
        Enqueue::Dropped {
            reason: DropReason::OutageArrival
        }
    );
    send(&mut link, 92..93, ms(37));
    assert_eq!(
        arrivals(&mut link, end()),
        [(0, 26_000), (1, 27_000), (92, 63_000)]
    );
    let counters = link.counters();
    assert_eq!(
        counters.dropped_outage_in_flight, 25,
        "sent from 3 to 27 ms"
    );
    assert_eq!(counters.dropped_outage_queued, 3);
    assert_eq!(counters.dropped_outage_arrival, 2);
}

#[test]
fn an_outage_that_keeps_delays_queue_and_way_by_its_length() {
    let mut link = link(&with_outages(OutageEffect::Keep, &[(0.0272, 0.010)]));
    send(&mut link, 0..30, ms(0));
    send(&mut link, 30..31, ms(30));
    let arrived = arrivals(&mut link, end());
    assert_eq!(arrived.len(), 31);
    for (n, at_us) in arrived {
        let undisturbed = 26_000 + 1000 * n;
        let expected = if undisturbed <= 27_200 {
            undisturbed
        } else {
            undisturbed + 10_000
        };
        assert_eq!(at_us, expected, "packet {n}");
    }
    assert_eq!(link.counters().dropped_packets(), 0);
}

#[test]
fn the_queue_keeps_its_limit_in_an_outage_that_keeps() {
    let mut settings = with_outages(OutageEffect::Keep, &[(0.001, 5.0)]);
    settings.queue_packets_max = Some(2);
    let mut link = link(&settings);
    send(&mut link, 0..2, ms(100));
    assert_eq!(
        link.enqueue(2, 1500, ms(200)),
        Enqueue::Dropped {
            reason: DropReason::QueuePackets
        }
    );
    assert_eq!(link.poll_timeout(), Some(ms(5001)));
    assert_eq!(arrivals(&mut link, end()), [(0, 5_027_000), (1, 5_028_000)]);
}

#[test]
fn a_packet_half_sent_when_the_outage_begins_is_finished_after_it() {
    let mut link = link(&with_outages(
        OutageEffect::Keep,
        &[(0.0004, 1.0), (1.0006, 1.0)],
    ));
    link.enqueue(0, 1500, ms(0));
    // 0.4 ms, then 0.2 ms between the outages, then 0.4 ms.
    assert_eq!(arrivals(&mut link, end()), [(0, 2_026_000)]);
}

#[test]
fn outages_wait_for_the_start() {
    let plan = with_outages(OutageEffect::Lose, &[(0.5, 1.0)])
        .plan()
        .unwrap();
    let mut link = LinkModel::from_plan(&plan, 1).waiting_for_start();
    send(&mut link, 0..1, ms(600));
    link.start(us(600_500));
    send(&mut link, 1..2, ms(1_099));
    assert_eq!(
        link.enqueue(2, 1500, us(1_100_500)),
        Enqueue::Dropped {
            reason: DropReason::OutageArrival
        }
    );
    assert_eq!(link.state(), MediumState::Down);
    send(&mut link, 3..4, us(2_100_500));
    assert_eq!(
        arrivals(&mut link, end()),
        [(0, 626_000), (3, 2_126_500)],
        "1 is lost on its way"
    );
}

#[test]
fn a_mahimahi_trace_gives_the_times_at_which_packets_leave() {
    let settings = LinkSettings {
        rate_trace: Some("a.mm".to_owned()),
        ..LinkSettings::default()
    };
    let plan = settings.plan_with(|_| Ok("5\n5\n20\n".to_owned())).unwrap();
    let mut link = LinkModel::from_plan(&plan, 1);
    send(&mut link, 0..3, ms(0));
    link.enqueue(3, 500, ms(0));
    link.enqueue(4, 1000, ms(0));
    link.enqueue(5, 100, ms(0));
    let times = arrivals(&mut link, ms(40));
    let expected = [5, 5, 20, 25, 25, 25].map(|ms| ms * 1000);
    assert_eq!(
        times.iter().map(|a| a.1).collect::<Vec<_>>(),
        expected,
        "3 and 4 share one opportunity, 5 has the next"
    );
    send(&mut link, 6..7, ms(41));
    assert_eq!(
        arrivals(&mut link, end()),
        [(6, 45_000)],
        "unused capacity is lost"
    );
}

#[test]
fn jitter_keeps_the_order_unless_set_otherwise() {
    for reorder in [false, true] {
        let jitter = Some(Jitter::Uniform {
            max_ms: 10.0,
            reorder,
        });
        let mut link = link(&LinkSettings {
            jitter,
            ..settings()
        });
        send(&mut link, 0..500, ms(0));
        let arrived = arrivals(&mut link, end());
        assert_eq!(arrived.len(), 500);
        assert!(arrived.is_sorted_by_key(|a| a.1));
        assert_eq!(arrived.is_sorted_by_key(|a| a.0), !reorder);
        for (n, at_us) in arrived {
            let least = 26_000 + 1000 * n;
            assert!(
                (least..=least + 10_000).contains(&at_us),
                "packet {n} at {at_us}"
            );
        }
    }
}

#[test]
fn a_change_of_one_random_part_leaves_the_others_as_they_were() {
    let lossy = LinkSettings {
        loss: 0.1,
        queue_packets_max: Some(2000),
        ..settings()
    };
    let jittery = LinkSettings {
        jitter: Some(Jitter::Exponential {
            mean_ms: 1.0,
            reorder: false,
        }),
        bit_error_rate: 1e-5,
        bit_error_effect: BitErrorEffect::Corrupt,
        ..lossy.clone()
    };
    let survivors = |settings: &LinkSettings| -> Vec<u64> {
        let mut link = link(settings);
        send(&mut link, 0..1000, ms(0));
        arrivals(&mut link, end())
            .into_iter()
            .map(|a| a.0)
            .collect()
    };
    assert_eq!(survivors(&lossy), survivors(&jittery));
    assert!((850..950).contains(&survivors(&lossy).len()));
}

/// M-TCP's testbed: the link's queue drains on, and the mobile discards what comes.
#[test]
fn with_lose_arriving_the_link_goes_on_and_what_would_come_out_in_the_outage_is_lost() {
    // 1 ms a packet, 25 ms of propagation: down from 28 to 31 ms.
    let mut link = link(&with_outages(OutageEffect::LoseArriving, &[(0.028, 0.003)]));
    send(&mut link, 0..8, ms(0));
    assert_eq!(
        arrivals(&mut link, ms(40)),
        [
            (0, 26_000),
            (1, 27_000),
            (5, 31_000),
            (6, 32_000),
            (7, 33_000)
        ]
    );
    assert_eq!(link.counters().dropped_outage_in_flight, 3);
    assert_eq!(link.counters().dropped_outage_queued, 0);
    // A packet given to the link in an outage arrives if it comes out after the outage.
    let mut late = self::link(&with_outages(OutageEffect::LoseArriving, &[(0.0, 0.020)]));
    send(&mut late, 0..1, ms(1));
    assert_eq!(arrivals(&mut late, ms(60)), [(0, 27_000)]);
}

#[test]
fn with_lose_arriving_no_question_about_the_time_changes_what_is_lost() {
    let outages = [(0.010, 0.004), (0.030, 0.010)];
    let run = |step: u64| {
        let mut link = link(&with_outages(OutageEffect::LoseArriving, &outages));
        let mut got = Vec::new();
        for n in 0..40 {
            send(&mut link, n..n + 1, ms(n));
            if n % step == 0 {
                got.extend(arrivals(&mut link, ms(n)));
            }
        }
        got.extend(arrivals(&mut link, ms(200)));
        got
    };
    assert_eq!(run(1), run(7));
    assert_eq!(run(1), run(100));
    assert_eq!(run(1).len(), 40 - 10);
}
