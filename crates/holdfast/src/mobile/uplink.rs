// SPDX-License-Identifier: Apache-2.0
//! `keep` at the mobile: what its sockets and those behind it send through an outage.

use std::collections::BTreeMap;
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::Context as _;
use holdfast_core::keep::KeepSettings;
use holdfast_core::{LinkEvent, LinkSource};
use holdfast_net::datapath::{Interface, has_carrier};
use holdfast_net::keep_path::{Peers, Protocols};
use tokio::sync::mpsc;

use crate::command::{Command, RunningWorker};

/// The whole link is one peer, whatever address names it.
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// How long the worker may take for a status.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The uplink of one interface.
pub(super) struct Uplink {
    interface: String,
    settings: KeepSettings,
    running: Option<RunningWorker>,
}

impl Uplink {
    /// Attaches to the interface; if there is none yet, when it appears.
    ///
    /// Errors: no permission, a kernel without what is needed; one line.
    pub(super) fn open(interface: &str, settings: KeepSettings) -> anyhow::Result<Self> {
        let mut uplink = Self {
            interface: interface.to_owned(),
            settings,
            running: None,
        };
        match Interface::query(interface) {
            Err(error) if error.kind() != std::io::ErrorKind::Unsupported => {
                tracing::warn!(interface, "no such interface yet");
            }
            _ => uplink.attach()?,
        }
        Ok(uplink)
    }

    fn attach(&mut self) -> anyhow::Result<()> {
        let taken = (Peers::WholeLink, Protocols::All);
        let running = crate::keep::start(&self.interface, taken, self.settings)
            .with_context(|| format!("interface {}", self.interface))?;
        self.running = Some(running);
        Ok(())
    }

    /// The interface is there, under this index, or none of that name is.
    ///
    /// Errors: as [`Uplink::open`].
    pub(super) fn note_interface(&mut self, ifindex: Option<u32>) -> anyhow::Result<()> {
        let attached = self.running.as_ref().map(|running| running.link_ifindex);
        if attached.is_some() && attached != ifindex {
            self.release();
        }
        if ifindex.is_some() && self.running.is_none() {
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
        self.send(Command::Link {
            addresses: vec![ANY],
            event,
            source: LinkSource::Signal,
        });
    }

    /// Hands a command over; false if there is no worker, or one that hangs.
    fn send(&self, command: Command) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.handle.send(command))
    }

    /// The end of the worker, which never ends by itself, and why.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        let Some(running) = &mut self.running else {
            return pending().await;
        };
        match (&mut running.done).await {
            Ok(Err(error)) => anyhow::Error::new(error).context("the packet worker"),
            Ok(Ok(())) | Err(_) => anyhow::anyhow!("the packet worker ended without a word"),
        }
    }

    /// What was counted, by name.
    pub(super) async fn counters(&self) -> BTreeMap<String, u64> {
        let Some(running) = &self.running else {
            return BTreeMap::new();
        };
        let (reply, mut answer) = mpsc::channel(1);
        self.send(Command::Status {
            flows_max: 0,
            named: Vec::new(),
            reply,
        });
        let status = tokio::time::timeout(ANSWER_MAX, answer.recv()).await;
        let mut counters = status.ok().flatten().unwrap_or_default().counters;
        let of_path = running.counters.read().unwrap_or_default();
        counters.extend(
            of_path
                .into_iter()
                .map(|(name, value)| (format!("path.{name}"), value)),
        );
        counters
    }

    /// Has all packets pass, and leaves.
    pub(super) fn release(&mut self) {
        let leaves = self.send(Command::Leave);
        if let Some(running) = self.running.take().filter(|_| leaves) {
            // A worker that has died has left already.
            let _ = running.thread.join();
        }
    }
}
