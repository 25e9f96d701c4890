// SPDX-License-Identifier: Apache-2.0
//! How exact `holdfast link` is in real time: the error of its rate and of its delay.
//!
//! ```text
//! cargo bench -p holdfast --bench link -- --json FILE
//! ```
//!
//! Two namespaces with the emulator between them, and UDP packets of 1500 bytes. For the rate the
//! sender offers a fifth more than the link's rate, and the bench counts what arrives. For the
//! delay the sender offers half of the rate. The link model gets the real times of sending, and
//! computes on a virtual clock when each packet arrives. The error is the real arrival less the
//! computed one: devices, system calls, the scheduler, the receiver's wake-up.
//!
//! Needs root. Ends with status 1 if an error is above what is promised at 100 Mb/s: rate 1%,
//! delay 1 ms.

use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use comfy_table::Table;
use holdfast_lab::statistics::median;
use holdfast_link::{Instant, LinkModel, LinkSettings};
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use serde::Serialize;

const FH_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 77, 1);
const MH_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 77, 2);
const PORT: u16 = 7777;
/// A packet on the wire, and what of it is UDP payload.
const PACKET_BYTES: u64 = 1500;
const PAYLOAD_BYTES: usize = 1472;
/// Between two bursts of the sender.
const TICK: Duration = Duration::from_micros(500);
/// The start of a run, in which queues and processor settle, in seconds.
const WARM_UP_S: f64 = 0.2;
/// After this much silence the last packet has come.
const SILENCE: Duration = Duration::from_millis(500);
/// The sequence number of the packet that shows the way to be open.
const PROBE: u64 = u64::MAX;

/// What to measure.
#[derive(Parser)]
struct Args {
    /// Rate of the link in Mb/s
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Propagation delay of the link in milliseconds
    #[arg(long, default_value_t = 25.0)]
    delay: f64,
    /// Length of each of the two parts of a run, in seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Runs
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// File for the result as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize)]
struct Run {
    /// What arrived, in Mb/s.
    rate_mbit_per_s: f64,
    /// Its distance from the link's rate in percent.
    rate_error_percent: f64,
    /// Arrival less the model's arrival, in milliseconds: median.
    delay_error_median_ms: f64,
    /// The 99th percentile of its absolute value.
    delay_error_p99_ms: f64,
    /// The largest absolute value.
    delay_error_max_ms: f64,
    /// Packets of the delay part that never arrived; the model loses none.
    missing_packets: u64,
}

/// All runs, and the medians over them.
#[derive(Clone, Debug, Serialize)]
struct Report {
    /// The link's rate in Mb/s.
    rate_mbit_per_s: f64,
    /// The link's propagation delay in milliseconds.
    delay_ms: f64,
    /// The runs.
    runs: Vec<Run>,
    /// The median of the runs' rate errors, without their sign, in percent.
    rate_error_percent: f64,
    /// The median of the runs' median delay errors, in milliseconds.
    delay_error_median_ms: f64,
    /// The median of the runs' 99th percentiles, in milliseconds.
    delay_error_p99_ms: f64,
}

impl Report {
    /// Whether the medians are within what is promised.
    fn holds(&self) -> bool {
        self.rate_error_percent < 1.0 && self.delay_error_median_ms.abs() < 1.0
    }

