// SPDX-License-Identifier: Apache-2.0
//! Whether a claims file speaks of what its scenarios sweep. A parameter that no run has
//! would make groups of one run each, and rules about them that cannot fail.

use super::file::{Alternative, ClaimedTable, ClaimsFile, Statement, within};
use crate::results::Where;
use crate::scenario::ScenarioError;
use holdfast_files::document::{DocumentError, nearest};

/// What a scenario sweeps, by its file.
type Sweeps<'a> = &'a dyn Fn(&str) -> anyhow::Result<Vec<String>>;

/// The scenario's sweeps, to be asked for a parameter.
struct Swept<'a> {
    scenario: &'a str,
    names: Vec<String>,
}

impl<'a> Swept<'a> {
    fn of(scenario: &'a str, sweeps: Sweeps<'_>) -> anyhow::Result<Self> {
        Ok(Self {
            scenario,
            names: sweeps(scenario)?,
        })
    }

    fn check(&self, key: &str, parameter: &str) -> Result<(), DocumentError> {
        if self.names.iter().any(|name| name == parameter) {
            return Ok(());
        }
        let known = self.names.iter().map(String::as_str);
        let remedy = nearest(parameter, known)
            .map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        let problem = format!(
            "got `{parameter}`, which {} does not sweep{remedy}",
            self.scenario
        );
        Err(DocumentError::at(key, problem))
    }

    fn check_all(&self, key: &str, of: &Where) -> Result<(), DocumentError> {
        of.keys()
            .try_for_each(|parameter| self.check(key, parameter))
    }
}

impl ClaimsFile {
    /// Refuses parameters that the claims' scenarios do not sweep.
    ///
    /// # Errors
    /// One line with `file`, the key, and the nearest parameter that there is; or a scenario
    /// cannot be read.
    pub(super) fn check_parameters(&self, file: &str, sweeps: Sweeps<'_>) -> anyhow::Result<()> {
        let explain = |error: DocumentError| {
            ScenarioError::new(error.explain(file, &toml::Table::new(), &[]))
        };
        for (number, table) in self.table.iter().enumerate() {
            let swept = Swept::of(&table.scenario, sweeps)?;
            let at = within(number, "table");
            check_table(table, &swept).map_err(|error| explain(at(error)))?;
            for (other, alternative) in table.alternative.iter().enumerate() {
                let swept = Swept::of(&alternative.scenario, sweeps)?;
                check_alternative(alternative, &swept)
                    .map_err(|error| explain(at(within(other, "alternative")(error))))?;
            }
        }
        for (number, figure) in self.figure.iter().enumerate() {
            for scenario in &figure.scenarios {
                let swept = Swept::of(scenario, sweeps)?;
                let checked = swept
                    .check("x", &figure.x)
                    .and_then(|()| swept.check("variants", &figure.variants))
                    .and_then(|()| swept.check_all("where", &figure.of));
                checked.map_err(|error| explain(within(number, "figure")(error)))?;
            }
        }
        for (number, statement) in self.statement.iter().enumerate() {
            let swept = Swept::of(&statement.scenario, sweeps)?;
            check_statement(statement, &swept)
                .map_err(|error| explain(within(number, "statement")(error)))?;
        }
        Ok(())
    }
}

fn check_table(table: &ClaimedTable, swept: &Swept<'_>) -> Result<(), DocumentError> {
    swept.check("column", &table.column)?;
    swept.check("variants", &table.variants)?;
    for (number, row) in table.row.iter().enumerate() {
        let at = within(number, "row");
        swept.check_all("where", &row.of).map_err(&at)?;
        if table.variants != table.column && !row.of.contains_key(&table.variants) {
            let problem = format!(
                "does not say which of the variants, `{}`, it is",
                table.variants
            );
            return Err(at(DocumentError::at("where", problem)));
        }
    }
    Ok(())
}

fn check_alternative(other: &Alternative, swept: &Swept<'_>) -> Result<(), DocumentError> {
    swept.check_all("where", &other.of)?;
    let over = other.over.as_deref();
    over.map_or(Ok(()), |parameter| swept.check("over", parameter))
}

fn check_statement(statement: &Statement, swept: &Swept<'_>) -> Result<(), DocumentError> {
    swept.check_all("where", &statement.of)?;
    for (number, rule) in statement.rule.iter().enumerate() {
        for (key, parameter) in rule.parameters() {
            let checked = swept.check(key, parameter);
            checked.map_err(within(number, "rule"))?;
        }
    }
    Ok(())
}
