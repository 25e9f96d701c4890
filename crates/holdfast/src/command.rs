// SPDX-License-Identifier: Apache-2.0
//! A packet worker as its control thread sees it, and the commands between them.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::bail;
use holdfast_core::keep::KeepSettings;
use holdfast_core::signal::{AbilitiesNotice, LinkNotice};
use holdfast_core::{LinkEvent, LinkSource, Settings};
use holdfast_net::counters::Counters;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::readiness::Waker;
use tokio::sync::{mpsc, oneshot};

use crate::control::StatusReply;

/// The limit of queued commands; the worker takes them every few milliseconds.
const COMMANDS_MAX: usize = 1024;

/// A worker that has made no turn for this time hangs.
const TURN_MAX: Duration = Duration::from_secs(5);

/// How long the control thread waits for a worker that attaches. Signals and callers wait meanwhile.
const ATTACH_WAIT: Duration = Duration::from_millis(500);

const NO_ANSWER: &str = "the packet worker does not answer";

/// A command to the worker.
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
    /// Whether the wireless interface is a port of a bridge.
    BridgePort(bool),
    /// Report what the worker sees; the control thread adds what it knows.
    Status {
        /// Most flows to describe.
        flows_max: usize,
        /// Mobiles with these addresses are described beyond every limit.
        named: Vec<IpAddr>,
        /// Where the report goes.
        reply: mpsc::Sender<StatusReply>,
    },
    /// The interface was removed, renamed or replaced: make all packets pass, wherever it is now.
    Detach,
    /// An interface with the name exists: attach to it, and take nothing yet.
    Attach(SyncSender<io::Result<Attachment>>),
    /// All workers of the interface are attached: take packets.
    Take,
    /// Use these limits from now on.
    Limits(Box<Limits>),
    /// Deliver the owed bytes, then leave.
    Leave,
}

/// The settings that a worker takes over while flows live.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// The engine's settings.
    pub(crate) core: Settings,
    /// The longest that a leaving worker waits for the MHs' ACKs of owed bytes.
    pub(crate) drain: Duration,
    /// The settings of `keep`.
    pub(crate) keep: KeepSettings,
}

/// The data path of a worker as others see it.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) counters: Counters,
    pub(crate) link_ifindex: u32,
    /// The daemon's own devices.
    pub(crate) devices: Vec<u32>,
    /// Its name in status and log.
    pub(crate) data_path: &'static str,
}

/// A worker with its data path.
#[derive(Debug)]
pub(crate) struct RunningWorker {
    pub(crate) handle: WorkerHandle,
    /// Reports the worker's end, and the reason. None: another part waits for it.
    pub(crate) done: Option<oneshot::Receiver<io::Result<()>>>,
    pub(crate) thread: JoinHandle<()>,
    pub(crate) attachment: Attachment,
    /// Its answer to a command to attach.
    pub(crate) attaching: Attaching,
    /// The device of a base station, which stays without the interface.
    pub(crate) injector: Option<u32>,
}

impl RunningWorker {
    /// Starts the thread that runs a worker.
    pub(crate) fn spawn(
        attachment: Attachment,
        run: impl FnOnce(Inbox) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (handle, inbox) = WorkerHandle::new()?;
        let (at_end, done) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("packets".into())
            .spawn(move || {
                // The receiver may have left already.
                let _ = at_end.send(run(inbox));
            })?;
        Ok(Self {
            handle,
            done: Some(done),
            thread,
            attachment,
            attaching: Attaching::default(),
            injector: None,
        })
    }
}

/// The pending answer of a worker that was commanded to attach.
#[derive(Debug, Default)]
pub(crate) struct Attaching {
    answer: Option<Receiver<io::Result<Attachment>>>,
}

