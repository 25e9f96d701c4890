// SPDX-License-Identifier: Apache-2.0
//! The `holdfast` command.

use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;

mod broker;
mod check;
mod cli;
mod command;
mod contain;
mod control;
mod counters;
mod demo;
mod gateway;
mod generate;
mod http;
mod interface;
mod keep;
mod lab_command;
mod link_command;
mod listen;
mod log;
mod metrics;
mod mobile;
mod outages;
mod runtime;
mod service;
mod settings;
mod setup;
mod status;
mod terminal;
mod top;
mod web;
mod workers;

use cli::{Command, usage_line};
use settings::{EXIT_USAGE, GatewayCommand, SettingsError};

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => {
            let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            if error.use_stderr() && !is_help {
                log::print_error(&usage_line(&error));
            } else {
                // Help that cannot be printed has no reader.
                let _ = error.print();
            }
            return if error.use_stderr() {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    // An experiment that panics fails alone, and its guards remove what it has made.
    if !matches!(cli.command, Command::Demo(_) | Command::Lab(_)) {
        contain::handle_panics(std::panic::take_hook());
    }
    let code = match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            log::print_error(&with_remedy(&error));
            if error.is::<SettingsError>() || lab_command::is_usage(&error) {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::FAILURE
            }
        }
    };
    log::finish();
    code
}

/// The error in one line. If the kernel refuses something only to this user, the remedy is always the same.
fn with_remedy(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let is_refused = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
    };
    if error.chain().any(is_refused) && !text.contains("as root") {
        return text + "; run as root";
    }
    text
}

/// Errors: there is no folder for temporary files.
fn check_temporary() -> anyhow::Result<()> {
    let folder = std::env::temp_dir();
    anyhow::ensure!(
        folder.is_dir(),
        "TMPDIR: {} is no folder; make it, or set another",
        folder.display()
    );
    Ok(())
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    if matches!(command, Command::Demo(_) | Command::Lab(_)) {
        check_temporary()?;
    }
    match command {
        Command::Demo(args) => return demo::run(&args),
        Command::Lab(args) => return lab_command::run(&args),
        Command::Setup(args) => return setup::run(&args),
        Command::Gateway(args) => match &args.command {
            None => gateway::run(&args)?,
            Some(GatewayCommand::Signal {
                address,
                event,
                socket,
            }) => {
                let request = control::ControlRequest::Link {
                    address: *address,
                    event: *event,
                };
                control::command(socket, &request)?;
            }
        },
        Command::Mobile(args) => mobile::run(&args)?,
        Command::Link(args) => link_command::run(&args)?,
        Command::Status(args) => status::run(&args)?,
        Command::Top(args) => top::run(&args)?,
        Command::Broker(args) => broker::run(args)?,
        Command::Generate { what, directory } => generate::run(what, &directory)?,
    }
    Ok(ExitCode::SUCCESS)
}
