// SPDX-License-Identifier: Apache-2.0
//! The broker process, which keeps a daemon's capabilities ([`holdfast_net::privileges`]).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use holdfast_net::broker::BrokerOptions;
use holdfast_net::privileges::{self, KERNEL_MIN, LOST};
use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::runtime::DaemonKind;

/// The broker's command line.
#[derive(Debug, clap::Args)]
pub(crate) struct BrokerArgs {
    /// An interface that it may attach to
    #[arg(long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// It opens packet sockets, too
    #[arg(long)]
    packet_sockets: bool,
}

/// Starts the broker of a daemon for these interfaces, and drops the daemon's capabilities. The daemon
/// keeps one if a program of the operator `moves_routes`.
///
/// Errors: one line.
pub(crate) fn start<'a>(
    kind: DaemonKind,
    interfaces: impl IntoIterator<Item = &'a String>,
    moves_routes: bool,
) -> anyhow::Result<()> {
    let mut arguments = vec!["broker".to_owned()];
    let flags = interfaces.into_iter();
    arguments.extend(flags.map(|name| format!("--interface={name}")));
    if kind == DaemonKind::Mobile {
        arguments.push("--packet-sockets".to_owned());
    }
    if !privileges::hand_over(&arguments, moves_routes)? {
        let (major, minor) = KERNEL_MIN;
        tracing::info!(
            "the daemon keeps its capabilities: to drop them needs Linux {major}.{minor}"
        );
    }
    Ok(())
}

/// Whether the broker was needed and has ended. A daemon that is started again has another one.
pub(crate) fn is_lost() -> bool {
    privileges::has_lost_broker()
}

/// Errors: the broker has ended.
pub(crate) fn check() -> anyhow::Result<()> {
    if is_lost() {
        bail!(LOST);
    }
    Ok(())
}

/// Runs the broker until its daemon has ended.
pub(crate) fn run(args: BrokerArgs) -> anyhow::Result<()> {
    ignore_signals()?;
    let options = BrokerOptions {
        interfaces: args.interfaces,
        opens_packet_sockets: args.packet_sockets,
    };
    holdfast_net::broker::run(&options).context("the daemon's socket")
}

/// Ignores the signals that a service manager sends to all processes of a service; SIGABRT comes if the
/// daemon hangs. A process that serves a daemon must end after it.
pub(crate) fn ignore_signals() -> std::io::Result<()> {
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGABRT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
