// SPDX-License-Identifier: Apache-2.0
//! Stall and transfer time for each length of outage, sender, remedy and effect
//! of the outage on packets: many transfers side by side, medians of several.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_link::{OutageAt, OutageEffect, OutageSchedule, OutageSettings, seed_for};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::seeded_file::{SeededContent, write_seeded};
use holdfast_testbed::stop::StopFlag;
use holdfast_wire::Instant;
use serde::Serialize;

use crate::statistics::median;
use crate::transfer::{
    FILE_NAME, Middle, PreparedTransfer, TransferExtras, TransferResult, TransferSettings,
    TransferWatch,
};

/// The outage begins between these times, in seconds since the transfer's start.
const BEGIN_S: (f64, f64) = (1.5, 2.5);

/// Beyond the outage, the longest that a transfer may take.
const LIMIT_BEYOND_OUTAGE_S: f64 = 45.0;

/// What stands against the outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Nothing.
    Plain,
    /// `holdfast gateway --scheme hold`.
    Hold,
    /// `holdfast gateway --scheme mtcp-plus`.
    MtcpPlus,
    /// HAProxy as a split proxy.
    Haproxy,
    /// `tcp_rto_max_ms=1000` at FH and MH.
    RtoMax1s,
}

impl Remedy {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Plain,
        Self::Hold,
        Self::MtcpPlus,
        Self::Haproxy,
        Self::RtoMax1s,
    ];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Hold => "hold",
            Self::MtcpPlus => "mtcp-plus",
            Self::Haproxy => "haproxy",
            Self::RtoMax1s => "tcp_rto_max_ms=1000",
        }
    }

    fn middle(self, mobile_signals: bool) -> Middle {
        let gateway = |scheme: &str| Middle::Gateway {
            scheme: scheme.into(),
            mobile_signals,
        };
        match self {
            Self::Plain | Self::RtoMax1s => Middle::Plain,
            Self::Hold => gateway("hold"),
            Self::MtcpPlus => gateway("mtcp-plus"),
            Self::Haproxy => Middle::HaProxy,
        }
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct MatrixSettings {
    /// Our own binary.
    pub holdfast: PathBuf,
    /// Lengths of the one outage in seconds.
    pub outages_s: Vec<f64>,
    /// The senders' congestion controls.
    pub congestion_controls: Vec<String>,
    /// The remedies.
    pub remedies: Vec<Remedy>,
    /// The effects of the outage on packets.
    pub effects: Vec<OutageEffect>,
    /// Repetitions of each, with seeds of their own.
    pub repetitions: u64,
    /// Transfers at the same time.
    pub parallel: usize,
    /// Whether `holdfast mobile` runs too.
    pub mobile_signals: bool,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// The seed.
    pub seed: u64,
}

/// One transfer's place in the matrix.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Length of the outage in seconds.
    pub outage_s: f64,
    /// The sender's congestion control.
    pub congestion_control: String,
    /// What stands against the outage.
    pub remedy: Remedy,
    /// What it does to packets.
    pub outage_effect: OutageEffect,
    /// Its number among those alike; the seed and the outage's time follow.
    pub repetition: u64,
}

/// One line of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Where it belongs.
    #[serde(flatten)]
    pub cell: Cell,
    /// When the outage began, in seconds since the transfer's start.
    pub outage_at_s: f64,
    /// What came out.
    pub result: TransferResult,
}

