// SPDX-License-Identifier: Apache-2.0
//! The control thread: everything that is not a packet.
//!
//! The Unix socket of `holdfast status`, the mobiles' signals, the wireless interface's
//! own state, and the signals of the operating system. All that it learns it hands to
//! the packet worker as [`Command`]s.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use holdfast_core::signal::{DATAGRAM_BYTES_MAX, Entropy, GatewayPeers, LinkNotice, Outcome};
use holdfast_core::{LinkEvent, LinkSource};
use holdfast_net::datapath::{has_carrier, interface_bytes, monotonic_ns};
use holdfast_net::monitor::{InterfaceEvent, InterfaceState, LinkMonitor};
use holdfast_wire::Instant;
use tokio::io::unix::AsyncFd;
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use super::station::HandoffReport;
use super::took_over::TookOver;
use super::workers::{WorkerEnd, Workers};
use crate::command::Command;
use crate::control::{
    CALLER_WAIT, Call, Callers, ControlReply, ControlRequest, IMPATIENT_WAIT, LinkBytes,
    UNKNOWN_STATE, refusal,
};
use crate::control::{MobileStatus, StatusReply};
use crate::outages::{EndedOutage, OutageList};
use crate::settings::{GatewaySettings, SchemeName};

/// Callers of the control socket that the worker is asked for at the same time.
const CALLERS_MAX: usize = 16;

/// What is opened before the daemon reports that it is ready.
pub(super) struct Channels {
    /// The control socket.
    pub(super) listener: std::os::unix::net::UnixListener,
    /// The mobiles' signals, if any mobile has a key.
    pub(super) signals: Option<std::net::UdpSocket>,
    /// The state of interfaces.
    pub(super) monitor: LinkMonitor,
    /// The worker's reports about handoffs.
    pub(super) reports: Receiver<HandoffReport>,
    /// The workers' reports about outages.
    pub(super) outages: Receiver<EndedOutage>,
}

/// The interfaces whose state matters, by index.
#[derive(Clone, Debug)]
pub(super) struct Interfaces {
    /// The wireless interface.
    pub(super) wireless: u32,
    /// The daemon's own devices.
    pub(super) devices: Vec<u32>,
}

/// What the tasks of the control thread share.
pub(super) struct Control {
    settings: GatewaySettings,
    workers: Workers,
    peers: RefCell<GatewayPeers>,
    interfaces: Interfaces,
    data_path: &'static str,
    started: std::time::Instant,
    /// Carrier and MTU as last reported to the worker.
    interface: RefCell<Option<(bool, u32)>>,
    callers: Semaphore,
    slow_readers: Semaphore,
    /// The daemon stops: its devices will be removed.
    leaving: Cell<bool>,
    /// What is run when a mobile has come.
    took_over: Rc<TookOver>,
    outages: RefCell<OutageList>,
}

impl Control {
    /// Errors: two mobiles have the same key.
    pub(super) fn new(
        settings: GatewaySettings,
        workers: Workers,
        interfaces: Interfaces,
        data_path: &'static str,
    ) -> anyhow::Result<Self> {
        let configs = settings.mobiles.iter().cloned();
        let peers = GatewayPeers::new(configs, settings.signals.registration_lifetime)
            .map_err(|error| anyhow::anyhow!("the mobiles' keys: {error:?}"))?;
        Ok(Self {
            outages: RefCell::new(OutageList::new(
                settings.daemon.scheme == SchemeName::Observe,
                Instant::from_nanos(monotonic_ns()),
            )),
            settings,
            workers,
            peers: RefCell::new(peers),
            interfaces,
            data_path,
            started: std::time::Instant::now(),
            interface: RefCell::new(None),
            callers: Semaphore::new(CALLERS_MAX),
            slow_readers: Semaphore::new(CALLERS_MAX),
            leaving: Cell::new(false),
            took_over: Rc::default(),
        })
    }

