// SPDX-License-Identifier: Apache-2.0
//! The outages that the machine has seen the end of.

use core::time::Duration;

use holdfast_wire::Instant;

use super::{HostFlow, MobileHost};
use crate::link_state::LinkSource;
use crate::outage::{Outage, RTO_VARIATION_MIN, stall_without};
use crate::rtt::RTO_INITIAL;

/// The limit of those that were not reported yet.
pub(super) const OUTAGES_MAX: usize = 64;

/// The RTO of the FH, as its round trip shows it.
fn rto_of(flow: &HostFlow) -> Duration {
    let rto = |round_trip| round_trip + RTO_VARIATION_MIN;
    flow.round_trip().map_or(RTO_INITIAL, rto)
}

impl MobileHost {
    /// The next outage that has ended.
    pub fn poll_outage(&mut self) -> Option<Outage<()>> {
        self.ended_outages.pop()
    }

    /// An outage ends. Flows that received data within an RTO before it wait for that.
    pub(super) fn note_outage(
        &mut self,
        begin: Instant,
        source: LinkSource,
        flows: &[HostFlow],
        now: Instant,
    ) {
        let stalls = flows.iter().filter_map(|flow| {
            let (data_at, rto) = (flow.data_at?, rto_of(flow));
            let waits = data_at + rto >= begin;
            waits.then(|| stall_without(data_at.min(begin), rto, now))
        });
        let (flows, stall_saved) = stalls.fold((0, Duration::ZERO), |(flows, longest), stall| {
            (flows + 1, longest.max(stall))
        });
        self.counters.outages_lost += self.ended_outages.push(Outage {
            mobile: (),
            begin,
            length: now.saturating_since(begin),
            source,
            flows,
            cached_bytes: 0,
            stall_saved,
        });
    }
}
