// SPDX-License-Identifier: Apache-2.0
//! A writer that never waits for its reader.
//!
//! A log that goes to a pipe or to a service manager's socket blocks when its reader stops. Packets
//! and closed windows must not wait for it: lines go through a bounded queue to a thread of their
//! own. Lines for which the queue has no room are lost, and a line counts them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::terminal::escaped;

/// The name of the thread that writes.
pub(super) const THREAD: &str = "log";

/// Lines that wait to be written at most: some hundred kB.
const LINES_MAX: usize = 1024;

/// Between two tries to write where there is no room at this moment.
const RETRY: Duration = Duration::from_millis(10);

/// Once lines are lost, all are until no more than this many wait: one notice counts them all.
const LINES_AGAIN: usize = LINES_MAX / 2;

enum Entry {
    Line(Vec<u8>),
    /// This many lines were lost here.
    Lost(u64),
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    is_losing: bool,
    /// The thread has taken an entry and is not done with it.
    is_writing: bool,
    /// A thread waits in `finish`: report lost lines now if possible.
    must_report_loss: bool,
}

impl Queue {
    fn push(&mut self, line: &[u8]) {
        let len = self.entries.len();
        self.is_losing = len >= LINES_MAX || self.is_losing && len > LINES_AGAIN;
        if !self.is_losing {
            self.entries.push_back(Entry::Line(line.to_vec()));
        } else if let Some(Entry::Lost(count)) = self.entries.back_mut() {
            *count += 1;
        } else {
            self.entries.push_back(Entry::Lost(1));
        }
    }

