// SPDX-License-Identifier: Apache-2.0
//! What `wake` costs where there is no outage, on real namespaces of the running kernel: downloads
//! and requests in alternating pairs, with it and without.
//!
//! ```text
//! cargo bench -p holdfast --bench wake                              about two minutes
//! cargo bench -p holdfast --bench wake -- --long                    an hour: 20 pairs, all senders and paths
//! ```
//!
//! A pair has the same seed: the same numbers are drawn for losses, packet by packet, until the two
//! differ in a packet. Which of the two runs first turns. Of goodput the pairs' ratios count, of
//! latency the pairs' differences at p99, each with the interval that holds their median with 95% by
//! their order alone. A row holds, does not (the exit status is then not 0), or has too few pairs. A row in
//! which no ACK was withheld is marked: it shows nothing. Wall clock, namespaces, root: another load on
//! the machine is in the figures. The same in virtual time, without that: `docs/scenarios/wake-cost.toml`
//! and `wake-requests.toml`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Parser;
use holdfast_lab::results::ResultLine;
use holdfast_lab::scenario::Scenario;
use holdfast_lab::statistics::{median, median_with_interval};
use holdfast_lab::substrate::{ExecutionSettings, Substrate, SubstrateKind};
use holdfast_testbed::stop::StopFlag;

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

/// The least that goodput with `wake` may be of that without.
const RATIO_MIN: f64 = 0.99;
/// The most that it may add to the latency at p99, in milliseconds: what the wall clock blurs.
const P99_MORE_MAX_MS: f64 = 1.0;

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
        rate_mbit_per_s: 200,
        delay_ms: 9,
        loss: 0.00005,
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
        loss: 0.00005,
    },
];
/// Of them, those that are measured without `--long`.
const LINKS_SHORT: usize = 2;
/// For requests: no loss, so that what `wake` does is all that differs; long answers fill its queue.
const LINK_OF_REQUESTS: Link = Link {
    name: "requests",
    rate_mbit_per_s: 20,
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

/// Does runs, one with `wake` and one without.
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

/// What a row shows of its goal.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Holds,
    HoldsNot,
    TooFewPairs,
    NothingWithheld,
}

impl Verdict {
    /// Of an interval that is to be at `least` or above.
    fn at_least(least: f64, interval: Option<[f64; 2]>, withheld: u64) -> Self {
        match interval {
            _ if withheld == 0 => Self::NothingWithheld,
            Some([low, _]) if low >= least => Self::Holds,
            Some([_, high]) if high < least => Self::HoldsNot,
            _ => Self::TooFewPairs,
        }
    }

    const fn shown(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsNot => "DOES NOT HOLD",
            Self::TooFewPairs => "too few pairs",
            Self::NothingWithheld => "nothing was withheld",
        }
    }
}

/// All lines without `wake` (0) or with it (1).
fn side(pairs: &[Pair], which: usize) -> Vec<&ResultLine> {
    pairs.iter().map(|pair| &pair[which]).collect()
}

fn probes(lines: &[&ResultLine]) -> u64 {
    let each = lines.iter().filter_map(|line| line.sender_timers);
    each.map(|timers| timers.loss_probes).sum()
}

/// ACKs that left with a lower number than the MH's own.
fn withheld(lines: &[&ResultLine]) -> u64 {
    let counters = lines.iter().filter_map(|line| line.mobile.as_ref());
    counters
        .filter_map(|counters| counters.get("path.withheld"))
        .sum()
}

fn median_of(lines: &[&ResultLine], figure: impl Fn(&ResultLine) -> f64) -> f64 {
    median(lines.iter().map(|line| figure(line)).collect()).unwrap_or(f64::NAN)
}

/// A median with its interval, if there are pairs enough for one.
fn shown_with(median: f64, interval: Option<[f64; 2]>, digits: usize) -> String {
    match interval {
        Some([low, high]) => format!("{median:.digits$} [{low:.digits$}, {high:.digits$}]"),
        None => format!("{median:.digits$}"),
    }
}

