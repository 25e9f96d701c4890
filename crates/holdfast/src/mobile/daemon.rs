// SPDX-License-Identifier: Apache-2.0
//! The mobile's daemon: one thread between the sources of the link, the gateway and the
//! control socket.

use std::future::pending;
use std::io;
use std::time::{Duration, Instant as WallInstant};

use anyhow::Context as _;
use holdfast_core::signal::{
    Abilities, DATAGRAM_BYTES_MAX, MobileEvent, MobileKey, MobileSession, MobileTimers,
};
use holdfast_core::{LinkEvent, LinkSource, LinkState};
use holdfast_net::datapath::now;
use holdfast_net::monitor::InterfaceState;
use holdfast_wire::Instant;
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Receiver;

use super::cells::{Cells, find_gateway};
use super::congestion::HandoffTimes;
use super::host::Host;
use super::sources::Sources;
use super::uplink::Uplink;
use crate::control::{CONTROL_SOCKET_FLAG, Callers, ControlListener};
use crate::counters::CountersByName;
use crate::interface::{self, NamedInterface};
use crate::outages::{EndedOutage, OutageList, QUEUED_MAX};
use crate::runtime::{DaemonKind, InterfaceLock, random_bytes};
use crate::settings::{MobileDaemonArgs, MobileSettings};
use crate::{broker, log, metrics, service, web};

mod cell;
mod link;
mod outages;
mod reload;
mod requests;

use link::Link;
pub(super) use requests::DaemonCounters;

/// Runs the daemon until SIGTERM, SIGINT or SIGQUIT. The metrics show `counters`.
pub(super) fn run(args: MobileDaemonArgs, counters: CountersByName) -> anyhow::Result<()> {
    let settings = args.settings()?;
    log::set_filter(settings.log_filter.as_deref());
    for cell in &settings.cells {
        interface::check_name(&cell.interface)?;
    }
    let _lock = InterfaceLock::take(DaemonKind::Mobile, &settings.interface)?;
    // Registered before the broker starts and this process loses its capabilities.
    let congestion = HandoffTimes::open(&settings);
    broker::start(DaemonKind::Mobile, [&settings.interface], false)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(Daemon::open(args, settings, congestion)?.run(counters));
    // Does not wait for a resolver that waits for its servers.
    runtime.shutdown_background();
    ended
}

struct Daemon {
    args: MobileDaemonArgs,
    settings: MobileSettings,
    started: WallInstant,
    session: MobileSession,
    /// The interface whose addresses are registered.
    interface: NamedInterface,
    cells: Cells,
    /// The reports of the link sources.
    link: Link,
    /// Serves the flows, if there is a scheme.
    host: Option<Host>,
    /// Serves what the mobile sends in an outage, if the settings want it.
    uplink: Option<Uplink>,
    /// The congestion control for what the mobile sends, if the settings name one.
    congestion: Option<HandoffTimes>,
    handovers: u64,
    send_errors: u64,
    outages: OutageList,
    /// The workers' reports about outages.
    ended_outages: Receiver<EndedOutage>,
    /// Why the newest reload failed, if it did.
    reload_problem: Option<String>,
}

impl Daemon {
    fn open(
        args: MobileDaemonArgs,
        settings: MobileSettings,
        congestion: Option<HandoffTimes>,
    ) -> anyhow::Result<Self> {
        let incarnation = random_bytes()?;
        let timers = MobileTimers {
            keepalive: settings.keepalive,
            ..MobileTimers::default()
        };
        // Without a gateway the session sends nothing, and keeps the link's state.
        let key = match &settings.key {
            Some(key) => key.clone(),
            None => MobileKey::from_random(random_bytes()?),
        };
        let host = settings.host.map(|host| {
            let decompresses = settings.decompress && settings.key.is_some();
            // A daemon with signals runs even if it cannot follow the flows.
            let may_wait = settings.key.is_some();
            let (interface, flows_max) = (&settings.interface, settings.flows_max);
            Host::open(interface, host, flows_max, decompresses, may_wait)
                .with_context(|| format!("interface {}", settings.interface))
        });
        let (outage, ended_outages) = tokio::sync::mpsc::channel(QUEUED_MAX);
        let uplink = settings.uplink.map(|uplink| {
            let flows_max = settings.flows_max;
            Uplink::open(&settings.interface, uplink, flows_max, outage)
        });
        let session = MobileSession::new(key, incarnation, &[], timers, Instant::ZERO);
        Ok(Self {
            started: WallInstant::now(),
            session,
            interface: NamedInterface::new(&settings.interface),
            cells: Cells::new(&settings.cells, interface::exists),
            link: Link::default(),
            host: host.transpose()?,
            uplink: uplink.transpose()?,
            congestion,
            handovers: 0,
            send_errors: 0,
            outages: OutageList::new(false, now()),
            ended_outages,
            reload_problem: None,
            args,
            settings,
        })
    }

