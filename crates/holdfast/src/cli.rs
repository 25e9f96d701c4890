// SPDX-License-Identifier: Apache-2.0
//! The command line: one binary, one subcommand a task. The manual pages and the
//! completions are made from these types, so that they cannot differ.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::mobile::MobileArgs;
use crate::settings::GatewayArgs;
use crate::status::StatusArgs;
use crate::top::TopArgs;
use crate::{broker, demo, lab_command, link_command, setup};

/// Keeps TCP at full speed over links that come and go.
#[derive(Debug, Parser)]
#[command(
    name = "holdfast",
    version,
    after_help = "Examples:
  holdfast demo
  holdfast setup
  holdfast gateway --wireless wlan0 --check
  holdfast status

Exit status: 0 done; 1 failed; 64 a flag or a setting that cannot be right."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::DemoArgs),
    Setup(setup::SetupArgs),
    // Boxed: the largest by far.
    Gateway(Box<GatewayArgs>),
    Mobile(Box<MobileArgs>),
    #[command(after_help = "Examples:
  ip netns add fh && ip netns add mh
  holdfast link --fh-ns /run/netns/fh --mh-ns /run/netns/mh \\
    --fh-address 10.0.0.1/24 --mh-address 10.0.0.2/24 \\
    --rate 20 --delay 25 --queue 200 --outage 4.0+3.0 --carrier")]
    Link(Box<link_command::LinkArgs>),
    Lab(lab_command::LabArgs),
    Status(StatusArgs),
    Top(TopArgs),
    /// Attaches to interfaces for a daemon that has dropped its capabilities; started by the daemon
    #[command(hide = true)]
    Broker(broker::BrokerArgs),
    /// Make the manual pages, the completions, or the documentation of settings and counters
    #[command(hide = true)]
    Generate {
        /// What to make
        what: Generated,
        /// The folder to make it in; it must be there
        directory: PathBuf,
    },
}

/// Errors whose text comes from the standard library, and what the argument takes.
const TAKES: [(&str, &str); 6] = [
    (
        "invalid socket address syntax",
        "takes an address and a port, as in 192.0.2.1:4848",
    ),
    (
        "invalid IP address syntax",
        "takes an IP address, as in 192.0.2.1",
    ),
    ("invalid digit found in string", "takes a whole number"),
    (
        "cannot parse integer from empty string",
        "takes a whole number",
    ),
    (
        "number too large to fit in target type",
        "takes a smaller whole number",
    ),
    ("invalid float literal", "takes a number"),
];

/// Parses the command line. A negative number is a value, not a flag: an error is about the value.
///
/// Errors: clap's.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let matches = with_negative_numbers(Cli::command()).try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

fn with_negative_numbers(mut command: clap::Command) -> clap::Command {
    let names = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned());
    let names: Vec<String> = names.collect();
    for name in names {
        command = command.mut_subcommand(name, with_negative_numbers);
    }
    command.allow_negative_numbers(true)
}

/// A wrong command line in one line: what is wrong, what is right, and the command whose help has more.
pub(crate) fn usage_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let parts = text.lines().map(str::trim).filter(|part| !part.is_empty());
    let is_about_error =
        |part: &&str| !part.starts_with("Usage: ") && !part.starts_with("For more information");
    let mut line = String::new();
    for part in parts.take_while(is_about_error) {
        if !line.is_empty() {
            line.push_str(if line.ends_with(':') { " " } else { "; " });
        }
        line.push_str(part.strip_prefix("error: ").unwrap_or(part));
    }
    for (found, takes) in TAKES {
        line = line.replace(found, takes);
    }
    format!(
        "{line}; see: {} --help",
        command_named(std::env::args_os().skip(1))
    )
}

/// The command with which the arguments begin.
fn command_named(arguments: impl Iterator<Item = OsString>) -> String {
    let mut command = &Cli::command();
    let mut named = command.get_name().to_owned();
    for argument in arguments {
        let Some(sub) = command.find_subcommand(&argument) else {
            break;
        };
        named.push(' ');
        named.push_str(sub.get_name());
        command = sub;
    }
    named
}

/// What `holdfast generate` makes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Generated {
    /// A manual page for each command, and that of the settings files
    Man,
    /// Completions for bash, fish and zsh
    Completions,
    /// settings.md
    Settings,
    /// counters.md
    Counters,
    /// holdfast.toml and mobile.toml
    Examples,
}
