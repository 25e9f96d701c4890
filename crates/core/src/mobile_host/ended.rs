// SPDX-License-Identifier: Apache-2.0
//! The outages that have ended.

use core::time::Duration;

use holdfast_wire::Instant;

use super::{HostFlow, MobileHost};
use crate::back_off::RTO_VARIATION_MIN;
use crate::link_state::LinkSource;
use crate::outage::{Outage, stall_without};
use crate::rtt::RTO_INITIAL;

/// Outages that have ended and were not reported yet, at most.
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

    /// An outage ends. A flow with data within an RTO before the outage has waited for its end.
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

#[cfg(test)]
mod tests {
    use super::super::tests::wake_flow;
    use super::super::{MobileHostSettings, MobileScheme};
    use super::*;
    use crate::LinkEvent;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000_000 + ms)
    }

    #[test]
    fn flows_that_received_data_just_before_an_outage_would_have_stalled_after_it() {
        let mut host = MobileHost::new(MobileHostSettings::new(MobileScheme::Wake));
        let with_data = |port, ms| HostFlow {
            data_at: Some(at(ms)),
            ..wake_flow(port, at(ms))
        };
        let flows = [
            with_data(1, 5_000),
            with_data(2, 4_900),
            with_data(3, 1_000),
        ];
        let mut actions = Vec::new();
        for (event, ms) in [
            (LinkEvent::Down, 5_000),
            (LinkEvent::Down, 6_000),
            (LinkEvent::Up, 8_000),
        ] {
            assert_eq!(host.poll_outage(), None);
            host.handle_link(event, &flows, at(ms), &mut actions);
        }
        let outage = host.poll_outage().expect("it has ended");
        assert_eq!(
            (outage.begin, outage.length),
            (at(5_000), Duration::from_secs(3))
        );
        assert_eq!((outage.source, outage.flows), (LinkSource::Signal, 2));
        // The RTO is 250 ms: after 3 s the next expiry of the first flow is at 3.75 s.
        assert_eq!(outage.stall_saved, Duration::from_millis(750));
        host.handle_link(LinkEvent::Up, &flows, at(8_100), &mut actions);
        assert_eq!(host.poll_outage(), None, "by another source");
    }
}
