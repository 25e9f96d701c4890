// SPDX-License-Identifier: Apache-2.0
//! The mobile's daemon under a service manager: its signs of life, and how it reads its settings file
//! again (SIGHUP, or `systemctl reload`).

use super::Daemon;
use crate::log;
use crate::mobile::uplink::Uplink;
use crate::service;
use crate::settings::nothing_changed;
use crate::workers::Workers;

impl Daemon {
    /// The status that the service manager shows.
    pub(super) fn service_status(&self) -> String {
        let name = &self.settings.interface;
        let is_attached = |uplink: &Uplink| uplink.workers().is_attached();
        let mut status = if self.interface.id.is_none() {
            format!("waits for the interface {name}")
        } else if self.uplink.as_ref().is_none_or(is_attached) {
            format!("serves {name}")
        } else {
            format!("serves {name}; what is sent through it passes by")
        };
        if let Some(problem) = &self.reload_problem {
            status += &format!("; not reloaded: {problem}");
        }
        status
    }

    /// Tries again what has failed, and sends a sign of life if the workers live.
    pub(super) fn look(&mut self) {
        if self.interface.id.is_some() {
            self.note_uplink();
        }
        let workers = self.uplink.as_ref().map(Uplink::workers);
        if workers.is_none_or(Workers::are_alive) {
            // The status may be new: an attempt to attach may have succeeded.
            service::alive(&self.service_status());
        } else {
            tracing::error!(
                "a packet worker hangs, and packets pass by; unless systemd restarts the daemon, \
                 restart it"
            );
        }
    }

    /// Applies the settings that can change while flows live. A wrong file changes nothing.
    pub(super) fn reload(&mut self) {
        service::reloading();
        let problem = self.try_to_reload().err();
        self.reload_problem = problem.map(|error| format!("{error:#}"));
        if let Some(problem) = &self.reload_problem {
            tracing::error!("{problem}");
        }
        service::ready(&self.service_status());
    }

    fn try_to_reload(&mut self) -> anyhow::Result<()> {
        let reloaded = self.args.reload(&self.settings);
        let reloaded = reloaded.map_err(|error| nothing_changed(error.into()))?;
        let (settings, now) = (&reloaded.settings, self.now());
        if let Some(key) = &settings.key {
            self.session.set_key(key.clone(), now);
        }
        self.session.set_keepalive(settings.keepalive);
        let has_reached = match (&mut self.uplink, settings.uplink) {
            (Some(uplink), Some(limits)) => uplink.set_limits(limits),
            _ => true,
        };
        log::set_filter(settings.log_filter.as_deref());
        let announced = reloaded.announce(has_reached);
        self.settings = reloaded.settings;
        announced
    }
}
