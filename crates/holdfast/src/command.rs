// SPDX-License-Identifier: Apache-2.0
//! A packet worker as its control thread sees it, and the commands between them.

use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread::JoinHandle;

use holdfast_core::signal::{AbilitiesNotice, LinkNotice};
use holdfast_core::{LinkEvent, LinkSource};
use holdfast_net::counters::Counters;
use holdfast_net::readiness::Waker;
use tokio::sync::{mpsc, oneshot};

use crate::control::StatusReply;

/// Commands that may wait; the worker takes them every few milliseconds.
pub(crate) const COMMANDS_MAX: usize = 1024;

/// One request.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// A report about the link to the mobile with these addresses.
    Link {
        /// All addresses of one mobile.
        addresses: Vec<IpAddr>,
        /// What happened to its link.
        event: LinkEvent,
        /// What reported it.
        source: LinkSource,
    },
    /// A report about the links to all mobiles.
    AllLinks {
        /// What happened to them.
        event: LinkEvent,
        /// What reported it.
        source: LinkSource,
    },
    /// A mobile's own signal, for the handoff between base stations.
    Notice(LinkNotice),
    /// A mobile's signal of what it can do.
    Abilities(AbilitiesNotice),
    /// These addresses are no longer those of the mobile that had them.
    Forget(Vec<IpAddr>),
    /// The wireless interface's MTU in bytes.
    Mtu(u32),
    /// Report what the worker sees; the control thread adds what it knows.
    Status {
        /// Most flows to describe.
        flows_max: usize,
        /// Addresses whose mobiles are described however many there are.
        named: Vec<IpAddr>,
        /// Where the report goes.
        reply: mpsc::Sender<StatusReply>,
    },
    /// Deliver what is owed, then leave.
    Leave,
}

/// A worker with its data path.
pub(crate) struct RunningWorker {
    pub(crate) handle: WorkerHandle,
    /// Its end, and why.
    pub(crate) done: oneshot::Receiver<io::Result<()>>,
    pub(crate) thread: JoinHandle<()>,
    pub(crate) counters: Counters,
    pub(crate) link_ifindex: u32,
    /// The daemon's own devices.
    pub(crate) devices: Vec<u32>,
    pub(crate) data_path: &'static str,
}

/// The queue to the worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerHandle {
    commands: SyncSender<Command>,
    waker: Waker,
}

impl WorkerHandle {
    pub(crate) const fn new(commands: SyncSender<Command>, waker: Waker) -> Self {
        Self { commands, waker }
    }

    /// Hands a command over; false if the worker hangs or has ended.
    pub(crate) fn send(&self, command: Command) -> bool {
        let sent = match self.commands.try_send(command) {
            Ok(()) => true,
            Err(TrySendError::Full(command)) => {
                tracing::warn!(?command, "the packet worker takes no commands");
                false
            }
            Err(TrySendError::Disconnected(_)) => false,
        };
        self.waker.wake();
        sent
    }
}
