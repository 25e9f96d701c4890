// SPDX-License-Identifier: Apache-2.0
//! The settings of the gateway's mechanisms.

use core::time::Duration;

use crate::bandwidth::BandwidthSettings;
use crate::compression::CompressionSettings;
use crate::schemes::mtcp::MtcpSettings;
use crate::schemes::snoop::SnoopSettings;

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
#[derive(Clone, Debug)]
pub struct Settings {
    /// The scheme.
    pub scheme: Scheme,
    /// Flows followed at most; further ones pass untouched. Each takes about 3 KiB.
    pub flows_max: usize,
    /// Bytes of payload kept at most, all flows together. A segment counts as 1,000 at least.
    pub cache_bytes_max: usize,
    /// Bytes of payload kept at most for one flow.
    pub flow_cache_bytes_max: usize,
    /// Segments (super-segments count once) kept at most for one flow.
    pub flow_cache_entries_max: usize,
    /// The least that is added to `srtt` before an MH without an ACK for data in
    /// flight is taken for silent (RFC 6298's 4 `rttvar`, with Linux's floor).
    pub silence_min: Duration,
    /// The least time between two probes of a silent MH; otherwise the round trip of
    /// the wireless half.
    pub probe_interval_min: Duration,
    /// The longest time between two probes.
    pub probe_interval_max: Duration,
    /// After this time without any segment a flow is forgotten. RFC 5382, REQ-5 asks
    /// for at least 2 h 4 min of middle nodes.
    pub flow_idle_max: Duration,
    /// How long bytes acknowledged ahead of the MH wait for it before both ends get
    /// a RST.
    pub owed_wait_max: Duration,
    /// What the cells carry, for all schemes that send from the cache.
    pub bandwidth: BandwidthSettings,
    /// Parameters of the scheme `Mtcp`.
    pub mtcp: MtcpSettings,
    /// How payload for mobiles that can read it is compressed (scheme `Mtcp` alone); none: not
    /// at all.
    pub compression: Option<CompressionSettings>,
    /// Parameters of the scheme `Snoop`.
    pub snoop: SnoopSettings,
    /// Seed of the tables' hashes: unpredictable in a daemon, fixed in a test.
    pub hash_seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scheme: Scheme::Hold,
            flows_max: 65_536,
            cache_bytes_max: 256 << 20,
            flow_cache_bytes_max: 8 << 20,
            flow_cache_entries_max: 8_192,
            silence_min: Duration::from_millis(200),
            probe_interval_min: Duration::from_millis(20),
            probe_interval_max: Duration::from_secs(1),
            flow_idle_max: Duration::from_secs(2 * 3600 + 4 * 60),
            owed_wait_max: Duration::from_secs(600),
            bandwidth: BandwidthSettings::default(),
            mtcp: MtcpSettings::default(),
            compression: None,
            snoop: SnoopSettings::default(),
            hash_seed: 0,
        }
    }
}
