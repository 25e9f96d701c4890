// SPDX-License-Identifier: Apache-2.0
//! A node with the gateway's engine: the same object as in the daemon, between the packets of
//! the simulation.

use core::net::IpAddr;

use holdfast_core::handoff::FlowState;
use holdfast_core::{
    Action, Actions, Direction, FlowKey, FlowRecord, Gateway, LinkEvent, LinkSource, Settings,
    Verdict,
};
use holdfast_link::MediumState;
use holdfast_wire::{Duration, Instant};

use super::at_host::AtHost;
use super::compression::Compressing;
use super::{Carried, DSCP_DEFAULT, Event, Network};
use crate::observe::LinkId;
use crate::packet::{NodeId, Packet};

/// How the gateway learns of outages, apart from silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSignal {
    /// What reports it.
    pub source: LinkSource,
    /// Time from the start of an outage to its report; none: no report.
    pub down_after: Option<Duration>,
    /// Time from the end of an outage to its report; none: no report.
    pub up_after: Option<Duration>,
    /// A warning comes this long before an outage; none: no warning.
    pub warned_before: Option<Duration>,
}

impl LinkSignal {
    /// Both reports come at once, and nothing warns.
    pub const fn at_once(source: LinkSource) -> Self {
        Self {
            source,
            down_after: Some(Duration::ZERO),
            up_after: Some(Duration::ZERO),
            warned_before: None,
        }
    }
}

/// The configuration of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayRole {
    /// The engine's settings.
    pub settings: Settings,
    /// The link toward the MHs. Packets that leave by it are downlink, packets from its other end are
    /// uplink. All others bypass the engine.
    pub wireless: LinkId,
    /// What reports that link's outages to it.
    pub signal: Option<LinkSignal>,
    /// When a new engine replaces the old one.
    pub restarts: Vec<Instant>,
    /// The DSCP of packets that the engine retransmits ahead of ordinary traffic, 0 to 63. Links with
    /// a [`priority_dscp_min`](holdfast_link::LinkSettings::priority_dscp_min) up to it serve them
    /// first. None: the hosts' DSCP.
    pub resend_dscp: Option<u8>,
    /// Time to compress 1,400 bytes.
    pub compression_time: Duration,
}

pub(super) struct GatewayNode {
    pub(super) role: GatewayRole,
    pub(super) node: NodeId,
    pub(super) engine: Gateway<Packet>,
    actions: Actions<Packet>,
    scheduled: Option<Instant>,
    /// The records that an engine would have in its state file.
    records: Vec<FlowRecord>,
    carrier_down: bool,
    /// Packets that are being compressed, or wait behind one that is.
    pub(super) compressing: Compressing,
    /// The state between the engine and its host; none: the engine is not at a host.
    pub(super) host: Option<AtHost>,
}

impl core::fmt::Debug for GatewayNode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GatewayNode")
            .field("node", &self.node)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

impl Network {
    /// Puts the engine on a node.
    pub fn add_gateway(&mut self, node: NodeId, role: GatewayRole) {
        self.nodes[node.0 as usize].engine = Some(self.add_engine(node, role, None));
    }

    /// Adds an engine, and returns its number.
    pub(super) fn add_engine(
        &mut self,
        node: NodeId,
        role: GatewayRole,
        host: Option<AtHost>,
    ) -> u32 {
        let id = self.engines.len() as u32;
        for at in &role.restarts {
            self.queue.push(*at, Event::Restart(id));
        }
        self.engines.push(GatewayNode {
            engine: Gateway::new(role.settings.clone()),
            role,
            node,
            actions: Vec::new(),
            scheduled: None,
            records: Vec::new(),
            carrier_down: false,
            compressing: Compressing::default(),
            host,
        });
        id
    }

    /// The counters of the engine on a node, by name.
    pub fn gateway_counters(&self, node: NodeId) -> Vec<(&'static str, u64)> {
        self.nodes[node.0 as usize]
            .engine
            .map(|id| self.engines[id as usize].engine.counters().collect())
            .unwrap_or_default()
    }

