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
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::seeded_file::Sha256Sum;

/// Bytes read at a time at most.
pub const READ_BYTES_MAX: usize = 1 << 18;

/// Limit of noted arrivals; a later one replaces the last one. A run of a minute
/// has some ten thousand.
const ARRIVALS_MAX: usize = 1 << 20;

/// Bytes that arrived at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// When, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// All bytes so far, these included.
    pub bytes_total: u64,
}

/// What arrived.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Received {
    /// The arrivals, in order.
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

    /// Shows what has arrived so far.
    pub fn show(&self, ledger: &Ledger) {
        self.0.bytes.store(ledger.bytes, Ordering::Relaxed);
        self.0.last_ns.store(ledger.last_ns(), Ordering::Relaxed);
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

    /// Waits for curl's end. Returns its status and what arrived. [`Download::abort`]
    /// ends it early.
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

    /// Kills curl. Returns what had arrived.
    pub fn abort(mut self) -> anyhow::Result<Received> {
        self.child.kill()?;
        Ok(self.finish()?.1)
    }
}

/// Reads to the end, or to the first error, hashing and noting each arrival.
pub fn receive(output: impl Read, watch: &DownloadWatch) -> Received {
    let mut intake = Intake::new(output);
    while intake.read_some(READ_BYTES_MAX) > 0 {
        watch.show(&intake.ledger);
    }
    intake.finish()
}

/// The bytes so far, hashed, and the time of each arrival.
#[derive(Debug, Default)]
pub struct Ledger {
    hash: Sha256,
    arrivals: Vec<Arrival>,
    bytes: u64,
}

impl Ledger {
    /// Enters the next bytes, which came just now.
    pub fn enter(&mut self, bytes: &[u8]) {
        // Before the hash, which takes its time.
        let at_ns = monotonic_ns();
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
        if self.arrivals.len() == ARRIVALS_MAX {
            self.arrivals.pop();
        }
        self.arrivals.push(Arrival {
            at_ns,
            bytes_total: self.bytes,
        });
    }

    /// When the last bytes came, CLOCK_MONOTONIC; 0 before the first.
    pub fn last_ns(&self) -> u64 {
        self.arrivals.last().map_or(0, |arrival| arrival.at_ns)
    }

    /// What came.
    pub fn finish(self) -> Received {
        Received {
            arrivals: self.arrivals,
            sha256: self.hash.finalize().into(),
        }
    }
}

/// Reads bytes into a [`Ledger`].
pub struct Intake<R> {
    from: R,
    buffer: Vec<u8>,
    ledger: Ledger,
}

impl<R: Read> Intake<R> {
    /// A reader of `from`.
    pub fn new(from: R) -> Self {
        Self {
            from,
            buffer: vec![0; READ_BYTES_MAX],
            ledger: Ledger::default(),
        }
    }

    /// Reads once, at most `bytes_max` bytes. Returns their number; 0: the end, or an error.
    pub fn read_some(&mut self, bytes_max: usize) -> usize {
        let wanted = bytes_max.min(READ_BYTES_MAX);
        let len = loop {
            match self.from.read(&mut self.buffer[..wanted]) {
                Ok(len) => break len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break 0,
            }
        };
        if len > 0 {
            self.ledger.enter(&self.buffer[..len]);
        }
        len
    }

    /// When the last bytes came, CLOCK_MONOTONIC; 0 before the first.
    pub fn last_ns(&self) -> u64 {
        self.ledger.last_ns()
    }

    /// What came.
    pub fn finish(self) -> Received {
        self.ledger.finish()
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
