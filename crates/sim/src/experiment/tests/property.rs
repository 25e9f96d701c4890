// SPDX-License-Identifier: Apache-2.0
//! Random links, outages, hosts and gateways: bytes arrive as they were sent, and a
//! connection finishes or is given up by its own rules.

use holdfast_core::LinkSource;
use proptest::prelude::*;

use super::mobile_engine::with_engine_and_wake;
use super::*;

/// Safety first, then liveness: all outages are over after about a minute and a half.
fn outages() -> impl Strategy<Value = OutageSettings> {
    let pairs = proptest::collection::vec((0.05f64..6.0, 0.01f64..5.0), 0..9);
    pairs.prop_map(|pairs| {
        let mut at_s = 0.0;
        let list = pairs
            .iter()
            .map(|(up_s, down_s)| {
                at_s += up_s;
                let outage = OutageAt {
                    at_s,
                    for_s: *down_s,
                };
                at_s += down_s;
                outage
            })
            .collect();
        OutageSettings::List { list }
    })
}

fn link() -> impl Strategy<Value = LinkSettings> {
    (
        1.0f64..50.0,
        0.0f64..80.0,
        2u32..200,
        prop_oneof![Just(0.0), 0.0f64..0.05],
        any::<bool>(),
        outages(),
        any::<bool>(),
    )
        .prop_map(
            |(rate, delay_ms, queue, loss, reorder, outages, keep)| LinkSettings {
                rate_mbit_per_s: Some(rate),
                delay_ms,
                queue_packets_max: Some(queue),
                loss,
                jitter: reorder.then_some(holdfast_link::Jitter::Exponential {
                    mean_ms: 3.0,
                    reorder: true,
                }),
                bit_error_rate: if keep { 1e-7 } else { 0.0 },
                bit_error_effect: holdfast_link::BitErrorEffect::Corrupt,
                outages,
                outage_effect: if keep {
                    OutageEffect::Keep
                } else {
                    OutageEffect::Lose
                },
                ..LinkSettings::default()
            },
        )
}

fn reading() -> impl Strategy<Value = Reading> {
    prop_oneof![
        3 => Just(Reading::AtOnce),
        1 => (500u32..20_000, 1u64..20).prop_map(|(bytes, millis)| Reading::Chunks {
            bytes,
            every: Duration::from_millis(millis),
        }),
        1 => (1u64..20).prop_map(|seconds| Reading::NotBefore {
            until: Duration::from_secs(seconds),
        }),
    ]
}

fn experiment() -> impl Strategy<Value = Experiment> {
    (
        any::<u64>(),
        link(),
        1u64..400_000,
        (0..Preset::ALL.len(), 0..Preset::ALL.len()),
        any::<bool>(),
        reading(),
        prop_oneof![
            Just(None),
            Just(Some(Scheme::Hold)),
            Just(Some(Scheme::MtcpPlus))
        ],
        any::<bool>(),
    )
        .prop_map(
            |(seed, radio, bytes, (fh, mh), uplink, reading, scheme, reported)| {
                let mut experiment = download(bytes, Preset::ALL[fh], &radio);
                experiment.seed = seed;
                experiment.limit = Duration::from_secs(4000);
                let transfer = &mut experiment.transfers[0];
                transfer.mh = Preset::ALL[mh].settings();
                transfer.reading = reading;
                transfer.request_bytes = (bytes % 700) as u32;
                if uplink {
                    transfer.direction = Direction::Uplink;
                }
                if let Some(scheme) = scheme {
                    let settings = Settings {
                        scheme,
                        ..Settings::default()
                    };
                    let mut plan = GatewayPlan::before_last(settings, &experiment.hops);
                    plan.signal = reported.then_some(LinkSignal {
                        source: LinkSource::Carrier,
                        down_after: Some(Duration::from_millis(2)),
                        up_after: Some(Duration::from_millis(2)),
                        warned_before: None,
                    });
                    experiment.gateway = Some(plan);
                }
                experiment
            },
        )
}

