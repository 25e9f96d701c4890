// SPDX-License-Identifier: Apache-2.0
//! The groups of the mobile's counters, beside those of the workers that the gateway has too.

use holdfast_core::CounterInfo;
use holdfast_core::compression::DecompressionCounters;
use holdfast_core::mobile_host::MobileHostCounters;
use holdfast_core::signal::{MobileCounters, Rejection};
use holdfast_net::counters::{DATA_PATH, KEEP_PATH, MOBILE_PATH};

use super::daemon::DaemonCounters;
use super::host::{HostCounters, HostGauges};
use super::{decompress, uplink};

/// What begins the names of a group, and its counters.
pub(crate) const GROUPS: [(&str, &[CounterInfo]); 12] = [
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
