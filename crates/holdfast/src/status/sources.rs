// SPDX-License-Identifier: Apache-2.0
//! The link sources of a mobile's daemon, as its status shows them.

use serde::{Deserialize, Serialize};

/// A source of what a mobile's daemon knows of the link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SourceStatus {
    /// Which.
    pub(crate) name: String,
    /// Whether it runs; otherwise it is tried again.
    pub(crate) runs: bool,
    /// Whether it reports link down.
    pub(crate) reports_down: bool,
    /// Why it failed last, if it has not run since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// Its newest report that is no event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// Events of the link that it reported.
    pub(crate) events: u64,
    /// How often it failed.
    pub(crate) failures: u64,
    /// Its newest signal, dBm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal_dbm: Option<f64>,
    /// Signals that it reported.
    pub(crate) samples: u64,
    /// Warnings that came of their trend.
    pub(crate) warnings: u64,
}

impl SourceStatus {
    /// A line of it.
    pub(super) fn text(&self) -> String {
        let mut parts = vec![format!("source {}", self.name)];
        parts.push(match (&self.problem, self.runs) {
            (Some(problem), _) => format!("DOES NOT RUN ({problem})"),
            (None, true) => "runs".into(),
            (None, false) => "starts".into(),
        });
        if self.reports_down {
            parts.push("reports down".into());
        }
        parts.push(format!("{} events", self.events));
        if let Some(dbm) = self.signal_dbm {
            parts.push(format!(
                "signal {dbm} dBm ({} samples, {} warnings)",
                self.samples, self.warnings
            ));
        }
        parts.extend(self.note.clone());
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_does_not_run_shows_why() {
        let mut source = SourceStatus {
            name: "modem".into(),
            runs: true,
            events: 3,
            samples: 7,
            signal_dbm: Some(-97.5),
            ..SourceStatus::default()
        };
        let text = "source modem, runs, 3 events, signal -97.5 dBm (7 samples, 0 warnings)";
        assert_eq!(source.text(), text);
        source.problem = Some("no system D-Bus".into());
        source.signal_dbm = None;
        source.reports_down = true;
        let text = "source modem, DOES NOT RUN (no system D-Bus), reports down, 3 events";
        assert_eq!(source.text(), text);
    }
}
