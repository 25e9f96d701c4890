// SPDX-License-Identifier: Apache-2.0
//! The groups of the gateway's counters.

use holdfast_core::Counters;
use holdfast_core::handoff::{ChannelCounters, HandoffCounters};
use holdfast_core::signal::{PeerCounters, Rejection};
use holdfast_net::counters::DATA_PATH;

use super::station::StationCounters;
use super::worker::{WorkerCounters, WorkerGauges};
use crate::counters::{CounterGroup, KEEP};

/// The counters of an engine and its worker. A mobile with an engine has them too.
pub(crate) const ENGINE: [CounterGroup; 3] = [
    ("", Counters::INFO),
    ("worker.", WorkerCounters::INFO),
    ("worker.", WorkerGauges::INFO),
];

const OWN: [CounterGroup; 6] = [
    ("data-path.", DATA_PATH),
    ("signals.", PeerCounters::INFO),
    ("signals.", Rejection::INFO),
    ("handoff.", HandoffCounters::INFO),
    ("handoff.", StationCounters::INFO),
    ("handoff.", ChannelCounters::INFO),
];

/// All groups of the gateway.
pub(crate) fn groups() -> impl Iterator<Item = CounterGroup> {
    ENGINE.into_iter().chain(OWN).chain(KEEP)
}