    /// Serves until the worker is done. The first SIGTERM, SIGINT or SIGQUIT requests it to
    /// leave, the second ends the process at once.
    ///
    /// Errors: the worker's, or a channel that broke.
    pub(super) async fn run(
        self,
        channels: Channels,
        mut ends: JoinSet<WorkerEnd>,
    ) -> anyhow::Result<()> {
        let mut callers = Callers::of(channels.listener)?;
        let signals = channels.signals.map(UdpSocket::from_std).transpose()?;
        let mut monitor = register(channels.monitor)?;
        let (mut reports, mut outages) = (channels.reports, channels.outages);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let control = Rc::new(self);
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX + 1];
        loop {
            tokio::select! {
                Some(end) = ends.join_next() => {
                    let end = end?.context("the packet worker ended without a word")?;
                    end.context("the packet worker")?;
                    if ends.is_empty() {
                        return Ok(());
                    }
                }
                call = callers.next() => {
                    tokio::task::spawn_local(Rc::clone(&control).answer(call));
                }
                received = receive(signals.as_ref(), &mut datagram) => match received {
                    Ok((len, from)) => {
                        let reply = control.handle_datagram(&datagram[..len], from);
                        if let (Some(socket), Some(reply)) = (&signals, reply) {
                            // Lost like any datagram if it cannot be sent now.
                            let _ = socket.try_send_to(&reply, from);
                        }
                    }
                    Err(error) => tracing::debug!(%error, "signal socket"),
                },
                ready = monitor.readable_mut() => {
                    let mut ready = ready?;
                    while let Some(event) = ready.get_inner_mut().poll_event()? {
                        control.handle_interface(&event)?;
                    }
                    ready.clear_ready();
                }
                Some(report) = reports.recv() => control.on_handoff(report),
                Some(outage) = outages.recv() => control.on_outage(outage),
                () = control.outages_are_due() => {}
                _ = terminate.recv() => control.leave()?,
                _ = interrupt.recv() => control.leave()?,
                _ = quit.recv() => control.leave()?,
                _ = hangup.recv() => crate::log::note_hangup(),
            }
        }
    }

    fn leave(&self) -> anyhow::Result<()> {
        if self.leaving.replace(true) {
            bail!("second signal: stopped without delivering the cached segments");
        }
        tracing::info!(
            drain_s = self.settings.daemon.drain.as_secs_f64(),
            "leaving"
        );
        if !self.workers.send(&Command::Leave) {
            bail!("the packet worker does not answer");
        }
        Ok(())
    }

    /// Hands the worker what it must not miss.
    fn order(&self, command: Command) -> anyhow::Result<()> {
        if !self.workers.send(&command) {
            bail!("the packet worker does not answer");
        }
        Ok(())
    }

    /// A report of the interface about the link.
    fn handle_interface(&self, event: &InterfaceEvent) -> anyhow::Result<()> {
        let InterfaceEvent::State(state) = event else {
            return Ok(());
        };
        let InterfaceState {
            carrier: carrier_then,
            removed,
            mtu,
            name,
            ..
        } = state;
        let is_ours = self.interfaces.devices.contains(&state.ifindex);
        if is_ours && !self.leaving.get() && (!state.up || *removed) {
            // What is redirected to it would be dropped; without us all is passed on.
            bail!("device {name} was taken down from outside; start the gateway again");
        }
        if state.ifindex != self.interfaces.wireless {
            return Ok(());
        }
        if *removed {
            bail!("interface {name} was removed; start the gateway again when it exists");
        }
        // The kernel's word may be a second late: by now the carrier may be another.
        let carrier = has_carrier(name).unwrap_or(*carrier_then);
        let before = self.interface.replace(Some((carrier, *mtu)));
        if before.map(|(carrier, _)| carrier) != Some(carrier) {
            tracing::info!(interface = name, carrier, "wireless interface");
            // At the start a carrier is nothing new.
            if before.is_some() || !carrier {
                let event = if carrier {
                    LinkEvent::Up
                } else {
                    LinkEvent::Down
                };
                let source = LinkSource::Carrier;
                self.order(Command::AllLinks { event, source })?;
            }
        }
        if *mtu > 0 && before.map(|(_, mtu)| mtu) != Some(*mtu) {
            tracing::debug!(interface = name, mtu, "wireless interface");
            self.order(Command::Mtu(*mtu))?;
        }
        Ok(())
    }

    /// Takes a mobile's datagram; returns the reply.
    fn handle_datagram(&self, datagram: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let mut entropy = Entropy {
            nonce: [0; _],
            challenge: [0; 16],
        };
        let filled =
            getrandom::fill(&mut entropy.nonce).and(getrandom::fill(&mut entropy.challenge));
        if let Err(error) = filled {
            tracing::error!(%error, "no random bytes: signals cannot be answered");
            return None;
        }
        let now = Instant::from_nanos(monotonic_ns());
        let handled = self
            .peers
            .borrow_mut()
            .handle_datagram(datagram, from, now, &entropy);
        if let Outcome::Rejected(rejection) = handled.outcome {
            tracing::debug!(%from, ?rejection, "signal");
        }
        // Before the notice: a new run of the daemon has no dictionary, and what an outage has
        // lost is sent as soon as link up is reported.
        let compresses = self.settings.core.compression.is_some();
        if let Some(abilities) = handled.abilities.filter(|_| compresses) {
            self.workers.send(&Command::Abilities(abilities));
        }
        if let Some(notice) = handled.notice {
            self.notify(notice);
        }
        handled.reply
    }

    fn notify(&self, notice: LinkNotice) {
        if self.settings.station.is_some() {
            self.workers.send(&Command::Notice(notice.clone()));
        }
        let addresses = notice.addresses;
        tracing::info!(?addresses, epoch = notice.epoch, event = ?notice.event, "signal");
        if !notice.removed.is_empty() {
            self.workers.send(&Command::Forget(notice.removed));
        }
        self.workers.send(&Command::Link {
            addresses,
            event: notice.event,
            source: LinkSource::Signal,
        });
    }

    /// Handles a report of the worker about a handoff.
    fn on_handoff(&self, report: HandoffReport) {
        match report {
            HandoffReport::EpochElsewhere { mobile, epoch } => {
                self.peers.borrow_mut().raise_epoch(mobile, epoch);
            }
            HandoffReport::TookOver {
                addresses,
                command: Some(command),
            } => {
                self.took_over.run(command, addresses);
            }
            HandoffReport::TookOver { command: None, .. } => {}
        }
    }

    /// Notes an outage that a worker has seen the end of.
    fn on_outage(&self, mut outage: EndedOutage) {
        let mut name = None;
        if let Some(address) = outage.mobile {
            // A mobile with several addresses has one outage.
            outage.mobile = self.all_addresses(address).into_iter().min();
            let peers = self.peers.borrow();
            let key = peers.owner(address);
            let owner = peers
                .iter()
                .find(|(config, _)| Some(config.key.id()) == key);
            name = owner.map(|(config, _)| config.name.clone());
        }
        let now = Instant::from_nanos(monotonic_ns());
        self.outages.borrow_mut().add(outage, name, now);
    }

    /// Waits until something is to be done for outages, and does it.
    async fn outages_are_due(&self) {
        let due = self.outages.borrow().next_timeout();
        let now = || Instant::from_nanos(monotonic_ns());
        tokio::time::sleep(due.saturating_since(now())).await;
        self.outages.borrow_mut().handle_timeout(now());
    }

    /// Answers one caller of the control socket.
    async fn answer(self: Rc<Self>, call: Call) {
        let reply = match self.callers.try_acquire() {
            Ok(_permit) => self.reply(&call.request).await,
            Err(_) => refusal("too many callers at the same time; ask again"),
        };
        // A reply without a reader takes memory: only some callers get the time to be slow.
        let permit = self.slow_readers.try_acquire();
        let wait = if permit.is_ok() {
            CALLER_WAIT
        } else {
            IMPATIENT_WAIT
        };
        call.answer(&reply, wait).await;
        drop(permit);
    }

    async fn reply(&self, request: &ControlRequest) -> ControlReply {
        match *request {
            ControlRequest::Status {
                flows_max,
                outages_max,
            } => match self.status(flows_max, outages_max).await {
                Some(status) => ControlReply::Gateway(Box::new(status)),
                None => refusal("the packet worker does not answer"),
            },
            ControlRequest::Link { address, event } => {
                let Some(event) = event.event(None) else {
                    return refusal(UNKNOWN_STATE);
                };
                tracing::info!(%address, ?event, "command");
                let addresses = self.all_addresses(address);
                let source = LinkSource::Command;
                if self.workers.send(&Command::Link {
                    addresses,
                    event,
                    source,
                }) {
                    ControlReply::Done
                } else {
                    refusal("the packet worker does not answer")
                }
            }
            ControlRequest::Signal { .. } => {
                refusal("this is a gateway; `holdfast mobile signal` speaks to a mobile's daemon")
            }
        }
    }

    /// All addresses of the mobile that has registered this one, or this one alone.
    fn all_addresses(&self, address: std::net::IpAddr) -> Vec<std::net::IpAddr> {
        let peers = self.peers.borrow();
        peers
            .owner(address)
            .and_then(|key| peers.view(key))
            .map_or_else(|| vec![address], |view| view.addresses.clone())
    }

    async fn status(&self, flows_max: usize, outages_max: usize) -> Option<StatusReply> {
        let seen = self
            .workers
            .status(flows_max, self.peer_addresses())
            .await?;
        let mut status = StatusReply {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            scheme: self.settings.daemon.scheme.name().into(),
            wireless: self.settings.wireless.clone(),
            wired: self.settings.daemon.wired.clone(),
            data_path: self.data_path.into(),
            outages: self.outages.borrow().status(outages_max),
            link_bytes: interface_bytes(&self.settings.wireless)
                .ok()
                .map(|(uplink, downlink)| LinkBytes { downlink, uplink }),
            ..seen
        };
        self.add_peers(&mut status);
        Some(status)
    }

    /// The addresses of all mobiles with a key; as many as the signals' limits allow.
    fn peer_addresses(&self) -> Vec<std::net::IpAddr> {
        let peers = self.peers.borrow();
        let views = peers.iter().filter_map(|(_, view)| view);
        views.flat_map(|view| view.addresses.clone()).collect()
    }

    /// Adds to the mobiles what their signals report: names, epochs, and those without flows.
    fn add_peers(&self, status: &mut StatusReply) {
        let now = Instant::from_nanos(monotonic_ns());
        let peers = self.peers.borrow();
        for (config, view) in peers.iter() {
            let addresses = view.map(|view| view.addresses.clone()).unwrap_or_default();
            let known = status
                .mobiles
                .iter_mut()
                .find(|mobile| mobile.addresses.iter().any(|one| addresses.contains(one)));
            let mobile = if let Some(mobile) = known {
                mobile
            } else {
                status.mobiles.push(MobileStatus::default());
                status.mobiles.last_mut().expect("just pushed")
            };
            mobile.name = Some(config.name.clone());
            if let Some(view) = view {
                mobile.addresses = addresses;
                mobile.epoch = view.epoch;
                mobile.signal_age_s = Some(now.saturating_since(view.received).as_secs_f64());
            }
        }
        let counters = peers.counters();
        status
            .counters
            .insert("signals.believed".into(), counters.believed);
        status
            .counters
            .insert("signals.challenges".into(), counters.challenges);
        for (rejection, count) in counters.rejections.iter() {
            status
                .counters
                .insert(format!("signals.{}", rejection.name()), count);
        }
    }
}

/// The next datagram; never, without a socket.
async fn receive(socket: Option<&UdpSocket>, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    match socket {
        Some(socket) => socket.recv_from(buffer).await,
        None => std::future::pending().await,
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe; this descriptor never changes"
)]
fn register(monitor: LinkMonitor) -> io::Result<AsyncFd<LinkMonitor>> {
    AsyncFd::new(monitor)
}
