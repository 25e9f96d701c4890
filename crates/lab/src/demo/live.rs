// SPDX-License-Identifier: Apache-2.0
//! The figures of the demo's runs while it runs, for a page.

use std::sync::{Mutex, PoisonError};

use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::link_process::EmulatedLink;
use serde::Serialize;

use super::report::DemoReport;
use crate::transfer::TransferWatch;

/// The shortest stall that is shown, in seconds: shorter ones are the round trip's.
pub(super) const STALL_SHOWN_S: f64 = 0.2;
/// The time over which the rate is measured, in seconds.
pub(super) const RATE_WINDOW_S: f64 = 0.5;

/// The state of a transfer at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    /// Time since the transfer's start, in seconds.
    pub(super) elapsed_s: f64,
    /// Bytes that have arrived.
    pub(super) bytes: u64,
    pub(super) link_up: bool,
    /// Time without a new byte since the link is up, in seconds; 0 in an outage.
    pub(super) stall_s: f64,
}

impl Moment {
    /// The state now; none before the start. The link's state follows from the planned outages.
    pub(super) fn now(watch: &TransferWatch, link: &EmulatedLink) -> Option<Self> {
        let origin_ns = watch.origin_ns()?;
        let since_s = |at_ns: u64| at_ns.saturating_sub(origin_ns) as f64 / 1e9;
        let elapsed_s = since_s(monotonic_ns());
        let outages = || link.outages.iter();
        let link_up =
            !outages().any(|outage| (outage.at_s..outage.at_s + outage.for_s).contains(&elapsed_s));
        let ends_s = outages().map(|outage| outage.at_s + outage.for_s);
        let ends_s = ends_s.filter(|end_s| *end_s <= elapsed_s);
        let last_s = ends_s.fold(since_s(watch.download.last_ns()), f64::max);
        Some(Self {
            elapsed_s,
            bytes: watch.download.bytes(),
            link_up,
            stall_s: if link_up { elapsed_s - last_s } else { 0.0 },
        })
    }
}

/// The demo's state, readable by other threads.
#[derive(Debug, Default)]
pub struct LiveDemo(Mutex<State>);

/// As JSON it is a reply to the clients of a daemon's page: `{"reply":"demo",...}`.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "reply", rename = "demo")]
struct State {
    /// Description of the transfer and of its link.
    about: String,
    /// Length of a transfer in bytes.
    bytes: u64,
    outages: Vec<OutageAt>,
    link_up: bool,
    is_over: bool,
    runs: Vec<RunState>,
}

#[derive(Debug, Default, Serialize)]
struct RunState {
    name: String,
    /// Time since the run's start, in seconds; of a complete run its duration.
    elapsed_s: f64,
    /// Bytes that have arrived.
    bytes: u64,
    /// Bytes that arrived, as a share of what the link could carry.
    share: f64,
    /// Length of the present stall, in seconds; 0: none.
    stall_s: f64,
    /// Sum of the stalls that have ended, in seconds.
    stalled_s: f64,
    is_complete: bool,
    /// Seconds since the start, and the rate at that time in bit/s.
    rates: Vec<(f64, f64)>,
}

impl LiveDemo {
    /// The demo as JSON.
    ///
    /// # Errors
    /// Those of the writer; of plain data there are none.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&*self.state())
    }

    /// Ignores a poisoned lock: no thread leaves the state half changed.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, about: &str, names: &[String], outages: &[OutageAt], bytes: u64) {
        let run = |name: &String| RunState {
            name: name.clone(),
            ..RunState::default()
        };
        *self.state() = State {
            about: about.to_owned(),
            bytes,
            outages: outages.to_vec(),
            link_up: true,
            is_over: false,
            runs: names.iter().map(run).collect(),
        };
    }

    /// Updates a run. `share` is called only when the figure is due.
    pub(super) fn update(
        &self,
        number: usize,
        moment: Moment,
        mbit_per_s: f64,
        share: impl FnOnce() -> f64,
    ) {
        let mut state = self.state();
        state.link_up = moment.link_up;
        let bytes = state.bytes;
        let Some(run) = state.runs.get_mut(number).filter(|run| !run.is_complete) else {
            return;
        };
        if moment.stall_s < run.stall_s && run.stall_s >= STALL_SHOWN_S {
            run.stalled_s += run.stall_s;
        }
        run.is_complete = moment.bytes == bytes;
        run.stall_s = if run.is_complete { 0.0 } else { moment.stall_s };
        (run.elapsed_s, run.bytes) = (moment.elapsed_s, moment.bytes);
        let last_s = run.rates.last().map_or(0.0, |(at_s, _)| *at_s);
        if run.is_complete || moment.elapsed_s >= last_s + RATE_WINDOW_S {
            run.rates.push((moment.elapsed_s, mbit_per_s * 1e6));
            run.share = share();
        }
    }

    /// The demo is over: takes the exact figures from its report.
    pub(super) fn finish(&self, report: &DemoReport) {
        let mut state = self.state();
        (state.is_over, state.link_up) = (true, true);
        for (run, result) in state.runs.iter_mut().zip(&report.runs) {
            run.is_complete = result.transfer_s.is_some();
            run.elapsed_s = result.transfer_s.unwrap_or(run.elapsed_s);
            run.bytes = result.bytes;
            run.share = result.link_share;
            run.stalled_s = result.stalled_s(&report.conditions.outages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_stalls_and_its_end_and_no_more_than_a_rate_for_each_window() {
        let demo = LiveDemo::default();
        demo.begin("about", &["plain".to_owned()], &[], 1_000);
        let mut moment = Moment {
            elapsed_s: 0.0,
            bytes: 0,
            link_up: true,
            stall_s: 0.0,
        };
        for tenth in 1..=20 {
            moment.elapsed_s = f64::from(tenth) / 10.0;
            // Nothing arrives from 0.5 s to 1.5 s.
            moment.stall_s = match tenth {
                5..15 => f64::from(tenth - 5) / 10.0,
                _ => 0.0,
            };
            moment.bytes = if tenth == 20 { 1_000 } else { 500 };
            demo.update(0, moment, 20.0, || 0.5);
        }
        // Updates after the end change nothing.
        moment.elapsed_s = 9.0;
        demo.update(0, moment, 0.0, || 0.1);
        let json: serde_json::Value = serde_json::from_str(&demo.json().unwrap()).unwrap();
        let run = &json["runs"][0];
        assert_eq!(json["reply"], "demo");
        assert_eq!(
            (&run["is_complete"], &run["elapsed_s"]),
            (&true.into(), &2.0.into())
        );
        assert!((run["stalled_s"].as_f64().unwrap() - 0.9).abs() < 1e-9);
        assert_eq!(run["rates"].as_array().unwrap().len(), 4);
        assert_eq!(run["share"], 0.5);
    }
}