    async fn run(mut self, counters: CountersByName) -> anyhow::Result<()> {
        let control_socket = &self.settings.control_socket;
        let listener = ControlListener::bind(control_socket, CONTROL_SOCKET_FLAG)?;
        let _metrics = metrics::serve(&self.settings.metrics, control_socket, counters)?;
        let _page = web::serve(&self.settings.web, control_socket)?;
        let mut callers = Callers::of(listener.try_clone()?)?;
        let mut sources = Sources::start(&self.settings);
        self.link.note_started(sources.kinds());
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX + 1];
        let (found, mut resolved) = tokio::sync::mpsc::channel(1);
        for (number, cell) in self.settings.cells.iter().enumerate() {
            if let Some(gateway) = cell.gateway.clone() {
                tokio::spawn(find_gateway(number, gateway, found.clone()));
            }
            let key = self.settings.key.as_ref().map(|key| key.id().to_string());
            tracing::info!(
                interface = cell.interface,
                gateway = cell.gateway,
                key,
                "watching"
            );
        }
        drop(found);
        let mut pulse = service::pulse();
        service::ready(&self.service_status());
        loop {
            if let Some(host) = &mut self.host {
                host.handle_timeout();
            }
            self.handle_link_timeout();
            self.handle_outages();
            self.announce_abilities();
            self.transmit();
            let timeout = self.timeout();
            tokio::select! {
                Some(report) = sources.next() => self.handle_report(report),
                received = receive(self.cells.present().socket.as_ref(), &mut datagram) => match received {
                    Ok(length) => self.handle_datagram(&datagram[..length]),
                    Err(error) => tracing::debug!(%error, "signal socket"),
                },
                call = callers.next() => {
                    let reply = self.obey(&call.request).await;
                    callers.answer(call, reply);
                }
                () = paused(self.host.as_ref()) => {
                    if let Some(host) = &mut self.host {
                        host.handle_pauses();
                    }
                }
                error = ended(self.uplink.as_mut()) => return Err(error),
                Some(outage) = self.ended_outages.recv() => self.note_outage(outage),
                Some((cell, gateway)) = resolved.recv() => self.use_gateway(cell, gateway),
                () = sleep(timeout) => {}
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = quit.recv() => break,
                _ = pulse.tick() => {
                    if broker::is_lost() {
                        break;
                    }
                    self.look();
                }
                _ = hangup.recv() => self.reload(),
            }
        }
        service::stopping();
        tracing::info!("leaving");
        self.release();
        sources.leave().await;
        broker::check()
    }

    /// Releases flows and uplink, and logs the last outages.
    fn release(&mut self) {
        if let Some(host) = &mut self.host {
            host.release();
        }
        if let Some(uplink) = &mut self.uplink {
            uplink.release();
        }
        self.finish_outages();
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.started.elapsed()
    }

    /// The time until something is due.
    fn timeout(&self) -> Option<Duration> {
        let host = self.host.as_ref().and_then(Host::timeout);
        let link = self.link.timeout(self.now());
        [
            self.signal_timeout(),
            host,
            link,
            Some(self.outages_timeout()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The time until a signal is due; none while gateway or carrier are unknown.
    fn signal_timeout(&self) -> Option<Duration> {
        let cell = self.cells.present();
        cell.socket.as_ref()?;
        cell.carrier?;
        Some(self.session.poll_timeout().saturating_since(self.now()))
    }

    /// Announces decompression while it works: the gateway compresses only then.
    fn announce_abilities(&mut self) {
        // In a cell on another interface nothing is decompressed.
        let here = |host: &Host| host.interface() == self.cells.present().interface;
        let can = |host: &Host| host.can_decompress() && here(host);
        let abilities = if self.host.as_ref().is_some_and(can) {
            Abilities::DEFLATE.with(Abilities::ZSTD)
        } else {
            Abilities::NONE
        };
        self.session.set_abilities(abilities, self.now());
    }

    /// Reports an event of the link to all parts that serve flows.
    fn notify_host(&mut self, event: LinkEvent) {
        self.notify_uplink(event);
        if let Some(congestion) = &self.congestion {
            congestion.handle_link(event, &self.cells.present().interface);
        }
        if let Some(host) = &mut self.host {
            host.handle_link(event);
        }
    }

    /// Reports an event of the link to the uplink.
    fn notify_uplink(&self, event: LinkEvent) {
        // A cell on another interface does not concern the packets on this one.
        let is_here = self.cells.present().interface == self.settings.interface;
        if let Some(uplink) = self.uplink.as_ref().filter(|_| is_here) {
            uplink.handle_link(event);
        }
    }

    /// Sends all signals that are due.
    fn transmit(&mut self) {
        let cell = self.cells.present();
        let (Some(socket), Some(gateway), Some(_)) = (&cell.socket, cell.gateway, cell.carrier)
        else {
            return;
        };
        loop {
            let nonce = match random_bytes() {
                Ok(nonce) => nonce,
                Err(error) => {
                    tracing::error!(%error, "nothing can be sealed");
                    return;
                }
            };
            let Some(datagram) = self.session.poll_transmit(self.now(), &nonce) else {
                return;
            };
            // A signal that cannot be sent now is lost, and repeated later.
            if let Err(error) = socket.try_send_to(&datagram, gateway) {
                self.send_errors += 1;
                tracing::debug!(%error, %gateway, "not sent");
            }
        }
    }

    fn handle_interface(&mut self, state: &InterfaceState) {
        let carrier = state.carrier && !state.removed;
        if let Some(congestion) = &mut self.congestion {
            congestion.note_interface(state);
        }
        let is_ours = state.name == self.settings.interface;
        let is_about = self.interface.is_about(state);
        if is_ours && !is_about {
            // The report is about an interface that had the name before.
            return;
        }
        let before = self.interface.id;
        if is_about {
            self.interface.follow(state);
        }
        if is_about && !is_ours {
            // The interface has another name now.
            let interface = self.settings.interface.clone();
            self.note_carrier(&interface, false);
        }
        let id = self.interface.id;
        if id != before {
            // The same order as at the start: it puts the uplink's programs before the host's.
            if let Some(host) = &mut self.host {
                host.note_interface(id);
            }
            self.note_uplink();
            service::status(&self.service_status());
        }
        if let Some(uplink) = &self.uplink
            && is_ours
            && state.mtu > 0
        {
            uplink.note_mtu(state.mtu);
        }
        let name = state.name.clone();
        self.note_carrier(&name, carrier);
    }

    /// Attaches the uplink to the interface, if that exists and is not attached yet.
    fn note_uplink(&mut self) {
        let id = self.interface.id;
        if let Some(uplink) = &mut self.uplink
            && let Err(error) = uplink.note_interface(id)
        {
            tracing::warn!("{error:#}; what is sent through it passes by, and is tried again");
        }
    }

    /// Handles the carrier of an interface. In the present cell a change is reported to the gateway.
    fn note_carrier(&mut self, interface: &str, carrier: bool) {
        let before = (self.cells.number(), self.cells.present().carrier);
        self.cells.note_carrier(interface, carrier);
        self.look_where_it_is();
        let after = (self.cells.number(), self.cells.present().carrier);
        let (Some(carrier), true) = (after.1, after.0 == before.0 && after.1 != before.1) else {
            return;
        };
        tracing::info!(interface, carrier, "link");
        self.read_addresses();
        let now = self.now();
        match (before.1, carrier) {
            (_, false) => self.handle_event(LinkSource::Carrier, LinkEvent::Down),
            (Some(_), true) => self.handle_event(LinkSource::Carrier, LinkEvent::Up),
            // At the start the registration reports link up. The uplink may have begun without a carrier.
            (None, true) => {
                self.session.register(now);
                if self.session.state() != LinkState::Down {
                    self.notify_uplink(LinkEvent::Up);
                }
            }
        }
    }

    fn handle_datagram(&mut self, datagram: &[u8]) {
        match self.session.handle_datagram(datagram, self.now()) {
            Ok(MobileEvent::Acknowledged) => {
                let (epoch, state) = (self.session.epoch(), self.session.state());
                tracing::debug!(epoch, ?state, "acknowledged");
            }
            Ok(MobileEvent::Challenged) => tracing::debug!("challenged"),
            Ok(MobileEvent::Refused(reason)) => {
                let addresses = self.session.addresses();
                tracing::warn!(
                    ?reason,
                    ?addresses,
                    "the gateway refuses; see `addresses` of this [[mobile]] in its settings"
                );
            }
            Err(rejection) => tracing::debug!(?rejection, "datagram"),
        }
    }
}

/// The next datagram. Without a socket it waits for ever.
async fn receive(socket: Option<&UdpSocket>, datagram: &mut [u8]) -> io::Result<usize> {
    match socket {
        Some(socket) => socket.recv(datagram).await,
        None => pending().await,
    }
}

/// Waits for the end of the uplink's worker, which is always an error.
async fn ended(uplink: Option<&mut Uplink>) -> anyhow::Error {
    match uplink {
        Some(uplink) => uplink.ended().await,
        None => pending().await,
    }
}

/// Waits until flows of the host pause.
async fn paused(host: Option<&Host>) {
    match host {
        Some(host) => host.paused().await,
        None => pending().await,
    }
}

/// Sleeps for this time; without one, for ever.
async fn sleep(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => pending().await,
    }
}
