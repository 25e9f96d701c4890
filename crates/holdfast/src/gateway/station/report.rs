// SPDX-License-Identifier: Apache-2.0
//! The station's part of `holdfast status`, and its counters.

use holdfast_wire::Instant;

use super::Station;
use crate::control::{HandoffMobileStatus, HandoffStatus};

impl Station {
    /// What `holdfast status` shows.
    pub(in crate::gateway) fn status(&self, now: Instant) -> HandoffStatus {
        let mobiles = self.handoff.views(now).map(|view| HandoffMobileStatus {
            key: view.mobile.to_string(),
            addresses: view.addresses,
            role: view.role.name().into(),
            epoch: view.epoch,
            elsewhere: view
                .elsewhere
                .and_then(|peer| self.settings.peers.address(peer)),
            members: view.members as u64,
            group: view.group.map(|group| self.settings.group_address(group)),
            buffered_packets: view.buffered_packets as u64,
            buffered_bytes: view.buffered_bytes as u64,
            handoffs: view.handoffs,
            last_sync_ms: view.last_sync.map(|time| time.as_secs_f64() * 1e3),
        });
        HandoffStatus {
            name: self.settings.name.clone(),
            neighbours: self.settings.peers.len() as u64,
            buffered_bytes: self.handoff.buffered_bytes() as u64,
            buffered_bytes_max: self.settings.core.buffer_bytes_max as u64,
            mobiles: mobiles.collect(),
        }
    }

    /// All counters, by name.
    pub(in crate::gateway) fn counters(&self) -> impl Iterator<Item = (String, u64)> {
        let core = self.handoff.counters().named();
        let all = core.chain(self.counters.named());
        all.chain(self.channel.counters().named())
            .map(|(name, count)| (format!("handoff.{name}"), count))
    }
}
