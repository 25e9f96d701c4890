// SPDX-License-Identifier: Apache-2.0
//! What `wake` costs where there is no outage, on real namespaces of the running kernel: downloads
//! and requests in alternating pairs, with it and without.
//!
//! ```text
//! cargo bench -p holdfast --bench wake                              about two minutes
//! cargo bench -p holdfast --bench wake -- --long                    an hour: 20 pairs, all senders and paths
//! ```
//!
//! A pair has the same seed, and so the same losses by time; which of the two runs first turns. Of
//! goodput the median of the pairs' ratios counts, with the interval that holds it with 95% by the
//! order of the ratios alone; of latency the requests of all runs. Wall clock, namespaces, root:
//! another load on the machine is in the figures. The same in virtual time, without that:
//! `docs/scenarios/wake-cost.toml` and `wake-requests.toml`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Parser;
use holdfast_lab::outage_matrix::median;
use holdfast_lab::results::ResultLine;
use holdfast_lab::scenario::Scenario;
use holdfast_lab::stop::StopFlag;
use holdfast_lab::substrate::{ExecutionSettings, Substrate, SubstrateKind};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

/// What is to be measured.
#[derive(Parser)]
struct Args {
    /// Pairs of downloads; a third of it, one at least, of requests
    #[arg(long)]
    pairs: Option<u64>,
    /// The senders
    #[arg(long, value_delimiter = ',')]
    senders: Vec<String>,
    /// Everything: 20 pairs, three senders, four paths, 2,000 requests a run
    #[arg(long)]
    long: bool,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// A link, as a scenario has it.
struct Link {
    name: &'static str,
    rate_mbit_per_s: u32,
    delay_ms: u32,
    loss: f64,
}

/// The link is the limit, or random losses keep the congestion window below what it takes.
const LINKS: [Link; 4] = [
    Link {
        name: "queue, 20 ms",
        rate_mbit_per_s: 20,
        delay_ms: 9,
        loss: 0.0001,
    },
    Link {
        name: "window, 20 ms",
        rate_mbit_per_s: 100,
        delay_ms: 9,
        loss: 0.001,
    },
    Link {
        name: "queue, 100 ms",
        rate_mbit_per_s: 20,
        delay_ms: 49,
        loss: 0.0001,
    },
    Link {
        name: "window, 100 ms",
        rate_mbit_per_s: 100,
        delay_ms: 49,
        loss: 0.001,
    },
];
/// Of them, those that are measured without `--long`.
const LINKS_SHORT: usize = 2;
/// For requests: no loss, so that what `wake` does is all that differs.
const LINK_OF_REQUESTS: Link = Link {
    name: "requests",
    rate_mbit_per_s: 50,
    delay_ms: 9,
    loss: 0.0,
};

/// What is sent, as a scenario's `[transfer]` has it.
#[derive(Clone, Copy)]
struct Load {
    bytes: u64,
    /// 0: a download.
    requests: u64,
    think_ms: u32,
}

/// Carries out runs, one with `wake` and one without.
struct Bench {
    substrate: Substrate,
    stop: StopFlag,
}

/// The lines of pairs: without and with.
type Pair = [ResultLine; 2];

impl Bench {
    fn pair(&self, link: &Link, sender: &str, load: Load, seed: u64) -> anyhow::Result<Pair> {
        let mut schemes = ["none", "wake"];
        // Neither of them is always the one that finds the caches warm.
        if !seed.is_multiple_of(2) {
            schemes.reverse();
        }
        let mut lines = Vec::new();
        for scheme in schemes {
            let line = self.run(link, sender, load, scheme, seed)?;
            ensure!(
                line.finished && line.intact,
                "{} {sender} {scheme}: a transfer did not come whole",
                link.name
            );
            lines.push(line);
        }
        if !seed.is_multiple_of(2) {
            lines.reverse();
        }
        lines.try_into().ok().context("a pair is two")
    }

    fn run(
        &self,
        link: &Link,
        sender: &str,
        load: Load,
        scheme: &str,
        seed: u64,
    ) -> anyhow::Result<ResultLine> {
        let requests = match load.requests {
            0 => String::new(),
            count => format!(
                "requests = {count}\nrequest_bytes = 200\nthink_ms = {}\n",
                load.think_ms
            ),
        };
        let text = format!(
            "[transfer]\nbytes = {}\nlimit_s = 600\n{requests}\
             [wired]\nrate_mbit_per_s = 1000\ndelay_ms = 1\n\
             [wireless]\nrate_mbit_per_s = {}\ndelay_ms = {}\nloss = {}\nqueue_packets_max = 200\n\
             [hosts]\ncongestion_control = \"{sender}\"\n[mobile]\nscheme = \"{scheme}\"\n",
            load.bytes, link.rate_mbit_per_s, link.delay_ms, link.loss
        );
        let scenario = Scenario::parse(Path::new("bench/wake.toml"), &text)?;
        let runs = scenario.runs(Some(seed))?;
        let run = runs.first().context("a scenario without a run")?;
        self.substrate.execute(run, &self.stop)
    }
}

/// The median with the interval that holds the true one with 95%: so many of the values on
/// either side of it are left out as chance leaves there. Few values have no such interval: then
/// it is all of them.
fn median_with_interval(mut values: Vec<f64>) -> Option<(f64, [f64; 2])> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let mut left_out = 0;
    // The probability of `left_out` or fewer heads in `count` throws.
    let mut term = 0.5f64.powi(count as i32);
    let mut sum = term;
    loop {
        term *= (count - left_out) as f64 / (left_out + 1) as f64;
        sum += term;
        if sum > 0.025 {
            break;
        }
        left_out += 1;
    }
    let interval = [*values.get(left_out)?, *values.get(count - 1 - left_out)?];
    Some((median(values)?, interval))
}

