// SPDX-License-Identifier: Apache-2.0
//! The mobile's daemon: one thread between netlink, the gateway and the control socket.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant as WallInstant};

use anyhow::Context as _;
use holdfast_core::signal::{
    DATAGRAM_BYTES_MAX, LinkState, MobileEvent, MobileSession, MobileTimers,
};
use holdfast_net::monitor::{LinkEvent as InterfaceEvent, LinkMonitor};
use holdfast_wire::Instant;
use tokio::io::unix::AsyncFd;
use tokio::net::{UdpSocket, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

use super::addresses::{self, AddressMonitor};
use crate::control::{
    ControlListener, ControlReply, ControlRequest, LinkEvent, answer_line, request_line,
};
use crate::log;
use crate::settings::{LogFormat, MobileSettings, resolve};
use crate::status::{LinkView, MobileSessionStatus};

/// Time between two tries to find the gateway's address by its name.
const RESOLVE_AGAIN: Duration = Duration::from_secs(5);

/// Runs the daemon until SIGTERM or SIGINT.
pub(super) fn run(settings: MobileSettings, format: LogFormat) -> anyhow::Result<()> {
    log::start(format);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(Daemon::open(settings)?.run())
}

/// A netlink socket as tokio waits for it.
struct MonitorFd(LinkMonitor);

impl AsRawFd for MonitorFd {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for MonitorFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

struct Daemon {
    settings: MobileSettings,
    started: WallInstant,
    session: MobileSession,
    /// The interface, while there is one.
    ifindex: Option<u32>,
    /// Its carrier, as last seen; `None` before it was seen.
    carrier: Option<bool>,
    gateway: Option<SocketAddr>,
    socket: Option<UdpSocket>,
    send_errors: u64,
}

impl Daemon {
    fn open(settings: MobileSettings) -> anyhow::Result<Self> {
        let incarnation = super::random_bytes()?;
        let timers = MobileTimers {
            keepalive: settings.keepalive,
            ..MobileTimers::default()
        };
        let session = MobileSession::new(
            settings.key.clone(),
            incarnation,
            &[],
            timers,
            Instant::ZERO,
        );
        Ok(Self {
            started: WallInstant::now(),
            session,
            ifindex: None,
            carrier: None,
            gateway: None,
            socket: None,
            send_errors: 0,
            settings,
        })
    }

    #[expect(
        deprecated,
        reason = "its replacement is unsafe; these descriptors never change"
    )]
    async fn run(mut self) -> anyhow::Result<()> {
        let listener = ControlListener::bind(&self.settings.control_socket)?;
        let accept = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
        let mut links = AsyncFd::new(MonitorFd(LinkMonitor::open().context("netlink: links")?))?;
        let changes = AsyncFd::new(AddressMonitor::open().context("netlink: addresses")?)?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX + 1];
        let (found, mut resolved) = tokio::sync::mpsc::channel(1);
        tokio::spawn(find_gateway(self.settings.gateway.clone(), found));
        tracing::info!(
            interface = self.settings.interface,
            gateway = self.settings.gateway,
            key = %self.settings.key.id(),
            "watching"
        );
        loop {
            self.transmit();
            let timeout = self.timeout();
            tokio::select! {
                ready = links.readable_mut() => {
                    let mut ready = ready?;
                    while let Some(event) = ready.get_inner_mut().0.poll_event()? {
                        self.handle_interface(&event);
                    }
                    ready.clear_ready();
                }
                ready = changes.readable() => {
                    let mut ready = ready?;
                    ready.get_inner().drain()?;
                    ready.clear_ready();
                    self.read_addresses();
                }
                received = receive(self.socket.as_ref(), &mut datagram) => match received {
                    Ok(length) => self.handle_datagram(&datagram[..length]),
                    Err(error) => tracing::debug!(%error, "signal socket"),
                },
                accepted = accept.accept() => match accepted {
                    Ok((stream, _)) => self.answer(stream).await,
                    Err(error) => tracing::warn!(%error, "control socket"),
                },
                Some(gateway) = resolved.recv() => self.use_gateway(gateway).await?,
                () = sleep(timeout) => {}
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        tracing::info!("leaving");
        Ok(())
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.started.elapsed()
    }

    /// When something is due; never before it is known where to send it, and what.
    fn timeout(&self) -> Option<Duration> {
        self.socket.as_ref()?;
        self.carrier?;
        Some(self.session.poll_timeout().saturating_since(self.now()))
    }

    /// Sends all that is due.
    fn transmit(&mut self) {
        let (Some(socket), Some(gateway), Some(_)) = (&self.socket, self.gateway, self.carrier)
        else {
            return;
        };
        loop {
            let nonce = match super::random_bytes() {
                Ok(nonce) => nonce,
                Err(error) => {
                    tracing::error!(%error, "nothing can be sealed");
                    return;
                }
            };
            let Some(datagram) = self.session.poll_transmit(self.now(), &nonce) else {
                return;
            };
            // Lost like any datagram if it cannot be sent now: it is repeated.
            if let Err(error) = socket.try_send_to(&datagram, gateway) {
                self.send_errors += 1;
                tracing::debug!(%error, %gateway, "not sent");
            }
        }
    }

    fn handle_interface(&mut self, event: &InterfaceEvent) {
        let InterfaceEvent::State(state) = event else {
            return;
        };
        if state.name != self.settings.interface && Some(state.ifindex) != self.ifindex {
            return;
        }
        let gone = state.removed || state.name != self.settings.interface;
        let carrier = state.carrier && !gone;
        self.ifindex = (!gone).then_some(state.ifindex);
        let before = self.carrier.replace(carrier);
        if before == Some(carrier) {
            return;
        }
        tracing::info!(interface = self.settings.interface, carrier, "link");
        self.read_addresses();
        let now = self.now();
        match (before, carrier) {
            (_, false) => self.session.link_down(now),
            (Some(_), true) => self.session.link_up(now),
            // At the start: the registration says it.
            (None, true) => self.session.register(now),
        }
    }

    fn read_addresses(&mut self) {
        let Some(ifindex) = self.ifindex else { return };
        match addresses::of_interface(ifindex) {
            // A link that went takes IPv6 addresses along, which are as good as before
            // when it is back: they stay registered.
            Ok(found) if found.is_empty() || self.carrier == Some(false) => {}
            Ok(found) => self.session.set_addresses(&found, self.now()),
            Err(error) => tracing::warn!(%error, "the interface's addresses cannot be read"),
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

    /// The gateway's address is known.
    async fn use_gateway(&mut self, gateway: SocketAddr) -> anyhow::Result<()> {
        let any = if gateway.is_ipv6() {
            "[::]:0"
        } else {
            "0.0.0.0:0"
        };
        self.socket = Some(UdpSocket::bind(any).await.context("signal socket")?);
        self.gateway = Some(gateway);
        tracing::info!(%gateway, "gateway");
        Ok(())
    }

    /// Answers a caller of the control socket. One at a time, each within its limits.
    async fn answer(&mut self, stream: UnixStream) {
        let mut stream = stream;
        let reply = match request_line(&mut stream).await {
            Ok(request) => self.obey(&request),
            Err(reply) => reply,
        };
        answer_line(&mut stream, &reply).await;
    }

    fn obey(&mut self, request: &ControlRequest) -> ControlReply {
        let now = self.now();
        match request {
            ControlRequest::Status { .. } => ControlReply::Mobile(Box::new(self.status())),
            ControlRequest::Signal { event, lead_ms } => {
                match event {
                    LinkEvent::Up => self.session.link_up(now),
                    LinkEvent::Down => self.session.link_down(now),
                    LinkEvent::GoingDownSoon => self.session.going_down_soon(*lead_ms, now),
                }
                tracing::info!(?event, "told on the control socket");
                ControlReply::Done
            }
            ControlRequest::Link { .. } => ControlReply::Error {
                message: "this is a mobile's daemon; a gateway's takes that".into(),
            },
        }
    }

    fn status(&self) -> MobileSessionStatus {
        let counters = self.session.counters();
        let mut by_name = BTreeMap::from([
            ("sent".to_owned(), counters.sent),
            ("repeated".to_owned(), counters.repeated),
            ("acknowledged".to_owned(), counters.acknowledged),
            ("challenged".to_owned(), counters.challenged),
            ("refused".to_owned(), counters.refused),
            ("send-errors".to_owned(), self.send_errors),
        ]);
        let rejections = counters.rejections.iter();
        by_name.extend(
            rejections.map(|(rejection, count)| (format!("rejected.{}", rejection.name()), count)),
        );
        MobileSessionStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            interface: self.settings.interface.clone(),
            gateway: self.gateway,
            link: match (self.carrier, self.session.state()) {
                (None, _) => LinkView::Unknown,
                (_, LinkState::Up) => LinkView::Up,
                (_, LinkState::GoingDownSoon) => LinkView::GoingDownSoon,
                (_, LinkState::Down) => LinkView::Down,
            },
            epoch: self.session.epoch(),
            acknowledged: self.session.is_acknowledged(),
            refused: self.session.refusal().map(|reason| format!("{reason:?}")),
            addresses: self.session.addresses().to_vec(),
            counters: by_name,
        }
    }
}

/// The next datagram, or never without a socket.
async fn receive(socket: Option<&UdpSocket>, datagram: &mut [u8]) -> io::Result<usize> {
    match socket {
        Some(socket) => socket.recv(datagram).await,
        None => pending().await,
    }
}

/// Sleeps, or for ever.
async fn sleep(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => pending().await,
    }
}

/// Finds the gateway's address, however long its name cannot be resolved.
async fn find_gateway(gateway: String, found: tokio::sync::mpsc::Sender<SocketAddr>) {
    loop {
        let name = gateway.clone();
        match tokio::task::spawn_blocking(move || resolve(&name)).await {
            Ok(Ok(address)) => {
                // The daemon that no longer listens is leaving.
                let _ = found.send(address).await;
                return;
            }
            Ok(Err(error)) => {
                tracing::warn!(gateway, %error, "the gateway is not found; trying again");
            }
            Err(error) => tracing::error!(%error, "resolver"),
        }
        tokio::time::sleep(RESOLVE_AGAIN).await;
    }
}
