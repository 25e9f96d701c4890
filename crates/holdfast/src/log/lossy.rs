// SPDX-License-Identifier: Apache-2.0
//! A writer that never waits for its reader.
//!
//! A log that goes to a pipe or to a service manager's socket blocks when its reader stops. Packets
//! and closed windows must not wait for it: lines go through a bounded queue to a thread of their
//! own. Lines for which the queue has no room are lost, and a line counts them.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::terminal::escaped;

/// The name of the thread that writes.
pub(super) const THREAD: &str = "log";

/// The largest number of lines that wait to be written: some hundred kB.
const LINES_MAX: usize = 1024;

/// Time between two attempts to write while the descriptor has no room.
const RETRY: Duration = Duration::from_millis(10);

/// After this number of limits the wait for the last lines ends, and they are lost: a disk may hang. The
/// whole wait is shorter than the units' `WatchdogSec`.
const LIMITS_MAX: u32 = 10;

enum Entry {
    Line(Vec<u8>),
    /// The reason why the process ends. It is written whatever is queued.
    Reason(Vec<u8>),
    /// Answer when all before is written.
    Flush(Sender<()>),
}

#[derive(Debug, Default)]
struct Shared {
    /// Lines that wait.
    queued: AtomicUsize,
    /// Lines for which the queue had no room, and that no line has counted yet.
    lost: AtomicU64,
}

/// The output of a log, in whole lines; clones share it.
#[derive(Clone)]
pub(super) struct LossyWriter {
    entries: Sender<Entry>,
    shared: Arc<Shared>,
}

impl LossyWriter {
    /// Starts the thread that writes to `sink`. `lost_line` makes the line that counts lost lines.
    pub(super) fn start(
        sink: impl Write + Send + 'static,
        lost_line: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, entries) = channel();
        let shared = Arc::<Shared>::default();
        let output = Output {
            sink,
            is_torn: false,
            shared: Arc::clone(&shared),
            lost: 0,
            lost_line,
        };
        thread::Builder::new().name(THREAD.into()).spawn(move || {
            // The daemon drops its first thread's capabilities later. If the drop fails here, it fails there too.
            let _ = holdfast_net::privileges::drop_capabilities();
            output.run(&entries);
        })?;
        Ok(Self {
            entries: sender,
            shared,
        })
    }

    /// Writes the reason why the process ends, whatever is queued.
    pub(super) fn write_reason(&self, line: &str) {
        self.send(Entry::Reason(line.as_bytes().to_vec()));
    }

    /// Waits until all lines are written. It gives up after `limit` if no line was written and `has_room` is
    /// false: the reader takes nothing. Otherwise only the thread or the disk is late, and it waits longer.
    pub(super) fn flush_within(&self, limit: Duration, mut has_room: impl FnMut() -> bool) {
        let (done, is_done) = channel();
        self.send(Entry::Flush(done));
        let mut queued = self.shared.queued.load(Ordering::Relaxed);
        for _ in 0..LIMITS_MAX {
            if is_done.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            let before = mem::replace(&mut queued, self.shared.queued.load(Ordering::Relaxed));
            if queued >= before && !has_room() {
                break;
            }
        }
    }

    fn send(&self, entry: Entry) {
        // The thread lives as long as the process.
        let _ = self.entries.send(entry);
    }
}

impl Write for LossyWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let queued = &self.shared.queued;
        if queued.fetch_add(1, Ordering::Relaxed) < LINES_MAX {
            // A name from the settings or the network may contain what controls a terminal.
            let safe = escaped(&String::from_utf8_lossy(line)).into_owned();
            self.send(Entry::Line(safe.into_bytes()));
        } else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            queued.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread's side.
struct Output<S, L> {
    sink: S,
    /// A line was begun and could not be finished.
    is_torn: bool,
    shared: Arc<Shared>,
    /// Lost lines that the next line must count.
    lost: u64,
    lost_line: L,
}

