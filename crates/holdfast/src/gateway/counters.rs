// SPDX-License-Identifier: Apache-2.0
//! The groups of the gateway's counters.

use holdfast_core::Counters;
use holdfast_core::handoff::{ChannelCounters, HandoffCounters};
use holdfast_core::signal::{PeerCounters, Rejection};
use holdfast_net::counters::DATA_PATH;

use super::station::StationCounters;
use super::worker::{WorkerCounters, WorkerGauges};
use crate::counters::{CounterGroup, KEEP};

const OWN: [CounterGroup; 9] = [
    ("", Counters::INFO),
    ("worker.", WorkerCounters::INFO),
    ("worker.", WorkerGauges::INFO),
    ("data-path.", DATA_PATH),
    ("signals.", PeerCounters::INFO),
    ("signals.", Rejection::INFO),
    ("handoff.", HandoffCounters::INFO),
    ("handoff.", StationCounters::INFO),
    ("handoff.", ChannelCounters::INFO),
];

/// All groups of the gateway.
pub(crate) fn groups() -> impl Iterator<Item = CounterGroup> {
    OWN.into_iter().chain(KEEP)
}
