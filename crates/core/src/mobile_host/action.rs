// SPDX-License-Identifier: Apache-2.0
//! Reports of the link, and what the machine wants done.

use core::time::Duration;

use holdfast_wire::SeqNum;

use crate::FlowKey;

/// A report of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLinkEvent {
    /// It is up.
    Up,
    /// It is down.
    Down,
    /// It will go down after this time; none: soon.
    GoingDownSoon(Option<Duration>),
}

/// An ACK to be made for a flow. All have the newest SEQ, ACK, clocks and SACK blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeAck {
    /// With a window of 0 ("ZWA").
    ZeroWindow,
    /// The last one once more, with the true window.
    Last,
    /// The same with [`crate::RECONNECTION_FLAGS`].
    Marked,
    /// The same as `Last`, with no more of the window than up to this number.
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
    /// out if the unreachables cannot be sent: the interface has no room.
    pub boundary_acks: u32,
    /// The MH's own ACK follows, without SACK blocks. Nothing below its number leaves after it.
    pub sends_ack: bool,
    /// With the ACK: echoes from before the outage leave for this time as echoes of now
    /// ([`super::withheld::FhClock`]).
    pub renews_echo_for: Duration,
}

/// What is to be done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAction {
    /// From now on the flow's window is 0 in all that goes out.
    Close(FlowKey),
    /// No longer.
    Open(FlowKey),
    /// From now on its window ends here at the latest in all that goes out. A repetition lies
    /// further ahead: a window does not shrink.
    Limit {
        /// The flow.
        key: FlowKey,
        /// The number after the last that it takes.
        edge: SeqNum,
    },
    /// Send copies of this ACK.
    Send {
        /// The flow.
        key: FlowKey,
        /// Which ACK.
        ack: MadeAck,
        /// How many.
        copies: u8,
    },
    /// Send the packets that wake the FH.
    WakeUp(WakeUp),
    /// From now on echoes from before this moment leave as echoes of now, for this time, and
    /// nothing below the MH's own number leaves.
    RenewEcho {
        /// The flow.
        key: FlowKey,
        /// How long.
        lasts: Duration,
    },
    /// Send a keep-alive probe: a segment below the FH's window, which TCP answers with an ACK
    /// (RFC 1122, 4.2.3.6). If it left, [`MobileHost::handle_probe_sent`] is due.
    ///
    /// [`MobileHost::handle_probe_sent`]: super::MobileHost::handle_probe_sent
    Probe(FlowKey),
}