impl<S: Write, L: Fn(u64) -> String> Output<S, L> {
    fn run(mut self, entries: &Receiver<Entry>) {
        for entry in entries {
            match entry {
                Entry::Line(line) => {
                    self.shared.queued.fetch_sub(1, Ordering::Relaxed);
                    self.write_counted(&line);
                    // Checked after the write, which may have taken long.
                    if self.shared.queued.load(Ordering::Relaxed) == 0 {
                        self.count_lost();
                    }
                }
                Entry::Reason(line) => {
                    self.count_lost();
                    self.write_counted(&line);
                }
                Entry::Flush(done) => {
                    self.count_lost();
                    self.report_lost();
                    // The sender may have given up the wait.
                    let _ = done.send(());
                }
            }
        }
    }

    /// Counts the lines that found no room. Called only when the queue is empty, so that one line counts many.
    fn count_lost(&mut self) {
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        self.lost += lost;
        if lost > 0 {
            self.report_lost();
        }
    }

    fn report_lost(&mut self) {
        if self.lost > 0 && self.write((self.lost_line)(self.lost).as_bytes()).is_ok() {
            self.lost = 0;
        }
    }

    /// Writes a line, after a line that counts the lines lost before.
    fn write_counted(&mut self, line: &[u8]) {
        self.report_lost();
        // An error means that the reader has ended, or that the disk is full.
        if self.write(line).is_err() {
            self.lost += 1;
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.write_part(b"\n")?;
            self.is_torn = false;
        }
        let mut written = 0;
        while written < line.len() {
            written += self
                .write_part(&line[written..])
                .inspect_err(|_| self.is_torn = written > 0)?;
        }
        self.sink.flush()
    }

