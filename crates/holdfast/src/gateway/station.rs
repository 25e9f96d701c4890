// SPDX-License-Identifier: Apache-2.0
//! The gateway as a base station with neighbours: the sockets and the routing around
//! [`Handoff`]. The packet worker owns it, like the engine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_core::handoff::{
    Channel, Disposition, Handoff, HandoffAction, Incoming, NONCE_BYTES, PeerId, Refused,
};
use holdfast_core::signal::{KeyId, LinkNotice};
use holdfast_core::{FlowKey, handoff::Copied as _};
use holdfast_net::datapath::now;
use holdfast_net::group::GroupSocket;
use holdfast_net::inject::Injector;
use holdfast_wire::{Flags, Instant, Segment};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::packet::Packet;
use crate::settings::StationSettings;

mod copy;
mod report;

pub(super) use copy::CopiedPacket;
use copy::Injected;

/// What the station reports about handoffs to the control thread.
#[derive(Clone, Debug)]
pub(super) enum HandoffReport {
    /// A mobile has come here.
    TookOver {
        /// Its addresses.
        addresses: Vec<IpAddr>,
        /// The program to run then.
        command: Option<PathBuf>,
    },
    /// Another station has the mobile with this link epoch.
    EpochElsewhere {
        /// The mobile.
        mobile: KeyId,
        /// The epoch.
        epoch: u64,
    },
}

/// The limit of reports that wait for the control thread.
pub(super) const REPORTS_MAX: usize = 1024;

holdfast_core::counters! {
    /// What the station counts at its sockets.
    pub(super) struct StationCounters {
        /// Copies of packets sent to neighbours.
        copies_sent = "copies_sent",
        /// Size of the copies sent.
        copy_bytes_sent = "copy_bytes_sent",
        /// Datagrams to neighbours that could not be sent.
        not_sent = "not_sent",
        /// Packets of other stations that were given to the router.
        injected = "injected",
        /// Packets of other stations that the router did not take.
        not_injected = "not_injected",
        /// Packets for mobiles that are at another station.
        elsewhere = "elsewhere",
        /// Packets that could not be copied, and followed the route.
        not_copied = "not_copied",
    }
}

/// Groups that cannot be joined are tried again after this time.
const JOIN_AGAIN: Duration = Duration::from_secs(1);

/// The least time between two requests for a session with one neighbour.
const GREETING_INTERVAL: Duration = Duration::from_millis(100);

/// What becomes of a downlink segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// To the engine.
    Engine,
    /// Not to the engine: it was buffered here, or sent to another station.
    Taken,
}

/// The station.
pub(super) struct Station {
    settings: StationSettings,
    handoff: Handoff<CopiedPacket>,
    channel: Channel,
    socket: GroupSocket,
    injector: Injector,
    injected: Injected,
    /// Actions to do, in order.
    pub(super) actions: VecDeque<HandoffAction<CopiedPacket>>,
    reports: Sender<HandoffReport>,
    /// The newest reports that did not fit the queue; true in the key: [`HandoffReport::TookOver`].
    unreported: BTreeMap<(KeyId, bool), HandoffReport>,
    greeted: BTreeMap<PeerId, Instant>,
    counters: StationCounters,
    /// Groups that could not be joined, and when they are tried again.
    not_joined: (BTreeSet<u16>, Instant),
    /// The log has the warning that another station uses this one's name.
    has_warned: bool,
    /// There may be more to receive.
    pub(super) is_readable: bool,
}

/// The socket and the device, opened on the daemon's first thread before it reports that it is ready.
pub(super) struct StationEdge {
    socket: GroupSocket,
    injector: Injector,
    incarnation: u64,
}

impl StationEdge {
    /// Errors: no such interface, the port is taken, no TUN device.
    pub(super) fn open(settings: &StationSettings, incarnation: u64) -> anyhow::Result<Self> {
        let is_v6 = settings.group.is_ipv6();
        let socket = GroupSocket::open(is_v6, settings.port, &settings.interface, settings.hops)
            .context("cannot receive from the other base stations; see [handoff]")?;
        let injector = Injector::create().context("cannot give copies to the routing")?;
        Ok(Self {
            socket,
            injector,
            incarnation,
        })
    }

