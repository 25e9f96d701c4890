// SPDX-License-Identifier: Apache-2.0
//! An MH that sends: when it is probed, and whether it is silent.

use core::time::Duration;

use holdfast_wire::Instant;

use super::{Link, Mobile};
use crate::settings::Settings;
use crate::table::FlowId;

impl Mobile {
    /// When an uploading MH is probed; `None` while data is in flight to it, or the link is not up.
    pub(super) fn upload_probe_at(&self) -> Option<Instant> {
        let is_due = self.link == Link::Up && self.in_flight.bytes == 0;
        self.upload.as_ref().filter(|_| is_due)?.probe_at()
    }

    /// The flow to probe because the MH has stopped to send, if that is due.
    pub(crate) fn take_upload_probe(&mut self, now: Instant) -> Option<FlowId> {
        self.upload_probe_at().filter(|at| *at <= now)?;
        self.upload.as_mut()?.take_probe(now)
    }

    /// It was uploading and has not answered a probe.
    pub(crate) fn upload_is_silent(&self) -> bool {
        self.is_away()
            && self
                .upload
                .as_ref()
                .is_some_and(|watch| watch.probed_at.is_some())
    }

    /// The time in which a sender at the MH would have answered.
    pub(crate) fn upload_rto(&self, settings: &Settings) -> Duration {
        let rtt = self.upload.as_ref().map_or(self.rtt, |watch| watch.rtt);
        rtt.rto(settings.silence_min)
    }
}
