// SPDX-License-Identifier: Apache-2.0
//! A process that opens the windows that the daemon has closed, and acknowledges withheld segments, if
//! the daemon dies or hangs.
//!
//! Without the daemon the programs' orders end: the programs are removed (TCX), or their deadline
//! passes. But the FH has received a window of 0. It learns of the open window only by its next probe or
//! by a packet of the MH. It learns of a withheld segment only when the flow goes on. So the
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

/// The limit of the time in which the first guard must be ready.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(5);
/// The same for a guard that replaces another: the daemon's other work waits meanwhile.
pub(super) const READY_AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// The guard checks the daemon's deadline at this interval while the host has orders.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Copies of the ACK that opens a window, the first time.
const FIRST_ACK_COPIES: u8 = 3;
/// After the daemon's end the ACK may be lost in an outage. It is repeated after this time, and then
/// after twice the wait before.
const REPEATED_AFTER: Duration = Duration::from_millis(100);
/// The number of these repetitions. The last is sent 25 s after the first ACK.
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
    has_orders: bool,
}

impl Guard {
    /// Starts the process, which must be ready within this time.
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
        // Signals to the daemon's process group must not reach the guard.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the guard cannot be started")?;
        let guard = child.stdin.take().zip(child.stdout.take());
        let (pipe, ready) = guard.context("the guard has no pipe")?;
        let guard = Self {
            child,
            pipe,
            has_orders: false,
        };
        match is_ready(ready, within) {
            Ok(true) => Ok(guard),
            other => {
                // Otherwise the guard would take the end of its pipe for the daemon's end.
                guard.dismiss();
                other.context("the guard's pipe")?;
                bail!("the guard of closed windows does not start; restart the daemon");
            }
        }
    }

    /// Whether the process still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Notifies the guard whether the host has orders to undo.
    pub(super) fn watch(&mut self, has_orders: bool) {
        if self.has_orders != has_orders {
            self.has_orders = has_orders;
            // Without a guard, windows open only when their deadline passes.
            if let Err(error) = self.pipe.write_all(&[u8::from(has_orders)]) {
                tracing::warn!(%error, "the guard of closed windows has ended");
            }
        }
    }

    /// Ends the guard: nothing is closed, or there is no interface to send on.
    /// A guard that is only dropped takes over.
    pub(super) fn dismiss(mut self) {
        // An error means that the process has ended already.
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
        // Otherwise a signal has ended the wait.
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
    let opener = WindowOpener { maps, sender };
    io::stdout().write_all(&[1])?;
    io::stdout().flush()?;
    // If watching fails, the daemon starts another guard. Until then only the daemon opens its windows.
    watch(&opener)?;
    opener.open_for_good();
    Ok(())
}

/// Watches the daemon's deadline until the pipe from the daemon ends.
fn watch(opener: &WindowOpener) -> io::Result<()> {
    // Read without the buffer of standard input, which poll does not see.
    let mut pipe = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut has_orders = false;
    // The passed deadline for which windows were opened already.
    let mut opened_at = Instant::ZERO;
    loop {
        let limit = has_orders.then_some(CHECK_INTERVAL);
        let [ready] = wait_readable([pipe.as_fd()], limit)?;
        if ready {
            let mut orders = [0; 64];
            match pipe.read(&mut orders) {
                Ok(0) => return Ok(()),
                Ok(count) => has_orders = orders[count - 1] != 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let until = opener.maps.orders_until();
        if has_orders && until < now() && until != opened_at {
            // The daemon hangs. Its closed windows stay in the map: it may recover.
            opener.send_all(FIRST_ACK_COPIES);
            opened_at = until;
        }
    }
}

struct WindowOpener {
    maps: FlowMaps,
    sender: AckSender,
}

impl WindowOpener {
    fn send(&self, flow: &NotedFlow, copies: u8) {
        // The link may be down: the ACK is repeated.
        if let Err(error) = self.sender.send(flow, MadeAck::Last, copies) {
            tracing::debug!(%error, flow = ?flow.flow.key, "not sent");
        }
    }

    /// The flows with closed windows. After an error the withheld segments are still acknowledged.
    fn closed(&self) -> Option<Vec<NotedFlow>> {
        or_logged(self.maps.closed_flows(), "the closed windows")
    }

    fn send_all(&self, copies: u8) {
        for flow in self.closed().into_iter().flatten() {
            self.send(&flow, copies);
        }
        self.acknowledge_withheld();
    }

    /// Acknowledges the withheld segments. No lower ACK leaves any more.
    fn acknowledge_withheld(&self) {
        let withheld = or_logged(self.maps.unacknowledged_flows(), "the withheld segments");
        for flow in withheld.into_iter().flatten() {
            // The ACK is sent despite an error: the flow's next segment acknowledges at least as much.
            if let Err(error) = self.maps.release(&flow.flow.key, flow.flow.rcv_nxt) {
                tracing::warn!(%error, "what leaves is not changed");
            }
            self.send(&flow, 1);
        }
    }

    /// The daemon has ended: opens all windows that it has left closed.
    fn open_for_good(&self) {
        let mut closed = self.closed();
        let windows = closed.as_ref().map_or(0, Vec::len);
        tracing::info!(
            windows,
            "the daemon has ended: what it has closed is opened"
        );
        // Without TCX the filters are still attached: their orders end now.
        self.maps.set_orders_until(Instant::ZERO);
        self.open(closed.iter().flatten());
        self.acknowledge_withheld();
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
            self.send(flow, FIRST_ACK_COPIES);
            // The deadline has passed: the window is open anyway.
            if let Err(error) = opened {
                tracing::warn!(%error, "an order is left");
            }
        }
    }

    fn repeat(&self, opened: &[NotedFlow]) {
        for flow in opened {
            // The kernel may have sent a newer ACK, which the filters have noted.
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
