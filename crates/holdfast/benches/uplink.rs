// SPDX-License-Identifier: Apache-2.0
//! What `auto` on the mobile costs a bulk upload where there is no outage: throughput, the round trip
//! by the sender's socket, the queue in the device, and the processor time of the machine and of the daemon, in
//! alternating pairs.
//!
//! ```text
//! cargo bench -p holdfast --bench uplink -- --pairs 9
//! ```
//!
//! The mobile's interface has a token bucket of 1 Gb/s; the path beyond it takes no time. So the round
//! trip is the queue in the device, which TSQ limits. Root; nothing else should run. The exit status
//! is not 0 if throughput is below 0.98 of that without, or the queue is longer.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use clap::Parser;
use holdfast_lab::statistics::median;
use holdfast_net::netns::NetNs;
use holdfast_net::tcp_info::TcpInfo;
use holdfast_testbed::daemons::Daemon;
use holdfast_testbed::harness::{Harness, accept, connect, listen};
use holdfast_testbed::link_process::MH_IF;
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{FH, TopologySettings, Wireless};
use serde::Serialize;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
/// The FH's port.
const PORT: u16 = 700;
/// Bytes written and read at a time.
const CHUNK_BYTES: usize = 1 << 18;
/// What is left out at the beginning of each measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// Between two samples of round trip and queue.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// USER_HZ, the unit of /proc/stat.
const TICKS_PER_SECOND: f64 = 100.0;
/// The least that throughput with the daemon may be of that without.
const RATIO_MIN: f64 = 0.98;
/// The most that round trip and queue with the daemon may be of those without: what samples scatter.
const QUEUE_RATIO_MAX: f64 = 1.1;

/// What is to be measured.
#[derive(Parser)]
struct Args {
    /// Pairs of uploads, without the daemon and with it
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Length of one upload in milliseconds
    #[arg(long, default_value_t = 2000)]
    each_ms: u64,
    /// Rate of the mobile's interface in Mb/s
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// The sender's congestion control
    #[arg(long, default_value = "cubic")]
    sender: String,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// One upload.
#[derive(Clone, Copy, Debug, Serialize)]
struct Upload {
    mbit_per_s: f64,
    /// Median of the sender's smoothed round trip.
    round_trip_us: f64,
    /// Median of the bytes in the device's queue.
    queue_bytes: f64,
    /// Processor time of the whole machine, kernel and interrupts included, by the time of the upload.
    machine: f64,
    /// The daemon's alone; 0 without a daemon.
    daemon: f64,
}

/// Without the daemon, and with it.
type Pair = [Upload; 2];

/// One of its figures.
type Figure = fn(&Upload) -> f64;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let pairs = measure(&args, &StopFlag::on_signals()?)?;
    println!("{}", serde_json::to_string(&pairs)?);
    let medians = |figure: Figure| -> anyhow::Result<[f64; 2]> {
        let of_side = |side: usize| median(pairs.iter().map(|pair| figure(&pair[side])).collect());
        Ok([
            of_side(0).context("no pairs")?,
            of_side(1).context("no pairs")?,
        ])
    };
    let ratio = |figure: Figure| {
        let ratios = pairs
            .iter()
            .map(|[plain, auto]| figure(auto) / figure(plain));
        median(ratios.collect()).context("no pairs")
    };
    let figures: [(&str, &str, Figure); 3] = [
        ("throughput", "Mb/s", |upload| upload.mbit_per_s),
        ("round trip", "us", |upload| upload.round_trip_us),
        ("queue in the device", "bytes", |upload| upload.queue_bytes),
    ];
    for (what, unit, figure) in figures {
        let [plain, auto] = medians(figure)?;
        println!(
            "{what}: plain {plain:.0}, auto {auto:.0} {unit}; auto / plain {:.3} (medians of {} pairs)",
            ratio(figure)?,
            pairs.len(),
        );
    }
    let [plain, auto] = medians(|upload| upload.machine)?;
    let [_, daemon] = medians(|upload| upload.daemon)?;
    println!(
        "processors, sender and receiver included: plain {plain:.2}, auto {auto:.2} of one; the daemon {daemon:.2}"
    );
    let throughput = ratio(|upload| upload.mbit_per_s)?;
    ensure!(
        throughput >= RATIO_MIN,
        "throughput is {throughput:.3} of plain, less than {RATIO_MIN}"
    );
    let longer: [(&str, Figure); 2] = [
        ("round trip", |upload| upload.round_trip_us),
        ("queue in the device", |upload| upload.queue_bytes),
    ];
    for (what, figure) in longer {
        let ratio = ratio(figure)?;
        ensure!(
            ratio <= QUEUE_RATIO_MAX,
            "the {what} is {ratio:.3} of plain, more than {QUEUE_RATIO_MAX}"
        );
    }
    Ok(())
}

/// Measures all of it; nothing else should run at the time.
fn measure(args: &Args, stop: &StopFlag) -> anyhow::Result<Vec<Pair>> {
    let settings = TopologySettings {
        congestion_control: args.sender.clone(),
        ..TopologySettings::new(HOLDFAST, Wireless::Veth { mtu: 1500 })
    };
    let harness =
        Harness::new("uplink", &settings, None)?.context("no privilege to make namespaces")?;
    let bucket = format!(
        "qdisc add dev {MH_IF} root tbf rate {}mbit burst 256k latency 50ms",
        args.rate
    );
    tc(&harness.topology.mh, &bucket)?;
    let mut pairs = Vec::new();
    for number in 0..args.pairs {
        let mut pair = Vec::new();
        for side in 0..2 {
            stop.check()?;
            // Neither of them is always the first one.
            let with_daemon = (side + number) % 2 == 1;
            pair.push((with_daemon, upload(args, &harness, with_daemon, stop)?));
        }
        pair.sort_by_key(|(with_daemon, _)| *with_daemon);
        pairs.push([pair[0].1, pair[1].1]);
    }
    Ok(pairs)
}

