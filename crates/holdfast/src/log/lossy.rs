// SPDX-License-Identifier: Apache-2.0
//! A writer that never waits for whoever reads.
//!
//! A log that goes to a pipe or to a service manager's socket stands still as soon as nobody reads
//! it. Packets and closed windows must not stand still with it: lines go through a bounded queue to
//! a thread of their own, and what the queue has no room for is lost and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

/// Lines that wait to be written at most: some hundred kB.
const LINES_MAX: usize = 1024;

/// How long the end of the process waits for the lines before it.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

enum Order {
    Write(Vec<u8>),
    /// Tells when all before it is written.
    Tell(SyncSender<()>),
}

/// What a log writes to, each line at once; clones share it.
#[derive(Clone)]
pub(super) struct LossyWriter {
    orders: SyncSender<Order>,
    lost: Arc<AtomicU64>,
}

impl LossyWriter {
    /// Starts the thread that writes to `sink`. It gives `tell_lost` the number of the lines that
    /// were lost, once it can write again.
    pub(super) fn start(
        sink: impl Write + Send + 'static,
        tell_lost: impl Fn(u64) + Send + 'static,
    ) -> Self {
        let (orders, queue) = mpsc::sync_channel(LINES_MAX);
        let lost = Arc::<AtomicU64>::default();
        let of_thread = Arc::clone(&lost);
        thread::spawn(move || write_all(&queue, sink, &of_thread, tell_lost));
        Self { orders, lost }
    }
}

fn write_all(
    queue: &Receiver<Order>,
    mut sink: impl Write,
    lost: &AtomicU64,
    tell_lost: impl Fn(u64),
) {
    for order in queue {
        match order {
            // An error says that nobody will ever read it.
            Order::Write(line) => drop(sink.write_all(&line).and_then(|()| sink.flush())),
            Order::Tell(done) => drop(done.try_send(())),
        }
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            count => tell_lost(count),
        }
    }
}

impl Write for LossyWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.orders.try_send(Order::Write(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits, when dropped, until what was logged is written; for a second at most.
#[must_use = "the last lines may be lost without it"]
pub(crate) struct LastLines(pub(super) Option<LossyWriter>);

impl Drop for LastLines {
    fn drop(&mut self) {
        let Some(writer) = &self.0 else {
            return;
        };
        let (done, is_done) = mpsc::sync_channel(1);
        if writer.orders.try_send(Order::Tell(done)).is_ok() {
            let _ = is_done.recv_timeout(LAST_LINES_WITHIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Deadline of whatever the tests wait for.
    const LIMIT: Duration = Duration::from_secs(8);

    /// Takes nothing until it is let, and then gives on what it takes.
    struct Stuck {
        may_write: Receiver<()>,
        may_ever: bool,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Stuck {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            if !self.may_ever {
                self.may_write.recv().map_err(io::Error::other)?;
                self.may_ever = true;
            }
            self.written
                .send(octets.to_vec())
                .map_err(io::Error::other)?;
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_reader_and_what_is_lost_is_told_when_there_is_one() {
        let (let_go, may_write) = mpsc::channel();
        let (written, lines) = mpsc::channel();
        let (told, lost) = mpsc::channel();
        let sink = Stuck {
            may_write,
            may_ever: false,
            written,
        };
        let told = Mutex::new(told);
        let tell = move |count| told.lock().unwrap().send(count).unwrap();
        let mut writer = LossyWriter::start(sink, tell);
        let said = 2 * LINES_MAX as u64;
        for line in 0..said {
            // It would stand still here.
            writer.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        // Neither does the end of the process wait.
        drop(LastLines(Some(writer.clone())));
        let_go.send(()).unwrap();
        let lost = lost.recv_timeout(LIMIT).unwrap();
        let kept = said - lost;
        // One that is being written, and those in the queue.
        assert!(
            kept == LINES_MAX as u64 || kept == LINES_MAX as u64 + 1,
            "{kept}"
        );
        for line in 0..kept {
            let octets = lines.recv_timeout(LIMIT).unwrap();
            assert_eq!(String::from_utf8(octets).unwrap(), format!("{line}\n"));
        }
    }

    #[test]
    fn the_end_waits_for_the_last_lines() {
        let (let_go, may_write) = mpsc::channel();
        let (written, lines) = mpsc::channel();
        let sink = Stuck {
            may_write,
            may_ever: false,
            written,
        };
        let mut writer = LossyWriter::start(sink, |_| panic!("nothing is lost"));
        writer.write_all(b"the last one\n").unwrap();
        let_go.send(()).unwrap();
        drop(LastLines(Some(writer)));
        assert_eq!(lines.try_recv().unwrap(), b"the last one\n");
    }
}
