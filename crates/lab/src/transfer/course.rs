// SPDX-License-Identifier: Apache-2.0
//! What goes on beside a transfer.

use holdfast_testbed::appointed::Appointed;
use holdfast_testbed::daemons::Daemon;

use super::PreparedTransfer;
use super::buffers::BufferWatch;
use crate::movement;
use crate::own_flows::{self, Announced};

/// What goes on beside a transfer.
pub(super) struct Course {
    moving: Option<Appointed<()>>,
    announcer: Option<Appointed<Announced>>,
    buffers: Option<BufferWatch>,
}

impl Course {
    /// What goes on beside the transfer begins: the MH's moves, words about its link, a look
    /// at what base stations keep.
    pub(super) fn set_out(transfer: &PreparedTransfer, origin_ns: u64) -> anyhow::Result<Self> {
        let extras = &transfer.settings.extras;
        let daemon = transfer.mobile.as_ref().map(Daemon::socket);
        let moving = if extras.moves.is_empty() {
            None
        } else {
            let its_routes = (transfer.settings.congestion_control.as_str(), &extras.mh);
            let socket = daemon.filter(|_| extras.handoff.is_some());
            let moves = &extras.moves;
            Some(movement::set_out(
                &transfer.topology,
                moves,
                its_routes,
                socket,
                origin_ns,
            )?)
        };
        let own_flows = extras.own_flows.as_ref().zip(daemon);
        Ok(Self {
            moving,
            announcer: own_flows.map(|(own, to)| own_flows::announce(&own.words, to, origin_ns)),
            buffers: extras
                .handoff
                .is_some()
                .then(|| BufferWatch::start(&transfer.gateways)),
        })
    }

    /// Ends it; the most bytes that base stations were seen to keep, and the outages that were
    /// announced.
    pub(super) fn finish(self) -> anyhow::Result<(Option<u64>, Option<Announced>)> {
        self.moving.map_or(Ok(()), Appointed::finish)?;
        let announced = self.announcer.map(Appointed::finish).transpose()?;
        Ok((self.buffers.map(BufferWatch::finish), announced))
    }
}