/// The same links, hosts and gateways, and an MH with `auto`.
fn with_mobile_engine() -> impl Strategy<Value = Experiment> {
    let reported_after = prop_oneof![
        Just(None),
        (0u64..50).prop_map(|millis| Some(Duration::from_millis(millis))),
    ];
    (experiment(), reported_after)
        .prop_map(|(experiment, reported_after)| with_engine_and_wake(&experiment, reported_after))
}

/// The same links and hosts, a node between that splits the connection, and perhaps its restart.
fn split() -> impl Strategy<Value = (Experiment, u32)> {
    (
        experiment(),
        (0..Preset::ALL.len(), 0..Preset::ALL.len()),
        2_000u32..200_000,
        prop_oneof![3 => Just(None), 1 => (0u64..30_000).prop_map(Some)],
    )
        .prop_map(|(mut experiment, presets, buffer_bytes, restart_ms)| {
            let tcp = |preset: usize| TcpSettings {
                receive_buffer_bytes: buffer_bytes,
                ..Preset::ALL[preset].settings()
            };
            experiment.gateway = None;
            experiment.base_station = Some(BaseStation::Splits(Box::new(SplitPlan {
                toward_fh: tcp(presets.0),
                toward_mh: tcp(presets.1),
                restarts: restart_ms.into_iter().map(Duration::from_millis).collect(),
            })));
            (experiment, buffer_bytes)
        })
}

proptest! {
    #[test]
    fn bytes_through_a_split_connection_arrive_as_sent_or_the_ends_learn_of_it(
        (experiment, buffer_bytes) in split()
    ) {
        let outcome = experiment.run();
        let transfer = &outcome.transfers[0];
        prop_assert!(transfer.intact);
        let ends = &experiment.transfers[0];
        prop_assert!(transfer.delivered_bytes <= ends.bytes);
        prop_assert!(transfer.acknowledged_ahead_bytes_max <= u64::from(buffer_bytes));
        let Some(BaseStation::Splits(plan)) = &experiment.base_station
        else {
            panic!("it splits");
        };
        if transfer.finished {
            prop_assert_eq!(transfer.delivered_bytes, ends.bytes);
        } else if plan.restarts.is_empty() {
            // One of the four ends may give up after few retries; the other half is then reset.
            let all = [&ends.fh, &ends.mh, &plan.toward_fh, &plan.toward_mh];
            prop_assert!(all.iter().any(|tcp| tcp.rto.retries_max < 12));
            let is_dead = |ending: &Ending| matches!(ending, Ending::GaveUp | Ending::Reset);
            prop_assert!(transfer.endings.iter().any(is_dead), "{:?}", transfer.endings);
        }
    }

    #[test]
    fn bytes_arrive_as_sent_and_connections_finish_or_are_given_up(experiment in experiment()) {
        finishes_or_is_given_up(&experiment)?;
    }

    #[test]
    fn so_they_do_with_the_engine_at_the_mh(experiment in with_mobile_engine()) {
        finishes_or_is_given_up(&experiment)?;
    }
}

fn finishes_or_is_given_up(experiment: &Experiment) -> Result<(), TestCaseError> {
    let outcome = experiment.run();
    let transfer = &outcome.transfers[0];
    prop_assert!(transfer.intact);
    let bytes = experiment.transfers[0].bytes;
    prop_assert!(transfer.delivered_bytes <= bytes);
    if transfer.finished {
        prop_assert_eq!(transfer.delivered_bytes, bytes);
    } else {
        // Only a sender of few retries may give up over outages of five seconds.
        let ends = &experiment.transfers[0];
        let impatient = [ends.fh, ends.mh]
            .iter()
            .any(|tcp| tcp.rto.retries_max < 12);
        let gave_up = transfer.endings.contains(&Ending::GaveUp);
        prop_assert!(
            impatient && gave_up,
            "{:?} {} of {bytes} {:?}",
            transfer.endings,
            transfer.delivered_bytes,
            transfer.sender
        );
    }
    Ok(())
}