    /// The table for people.
    fn table(&self) -> Table {
        let mut table = Table::new();
        table.set_header([
            "run",
            "rate Mb/s",
            "error %",
            "delay error ms, median",
            "99%",
            "max",
            "missing",
        ]);
        for (i, run) in self.runs.iter().enumerate() {
            table.add_row([
                (i + 1).to_string(),
                format!("{:.3}", run.rate_mbit_per_s),
                format!("{:+.3}", run.rate_error_percent),
                format!("{:+.3}", run.delay_error_median_ms),
                format!("{:.3}", run.delay_error_p99_ms),
                format!("{:.3}", run.delay_error_max_ms),
                run.missing_packets.to_string(),
            ]);
        }
        table.add_row([
            "median".to_owned(),
            String::new(),
            format!("{:.3}", self.rate_error_percent),
            format!("{:+.3}", self.delay_error_median_ms),
            format!("{:.3}", self.delay_error_p99_ms),
            String::new(),
            String::new(),
        ]);
        table
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let runs = (0..args.runs).map(|_| run_once(&args));
    let runs: Vec<Run> = runs.collect::<anyhow::Result<_>>()?;
    let median_of =
        |value: fn(&Run) -> f64| median(runs.iter().map(value).collect()).unwrap_or(f64::NAN);
    let report = Report {
        rate_mbit_per_s: args.rate,
        delay_ms: args.delay,
        rate_error_percent: median_of(|run| run.rate_error_percent.abs()),
        delay_error_median_ms: median_of(|run| run.delay_error_median_ms),
        delay_error_p99_ms: median_of(|run| run.delay_error_p99_ms),
        runs,
    };
    println!(
        "holdfast link at {} Mb/s, {} ms, {} runs",
        args.rate, args.delay, args.runs
    );
    println!("{}", report.table());
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("--json: {} cannot be written", path.display()))?;
    }
    Ok(if report.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_once(args: &Args) -> anyhow::Result<Run> {
    let (fh_ns, mh_ns) = (NetNs::new()?, NetNs::new()?);
    let path = |ns: &NetNs| format!("/proc/{}/fd/{}", std::process::id(), ns.as_fd().as_raw_fd());
    let mut command = NetNs::current()?.command(env!("CARGO_BIN_EXE_holdfast"));
    command
        .args(["link", "--fh-ns", &path(&fh_ns), "--mh-ns", &path(&mh_ns)])
        .args(["--fh-address", &format!("{FH_ADDRESS}/30")])
        .args(["--mh-address", &format!("{MH_ADDRESS}/30")])
        .args(["--rate", &args.rate.to_string()])
        .args(["--delay", &args.delay.to_string(), "--log", "-"])
        .stdout(Stdio::piped());
    let mut link = fh_ns
        .spawn_guarded(command)
        .context("the emulator cannot be started")?;
    // Its first line reports that the devices are there. The pipe stays open to the
    // end: the emulator ends with its log.
    let mut log = BufReader::new(
        link.child()
            .stdout
            .take()
            .context("the emulator has no output")?,
    );
    let mut ready = String::new();
    log.read_line(&mut ready)?;
    ensure!(
        ready.contains("\"ready\""),
        "the emulator ended at once: {ready}"
    );
    let sender = fh_ns.run(|| UdpSocket::bind((FH_ADDRESS, 0)))??;
    let receiver = mh_ns.run(|| UdpSocket::bind((MH_ADDRESS, PORT)))??;
    sender.connect((MH_ADDRESS, PORT))?;
    wait_for_way(&sender, &receiver)?;

    let bits_per_s = args.rate * 1e6;
    let mut way = UdpPath {
        sender: &sender,
        receiver: &receiver,
        first_number: 0,
    };
    let (_, arrivals) = way.transfer(bits_per_s * 1.2, args.seconds)?;
    let rate_mbit_per_s = rate_of(&arrivals)? / 1e6;
    let (sent, arrivals) = way.transfer(bits_per_s * 0.5, args.seconds)?;
    let mut errors_ms = delay_errors_ms(args, &sent, &arrivals)?;
    let delay_error_median_ms = median(errors_ms.clone()).unwrap_or(f64::NAN);
    for error in &mut errors_ms {
        *error = error.abs();
    }
    errors_ms.sort_by(f64::total_cmp);
    Ok(Run {
        rate_mbit_per_s,
        rate_error_percent: (rate_mbit_per_s / args.rate - 1.0) * 100.0,
        delay_error_median_ms,
        delay_error_p99_ms: errors_ms[(errors_ms.len() - 1) * 99 / 100],
        delay_error_max_ms: errors_ms[errors_ms.len() - 1],
        missing_packets: (sent.len() - arrivals.len()) as u64,
    })
}

/// Sends until something comes through: devices come up in their own time.
fn wait_for_way(sender: &UdpSocket, receiver: &UdpSocket) -> anyhow::Result<()> {
    let mut payload = [0; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&PROBE.to_le_bytes());
    receiver.set_read_timeout(Some(SILENCE))?;
    for _ in 0..20 {
        sender.send(&payload)?;
        if receiver.recv(&mut [0; PAYLOAD_BYTES]).is_ok() {
            return Ok(());
        }
    }
    anyhow::bail!("no packet came through the emulator in 10 s")
}

/// A packet's number and the time at which it was sent or arrived.
type Stamp = (u64, u64);

/// Two sockets with the emulator between them.
struct UdpPath<'a> {
    sender: &'a UdpSocket,
    receiver: &'a UdpSocket,
    /// The next transfer's first number: what a busy machine delivers after its
    /// transfer's end is not taken for the next one's.
    first_number: u64,
}

impl UdpPath<'_> {
    /// Sends at `bits_per_s` for `seconds`; gives what was sent and what arrived.
    fn transfer(
        &mut self,
        bits_per_s: f64,
        seconds: f64,
    ) -> anyhow::Result<(Vec<Stamp>, Vec<Stamp>)> {
        let first = self.first_number;
        let (sent, mut arrived) = thread::scope(|scope| {
            let receiving = scope.spawn(|| receive_all(self.receiver));
            let sent = send_at_rate(self.sender, first, bits_per_s, seconds)?;
            let arrived = receiving
                .join()
                .map_err(|_| anyhow::anyhow!("the receiver failed"))??;
            anyhow::Ok((sent, arrived))
        })?;
        let numbers = first..first + sent.len() as u64;
        arrived.retain(|(number, _)| numbers.contains(number));
        self.first_number = numbers.end;
        Ok((sent, arrived))
    }
}

