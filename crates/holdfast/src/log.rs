// SPDX-License-Identifier: Apache-2.0
//! The daemons' log: structured events on standard error, for which no daemon waits.
//!
//! In systemd's journal each line begins with its priority (`sd-daemon(3)`). A line of text has no
//! time there: the journal adds it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::env::VarError;
use std::fmt;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, reload};

use crate::contain::handle_panics;
use crate::settings::{FILTER_VARIABLE, LogFormat};
use crate::terminal::escaped_line;

mod lossy;

use lossy::LossyWriter;

const DEFAULT_FILTER: &str = "info,netlink_packet_route=error";
/// Stands before the filter of the settings, which may override it.
const QUIET: &str = "netlink_packet_route=error";

/// The longest that the end of the process waits for a reader that takes none of its last lines.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// The longest word of an error that is shown whole. A path is one.
const WORD_CHARS_MAX: usize = 240;

struct Log {
    format: LogFormat,
    is_journal: bool,
    writer: LossyWriter,
    set_filter: Box<dyn Fn(EnvFilter) + Send + Sync>,
}

/// The time of a line.
struct LineTime {
    is_left_out: bool,
}

impl FormatTime for LineTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        if self.is_left_out {
            return Ok(());
        }
        SystemTime.format_time(writer)
    }
}

/// Events with a priority before them, if they go to the journal.
struct Prioritised<F> {
    format: F,
    is_journal: bool,
}

impl<S, N, F> FormatEvent<S, N> for Prioritised<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str(priority(self.is_journal, *event.metadata().level()))?;
        self.format.format_event(context, writer, event)
    }
}

/// The priority of a line in the journal (`sd-daemon(3)`), or nothing.
const fn priority(is_journal: bool, level: Level) -> &'static str {
    match level {
        _ if !is_journal => "",
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Whether standard error is the journal: systemd names the stream's file.
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").ok();
    let named = stream.as_deref().and_then(|stream| stream.split_once(':'));
    let Ok(found) = fstat(io::stderr()) else {
        return false;
    };
    named == Some((&found.st_dev.to_string(), &found.st_ino.to_string()))
}

static LOG: OnceLock<Log> = OnceLock::new();

/// The format of this process's log, for a process that it starts.
pub(crate) fn format() -> LogFormat {
    LOG.get().map(|log| log.format).unwrap_or_default()
}

/// Starts the log. `HOLDFAST_LOG` filters it (`debug`, `holdfast::mobile=trace`). The default is `info`
/// without the netlink library's warnings about attributes newer than itself. [`finish`] waits
/// for its last lines.
///
/// Errors: its thread cannot be started. A second call leaves the log as it is.
pub(crate) fn start(format: LogFormat) -> io::Result<()> {
    let is_journal = is_journal();
    let lost = move |lines| lost_line(format, is_journal, lines);
    let writer = LossyWriter::start(io::stderr(), lost)?;
    let (filter, problem) = filter(None);
    let shared = writer.clone();
    let (filter, handle) = reload::Layer::new(filter);
    let set_filter = Box::new(move |filter| {
        // An error means that there is no log.
        let _ = handle.reload(filter);
    });
    let events = tracing_subscriber::fmt::layer()
        .with_writer(move || shared.clone())
        // Internal errors would go to standard error, and would end the process if that has no reader any more.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_timer(LineTime {
            is_left_out: is_journal && format == LogFormat::Text,
        });
    let events = match format {
        LogFormat::Text => events
            .map_event_format(|format| Prioritised { format, is_journal })
            .boxed(),
        LogFormat::Json => events
            .json()
            .flatten_event(true)
            .map_event_format(|format| Prioritised { format, is_journal })
            .boxed(),
    };
    let log = tracing_subscriber::registry().with(filter).with(events);
    let started = log.try_init();
    let log = Log {
        format,
        is_journal,
        writer,
        set_filter,
    };
    if started.is_ok() && LOG.set(log).is_ok() {
        handle_panics(|panic| {
            let trace = Backtrace::capture();
            let trace = match trace.status() {
                BacktraceStatus::Captured => format!("\n{trace}"),
                _ => String::new(),
            };
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("without a name");
            let why = format!("holdfast: thread {name} {panic}{trace}\n");
            if name == lossy::THREAD {
                // The thread that writes the log has panicked: no other thread writes this line.
                let _ = io::stderr().write_all(why.as_bytes());
            } else {
                print(&why);
                finish();
            }
        });
    }
    if let Some(problem) = problem {
        tracing::warn!(
            "{FILTER_VARIABLE}: {problem}; takes for example debug or holdfast::mobile=trace; ignored"
        );
    }
    Ok(())
}

