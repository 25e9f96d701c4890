// SPDX-License-Identifier: Apache-2.0
//! `on_handoff` and `lc_cwe` of a model host: what its sender does about handoffs, and the
//! numbers and readings of LC and CWE.

use holdfast_core::lccwe::arithmetic::ONE;
use holdfast_core::lccwe::{OnNeither, Parameters, TimeoutRtt};
use holdfast_settings::kind::{Maybe, Number};
use holdfast_sim::OnHandoff;
use serde::{Deserialize, Serialize};

/// The reaction of a host's sender to its own handoffs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnHandoffChoice {
    /// None: it gets no report of them.
    #[default]
    Nothing,
    /// Loss classifier and window extrapolator.
    LcCwe,
    /// The classifier alone.
    Lc,
    /// The extrapolator alone.
    Cwe,
    /// Its timer stops; after the handoff it does a fast retransmit.
    FreezeFastRetransmit,
}

/// `lc_cwe`: missing values are the defaults of docs/schemes/lc-cwe.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LcCweConditions {
    /// w_c, 0 to 1.
    #[serde(with = "Maybe::<Number<0, 1>>")]
    pub history_weight: Option<f64>,
    /// w_a, 0 to 1.
    #[serde(with = "Maybe::<Number<0, 1>>")]
    pub interval_weight: Option<f64>,
    /// The first congestion history, 0 to 100.
    #[serde(with = "Maybe::<Number<0, 100>>")]
    pub first_history: Option<f64>,
    /// The RTT of P_C after a timeout.
    pub timeout_rtt: Option<TimeoutRttChoice>,
    /// The judgement of a loss for which both probabilities are 0.
    pub on_neither: Option<OnNeitherChoice>,
}

/// The RTT of P_C after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeoutRttChoice {
    /// The last one measured.
    LastSample,
    /// The timeout.
    Timeout,
}

/// The judgement of a loss for which both probabilities are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnNeitherChoice {
    /// Congestion.
    Congestion,
    /// A handoff.
    Handoff,
}

impl LcCweConditions {
    /// These values, with the default of each missing key.
    pub(crate) fn in_full(self) -> Self {
        let parameters = self.parameters();
        let float = |fixed: u32| f64::from(fixed) / f64::from(ONE);
        Self {
            history_weight: Some(float(parameters.history_weight)),
            interval_weight: Some(float(parameters.interval_weight)),
            first_history: Some(float(parameters.first_history)),
            timeout_rtt: Some(match parameters.timeout_rtt {
                TimeoutRtt::LastSample => TimeoutRttChoice::LastSample,
                TimeoutRtt::Timeout => TimeoutRttChoice::Timeout,
            }),
            on_neither: Some(match parameters.on_neither {
                OnNeither::Congestion => OnNeitherChoice::Congestion,
                OnNeither::Handoff => OnNeitherChoice::Handoff,
            }),
        }
    }

    fn parameters(&self) -> Parameters {
        let default = Parameters::DEFAULT;
        let fixed = |value: Option<f64>, default: u32| {
            value.map_or(default, |value| (value * f64::from(ONE)).round() as u32)
        };
        Parameters {
            history_weight: fixed(self.history_weight, default.history_weight),
            interval_weight: fixed(self.interval_weight, default.interval_weight),
            first_history: fixed(self.first_history, default.first_history),
            timeout_rtt: match self.timeout_rtt {
                None => default.timeout_rtt,
                Some(TimeoutRttChoice::LastSample) => TimeoutRtt::LastSample,
                Some(TimeoutRttChoice::Timeout) => TimeoutRtt::Timeout,
            },
            on_neither: match self.on_neither {
                None => default.on_neither,
                Some(OnNeitherChoice::Congestion) => OnNeither::Congestion,
                Some(OnNeitherChoice::Handoff) => OnNeither::Handoff,
            },
        }
    }
}

impl OnHandoffChoice {
    /// Whether it reads the parameters of LC and CWE.
    pub(crate) const fn reads_numbers(self) -> bool {
        matches!(self, Self::LcCwe | Self::Lc | Self::Cwe)
    }

    /// The model's settings for it.
    pub(crate) fn settings(self, numbers: Option<LcCweConditions>) -> OnHandoff {
        let parameters = numbers.unwrap_or_default().parameters();
        let lc_cwe = |classifies, extrapolates| OnHandoff::LcCwe {
            classifies,
            extrapolates,
            parameters,
        };
        match self {
            Self::Nothing => OnHandoff::Nothing,
            Self::LcCwe => lc_cwe(true, true),
            Self::Lc => lc_cwe(true, false),
            Self::Cwe => lc_cwe(false, true),
            Self::FreezeFastRetransmit => OnHandoff::FreezeAndFastRetransmit,
        }
    }
}
