// SPDX-License-Identifier: Apache-2.0
//! Rules of statements: the figure of each run, how several runs become one value, which values are
//! compared, and what is expected.

use holdfast_settings::kind::{As, Number};
use serde::Deserialize;
use serde_json::Value as Json;

use super::metric::Metric;
use crate::results::Where;

/// A tolerated distance.
pub(super) type Distance = Number<0, 1_000_000_000>;

/// What a statement's runs have to show.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The figure of each run.
    pub metric: Metric,
    /// The parameters that select some of the statement's runs.
    #[serde(default, rename = "where")]
    pub runs: Where,
    /// How the runs that differ in the seed alone become one value.
    #[serde(default)]
    pub reduce: Reduce,
    /// The comparison; none: the values are judged by themselves.
    #[serde(default)]
    pub compare: Option<Compare>,
    /// Values that differ in parameters other than these are pooled to their median, or with
    /// `reduce = "mean"` to their mean.
    #[serde(default)]
    pub per: Option<Vec<String>>,
    /// What is expected of the values, one for each combination of the other parameters.
    pub expect: Expect,
}

/// How several runs become one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reduce {
    /// Their median; a run that never reached the metric counts as infinite.
    #[default]
    Median,
    /// The mean of the runs that finished.
    Mean,
    /// Half the width of the mean's 95% confidence interval (Student's t).
    Interval,
    /// No reduction: each run is compared with the run of the same seed.
    Each,
}

/// Two values of a parameter.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// The parameter.
    pub parameter: String,
    /// The first value; none: each value.
    #[serde(default)]
    pub value: Option<Json>,
    /// The second value; none: each other value.
    #[serde(default)]
    pub with: Option<Json>,
    /// The kind of comparison.
    #[serde(default)]
    pub by: Quantity,
    /// Compares the result at two values of another parameter.
    #[serde(default)]
    pub along: Option<Along>,
    /// Equation (3) of Freeze-TCP: the result is divided by the equation's value.
    #[serde(default)]
    pub equation: Option<Equation>,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// The first divided by the second.
    #[default]
    Times,
    /// How much more the first is, in percent of the second.
    Gain,
    /// How much less the first is, in percent of the second.
    Saving,
    /// The first minus the second.
    Difference,
    /// The difference of two means, divided by the sum of half the widths of their 95% confidence
    /// intervals.
    Separation,
}

/// The quotient of two results, at two values of a parameter.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Along {
    /// The parameter.
    pub parameter: String,
    /// The value whose result is the divisor.
    pub from: Json,
    /// The value whose result is divided.
    pub to: Json,
}

/// Equation (3) of Freeze-TCP (Goff and others, 2000): the segments that a sender gains by
/// keeping its window over a disconnection.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equation {
    /// The parameter that is the window, in segments.
    pub window: String,
    /// The time that the link takes for a segment, in seconds.
    pub segment_s: f64,
}

/// What is expected of the values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expect {
    /// No more than this, in a share of all combinations.
    AtMost {
        /// The most.
        value: f64,
        /// From 0 to 1 (all).
        #[serde(default = "all", with = "As::<Distance>")]
        share: f64,
    },
    /// This or more, in a share of all combinations.
    AtLeast {
        /// The least.
        value: f64,
        /// From 0 to 1 (all).
        #[serde(default = "all", with = "As::<Distance>")]
        share: f64,
    },
    /// Less than this, in a share of all combinations.
    Below {
        /// The first value that is too large.
        value: f64,
        /// From 0 to 1 (all).
        #[serde(default = "all", with = "As::<Distance>")]
        share: f64,
    },
    /// Each value is between the two.
    Between {
        /// The printed least and greatest value.
        printed: [f64; 2],
        /// The tolerance beyond these, in percent.
        #[serde(default, with = "As::<Distance>")]
        percent: f64,
    },
    /// The least and the greatest value are these two.
    Ends {
        /// The printed least and greatest value.
        printed: [f64; 2],
        /// The tolerance of each end, in percent.
        #[serde(default, with = "As::<Distance>")]
        percent: f64,
        /// The tolerance of each end in the values' own unit: one of the two is enough.
        #[serde(default, with = "As::<Distance>")]
        points: f64,
    },
}

fn all() -> f64 {
    1.0
}
