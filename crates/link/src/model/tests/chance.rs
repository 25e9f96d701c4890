// SPDX-License-Identifier: Apache-2.0
//! All random parts together: the same seed gives the same results, and each packet is accounted
//! for with any settings.

use proptest::prelude::*;

use super::*;

/// Everything at once: the reference for equal results on every machine.
fn rich(effect: OutageEffect) -> LinkSettings {
    LinkSettings {
        loss: 0.02,
        bit_error_rate: 1e-6,
        bit_error_effect: BitErrorEffect::Corrupt,
        gilbert_elliott: Some(GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.3,
            loss_good: 0.0,
            loss_bad: 0.8,
        }),
        jitter: Some(Jitter::Normal {
            mean_ms: 2.0,
            deviation_ms: 3.0,
            reorder: true,
        }),
        outages: OutageSettings::Exponential {
            up_mean_s: 0.2,
            down_mean_s: 0.05,
        },
        outage_effect: effect,
        queue_packets_max: Some(50),
        ..settings()
    }
}

/// FNV-1a over packet numbers, arrival times and flipped bits.
fn fingerprint(link: &mut LinkModel<u64>, seconds: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |value: u64| {
        for byte in value.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for n in 0..seconds * 1250 {
        link.enqueue(n, 40 + (n * 7) % 1461, us(n * 800));
        while let Some(departure) = link.poll_departure(us(n * 800)) {
            mix(departure.packet);
            mix(departure.at.as_nanos());
            departure
                .flipped_bits
                .iter()
                .for_each(|&bit| mix(u64::from(bit)));
        }
    }
    hash
}

#[test]
fn the_same_seed_gives_the_same_packets_at_the_same_nanoseconds_on_every_machine() {
    let mut lose = link(&rich(OutageEffect::Lose));
    let mut keep = link(&rich(OutageEffect::Keep));
    assert_eq!(
        [fingerprint(&mut lose, 20), fingerprint(&mut keep, 20)],
        [4_532_143_464_716_031_038, 13_122_528_985_779_909_845]
    );
    let snapshot = |c: &Counters| {
        [
            c.delivered_packets,
            c.corrupted_packets,
            c.dropped_random_loss,
            c.dropped_gilbert_elliott,
            c.dropped_outage_arrival,
            c.dropped_queue_packets,
        ]
    };
    assert_eq!(snapshot(&lose.counters()), [16_120, 93, 352, 462, 5_537, 0]);
    assert_eq!(
        snapshot(&keep.counters()),
        [20_927, 130, 408, 506, 0, 3_123]
    );
}

fn any_settings() -> impl Strategy<Value = LinkSettings> {
    let rate = prop_oneof![
        Just(None),
        (1u32..100_000).prop_map(|kbit| Some(f64::from(kbit) / 1e3))
    ];
    let jitter = prop_oneof![
        Just(None),
        (0u32..20, any::<bool>()).prop_map(|(ms, reorder)| Some(Jitter::Uniform {
            max_ms: f64::from(ms),
            reorder
        })),
        (0u32..20, any::<bool>()).prop_map(|(ms, reorder)| Some(Jitter::Normal {
            mean_ms: f64::from(ms),
            deviation_ms: 5.0,
            reorder
        })),
    ];
    let outages = prop_oneof![
        Just(OutageSettings::None),
        Just(OutageSettings::Exponential {
            up_mean_s: 0.05,
            down_mean_s: 0.05
        }),
        Just(OutageSettings::Periodic {
            first_at_s: 0.0,
            every_s: 0.02,
            for_s: 0.01
        }),
    ];
    let effect = prop_oneof![
        Just(OutageEffect::Lose),
        Just(OutageEffect::Keep),
        Just(OutageEffect::LoseArriving)
    ];
    let bits = prop_oneof![Just(BitErrorEffect::Lose), Just(BitErrorEffect::Corrupt)];
    let limits = (
        1u32..30,
        prop_oneof![Just(None), (0u64..20_000).prop_map(Some)],
    );
    (
        rate,
        0u32..50,
        jitter,
        limits,
        outages,
        effect,
        bits,
        0u32..3,
    )
        .prop_map(
            |(
                rate_mbit_per_s,
                delay_ms,
                jitter,
                limits,
                outages,
                outage_effect,
                bit_error_effect,
                loss,
            )| LinkSettings {
                rate_mbit_per_s,
                delay_ms: f64::from(delay_ms),
                jitter,
                queue_packets_max: Some(limits.0),
                queue_bytes_max: limits.1,
                loss: f64::from(loss) / 10.0,
                bit_error_rate: f64::from(loss) * 1e-5,
                bit_error_effect,
                gilbert_elliott: (loss > 1).then_some(GilbertElliott {
                    good_to_bad: 0.1,
                    bad_to_good: 0.5,
                    loss_good: 0.0,
                    loss_bad: 1.0,
                }),
                outages,
                outage_effect,
                ..LinkSettings::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_packet_is_delivered_once_in_order_or_dropped_with_a_reason(
        settings in any_settings(),
        seed: u64,
        packets in prop::collection::vec((0u64..20_000, 0u64..2000, any::<bool>()), 1..120),
    ) {
        let plan = settings.plan().unwrap();
        let mut link = LinkModel::from_plan(&plan, seed);
        let mut called_seldom = LinkModel::from_plan(&plan, seed);
        let (mut now_us, mut refused, mut out) = (0, 0, Vec::new());
        for (n, &(gap_us, len_bytes, poll)) in packets.iter().enumerate() {
            now_us += gap_us;
            let outcome = link.enqueue(n, len_bytes, us(now_us));
            prop_assert_eq!(outcome, called_seldom.enqueue(n, len_bytes, us(now_us)));
            refused += u64::from(outcome != Enqueue::Enqueued);
            prop_assert!(link.queue_len() <= plan.queue_packets_max);
            if poll {
                out.extend(std::iter::from_fn(|| link.poll_departure(us(now_us))));
            }
            let c = link.counters();
            prop_assert_eq!(c.offered_packets, c.delivered_packets + c.dropped_packets() + link.packets_inside() as u64);
        }
        // From here on by the link's own timer: the link must become empty and lose count of no packet.
        let (mut wakes, mut last_at) = (0, us(now_us));
        while let Some(at) = link.poll_timeout() {
            let before = out.len();
            last_at = at;
            out.extend(std::iter::from_fn(|| link.poll_departure(at)));
            prop_assert!(out[before..].iter().all(|d| d.at == at || d.at <= us(now_us)), "a packet came later than its time");
            wakes += 1;
            prop_assert!(wakes < 100_000);
        }
        let c = link.counters();
        prop_assert_eq!(link.packets_inside(), 0);
        prop_assert_eq!(c.offered_packets, c.delivered_packets + c.dropped_packets());
        prop_assert_eq!(c.delivered_packets, out.len() as u64);
        prop_assert!(refused <= c.dropped_packets());
        let mut numbers: Vec<usize> = out.iter().map(|d| d.packet).collect();
        prop_assert!(link.reorders() || numbers.is_sorted());
        numbers.sort_unstable();
        prop_assert!(numbers.windows(2).all(|w| w[0] < w[1]), "a packet was delivered twice");
        prop_assert!(out.iter().all(|d| d.len_bytes == packets[d.packet].1));
        let late: Vec<_> = std::iter::from_fn(|| called_seldom.poll_departure(last_at)).collect();
        prop_assert_eq!(out, late, "the number of calls changes nothing");
    }
}
