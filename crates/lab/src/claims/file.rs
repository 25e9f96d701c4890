// SPDX-License-Identifier: Apache-2.0
//! `claims.toml`: a paper's tables and statements as printed, the runs that they are about,
//! and the tolerances of verdicts.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use holdfast_settings::kind::{As, Number};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::metric::Metric;
use super::parameters;
use super::rule::{Distance, Rule};
use crate::library;
use crate::results::{Where, grouped};
use crate::scenario::ScenarioError;
use holdfast_files::document::{self, DocumentError};

/// A printed value.
type Value = Number<-1_000_000_000, 1_000_000_000>;

/// The file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsFile {
    /// The paper's title and authors.
    pub title: String,
    /// How far from what is printed a metric may be.
    pub tolerance: BTreeMap<Metric, Tolerance>,
    /// Two values that are printed this close are not in any order, in percent.
    #[serde(default = "tie_percent", with = "As::<Distance>")]
    pub tie_percent: f64,
    /// What the paper does not print, and what is assumed for it.
    #[serde(default)]
    pub assumption: Vec<Assumption>,
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

/// The tolerance of a metric: a value is within it if it is within one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tolerance {
    /// In percent of what is printed.
    #[serde(with = "As::<Distance>")]
    pub percent: f64,
    /// In the metric's own unit.
    #[serde(with = "As::<Distance>")]
    pub absolute: f64,
}

/// A condition that the paper does not print.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// Its name.
    pub id: String,
    /// What is assumed.
    pub what: String,
    /// Why a reader may believe it: evidence from outside the claims that it decides.
    pub why: String,
    /// What it changes.
    pub changes: String,
    /// Whether it decides verdicts: it has better support than the printed conditions' scenario.
    /// Otherwise its results are only shown beside the verdicts.
    #[serde(default = "yes")]
    pub decides: bool,
}

const fn yes() -> bool {
    true
}

/// A claim's runs under an assumption.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumed {
    /// The assumption's name.
    pub assumption: String,
    /// The scenario with its runs.
    pub scenario: String,
    /// The metric that is compared instead of the table's, if the assumption is about the metric.
    #[serde(default)]
    pub metric: Option<Metric>,
}

/// A table as printed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedTable {
    /// Its name.
    pub id: String,
    /// The metric of its cells.
    pub metric: Metric,
    /// The scenario with its runs, in the paper's folder.
    pub scenario: String,
    /// The parameter that differs by column.
    pub column: String,
    /// Its values.
    pub columns: Vec<Json>,
    /// The parameter of the variants: the column parameter, or one of the rows'. The order of the
    /// variants is a claim of its own.
    pub variants: String,
    /// Whether the paper prints means of several runs; otherwise cells are compared with medians.
    #[serde(default)]
    pub means: bool,
    /// What the paper prints for a transfer that did not finish.
    #[serde(default)]
    pub unfinished: Option<f64>,
    /// A condition that neither the paper nor another of its tables prints. With it the cells
    /// cannot be compared, only their order.
    #[serde(default)]
    pub open: Option<String>,
    /// The rows.
    pub row: Vec<Row>,
    /// Its runs under assumptions; at most one assumption decides.
    #[serde(default)]
    pub assumed: Vec<Assumed>,
    /// Other runs of the same cells: a reason also shows their results.
    #[serde(default)]
    pub alternative: Vec<Alternative>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The parameters that select its runs.
    #[serde(rename = "where")]
    pub selection: Where,
    /// Its cells, as printed.
    pub printed: Vec<f64>,
}

/// The same cells under another assumption, or under each of several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// Its text, after "with".
    pub text: String,
    /// The scenario.
    pub scenario: String,
    /// The parameters that select its runs, besides those of the cell.
    #[serde(default, rename = "where")]
    pub selection: Where,
    /// The parameter whose values are the assumptions; none: there is one assumption.
    #[serde(default)]
    pub over: Option<String>,
    /// The metric that is compared instead of the table's, if the paper may have meant it.
    #[serde(default)]
    pub metric: Option<Metric>,
}

/// A metric against a parameter that is a number above 0.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedFigure {
    /// Its name.
    pub id: String,
    /// What it shows, quoted from the paper or in its sense.
    pub text: String,
    /// The metric that is drawn.
    pub metric: Metric,
    /// The scenarios with its runs, in the paper's folder.
    pub scenarios: Vec<String>,
    /// The parameters that select its runs.
    #[serde(default, rename = "where")]
    pub selection: Where,
    /// The parameter along the x axis.
    pub x: String,
    /// Whether the x axis is linear; otherwise it is a scale of powers of two.
    #[serde(default)]
    pub linear: bool,
    /// Whether bars are 95% confidence intervals of the means; otherwise they are standard
    /// deviations.
    #[serde(default)]
    pub intervals: bool,
    /// Draws the mean of the times that no transfer over the runs' links can beat.
    #[serde(default)]
    pub optimum: bool,
    /// The name of the x axis; none: the parameter's name.
    #[serde(default)]
    pub x_name: Option<String>,
    /// The parameter that has a curve for each value.
    pub variants: String,
    /// Points of the figure that are known as numbers.
    #[serde(default)]
    pub printed: Vec<PrintedPoint>,
    /// Draws the most that the link can carry, and shows each curve's share of it.
    #[serde(default)]
    pub ceiling: bool,
    /// The comparison of today's senders with the paper's.
    #[serde(default)]
    pub today: Option<TodaysComparison>,
}

