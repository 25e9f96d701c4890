// SPDX-License-Identifier: Apache-2.0
//! The record of an MH's outage, from its begin to its end.

use core::net::IpAddr;
use core::time::Duration;

use holdfast_wire::Instant;

use super::Mobile;
use crate::back_off::RTO_VARIATION_MIN;
use crate::link_state::LinkSource;
use crate::outage::{Outage, likely_up, stall_without};

/// An outage that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct OngoingOutage {
    pub begin: Instant,
    /// What noticed it.
    source: LinkSource,
    /// When the timers of the FHs began to run, as far as is known: with the last segment before it.
    pub timer_at: Option<Instant>,
}

impl Mobile {
    pub(super) fn begin_outage(&mut self, begin: Instant, source: LinkSource) {
        self.outages += 1;
        self.outage = Some(OngoingOutage {
            begin,
            source,
            timer_at: self.unanswered_since,
        });
    }

    /// What passed for an outage was none. When it began, if there was one.
    pub(crate) fn take_back_outage(&mut self) -> Option<Instant> {
        let outage = self.outage.take()?;
        self.outages -= 1;
        Some(outage.begin)
    }

    /// Ends the present outage, if there is one. `flows`: those with data that waited for its end.
    /// `is_shown_late`: an FH's own retransmission has shown link up. Called before
    /// [`Self::enter_recovery`].
    pub(crate) fn end_outage(
        &mut self,
        flows: u32,
        is_shown_late: bool,
        now: Instant,
    ) -> Option<Outage<IpAddr>> {
        let outage = self.outage.take()?;
        let timer_at = outage.timer_at.unwrap_or(outage.begin);
        let rto = self.rtt.rto(RTO_VARIATION_MIN);
        let up_at = if is_shown_late {
            likely_up(timer_at, rto, now)
        } else {
            now
        };
        let stall = stall_without(timer_at, rto, up_at);
        Some(Outage {
            mobile: self.address,
            begin: outage.begin,
            length: up_at.saturating_since(outage.begin),
            source: outage.source,
            flows,
            cached_bytes: self.cached_bytes as u64,
            stall_saved: if flows > 0 { stall } else { Duration::ZERO },
        })
    }
}
