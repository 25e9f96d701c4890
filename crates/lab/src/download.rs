// SPDX-License-Identifier: Apache-2.0
//! Bytes hashed and timed as they arrive, and a download by curl at the MH.

use std::io::Read;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow};
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::{ChildGuard, NetNs};
use sha2::{Digest as _, Sha256};

use crate::seeded_file::Sha256Sum;

/// Bytes read at a time at most.
const READ_BYTES_MAX: usize = 1 << 18;

/// Arrivals remembered; later ones only move the last one. A run of a minute
/// has some ten thousand.
const ARRIVALS_MAX: usize = 1 << 20;

/// Bytes that arrived at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// All bytes so far, these included.
    pub bytes_total: u64,
}

/// What arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// When, in order.
    pub arrivals: Vec<Arrival>,
    /// The bytes' SHA-256.
    pub sha256: Sha256Sum,
}

impl Received {
    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.arrivals
            .last()
            .map_or(0, |arrival| arrival.bytes_total)
    }

    /// The first arrival at `at_ns` or later.
    pub fn first_from(&self, at_ns: u64) -> Option<Arrival> {
        let i = self
            .arrivals
            .partition_point(|arrival| arrival.at_ns < at_ns);
        self.arrivals.get(i).copied()
    }

    /// From `returned_ns` to the next arrival, in milliseconds; `u64::MAX` if there
    /// never was one.
    pub fn stall_ms(&self, returned_ns: u64) -> u64 {
        self.first_from(returned_ns)
            .map_or(u64::MAX, |first| (first.at_ns - returned_ns) / 1_000_000)
    }

    /// The longest time between two arrivals after `from_ns`, in nanoseconds.
    pub fn longest_gap_ns(&self, from_ns: u64) -> u64 {
        let from = self
            .arrivals
            .partition_point(|arrival| arrival.at_ns < from_ns);
        let gaps = self.arrivals[from.saturating_sub(1)..].windows(2);
        gaps.map(|pair| pair[1].at_ns - pair[0].at_ns)
            .max()
            .unwrap_or(0)
    }
}

/// What can be seen of a download while it runs; clones share it.
#[derive(Clone, Debug, Default)]
pub struct DownloadWatch(Arc<WatchCells>);

#[derive(Debug, Default)]
struct WatchCells {
    bytes: AtomicU64,
    last_ns: AtomicU64,
}

impl DownloadWatch {
    /// Bytes that have arrived.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// When the last ones came, CLOCK_MONOTONIC; 0 before the first.
    pub fn last_ns(&self) -> u64 {
        self.0.last_ns.load(Ordering::Relaxed)
    }
}

/// A running curl; killed when dropped.
#[derive(Debug)]
pub struct Download {
    child: ChildGuard,
    reader: Option<JoinHandle<Received>>,
    watch: DownloadWatch,
}

impl Download {
    /// Starts `curl URL` in `ns`.
    pub fn start(ns: &NetNs, url: &str, watch: &DownloadWatch) -> anyhow::Result<Self> {
        let mut command = ns.command("curl");
        command.args([
            "--silent",
            "--show-error",
            "--fail",
            "--no-buffer",
            "--globoff",
            "--noproxy",
            "*",
        ]);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = ns.spawn_guarded(command)?;
        let output = child.child().stdout.take().context("curl has no output")?;
        let reader_watch = watch.clone();
        let reader = thread::spawn(move || receive(output, &reader_watch));
        Ok(Self {
            child,
            reader: Some(reader),
            watch: watch.clone(),
        })
    }

    /// Whether everything curl will ever write has been read.
    pub fn is_finished(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What can be seen while it runs.
    pub fn watch(&self) -> &DownloadWatch {
        &self.watch
    }

    /// Waits for curl's end; its status and what arrived. Ended early by
    /// [`Download::abort`].
    pub fn finish(mut self) -> anyhow::Result<(ExitStatus, Received)> {
        let reader = self
            .reader
            .take()
            .context("the download is finished already")?;
        let received = reader
            .join()
            .map_err(|_| anyhow!("the reader of curl's output failed"))?;
        let status = self.child.child().wait()?;
        Ok((status, received))
    }

    /// Kills curl; what had arrived.
    pub fn abort(mut self) -> anyhow::Result<Received> {
        self.child.kill()?;
        Ok(self.finish()?.1)
    }
}

/// Reads to the end, or to the first error, hashing and noting each arrival.
pub fn receive(mut output: impl Read, watch: &DownloadWatch) -> Received {
    let mut buffer = vec![0; READ_BYTES_MAX];
    let mut hash = Sha256::new();
    let mut arrivals: Vec<Arrival> = Vec::new();
    let mut bytes_total = 0;
    loop {
        let len = match output.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let at_ns = monotonic_ns();
        bytes_total += len as u64;
        hash.update(&buffer[..len]);
        watch.0.bytes.store(bytes_total, Ordering::Relaxed);
        watch.0.last_ns.store(at_ns, Ordering::Relaxed);
        if arrivals.len() == ARRIVALS_MAX {
            arrivals.pop();
        }
        arrivals.push(Arrival { at_ns, bytes_total });
    }
    Received {
        arrivals,
        sha256: hash.finalize().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_and_gaps_are_read_off_the_arrivals() {
        let arrivals = [(10, 5), (20, 9), (50, 12), (60, 20)]
            .map(|(at_ns, bytes_total)| Arrival { at_ns, bytes_total })
            .to_vec();
        let received = Received {
            arrivals,
            sha256: [0; 32],
        };
        assert_eq!(received.bytes(), 20);
        assert_eq!(received.first_from(20).unwrap().at_ns, 20);
        assert_eq!(received.first_from(21).unwrap().at_ns, 50);
        assert_eq!(received.first_from(61), None);
        assert_eq!(
            (received.stall_ms(60), received.stall_ms(61)),
            (0, u64::MAX)
        );
        assert_eq!(
            (received.longest_gap_ns(0), received.longest_gap_ns(55)),
            (30, 10)
        );
    }
}
