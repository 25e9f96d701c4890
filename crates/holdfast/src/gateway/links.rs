// SPDX-License-Identifier: Apache-2.0
//! A wireless interface of the gateway, with its packet workers. It may be removed, and come again.

use anyhow::bail;
use holdfast_core::{LinkEvent, LinkSource};
use holdfast_net::datapath::{Interface, has_carrier};
use holdfast_net::monitor::InterfaceState;

use super::Starter;
use crate::command::Command;
use crate::interface::NamedInterface;
use crate::workers::Workers;

const NO_ANSWER: &str = "the packet worker does not answer";

/// What the daemon does at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkService {
    /// It takes packets.
    Taken,
    /// It tries to attach: the last try has failed.
    PassedBy,
    /// It waits: there is no such interface.
    Awaited,
}

/// What the service manager and the status show of interfaces.
pub(super) fn shown(links: &[(&str, LinkService)], scheme: &str) -> Vec<String> {
    let named = |serving| {
        let of_kind = links.iter().filter(|(_, other)| *other == serving);
        let names: Vec<_> = of_kind.map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let served = named(LinkService::Taken).map(|names| format!("serves {names}, scheme {scheme}"));
    let passed_by = named(LinkService::PassedBy)
        .map(|names| format!("cannot attach to {names}, and packets pass by"));
    let awaited =
        named(LinkService::Awaited).map(|names| format!("waits for the interface {names}"));
    [served, passed_by, awaited].into_iter().flatten().collect()
}

/// One wireless interface.
pub(super) struct WirelessLink {
    pub(super) interface: NamedInterface,
    pub(super) workers: Workers,
    /// Its carrier, as last reported by the kernel.
    carrier: bool,
    /// Carrier and MTU as last reported to the workers.
    reported: Option<(bool, u32)>,
    /// Whether the interface is a port of a bridge, as last reported by the kernel.
    is_bridge_port: bool,
    starter: Starter,
}

impl WirelessLink {
    fn new(name: &str, starter: Starter) -> Self {
        Self {
            interface: NamedInterface::new(name),
            workers: Workers::default(),
            carrier: false,
            reported: None,
            is_bridge_port: false,
            starter,
        }
    }

    /// Attaches to the interface. If it does not exist yet, it is attached when it appears.
    ///
    /// Errors: the packets of the interface cannot be taken, or the settings are wrong.
    pub(super) fn open(name: &str, starter: Starter) -> anyhow::Result<Self> {
        let mut link = Self::new(name, starter);
        match Interface::query(name) {
            Ok(found) => {
                link.interface.id = Some(found.id());
                link.attach()?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                return Err(error.into());
            }
            Err(error) => {
                // An unusable state file is reported at once, even without the interface.
                link.starter.open_records()?;
                tracing::warn!("{error}; the gateway waits for this interface; see: ip link");
            }
        }
        Ok(link)
    }

    fn attach(&mut self) -> anyhow::Result<()> {
        let starter = &self.starter;
        let start = |running: &mut _| starter.start(running);
        let is_first = self.workers.running().is_empty();
        self.workers.note_interface(self.interface.id, start)?;
        if is_first {
            // New workers have received no report, and assume a carrier.
            self.reported = None;
        }
        Ok(())
    }

    fn try_to_attach(&mut self) {
        if let Err(error) = self.attach() {
            let name = &self.interface.name;
            tracing::warn!("{name}: {error:#}; its packets pass by, and the gateway tries again");
        }
    }

    /// Tries to attach to the interface again, if an attempt has failed.
    ///
    /// Errors: a worker hangs.
    pub(super) fn look_again(&mut self) -> anyhow::Result<()> {
        if self.interface.id.is_none() || self.workers.is_attached() {
            return Ok(());
        }
        self.try_to_attach();
        self.order(&Command::BridgePort(self.is_bridge_port))?;
        self.report(self.has_carrier(), 0)
    }

    /// Handles a report about an interface.
    ///
    /// Errors: a worker hangs.
    pub(super) fn handle_interface(&mut self, state: &InterfaceState) -> anyhow::Result<()> {
        if !self.interface.is_about(state) {
            return Ok(());
        }
        let before = self.interface.id;
        self.interface.follow(state);
        let name = &self.interface.name;
        match self.interface.id {
            None if before.is_some() => tracing::warn!(
                "interface {name} was removed; the gateway waits for it, and its flows stay"
            ),
            Some(_) if before.is_none() => tracing::info!("interface {name} is there"),
            id if id != before => {
                tracing::info!("interface {name} has other frames, or is another one");
            }
            _ => {}
        }
        if self.interface.id != before {
            self.try_to_attach();
        }
        self.is_bridge_port = state.is_bridge_port;
        self.order(&Command::BridgePort(self.is_bridge_port))?;
        self.carrier = state.carrier;
        self.report(self.has_carrier(), state.mtu)
    }

    /// Whether the workers have a carrier.
    fn has_carrier(&self) -> bool {
        // The kernel's report may be a second late. For PPP and tunnels there is only the report.
        let carrier = || has_carrier(&self.interface.name).unwrap_or(self.carrier);
        self.workers.is_attached() && carrier()
    }

    /// The removed state of the interface, if it was removed and the kernel's report was lost.
    pub(super) fn removed_unreported(&self) -> Option<InterfaceState> {
        InterfaceState::removed_unreported(self.interface.ifindex()?, &self.interface.name)
    }

    /// Reports carrier and MTU to the workers, if they have changed.
    fn report(&mut self, carrier: bool, mtu: u32) -> anyhow::Result<()> {
        let before = self.reported.replace((carrier, mtu));
        let interface = &self.interface.name;
        if before.map(|(carrier, _)| carrier) != Some(carrier) {
            tracing::info!(interface, carrier, "wireless interface");
            // New workers assume a carrier.
            if before.is_some() || !carrier {
                let event = if carrier {
                    LinkEvent::Up
                } else {
                    LinkEvent::Down
                };
                let source = LinkSource::Carrier;
                self.order(&Command::AllLinks { event, source })?;
            }
        }
        if mtu > 0 && before.map(|(_, mtu)| mtu) != Some(mtu) {
            tracing::debug!(interface, mtu, "wireless interface");
            self.order(&Command::Mtu(mtu))?;
        }
        Ok(())
    }

    /// Sends the workers a command that they must not miss.
    fn order(&self, command: &Command) -> anyhow::Result<()> {
        if !self.workers.send(command) {
            bail!(NO_ANSWER);
        }
        Ok(())
    }

    /// What the daemon does at the interface.
    pub(super) const fn serving(&self) -> LinkService {
        match self.interface.id {
            _ if self.workers.is_attached() => LinkService::Taken,
            Some(_) => LinkService::PassedBy,
            None => LinkService::Awaited,
        }
    }

    /// Whether the daemon has made this device.
    pub(super) fn owns_device(&self, ifindex: u32) -> bool {
        let running = self.workers.running().iter();
        let mut devices =
            running.flat_map(|worker| worker.attachment.devices.iter().chain(&worker.injector));
        devices.any(|device| *device == ifindex)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;
    use std::rc::Rc;
    use std::sync::mpsc::Receiver;

    use tokio::sync::mpsc::channel;

    use super::*;
    use crate::settings::GatewaySettings;
    use crate::workers::tests::{IFINDEX, counters_or_skip, next, worker, workers};

    #[test]
    fn an_interface_that_is_there_is_not_waited_for() {
        let links = [
            ("wlan0", LinkService::Taken),
            ("wlan1", LinkService::PassedBy),
            ("wlan2", LinkService::Awaited),
            ("wlan3", LinkService::Taken),
        ];
        assert_eq!(
            shown(&links, "auto"),
            [
                "serves wlan0, wlan3, scheme auto",
                "cannot attach to wlan1, and packets pass by",
                "waits for the interface wlan2",
            ]
        );
        let failed = shown(&links[1..2], "auto");
        assert_eq!(failed, ["cannot attach to wlan1, and packets pass by"]);
    }

    /// As PPP and tunnels, it answers no query of its carrier: nothing has this name.
    const NAME: &str = "hf-nowhere";

    fn link(workers: Workers) -> WirelessLink {
        let text = format!("[gateway]\nwireless = \"{NAME}\"\n");
        let settings = GatewaySettings::of_text(Path::new("hf.toml"), &text).unwrap();
        WirelessLink {
            workers,
            ..WirelessLink::new(
                NAME,
                Starter {
                    wireless: NAME.into(),
                    settings: Rc::new(RefCell::new(settings)),
                    report: channel(1).0,
                    outages: channel(1).0,
                },
            )
        }
    }

    /// The next report about the carrier.
    fn carrier(commands: &Receiver<Command>) -> LinkEvent {
        loop {
            if let Command::AllLinks { event, source } = next(commands) {
                assert_eq!(source, LinkSource::Carrier);
                return event;
            }
        }
    }

    #[test]
    fn a_late_attach_finds_the_carrier_that_the_kernel_has_reported() {
        let test = "a_late_attach_finds_the_carrier_that_the_kernel_has_reported";
        let Some(counters) = counters_or_skip(test) else {
            return;
        };
        let (running, commands) = worker(&counters, 1);
        let mut link = link(workers(vec![running]));
        let state = InterfaceState {
            ifindex: IFINDEX,
            name: NAME.into(),
            carrier: true,
            up: true,
            removed: false,
            mtu: 1500,
            is_bridge_port: false,
            header: None,
        };
        link.handle_interface(&state).unwrap();
        assert_eq!(carrier(&commands), LinkEvent::Down, "packets pass by");
        link.look_again().unwrap();
        assert!(link.workers.is_attached());
        assert_eq!(carrier(&commands), LinkEvent::Up);
        link.workers.release();
    }
}
