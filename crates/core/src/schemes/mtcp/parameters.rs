// SPDX-License-Identifier: Apache-2.0
//! M-TCP's parameters: those that the paper names, and those that it leaves open.

use core::time::Duration;

use super::handoff::MtcpHandoff;

/// When persist packets go to an MH that does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtcpPersist {
    /// After 5 s, then at intervals that double up to 60 s (section 4.2).
    #[default]
    Published,
    /// At the round trip of the wireless half, which the paper names and did not implement.
    RoundTrip,
}

/// In which order the two halves of a new connection are set up (section 5.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtcpSetUp {
    /// SYNs pass as they are: sequence numbers are the same on both halves, and the ends can go
    /// on without the gateway.
    #[default]
    LockStep,
    /// As the paper chose: the SH completes the half of the end that opens, then opens the
    /// other. The sequence numbers of one direction differ between the halves, and **a
    /// connection stands still without the gateway**.
    Early,
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

/// When the FH's window is closed while the MH is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtcpShrink {
    /// As soon as the wintimer expires or M-TCP freezes (section 5), with the ACK of the saved
    /// byte, so that the FH stops before its own timeout.
    #[default]
    Published,
    /// Over outstanding data today's senders do not stop, and each timeout with a window of 0
    /// is a loss recovery anew. So the FH hears nothing until it has repeated its first segment
    /// three times; then duplicate ACKs with a window of 0, by which it does not give up. The
    /// saved byte is acknowledged when the MH is back, with the window, and wakes the FH.
    Late,
}

/// Parameters of the scheme `mtcp`.
#[derive(Clone, Debug)]
pub struct MtcpSettings {
    /// When the FH's window is closed.
    pub shrink: MtcpShrink,
    /// The intervals of persist packets.
    pub persist: MtcpPersist,
    /// When the last byte is acknowledged.
    pub release: MtcpRelease,
    /// The wireless half has a congestion window, which grows by what the MH acknowledges (as
    /// published); without it there is no such window (section 5.3.4).
    pub slow_start: bool,
    /// Segments of that window at the beginning, at least 1.
    pub initial_window_segments: u32,
    /// The least that is added to `srtt` for the timeouts of the wireless half (RFC 6298's
    /// 4 `rttvar`). The sum with the wired half has to stay below the FH's own timeout: 200
    /// ms above its round trip on Linux, a second at least on BSD of 1997.
    pub rto_variation_min: Duration,
    /// SH-TCP's receive window at most, bytes; 0: the MH's own, and with a share of a cell no
    /// more than twice what that takes in a round trip.
    pub window_bytes: usize,
    /// What becomes of what is kept for a mobile that has gone to another SH.
    pub handoff: MtcpHandoff,
    /// In which order the halves are set up.
    pub set_up: MtcpSetUp,
}

impl MtcpSettings {
    /// As published in 1997.
    pub const fn published() -> Self {
        Self {
            shrink: MtcpShrink::Published,
            persist: MtcpPersist::Published,
            release: MtcpRelease::Wintimer,
            slow_start: true,
            initial_window_segments: 1,
            rto_variation_min: Duration::from_millis(100),
            window_bytes: 0,
            handoff: MtcpHandoff::Published,
            set_up: MtcpSetUp::LockStep,
        }
    }

    /// For today's senders.
    pub const fn today() -> Self {
        Self {
            shrink: MtcpShrink::Late,
            persist: MtcpPersist::RoundTrip,
            release: MtcpRelease::AtOnce,
            // RFC 6928: what the FH itself begins with.
            initial_window_segments: 10,
            handoff: MtcpHandoff::Forward,
            ..Self::published()
        }
    }
}

impl Default for MtcpSettings {
    fn default() -> Self {
        Self::today()
    }
}
