// SPDX-License-Identifier: Apache-2.0
//! Compressed M-TCP over a slow link.

use holdfast_core::compression::{CompressionSettings, Method};
use holdfast_core::{BandwidthSettings, Scheme};

use super::gateway::{CARRIER, settings};
use super::*;
use crate::ContentKind;

/// 300 KB over 250 kb/s, one outage of 3 s; the MH has M-TCP's part.
fn slow(content: ContentKind, method: Option<Method>, cell: Option<u64>) -> Experiment {
    let radio = LinkSettings {
        rate_mbit_per_s: Some(0.25),
        delay_ms: 20.0,
        queue_packets_max: Some(50),
        outages: OutageSettings::Periodic {
            first_at_s: 3.0,
            every_s: 100.0,
            for_s: 3.0,
        },
        ..LinkSettings::default()
    };
    let mut experiment = download(300_000, Preset::NewReno, &radio);
    experiment.transfers[0].content = content;
    experiment.transfers[0].mh.m_tcp = true;
    let mut settings = settings(Scheme::Mtcp);
    settings.bandwidth = BandwidthSettings::one_cell(cell);
    settings.compression = method.map(|method| CompressionSettings { method, level: 3 });
    let mut plan = GatewayPlan::before_last(settings, &experiment.hops);
    plan.signal = Some(CARRIER);
    experiment.gateway = Some(plan);
    experiment
}

fn counter(outcome: &Outcome, name: &str) -> u64 {
    let found = outcome.gateway.iter().find(|(known, _)| *known == name);
    found.expect("a counter").1
}

/// Transfer time in seconds, without the outage.
fn time(experiment: &Experiment) -> (f64, Outcome) {
    let outcome = experiment.run();
    let transfer = &outcome.transfers[0];
    assert!(transfer.finished && transfer.intact);
    let seconds = transfer.transfer_time.expect("finished").as_secs_f64() - 3.0;
    (seconds, outcome)
}

#[test]
fn text_takes_little_more_than_half_the_time_compressed_and_is_whole() {
    for cell in [None, Some(30_000)] {
        let (plain, _) = time(&slow(ContentKind::Text, None, cell));
        for method in [Method::Deflate, Method::Zstd] {
            let (compressed, outcome) = time(&slow(ContentKind::Text, Some(method), cell));
            let bytes = ["compressed_to_bytes", "compressed_from_bytes"]
                .map(|name| counter(&outcome, name) as f64);
            println!(
                "{cell:?} {method:?}: {compressed:.2} s of {plain:.2}, {:.3} left",
                bytes[0] / bytes[1]
            );
            assert!(compressed < 0.75 * plain, "{cell:?} {method:?}");
            assert!(bytes[1] > 200_000.0, "{cell:?} {method:?}");
        }
    }
}

#[test]
fn a_program_gains_less_and_what_is_a_length_alone_nothing() {
    let time_of = |content, method| time(&slow(content, method, Some(30_000)));
    let (plain, _) = time_of(ContentKind::Binary, None);
    let (text, _) = time_of(ContentKind::Text, Some(Method::Deflate));
    let (binary, _) = time_of(ContentKind::Binary, Some(Method::Deflate));
    assert!(text < binary && binary < plain, "{text} {binary} {plain}");
    let (bulk, outcome) = time_of(ContentKind::Bulk, Some(Method::Deflate));
    assert_eq!(counter(&outcome, "compressed"), 0);
    assert!((bulk / plain - 1.0).abs() < 0.02, "{bulk} {plain}");
}

#[test]
fn an_mh_without_m_tcp_gets_nothing_compressed() {
    let mut experiment = slow(ContentKind::Text, Some(Method::Zstd), None);
    experiment.transfers[0].mh.m_tcp = false;
    let (_, outcome) = time(&experiment);
    assert_eq!(counter(&outcome, "compressed"), 0);
}

#[test]
fn a_gateway_that_dies_in_the_middle_leaves_nothing_unreadable() {
    let mut experiment = slow(ContentKind::Text, Some(Method::Zstd), None);
    if let Some(gateway) = &mut experiment.gateway {
        gateway.restarts = [1500, 2990, 7000].map(Duration::from_millis).to_vec();
    }
    let (_, outcome) = time(&experiment);
    assert!(counter(&outcome, "compressed") > 0);
}

#[test]
fn a_slow_processor_takes_its_time() {
    let fast = slow(ContentKind::Text, Some(Method::Deflate), Some(30_000));
    let mut experiment = fast.clone();
    if let Some(gateway) = &mut experiment.gateway {
        gateway.compression_time = Duration::from_millis(60);
    }
    // 300,000 bytes in packets of 1,448 at 23 a second at most.
    let ((fast, _), (slow, _)) = (time(&fast), time(&experiment));
    assert!(slow > fast + 2.0, "{slow} {fast}");
}
