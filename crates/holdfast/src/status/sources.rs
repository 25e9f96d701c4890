// SPDX-License-Identifier: Apache-2.0
//! The link sources of a mobile's daemon, as its status shows them.

use crate::control::SourceStatus;

impl SourceStatus {
    /// A line about the source.
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
            parts.push(format!("signal {dbm} dBm ({} samples)", self.samples));
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
        let text = "source modem, runs, 3 events, signal -97.5 dBm (7 samples)";
        assert_eq!(source.text(), text);
        source.problem = Some("no system D-Bus".into());
        source.signal_dbm = None;
        source.reports_down = true;
        let text = "source modem, DOES NOT RUN (no system D-Bus), reports down, 3 events";
        assert_eq!(source.text(), text);
    }
}
