// SPDX-License-Identifier: Apache-2.0
//! The control thread: everything that is not a packet.
//!
//! It serves the Unix socket of `holdfast status`, the mobiles' signals, the state of the wireless
//! interface, and the signals of the operating system. It sends what it learns to
//! the packet worker as [`Command`]s.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use holdfast_core::LinkSource;
use holdfast_core::signal::{DATAGRAM_BYTES_MAX, Entropy, GatewayPeers, LinkNotice, Outcome};
use holdfast_net::datapath::{has_carrier, now};
use holdfast_net::monitor::{InterfaceEvent, InterfaceState, LinkMonitor};
use holdfast_net::replies::{self, Correspondent};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use super::SharedSettings;
use super::links::{self, WirelessLink};
use super::station::HandoffReport;
use super::took_over::TookOver;
use super::worker_status::WorkerEnd;
use crate::broker;
use crate::command::Command;
use crate::control::{
    CALLER_WAIT, CROWDED_WAIT, Call, Callers, ControlReply, ControlRequest, UNKNOWN_STATE, refusal,
};
use crate::outages::{EndedOutage, OutageList};
use crate::service;
use crate::settings::{GatewayArgs, SchemeName};

mod status;

/// The limit of callers that wait for a worker's status at the same time, and of callers that read slowly.
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

/// What the tasks of the control thread share.
pub(super) struct Control {
    pub(super) args: GatewayArgs,
    pub(super) settings: SharedSettings,
    pub(super) peers: RefCell<GatewayPeers>,
    links: RefCell<Vec<WirelessLink>>,
    started: std::time::Instant,
    callers: Semaphore,
    slow_readers: Semaphore,
    /// The daemon stops: the removal of its devices is no error.
    leaving: Cell<bool>,
    /// Runs the operator's program when a mobile has come.
    took_over: Rc<TookOver>,
    outages: RefCell<OutageList>,
    /// Why the newest reload failed, if it did.
    pub(super) reload_problem: RefCell<Option<String>>,
}

impl Control {
    /// Errors: two mobiles have the same key.
    pub(super) fn new(
        args: GatewayArgs,
        settings: SharedSettings,
        links: Vec<WirelessLink>,
    ) -> anyhow::Result<Self> {
        let peers = {
            let settings = settings.borrow();
            let configs = settings.mobiles.iter().cloned();
            GatewayPeers::new(configs, settings.signals.registration_lifetime)?
        };
        let only_observes = settings.borrow().daemon.scheme == SchemeName::Observe;
        let now = now();
        Ok(Self {
            outages: RefCell::new(OutageList::new(only_observes, now)),
            args,
            settings,
            peers: RefCell::new(peers),
            links: RefCell::new(links),
            started: std::time::Instant::now(),
            callers: Semaphore::new(CALLERS_MAX),
            slow_readers: Semaphore::new(CALLERS_MAX),
            leaving: Cell::new(false),
            took_over: Rc::default(),
            reload_problem: RefCell::default(),
        })
    }

