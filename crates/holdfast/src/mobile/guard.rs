// SPDX-License-Identifier: Apache-2.0
//! A process that opens the windows which the daemon has closed, and acknowledges what it has held
//! back, if the daemon cannot any more.
//!
//! What is closed ends by itself: the programs go with the daemon (TCX), or their deadline
//! passes. But the FH has been told of a window of 0, and without a packet of the MH it learns
//! nothing else until its next probe; and of a segment that was held back, that it arrived, only
//! when the flow goes on. So the daemon starts this process ahead, which holds the
//! maps and a packet socket of its own. It sleeps until it is told that something is closed,
//! and then looks whether the deadline is still put off. If the pipe to the daemon ends, or the
//! deadline passes, it sends what the daemon would have sent.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant as WallInstant};

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use holdfast_core::mobile_host::MadeAck;
use holdfast_net::datapath::{Interface, monotonic_ns};
use holdfast_net::mobile_path::{AckSender, FlowMaps, LentMaps, MobilePath, NotedFlow};
use holdfast_net::readiness::wait_readable;
use holdfast_wire::Instant;

use crate::log;
use crate::settings::LogFormat;

/// This program, even if another version has taken the place of its file.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// How long it may take to start.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// The same of one that takes the place of another.
const READY_AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// How often it looks while something is closed.
const LOOK: Duration = Duration::from_millis(100);
/// Copies of the ACK that opens a window, the first time.
const COPIES: u8 = 3;
/// After a death the ACK may fall into an outage: it is repeated after so long, and twice as
/// long each time...
const REPEATED_AFTER: Duration = Duration::from_millis(100);
/// ... so often. The last goes out 25 s after the first.
const REPETITIONS: u32 = 8;

/// What the guard has to be told on its command line.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// The interface
    #[arg(long)]
    interface: String,
    /// The descriptor of the map of flows
    #[arg(long)]
    flows: i32,
    /// That of closed flows
    #[arg(long)]
    closed: i32,
    /// That of the deadline
    #[arg(long)]
    control: i32,
    /// That of reserves
    #[arg(long)]
    reserves: i32,
    /// That of flows that were woken
    #[arg(long)]
    woken: i32,
    /// How the daemon writes its log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// The daemon's side: the process and the pipe to it.
pub(super) struct Guard {
    child: Child,
    pipe: ChildStdin,
    watching: bool,
}

impl Guard {
    /// Starts the process.
    ///
    /// Errors: one line.
    pub(super) fn start(interface: &str, path: &MobilePath) -> anyhow::Result<Self> {
        Self::start_within(interface, path, READY_WITHIN)
    }

    /// The same while the daemon has other things to do.
    pub(super) fn start_again(interface: &str, path: &MobilePath) -> anyhow::Result<Self> {
        Self::start_within(interface, path, READY_AGAIN_WITHIN)
    }

    fn start_within(interface: &str, path: &MobilePath, within: Duration) -> anyhow::Result<Self> {
        let mut command = Command::new(OWN_PROGRAM);
        command.args(["mobile", "guard", "--interface", interface]);
        let lent = path.maps().lend(&mut command);
        let lent = lent.context("the guard's maps")?;
        for (flag, descriptor) in [
            ("--flows", lent.flows),
            ("--closed", lent.closed),
            ("--control", lent.control),
            ("--reserves", lent.reserves),
            ("--woken", lent.woken),
        ] {
            command.arg(flag).arg(descriptor.to_string());
        }
        if let Some(format) = log::format().to_possible_value() {
            command.arg("--log-format").arg(format.get_name());
        }
        // What is sent to the daemon's group is not meant for it.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the guard cannot be started")?;
        let guard = child.stdin.take().zip(child.stdout.take());
        let (pipe, ready) = guard.context("the guard has no pipe")?;
        let guard = Self {
            child,
            pipe,
            watching: false,
        };
        match says_ready(ready, within) {
            Ok(true) => Ok(guard),
            other => {
                // Left alone it would take the end of its pipe for the daemon's.
                guard.dismiss();
                other.context("the guard's pipe")?;
                bail!(
                    "the guard of closed windows does not start; it needs CAP_BPF and CAP_NET_RAW"
                );
            }
        }
    }

    /// Whether it still is there.
    pub(super) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Something is closed, or nothing is any more.
    pub(super) fn watch(&mut self, something: bool) {
        if self.watching != something {
            self.watching = something;
            // If it has died there is nobody to tell: windows end by their deadline alone.
            if let Err(error) = self.pipe.write_all(&[u8::from(something)]) {
                tracing::warn!(%error, "the guard of closed windows is gone");
            }
        }
    }

