// SPDX-License-Identifier: Apache-2.0
//! What a packet worker is asked for by the thread that it serves.

use std::net::IpAddr;
use std::sync::mpsc::{SyncSender, TrySendError};

use holdfast_core::signal::{AbilitiesNotice, LinkNotice};
use holdfast_core::{LinkEvent, LinkSource as Source};
use holdfast_net::readiness::Waker;
use tokio::sync::oneshot;

use crate::status::{LinkSource, LinkView, StatusReply};

/// Commands that may wait; the worker takes them every few milliseconds.
pub(crate) const COMMANDS_MAX: usize = 1024;

/// One request.
#[derive(Debug)]
pub(crate) enum Command {
    /// Believe this of the link to the mobile with these addresses.
    Link {
        /// All addresses of one mobile.
        addresses: Vec<IpAddr>,
        /// The state of its link.
        state: LinkView,
        /// Who says so.
        source: LinkSource,
    },
    /// Believe this of the links to all mobiles.
    AllLinks {
        /// The state of the wireless interface.
        carrier: bool,
    },
    /// A mobile's own word, for the handoff between base stations.
    Notice(LinkNotice),
    /// A mobile's word of what it can do.
    Abilities(AbilitiesNotice),
    /// These addresses are no longer those of the mobile that had them.
    Forget(Vec<IpAddr>),
    /// The wireless interface's MTU in bytes.
    Mtu(u32),
    /// Say what the worker sees; the control thread adds what it knows.
    Status {
        /// Most flows to describe.
        flows_max: usize,
        /// Addresses whose mobiles are described however many there are.
        named: Vec<IpAddr>,
        /// Where to say it.
        reply: oneshot::Sender<StatusReply>,
    },
    /// Deliver what is owed, then leave.
    Leave,
}

/// The way to the worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerHandle {
    commands: SyncSender<Command>,
    waker: Waker,
}

impl WorkerHandle {
    pub(crate) const fn new(commands: SyncSender<Command>, waker: Waker) -> Self {
        Self { commands, waker }
    }

    /// Hands a command over; false if the worker hangs or is gone.
    pub(crate) fn send(&self, command: Command) -> bool {
        let sent = match self.commands.try_send(command) {
            Ok(()) => true,
            Err(TrySendError::Full(command)) => {
                tracing::warn!(?command, "the packet worker does not listen");
                false
            }
            Err(TrySendError::Disconnected(_)) => false,
        };
        self.waker.wake();
        sent
    }
}

/// What became of a link, if anything.
pub(crate) const fn event_of(state: LinkView) -> Option<LinkEvent> {
    match state {
        LinkView::Unknown => None,
        LinkView::Up => Some(LinkEvent::Up),
        LinkView::GoingDownSoon => Some(LinkEvent::GoingDownSoon),
        LinkView::Down => Some(LinkEvent::Down),
    }
}

/// Who knows it, if anybody does.
pub(crate) const fn source_of(source: LinkSource) -> Option<Source> {
    match source {
        LinkSource::Signal => Some(Source::Signal),
        LinkSource::Carrier => Some(Source::Carrier),
        LinkSource::Command => Some(Source::Command),
        LinkSource::None | LinkSource::Silence => None,
    }
}
