// SPDX-License-Identifier: Apache-2.0
//! The state of a split connection that one base station sends to the next.

use core::time::Duration;

use holdfast_wire::SeqNum;

/// The state of a split connection, in addition to what every scheme needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitState {
    /// The highest ACK that the FH was sent.
    pub acked: SeqNum,
    /// The FH's window is closed or was just opened: the ACK that opens it must be sent (again).
    pub is_shrunk: bool,
    /// The FH's window was closed at some time.
    pub was_shrunk: bool,
    /// The MH has sent data since it got an ACK of all of it.
    pub uplink_open: bool,
    /// The congestion window of the wireless half, bytes, if there is one.
    pub cwnd: Option<u32>,
    /// From a segment's arrival at the SH to the MH's ACK, smoothed.
    pub srtt: Option<Duration>,
    /// The wired half's round trip, smoothed.
    pub wired_srtt: Option<Duration>,
}
