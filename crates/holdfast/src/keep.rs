// SPDX-License-Identifier: Apache-2.0
//! The packet worker of `keep`: one thread, one [`Keeper`], one device. Gateway and
//! mobile use the same one.
//!
//! While every link is up the thread only wakes for its heartbeat. In an outage a frame goes through
//! [`KeepWorker::read_batch`], then [`Keeper::handle_packet`], which sends or queues it.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use holdfast_core::keep::{Arrival, Edge, KeepSettings, Keeper, Mode, PacketFlow, PeerId};
use holdfast_core::signal::is_signal;
use holdfast_core::{LinkEvent, LinkSource};
use holdfast_net::datapath::{AttachMode, HEARTBEAT_INTERVAL, Interface, monotonic_ns, now};
use holdfast_net::frame::{BufferPool, Frame};
use holdfast_net::keep_path::{Announcements, KeepPath, Peers, Protocols};
use holdfast_net::readiness::wait_readable;
use holdfast_net::rtnl::NeighbourMemory;
use holdfast_net::tun::LayerKind;
use holdfast_wire::{Instant, LinkAddresses};

use crate::command::{Attachment, Inbox, RunningWorker};
use crate::outages::OutageSender;
use crate::runtime::random_bytes;
use next_hops::NextHops;

mod attach;
mod next_hops;
mod report;

/// The limit of frames that are read in a row before anything else has its turn.
const BATCH_FRAMES: usize = 64;
/// Buffers besides those for queued packets: for packets that are sent at once.
const POOL_SPARE_BYTES: usize = 8 << 20;
/// The longest time in DRAIN if no packet waits in the device.
const DRAIN_MAX_IDLE: Duration = Duration::from_millis(40);
/// The longest time in DRAIN if packets wait in the device.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// RFC 768.
const UDP_HEADER_BYTES: usize = 8;

/// The limit of flows of a peer that is the whole link.
const WHOLE_LINK_FLOWS_MAX: usize = 4_096;

/// Attaches to the interface `link` and starts the worker.
///
/// Errors: see [`KeepPath::attach`].
pub(crate) fn start(
    link: &str,
    (peers, protocols): (Peers, Protocols),
    settings: KeepSettings,
    outages: OutageSender,
) -> anyhow::Result<RunningWorker> {
    let settings = limits_for(peers, settings);
    let seed = u64::from_ne_bytes(random_bytes()?);
    let path = KeepPath::attach(link, AttachMode::Auto, (peers, protocols), seed)?;
    let attachment = attachment(&path)?;
    tracing::info!(
        link,
        ?protocols,
        data_path = attachment.data_path,
        detaches_on_death = path.detaches_on_death(),
        device = path.device_name(),
        packets = settings.flow_packets_max,
        "keep starts"
    );
    let run = move |inbox| KeepWorker::new(path, settings, inbox, outages)?.run();
    Ok(RunningWorker::spawn(attachment, run)?)
}

/// The limits for these peers. A whole link shares them with no other peer.
const fn limits_for(peers: Peers, mut settings: KeepSettings) -> KeepSettings {
    if matches!(peers, Peers::WholeLink) {
        settings.peer_bytes_max = settings.bytes_max;
        settings.peer_flows_max = WHOLE_LINK_FLOWS_MAX;
    }
    settings
}

const fn pool_bytes_max(settings: &KeepSettings) -> usize {
    settings.bytes_max * 2 + POOL_SPARE_BYTES
}

/// The data path as others see it. Errors: no descriptor is free.
fn attachment(path: &KeepPath) -> io::Result<Attachment> {
    Ok(Attachment {
        counters: path.counters()?,
        link_ifindex: path.interface().ifindex,
        devices: vec![path.device_ifindex()],
        data_path: match path.interface().kind {
            LayerKind::Ethernet => "tc-tap",
            LayerKind::RawIp => "tc-tun",
        },
    })
}

holdfast_core::counters! {
    /// What the worker counts beside the keeper.
    pub(crate) struct KeepWorkerCounters {
        /// Frames that the kernel did not take.
        write_errors = "write_errors",
        /// Frames that were not understood, and passed.
        not_understood = "not_understood",
        /// Packets that could not be queued: no buffer was free.
        starved = "starved",
    }
}

holdfast_core::counters! {
    gauge
    /// What the worker has at present.
    pub(crate) struct KeepWorkerGauges {
        /// Next hops on the link that are remembered while it has no carrier.
        neighbours = "neighbours",
    }
}

/// The keeper's access to the data path.
struct PathEdge {
    path: KeepPath,
    next_hops: NextHops,
    /// Where the IP header starts, bytes.
    ip: usize,
    /// Peers in DRAIN, and since when. Their packets pass again when all taken packets are finished.
    draining: BTreeMap<PeerId, Instant>,
    write_errors: u64,
}

impl Edge<Frame> for PathEdge {
    fn send(&mut self, frame: &Frame) {
        let sent = match self.newer_addresses(frame) {
            Some(addresses) => self.path.send_with(frame, &addresses),
            None => self.path.send(frame),
        };
        if let Err(error) = sent {
            self.write_errors += 1;
            tracing::debug!(%error, "write");
        }
    }