    /// The index of its device.
    pub(super) const fn ifindex(&self) -> u32 {
        self.injector.ifindex()
    }
}

impl Station {
    pub(super) fn new(
        edge: StationEdge,
        settings: StationSettings,
        reports: Sender<HandoffReport>,
    ) -> Self {
        let peers = settings.peers.clone();
        let ids: Vec<PeerId> = peers.iter().collect();
        let mut station = Self {
            handoff: Handoff::new(settings.core.clone(), ids.iter().copied()),
            channel: Channel::new(settings.key.clone(), edge.incarnation, peers),
            settings,
            socket: edge.socket,
            injector: edge.injector,
            injected: Injected::default(),
            actions: VecDeque::new(),
            reports,
            unreported: BTreeMap::new(),
            greeted: BTreeMap::new(),
            counters: StationCounters::default(),
            not_joined: (BTreeSet::new(), Instant::ZERO),
            has_warned: false,
            is_readable: true,
        };
        for peer in ids {
            station.send_greeting(peer);
        }
        station
    }

    /// Forgets all mobiles, as after a restart. The greeting shows the neighbours that this is
    /// another run.
    pub(super) fn start_again(&mut self) {
        let mut bytes = [0; 8];
        if let Err(error) = getrandom::fill(&mut bytes) {
            // With the old number the neighbours would reject its messages as replays.
            tracing::error!(%error, "no random bytes: nothing can be sealed");
        }
        let peers = self.settings.peers.clone();
        let ids: Vec<PeerId> = peers.iter().collect();
        self.handoff = Handoff::new(self.settings.core.clone(), ids.iter().copied());
        let incarnation = u64::from_ne_bytes(bytes);
        self.channel = Channel::new(self.settings.key.clone(), incarnation, peers);
        self.socket.leave_all();
        self.injected = Injected::default();
        self.actions.clear();
        self.not_joined.0.clear();
        self.greeted.clear();
        for peer in ids {
            self.send_greeting(peer);
        }
    }

