// SPDX-License-Identifier: Apache-2.0
//! `holdfast setup`: finds the interface, writes the settings file, checks, and starts the daemon.
//!
//! At most three questions: what the machine is, which interface, and whether to go on. Until the last
//! answer nothing is changed.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use holdfast_testbed::stop::StopFlag;
use serde::Serialize;

use crate::check::{Finding, problems};
use crate::runtime::DaemonKind;
use crate::settings::{GatewaySettings, MobileSettings, interface_name};
use crate::terminal::{escaped_line, print_text};
use crate::{gateway, mobile};

mod interfaces;
mod service;
mod target;

use interfaces::{Candidate, Machine};
use service::Service;
use target::Target;

/// The limit of interfaces that the question lists.
const LISTED_MAX: usize = 9;

/// Find the interface, write the settings file, check, and start the daemon
#[derive(Debug, clap::Args)]
#[command(
    after_help = "At most three questions on a terminal. Replaces no settings file without --force.

Examples:
  holdfast setup
  holdfast setup --dry-run --yes
  holdfast setup --role gateway --wireless wlan0 --yes
  holdfast setup --role mobile --wireless wwan0 --yes --no-start"
)]
pub(crate) struct SetupArgs {
    /// What this machine is: the router in front of the link, or the device that moves
    #[arg(long, value_enum)]
    role: Option<DaemonKind>,
    /// The interface toward the mobiles; on a mobile, that of its link
    #[arg(long, value_name = "IF", value_parser = interface_name)]
    wireless: Option<String>,
    /// Ask nothing, and take what is most likely
    #[arg(long, short)]
    yes: bool,
    /// Show the file and the check; write and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace the settings file if there is one, and keep the old one beside it
    #[arg(long)]
    force: bool,
    /// Enable and start no service
    #[arg(long)]
    no_start: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// The file to write; holdfast.toml or mobile.toml in /etc/holdfast unless given
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What is to be set up.
struct Plan {
    role: DaemonKind,
    interface: String,
    target: Target,
    text: String,
    findings: Vec<Finding>,
}

/// What was done, for `--json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    role: &'static str,
    interface: &'a str,
    file: &'a Path,
    settings: &'a str,
    findings: &'a [Finding],
    written: bool,
    backup: Option<PathBuf>,
    service: Service,
}

