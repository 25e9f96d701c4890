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
        flow.held_ack = None;
        Verdict::Forward
    }

    /// Bytes that the FH has sent and the MH has not acknowledged have waited for the link.
    fn on_outage_end(&mut self, flow: &mut Flow<P>, outage: Duration, cx: &mut Context<'_, P>) {
        let waited = flow.fh.max.distance_from(flow.fh.una);
        if waited > 0 {
            cx.counters.observed_outages += 1;
            cx.counters.observed_waits_ms += outage.as_millis() as u64;
            cx.counters.observed_waiting_bytes += u64::from(waited);
        }
    }
}
