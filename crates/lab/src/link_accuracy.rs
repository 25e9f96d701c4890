// SPDX-License-Identifier: Apache-2.0
//! How exact `holdfast link` is in real time: the error of its rate and of its
//! delay.
//!
//! Two namespaces with the emulator between them; UDP packets of 1500 bytes
//! through it. For the rate the sender offers a fifth more than the link carries,
//! and what comes out is counted. For the delay the sender offers half of the
//! rate; the link model, fed with the very times of sending, says on a virtual
//! clock when each packet has to arrive, and the error is the actual arrival less
//! that. It holds all that a real run adds: the devices, the system calls, the
//! scheduler, the receiver's wake-up.

use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use comfy_table::Table;
use holdfast_link::{Instant, LinkModel, LinkSettings};
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use serde::Serialize;

use crate::statistics::median;

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
#[derive(Clone, Debug)]
pub struct LinkAccuracyOptions {
    /// The `holdfast` program.
    pub program: PathBuf,
    /// The link's rate in Mb/s.
    pub rate_mbit_per_s: f64,
    /// The link's propagation delay in milliseconds.
    pub delay_ms: f64,
    /// Length of each of the two parts of a run, in seconds.
    pub seconds: f64,
    /// Runs.
    pub runs: usize,
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LinkAccuracyRun {
    /// What came out, in Mb/s.
    pub rate_mbit_per_s: f64,
    /// Its distance from the link's rate in percent.
    pub rate_error_percent: f64,
    /// Arrival less the model's arrival, in milliseconds: median.
    pub delay_error_median_ms: f64,
    /// The 99th percentile of its absolute value.
    pub delay_error_p99_ms: f64,
    /// The largest absolute value.
    pub delay_error_max_ms: f64,
    /// Packets of the delay part that never arrived; the model loses none.
    pub missing_packets: u64,
}

/// All runs, and the medians over them.
#[derive(Clone, Debug, Serialize)]
pub struct LinkAccuracyReport {
    /// The link's rate in Mb/s.
    pub rate_mbit_per_s: f64,
    /// The link's propagation delay in milliseconds.
    pub delay_ms: f64,
    /// The runs.
    pub runs: Vec<LinkAccuracyRun>,
    /// The median of the runs' rate errors, without their sign, in percent.
    pub rate_error_percent: f64,
    /// The median of the runs' median delay errors, in milliseconds.
    pub delay_error_median_ms: f64,
    /// The median of the runs' 99th percentiles, in milliseconds.
    pub delay_error_p99_ms: f64,
}

impl LinkAccuracyReport {
    /// Whether the medians are what is promised: rate within 1%, delay within
    /// 1 ms.
    pub fn holds(&self) -> bool {
        self.rate_error_percent < 1.0 && self.delay_error_median_ms.abs() < 1.0
    }