    /// Returns how many bytes were written.
    fn write_part(&mut self, octets: &[u8]) -> io::Result<usize> {
        loop {
            match self.sink.write(octets) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                // Another process has made the descriptor non-blocking: this thread may wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(RETRY),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    /// Deadline of whatever the tests wait for.
    const LIMIT: Duration = Duration::from_secs(60);
    /// The wait ends at its limit.
    const NO_ROOM: fn() -> bool = || false;

    /// A line to write.
    fn write_line(writer: &mut LossyWriter, line: &str) {
        writer.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Takes each line when it is let, and gives it on.
    struct Reader {
        allowed: mpsc::Receiver<()>,
        taken: mpsc::Sender<String>,
    }

    impl Write for Reader {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.allowed.recv().map_err(io::Error::other)?;
            let line = String::from_utf8(octets.to_vec()).unwrap();
            self.taken.send(line).map_err(io::Error::other)?;
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A writer, what lets its reader take a line, and the lines.
    fn writer() -> (LossyWriter, mpsc::Sender<()>, mpsc::Receiver<String>) {
        let (allow, allowed) = mpsc::channel();
        let (taken, lines) = mpsc::channel();
        let writer = LossyWriter::start(Reader { allowed, taken }, |lost| format!("{lost} lost\n"));
        (writer.unwrap(), allow, lines)
    }

    #[test]
    fn writers_do_not_wait_for_a_reader_and_lost_lines_are_counted() {
        let (mut writer, allow, lines) = writer();
        let sent = 2 * LINES_MAX as u64;
        for line in 0..sent {
            // It would block here.
            write_line(&mut writer, &line.to_string());
        }
        let begun = Instant::now();
        writer.flush_within(Duration::from_millis(20), NO_ROOM);
        assert!(begun.elapsed() < LIMIT);
        for _ in 0..sent {
            allow.send(()).unwrap();
        }
        writer.flush_within(LIMIT, NO_ROOM);
        write_line(&mut writer, "again");
        writer.flush_within(LIMIT, NO_ROOM);
        let lines: Vec<String> = lines.try_iter().collect();
        // One that was being written, perhaps, and those in the queue.
        let kept = lines.len() - 2;
        assert!(kept == LINES_MAX || kept == LINES_MAX + 1, "{kept}");
        // In their order; the thread may take the first one when others are lost already.
        let numbers = lines[..kept]
            .iter()
            .map(|line| line.trim().parse().unwrap());
        let numbers: Vec<u64> = numbers.collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert_eq!(lines[kept], format!("{} lost\n", sent - kept as u64));
        assert_eq!(lines[kept + 1], "again\n");
    }

    #[test]
    fn with_a_reader_who_is_too_slow_each_line_is_written_or_counted() {
        let (mut writer, allow, lines) = writer();
        let sent = 20_000;
        for line in 0..sent {
            write_line(&mut writer, "a line");
            // One in ten is read.
            if line % 10 == 0 {
                allow.send(()).unwrap();
            }
        }
        for _ in 0..sent {
            allow.send(()).unwrap();
        }
        writer.flush_within(LIMIT, NO_ROOM);
        let (mut written, mut lost, mut notices) = (0, 0, 0);
        for line in lines.try_iter() {
            match line.strip_suffix(" lost\n") {
                Some(count) => {
                    lost += count.parse::<u32>().unwrap();
                    notices += 1;
                }
                None => written += 1,
            }
        }
        assert_eq!(written + lost, sent);
        assert!(lost > 0 && notices < 20, "{lost} lost in {notices}");
    }

    #[test]
    fn the_end_waits_for_the_last_lines_of_a_full_queue() {
        let (mut writer, allow, lines) = writer();
        for line in 0..LINES_MAX {
            write_line(&mut writer, &line.to_string());
        }
        let reads = thread::spawn(move || (0..LINES_MAX).for_each(|_| allow.send(()).unwrap()));
        writer.flush_within(LIMIT, NO_ROOM);
        assert_eq!(lines.try_iter().count(), LINES_MAX);
        reads.join().unwrap();
    }

    #[test]
    fn a_line_that_is_only_late_is_waited_for() {
        let (mut writer, allow, lines) = writer();
        write_line(&mut writer, "why");
        let mut looks = 0;
        // The line is not written before the limit has passed some times.
        writer.flush_within(Duration::from_millis(1), || {
            looks += 1;
            if looks == 5 {
                allow.send(()).unwrap();
            }
            true
        });
        assert!(looks >= 5);
        assert_eq!(lines.try_iter().count(), 1);
    }

    #[test]
    fn the_reason_of_an_exit_is_written_after_the_loss() {
        let (mut writer, allow, lines) = writer();
        for _ in 0..2 * LINES_MAX {
            write_line(&mut writer, "a line");
        }
        writer.write_reason("why\n");
        for _ in 0..2 * LINES_MAX {
            allow.send(()).unwrap();
        }
        writer.flush_within(LIMIT, NO_ROOM);
        let lines: Vec<String> = lines.try_iter().collect();
        assert!(lines[lines.len() - 2].ends_with(" lost\n"));
        assert_eq!(lines[lines.len() - 1], "why\n");
    }

    /// Answers each call with the next result, and accepts all calls after the last one.
    struct Moody(VecDeque<io::Result<usize>>, mpsc::Sender<String>);

    impl Write for Moody {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let count = self.0.pop_front().unwrap_or(Ok(octets.len()))?;
            let part = String::from_utf8(octets[..count].to_vec()).unwrap();
            self.1.send(part).map_err(io::Error::other)?;
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What comes of these lines.
    fn written(moods: Vec<io::Result<usize>>, lines: &[&str]) -> String {
        let (taken, parts) = mpsc::channel();
        let sink = Moody(moods.into(), taken);
        let mut writer = LossyWriter::start(sink, |lost| format!("{lost} lost\n")).unwrap();
        for line in lines {
            write_line(&mut writer, line);
        }
        writer.flush_within(LIMIT, NO_ROOM);
        parts.try_iter().collect()
    }

    #[test]
    fn a_line_moves_no_cursor() {
        let text = written(Vec::new(), &["name=\x1b[2Jx\u{9b}", "ü\tplain"]);
        assert_eq!(text, "name=\\u001b[2Jx\\u009b\nü\tplain\n");
    }

    #[test]
    fn what_cannot_be_written_is_counted_when_something_can() {
        let full = || Err(io::ErrorKind::StorageFull.into());
        let lines = ["one", "two", "three"];
        // The first line; then a notice and the second one.
        let text = written(vec![full(), full(), full()], &lines);
        assert_eq!(text, "2 lost\nthree\n");
        // The last line: its loss is reported at the end.
        assert_eq!(written(vec![full()], &["one"]), "1 lost\n");
        let text = written(vec![Ok(2), full()], &lines);
        assert_eq!(text, "on\n1 lost\ntwo\nthree\n");
        let later = || Err(io::ErrorKind::WouldBlock.into());
        let text = written(vec![later(), Ok(2), later(), later()], &lines);
        assert_eq!(text, "one\ntwo\nthree\n");
    }
}
