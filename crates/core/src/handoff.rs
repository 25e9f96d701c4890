// SPDX-License-Identifier: Apache-2.0
//! Handoff between base stations (Snoop, section 3.3), sans-IO.
//!
//! A base station (BS) is a gateway with neighbours. The wired network's route to an MH
//! points at one BS; that BS sends a copy of each of the MH's packets to the MH's multicast
//! group while a neighbour has joined it. Each BS acts by its [`Role`] for the mobile.
//!
//! ```text
//!             prepare                       mobile registers here
//!     IDLE -------------> BUFFERING ---------------------------> SYNCHRONISING
//!      ^ <-------------------+  ^                                     |
//!      |       timeout          | another BS takes over     state or  | timeout
//!      |                        +------------------ FORWARDING <------+
//!      +---- mobile registers here, and no owner is known ------------^
//! ```
//!
//! The layers; each can be used without those after it:
//!
//! - [`FlowState`]: an engine's state of a flow, in at most [`FLOW_STATE_BYTES_MAX`] bytes;
//!   [`Gateway::export`](crate::Gateway::export) and [`Gateway::adopt`](crate::Gateway::adopt).
//! - [`Sending`] and [`Receiving`]: records of any kind from one station to another. Each datagram is
//!   acknowledged; lost, duplicated and reordered ones do no harm.
//! - [`Handoff`]: which station has the mobile, which ones buffer, and what they must do. Its input
//!   and output are values: [`Message`]s and [`HandoffAction`]s. A simulation passes them unchanged.
//! - [`Channel`]: messages as sealed datagrams between [`Peers`].
//!
//! The owner of a mobile is the station with the highest link epoch, which the mobile's registration
//! has raised; of equal epochs, the one with the higher [`StationId`]. Packets of a mobile without an
//! owner are forwarded as without handoff. If two stations are owners for a moment, some segments are
//! sent twice.

use core::net::IpAddr;

use holdfast_wire::Segment;

use crate::FlowKey;
use crate::signal::KeyId;

mod buffer;
mod channel;
mod machine;
mod message;
mod mobile;
mod peers;
mod state;
mod transfer;

#[cfg(test)]
mod tests;

pub use holdfast_settings::handoff::{HANDOFF_PORT as PORT_DEFAULT, HandoffSettings, StationId};

pub use channel::{Channel, ChannelCounters, Incarnation, Incoming, NONCE_BYTES, Refused};
pub use machine::{Handoff, HandoffCounters, HandoffView};
pub use message::{
    Body, Claim, CopyKind, FlowRange, Message, MessageError, Outcome, StatePart, Status,
};
pub use peers::{PeerId, Peers};
pub use state::{FLOW_STATE_BYTES_MAX, FlowState};
pub use transfer::{DATAGRAM_RECORDS_BYTES_MAX, Receiving, Sending};

/// A station's role for a mobile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// None: packets from the wired route pass as without handoff.
    #[default]
    Idle,
    /// The station has joined the mobile's group: it buffers packets and delivers none.
    Buffering,
    /// The mobile has come here, and the state of its flows is awaited: packets are buffered.
    Synchronising,
    /// The mobile is here: packets are delivered.
    Forwarding,
}

impl Role {
    /// The role as status and logs name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Buffering => "buffering",
            Self::Synchronising => "synchronising",
            Self::Forwarding => "forwarding",
        }
    }
}

/// A packet for an MH that can be buffered and delivered later.
pub trait Copied: Clone {
    /// Its headers.
    fn segment(&self) -> &Segment;

    /// Its memory in bytes.
    fn bytes(&self) -> usize;
}

/// What the caller does with a packet for an MH from the wired route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Send a copy to this mobile's group, by its number.
    pub copy: Option<(KeyId, u16)>,
    /// What to do with the packet here.
    pub disposition: Disposition,
}

/// What happens to a packet at this station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Give it to the engine, as without handoff.
    Deliver,
    /// Give it to [`Handoff::keep`] if it [has room](Handoff::has_room), otherwise to the engine.
    Keep(KeyId),
    /// Drop it: the mobile is at another station, which gets the copy.
    Elsewhere,
}

/// What the caller does, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum HandoffAction<C> {
    /// Send a message to a neighbour.
    Send {
        /// The neighbour.
        to: PeerId,
        /// The message.
        message: Message,
    },
    /// Send a buffered packet to a neighbour that has requested it, as a [`CopyKind::Wanted`].
    SendCopy {
        /// The neighbour.
        to: PeerId,
        /// The mobile.
        mobile: KeyId,
        /// The packet.
        copy: C,
    },
    /// Join the multicast group with this number.
    Join(u16),
    /// Leave that group.
    Leave(u16),
    /// Give the engine's state of these addresses' flows to [`Handoff::send_state`]. The engine works on
    /// until [`Stop`](Self::Stop).
    Export {
        /// The mobile.
        mobile: KeyId,
        /// Its addresses.
        addresses: Vec<IpAddr>,
        /// The neighbour that gets it.
        to: PeerId,
    },
    /// The mobile is at another station: the engine releases it
    /// ([`Gateway::release`](crate::Gateway::release)), and its cached packets go to
    /// [`Handoff::keep`].
    Stop {
        /// The mobile.
        mobile: KeyId,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// The engine adopts this state ([`Gateway::adopt`](crate::Gateway::adopt)).
    Adopt(FlowState),
    /// The engine queues the segments of these flows until [`ResumeSending`](Self::ResumeSending)
    /// ([`Gateway::queue_segments`](crate::Gateway::queue_segments)).
    QueueSegments(Vec<FlowKey>),
    /// Deliver a packet to the mobile: through the kernel's routing to the engine, as if it came from the
    /// wired route.
    Deliver(C),
    /// Everything of these flows has arrived: the engine sends what it has queued
    /// ([`Gateway::resume_sending`](crate::Gateway::resume_sending)).
    ResumeSending(Vec<FlowKey>),
    /// The mobile is here now: move the wired route.
    TookOver {
        /// The mobile.
        mobile: KeyId,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// Another station has the mobile with this link epoch: only a message of the mobile with a higher one
    /// counts here.
    EpochElsewhere {
        /// The mobile.
        mobile: KeyId,
        /// The epoch.
        epoch: u64,
    },
}
