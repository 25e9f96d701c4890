// SPDX-License-Identifier: Apache-2.0
//! The engine at a host's interface, as in `holdfast mobile` with `auto`. For the engine, the other ends
//! are the MHs, and the host's own connections are the FHs.
//!
//! A segment to or from a peer that the engine has not named by `Gateway::poll_peer` passes, and the
//! engine gets a copy. The machine of `mobile` is between the engine and the link, as its programs are: it
//! notes packets from the engine to the link, and packets that the engine passes up.

use holdfast_core::{Direction, LinkSource, Scheme, Settings};
use holdfast_wire::Duration;

use super::at_host::AtHost;
use super::{DSCP_DEFAULT, Event, GatewayRole, LinkSignal, Network};
use crate::observe::LinkId;
use crate::packet::{NodeId, Packet};

/// The engine at the MHs' interface, the same as in `holdfast mobile` with `auto`.
#[derive(Clone, Debug)]
pub struct MobileEnginePlan {
    /// The engine's settings.
    pub settings: Settings,
    /// Time from the start or end of an outage to its report; none: no report.
    pub reported_after: Option<Duration>,
}

impl MobileEnginePlan {
    /// With the daemon's settings, and without reports of outages.
    pub fn of_daemon(flows_max: usize) -> Self {
        Self {
            settings: Settings {
                scheme: Scheme::Auto,
                flows_max,
                takes_in_outages: true,
                ..Settings::default()
            },
            reported_after: None,
        }
    }
}

/// An engine at a host, on a link.
#[derive(Clone, Debug)]
pub struct HostEngineRole {
    /// The engine's plan.
    pub plan: MobileEnginePlan,
    /// The link toward the host, whose outages are reported.
    pub wireless: LinkId,
}

impl Network {
    /// Puts the engine between the connections on a node and its links.
    pub fn add_host_engine(&mut self, node: NodeId, role: HostEngineRole) {
        let signal = role.plan.reported_after.map(|after| LinkSignal {
            down_after: Some(after),
            up_after: Some(after),
            // The daemon has combined its sources.
            ..LinkSignal::at_once(LinkSource::Signal)
        });
        let role = GatewayRole {
            settings: role.plan.settings,
            wireless: role.wireless,
            signal,
            restarts: Vec::new(),
            resend_dscp: None,
            compression_time: Duration::ZERO,
        };
        let id = self.add_engine(node, role, Some(AtHost::default()));
        self.nodes[node.0 as usize].host_engine = Some(id);
    }

    /// The counters of the engine at the host on a node, by name; none: it has no engine.
    pub fn host_engine_counters(&self, node: NodeId) -> Option<Vec<(&'static str, u64)>> {
        let id = self.nodes[node.0 as usize].host_engine?;
        Some(self.engines[id as usize].engine.counters().collect())
    }

    /// A connection on a node sends a segment. If it passes, it has left before the engine gets the
    /// copy.
    pub(super) fn leave_host(&mut self, node: NodeId, packet: &Packet) {
        let way = Direction::Downlink;
        match self.host_engine_for(node, packet) {
            Some(id) if self.engine_takes(id, way, packet) => {
                self.judge(id, way, packet, DSCP_DEFAULT);
            }
            engine => {
                self.leave_interface(node, *packet, DSCP_DEFAULT);
                self.copy_to_engine(engine, way, packet);
            }
        }
    }

    /// A packet has come by a link to the node that it is for. If it passes, the engine gets the copy
    /// before the host answers.
    pub(super) fn enter_host(&mut self, node: NodeId, packet: &Packet) {
        let way = Direction::Uplink;
        match self.host_engine_for(node, packet) {
            Some(id) if self.engine_takes(id, way, packet) => {
                self.judge(id, way, packet, DSCP_DEFAULT);
            }
            engine => {
                self.copy_to_engine(engine, way, packet);
                self.deliver(node, packet);
            }
        }
    }

    /// The engine at a host that reads this packet. A corrupted packet has no valid segment: it passes,
    /// as in the daemon.
    fn host_engine_for(&self, node: NodeId, packet: &Packet) -> Option<u32> {
        let is_readable = packet.segment().is_some() && !packet.corrupted && !self.is_encrypted;
        let engine = self.nodes[node.0 as usize].host_engine;
        engine.filter(|_| is_readable)
    }

    /// Whether the engine takes the packet. False: the engine gets a copy.
    fn engine_takes(&self, id: u32, direction: Direction, packet: &Packet) -> bool {
        let host = self.engines[id as usize].host.as_ref();
        host.is_some_and(|host| host.takes(direction, packet))
    }

    /// A copy for the engine, if there is one: its verdict has no effect.
    fn copy_to_engine(&mut self, engine: Option<u32>, direction: Direction, packet: &Packet) {
        if let Some(id) = engine
            && let Some((_, actions)) = self.verdict(id, direction, packet)
        {
            self.perform(id, actions);
        }
    }

    /// Passes a packet on from an engine: by a link, or up to the host. A packet to the host arrives after
    /// all of the engine's actions, so that the host's answers come to the engine later.
    pub(super) fn leave_engine(&mut self, id: u32, packet: &Packet, dscp: u8) {
        let gateway = &mut self.engines[id as usize];
        let node = gateway.node;
        match &mut gateway.host {
            None => self.forward(node, packet, dscp),
            Some(host) if packet.to == node => {
                host.up.push_back(*packet);
                self.queue.push(self.now, Event::ToHost(id));
            }
            Some(_) => self.leave_interface(node, *packet, dscp),
        }
    }

    /// What an engine has passed up reaches the host.
    pub(super) fn reach_host(&mut self, id: u32) {
        let gateway = &mut self.engines[id as usize];
        let node = gateway.node;
        let packet = gateway.host.as_mut().and_then(|host| host.up.pop_front());
        if let Some(packet) = packet {
            self.deliver(node, &packet);
        }
    }

    /// Sends a packet on a link, through the machine at the node's interface.
    fn leave_interface(&mut self, node: NodeId, mut packet: Packet, dscp: u8) {
        self.leaves_mobile(node, &mut packet);
        self.forward(node, &packet, dscp);
    }
}
