// SPDX-License-Identifier: Apache-2.0
//! The engine of the daemon, inside the simulation.

use super::*;

fn settings(scheme: Scheme) -> Settings {
    Settings {
        scheme,
        ..Settings::default()
    }
}

/// Carrier, told a millisecond late.
const CARRIER: LinkSignal = LinkSignal {
    source: LinkSource::Carrier,
    down_after: Some(Duration::from_millis(1)),
    up_after: Some(Duration::from_millis(1)),
};

fn with_gateway(mut experiment: Experiment, scheme: Scheme) -> Experiment {
    let mut plan = GatewayPlan::before_last(settings(scheme), &experiment.hops);
    plan.signal = Some(CARRIER);
    experiment.gateway = Some(plan);
    experiment
}

#[test]
fn gateway_shortens_the_stall_after_an_outage() {
    let radio = LinkSettings {
        outages: one_outage(4.0, 7.0),
        ..radio()
    };
    for preset in [Preset::NewReno, Preset::LinuxReno, Preset::NewReno2007] {
        let plain = download(30_000_000, preset, &radio);
        let without = plain.run().transfers[0].stalls_total();
        for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
            let outcome = with_gateway(plain.clone(), scheme).run();
            let transfer = &outcome.transfers[0];
            let name = preset.name();
            assert!(transfer.finished && transfer.intact, "{name} {scheme:?}");
            let stall = transfer.stalls_total();
            assert!(
                stall < Duration::from_millis(200) && stall <= without,
                "{name} {scheme:?}: {stall:?}, {without:?} without"
            );
        }
    }
}

/// M-TCP+'s point: the sender is frozen, nothing times out, and a long disconnection
/// is survived.
#[test]
fn mtcp_plus_freezes_the_sender_through_a_disconnection() {
    let radio = LinkSettings {
        outages: one_outage(20.0, 180.0),
        rate_mbit_per_s: Some(4.0),
        ..radio()
    };
    let plain = download(15_000_000, Preset::NewReno2007, &radio);
    assert_eq!(plain.run().transfers[0].endings[0], Ending::GaveUp);
    let outcome = with_gateway(plain, Scheme::MtcpPlus).run();
    let transfer = &outcome.transfers[0];
    assert!(transfer.finished && transfer.intact, "{transfer:?}");
    assert_eq!(transfer.sender.timeouts, 0);
    assert!(transfer.sender.probes > 0);
}

#[test]
fn undisturbed_the_gateway_costs_nothing() {
    let plain = download(10_000_000, Preset::Sack, &radio());
    let without = plain.run();
    for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
        let outcome = with_gateway(plain.clone(), scheme).run();
        let ratio = seconds(&outcome) / seconds(&without);
        assert!((0.99..1.01).contains(&ratio), "{scheme:?} {ratio}");
    }
}

#[test]
fn hold_survives_restarts_in_mid_flow() {
    let radio = LinkSettings {
        outages: one_outage(2.0, 2.0),
        ..radio()
    };
    let mut experiment = with_gateway(download(10_000_000, Preset::Sack, &radio), Scheme::Hold);
    if let Some(gateway) = &mut experiment.gateway {
        gateway.restarts = [500, 2500, 4001].map(Duration::from_millis).to_vec();
    }
    let outcome = experiment.run();
    assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
}

#[test]
fn word_of_one_mobile_reaches_its_flows_alone() {
    let mut experiment = with_gateway(download(1_000_000, Preset::Sack, &radio()), Scheme::Hold);
    let transfer = experiment.transfers[0].clone();
    experiment.transfers.push(Transfer {
        mobile: 1,
        ..transfer
    });
    if let Some(gateway) = &mut experiment.gateway {
        gateway.signal = Some(LinkSignal {
            source: LinkSource::Signal,
            ..CARRIER
        });
    }
    let outcome = experiment.run();
    assert!(outcome.transfers.iter().all(|t| t.finished && t.intact));
}
