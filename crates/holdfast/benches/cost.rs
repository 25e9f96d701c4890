// SPDX-License-Identifier: Apache-2.0
//! Throughput either way and connections a second through the gateway divided by the
//! kernel's forwarding, and the latency of a one-byte request and response, by turns:
//!
//! ```text
//! cargo bench -p holdfast --bench cost -- --pairs 20
//! ```
//!
//! Root; nothing else should run.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clap::Parser;
use holdfast_core::Direction;
use holdfast_lab::statistics::median;
use holdfast_testbed::harness::{Harness, SOCKET_LIMIT, accept, connect, listen};
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{FH, TopologySettings, Wireless};
use serde::Serialize;

/// The FH's port.
const PORT: u16 = 700;
/// Bytes written and read at a time.
const CHUNK_BYTES: usize = 1 << 18;
/// What is left out at the beginning of each measurement.
const WARM_UP: Duration = Duration::from_millis(200);

/// What is to be measured.
#[derive(Parser)]
struct Args {
    /// The scheme
    #[arg(long, default_value = "hold")]
    scheme: String,
    /// Pairs of measurements, plain and through the gateway
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Length of one throughput measurement in milliseconds
    #[arg(long, default_value_t = 1000)]
    each_ms: u64,
    /// Requests of one latency measurement
    #[arg(long, default_value_t = 2000)]
    requests: usize,
    /// Connections of one measurement of their rate
    #[arg(long, default_value_t = 500)]
    connections: usize,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let cost = measure(&args, &StopFlag::on_signals()?)?;
    println!("{}", serde_json::to_string(&cost)?);
    for (what, unit, pairs) in [
        (
            "throughput of one flow, downlink",
            "Mb/s",
            &cost.downlink_mbit_per_s,
        ),
        (
            "throughput of one flow, uplink",
            "Mb/s",
            &cost.uplink_mbit_per_s,
        ),
        (
            "connections, one at a time",
            "a second",
            &cost.connections_per_s,
        ),
    ] {
        println!(
            "{what}: plain {:.0}, gateway {:.0} {unit}; gateway / plain {:.2} (medians of {} pairs)",
            pairs.plain_median,
            pairs.gateway_median,
            pairs.ratio_median,
            pairs.plain_and_gateway.len(),
        );
    }
    println!(
        "1-byte request-response: plain {:.0} us (p99 {:.0}), gateway {:.0} us (p99 {:.0}); \
         added {:.0} us (p99 {:.0})",
        cost.plain_median_us,
        cost.plain_p99_us,
        cost.gateway_median_us,
        cost.gateway_p99_us,
        cost.gateway_median_us - cost.plain_median_us,
        cost.gateway_p99_us - cost.plain_p99_us,
    );
    Ok(())
}

/// One quantity: by the kernel's forwarding alone, and through the gateway.
#[derive(Serialize)]
struct Pairs {
    /// Plain and through the gateway, measured one after the other.
    plain_and_gateway: Vec<(f64, f64)>,
    /// Median of the plain ones.
    plain_median: f64,
    /// Median of those through the gateway.
    gateway_median: f64,
    /// Median of the pairs' ratios, gateway by plain.
    ratio_median: f64,
}

impl Pairs {
    fn of(plain_and_gateway: Vec<(f64, f64)>) -> Option<Self> {
        let median_of =
            |value: fn(&(f64, f64)) -> f64| median(plain_and_gateway.iter().map(value).collect());
        Some(Self {
            plain_median: median_of(|pair| pair.0)?,
            gateway_median: median_of(|pair| pair.1)?,
            ratio_median: median_of(|pair| pair.1 / pair.0)?,
            plain_and_gateway,
        })
    }
}

/// What came out.
#[derive(Serialize)]
struct Cost {
    /// Throughput of one flow to the MH in Mb/s.
    downlink_mbit_per_s: Pairs,
    /// Throughput of one flow from the MH in Mb/s.
    uplink_mbit_per_s: Pairs,
    /// Connections a second, one at a time: opened by the MH, one byte, closed.
    connections_per_s: Pairs,
    /// Median latency of a request and its response in microseconds, plain.
    plain_median_us: f64,
    /// 99th percentile, plain.
    plain_p99_us: f64,
    /// Median through the gateway.
    gateway_median_us: f64,
    /// 99th percentile through the gateway.
    gateway_p99_us: f64,
}

/// What is measured by turns.
struct Turn {
    downlink: f64,
    uplink: f64,
    connections: f64,
}