fn send_at_rate(
    sender: &UdpSocket,
    first: u64,
    bits_per_s: f64,
    seconds: f64,
) -> io::Result<Vec<Stamp>> {
    let (begin_ns, mut sent) = (monotonic_ns(), Vec::new());
    let mut payload = [0; PAYLOAD_BYTES];
    loop {
        let elapsed_s = (monotonic_ns() - begin_ns) as f64 / 1e9;
        if elapsed_s >= seconds {
            return Ok(sent);
        }
        let due = (elapsed_s * bits_per_s / (PACKET_BYTES * 8) as f64) as usize;
        while sent.len() < due {
            let number = first + sent.len() as u64;
            payload[..8].copy_from_slice(&number.to_le_bytes());
            let now_ns = monotonic_ns();
            sender.send(&payload)?;
            sent.push((number, now_ns));
        }
        thread::sleep(TICK);
    }
}

fn receive_all(receiver: &UdpSocket) -> io::Result<Vec<Stamp>> {
    receiver.set_read_timeout(Some(SILENCE))?;
    let (mut payload, mut arrived) = ([0; PAYLOAD_BYTES], Vec::new());
    loop {
        match receiver.recv(&mut payload) {
            Ok(_) => {
                let now_ns = monotonic_ns();
                let number = payload
                    .first_chunk()
                    .map_or(PROBE, |bytes| u64::from_le_bytes(*bytes));
                if number != PROBE {
                    arrived.push((number, now_ns));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(arrived),
            Err(error) => return Err(error),
        }
    }
}

/// Bit/s of what arrived, after the warm-up.
fn rate_of(arrivals: &[Stamp]) -> anyhow::Result<f64> {
    let from = arrivals.first().map_or(0, |first| first.1) + (WARM_UP_S * 1e9) as u64;
    let counted = &arrivals[arrivals.partition_point(|&(_, at)| at < from)..];
    let [first, .., last] = counted else {
        anyhow::bail!("next to nothing arrived")
    };
    let bits = (counted.len() as u64 - 1) * PACKET_BYTES * 8;
    Ok(bits as f64 * 1e9 / (last.1 - first.1) as f64)
}

/// Actual arrivals less those of the model on a virtual clock.
fn delay_errors_ms(args: &Args, sent: &[Stamp], arrivals: &[Stamp]) -> anyhow::Result<Vec<f64>> {
    let settings = LinkSettings {
        rate_mbit_per_s: Some(args.rate),
        delay_ms: args.delay,
        ..LinkSettings::default()
    };
    let mut model = LinkModel::new(&settings, 0)?;
    let first = sent.first().map_or(0, |first| first.0);
    let mut expected_ns = vec![0; sent.len()];
    for &(number, at_ns) in sent {
        model.enqueue(number, PACKET_BYTES, Instant::from_nanos(at_ns));
    }
    while let Some(at) = model.poll_timeout() {
        while let Some(departure) = model.poll_departure(at) {
            expected_ns[(departure.packet - first) as usize] = departure.at.as_nanos();
        }
    }
    let warm = sent.first().map_or(0, |first| first.1) + (WARM_UP_S * 1e9) as u64;
    let errors: Vec<f64> = arrivals
        .iter()
        .map(|&(number, at_ns)| (at_ns, expected_ns[(number - first) as usize]))
        .filter(|&(at_ns, expected_ns)| expected_ns > 0 && at_ns >= warm)
        .map(|(at_ns, expected_ns)| (at_ns as f64 - expected_ns as f64) / 1e6)
        .collect();
    ensure!(!errors.is_empty(), "no packet of the delay part arrived");
    Ok(errors)
}
