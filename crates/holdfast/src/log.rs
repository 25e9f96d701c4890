// SPDX-License-Identifier: Apache-2.0
//! The daemons' log: structured events on standard error, for which no daemon waits.

use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;

use crate::settings::LogFormat;

mod lossy;

use lossy::{LastLines, LossyWriter};

const DEFAULT_FILTER: &str = "info,netlink_packet_route=error";

static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// How this process writes its log, for one that it starts.
pub(crate) fn format() -> LogFormat {
    FORMAT.get().copied().unwrap_or_default()
}

/// Starts the log. `HOLDFAST_LOG` filters it (`debug`, `holdfast::mobile=trace`); `info`
/// without it, less what the netlink library says of attributes newer than itself. What is returned
/// is kept until the process ends.
pub(crate) fn start(format: LogFormat) -> LastLines {
    let filter =
        EnvFilter::try_from_env("HOLDFAST_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let writer = LossyWriter::start(std::io::stderr(), |lines| {
        tracing::warn!(lines, "lines of the log are lost: nobody read them in time");
    });
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer({
            let writer = writer.clone();
            move || writer.clone()
        })
        // They would be printed there too, and end the process if nobody reads it any more.
        .log_internal_errors(false);
    let started = match format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    // A log that is started already stays as it is.
    LastLines(started.is_ok().then(|| {
        let _ = FORMAT.set(format);
        writer
    }))
}
