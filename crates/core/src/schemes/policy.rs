// SPDX-License-Identifier: Apache-2.0
//! What the engine does differently for each scheme.

use super::mtcp::MtcpSetUp;
use super::snoop::SnoopSet;
use crate::settings::{Scheme, Settings};

/// Whether outages are detected, and segments are queued in them. Snoop as published detects none: it
/// forwards every segment.
pub(crate) fn survives_outages(settings: &Settings) -> bool {
    settings.scheme != Scheme::Snoop || settings.snoop.set == SnoopSet::Today
}

/// Whether the rate of links is expected to change. Then the newest ACKs show silence, and the rate
/// after an outage.
pub(crate) fn expects_changing_rates(settings: &Settings) -> bool {
    settings.scheme == Scheme::Auto
}

/// Whether reports of a link change anything for a flow that is idle.
pub(crate) fn acts_on_idle_flows(settings: &Settings) -> bool {
    match settings.scheme {
        Scheme::Hold | Scheme::Auto | Scheme::Observe | Scheme::Snoop => false,
        Scheme::MtcpPlus | Scheme::Mtcp2007 | Scheme::Mtcp => true,
    }
}

/// Whether the scheme itself sets up connections.
pub(crate) fn sets_up_connections(settings: &Settings) -> bool {
    settings.scheme == Scheme::Mtcp && settings.mtcp.set_up == MtcpSetUp::Early
}

/// Whether what the engine sends from the cache counts as sent by the FH: the scheme looks for
/// losses in it.
pub(crate) fn notes_transmissions(settings: &Settings) -> bool {
    matches!(settings.scheme, Scheme::Snoop | Scheme::Auto)
}

/// Whether outages are detected by what the MH sends, and the MH's senders are woken. At a mobile
/// this is off: the mobile's daemon wakes the FHs of its downloads.
pub(crate) fn serves_uploads(settings: &Settings) -> bool {
    matches!(settings.scheme, Scheme::Hold | Scheme::Auto) && !settings.takes_in_outages
}
