// SPDX-License-Identifier: Apache-2.0
//! The sender's socket over time, from its TCP_INFO.

use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::tcp_info::TcpInfo;
use serde::{Deserialize, Serialize};

/// The largest number of points; the series ends there.
const SAMPLES_MAX: usize = 1_000_000;

/// The state of the connection at one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketSample {
    /// Time since the links' start, in seconds.
    pub t_s: f64,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow start threshold, bytes; 0: none yet.
    pub ssthresh: u64,
    /// The receiver's window as the sender knows it, bytes; 0 if the kernel is too old to report
    /// it.
    pub rwnd: u64,
    /// Bytes acknowledged.
    pub snd_una: u64,
    /// Bytes sent at least once.
    pub snd_nxt: u64,
}

impl SocketSample {
    /// The state at `t_s` from TCP_INFO. `opens`: this end opened the connection. `bytes` are sent
    /// on it.
    fn of(info: TcpInfo, t_s: f64, opens: bool, bytes: u64) -> Self {
        let mss = u64::from(info.snd_mss);
        let in_bytes = |segments: u32| u64::from(segments) * mss;
        Self {
            t_s,
            cwnd: in_bytes(info.snd_cwnd),
            ssthresh: info.snd_ssthresh.map_or(0, in_bytes),
            rwnd: info.snd_wnd.into(),
            // The kernel counts the SYN and the FIN as acknowledged bytes.
            snd_una: info.bytes_acked.saturating_sub(opens.into()).min(bytes),
            snd_nxt: info.bytes_sent.saturating_sub(info.bytes_retrans),
        }
    }
}

/// The points in time of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleTimes {
    /// The first one, CLOCK_MONOTONIC.
    pub(super) origin_ns: u64,
    /// From one point to the next, nanoseconds.
    pub(super) interval_ns: u64,
}

impl SampleTimes {
    /// The first point after `now_ns`.
    fn next_after(self, now_ns: u64) -> u64 {
        let past = now_ns.saturating_sub(self.origin_ns) / self.interval_ns;
        self.origin_ns + (past + 1) * self.interval_ns
    }
}

/// Queries the kernel at each point in time until it is finished or dropped.
pub(super) struct SocketSampler {
    /// The thread ends when this is dropped.
    _over: Sender<()>,
    thread: Option<JoinHandle<Vec<SocketSample>>>,
}

impl SocketSampler {
    /// Starts to sample `stream`. `opens`: this end opened the connection. `bytes` are sent on it.
    pub(super) fn start(
        stream: &TcpStream,
        times: SampleTimes,
        opens: bool,
        bytes: u64,
    ) -> io::Result<Self> {
        let stream = stream.try_clone()?;
        let (over, is_over) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            let mut due_ns = monotonic_ns();
            while samples.len() < SAMPLES_MAX {
                let wait = Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()));
                if is_over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                let Ok(info) = TcpInfo::of(&stream) else {
                    break;
                };
                let now_ns = monotonic_ns();
                let t_s = now_ns.saturating_sub(times.origin_ns) as f64 / 1e9;
                samples.push(SocketSample::of(info, t_s, opens, bytes));
                due_ns = times.next_after(now_ns);
            }
            samples
        });
        Ok(Self {
            _over: over,
            thread: Some(thread),
        })
    }

    /// Ends the sampling, and returns the samples.
    pub(super) fn finish(self) -> Vec<SocketSample> {
        let Self {
            _over: over,
            thread,
        } = self;
        drop(over);
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_multiples_of_the_interval_whenever_it_began() {
        let times = SampleTimes {
            origin_ns: 1_000,
            interval_ns: 100,
        };
        assert_eq!(
            [1_000, 1_001, 1_099, 1_100, 5_050].map(|now_ns| times.next_after(now_ns)),
            [1_100, 1_100, 1_100, 1_200, 5_100]
        );
        assert_eq!(times.next_after(10), 1_100, "before the links' start");
    }

    #[test]
    fn segments_become_bytes_and_the_syn_is_none() {
        let info = TcpInfo {
            backoff: 0,
            snd_mss: 1000,
            rtt_us: 50_000,
            snd_cwnd: 20,
            snd_ssthresh: Some(7),
            snd_wnd: 65_536,
            bytes_acked: 2_001,
            bytes_sent: 5_000,
            bytes_retrans: 1_000,
        };
        let sample = SocketSample::of(info, 0.5, true, 10_000);
        assert_eq!((sample.cwnd, sample.ssthresh), (20_000, 7_000));
        assert_eq!((sample.snd_una, sample.snd_nxt), (2_000, 4_000));
        let passive = SocketSample::of(info, 0.5, false, 2_000);
        assert_eq!(passive.snd_una, 2_000, "the FIN is no byte");
        let new = TcpInfo {
            snd_ssthresh: None,
            ..info
        };
        assert_eq!(SocketSample::of(new, 0.0, true, 1).ssthresh, 0);
    }
}
