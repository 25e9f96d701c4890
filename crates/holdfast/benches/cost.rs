// SPDX-License-Identifier: Apache-2.0
//! Throughput through the gateway divided by the kernel's forwarding, and the
//! latency of a one-byte request and response, by turns:
//!
//! ```text
//! cargo bench -p holdfast --bench cost -- --pairs 20
//! ```
//!
//! Root; nothing else should run.

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use holdfast_lab::stop::StopFlag;
use holdfast_lab::throughput::{CostSettings, run};

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
    };
    let cost = run(
        Path::new(env!("CARGO_BIN_EXE_holdfast")),
        &settings,
        &StopFlag::on_signals()?,
    )?;
    println!("{}", serde_json::to_string(&cost)?);
    println!(
        "throughput through the gateway / plain: {:.2} (median of {} pairs)
1-byte request-response: plain {:.0} us (p99 {:.0}), gateway {:.0} us (p99 {:.0}); added {:.0} us (p99 {:.0})",
        cost.ratio_median,
        cost.mbit_per_s.len(),
        cost.plain_median_us,
        cost.plain_p99_us,
        cost.gateway_median_us,
        cost.gateway_p99_us,
        cost.gateway_median_us - cost.plain_median_us,
        cost.gateway_p99_us - cost.plain_p99_us,
    );
    Ok(())
}
