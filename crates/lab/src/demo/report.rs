// SPDX-License-Identifier: Apache-2.0
//! The result of the demo: a table for people, JSON for programs.

use std::fs;

use comfy_table::{CellAlignment, Table, presets};
use holdfast_link::{OutageAt, OutageEffect};
use holdfast_testbed::link_process::EmulatedLink;
use holdfast_testbed::seeded_file::SeededContent;
use serde::Serialize;

use super::DemoSettings;
use super::links::DemoLink;
use super::optimum::{link_share, optimal_s};
use crate::transfer::Measurement;

/// With more outages than this the table shows only the sum of all stalls.
pub(super) const COLUMNS_MAX: usize = 4;
/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferResult {
    /// The run's name.
    pub name: String,
    /// Time from the transfer's begin to its last byte, in seconds; none: not finished.
    pub transfer_s: Option<f64>,
    /// The lower bound of a transfer over this link, in seconds.
    pub optimal_s: f64,
    /// The bytes that arrived, with headers, as a share of what the link could carry until the last
    /// of them.
    pub link_share: f64,
    /// For each outage that overlapped the transfer: time from link up to the first new byte at the
    /// receiver, in seconds; none: no new byte came before the next outage.
    pub stalls_s: Vec<Option<f64>>,
    /// Segments that the sender retransmitted, by the kernel's counter; with QUIC, packets that the
    /// sender declared lost.
    pub retransmitted_segments: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Whether the bytes are those that were served.
    pub sha256_ok: bool,
}

impl TransferResult {
    pub(super) fn of(
        name: String,
        measured: &Measurement,
        link: &EmulatedLink,
        content: &SeededContent,
    ) -> anyhow::Result<Self> {
        let flow = &measured.flows[0];
        let is_complete = measured.is_complete(flow);
        let last_byte_s = measured.last_byte_s(flow);
        let bytes = flow.received.bytes();
        Ok(Self {
            name,
            transfer_s: is_complete.then_some(last_byte_s),
            optimal_s: optimal_s(link, content.bytes)?,
            link_share: link_share(link, bytes, last_byte_s)?,
            stalls_s: measured.stalls_s(flow, &link.outages),
            retransmitted_segments: measured.retransmitted_segments,
            bytes,
            sha256_ok: flow.received.sha256 == content.sha256,
        })
    }

    /// The sum of all stalls in seconds. A stall without a new byte lasted until the next outage,
    /// or until the transfer's end.
    pub(super) fn stalled_s(&self, outages: &[OutageAt]) -> f64 {
        let next_s = outages.iter().skip(1).map(|outage| outage.at_s);
        let ends_s = outages.iter().map(|outage| outage.at_s + outage.for_s);
        let lengths = ends_s
            .zip(next_s.map(Some).chain([None]))
            .zip(&self.stalls_s);
        lengths
            .map(|((end_s, next_s), stall)| stall.unwrap_or(next_s.map_or(0.0, |s| s - end_s)))
            .sum()
    }
}

/// The demo's result. As JSON: `{"runs":[...],"conditions":{...}}`.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// The runs, the plain one first.
    pub runs: Vec<TransferResult>,
    /// The conditions of the runs.
    pub conditions: DemoConditions,
    /// Length of the file in bytes.
    #[serde(skip)]
    pub bytes: u64,
}

/// All that is needed to repeat the demo.
#[derive(Clone, Debug, Serialize)]
pub struct DemoConditions {
    /// The seed.
    pub seed: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// The link's name.
    pub link: DemoLink,
    /// Rate of each direction in Mb/s; none: it varies.
    pub rate_mbit_per_s: Option<f64>,
    /// Round trip without queues in milliseconds.
    pub round_trip_ms: f64,
    /// Queue of each direction in packets.
    pub queue_packets: u32,
    /// The outages, in time since the transfer's start.
    pub outages: Vec<OutageAt>,
    /// The effect of outages on the packets on the link and in its queue.
    pub outage_effect: OutageEffect,
    /// Whether the gateway got signals of the outages.
    pub signals: bool,
    /// The sender's congestion control.
    pub congestion_control: String,
    /// The kernel's release.
    pub kernel: String,
}

impl DemoConditions {
    pub(super) fn of(settings: &DemoSettings, link: &EmulatedLink) -> anyhow::Result<Self> {
        Ok(Self {
            seed: settings.seed,
            file_bytes: settings.bytes,
            link: settings.link,
            rate_mbit_per_s: link.description.is_none().then_some(link.rate_mbit_per_s),
            round_trip_ms: 2.0 * link.delay_ms,
            queue_packets: link.queue_packets,
            outages: link.outages.clone(),
            outage_effect: link.outage_effect,
            signals: settings.signals,
            congestion_control: settings.congestion_control.clone(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?
                .trim()
                .to_owned(),
        })
    }
}

impl DemoReport {
    /// Whether every run finished, with the bytes that were served.
    pub fn is_good(&self) -> bool {
        self.runs
            .iter()
            .all(|run| run.transfer_s.is_some() && run.sha256_ok)
    }

