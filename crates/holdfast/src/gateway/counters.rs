// SPDX-License-Identifier: Apache-2.0
//! The groups of the gateway's counters.

use holdfast_core::handoff::{ChannelCounters, HandoffCounters};
use holdfast_core::signal::{PeerCounters, Rejection};
use holdfast_core::{CounterInfo, Counters};
use holdfast_net::counters::DATA_PATH;

use super::station::StationCounters;
use super::worker::{WorkerCounters, WorkerGauges};

/// What begins the names of a group, and its counters.
pub(crate) const GROUPS: [(&str, &[CounterInfo]); 9] = [
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
