// SPDX-License-Identifier: Apache-2.0
//! A sender's socket over time, as the kernel tells it (`ss -ti`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;

use crate::download::Received;
use crate::web_server::PORT;

/// Points at most; the series ends there.
const SAMPLES_MAX: usize = 1_000_000;

/// The connection at one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SocketSample {
    /// Since the links' start, in seconds.
    pub t_s: f64,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow start threshold, bytes; 0: none yet.
    pub ssthresh: u64,
    /// The receiver's window as the sender knows it, bytes; 0 where `ss` is too old to
    /// tell.
    pub rwnd: u64,
    /// Bytes acknowledged.
    pub snd_una: u64,
    /// Bytes sent at least once.
    pub snd_nxt: u64,
    /// Bytes that the application at the MH has.
    pub rcv_nxt: u64,
}

/// Asks again and again, until it is dropped or finished.
#[derive(Debug)]
pub struct SocketSampler {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<SocketSample>>>,
    origin_ns: u64,
}

impl SocketSampler {
    /// Starts asking for the web server's connections in `fh`.
    pub fn start(fh: &NetNs, interval: Duration, origin_ns: u64) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, fh) = (Arc::clone(&over), fh.clone());
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            let mut due_ns = monotonic_ns();
            while !is_over.load(Ordering::Relaxed) && samples.len() < SAMPLES_MAX {
                let t_s = monotonic_ns().saturating_sub(origin_ns) as f64 / 1e9;
                if let Some(sample) = ask(&fh) {
                    samples.push(SocketSample { t_s, ..sample });
                }
                due_ns += interval.as_nanos() as u64;
                thread::sleep(Duration::from_nanos(due_ns.saturating_sub(monotonic_ns())));
            }
            samples
        });
        Self {
            over,
            thread: Some(thread),
            origin_ns,
        }
    }

    /// Ends it; the samples, with what had arrived at each.
    pub fn finish(mut self, received: &Received) -> Vec<SocketSample> {
        self.over.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        let mut samples = joined.and_then(Result::ok).unwrap_or_default();
        for sample in &mut samples {
            let at_ns = self.origin_ns + (sample.t_s * 1e9) as u64;
            let arrived = received
                .arrivals
                .partition_point(|arrival| arrival.at_ns <= at_ns);
            sample.rcv_nxt = arrived
                .checked_sub(1)
                .map_or(0, |last| received.arrivals[last].bytes_total);
        }
        samples
    }
}

impl Drop for SocketSampler {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Nobody wants the samples any more.
            let _ = thread.join();
        }
    }
}

fn ask(fh: &NetNs) -> Option<SocketSample> {
    let mut command = fh.command("ss");
    command.args(["-tinOH", "state", "established"]);
    command.arg(format!("( sport = :{PORT} )"));
    let output = command.output().ok()?;
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// The connection that has sent most.
fn parse(text: &str) -> Option<SocketSample> {
    let samples = text.lines().map(|line| {
        let value = |name: &str| {
            let mut words = line.split_whitespace();
            words
                .find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))
                .and_then(|value| value.parse::<u64>().ok())
        };
        let mss = value("mss")?;
        Some(SocketSample {
            cwnd: value("cwnd")? * mss,
            ssthresh: value("ssthresh").unwrap_or(0) * mss,
            rwnd: value("snd_wnd").unwrap_or(0),
            // The SYN counts as acknowledged.
            snd_una: value("bytes_acked").unwrap_or(0).saturating_sub(1),
            snd_nxt: value("bytes_sent")
                .unwrap_or(0)
                .saturating_sub(value("bytes_retrans").unwrap_or(0)),
            ..SocketSample::default()
        })
    });
    samples.flatten().max_by_key(|sample| sample.snd_nxt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_connection_is_read() {
        let text = "0 0 10.1.0.2:80 10.2.0.2:1 cubic wscale:7,7 rto:204 mss:1448 cwnd:10 bytes_sent:5\n\
            0 9 10.1.0.2:80 10.2.0.2:2 cubic wscale:7,7 rto:204 mss:1000 pmtu:1500 cwnd:20 ssthresh:7 \
            bytes_sent:5000 bytes_retrans:1000 bytes_acked:2001 snd_wnd:65536\n";
        let sample = parse(text).unwrap();
        assert_eq!(
            (sample.cwnd, sample.ssthresh, sample.rwnd),
            (20_000, 7_000, 65_536)
        );
        assert_eq!((sample.snd_una, sample.snd_nxt), (2_000, 4_000));
        assert_eq!(parse(""), None);
    }
}
