// SPDX-License-Identifier: Apache-2.0
//! The `holdfast` command.

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

mod check;
mod cli;
mod command;
mod contain;
mod control;
mod demo;
mod gateway;
mod generate;
mod keep;
mod lab_command;
mod link_command;
mod log;
mod mobile;
mod runtime;
mod settings;
mod setup;
mod status;
mod terminal;
mod top;

use cli::{Cli, Command, usage_line};
use settings::{EXIT_USAGE, GatewayCommand, SettingsError};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
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
            log::print_error(&format!("{error:#}"));
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

fn run(command: Command) -> anyhow::Result<ExitCode> {
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
        Command::Generate { what, directory } => generate::run(what, &directory)?,
    }
    Ok(ExitCode::SUCCESS)
}
