// SPDX-License-Identifier: Apache-2.0
//! Link signals: a mobile's reports about its link to its gateway, sealed.
//!
//! There are two state machines, sans-IO. A [`MobileSession`] turns link events into datagrams, and
//! repeats them until they are acknowledged. A [`GatewayPeers`] turns datagrams into
//! [`LinkNotice`]s. Time and random bytes are arguments.
//!
//! ```text
//! MH                                            gateway
//!  | up, epoch 4, counter 1, no challenge ------> |  not believed: may be recorded
//!  | <------ challenge C, view epoch 3, echo 1 -- |
//!  | up, epoch 4, counter 2, challenge C -------> |  new session (C, incarnation)
//!  | <-------------------------- ack, echo 2 ---- |
//!  | down, epoch 4, counter 3, challenge C -----> |
//! ```
//!
//! A message is believed in two cases. Either it has the session's challenge and incarnation, and a
//! counter above all believed ones. Or it answers the pending challenge, which ends the session
//! before. A restart of either end leads to a fresh challenge, so nothing is stored on a disk, and
//! no clock is compared. So a believed message was always made after all messages believed earlier.
//! `docs/link-signals.md` has the format and the reasons.

mod key;
mod message;
mod mobile;
mod receiver;
mod rejection;
mod seal;

#[cfg(test)]
mod tests;

pub use holdfast_settings::prefix::{Prefix, PrefixFormatError};
pub use holdfast_settings::signals::SIGNAL_PORT as PORT_DEFAULT;
pub use key::{KeyFormatError, MobileKey};
pub use message::{Abilities, RefusalReason, SignalKind};
pub use mobile::{GatewayChallenge, MobileCounters, MobileEvent, MobileSession, MobileTimers};
pub use receiver::{
    AbilitiesNotice, Entropy, GatewayPeers, Handled, LinkNotice, Outcome, PeerConfig, PeerCounters,
    PeerView, PeersError,
};
pub use rejection::{Rejection, RejectionCounters};
pub use seal::is_signal;

pub use crate::sealed::KeyId;

use crate::sealed;

/// Addresses that one mobile registers, at most.
pub const ADDRESSES_MAX: usize = 16;

/// Length of the longest datagram of either kind, in bytes.
pub const DATAGRAM_BYTES_MAX: usize =
    sealed::SEALED_AT + message::REQUEST_BYTES_MAX + sealed::TAG_BYTES;
