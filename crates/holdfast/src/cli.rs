// SPDX-License-Identifier: Apache-2.0
//! The command line: one binary, one subcommand a task. The manual pages and the
//! completions are made from these types, so that they cannot differ.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::mobile::MobileArgs;
use crate::settings::GatewayArgs;
use crate::status::StatusArgs;
use crate::top::TopArgs;
use crate::{demo, lab_command, link_command, setup};

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
    /// Make the manual pages, the completions or the settings' documentation
    #[command(hide = true)]
    Generate {
        /// What to make
        what: Generated,
        /// The folder to make it in; it must be there
        directory: PathBuf,
    },
}

/// A wrong command line in one line: what is wrong, what is right, and the command whose help has more.
pub(crate) fn usage_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut line = String::new();
    let mut command = "holdfast";
    for part in text.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if let Some(usage) = part.strip_prefix("Usage: ") {
            // What follows in brackets are its arguments.
            let end = usage.find(['[', '<', '-']).unwrap_or(usage.len());
            command = usage[..end].trim();
            break;
        }
        if part.starts_with("For more information") {
            break;
        }
        if !line.is_empty() {
            line.push_str(if line.ends_with(':') { " " } else { "; " });
        }
        line.push_str(part.strip_prefix("error: ").unwrap_or(part));
    }
    format!("{line}; see: {command} --help")
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
    /// holdfast.toml and mobile.toml
    Examples,
}
