// SPDX-License-Identifier: Apache-2.0
//! Rules: what is to be true of a statement's runs.

use serde::Deserialize;
use serde_json::Value as Json;

use super::Metric;

/// What is to be true of a statement's runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Rule {
    /// The runs that differ in `parameter` alone have the metric within `percent` of each
    /// other.
    Alike {
        /// The metric.
        metric: Metric,
        /// The parameter.
        parameter: String,
        /// The most, in percent of the least of them.
        percent: f64,
    },
    /// One value of a parameter is better than another by so many percent: the metric of
    /// `than` over that of `better`, less one; of response times a gain in goodput.
    Gain {
        /// The metric.
        metric: Metric,
        /// The parameter.
        parameter: String,
        /// The better value.
        better: Json,
        /// The other one.
        than: Json,
        /// What is printed, in percent.
        printed: f64,
        /// How far from it, in percentage points.
        points: f64,
    },
    /// The metric of `better` is less than that of each other value of the parameter, for
    /// all runs that are otherwise the same, by a share that lies in a range.
    ReducedBy {
        /// The metric.
        metric: Metric,
        /// The parameter.
        parameter: String,
        /// The better value.
        better: Json,
        /// The least and the most that is printed, in percent.
        printed: [f64; 2],
        /// How far from them, in percentage points.
        points: f64,
    },
    /// The metric of `better` is so many times that of `than`: the medians over repetitions,
    /// for each combination of the other parameters.
    Times {
        /// The metric, of which more is better.
        metric: Metric,
        /// The parameter.
        parameter: String,
        /// The better value.
        better: Json,
        /// The other one.
        than: Json,
        /// The least and the most that is printed.
        printed: [f64; 2],
        /// How far each may be from its own, in percent.
        percent: f64,
    },
    /// The median over the repetitions lies in a range, for each combination of parameters.
    Within {
        /// The metric.
        metric: Metric,
        /// The least and the most that is printed.
        printed: [f64; 2],
        /// How far beyond these, in percent.
        percent: f64,
    },
    /// The median of `better` is less than that of `than`, for each combination of the other
    /// parameters.
    Less {
        /// The metric, of which less is better.
        metric: Metric,
        /// The parameter.
        parameter: String,
        /// The better value.
        better: Json,
        /// The other one.
        than: Json,
    },
    /// No ACK reaches the FH with a number that the MH has not sent, in the runs that have
    /// `value`. Their packets are read for it.
    AcksOfTheMh {
        /// The parameter.
        parameter: String,
        /// Its value.
        value: Json,
    },
    /// All runs with one value of a parameter finish, none with another.
    Finishes {
        /// The parameter.
        parameter: String,
        /// The value with which transfers finish.
        with: Json,
        /// The one with which they do not.
        without: Json,
    },
    /// The retransmission ratio of every run is what its segments give:
    /// 100 × retransmitted / (all − retransmitted).
    RatioIsDefined {},
    /// Of the runs that finished, `better` comes to at most so many times `than`, in a share
    /// of the combinations of the other parameters.
    AtMost {
        /// The metric, of which less is better.
        metric: Metric,
        /// The parameter.
        parameter: String,
        /// The better value.
        better: Json,
        /// The other one.
        than: Json,
        /// So many times.
        times: f64,
        /// What of the runs is compared.
        #[serde(default)]
        of: Spread,
        /// In so much of the combinations at least: 1 is all of them.
        #[serde(default = "all")]
        share: f64,
    },
    /// With `better` in place of `than` a transfer is shorter, stalls apart, by the segments
    /// that equation (3) of Freeze-TCP gives for each outage: medians, for each window.
    ExtraSegments {
        /// The parameter.
        parameter: String,
        /// Its value with the window kept.
        better: Json,
        /// The other one.
        than: Json,
        /// The parameter that is the window, in segments.
        window: String,
        /// How long the link takes for a segment, in milliseconds.
        segment_ms: f64,
        /// How far from the equation, in percent.
        percent: f64,
    },
    /// The mean of the finished runs of `better` is less than that of `than`, and their 95%
    /// confidence intervals are apart, in every combination of the other parameters.
    Apart {
        /// The metric, of which less is better.
        metric: Metric,
        /// The parameter.
        parameter: String,
        /// The better value.
        better: Json,
        /// The other one.
        than: Json,
    },
    /// The mean of `than` is so many times that of `better`: fewer times where `along` is
    /// `to` than where it is `from`, in a share of the combinations of the others.
    GapShrinks {
        /// The metric.
        metric: Metric,
        /// The parameter.
        parameter: String,
        /// The better value.
        better: Json,
        /// The other one.
        than: Json,
        /// Another parameter.
        along: String,
        /// Its value with the larger gap.
        from: Json,
        /// The one with the smaller gap.
        to: Json,
        /// As above.
        #[serde(default = "all")]
        share: f64,
    },
    /// Every run with `all` finishes, and of those with `some` at least one does not.
    SomeUnfinished {
        /// The parameter.
        parameter: String,
        /// The value with which all do.
        all: Json,
        /// The one with which some do not.
        some: Json,
    },
    /// Every run with this value finishes.
    AllFinish {
        /// The parameter.
        parameter: String,
        /// Its value.
        value: Json,
    },
}

/// What of several runs is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Their mean.
    #[default]
    Mean,
    /// Half of the 95% confidence interval of their mean (Student's t).
    Interval,
}

fn all() -> f64 {
    1.0
}

impl Rule {
    /// Whether it needs the packets of its runs.
    pub(super) fn needs_packets(&self) -> bool {
        match self {
            Self::AcksOfTheMh { .. } => true,
            Self::Less { metric, .. } | Self::Within { metric, .. } => {
                *metric == Metric::SentAgainMs
            }
            _ => false,
        }
    }
    /// Its tolerances by their keys.
    pub(super) fn distances(&self) -> Vec<(&'static str, f64)> {
        match self {
            Self::Alike { percent, .. }
            | Self::Times { percent, .. }
            | Self::ExtraSegments { percent, .. }
            | Self::Within { percent, .. } => vec![("percent", *percent)],
            Self::Gain { points, .. } | Self::ReducedBy { points, .. } => vec![("points", *points)],
            Self::AtMost { times, share, .. } => vec![("times", *times), ("share", *share)],
            Self::GapShrinks { share, .. } => vec![("share", *share)],
            Self::RatioIsDefined {}
            | Self::Finishes { .. }
            | Self::Less { .. }
            | Self::Apart { .. }
            | Self::SomeUnfinished { .. }
            | Self::AllFinish { .. }
            | Self::AcksOfTheMh { .. } => Vec::new(),
        }
    }

    /// The parameters that it names, by their keys.
    pub(in crate::claims) fn parameters(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::GapShrinks {
                parameter, along, ..
            } => vec![("parameter", parameter), ("along", along)],
            Self::ExtraSegments {
                parameter, window, ..
            } => vec![("parameter", parameter), ("window", window)],
            Self::Alike { parameter, .. }
            | Self::Gain { parameter, .. }
            | Self::ReducedBy { parameter, .. }
            | Self::Times { parameter, .. }
            | Self::Less { parameter, .. }
            | Self::AtMost { parameter, .. }
            | Self::Apart { parameter, .. }
            | Self::SomeUnfinished { parameter, .. }
            | Self::AllFinish { parameter, .. }
            | Self::AcksOfTheMh { parameter, .. }
            | Self::Finishes { parameter, .. } => vec![("parameter", parameter)],
            Self::RatioIsDefined {} | Self::Within { .. } => Vec::new(),
        }
    }
}