fn tc(ns: &NetNs, arguments: &str) -> anyhow::Result<Vec<u8>> {
    let mut command = ns.command("tc");
    command.args(arguments.split(' '));
    let output = command.output().context("cannot start tc")?;
    ensure!(
        output.status.success(),
        "tc {arguments}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output.stdout)
}

/// One flow from the MH to the FH, as fast as it goes.
fn upload(
    args: &Args,
    harness: &Harness,
    with_daemon: bool,
    stop: &StopFlag,
) -> anyhow::Result<Upload> {
    let topology = &harness.topology;
    let mut daemon = None;
    if with_daemon {
        let settings = "scheme = \"auto\"";
        let folder = harness.folder();
        let holdfast = HOLDFAST.as_ref();
        daemon = Some(Daemon::start_mobile(
            topology, holdfast, None, settings, folder, stop,
        )?);
    }
    let listener = listen(&topology.fh, FH.v4.into(), PORT)?;
    let at_mh = connect(&topology.mh, FH.v4.into(), PORT)?;
    let (at_fh, _) = accept(&listener)?;
    let mut sender = at_mh.try_clone()?;
    let sending = thread::spawn(move || {
        let chunk = vec![0; CHUNK_BYTES];
        // Ends when the other end has closed.
        while sender.write_all(&chunk).is_ok() {}
    });
    receive(&at_fh, WARM_UP)?;
    let processors = || -> anyhow::Result<[f64; 2]> {
        let of_daemon = daemon.as_ref().map(|daemon| processor_s(daemon.child.id()));
        Ok([machine_s()?, of_daemon.transpose()?.unwrap_or(0.0)])
    };
    let (before_s, began) = (processors()?, Instant::now());
    let (mh, is_over) = (&topology.mh, AtomicBool::new(false));
    let (mbit_per_s, samples) = thread::scope(|scope| {
        let samples = scope.spawn(|| sample(&at_mh, mh, &is_over));
        let rate = receive(&at_fh, Duration::from_millis(args.each_ms));
        is_over.store(true, Ordering::Relaxed);
        (rate, samples.join())
    });
    let (after_s, elapsed_s) = (processors()?, began.elapsed().as_secs_f64());
    let [machine, daemon_share] =
        [0, 1].map(|whose| (after_s[whose] - before_s[whose]) / elapsed_s);
    drop(at_fh);
    let joined = sending.join();
    joined.map_err(|_| anyhow!("the sender's thread failed"))?;
    if let Some(mut daemon) = daemon {
        let counters = &daemon.status()?["counters"];
        let count = |name: &str| counters[format!("tcp-path.{name}_downlink")].as_u64();
        ensure!(
            count("copied") > Some(0) && count("taken") == Some(0),
            "the daemon did not get copies alone: {counters}"
        );
        daemon.stop()?;
    }
    let samples = samples.map_err(|_| anyhow!("the sampling thread failed"))??;
    let (round_trips, queues) = samples.into_iter().unzip();
    Ok(Upload {
        mbit_per_s: mbit_per_s?,
        round_trip_us: median(round_trips).context("no samples")?,
        queue_bytes: median(queues).context("no samples")?,
        machine,
        daemon: daemon_share,
    })
}

/// Reads for this long; the rate in Mb/s.
fn receive(mut from: &TcpStream, length: Duration) -> anyhow::Result<f64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < length {
        let len = from.read(&mut chunk)?;
        ensure!(len > 0, "the sender closed");
        bytes += len;
    }
    Ok(bytes as f64 * 8.0 / 1e6 / start.elapsed().as_secs_f64())
}

/// The sender's round trip in microseconds and the bytes in the device's queue, until it is over.
fn sample(sender: &TcpStream, mh: &NetNs, is_over: &AtomicBool) -> anyhow::Result<Vec<(f64, f64)>> {
    let mut samples = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let shown = tc(mh, &format!("-s -j qdisc show dev {MH_IF}"))?;
        let shown: serde_json::Value = serde_json::from_slice(&shown)?;
        let backlog = shown[0]["backlog"].as_f64().context("no backlog")?;
        let round_trip_us = f64::from(TcpInfo::of(sender)?.rtt_us);
        samples.push((round_trip_us, backlog));
        thread::sleep(SAMPLE_INTERVAL);
    }
    Ok(samples)
}

/// What all processors have worked since the start of the machine, in seconds.
fn machine_s() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let times = stat.lines().next().context("/proc/stat is empty")?;
    let times = times.split_whitespace().skip(1).map(str::parse::<u64>);
    let times = times.collect::<Result<Vec<_>, _>>()?;
    // user, nice, system, idle, iowait, irq, softirq
    let worked = [0, 1, 2, 5, 6].map(|at| times.get(at).copied().unwrap_or(0));
    Ok(worked.iter().sum::<u64>() as f64 / TICKS_PER_SECOND)
}

/// What the threads of a process have used of processors, user and system, in seconds.
fn processor_s(id: u32) -> anyhow::Result<f64> {
    let mut used_ns = 0;
    for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let stat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let on_processor = stat.split_whitespace().next();
        used_ns += on_processor
            .context("no time in schedstat")?
            .parse::<u64>()?;
    }
    Ok(used_ns as f64 / 1e9)
}
