// SPDX-License-Identifier: Apache-2.0
//! What the service manager and the operator expect of the mobile's daemon: signs of life, and that it
//! reads its settings file again (SIGHUP, or `systemctl reload`).

use super::Daemon;
use crate::mobile::uplink::Uplink;
use crate::service;

impl Daemon {
    /// What the service manager shows of this daemon.
    pub(super) fn service_status(&self) -> String {
        let name = &self.settings.interface;
        if self.interface.ifindex.is_some() {
            format!("serves {name}")
        } else {
            format!("waits for the interface {name}")
        }
    }

    /// Tries again what has failed, and reports that the daemon works, if it does.
    pub(super) fn look(&mut self) {
        if self.interface.ifindex.is_some() {
            self.note_uplink();
        }
        let workers = self.uplink.as_ref().map(Uplink::workers);
        if workers.is_none_or(crate::workers::Workers::are_alive) {
            service::alive();
        } else {
            tracing::error!(
                "a packet worker hangs, and packets pass by; unless systemd restarts the daemon, \
                 restart it"
            );
        }
    }

    /// Applies what can change while flows live. A wrong file changes nothing.
    pub(super) fn reload(&mut self) {
        service::reloading();
        match self.try_to_reload() {
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

    fn try_to_reload(&mut self) -> anyhow::Result<()> {
        let reloaded = self.args.reload(&self.settings)?;
        let (settings, now) = (&reloaded.settings, self.now());
        if let Some(key) = &settings.key {
            self.session.set_key(key.clone(), now);
        }
        self.session.set_keepalive(settings.keepalive);
        if let (Some(uplink), Some(limits)) = (&mut self.uplink, settings.uplink) {
            uplink.set_limits(limits);
        }
        crate::log::set_filter(settings.log_filter.as_deref());
        reloaded.announce();
        self.settings = reloaded.settings;
        Ok(())
    }
}
