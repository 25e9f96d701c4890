// SPDX-License-Identifier: Apache-2.0
//! Nodes, the links between them, and the loop that handles events.
//!
//! A node is host and router in one. Packets for the node go to its connections. Others take the
//! shortest route (among equals the link that was added first), until a change sets another
//! route (`change`). A node can have the gateway's engine in front of some of its neighbours
//! (`gateway`), or between its connections and all links (`host_engine`).
//!
//! An input is handled at once: a packet that arrives makes its host answer, and the answers are
//! on their links before the next event. Each link, connection and engine has at most one valid
//! event in the queue. An event for an earlier time replaces it. An event for a later time is
//! entered when the earlier one comes.

use holdfast_core::LinkEvent;
use holdfast_link::{
    Counters as LinkCounters, Departure, DropReason, Enqueue, LinkModel, MediumState,
    OutageSchedule, Station,
};
use holdfast_wire::{Duration, Instant};

use crate::event::EventQueue;
use crate::observe::{LinkId, Observer, PacketEvent};
use crate::outcome::CrossOutcome;
use crate::packet::{Body, NodeId, Packet};
use crate::tcp::{Connection, State};

mod at_host;
mod bad_link;
mod change;
mod compression;
mod gateway;
mod graph;
mod handoff;
mod header_compression;
mod host_engine;
mod hosts;
mod mobile;
mod split;
mod traffic;
mod watch;

use bad_link::BadLinkNode;
pub use bad_link::BadLinkRole;
use change::Change;
use compression::{MobileDecompression, Payloads};
use gateway::GatewayNode;
pub use gateway::{GatewayRole, LinkSignal};
pub use graph::MediumPlan;
use handoff::{MobileMessage, Stations};
pub use header_compression::COMPRESSED_HEADER_BYTES_MIN;
use header_compression::{HeaderCompression, RestoredHeader, SentHeader};
pub use host_engine::{HostEngineRole, MobileEnginePlan};
use mobile::MobileNode;
pub use mobile::{MobilePlan, MobileRole};
use split::SplitNode;
pub use split::{SplitPlan, SplitRole};
use traffic::Source;
pub use traffic::SourceSettings;
use watch::Slot;

/// A connection's end, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// There is no route.
const NO_LINK: u32 = u32::MAX;

/// An event of the queue.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A packet may leave a medium.
    Medium(u32),
    /// A medium goes down or comes up.
    LinkState(u32),
    /// A connection's timer.
    Connection(u32),
    /// A connection is opened.
    Open(u32),
    /// An engine's timer.
    Engine(u32),
    /// An engine at a host passes a packet up to the host.
    ToHost(u32),
    /// A report of link up or link down for an engine.
    LinkReport(u32, LinkEvent),
    /// Warning to an engine: its link goes down at this time.
    Warning(u32, Instant),
    /// An engine is replaced.
    Restart(u32),
    /// A node that splits connections loses them.
    SplitRestart(u32),
    /// A node reports to senders that its link is bad.
    BadLink(u32),
    /// A source of cross traffic sends.
    Source(u32),
    /// A route or a cell changes.
    Change(u32),
    /// The mobile registers at an engine's station.
    MobileMessage(u32, MobileMessage),
    /// A report of link up or link down for a moving host.
    MobileLink(u32, LinkEvent),
    /// Warning to a moving host: its link goes down at this time.
    MobileWarning(u32, Instant),
    /// A timer of a moving host's machine.
    MobileTimer(u32),
    /// A message between stations arrives.
    Mail,
    /// A station's timer.
    Station(u32),
    /// A gateway has compressed a packet.
    Compressed(u32),
    /// A point of the time series.
    Sample,
}

/// The DSCP of the hosts' packets: best effort (RFC 2474, 4.1).
const DSCP_DEFAULT: u8 = 0;

