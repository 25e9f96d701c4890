// SPDX-License-Identifier: Apache-2.0
//! The record of an MH's outage, from its begin to its end.

use core::net::IpAddr;
use core::time::Duration;

use holdfast_wire::Instant;

use super::{Link, Mobile, WARNING_MAX};
use crate::back_off::RTO_VARIATION_MIN;
use crate::link_state::LinkSource;
use crate::outage::{Outage, likely_up, stall_without};
use crate::settings::Settings;

/// An outage that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct OngoingOutage {
    pub begin: Instant,
    /// What noticed it.
    source: LinkSource,
    /// When the FHs' retransmission timers began to run, as far as is known: at the first unanswered data.
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

    /// What passed for an outage was none. Returns when it began, if there was one.
    pub(crate) fn take_back_outage(&mut self) -> Option<Instant> {
        let outage = self.outage.take()?;
        self.outages -= 1;
        Some(outage.begin)
    }

    /// Ends the present outage, if there is one. `flows`: the number of flows with data that waited for its end.
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

    /// A report: the link goes down soon, in `lead` if known.
    pub(crate) fn warn(&mut self, lead: Option<Duration>, now: Instant) {
        self.going_down_soon = true;
        let until = now + lead.unwrap_or_default() + WARNING_MAX;
        self.warned_until = self.warned_until.max(Some(until));
    }

    /// A warning was not followed by an outage: true once.
    pub(crate) fn was_warned_in_vain(&mut self, now: Instant) -> bool {
        let over = self.warned_until.is_some_and(|until| until <= now);
        if over {
            self.warned_until = None;
            self.going_down_soon = false;
        }
        over && !self.disconnected
    }

    /// Whether schemes have been notified of an outage. It is over, and so is its warning.
    pub(crate) fn take_disconnected(&mut self) -> bool {
        let was_disconnected = core::mem::take(&mut self.disconnected);
        if was_disconnected {
            self.warned_until = None;
        }
        was_disconnected
    }

    /// A report: the link is down.
    pub(crate) fn go_down(&mut self, source: LinkSource, settings: &Settings, now: Instant) {
        // Further reports do not delay a probe. If the carrier is lost there are no more probes.
        let loses_carrier = source == LinkSource::Carrier && self.source != LinkSource::Carrier;
        if self.link == Link::Down && !loses_carrier {
            return;
        }
        if !self.is_away() {
            self.begin_outage(now, source);
        }
        self.enter(Link::Down, source, now);
        self.delivery.interrupt();
        self.probes = 0;
        // Without a carrier no probe goes out, and the carrier's return is reported.
        let probing = source != LinkSource::Carrier;
        self.probe_at = probing.then(|| now + self.probe_interval(settings, now));
    }

    /// The MH answers what was sent before it became silent: the link has lost nothing.
    pub(crate) fn end_silence(&mut self, now: Instant) {
        let begin = self.take_back_outage();
        if let (Some(link), Some(begin)) = (&mut self.changing, begin) {
            let measured = self.rtt.least().is_some();
            link.on_kept(now.saturating_since(begin), measured, now);
        }
        self.enter(Link::Up, LinkSource::Silence, now);
        self.probe_at = None;
    }

    /// What is in flight was lost, and only FHs can retransmit it. Until one does, nothing waits for an answer.
    pub(crate) fn expect_no_answer(&mut self) {
        self.unanswered_since = None;
    }
}
