// SPDX-License-Identifier: Apache-2.0
//! The actions of the machine.

use core::time::Duration;

use holdfast_wire::SeqNum;

use crate::FlowKey;

/// An ACK to be made for a flow. All have the newest SEQ, ACK, clocks and SACK blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeAck {
    /// With a window of 0 ("ZWA").
    ZeroWindow,
    /// The MH's last ACK, with the true window.
    Last,
    /// The same with [`crate::RECONNECTION_FLAGS`].
    Marked,
    /// The same as `Last`, with a window that ends at this number at the latest.
    Limited(SeqNum),
}

/// Packets that wake the FH of a flow after an outage (docs/schemes/wake.md), in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// The flow.
    pub key: FlowKey,
    /// ICMP unreachables about the segment that the MH waits for, 0 to 13: a Linux sender takes
    /// one doubling of its RTO back at each (RFC 6069).
    pub unreachables: u8,
    /// ACKs at the newest segment boundaries below the MH's own number, 0 to 256. They are left
    /// out if the interface has no room for the unreachables.
    pub boundary_acks: u32,
    /// The MH's own ACK follows, without SACK blocks. Nothing below its number leaves after it.
    pub sends_ack: bool,
    /// For this time after the ACK, echoes from before the outage leave as echoes of now
    /// ([`super::withheld::FhClock`]).
    pub renews_echo_for: Duration,
}

/// What the caller does, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAction {
    /// From now on the flow's window is 0 in every segment that leaves.
    Close(FlowKey),
    /// The flow's window leaves unchanged again.
    Open(FlowKey),
    /// From now on the flow's window ends here at the latest. A later order for the same flow is
    /// further ahead, because a window does not shrink.
    Limit {
        /// The flow.
        key: FlowKey,
        /// The number after the last byte that the window allows.
        edge: SeqNum,
    },
    /// Send copies of this ACK.
    Send {
        /// The flow.
        key: FlowKey,
        /// Which ACK.
        ack: MadeAck,
        /// The number of copies.
        copies: u8,
    },
    /// Send the packets that wake the FH.
    WakeUp(WakeUp),
    /// For this time echoes from before this moment leave as echoes of now, and no ACK below the MH's
    /// own number leaves.
    RenewEcho {
        /// The flow.
        key: FlowKey,
        /// The time.
        lasts: Duration,
    },
    /// Send a keep-alive probe: a segment below the FH's window, which TCP answers with an ACK
    /// (RFC 1122, 4.2.3.6). If it left, [`MobileHost::handle_probe_sent`] is due.
    ///
    /// [`MobileHost::handle_probe_sent`]: super::MobileHost::handle_probe_sent
    Probe(FlowKey),
}