/// Runs `holdfast setup`; status 1 if the check has found a problem.
pub(crate) fn run(args: &SetupArgs) -> anyhow::Result<ExitCode> {
    let must_ask = args.role.is_none() || args.wireless.is_none() || !args.dry_run;
    if must_ask && !args.yes && !io::stdin().is_terminal() {
        bail!(
            "setup: no terminal to ask on; give --yes, and --role and --wireless if they are known"
        );
    }
    let plan = make_plan(args)?;
    let problems = problems(&plan.findings);
    if !args.json {
        print_plan(&plan)?;
    }
    let mut report = Report {
        role: plan.role.name(),
        interface: &plan.interface,
        file: plan.target.path(),
        settings: &plan.text,
        findings: &plan.findings,
        written: false,
        backup: None,
        service: Service::NotAsked,
    };
    if !args.dry_run {
        if !args.yes && !goes_on(args, &plan)? {
            bail!("setup: nothing was changed");
        }
        // From here on an interrupt ends setup between two steps, never within one.
        let stop = StopFlag::on_signals().context("cannot take over signals")?;
        report.backup = plan.target.write(&plan.text)?;
        report.written = true;
        stop.check()?;
        if !args.no_start {
            report.service = service::start(plan.role, &plan.target, problems)?;
        }
    }
    print_result(args, &report, problems)?;
    Ok(if problems > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn make_plan(args: &SetupArgs) -> anyhow::Result<Plan> {
    let machine = Machine::look()?;
    let role = match args.role {
        Some(role) => role,
        None if args.yes => machine.likely_role(),
        None => ask_role(machine.likely_role())?,
    };
    // Checked before the next question, whose answer may be in vain.
    let target = Target::find(args.config.as_deref(), role, args.force || args.dry_run)?;
    let candidates = machine.candidates(role);
    let interface = match &args.wireless {
        Some(name) => {
            if !machine.has(name) {
                bail!(
                    "--wireless: got {name}, which no daemon can serve or which is not there; takes one of {}",
                    names(&candidates)
                );
            }
            name.clone()
        }
        None if candidates.is_empty() => {
            bail!("setup: no interface was found that can be served; see: ip link")
        }
        None if args.yes => candidates[0].name.clone(),
        None => ask_interface(role, &candidates)?,
    };
    let text = machine.settings_text(role, &interface);
    let findings = match role {
        DaemonKind::Gateway => {
            gateway::check::run(&GatewaySettings::of_text(target.path(), &text)?)
        }
        DaemonKind::Mobile => mobile::check::run(&MobileSettings::of_text(target.path(), &text)?),
    };
    Ok(Plan {
        role,
        interface,
        target,
        text,
        findings,
    })
}

fn names(candidates: &[&Candidate]) -> String {
    let names = candidates.iter().take(LISTED_MAX);
    let names: Vec<&str> = names.map(|candidate| candidate.name.as_str()).collect();
    names.join(", ")
}

/// The answer to a question. An empty answer means the value in brackets.
///
/// Errors: there is no answer.
fn ask(question: &str) -> anyhow::Result<String> {
    // Not on standard output, which a script may read.
    let mut output = io::stderr();
    write!(output, "{} ", escaped_line(question))?;
    output.flush()?;
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        bail!("setup: no answer; nothing was changed");
    }
    Ok(answer.trim().to_owned())
}

fn ask_role(likely: DaemonKind) -> anyhow::Result<DaemonKind> {
    let question = format!(
        "Is this machine the router in front of the link (gateway), or the device that moves (mobile)? [{}]",
        likely.name()
    );
    loop {
        match ask(&question)?.as_str() {
            "" => return Ok(likely),
            "gateway" | "g" => return Ok(DaemonKind::Gateway),
            "mobile" | "m" => return Ok(DaemonKind::Mobile),
            _ => {}
        }
    }
}

fn ask_interface(role: DaemonKind, candidates: &[&Candidate]) -> anyhow::Result<String> {
    let candidates = &candidates[..candidates.len().min(LISTED_MAX)];
    for (number, candidate) in candidates.iter().enumerate() {
        eprintln!("  {}  {}", number + 1, candidate.description());
    }
    let toward = match role {
        DaemonKind::Gateway => "leads to the mobiles",
        DaemonKind::Mobile => "has the link that goes down",
    };
    let question = format!("Which interface {toward}? [{}]", candidates[0].name);
    loop {
        let answer = ask(&question)?;
        if answer.is_empty() {
            return Ok(candidates[0].name.clone());
        }
        let by_number = answer.parse::<usize>().ok();
        let by_number = by_number.and_then(|number| candidates.get(number.checked_sub(1)?));
        let by_name = || candidates.iter().find(|candidate| candidate.name == answer);
        if let Some(candidate) = by_number.or_else(by_name) {
            return Ok(candidate.name.clone());
        }
    }
}

fn goes_on(args: &SetupArgs, plan: &Plan) -> anyhow::Result<bool> {
    let file = plan.target.path().display();
    let starts = if args.no_start {
        String::new()
    } else {
        format!(" and start {}", service::unit(plan.role))
    };
    loop {
        match ask(&format!("Write {file}{starts}? [yes]"))?.as_str() {
            "" | "yes" | "y" => return Ok(true),
            "no" | "n" => return Ok(false),
            _ => {}
        }
    }
}

fn print_plan(plan: &Plan) -> anyhow::Result<()> {
    let mut text = format!("{}:\n", escaped_line(&plan.target.path().to_string_lossy()));
    for line in plan.text.lines() {
        text.push_str(format!("    {line}").trim_end());
        text.push('\n');
    }
    let findings = plan.findings.iter();
    text.extend(findings.map(|finding| format!("{finding}\n")));
    print_text(&text)
}

fn print_result(args: &SetupArgs, report: &Report<'_>, problems: usize) -> anyhow::Result<()> {
    if args.json {
        return print_text(&(serde_json::to_string_pretty(report)? + "\n"));
    }
    let mut text = String::new();
    if let Some(backup) = &report.backup {
        text += &format!("the old file is {}\n", backup.display());
    }
    if report.written {
        text += &format!("{} is written\n", report.file.display());
        text += &report.service.text(report.role, report.file, problems);
    } else {
        text += "nothing was written\n";
    }
    print_text(&text)
}
