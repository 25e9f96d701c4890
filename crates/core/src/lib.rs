// SPDX-License-Identifier: Apache-2.0
//! The mechanisms of Holdfast, sans-IO.
//!
//! A [`Gateway`] is given segments, link events and the time. It answers each segment
//! with a [`Verdict`] and leaves [`Action`]s to be done in order; it never waits and
//! owns no socket. The same object runs in the daemon, in tests and in a simulator.
//!
//! # Contract
//!
//! - `handle_*` takes an input and the time `now`, which never goes back.
//! - [`Gateway::poll_timeout`] returns when to call [`Gateway::handle_timeout`] at the
//!   latest, unless an input comes first. Call it again after each input.
//! - A segment with [`Verdict::Forward`] is sent on before the actions are done.
//!
//! An MH that does something for its flows has a [`mobile_host::MobileHost`].
//!
//! # The path of a segment
//!
//! [`Gateway::handle_segment`] finds its flow in the [table](FlowKey), the flow follows
//! both ends' sequence numbers (`flow`, `flow::tracking`) and keeps the bytes
//! (`cache`); the mobile knows whether its link is up (`mobile`), and sends on what
//! was kept at the link's pace (`gateway::recovery`); the scheme decides what the FH
//! receives meanwhile (`schemes`).

mod action;
mod back_off;
mod bandwidth;
mod budget;
mod bytes;
mod cache;
mod changing_link;
pub mod compression;
mod counters;
mod delivery;
mod flow;
mod gateway;
pub mod handoff;
pub mod keep;
mod key;
pub mod lccwe;
mod link_state;
mod mobile;
pub mod mobile_host;
mod outage;
mod recent_max;
mod recently_missing;
mod record;
mod renumber;
mod rtt;
mod sack;
mod schemes;
mod sealed;
mod settings;
mod side;
pub mod signal;
mod split_state;
mod table;
mod timers;
mod upload_losses;
mod upload_watch;

#[cfg(test)]
mod testing;

pub use action::{Action, Actions, Made, Payload, Resend, Template, Unreachable, Verdict};
pub use bandwidth::{BandwidthSettings, CellSettings};
pub use counters::{CounterInfo, Counters};
pub use flow::Stage;
pub use gateway::{FlowView, Gateway, MobileView, Stats};
pub use key::FlowKey;
pub use link_state::{LinkEvent, LinkSource, LinkState};
pub use outage::Outage;
pub use record::{FLOW_RECORD_LEN, FlowRecord};
pub use renumber::{Renumber, Rescale};
pub use schemes::mtcp::{
    MtcpHandoff, MtcpPersist, MtcpRelease, MtcpSetUp, MtcpSettings, MtcpShrink, RECONNECTION_FLAGS,
};
pub use schemes::snoop::{SnoopSet, SnoopSettings};
pub use settings::{Scheme, Settings};
pub use side::{Direction, Side};
pub use split_state::SplitState;