/// The filter of the environment, or `own`, or the default; and why the environment's filter is invalid.
fn filter(own: Option<&str>) -> (EnvFilter, Option<String>) {
    let named = match std::env::var(FILTER_VARIABLE) {
        Ok(text) => EnvFilter::try_new(&text).map_err(|error| format!("got {text:?}: {error}")),
        Err(VarError::NotPresent) => {
            let own = own.map_or_else(|| DEFAULT_FILTER.to_owned(), |own| format!("{QUIET},{own}"));
            Ok(EnvFilter::new(own))
        }
        Err(error) => Err(error.to_string()),
    };
    match named {
        Ok(filter) => (filter, None),
        Err(problem) => (EnvFilter::new(DEFAULT_FILTER), Some(problem)),
    }
}

/// Filters the log by the settings from now on, unless the environment has a filter.
pub(crate) fn set_filter(own: Option<&str>) {
    if let Some(log) = LOG.get() {
        (log.set_filter)(filter(own).0);
    }
}

/// Prints in one line why the process ends, where its log goes. A very long name or value is
/// shortened.
pub(crate) fn print_error(why: &str) {
    let is_journal = LOG.get().is_some_and(|log| log.is_journal);
    let priority = priority(is_journal, Level::ERROR);
    let parts: Vec<_> = why.split(' ').map(shortened).collect();
    let why = parts.join(" ");
    print(&format!("{priority}holdfast: {}\n", escaped_line(&why)));
}

fn shortened(word: &str) -> Cow<'_, str> {
    if word.chars().count() <= WORD_CHARS_MAX {
        return Cow::Borrowed(word);
    }
    let begin: String = word.chars().take(WORD_CHARS_MAX / 2).collect();
    let end: Vec<char> = word.chars().rev().take(WORD_CHARS_MAX / 4).collect();
    let end: String = end.into_iter().rev().collect();
    format!("{begin}...{end}").into()
}

fn print(line: &str) {
    match LOG.get() {
        Some(log) => log.writer.write_reason(line),
        // A failed write must not change how the process ends.
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

/// Waits until all of the log is written; not for ever, as it may have no reader.
pub(crate) fn finish() {
    if let Some(log) = LOG.get() {
        log.writer.flush_within(LAST_LINES_WITHIN, has_room);
    }
}

/// Whether standard error takes a byte. A pipe or a terminal whose reader has stopped takes none.
fn has_room() -> bool {
    let stderr = io::stderr();
    let mut looked_at = [PollFd::new(&stderr, PollFlags::OUT)];
    let found = poll(&mut looked_at, Some(&Timespec::default()));
    found.is_ok_and(|count| count > 0)
}

/// The line of the log that counts lost lines.
fn lost_line(format: LogFormat, is_journal: bool, lines: u64) -> String {
    const MESSAGE: &str = "lines of the log are lost: the reader was too slow";
    let mut time = String::new();
    // If the time cannot be formatted, the line has none.
    let is_left_out = is_journal && format == LogFormat::Text;
    let _ = LineTime { is_left_out }.format_time(&mut Writer::new(&mut time));
    let priority = priority(is_journal, Level::WARN);
    match format {
        LogFormat::Text => {
            format!("{priority}{time}  WARN holdfast::log: {MESSAGE} lines={lines}\n")
        }
        LogFormat::Json => {
            let line = serde_json::json!({
                "timestamp": time,
                "level": "WARN",
                "message": MESSAGE,
                "lines": lines,
                "target": "holdfast::log",
            });
            format!("{priority}{line}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_a_line_of_either_form() {
        let text = lost_line(LogFormat::Text, false, 37);
        assert!(
            text.ends_with(" lines=37\n") && text.contains("WARN"),
            "{text}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&lost_line(LogFormat::Json, false, 37)).unwrap();
        assert_eq!(json["lines"], 37);
        assert!(
            json["timestamp"].as_str().unwrap().starts_with("20"),
            "{json}"
        );
        let text = lost_line(LogFormat::Text, true, 37);
        assert!(text.starts_with("<4>  WARN"), "{text}");
    }
}
