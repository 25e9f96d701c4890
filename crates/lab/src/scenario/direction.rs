// SPDX-License-Identifier: Apache-2.0
//! A direction, as scenarios write it.

use holdfast_core::Direction;
use serde::{Deserialize, Serialize};

/// A direction as scenarios write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectionChoice {
    /// Toward the MH.
    #[default]
    Downlink,
    /// From the MH.
    Uplink,
}

impl From<DirectionChoice> for Direction {
    fn from(way: DirectionChoice) -> Self {
        match way {
            DirectionChoice::Downlink => Self::Downlink,
            DirectionChoice::Uplink => Self::Uplink,
        }
    }
}
