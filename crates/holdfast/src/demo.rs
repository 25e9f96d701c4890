// SPDX-License-Identifier: Apache-2.0
//! `holdfast demo`: real transfers over a link with outages, without and with
//! Holdfast, side by side.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use holdfast_files as files;
use holdfast_lab::demo::{self, DemoLink, DemoRun, DemoSettings, LiveDemo};
use holdfast_link::OutageEffect;
use holdfast_settings::text::Listen;
use holdfast_testbed::stop::{Interrupted, StopFlag};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketType};

use crate::settings::SettingsError;

use crate::web;

/// What a shell gives a program that SIGINT ended: 128 and the signal's number.
const EXIT_INTERRUPTED: u8 = 130;

/// The lengths of the steady link's outages in seconds, unless given.
const OUTAGES_S: [f64; 2] = [3.0, 7.0];

/// See it: downloads and uploads over a link with outages, without and with Holdfast
///
/// Builds a fixed host, a gateway and a mobile host as network namespaces for each
/// run. By TCP nginx serves a file and curl downloads it over an emulated link; the
/// same bytes go by QUIC, and both ways. Needs root, nginx and curl; leaves nothing
/// behind.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast demo
  holdfast demo --scheme hold --outages 1,15 --congestion-control bbr
  holdfast demo --link train --no-signals
  holdfast demo --web
  holdfast demo --scheme keep --no-signals --json result.json")]
pub(crate) struct DemoArgs {
    /// Write the result as JSON to FILE; `-` is the standard output, instead
    /// of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Serve a page that shows it live, until Ctrl-C
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1:8484",
        value_parser = web::listen
    )]
    web: Option<Listen>,
    /// Only this scheme beside the plain run
    #[arg(long, value_name = "SCHEME", value_parser = ["auto", "keep", "hold", "mtcp-plus"])]
    scheme: Option<String>,
    /// The link
    #[arg(long, value_name = "LINK", default_value = "steady")]
    link: LinkArg,
    /// Lengths of the steady link's outages in seconds; 3,7 unless given; none: `--outages ''`
    #[arg(long, value_name = "SECONDS,...", value_parser = outages)]
    outages: Option<OutageLengths>,
    /// Send the gateway no signals: it has to detect the outages by silence
    #[arg(long)]
    no_signals: bool,
    /// The sender's congestion control
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion_control: String,
    /// Seed of the file and of the outages' times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What an outage does to the packets on the link and in its queue
    #[arg(long, value_name = "EFFECT", default_value = "lose")]
    outage_effect: EffectArg,
    /// Length of the file in MB; 25, over the train's link 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    megabytes: Option<u64>,
}

/// Lengths of outages in seconds.
#[derive(Clone, Debug, PartialEq)]
struct OutageLengths(Vec<f64>);

/// `--link`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LinkArg {
    /// 20 Mb/s, two outages
    Steady,
    /// As LTE in a train: the rate varies, and outages come in trains
    Train,
}

/// `--outage-effect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EffectArg {
    /// They are lost
    Lose,
    /// They are kept, and go on when the link returns
    Keep,
}

/// Runs the demo; status 1 if a run did not finish or a hash differs.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let (link, megabytes) = match args.link {
        LinkArg::Steady => (DemoLink::Steady, 25),
        LinkArg::Train => (DemoLink::Train, 10),
    };
    if let (DemoLink::Train, Some(_)) = (link, &args.outages) {
        let problem =
            "--outages: the train's link has outages of its own; leave out --outages or --link";
        return Err(SettingsError::of(problem).into());
    }
    check_congestion_control(&args.congestion_control)?;
    check_programs()?;
    let lengths = args.outages.clone();
    let lengths = lengths.unwrap_or_else(|| OutageLengths(OUTAGES_S.to_vec()));
    let settings = DemoSettings {
        holdfast: demo::own_binary()?,
        runs: match &args.scheme {
            Some(scheme) => DemoRun::all(&[scheme]),
            None => DemoRun::all(&["auto", "keep", "mtcp-plus"]),
        },
        link,
        outages_s: lengths.0,
        outage_effect: match args.outage_effect {
            EffectArg::Lose => OutageEffect::Lose,
            EffectArg::Keep => OutageEffect::Keep,
        },
        signals: !args.no_signals,
        congestion_control: args.congestion_control.clone(),
        seed: args.seed,
        bytes: args.megabytes.unwrap_or(megabytes) * 1_000_000,
    };
    let refused = |path: &PathBuf| format!("--json: {} cannot be written", path.display());
    if let Some(path) = args.json.as_ref().filter(|path| path.as_os_str() != "-") {
        // Checked before the transfers, not after them.
        files::check_overwritable(path, files::JSON_LINES).with_context(|| refused(path))?;
    }
    let stop = StopFlag::on_signals().context("cannot take over signals")?;
    let live = Arc::new(LiveDemo::default());
    let page = args.web.as_ref();
    let _server = page
        .map(|listen| web::serve_demo(listen, Arc::clone(&live)))
        .transpose()?;
    if let Some(listen) = page {
        eprintln!("watch it at {}", web::address(listen));
    }
    let report = match demo::run(&settings, &stop, &live) {
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("interrupted; nothing is left behind");
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
        result => result?,
    };
    let to_output = args
        .json
        .as_deref()
        .is_some_and(|path| path.as_os_str() == "-");
    if let Some(path) = &args.json {
        let text = serde_json::to_string(&report)? + "\n";
        if to_output {
            print!("{text}");
        } else {
            files::create(path, files::JSON_LINES)
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .with_context(|| refused(path))?;
        }
    }
    if !to_output {
        println!("{}", report.table());
    }
    if let Some(listen) = page {
        eprintln!("the page stays at {} until Ctrl-C", web::address(listen));
        stop.wait();
    }
    Ok(if report.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Errors: the kernel has neither the congestion control nor a module with it.
fn check_congestion_control(name: &str) -> anyhow::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    match set_tcp_congestion(socket, name) {
        Err(Errno::NOENT | Errno::INVAL) => {
            let known =
                holdfast_net::rtnl::read_sysctl("net.ipv4.tcp_available_congestion_control");
            let known = known.unwrap_or_default();
            let problem = format!("got `{name}`, takes one that this kernel has: {known}");
            Err(SettingsError::of(format!("--congestion-control: {problem}")).into())
        }
        // The demo runs as root, which may use all others.
        _ => Ok(()),
    }
}

/// Errors: a program of the TCP downloads is on no path.
fn check_programs() -> anyhow::Result<()> {
    let Some(path) = std::env::var_os("PATH") else {
        return Ok(());
    };
    for program in ["nginx", "curl"] {
        if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
            bail!(
                "{program}: not found in PATH; install it, on Debian: apt install nginx-light curl"
            );
        }
    }
    Ok(())
}

fn outages(text: &str) -> Result<OutageLengths, String> {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts
        .map(|part| match part.parse::<f64>() {
            Ok(seconds) if (0.01..=60.0).contains(&seconds) => Ok(seconds),
            _ => Err(format!(
                "got `{part}`, takes seconds from 0.01 to 60, as in 3,7"
            )),
        })
        .collect::<Result<_, _>>()
        .map(OutageLengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_lengths_in_seconds() {
        assert_eq!(outages("3, 7.5"), Ok(OutageLengths(vec![3.0, 7.5])));
        assert_eq!(outages(""), Ok(OutageLengths(Vec::new())));
        for text in ["0", "x", "3;7", "-1", "61"] {
            assert!(outages(text).unwrap_err().starts_with("got `"), "{text}");
        }
    }
}
