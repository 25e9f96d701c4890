// SPDX-License-Identifier: Apache-2.0
//! Shows how exact `holdfast link` is: `cargo bench -p holdfast-lab --bench link
//! -- PROGRAM [--json FILE] [--rate MBIT_PER_S] [--delay MS] [--seconds S]
//! [--runs N]`. PROGRAM is the `holdfast` binary. Ends with status 1 if an error
//! is above what is promised at 100 Mb/s (rate 1%, delay 1 ms).

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use holdfast_lab::link_accuracy::{LinkAccuracyOptions, run};

struct Arguments {
    options: LinkAccuracyOptions,
    json: Option<PathBuf>,
}

fn parse(arguments: impl Iterator<Item = String>) -> anyhow::Result<Arguments> {
    // Cargo adds --bench by itself.
    let mut arguments = arguments.filter(|argument| argument != "--bench");
    let program = arguments
        .next()
        .context("takes the holdfast program as its first argument")?;
    let mut options = LinkAccuracyOptions {
        program: program.into(),
        rate_mbit_per_s: 100.0,
        delay_ms: 25.0,
        seconds: 3.0,
        runs: 5,
    };
    let mut json = None;
    while let Some(flag) = arguments.next() {
        let value = arguments
            .next()
            .with_context(|| format!("{flag}: takes a value"))?;
        let number = || {
            value
                .parse()
                .map_err(|_| anyhow!("{flag}: got `{value}`, takes a number"))
        };
        match flag.as_str() {
            "--json" => json = Some(value.into()),
            "--rate" => options.rate_mbit_per_s = number()?,
            "--delay" => options.delay_ms = number()?,
            "--seconds" => options.seconds = number()?,
            "--runs" => options.runs = number()? as usize,
            _ => bail!("{flag}: unknown; takes --json, --rate, --delay, --seconds, --runs"),
        }
    }
    Ok(Arguments { options, json })
}

fn main() -> anyhow::Result<ExitCode> {
    let Arguments { options, json } = parse(std::env::args().skip(1))?;
    let report = run(&options)?;
    println!(
        "holdfast link at {} Mb/s, {} ms, {} runs",
        options.rate_mbit_per_s, options.delay_ms, options.runs
    );
    println!("{}", report.table());
    if let Some(path) = json {
        std::fs::write(&path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("--json: {} cannot be written", path.display()))?;
    }
    Ok(if report.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
