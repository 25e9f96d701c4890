// SPDX-License-Identifier: Apache-2.0
//! The outages of the mobile's own link, as the workers and the machine of its flows report them.

use std::time::Duration;

use holdfast_core::LinkSource;
use holdfast_net::datapath::now;

use super::Daemon;
use crate::outages::EndedOutage;

impl Daemon {
    /// Adds an outage that a part has reported as ended.
    pub(super) fn note_outage(&mut self, mut outage: EndedOutage) {
        // To a worker the mobile is a server behind the same link.
        outage.mobile = None;
        // The parts receive each event of the link as a signal of this daemon.
        if outage.source == LinkSource::Signal {
            outage.source = self.link.down_by();
        }
        self.outages.add(outage, None, now());
    }

    /// Adds the outages of the flows, and does what is due for the list.
    pub(super) fn handle_outages(&mut self) {
        while let Some(outage) = self.host.as_mut().and_then(super::Host::poll_outage) {
            self.note_outage(outage.of(None));
        }
        self.outages.handle_timeout(now());
    }

    /// Adds and logs the last outages: the daemon ends, and all parts have left.
    pub(super) fn finish_outages(&mut self) {
        while let Ok(outage) = self.ended_outages.try_recv() {
            self.note_outage(outage);
        }
        self.handle_outages();
        self.outages.finish(now());
    }

    /// The time until the outage list has something due.
    pub(super) fn outages_timeout(&self) -> Duration {
        self.outages.next_timeout().saturating_since(now())
    }
}
