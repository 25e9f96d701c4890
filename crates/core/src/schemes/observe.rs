// SPDX-License-Identifier: Apache-2.0
//! `observe`: passes every segment as it came. Each outage is reported with the stall that it cost, as
//! with all schemes ([`Outage`](crate::Outage)). So it shows what a scheme could gain here before one is
//! used.
//!
//! Outages are detected as for all schemes, by reports and by silence. Nothing is cached, so
//! nothing is probed for, retransmitted or withheld, and no ACK is made. A silence ends with the
//! next segment of the MH. If that answers what was sent before the silence, the link was late and
//! lost nothing: that is no outage.

use holdfast_wire::Segment;

use super::{Context, FlowScheme};
use crate::flow::Flow;
use crate::{Payload, Verdict};

/// It has no state of a flow.
#[derive(Default)]
pub(crate) struct Observe;

impl<P: Payload> FlowScheme<P> for Observe {
    fn reset(&mut self) {}

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
        flow.ack_in_outage = None;
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use crate::gateway::tests::bench::{Bench, LEN, bench, passed};
    use crate::{LinkSource, Scheme};

    const NOTHING: [String; 0] = [];

    /// The outages: what noticed each, its flows, its length and the stall that it cost, in ms.
    fn costs(bench: &mut Bench) -> Vec<(LinkSource, u32, u128, u128)> {
        let outages = core::iter::from_fn(|| bench.gateway.poll_outage());
        let cost = |outage: crate::Outage<_>| {
            let [length, stall] = [outage.length, outage.stall_saved].map(|time| time.as_millis());
            (outage.source, outage.flows, length, stall)
        };
        outages.map(cost).collect()
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
        assert_eq!(costs(&mut bench), [(LinkSource::Signal, 1, 1_500, 1_500)]);
        assert_eq!(bench.up(4001), passed());
    }

    #[test]
    fn the_time_until_the_fh_retransmits_after_link_up_is_no_outage() {
        let mut bench = bench(Scheme::Observe);
        bench.forward(1, 3);
        bench.link_down();
        bench.wait(1_500);
        bench.recovers();
        assert_eq!(costs(&mut bench).len(), 1);
        bench.wait(3_000);
        bench.down(1, LEN);
        bench.wait(20);
        bench.up(1001);
        assert_eq!(costs(&mut bench), []);
        assert_eq!(bench.counter("silences"), 0);
    }

    #[test]
    fn a_silence_begins_with_the_first_segment_that_got_no_answer() {
        let mut bench = bench(Scheme::Observe);
        bench.forward(1, 2);
        assert_eq!(bench.wait(3_000), NOTHING);
        assert_eq!(bench.down(1, LEN), passed(), "the FH retransmits");
        assert_eq!(bench.up(1001), passed());
        assert_eq!(costs(&mut bench), [(LinkSource::Silence, 1, 2_000, 1_000)]);
    }

    #[test]
    fn a_silence_after_which_all_arrives_is_a_slow_link_and_no_outage() {
        for fh_retransmits in [false, true] {
            let mut bench = bench(Scheme::Observe);
            bench.forward(1, 2);
            let sent = bench.fh_clock_seen;
            assert_eq!(bench.wait(3_000), NOTHING);
            if fh_retransmits {
                assert_eq!(bench.down(1, LEN), passed());
            }
            bench.fh_clock_seen = sent;
            assert_eq!(bench.up(2001), passed());
            assert_eq!((costs(&mut bench), bench.counter("silences")), (vec![], 1));
            assert_eq!(bench.counter("false_silences"), 1);
        }
    }

    #[test]
    fn a_new_ack_above_which_a_segment_is_missing_ends_a_silence_of_a_slow_link() {
        let mut bench = bench(Scheme::Observe);
        bench.forward(1, 4);
        let sent = bench.fh_clock_seen;
        assert_eq!(bench.wait(3_000), NOTHING);
        bench.fh_clock_seen = sent;
        assert_eq!(bench.up_with_sack(1001, 2001, 3001), passed());
        assert_eq!(
            (costs(&mut bench), bench.counter("false_silences")),
            (vec![], 1)
        );
    }

    #[test]
    fn data_that_arrives_above_a_loss_shows_an_outage() {
        let mut bench = bench(Scheme::Observe);
        bench.forward(1, 1);
        let sent = bench.fh_clock_seen;
        assert_eq!(bench.wait(3_000), NOTHING);
        assert_eq!(bench.down(1001, LEN), passed(), "new data of the FH");
        // The MH echoes what came in order (RFC 7323, 4.3).
        bench.fh_clock_seen = sent;
        assert_eq!(bench.up_with_sack(1, 1001, 2001), passed());
        assert_eq!(costs(&mut bench).len(), 1);
    }

    #[test]
    fn an_outage_that_holds_nothing_up_costs_no_stall() {
        let mut bench = bench(Scheme::Observe);
        bench.forward(1, 1);
        assert_eq!(bench.up(1001), passed());
        assert_eq!(bench.link_down(), NOTHING);
        assert_eq!(bench.wait(500), NOTHING);
        assert_eq!(bench.recovers(), NOTHING);
        assert_eq!(costs(&mut bench), [(LinkSource::Signal, 0, 500, 0)]);
    }
}
