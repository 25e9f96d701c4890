// SPDX-License-Identifier: Apache-2.0
//! How good the warnings of `link_prediction` are on recorded signals.
//!
//! ```text
//! cargo run --release -p holdfast-core --example signal_prediction -- [OPTION...] FILE...
//! ```
//!
//! A file is a CSV with a header. The level is taken from the first column that is called `dbm`,
//! `RSRP` or `rssi` (a positive one is one whose sign was lost); the rate from `mbit_s` or from
//! `DL_bitrate` (kbit/s); the time from `t_s` or `Timestamp` (`2019.12.16_14.23.32`), and is a
//! second a row without them. Rows that lack one of them are left out.
//!
//! An outage is a run of rows with at most 50 kbit/s, of at least `-s` seconds (2). A warning is
//! a hit if an outage begins before its horizon (`-h`, 2,000 ms) and a second of grace have
//! passed, else a false alarm. `by chance`: of moments taken anywhere while the link carries
//! (and the rule lets warnings through), so many would be hits. `-w` and `-r` are the trend's window and what rearms it.
//!
//! Two rules that the daemon has not, to see whether they would be better: `-l QUANTILE` learns
//! the level at which the link is gone from those at which the last 20 outages began; with `-m
//! SECONDS` warnings are given so soon after an outage alone.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use holdfast_core::link_prediction::{LinkPredictor, PredictionSettings};
use holdfast_wire::Instant;

/// An outage carries at most so much, Mbit/s.
const OUTAGE_MBIT_S: f64 = 0.05;
/// Samples come once a second: a warning may be so much too early.
const GRACE: Duration = Duration::from_secs(1);
/// Outages from which a level is learnt: the last ones, and at least.
const LEARNT_MAX: usize = 20;
const LEARNT_MIN: usize = 3;
/// Levels at which the link is taken to carry nothing.
const LEVELS_DBM: [f64; 8] = [-120.0, -116.0, -112.0, -108.0, -104.0, -100.0, -96.0, -90.0];

#[derive(Clone, Copy)]
struct Row {
    at: Instant,
    dbm: f64,
    mbit_s: f64,
}

struct Options {
    outage_min: Duration,
    settings: PredictionSettings,
    rule: Rule,
    files: Vec<String>,
}

/// What is tried beyond the trend.
#[derive(Clone, Copy, Default)]
struct Rule {
    /// The level at which the link is gone is this quantile of those at which outages began.
    learnt: Option<f64>,
    /// So soon after an outage alone.
    memory: Option<Duration>,
}

/// The predictor with such a rule.
struct Ruled {
    rule: Rule,
    settings: PredictionSettings,
    predictor: LinkPredictor,
    level: Option<f64>,
    begins: Vec<f64>,
    ended: Option<Instant>,
}

impl Ruled {
    fn new(rule: Rule, settings: PredictionSettings) -> Self {
        Self {
            rule,
            settings,
            predictor: LinkPredictor::new(settings),
            level: None,
            begins: Vec::new(),
            ended: None,
        }
    }

    fn handle_outage(&mut self) {
        self.predictor.handle_link(false);
        let (Some(at), Some(level)) = (self.rule.learnt, self.level.take()) else {
            return;
        };
        if self.begins.len() == LEARNT_MAX {
            self.begins.remove(0);
        }
        self.begins.push(level);
        let mut sorted = self.begins.clone();
        sorted.sort_by(f64::total_cmp);
        self.settings.gone_dbm = sorted[(at * (sorted.len() - 1) as f64) as usize];
        self.predictor = LinkPredictor::new(self.settings);
        self.predictor.handle_link(false);
    }

    fn handle_end(&mut self, now: Instant) {
        self.predictor.handle_link(true);
        self.ended = Some(now);
    }

    fn handle_sample(&mut self, dbm: f64, now: Instant) -> Option<Duration> {
        self.level = Some(dbm);
        let may_warn = self.may_warn(now);
        may_warn.then(|| self.predictor.handle_sample(dbm, now))?
    }

