// SPDX-License-Identifier: Apache-2.0
//! The log of `holdfast link`: one JSON object a line. Times are those of
//! CLOCK_MONOTONIC in nanoseconds.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use holdfast_files as files;
use holdfast_link::Counters;
use serde::Serialize;

/// The events of the log.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum LinkLogEvent<'a> {
    /// The devices exist.
    Ready {
        /// When.
        t_ns: u64,
        /// Name of the device on the FH's side.
        fh_if: &'a str,
        /// Its index.
        fh_ifindex: u32,
        /// Name of the device on the MH's side.
        mh_if: &'a str,
        /// Its index.
        mh_ifindex: u32,
        /// The seed.
        seed: u64,
    },
    /// Time zero of outages and traces.
    Start {
        /// When.
        t_ns: u64,
    },
    /// An outage begins.
    OutageBegin {
        /// When, by the model.
        t_ns: u64,
        /// `both`, `downlink` or `uplink`.
        direction: &'static str,
    },
    /// An outage is over.
    OutageEnd {
        /// When, by the model.
        t_ns: u64,
        /// `both`, `downlink` or `uplink`.
        direction: &'static str,
    },
    /// The first packet that a direction delivers after an outage.
    FirstPacket {
        /// When it came out of the link, by the model.
        t_ns: u64,
        /// `downlink` or `uplink`.
        direction: &'static str,
        /// Since the outage's end.
        after_ns: u64,
    },
    /// A packet came out of the link at the MH.
    Delivered {
        /// When, by the model.
        t_ns: u64,
        /// Its length, with the IP header.
        len_bytes: u64,
    },
    /// What is in the link, with `--sample-interval`.
    Sample {
        /// When.
        t_ns: u64,
        /// Packets that wait in each direction besides the one being sent: downlink, uplink.
        queue_packets: [u64; 2],
        /// Whether each direction carries.
        up: [bool; 2],
    },
    /// The link does not exist any more.
    End {
        /// When.
        t_ns: u64,
        /// From the FH to the MH.
        downlink: &'a Counters,
        /// From the MH to the FH.
        uplink: &'a Counters,
        /// Packets that a device refused to take, and those that were no IP.
        device_drops: u64,
    },
}

/// The log, if the arguments name one.
pub(super) struct EventLog {
    output: Option<BufWriter<Box<dyn Write>>>,
}

impl EventLog {
    /// Opens the log; `-` is the standard output.
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let output: Option<Box<dyn Write>> = match path {
            None => None,
            Some(path) if path.as_os_str() == "-" => Some(Box::new(io::stdout())),
            Some(path) => Some(Box::new(
                files::create(path, files::JSON_LINES)
                    .with_context(|| format!("--log: {} cannot be written", path.display()))?,
            )),
        };
        Ok(Self {
            output: output.map(BufWriter::new),
        })
    }

    /// Writes an event. Single packets and samples may wait in the buffer.
    pub(super) fn write(&mut self, event: &LinkLogEvent<'_>) -> anyhow::Result<()> {
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        serde_json::to_writer(&mut *output, event).context("--log: cannot write")?;
        output.write_all(b"\n").context("--log: cannot write")?;
        let many = matches!(
            event,
            LinkLogEvent::Delivered { .. } | LinkLogEvent::Sample { .. }
        );
        if !many {
            output.flush().context("--log: cannot write")?;
        }
        Ok(())
    }
}