/// What a medium transports: a packet, and its direction.
#[derive(Clone, Copy, Debug)]
struct Carried {
    packet: Packet,
    /// The differentiated services codepoint in the packet's header.
    dscp: u8,
    link: LinkId,
    /// How a link that compresses headers sends its header; none: unchanged.
    header: Option<SentHeader>,
}

impl Carried {
    /// Bytes of the packet on the medium, without framing.
    fn len_bytes(&self) -> u32 {
        let saved = self.header.map_or(0, |header| header.saved_bytes);
        self.packet.len_bytes() - saved
    }
}

/// One direction of a link; or both, if they share it.
#[derive(Debug)]
struct Medium {
    model: LinkModel<Carried>,
    schedule: OutageSchedule,
    overhead_bytes: u64,
    scheduled: Option<Instant>,
    links: Vec<LinkId>,
}

impl Medium {
    /// The station of a direction: on a shared medium each direction has a queue of its own.
    fn station_of(&self, link: LinkId) -> Station {
        if self.links.first() == Some(&link) {
            Station::First
        } else {
            Station::Second
        }
    }
}

#[derive(Debug)]
struct Link {
    from: NodeId,
    to: NodeId,
    medium: u32,
    header_compression: Option<Box<HeaderCompression>>,
}

#[derive(Debug, Default)]
struct Node {
    /// (own port, other end's port, connection), in order.
    ports: Vec<(u16, u16, u32)>,
    engine: Option<u32>,
    host_engine: Option<u32>,
    split: Option<u32>,
    bad_link: Option<u32>,
    mobile: Option<u32>,
    decompression: MobileDecompression,
}

/// A network of any shape.
#[derive(Debug, Default)]
pub struct Network {
    now: Instant,
    queue: EventQueue<Event>,
    nodes: Vec<Node>,
    links: Vec<Link>,
    media: Vec<Medium>,
    slots: Vec<Slot>,
    engines: Vec<GatewayNode>,
    splits: Vec<SplitNode>,
    bad_links: Vec<BadLinkNode>,
    mobiles: Vec<MobileNode>,
    stations: Stations,
    sources: Vec<Source>,
    /// The next link, by node and destination.
    routes: Vec<Vec<u32>>,
    changes: Vec<Change>,
    series_interval: Option<Duration>,
    /// Headers are encrypted: only the ends read segments.
    is_encrypted: bool,
    started: bool,
    /// A buffer that is used again, so that a packet needs no allocation.
    scratch: Vec<Packet>,
    /// Ends that wait for bytes and are not dead.
    undelivered: usize,
    /// The payloads of compressed packets.
    payloads: Payloads,
    events: u64,
    digest: u64,
    /// What the observer will see of the event that is being handled.
    seen: Vec<Seen>,
    is_watched: bool,
}

#[derive(Debug)]
enum Seen {
    Packet(LinkId, PacketEvent, Packet),
    Link(LinkId, MediumState),
}

impl Network {
    /// One without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on only the ends of connections read segments: neither the nodes between them nor
    /// the programs at a host's interface do.
    pub fn encrypt(&mut self) {
        self.is_encrypted = true;
    }

    /// The connection's end.
    pub fn connection(&self, id: ConnectionId) -> &Connection {
        &self.slots[id.0 as usize].connection
    }

    /// The counters of a direction of a link; of both directions, if they share a medium.
    pub fn link_counters(&self, id: LinkId) -> LinkCounters {
        let medium = self.links[id.0 as usize].medium;
        self.media[medium as usize].model.counters()
    }

