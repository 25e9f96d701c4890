// SPDX-License-Identifier: Apache-2.0
//! Hostile input for everything that reads from the network: no panic, no timer that runs hot, no
//! limit exceeded, and nothing sent that may not be sent.
//!
//! ```text
//! cargo run --profile fuzz -p holdfast-core --example hostile_input -- [OPTION...]
//!
//!   --scheme NAME   a scheme: hold, mtcp-plus, mtcp, mtcp-early, mtcp-zip, mtcp2007, snoop,
//!                   snoop95; or a parser: signals, stations, payloads; or all (the default)
//!   --seconds N     for all that is chosen together; 60 unless set
//!   --inputs N      the number of inputs for each, instead of a time
//!   --seed N        from the clock unless set
//!   --json          the table as JSON
//! ```
//!
//! The engine gets frames of many flows between two TCP ends: most are right, some lie, some are
//! damaged. Link events, "packet too big" and restarts come between them. What it answers is
//! turned into frames as the daemon does it, and checked (`checks`). The same seed gives the same
//! inputs on every machine: what a panic prints replays it.

#![allow(missing_docs, reason = "a program")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it runs for a time, and measures it"
)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

mod checks;
mod dice;
mod engine;
mod messages;
mod options;
mod packet;
mod summary;
mod traffic;

use engine::Engine;
use messages::{Payloads, Signals, Stations};
use options::{Limit, Options};
use summary::Row;

/// All that can be chosen: schemes, then parsers.
const TARGETS: [&str; 11] = [
    "hold",
    "mtcp-plus",
    "mtcp",
    "mtcp-early",
    "mtcp-zip",
    "mtcp2007",
    "snoop",
    "snoop95",
    "signals",
    "stations",
    "payloads",
];

/// The clock is read once in this many inputs.
const CLOCK_EVERY: u64 = 256;

/// What a target has counted.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    inputs: u64,
    /// Those that were read as a segment or a message.
    parsed: u64,
    actions: u64,
    /// Actions after one input.
    actions_most: u64,
    flows: u64,
    /// Pieces and ACKs of honest flows, which were compared exactly.
    exact: u64,
    /// Compressed segments that the MH's side restored exactly.
    restored: u64,
}

enum Target {
    Engine(Box<Engine>),
    Signals(Box<Signals>),
    Stations(Box<Stations>),
    Payloads(Box<Payloads>),
}

impl Target {
    fn new(name: &str, seed: u64) -> Self {
        match name {
            "signals" => Self::Signals(Box::new(Signals::new(seed))),
            "stations" => Self::Stations(Box::new(Stations::new(seed))),
            "payloads" => Self::Payloads(Box::new(Payloads::new(seed))),
            scheme => Self::Engine(Box::new(Engine::new(scheme, seed))),
        }
    }

    fn step(&mut self) {
        match self {
            Self::Engine(target) => target.step(),
            Self::Signals(target) => target.step(),
            Self::Stations(target) => target.step(),
            Self::Payloads(target) => target.step(),
        }
    }

    fn totals(&self) -> Totals {
        match self {
            Self::Engine(target) => target.totals,
            Self::Signals(target) => target.totals,
            Self::Stations(target) => target.totals,
            Self::Payloads(target) => target.totals,
        }
    }

    /// The bytes of the last input.
    fn last(&self) -> &[u8] {
        match self {
            Self::Engine(target) => &target.last,
            Self::Signals(target) => &target.last,
            Self::Stations(target) => &target.last,
            Self::Payloads(target) => &target.last,
        }
    }
}

/// Runs a target until its limit. None: it has panicked.
fn run(name: &'static str, seed: u64, limit: Limit) -> Option<Row> {
    let mut target = Target::new(name, seed);
    let (begun, mut number, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut before = begun;
        loop {
            match limit {
                Limit::Inputs(inputs) if number >= inputs => break,
                Limit::Time(time) if number % CLOCK_EVERY == 0 && before - begun >= time => break,
                _ => {}
            }
            number += 1;
            target.step();
            let after = Instant::now();
            slowest = slowest.max(after - before);
            before = after;
        }
    }));
    if outcome.is_err() {
        let mut bytes = String::new();
        for byte in target.last() {
            write!(bytes, "{byte:02x}").expect("a string");
        }
        eprintln!("\n{name}, seed {seed}: input {number} was {bytes}");
        eprintln!(
            "replay: cargo run --profile fuzz -p holdfast-core --example hostile_input -- \
             --scheme {name} --seed {seed} --inputs {number}"
        );
        return None;
    }
    let took = begun.elapsed();
    Some(Row::new(name, target.totals(), took, slowest))
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(64);
        }
    };
    if options.help {
        println!("{}", options::HELP);
        return ExitCode::SUCCESS;
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = options
        .seed
        .unwrap_or_else(|| clock.map_or(0, |time| time.as_millis() as u64));
    eprintln!("seed {seed}");
    let chosen: Vec<_> = TARGETS
        .into_iter()
        .filter(|name| options.scheme == "all" || options.scheme == *name)
        .collect();
    let limit = match options.limit {
        Limit::Time(time) => Limit::Time(time / chosen.len().max(1) as u32),
        inputs @ Limit::Inputs(_) => inputs,
    };
    let (mut rows, mut panics) = (Vec::new(), 0);
    for (index, name) in chosen.iter().enumerate() {
        eprint!("\r{} of {}: {name}          ", index + 1, chosen.len());
        let _ = std::io::stderr().flush();
        match run(name, seed, limit) {
            Some(row) => rows.push(row),
            None => panics += 1,
        }
    }
    eprintln!("\r{:40}\r", "");
    if options.json {
        println!("{}", summary::json(seed, &rows, panics));
    } else {
        print!("{}", summary::table(&rows));
        println!("{panics} panics");
    }
    if panics == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
