// SPDX-License-Identifier: Apache-2.0
//! What the engine does because of the settings' scheme.

use super::mtcp::MtcpSetUp;
use super::snoop::SnoopSet;
use crate::settings::{Scheme, Settings};

/// Whether outages are detected, and what they hold up is queued. Snoop as published knows of
/// none: it forwards whatever comes.
pub(crate) fn survives_outages(settings: &Settings) -> bool {
    settings.scheme != Scheme::Snoop || settings.snoop.set == SnoopSet::Today
}

/// Whether links are taken for ones of changing rate: silence, and the rate after an outage, are
/// found by the newest ACKs.
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

/// What the engine sends from the cache counts for the scheme as sent by the FH: it looks for
/// losses among it.
pub(crate) fn notes_transmissions(settings: &Settings) -> bool {
    matches!(settings.scheme, Scheme::Snoop | Scheme::Auto)
}

/// Whether outages are detected by what the MH sends, and its senders are woken. The servers of a
/// mobile's own downloads are woken by its own daemon.
pub(crate) fn serves_uploads(settings: &Settings) -> bool {
    matches!(settings.scheme, Scheme::Hold | Scheme::Auto) && !settings.takes_in_outages
}
