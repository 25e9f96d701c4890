// SPDX-License-Identifier: Apache-2.0
//! The settings of the gateway's mechanisms.

use holdfast_settings::gateway::EngineSettings;

/// Which scheme serves the flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Segments are kept until the MH has acknowledged them and are sent on after an
    /// outage; no ACK is made and no window is touched.
    #[default]
    Hold,
    /// Every segment passes as it came; outages and what they cost are counted.
    Observe,
    /// M-TCP+ (Omueti and Trajković, 2007): as `Hold`, and in an outage all that is
    /// kept is acknowledged to the FH with a window of 0. **Bytes are then
    /// acknowledged before the MH has them.**
    MtcpPlus,
    /// M-TCP as the M-TCP+ paper models it, to compare with: each ACK reduced by one,
    /// the last byte acknowledged with a window of 0 on disconnection. Strips what the MH
    /// reports by SACK. For the laboratory.
    Mtcp2007,
    /// M-TCP (Brown and Singh, 1997): the connection is split at the gateway; all but the last
    /// byte that the MH has acknowledged is acknowledged to the FH, and in an outage that
    /// byte, with a window of 0. Nothing is acknowledged ahead of the MH.
    Mtcp,
    /// Snoop (Balakrishnan, Seshan, Amir and Katz, 1995): what the wireless half loses is
    /// found and retransmitted by the gateway; the FH does not hear of it.
    Snoop,
}

/// Settings of a [`Gateway`](crate::Gateway).
pub type Settings = EngineSettings<Scheme>;
