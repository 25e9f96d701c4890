// SPDX-License-Identifier: Apache-2.0
//! What the gateway costs where the processor is the limit: throughput of one
//! bulk flow and latency of a one-byte request and response, through the gateway
//! and by the kernel's forwarding alone, in short pairs by turns.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use serde::Serialize;

use crate::harness::{Harness, accept, connect, listen};
use crate::outage_matrix::median;
use crate::stop::StopFlag;
use crate::topology::{FH, TopologySettings, Wireless};

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
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Throughput in Mb/s of each pair: by the kernel alone, through the gateway.
    pub mbit_per_s: Vec<(f64, f64)>,
    /// Median of the pairs' ratios.
    pub ratio_median: f64,
    /// Median latency of a request and its response in microseconds, plain.
    pub plain_median_us: f64,
    /// 99th percentile, plain.
    pub plain_p99_us: f64,
    /// Median through the gateway.
    pub gateway_median_us: f64,
    /// 99th percentile through the gateway.
    pub gateway_p99_us: f64,
}

/// Measures both; nothing else should run at the time.
pub fn run(holdfast: &Path, settings: &CostSettings, stop: &StopFlag) -> anyhow::Result<Cost> {
    let topology = TopologySettings::new(holdfast, Wireless::Veth { mtu: 1500 });
    let mut harness = Harness::new("throughput", &topology, Some(&settings.scheme))?
        .context("no privilege to make namespaces")?;
    harness.stop_gateway()?;
    let mut mbit_per_s = Vec::new();
    let (mut plain_us, mut gateway_us) = (Vec::new(), Vec::new());
    for _ in 0..settings.pairs {
        stop.check()?;
        let plain = bulk_mbit_per_s(&harness, settings.each)?;
        plain_us.extend(request_times_us(&harness, settings.requests)?);
        harness.start_gateway()?;
        mbit_per_s.push((plain, bulk_mbit_per_s(&harness, settings.each)?));
        gateway_us.extend(request_times_us(&harness, settings.requests)?);
        harness.stop_gateway()?;
    }
    let ratios = mbit_per_s
        .iter()
        .map(|(plain, gateway)| gateway / plain)
        .collect();
    Ok(Cost {
        ratio_median: median(ratios).context("no pairs")?,
        plain_median_us: percentile(&mut plain_us, 50).context("no requests")?,
        plain_p99_us: percentile(&mut plain_us, 99).context("no requests")?,
        gateway_median_us: percentile(&mut gateway_us, 50).context("no requests")?,
        gateway_p99_us: percentile(&mut gateway_us, 99).context("no requests")?,
        mbit_per_s,
    })
}

fn connection(harness: &Harness) -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = listen(&harness.topology.fh, FH.v4.into(), PORT)?;
    let at_mh = connect(&harness.topology.mh, FH.v4.into(), PORT)?;
    Ok((accept(&listener)?.0, at_mh))
}

/// One flow from the FH to the MH, as fast as it goes.
fn bulk_mbit_per_s(harness: &Harness, each: Duration) -> anyhow::Result<f64> {
    let (mut at_fh, mut at_mh) = connection(harness)?;
    let sender = thread::spawn(move || {
        let chunk = vec![0; CHUNK_BYTES];
        // Ends when the MH has closed.
        while at_fh.write_all(&chunk).is_ok() {}
    });
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut read_for = |length: Duration| -> anyhow::Result<f64> {
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < length {
            let len = at_mh.read(&mut chunk)?;
            anyhow::ensure!(len > 0, "the FH closed");
            bytes += len;
        }
        Ok(bytes as f64 * 8.0 / 1e6 / start.elapsed().as_secs_f64())
    };
    read_for(WARM_UP)?;
    let rate = read_for(each)?;
    drop(at_mh);
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
    fn percentiles_are_values_that_were_measured() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 50), Some(51.0));
        assert_eq!(percentile(&mut values, 99), Some(100.0));
        assert_eq!(percentile(&mut [], 99), None);
    }
}
