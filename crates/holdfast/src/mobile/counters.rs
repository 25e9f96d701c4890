// SPDX-License-Identifier: Apache-2.0
//! The groups of the mobile's counters.

use holdfast_core::compression::DecompressionCounters;
use holdfast_core::mobile_host::MobileHostCounters;
use holdfast_core::signal::{MobileCounters, Rejection};
use holdfast_net::counters::{DATA_PATH, KEEP_PATH, MOBILE_PATH};

use super::daemon::DaemonCounters;
use super::host::{HostCounters, HostGauges};
use super::{decompress, uplink};
use crate::counters::{CounterGroup, KEEP};
use crate::gateway::counters::ENGINE;

const OWN: [CounterGroup; 12] = [
    ("", MobileCounters::INFO),
    ("", DaemonCounters::INFO),
    ("rejected.", Rejection::INFO),
    ("host.", MobileHostCounters::INFO),
    ("host.", HostCounters::INFO),
    ("host.", HostGauges::INFO),
    ("path.", MOBILE_PATH),
    (uplink::TCP, DATA_PATH),
    (uplink::KEEP, KEEP_PATH),
    ("decompression.", DecompressionCounters::INFO),
    ("decompression.", decompress::WorkerCounters::INFO),
    ("decompression.", decompress::WorkerGauges::INFO),
];

/// All groups of the mobile.
pub(crate) fn groups() -> impl Iterator<Item = CounterGroup> {
    OWN.into_iter().chain(ENGINE).chain(KEEP)
}
