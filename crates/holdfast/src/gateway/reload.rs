// SPDX-License-Identifier: Apache-2.0
//! The gateway reads its settings file again: SIGHUP, or `systemctl reload`.

use std::net::IpAddr;

use tokio::net::UdpSocket;

use super::control::Control;
use super::open_signal_socket;
use crate::command::{Command, Limits};
use crate::log;
use crate::service;
use crate::settings::{GatewaySettings, Reloaded, nothing_changed};

impl Control {
    /// Applies the settings that can change while flows live. A wrong file changes nothing.
    pub(super) fn reload(&self, signals: &mut Option<UdpSocket>) {
        service::reloading();
        let problem = self.try_to_reload(signals).err();
        let problem = problem.map(|error| format!("{error:#}"));
        if let Some(problem) = &problem {
            tracing::error!("{problem}");
        }
        self.reload_problem.replace(problem);
        service::ready(&self.service_status());
    }

    fn try_to_reload(&self, signals: &mut Option<UdpSocket>) -> anyhow::Result<()> {
        let (reloaded, gone) = self.read_again(signals).map_err(nothing_changed)?;
        let settings = &reloaded.settings;
        let mut has_reached = gone.is_empty() || self.send(&Command::Forget(gone));
        has_reached &= self.send(&Command::Limits(Box::new(Limits {
            core: settings.core.clone(),
            drain: settings.daemon.drain,
            keep: settings.keep,
        })));
        log::set_filter(settings.daemon.log_filter.as_deref());
        let announced = reloaded.announce(has_reached);
        self.settings.replace(reloaded.settings);
        announced
    }

    /// The file's settings, and the addresses of mobiles that the file no longer has.
    fn read_again(
        &self,
        signals: &mut Option<UdpSocket>,
    ) -> anyhow::Result<(Reloaded<GatewaySettings>, Vec<IpAddr>)> {
        let reloaded = self.args.reload(&self.settings.borrow())?;
        let settings = &reloaded.settings;
        if settings.mobiles.is_empty() {
            *signals = None;
        } else if signals.is_none() {
            *signals = open_signal_socket(settings)?
                .map(UdpSocket::from_std)
                .transpose()?;
        }
        let gone = self.peers.borrow_mut().replace(
            settings.mobiles.iter().cloned(),
            settings.signals.registration_lifetime,
        )?;
        Ok((reloaded, gone))
    }
}