    /// Whether the rule lets a warning through now.
    fn may_warn(&self, now: Instant) -> bool {
        let is_near = |memory: Duration| {
            self.ended
                .is_some_and(|ended| now.saturating_since(ended) <= memory)
        };
        (self.rule.learnt.is_none() || self.begins.len() >= LEARNT_MIN)
            && self.rule.memory.is_none_or(is_near)
    }
}

#[derive(Default)]
struct Outcome {
    hits: Vec<f64>,
    /// Of the hits: by how much the outage came after the time named, seconds.
    errors: Vec<f64>,
    false_alarms: usize,
    outages: usize,
    hours: f64,
    chance: f64,
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("signal_prediction: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        outage_min: Duration::from_secs(2),
        settings: PredictionSettings {
            gone_dbm: 0.0,
            rearm_db: 6.0,
            window: Duration::from_secs(4),
            horizon: Duration::from_secs(2),
        },
        rule: Rule::default(),
        files: Vec::new(),
    };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments
                .next()
                .ok_or(format!("{argument} takes a number"))?;
            text.parse::<f64>()
                .ok()
                .filter(|number| (0.0..1e6).contains(number))
                .ok_or(format!("{argument}: {text} is no number from 0 to 1000000"))
        };
        match argument.as_str() {
            "-s" => options.outage_min = Duration::from_secs_f64(number()?),
            "-w" => options.settings.window = Duration::from_secs_f64(number()? / 1e3),
            "-h" => options.settings.horizon = Duration::from_secs_f64(number()? / 1e3),
            "-r" => options.settings.rearm_db = number()?,
            "-l" => options.rule.learnt = Some(number()?.min(1.0)),
            "-m" => options.rule.memory = Some(Duration::from_secs_f64(number()?)),
            _ => options.files.push(argument),
        }
    }
    if options.files.is_empty() {
        return Err("no FILE; takes CSV files with a level and a rate".into());
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), String> {
    println!(
        "outages of {:?} and more; window {:?}, horizon {:?}, rearmed {} dB above",
        options.outage_min,
        options.settings.window,
        options.settings.horizon,
        options.settings.rearm_db
    );
    println!(
        "| file | gone, dBm | outages | hits | misses | false alarms | an hour | warnings that are hits | by chance | ahead, s: p10, median, p90 | time named off by, s: median |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for file in &options.files {
        let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let rows = rows(&text).map_err(|error| format!("{file}: {error}"))?;
        let name = file.rsplit('/').next().unwrap_or(file);
        if options.rule.learnt.is_some() {
            show(name, "learnt", &judge(&rows, options, options.settings));
            continue;
        }
        for gone_dbm in LEVELS_DBM {
            let settings = PredictionSettings {
                gone_dbm,
                ..options.settings
            };
            let outcome = judge(&rows, options, settings);
            show(name, &gone_dbm.to_string(), &outcome);
        }
    }
    Ok(())
}

fn rows(text: &str) -> Result<Vec<Row>, String> {
    let mut lines = text.lines();
    let header = lines.next().ok_or("empty")?;
    let columns: BTreeMap<_, _> = header
        .split(',')
        .enumerate()
        .map(|(n, name)| (name, n))
        .collect();
    let find = |names: &[&str]| names.iter().find_map(|name| columns.get(name).copied());
    let level = find(&["dbm", "RSRP", "rssi"]).ok_or("no column dbm, RSRP or rssi")?;
    let (rate, factor) = match (find(&["mbit_s"]), find(&["DL_bitrate"])) {
        (Some(column), _) => (column, 1.0),
        (None, Some(column)) => (column, 1e-3),
        (None, None) => return Err("no column mbit_s or DL_bitrate".into()),
    };
    let (seconds, stamp) = (find(&["t_s"]), find(&["Timestamp"]));
    let mut rows: Vec<Row> = Vec::new();
    for (number, line) in lines.enumerate() {
        let fields: Vec<_> = line.split(',').collect();
        let value = |column: usize| fields.get(column)?.parse::<f64>().ok();
        let at = match (seconds, stamp) {
            (Some(column), _) => value(column),
            (None, Some(column)) => fields.get(column).and_then(|text| stamp_seconds(text)),
            (None, None) => Some(number as f64 + 1.0),
        };
        let (Some(at), Some(dbm), Some(rate)) = (at, value(level), value(rate)) else {
            continue;
        };
        if !(0.0..1e9).contains(&at) {
            continue;
        }
        let at = Instant::ZERO + Duration::from_secs_f64(at);
        // Two rows within a second: the newer one says more.
        while rows.last().is_some_and(|last| last.at >= at) {
            rows.pop();
        }
        rows.push(Row {
            at,
            dbm: -dbm.abs(),
            mbit_s: rate * factor,
        });
    }
    Ok(rows)
}

