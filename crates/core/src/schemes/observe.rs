// SPDX-License-Identifier: Apache-2.0
//! `observe`: passes every segment as it came, and counts what outages cost. It shows what a
//! scheme could gain here before one is used.
//!
//! Outages are detected as for all schemes, by reports and by silence. Nothing is cached, so
//! nothing is probed for, retransmitted or withheld, and no ACK is made. A silence ends with the
//! next segment of the MH.

use core::time::Duration;

use holdfast_wire::Segment;

use super::{Context, FlowScheme};
use crate::flow::Flow;
use crate::{Payload, Verdict};

/// It has no state of a flow.
#[derive(Default)]
pub(crate) struct Observe;

/// Outages that held up data, one for each flow.
const OUTAGES: &str = "observed.outages";
/// The length of these outages together.
const WAITS_MS: &str = "observed.waits_ms";
/// Bytes in flight when the link was up again.
const WAITING_BYTES: &str = "observed.waiting_bytes";

impl<P: Payload> FlowScheme<P> for Observe {
    fn reset(&mut self) {}

    fn counter_names(&self) -> &'static [&'static str] {
        &[OUTAGES, WAITS_MS, WAITING_BYTES]
    }

    fn caches(&self) -> bool {
        false
    }

    fn on_nothing_new(
        &mut self,
        flow: &mut Flow<P>,
        _segment: &Segment,
        _cx: &mut Context<'_, P>,
    ) -> Verdict {
        // It has passed, and is not repeated after the outage.
        flow.held_ack = None;
        Verdict::Forward
    }

    /// Bytes that the FH has sent and the MH has not acknowledged have waited for the link.
    fn on_outage_end(&mut self, flow: &mut Flow<P>, outage: Duration, cx: &mut Context<'_, P>) {
        let waited = flow.fh.max.distance_from(flow.fh.una);
        if waited > 0 {
            cx.counters.add(OUTAGES, 1);
            cx.counters.add(WAITS_MS, outage.as_millis() as u64);
            cx.counters.add(WAITING_BYTES, waited.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Scheme;
    use crate::gateway::tests::bench::{Bench, LEN, bench, passed};

    const NOTHING: [String; 0] = [];

    fn cost(bench: &Bench) -> [u64; 3] {
        [
            "observed.outages",
            "observed.waits_ms",
            "observed.waiting_bytes",
        ]
        .map(|name| bench.counter(name))
    }

    #[test]
    fn every_segment_of_an_outage_passes_and_nothing_is_sent_in_its_name() {
        let mut bench = bench(Scheme::Observe);
        bench.forward(1, 3);
        assert_eq!(bench.link_down(), NOTHING);
        assert_eq!(bench.down(1, LEN), passed(), "a retransmission of the FH");
        assert_eq!(bench.down(3001, LEN), passed(), "new data");
        assert_eq!(bench.down(4001, 0), passed(), "an ACK for the MH");
        assert_eq!(bench.wait(1_500), NOTHING, "no probe");
        assert_eq!(bench.cached(), 0);
        assert_eq!(bench.recovers(), NOTHING, "nothing is retransmitted");
        assert_eq!(cost(&bench), [1, 1_500, 4_000]);
        assert_eq!(bench.up(4001), passed());
    }

    #[test]
    fn a_silence_begins_with_the_first_segment_that_got_no_answer() {
        let mut bench = bench(Scheme::Observe);
        bench.forward(1, 2);
        assert_eq!(bench.wait(3_000), NOTHING);
        assert_eq!(bench.down(1, LEN), passed(), "the FH retransmits");
        assert_eq!(bench.up(1001), passed());
        assert_eq!(cost(&bench), [1, 3_000, 1_000]);
    }

    #[test]
    fn an_outage_that_holds_nothing_up_costs_nothing() {
        let mut bench = bench(Scheme::Observe);
        bench.forward(1, 1);
        assert_eq!(bench.up(1001), passed());
        assert_eq!(bench.link_down(), NOTHING);
        assert_eq!(bench.wait(500), NOTHING);
        assert_eq!(bench.recovers(), NOTHING);
        assert_eq!(cost(&bench), [0, 0, 0]);
    }
}
