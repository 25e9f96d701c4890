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
//!      |     time is over       | another BS takes over     state or  | time is over
//!      |                        +------------------ FORWARDING <------+
//!      +---- mobile registers here, and no owner is known ------------^
//! ```
//!
//! Layers, each of use without those above it:
//!
//! - [`FlowState`]: what one engine knows of a flow, in at most [`FLOW_STATE_BYTES_MAX`]
//!   bytes; [`Gateway::export`](crate::Gateway::export) and
//!   [`Gateway::adopt`](crate::Gateway::adopt).
//! - [`Sending`] and [`Receiving`]: records of any kind from one station to another, each
//!   datagram acknowledged; lost, doubled and reordered ones harmless.
//! - [`Handoff`]: who has the mobile, who buffers, what is to be done. Values in, values
//!   out: [`Message`]s and [`HandoffAction`]s. A simulation may carry the values as they are.
//! - [`Channel`]: messages as sealed datagrams between [`Peers`].
//!
//! Ownership has the link epoch that the mobile's registration has raised; the highest
//! epoch wins, and of equal ones the higher [`StationId`]. A mobile without an owner gets plain
//! forwarding; two for a moment send some segments twice.

use core::net::IpAddr;

use holdfast_wire::Segment;

use crate::FlowKey;
use crate::signal::KeyId;

mod buffer;
mod bytes;
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
pub use message::{CopyKind, Message, MessageError, Outcome};
pub use peers::{PeerId, Peers};
pub use state::{FLOW_STATE_BYTES_MAX, FlowState};
pub use transfer::{DATAGRAM_RECORDS_BYTES_MAX, Receiving, Sending};

/// What a station is to a mobile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Nothing: packets for it that come by the wired route pass as without handoff.
    #[default]
    Idle,
    /// In its group: keeps what comes for it, and sends it nothing.
    Buffering,
    /// The mobile has come here, and what the station before knows of its flows is awaited:
    /// what comes is kept.
    Synchronising,
    /// The mobile is here: what comes is delivered.
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

/// A packet for an MH that can be kept and delivered later.
pub trait Copied: Clone {
    /// Its headers.
    fn segment(&self) -> &Segment;

    /// Bytes of memory that it takes.
    fn bytes(&self) -> usize;
}

/// What is to be done with a packet for an MH that came by the wired route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Send a copy to this mobile's group, by its number.
    pub copy: Option<(KeyId, u16)>,
    /// And here?
    pub disposition: Disposition,
}

/// What becomes of a packet at this station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// To the engine, as without handoff.
    Deliver,
    /// To [`Handoff::keep`] if it [has room](Handoff::has_room), and no further now; else to
    /// the engine.
    Keep(KeyId),
    /// Nowhere: the mobile is at another station, which gets the copy.
    Elsewhere,
}

/// Something to be done, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum HandoffAction<C> {
    /// Send a message to a neighbour.
    Send {
        /// Whom.
        to: PeerId,
        /// What.
        message: Message,
    },
    /// Send a kept packet to a neighbour that lacks it: as a [`CopyKind::Wanted`].
    SendCopy {
        /// Whom.
        to: PeerId,
        /// Whose packet.
        mobile: KeyId,
        /// The packet.
        copy: C,
    },
    /// Join the multicast group with this number.
    Join(u16),
    /// Leave it.
    Leave(u16),
    /// Hand the engine's knowledge of these addresses' flows to
    /// [`Handoff::send_state`]; the engine goes on until [`Stop`](Self::Stop).
    Export {
        /// Whose.
        mobile: KeyId,
        /// Its addresses.
        addresses: Vec<IpAddr>,
        /// For whom.
        to: PeerId,
    },
    /// The mobile is at another station: the engine lets go of it
    /// ([`Gateway::release`](crate::Gateway::release)); what it had cached goes to
    /// [`Handoff::keep`].
    Stop {
        /// Whose.
        mobile: KeyId,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// The engine takes this over ([`Gateway::adopt`](crate::Gateway::adopt)).
    Adopt(FlowState),
    /// The engine keeps what comes for these flows until [`Go`](Self::Go)
    /// ([`Gateway::hold`](crate::Gateway::hold)).
    Hold(Vec<FlowKey>),
    /// A packet for the mobile: by the kernel's routing to the engine, as if the wired route
    /// had brought it.
    Deliver(C),
    /// All is here that is to come of these flows: they go on
    /// ([`Gateway::go`](crate::Gateway::go)).
    Go(Vec<FlowKey>),
    /// The mobile is here now: the wired route may be moved.
    TookOver {
        /// Whose.
        mobile: KeyId,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// Another station has the mobile with this link epoch: a message of the mobile here must
    /// have a higher one.
    EpochElsewhere {
        /// Whose.
        mobile: KeyId,
        /// The epoch.
        epoch: u64,
    },
}
