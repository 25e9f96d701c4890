// SPDX-License-Identifier: Apache-2.0
//! What a transfer's ends know when it is over.

use holdfast_testbed::download::Received;
use holdfast_testbed::link_process::EmulatedLink;

use crate::endpoint::Sample;
use crate::endpoint::pair::Back;
use crate::stall;

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

/// When a transfer took place, CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "units stand in names")]
pub(super) struct Times {
    /// Time zero of the links.
    pub(super) origin_ns: u64,
    pub(super) started_ns: u64,
    /// It was over, or no longer waited for.
    pub(super) ended_ns: u64,
}

/// By the rule of all substrates.
pub(super) fn stalls_s(
    link: &EmulatedLink,
    times: Times,
    received: &Received,
    finished: bool,
) -> Vec<Option<f64>> {
    let since_s = |at_ns: u64| at_ns.saturating_sub(times.origin_ns) as f64 / 1e9;
    let last = received.arrivals.last().filter(|_| finished);
    let end_ns = last.map_or(times.ended_ns, |arrival| arrival.at_ns);
    let between_s = [since_s(times.started_ns), since_s(end_ns)];
    stall::stalls_s(&link.outages, between_s, |from_s, until_s| {
        let from_ns = times.origin_ns + (from_s * 1e9) as u64;
        let at_s = since_s(received.first_from(from_ns)?.at_ns);
        (at_s < until_s).then_some(at_s)
    })
}
