// SPDX-License-Identifier: Apache-2.0
//! Stall and transfer time by length of outage, sender and remedy:
//!
//! ```text
//! cargo bench -p holdfast --bench outages -- --lines FILE --repetitions 5 --parallel 6
//! ```
//!
//! JSON lines go to FILE, the table of medians (stall, transfer time) to the
//! standard output. Root, nginx, curl, haproxy.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use clap::Parser;
use holdfast_lab::outage_matrix::{MatrixSettings, Remedy, markdown, run};
use holdfast_link::OutageEffect;
use holdfast_testbed::stop::StopFlag;

/// The matrix to be measured.
#[derive(Parser)]
struct Args {
    /// Lengths of the outage in seconds
    #[arg(long, value_delimiter = ',', default_value = "1,3,7,15")]
    outages: Vec<f64>,
    /// The senders
    #[arg(long, value_delimiter = ',', default_value = "cubic,reno,bbr")]
    congestion_controls: Vec<String>,
    /// The remedies
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "plain,hold,mtcp-plus,haproxy,tcp_rto_max_ms=1000"
    )]
    remedies: Vec<String>,
    /// What outages do to packets
    #[arg(long, value_delimiter = ',', default_value = "lose,keep")]
    effects: Vec<String>,
    /// Repetitions of each
    #[arg(long, default_value_t = 5)]
    repetitions: u64,
    /// Transfers at the same time
    #[arg(long, default_value_t = 6)]
    parallel: usize,
    /// Length of the file in bytes
    #[arg(long, default_value_t = 10_000_000)]
    bytes: u64,
    /// Without the mobile's daemon
    #[arg(long)]
    no_mobile: bool,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File for the JSON lines
    #[arg(long, default_value = "target/outages.jsonl")]
    lines: PathBuf,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let remedy = |name: &String| {
        Remedy::ALL
            .into_iter()
            .find(|remedy| remedy.name() == name)
            .ok_or_else(|| anyhow::anyhow!("--remedies: there is no {name}"))
    };
    let effect = |name: &String| match name.as_str() {
        "lose" => Ok(OutageEffect::Lose),
        "keep" => Ok(OutageEffect::Keep),
        _ => Err(anyhow::anyhow!(
            "--effects: got {name}, takes lose and keep"
        )),
    };
    let settings = MatrixSettings {
        holdfast: env!("CARGO_BIN_EXE_holdfast").into(),
        outages_s: args.outages,
        congestion_controls: args.congestion_controls,
        remedies: args.remedies.iter().map(remedy).collect::<Result<_, _>>()?,
        effects: args.effects.iter().map(effect).collect::<Result<_, _>>()?,
        repetitions: args.repetitions,
        parallel: args.parallel,
        mobile_signals: !args.no_mobile,
        bytes: args.bytes,
        seed: args.seed,
    };
    let lines = BufWriter::new(File::create(&args.lines)?);
    let measured = run(&settings, lines, &StopFlag::on_signals()?)?;
    print!("{}", markdown(&settings, &measured));
    Ok(())
}
