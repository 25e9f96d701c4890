// SPDX-License-Identifier: Apache-2.0
//! The daemons' log: structured events on standard error, for which no daemon waits.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::env::VarError;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use crate::contain::handle_panics;
use crate::settings::LogFormat;
use crate::terminal::escaped_line;

mod lossy;

use lossy::LossyWriter;

/// The variable of the environment with the log's filter.
const FILTER_VARIABLE: &str = "HOLDFAST_LOG";
const DEFAULT_FILTER: &str = "info,netlink_packet_route=error";

/// How long the end of the process waits for its last lines to be read.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// The longest word of an error that is shown whole. A path is one.
const WORD_CHARS_MAX: usize = 240;

struct Log {
    format: LogFormat,
    writer: LossyWriter,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// How this process writes its log, for one that it starts.
pub(crate) fn format() -> LogFormat {
    LOG.get().map(|log| log.format).unwrap_or_default()
}

/// Starts the log. `HOLDFAST_LOG` filters it (`debug`, `holdfast::mobile=trace`); `info`
/// without it, without the netlink library's warnings about attributes newer than itself. Its last lines
/// are waited for in [`finish`].
///
/// Errors: there is no thread for it. A log that is started already stays as it is.
pub(crate) fn start(format: LogFormat) -> io::Result<()> {
    let writer = LossyWriter::start(io::stderr(), move |lines| lost_line(format, lines))?;
    let (filter, problem) = filter();
    let shared = writer.clone();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || shared.clone())
        // They would be printed to standard error, and end the process if it has no reader any more.
        .log_internal_errors(false);
    let started = match format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    if started.is_ok() && LOG.set(Log { format, writer }).is_ok() {
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
                // No other program writes it.
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

/// The filter of the environment, or the default and why the environment's is none.
fn filter() -> (EnvFilter, Option<String>) {
    let named = match std::env::var(FILTER_VARIABLE) {
        Ok(text) => EnvFilter::try_new(&text).map_err(|error| format!("got {text:?}: {error}")),
        Err(VarError::NotPresent) => Ok(EnvFilter::new(DEFAULT_FILTER)),
        Err(error) => Err(error.to_string()),
    };
    match named {
        Ok(filter) => (filter, None),
        Err(problem) => (EnvFilter::new(DEFAULT_FILTER), Some(problem)),
    }
}

/// Prints why the process ends, in one line, where its log goes. A very long name or value is
/// shortened.
pub(crate) fn print_error(why: &str) {
    let parts: Vec<_> = why.split(' ').map(shortened).collect();
    print(&format!("holdfast: {}\n", escaped_line(&parts.join(" "))));
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
        // A line that cannot be written is no reason to end in another way.
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

/// Logs that SIGHUP reads no settings: many other daemons do so.
pub(crate) fn note_hangup() {
    tracing::warn!(
        "SIGHUP: settings are read at the start only; restart the daemon to apply new ones, no \
         connection is lost"
    );
}

/// Waits until all of the log is written; not for ever, as it may have no reader.
pub(crate) fn finish() {
    if let Some(log) = LOG.get() {
        log.writer.flush_within(LAST_LINES_WITHIN);
    }
}

/// The line of the log that counts lost lines.
fn lost_line(format: LogFormat, lines: u64) -> String {
    const MESSAGE: &str = "lines of the log are lost: the reader was too slow";
    let mut time = String::new();
    // Without its time it is a line all the same.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    match format {
        LogFormat::Text => format!("{time}  WARN holdfast::log: {MESSAGE} lines={lines}\n"),
        LogFormat::Json => {
            let line = serde_json::json!({
                "timestamp": time,
                "level": "WARN",
                "message": MESSAGE,
                "lines": lines,
                "target": "holdfast::log",
            });
            format!("{line}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_a_line_of_either_form() {
        let text = lost_line(LogFormat::Text, 37);
        assert!(
            text.ends_with(" lines=37\n") && text.contains("WARN"),
            "{text}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&lost_line(LogFormat::Json, 37)).unwrap();
        assert_eq!(json["lines"], 37);
        assert!(
            json["timestamp"].as_str().unwrap().starts_with("20"),
            "{json}"
        );
    }
}