    /// The socket, for the worker's wait.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// When [`Self::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.handoff.poll_timeout()
    }

    /// Gives an input to the handoff machine, and queues the actions that it returns.
    fn with(
        &mut self,
        input: impl FnOnce(&mut Handoff<CopiedPacket>, &mut Vec<HandoffAction<CopiedPacket>>),
    ) {
        let mut actions = Vec::new();
        input(&mut self.handoff, &mut actions);
        self.actions.extend(actions);
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.report_again();
        if !self.not_joined.0.is_empty() && self.not_joined.1 <= now {
            self.not_joined.1 = now + JOIN_AGAIN;
            for group in core::mem::take(&mut self.not_joined.0) {
                self.join(group);
            }
        }
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.with(|handoff, actions| handoff.handle_timeout(now, actions));
        }
    }

    /// Handles a signal of a mobile to this station.
    pub(super) fn handle_notice(&mut self, notice: &LinkNotice, now: Instant) {
        self.with(|handoff, actions| handoff.handle_notice(notice, now, actions));
    }

    /// The operator expects a mobile to leave.
    pub(super) fn prepare(&mut self, address: IpAddr, now: Instant) {
        self.with(|handoff, actions| handoff.prepare(address, now, actions));
    }

    /// A segment for an MH has come to the wireless interface.
    pub(super) fn arrive(&mut self, segment: &Segment, packet: &Packet, now: Instant) -> Fate {
        if self.injected.take(segment) {
            return Fate::Engine;
        }
        let arrival = self.handoff.arrival(segment.to.address, now);
        if arrival.copy.is_none() && arrival.disposition == Disposition::Deliver {
            return Fate::Engine;
        }
        let pieces = CopiedPacket::of_frame(segment, packet);
        if pieces.is_empty() {
            self.counters.not_copied += 1;
            return Fate::Engine;
        }
        let mut is_sent = false;
        if let Some((mobile, group)) = arrival.copy {
            let to = SocketAddr::new(self.settings.group_address(group), self.settings.port);
            for piece in &pieces {
                is_sent |= self.send_copy(mobile, to, piece);
            }
        }
        match arrival.disposition {
            Disposition::Deliver => return Fate::Engine,
            // A packet that could not be copied follows the route.
            Disposition::Elsewhere if !is_sent => return Fate::Engine,
            Disposition::Elsewhere => self.counters.elsewhere += 1,
            Disposition::Keep(mobile) if !self.handoff.has_room(mobile, &pieces) => {
                return Fate::Engine;
            }
            Disposition::Keep(mobile) => {
                for piece in pieces {
                    self.handoff.keep(mobile, piece, now);
                }
            }
        }
        Fate::Taken
    }

    /// A segment of an MH has passed.
    pub(super) fn handle_uplink(&mut self, segment: &Segment) {
        let flags = segment.flags;
        let acknowledges =
            flags.has(Flags::ACK) && !flags.has(Flags::SYN) && !flags.has(Flags::RST);
        if acknowledges && self.handoff.wants_uplink(segment.from.address) {
            let key = FlowKey::of(segment, holdfast_core::Direction::Uplink);
            let ack = segment.ack;
            self.with(|handoff, actions| handoff.handle_uplink(&key, ack, actions));
        }
    }

    /// Buffers a packet that the engine has dropped from its cache.
    pub(super) fn keep(&mut self, mobile: KeyId, copy: CopiedPacket, now: Instant) {
        self.handoff.keep(mobile, copy, now);
    }

    /// Sends the engine's flow states to the station that has taken over.
    pub(super) fn send_state(
        &mut self,
        mobile: KeyId,
        to: PeerId,
        states: &[holdfast_core::handoff::FlowState],
        now: Instant,
    ) {
        self.with(|handoff, actions| handoff.send_state(mobile, to, states, now, actions));
    }

    /// Receives a batch of the neighbours' datagrams.
    ///
    /// Errors: the socket broke.
    pub(super) fn receive(&mut self, now: Instant) -> io::Result<()> {
        let mut datagrams = Vec::new();
        let channel = &mut self.channel;
        let count = self.socket.receive(|bytes, from| {
            datagrams.push((channel.open(bytes, from), from));
        })?;
        self.is_readable = GroupSocket::is_full(count);
        for (opened, from) in datagrams {
            match opened {
                Ok(Incoming::Message(peer, message)) => {
                    tracing::trace!(%from, ?message, "handoff");
                    self.with(|handoff, actions| {
                        handoff.handle_message(peer, message, now, actions);
                    });
                }
                Ok(Incoming::Copy { mobile, packet, .. }) => {
                    if let Some(copy) = CopiedPacket::parse(packet) {
                        self.with(|handoff, actions| {
                            handoff.handle_copy(mobile, copy, now, actions);
                        });
                    }
                }
                Ok(Incoming::Greeting(None)) => {}
                Ok(Incoming::Greeting(Some(peer))) => {
                    self.send_greeting(peer);
                    self.with(|handoff, actions| handoff.handle_restart(peer, actions));
                }
                Err(Refused::UnknownRun(peer)) => self.send_greeting(peer),
                Err(refused) => tracing::debug!(%from, ?refused, "handoff"),
            }
        }
        if !self.has_warned && self.handoff.counters().own_number > 0 {
            self.has_warned = true;
            let name = &self.settings.name;
            tracing::warn!(
                name,
                "a neighbour speaks with this station's number and is not believed; give each \
                 its own handoff.name, and take this one out of its handoff.neighbours"
            );
        }
        Ok(())
    }

    /// Does an action that needs no engine; returns an action that needs the engine.
    pub(super) fn perform(
        &mut self,
        action: HandoffAction<CopiedPacket>,
    ) -> Option<HandoffAction<CopiedPacket>> {
        match action {
            HandoffAction::Send { to, message } => {
                if let (Some(nonce), Some(address)) = (nonce(), self.settings.peers.address(to)) {
                    let datagram = self.channel.seal(to, &message, &nonce);
                    self.send(address, &datagram);
                }
            }
            HandoffAction::SendCopy { to, mobile, copy } => {
                if let (Some(nonce), Some(address)) = (nonce(), self.settings.peers.address(to)) {
                    let datagram = self
                        .channel
                        .seal_wanted(to, mobile, copy.as_bytes(), &nonce);
                    self.send(address, &datagram);
                }
            }
            HandoffAction::Join(group) => self.join(group),
            HandoffAction::Leave(group) => {
                self.not_joined.0.remove(&group);
                self.socket.leave(self.settings.group_address(group));
            }
            HandoffAction::Deliver(copy) => self.inject(&copy),
            HandoffAction::TookOver { mobile, addresses } => {
                tracing::info!(%mobile, ?addresses, "the mobile is here");
                let command = self.settings.took_over_command.clone();
                self.report(mobile, HandoffReport::TookOver { addresses, command });
            }
            HandoffAction::EpochElsewhere { mobile, epoch } => {
                self.report(mobile, HandoffReport::EpochElsewhere { mobile, epoch });
            }
            of_the_engine => return Some(of_the_engine),
        }
        None
    }

    fn join(&mut self, group: u16) {
        let address = self.settings.group_address(group);
        if let Err(error) = self.socket.join(address) {
            tracing::warn!(%error, %address, "no copies come; trying again");
            self.not_joined.0.insert(group);
        }
    }

    /// While the control thread's queue is full, the newest report of each mobile is stored.
    fn report(&mut self, mobile: KeyId, report: HandoffReport) {
        let kind = matches!(report, HandoffReport::TookOver { .. });
        if let Err(TrySendError::Full(report)) = self.reports.try_send(report) {
            if self.unreported.is_empty() {
                tracing::warn!("the control thread does not keep up");
            }
            self.unreported.insert((mobile, kind), report);
        }
    }

    fn report_again(&mut self) {
        while let Some((key, report)) = self.unreported.pop_first() {
            if let Err(TrySendError::Full(report)) = self.reports.try_send(report) {
                self.unreported.insert(key, report);
                return;
            }
        }
    }

    /// Greets a neighbour, but not again within [`GREETING_INTERVAL`]: otherwise each replayed datagram
    /// with its address would cause a greeting.
    fn send_greeting(&mut self, peer: PeerId) {
        let now = now();
        let last = self.greeted.insert(peer, now);
        if last.is_some_and(|last| now.saturating_since(last) < GREETING_INTERVAL) {
            self.greeted.extend(last.map(|last| (peer, last)));
            return;
        }
        if let (Some(nonce), Some(address)) = (nonce(), self.settings.peers.address(peer)) {
            let datagram = self.channel.greeting(peer, &nonce);
            self.send(address, &datagram);
        }
    }

    /// False if it could not be sent.
    fn send_copy(&mut self, mobile: KeyId, to: SocketAddr, copy: &CopiedPacket) -> bool {
        let Some(nonce) = nonce() else { return false };
        let datagram = self.channel.seal_copy(mobile, copy.as_bytes(), &nonce);
        self.counters.copies_sent += 1;
        self.counters.copy_bytes_sent += copy.bytes() as u64;
        self.send(to, &datagram)
    }

    /// False if the datagram could not be sent now; it is then lost.
    fn send(&mut self, to: SocketAddr, datagram: &[u8]) -> bool {
        let sent = self.socket.send(to, datagram);
        if let Err(error) = &sent {
            self.counters.not_sent += 1;
            tracing::debug!(%error, %to, "handoff: not sent");
        }
        sent.is_ok()
    }

    fn inject(&mut self, copy: &CopiedPacket) {
        match self.injector.inject(copy.as_bytes()) {
            Ok(()) => {
                self.injected.note(copy.segment());
                self.counters.injected += 1;
            }
            Err(error) => {
                self.counters.not_injected += 1;
                tracing::debug!(%error, "handoff: not delivered");
            }
        }
    }

    /// Discards packets that were routed into the station's device by mistake.
    pub(super) fn drain_device(&self) {
        self.injector.drain();
    }
}

/// Random bytes; without them nothing can be sealed.
fn nonce() -> Option<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    match getrandom::fill(&mut nonce) {
        Ok(()) => Some(nonce),
        Err(error) => {
            tracing::error!(%error, "no random bytes: nothing can be sealed");
            None
        }
    }
}

#[cfg(test)]
mod tests;
