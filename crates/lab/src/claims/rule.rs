// SPDX-License-Identifier: Apache-2.0
//! Rules of statements: which figure of the runs, how several runs become one value, what is
//! compared with what, and what is to be true of the values.

use holdfast_settings::kind::{As, Number};
use serde::Deserialize;
use serde_json::Value as Json;

use super::metric::Metric;
use crate::results::Where;

/// A distance that is tolerated.
pub(super) type Distance = Number<0, 1_000_000_000>;

/// What is to be true of a statement's runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The figure of each run.
    pub metric: Metric,
    /// Which of the statement's runs.
    #[serde(default, rename = "where")]
    pub runs: Where,
    /// How the runs that differ in the seed alone become one value.
    #[serde(default)]
    pub reduce: Reduce,
    /// What is compared with what; without it the values are judged by themselves.
    #[serde(default)]
    pub compare: Option<Compare>,
    /// Values that differ in other parameters than these become their median, or with
    /// `reduce = "mean"` their mean.
    #[serde(default)]
    pub per: Option<Vec<String>>,
    /// What is to be true of the values, one for each combination of the other parameters.
    pub expect: Expect,
}

/// How several runs become one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reduce {
    /// Their median; a run that never came to it takes longer than any other.
    #[default]
    Median,
    /// The mean of those that finished.
    Mean,
    /// Half of the 95% confidence interval of that mean (Student's t).
    Interval,
    /// They do not: each is compared with the run of the same seed.
    Each,
}

/// Two values of a parameter.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// The parameter.
    pub parameter: String,
    /// The first value; without it each of them.
    #[serde(default)]
    pub value: Option<Json>,
    /// The second one; without it each other one.
    #[serde(default)]
    pub with: Option<Json>,
    /// How.
    #[serde(default)]
    pub by: Quantity,
    /// How the outcome changes along another parameter.
    #[serde(default)]
    pub along: Option<Along>,
    /// What equation (3) of Freeze-TCP gives; the outcome is divided by it.
    #[serde(default)]
    pub equation: Option<Equation>,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// The first over the second.
    #[default]
    Times,
    /// The first is more than the second, in percent of the second.
    Gain,
    /// The first is less than the second, in percent of the second.
    Saving,
    /// The first less the second.
    Difference,
    /// The difference of two means over the sum of half their 95% confidence intervals.
    Separation,
}

/// From one value of a parameter to another one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Along {
    /// The parameter.
    pub parameter: String,
    /// The value whose outcome is divided by.
    pub from: Json,
    /// The value whose outcome is divided.
    pub to: Json,
}

/// Equation (3) of Freeze-TCP (Goff and others, 2000): the segments that a sender gains by
/// keeping its window over a disconnection.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equation {
    /// The parameter that is the window, in segments.
    pub window: String,
    /// How long the link takes for a segment, in seconds.
    pub segment_s: f64,
}

/// What is to be true of the values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expect {
    /// No more than this, in a share of all combinations.
    AtMost {
        /// The most.
        value: f64,
        /// 1 is all of them.
        #[serde(default = "all", with = "As::<Distance>")]
        share: f64,
    },
    /// This or more, in a share of all combinations.
    AtLeast {
        /// The least.
        value: f64,
        /// 1 is all of them.
        #[serde(default = "all", with = "As::<Distance>")]
        share: f64,
    },
    /// Less than this, in a share of all combinations.
    Below {
        /// More than the most.
        value: f64,
        /// 1 is all of them.
        #[serde(default = "all", with = "As::<Distance>")]
        share: f64,
    },
    /// Each between the two.
    Between {
        /// The least and the most that is printed.
        printed: [f64; 2],
        /// How far beyond these, in percent.
        #[serde(default, with = "As::<Distance>")]
        percent: f64,
    },
    /// The least and the most of them are these two.
    Ends {
        /// The least and the most that is printed.
        printed: [f64; 2],
        /// How far from its own each may be, in percent.
        #[serde(default, with = "As::<Distance>")]
        percent: f64,
        /// Or in the values' own unit.
        #[serde(default, with = "As::<Distance>")]
        points: f64,
    },
}

fn all() -> f64 {
    1.0
}
