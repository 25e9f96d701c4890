// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile --check`.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant as WallInstant};

use holdfast_core::mobile_host::MobileScheme;
use holdfast_core::signal::{
    DATAGRAM_BYTES_MAX, MobileEvent, MobileKey, MobileSession, MobileTimers,
};
use holdfast_net::addresses;
use holdfast_net::datapath::{AttachMode, DataPath, PathOptions, Taking};
use holdfast_net::keep_path::{KeepPath, Peers, Protocols};
use holdfast_net::mobile_path::MobilePath;
use holdfast_net::nl80211::WifiMonitor;
use holdfast_wire::Instant;

use super::sources::find_modem;
use crate::check::interface::Subject;
use crate::check::{Finding, check_data_path, interface, offload};
use crate::runtime::{DaemonKind, InterfaceLock, random_bytes};
use crate::settings::{Cell, MobileSettings, resolve};

/// How long the gateway may take to answer, with the repetitions of a lost datagram.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// Runs all checks.
pub(crate) fn run(settings: &MobileSettings) -> Vec<Finding> {
    let name = &settings.interface;
    let attaches = settings.uplink.is_some() || settings.host.is_some();
    let subject = match Subject::find(name) {
        Ok(subject) => Some(subject),
        // `lo` may have the address that the mobile has in all cells.
        Err(error) if error.kind() == io::ErrorKind::Unsupported && !attaches => None,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            return vec![Finding::problem(error.to_string(), "see: ip link")];
        }
        Err(error) => {
            return vec![Finding::note(
                error.to_string(),
                "the daemon waits for it; if the name is wrong, see: ip link",
            )];
        }
    };
    let is_running = InterfaceLock::is_held(DaemonKind::Mobile, name);
    let mut findings = Vec::new();
    if let Some(subject) = &subject {
        findings.extend(interface::check(subject, DaemonKind::Mobile, is_running));
        findings.extend(offload::check(subject));
    } else {
        findings.push(Finding::fine(format!("no scheme attaches to {name}")));
    }
    let other_cells = settings.cells.iter().map(|cell| &cell.interface);
    let other_cells = other_cells.filter(|interface| *interface != name);
    findings.extend(other_cells.filter_map(|interface| interface::check_name(interface)));
    findings.extend(check_sources(settings));
    let is_up = |subject: &Subject| subject.link.up && subject.link.carrier;
    if subject.as_ref().is_none_or(is_up) && !is_running {
        let cells = settings.cells.iter();
        findings.extend(cells.filter_map(|cell| check_gateway(cell, settings.key.as_ref()?)));
    }
    // Without TCX the check would replace the running daemon's programs, and then remove its own.
    if !is_running && attaches {
        findings.push(check_data_path(name, attach(settings)));
    }
    findings
}

/// Attaches for a moment. True if the programs detach by themselves when the daemon dies.
fn attach(settings: &MobileSettings) -> io::Result<bool> {
    let (name, mode) = (&settings.interface, AttachMode::Auto);
    let mut detaches = true;
    if let Some(uplink) = &settings.uplink {
        let mut protocols = Protocols::All;
        if uplink.engine {
            let taking = Taking::InOutages;
            let options = PathOptions {
                taking,
                ..PathOptions::default()
            };
            detaches &= DataPath::attach_with(name, options)?.detaches_on_death();
            protocols = Protocols::AllButTcp;
        }
        let taken = (Peers::WholeLink, protocols);
        detaches &= KeepPath::attach(name, mode, taken, 0)?.detaches_on_death();
    }
    if let Some(host) = &settings.host {
        let path = match host.scheme {
            MobileScheme::Wake => MobilePath::attach_withholding(name, mode, settings.flows_max)?.0,
            _ => MobilePath::attach(name, mode, settings.flows_max)?,
        };
        detaches &= path.detaches_on_death();
    }
    Ok(detaches)
}