    fn set_mode(&mut self, peer: PeerId, mode: Mode) {
        self.path.table().set_mode(peer, mode);
        match mode {
            Mode::Take => self.draining.remove(&peer),
            Mode::Drain => self.draining.insert(peer, now()),
        };
    }

    fn ignore_silence(&mut self, peer: PeerId) {
        self.path.table().ignore_silence(peer);
    }
}

impl PathEdge {
    fn flow(&self, frame: &Frame) -> Option<PacketFlow> {
        PacketFlow::of(frame.bytes().get(self.ip..)?)
    }

    /// The link-layer addresses of the frame; none on a link without addresses.
    fn link_addresses(&self, frame: &Frame) -> Option<LinkAddresses> {
        frame.bytes().get(..self.ip)?.first_chunk().copied()
    }

    /// The addresses of the frame's next hop, if they have changed since the frame arrived.
    fn newer_addresses(&self, frame: &Frame) -> Option<LinkAddresses> {
        let own = self.link_addresses(frame)?;
        let newest = self.next_hops.newest(self.flow(frame)?.destination)?;
        (newest != own).then_some(newest)
    }

    /// Notes the next hop's addresses from a frame that was taken.
    fn note_next_hop(&mut self, destination: IpAddr, frame: &Frame) {
        if let Some(addresses) = self.link_addresses(frame) {
            self.next_hops.note(destination, addresses);
        }
    }
}

/// The state of the thread.
struct KeepWorker {
    edge: PathEdge,
    keeper: Keeper<Frame>,
    pool: BufferPool,
    announcements: Announcements,
    /// None on a link without neighbours.
    neighbours: Option<NeighbourMemory>,
    inbox: Inbox,
    outages: OutageSender,
    settings: KeepSettings,
    leaving: bool,
    announced: Vec<PeerId>,
    not_understood: u64,
    starved: u64,
}

/// The neighbours to remember, where the link has any, and where the IP header starts in a frame.
fn neighbours_and_ip(interface: &Interface) -> io::Result<(Option<NeighbourMemory>, usize)> {
    Ok(match interface.kind {
        LayerKind::Ethernet => (Some(NeighbourMemory::open(interface.ifindex)?), 14),
        LayerKind::RawIp => (None, 0),
    })
}

impl KeepWorker {
    fn new(
        path: KeepPath,
        settings: KeepSettings,
        inbox: Inbox,
        outages: OutageSender,
    ) -> io::Result<Self> {
        let (neighbours, ip) = neighbours_and_ip(path.interface())?;
        let peers = path.table().kind();
        Ok(Self {
            neighbours,
            announcements: path.announcements()?,
            edge: PathEdge {
                path,
                next_hops: NextHops::new(peers),
                ip,
                draining: BTreeMap::new(),
                write_errors: 0,
            },
            keeper: Keeper::new(settings),
            pool: BufferPool::new(pool_bytes_max(&settings)),
            inbox,
            outages,
            settings,
            leaving: false,
            announced: Vec::new(),
            not_understood: 0,
            starved: 0,
        })
    }

    /// Works until a command ends it. Errors: the device or the wait for it broke.
    fn run(mut self) -> io::Result<()> {
        while !self.leaving {
            self.inbox.note_turn();
            // Without a beat the kernel passes all packets.
            self.edge.path.beat(monotonic_ns());
            let read = self.read_batch()?;
            self.report_seen_peers()?;
            while let Ok(command) = self.inbox.commands.try_recv() {
                self.obey(command);
            }
            let now = now();
            if self.keeper.poll_timeout().is_some_and(|at| at <= now) {
                self.keeper.handle_timeout(now, &mut self.edge);
            }
            self.report_outages();
            self.end_draining(read < BATCH_FRAMES);
            if read < BATCH_FRAMES {
                self.restore_neighbours(None);
                self.wait()?;
            }
        }
        // Packets that wait only for their turn are sent. Packets that wait for a link that is down are lost,
        // as they would have been without Holdfast.
        self.edge.path.stop_taking();
        while self.read_batch()? > 0 {}
        self.keeper.finish(&mut self.edge);
        Ok(())
    }

