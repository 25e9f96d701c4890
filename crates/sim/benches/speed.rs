// SPDX-License-Identifier: Apache-2.0
//! How much faster than real time the simulator is: one transfer at 20 Mb/s over two
//! links, NewReno, length-only payload, and the same with the gateway in between.
//!
//! ```text
//! cargo bench -p holdfast-sim --bench speed
//! ```
//!
//! Prints the virtual time of the transfer, the wall time and their ratio; the median of
//! five runs. The exit status is not 0 below 500 times real time.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures wall time"
)]

use std::process::ExitCode;
use std::time::Instant as Wall;

use holdfast_core::Settings;
use holdfast_link::LinkSettings;
use holdfast_sim::{Experiment, GatewayPlan, Hop, Preset, Transfer};
use holdfast_wire::Duration;

const BYTES: u64 = 100_000_000;
const RATIO_MIN: f64 = 500.0;
const RUNS: usize = 5;

fn experiment(gateway: bool) -> Experiment {
    let wired = LinkSettings {
        rate_mbit_per_s: Some(100.0),
        delay_ms: 10.0,
        ..LinkSettings::default()
    };
    let radio = LinkSettings {
        rate_mbit_per_s: Some(20.0),
        delay_ms: 15.0,
        queue_packets_max: Some(100),
        ..LinkSettings::default()
    };
    let hop = |settings| Hop::both_ways(settings).expect("settings within range");
    let mut experiment = Experiment::new(1, Duration::from_secs(1000));
    experiment.hops = vec![hop(&wired), hop(&radio)];
    experiment.transfers = vec![Transfer::download(BYTES, Preset::NewReno.settings())];
    if gateway {
        let plan = GatewayPlan::before_last(Settings::default(), &experiment.hops);
        experiment.gateway = Some(plan);
    }
    experiment
}

fn ratio(name: &str, experiment: &Experiment) -> f64 {
    let mut walls = Vec::new();
    let mut virtual_s = 0.0;
    let mut events = 0;
    for _ in 0..RUNS {
        let start = Wall::now();
        let outcome = experiment.run();
        walls.push(start.elapsed().as_secs_f64());
        assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
        virtual_s = outcome.ended_at.as_secs_f64();
        events = outcome.events;
    }
    walls.sort_by(f64::total_cmp);
    let wall = walls[RUNS / 2];
    let ratio = virtual_s / wall;
    println!(
        "{name:8} virtual {virtual_s:7.2} s  wall {wall:6.4} s  {ratio:6.0} times real time  {events} events"
    );
    ratio
}

fn main() -> ExitCode {
    let plain = ratio("plain", &experiment(false));
    ratio("gateway", &experiment(true));
    if plain < RATIO_MIN {
        eprintln!("speed: {plain:.0} times real time, at least {RATIO_MIN} wanted");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