    pub(super) fn start_engines(&mut self) {
        for id in 0..self.engines.len() as u32 {
            self.notify_abilities(id);
            self.schedule_engine(id);
            self.schedule_warning(id, Instant::ZERO);
        }
    }

    /// A packet that is not for this node.
    pub(super) fn pass_engine(&mut self, id: u32, node: NodeId, carried: &Carried) {
        let Carried {
            packet, dscp, link, ..
        } = carried;
        let gateway = &mut self.engines[id as usize];
        let mobiles = self.links[gateway.role.wireless.0 as usize].to;
        let next = self.routes[node.0 as usize][packet.to.0 as usize];
        let direction = if self.links[link.0 as usize].from == mobiles {
            Some(Direction::Uplink)
        } else if next == gateway.role.wireless.0 {
            Some(Direction::Downlink)
        } else {
            None
        };
        // A corrupted packet has no valid segment: it passes, as in the daemon.
        let segment = packet.segment().filter(|_| !packet.corrupted);
        let (Some(direction), Some(segment)) = (direction, segment) else {
            return self.forward(node, packet, *dscp);
        };
        let segment = *segment;
        if direction == Direction::Downlink && !self.arrives_at_station(id, packet) {
            return;
        }
        self.judge(id, direction, packet, *dscp);
        if direction == Direction::Uplink {
            self.leaves_by_station(id, &segment);
        }
    }

    /// Applies the engine's verdict on a packet with a segment, then performs its actions.
    pub(super) fn judge(&mut self, id: u32, direction: Direction, packet: &Packet, dscp: u8) {
        let Some((verdict, actions)) = self.verdict(id, direction, packet) else {
            return;
        };
        match verdict {
            Verdict::Forward if direction == Direction::Downlink => {
                self.forward_in_turn(id, packet, dscp);
            }
            Verdict::Forward => self.leave_engine(id, packet, dscp),
            Verdict::ForwardWithSack(sack) => {
                self.leave_engine(id, &packet.with_sack(sack), dscp);
            }
            Verdict::ForwardWithAck { ack, window } => {
                self.leave_engine(id, &packet.with_ack(ack, window), dscp);
            }
            Verdict::Suppress => {}
        }
        self.perform(id, actions);
    }

    /// The engine's verdict on a packet with a segment, and its actions; none: the packet has no
    /// segment.
    pub(super) fn verdict(
        &mut self,
        id: u32,
        direction: Direction,
        packet: &Packet,
    ) -> Option<(Verdict, Actions<Packet>)> {
        let (now, segment) = (self.now, packet.segment()?);
        let gateway = &mut self.engines[id as usize];
        let mut actions = core::mem::take(&mut gateway.actions);
        let engine = &mut gateway.engine;
        let verdict = engine.handle_segment(direction, segment, packet, now, &mut actions);
        Some((verdict, actions))
    }

    /// The engine receives a report of the link to these addresses.
    pub(super) fn notify_link(
        &mut self,
        id: u32,
        addresses: &[IpAddr],
        event: LinkEvent,
        source: LinkSource,
    ) {
        self.act(id, |engine, now, actions| {
            engine.handle_link(addresses, event, source, now, actions);
        });
    }

    /// The engine takes a flow over.
    pub(super) fn adopt(&mut self, id: u32, state: &FlowState) {
        let uplink = self.uplink_header(&state.key);
        self.act(id, |engine, now, actions| {
            engine.adopt(state, uplink, now, actions)
        });
    }

    /// A header for packets made in the name of an MH from which nothing has passed here yet.
    fn uplink_header(&self, key: &FlowKey) -> Option<Packet> {
        let slot_of = |address: IpAddr| {
            let mut slots = self.slots.iter();
            slots.find(|slot| slot.connection.address() == address)
        };
        let (mh, fh) = (slot_of(key.mh.address)?, slot_of(key.fh.address)?);
        Some(Packet::made((mh.node, key.mh), (fh.node, key.fh)))
    }

