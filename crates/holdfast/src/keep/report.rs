// SPDX-License-Identifier: Apache-2.0
//! The control thread's commands to the worker of `keep`, and the worker's part of `holdfast status`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_core::{LinkEvent, LinkState};
use holdfast_net::datapath::now;
use holdfast_net::rtnl::NeighbourMemory;

use super::{KeepWorker, KeepWorkerCounters, KeepWorkerGauges};
use crate::command::Command;
use crate::control::{CacheStatus, FlowTableStatus, MobileStatus, StatusReply};

/// The limit of peers in one status.
const PEERS_SHOWN_MAX: usize = 1_000;

impl KeepWorker {
    /// Executes a command.
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Link {
                addresses,
                event,
                source,
            } => {
                let table = self.edge.path.table();
                let peers = addresses
                    .into_iter()
                    .filter_map(|address| table.find_or_enter(address));
                let peers: Vec<_> = peers.collect();
                self.handle_link(&peers, event, source);
            }
            Command::AllLinks { event, source } => {
                // The carrier goes down and up with the link.
                if !matches!(event, LinkEvent::GoingDownSoon(_)) {
                    self.restore_neighbours(Some(event == LinkEvent::Up));
                }
                let peers = self.edge.path.table().followed();
                self.handle_link(&peers, event, source);
            }
            Command::Status { named, reply, .. } => {
                // A caller that is no longer connected needs no answer.
                let _ = reply.try_send(self.status(&named));
            }
            Command::Leave => self.leaving = true,
            Command::Forget(addresses) => {
                for address in addresses {
                    if let Some(peer) = self.edge.path.peer(address) {
                        self.keeper.forget(peer, &mut self.edge);
                    }
                }
            }
            Command::Detach => self.detach(),
            Command::Take => self.edge.path.start_taking(),
            Command::Attach(reply) => {
                // The control thread may no longer wait.
                let _ = reply.try_send(self.attach_again());
            }
            Command::Limits(limits) => self.set_limits(limits.keep),
            // Frames are sent unchanged, and none of these commands is about queued packets.
            Command::Mtu(_)
            | Command::BridgePort(_)
            | Command::Notice(_)
            | Command::Abilities(_) => {}
        }
    }

    /// Reports outages that have ended. If the queue is full, the next turn reports the rest.
    pub(super) fn report_outages(&mut self) {
        while self.keeper.has_outages()
            && let Ok(room) = self.outages.try_reserve()
            && let Some(outage) = self.keeper.poll_outage()
        {
            let address = self.edge.path.table().address(outage.mobile);
            room.send(outage.of(address));
        }
    }

    fn status(&self, named: &[IpAddr]) -> StatusReply {
        let own = KeepWorkerCounters {
            write_errors: self.edge.write_errors,
            not_understood: self.not_understood,
            starved: self.starved,
        };
        let neighbours = self.neighbours.as_ref().map_or(0, NeighbourMemory::len);
        let gauges = KeepWorkerGauges {
            neighbours: neighbours as u64,
        };
        let counters = self.keeper.counters().named();
        let counters = counters.chain(own.named()).chain(gauges.named());
        let counters: BTreeMap<String, u64> = counters
            .map(|(name, count)| (format!("keep.{name}"), count))
            .collect();
        let mobiles = self.mobiles(named);
        StatusReply {
            attached: !self.leaving,
            keeps_records: true,
            flows: FlowTableStatus {
                tracked: self.keeper.peers().map(|peer| peer.flows as u64).sum(),
                flows_max: self.settings.peer_flows_max as u64,
                in_outage: self.keeper.peers().map(|peer| peer.flows as u64).sum(),
            },
            cache: CacheStatus {
                bytes: self.keeper.bytes() as u64,
                bytes_max: self.settings.bytes_max as u64,
                owed_bytes: 0,
            },
            mobiles_total: self.edge.path.table().followed().len() as u64,
            mobiles,
            counters,
            ..StatusReply::default()
        }
    }

    /// The mobiles that are away, and those with these addresses.
    fn mobiles(&self, named: &[IpAddr]) -> Vec<MobileStatus> {
        let (table, now) = (self.edge.path.table(), now());
        let away = self.keeper.peers().take(PEERS_SHOWN_MAX);
        let mut mobiles: Vec<_> = away
            .map(|peer| MobileStatus {
                addresses: table.address(peer.peer).into_iter().collect(),
                link: if peer.is_away {
                    LinkState::Down
                } else {
                    LinkState::Up
                },
                source: peer.source,
                since_s: now.saturating_since(peer.since).as_secs_f64(),
                flows: peer.flows as u64,
                cached_bytes: peer.bytes as u64,
                ..MobileStatus::default()
            })
            .collect();
        for address in named {
            let is_there = |mobile: &MobileStatus| mobile.addresses.contains(address);
            if !mobiles.iter().any(is_there) && table.find(*address).is_some() {
                mobiles.push(MobileStatus {
                    addresses: vec![*address],
                    link: LinkState::Up,
                    ..MobileStatus::default()
                });
            }
        }
        mobiles
    }
}
