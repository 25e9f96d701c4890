// SPDX-License-Identifier: Apache-2.0
//! `claims.toml`: a paper's tables and statements as printed, the runs that they are about,
//! and the tolerances of verdicts.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::document::{self, DocumentError, read_text};
use crate::results::ResultLine;
use crate::scenario::ScenarioError;

mod figure;
mod rule;

pub use figure::{ClaimedFigure, PrintedPoint, TodaysComparison};
pub use rule::{Rule, Spread};

/// Parameters of runs and the values that they must have.
pub type Where = BTreeMap<String, Json>;

/// The file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsFile {
    /// The paper's title and authors.
    pub title: String,
    /// How far from what is printed a metric may be.
    pub tolerance: BTreeMap<Metric, Tolerance>,
    /// Two values that are printed this close are not in any order, in percent.
    #[serde(default = "tie_percent")]
    pub tie_percent: f64,
    /// Tables.
    #[serde(default)]
    pub table: Vec<ClaimedTable>,
    /// Figures.
    #[serde(default)]
    pub figure: Vec<ClaimedFigure>,
    /// Statements.
    #[serde(default)]
    pub statement: Vec<Statement>,
}

fn tie_percent() -> f64 {
    1.0
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Response time in seconds.
    TransferS,
    /// Segments sent again for each one sent first, in percent.
    RetransmissionRatioPercent,
    /// Goodput in Mb/s.
    GoodputMbps,
    /// Expiries of the sender's retransmission timer in each 100 s of the transfer, until
    /// its last byte came.
    #[serde(rename = "timeouts_per_100_s")]
    TimeoutsPer100S,
    /// Median time from leaving a cell to the first packet through the new one, in
    /// milliseconds.
    HandoffMs,
    /// Median time from the MH's first sending of a segment to its second, in milliseconds;
    /// of runs whose packets were read.
    SentAgainMs,
    /// The longest record of a connection that one base station has given another, bytes.
    HandoffStateBytes,
    /// How many times the time that no transfer over the run's links can beat.
    TimesOptimum,
    /// Bytes of data that the receiver got, once or again, for each byte delivered.
    ReceivesPerByte,
    /// Losses of which the sender's loss classifier knew the cause, in percent.
    HitRatioPercent,
    /// Mean of the recorded congestion window, KiB.
    CwndMeanKib,
}

impl Metric {
    /// The metric of one run; none: it has none, for it did not finish.
    pub fn of(self, line: &ResultLine) -> Option<f64> {
        match self {
            Self::TransferS => line.transfer_s,
            Self::RetransmissionRatioPercent => Some(line.retransmission_ratio_percent),
            Self::GoodputMbps => Some(line.goodput_mbps),
            Self::HandoffMs => line.handoff.as_ref()?.first_packet_ms_median,
            Self::SentAgainMs => line.traced.as_ref()?.sent_again_ms,
            Self::HandoffStateBytes => Some(line.handoff.as_ref()?.state_bytes_max? as f64),
            Self::TimesOptimum => Some(line.transfer_s? / line.optimal_s?),
            // Of what was discarded as incomplete there is no figure.
            Self::ReceivesPerByte => {
                line.transfer_s?;
                Some(1.0 + line.duplicates_per_byte?)
            }
            Self::HitRatioPercent => line.lc_cwe?.hit_ratio_percent,
            Self::CwndMeanKib => {
                let points = &line.series.as_ref()?.cwnd;
                let sum: u64 = points.iter().sum();
                (!points.is_empty()).then(|| sum as f64 / points.len() as f64 / 1024.0)
            }
            Self::TimeoutsPer100S => {
                let elapsed_s = line
                    .transfer_s
                    .unwrap_or(line.bytes as f64 * 8.0 / (line.goodput_mbps * 1e6));
                let timeouts = line.timeouts? as f64;
                (elapsed_s > 0.0 && elapsed_s.is_finite()).then(|| timeouts * 100.0 / elapsed_s)
            }
        }
    }

    /// The same for a median: what a run never came to takes longer than anything; none: it
    /// was not measured.
    pub fn rank(self, line: &ResultLine) -> Option<f64> {
        let never_came = match self {
            Self::TransferS => true,
            Self::TimesOptimum => line.optimal_s.is_some(),
            Self::HandoffMs => line.handoff.is_some(),
            Self::RetransmissionRatioPercent
            | Self::GoodputMbps
            | Self::TimeoutsPer100S
            | Self::ReceivesPerByte
            | Self::HandoffStateBytes
            | Self::HitRatioPercent
            | Self::CwndMeanKib
            | Self::SentAgainMs => false,
        };
        self.of(line).or(never_came.then_some(f64::INFINITY))
    }
}

/// Either is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tolerance {
    /// In percent of what is printed.
    pub percent: f64,
    /// In the metric's own unit.
    pub absolute: f64,
}

/// A table as printed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedTable {
    /// Its name.
    pub id: String,
    /// What it is of.
    pub metric: Metric,
    /// The scenario with its runs, in the paper's folder.
    pub scenario: String,
    /// The parameter that differs by column.
    pub column: String,
    /// Its values.
    pub columns: Vec<Json>,
    /// The parameter of the variants, whose order is a claim of its own; it is that of the
    /// columns, or one of the rows'.
    pub variants: String,
    /// What the paper prints for a transfer that did not finish.
    #[serde(default)]
    pub unfinished: Option<f64>,
    /// A condition that the paper does not print and that no other table gives: then its
    /// cells cannot be compared, only their order.
    #[serde(default)]
    pub open: Option<String>,
    /// The rows.
    pub row: Vec<Row>,
    /// Other runs of the same cells: a reason names what came out there.
    #[serde(default)]
    pub alternative: Vec<Alternative>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its runs.
    #[serde(rename = "where")]
    pub of: Where,
    /// Its cells, as printed.
    pub printed: Vec<f64>,
}

