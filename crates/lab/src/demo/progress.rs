// SPDX-License-Identifier: Apache-2.0
//! A line for each run while the demo runs: moving bars on a terminal, plain lines elsewhere. They
//! go to the standard error; the standard output has only the table.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use holdfast_testbed::link_process::EmulatedLink;

use super::live::{LiveDemo, Moment, RATE_WINDOW_S, STALL_SHOWN_S};
use super::optimum::link_share;
use crate::transfer::TransferWatch;

/// The time between two drawings of the lines.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// The time between two plain lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(2);

/// The output of the lines.
pub(super) struct Progress {
    bars: Option<MultiProgress>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            bars: std::io::stderr().is_terminal().then(MultiProgress::new),
        }
    }

    /// Prints a line above all others.
    pub(super) fn print(&self, text: &str) {
        match &self.bars {
            // A closed terminal is no reason to stop.
            Some(bars) => drop(bars.println(text)),
            None => eprintln!("{text}"),
        }
    }

    /// Begins a line for each run of `bytes` over `link`.
    pub(super) fn lines<'a>(
        &self,
        names: &'a [String],
        link: &'a EmulatedLink,
        bytes: u64,
        live: &'a LiveDemo,
    ) -> Lines<'a> {
        let style = ProgressStyle::with_template("{prefix:23} [{bar:30}] {percent:>3}%  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ");
        let runs = names.iter().map(|name| {
            let bar = self.bars.as_ref().map(|all| {
                let bar = all.add(ProgressBar::new(bytes)).with_style(style.clone());
                bar.with_prefix(name.clone())
            });
            (name.as_str(), bar, RateMeter::default())
        });
        Lines {
            runs: runs.collect(),
            link,
            bytes,
            live,
            written_at: None,
        }
    }
}

/// The lines of the runs: name, bar on a terminal, rate.
pub(super) struct Lines<'a> {
    runs: Vec<(&'a str, Option<ProgressBar>, RateMeter)>,
    link: &'a EmulatedLink,
    bytes: u64,
    live: &'a LiveDemo,
    written_at: Option<Instant>,
}

impl Lines<'_> {
    /// Shows the present state of each run.
    pub(super) fn show(&mut self, watches: &[TransferWatch]) {
        let is_due = self
            .written_at
            .is_none_or(|at| at.elapsed() >= PLAIN_INTERVAL);
        let runs = self.runs.iter_mut().zip(watches);
        for (number, ((name, bar, rate), watch)) in runs.enumerate() {
            let Some(moment) = Moment::now(watch, self.link) else {
                continue;
            };
            let rate = rate.update(moment);
            self.live.update(number, moment, rate, || {
                link_share(self.link, moment.bytes, moment.elapsed_s).unwrap_or_default()
            });
            let text = if moment.bytes == self.bytes {
                "done".to_owned()
            } else {
                text(moment, rate)
            };
            if let Some(bar) = bar {
                bar.set_position(moment.bytes);
                bar.set_message(text);
            } else if is_due {
                let percent = moment.bytes as f64 * 100.0 / self.bytes.max(1) as f64;
                eprintln!(
                    "{:5.1} s  {name:23} {percent:5.1}%  {text}",
                    moment.elapsed_s
                );
                self.written_at = Some(Instant::now());
            }
        }
    }

    /// Shows the final state.
    pub(super) fn finish(&mut self, watches: &[TransferWatch]) {
        self.written_at = None;
        self.show(watches);
        for bar in self.runs.iter().filter_map(|(_, bar, _)| bar.as_ref()) {
            bar.abandon();
        }
    }
}

fn text(moment: Moment, rate_mbit_per_s: f64) -> String {
    let link = if moment.link_up {
        "link up  "
    } else {
        "link DOWN"
    };
    let stall = if moment.stall_s >= STALL_SHOWN_S {
        format!("  stalled for {:.1} s", moment.stall_s)
    } else {
        String::new()
    };
    format!("{rate_mbit_per_s:5.1} Mb/s  {link}{stall}")
}

/// The rate of the last half second.
#[derive(Default)]
struct RateMeter {
    from: Option<Moment>,
    mbit_per_s: f64,
}

impl RateMeter {
    fn update(&mut self, moment: Moment) -> f64 {
        let from = *self.from.get_or_insert(moment);
        let window_s = moment.elapsed_s - from.elapsed_s;
        if window_s >= RATE_WINDOW_S {
            self.mbit_per_s = (moment.bytes - from.bytes) as f64 * 8.0 / 1e6 / window_s;
            self.from = Some(moment);
        }
        self.mbit_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_window() {
        let moment = |elapsed_s, bytes| Moment {
            elapsed_s,
            bytes,
            link_up: true,
            stall_s: 0.0,
        };
        let mut meter = RateMeter::default();
        assert!(meter.update(moment(0.0, 0)).abs() < 1e-9);
        assert!((meter.update(moment(0.5, 1_250_000)) - 20.0).abs() < 1e-9);
        assert!((meter.update(moment(0.6, 1_250_000)) - 20.0).abs() < 1e-9);
        assert!(meter.update(moment(1.0, 1_250_000)).abs() < 1e-9);
    }

    #[test]
    fn a_line_has_the_links_state_and_the_stall() {
        let mut moment = Moment {
            elapsed_s: 1.0,
            bytes: 1,
            link_up: true,
            stall_s: 1.25,
        };
        assert_eq!(
            text(moment, 0.0),
            "  0.0 Mb/s  link up    stalled for 1.2 s"
        );
        moment.link_up = false;
        moment.stall_s = 0.0;
        assert_eq!(text(moment, 0.0), "  0.0 Mb/s  link DOWN");
    }
}
