// SPDX-License-Identifier: Apache-2.0
//! How much faster than real time the simulator is: one transfer of 100 MB at 20 Mb/s over
//! two links, NewReno, length-only payload; the same in ns-3, by turns; the same with the
//! gateway in between; and many seeds on one thread and on two.
//!
//! ```text
//! cargo bench -p holdfast-sim --bench speed
//! ```
//!
//! Prints virtual time, wall time and their ratio, medians of five runs. ns-3 is left out,
//! with a line with the reason, where its library is not installed. The exit status is not 0
//! below 500 times real time.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it measures wall time"
)]

mod cores;
mod ns3;

use std::process::ExitCode;
use std::time::Instant as Wall;

use holdfast_core::Settings;
use holdfast_link::OutageSettings;
use holdfast_sim::tcp::settings::WindowIncrease;
use holdfast_sim::{Experiment, GatewayPlan, Preset, TcpSettings};

const BYTES: u64 = 100_000_000;
const RATIO_MIN: f64 = 500.0;
const RUNS: usize = 5;

/// One simulation of the flow.
#[derive(Clone, Copy, Debug)]
struct Run {
    virtual_s: f64,
    wall_s: f64,
    events: u64,
}

fn experiment() -> Experiment {
    // In avoidance ns-3 grows the window by RFC 5681's equation 3.
    let tcp = TcpSettings {
        increase: WindowIncrease::PerAck,
        ..Preset::NewReno.settings()
    };
    Experiment::reference(BYTES, tcp, OutageSettings::None).expect("settings within range")
}

fn simulate(experiment: &Experiment) -> Run {
    let start = Wall::now();
    let outcome = experiment.run();
    let wall_s = start.elapsed().as_secs_f64();
    assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
    Run {
        virtual_s: outcome.ended_at.as_secs_f64(),
        wall_s,
        events: outcome.events,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints the runs' line; gives virtual by wall seconds.
fn report(name: &str, runs: &[Run]) -> f64 {
    let wall_s = median(runs.iter().map(|run| run.wall_s).collect());
    let Run {
        virtual_s, events, ..
    } = runs[0];
    let ratio = virtual_s / wall_s;
    let goodput_mbit_per_s = BYTES as f64 * 8e-6 / virtual_s;
    println!(
        "{name:14} transfer {virtual_s:7.3} s  goodput {goodput_mbit_per_s:6.3} Mb/s  \
         wall {wall_s:6.4} s  {ratio:6.0} times real time  {events} events"
    );
    ratio
}

fn main() -> ExitCode {
    let plain = experiment();
    let other = ns3::Flow::compile();
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        own.push(simulate(&plain));
        if let Ok(flow) = &other {
            match flow.run(BYTES) {
                Ok(run) => others.push(run),
                Err(problem) => {
                    eprintln!("speed: {problem}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    let ratio = report("plain", &own);
    match &other {
        Ok(flow) => {
            let theirs = report(&format!("ns-3 {}", flow.version), &others);
            println!("{:14} {:.1} times as fast as ns-3", "", ratio / theirs);
        }
        Err(missing) => println!("ns-3           not compared: {missing}"),
    }
    let mut gateway = plain.clone();
    gateway.gateway = Some(GatewayPlan::before_last(Settings::default(), &gateway.hops));
    let runs: Vec<_> = (0..RUNS).map(|_| simulate(&gateway)).collect();
    report("gateway", &runs);
    cores::report(&plain);
    if ratio < RATIO_MIN {
        eprintln!("speed: {ratio:.0} times real time, at least {RATIO_MIN} wanted");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
