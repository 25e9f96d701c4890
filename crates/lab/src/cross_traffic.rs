// SPDX-License-Identifier: Apache-2.0
//! Datagrams at a constant mean rate between two hosts of a topology, beside a transfer.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::appointed::{Appointed, sleep_until};
use holdfast_testbed::topology::{FH, GATEWAY_WIRED, GATEWAY_WIRELESS, MH, Topology};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::results::DatagramFigures;
use crate::scenario::Stretch;

/// IPv4 and UDP headers.
const HEADER_BYTES: u32 = 28;
/// Bytes of the send time at the begin of a datagram. A shorter datagram is counted, but not timed.
const STAMP_BYTES: usize = 8;
/// How often the receiver checks whether the stream is over while no datagram arrives.
const RECEIVE_WAIT: Duration = Duration::from_millis(50);

/// A stream of datagrams to be sent.
#[derive(Clone, Debug)]
pub struct DatagramStream {
    /// The part of the path.
    pub over: Stretch,
    /// Toward the MH, or from it.
    pub downlink: bool,
    /// Rate in bits of IP packets a second.
    pub rate_bit_per_s: f64,
    /// Bytes of each IP packet, at least 28.
    pub packet_bytes: u32,
    /// Start of the stream, since the links' start.
    pub start: Duration,
    /// End of the stream, since the links' start.
    pub stop: Duration,
    /// Whether the gaps are exponential, with the same mean; otherwise they are equal.
    pub poisson: bool,
    /// Seed of the gaps.
    pub seed: u64,
}

/// A running stream; it ends when dropped.
#[derive(Debug)]
pub struct RunningStream {
    sender: Appointed<u64>,
    receiver: Appointed<Arrived>,
}

/// What the receiver of a stream has seen.
#[derive(Debug, Default)]
struct Arrived {
    datagrams: u64,
    delays_ms: Vec<f64>,
}

impl RunningStream {
    /// Ends the stream, and returns its figures.
    pub fn finish(self) -> anyhow::Result<DatagramFigures> {
        let sent = self.sender.finish()?;
        let Arrived {
            datagrams: arrived,
            mut delays_ms,
        } = self.receiver.finish()?;
        delays_ms.sort_by(f64::total_cmp);
        let percentile = |percent: usize| delays_ms.get(delays_ms.len() * percent / 100).copied();
        Ok(DatagramFigures {
            sent,
            arrived,
            delay_median_ms: percentile(50),
            delay_p95_ms: percentile(95),
        })
    }
}

impl DatagramStream {
    /// Starts the stream; `origin_ns` is the links' start on CLOCK_MONOTONIC.
    pub fn start(&self, topology: &Topology, origin_ns: u64) -> anyhow::Result<RunningStream> {
        let (gateway_to_fh, gateway_to_mh) = (GATEWAY_WIRED.v4, GATEWAY_WIRELESS.v4);
        let (fh, gateway, mh) = (&topology.fh, topology.gateway(), &topology.mh);
        let ends = match self.over {
            Stretch::Wired => [(fh, FH.v4), (gateway, gateway_to_fh)],
            Stretch::Wireless => [(gateway, gateway_to_mh), (mh, MH.v4)],
            Stretch::Both => [(fh, FH.v4), (mh, MH.v4)],
        };
        let [(from, source), (to, sink)] = if self.downlink {
            ends
        } else {
            [ends[1], ends[0]]
        };
        let bound = |ns: &holdfast_net::netns::NetNs, address| {
            ns.run(|| UdpSocket::bind(SocketAddr::from((address, 0))))?
                .with_context(|| format!("cross traffic: cannot open a socket at {address}"))
        };
        let sink_socket = bound(to, sink)?;
        let socket = bound(from, source)?;
        socket.connect(sink_socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        let stream = self.clone();
        sink_socket.set_read_timeout(Some(RECEIVE_WAIT))?;
        Ok(RunningStream {
            sender: Appointed::start(move |over| Ok(stream.send(&socket, origin_ns, over))),
            receiver: Appointed::start(move |over| receive(&sink_socket, over)),
        })
    }

    /// Sends until the end; returns the number of datagrams sent.
    fn send(&self, socket: &UdpSocket, origin_ns: u64, over: &AtomicBool) -> u64 {
        let mut payload = vec![0; self.packet_bytes.saturating_sub(HEADER_BYTES) as usize];
        let mut sent = 0;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut due_s = self.start.as_secs_f64();
        while due_s < self.stop.as_secs_f64() {
            if !sleep_until(origin_ns + (due_s * 1e9) as u64, over) {
                return sent;
            }
            if let Some(stamp) = payload.first_chunk_mut::<STAMP_BYTES>() {
                *stamp = monotonic_ns().to_be_bytes();
            }
            // A datagram that the queue does not take is lost, as on any link.
            let _ = socket.send(&payload);
            sent += 1;
            due_s += self.gap_s(&mut rng);
        }
        sent
    }

    /// The time from one datagram to the next, in seconds.
    fn gap_s(&self, rng: &mut ChaCha8Rng) -> f64 {
        let mean_s = f64::from(self.packet_bytes) * 8.0 / self.rate_bit_per_s;
        if !self.poisson {
            return mean_s;
        }
        // Uniform in (0, 1]: its logarithm is finite.
        let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -mean_s * uniform.ln()
    }
}

/// Receives datagrams until the stream is over.
fn receive(socket: &UdpSocket, over: &AtomicBool) -> anyhow::Result<Arrived> {
    let mut arrived = Arrived::default();
    let mut payload = [0; STAMP_BYTES];
    while !over.load(Ordering::Relaxed) {
        match socket.recv(&mut payload) {
            Ok(length) => {
                arrived.datagrams += 1;
                if length == STAMP_BYTES {
                    let delay_ns = monotonic_ns().saturating_sub(u64::from_be_bytes(payload));
                    arrived.delays_ms.push(delay_ns as f64 / 1e6);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error).context("cross traffic: cannot receive"),
        }
    }
    Ok(arrived)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_of_the_rate() {
        let mut stream = DatagramStream {
            over: Stretch::Both,
            downlink: true,
            rate_bit_per_s: 12_000.0,
            packet_bytes: 1500,
            start: Duration::ZERO,
            stop: Duration::from_secs(1),
            poisson: false,
            seed: 1,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert!((stream.gap_s(&mut rng) - 1.0).abs() < 1e-9);
        stream.poisson = true;
        let gaps: Vec<f64> = (0..10_000).map(|_| stream.gap_s(&mut rng)).collect();
        let mean = gaps.iter().sum::<f64>() / 1e4;
        assert!((mean - 1.0).abs() < 0.05, "{mean}");
        assert!(gaps.iter().all(|gap| gap.is_finite() && *gap >= 0.0));
    }
}
