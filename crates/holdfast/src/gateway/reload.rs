// SPDX-License-Identifier: Apache-2.0
//! The gateway reads its settings file again: SIGHUP, or `systemctl reload`.

use tokio::net::UdpSocket;

use super::control::Control;
use super::open_signal_socket;
use crate::command::{Command, Limits};
use crate::service;

impl Control {
    /// Applies what can change while flows live. A wrong file changes nothing.
    pub(super) fn reload(&self, signals: &mut Option<UdpSocket>) {
        service::reloading();
        match self.try_to_reload(signals) {
            Ok(()) => service::ready(&self.service_status()),
            Err(error) => {
                tracing::error!("{error:#}; the settings of before stay in force");
                service::ready(&format!(
                    "{}; not reloaded: {error:#}",
                    self.service_status()
                ));
            }
        }
    }

    fn try_to_reload(&self, signals: &mut Option<UdpSocket>) -> anyhow::Result<()> {
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
        if !gone.is_empty() {
            self.send(&Command::Forget(gone));
        }
        self.send(&Command::Limits(Box::new(Limits {
            core: settings.core.clone(),
            drain: settings.daemon.drain,
            keep: settings.keep,
        })));
        crate::log::set_filter(settings.daemon.log_filter.as_deref());
        reloaded.announce();
        self.settings.replace(reloaded.settings);
        Ok(())
    }
}