    /// The engine's state of these addresses' flows, for another station.
    pub(super) fn export(&mut self, id: u32, addresses: &[IpAddr]) -> Vec<FlowState> {
        self.act(id, |engine, now, actions| {
            engine.export(addresses, now, actions)
        })
    }

    /// The engine sends what it has queued for these flows.
    pub(super) fn resume_sending(&mut self, id: u32, flows: &[FlowKey]) {
        self.act(id, |engine, now, actions| {
            engine.resume_sending(flows, now, actions);
        });
    }

    /// The engine forgets these addresses' flows. Returns what it had cached.
    pub(super) fn release(&mut self, id: u32, addresses: &[IpAddr]) -> Vec<Packet> {
        let (mut kept, mut packets) = (Vec::new(), Vec::new());
        self.act(id, |engine, _, actions| {
            engine.release(addresses, &mut kept, actions);
        });
        for piece in &kept {
            Packet::of_resend(piece, &mut packets);
        }
        packets
    }

    pub(super) fn handle_engine_timeout(&mut self, id: u32) {
        let now = self.now;
        let gateway = &mut self.engines[id as usize];
        if gateway.scheduled != Some(now) {
            return;
        }
        gateway.scheduled = None;
        self.act(id, |engine, now, actions| {
            if engine.poll_timeout().is_some_and(|at| at <= now) {
                engine.handle_timeout(now, actions);
            }
        });
    }

    /// Calls the engine, then performs its actions.
    fn act<T>(
        &mut self,
        id: u32,
        act: impl FnOnce(&mut Gateway<Packet>, Instant, &mut Actions<Packet>) -> T,
    ) -> T {
        let gateway = &mut self.engines[id as usize];
        let mut actions = core::mem::take(&mut gateway.actions);
        let done = act(&mut gateway.engine, self.now, &mut actions);
        self.perform(id, actions);
        done
    }

    /// Performs the engine's actions, in order.
    pub(super) fn perform(&mut self, id: u32, mut actions: Actions<Packet>) {
        let gateway = &mut self.engines[id as usize];
        if let Some(host) = &mut gateway.host {
            host.note_peers(&mut gateway.engine);
        }
        let ahead_dscp = gateway.role.resend_dscp;
        let mut pieces = Vec::new();
        for action in actions.drain(..) {
            match action {
                Action::Resend(resend) => {
                    // Hosts send all their packets with the default DSCP.
                    let dscp = ahead_dscp.filter(|_| resend.ahead).unwrap_or(DSCP_DEFAULT);
                    Packet::of_resend(&resend, &mut pieces);
                    if resend.compress.is_some() {
                        self.send_compressed(id, &resend, &pieces, dscp);
                        pieces.clear();
                    }
                    for piece in pieces.drain(..) {
                        self.forward_in_turn(id, &piece, dscp);
                    }
                }
                Action::Send(made) => {
                    self.leave_engine(id, &Packet::of_made(&made), DSCP_DEFAULT);
                }
                Action::Repeat(packet) => {
                    self.forward_in_turn(id, &packet, DSCP_DEFAULT);
                }
                // The simulator's hosts ignore notifications, as most systems do.
                Action::Notify(_) => {}
                Action::Record(record) => self.engines[id as usize].keep(record),
            }
        }
        self.engines[id as usize].actions = actions;
        self.schedule_engine(id);
    }

    fn schedule_engine(&mut self, id: u32) {
        let gateway = &mut self.engines[id as usize];
        if let Some(at) = gateway.engine.poll_timeout()
            && gateway.scheduled.is_none_or(|scheduled| at < scheduled)
        {
            let at = at.max(self.now);
            gateway.scheduled = Some(at);
            self.queue.push(at, Event::Engine(id));
        }
    }