/// Measures everything, writing a JSON line to `lines` for each transfer as it
/// ends. Repetitions are the outermost loop, so that what is compared ran at the
/// same time.
pub fn run(
    settings: &MatrixSettings,
    lines: impl std::io::Write + Send,
    stop: &StopFlag,
) -> anyhow::Result<Vec<Measured>> {
    let folder = holdfast_testbed::scratch::Scratch::new("holdfast-matrix-")?;
    let files = folder.path().join("files");
    fs::create_dir(&files)?;
    let content = write_seeded(&files.join(FILE_NAME), settings.bytes, settings.seed)?;
    let cells = cells(settings);
    let next = AtomicUsize::new(0);
    let output = Mutex::new((lines, Vec::new()));
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..settings.parallel.max(1) {
            scope.spawn(|| {
                while let Some((i, cell)) = take(&next, &cells).filter(|_| !stop.is_raised()) {
                    let own = folder.path().join(i.to_string());
                    match measure(settings, cell, &own, &files, &content, stop) {
                        Ok(measured) => write(&output, measured),
                        Err(error) => {
                            let error = error.context(format!("{cell:?}"));
                            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                            stop.raise();
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    stop.check()?;
    Ok(output
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .1)
}

fn take<'a>(next: &AtomicUsize, cells: &'a [Cell]) -> Option<(usize, &'a Cell)> {
    let i = next.fetch_add(1, Ordering::Relaxed);
    Some((i, cells.get(i)?))
}

fn write<W: std::io::Write>(output: &Mutex<(W, Vec<Measured>)>, measured: Measured) {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(line) = serde_json::to_string(&measured)
        && let Err(error) = writeln!(output.0, "{line}")
    {
        eprintln!("a result cannot be written: {error}");
    }
    output.1.push(measured);
}

fn cells(settings: &MatrixSettings) -> Vec<Cell> {
    let mut cells = Vec::new();
    for repetition in 0..settings.repetitions {
        for &outage_s in &settings.outages_s {
            for congestion_control in &settings.congestion_controls {
                for &outage_effect in &settings.effects {
                    for &remedy in &settings.remedies {
                        cells.push(Cell {
                            outage_s,
                            congestion_control: congestion_control.clone(),
                            remedy,
                            outage_effect,
                            repetition,
                        });
                    }
                }
            }
        }
    }
    cells
}

fn measure(
    settings: &MatrixSettings,
    cell: &Cell,
    own: &Path,
    files: &Path,
    content: &SeededContent,
    stop: &StopFlag,
) -> anyhow::Result<Measured> {
    fs::create_dir(own)?;
    let seed = seed_for(settings.seed, cell.repetition);
    let outage = outage_at(cell.outage_s, seed)?;
    let sysctls = match cell.remedy {
        Remedy::RtoMax1s => vec![("net.ipv4.tcp_rto_max_ms".to_owned(), "1000".to_owned())],
        _ => Vec::new(),
    };
    let transfer = TransferSettings {
        name: cell.remedy.name().to_owned(),
        holdfast: settings.holdfast.clone(),
        middle: cell.remedy.middle(settings.mobile_signals),
        link: EmulatedLink {
            outages: vec![outage],
            outage_effect: cell.outage_effect,
            seed,
            ..EmulatedLink::default()
        },
        congestion_control: cell.congestion_control.clone(),
        host_sysctls: sysctls,
        limit: Duration::from_secs_f64(cell.outage_s + LIMIT_BEYOND_OUTAGE_S),
        extras: TransferExtras::default(),
    };
    let prepared = PreparedTransfer::prepare(&transfer, own, files, stop)?;
    let result = prepared.run(content, &TransferWatch::default(), stop)?;
    Ok(Measured {
        cell: cell.clone(),
        outage_at_s: outage.at_s,
        result,
    })
}

/// One outage at a random time of the link model's choice.
fn outage_at(length_s: f64, seed: u64) -> anyhow::Result<OutageAt> {
    let outages = OutageSettings::Scattered {
        lengths_s: vec![length_s],
        from_s: BEGIN_S.0,
        to_s: BEGIN_S.1 + length_s,
        apart_s: 1.0,
    };
    let plan = holdfast_link::LinkSettings {
        outages,
        ..Default::default()
    }
    .plan()?;
    let all = OutageSchedule::new(&plan.outages, seed).until(Instant::from_nanos(u64::MAX));
    let outage = all.first().context("the schedule has no outage")?;
    Ok(OutageAt {
        at_s: outage.begin.as_secs_f64(),
        for_s: length_s,
    })
}

/// The results as a table in Markdown: medians, with the number of transfers
/// that did not finish or were not whole where there are any.
pub fn markdown(settings: &MatrixSettings, measured: &[Measured]) -> String {
    let mut text = String::from("| outage | sender | packets |");
    for remedy in &settings.remedies {
        let _ = write!(text, " {} |", remedy.name());
    }
    text.push_str("\n| --- | --- | --- |");
    text.push_str(&" --- |".repeat(settings.remedies.len()));
    text.push('\n');
    for &outage_s in &settings.outages_s {
        for congestion_control in &settings.congestion_controls {
            for &effect in &settings.effects {
                let packets = match effect {
                    OutageEffect::Lose => "lost",
                    OutageEffect::Keep => "kept",
                    OutageEffect::LoseArriving => "lost arriving",
                };
                let _ = write!(text, "| {outage_s} s | {congestion_control} | {packets} |");
                for &remedy in &settings.remedies {
                    let alike: Vec<&TransferResult> = measured
                        .iter()
                        .filter(|one| {
                            one.cell.remedy == remedy
                                && one.cell.outage_effect == effect
                                && one.cell.congestion_control == *congestion_control
                                && one.cell.outage_s.to_bits() == outage_s.to_bits()
                        })
                        .map(|one| &one.result)
                        .collect();
                    let _ = write!(text, " {} |", entry(&alike));
                }
                text.push('\n');
            }
        }
    }
    text
}

/// Median stall and median transfer time; those that did not finish count as
/// longer than any.
fn entry(alike: &[&TransferResult]) -> String {
    let stalls = alike.iter().map(|r| {
        r.stalls_s
            .first()
            .copied()
            .flatten()
            .unwrap_or(f64::INFINITY)
    });
    let times = alike.iter().map(|r| r.transfer_s.unwrap_or(f64::INFINITY));
    let shown = |median: Option<f64>| match median {
        Some(value) if value.is_finite() => format!("{value:.2} s"),
        Some(_) => "never".to_owned(),
        None => "-".to_owned(),
    };
    let mut text = format!(
        "{}, {}",
        shown(median(stalls.collect())),
        shown(median(times.collect()))
    );
    let bad = alike
        .iter()
        .filter(|r| r.transfer_s.is_none() || !r.sha256_ok)
        .count();
    if bad > 0 {
        let _ = write!(text, " ({bad} of {} broken)", alike.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outage_begins_within_its_bounds_and_differs_by_seed() {
        let times: Vec<f64> = (0..50)
            .map(|seed| outage_at(7.0, seed).unwrap().at_s)
            .collect();
        assert!(
            times
                .iter()
                .all(|&at_s| (BEGIN_S.0..=BEGIN_S.1).contains(&at_s)),
            "{times:?}"
        );
        assert!(times.windows(2).any(|pair| pair[0] < pair[1]));
    }
}
