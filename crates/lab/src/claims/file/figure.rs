// SPDX-License-Identifier: Apache-2.0
//! `[[figure]]`: a figure of a paper that is drawn anew from runs.

use serde::Deserialize;
use serde_json::Value as Json;

use super::{Metric, Where};
use crate::document::DocumentError;

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
    pub(super) fn check(&self) -> Result<(), DocumentError> {
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
            let at = |error: DocumentError| error.within(&number.to_string()).within("printed");
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