/// `2019.12.16_14.23.32` in seconds of its month.
fn stamp_seconds(text: &str) -> Option<f64> {
    let numbers: Vec<f64> = text
        .split(['.', '_'])
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [_, _, day, hour, minute, second] = numbers[..] else {
        return None;
    };
    Some(((day * 24.0 + hour) * 60.0 + minute) * 60.0 + second)
}

/// First rows of the outages.
fn outages(rows: &[Row], min: Duration) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut begun = None;
    for (number, row) in rows.iter().enumerate() {
        if row.mbit_s <= OUTAGE_MBIT_S {
            begun = begun.or(Some(number));
        } else if let Some(first) = begun.take()
            && row.at.saturating_since(rows[first].at) >= min
        {
            found.push((first, number));
        }
    }
    found
}

fn judge(rows: &[Row], options: &Options, settings: PredictionSettings) -> Outcome {
    let outages = outages(rows, options.outage_min);
    let mut outcome = Outcome {
        outages: outages.len(),
        ..Outcome::default()
    };
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return outcome;
    };
    outcome.hours = last.at.saturating_since(first.at).as_secs_f64() / 3600.0;
    let reach = settings.horizon + GRACE;
    let mut predictor = Ruled::new(options.rule, settings);
    let mut hit = vec![false; outages.len()];
    let (mut next, mut up_rows, mut near_rows) = (0, 0, 0);
    for (number, row) in rows.iter().enumerate() {
        if next < outages.len() && number >= outages[next].1 {
            predictor.handle_end(row.at);
            next += 1;
        }
        if next < outages.len() && number >= outages[next].0 {
            predictor.handle_outage();
            continue;
        }
        let ahead = outages
            .get(next)
            .map(|outage| rows[outage.0].at.saturating_since(row.at))
            .filter(|ahead| *ahead <= reach);
        if predictor.may_warn(row.at) {
            up_rows += 1;
            near_rows += usize::from(ahead.is_some());
        }
        let Some(named) = predictor.handle_sample(row.dbm, row.at) else {
            continue;
        };
        match ahead {
            Some(ahead) if !hit[next] => {
                hit[next] = true;
                outcome.hits.push(ahead.as_secs_f64());
                let error = ahead.as_secs_f64() - named.as_secs_f64();
                outcome.errors.push(error);
            }
            Some(_) => {}
            None => outcome.false_alarms += 1,
        }
    }
    outcome.chance = f64::from(near_rows as u32) / f64::from(up_rows.max(1) as u32);
    outcome
}

fn show(name: &str, gone_dbm: &str, outcome: &Outcome) {
    let hits = outcome.hits.len();
    let share = |part: usize, of: usize| {
        if of == 0 {
            "-".into()
        } else {
            format!("{:.0}%", 100.0 * part as f64 / of as f64)
        }
    };
    let quantile = |values: &[f64], at: f64| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let place = (at * values.len().saturating_sub(1) as f64).round() as usize;
        values
            .get(place)
            .map_or("-".into(), |value| format!("{value:.1}"))
    };
    println!(
        "| {name} | {gone_dbm} | {} | {hits} ({}) | {} | {} | {:.1} | {} | {:.0}% | {}, {}, {} | {} |",
        outcome.outages,
        share(hits, outcome.outages),
        outcome.outages - hits,
        outcome.false_alarms,
        outcome.false_alarms as f64 / outcome.hours.max(1e-9),
        share(hits, hits + outcome.false_alarms),
        100.0 * outcome.chance,
        quantile(&outcome.hits, 0.1),
        quantile(&outcome.hits, 0.5),
        quantile(&outcome.hits, 0.9),
        quantile(&outcome.errors, 0.5),
    );
}
