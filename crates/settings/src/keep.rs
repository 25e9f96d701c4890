// SPDX-License-Identifier: Apache-2.0
//! `[keep]`: the parameters of the scheme `keep`, for the gateway and for the mobile.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::{As, Bytes, Count, Seconds};

/// The default of `flow_packets_max`.
const FLOW_PACKETS_MAX: usize = 16;
/// The average size of a flow's packets, bytes. A super-segment counts as one packet.
const PACKET_BYTES: usize = 16 << 10;

/// Limits of the queues. At each of them the oldest packet is dropped.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeepSettings {
    /// The largest number of packets that are queued for each flow while its link is down: the
    /// newest.
    ///
    /// Cost: More: a longer burst when the link is up again, and more memory.
    /// docs/schemes/keep.md has figures.
    #[serde(with = "As::<Count<1, 1024>>")]
    pub flow_packets_max: usize,
    /// Bytes of one flow; one packet is queued however long it is.
    #[serde(skip)]
    pub flow_bytes_max: usize,
    /// Flows of one peer.
    #[serde(skip)]
    pub peer_flows_max: usize,
    /// Bytes of one peer.
    #[serde(skip)]
    pub peer_bytes_max: usize,
    /// Memory for queued packets, all flows together. A packet counts as 2,304 bytes at least. At
    /// the limit the oldest packets of the same mobile are dropped. One-way flows have a quarter
    /// of it. Each peer has another 36 KiB.
    ///
    /// Cost: Up to twice that much memory when it is full.
    #[serde(with = "As::<Bytes<1_048_576, 17_179_869_184>>")]
    pub bytes_max: usize,
    /// A packet that is older is dropped. Packets of a flow that the other side has not answered
    /// for a minute may become 1 s old at most.
    ///
    /// Cost: Shorter than the pause of a sender between two tries: nothing is left to send after a
    /// long outage.
    #[serde(rename = "age_max_s", with = "As::<Seconds<1, 36_000, 10>>")]
    pub age_max: Duration,
    /// The largest age of a packet of a one-way flow, for which a late packet is often useless.
    #[serde(skip)]
    pub one_way_age_max: Duration,
    /// The least time between two packets that probe a silent peer.
    #[serde(skip)]
    pub ask_interval: Duration,
}

impl Default for KeepSettings {
    fn default() -> Self {
        Self {
            flow_packets_max: FLOW_PACKETS_MAX,
            flow_bytes_max: FLOW_PACKETS_MAX * PACKET_BYTES,
            peer_flows_max: 256,
            peer_bytes_max: 4 << 20,
            bytes_max: 64 << 20,
            age_max: Duration::from_secs(180),
            one_way_age_max: Duration::from_secs(1),
            ask_interval: Duration::from_millis(100),
        }
    }
}

impl KeepSettings {
    /// The settings with the limits that follow from the keys.
    #[must_use]
    pub fn with_flow_bytes(self) -> Self {
        Self {
            flow_bytes_max: self.flow_packets_max * PACKET_BYTES,
            ..self
        }
    }
}
