// SPDX-License-Identifier: Apache-2.0
//! What can be seen of a station from outside.

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
        let (core, edge, channel) = (
            self.handoff.counters(),
            self.counters,
            self.channel.counters(),
        );
        [
            ("taken_over", core.taken_over),
            ("yielded", core.yielded),
            ("stale", core.stale),
            ("prepared", core.prepared),
            ("copies", core.copies),
            ("kept", core.kept),
            ("overflowed", core.overflowed),
            ("delivered", core.delivered),
            ("purged", core.purged),
            ("states_sent", core.states_sent),
            ("states_adopted", core.states_adopted),
            ("state_bytes", core.state_bytes),
            ("sync_timeouts", core.sync_timeouts),
            ("table_full", core.table_full),
            ("own_number", core.own_number),
            ("copies_sent", edge.copies_sent),
            ("copy_bytes_sent", edge.copy_bytes_sent),
            ("not_sent", edge.not_sent),
            ("injected", edge.injected),
            ("not_injected", edge.not_injected),
            ("elsewhere", edge.elsewhere),
            ("not_copied", edge.not_copied),
            ("datagrams_taken", channel.taken),
            ("datagrams_refused", channel.refused),
            ("datagrams_replayed", channel.replayed),
        ]
        .into_iter()
        .map(|(name, count)| (format!("handoff.{name}"), count))
    }
}
