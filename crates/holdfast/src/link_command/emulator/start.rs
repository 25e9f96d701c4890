// SPDX-License-Identifier: Apache-2.0
//! When the outages and the rate traces begin to run.

use std::io::Read as _;

use anyhow::{Context as _, anyhow};
use holdfast_net::datapath::now;
use holdfast_wire::Instant;

use super::super::event_log::LinkLogEvent;
use super::Emulator;

/// The longest line on the standard input.
const LINE_BYTES_MAX: usize = 64;

/// What starts the outages and the rate traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    At(Instant),
    FirstPacket,
    Line,
}

impl Emulator {
    pub(super) fn start_if_due(&mut self, now: Instant) -> anyhow::Result<()> {
        match self.start {
            Some(Start::At(at)) if at <= now => self.start_at(at),
            _ => Ok(()),
        }
    }

    pub(super) fn start_at(&mut self, at: Instant) -> anyhow::Result<()> {
        self.start = None;
        self.input = None;
        self.origin = at;
        self.downlink.model.start(at);
        self.uplink.model.start(at);
        self.log.write(&LinkLogEvent::Start {
            t_ns: at.as_nanos(),
        })
    }

    /// Reads the standard input; a whole line starts the link.
    pub(super) fn read_line(&mut self) -> anyhow::Result<()> {
        let Some(input) = &mut self.input else {
            return Ok(());
        };
        let mut bytes = [0; LINE_BYTES_MAX];
        let len = input
            .read(&mut bytes)
            .context("--start line: cannot read")?;
        if len == 0 {
            // The input is closed, and no line will start the outages: the link goes on without any.
            self.input = None;
            return Ok(());
        }
        self.line.extend_from_slice(&bytes[..len]);
        let Some(end) = self.line.iter().position(|&byte| byte == b'\n') else {
            anyhow::ensure!(
                self.line.len() <= LINE_BYTES_MAX,
                "standard input: the line is too long"
            );
            return Ok(());
        };
        let line = String::from_utf8_lossy(&self.line[..end]).trim().to_owned();
        let at = match line.split_once(' ') {
            None if line == "start" => Some(now()),
            Some(("start", ns)) => ns.trim().parse().ok().map(Instant::from_nanos),
            _ => None,
        };
        let at = at.ok_or_else(|| {
            anyhow!("standard input: got `{line}`, takes `start` or `start NANOSECONDS`")
        })?;
        self.start = Some(Start::At(at));
        Ok(())
    }
}
