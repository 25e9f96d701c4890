// SPDX-License-Identifier: Apache-2.0
//! `claims.toml`: a paper's tables and statements as printed, the runs that they are about,
//! and the tolerances of verdicts.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::metric::Metric;
use super::rule::Rule;
use crate::results::Where;
use crate::scenario::ScenarioError;
use holdfast_files::document::{self, DocumentError, read_text};

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

/// A metric against a parameter that is a number above 0.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedFigure {
    /// Its name.
    pub id: String,
    /// What it shows, in the paper's words or their sense.
    pub text: String,
    /// What is drawn.
    pub metric: Metric,
    /// The scenarios with its runs, in the paper's folder.
    pub scenarios: Vec<String>,
    /// Its runs.
    #[serde(default, rename = "where")]
    pub of: Where,
    /// The parameter along the x axis.
    pub x: String,
    /// The x axis is in proportion, and not a scale of powers of two.
    #[serde(default)]
    pub linear: bool,
    /// Bars are 95% confidence intervals of the means, and not standard deviations.
    #[serde(default)]
    pub intervals: bool,
    /// Draws the mean of what no transfer over the runs' links can beat.
    #[serde(default)]
    pub optimum: bool,
    /// The axis in words; without it the parameter's name.
    #[serde(default)]
    pub x_name: Option<String>,
    /// The parameter with a curve for each value.
    pub variants: String,
    /// Points of it that are known as numbers.
    #[serde(default)]
    pub printed: Vec<PrintedPoint>,
    /// Draws the most that the link can carry, and says each curve's share of it.
    #[serde(default)]
    pub ceiling: bool,
    /// What to compare where today's senders are in the paper's place.
    #[serde(default)]
    pub today: Option<TodaysComparison>,
}

/// One point as printed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedPoint {
    /// The parameter's value.
    pub x: f64,
    /// Whose.
    pub variant: Json,
    /// In the metric's unit.
    pub value: f64,
}

/// A plain sender of today against what was published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodaysComparison {
    /// Today's gateway scheme that leaves the sender alone.
    pub plain: Json,
    /// The one that is as published.
    pub published: Json,
    /// The published one among the paper's own variants, with the paper's own sender.
    pub own: Json,
}

impl ClaimedFigure {
    fn check(&self) -> Result<(), DocumentError> {
        if self.scenarios.is_empty() {
            return Err(DocumentError::at("scenarios", "takes at least one"));
        }
        if self.ceiling && self.metric != Metric::GoodputMbps {
            let problem = "the most that a link can carry is a goodput: takes false here";
            return Err(DocumentError::at("ceiling", problem));
        }
        if self.optimum && self.metric != Metric::TransferS {
            let problem = "what no transfer can beat is a time: takes false here";
            return Err(DocumentError::at("optimum", problem));
        }
        for (number, point) in self.printed.iter().enumerate() {
            let at = within(number, "printed");
            if !(point.x.is_finite() && point.x > 0.0) {
                return Err(at(DocumentError::at("x", "takes a number above 0")));
            }
            if !point.value.is_finite() {
                return Err(at(DocumentError::at("value", "takes a number")));
            }
        }
        Ok(())
    }
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
    /// What is to be true of them: all of it.
    pub rule: Vec<Rule>,
    /// It defines a figure that is computed here too: that it holds says nothing.
    #[serde(default)]
    pub definition: bool,
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
            let at = |error: DocumentError| explain(within(number, "table")(error));
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
                    return Err(at(within(number, "row")(error)));
                }
                if row.printed.len() != table.columns.len() {
                    let problem = format!("takes {} values, one a column", table.columns.len());
                    let error = DocumentError::at("printed", problem);
                    return Err(at(within(number, "row")(error)));
                }
            }
        }
        for (number, figure) in claims.figure.iter().enumerate() {
            let error = figure.check();
            error.map_err(|error| explain(within(number, "figure")(error)))?;
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
            for (rule, its) in statement.rule.iter().enumerate() {
                for (key, value) in its.distances() {
                    check(key, value).map_err(|error| {
                        let error = within(rule, "rule")(error.within("expect"));
                        within(number, "statement")(error)
                    })?;
                }
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
        let statements = statements.filter(|statement| {
            let mut rules = statement.rule.iter();
            rules.any(|rule| rule.metric.needs_packets())
        });
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

/// The error in the entry `number` of a list.
pub(super) fn within(number: usize, list: &str) -> impl Fn(DocumentError) -> DocumentError {
    move |error| error.within(&number.to_string()).within(list)
}