/// Measures all of it; nothing else should run at the time.
fn measure(args: &Args, stop: &StopFlag) -> anyhow::Result<Cost> {
    let topology =
        TopologySettings::new(env!("CARGO_BIN_EXE_holdfast"), Wireless::Veth { mtu: 1500 });
    let mut harness = Harness::new("throughput", &topology, Some(&args.scheme))?
        .context("no privilege to make namespaces")?;
    harness.stop_gateway()?;
    let mut turns = Vec::new();
    let (mut plain_us, mut gateway_us) = (Vec::new(), Vec::new());
    for _ in 0..args.pairs {
        stop.check()?;
        let plain = turn(&harness, args, &mut plain_us)?;
        harness.start_gateway()?;
        let gateway = turn(&harness, args, &mut gateway_us)?;
        harness.stop_gateway()?;
        turns.push((plain, gateway));
    }
    let pairs = |value: fn(&Turn) -> f64| {
        let values = turns
            .iter()
            .map(|(plain, gateway)| (value(plain), value(gateway)));
        Pairs::of(values.collect()).context("no pairs")
    };
    Ok(Cost {
        downlink_mbit_per_s: pairs(|turn| turn.downlink)?,
        uplink_mbit_per_s: pairs(|turn| turn.uplink)?,
        connections_per_s: pairs(|turn| turn.connections)?,
        plain_median_us: percentile(&mut plain_us, 50).context("no requests")?,
        plain_p99_us: percentile(&mut plain_us, 99).context("no requests")?,
        gateway_median_us: percentile(&mut gateway_us, 50).context("no requests")?,
        gateway_p99_us: percentile(&mut gateway_us, 99).context("no requests")?,
    })
}

fn turn(harness: &Harness, args: &Args, requests_us: &mut Vec<f64>) -> anyhow::Result<Turn> {
    let downlink = bulk_mbit_per_s(
        harness,
        Direction::Downlink,
        Duration::from_millis(args.each_ms),
    )?;
    let uplink = bulk_mbit_per_s(
        harness,
        Direction::Uplink,
        Duration::from_millis(args.each_ms),
    )?;
    requests_us.extend(request_times_us(harness, args.requests)?);
    Ok(Turn {
        downlink,
        uplink,
        connections: connections_per_s(harness, args.connections)?,
    })
}

fn connection(harness: &Harness) -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = listen(&harness.topology.fh, FH.v4.into(), PORT)?;
    let at_mh = connect(&harness.topology.mh, FH.v4.into(), PORT)?;
    Ok((accept(&listener)?.0, at_mh))
}

/// One flow from end to end, as fast as it goes.
fn bulk_mbit_per_s(harness: &Harness, direction: Direction, each: Duration) -> anyhow::Result<f64> {
    let (at_fh, at_mh) = connection(harness)?;
    let (mut from, mut to) = match direction {
        Direction::Downlink => (at_fh, at_mh),
        Direction::Uplink => (at_mh, at_fh),
    };
    let sender = thread::spawn(move || {
        let chunk = vec![0; CHUNK_BYTES];
        // Ends when the other end has closed.
        while from.write_all(&chunk).is_ok() {}
    });
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut read_for = |length: Duration| -> anyhow::Result<f64> {
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < length {
            let len = to.read(&mut chunk)?;
            anyhow::ensure!(len > 0, "the sender closed");
            bytes += len;
        }
        Ok(bytes as f64 * 8.0 / 1e6 / start.elapsed().as_secs_f64())
    };
    read_for(WARM_UP)?;
    let rate = read_for(each)?;
    drop(to);
    sender
        .join()
        .map_err(|_| anyhow!("the sender's thread failed"))?;
    Ok(rate)
}

/// Times of one-byte requests and their responses over one connection.
fn request_times_us(harness: &Harness, requests: usize) -> anyhow::Result<Vec<f64>> {
    let (mut at_fh, mut at_mh) = connection(harness)?;
    at_fh.set_nodelay(true)?;
    at_mh.set_nodelay(true)?;
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while at_fh.read_exact(&mut byte).is_ok() && at_fh.write_all(&byte).is_ok() {}
    });
    let mut times = Vec::with_capacity(requests);
    let mut byte = [0];
    for _ in 0..requests {
        let start = Instant::now();
        at_mh.write_all(&byte)?;
        at_mh.read_exact(&mut byte)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    at_mh.shutdown(Shutdown::Both)?;
    echo.join()
        .map_err(|_| anyhow!("the echo's thread failed"))?;
    Ok(times)
}

/// Connections that the MH opens one after the other, each for one byte of the FH.
fn connections_per_s(harness: &Harness, connections: usize) -> anyhow::Result<f64> {
    let listener = listen(&harness.topology.fh, FH.v4.into(), PORT)?;
    let answers = thread::spawn(move || -> std::io::Result<()> {
        for _ in 0..connections {
            accept(&listener)?.0.write_all(b"x")?;
        }
        Ok(())
    });
    let address = SocketAddr::new(FH.v4.into(), PORT);
    // In the namespace for all of them: entering it is not what is measured.
    let opened = harness.topology.mh.run(|| -> std::io::Result<Duration> {
        let start = Instant::now();
        for _ in 0..connections {
            let mut stream = TcpStream::connect_timeout(&address, SOCKET_LIMIT)?;
            stream.set_read_timeout(Some(SOCKET_LIMIT))?;
            stream.read_exact(&mut [0])?;
        }
        Ok(start.elapsed())
    })??;
    answers
        .join()
        .map_err(|_| anyhow!("the FH's thread failed"))??;
    Ok(connections as f64 / opened.as_secs_f64())
}

/// The value below which `percent` of them lie.
fn percentile(values: &mut [f64], percent: usize) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values
        .get((values.len() * percent / 100).min(values.len().checked_sub(1)?))
        .copied()
}