fn probes(lines: &[&ResultLine]) -> u64 {
    let each = lines.iter().filter_map(|line| line.sender_timers);
    each.map(|timers| timers.loss_probes).sum()
}

fn downloads(bench: &Bench, links: &[Link], senders: &[String], pairs: u64) -> anyhow::Result<()> {
    println!("| path | sender | none, Mb/s | wake, Mb/s | wake / none, median [95%] | probes |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for link in links {
        let load = Load {
            bytes: 5_000_000 * u64::from(link.rate_mbit_per_s / 50 + 1),
            requests: 0,
            think_ms: 0,
        };
        for sender in senders {
            let all: Vec<Pair> = (1..=pairs)
                .map(|seed| bench.pair(link, sender, load, seed))
                .collect::<anyhow::Result<_>>()?;
            let of = |which: usize| -> Vec<&ResultLine> { all.iter().map(|p| &p[which]).collect() };
            let goodput = |which: usize| {
                let all = of(which).into_iter().map(|line| line.goodput_mbps);
                median(all.collect()).unwrap_or(f64::NAN)
            };
            let ratios = all
                .iter()
                .map(|[none, wake]| wake.goodput_mbps / none.goodput_mbps);
            let (ratio, [low, high]) =
                median_with_interval(ratios.collect()).context("no pairs")?;
            println!(
                "| {} | {sender} | {:.2} | {:.2} | {ratio:.4} [{low:.4}, {high:.4}] | {} and {} |",
                link.name,
                goodput(0),
                goodput(1),
                probes(&of(0)),
                probes(&of(1)),
            );
        }
    }
    Ok(())
}

fn requests(bench: &Bench, senders: &[String], runs: u64, long: bool) -> anyhow::Result<()> {
    println!("\n| answer | pause | sender | none: p50, p99 | wake: p50, p99 | probes |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let answers: &[u64] = if long {
        &[1_000, 10_000, 100_000]
    } else {
        &[10_000, 100_000]
    };
    let pauses: &[u32] = if long { &[0, 50] } else { &[0] };
    let count = if long { 2_000 } else { 200 };
    for &answer in answers {
        for &think_ms in pauses {
            let load = Load {
                bytes: answer * count,
                requests: count,
                think_ms,
            };
            for sender in senders {
                let all: Vec<Pair> = (1..=runs)
                    .map(|seed| bench.pair(&LINK_OF_REQUESTS, sender, load, seed))
                    .collect::<anyhow::Result<_>>()?;
                // Medians of the runs' quantiles.
                let shown = |which: usize| {
                    let of = |quantile: fn(&holdfast_lab::results::Latency) -> f64| {
                        let each = all.iter().filter_map(|p| p[which].latency.as_ref());
                        median(each.map(quantile).collect()).unwrap_or(f64::NAN)
                    };
                    format!("{:.1}, {:.1} ms", of(|l| l.p50_ms), of(|l| l.p99_ms))
                };
                let of =
                    |which: usize| -> Vec<&ResultLine> { all.iter().map(|p| &p[which]).collect() };
                println!(
                    "| {} KB | {think_ms} ms | {sender} | {} | {} | {} and {} |",
                    answer / 1_000,
                    shown(0),
                    shown(1),
                    probes(&of(0)),
                    probes(&of(1)),
                );
            }
        }
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let settings = ExecutionSettings {
        holdfast: PathBuf::from(HOLDFAST),
        label: None,
        pcap: None,
    };
    let bench = Bench {
        substrate: Substrate::new(SubstrateKind::Live, settings)?,
        stop: StopFlag::on_signals()?,
    };
    let all = ["cubic", "reno", "bbr"].map(str::to_owned);
    let senders = match (args.senders.is_empty(), args.long) {
        (false, _) => args.senders,
        (true, true) => all.to_vec(),
        (true, false) => all[..1].to_vec(),
    };
    let pairs = args.pairs.unwrap_or(if args.long { 20 } else { 6 }).max(1);
    let links = if args.long {
        &LINKS[..]
    } else {
        &LINKS[..LINKS_SHORT]
    };
    downloads(&bench, links, &senders, pairs)?;
    requests(&bench, &senders, (pairs / 3).max(1), args.long)
}