    /// The table.
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        let mut header = vec![
            "run".to_owned(),
            "transfer".into(),
            "optimum".into(),
            "share of the link".into(),
        ];
        let outages = &self.conditions.outages;
        if outages.len() > COLUMNS_MAX {
            header.push("all stalls".to_owned());
        } else {
            let columns = outages.iter().map(|outage| outage.for_s);
            header.extend(columns.map(|for_s| format!("stall after {for_s} s outage")));
        }
        header.extend(["retransmitted".to_owned(), "SHA-256".into()]);
        let columns = header.len();
        table.set_header(header);
        for run in &self.runs {
            table.add_row(self.row(run));
        }
        for i in 1..columns {
            if let Some(column) = table.column_mut(i) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn row(&self, run: &TransferResult) -> Vec<String> {
        let seconds = |s: Option<f64>, digits: usize| {
            s.map_or_else(|| "never".to_owned(), |s| format!("{s:.digits$} s"))
        };
        let transfer = run
            .transfer_s
            .map_or_else(|| "not finished".to_owned(), |s| format!("{s:.2} s"));
        let outages = &self.conditions.outages;
        let mut row = vec![
            run.name.clone(),
            transfer,
            seconds(Some(run.optimal_s), 2),
            format!("{:.1} %", run.link_share * 100.0),
        ];
        if outages.len() > COLUMNS_MAX {
            row.push(format!("{:.1} s", run.stalled_s(outages)));
        } else {
            // An outage after the end of the transfer has no stall.
            let stalls = (0..outages.len()).map(|i| run.stalls_s.get(i));
            row.extend(
                stalls
                    .map(|stall| stall.map_or_else(|| "-".to_owned(), |&stall| seconds(stall, 3))),
            );
        }
        row.push(run.retransmitted_segments.to_string());
        row.push(if run.sha256_ok { "equal" } else { "DIFFERS" }.to_owned());
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> DemoReport {
        let run = TransferResult {
            name: "plain".into(),
            transfer_s: Some(22.0),
            optimal_s: 20.0,
            link_share: 0.905,
            stalls_s: vec![Some(1.5)],
            retransmitted_segments: 7,
            bytes: 10,
            sha256_ok: true,
        };
        let conditions = DemoConditions {
            seed: 1,
            file_bytes: 10,
            link: DemoLink::Steady,
            rate_mbit_per_s: Some(20.0),
            round_trip_ms: 50.0,
            queue_packets: 200,
            outages: vec![OutageAt {
                at_s: 2.0,
                for_s: 3.0,
            }],
            outage_effect: OutageEffect::Lose,
            signals: true,
            congestion_control: "cubic".into(),
            kernel: "6.18".into(),
        };
        DemoReport {
            runs: vec![run],
            conditions,
            bytes: 10,
        }
    }

    #[test]
    fn a_run_that_is_wrong_or_not_finished_is_not_good() {
        let mut report = report();
        assert!(report.is_good());
        report.runs[0].sha256_ok = false;
        assert!(!report.is_good());
        report.runs[0].sha256_ok = true;
        report.runs[0].transfer_s = None;
        assert!(!report.is_good());
        assert!(report.table().to_string().contains("not finished"));
    }

    #[test]
    fn many_outages_have_one_column_with_the_sum_of_their_stalls() {
        let mut report = report();
        let outages = (0..5).map(|i| OutageAt {
            at_s: 10.0 * f64::from(i),
            for_s: 4.0,
        });
        report.conditions.outages = outages.collect();
        report.runs[0].stalls_s = vec![Some(0.5), None, Some(1.0), Some(0.25)];
        let table = report.table().to_string();
        assert!(table.contains("all stalls"), "{table}");
        assert!(table.contains("7.8 s"), "{table}");
    }

    #[test]
    fn the_table_and_the_json_have_the_same_figures() {
        let report = report();
        let table = report.table().to_string();
        for cell in [
            "22.00 s",
            "20.00 s",
            "90.5 %",
            "1.500 s",
            "equal",
            "stall after 3 s outage",
        ] {
            assert!(table.contains(cell), "{cell} in\n{table}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            json["runs"][0],
            serde_json::json!({"name": "plain", "transfer_s": 22.0, "optimal_s": 20.0, "link_share": 0.905, "stalls_s": [1.5],
                "retransmitted_segments": 7, "bytes": 10, "sha256_ok": true})
        );
    }
}
