// SPDX-License-Identifier: Apache-2.0
//! Snoop's parameters, as the paper names them, and the two sets of them.

use core::time::Duration;

/// Which Snoop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnoopSet {
    /// As published: duplicate ACKs tell of losses, SACK is neither read nor written, and
    /// outages are not known.
    Paper1995,
    /// For senders with SACK, RACK and D-SACK: losses are found by what the MH reports and
    /// when it was sent, and outages are survived as by `hold`.
    #[default]
    Today,
}

/// Parameters of the scheme `snoop`.
#[derive(Clone, Debug)]
pub struct SnoopSettings {
    /// Which Snoop.
    pub set: SnoopSet,
    /// Weight of a new measurement in `srtt`: the paper's alpha (section 4).
    pub alpha: f64,
    /// A packet that was retransmitted is retransmitted again after so many `srtt` without
    /// an ACK (section 4).
    pub retransmit_srtts: u32,
    /// But no more often than each of these (section 4).
    pub retransmit_interval_min: Duration,
    /// With something unacknowledged and no packet of either end for so long, the first is
    /// retransmitted (section 4).
    pub persist: Duration,
    /// Bytes cached for a flow up to which packets in the normal sequence are accepted
    /// (section 4). What comes out of sequence is cached beyond, up to the flow's limit.
    pub high_water_mark_bytes: usize,
    /// Packets beyond a hole in what the MH sends until it is told of the hole (section
    /// 3.2).
    pub nack_threshold_packets: u32,
    /// Or so long without anything new from the MH (section 3.2).
    pub nack_wait: Duration,
    /// `today`: a hole is hidden from the FH at most for this part of its retransmission
    /// timeout as estimated.
    pub hide_rtos: f64,
    /// `today`: a loss while the link's own queue holds more than this part of the whole
    /// path's shortest round trip is congestion, and the FH is told.
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
}

impl Default for SnoopSettings {
    fn default() -> Self {
        Self::today()
    }
}
