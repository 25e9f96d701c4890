// SPDX-License-Identifier: Apache-2.0
//! Models of one direction of a link, sans-IO.
//!
//! A packet meets the parts in this order:
//!
//! 1. the outage: during one that loses packets it is dropped on arrival
//!    ([`OutageSchedule`], [`OutageEffect`]);
//! 2. the queue: drop tail, limited in packets and in bytes; one for each [`Station`]
//!    if two share the link, and one more for what is to go ahead ([`Priority`]);
//! 3. the rate: one packet is sent at a time ([`Capacity`]: constant, steps, or
//!    the delivery opportunities of a mahimahi trace);
//! 4. loss: random, Gilbert-Elliott, bit errors. A lost packet has used its time
//!    on the link, as on a radio;
//! 5. the path: propagation delay and jitter.
//!
//! Everything is a pure function of the settings, the seed and the times given:
//! nothing here reads a clock, a file or the operating system's randomness. Each random
//! part has a stream of its own, so that a change to one part does not change what the
//! others draw. Times are whole nanoseconds. A packet's fraction of a nanosecond is
//! carried over to the next packet, so that no rounding accumulates.

mod capacity;
mod file;
mod half_duplex;
mod limits;
mod loss;
mod model;
mod optimal;
mod outage;
mod priority;
mod random;
mod rate_model;
mod settings;
mod trace;

pub use capacity::Capacity;
pub use file::LinkFile;
pub use half_duplex::{HalfDuplexError, check_half_duplex};
pub use holdfast_wire::{Duration, Instant};
pub use limits::SettingsError;
pub use model::{Counters, Departure, DropReason, Enqueue, LinkModel, Station};
pub use optimal::optimal_transfer;
pub use outage::{
    MediumState, Outage, OutageAt, OutageEffect, OutagePlan, OutageSchedule, OutageSettings, Patch,
};
pub use priority::Priority;
pub use random::seed_for;
pub use rate_model::RateModel;
pub use settings::{
    ArqPlan, ArqSettings, BitErrorEffect, GilbertElliott, Jitter, LinkPlan, LinkSettings,
    QUEUE_PACKETS_DEFAULT, RATE_KEYS, SlowPlan, SlowSpells,
};
pub use trace::{Trace, TraceError, TraceFormat};
