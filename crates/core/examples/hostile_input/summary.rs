// SPDX-License-Identifier: Apache-2.0
//! What came out, as a table or as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use crate::Totals;

/// One target.
pub(crate) struct Row {
    name: &'static str,
    totals: Totals,
    took: Duration,
    slowest: Duration,
    /// Memory of the whole program after it, KiB.
    rss_kib: u64,
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        totals: Totals,
        took: Duration,
        slowest: Duration,
    ) -> Self {
        Self {
            name,
            totals,
            took,
            slowest,
            rss_kib: rss_kib(),
        }
    }

    fn per_second(&self) -> f64 {
        self.totals.inputs as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// Resident memory; 0 if the system does not report it.
fn rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<11}{:>12}{:>12}{:>10}{:>12}{:>6}{:>7}{:>10}{:>10}{:>13}{:>10}\n",
        "",
        "inputs",
        "parsed",
        "a second",
        "actions",
        "most",
        "flows",
        "exact",
        "restored",
        "slowest ms",
        "RSS MiB"
    );
    for row in rows {
        let totals = &row.totals;
        writeln!(
            text,
            "{:<11}{:>12}{:>12}{:>10.0}{:>12}{:>6}{:>7}{:>10}{:>10}{:>13.2}{:>10.1}",
            row.name,
            totals.inputs,
            totals.parsed,
            row.per_second(),
            totals.actions,
            totals.actions_most,
            totals.flows,
            totals.exact,
            totals.restored,
            row.slowest.as_secs_f64() * 1e3,
            row.rss_kib as f64 / 1024.0,
        )
        .expect("a string");
    }
    text
}

pub(crate) fn json(seed: u64, rows: &[Row], panics: u32) -> String {
    let row = |row: &Row| {
        let totals = &row.totals;
        format!(
            "{{\"scheme\":\"{}\",\"inputs\":{},\"parsed\":{},\"inputs_per_second\":{:.0},\
             \"actions\":{},\"actions_most\":{},\"flows\":{},\"exact\":{},\"restored\":{},\
             \"slowest_ms\":{:.3},\"rss_kib\":{}}}",
            row.name,
            totals.inputs,
            totals.parsed,
            row.per_second(),
            totals.actions,
            totals.actions_most,
            totals.flows,
            totals.exact,
            totals.restored,
            row.slowest.as_secs_f64() * 1e3,
            row.rss_kib,
        )
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    let rows = rows.join(",");
    format!("{{\"seed\":{seed},\"panics\":{panics},\"rows\":[{rows}]}}")
}
