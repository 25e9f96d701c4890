// SPDX-License-Identifier: Apache-2.0
//! Throughput either way and connections a second through the gateway divided by the
//! kernel's forwarding, and the latency of a one-byte request and response, by turns:
//!
//! ```text
//! cargo bench -p holdfast --bench cost -- --pairs 20
//! ```
//!
//! Root; nothing else should run.

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use holdfast_lab::throughput::{CostSettings, run};
use holdfast_testbed::stop::StopFlag;

/// What is to be measured.
#[derive(Parser)]
struct Args {
    /// The scheme
    #[arg(long, default_value = "hold")]
    scheme: String,
    /// Pairs of measurements, plain and through the gateway
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Length of one throughput measurement in milliseconds
    #[arg(long, default_value_t = 1000)]
    each_ms: u64,
    /// Requests of one latency measurement
    #[arg(long, default_value_t = 2000)]
    requests: usize,
    /// Connections of one measurement of their rate
    #[arg(long, default_value_t = 500)]
    connections: usize,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let settings = CostSettings {
        scheme: args.scheme,
        pairs: args.pairs,
        each: Duration::from_millis(args.each_ms),
        requests: args.requests,
        connections: args.connections,
    };
    let cost = run(
        Path::new(env!("CARGO_BIN_EXE_holdfast")),
        &settings,
        &StopFlag::on_signals()?,
    )?;
    println!("{}", serde_json::to_string(&cost)?);
    for (what, unit, pairs) in [
        (
            "throughput of one flow, downlink",
            "Mb/s",
            &cost.downlink_mbit_per_s,
        ),
        (
            "throughput of one flow, uplink",
            "Mb/s",
            &cost.uplink_mbit_per_s,
        ),
        (
            "connections, one at a time",
            "a second",
            &cost.connections_per_s,
        ),
    ] {
        println!(
            "{what}: plain {:.0}, gateway {:.0} {unit}; gateway / plain {:.2} (medians of {} pairs)",
            pairs.plain_median,
            pairs.gateway_median,
            pairs.ratio_median,
            pairs.plain_and_gateway.len(),
        );
    }
    println!(
        "1-byte request-response: plain {:.0} us (p99 {:.0}), gateway {:.0} us (p99 {:.0}); \
         added {:.0} us (p99 {:.0})",
        cost.plain_median_us,
        cost.plain_p99_us,
        cost.gateway_median_us,
        cost.gateway_p99_us,
        cost.gateway_median_us - cost.plain_median_us,
        cost.gateway_p99_us - cost.plain_p99_us,
    );
    Ok(())
}
