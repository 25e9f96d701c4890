// SPDX-License-Identifier: Apache-2.0
//! M-TCP's parameters: those that the paper names, and those that it leaves open.

use core::time::Duration;

/// When persist packets go to an MH that does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtcpPersist {
    /// After 5 s, then at intervals that double up to 60 s (section 4.2).
    #[default]
    Published,
    /// At the round trip of the wireless half, which the paper names and did not implement.
    RoundTrip,
}

/// When the last byte that the MH has acknowledged is acknowledged to the FH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtcpRelease {
    /// When the wintimer expires (section 5).
    #[default]
    Wintimer,
    /// At once if the FH has sent nothing beyond it: no new ACK can come then, and nothing
    /// is left for which its window had to be shrunk.
    AtOnce,
}

/// Parameters of the scheme `mtcp`.
#[derive(Clone, Debug)]
pub struct MtcpSettings {
    /// The intervals of persist packets.
    pub persist: MtcpPersist,
    /// When the last byte is acknowledged.
    pub release: MtcpRelease,
    /// The congestion window of the wireless half begins with a segment and grows by what
    /// the MH acknowledges (as published); without it there is no such window (section
    /// 5.3.4).
    pub slow_start: bool,
    /// The least that is added to `srtt` for the timeouts of the wireless half (RFC 6298's
    /// 4 `rttvar`). The sum with the wired half has to stay below the FH's own timeout: 200
    /// ms above its round trip on Linux, a second at least on BSD of 1997.
    pub rto_variation_min: Duration,
    /// SH-TCP's receive window at most, bytes; 0: the MH's own.
    pub window_bytes: usize,
    /// What the cell carries toward the MHs, bytes of payload a second: shared among the
    /// connections, and what the wireless half loses is kept from the FHs. None: not known;
    /// the FHs' own congestion control regulates, and hears of losses.
    pub cell_bytes_per_s: Option<u64>,
}

impl Default for MtcpSettings {
    fn default() -> Self {
        Self {
            persist: MtcpPersist::Published,
            release: MtcpRelease::Wintimer,
            slow_start: true,
            rto_variation_min: Duration::from_millis(100),
            window_bytes: 0,
            cell_bytes_per_s: None,
        }
    }
}
