// SPDX-License-Identifier: Apache-2.0
//! What a scheme sees beside the flow.

use core::cell::Cell;
use core::time::Duration;

use holdfast_wire::Instant;

use crate::counters::Counters;
use crate::mobile::{InFlight, Mobile};
use crate::recently_missing::RecentlyMissing;
use crate::rtt::RttEstimator;
use crate::settings::Settings;
use crate::upload_losses::UploadLosses;
use crate::{Actions, Payload};

/// What a hook may read, and where it puts its actions.
pub(crate) struct Context<'a, P: Payload> {
    pub settings: &'a Settings,
    /// Private: a scheme sees only what the methods return.
    mobile: &'a Mobile,
    /// The gateway is about to leave: nothing further may be acknowledged ahead of the MH.
    pub draining: bool,
    pub now: Instant,
    pub counters: &'a mut Counters,
    pub actions: &'a mut Actions<P>,
}

impl<'a, P: Payload> Context<'a, P> {
    #[inline]
    pub(crate) fn new(
        settings: &'a Settings,
        mobile: &'a Mobile,
        draining: bool,
        now: Instant,
        counters: &'a mut Counters,
        actions: &'a mut Actions<P>,
    ) -> Self {
        Self {
            settings,
            mobile,
            draining,
            now,
            counters,
            actions,
        }
    }

    /// The wireless half's round trip, all flows of the MH together.
    pub(crate) fn rtt(&self) -> &'a RttEstimator {
        &self.mobile.rtt
    }

    /// The shortest recent round trip of the wireless half, measured by the MH's handshakes.
    pub(crate) fn handshake_rtt(&self) -> Option<Duration> {
        self.mobile.handshake_rtt()
    }

    /// What is in flight to the MH, all flows together.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.mobile.in_flight
    }

    /// What the MH lacks of that, as recent reports have shown.
    pub(crate) fn missing(&self) -> &'a Cell<RecentlyMissing> {
        &self.mobile.missing
    }

    /// When the newest packet was sent that the MH has reported, and when it last reported one. All flows
    /// together.
    pub(crate) fn newest_arrival(&self) -> &'a Cell<Option<(Instant, Instant)>> {
        &self.mobile.newest_arrival
    }

    /// Open flows of the MH.
    pub(crate) fn open_flows(&self) -> usize {
        self.mobile.open_flows().len()
    }

    /// The MH is taken for unreachable.
    pub(crate) fn is_away(&self) -> bool {
        self.mobile.is_away()
    }

    /// What losses of the MH's uploads have shown. `None`: they are not judged by this.
    pub(crate) fn upload_losses(&self) -> Option<&'a UploadLosses> {
        self.mobile.upload.as_ref()?.losses.as_deref()
    }

    /// When a flow of the MH last found a loss of the radio.
    pub(crate) fn radio_lost_at(&self) -> Option<Instant> {
        self.mobile.radio_lost_at
    }
}
