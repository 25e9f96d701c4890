// SPDX-License-Identifier: Apache-2.0
//! What one station passes to the next of a connection that is split.

use core::time::Duration;

use holdfast_wire::SeqNum;

/// What the next station needs of a split connection, besides what every scheme knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitState {
    /// The FH was sent an ACK of this.
    pub told: SeqNum,
    /// The FH's window is closed, or was just opened: it is to be opened (again).
    pub is_shrunk: bool,
    /// The FH's window was closed at some time.
    pub was_shrunk: bool,
    /// The MH has sent data since it was sent an ACK of all of it.
    pub uplink_open: bool,
    /// The congestion window of the wireless half, bytes, if there is one.
    pub cwnd: Option<u32>,
    /// From a segment's arrival at the SH to the MH's ACK, smoothed.
    pub srtt: Option<Duration>,
    /// The wired half's round trip, smoothed.
    pub wired_srtt: Option<Duration>,
}