/// Checks the sources that the settings name, except the carrier.
fn check_sources(settings: &MobileSettings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fails = |problem: String, remedy: &str| {
        findings.push(Finding::problem(problem, remedy));
    };
    if settings.sources.wifi
        && let Err(error) = WifiMonitor::open(&settings.interface)
    {
        fails(
            format!("sources.wifi: {error}: it would report nothing"),
            "remove `wifi` from [sources], or correct mobile.interface",
        );
    }
    if let Some(script) = &settings.sources.script {
        let is_program =
            |found: std::fs::Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
        if !script.metadata().is_ok_and(is_program) {
            let shown = script.display();
            fails(
                format!("sources.script: {shown} is no executable file: it would report nothing"),
                "chmod +x, or name another in [sources]",
            );
        }
    }
    if let Some(modem) = &settings.sources.modem
        && let Err(error) = find_modem(&settings.interface, modem.clone())
    {
        fails(
            format!("{error:#}: it would report nothing"),
            "start ModemManager, or correct `modem` in [sources]",
        );
    }
    findings
}

/// Whether the gateway answers a signal. The gateway answers a first message by a challenge, and
/// changes nothing: no further message follows.
fn check_gateway(cell: &Cell, key: &MobileKey) -> Option<Finding> {
    let gateway = cell.gateway.as_ref()?;
    let interface = &cell.interface;
    let address = match resolve(gateway) {
        Ok(addresses) => addresses[0],
        Err(error) => {
            return Some(Finding::problem(
                format!("the gateway {gateway} is not found: {error}; no signal is sent"),
                "correct mobile.gateway, or the name service",
            ));
        }
    };
    Some(match challenged(address, key) {
        Ok((own, true)) if !is_address_of(own, interface) => Finding::note(
            format!("signals to {address} leave from {own}, which is no address of {interface}"),
            format!(
                "in an outage of {interface} they take another link, which is good, if that is meant"
            ),
        ),
        Ok((_, true)) => Finding::fine(format!("the gateway {address} answers signals")),
        Ok((own, false)) => Finding::problem(
            format!("the gateway {address} does not answer a signal from {own}"),
            "see on the gateway: holdfast gateway --config /etc/holdfast/holdfast.toml --check (firewall), \
             and its [[mobile]] with this key",
        ),
        Err(error) => Finding::problem(
            format!("no signal can be sent to {address}: {error}"),
            format!("see: ip route get {}", address.ip()),
        ),
    })
}

fn is_address_of(own: std::net::IpAddr, interface: &str) -> bool {
    let ifindex = holdfast_net::tun::query_ifindex(interface);
    let found = ifindex.and_then(addresses::of_interface);
    found.is_ok_and(|found| found.contains(&own))
}

/// The local address toward the gateway, and whether the gateway answers.
fn challenged(gateway: SocketAddr, key: &MobileKey) -> io::Result<(std::net::IpAddr, bool)> {
    let any = if gateway.is_ipv6() {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(gateway)?;
    let own = socket.local_addr()?.ip();
    let started = WallInstant::now();
    let now = || Instant::ZERO + started.elapsed();
    let incarnation = random_bytes().map_err(io::Error::other)?;
    let timers = MobileTimers::default();
    let mut session = MobileSession::new(key.clone(), incarnation, &[], timers, now());
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX + 1];
    while started.elapsed() < ANSWERS_WITHIN {
        let nonce = random_bytes().map_err(io::Error::other)?;
        if let Some(message) = session.poll_transmit(now(), &nonce) {
            // A port without a listener refuses the message: it is repeated.
            let _ = socket.send(&message);
        }
        let wait = session.poll_timeout().saturating_since(now());
        socket.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        let Ok(length) = socket.recv(&mut datagram) else {
            continue;
        };
        let answer = session.handle_datagram(&datagram[..length], now());
        if matches!(
            answer,
            Ok(MobileEvent::Challenged | MobileEvent::Acknowledged)
        ) {
            return Ok((own, true));
        }
    }
    Ok((own, false))
}
