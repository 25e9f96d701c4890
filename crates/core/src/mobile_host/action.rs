// SPDX-License-Identifier: Apache-2.0
//! What the machine is told of the link, and what it wants done.

use core::time::Duration;

use holdfast_wire::SeqNum;

use crate::FlowKey;

/// What became of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLinkEvent {
    /// It carries again.
    Up,
    /// It carries nothing.
    Down,
    /// It will go in so long; none: soon.
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
    /// The same as `Last`, with an echo of the FH's clock as it is now ([`super::wake::FhClock`]):
    /// what it acknowledges is new to the FH, and nothing below leaves after it.
    Wake,
}

/// What is to be done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAction {
    /// From now on the flow's window is 0 in all that goes out.
    Close(FlowKey),
    /// No longer.
    Open(FlowKey),
    /// From now on its window ends here at the latest in all that goes out. Said again it lies
    /// further ahead; a window once said does not shrink.
    Limit {
        /// The flow.
        key: FlowKey,
        /// The number after the last that it takes.
        edge: SeqNum,
    },
    /// Send so many of this ACK.
    Send {
        /// The flow.
        key: FlowKey,
        /// Which ACK.
        ack: MadeAck,
        /// How many.
        copies: u8,
    },
}
