// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile`: the daemon of the mobile side, and its commands.
//!
//! The daemon watches one interface by netlink. It reports the link's state to the gateway, encrypted,
//! and repeats each signal until the gateway acknowledges it (`holdfast_core::signal`). With a scheme it
//! also serves the flows of the mobile and of hosts behind it (`holdfast_core::mobile_host`), with or
//! without a gateway.

mod cells;
pub(crate) mod check;
mod congestion;
pub(crate) mod counters;
mod daemon;
mod decompress;
mod guard;
mod host;
mod keygen;
mod sources;
mod uplink;

use std::net::IpAddr;
use std::path::PathBuf;

use holdfast_core::LinkState;

pub(crate) use sources::modem_interfaces;

use crate::check::report_findings;
use crate::control::{self, ControlRequest, link_state};
use crate::counters::by_name;
use crate::log;
use crate::settings::{MOBILE_SOCKET, MobileDaemonArgs, SettingsError};

/// Report the link's state to the gateway, or help the flows of the mobile and of hosts behind it: the daemon for a
/// vehicle, a ship, a laptop.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Flags override the file. Every key of the file: docs/settings.md.

Examples:
  holdfast mobile --interface wwan0
  holdfast mobile --interface wwan0 --check
  holdfast mobile keygen /etc/holdfast/mobile.key
  holdfast mobile --interface wwan0 --gateway 192.0.2.1
  holdfast mobile --config /etc/holdfast/mobile.toml --log-format json
  holdfast mobile --interface wwan0 --scheme freeze
  holdfast mobile signal going-down-soon --lead-ms 300"
)]
pub(crate) struct MobileArgs {
    #[command(subcommand)]
    command: Option<MobileCommand>,
    #[command(flatten)]
    daemon: MobileDaemonArgs,
}

/// The commands beside the daemon.
#[derive(Debug, clap::Subcommand)]
enum MobileCommand {
    /// Report the link's state to the running daemon, for a script that watches a modem
    #[command(after_help = "Examples:
  holdfast mobile signal down
  holdfast mobile signal up --gateway 10.3.0.1
  holdfast mobile signal going-down-soon --lead-ms 300")]
    Signal {
        /// What happened, or is about to happen, to the link
        #[arg(value_parser = link_state())]
        event: LinkState,
        /// Milliseconds until link down, for going-down-soon; 0 if not known
        #[arg(long, value_name = "MS", default_value_t = 0)]
        lead_ms: u16,
        /// The address of the gateway in whose cell the mobile is now, for up
        #[arg(long, value_name = "ADDRESS")]
        gateway: Option<IpAddr>,
        /// The daemon's control socket
        #[arg(long, value_name = "PATH", default_value = MOBILE_SOCKET)]
        socket: PathBuf,
    },
    /// Opens the windows that the daemon has closed, if the daemon dies; started by the daemon
    #[command(hide = true)]
    Guard(guard::GuardArgs),
    /// Make a key for a mobile and its gateway
    #[command(
        after_help = "The file goes to the mobile as it is, and to the gateway as
`key_file` (or its line as `key`) of a [[mobile]].

Examples:
  holdfast mobile keygen /etc/holdfast/mobile.key
  holdfast mobile keygen > mobile.key"
    )]
    Keygen {
        /// The file to make, readable by its owner and the group holdfast alone; standard output if
        /// not given
        file: Option<PathBuf>,
    },
}

/// Runs `holdfast mobile`.
pub(crate) fn run(args: &MobileArgs) -> anyhow::Result<()> {
    match &args.command {
        None if args.daemon.check => report_findings(&check::run(&args.daemon.settings()?)),
        None => {
            // The log starts first, so that an error in the settings never waits for a reader.
            log::start(args.daemon.log_format)?;
            daemon::run(args.daemon.clone(), by_name(counters::groups()))
        }
        Some(MobileCommand::Signal {
            event,
            lead_ms,
            gateway,
            socket,
        }) => {
            if *lead_ms > 0 && *event != LinkState::GoingDownSoon {
                let problem = format!("got {lead_ms}, takes nothing but going-down-soon with it");
                return Err(SettingsError::at_key(None, "--lead-ms", problem).into());
            }
            let request = ControlRequest::Signal {
                event: *event,
                lead_ms: *lead_ms,
                gateway: *gateway,
            };
            control::command(socket, &request)
        }
        Some(MobileCommand::Guard(args)) => guard::run(args),
        Some(MobileCommand::Keygen { file }) => keygen::run(file.as_deref()),
    }
}
