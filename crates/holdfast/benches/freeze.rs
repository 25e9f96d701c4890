// SPDX-License-Identifier: Apache-2.0
//! What the schemes of the mobile side do to a download through one outage, by sender and by how
//! long ahead the outage was announced; no gateway:
//!
//! ```text
//! cargo bench -p holdfast --bench freeze                          four minutes
//! cargo bench -p holdfast --bench freeze -- --repetitions 5 --policies none,2000@50,2000@250,today@250
//! ```
//!
//! One line for each: single runs unless `--repetitions` is given, then medians, and the least and
//! the most, of the stall (from the link's return to the first byte) and of the bytes received in
//! the whole run. Wall clock, namespaces, root; one run at a time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use holdfast_lab::statistics::median;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::ChildGuard;
use holdfast_testbed::download::{DownloadWatch, receive};
use holdfast_testbed::harness::{Harness, accept, connect, listen};
use holdfast_testbed::link_process::{EmulatedLink, MH_IF};
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{FH, TopologySettings, Wireless};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
const PORT: u16 = 700;
const CHUNK_BYTES: usize = 1 << 16;

/// What is to be measured.
#[derive(Parser)]
struct Args {
    /// The senders
    #[arg(long, value_delimiter = ',', default_value = "cubic,reno,bbr")]
    senders: Vec<String>,
    /// Schemes, each with the announcement in milliseconds before the outage where it has one
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "none,fast-retransmit,2000@100,2000@500,today@500"
    )]
    policies: Vec<String>,
    /// Length of the outage in seconds
    #[arg(long, default_value_t = 3.0)]
    outage: f64,
    /// Packets in the link's queue
    #[arg(long, default_value_t = 200)]
    queue: u32,
    /// Seconds from the outage to the end of the run; stalls that are longer are shown as that, with
    /// a `>`
    #[arg(long, default_value_t = 6.0)]
    after: f64,
    /// Repetitions of each
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// Time from the start of the link's clock to the outage.
const OUTAGE_AT_S: f64 = 3.0;

