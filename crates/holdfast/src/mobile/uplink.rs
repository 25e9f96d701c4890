// SPDX-License-Identifier: Apache-2.0
//! What the mobile sends, its sockets and those behind it, through an outage: by `keep`, and with
//! `auto` TCP by the gateway's engine. To the engine the servers are MHs, and the local stack is the FH.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_core::{LinkEvent, LinkSource, Scheme, Settings};
use holdfast_net::datapath::{DataPath, Interface, PathOptions, Taking, has_carrier};
use holdfast_net::keep_path::{Peers, Protocols};
use tokio::sync::mpsc;

use crate::command::{Command, RunningWorker};
use crate::gateway::engine;
use crate::outages::OutageSender;
use crate::runtime::random_bytes;
use crate::settings::UplinkSettings;

/// How long a worker may take for a status.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Whose data path has counted.
pub(super) const TCP: &str = "tcp-path.";
pub(super) const KEEP: &str = "keep-path.";

/// The uplink of one interface.
pub(super) struct Uplink {
    interface: String,
    settings: UplinkSettings,
    flows_max: u32,
    outages: OutageSender,
    /// With the names of their counters; none while there is no interface.
    running: Vec<(&'static str, RunningWorker)>,
}

impl Uplink {
    /// Attaches to the interface; if there is none yet, when it appears.
    ///
    /// Errors: no permission, a kernel without what is needed; one line.
    pub(super) fn open(
        interface: &str,
        settings: UplinkSettings,
        flows_max: u32,
        outages: OutageSender,
    ) -> anyhow::Result<Self> {
        let mut uplink = Self {
            interface: interface.to_owned(),
            settings,
            flows_max,
            outages,
            running: Vec::new(),
        };
        match Interface::query(interface) {
            Err(error) if error.kind() != std::io::ErrorKind::Unsupported => {
                tracing::warn!(interface, "no such interface yet");
            }
            _ => uplink.attach()?,
        }
        Ok(uplink)
    }

    /// All workers, or none.
    fn attach(&mut self) -> anyhow::Result<()> {
        let attached = self.start_workers();
        if attached.is_err() {
            self.release();
        }
        attached.with_context(|| format!("interface {}", self.interface))
    }

    fn start_workers(&mut self) -> anyhow::Result<()> {
        let protocols = if self.settings.engine {
            let engine = self.start_engine()?;
            self.running.push((TCP, engine));
            Protocols::AllButTcp
        } else {
            Protocols::All
        };
        let taken = (Peers::WholeLink, protocols);
        let keep = crate::keep::start(
            &self.interface,
            taken,
            self.settings.keep,
            self.outages.clone(),
        )?;
        self.running.push((KEEP, keep));
        Ok(())
    }

    /// While the link is up, segments stay in the kernel: back-pressure and pacing of the sockets
    /// reach the device.
    fn start_engine(&self) -> anyhow::Result<RunningWorker> {
        let options = PathOptions {
            taking: Taking::InOutages,
            ..PathOptions::default()
        };
        let path = DataPath::attach_with(&self.interface, options)?;
        let core = Settings {
            scheme: Scheme::Auto,
            flows_max: self.flows_max as usize,
            takes_in_outages: true,
            hash_seed: u64::from_ne_bytes(random_bytes()?),
            ..Settings::default()
        };
        engine::start_at_mobile(path, core, self.outages.clone())
    }

    /// The interface is there, under this index, or none of that name is.
    ///
    /// Errors: as [`Uplink::open`].
    pub(super) fn note_interface(&mut self, ifindex: Option<u32>) -> anyhow::Result<()> {
        let attached = self.running.first().map(|(_, worker)| worker.link_ifindex);
        if attached.is_some() && attached != ifindex {
            self.release();
        }
        if ifindex.is_some() && self.running.is_empty() {
            self.attach()?;
            if has_carrier(&self.interface).is_ok_and(|carrier| !carrier) {
                self.handle_link(LinkEvent::Down);
            }
        }
        Ok(())
    }

    /// A report about the link. The daemon has combined its sources already.
    pub(super) fn handle_link(&self, event: LinkEvent) {
        if matches!(event, LinkEvent::GoingDownSoon(_)) {
            return;
        }
        let source = LinkSource::Signal;
        self.send(&Command::AllLinks { event, source });
    }

    /// The largest IP packet that the interface takes, bytes.
    pub(super) fn note_mtu(&self, mtu: u32) {
        self.send(&Command::Mtu(mtu));
    }

    fn send(&self, command: &Command) {
        for (_, worker) in &self.running {
            worker.handle.send(command.clone());
        }
    }

    /// The end of a worker, which never ends by itself, and why.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        if self.running.is_empty() {
            return pending().await;
        }
        let ends = self.running.iter_mut().map(|(_, worker)| &mut worker.done);
        match futures_util::future::select_all(ends).await.0 {
            Ok(Err(error)) => anyhow::Error::new(error).context("the packet worker"),
            Ok(Ok(())) | Err(_) => anyhow::anyhow!("the packet worker ended without a word"),
        }
    }

    /// What was counted, by name.
    pub(super) async fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        for (name, worker) in &self.running {
            let (reply, mut answer) = mpsc::channel(1);
            worker.handle.send(Command::Status {
                flows_max: 0,
                named: Vec::new(),
                reply,
            });
            let status = tokio::time::timeout(ANSWER_MAX, answer.recv()).await;
            counters.extend(status.ok().flatten().unwrap_or_default().counters);
            for (counted, value) in worker.counters.read().unwrap_or_default() {
                counters.insert(format!("{name}{counted}"), value);
            }
        }
        counters
    }

    /// Has all packets pass, and leaves.
    pub(super) fn release(&mut self) {
        for (_, worker) in self.running.drain(..) {
            if worker.handle.send(Command::Leave) {
                // A worker that has died has left already.
                let _ = worker.thread.join();
            }
        }
    }
}