/// The same cells under another assumption, or under each of several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// In words, after "with".
    pub text: String,
    /// The scenario.
    pub scenario: String,
    /// Its runs, besides the cell's own.
    #[serde(default, rename = "where")]
    pub of: Where,
    /// The parameter whose values are the assumptions; without it there is one.
    #[serde(default)]
    pub over: Option<String>,
    /// What to compare in place of the table's metric, if the paper may have meant that.
    #[serde(default)]
    pub metric: Option<Metric>,
}

/// Something that the paper says in words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Its name.
    pub id: String,
    /// The paper's words, or their sense.
    pub text: String,
    /// The scenario with its runs.
    pub scenario: String,
    /// Its runs.
    #[serde(default, rename = "where")]
    pub of: Where,
    /// A condition that the paper does not print.
    #[serde(default)]
    pub open: Option<String>,
    /// What is to be true of them.
    pub rule: Rule,
}

/// Longest file of claims, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl ClaimsFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// One line with the file, the key, what it got and what it takes.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        let text =
            read_text(path, FILE_BYTES_MAX).with_context(|| format!("{shown}: cannot be read"))?;
        Ok(Self::parse(&shown, &text)?)
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let document = document::parse(text)
            .map_err(|error| ScenarioError::new(format!("{file}: {error}")))?;
        let explain =
            |error: DocumentError| ScenarioError::new(error.explain(file, &document, &[]));
        let claims: Self = document::read(&document).map_err(explain)?;
        claims.check_tolerances().map_err(explain)?;
        for (number, table) in claims.table.iter().enumerate() {
            let at =
                |error: DocumentError| explain(error.within(&number.to_string()).within("table"));
            if !claims.tolerance.contains_key(&table.metric) {
                return Err(at(DocumentError::at(
                    "metric",
                    "has no tolerance; add [tolerance]",
                )));
            }
            for (key, is_empty) in [
                ("columns", table.columns.is_empty()),
                ("row", table.row.is_empty()),
            ] {
                if is_empty {
                    return Err(at(DocumentError::at(key, "takes at least one")));
                }
            }
            for (number, row) in table.row.iter().enumerate() {
                if row.printed.iter().any(|value| !value.is_finite()) {
                    let error = DocumentError::at("printed", "takes numbers");
                    return Err(at(error.within(&number.to_string()).within("row")));
                }
                if row.printed.len() != table.columns.len() {
                    let problem = format!("takes {} values, one a column", table.columns.len());
                    let error = DocumentError::at("printed", problem);
                    return Err(at(error.within(&number.to_string()).within("row")));
                }
            }
        }
        for (number, figure) in claims.figure.iter().enumerate() {
            let error = figure.check();
            error.map_err(|error| explain(error.within(&number.to_string()).within("figure")))?;
        }
        Ok(claims)
    }

    /// A distance that is below zero, or no number, is none.
    fn check_tolerances(&self) -> Result<(), DocumentError> {
        let check = |key: &str, value: f64| {
            if value.is_finite() && value >= 0.0 {
                return Ok(());
            }
            Err(DocumentError::at(key, "takes 0 or more"))
        };
        check("tie_percent", self.tie_percent)?;
        for (metric, tolerance) in &self.tolerance {
            let within = |error: DocumentError| match serde_json::to_value(metric) {
                Ok(Json::String(name)) => error.within(&name).within("tolerance"),
                _ => error.within("tolerance"),
            };
            check("percent", tolerance.percent).map_err(within)?;
            check("absolute", tolerance.absolute).map_err(within)?;
        }
        for (number, statement) in self.statement.iter().enumerate() {
            for (key, value) in statement.rule.distances() {
                check(key, value).map_err(|error| {
                    let number = number.to_string();
                    error.within("rule").within(&number).within("statement")
                })?;
            }
        }
        Ok(())
    }

    /// The scenarios that its claims name, each once, in order.
    pub fn scenarios(&self) -> Vec<&str> {
        let of_tables = self.table.iter().flat_map(|table| {
            let others = table
                .alternative
                .iter()
                .map(|other| other.scenario.as_str());
            std::iter::once(table.scenario.as_str()).chain(others)
        });
        once(
            of_tables
                .chain(self.of_figures())
                .chain(self.of_statements()),
        )
    }

    /// The same without those of alternatives.
    pub fn stated_scenarios(&self) -> Vec<&str> {
        let of_tables = self.table.iter().map(|table| table.scenario.as_str());
        once(
            of_tables
                .chain(self.of_figures())
                .chain(self.of_statements()),
        )
    }

    /// Those of whose runs a statement needs the packets.
    pub fn traced_scenarios(&self) -> Vec<&str> {
        let statements = self.statement.iter();
        let statements = statements.filter(|statement| statement.rule.needs_packets());
        once(statements.map(|statement| statement.scenario.as_str()))
    }

    fn of_figures(&self) -> impl Iterator<Item = &str> {
        let files = self.figure.iter().flat_map(|figure| &figure.scenarios);
        files.map(String::as_str)
    }

    fn of_statements(&self) -> impl Iterator<Item = &str> {
        self.statement
            .iter()
            .map(|statement| statement.scenario.as_str())
    }
}

/// Each name once, in order.
fn once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut once = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    once
}
