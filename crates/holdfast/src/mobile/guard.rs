// SPDX-License-Identifier: Apache-2.0
//! A process that opens the windows which the daemon has closed, and acknowledges withheld segments, if
//! the daemon cannot any more.
//!
//! The programs' orders end without the daemon: the programs go with it (TCX), or their deadline
//! passes. But the FH has received a window of 0. Without a packet of the MH it learns nothing else
//! until its next probe, and that a withheld segment has arrived only when the flow goes on. So the
//! daemon starts this process in advance, and lends it the maps and the packet socket. The process
//! sleeps until the daemon reports that something is closed. Then it checks that the daemon postpones the
//! deadline. If the pipe to the daemon ends, or the deadline passes, it sends what the daemon would
//! have sent.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant as WallInstant};

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use holdfast_core::mobile_host::MadeAck;
use holdfast_net::datapath::{Interface, now};
use holdfast_net::mobile_path::{AckSender, FlowMaps, LentMaps, MobilePath, NotedFlow};
use holdfast_net::privileges::{self, OWN_PROGRAM};
use holdfast_net::readiness::wait_readable;
use holdfast_wire::Instant;

use crate::broker::ignore_signals;
use crate::log;
use crate::settings::LogFormat;

/// How long it may take to start.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(5);
/// The same for one that replaces another: the daemon has other things to do.
pub(super) const READY_AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// How often it looks while something is closed.
const LOOK: Duration = Duration::from_millis(100);
/// Copies of the ACK that opens a window, the first time.
const COPIES: u8 = 3;
/// After the daemon's end the ACK may fall into an outage: it is repeated after this time, and after twice
/// the time each time...
const REPEATED_AFTER: Duration = Duration::from_millis(100);
/// ... this often. The last is sent 25 s after the first.
const REPETITIONS: u32 = 8;

/// The guard's command line.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// The interface
    #[arg(long)]
    interface: String,
    /// The descriptors of the maps
    #[arg(long, required = true, value_delimiter = ',')]
    maps: Vec<i32>,
    /// That of the packet socket
    #[arg(long)]
    frames: i32,
    /// That of the socket to the daemon's broker, if it has one
    #[arg(long)]
    broker: Option<i32>,
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
    /// Starts the process, which has to be ready in this time.
    ///
    /// Errors: one line.
    pub(super) fn start(
        path: &MobilePath,
        sender: &AckSender,
        within: Duration,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(OWN_PROGRAM);
        let interface = &path.interface().name;
        command.args(["mobile", "guard", "--interface", interface]);
        let lent = path.maps().lend(&mut command);
        let lent = lent.context("the guard's maps")?;
        let frames = sender.lend(&mut command);
        let frames = frames.context("the guard's packet socket")?;
        if let Some(broker) = privileges::lend(&mut command)? {
            command.arg("--broker").arg(broker.to_string());
        }
        let maps = lent.map(|number| number.to_string()).join(",");
        command.args(["--maps", &maps, "--frames", &frames.to_string()]);
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
        match is_ready(ready, within) {
            Ok(true) => Ok(guard),
            other => {
                // Left alone it would take the end of its pipe for the daemon's.
                guard.dismiss();
                other.context("the guard's pipe")?;
                bail!("the guard of closed windows does not start; restart the daemon");
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
            // Without a guard, windows open by their deadline alone.
            if let Err(error) = self.pipe.write_all(&[u8::from(something)]) {
                tracing::warn!(%error, "the guard of closed windows has ended");
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

/// Whether the process reports in time that it is ready.
fn is_ready(pipe: ChildStdout, within: Duration) -> io::Result<bool> {
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

/// Runs the guard until the daemon has ended and all windows are open.
pub(super) fn run(args: &GuardArgs) -> anyhow::Result<()> {
    log::start(args.log_format)?;
    ignore_signals()?;
    if let Some(broker) = args.broker {
        privileges::adopt(broker).context("the daemon's broker")?;
    }
    let interface = Interface::query(&args.interface)?;
    let lent = LentMaps::try_from(args.maps.as_slice()).context("the numbers of the maps")?;
    let maps = FlowMaps::inherited(&lent, &interface).context("the daemon's maps")?;
    let sender = AckSender::inherited(args.frames, &interface).context("the packet socket")?;
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
            let mut orders = [0; 64];
            match pipe.read(&mut orders) {
                Ok(0) => return Ok(()),
                Ok(count) => something = orders[count - 1] != 0,
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
        // The link may be down: the ACK is repeated.
        if let Err(error) = self.sender.send(flow, MadeAck::Last, copies) {
            tracing::debug!(%error, flow = ?flow.flow.key, "not sent");
        }
    }

    /// Of each kind what can be read: an error is no reason to leave the others closed.
    fn closed(&self) -> Option<Vec<NotedFlow>> {
        or_logged(self.maps.closed_flows(), "the closed windows")
    }

    fn send_all(&self, copies: u8) {
        for flow in self.closed().into_iter().flatten() {
            self.send(&flow, copies);
        }
        self.acknowledge_held();
    }

    /// Acknowledges the withheld segments. No lower number is sent any more.
    fn acknowledge_held(&self) {
        let held = or_logged(self.maps.unsaid_flows(), "the withheld segments");
        for flow in held.into_iter().flatten() {
            // Sent all the same: the flow's next segment acknowledges no less.
            if let Err(error) = self.maps.release(&flow.flow.key, flow.flow.rcv_nxt) {
                tracing::warn!(%error, "what leaves is not changed");
            }
            self.send(&flow, 1);
        }
    }

    /// The daemon has ended: opens all that it has left closed.
    fn open_for_good(&self) {
        let mut closed = self.closed();
        let windows = closed.as_ref().map_or(0, Vec::len);
        tracing::info!(
            windows,
            "the daemon has ended: what it has closed is opened"
        );
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
                self.repeat(closed);
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

    fn repeat(&self, opened: &[NotedFlow]) {
        for flow in opened {
            // The kernel may have sent something newer, if the filters noted it.
            let newest = self.maps.flow(&flow.flow.key).unwrap_or_else(|error| {
                tracing::debug!(%error, "no newer note");
                None
            });
            self.send(newest.as_ref().unwrap_or(flow), 1);
        }
    }
}

/// The flows; none if they cannot be read.
fn or_logged(flows: io::Result<Vec<NotedFlow>>, what: &str) -> Option<Vec<NotedFlow>> {
    flows
        .inspect_err(|error| tracing::warn!(%error, "{what} cannot be read"))
        .ok()
}