    /// The results of cross traffic.
    pub fn cross_traffic(&self) -> Vec<CrossOutcome> {
        self.sources.iter().map(|source| source.outcome).collect()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Events handled.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// A hash over all packets at all links with their times. It includes a segment's numbers,
    /// length, window and flags, but not its options, addresses and ports.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Everything expected has arrived, or its connection is dead.
    pub fn is_delivered(&self) -> bool {
        self.undelivered == 0
    }

    /// Every connection is closed at both ends.
    pub fn is_closed(&self) -> bool {
        let closed = |slot: &Slot| {
            matches!(slot.connection.view().state, State::Closed | State::Listen) && slot.opened
        };
        self.slots.iter().all(closed)
    }

    /// Handles events up to and at `until`, or until `stop` is true.
    pub fn run(
        &mut self,
        until: Instant,
        observer: &mut dyn Observer,
        mut stop: impl FnMut(&Self) -> bool,
    ) {
        self.start();
        self.seen.clear();
        self.is_watched = observer.wants_packets();
        while !stop(self) {
            let Some(at) = self.queue.next_at().filter(|at| *at <= until) else {
                self.now = self.now.max(until);
                return;
            };
            let Some((_, event)) = self.queue.pop() else {
                return;
            };
            self.now = at;
            self.events += 1;
            self.handle(event);
            for seen in self.seen.drain(..) {
                match seen {
                    Seen::Packet(link, event, packet) => {
                        observer.on_packet(link, event, &packet, at);
                    }
                    Seen::Link(link, state) => observer.on_link_state(link, state, at),
                }
            }
        }
    }

    fn start(&mut self) {
        if core::mem::replace(&mut self.started, true) {
            return;
        }
        self.find_routes();
        for medium in 0..self.media.len() as u32 {
            self.schedule_change(medium, Instant::ZERO);
            if self.media[medium as usize].model.state() == MediumState::Down {
                self.queue.push(Instant::ZERO, Event::LinkState(medium));
            }
        }
        self.start_sources();
        self.start_engines();
        self.start_mobiles();
        if self.series_interval.is_some() {
            self.queue.push(self.now, Event::Sample);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Medium(medium) => self.handle_medium(medium),
            Event::Connection(id) => self.handle_connection_timeout(id),
            Event::Engine(id) => self.handle_engine_timeout(id),
            Event::ToHost(id) => self.reach_host(id),
            Event::LinkState(medium) => self.handle_link_state(medium),
            Event::Open(id) => {
                let mut out = core::mem::take(&mut self.scratch);
                let slot = &mut self.slots[id as usize];
                slot.opened = true;
                slot.connection.open(self.now, &mut out);
                self.send_all(id, out);
            }
            Event::LinkReport(id, state) => self.notify_engine(id, state),
            Event::Warning(id, begins) => self.warn_engine(id, begins),
            Event::Restart(id) => self.restart_engine(id),
            Event::SplitRestart(id) => self.restart_split(id),
            Event::BadLink(id) => self.handle_bad_link(id),
            Event::Source(id) => self.handle_source(id),
            Event::Change(id) => self.handle_change(id),
            Event::MobileMessage(id, message) => self.handle_mobile_message(id, message),
            Event::MobileLink(id, state) => self.report_to_mobile_host(id, state),
            Event::MobileWarning(id, begins) => self.warn_mobile_host(id, begins),
            Event::MobileTimer(id) => self.handle_mobile_timeout(id),
            Event::Mail => self.handle_mail(),
            Event::Station(id) => self.handle_station_timeout(id),
            Event::Compressed(id) => self.handle_compressed(id),
            Event::Sample => self.take_samples(),
        }
    }

    fn handle_medium(&mut self, id: u32) {
        let now = self.now;
        let medium = &mut self.media[id as usize];
        if medium.scheduled != Some(now) {
            // An event for another time has replaced this one.
            return;
        }
        medium.scheduled = None;
        while let Some(departure) = self.media[id as usize].model.poll_departure(now) {
            let Departure {
                packet: mut carried,
                flipped_bits,
                ..
            } = departure;
            // Bits behind the packet belong to the frame around it.
            let bits = carried.len_bytes() * 8;
            let is_sound = flipped_bits.iter().all(|bit| *bit >= bits);
            if !is_sound || self.restore_header(&carried) == RestoredHeader::Wrong {
                carried.packet.corrupted = true;
            }
            self.report_packet(carried.link, PacketEvent::Arrived, &carried.packet);
            let to = self.links[carried.link.0 as usize].to;
            self.arrive(to, &carried);
        }
        self.schedule_medium(id);
        self.report_lost_attempts(id);
    }

    fn schedule_medium(&mut self, id: u32) {
        let medium = &mut self.media[id as usize];
        if let Some(at) = medium.model.poll_timeout()
            && medium.scheduled.is_none_or(|scheduled| at < scheduled)
        {
            medium.scheduled = Some(at);
            self.queue.push(at, Event::Medium(id));
        }
    }

    /// A packet has arrived at a node.
    fn arrive(&mut self, node: NodeId, carried: &Carried) {
        let Carried { packet, dscp, .. } = carried;
        if packet.to == node {
            return self.enter_host(node, packet);
        }
        let hop = &self.nodes[node.0 as usize];
        if self.is_encrypted {
            self.forward(node, packet, *dscp);
        } else if let Some(engine) = hop.engine {
            self.pass_engine(engine, node, carried);
        } else if let Some(split) = hop.split {
            self.pass_split(split, node, carried);
        } else if let Some(bad_link) = hop.bad_link {
            self.pass_bad_link_node(bad_link, node, carried);
        } else {
            self.forward(node, packet, *dscp);
        }
    }

    /// Sends a packet from `node` along its route.
    fn forward(&mut self, node: NodeId, packet: &Packet, dscp: u8) {
        let link = self.routes[node.0 as usize][packet.to.0 as usize];
        if link != NO_LINK {
            self.send(LinkId(link), packet, dscp);
        }
    }

    fn send(&mut self, id: LinkId, packet: &Packet, dscp: u8) {
        let now = self.now;
        self.report_packet(id, PacketEvent::Sent, packet);
        let medium_id = self.links[id.0 as usize].medium;
        let carried = Carried {
            packet: *packet,
            dscp,
            link: id,
            header: self.compress_header(id, packet, dscp),
        };
        let medium = &mut self.media[medium_id as usize];
        let len = u64::from(carried.len_bytes()) + medium.overhead_bytes;
        let station = medium.station_of(id);
        let priority = medium.model.plan().priority_of(Some(dscp));
        let outcome = medium
            .model
            .enqueue_from(station, priority, carried, len, now);
        let queue_is_full = match outcome {
            Enqueue::Dropped { reason } => {
                self.report_packet(id, PacketEvent::Dropped(reason), packet);
                matches!(reason, DropReason::QueuePackets | DropReason::QueueBytes)
            }
            Enqueue::Enqueued => false,
        };
        if !queue_is_full {
            self.save_header(&carried);
        }
        self.schedule_medium(medium_id);
    }

    /// Reports a packet to the observer, and adds it to the digest.
    fn report_packet(&mut self, link: LinkId, event: PacketEvent, packet: &Packet) {
        let kind = match event {
            PacketEvent::Sent => 1,
            PacketEvent::Dropped(_) => 2,
            PacketEvent::Arrived => 3,
        };
        let mut mix = |value: u64| {
            self.digest = (self.digest ^ value)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
        };
        mix(self.now.as_nanos());
        mix(u64::from(link.0) << 8 | kind);
        match &packet.body {
            Body::Tcp(tcp) => {
                let segment = &tcp.segment;
                mix(u64::from(segment.seq.get()) << 32 | u64::from(segment.ack.get()));
                mix(u64::from(segment.payload_len) << 32
                    | u64::from(segment.window) << 16
                    | u64::from(segment.flags.0));
            }
            Body::Datagram { source, number, .. } => mix(u64::from(*source) << 48 ^ number),
            Body::BadLink { fh, mh } => mix(u64::from(fh.port) << 48 ^ u64::from(mh.port)),
        }
        if self.is_watched {
            self.seen.push(Seen::Packet(link, event, *packet));
        }
    }
}

#[cfg(test)]
mod tests;