fn p99_ms(line: &ResultLine) -> f64 {
    let latency = line.latency.as_ref();
    latency.map_or(f64::NAN, |latency| latency.p99_ms)
}

/// Prints the table of downloads; whether no row misses its goal.
fn downloads(
    bench: &Bench,
    links: &[Link],
    senders: &[String],
    pairs: u64,
) -> anyhow::Result<bool> {
    println!(
        "| path | sender | none, Mb/s | wake, Mb/s | wake / none, median [95%] | probes | withheld | at least {RATIO_MIN} |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut holds = true;
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
            let [none, wake] = [0, 1].map(|which| side(&all, which));
            let ratios = all
                .iter()
                .map(|[none, wake]| wake.goodput_mbps / none.goodput_mbps);
            let (ratio, interval) = median_with_interval(ratios.collect()).context("no pairs")?;
            let verdict = Verdict::at_least(RATIO_MIN, interval, withheld(&wake));
            holds &= verdict != Verdict::HoldsNot;
            println!(
                "| {} | {sender} | {:.2} | {:.2} | {} | {} and {} | {} | {} |",
                link.name,
                median_of(&none, |line| line.goodput_mbps),
                median_of(&wake, |line| line.goodput_mbps),
                shown_with(ratio, interval, 4),
                probes(&none),
                probes(&wake),
                withheld(&wake),
                verdict.shown(),
            );
        }
    }
    Ok(holds)
}

/// Prints the table of requests; whether no row misses its goal.
fn requests(bench: &Bench, senders: &[String], pairs: u64, long: bool) -> anyhow::Result<bool> {
    println!(
        "\n| answer | pause | sender | none: p50, p99 | wake: p50, p99 | p99 more, median [95%] | probes | withheld | at most {P99_MORE_MAX_MS} ms more |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    // Bytes and how many.
    let answers: &[(u64, u64)] = if long {
        &[(10_000, 2_000), (100_000, 2_000), (1_000_000, 100)]
    } else {
        &[(10_000, 200), (200_000, 50)]
    };
    let pauses: &[u32] = if long { &[0, 50] } else { &[0] };
    let mut holds = true;
    for &(answer, count) in answers {
        for &think_ms in pauses {
            let load = Load {
                bytes: answer * count,
                requests: count,
                think_ms,
            };
            for sender in senders {
                let all: Vec<Pair> = (1..=pairs)
                    .map(|seed| bench.pair(&LINK_OF_REQUESTS, sender, load, seed))
                    .collect::<anyhow::Result<_>>()?;
                let [none, wake] = [0, 1].map(|which| side(&all, which));
                let shown = |lines: &[&ResultLine]| {
                    let p50 = |line: &ResultLine| {
                        line.latency
                            .as_ref()
                            .map_or(f64::NAN, |latency| latency.p50_ms)
                    };
                    format!(
                        "{:.1}, {:.1} ms",
                        median_of(lines, p50),
                        median_of(lines, p99_ms)
                    )
                };
                let less = all.iter().map(|[none, wake]| p99_ms(none) - p99_ms(wake));
                let (less, interval) = median_with_interval(less.collect()).context("no pairs")?;
                let verdict = Verdict::at_least(-P99_MORE_MAX_MS, interval, withheld(&wake));
                holds &= verdict != Verdict::HoldsNot;
                println!(
                    "| {} KB | {think_ms} ms | {sender} | {} | {} | {} ms | {} and {} | {} | {} |",
                    answer / 1_000,
                    shown(&none),
                    shown(&wake),
                    shown_with(-less, interval.map(|[low, high]| [-high, -low]), 2),
                    probes(&none),
                    probes(&wake),
                    withheld(&wake),
                    verdict.shown(),
                );
            }
        }
    }
    Ok(holds)
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
    let loads_hold = downloads(&bench, links, &senders, pairs)?;
    let requests_hold = requests(&bench, &senders, (pairs / 3).max(1), args.long)?;
    if !(loads_hold && requests_hold) {
        bail!("a goal is missed");
    }
    Ok(())
}
