// SPDX-License-Identifier: Apache-2.0
//! `[snoop]`: the parameters of the scheme `snoop`, as the paper names them, and the two sets.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::{As, Bytes, Count, Millis, Number};

/// Which Snoop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum SnoopSet {
    /// For senders with SACK, RACK and D-SACK; the default
    // Losses are found by the MH's reports and the times of sending. Outages are handled as by
    // `hold`.
    #[default]
    #[serde(rename = "today")]
    Today,
    /// As published in 1995
    // Losses are found by duplicate ACKs. SACK is neither read nor written, and outages are not
    // known.
    #[serde(rename = "1995")]
    #[cfg_attr(feature = "clap", value(name = "1995"))]
    Paper1995,
}

/// Parameters of the scheme `snoop`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SnoopSettings {
    /// Which Snoop. `1995`: as published. `today`: for senders with SACK, RACK and D-SACK. The
    /// defaults of the keys below are those of `today`.
    ///
    /// Cost: With `1995` today's senders learn of more losses, and outages are not handled.
    pub set: SnoopSet,
    /// Weight of a new measurement in the smoothed round trip of the wireless half, `srtt`: the
    /// paper's alpha (section 4).
    ///
    /// Cost: Larger: follows changes sooner, and single measurements too.
    #[serde(with = "As::<Number<1, 1000, 1000>>")]
    pub alpha: f64,
    /// After this number of `srtt` without an ACK a retransmitted packet is retransmitted once
    /// more (section 4).
    ///
    /// Cost: Fewer: a second loss is recovered sooner, for more spurious retransmissions.
    #[serde(with = "As::<Count<1, 100>>")]
    pub retransmit_srtts: u32,
    /// The least time between two retransmissions of a packet (section 4). `1995`: 40.
    ///
    /// Cost: Shorter: as above.
    #[serde(
        rename = "retransmit_interval_min_ms",
        with = "As::<Millis<1, 10_000>>"
    )]
    pub retransmit_interval_min: Duration,
    /// The gateway retransmits the first unacknowledged packet when no packet of either end has
    /// come for this time (section 4).
    ///
    /// Cost: Shorter: the loss of the last packet of a burst is recovered sooner, for more
    /// spurious retransmissions.
    #[serde(rename = "persist_ms", with = "As::<Millis<1, 60_000>>")]
    pub persist: Duration,
    /// Cached bytes of a flow up to which packets in the normal sequence are cached (section 4).
    /// Packets out of sequence are cached beyond it, up to `flow_cache_bytes_max`. `1995`: 64 KiB.
    ///
    /// Cost: Memory. Less than what an FH has in flight: the FH recovers the losses of the rest.
    #[serde(with = "As::<Bytes<1_024, 1_073_741_824>>")]
    pub high_water_mark_bytes: usize,
    /// Uplink: the number of packets beyond a hole after which the gateway sends the MH a NACK for
    /// it (section 3.2). Of `1995` alone.
    ///
    /// Cost: Fewer: sooner, and the MH retransmits packets that were only reordered.
    #[serde(with = "As::<Count<1, 1000>>")]
    pub nack_threshold_packets: u32,
    /// Uplink: the longest delay before a NACK for a hole with fewer than
    /// `nack_threshold_packets` packets beyond it (section 3.2). `1995`: 40. Of `1995` alone.
    ///
    /// Cost: Shorter: as above.
    #[serde(rename = "nack_wait_ms", with = "As::<Millis<1, 10_000>>")]
    pub nack_wait: Duration,
    /// The longest time for which a loss is hidden from the FH, in retransmission timeouts of the
    /// FH as the gateway estimates them. Of `today` alone.
    ///
    /// Cost: Larger: the FH may time out before it learns of the loss. Smaller: it learns of
    /// losses that the next retransmission would have recovered.
    #[serde(with = "As::<Number<0, 100>>")]
    pub hide_rtos: f64,
    /// The largest queue of the link at which a loss is hidden from the FH, in shortest round
    /// trips of the whole path. A loss with a longer queue is congestion: the FH learns of it. Of
    /// `today` alone.
    ///
    /// Cost: Larger: longer queues. Smaller: losses by the radio on a busy link slow the FH down.
    #[serde(with = "As::<Number<0, 1000>>")]
    pub congested_rtts: f64,
}

impl SnoopSettings {
    /// The paper's parameters.
    pub const fn paper_1995() -> Self {
        Self {
            set: SnoopSet::Paper1995,
            alpha: 0.25,
            retransmit_srtts: 2,
            retransmit_interval_min: Duration::from_millis(40),
            persist: Duration::from_millis(200),
            high_water_mark_bytes: 64 << 10,
            nack_threshold_packets: 3,
            nack_wait: Duration::from_millis(40),
            hide_rtos: 1.0,
            congested_rtts: 1.0,
        }
    }

    /// Those for today's senders.
    pub const fn today() -> Self {
        Self {
            set: SnoopSet::Today,
            retransmit_interval_min: Duration::from_millis(5),
            high_water_mark_bytes: 6 << 20,
            nack_wait: Duration::from_millis(10),
            hide_rtos: 0.75,
            congested_rtts: 2.0,
            ..Self::paper_1995()
        }
    }

    /// Those of a set.
    pub const fn of_set(set: SnoopSet) -> Self {
        match set {
            SnoopSet::Today => Self::today(),
            SnoopSet::Paper1995 => Self::paper_1995(),
        }
    }
}

impl Default for SnoopSettings {
    fn default() -> Self {
        Self::today()
    }
}