/// One run's outcome.
#[derive(Clone, Copy)]
struct Outcome {
    stall_ms: u64,
    received: u64,
    frozen: u64,
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

fn wait_until(at_ns: u64) {
    let left = at_ns.saturating_sub(monotonic_ns());
    thread::sleep(Duration::from_nanos(left));
}

/// One request on the daemon's socket, and its answer.
fn ask(socket: &Path, request: &str) -> anyhow::Result<serde_json::Value> {
    let mut stream = UnixStream::connect(socket)?;
    writeln!(stream, "{request}")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// The daemon at the MH, as soon as it answers; none for the scheme `none`.
fn start_mobile(
    harness: &Harness,
    scheme: &str,
    socket: &Path,
) -> anyhow::Result<Option<ChildGuard>> {
    let mut command = harness.topology.mh.command(HOLDFAST);
    command.args(["mobile", "--iface", MH_IF]);
    match scheme {
        "none" => return Ok(None),
        "fast-retransmit" => command.args(["--scheme", "fast-retransmit"]),
        set => command.args(["--scheme", "freeze", "--freeze-set", set]),
    };
    command.arg("--control-socket").arg(socket);
    command.stderr(Stdio::null());
    let child = harness.topology.mh.spawn_guarded(command)?;
    let answers = || Ok(ask(socket, r#"{"command":"status"}"#).ok().map(|_| ()));
    StopFlag::default().wait_for("the daemon answers", Duration::from_secs(10), answers)?;
    Ok(Some(child))
}

fn run(args: &Args, sender: &str, policy: &str, seed: u64) -> anyhow::Result<Outcome> {
    let (scheme, lead_ms) = match policy.split_once('@') {
        Some((set, lead)) => (set, Some(lead.parse::<u64>()?)),
        None => (policy, None),
    };
    let link = EmulatedLink {
        queue_packets: args.queue,
        seed,
        ..EmulatedLink::with_outage(OUTAGE_AT_S, args.outage)
    };
    let mut settings = TopologySettings::new(HOLDFAST, Wireless::Emulated(link));
    settings.congestion_control = sender.into();
    let harness = Harness::new("bench freeze", &settings, None)?;
    let mut harness = harness.context("no namespaces")?;
    let socket = harness.folder().join("mobile.sock");
    let _mobile = start_mobile(&harness, scheme, &socket)?;
    let fh: IpAddr = FH.v4.into();
    let listener = listen(&harness.topology.fh, fh, PORT)?;
    let at_mh = connect(&harness.topology.mh, fh, PORT)?;
    let (at_fh, _) = accept(&listener)?;
    let start_ns = monotonic_ns();
    let link = harness.topology.cells[0].link.as_mut();
    link.context("no link")?.start_clock(start_ns)?;
    let outage_ns = start_ns + ns(OUTAGE_AT_S);
    let returns_ns = outage_ns + ns(args.outage);
    let watch = DownloadWatch::default();
    let seen = watch.clone();
    let ends = [at_mh.try_clone()?, at_fh.try_clone()?];
    let receiver = thread::spawn(move || receive(&at_mh, &seen));
    let sending = thread::spawn(move || send_for_ever(&at_fh));
    let mut frozen = 0;
    if let Some(lead_ms) = lead_ms {
        wait_until(outage_ns - lead_ms * 1_000_000);
        let request =
            format!(r#"{{"command":"signal","event":"going-down-soon","lead_ms":{lead_ms}}}"#);
        ask(&socket, &request)?;
        wait_until(outage_ns + ns(0.2));
        let status = ask(&socket, r#"{"command":"status"}"#)?;
        frozen = status["counters"]["host.frozen"].as_u64().unwrap_or(0);
    }
    wait_until(returns_ns + ns(args.after));
    for end in ends {
        end.shutdown(Shutdown::Both)?;
    }
    let received = receiver
        .join()
        .map_err(|_| anyhow::anyhow!("the receiver failed"))?;
    drop(harness);
    let _ = sending.join();
    ensure!(received.bytes() > 0, "nothing arrived");
    Ok(Outcome {
        stall_ms: received
            .stall_ms(returns_ns)
            .min(ns(args.after) / 1_000_000),
        received: received.bytes(),
        frozen,
    })
}

fn send_for_ever(mut stream: &TcpStream) {
    let chunk = vec![0x5a; CHUNK_BYTES];
    while stream.write_all(&chunk).is_ok() {}
}

/// The median of a figure of some runs, the least and the most.
fn spread(runs: &[Outcome], figure: impl Fn(&Outcome) -> f64) -> [f64; 3] {
    let figures: Vec<_> = runs.iter().map(figure).collect();
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [median(figures).unwrap_or(f64::NAN), least, most]
}

fn stall_text(stall_ms: f64, after_s: f64) -> String {
    let is_seen = stall_ms < after_s * 1e3;
    format!("{}{stall_ms:.0}", if is_seen { "" } else { "> " })
}

/// The line of one sender and policy.
fn line(args: &Args, sender: &str, policy: &str, runs: &[Outcome]) -> String {
    let stalls = spread(runs, |run| run.stall_ms as f64);
    let [stall, least, most] = stalls.map(|stall| stall_text(stall, args.after));
    let [bytes, fewest, best] = spread(runs, |run| run.received as f64 / 1e6);
    let [frozen, ..] = spread(runs, |run| run.frozen as f64);
    format!(
        "| {sender} | {policy} | {stall} ({least} to {most}) | \
         {bytes:.1} ({fewest:.1} to {best:.1}) | {frozen:.0} | {} |",
        runs.len()
    )
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let total = args.repetitions * args.senders.len() * args.policies.len();
    let (mut done, mut failures) = (0, 0);
    println!("| sender | policy | stall, ms | received, MB | flows frozen | runs |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for sender in &args.senders {
        let mut runs = vec![Vec::new(); args.policies.len()];
        // One policy after another, so that a busy minute is no policy's own.
        for seed in 1..=args.repetitions as u64 {
            for (policy, runs) in args.policies.iter().zip(&mut runs) {
                match run(&args, sender, policy, seed) {
                    Ok(outcome) => runs.push(outcome),
                    Err(error) => {
                        failures += 1;
                        eprintln!("{sender} {policy}: {error:#}");
                    }
                }
                done += 1;
                eprint!("\r{done}/{total}");
            }
        }
        for (policy, runs) in args.policies.iter().zip(&runs) {
            if !runs.is_empty() {
                println!("{}", line(&args, sender, policy, runs));
            }
        }
    }
    ensure!(failures == 0, "{failures} of {total} runs failed");
    Ok(())
}