impl Attaching {
    /// Commands the worker to attach to the present interface, and waits a moment. While an
    /// answer is pending, a further call sends no new command and does not wait.
    ///
    /// Errors: the worker's, one line; no answer yet.
    pub(crate) fn attach(&mut self, worker: &WorkerHandle) -> anyhow::Result<Attachment> {
        let (answer, wait) = if let Some(answer) = self.answer.take() {
            (answer, Duration::ZERO)
        } else {
            let (reply, answer) = sync_channel(1);
            if !worker.send(Command::Attach(reply)) {
                bail!(NO_ANSWER);
            }
            (answer, ATTACH_WAIT)
        };
        match answer.recv_timeout(wait) {
            Ok(attached) => Ok(attached?),
            Err(RecvTimeoutError::Timeout) => {
                self.answer = Some(answer);
                bail!(NO_ANSWER)
            }
            Err(RecvTimeoutError::Disconnected) => bail!(NO_ANSWER),
        }
    }
}

/// The queue to the worker, and its sign of life.
#[derive(Clone, Debug)]
pub(crate) struct WorkerHandle {
    commands: SyncSender<Command>,
    waker: Waker,
    turned_ns: Arc<AtomicU64>,
}

/// The worker's end of a [`WorkerHandle`].
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) commands: Receiver<Command>,
    pub(crate) waker: Waker,
    turned_ns: Arc<AtomicU64>,
}

impl Inbox {
    /// Notes that the worker begins another turn of its loop.
    pub(crate) fn note_turn(&self) {
        self.turned_ns.store(monotonic_ns(), Ordering::Relaxed);
    }
}

impl WorkerHandle {
    /// Both ends.
    pub(crate) fn new() -> io::Result<(Self, Inbox)> {
        let waker = Waker::new()?;
        let (sender, commands) = sync_channel(COMMANDS_MAX);
        let turned_ns = Arc::new(AtomicU64::new(monotonic_ns()));
        let handle = Self {
            commands: sender,
            waker: waker.clone(),
            turned_ns: Arc::clone(&turned_ns),
        };
        let inbox = Inbox {
            commands,
            waker,
            turned_ns,
        };
        Ok((handle, inbox))
    }

    /// Sends a command; false if the worker hangs. True if it has ended: `done` reports
    /// the end.
    pub(crate) fn send(&self, command: Command) -> bool {
        let sent = match self.commands.try_send(command) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => true,
            Err(TrySendError::Full(command)) => {
                tracing::warn!(?command, "the packet worker takes no commands");
                false
            }
        };
        self.waker.wake();
        sent
    }

    /// Whether the worker has made a turn of its loop not long before `now_ns`.
    pub(crate) fn is_alive(&self, now_ns: u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.turned_ns.load(Ordering::Relaxed));
        since_ns < TURN_MAX.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_without_a_turn_for_long_hangs() {
        let before_ns = monotonic_ns();
        let (handle, inbox) = WorkerHandle::new().unwrap();
        let long_ns = TURN_MAX.as_nanos() as u64;
        let stopped_ns = handle.turned_ns.load(Ordering::Relaxed);
        assert!(stopped_ns >= before_ns && handle.is_alive(stopped_ns));
        assert!(!handle.is_alive(stopped_ns + long_ns));
        inbox.note_turn();
        assert!(handle.is_alive(handle.turned_ns.load(Ordering::Relaxed) + long_ns / 2));
    }

    #[test]
    fn a_worker_that_has_ended_attaches_to_nothing_and_misses_no_command() {
        let (handle, inbox) = WorkerHandle::new().unwrap();
        drop(inbox);
        assert!(handle.send(Command::Take));
        let error = Attaching::default().attach(&handle).unwrap_err();
        assert_eq!(error.to_string(), NO_ANSWER);
    }

    #[test]
    fn a_worker_that_hangs_is_commanded_once_and_its_late_answer_counts() {
        let (handle, inbox) = WorkerHandle::new().unwrap();
        let mut attaching = Attaching::default();
        for _ in 0..100 {
            let error = attaching.attach(&handle).unwrap_err();
            assert_eq!(error.to_string(), NO_ANSWER);
        }
        let Ok(Command::Attach(reply)) = inbox.commands.try_recv() else {
            panic!("no command to attach");
        };
        assert!(inbox.commands.try_recv().is_err(), "one command");
        reply.send(Err(io::Error::other("no permission"))).unwrap();
        let error = attaching.attach(&handle).unwrap_err();
        assert_eq!(error.to_string(), "no permission");
        // The next try is a new one.
        drop(inbox);
        assert!(attaching.attach(&handle).is_err());
    }
}
