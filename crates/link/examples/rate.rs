// SPDX-License-Identifier: Apache-2.0
//! Prints the rate that a scenario's `rate_model` draws, as a trace.
//!
//!     cargo run -p holdfast-link --example rate -- docs/scenarios/real-train.toml 1 > train.rate
//!
//! The numbers: the run's seed. The downlink's rate, `t_end_s mbit_per_s` a line, for 600 s.

use holdfast_link::RateModel;
use serde::Deserialize;

#[derive(Deserialize)]
struct Scenario {
    wireless: Wireless,
}

#[derive(Deserialize)]
struct Wireless {
    rate_model: RateModel,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [file, seed] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("takes a scenario's file and a seed".into());
    };
    let scenario: Scenario = toml::from_str(&std::fs::read_to_string(file)?)?;
    let mut model = scenario.wireless.rate_model;
    model.seed_from(seed.parse()?, 1);
    print!("{}", model.trace()?.steps_text());
    Ok(())
}