    /// It is not needed any more: nothing is closed, or there is no interface to send on.
    /// (Merely dropped, it takes over.)
    pub(super) fn dismiss(mut self) {
        // It fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the process says in its time that it is there.
fn says_ready(pipe: ChildStdout, within: Duration) -> io::Result<bool> {
    let mut pipe = File::from(OwnedFd::from(pipe));
    let begun = WallInstant::now();
    loop {
        let left = within.saturating_sub(begun.elapsed());
        let [answers] = wait_readable([pipe.as_fd()], Some(left))?;
        if answers {
            return Ok(pipe.read(&mut [0])? > 0);
        }
        // Or a signal has ended the wait.
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// Runs the guard until the daemon is gone and all is open.
pub(super) fn run(args: &GuardArgs) -> anyhow::Result<()> {
    log::start(args.log_format)?;
    // A service manager sends these to all of a service. It ends when its daemon does.
    for signal in [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
        signal_hook::consts::SIGQUIT,
    ] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let interface = Interface::query(&args.interface)?;
    let lent = LentMaps {
        flows: args.flows,
        closed: args.closed,
        control: args.control,
        reserves: args.reserves,
        woken: args.woken,
    };
    let maps = FlowMaps::inherited(&lent, &interface).context("the daemon's maps")?;
    let sender = AckSender::open(&interface)?;
    let keeper = Keeper { maps, sender };
    io::stdout().write_all(&[1])?;
    io::stdout().flush()?;
    // If that fails the daemon starts another one; what it has closed is its own meanwhile.
    watch(&keeper)?;
    keeper.open_for_good();
    Ok(())
}

/// Looks after closed windows until the pipe from the daemon ends.
fn watch(keeper: &Keeper) -> io::Result<()> {
    // Not through the buffer of standard input, which poll does not see.
    let mut pipe = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut something = false;
    // By which deadline windows were opened already.
    let mut opened_at = Instant::ZERO;
    loop {
        let limit = something.then_some(LOOK);
        let [ready] = wait_readable([pipe.as_fd()], limit)?;
        if ready {
            let mut told = [0; 64];
            match pipe.read(&mut told) {
                Ok(0) => return Ok(()),
                Ok(count) => something = told[count - 1] != 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let until = keeper.maps.orders_until();
        if something && until < now() && until != opened_at {
            // The daemon hangs. What it has closed stays in the map: it may go on.
            keeper.send_all(COPIES);
            opened_at = until;
        }
    }
}

struct Keeper {
    maps: FlowMaps,
    sender: AckSender,
}

impl Keeper {
    fn send(&self, flow: &NotedFlow, copies: u8) {
        // The link may be down, and all that opens a window is said again.
        if let Err(error) = self.sender.send(flow, MadeAck::Last, copies) {
            tracing::debug!(%error, flow = ?flow.flow.key, "not sent");
        }
    }

    /// Of each kind what can be read: an error is no reason to leave the others closed.
    fn closed(&self) -> Option<Vec<NotedFlow>> {
        or_said(self.maps.closed_flows(), "the closed windows")
    }

    fn send_all(&self, copies: u8) {
        for flow in self.closed().into_iter().flatten() {
            self.send(&flow, copies);
        }
        self.acknowledge_held();
    }

    /// What was held back is acknowledged, and nothing below leaves any more.
    fn acknowledge_held(&self) {
        let held = or_said(self.maps.unsaid_flows(), "what is held back");
        for flow in held.into_iter().flatten() {
            // Said all the same: the flow's next segment says no less.
            if let Err(error) = self.maps.let_go(&flow.flow.key, flow.flow.rcv_nxt) {
                tracing::warn!(%error, "what leaves is not changed");
            }
            self.send(&flow, 1);
        }
    }

    /// The daemon is gone: opens all that it has left closed.
    fn open_for_good(&self) {
        let mut closed = self.closed();
        let windows = closed.as_ref().map_or(0, Vec::len);
        tracing::info!(windows, "the daemon is gone: what it has closed is opened");
        // Filters of a kernel without TCX are still there.
        self.maps.set_orders_until(Instant::ZERO);
        self.open(closed.iter().flatten());
        self.acknowledge_held();
        let mut wait = REPEATED_AFTER;
        for _ in 0..REPETITIONS {
            if closed.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
            std::thread::sleep(wait);
            wait *= 2;
            if let Some(closed) = &closed {
                self.say_again(closed);
            } else {
                closed = self.closed();
                self.open(closed.iter().flatten());
            }
        }
    }

    fn open<'a>(&self, closed: impl Iterator<Item = &'a NotedFlow>) {
        for flow in closed {
            let opened = self.maps.open_window(&flow.flow.key);
            self.send(flow, COPIES);
            // With the deadline over it is open in any case.
            if let Err(error) = opened {
                tracing::warn!(%error, "an order is left");
            }
        }
    }

    fn say_again(&self, opened: &[NotedFlow]) {
        for flow in opened {
            // What the kernel has said since is newer, where the filters noted it.
            let newest = self.maps.flow(&flow.flow.key).unwrap_or_else(|error| {
                tracing::debug!(%error, "no newer note");
                None
            });
            self.send(newest.as_ref().unwrap_or(flow), 1);
        }
    }
}

/// The flows; none if they cannot be read.
fn or_said(flows: io::Result<Vec<NotedFlow>>, what: &str) -> Option<Vec<NotedFlow>> {
    flows
        .inspect_err(|error| tracing::warn!(%error, "{what} cannot be read"))
        .ok()
}

fn now() -> Instant {
    Instant::from_nanos(monotonic_ns())
}