    /// Serves until all workers are done. The first SIGTERM, SIGINT or SIGQUIT requests them to
    /// leave, the second ends the process at once.
    ///
    /// Errors: a worker's, or a channel that broke.
    pub(super) async fn run(self, channels: Channels) -> anyhow::Result<()> {
        let mut callers = Callers::of(channels.listener)?;
        let mut signals = channels.signals.map(UdpSocket::from_std).transpose()?;
        let mut monitor = register(channels.monitor)?;
        let (mut reports, mut outages) = (channels.reports, channels.outages);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut pulse = service::pulse();
        let mut ends = JoinSet::new();
        let control = Rc::new(self);
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX + 1];
        service::ready(&control.service_status());
        loop {
            control.collect_ends(&mut ends);
            if control.leaving.get() && ends.is_empty() {
                break;
            }
            tokio::select! {
                Some(end) = ends.join_next() => {
                    let end = end?.context("the packet worker ended without a word")?;
                    end.context("the packet worker")?;
                    if !control.leaving.get() {
                        bail!("the packet worker ended without a word");
                    }
                }
                call = callers.next() => {
                    tokio::task::spawn_local(Rc::clone(&control).answer(call));
                }
                received = receive(signals.as_ref(), &mut datagram) => match received {
                    Ok((len, mobile)) => {
                        let reply = control.handle_datagram(&datagram[..len], mobile.from);
                        if let (Some(socket), Some(reply)) = (&signals, reply) {
                            // Lost like any datagram if it cannot be sent now.
                            let send = || replies::reply(socket, &reply, &mobile);
                            let _ = socket.try_io(Interest::WRITABLE, send);
                        }
                    }
                    Err(error) => tracing::debug!(%error, "signal socket"),
                },
                ready = monitor.readable_mut() => {
                    let mut ready = ready?;
                    let mut has_missed = false;
                    while let Some(event) = ready.get_inner_mut().poll_event()? {
                        match event {
                            InterfaceEvent::State(state) => control.handle_interface(&state)?,
                            InterfaceEvent::Overrun => has_missed = true,
                        }
                    }
                    ready.clear_ready();
                    // The reports that were still queued are older than the loss.
                    if has_missed {
                        control.look_for_removed()?;
                    }
                }
                Some(report) = reports.recv() => control.on_handoff(report),
                Some(outage) = outages.recv() => control.on_outage(outage),
                () = control.outages_are_due() => {}
                _ = pulse.tick() => control.look()?,
                _ = terminate.recv() => control.leave()?,
                _ = interrupt.recv() => control.leave()?,
                _ = quit.recv() => control.leave()?,
                _ = hangup.recv() => control.reload(&mut signals),
            }
        }
        // All workers have reported their ends.
        for link in control.links.borrow_mut().iter_mut() {
            link.workers.release();
        }
        while let Ok(outage) = outages.try_recv() {
            control.on_outage(outage);
        }
        let now = now();
        control.outages.borrow_mut().finish(now);
        tracing::info!("gateway left");
        broker::check()
    }

    /// Adds the ends of newly started workers to those that are awaited.
    fn collect_ends(&self, ends: &mut JoinSet<WorkerEnd>) {
        let mut links = self.links.borrow_mut();
        let workers = links.iter_mut().map(|link| link.workers.running_mut());
        for worker in workers.flatten() {
            if let Some(done) = worker.done.take() {
                ends.spawn(done);
            }
        }
    }

    /// Sends a command to all workers; false if one hangs.
    pub(super) fn send(&self, command: &Command) -> bool {
        let mut all = true;
        for link in self.links.borrow().iter() {
            all &= link.workers.send(command);
        }
        all
    }

    /// What the daemon does at its interfaces.
    fn serving(&self) -> Vec<String> {
        let links = self.links.borrow();
        let links = links
            .iter()
            .map(|link| (&*link.interface.name, link.serving()));
        let scheme = self.settings.borrow().daemon.scheme.name();
        links::shown(&links.collect::<Vec<_>>(), scheme)
    }

    /// What the service manager shows of this daemon.
    pub(super) fn service_status(&self) -> String {
        let mut parts = self.serving();
        if let Some(problem) = &*self.reload_problem.borrow() {
            parts.push(format!("not reloaded: {problem}"));
        }
        parts.join("; ")
    }

    /// Checks broker, interfaces and workers, and sends the service manager a sign of life.
    fn look(&self) -> anyhow::Result<()> {
        if broker::is_lost() && !self.leaving.get() {
            tracing::error!("{}", holdfast_net::privileges::LOST);
            return self.leave();
        }
        let mut are_alive = true;
        for link in self.links.borrow_mut().iter_mut() {
            link.look_again()?;
            are_alive &= link.workers.are_alive();
        }
        if are_alive {
            // The status may be new: an attempt to attach may have succeeded.
            service::alive(&self.service_status());
        } else {
            tracing::error!(
                "the packet worker hangs, and packets pass by; unless systemd restarts the gateway, \
                 restart it"
            );
        }
        Ok(())
    }

    fn leave(&self) -> anyhow::Result<()> {
        if self.leaving.replace(true) {
            bail!("second signal: stopped without delivering the cached segments");
        }
        service::stopping();
        tracing::info!(
            drain_s = self.settings.borrow().daemon.drain.as_secs_f64(),
            "leaving"
        );
        if !self.send(&Command::Leave) {
            bail!("the packet worker does not answer");
        }
        Ok(())
    }

    /// The kernel has dropped reports about interfaces. Its next dump lists no removed interface.
    fn look_for_removed(&self) -> anyhow::Result<()> {
        let links = self.links.borrow();
        let removed: Vec<_> = links
            .iter()
            .filter_map(WirelessLink::removed_unreported)
            .collect();
        drop(links);
        removed
            .iter()
            .try_for_each(|state| self.handle_interface(state))
    }

    /// Handles a report of the kernel about an interface.
    fn handle_interface(&self, state: &InterfaceState) -> anyhow::Result<()> {
        let name = &state.name;
        let mut links = self.links.borrow_mut();
        let is_ours = links.iter().any(|link| link.owns_device(state.ifindex));
        let is_gone = is_ours && (!state.up || state.removed);
        // The report may be older than the device's start.
        if is_gone && !self.leaving.get() && !has_carrier(name).unwrap_or(false) {
            // The kernel drops packets that are redirected to a device that is down. Without the daemon they pass.
            bail!("device {name} was taken down from outside; start the gateway again");
        }
        let mut has_changed = false;
        for link in links.iter_mut() {
            let was_attached = link.workers.is_attached();
            link.handle_interface(state)?;
            has_changed |= link.workers.is_attached() != was_attached;
        }
        drop(links);
        if has_changed {
            service::status(&self.service_status());
        }
        Ok(())
    }

    /// Handles a mobile's datagram; returns the reply.
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
        let now = now();
        let handled = self
            .peers
            .borrow_mut()
            .handle_datagram(datagram, from, now, &entropy);
        if let Outcome::Rejected(rejection) = handled.outcome {
            tracing::debug!(%from, ?rejection, "signal");
        }
        // Sent before the notice: a new run of the mobile's daemon has no dictionary, and lost segments
        // are retransmitted as soon as link up is reported.
        let compresses = self.settings.borrow().core.compression.is_some();
        if let Some(abilities) = handled.abilities.filter(|_| compresses) {
            self.send(&Command::Abilities(abilities));
        }
        if let Some(notice) = handled.notice {
            self.notify(notice);
        }
        handled.reply
    }

    fn notify(&self, notice: LinkNotice) {
        if self.settings.borrow().station.is_some() {
            self.send(&Command::Notice(notice.clone()));
        }
        let addresses = notice.addresses;
        tracing::info!(?addresses, epoch = notice.epoch, event = ?notice.event, "signal");
        if !notice.removed.is_empty() {
            self.send(&Command::Forget(notice.removed));
        }
        self.send(&Command::Link {
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

    /// Adds an outage that a worker has reported as ended.
    fn on_outage(&self, mut outage: EndedOutage) {
        let mut name = None;
        if let Some(address) = outage.mobile {
            // An outage of a mobile with several addresses is listed once.
            outage.mobile = self.all_addresses(address).into_iter().min();
            let peers = self.peers.borrow();
            let key = peers.owner(address);
            let owner = peers
                .iter()
                .find(|(config, _)| Some(config.key.id()) == key);
            name = owner.map(|(config, _)| config.name.clone());
        }
        let now = now();
        self.outages.borrow_mut().add(outage, name, now);
    }

    /// Waits until the outage list has something due, and does it.
    async fn outages_are_due(&self) {
        let due = self.outages.borrow().next_timeout();
        tokio::time::sleep(due.saturating_since(now())).await;
        self.outages.borrow_mut().handle_timeout(now());
    }

    /// Answers one caller of the control socket.
    async fn answer(self: Rc<Self>, call: Call) {
        let reply = match self.callers.try_acquire() {
            Ok(_permit) => self.reply(&call.request).await,
            Err(_) => refusal("too many callers at the same time; ask again"),
        };
        // A reply without a reader takes memory: only this many callers may read slowly.
        let permit = self.slow_readers.try_acquire();
        let wait = if permit.is_ok() {
            CALLER_WAIT
        } else {
            CROWDED_WAIT
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
                if self.send(&Command::Link {
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

    /// All addresses of the mobile that has registered `address`; otherwise only `address`.
    fn all_addresses(&self, address: std::net::IpAddr) -> Vec<std::net::IpAddr> {
        let peers = self.peers.borrow();
        peers
            .owner(address)
            .and_then(|key| peers.view(key))
            .map_or_else(|| vec![address], |view| view.addresses.clone())
    }
}

/// The next datagram. Without a socket it waits for ever.
async fn receive(
    socket: Option<&UdpSocket>,
    buffer: &mut [u8],
) -> io::Result<(usize, Correspondent)> {
    match socket {
        Some(socket) => {
            let receive = || replies::receive(socket, buffer);
            socket.async_io(Interest::READABLE, receive).await
        }
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
