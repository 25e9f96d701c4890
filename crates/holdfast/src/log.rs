// SPDX-License-Identifier: Apache-2.0
//! The daemons' log: structured events on standard error.

use tracing_subscriber::EnvFilter;

use crate::settings::LogFormat;

const DEFAULT_FILTER: &str = "info,netlink_packet_route=error";

/// Starts the log. `HOLDFAST_LOG` filters it (`debug`, `holdfast::mobile=trace`); `info`
/// without it, less what the netlink library says of attributes newer than itself.
pub(crate) fn start(format: LogFormat) {
    let filter =
        EnvFilter::try_from_env("HOLDFAST_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A log that is started already stays as it is.
    let _ = match format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}