    /// The table for people.
    pub fn table(&self) -> Table {
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

/// Runs the measurement.
///
/// # Errors
/// Namespaces or devices cannot be made (it takes root), or the emulator fails.
pub fn run(options: &LinkAccuracyOptions) -> anyhow::Result<LinkAccuracyReport> {
    let runs = (0..options.runs)
        .map(|_| run_once(options))
        .collect::<anyhow::Result<Vec<LinkAccuracyRun>>>()?;
    let median_of = |value: fn(&LinkAccuracyRun) -> f64| {
        median(runs.iter().map(value).collect()).unwrap_or(f64::NAN)
    };
    Ok(LinkAccuracyReport {
        rate_mbit_per_s: options.rate_mbit_per_s,
        delay_ms: options.delay_ms,
        rate_error_percent: median_of(|run| run.rate_error_percent.abs()),
        delay_error_median_ms: median_of(|run| run.delay_error_median_ms),
        delay_error_p99_ms: median_of(|run| run.delay_error_p99_ms),
        runs,
    })
}

fn run_once(options: &LinkAccuracyOptions) -> anyhow::Result<LinkAccuracyRun> {
    let (fh_ns, mh_ns) = (NetNs::new()?, NetNs::new()?);
    let path = |ns: &NetNs| format!("/proc/{}/fd/{}", std::process::id(), ns.as_fd().as_raw_fd());
    let mut command = NetNs::current()?.command(&options.program);
    command
        .args(["link", "--fh-ns", &path(&fh_ns), "--mh-ns", &path(&mh_ns)])
        .args(["--fh-address", &format!("{FH_ADDRESS}/30")])
        .args(["--mh-address", &format!("{MH_ADDRESS}/30")])
        .args(["--rate", &options.rate_mbit_per_s.to_string()])
        .args(["--delay", &options.delay_ms.to_string(), "--log", "-"])
        .stdout(Stdio::piped());
    let mut link = fh_ns
        .spawn_guarded(command)
        .context("the emulator cannot be started")?;
    // Its first line says that the devices are there. The pipe stays open to the
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

    let bits_per_s = options.rate_mbit_per_s * 1e6;
    let mut way = Way {
        sender: &sender,
        receiver: &receiver,
        first_number: 0,
    };
    let (_, arrivals) = way.transfer(bits_per_s * 1.2, options.seconds)?;
    let rate_mbit_per_s = rate_of(&arrivals)? / 1e6;
    let (sent, arrivals) = way.transfer(bits_per_s * 0.5, options.seconds)?;
    let mut errors_ms = delay_errors_ms(options, &sent, &arrivals)?;
    let delay_error_median_ms = median(errors_ms.clone()).unwrap_or(f64::NAN);
    for error in &mut errors_ms {
        *error = error.abs();
    }
    errors_ms.sort_by(f64::total_cmp);
    Ok(LinkAccuracyRun {
        rate_mbit_per_s,
        rate_error_percent: (rate_mbit_per_s / options.rate_mbit_per_s - 1.0) * 100.0,
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
struct Way<'a> {
    sender: &'a UdpSocket,
    receiver: &'a UdpSocket,
    /// The next transfer's first number: what a busy machine delivers after its
    /// transfer's end is not taken for the next one's.
    first_number: u64,
}

impl Way<'_> {
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
fn delay_errors_ms(
    options: &LinkAccuracyOptions,
    sent: &[Stamp],
    arrivals: &[Stamp],
) -> anyhow::Result<Vec<f64>> {
    let settings = LinkSettings {
        rate_mbit_per_s: Some(options.rate_mbit_per_s),
        delay_ms: options.delay_ms,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> LinkAccuracyOptions {
        LinkAccuracyOptions {
            program: PathBuf::new(),
            rate_mbit_per_s: 12.0,
            delay_ms: 25.0,
            seconds: 1.0,
            runs: 1,
        }
    }

    #[test]
    fn the_rate_is_that_after_the_warm_up() {
        // A burst at first, then a packet a millisecond: 12 Mb/s.
        let burst = (0..500).map(|n| (n, 1000 * n));
        let steady = (500..3000).map(|n| (n, n * 1_000_000));
        let arrivals: Vec<Stamp> = burst.chain(steady).collect();
        assert!((rate_of(&arrivals).unwrap() - 12e6).abs() < 1.0);
        assert!(rate_of(&[]).is_err());
    }

    #[test]
    fn an_error_is_the_time_by_which_a_packet_is_late() {
        let base = 1_000_000_000;
        let sent: Vec<Stamp> = (0..1000)
            .map(|n| (7000 + n, base + n * 2_000_000))
            .collect();
        // 1 ms to send, 25 ms on the way, 0.3 ms too late.
        let arrivals: Vec<Stamp> = sent.iter().map(|&(n, at)| (n, at + 26_300_000)).collect();
        let errors = delay_errors_ms(&options(), &sent, &arrivals).unwrap();
        assert!(errors.iter().all(|error| (error - 0.3).abs() < 1e-9));
        assert!(
            (800..1000).contains(&errors.len()),
            "the warm-up is left out"
        );
    }
}
