// SPDX-License-Identifier: Apache-2.0
//! A deterministic simulator: TCP hosts, the links of `holdfast_link`, and in the middle
//! the gateway's own engine from `holdfast_core`.
//!
//! # In
//!
//! An [`Experiment`] has everything that a run depends on: hops from the FHs to the
//! MHs, outages (part of the links), the gateway with its scheme, the transfers with the
//! TCP settings of both ends ([`Preset`] names those of the papers), cross traffic, a
//! seed, a limit. [`Experiment::run`] gives an [`Outcome`];
//! [`Experiment::run_observed`] shows an [`Observer`] each packet on each link with its
//! time, from which [`Packet::to_bytes`] makes a frame for a trace. What a chain cannot
//! describe can be built with a [`Network`] of any shape.
//!
//! # Inside
//!
//! One [queue of events](event) in virtual nanoseconds; events of the same time in the order in
//! which they were entered. Nothing reads a clock, iterates a hash map or draws from anything but
//! the seed. A segment carries no bytes, only the range of the bytes that it would carry
//! ([`packet`]); the receiver compares this range with its sequence numbers.
//!
//! In the order of a segment's path: [`tcp`] (a host's connection makes it), [`network`]
//! (links and nodes carry it), its `gateway` (the engine judges it), [`outcome`].

pub mod content;
pub mod event;
pub mod experiment;
pub mod network;
pub mod observe;
pub mod outcome;
pub mod packet;
pub mod tcp;

pub use content::ContentKind;
pub use experiment::{
    BaseStation, CrossTraffic, Experiment, GatewayPlan, Hop, Move, Roaming, RunUntil, Transfer,
};
pub use network::{
    COMPRESSED_HEADER_BYTES_MIN, LinkSignal, MobileEnginePlan, MobilePlan, Network, SplitPlan,
};
pub use observe::{LinkId, Observer, PacketEvent};
pub use outcome::{CrossOutcome, Outcome, Sample, Stall, TransferOutcome};
pub use packet::{NodeId, Packet};
pub use tcp::{Judged, OnHandoff, Preset, Reading, TcpSettings};
