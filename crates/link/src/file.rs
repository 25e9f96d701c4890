// SPDX-License-Identifier: Apache-2.0
//! The settings file of `holdfast link`: written by the lab, read by the link.

use crate::{LinkSettings, OutageEffect, OutageSettings};
use serde::{Deserialize, Serialize};

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkFile {
    /// Seed of all that is random.
    pub seed: Option<u64>,
    /// What outages do to packets, in both directions.
    pub outage_effect: Option<OutageEffect>,
    /// Both directions take turns on the medium of the downlink: one rate, and a queue each.
    pub half_duplex: bool,
    /// Bytes added to each packet: what framing and access to the medium cost at the
    /// link's rate.
    pub frame_overhead_bytes: u32,
    /// Outages of both directions at once.
    pub outages: OutageSettings,
    /// From the FH to the MH.
    pub downlink: LinkSettings,
    /// From the MH to the FH.
    pub uplink: LinkSettings,
}
