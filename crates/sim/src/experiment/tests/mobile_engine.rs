// SPDX-License-Identifier: Apache-2.0
//! The engine at the MHs' interface, as in `holdfast mobile` with `auto`.

use holdfast_core::mobile_host::{MobileHostSettings, MobileScheme};

use super::*;

/// The daemon's default (`mobile.flows_max`).
const FLOWS_MAX: usize = 8192;

const SENDERS: [Preset; 3] = [Preset::LinuxReno, Preset::LinuxCubic, Preset::LinuxBbr];

/// 50 ms of propagation, and a few packets in queues.
const ROUND_TRIP: Duration = Duration::from_millis(52);

fn upload(bytes: u64, preset: Preset, radio: &LinkSettings) -> Experiment {
    Experiment {
        transfers: vec![Transfer::upload(bytes, preset.settings())],
        ..download(bytes, preset, radio)
    }
}

fn with_engine(experiment: &Experiment, reported_after: Option<Duration>) -> Experiment {
    Experiment {
        mobile_engine: Some(MobileEnginePlan {
            reported_after,
            ..MobileEnginePlan::of_daemon(FLOWS_MAX)
        }),
        ..experiment.clone()
    }
}

fn with_wake(experiment: &Experiment, reported_after: Option<Duration>) -> Experiment {
    Experiment {
        mobile: Some(MobilePlan {
            settings: MobileHostSettings {
                scheme: MobileScheme::Wake,
                ..MobileHostSettings::default()
            },
            reported_after,
            warned_before: None,
            false_alarm_at: None,
            detects_silence: true,
        }),
        ..experiment.clone()
    }
}

/// Both parts of `auto`.
pub(super) fn with_engine_and_wake(
    experiment: &Experiment,
    reported_after: Option<Duration>,
) -> Experiment {
    with_wake(&with_engine(experiment, reported_after), reported_after)
}

/// The stall after the one outage.
fn stall(experiment: &Experiment) -> Duration {
    let outcome = experiment.run();
    let transfer = &outcome.transfers[0];
    assert!(transfer.finished && transfer.intact, "{transfer:?}");
    assert_eq!(transfer.acknowledged_ahead_bytes_max, 0);
    assert_eq!(transfer.stalls.len(), 1);
    transfer.stalls_total()
}

#[test]
fn an_upload_goes_on_within_three_round_trips_of_link_up() {
    for for_s in [1.0, 7.0] {
        let radio = LinkSettings {
            outages: one_outage(4.3, for_s),
            ..radio()
        };
        for preset in SENDERS {
            let plain = upload(30_000_000, preset, &radio);
            let without = stall(&plain);
            for (reported_after, round_trips) in [(Some(Duration::ZERO), 2), (None, 3)] {
                let with = stall(&with_engine(&plain, reported_after));
                assert!(
                    with < ROUND_TRIP * round_trips && with * 2 < without,
                    "{} {for_s} {reported_after:?}: {with:?}, {without:?} without",
                    preset.name()
                );
            }
        }
    }
}

#[test]
fn a_download_goes_on_by_wake_beside_the_engine() {
    let radio = LinkSettings {
        outages: one_outage(4.3, 7.0),
        ..radio()
    };
    let plain = download(30_000_000, Preset::LinuxReno, &radio);
    let at_once = Some(Duration::ZERO);
    let with = stall(&with_engine_and_wake(&plain, at_once));
    assert_eq!(with, stall(&with_wake(&plain, at_once)));
    assert!(with < ROUND_TRIP * 3, "{with:?}");
}

/// The engine gets copies: no packet changes, or comes at another time. `wake` sees each segment once.
#[test]
fn undisturbed_the_engine_changes_no_packet() {
    let radio = LinkSettings {
        queue_packets_max: Some(5000),
        ..radio()
    };
    for preset in SENDERS {
        for plain in [
            upload(5_000_000, preset, &radio),
            download(5_000_000, preset, &radio),
        ] {
            let wakes = with_wake(&plain, None);
            assert_eq!(with_engine(&plain, None).run().digest, plain.run().digest);
            assert_eq!(with_engine(&wakes, None).run().digest, wakes.run().digest);
        }
    }
}

#[test]
fn of_encrypted_segments_the_engine_gets_no_copy() {
    let radio = LinkSettings {
        outages: one_outage(4.3, 1.0),
        ..radio()
    };
    let plain = Experiment {
        encrypted: true,
        ..upload(20_000_000, Preset::LinuxCubic, &radio)
    };
    let outcome = with_engine(&plain, Some(Duration::ZERO)).run();
    assert_eq!(outcome.digest, plain.run().digest);
    let counters = outcome.mobile_engine.unwrap();
    assert!(counters.contains(&("segments", 0)), "{counters:?}");
}