/// One point as printed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedPoint {
    /// The parameter's value, above 0.
    #[serde(with = "As::<Number<1, 1_000_000_000_000, 1_000>>")]
    pub x: f64,
    /// The variant of its curve.
    pub variant: Json,
    /// The value, in the metric's unit.
    #[serde(with = "As::<Value>")]
    pub value: f64,
}

/// The comparison of a plain sender of today with the published mechanism.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TodaysComparison {
    /// Today's gateway scheme that leaves the sender alone.
    pub plain: Json,
    /// The scheme of today's gateway that is the published mechanism.
    pub published: Json,
    /// The published mechanism among the paper's own variants, with the paper's own sender.
    pub own: Json,
}

impl ClaimedTable {
    fn check(&self) -> Result<(), DocumentError> {
        for (key, len) in [("columns", self.columns.len()), ("row", self.row.len())] {
            if len == 0 {
                return Err(DocumentError::at(key, "takes at least one"));
            }
        }
        for (number, row) in self.row.iter().enumerate() {
            let at = |key, problem| Err(within(number, "row")(DocumentError::at(key, problem)));
            if row.printed.iter().any(|value| !value.is_finite()) {
                return at("printed", "takes numbers".to_owned());
            }
            if row.printed.len() != self.columns.len() {
                let problem = format!("takes {} values, one a column", self.columns.len());
                return at("printed", problem);
            }
        }
        Ok(())
    }

    /// Checks that each row names its variant, unless the columns do.
    fn check_variants(&self) -> Result<(), DocumentError> {
        for (number, row) in self.row.iter().enumerate() {
            if self.variants != self.column && !row.selection.contains_key(&self.variants) {
                let problem = format!("does not name one of the variants, `{}`", self.variants);
                let error = DocumentError::at("where", problem);
                return Err(within(number, "row")(error));
            }
        }
        Ok(())
    }
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
        Ok(())
    }
}

/// A statement of the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Its name.
    pub id: String,
    /// The paper's text, or its sense.
    pub text: String,
    /// The scenario with its runs.
    pub scenario: String,
    /// The parameters that select its runs.
    #[serde(default, rename = "where")]
    pub selection: Where,
    /// A condition that the paper does not print.
    #[serde(default)]
    pub open: Option<String>,
    /// Its runs under assumptions; at most one assumption decides.
    #[serde(default)]
    pub assumed: Vec<Assumed>,
    /// What the runs have to show: all of these rules.
    pub rule: Vec<Rule>,
    /// Whether it only defines a figure that is computed here too. Then it cannot fail, and instead of
    /// "holds" its verdict is "not comparable".
    #[serde(default)]
    pub definition: bool,
}