    /// Reads up to a batch of frames; returns their number.
    fn read_batch(&mut self) -> io::Result<usize> {
        for read in 0..BATCH_FRAMES {
            match self.edge.path.read(&mut self.pool) {
                Ok(Some(frame)) => self.handle_frame(frame),
                Ok(None) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    self.starved += 1;
                    return Ok(read);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(BATCH_FRAMES)
    }

    /// Handles one frame that was taken.
    fn handle_frame(&mut self, frame: Frame) {
        let packet = frame.bytes().get(self.edge.ip..).unwrap_or_default();
        if has_no_source(packet) {
            // The kernel's own report of a multicast group of this device (RFC 3810, 5.2.13).
            return;
        }
        let flow = PacketFlow::of(packet);
        if let Some(flow) = flow {
            self.edge.note_next_hop(flow.destination, &frame);
        }
        let found = flow.and_then(|flow| Some((flow, self.edge.path.peer(flow.destination)?)));
        let Some((flow, peer)) = found else {
            self.not_understood += 1;
            self.edge.send(&frame);
            return;
        };
        if is_link_signal(&flow, packet) {
            // A queued signal would report the outage after link up. Its sender repeats it anyway.
            self.edge.send(&frame);
            let is_alarm = self.edge.path.table().is_taking(peer);
            if is_alarm && self.keeper.peers().all(|view| view.peer != peer) {
                // Nothing is queued for this peer: its packets take the kernel's path. The next packet that is
                // no signal shows the silence.
                self.edge.set_mode(peer, Mode::Drain);
            }
            self.edge.path.table().finish(peer, 1);
            return;
        }
        let table = self.edge.path.table();
        let alarm = table.is_taking(peer);
        let now = now();
        let bytes = frame.bytes().len();
        let arrival = Arrival {
            peer,
            flow,
            answers: table.answers(&flow, now.as_nanos()),
            bytes,
            segments: segments(bytes, frame.vnet().gso_size),
            // Only a frame in a buffer of its own may be queued.
            frame,
        };
        if arrival.frame.is_cacheable() {
            self.keeper
                .handle_packet(arrival, alarm, now, &mut self.edge);
        } else {
            self.starved += 1;
            self.edge.send(&arrival.frame);
        }
        self.edge.path.table().finish(peer, 1);
    }

    /// Notifies the keeper that packets of peers were seen that are away, or were away until now.
    fn report_seen_peers(&mut self) -> io::Result<()> {
        self.announcements.take(&mut self.announced)?;
        while let Some(peer) = self.announced.pop() {
            let table = self.edge.path.table();
            let (packets, answer_max) = (table.take_seen(peer), table.answer_max(peer));
            self.keeper
                .see(peer, packets, answer_max, now(), &mut self.edge);
        }
        Ok(())
    }

    /// The programs end DRAIN with the next packet for the peer. This function ends it if no packet comes, or
    /// if taken packets were lost in the device. It also ends DRAIN if packets come as fast as they are read:
    /// one may then overtake another.
    fn end_draining(&mut self, device_is_empty: bool) {
        let (table, now) = (self.edge.path.table(), now());
        let wait = if device_is_empty {
            DRAIN_MAX_IDLE
        } else {
            DRAIN_MAX
        };
        self.edge.draining.retain(|peer, since| {
            let is_over = now.saturating_since(*since) >= wait;
            if is_over {
                table.resume(*peer);
            }
            !is_over && table.is_draining(*peer)
        });
    }

    /// Without a carrier the kernel drops its neighbours: the worker enters the remembered ones.
    fn restore_neighbours(&mut self, carrier: Option<bool>) {
        let Some(neighbours) = &mut self.neighbours else {
            return;
        };
        let minded = match carrier {
            Some(carrier) => neighbours.set_carrier(carrier),
            None => neighbours.tick(),
        };
        if let Err(error) = minded {
            tracing::debug!(%error, "neighbours");
        }
    }

    /// Sleeps until there is something to do, at most until the next heartbeat.
    fn wait(&mut self) -> io::Result<()> {
        let now = now();
        let due = self.keeper.poll_timeout();
        let sleep = due.map_or(HEARTBEAT_INTERVAL, |at| at.saturating_since(now));
        let fds = [
            self.edge.path.device_fd(),
            self.announcements.fd(),
            self.inbox.waker.as_fd(),
        ];
        let [_, _, woken] = wait_readable(fds, Some(sleep.min(HEARTBEAT_INTERVAL)))?;
        if woken {
            self.inbox.waker.reset();
        }
        Ok(())
    }

    /// Handles a report about links.
    fn handle_link(&mut self, peers: &[PeerId], event: LinkEvent, source: LinkSource) {
        let now = now();
        for peer in peers {
            // Many peers may have many packets to send.
            self.edge.path.beat(monotonic_ns());
            self.keeper
                .handle_link(*peer, event, source, now, &mut self.edge);
        }
    }
}

/// An IPv6 packet from the unspecified address.
fn has_no_source(packet: &[u8]) -> bool {
    let source = packet.get(8..24).filter(|_| packet[0] >> 4 == 6);
    source.is_some_and(|source| source.iter().all(|octet| *octet == 0))
}

/// A mobile's signal to its gateway, or the reply.
fn is_link_signal(flow: &PacketFlow, packet: &[u8]) -> bool {
    let udp_at = match flow.source {
        IpAddr::V4(_) => usize::from(packet[0] & 0xf) * 4,
        IpAddr::V6(_) => 40,
    };
    let datagram = packet.get(udp_at + UDP_HEADER_BYTES..);
    flow.is_udp() && datagram.is_some_and(is_signal)
}

/// The number of packets on the wire for a frame of this length.
fn segments(bytes: usize, gso_size: u16) -> u32 {
    match gso_size {
        0 => 1,
        size => bytes.div_ceil(size.into()) as u32,
    }
}

#[cfg(test)]
mod tests;
