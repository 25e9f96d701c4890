// SPDX-License-Identifier: Apache-2.0
//! What a transfer's ends know when it is over.

use holdfast_testbed::download::Received;

use crate::endpoint::Sample;
use crate::endpoint::pair::Back;

/// How a transfer ended.
pub(super) struct Ended {
    /// What arrived at the receiver.
    pub(super) received: Received,
    /// The connection came to its end, good or bad, within the limit.
    pub(super) in_time: bool,
    /// As far as the ends know all of it arrived.
    pub(super) whole: bool,
    /// The sender's socket over time, if asked for.
    pub(super) samples: Vec<Sample>,
    /// From each request to its answer's last byte, nanoseconds; of several requests.
    pub(super) latencies_ns: Vec<u64>,
    /// What came the other way, if something was to come.
    pub(super) back: Option<Back>,
    /// Packets that the sender retransmitted, where the kernel does not count them.
    pub(super) resent: Option<u64>,
    /// The same of the other connections.
    pub(super) others: Vec<Self>,
}

impl Ended {
    /// Nothing more is known of it.
    pub(super) const fn of(received: Received, in_time: bool) -> Self {
        Self {
            received,
            in_time,
            whole: false,
            samples: Vec::new(),
            latencies_ns: Vec::new(),
            back: None,
            resent: None,
            others: Vec::new(),
        }
    }
}
