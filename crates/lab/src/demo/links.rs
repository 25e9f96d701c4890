// SPDX-License-Identifier: Apache-2.0
//! The links that the demo shows.

use anyhow::{anyhow, bail};
use holdfast_link::{
    LinkFile, LinkSettings, OutageAt, OutageSchedule, OutageSettings, RateModel, seed_for,
};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_wire::Instant;
use serde::{Deserialize, Serialize};

use super::DemoSettings;
use super::optimum::optimal_s;

/// The scenario whose statistics the train's link has.
const TRAIN: &str = include_str!("../../../../docs/scenarios/real-train.toml");
/// The time for which the train's outages are drawn, in milliseconds.
const TRAIN_LENGTH_MS: u64 = 600_000;
/// Times without a packet that are shorter than this are not outages, in seconds.
const OUTAGE_MIN_S: f64 = 0.3;
/// The queue of the train's link, in packets.
const TRAIN_QUEUE_PACKETS: u32 = 1000;

/// Seconds at the begin and the end of the fastest transfer that are kept free of outages.
const MARGIN_S: f64 = 1.5;
/// The longest time between two outages that is aimed at, in seconds: by then the stall after the
/// first outage is usually over.
const APART_MAX_S: f64 = 3.5;
/// The shortest time between two outages, in seconds.
const APART_MIN_S: f64 = 0.5;

/// A link of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DemoLink {
    /// A constant rate, and outages of given lengths.
    Steady,
    /// LTE in a train: rate and outages are drawn from the seed, with the statistics of recordings.
    Train,
}

impl DemoLink {
    /// The link with all its outages, for the settings' seed.
    pub(super) fn emulated(self, settings: &DemoSettings) -> anyhow::Result<EmulatedLink> {
        match self {
            Self::Steady => steady(settings),
            Self::Train => train(settings),
        }
    }
}

/// A link with outages at random times within the fastest transfer, drawn from the seed.
fn steady(settings: &DemoSettings) -> anyhow::Result<EmulatedLink> {
    let mut link = EmulatedLink {
        carrier_follows: settings.signals,
        outage_effect: settings.outage_effect,
        seed: settings.seed,
        ..EmulatedLink::default()
    };
    let lengths = &settings.outages_s;
    if lengths.is_empty() {
        return Ok(link);
    }
    let end_s = optimal_s(&link, settings.bytes)? + lengths.iter().sum::<f64>();
    let room_s = end_s - 2.0 * MARGIN_S - lengths.iter().sum::<f64>();
    // At least half of the remaining time is for the random part.
    let between = lengths.len().saturating_sub(1).max(1) as f64;
    let apart_s = (room_s / 2.0 / between).min(APART_MAX_S);
    if apart_s < APART_MIN_S {
        bail!(
            "--outages: {} outages do not fit into a transfer of {:.1} s; take fewer, or more --megabytes",
            lengths.len(),
            end_s
        );
    }
    let scattered = OutageSettings::Scattered {
        lengths_s: lengths.clone(),
        from_s: MARGIN_S,
        to_s: end_s - MARGIN_S,
        apart_s,
    };
    let plan = LinkSettings {
        outages: scattered,
        ..Default::default()
    }
    .plan()
    .map_err(|error| anyhow!("--outages: {error}"))?;
    let mut schedule = OutageSchedule::new(&plan.outages, seed_for(settings.seed, 1));
    link.outages = listed(&mut schedule, Instant::from_nanos(u64::MAX));
    Ok(link)
}

/// A link like LTE in a train. Both directions have the same outages, and rates of the same
/// distribution.
fn train(settings: &DemoSettings) -> anyhow::Result<EmulatedLink> {
    #[derive(Deserialize)]
    struct Scenario {
        wireless: Wireless,
    }
    #[derive(Deserialize)]
    struct Wireless {
        rate_model: RateModel,
    }
    let scenario: Scenario = toml::from_str(TRAIN)?;
    let steady = EmulatedLink::default();
    let direction = |number| {
        let mut model = scenario.wireless.rate_model.clone();
        model.seed_from(settings.seed, number);
        LinkSettings {
            rate_model: Some(model),
            delay_ms: steady.delay_ms,
            queue_packets_max: Some(TRAIN_QUEUE_PACKETS),
            outages: OutageSettings::Trace {
                file: None,
                gap_min_s: OUTAGE_MIN_S,
            },
            outage_effect: settings.outage_effect,
            ..LinkSettings::default()
        }
    };
    let mut downlink = direction(1);
    let mut schedule = OutageSchedule::new(&downlink.plan()?.outages, settings.seed);
    let outages = listed(&mut schedule, Instant::from_millis(TRAIN_LENGTH_MS));
    let mut uplink = direction(2);
    (downlink.outages, uplink.outages) = (OutageSettings::None, OutageSettings::None);
    Ok(EmulatedLink {
        queue_packets: TRAIN_QUEUE_PACKETS,
        carrier_follows: settings.signals,
        outage_effect: settings.outage_effect,
        seed: settings.seed,
        description: Some(Box::new(LinkFile {
            outages: OutageSettings::List {
                list: outages.clone(),
            },
            downlink,
            uplink,
            ..LinkFile::default()
        })),
        outages,
        ..steady
    })
}

/// The outages that begin before `until`.
fn listed(schedule: &mut OutageSchedule, until: Instant) -> Vec<OutageAt> {
    let outages = schedule.until(until).into_iter();
    outages
        .map(|outage| OutageAt {
            at_s: outage.begin.as_secs_f64(),
            for_s: outage.end.saturating_since(outage.begin).as_secs_f64(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    #[test]
    fn outages_lie_within_the_fastest_transfer_for_every_seed() {
        for seed in 0..200 {
            let settings = DemoSettings {
                seed,
                ..settings(&[3.0, 7.0])
            };
            let link = steady(&settings).unwrap();
            let end_s = optimal_s(&link, settings.bytes).unwrap();
            let mut lengths: Vec<f64> = link.outages.iter().map(|o| o.for_s.round()).collect();
            lengths.sort_by(f64::total_cmp);
            assert_eq!(lengths, [3.0, 7.0]);
            assert!(link.outages[0].at_s >= MARGIN_S);
            let last = link.outages[1];
            assert!(
                last.at_s + last.for_s <= end_s - MARGIN_S + 0.1,
                "{seed}: {last:?} {end_s}"
            );
        }
    }

    #[test]
    fn outages_that_do_not_fit_are_refused_with_a_remedy() {
        let error = steady(&settings(&[1.0; 40])).unwrap_err().to_string();
        assert!(
            error.starts_with("--outages: 40 outages do not fit"),
            "{error}"
        );
    }

    #[test]
    fn the_train_has_outages_of_its_own_and_a_rate_that_varies() {
        let settings = DemoSettings {
            link: DemoLink::Train,
            ..settings(&[3.0])
        };
        let link = settings.link.emulated(&settings).unwrap();
        assert!(link.outages.len() > 5, "{:?}", link.outages);
        let plan = link.plan().unwrap();
        let carried = |from: u64, until: u64| {
            plan.capacity
                .bytes_between(
                    Instant::from_millis(1000 * from),
                    Instant::from_millis(1000 * until),
                )
                .unwrap()
        };
        let outage = link
            .outages
            .iter()
            .find(|outage| outage.for_s >= 2.0)
            .unwrap();
        let down = outage.at_s.ceil() as u64;
        assert_eq!(carried(down, down + 1), 0);
        assert!(carried(0, 600) > 100_000_000);
    }
}