    fn is_done(&self) -> bool {
        self.entries.is_empty() && !self.is_writing && !self.must_report_loss
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    has_entries: Condvar,
    is_done: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the oldest entry; the one before it is written.
    fn next(&self) -> Entry {
        let mut queue = self.queue();
        queue.is_writing = false;
        loop {
            let entry = queue.entries.pop_front().or_else(|| {
                let must_report_loss = std::mem::take(&mut queue.must_report_loss);
                must_report_loss.then_some(Entry::Lost(0))
            });
            if let Some(entry) = entry {
                queue.is_writing = true;
                return entry;
            }
            self.is_done.notify_all();
            queue = self
                .has_entries
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What a log writes to, a whole line at a time; clones share it.
#[derive(Clone)]
pub(super) struct LossyWriter(Arc<Shared>);

impl LossyWriter {
    /// Starts the thread that writes to `sink`, and what `lost_line` makes of the number of lines
    /// that were lost.
    pub(super) fn start(
        sink: impl Write + Send + 'static,
        lost_line: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name(THREAD.into())
            .spawn(move || write_all(&of_thread, sink, lost_line))?;
        Ok(Self(shared))
    }

    /// Writes a line that is not lost, whatever is queued: one of the few with the reason why the
    /// process ends.
    pub(super) fn write_surely(&self, line: &str) {
        let line = Entry::Line(line.as_bytes().to_vec());
        self.0.queue().entries.push_back(line);
        self.0.has_entries.notify_one();
    }

    /// Waits until all lines are written, for `limit` at most.
    pub(super) fn flush_within(&self, limit: Duration) {
        let mut queue = self.0.queue();
        queue.must_report_loss = true;
        self.0.has_entries.notify_one();
        // After the limit it is as it is.
        drop(
            self.0
                .is_done
                .wait_timeout_while(queue, limit, |queue| !queue.is_done()),
        );
    }
}

/// What is written to, a line at a time.
struct Lines<S> {
    sink: S,
    /// A line was begun and could not be ended.
    is_torn: bool,
}

impl<S: Write> Lines<S> {
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

    /// How much of it was written.
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

fn write_all(shared: &Shared, sink: impl Write, lost_line: impl Fn(u64) -> String) -> ! {
    let mut lines = Lines {
        sink,
        is_torn: false,
    };
    let mut write = |line: &[u8]| lines.write(line);
    let mut lost = 0;
    loop {
        let line = match shared.next() {
            Entry::Line(line) => Some(line),
            Entry::Lost(count) => {
                lost += count;
                None
            }
        };
        if lost > 0 && write(lost_line(lost).as_bytes()).is_ok() {
            lost = 0;
        }
        // The reader has ended, or the disk is full.
        if line.is_some_and(|line| write(&line).is_err()) {
            lost += 1;
        }
    }
}

/// The line without what controls a terminal; none: it has nothing of that.
fn escaped_octets(line: &[u8]) -> Option<String> {
    // Characters that control a terminal are below a space, DEL, or of more than one octet.
    let is_plain = |octet: &u8| matches!(octet, b' '..0x7f | b'\n' | b'\t');
    if line.iter().all(is_plain) {
        return None;
    }
    match escaped(&String::from_utf8_lossy(line)) {
        Cow::Borrowed(_) => None,
        Cow::Owned(line) => Some(line),
    }
}

impl Write for LossyWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A name from the settings or the network may hold what controls a terminal.
        match escaped_octets(line) {
            Some(line) => self.0.queue().push(line.as_bytes()),
            None => self.0.queue().push(line),
        }
        self.0.has_entries.notify_one();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    /// Deadline of whatever the tests wait for.
    const LIMIT: Duration = Duration::from_secs(8);

    /// A line to write.
    fn write_line(writer: &mut LossyWriter, line: &str) {
        writer.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Takes each line when it is let, and gives it on.
    struct Reader {
        let_take: mpsc::Receiver<()>,
        taken: mpsc::Sender<String>,
    }

    impl Write for Reader {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.let_take.recv().map_err(io::Error::other)?;
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
        let (let_go, let_take) = mpsc::channel();
        let (taken, lines) = mpsc::channel();
        let writer =
            LossyWriter::start(Reader { let_take, taken }, |lost| format!("{lost} lost\n"));
        (writer.unwrap(), let_go, lines)
    }

    #[test]
    fn writers_do_not_wait_for_a_reader_and_lost_lines_are_counted() {
        let (mut writer, let_go, lines) = writer();
        let sent = 2 * LINES_MAX as u64;
        for line in 0..sent {
            // It would block here.
            write_line(&mut writer, &line.to_string());
        }
        let begun = Instant::now();
        writer.flush_within(Duration::from_millis(20));
        assert!(begun.elapsed() < LIMIT);
        for _ in 0..sent {
            let_go.send(()).unwrap();
        }
        writer.flush_within(LIMIT);
        write_line(&mut writer, "again");
        writer.flush_within(LIMIT);
        let lines: Vec<String> = lines.try_iter().collect();
        // One that was being written, perhaps, and those in the queue.
        let kept = lines.len() - 2;
        assert!(kept == LINES_MAX || kept == LINES_MAX + 1, "{kept}");
        let shown = |(number, line): (usize, &String)| *line == format!("{number}\n");
        assert!(lines[..kept].iter().enumerate().all(shown));
        assert_eq!(lines[kept], format!("{} lost\n", sent - kept as u64));
        assert_eq!(lines[kept + 1], "again\n");
    }

    #[test]
    fn with_a_reader_who_is_too_slow_each_line_is_written_or_counted() {
        let (mut writer, let_go, lines) = writer();
        let sent = 20_000;
        for line in 0..sent {
            write_line(&mut writer, "a line");
            // One in ten is read.
            if line % 10 == 0 {
                let_go.send(()).unwrap();
            }
        }
        for _ in 0..sent {
            let_go.send(()).unwrap();
        }
        writer.flush_within(LIMIT);
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
        let (mut writer, let_go, lines) = writer();
        for line in 0..LINES_MAX {
            write_line(&mut writer, &line.to_string());
        }
        let reads = thread::spawn(move || (0..LINES_MAX).for_each(|_| let_go.send(()).unwrap()));
        writer.flush_within(LIMIT);
        assert_eq!(lines.try_iter().count(), LINES_MAX);
        reads.join().unwrap();
    }

    #[test]
    fn the_reason_of_an_exit_is_written_after_the_loss() {
        let (mut writer, let_go, lines) = writer();
        for _ in 0..2 * LINES_MAX {
            write_line(&mut writer, "a line");
        }
        writer.write_surely("why\n");
        for _ in 0..2 * LINES_MAX {
            let_go.send(()).unwrap();
        }
        writer.flush_within(LIMIT);
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
        writer.flush_within(LIMIT);
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
