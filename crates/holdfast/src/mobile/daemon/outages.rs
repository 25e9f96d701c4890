// SPDX-License-Identifier: Apache-2.0
//! The outages of the mobile's own link, as the workers and the machine of its flows report them.

use std::time::Duration;

use holdfast_core::LinkSource;
use holdfast_net::datapath::now;

use super::Daemon;
use crate::outages::EndedOutage;

impl Daemon {
    /// Notes an outage that a part has seen the end of.
    pub(super) fn note_outage(&mut self, mut outage: EndedOutage) {
        // A worker's mobile is a server behind the same link.
        outage.mobile = None;
        // To the parts each report is a signal of this daemon.
        if outage.source == LinkSource::Signal {
            outage.source = self.link.down_by();
        }
        self.outages.add(outage, None, now());
    }

    /// Takes the outages of the flows, and does what is due for all.
    pub(super) fn handle_outages(&mut self) {
        while let Some(outage) = self.host.as_mut().and_then(super::Host::poll_outage) {
            self.note_outage(outage.of(None));
        }
        self.outages.handle_timeout(now());
    }

    /// The daemon ends, and all parts have left.
    pub(super) fn finish_outages(&mut self) {
        while let Ok(outage) = self.ended_outages.try_recv() {
            self.note_outage(outage);
        }
        self.handle_outages();
        self.outages.finish(now());
    }

    /// How long until something is due for outages.
    pub(super) fn outages_timeout(&self) -> Duration {
        self.outages.next_timeout().saturating_since(now())
    }
}