    /// Links have changed: schedules the reports.
    pub(super) fn note_change_for_engines(&mut self, links: &[LinkId], event: LinkEvent) {
        for (id, gateway) in self.engines.iter().enumerate() {
            let Some(signal) = gateway.role.signal else {
                continue;
            };
            let after = match event {
                LinkEvent::Down => signal.down_after,
                LinkEvent::Up => signal.up_after,
                LinkEvent::GoingDownSoon(_) => None,
            };
            if let (true, Some(after)) = (links.contains(&gateway.role.wireless), after) {
                self.queue
                    .push(self.now + after, Event::LinkReport(id as u32, event));
            }
        }
    }

    /// Schedules the warning of the first outage of the engine's link that begins after `after`, if
    /// there are warnings.
    fn schedule_warning(&mut self, id: u32, after: Instant) {
        let role = &self.engines[id as usize].role;
        let Some(before) = role.signal.and_then(|signal| signal.warned_before) else {
            return;
        };
        let medium = self.links[role.wireless.0 as usize].medium;
        // A copy: the original must not run ahead of the time.
        let mut schedule = self.media[medium as usize].schedule.clone();
        let mut at = after;
        while let Some(change) = schedule.next_change(at) {
            at = change;
            if schedule.state_at(change) == MediumState::Down && change >= self.now + before {
                self.queue.push(change - before, Event::Warning(id, change));
                return;
            }
        }
    }

    /// The addresses of the connections' ends on a node, for messages of mobiles.
    pub(super) fn mobile_addresses(&self, node: NodeId) -> Vec<IpAddr> {
        let mut addresses: Vec<IpAddr> = self
            .slots
            .iter()
            .filter(|slot| slot.node == node)
            .map(|slot| slot.connection.address())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// A warning arrives: the link is going down soon.
    pub(super) fn warn_engine(&mut self, id: u32, begins: Instant) {
        self.act(id, |engine, now, actions| {
            let event = LinkEvent::GoingDownSoon(Some(begins.saturating_since(now)));
            engine.handle_all_links(event, LinkSource::Signal, now, actions);
        });
        self.schedule_warning(id, begins);
    }

    /// A report arrives.
    pub(super) fn notify_engine(&mut self, id: u32, event: LinkEvent) {
        let gateway = &self.engines[id as usize];
        let mobiles = self.links[gateway.role.wireless.0 as usize].to;
        let addresses = self.mobile_addresses(mobiles);
        let gateway = &mut self.engines[id as usize];
        let Some(signal) = gateway.role.signal else {
            return;
        };
        let is_carrier = signal.source == LinkSource::Carrier;
        if is_carrier {
            gateway.carrier_down = event == LinkEvent::Down;
        }
        // A host has one link to all its peers.
        let is_of_all = is_carrier || gateway.host.is_some();
        self.act(id, |engine, now, actions| {
            if is_of_all {
                engine.handle_all_links(event, signal.source, now, actions);
            } else {
                engine.handle_link(&addresses, event, signal.source, now, actions);
            }
        });
    }

    /// Replaces the engine. The new one gets the records of the old one.
    pub(super) fn restart_engine(&mut self, id: u32) {
        let now = self.now;
        let gateway = &mut self.engines[id as usize];
        gateway.engine = Gateway::new(gateway.role.settings.clone());
        for record in &gateway.records {
            gateway.engine.import(record, now);
        }
        self.notify_abilities(id);
        let gateway = &mut self.engines[id as usize];
        if gateway.carrier_down {
            let mut actions = Vec::new();
            gateway.engine.handle_all_links(
                LinkEvent::Down,
                LinkSource::Carrier,
                now,
                &mut actions,
            );
        }
        self.schedule_engine(id);
    }
}

impl GatewayNode {
    /// The link toward the MHs.
    pub(super) fn wireless(&self) -> LinkId {
        self.role.wireless
    }

    /// The engine queues what comes for these flows.
    pub(super) fn queue_segments(&mut self, flows: &[FlowKey]) {
        self.engine.queue_segments(flows);
    }

    fn keep(&mut self, record: FlowRecord) {
        self.records.retain(|old| old.key != record.key);
        if !record.gone {
            self.records.push(record);
        }
    }
}