/// Longest file of claims, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl ClaimsFile {
    /// Reads and checks a file, whose scenarios sweep what `sweeps` returns.
    ///
    /// # Errors
    /// One line with the file, the key, what it got and what it takes.
    pub fn load(
        path: &Path,
        sweeps: &dyn Fn(&str) -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        let text = library::read(path, FILE_BYTES_MAX)
            .with_context(|| format!("{shown}: cannot be read"))?;
        let claims = Self::parse(&shown, &text)?;
        claims.check_parameters(&shown, &text, sweeps)?;
        Ok(claims)
    }

    /// Refuses parameters that the claims' scenarios do not sweep.
    pub(super) fn check_parameters(
        &self,
        file: &str,
        text: &str,
        sweeps: &dyn Fn(&str) -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<()> {
        let document = document::parse(text).map_err(ScenarioError::new)?;
        let unknown = parameters::unknown(&document, &[], sweeps)?;
        let tables = self.table.iter().enumerate();
        let mut unnamed = tables.filter_map(|(number, table)| {
            let error = table.check_variants().err()?;
            Some(within(number, "table")(error))
        });
        match unknown.or_else(|| unnamed.next()) {
            Some(error) => Err(ScenarioError::new(error.explain(file, &document, &[])).into()),
            None => Ok(()),
        }
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
        for (number, table) in claims.table.iter().enumerate() {
            let at = |error: DocumentError| explain(within(number, "table")(error));
            if !claims.tolerance.contains_key(&table.metric) {
                let problem = "has no tolerance; add [tolerance]";
                return Err(at(DocumentError::at("metric", problem)));
            }
            table.check().map_err(at)?;
            claims.check_metrics(table).map_err(at)?;
        }
        claims.check_assumptions().map_err(explain)?;
        for (number, figure) in claims.figure.iter().enumerate() {
            let error = figure.check();
            error.map_err(|error| explain(within(number, "figure")(error)))?;
        }
        Ok(claims)
    }

    /// Checks that a metric which an assumption compares has a tolerance.
    fn check_metrics(&self, table: &ClaimedTable) -> Result<(), DocumentError> {
        for (number, assumed) in table.assumed.iter().enumerate() {
            if (assumed.metric).is_some_and(|metric| !self.tolerance.contains_key(&metric)) {
                let error = DocumentError::at("metric", "has no tolerance; add [tolerance]");
                return Err(within(number, "assumed")(error));
            }
        }
        Ok(())
    }

    /// Checks that each assumption is used and defined, and that at most one of a claim decides.
    fn check_assumptions(&self) -> Result<(), DocumentError> {
        let tables = self.table.iter().map(|table| &table.assumed);
        let statements = self.statement.iter().map(|statement| &statement.assumed);
        let tables = tables.enumerate().map(|(at, all)| ("table", at, all));
        let statements = statements.enumerate();
        let statements = statements.map(|(at, all)| ("statement", at, all));
        let used: Vec<_> = tables.chain(statements).collect();
        for (list, at, all) in &used {
            self.check_assumed(*list == "table", all)
                .map_err(within(*at, list))?;
        }
        for (number, assumption) in self.assumption.iter().enumerate() {
            let mut used = used.iter().flat_map(|(_, _, all)| all.iter());
            if !used.any(|assumed| assumed.assumption == assumption.id) {
                let error = DocumentError::at("id", "no table and no statement names it");
                return Err(within(number, "assumption")(error));
            }
        }
        Ok(())
    }

    /// Checks the assumptions of one claim.
    fn check_assumed(&self, is_table: bool, all: &[Assumed]) -> Result<(), DocumentError> {
        let mut deciding = 0;
        for (number, assumed) in all.iter().enumerate() {
            let at = |key, problem: &str| {
                Err(within(number, "assumed")(DocumentError::at(key, problem)))
            };
            let Some(assumption) = self.assumption_of(assumed) else {
                return at("assumption", "is not among [[assumption]]");
            };
            deciding += usize::from(assumption.decides);
            if deciding > 1 {
                return at("assumption", "is the second one that decides this claim");
            }
            if !is_table && assumed.metric.is_some() {
                return at("metric", "a statement has it in its rule: takes none here");
            }
        }
        Ok(())
    }

    fn assumption_of(&self, assumed: &Assumed) -> Option<&Assumption> {
        let mut all = self.assumption.iter();
        all.find(|assumption| assumption.id == assumed.assumption)
    }

    /// Whether the assumption decides verdicts.
    pub(super) fn decides(&self, assumed: &Assumed) -> bool {
        self.assumption_of(assumed)
            .is_some_and(|assumption| assumption.decides)
    }

    /// The scenarios that its claims name, each once, in their order. `with_alternatives` adds
    /// those of alternatives.
    pub fn scenarios(&self, with_alternatives: bool) -> Vec<&str> {
        let tables = self.table.iter().flat_map(|table| {
            let others = table.alternative.iter();
            let others = others.map(|other| other.scenario.as_str());
            let assumed = table.assumed.iter().map(|other| other.scenario.as_str());
            let others = assumed.chain(others).filter(|_| with_alternatives);
            std::iter::once(table.scenario.as_str()).chain(others)
        });
        let figures = self.figure.iter().flat_map(|figure| &figure.scenarios);
        let statements = self.statement.iter().flat_map(|statement| {
            let assumed = statement.assumed.iter().filter(|_| with_alternatives);
            let assumed = assumed.map(|other| other.scenario.as_str());
            std::iter::once(statement.scenario.as_str()).chain(assumed)
        });
        once(tables.chain(figures.map(String::as_str)).chain(statements))
    }

    /// The scenarios of statements that need packets.
    pub fn traced_scenarios(&self) -> Vec<&str> {
        let statements = self.statement.iter();
        let statements = statements.filter(|statement| {
            let mut rules = statement.rule.iter();
            rules.any(|rule| rule.metric.needs_packets())
        });
        once(statements.map(|statement| statement.scenario.as_str()))
    }
}

/// Each name once, in order.
fn once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let groups = grouped(names, |name| *name).into_iter();
    groups.map(|(name, _)| name).collect()
}

/// The error in the entry `number` of a list.
fn within(number: usize, list: &str) -> impl Fn(DocumentError) -> DocumentError {
    move |error| error.within(&number.to_string()).within(list)
}
