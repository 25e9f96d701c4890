// SPDX-License-Identifier: Apache-2.0
//! What the gateway costs where the processor is the limit: throughput of one
//! bulk flow either way, latency of a one-byte request and response, and connections
//! a second, through the gateway and by the kernel's forwarding alone, in short pairs
//! by turns.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use holdfast_core::Direction;
use holdfast_testbed::harness::{Harness, SOCKET_LIMIT, accept, connect, listen};
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{FH, TopologySettings, Wireless};
use serde::Serialize;

use crate::statistics::median;

/// The FH's port.
const PORT: u16 = 700;
/// Bytes written and read at a time.
const CHUNK_BYTES: usize = 1 << 18;
/// What is left out at the beginning of each measurement.
const WARM_UP: Duration = Duration::from_millis(200);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct CostSettings {
    /// The scheme.
    pub scheme: String,
    /// Pairs of measurements.
    pub pairs: usize,
    /// Length of one throughput measurement.
    pub each: Duration,
    /// Requests of one latency measurement.
    pub requests: usize,
    /// Connections of one measurement of their rate.
    pub connections: usize,
}

/// One quantity: by the kernel's forwarding alone, and through the gateway.
#[derive(Clone, Debug, Serialize)]
pub struct Pairs {
    /// Plain and through the gateway, measured one after the other.
    pub plain_and_gateway: Vec<(f64, f64)>,
    /// Median of the plain ones.
    pub plain_median: f64,
    /// Median of those through the gateway.
    pub gateway_median: f64,
    /// Median of the pairs' ratios, gateway by plain.
    pub ratio_median: f64,
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
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Throughput of one flow to the MH in Mb/s.
    pub downlink_mbit_per_s: Pairs,
    /// Throughput of one flow from the MH in Mb/s.
    pub uplink_mbit_per_s: Pairs,
    /// Connections a second, one at a time: opened by the MH, one byte, closed.
    pub connections_per_s: Pairs,
    /// Median latency of a request and its response in microseconds, plain.
    pub plain_median_us: f64,
    /// 99th percentile, plain.
    pub plain_p99_us: f64,
    /// Median through the gateway.
    pub gateway_median_us: f64,
    /// 99th percentile through the gateway.
    pub gateway_p99_us: f64,
}

/// What is measured by turns.
struct Turn {
    downlink: f64,
    uplink: f64,
    connections: f64,
}

/// Measures all of it; nothing else should run at the time.
pub fn run(holdfast: &Path, settings: &CostSettings, stop: &StopFlag) -> anyhow::Result<Cost> {
    let topology = TopologySettings::new(holdfast, Wireless::Veth { mtu: 1500 });
    let mut harness = Harness::new("throughput", &topology, Some(&settings.scheme))?
        .context("no privilege to make namespaces")?;
    harness.stop_gateway()?;
    let mut turns = Vec::new();
    let (mut plain_us, mut gateway_us) = (Vec::new(), Vec::new());
    for _ in 0..settings.pairs {
        stop.check()?;
        let plain = turn(&harness, settings, &mut plain_us)?;
        harness.start_gateway()?;
        let gateway = turn(&harness, settings, &mut gateway_us)?;
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

fn turn(
    harness: &Harness,
    settings: &CostSettings,
    requests_us: &mut Vec<f64>,
) -> anyhow::Result<Turn> {
    let downlink = bulk_mbit_per_s(harness, Direction::Downlink, settings.each)?;
    let uplink = bulk_mbit_per_s(harness, Direction::Uplink, settings.each)?;
    requests_us.extend(request_times_us(harness, settings.requests)?);
    Ok(Turn {
        downlink,
        uplink,
        connections: connections_per_s(harness, settings.connections)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_give_the_median_of_their_own_ratios() {
        let is = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        let pairs = Pairs::of(vec![(10.0, 5.0), (4.0, 4.0), (1.0, 2.0)]).unwrap();
        assert!(is(pairs.plain_median, 4.0) && is(pairs.gateway_median, 4.0));
        assert!(is(pairs.ratio_median, 1.0));
        // The ratio of the medians would be 1.
        let pairs = Pairs::of(vec![(10.0, 5.0), (4.0, 1.0), (1.0, 4.0)]).unwrap();
        assert!(is(pairs.ratio_median, 0.5));
        assert!(Pairs::of(Vec::new()).is_none());
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 50), Some(51.0));
        assert_eq!(percentile(&mut values, 99), Some(100.0));
        assert_eq!(percentile(&mut [], 99), None);
    }
}
