// SPDX-License-Identifier: Apache-2.0
//! Serves what the mobile and the hosts behind it send in an outage: by `keep`, and with
//! `auto` TCP by the gateway's engine. To the engine the servers are MHs, and the local stack is the FH.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_core::{LinkEvent, LinkSource, Scheme, Settings};
use holdfast_net::datapath::{DataPath, Interface, InterfaceId, PathOptions, Taking, has_carrier};
use holdfast_net::keep_path::{Peers, Protocols};
use tokio::sync::mpsc;

use crate::command::{Command, Limits, RunningWorker};
use crate::gateway::engine;
use crate::keep;
use crate::outages::OutageSender;
use crate::runtime::random_bytes;
use crate::settings::UplinkSettings;
use crate::workers::Workers;

/// The longest wait for a worker's status.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The prefixes of the counters of the two data paths.
pub(super) const TCP: &str = "tcp-path.";
pub(super) const KEEP: &str = "keep-path.";

/// The uplink of one interface.
pub(super) struct Uplink {
    interface: String,
    starter: Starter,
    workers: Workers,
}

/// Starts the packet workers of the uplink.
struct Starter {
    settings: UplinkSettings,
    flows_max: u32,
    outages: OutageSender,
}

impl Uplink {
    /// Attaches to the interface. If it does not exist yet, it is attached when it appears.
    ///
    /// Errors: no permission, or the kernel lacks a feature; one line.
    pub(super) fn open(
        interface: &str,
        settings: UplinkSettings,
        flows_max: u32,
        outages: OutageSender,
    ) -> anyhow::Result<Self> {
        let mut uplink = Self {
            interface: interface.to_owned(),
            starter: Starter {
                settings,
                flows_max,
                outages,
            },
            workers: Workers::default(),
        };
        match Interface::query(interface) {
            Ok(found) => uplink.note_interface(Some(found.id()))?,
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                return Err(error.into());
            }
            Err(_) => tracing::warn!(interface, "no such interface yet; see: ip link"),
        }
        Ok(uplink)
    }

    /// Notes the interface of that name. None: no interface has the name.
    ///
    /// Errors: as [`Uplink::open`].
    pub(super) fn note_interface(&mut self, id: Option<InterfaceId>) -> anyhow::Result<()> {
        let (starter, interface) = (&self.starter, &self.interface);
        let before = self.workers.attached();
        let start = |running: &mut _| starter.start(interface, running);
        let noted = self.workers.note_interface(id, start);
        noted.with_context(|| format!("interface {interface}"))?;
        let is_new = self.workers.is_attached() && self.workers.attached() != before;
        if is_new && has_carrier(&self.interface).is_ok_and(|carrier| !carrier) {
            self.handle_link(LinkEvent::Down);
        }
        Ok(())
    }

    /// The workers, to see whether they work.
    pub(super) const fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Sets the limits of the queues; false if a worker hangs.
    pub(super) fn set_limits(&mut self, settings: UplinkSettings) -> bool {
        self.starter.settings = settings;
        self.workers.send(&Command::Limits(Box::new(Limits {
            core: self.starter.core(),
            drain: Duration::ZERO,
            keep: settings.keep,
        })))
    }

    /// Handles an event of the link, which the daemon has made of all sources.
    pub(super) fn handle_link(&self, event: LinkEvent) {
        if matches!(event, LinkEvent::GoingDownSoon(_)) {
            return;
        }
        let source = LinkSource::Signal;
        self.workers.send(&Command::AllLinks { event, source });
    }

    /// Reports the largest IP packet that the interface takes, bytes.
    pub(super) fn note_mtu(&self, mtu: u32) {
        self.workers.send(&Command::Mtu(mtu));
    }

    /// Waits for the end of a worker, which is always an error; returns the error.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        let running = self.workers.running_mut().iter_mut();
        let ends: Vec<_> = running.filter_map(|worker| worker.done.as_mut()).collect();
        if ends.is_empty() {
            return pending().await;
        }
        match futures_util::future::select_all(ends).await.0 {
            Ok(Err(error)) => anyhow::Error::new(error).context("the packet worker"),
            Ok(Ok(())) | Err(_) => anyhow::anyhow!("the packet worker ended without a word"),
        }
    }

    /// The workers' counters, by name.
    pub(super) async fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        let names: &[&str] = if self.starter.settings.engine {
            &[TCP, KEEP]
        } else {
            &[KEEP]
        };
        for (name, worker) in names.iter().zip(self.workers.running()) {
            let (reply, mut answer) = mpsc::channel(1);
            worker.handle.send(Command::Status {
                flows_max: 0,
                named: Vec::new(),
                reply,
            });
            let status = tokio::time::timeout(ANSWER_MAX, answer.recv()).await;
            counters.extend(status.ok().flatten().unwrap_or_default().counters);
            for (counted, value) in worker.attachment.counters.read().unwrap_or_default() {
                counters.insert(format!("{name}{counted}"), value);
            }
        }
        counters
    }

    /// Makes all packets pass, and ends the workers.
    pub(super) fn release(&mut self) {
        self.workers.release();
    }
}

impl Starter {
    fn start(&self, interface: &str, running: &mut Vec<RunningWorker>) -> anyhow::Result<()> {
        let protocols = if self.settings.engine {
            running.push(self.start_engine(interface)?);
            Protocols::AllButTcp
        } else {
            Protocols::All
        };
        let taken = (Peers::WholeLink, protocols);
        let (keep, outages) = (self.settings.keep, self.outages.clone());
        running.push(keep::start(interface, taken, keep, outages)?);
        Ok(())
    }

    /// While the link is up, segments stay in the kernel: back-pressure and pacing of the sockets
    /// reach the device.
    fn start_engine(&self, interface: &str) -> anyhow::Result<RunningWorker> {
        let options = PathOptions {
            taking: Taking::InOutages,
            ..PathOptions::default()
        };
        let path = DataPath::attach_with(interface, options)?;
        let core = Settings {
            hash_seed: u64::from_ne_bytes(random_bytes()?),
            ..self.core()
        };
        engine::start_at_mobile(path, core, self.outages.clone())
    }

    fn core(&self) -> Settings {
        Settings {
            scheme: Scheme::Auto,
            flows_max: self.flows_max as usize,
            takes_in_outages: true,
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::keep::KeepSettings;

    use super::*;

    fn settings(flow_packets_max: usize) -> UplinkSettings {
        let keep = KeepSettings {
            flow_packets_max,
            ..KeepSettings::default()
        };
        UplinkSettings { engine: true, keep }
    }

    fn open(interface: &str) -> anyhow::Result<Uplink> {
        Uplink::open(interface, settings(8), 64, mpsc::channel(1).0)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn limits_that_are_read_while_the_interface_is_missing_are_those_of_its_workers() {
        let mut uplink = open("hf-nowhere").unwrap();
        assert!(!uplink.workers().is_attached());
        assert!(uplink.counters().await.is_empty());
        // No worker has missed them.
        assert!(uplink.set_limits(settings(3)));
        assert_eq!(uplink.starter.settings.keep.flow_packets_max, 3);
        assert_eq!(uplink.starter.core().flows_max, 64);
    }

    /// Waiting would not help: an interface of this name is there.
    #[test]
    fn an_interface_that_no_worker_can_serve_is_an_error_and_not_waited_for() {
        let error = open("lo").err().expect("a loopback device").to_string();
        assert!(error.contains("interface lo: link type 772"), "{error}");
    }
}
