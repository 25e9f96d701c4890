// SPDX-License-Identifier: Apache-2.0
//! `[gateway.bandwidth]`: the cells' capacities and the mobiles' weights, written as in the
//! gateway's own settings file.

use holdfast_core::signal::Prefix;
use holdfast_core::{BandwidthSettings, CellSettings};
use serde::{Deserialize, Serialize};

use crate::document::DocumentError;

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BandwidthConditions {
    /// `ADDRESS KBPS`, with a prefix or `*` for all in place of the address, and `estimate` in
    /// place of the number.
    pub cells: Vec<String>,
    /// `ADDRESS WEIGHT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<String>,
}

impl BandwidthConditions {
    /// The ranges are those of the gateway's settings file.
    pub(super) fn check(&self) -> Result<(), DocumentError> {
        self.settings().map(|_| ())
    }

    /// As the engine has them.
    ///
    /// # Errors
    /// An entry is not understood.
    pub fn settings(&self) -> Result<BandwidthSettings, DocumentError> {
        let no_cell = || {
            DocumentError::at(
                "cells",
                "takes texts such as \"10.2.0.0/24 20000\" or \"* estimate\"",
            )
        };
        let no_weight = || DocumentError::at("weights", "takes texts such as \"10.2.0.7 3\"");
        let cells = self.cells.iter().map(|text| cell(text).ok_or_else(no_cell));
        let weights = self
            .weights
            .iter()
            .map(|text| weight(text).ok_or_else(no_weight));
        Ok(BandwidthSettings {
            cells: cells.collect::<Result<_, _>>()?,
            weights: weights.collect::<Result<_, _>>()?,
        })
    }

    /// The section of the gateway's settings file.
    ///
    /// # Errors
    /// None is known: every value can be written.
    pub fn to_section(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("[bandwidth]\n{}", toml::to_string(self)?))
    }
}

fn cell(text: &str) -> Option<CellSettings> {
    let (mobiles, carries) = text.split_once(' ')?;
    let mobiles = match mobiles {
        "*" => None,
        prefix => Some(prefix.parse::<Prefix>().ok()?),
    };
    let bytes_per_s = match carries {
        "estimate" => None,
        kbps => Some(kbps.parse::<u64>().ok()?),
    };
    let in_range = bytes_per_s.is_none_or(|kbps| (1..=100_000_000).contains(&kbps));
    in_range.then(|| CellSettings {
        mobiles,
        bytes_per_s: bytes_per_s.map(|kbps| kbps * 1000 / 8),
    })
}

fn weight(text: &str) -> Option<(Prefix, u32)> {
    let (mobile, weight) = text.split_once(' ')?;
    let weight = weight
        .parse()
        .ok()
        .filter(|weight| (1..=1000).contains(weight))?;
    Some((mobile.parse().ok()?, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_goes_to_the_engine_and_into_the_gateways_file() {
        let text = "cells = [\"10.2.0.0/24 20000\", \"* estimate\"]\nweights = [\"10.2.0.7 3\"]\n";
        let own: BandwidthConditions = toml::from_str(text).unwrap();
        own.check().unwrap();
        assert_eq!(own.to_section().unwrap(), format!("[bandwidth]\n{text}"));
        let settings = own.settings().unwrap();
        assert_eq!(settings.cells[0].bytes_per_s, Some(2_500_000));
        assert_eq!(
            (settings.cells[1].mobiles, settings.cells[1].bytes_per_s),
            (None, None)
        );
        assert_eq!(settings.weights[0].1, 3);
    }

    #[test]
    fn what_is_no_cell_is_refused_by_its_key() {
        for text in [
            "cells = [\"*\"]",
            "cells = [\"* 0\"]",
            "weights = [\"10.2.0.7 0\"]",
        ] {
            let own: BandwidthConditions = toml::from_str(text).unwrap();
            let error = format!("{:?}", own.check().unwrap_err());
            assert!(error.contains(text.split(' ').next().unwrap()), "{error}");
        }
    }
}
